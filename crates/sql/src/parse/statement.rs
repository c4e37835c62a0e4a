//! Our own syntax tree: statements.
//!
//! Invariants: what the tree cannot express was refused by name (0A000) during conversion, so a
//! consumer that handles every variant handles everything that was accepted.

use super::ast::{Alias, At, Cte, Expr, FromItem, Name, Query, Target, TypeName};

/// A statement.
#[derive(Clone, Debug, PartialEq)]
pub enum Statement {
    /// SELECT, VALUES, TABLE.
    Query(Box<Query>),
    /// INSERT.
    Insert(Box<Insert>),
    /// UPDATE.
    Update(Box<Update>),
    /// DELETE.
    Delete(Box<Delete>),
    /// Everything else.
    Utility(Box<Utility>),
}

/// INSERT.
#[derive(Clone, Debug, PartialEq)]
pub struct Insert {
    /// WITH.
    pub with: Vec<Cte>,
    /// The table.
    pub table: Name,
    /// AS.
    pub alias: Option<Alias>,
    /// The columns, if written.
    pub columns: Vec<(String, At)>,
    /// The rows; `None` for DEFAULT VALUES.
    pub source: Option<Query>,
    /// RETURNING.
    pub returning: Vec<Target>,
}

/// `SET column = value`, or one of a row assignment's columns.
#[derive(Clone, Debug, PartialEq)]
pub struct Assignment {
    /// The column.
    pub column: String,
    /// Where it stands.
    pub at: At,
    /// The value.
    pub value: Expr,
}

/// UPDATE.
#[derive(Clone, Debug, PartialEq)]
pub struct Update {
    /// WITH.
    pub with: Vec<Cte>,
    /// The table.
    pub table: Name,
    /// AS.
    pub alias: Option<Alias>,
    /// SET.
    pub assignments: Vec<Assignment>,
    /// FROM.
    pub from: Vec<FromItem>,
    /// WHERE.
    pub filter: Option<Expr>,
    /// RETURNING.
    pub returning: Vec<Target>,
}

/// DELETE.
#[derive(Clone, Debug, PartialEq)]
pub struct Delete {
    /// WITH.
    pub with: Vec<Cte>,
    /// The table.
    pub table: Name,
    /// AS.
    pub alias: Option<Alias>,
    /// USING.
    pub using: Vec<FromItem>,
    /// WHERE.
    pub filter: Option<Expr>,
    /// RETURNING.
    pub returning: Vec<Target>,
}

/// Isolation as written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IsolationName {
    /// READ UNCOMMITTED, which is READ COMMITTED.
    ReadUncommitted,
    /// READ COMMITTED.
    ReadCommitted,
    /// REPEATABLE READ.
    RepeatableRead,
    /// SERIALIZABLE.
    Serializable,
}

/// The modes of BEGIN and SET TRANSACTION.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct TransactionModes {
    /// ISOLATION LEVEL.
    pub isolation: Option<IsolationName>,
    /// READ ONLY, READ WRITE.
    pub read_only: Option<bool>,
    /// DEFERRABLE.
    pub deferrable: Option<bool>,
}

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
    /// A column of the table.
    Column(String),
    /// A constraint of the table.
    Constraint(String),
}

/// The direction of COPY.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CopyDirection {
    /// FROM STDIN.
    In,
    /// TO STDOUT.
    Out,
}

/// COPY.
#[derive(Clone, Debug, PartialEq)]
pub struct Copy {
    /// The table, unless a query.
    pub table: Option<Name>,
    /// The columns, if written.
    pub columns: Vec<String>,
    /// The query of `COPY (query) TO`.
    pub query: Option<Query>,
    /// Which way.
    pub direction: CopyDirection,
    /// Options as written: name, value (empty for a bare name), list.
    pub options: Vec<(String, CopyOption, At)>,
}

/// A value of a COPY option.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CopyOption {
    /// No value.
    None,
    /// A word, string or number.
    Text(String),
    /// `(a, b)`.
    List(Vec<String>),
    /// `*`.
    Star,
}

/// What SET sets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SetValue {
    /// TO value, ..
    Values(Vec<String>),
    /// TO DEFAULT, or RESET.
    Default,
}

/// Statements that are neither queries nor data changes.
#[derive(Clone, Debug, PartialEq)]
pub enum Utility {
    /// BEGIN, START TRANSACTION (whose tag differs).
    Begin {
        /// START TRANSACTION was written.
        start: bool,
        /// The modes.
        modes: TransactionModes,
    },
    /// COMMIT, END.
    Commit {
        /// AND CHAIN.
        chain: bool,
    },
    /// ROLLBACK, ABORT.
    Rollback {
        /// AND CHAIN.
        chain: bool,
    },
    /// SET TRANSACTION, SET SESSION CHARACTERISTICS.
    SetTransaction {
        /// For the session.
        session: bool,
        /// The modes.
        modes: TransactionModes,
    },
    /// SET and RESET.
    Set {
        /// The parameter, as written.
        name: String,
        /// LOCAL.
        local: bool,
        /// The value.
        value: SetValue,
        /// RESET was written (its tag differs).
        reset: bool,
    },
    /// RESET ALL.
    ResetAll,
    /// SHOW.
    Show(String),
    /// CREATE TABLE.
    CreateTable(CreateTable),
    /// CREATE INDEX.
    CreateIndex(CreateIndex),
    /// CREATE SCHEMA.
    CreateSchema {
        /// Its name.
        name: String,
        /// IF NOT EXISTS.
        if_not_exists: bool,
    },
    /// DROP.
    Drop {
        /// What.
        kind: DropKind,
        /// Which.
        names: Vec<Name>,
        /// IF EXISTS.
        if_exists: bool,
        /// CASCADE.
        cascade: bool,
    },
    /// ALTER TABLE.
    AlterTable {
        /// The table.
        table: Name,
        /// IF EXISTS.
        if_exists: bool,
        /// The commands.
        commands: Vec<AlterTable>,
    },
    /// ALTER .. RENAME.
    Rename {
        /// What.
        kind: RenameKind,
        /// The relation.
        relation: Name,
        /// IF EXISTS.
        if_exists: bool,
        /// The new name.
        to: String,
    },
    /// TRUNCATE.
    Truncate {
        /// The tables.
        tables: Vec<Name>,
    },
    /// VACUUM or ANALYZE.
    Vacuum {
        /// VACUUM, else ANALYZE.
        vacuum: bool,
        /// Also analyze.
        analyze: bool,
        /// The tables; all if empty.
        tables: Vec<Name>,
    },
    /// CHECKPOINT.
    Checkpoint,
    /// COPY.
    Copy(Box<Copy>),
    /// PREPARE.
    Prepare {
        /// Its name.
        name: String,
        /// Declared types.
        types: Vec<TypeName>,
        /// The statement.
        statement: Box<Statement>,
    },
    /// EXECUTE.
    Execute {
        /// Its name.
        name: String,
        /// The parameters.
        arguments: Vec<Expr>,
    },
    /// DEALLOCATE; `None` for ALL.
    Deallocate(Option<String>),
    /// DISCARD; the word after it.
    Discard(&'static str),
    /// LOCK TABLE.
    LockTable {
        /// The tables.
        tables: Vec<Name>,
        /// PostgreSQL's lock mode number, 1 to 8.
        mode: u8,
        /// NOWAIT.
        nowait: bool,
    },
}
