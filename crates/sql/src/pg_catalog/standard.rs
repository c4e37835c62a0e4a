//! The views of information_schema.
//!
//! Invariants: what they say agrees with pg_catalog; NOT NULL shows as a CHECK constraint, as the
//! standard asks and PostgreSQL does.

use super::class::{self, Item};
use super::constraint::constraint_kind;
use super::value::{NULL, int, text, yes_or_no};
use super::{
    DATABASE_NAME, OWNER_NAME, Rows, SystemRelation, Wanted, namespaces, standard_columns,
};
use crate::relations::{CatalogView, INFORMATION_SCHEMA, shown_default};
use crate::types::{Datum, Type, TypeOid, format_type, type_by_oid, typmod};
use atoll_kernel::api::{ColumnId, Cycle, Identity, SequenceEntry, TableEntry};
use std::sync::Arc;

/// The views.
pub(super) static RELATIONS: &[SystemRelation] = &[
    SystemRelation::view(13_295, "columns", standard_columns::COLUMNS)
        .of(INFORMATION_SCHEMA)
        .rows(column_rows)
        .estimate(|view| 1500 + 10 * view.catalog.tables().count() as u64),
    SystemRelation::view(13_329, "key_column_usage", standard_columns::KEY_COLUMN_USAGE)
        .of(INFORMATION_SCHEMA)
        .rows(key_rows),
    SystemRelation::view(
        13_339,
        "referential_constraints",
        standard_columns::REFERENTIAL_CONSTRAINTS,
    )
    .of(INFORMATION_SCHEMA),
    SystemRelation::view(13_382, "schemata", standard_columns::SCHEMATA)
        .of(INFORMATION_SCHEMA)
        .rows(schema_rows),
    SystemRelation::view(13_386, "sequences", standard_columns::SEQUENCES)
        .of(INFORMATION_SCHEMA)
        .rows(super::sequence::standard_rows),
    SystemRelation::view(13_411, "table_constraints", standard_columns::TABLE_CONSTRAINTS)
        .of(INFORMATION_SCHEMA)
        .rows(constraint_rows),
    SystemRelation::view(13_425, "tables", standard_columns::TABLES)
        .of(INFORMATION_SCHEMA)
        .rows(table_rows),
    SystemRelation::view(13_483, "views", standard_columns::VIEWS)
        .of(INFORMATION_SCHEMA)
        .rows(view_rows),
];

/// Catalog, schema and name of a table or view; None for an index.
fn full_name(view: &CatalogView, item: &Item<'_>) -> Option<[Datum; 3]> {
    match item {
        Item::Virtual(info, _) => Some([text(DATABASE_NAME), text(&info.schema), text(&info.name)]),
        Item::Table(table) => Some(table_name(view, table)),
        Item::Index(..) | Item::Sequence(_) => None,
    }
}

fn table_name(view: &CatalogView, table: &TableEntry) -> [Datum; 3] {
    let schema = view.namespace_name(table.def.namespace);
    [text(DATABASE_NAME), text(schema), text(&table.def.name)]
}

fn is_view(item: &Item<'_>) -> bool {
    matches!(item, Item::Virtual(_, relation) if relation.kind() == b'v')
}

fn table_rows<'a>(view: &'a CatalogView, _: Wanted<'_>) -> Rows<'a> {
    Box::new(class::items(view).filter_map(|item| {
        let mut row = full_name(view, &item)?.to_vec();
        let kind = if is_view(&item) { "VIEW" } else { "BASE TABLE" };
        let writable = matches!(item, Item::Table(_));
        row.extend([text(kind), NULL, NULL, NULL, NULL, NULL]);
        row.extend([yes_or_no(writable), yes_or_no(false), NULL]);
        Some(row)
    }))
}

fn view_rows<'a>(view: &'a CatalogView, _: Wanted<'_>) -> Rows<'a> {
    Box::new(class::items(view).filter(is_view).filter_map(|item| {
        let mut row = full_name(view, &item)?.to_vec();
        row.extend([NULL, text("NONE")]);
        row.extend((0..5).map(|_| yes_or_no(false)));
        Some(row)
    }))
}

