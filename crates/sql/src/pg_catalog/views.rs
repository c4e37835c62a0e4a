//! PostgreSQL's views over its catalogs: pg_tables, pg_indexes, pg_views, pg_stat_user_tables.
//!
//! Invariants: they say what the catalogs say; counters that nobody keeps are NULL.

use super::class::{self, Item};
use super::value::{NULL, bool, oid, text, texts};
use super::{OWNER_NAME, Rows, SystemRelation, Wanted, describe, view_columns};
use crate::functions::{ConstantContext, Qualified};
use crate::relations::CatalogView;
use crate::statistics::ColumnStatistics;
use crate::types::{self, Array, Datum, TypeOid};

/// The views of this file.
pub(super) static RELATIONS: &[SystemRelation] = &[
    SystemRelation::view(12_033, "pg_tables", view_columns::PG_TABLES).rows(table_rows),
    SystemRelation::view(12_043, "pg_indexes", view_columns::PG_INDEXES).rows(index_rows),
    SystemRelation::view(12_028, "pg_views", view_columns::PG_VIEWS).rows(view_rows),
    SystemRelation::view(12_054, "pg_stats", view_columns::PG_STATS).rows(column_rows),
    SystemRelation::view(12_142, "pg_stat_all_tables", view_columns::PG_STAT_ALL_TABLES)
        .rows(statistics_rows),
    SystemRelation::view(12_161, "pg_stat_user_tables", view_columns::PG_STAT_USER_TABLES)
        .rows(statistics_rows),
];

fn table_rows<'a>(view: &'a CatalogView, _: Wanted<'_>) -> Rows<'a> {
    Box::new(class::items(view).filter_map(|item| {
        let (schema, name, has_index) = match &item {
            Item::Virtual(info, relation) if relation.kind() == b'r' => {
                (&*info.schema, &*info.name, false)
            }
            Item::Table(table) => {
                let schema = view.namespace_name(table.def.namespace);
                (schema, &*table.def.name, !table.indexes.is_empty())
            }
            Item::Virtual(..) | Item::Index(..) | Item::Sequence(_) => return None,
        };
        Some(vec![
            text(schema),
            text(name),
            text(OWNER_NAME),
            NULL, // tablespace
            bool(has_index),
            bool(false), // hasrules
            bool(false), // hastriggers
            bool(false), // rowsecurity
        ])
    }))
}

fn index_rows<'a>(view: &'a CatalogView, _: Wanted<'_>) -> Rows<'a> {
    Box::new(class::indexes(view).map(|(table, index)| {
        let definition = describe::index_definition(view, index.def.oid.0, 0, Qualified::Always);
        vec![
            text(view.namespace_name(table.def.namespace)),
            text(&table.def.name),
            text(&index.def.name),
            NULL, // tablespace
            definition.map_or(NULL, text),
        ]
    }))
}

fn view_rows<'a>(view: &'a CatalogView, _: Wanted<'_>) -> Rows<'a> {
    Box::new(class::items(view).filter_map(|item| match item {
        Item::Virtual(info, relation) if relation.kind() == b'v' => {
            Some(vec![text(&info.schema), text(&info.name), text(OWNER_NAME), NULL])
        }
        _ => None,
    }))
}

/// What ANALYZE found, a column each.
fn column_rows<'a>(view: &'a CatalogView, _: Wanted<'_>) -> Rows<'a> {
    let analyzed = class::tables(view)
        .filter_map(|table| Some((table, view.statistics.table(table.def.oid.0)?)));
    Box::new(analyzed.flat_map(move |(table, statistics)| {
        table.def.columns.iter().zip(&statistics.columns).map(move |(column, found)| {
            let mut row = vec![
                text(view.namespace_name(table.def.namespace)),
                text(&table.def.name),
                text(&column.name),
                bool(false), // inherited
            ];
            row.extend(described(found, statistics.rows, TypeOid(column.type_oid)));
            row
        })
    }))
}

/// A column's part of its pg_stats row, from null_frac on.
fn described(found: &ColumnStatistics, rows: f64, ty: TypeOid) -> Vec<Datum> {
    let print = |value: &Datum| types::text::output_string(ty, value, &ConstantContext).to_string();
    let real = |value: f64| Datum::Float4(value as f32);
    let list = |values: Vec<String>| if values.is_empty() { NULL } else { texts(&values) };
    // As PostgreSQL says it: a share of the rows where the number grows with them.
    let grows = found.distinct > 0.1 * rows;
    let distinct = if grows { -found.distinct / rows } else { found.distinct };
    let shares: Vec<Datum> = found.common.iter().map(|(_, share)| real(*share)).collect();
    vec![
        real(found.null_fraction),
        Datum::Int4(found.width.round() as i32),
        real(distinct),
        list(found.common.iter().map(|(value, _)| print(value)).collect()),
        if shares.is_empty() { NULL } else { Array::of(TypeOid::FLOAT4, shares).into() },
        list(found.bounds.iter().map(print).collect()),
        NULL, // correlation
        NULL, // most_common_elems
        NULL, // most_common_elem_freqs
        NULL, // elem_count_histogram
    ]
}

/// Live rows are known about, and when tables were looked after; the rest is not counted yet.
fn statistics_rows<'a>(view: &'a CatalogView, _: Wanted<'_>) -> Rows<'a> {
    const LIVE: usize = 11;
    const LAST_VACUUM: usize = 15;
    const LAST_ANALYZE: usize = 17;
    const VACUUM_COUNT: usize = 19;
    const ANALYZE_COUNT: usize = 21;
    Box::new(class::tables(view).map(|table| {
        let mut row = vec![
            oid(table.def.oid.0),
            text(view.namespace_name(table.def.namespace)),
            text(&table.def.name),
        ];
        row.resize(view_columns::PG_STAT_ALL_TABLES.len(), NULL);
        row[LIVE] = Datum::Int8(table.approximate_rows() as i64);
        let kept = view.statistics.kept(table.def.oid.0).cloned().unwrap_or_default();
        row[LAST_VACUUM] = kept.vacuum.last.map_or(NULL, Datum::Timestamptz);
        row[VACUUM_COUNT] = Datum::Int8(kept.vacuum.count);
        row[LAST_ANALYZE] = kept.analyze.last.map_or(NULL, Datum::Timestamptz);
        row[ANALYZE_COUNT] = Datum::Int8(kept.analyze.count);
        row
    }))
}
