//! Verifying a database: structure of every tree, indexes against tables.
//!
//! Invariants: reads only; the caller keeps everybody else away, so every row in place is the
//! newest version. Each finding names the table, and the page or row where there is one.

use std::collections::{HashMap, HashSet};
use std::ops::Bound;
use std::path::Path;
use std::sync::Arc;

use super::database::Database;
use super::open::inspect;
use super::options::Options;
use crate::base::{Outcome, Result, RowId};
use crate::buffer::until_done;
use crate::catalog::{Catalog, IndexEntry, TableEntry};
use crate::io::{Disk, RealDisk};
use crate::page::pax::{RowState, SlotIndex};
use crate::tree::index::{IndexBatch, ScanDirection};
use crate::tree::key::encode_key;
use crate::tree::table::{LeafView, TableTree};
use crate::version::append_key_column;

/// What a check found.
#[derive(Clone, Debug, Default)]
pub struct Findings {
    /// Tables looked at.
    pub tables: u64,
    /// Rows looked at.
    pub rows: u64,
    /// Index entries looked at.
    pub entries: u64,
    /// Pages of long values that rows refer to.
    pub overflow_pages: u64,
    /// Pages of long values that no row refers to: of versions in undo, of rows that collection
    /// has yet to take. With nothing running and everything collected there are none.
    pub overflow_pages_in_undo: u64,
    /// What is wrong, one line each.
    pub problems: Vec<String>,
}

impl Database {
    /// Checks every table and index. Nobody may change anything meanwhile.
    pub fn check(&self) -> Result<Findings> {
        check_catalog(&self.shared().published.newest())
    }

    /// Recovers what `directory` holds, in memory, and checks every table and index; on disk
    /// nothing changes that the database refers to (what a small buffer pool has no room for is written to free
    /// places). Errors as [`Database::open`]; `Unusable` if there is no database.
    pub fn inspect(
        directory: &Path,
        options: Options,
        progress: &mut dyn FnMut(&str),
    ) -> Result<Findings> {
        let disk: Arc<dyn Disk> = Arc::new(RealDisk::open(directory, options.rings)?);
        let mut findings = check_catalog(&inspect(&disk, &options, progress)?)?;
        // What was just recovered has no undo.
        let lost = findings.overflow_pages_in_undo;
        if lost > 0 {
            findings.problems.push(format!("{lost} overflow pages belong to no row"));
        }
        Ok(findings)
    }
}

fn check_catalog(catalog: &Catalog) -> Result<Findings> {
    let mut findings = Findings::default();
    let mut pages = HashSet::new();
    let mut pool = None;
    for table in catalog.tables() {
        check_table(table, &mut findings)?;
        let found =
            until_done(table.access.tree.pool(), || table.access.tree.check_longs(&mut pages))?;
        let name = &table.def.name;
        findings.problems.extend(found.into_iter().map(|text| format!("table \"{name}\": {text}")));
        pool = Some(table.access.tree.pool().clone());
    }
    findings.overflow_pages = pages.len() as u64;
    if let Some(pool) = pool {
        let others = pool.overflow_pages().into_iter().filter(|page| !pages.contains(page));
        findings.overflow_pages_in_undo = others.count() as u64;
    }
    Ok(findings)
}

fn check_table(table: &Arc<TableEntry>, findings: &mut Findings) -> Result<()> {
    let name = &table.def.name;
    findings.tables += 1;
    let found = until_done(table.access.tree.pool(), || table.access.tree.check())?;
    findings.problems.extend(found.into_iter().map(|text| format!("table \"{name}\": {text}")));
    for index in &table.indexes {
        let found = index.tree.check()?;
        let index = &index.def.name;
        let lines =
            found.into_iter().map(|text| format!("index \"{index}\" of \"{name}\": {text}"));
        findings.problems.extend(lines);
    }
    let mut rows = 0;
    for index in &table.indexes {
        rows = check_index(table, index, findings)?;
    }
    if table.indexes.is_empty() {
        rows = keys_of(table, None)?.len() as u64;
    }
    findings.rows += rows;
    Ok(())
}

/// Every live row has its entry; every entry leads to a row with its key, or to none that lives
/// (what collection has not taken yet). Answers the number of live rows.
fn check_index(
    table: &Arc<TableEntry>,
    index: &Arc<IndexEntry>,
    findings: &mut Findings,
) -> Result<u64> {
    let mut keys = keys_of(table, Some(index))?;
    let rows = keys.len() as u64;
    let label = format!("index \"{}\" of \"{}\"", index.def.name, table.def.name);
    let mut batch = IndexBatch::new();
    let mut from: Option<Vec<u8>> = Some(Vec::new());
    while let Some(start) = from {
        let lower = Bound::Included(start.as_slice());
        let goes_on = until_done(index.tree.pool(), || {
            index.tree.scan(lower, Bound::Unbounded, ScanDirection::Forward, &mut batch)
        })?;
        for at in 0..batch.len() {
            findings.entries += 1;
            let row = batch.row(at);
            if keys.get(&row).is_some_and(|key| key == batch.key(at)) {
                keys.remove(&row);
            }
        }
        from = goes_on.map(|place| place.key);
    }
    for row in keys.keys() {
        findings.problems.push(format!("{label}: row {row} has no entry"));
    }
    Ok(rows)
}

/// The keys of all live rows (empty keys without an index).
fn keys_of(
    table: &Arc<TableEntry>,
    index: Option<&Arc<IndexEntry>>,
) -> Result<HashMap<RowId, Vec<u8>>> {
    let mut keys = HashMap::new();
    let mut from = Some(RowId(0));
    while let Some(start) = from {
        let (found, next): (Vec<(RowId, Vec<u8>)>, _) =
            until_done(table.access.tree.pool(), || {
                table.access.tree.scan_leaf(start, &mut |leaf: &LeafView<'_>| {
                    let slots = leaf.lower_bound(start).index()..leaf.count();
                    let live = slots
                        .map(|slot| SlotIndex(slot as u16))
                        .filter(|slot| leaf.state(*slot) == RowState::Live);
                    let tree = &table.access.tree;
                    live.map(|slot| Ok((leaf.row_id(slot), key_of(tree, leaf, slot, index)?)))
                        .collect()
                })
            })?;
        keys.extend(found);
        from = next;
    }
    Ok(keys)
}

fn key_of(
    tree: &TableTree,
    leaf: &LeafView<'_>,
    slot: SlotIndex,
    index: Option<&Arc<IndexEntry>>,
) -> Outcome<Vec<u8>> {
    let Some(index) = index else { return Ok(Vec::new()) };
    let values: Vec<Option<Vec<u8>>> = index
        .def
        .columns
        .iter()
        .map(|column| {
            let mut bytes = Vec::new();
            let value = append_key_column(tree, leaf, slot, column.column.index(), &mut bytes)?;
            Ok(value.map(|()| bytes))
        })
        .collect::<Outcome<_>>()?;
    let values: Vec<Option<&[u8]>> = values.iter().map(Option::as_deref).collect();
    let mut key = Vec::new();
    encode_key(&index.key, &values, &mut key);
    Ok(key)
}
