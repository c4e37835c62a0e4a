//! After replay: every index that replay did not keep, built from its table's rows, and the catalog
//! that statements use.
//!
//! Invariants: a table's tree is the one its definition names; indexes of one table keep the order
//! of their identifiers (the order of creation). A duplicate key in a unique index, or an index
//! without its table, is damage: it is named, never passed over.

use std::sync::Arc;

use super::definitions::{Definitions, no_tree};
use crate::base::{Cts, Error, Result};
use crate::catalog::{
    CATALOG_TREE, Catalog, IndexDef, IndexEntry, IndexPlan, Object, SequenceEntry, TableDef,
    TableEntry, build_index, build_index_by,
};
use crate::sync::in_turns;
use crate::tree::index::{Exact, IndexTree};
use crate::tree::table::TableTree;
use crate::txn::Sequence;
use crate::version::{TableAccess, Unique, VersionSpace};

/// From so many leaves of a table on, all threads build one index of it together.
const LEAVES_TOGETHER: u64 = 1_000;

/// Builds all indexes that were not kept with `workers` threads and puts the catalog together.
pub fn build_catalog(
    definitions: &Definitions,
    versions: &Arc<VersionSpace>,
    workers: usize,
) -> Result<Catalog> {
    let mut catalog = Catalog::empty();
    let (mut tables, mut indexes) = (Vec::new(), Vec::new());
    for (_, object) in definitions.objects() {
        match object {
            Object::Namespace(namespace) => catalog.add_namespace(namespace.clone())?,
            Object::Table(table) => tables.push(table),
            Object::Index(index) => indexes.push(index),
            Object::Sequence(sequence) => {
                let state = definitions.sequence_state(sequence.values).unwrap_or(sequence.first);
                let values = Arc::new(Sequence::new(sequence.values, state));
                let def = sequence.clone();
                catalog.add_sequence(SequenceEntry { def, values })?;
            }
        }
    }
    tables.sort_by_key(|table| table.oid);
    indexes.sort_by_key(|index| index.oid);
    let trees = build_all(definitions, &tables, &indexes, workers)?;
    for table in tables {
        let rows = definitions.tree(table.tree).ok_or_else(|| no_tree(table))?.clone();
        catalog.add_table(TableEntry::new(table.clone(), rows, Vec::new(), versions))?;
    }
    for (index, tree) in indexes.into_iter().zip(trees) {
        let table = catalog.table_by_oid(index.table).ok_or_else(|| no_table(index))?;
        let key = index.key_parts(&table.def);
        catalog.add_index(IndexEntry::new(index.clone(), key, tree, Cts::ZERO))?;
    }
    for (row, object) in definitions.objects() {
        catalog.set_row(object.oid(), row);
    }
    catalog.note_tree(definitions.sequence_max());
    let own = definitions.tree(CATALOG_TREE).expect("the catalog tree always exists").clone();
    catalog.set_own_access(Arc::new(TableAccess::new(own, Vec::new(), versions.clone())));
    Ok(catalog)
}

/// Builds what was not kept: large ones one after the other, each by all workers, then the others side by side.
fn build_all(
    definitions: &Definitions,
    tables: &[&TableDef],
    indexes: &[&IndexDef],
    workers: usize,
) -> Result<Vec<Arc<IndexTree>>> {
    let mut trees: Vec<Option<Arc<IndexTree>>> =
        indexes.iter().map(|index| definitions.kept_index(index.tree).cloned()).collect();
    let mut small = Vec::new();
    for (at, index) in indexes.iter().enumerate() {
        if trees[at].is_some() {
            continue;
        }
        let (_, rows) = table_of(definitions, tables, index)?;
        if workers > 1 && rows.leaves() > LEAVES_TOGETHER {
            trees[at] = Some(Arc::new(build(definitions, tables, index, workers)?));
        } else {
            small.push((at, *index));
        }
    }
    let built = in_turns(&small, workers, |small| {
        small
            .map(|(at, index)| Ok((*at, Arc::new(build(definitions, tables, index, 1)?))))
            .collect::<Result<Vec<_>>>()
    })?;
    built.into_iter().flatten().for_each(|(at, tree)| trees[at] = Some(tree));
    Ok(trees.into_iter().map(|tree| tree.expect("every index was kept or built")).collect())
}

/// An index's table, and its rows.
fn table_of<'a>(
    definitions: &'a Definitions,
    tables: &[&'a TableDef],
    index: &IndexDef,
) -> Result<(&'a TableDef, &'a TableTree)> {
    let table = tables.iter().find(|table| table.oid == index.table);
    let table = table.ok_or_else(|| no_table(index))?;
    Ok((table, definitions.tree(table.tree).ok_or_else(|| no_tree(table))?))
}

fn build(
    definitions: &Definitions,
    tables: &[&TableDef],
    index: &IndexDef,
    threads: usize,
) -> Result<IndexTree> {
    let (table, rows) = table_of(definitions, tables, index)?;
    let columns: Vec<u16> = index.columns.iter().map(|column| column.column.0).collect();
    let plan = IndexPlan {
        table: rows,
        columns: &columns,
        parts: &index.key_parts(table),
        unique: if index.kind.is_unique() { Unique::Yes } else { Unique::No },
        tree: index.tree,
        home: definitions.home_of(index.tree),
        // What was replayed is committed, and nobody has an older snapshot.
        exact: Exact::Yes,
    };
    let built = match threads {
        1 => build_index(&definitions.pool, &plan, &mut || Ok(())),
        threads => build_index_by(&definitions.pool, &plan, threads),
    };
    built.map_err(|error| match error {
        Error::UniqueViolation { .. } => {
            let (index, table) = (&index.name, &table.name);
            let detail =
                format!("table \"{table}\" has a key of its unique index \"{index}\" twice");
            Error::Corrupt { page: None, detail }
        }
        other => other,
    })
}

fn no_table(index: &IndexDef) -> Error {
    let detail = format!("index \"{}\" has no table with oid {}", index.name, index.table);
    Error::Corrupt { page: None, detail }
}
