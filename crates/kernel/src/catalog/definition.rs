//! Definitions of catalog objects, as the kernel needs them.
//!
//! What only SQL understands (defaults, type modifiers, reloptions) is carried as text or numbers
//! and never interpreted here.

use crate::base::{Result, TreeId};
use crate::page::{ColumnType, Layout};
use crate::tree::key::{Direction, KeyPart, Nulls};
use crate::txn::{Counting, SequenceState};

/// The tree that holds the catalog's own rows; always exists.
pub const CATALOG_TREE: TreeId = TreeId(1);

/// The namespace `public`, created with the database; its number is PostgreSQL's.
pub const PUBLIC_NAMESPACE: Oid = Oid(2200);

/// An object's identifier, unique among all objects of the database and never reused.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct Oid(pub u32);

impl Oid {
    /// The first identifier handed to users' objects, as in PostgreSQL.
    pub const FIRST_USER: Oid = Oid(16_384);
}

impl std::fmt::Display for Oid {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}", self.0)
    }
}

/// A column's position in its table, from 0; dropped columns keep theirs.
#[derive(
    Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default, bytemuck::TransparentWrapper,
)]
#[repr(transparent)]
pub struct ColumnId(pub u16);

impl ColumnId {
    /// The position as an index into a table's columns.
    pub const fn index(self) -> usize {
        self.0 as usize
    }

    /// The same positions as the modules below know them, in place.
    pub fn numbers(columns: &[ColumnId]) -> &[u16] {
        <ColumnId as bytemuck::TransparentWrapper<u16>>::peel_slice(columns)
    }
}

/// A schema in SQL's sense.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct NamespaceDef {
    /// Its identifier.
    pub oid: Oid,
    /// Its name.
    pub name: String,
}

/// One column of a table.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ColumnDef {
    /// Its name.
    pub name: String,
    /// How its values lie in pages.
    pub physical: ColumnType,
    /// SQL's type (an oid of pg_type).
    pub type_oid: u32,
    /// SQL's type modifier, -1 for none.
    pub type_modifier: i32,
    /// Whether NULL is refused; SQL checks it.
    pub not_null: bool,
    /// The default as SQL text, evaluated by SQL.
    pub default: Option<String>,
    /// Whether it is an identity column: then a sequence that it owns gives its default.
    pub identity: Option<Identity>,
}

/// GENERATED .. AS IDENTITY.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Identity {
    /// ALWAYS: other values are refused; SQL checks it.
    Always,
    /// BY DEFAULT.
    ByDefault,
}

impl ColumnDef {
    /// A nullable column without a default and without an SQL type, for programs without SQL.
    pub fn plain(name: &str, physical: ColumnType) -> ColumnDef {
        ColumnDef {
            name: name.to_owned(),
            physical,
            type_oid: 0,
            type_modifier: -1,
            not_null: false,
            default: None,
            identity: None,
        }
    }
}

/// One table.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TableDef {
    /// Its identifier.
    pub oid: Oid,
    /// The namespace it is in.
    pub namespace: Oid,
    /// Its name.
    pub name: String,
    /// The tree that holds its rows.
    pub tree: TreeId,
    /// Its columns.
    pub columns: Vec<ColumnDef>,
    /// Storage options as `name=value`, kept for clients (pg_class.reloptions).
    pub options: Vec<String>,
}

impl TableDef {
    /// How the rows lie in this table's leaves. Error: `TooLarge` for too many columns.
    pub fn layout(&self) -> Result<Layout> {
        Layout::new(1, self.columns.iter().map(|column| column.physical).collect())
    }

    /// The column named `name`.
    pub fn column(&self, name: &str) -> Option<ColumnId> {
        let at = self.columns.iter().position(|column| column.name == name)?;
        Some(ColumnId(at as u16))
    }
}

/// What an index promises.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum IndexKind {
    /// Any number of rows a key.
    Plain,
    /// At most one row a key without NULLs (CREATE UNIQUE INDEX).
    Unique,
    /// A unique constraint (UNIQUE in a table's definition).
    UniqueConstraint,
    /// The primary key.
    Primary,
}

impl IndexKind {
    /// Whether two rows may not have the same key.
    pub const fn is_unique(self) -> bool {
        !matches!(self, IndexKind::Plain)
    }
}

/// One column of an index's key.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct IndexColumn {
    /// The table's column.
    pub column: ColumnId,
    /// Ascending or descending.
    pub direction: Direction,
    /// Where NULLs sort.
    pub nulls: Nulls,
}

/// One index.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct IndexDef {
    /// Its identifier.
    pub oid: Oid,
    /// Its table.
    pub table: Oid,
    /// Its name, in its table's namespace.
    pub name: String,
    /// The tree that holds its entries.
    pub tree: TreeId,
    /// Its key.
    pub columns: Vec<IndexColumn>,
    /// What it promises.
    pub kind: IndexKind,
}

impl IndexDef {
    /// The key's encoding over the columns of `table`.
    pub fn key_parts(&self, table: &TableDef) -> Vec<KeyPart> {
        let part = |at: &IndexColumn| KeyPart {
            column: table.columns[at.column.index()].physical,
            direction: at.direction,
            nulls: at.nulls,
        };
        self.columns.iter().map(part).collect()
    }
}

/// One sequence.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SequenceDef {
    /// Its identifier.
    pub oid: Oid,
    /// The namespace it is in.
    pub namespace: Oid,
    /// Its name.
    pub name: String,
    /// The number of its values: records in the logs name it; a restart gets another one.
    pub values: TreeId,
    /// SQL's type of the values (an oid of pg_type).
    pub type_oid: u32,
    /// Where RESTART begins.
    pub start: i64,
    /// How it counts.
    pub counting: Counting,
    /// Values that an instance takes at a time; at least 1.
    pub cache: u64,
    /// Where `values` begin, before any record.
    pub first: SequenceState,
    /// The column with which it is dropped.
    pub owner: Option<(Oid, ColumnId)>,
}

/// Any object, as one row of the catalog tree.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Object {
    /// A namespace.
    Namespace(NamespaceDef),
    /// A table.
    Table(TableDef),
    /// An index.
    Index(IndexDef),
    /// A sequence.
    Sequence(SequenceDef),
}

impl Object {
    /// The object's identifier.
    pub fn oid(&self) -> Oid {
        match self {
            Object::Namespace(it) => it.oid,
            Object::Table(it) => it.oid,
            Object::Index(it) => it.oid,
            Object::Sequence(it) => it.oid,
        }
    }
}

/// The catalog tree's own layout: the object's oid and its encoded definition.
pub fn catalog_layout() -> Layout {
    Layout::new(1, vec![ColumnType::Int4, ColumnType::Bytes]).expect("two columns are not too many")
}
