//! Our own syntax tree: what definitions are made of.
//!
//! Invariants: as in `statement.rs`, which uses these and passes them on under its own name.

use super::ast::{At, Expr, Name, TypeName};

/// A constraint of a column or a table that the catalog can hold.
#[derive(Clone, Debug, PartialEq)]
pub struct KeyConstraint {
    /// CONSTRAINT name.
    pub name: Option<String>,
    /// PRIMARY KEY, else UNIQUE.
    pub primary: bool,
    /// The columns.
    pub columns: Vec<String>,
    /// Where.
    pub at: At,
}

/// A serial type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Serial {
    /// smallserial, of int2.
    Small,
    /// serial, of int4.
    Plain,
    /// bigserial, of int8.
    Big,
}

/// When an identity column takes its value from its sequence.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Generated {
    /// ALWAYS.
    Always,
    /// BY DEFAULT.
    ByDefault,
}

/// MINVALUE or MAXVALUE of a sequence.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SequenceBound {
    /// This value.
    At(i64),
    /// NO MINVALUE, NO MAXVALUE: the type's.
    OfType,
}

/// An option of a sequence.
#[derive(Clone, Debug, PartialEq)]
pub enum SequenceOption {
    /// AS type.
    Type(TypeName),
    /// INCREMENT BY.
    Increment(i64),
    /// MINVALUE.
    Min(SequenceBound),
    /// MAXVALUE.
    Max(SequenceBound),
    /// START WITH.
    Start(i64),
    /// RESTART, at a value if written.
    Restart(Option<i64>),
    /// CACHE.
    Cache(i64),
    /// CYCLE or NO CYCLE.
    Cycle(bool),
    /// OWNED BY; `None` for NONE.
    OwnedBy(Option<(Name, String)>),
}

/// A column of CREATE TABLE.
#[derive(Clone, Debug, PartialEq)]
pub struct ColumnDefinition {
    /// Its name.
    pub name: String,
    /// Its type.
    pub type_name: TypeName,
    /// COLLATE was written (of those that are all the same here).
    pub collated: bool,
    /// NOT NULL.
    pub not_null: bool,
    /// DEFAULT.
    pub default: Option<Expr>,
    /// A serial type was written.
    pub serial: Option<Serial>,
    /// GENERATED .. AS IDENTITY, with its sequence's options.
    pub identity: Option<(Generated, Vec<SequenceOption>)>,
    /// Where.
    pub at: At,
}

/// CREATE TABLE.
#[derive(Clone, Debug, PartialEq)]
pub struct CreateTable {
    /// Its name.
    pub name: Name,
    /// IF NOT EXISTS.
    pub if_not_exists: bool,
    /// The columns.
    pub columns: Vec<ColumnDefinition>,
    /// Keys.
    pub keys: Vec<KeyConstraint>,
    /// WITH (..), `name=value`.
    pub options: Vec<(String, String)>,
}

/// One column of CREATE INDEX.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IndexElement {
    /// The column.
    pub column: String,
    /// DESC.
    pub descending: bool,
    /// NULLS FIRST.
    pub nulls_first: bool,
}

/// CREATE INDEX.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CreateIndex {
    /// Its name, if written.
    pub name: Option<String>,
    /// The table.
    pub table: Name,
    /// UNIQUE.
    pub unique: bool,
    /// IF NOT EXISTS.
    pub if_not_exists: bool,
    /// The columns.
    pub columns: Vec<IndexElement>,
}

/// What DROP drops.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DropKind {
    /// TABLE.
    Table,
    /// INDEX.
    Index,
    /// SCHEMA.
    Schema,
    /// SEQUENCE.
    Sequence,
    /// A kind that this database never has, by PostgreSQL's word for it: only useful with IF
    /// EXISTS.
    Other(&'static str),
}

/// One command of ALTER TABLE.
#[derive(Clone, Debug, PartialEq)]
pub enum AlterTable {
    /// ADD PRIMARY KEY, ADD UNIQUE.
    AddKey(KeyConstraint),
    /// DROP CONSTRAINT name; with IF EXISTS.
    DropConstraint(String, bool),
    /// ALTER COLUMN SET or DROP NOT NULL.
    NotNull(String, bool),
    /// ALTER COLUMN SET DEFAULT, or DROP DEFAULT.
    Default(String, Option<Expr>),
    /// ALTER COLUMN ADD GENERATED .. AS IDENTITY.
    AddIdentity(String, Generated, Vec<SequenceOption>),
    /// ALTER COLUMN SET GENERATED, and SET or RESTART of its sequence.
    SetIdentity(String, Option<Generated>, Vec<SequenceOption>),
    /// ALTER COLUMN DROP IDENTITY; with IF EXISTS.
    DropIdentity(String, bool),
    /// SET (..) and RESET (..) of storage options; `None` resets.
    Options(Vec<(String, Option<String>)>),
}

/// What RENAME renames.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RenameKind {
    /// A table, or what ALTER INDEX names.
    Table,
    /// An index.
    Index,
    /// A sequence.
    Sequence,
    /// A column of the table.
    Column(String),
    /// A constraint of the table.
    Constraint(String),
}