fn schema_rows<'a>(view: &'a CatalogView, _: Wanted<'_>) -> Rows<'a> {
    Box::new(namespaces(view).into_iter().map(|(_, name)| {
        vec![text(DATABASE_NAME), text(name), text(OWNER_NAME), NULL, NULL, NULL, NULL]
    }))
}

fn constraint_rows<'a>(view: &'a CatalogView, _: Wanted<'_>) -> Rows<'a> {
    Box::new(class::tables(view).flat_map(|table| constraints(view, table)))
}

fn constraints(view: &CatalogView, table: &TableEntry) -> Vec<Vec<Datum>> {
    let [catalog, schema, name] = table_name(view, table);
    let row = |constraint: String, kind: &str, nulls_distinct: Datum| {
        let [catalog, schema, name] = [&catalog, &schema, &name].map(Clone::clone);
        let mut row = vec![catalog.clone(), schema.clone(), text(constraint)];
        row.extend([catalog, schema, name, text(kind)]);
        row.extend([yes_or_no(false), yes_or_no(false), yes_or_no(true), nulls_distinct]);
        row
    };
    let mut rows = Vec::new();
    for index in &table.indexes {
        match constraint_kind(index.def.kind) {
            Some(b'p') => rows.push(row(index.def.name.clone(), "PRIMARY KEY", NULL)),
            Some(_) => rows.push(row(index.def.name.clone(), "UNIQUE", yes_or_no(true))),
            None => {}
        }
    }
    for (at, column) in table.def.columns.iter().enumerate() {
        if column.not_null {
            let own = format!("{}_{}_{}_not_null", table.def.namespace, table.def.oid, at + 1);
            rows.push(row(own, "CHECK", NULL));
        }
    }
    rows
}

fn key_rows<'a>(view: &'a CatalogView, _: Wanted<'_>) -> Rows<'a> {
    let constraints =
        class::indexes(view).filter(|(_, index)| constraint_kind(index.def.kind).is_some());
    Box::new(constraints.flat_map(move |(table, index)| {
        let [catalog, schema, name] = table_name(view, table);
        index.def.columns.iter().enumerate().map(move |(at, key)| {
            let column = &table.def.columns[key.column.index()].name;
            vec![
                catalog.clone(),
                schema.clone(),
                text(&index.def.name),
                catalog.clone(),
                schema.clone(),
                name.clone(),
                text(column),
                int(at as i32 + 1),
                NULL, // position_in_unique_constraint
            ]
        })
    }))
}

fn column_rows<'a>(view: &'a CatalogView, _: Wanted<'_>) -> Rows<'a> {
    Box::new(class::items(view).flat_map(move |item| columns(view, &item)))
}

/// A column as the view describes it.
struct Column<'a> {
    table: &'a [Datum; 3],
    name: &'a str,
    number: usize,
    ty: Type,
    not_null: bool,
    default: Option<String>,
    identity: Option<Identity>,
    sequence: Option<Arc<SequenceEntry>>,
    writable: bool,
}

fn columns(view: &CatalogView, item: &Item<'_>) -> Vec<Vec<Datum>> {
    let Some(table) = full_name(view, item) else { return Vec::new() };
    let table = &table;
    match item {
        Item::Virtual(info, _) => {
            let rows = info.columns.iter().enumerate().map(|(at, column)| Column {
                table,
                name: &column.name,
                number: at + 1,
                ty: column.ty,
                not_null: column.not_null,
                default: None,
                identity: None,
                sequence: None,
                writable: false,
            });
            rows.map(|column| column_row(&column)).collect()
        }
        Item::Table(entry) => {
            let owned = view.catalog.sequences_of(entry.def.oid);
            let rows = entry.def.columns.iter().enumerate().map(|(at, column)| Column {
                table,
                name: &column.name,
                number: at + 1,
                ty: Type::with(TypeOid(column.type_oid), column.type_modifier),
                not_null: column.not_null,
                default: column
                    .default
                    .as_deref()
                    .filter(|_| column.identity.is_none())
                    .map(|default| shown_default(view, default)),
                identity: column.identity,
                sequence: column.identity.and_then(|_| {
                    let own = Some((entry.def.oid, ColumnId(at as u16)));
                    owned.iter().find(|it| it.def.owner == own).cloned()
                }),
                writable: true,
            });
            rows.map(|column| column_row(&column)).collect()
        }
        Item::Index(..) | Item::Sequence(_) => Vec::new(),
    }
}

