//! After replay: every index that replay did not keep, built from its table's rows, and the catalog
//! that statements use.
//!
//! Invariants: a table's tree is the one its definition names; indexes of one table keep the order
//! of their identifiers (the order of creation). A duplicate key in a unique index, or an index
//! without its table, is damage: it is named, never passed over.

use std::sync::Arc;
use std::sync::Mutex;

use super::definitions::{Definitions, no_tree};
use super::replay::in_parallel;
use crate::base::{Cts, Error, Result};
use crate::catalog::{
    CATALOG_TREE, Catalog, IndexDef, IndexEntry, IndexPlan, Object, SequenceEntry, TableDef,
    TableEntry, build_index,
};
use crate::tree::index::{Exact, IndexTree};
use crate::txn::Sequence;
use crate::version::{TableAccess, Unique, VersionSpace};

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

fn build_all(
    definitions: &Definitions,
    tables: &[&TableDef],
    indexes: &[&IndexDef],
    workers: usize,
) -> Result<Vec<Arc<IndexTree>>> {
    let next = Mutex::new(0);
    let built: Vec<Mutex<Option<Arc<IndexTree>>>> =
        indexes.iter().map(|_| Mutex::new(None)).collect();
    in_parallel((0..workers).map(|_| {
        || loop {
            let at = {
                let mut next = next.lock().expect("no holder panics");
                *next += 1;
                *next - 1
            };
            let Some(index) = indexes.get(at) else { return Ok(()) };
            let tree = match definitions.kept_index(index.tree) {
                Some(tree) => tree.clone(),
                None => Arc::new(build(definitions, tables, index)?),
            };
            *built[at].lock().expect("no holder panics") = Some(tree);
        }
    }))?;
    let trees = built.into_iter().map(|tree| tree.into_inner().expect("no holder panics"));
    Ok(trees.map(|tree| tree.expect("every index was kept or built")).collect())
}

fn build(definitions: &Definitions, tables: &[&TableDef], index: &IndexDef) -> Result<IndexTree> {
    let table = tables.iter().find(|table| table.oid == index.table);
    let table = table.ok_or_else(|| no_table(index))?;
    let columns: Vec<u16> = index.columns.iter().map(|column| column.column.0).collect();
    let plan = IndexPlan {
        table: definitions.tree(table.tree).ok_or_else(|| no_tree(table))?,
        columns: &columns,
        parts: &index.key_parts(table),
        unique: if index.kind.is_unique() { Unique::Yes } else { Unique::No },
        tree: index.tree,
        home: definitions.home_of(index.tree),
        // What was replayed is committed, and nobody has an older snapshot.
        exact: Exact::Yes,
    };
    build_index(&definitions.pool, &plan, &mut || Ok(())).map_err(|error| match error {
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
