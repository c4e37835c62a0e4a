//! pg_class, and the walk over relations that other catalogs use.
//!
//! Invariants: users' tables, their indexes, and the virtual relations are all there, each once;
//! tables come in the order in which they were made. Sizes and statistics that are not kept are 0.

use super::value::{NULL, bool, int, letter, oid, small, text, texts};
use super::{OWNER_OID, Rows, SystemRelation, Wanted, shared, table_columns};
use crate::relations::{CatalogView, RelationInfo, Source, VirtualRelation};
use crate::types::Datum;
use atoll_kernel::api::{
    IndexDef, IndexEntry, Oid, Relation, SequenceDef, SequenceEntry, TableDef, TableEntry,
};
use std::sync::Arc;

const OID: usize = 0;
const RELNAME: usize = 1;
const RELNAMESPACE: usize = 2;

/// pg_class.
pub(super) static RELATIONS: &[SystemRelation] =
    &[SystemRelation::table(1259, "pg_class", table_columns::PG_CLASS)
        .rows(class_rows)
        .lookups(&[OID, RELNAME, RELNAMESPACE])
        .estimate(|view| 150 + 2 * view.catalog.tables().count() as u64)];

/// The access method of tables, `heap` by the name that clients know.
pub(super) const TABLE_METHOD: u32 = 2;
/// The access method of indexes, `btree`.
pub(super) const INDEX_METHOD: u32 = 403;

/// A row of pg_class.
pub(super) enum Item<'a> {
    /// A virtual relation.
    Virtual(&'a RelationInfo, &'static dyn VirtualRelation),
    /// A table.
    Table(&'a Arc<TableEntry>),
    /// An index of a table.
    Index(&'a Arc<TableEntry>, &'a Arc<IndexEntry>),
    /// A sequence.
    Sequence(&'a Arc<SequenceEntry>),
}

/// Users' tables in the order of their oids.
pub(super) fn tables(view: &CatalogView) -> std::vec::IntoIter<&Arc<TableEntry>> {
    let mut tables: Vec<_> = view.catalog.tables().collect();
    tables.sort_unstable_by_key(|table| table.def.oid);
    tables.into_iter()
}

/// Users' indexes with their tables, in the order of the tables.
pub(super) fn indexes(
    view: &CatalogView,
) -> impl Iterator<Item = (&Arc<TableEntry>, &Arc<IndexEntry>)> {
    tables(view).flat_map(|table| table.indexes.iter().map(move |index| (table, index)))
}

/// Users' sequences in the order of their oids.
pub(super) fn sequences(view: &CatalogView) -> std::vec::IntoIter<&Arc<SequenceEntry>> {
    let mut sequences: Vec<_> = view.catalog.sequences().collect();
    sequences.sort_unstable_by_key(|sequence| sequence.def.oid);
    sequences.into_iter()
}

/// The index with this oid, and its table.
pub(super) fn index_by_oid(
    view: &CatalogView,
    oid: Oid,
) -> Option<(&Arc<TableEntry>, &Arc<IndexEntry>)> {
    let index = view.catalog.index_by_oid(oid)?;
    Some((view.catalog.table_by_oid(index.def.table)?, index))
}

/// The virtual relations, by oid.
fn virtuals(view: &CatalogView) -> impl Iterator<Item = Item<'_>> {
    let mut found: Vec<_> = view.registry.iter().filter_map(virtual_item).collect();
    found.sort_unstable_by_key(|item| match item {
        Item::Virtual(info, _) => info.oid,
        Item::Table(_) | Item::Index(..) | Item::Sequence(_) => 0,
    });
    found.into_iter()
}

fn virtual_item(info: &Arc<RelationInfo>) -> Option<Item<'_>> {
    match &info.source {
        Source::Virtual(relation) => Some(Item::Virtual(info, *relation)),
        Source::Table(_) | Source::Sequence(_) => None,
    }
}

/// Every relation.
pub(super) fn items(view: &CatalogView) -> impl Iterator<Item = Item<'_>> {
    let own = tables(view).flat_map(|table| {
        let indexes = table.indexes.iter().map(move |index| Item::Index(table, index));
        std::iter::once(Item::Table(table)).chain(indexes)
    });
    virtuals(view).chain(own).chain(sequences(view).map(Item::Sequence))
}

/// The relation with this oid.
pub(super) fn item_by_oid(view: &CatalogView, oid: Oid) -> Option<Item<'_>> {
    if let Some(info) = view.registry.by_oid(oid.0) {
        return virtual_item(info);
    }
    item_of(view, view.catalog.relation_by_oid(oid)?)
}

fn item_of<'a>(view: &'a CatalogView, relation: &'a Relation) -> Option<Item<'a>> {
    Some(match relation {
        Relation::Table(table) => Item::Table(table),
        Relation::Sequence(sequence) => Item::Sequence(sequence),
        Relation::Index(index) => Item::Index(view.catalog.table_by_oid(index.def.table)?, index),
    })
}

