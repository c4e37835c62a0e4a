//! pg_index: what is known of indexes.
//!
//! Invariants: every index is a complete, valid tree over plain columns; there are no expression
//! and no partial indexes.

use super::class;
use super::value::{NULL, bool, oid, oid_vector, small, small_vector};
use super::{Rows, SystemRelation, Wanted, table_columns, types};
use crate::relations::CatalogView;
use crate::types::{Datum, TypeOid, type_by_oid};
use atoll_kernel::api::{Direction, IndexEntry, IndexKind, Nulls, TableEntry};

const INDEXRELID: usize = 0;
const INDRELID: usize = 1;

/// pg_index.
pub(super) static RELATIONS: &[SystemRelation] =
    &[SystemRelation::table(2610, "pg_index", table_columns::PG_INDEX)
        .rows(index_rows)
        .lookups(&[INDEXRELID, INDRELID])
        .estimate(|view| 1 + view.catalog.tables().count() as u64)];

fn index_rows<'a>(view: &'a CatalogView, wanted: Wanted<'_>) -> Rows<'a> {
    if let Some(index) = wanted.object(INDEXRELID) {
        let found = class::index_by_oid(view, index);
        return Box::new(found.into_iter().map(|(table, index)| index_row(table, index)));
    }
    if let Some(table) = wanted.object(INDRELID) {
        let table = view.catalog.table_by_oid(table).into_iter();
        return Box::new(
            table.flat_map(|table| table.indexes.iter().map(|index| index_row(table, index))),
        );
    }
    Box::new(class::indexes(view).map(|(table, index)| index_row(table, index)))
}

/// pg_index.indoption of one column: 1 descending, 2 NULLs first.
fn option(direction: Direction, nulls: Nulls) -> i16 {
    i16::from(direction == Direction::Descending) + 2 * i16::from(nulls == Nulls::First)
}

fn index_row(table: &TableEntry, index: &IndexEntry) -> Vec<Datum> {
    let def = &index.def;
    let type_of = |at: usize| TypeOid(table.def.columns[at].type_oid);
    let keys = || def.columns.iter().map(|key| key.column.index());
    let count = small(def.columns.len() as i16);
    vec![
        oid(def.oid.0),
        oid(def.table.0),
        count.clone(),
        count,
        bool(def.kind.is_unique()),
        bool(false), // indnullsnotdistinct
        bool(def.kind == IndexKind::Primary),
        bool(false), // indisexclusion
        bool(true),  // indimmediate
        bool(false), // indisclustered
        bool(true),  // indisvalid
        bool(false), // indcheckxmin
        bool(true),  // indisready
        bool(true),  // indislive
        bool(false), // indisreplident
        small_vector(keys().map(|at| at as i16 + 1)),
        oid_vector(keys().map(|at| type_by_oid(type_of(at)).map_or(0, |info| info.collation))),
        oid_vector(keys().map(|at| types::operator_class(type_of(at)))),
        small_vector(def.columns.iter().map(|key| option(key.direction, key.nulls))),
        NULL, // indexprs
        NULL, // indpred
    ]
}
