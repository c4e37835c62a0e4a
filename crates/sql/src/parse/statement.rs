//! Our own syntax tree: statements.
//!
//! Invariants: what the tree cannot express was refused by name (0A000) during conversion, so a
//! consumer that handles every variant handles everything that was accepted.

pub use super::defined::{
    AlterTable, ColumnDefinition, CreateIndex, CreateTable, DropKind, Generated, IndexElement,
    KeyConstraint, RenameKind, SequenceBound, SequenceOption, Serial,
};

use std::sync::Arc;

use super::ast::{Alias, At, Expr, FromItem, Name, Query, Target, TypeName, With};

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

/// What OVERRIDING says of values for identity columns.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Overriding {
    /// Nothing was written: those that are always generated refuse values.
    #[default]
    No,
    /// SYSTEM VALUE: the given values count.
    System,
    /// USER VALUE: the generated values count.
    User,
}

/// INSERT.
#[derive(Clone, Debug, PartialEq)]
pub struct Insert {
    /// WITH.
    pub with: With,
    /// The table.
    pub table: Name,
    /// AS.
    pub alias: Option<Alias>,
    /// The columns, if written.
    pub columns: Vec<(String, At)>,
    /// OVERRIDING.
    pub overriding: Overriding,
    /// The rows; `None` for DEFAULT VALUES.
    pub source: Option<Query>,
    /// ON CONFLICT.
    pub conflict: Option<OnConflict>,
    /// RETURNING.
    pub returning: Vec<Target>,
}

/// ON CONFLICT.
#[derive(Clone, Debug, PartialEq)]
pub struct OnConflict {
    /// Which uniqueness it is about.
    pub target: ConflictTarget,
    /// DO UPDATE; `None` for DO NOTHING.
    pub update: Option<ConflictUpdate>,
    /// Where it stands.
    pub at: At,
}

/// Which uniqueness ON CONFLICT is about.
#[derive(Clone, Debug, PartialEq)]
pub enum ConflictTarget {
    /// Any.
    Any,
    /// Of exactly these columns.
    Columns(Vec<(String, At)>),
    /// ON CONSTRAINT.
    Constraint(String),
}

/// DO UPDATE.
#[derive(Clone, Debug, PartialEq)]
pub struct ConflictUpdate {
    /// SET.
    pub assignments: Vec<Assignment>,
    /// WHERE.
    pub filter: Option<Expr>,
}

/// `SET column = value`, or one of a row assignment's columns.
#[derive(Clone, Debug, PartialEq)]
pub struct Assignment {
    /// The column.
    pub column: String,
    /// Which element of an array, if only that is assigned to.
    pub subscripts: Vec<Expr>,
    /// Where it stands.
    pub at: At,
    /// The value.
    pub value: Expr,
}

/// UPDATE.
#[derive(Clone, Debug, PartialEq)]
pub struct Update {
    /// WITH.
    pub with: With,
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
    pub with: With,
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

/// EXPLAIN.
#[derive(Clone, Debug, PartialEq)]
pub struct Explain {
    /// What is shown, and how.
    pub options: ExplainOptions,
    /// The statement.
    pub statement: Statement,
}

/// What EXPLAIN shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ExplainOptions {
    /// ANALYZE.
    pub analyze: bool,
    /// VERBOSE.
    pub verbose: bool,
    /// COSTS.
    pub costs: bool,
    /// TIMING.
    pub timing: bool,
    /// SUMMARY.
    pub summary: bool,
    /// FORMAT JSON.
    pub json: bool,
}

/// DECLARE CURSOR.
#[derive(Clone, Debug, PartialEq)]
pub struct DeclareCursor {
    /// Its name.
    pub name: String,
    /// BINARY.
    pub binary: bool,
    /// SCROLL, NO SCROLL.
    pub scroll: Scroll,
    /// WITH HOLD, WITHOUT HOLD.
    pub span: CursorSpan,
    /// The query.
    pub query: Box<Query>,
    /// The whole text that it was part of, for pg_cursors.
    pub text: Arc<str>,
}

/// May a cursor go back?
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scroll {
    /// Neither word: as is easy.
    Unsaid,
    /// SCROLL.
    Yes,
    /// NO SCROLL.
    No,
}

/// How long a cursor lives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CursorSpan {
    /// To the end of its transaction.
    Transaction,
    /// WITH HOLD: to the end of its session, if its transaction commits.
    Session,
}

/// Where FETCH goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FetchDirection {
    /// So many rows on; negative ones back, 0 the present row.
    Forward(i64),
    /// To this row, from the end if negative.
    Absolute(i64),
    /// So many rows on or back, to one row.
    Relative(i64),
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
    /// SAVEPOINT.
    Savepoint(String),
    /// RELEASE SAVEPOINT.
    Release(String),
    /// ROLLBACK TO SAVEPOINT.
    RollbackTo(String),
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
        /// RESTART IDENTITY: the sequences that they own begin again.
        restart: bool,
    },
    /// CREATE SEQUENCE.
    CreateSequence {
        /// Its name.
        name: Name,
        /// IF NOT EXISTS.
        if_not_exists: bool,
        /// Its options.
        options: Vec<SequenceOption>,
    },
    /// ALTER SEQUENCE.
    AlterSequence {
        /// Its name.
        name: Name,
        /// IF EXISTS.
        if_exists: bool,
        /// Its options.
        options: Vec<SequenceOption>,
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
    /// CALL atoll_backup of this directory.
    Backup(String),
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
    /// EXPLAIN.
    Explain(Box<Explain>),
    /// DECLARE CURSOR.
    DeclareCursor(Box<DeclareCursor>),
    /// FETCH and MOVE.
    Fetch {
        /// The cursor.
        name: String,
        /// Where to.
        direction: FetchDirection,
        /// MOVE: no rows are sent.
        is_move: bool,
    },
    /// CLOSE; `None` for ALL.
    Close(Option<String>),
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