/// The relations of this name, in whatever schema.
fn items_by_name<'a>(view: &'a CatalogView, name: &str) -> Vec<Item<'a>> {
    let virtuals = view.registry.iter().filter(|info| &*info.name == name);
    let mut found: Vec<_> = virtuals.filter_map(virtual_item).collect();
    for namespace in view.catalog.namespaces() {
        let relation = view.catalog.relation(namespace.oid, name);
        found.extend(relation.and_then(|relation| item_of(view, relation)));
    }
    found
}

impl Item<'_> {
    /// The oid of the relation's schema.
    pub(super) fn namespace(&self) -> u32 {
        match self {
            Item::Virtual(info, _) => shared::namespace_oid(&info.schema),
            Item::Table(table) | Item::Index(table, _) => table.def.namespace.0,
            Item::Sequence(sequence) => sequence.def.namespace.0,
        }
    }
}

fn class_rows<'a>(view: &'a CatalogView, wanted: Wanted<'_>) -> Rows<'a> {
    if let Some(oid) = wanted.object(OID) {
        return Box::new(item_by_oid(view, oid).into_iter().map(|item| class_row(&item)));
    }
    if let Some(name) = wanted.name(RELNAME) {
        return Box::new(items_by_name(view, name).into_iter().map(|item| class_row(&item)));
    }
    if let Some(namespace) = wanted.object(RELNAMESPACE) {
        let inside = items(view).filter(move |item| item.namespace() == namespace.0);
        return Box::new(inside.map(|item| class_row(&item)));
    }
    Box::new(items(view).map(|item| class_row(&item)))
}

/// What differs between the kinds of relations.
struct Shape<'a> {
    oid: u32,
    name: &'a str,
    namespace: u32,
    method: u32,
    kind: u8,
    columns: usize,
    rows: f32,
    has_index: bool,
    identity: u8,
    shared: bool,
    options: &'a [String],
}

fn class_row(item: &Item<'_>) -> Vec<Datum> {
    let namespace = item.namespace();
    row_of(&match item {
        Item::Virtual(info, relation) => virtual_shape(info, *relation, namespace),
        Item::Table(table) => table_shape(&table.def, table, namespace),
        Item::Index(_, index) => index_shape(&index.def, namespace),
        Item::Sequence(sequence) => sequence_shape(&sequence.def, namespace),
    })
}

fn virtual_shape<'a>(
    info: &'a RelationInfo,
    relation: &'static dyn VirtualRelation,
    namespace: u32,
) -> Shape<'a> {
    let kind = relation.kind();
    Shape {
        oid: info.oid,
        name: &info.name,
        namespace,
        method: if kind == b'r' { TABLE_METHOD } else { 0 },
        kind,
        columns: info.columns.len(),
        rows: -1.0,
        has_index: false,
        identity: b'n',
        shared: kind == b'r' && shared::is_shared(info.oid),
        options: &[],
    }
}

fn table_shape<'a>(def: &'a TableDef, table: &TableEntry, namespace: u32) -> Shape<'a> {
    Shape {
        oid: def.oid.0,
        name: &def.name,
        namespace,
        method: TABLE_METHOD,
        kind: b'r',
        columns: def.columns.len(),
        rows: table.approximate_rows() as f32,
        has_index: !table.indexes.is_empty(),
        identity: b'd',
        shared: false,
        options: &def.options,
    }
}

fn index_shape(def: &IndexDef, namespace: u32) -> Shape<'_> {
    Shape {
        oid: def.oid.0,
        name: &def.name,
        namespace,
        method: INDEX_METHOD,
        kind: b'i',
        columns: def.columns.len(),
        rows: -1.0,
        has_index: false,
        identity: b'n',
        shared: false,
        options: &[],
    }
}

/// PostgreSQL's sequences are relations of one row with three columns.
fn sequence_shape(def: &SequenceDef, namespace: u32) -> Shape<'_> {
    Shape {
        oid: def.oid.0,
        name: &def.name,
        namespace,
        method: 0,
        kind: b'S',
        columns: 3,
        rows: 1.0,
        has_index: false,
        identity: b'n',
        shared: false,
        options: &[],
    }
}

fn row_of(shape: &Shape<'_>) -> Vec<Datum> {
    let file = if shape.kind == b'v' { 0 } else { shape.oid };
    vec![
        oid(shape.oid),
        text(shape.name),
        oid(shape.namespace),
        oid(0), // reltype: tables have no row types yet
        oid(0), // reloftype
        oid(OWNER_OID),
        oid(shape.method),
        oid(file),
        oid(if shape.shared { shared::GLOBAL_TABLESPACE } else { 0 }),
        int(0), // relpages
        Datum::Float4(shape.rows),
        int(0), // relallvisible
        oid(0), // reltoastrelid
        bool(shape.has_index),
        bool(shape.shared),
        letter(b'p'), // relpersistence
        letter(shape.kind),
        small(shape.columns as i16),
        small(0),    // relchecks
        bool(false), // relhasrules
        bool(false), // relhastriggers
        bool(false), // relhassubclass
        bool(false), // relrowsecurity
        bool(false), // relforcerowsecurity
        bool(true),  // relispopulated
        letter(shape.identity),
        bool(false), // relispartition
        oid(0),      // relrewrite
        oid(0),      // relfrozenxid
        oid(0),      // relminmxid
        NULL,        // relacl
        texts(shape.options),
        NULL, // relpartbound
    ]
}
