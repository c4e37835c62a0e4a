//! pg_constraint and pg_depend.
//!
//! Invariants: primary keys and unique constraints only, each with the oid and name of its index;
//! NOT NULL is in pg_attribute, as in PostgreSQL 15.

use super::class;
use super::value::{NULL, bool, int, letter, oid, small, text};
use super::{Rows, SystemRelation, Wanted, attribute, table_columns};
use crate::relations::{CatalogView, sequence_of_default};
use crate::types::{Array, Datum, TypeOid};
use atoll_kernel::api::{IndexEntry, IndexKind, SequenceEntry, TableEntry};

const OID: usize = 0;
const CONNAME: usize = 1;
const CONRELID: usize = 7;
const CONINDID: usize = 9;

/// pg_constraint and pg_depend.
pub(super) static RELATIONS: &[SystemRelation] = &[
    SystemRelation::table(2606, "pg_constraint", table_columns::PG_CONSTRAINT)
        .rows(constraint_rows)
        .lookups(&[OID, CONRELID, CONINDID])
        .estimate(|view| 1 + view.catalog.tables().count() as u64),
    SystemRelation::table(2608, "pg_depend", table_columns::PG_DEPEND)
        .rows(depend_rows)
        .lookups(&[DEPEND_OBJID, DEPEND_REFOBJID])
        .estimate(|view| 1 + 4 * view.catalog.tables().count() as u64),
];

/// pg_constraint.contype, for the indexes that are constraints.
pub(super) fn constraint_kind(kind: IndexKind) -> Option<u8> {
    match kind {
        IndexKind::Primary => Some(b'p'),
        IndexKind::UniqueConstraint => Some(b'u'),
        IndexKind::Unique | IndexKind::Plain => None,
    }
}

fn constraint_rows<'a>(view: &'a CatalogView, wanted: Wanted<'_>) -> Rows<'a> {
    if let Some(oid) = wanted.object(OID).or_else(|| wanted.object(CONINDID)) {
        let found = class::index_by_oid(view, oid);
        return Box::new(
            found.into_iter().filter_map(|(table, index)| constraint_row(table, index)),
        );
    }
    if let Some(table) = wanted.object(CONRELID) {
        let table = view.catalog.table_by_oid(table).into_iter();
        return Box::new(table.flat_map(|table| {
            table.indexes.iter().filter_map(|index| constraint_row(table, index))
        }));
    }
    debug_assert!(wanted.name(CONNAME).is_none(), "conname is no look-up");
    Box::new(class::indexes(view).filter_map(|(table, index)| constraint_row(table, index)))
}

fn constraint_row(table: &TableEntry, index: &IndexEntry) -> Option<Vec<Datum>> {
    let kind = constraint_kind(index.def.kind)?;
    let keys = index.def.columns.iter().map(|key| small(key.column.0 as i16 + 1)).collect();
    Some(vec![
        oid(index.def.oid.0),
        text(&index.def.name),
        oid(table.def.namespace.0),
        letter(kind),
        bool(false), // condeferrable
        bool(false), // condeferred
        bool(true),  // convalidated
        oid(table.def.oid.0),
        oid(0), // contypid
        oid(index.def.oid.0),
        oid(0),       // conparentid
        oid(0),       // confrelid
        letter(b' '), // confupdtype
        letter(b' '), // confdeltype
        letter(b' '), // confmatchtype
        bool(true),   // conislocal
        int(0),       // coninhcount
        bool(true),   // connoinherit
        Array::of(TypeOid::INT2, keys).into(),
        NULL, // confkey
        NULL, // conpfeqop
        NULL, // conppeqop
        NULL, // conffeqop
        NULL, // confdelsetcols
        NULL, // conexclop
        NULL, // conbin
    ])
}

const DEPEND_OBJID: usize = 1;
const DEPEND_REFOBJID: usize = 4;

/// Oids of the catalogs that objects are in.
const PG_CLASS: u32 = 1259;
const PG_NAMESPACE: u32 = 2615;
const PG_CONSTRAINT: u32 = 2606;
const PG_ATTRDEF: u32 = 2604;

fn depend_rows<'a>(view: &'a CatalogView, wanted: Wanted<'_>) -> Rows<'a> {
    if let Some(object) = wanted.object(DEPEND_OBJID).or_else(|| wanted.object(DEPEND_REFOBJID)) {
        // Dependencies stay within a table and its indexes, except those on a namespace.
        let own = view.catalog.table_by_oid(object);
        let table = own.or_else(|| Some(class::index_by_oid(view, object)?.0));
        if let Some(table) = table {
            let sequences = view.catalog.sequences_of(table.def.oid);
            let owned = sequences.into_iter().flat_map(|it| sequence_dependencies(view, &it));
            return Box::new(dependencies(table).into_iter().chain(owned));
        }
    }
    let sequences = class::sequences(view).flat_map(|it| sequence_dependencies(view, it));
    Box::new(class::tables(view).flat_map(|table| dependencies(table)).chain(sequences))
}

/// What a sequence depends on: the column that owns it, wholly if that is an identity column.
fn sequence_dependencies(view: &CatalogView, sequence: &SequenceEntry) -> Vec<Vec<Datum>> {
    let def = &sequence.def;
    let from = (PG_CLASS, def.oid.0);
    let mut rows = vec![dependency(from, (PG_NAMESPACE, def.namespace.0, 0), b'n')];
    if let Some((table, column)) = def.owner
        && let Some(entry) = view.catalog.table_by_oid(table)
    {
        let is_identity = entry.def.columns[column.index()].identity.is_some();
        let kind = if is_identity { b'i' } else { b'a' };
        rows.push(dependency(from, (PG_CLASS, table.0, i32::from(column.0) + 1), kind));
    }
    rows
}

fn dependency(from: (u32, u32), to: (u32, u32, i32), kind: u8) -> Vec<Datum> {
    vec![oid(from.0), oid(from.1), int(0), oid(to.0), oid(to.1), int(to.2), letter(kind)]
}

/// What a table, its defaults, constraints and indexes depend on.
fn dependencies(table: &TableEntry) -> Vec<Vec<Datum>> {
    let own = table.def.oid.0;
    let mut rows =
        vec![dependency((PG_CLASS, own), (PG_NAMESPACE, table.def.namespace.0, 0), b'n')];
    for (at, column) in table.def.columns.iter().enumerate() {
        if attribute::has_default(column) {
            let default = attribute::default_oid(table.def.oid, at + 1);
            rows.push(dependency((PG_ATTRDEF, default), (PG_CLASS, own, at as i32 + 1), b'a'));
            if let Some(sequence) = column.default.as_deref().and_then(sequence_of_default) {
                rows.push(dependency((PG_ATTRDEF, default), (PG_CLASS, sequence.0, 0), b'n'));
            }
        }
    }
    for index in &table.indexes {
        let oid = index.def.oid.0;
        let is_constraint = constraint_kind(index.def.kind).is_some();
        let class = if is_constraint { PG_CONSTRAINT } else { PG_CLASS };
        for key in &index.def.columns {
            let column = i32::from(key.column.0) + 1;
            rows.push(dependency((class, oid), (PG_CLASS, own, column), b'a'));
        }
        if is_constraint {
            rows.push(dependency((PG_CLASS, oid), (PG_CONSTRAINT, oid, 0), b'i'));
        }
    }
    rows
}
