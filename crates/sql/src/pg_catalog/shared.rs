//! What a cluster has besides relations: schemas, databases, roles, tablespaces, collations,
//! access methods.
//!
//! Invariants: until roles and databases can be created there is one of each, `postgres`.

use super::class::{INDEX_METHOD, TABLE_METHOD};
use super::value::{NULL, bool, int, letter, oid, text};
use super::{Rows, SystemRelation, Wanted, table_columns, view_columns};
use crate::relations::{CatalogView, INFORMATION_SCHEMA, PG_CATALOG};
use crate::types::Datum;

/// The database's oid.
pub const DATABASE_OID: u32 = 5;
/// The database's name.
pub const DATABASE_NAME: &str = "postgres";
/// The role that owns everything.
pub const OWNER_OID: u32 = 10;
/// Its name.
pub const OWNER_NAME: &str = "postgres";

pub(super) const PG_CATALOG_OID: u32 = 11;
const INFORMATION_SCHEMA_OID: u32 = 13_207;
const DEFAULT_TABLESPACE: u32 = 1663;
pub(super) const GLOBAL_TABLESPACE: u32 = 1664;
const UTF8: i32 = 6;

/// The catalogs of this file.
pub(super) static RELATIONS: &[SystemRelation] = &[
    SystemRelation::table(2615, "pg_namespace", table_columns::PG_NAMESPACE)
        .rows(namespace_rows)
        .lookups(&[0, 1]),
    SystemRelation::table(1262, "pg_database", table_columns::PG_DATABASE)
        .rows(|_, _| Box::new(std::iter::once(database_row()))),
    SystemRelation::table(1260, "pg_authid", table_columns::PG_AUTHID)
        .rows(|_, _| Box::new(std::iter::once(role_row()))),
    SystemRelation::view(12_000, "pg_roles", view_columns::PG_ROLES)
        .rows(|_, _| Box::new(std::iter::once(role_view_row()))),
    SystemRelation::view(12_014, "pg_user", view_columns::PG_USER)
        .rows(|_, _| Box::new(std::iter::once(user_row(text("********"))))),
    SystemRelation::view(12_005, "pg_shadow", view_columns::PG_SHADOW)
        .rows(|_, _| Box::new(std::iter::once(user_row(NULL)))),
    SystemRelation::table(1213, "pg_tablespace", table_columns::PG_TABLESPACE)
        .rows(tablespace_rows),
    SystemRelation::table(3456, "pg_collation", table_columns::PG_COLLATION).rows(collation_rows),
    SystemRelation::table(2601, "pg_am", table_columns::PG_AM).rows(method_rows),
];

/// Is the system catalog with this oid shared by all databases?
pub(super) fn is_shared(relation: u32) -> bool {
    const SHARED: &[u32] = &[1260, 6100, 1262, 2964, 1213, 1261, 1214, 2396, 6000, 3592, 6243];
    SHARED.contains(&relation)
}

/// Every schema: its oid and name.
pub fn namespaces(view: &CatalogView) -> Vec<(u32, String)> {
    let built_in = [(PG_CATALOG_OID, PG_CATALOG), (INFORMATION_SCHEMA_OID, INFORMATION_SCHEMA)];
    let own = view.catalog.namespaces().map(|namespace| (namespace.oid.0, &*namespace.name));
    built_in.into_iter().chain(own).map(|(oid, name)| (oid, name.to_owned())).collect()
}

/// The oid of a built-in schema.
pub(super) fn namespace_oid(name: &str) -> u32 {
    if name == INFORMATION_SCHEMA { INFORMATION_SCHEMA_OID } else { PG_CATALOG_OID }
}

fn namespace_rows<'a>(view: &'a CatalogView, wanted: Wanted<'_>) -> Rows<'a> {
    let mut rows = namespaces(view);
    if let Some(oid) = wanted.object(0) {
        rows.retain(|(own, _)| *own == oid.0);
    }
    if let Some(name) = wanted.name(1) {
        rows.retain(|(_, own)| own == name);
    }
    Box::new(rows.into_iter().map(|(own, name)| vec![oid(own), text(name), oid(OWNER_OID), NULL]))
}

fn database_row() -> Vec<Datum> {
    vec![
        oid(DATABASE_OID),
        text(DATABASE_NAME),
        oid(OWNER_OID),
        int(UTF8),
        letter(b'c'), // datlocprovider
        bool(false),  // datistemplate
        bool(true),   // datallowconn
        int(-1),      // datconnlimit
        oid(0),       // datfrozenxid
        oid(0),       // datminmxid
        oid(DEFAULT_TABLESPACE),
        text("C"), // datcollate
        text("C"), // datctype
        NULL,      // daticulocale
        NULL,      // datcollversion
        NULL,      // datacl
    ]
}

fn role_row() -> Vec<Datum> {
    vec![
        oid(OWNER_OID),
        text(OWNER_NAME),
        bool(true), // rolsuper
        bool(true), // rolinherit
        bool(true), // rolcreaterole
        bool(true), // rolcreatedb
        bool(true), // rolcanlogin
        bool(true), // rolreplication
        bool(true), // rolbypassrls
        int(-1),    // rolconnlimit
        NULL,       // rolpassword
        NULL,       // rolvaliduntil
    ]
}

fn role_view_row() -> Vec<Datum> {
    vec![
        text(OWNER_NAME),
        bool(true), // rolsuper
        bool(true), // rolinherit
        bool(true), // rolcreaterole
        bool(true), // rolcreatedb
        bool(true), // rolcanlogin
        bool(true), // rolreplication
        int(-1),    // rolconnlimit
        text("********"),
        NULL,       // rolvaliduntil
        bool(true), // rolbypassrls
        NULL,       // rolconfig
        oid(OWNER_OID),
    ]
}

fn user_row(password: Datum) -> Vec<Datum> {
    let yes = || bool(true);
    vec![text(OWNER_NAME), oid(OWNER_OID), yes(), yes(), yes(), yes(), password, NULL, NULL]
}

fn tablespace_rows<'a>(_: &'a CatalogView, _: Wanted<'_>) -> Rows<'a> {
    let rows = [(DEFAULT_TABLESPACE, "pg_default"), (GLOBAL_TABLESPACE, "pg_global")];
    Box::new(
        rows.into_iter().map(|(own, name)| vec![oid(own), text(name), oid(OWNER_OID), NULL, NULL]),
    )
}

fn collation_rows<'a>(_: &'a CatalogView, _: Wanted<'_>) -> Rows<'a> {
    let rows = [(100, "default", b'd'), (950, "C", b'c'), (951, "POSIX", b'c')];
    Box::new(rows.into_iter().map(|(own, name, provider)| {
        let locale = if provider == b'c' { text(name) } else { NULL };
        vec![
            oid(own),
            text(name),
            oid(PG_CATALOG_OID),
            oid(OWNER_OID),
            letter(provider),
            bool(true), // collisdeterministic
            int(-1),    // collencoding
            locale.clone(),
            locale,
            NULL, // colliculocale
            NULL, // collversion
        ]
    }))
}

fn method_rows<'a>(_: &'a CatalogView, _: Wanted<'_>) -> Rows<'a> {
    let rows = [(TABLE_METHOD, "heap", b't'), (INDEX_METHOD, "btree", b'i')];
    Box::new(
        rows.into_iter().map(|(own, name, kind)| vec![oid(own), text(name), oid(0), letter(kind)]),
    )
}
