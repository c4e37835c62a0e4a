//! pg_attribute and pg_attrdef.
//!
//! Invariants: columns have positive numbers; there are no system columns, so none is listed.

use super::class::{self, Item};
use super::value::{NULL, bool, int, letter, oid, small, text};
use super::{Rows, SystemRelation, Wanted, table_columns};
use crate::relations::{CatalogView, SEQUENCE_COLUMNS};
use crate::types::{Datum, Type, TypeOid, type_by_oid};
use atoll_kernel::api::{ColumnDef, Identity, Oid, TableEntry};

const ATTRELID: usize = 0;
const ATTNAME: usize = 1;
const ADRELID: usize = 1;

/// pg_attribute and pg_attrdef.
pub(super) static RELATIONS: &[SystemRelation] = &[
    SystemRelation::table(1249, "pg_attribute", table_columns::PG_ATTRIBUTE)
        .rows(attribute_rows)
        .lookups(&[ATTRELID])
        .estimate(|view| 1500 + 10 * view.catalog.tables().count() as u64),
    SystemRelation::table(2604, "pg_attrdef", table_columns::PG_ATTRDEF)
        .rows(default_rows)
        .lookups(&[ADRELID])
        .estimate(|view| 1 + view.catalog.tables().count() as u64),
];

fn attribute_rows<'a>(view: &'a CatalogView, wanted: Wanted<'_>) -> Rows<'a> {
    if let Some(relation) = wanted.object(ATTRELID) {
        let item = class::item_by_oid(view, relation);
        return Box::new(item.into_iter().flat_map(|item| attributes(&item)));
    }
    debug_assert!(wanted.name(ATTNAME).is_none(), "attname is no look-up");
    Box::new(class::items(view).flat_map(|item| attributes(&item)))
}

/// One column of a relation.
struct Attribute<'a> {
    relation: u32,
    name: &'a str,
    ty: Type,
    number: usize,
    not_null: bool,
    has_default: bool,
    identity: Option<Identity>,
    collation: u32,
}

/// Whose columns are looked at: those of system catalogs, or of views and users' relations.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Owner {
    System,
    User,
}

/// The collation of a column's type; system catalogs compare by bytes.
fn collation(ty: TypeOid, owner: Owner) -> u32 {
    const C: u32 = 950;
    match type_by_oid(ty).map_or(0, |info| info.collation) {
        0 => 0,
        _ if owner == Owner::System => C,
        own => own,
    }
}

fn attributes(item: &Item<'_>) -> Vec<Vec<Datum>> {
    match item {
        Item::Virtual(info, relation) => {
            let owner = if relation.kind() == b'r' { Owner::System } else { Owner::User };
            let rows = info.columns.iter().enumerate().map(|(at, column)| Attribute {
                relation: info.oid,
                name: &column.name,
                ty: column.ty,
                number: at + 1,
                not_null: column.not_null,
                has_default: false,
                identity: None,
                collation: collation(column.ty.oid, owner),
            });
            rows.map(|it| attribute_row(&it)).collect()
        }
        Item::Table(table) => {
            let rows = table.def.columns.iter().enumerate().map(|(at, column)| Attribute {
                relation: table.def.oid.0,
                name: &column.name,
                ty: Type::with(TypeOid(column.type_oid), column.type_modifier),
                number: at + 1,
                not_null: column.not_null,
                has_default: has_default(column),
                identity: column.identity,
                collation: collation(TypeOid(column.type_oid), Owner::User),
            });
            rows.map(|it| attribute_row(&it)).collect()
        }
        Item::Index(table, index) => {
            let rows = index.def.columns.iter().enumerate().map(|(at, key)| {
                let column = &table.def.columns[key.column.index()];
                Attribute {
                    relation: index.def.oid.0,
                    name: &column.name,
                    ty: Type::with(TypeOid(column.type_oid), column.type_modifier),
                    number: at + 1,
                    not_null: false,
                    has_default: false,
                    identity: None,
                    collation: collation(TypeOid(column.type_oid), Owner::User),
                }
            });
            rows.map(|it| attribute_row(&it)).collect()
        }
        Item::Sequence(sequence) => {
            let rows = SEQUENCE_COLUMNS.iter().enumerate().map(|(at, (name, ty))| Attribute {
                relation: sequence.def.oid.0,
                name,
                ty: Type::new(*ty),
                number: at + 1,
                not_null: true,
                has_default: false,
                identity: None,
                collation: 0,
            });
            rows.map(|it| attribute_row(&it)).collect()
        }
    }
}

/// Whether the column has a default of its own; that of an identity column is not one.
pub(super) fn has_default(column: &ColumnDef) -> bool {
    column.default.is_some() && column.identity.is_none()
}

fn attribute_row(attribute: &Attribute<'_>) -> Vec<Datum> {
    let info = type_by_oid(attribute.ty.oid);
    let layout = info.map_or(*b"fip", |info| *info.layout);
    let dimensions = i32::from(info.is_some_and(crate::types::TypeInfo::is_array));
    vec![
        oid(attribute.relation),
        text(attribute.name),
        oid(attribute.ty.oid.0),
        int(-1), // attstattarget
        small(info.map_or(-1, |info| info.length)),
        small(attribute.number as i16),
        int(dimensions),
        int(-1), // attcacheoff
        int(attribute.ty.typmod),
        bool(layout[0] == b't'),
        letter(layout[1]),
        letter(layout[2]),
        letter(0), // attcompression
        bool(attribute.not_null),
        bool(attribute.has_default),
        bool(false), // atthasmissing
        letter(match attribute.identity {
            None => 0,
            Some(Identity::Always) => b'a',
            Some(Identity::ByDefault) => b'd',
        }),
        letter(0),   // attgenerated
        bool(false), // attisdropped
        bool(true),  // attislocal
        int(0),      // attinhcount
        oid(attribute.collation),
        NULL, // attacl
        NULL, // attoptions
        NULL, // attfdwoptions
        NULL, // attmissingval
    ]
}

fn default_rows<'a>(view: &'a CatalogView, wanted: Wanted<'_>) -> Rows<'a> {
    match wanted.object(ADRELID) {
        Some(relation) => {
            let table = view.catalog.table_by_oid(relation);
            Box::new(table.into_iter().flat_map(|table| defaults(table)))
        }
        None => Box::new(class::tables(view).flat_map(|table| defaults(table))),
    }
}

/// A default's own oid: no object of the catalog has it, but it stays the same.
pub(super) const fn default_oid(table: Oid, number: usize) -> u32 {
    table.0.wrapping_mul(2048).wrapping_add(number as u32) | 1 << 31
}

fn defaults(table: &TableEntry) -> Vec<Vec<Datum>> {
    let mut rows = Vec::new();
    for (at, column) in table.def.columns.iter().enumerate() {
        if let Some(default) = column.default.as_ref().filter(|_| has_default(column)) {
            let own = default_oid(table.def.oid, at + 1);
            let number = small(at as i16 + 1);
            rows.push(vec![oid(own), oid(table.def.oid.0), number, text(default)]);
        }
    }
    rows
}
