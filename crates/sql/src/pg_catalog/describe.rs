//! Definitions as SQL text: pg_get_indexdef and pg_get_constraintdef.
//!
//! Invariants: the text is PostgreSQL's, letter by letter, and reads back as the same object.

use super::class;
use super::constraint::constraint_kind;
use crate::functions::{Qualified, quote_identifier};
use crate::relations::CatalogView;
use atoll_kernel::api::{Direction, IndexColumn, IndexEntry, Nulls, Oid, TableEntry};

/// `pg_get_indexdef`: the whole definition (column 0), or the name of one column of the key,
/// counted from 1; empty if the index has no such column. None if there is no such index.
pub fn index_definition(
    view: &CatalogView,
    index: u32,
    column: i32,
    qualified: Qualified,
) -> Option<String> {
    let (table, index) = class::index_by_oid(view, Oid(index))?;
    if column != 0 {
        let key = usize::try_from(column).ok().and_then(|at| index.def.columns.get(at - 1));
        return Some(key.map_or_else(String::new, |key| column_name(table, key)));
    }
    let unique = if index.def.kind.is_unique() { "UNIQUE " } else { "" };
    let name = quote_identifier(&index.def.name);
    let on = table_name(view, table, qualified);
    let keys: Vec<String> = index.def.columns.iter().map(|key| key_text(table, key)).collect();
    Some(format!("CREATE {unique}INDEX {name} ON {on} USING btree ({})", keys.join(", ")))
}

fn table_name(view: &CatalogView, table: &TableEntry, qualified: Qualified) -> String {
    let def = &table.def;
    let schema = view.namespace_name(def.namespace);
    let name = quote_identifier(&def.name);
    if qualified == Qualified::IfNeeded && view.is_visible(schema, &def.name, def.oid.0) {
        return name;
    }
    format!("{}.{name}", quote_identifier(schema))
}

fn column_name(table: &TableEntry, key: &IndexColumn) -> String {
    quote_identifier(&table.def.columns[key.column.index()].name)
}

fn key_text(table: &TableEntry, key: &IndexColumn) -> String {
    let order = match (key.direction, key.nulls) {
        (Direction::Ascending, Nulls::Last) => "",
        (Direction::Ascending, Nulls::First) => " NULLS FIRST",
        (Direction::Descending, Nulls::First) => " DESC",
        (Direction::Descending, Nulls::Last) => " DESC NULLS LAST",
    };
    column_name(table, key) + order
}

/// `pg_get_constraintdef`. None if there is no such constraint.
pub fn constraint_definition(view: &CatalogView, constraint: u32) -> Option<String> {
    let (table, index) = class::index_by_oid(view, Oid(constraint))?;
    let words = if constraint_kind(index.def.kind)? == b'p' { "PRIMARY KEY" } else { "UNIQUE" };
    Some(format!("{words} ({})", key_names(table, index)))
}

fn key_names(table: &TableEntry, index: &IndexEntry) -> String {
    let names: Vec<String> = index.def.columns.iter().map(|key| column_name(table, key)).collect();
    names.join(", ")
}