/// Precision, radix and scale of a number.
fn number_shape(ty: Type) -> [Datum; 3] {
    let binary = |bits: i32, scale: Datum| [int(bits), int(2), scale];
    match ty.oid {
        TypeOid::INT2 => binary(16, int(0)),
        TypeOid::INT4 => binary(32, int(0)),
        TypeOid::INT8 => binary(64, int(0)),
        TypeOid::FLOAT4 => binary(24, NULL),
        TypeOid::FLOAT8 => binary(53, NULL),
        TypeOid::NUMERIC if ty.typmod >= 0 => {
            let (precision, scale) = typmod::numeric_parts(ty.typmod);
            [int(precision), int(10), int(scale)]
        }
        TypeOid::NUMERIC => [NULL, int(10), NULL],
        _ => [NULL, NULL, NULL],
    }
}

/// Length in characters and in bytes of a text.
fn text_shape(ty: Type) -> [Datum; 2] {
    const BYTES_PER_CHARACTER: i32 = 4;
    let length = ty.typmod - 4;
    match ty.oid {
        TypeOid::VARCHAR | TypeOid::BPCHAR if ty.typmod >= 0 => {
            [int(length), int(length.saturating_mul(BYTES_PER_CHARACTER))]
        }
        TypeOid::TEXT | TypeOid::VARCHAR | TypeOid::BPCHAR => [NULL, int(1 << 30)],
        _ => [NULL, NULL],
    }
}

fn time_precision(ty: Type) -> Datum {
    let own = if ty.typmod < 0 { 6 } else { ty.typmod };
    match ty.oid {
        TypeOid::DATE => int(0),
        TypeOid::TIME | TypeOid::TIMESTAMP | TypeOid::TIMESTAMPTZ => int(own),
        TypeOid::INTERVAL => {
            int(if own & 0xffff == 0xffff || ty.typmod < 0 { 6 } else { own & 0xffff })
        }
        _ => NULL,
    }
}

fn column_row(column: &Column<'_>) -> Vec<Datum> {
    let info = type_by_oid(column.ty.oid);
    let is_array = info.is_some_and(crate::types::TypeInfo::is_array);
    let kind = if is_array { "ARRAY".to_owned() } else { format_type(Type::new(column.ty.oid)) };
    let collation = match info.map(|info| info.collation) {
        Some(950) if !is_array => [text(DATABASE_NAME), text("pg_catalog"), text("C")],
        _ => [NULL, NULL, NULL],
    };
    let mut row = column.table.to_vec();
    row.extend([
        text(column.name),
        int(column.number as i32),
        column.default.as_ref().map_or(NULL, text),
    ]);
    row.extend([yes_or_no(!column.not_null), text(kind)]);
    row.extend(text_shape(column.ty));
    row.extend(number_shape(column.ty));
    row.extend([time_precision(column.ty), NULL, NULL]);
    row.extend([NULL, NULL, NULL]); // character set
    row.extend(collation);
    row.extend([NULL, NULL, NULL]); // domain
    let internal = info.map_or(NULL, |info| text(info.name));
    row.extend([text(DATABASE_NAME), text("pg_catalog"), internal]);
    row.extend([NULL, NULL, NULL, NULL]); // scope, maximum_cardinality
    let is_identity = column.identity.is_some();
    row.extend([text(column.number.to_string()), yes_or_no(false), yes_or_no(is_identity)]);
    row.push(match column.identity {
        None => NULL,
        Some(Identity::Always) => text("ALWAYS"),
        Some(Identity::ByDefault) => text("BY DEFAULT"),
    });
    let numbers = column.sequence.as_ref().map(|sequence| {
        let (start, counting) = (sequence.def.start, sequence.def.counting);
        [start, counting.increment, counting.max, counting.min].map(|it| text(it.to_string()))
    });
    row.extend(numbers.unwrap_or([NULL, NULL, NULL, NULL]));
    let cycles = column.sequence.as_ref().is_some_and(|it| it.def.counting.cycle == Cycle::Yes);
    row.extend([yes_or_no(cycles), text("NEVER"), NULL, yes_or_no(column.writable)]);
    row
}
