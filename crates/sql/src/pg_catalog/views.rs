//! PostgreSQL's views over its catalogs: pg_tables, pg_indexes, pg_views, pg_stat_user_tables.
//!
//! Invariants: they say what the catalogs say; counters that nobody keeps are NULL.

use super::class::{self, Item};
use super::value::{NULL, bool, oid, text};
use super::{OWNER_NAME, Rows, SystemRelation, Wanted, describe, view_columns};
use crate::functions::Qualified;
use crate::relations::CatalogView;
use crate::types::Datum;

/// The views of this file.
pub(super) static RELATIONS: &[SystemRelation] = &[
    SystemRelation::view(12_033, "pg_tables", view_columns::PG_TABLES).rows(table_rows),
    SystemRelation::view(12_043, "pg_indexes", view_columns::PG_INDEXES).rows(index_rows),
    SystemRelation::view(12_028, "pg_views", view_columns::PG_VIEWS).rows(view_rows),
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
            Item::Virtual(..) | Item::Index(..) => return None,
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

/// Live rows are known about; the rest is not counted yet.
fn statistics_rows<'a>(view: &'a CatalogView, _: Wanted<'_>) -> Rows<'a> {
    const LIVE: usize = 11;
    Box::new(class::tables(view).map(|table| {
        let mut row = vec![
            oid(table.def.oid.0),
            text(view.namespace_name(table.def.namespace)),
            text(&table.def.name),
        ];
        row.resize(view_columns::PG_STAT_ALL_TABLES.len(), NULL);
        row[LIVE] = Datum::Int8(table.approximate_rows() as i64);
        row
    }))
}
