//! The bound tree: every name, type, function and operator resolved.
//!
//! Invariants: a column is named by its relation's number in the statement and its position, so a
//! reference means the same inside and outside subqueries; the planner gives each such pair one
//! slot. Expressions of type UNKNOWN occur only inside the binder. Nothing here borrows from the
//! syntax tree.

use crate::functions::{
    AggregateFn, CastContext, Coercion, OperatorRow, ScalarFn, SetFn, Strictness, Volatility,
};
use crate::parse::ast::{At, Extreme, JoinKind, Quantifier, SetOperation, Test};
use crate::relations::RelationInfo;
use crate::types::{Datum, Type, TypeOid};
use std::cell::Cell;
use std::rc::Rc;
use std::sync::Arc;

/// A relation of the statement: an item of FROM, or the output of a query.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct RelationId(pub u32);

/// The pseudo-column that holds the row's identifier.
pub const ROW_ID: u16 = u16::MAX;

/// A column of a relation of the statement.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct ColumnRef {
    /// The relation.
    pub relation: RelationId,
    /// Its column's position.
    pub column: u16,
}

/// An expression with its type.
#[derive(Clone, Debug)]
pub struct Bound {
    /// What it is.
    pub kind: BoundKind,
    /// Its type.
    pub ty: Type,
    /// Where it stands, for errors.
    pub at: At,
}

/// A function call.
#[derive(Clone)]
pub struct BoundCall {
    /// Its name, for errors and column names.
    pub name: &'static str,
    /// The function.
    pub function: ScalarFn,
    /// NULL handling.
    pub strictness: Strictness,
    /// Volatility.
    pub volatility: Volatility,
    /// The arguments.
    pub arguments: Vec<Bound>,
}

impl std::fmt::Debug for BoundCall {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}({:?})", self.name, self.arguments)
    }
}

/// A set-returning function's call.
#[derive(Clone)]
pub struct BoundSet {
    /// Its name.
    pub name: &'static str,
    /// The function.
    pub function: SetFn,
    /// NULL handling: strict functions give no rows for NULL.
    pub strictness: Strictness,
    /// The arguments.
    pub arguments: Vec<Bound>,
    /// The columns of its rows; empty for a scalar result.
    pub columns: Vec<(Arc<str>, TypeOid)>,
}

impl std::fmt::Debug for BoundSet {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}({:?})", self.name, self.arguments)
    }
}

/// Comparing two values of one type by `=`.
#[derive(Clone, Copy, Debug)]
pub struct Equality(pub &'static OperatorRow);

/// What an expression is.
#[derive(Clone, Debug)]
pub enum BoundKind {
    /// A constant.
    Constant(Datum),
    /// A parameter, from 0.
    Parameter(u16),
    /// A column.
    Column(ColumnRef),
    /// A function.
    Call(BoundCall),
    /// An operator; a prefix operator has no left side.
    Operator(&'static OperatorRow, Option<Box<Bound>>, Box<Bound>),
    /// A conversion.
    Coerce(Coercion, Box<Bound>),
    /// Fitting to the modifier of the expression's type.
    Typmod(CastContext, Box<Bound>),
    /// AND.
    And(Vec<Bound>),
    /// OR.
    Or(Vec<Bound>),
    /// NOT.
    Not(Box<Bound>),
    /// IS ..
    Is(Test, Box<Bound>),
    /// IS [NOT] DISTINCT FROM, by `=`.
    Distinct {
        /// `=` of the two sides.
        equality: &'static OperatorRow,
        /// IS NOT DISTINCT FROM.
        negated: bool,
        /// The sides.
        sides: Box<(Bound, Bound)>,
    },
    /// NULLIF by `=`.
    NullIf(&'static OperatorRow, Box<(Bound, Bound)>),
    /// `left IN (rows)`, each row as wide as left; NOT IN is `Not` of it.
    In {
        /// The left side's columns.
        left: Vec<Bound>,
        /// Per row, per column: the operator and the right side.
        rows: Vec<Vec<(&'static OperatorRow, Bound)>>,
    },
    /// `left op ANY|ALL (array)`.
    Quantified {
        /// The operator, on an element.
        operator: &'static OperatorRow,
        /// ANY or ALL.
        quantifier: Quantifier,
        /// The left side.
        left: Box<Bound>,
        /// The array.
        array: Box<Bound>,
    },
    /// Lexicographic comparison of row values: `<`, `<=`, `>`, `>=`, with `<` (or `>`) and `=` a
    /// column.
    RowCompare {
        /// Equality counts as true.
        or_equal: bool,
        /// The strict operator, `=`, and the two sides, a column.
        columns: Vec<(&'static OperatorRow, &'static OperatorRow, Bound, Bound)>,
    },
    /// CASE with boolean conditions.
    Case(Vec<(Bound, Bound)>, Box<Bound>),
    /// `CASE operand WHEN`: the operand is evaluated once and compared.
    Coalesce(Vec<Bound>),
    /// GREATEST, LEAST by `<`.
    MinMax(Extreme, &'static OperatorRow, Vec<Bound>),
    /// ARRAY[..]; nested arrays make dimensions.
    Array(TypeOid, Vec<Bound>),
    /// ROW(..).
    Row(Vec<Bound>),
    /// A field of a record, from 0.
    Field(Box<Bound>, u16),
    /// `array[i][j]`.
    Subscript(Box<Bound>, Vec<Bound>),
    /// `array[low:high]`.
    Slice(Box<Bound>, Option<Box<Bound>>, Option<Box<Bound>>),
    /// An array with the element at these subscripts set to a value.
    SetElement(Box<(Bound, Vec<Bound>, Bound)>),
    /// A subquery.
    Subquery(Box<BoundSubquery>),
    /// The value of a grouping key that is no plain column, of the query with this output.
    GroupKey(ColumnRef),
    /// The value of an aggregate of the query with this grouping relation.
    Aggregate(ColumnRef),
    /// A set-returning function in a target list.
    Set(Box<BoundSet>),
}

/// What is made of a subquery's rows.
#[derive(Clone, Debug)]
pub enum SubqueryKind {
    /// Its one value; 21000 if there are more rows.
    Scalar,
    /// Are there rows?
    Exists,
    /// An array of its values.
    Array(TypeOid),
    /// `left op ANY|ALL (rows)`: an operator a column.
    Quantified {
        /// ANY or ALL.
        quantifier: Quantifier,
        /// Per column, the left side and the operator on the query's column.
        left: Vec<(Bound, &'static OperatorRow)>,
    },
}

/// A subquery in an expression.
#[derive(Clone, Debug)]
pub struct BoundSubquery {
    /// What is made of it.
    pub kind: SubqueryKind,
    /// The query.
    pub query: Query,
}

/// One column that a query gives.
#[derive(Clone, Debug)]
pub struct Output {
    /// Its name.
    pub name: Arc<str>,
    /// Its value; a set operation's and VALUES' outputs have none.
    pub value: Option<Bound>,
    /// Its type.
    pub ty: Type,
    /// The table's oid and the column's number (from 1), if it is a plain column of a table.
    pub origin: Option<(u32, i16)>,
}

/// A sort key: an output of the query (visible or not).
#[derive(Clone, Copy, Debug)]
pub struct SortKey {
    /// Which output.
    pub output: u16,
    /// DESC.
    pub descending: bool,
    /// NULLS FIRST.
    pub nulls_first: bool,
}

/// A common table expression that is evaluated once and read where it is named.
#[derive(Debug)]
pub struct Cte {
    /// Its number in the statement.
    pub id: u32,
    /// Its name.
    pub name: Arc<str>,
    /// What makes its rows.
    pub source: CteSource,
    /// MATERIALIZED.
    pub is_kept: bool,
    /// How often it is named.
    pub references: Cell<u32>,
}

/// The rows that an iteration of a recursion has made, for the next one to read.
#[derive(Debug)]
pub struct Working {
    /// Its number in the statement.
    pub id: u32,
    /// What it is called.
    pub name: Arc<str>,
    /// How many columns it has.
    pub width: usize,
}

/// What makes a common table expression's rows.
#[derive(Debug)]
pub enum CteSource {
    /// A query.
    Query(Query),
    /// A data change, with what it returns.
    Change(Box<BoundStatement>),
}

impl Cte {
    /// Its columns; none of a data change without RETURNING.
    pub fn outputs(&self) -> &[Output] {
        match &self.source {
            CteSource::Query(query) => &query.outputs[..query.visible],
            CteSource::Change(change) => change.returning(),
        }
    }
}

/// A query.
#[derive(Clone, Debug)]
pub struct Query {
    /// The relation that its outputs are columns of.
    pub relation: RelationId,
    /// The outputs; the first `visible` are the result, the rest serve ORDER BY.
    pub outputs: Vec<Output>,
    /// How many outputs are the result.
    pub visible: usize,
    /// What makes the rows.
    pub body: Body,
    /// ORDER BY.
    pub order_by: Vec<SortKey>,
    /// LIMIT, an int8.
    pub limit: Option<Box<Bound>>,
    /// OFFSET, an int8.
    pub offset: Option<Box<Bound>>,
    /// FOR UPDATE: the relations whose rows are locked.
    pub locked: Vec<RelationId>,
}

/// What makes a query's rows.
#[derive(Clone, Debug)]
pub enum Body {
    /// SELECT.
    Select(Box<Select>),
    /// VALUES.
    Values(Vec<Vec<Bound>>),
    /// A set operation; both sides have the outputs' types.
    SetOperation {
        /// Which.
        operation: SetOperation,
        /// ALL.
        all: bool,
        /// The sides.
        sides: Box<(Query, Query)>,
    },
    /// WITH RECURSIVE: the rows of the left side, then those that the right side makes of the
    /// newest ones, until it makes none. Both sides have the outputs' types.
    Recursive {
        /// The number of the working table that the right side reads.
        id: u32,
        /// UNION ALL; else each row comes once.
        all: bool,
        /// The sides.
        sides: Box<(Query, Query)>,
    },
}

/// A SELECT.
#[derive(Clone, Debug)]
pub struct Select {
    /// FROM; `None` gives one row without columns.
    pub from: Option<From>,
    /// WHERE.
    pub filter: Option<Bound>,
    /// GROUP BY and aggregates, if it groups.
    pub grouping: Option<Grouping>,
    /// HAVING.
    pub having: Option<Bound>,
    /// DISTINCT over the visible outputs.
    pub distinct: bool,
    /// DISTINCT ON these outputs.
    pub distinct_on: Vec<u16>,
    /// There are set-returning functions in the outputs.
    pub has_sets: bool,
}

/// Grouping.
#[derive(Clone, Debug)]
pub struct Grouping {
    /// The relation that keys (other than plain columns) and aggregates are columns of: keys
    /// first.
    pub relation: RelationId,
    /// The keys.
    pub keys: Vec<Bound>,
    /// The aggregates.
    pub aggregates: Vec<Aggregate>,
}

/// One aggregate.
#[derive(Clone)]
pub struct Aggregate {
    /// Its name.
    pub name: &'static str,
    /// Makes its state.
    pub function: AggregateFn,
    /// NULL handling: strict aggregates skip rows with a NULL argument.
    pub strictness: Strictness,
    /// The arguments; none for `count(*)`.
    pub arguments: Vec<Bound>,
    /// DISTINCT.
    pub distinct: bool,
    /// ORDER BY within: expression, descending, nulls first.
    pub order_by: Vec<(Bound, bool, bool)>,
    /// FILTER.
    pub filter: Option<Bound>,
    /// Its result's type.
    pub ty: Type,
}

impl std::fmt::Debug for Aggregate {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}({:?})", self.name, self.arguments)
    }
}

/// An item of FROM.
#[derive(Clone, Debug)]
pub enum From {
    /// A table or a virtual relation.
    Relation(RelationId, Arc<RelationInfo>),
    /// A subquery; its outputs are the relation's columns.
    Subquery(Box<Query>),
    /// A common table expression; its outputs are copied to the relation's columns.
    Cte(RelationId, Rc<Cte>),
    /// The working table of a recursion; its columns are copied to the relation's.
    Working(RelationId, Rc<Working>),
    /// A function; the last column is the ordinality, if asked for.
    Function {
        /// The relation.
        relation: RelationId,
        /// The function.
        call: SetOrScalar,
        /// WITH ORDINALITY.
        ordinality: bool,
    },
    /// A join.
    Join {
        /// Which; RIGHT has become LEFT.
        kind: JoinKind,
        /// The sides.
        sides: Box<(From, From)>,
        /// ON.
        condition: Option<Bound>,
    },
}

/// A function in FROM.
#[derive(Clone, Debug)]
pub enum SetOrScalar {
    /// Set-returning.
    Set(Box<BoundSet>),
    /// Anything else gives one row.
    Scalar(Box<Bound>),
}

/// A data change or a query, bound.
#[derive(Clone, Debug)]
pub enum BoundStatement {
    /// A query.
    Query(Query),
    /// INSERT.
    Insert(Insert),
    /// UPDATE.
    Update(Update),
    /// DELETE.
    Delete(Delete),
}

impl BoundStatement {
    /// RETURNING of a data change.
    pub fn returning(&self) -> &[Output] {
        match self {
            BoundStatement::Query(_) => &[],
            BoundStatement::Insert(insert) => &insert.returning,
            BoundStatement::Update(update) => &update.returning,
            BoundStatement::Delete(delete) => &delete.returning,
        }
    }

    /// The table that a data change writes.
    pub fn written(&self) -> Option<&Arc<RelationInfo>> {
        match self {
            BoundStatement::Query(_) => None,
            BoundStatement::Insert(insert) => Some(&insert.table),
            BoundStatement::Update(update) => Some(&update.table),
            BoundStatement::Delete(delete) => Some(&delete.table),
        }
    }
}

/// INSERT.
#[derive(Clone, Debug)]
pub struct Insert {
    /// The table.
    pub table: Arc<RelationInfo>,
    /// The relation that RETURNING reads the new row from.
    pub relation: RelationId,
    /// The rows.
    pub source: InsertSource,
    /// ON CONFLICT.
    pub conflict: Option<Conflict>,
    /// RETURNING.
    pub returning: Vec<Output>,
}

/// ON CONFLICT.
#[derive(Clone, Debug)]
pub struct Conflict {
    /// Which unique indexes of the table it is about, by their positions.
    pub arbiters: Vec<usize>,
    /// DO UPDATE; `None` for DO NOTHING.
    pub update: Option<ConflictUpdate>,
}

/// DO UPDATE.
#[derive(Clone, Debug)]
pub struct ConflictUpdate {
    /// The relation `excluded`: the row that could not be inserted.
    pub excluded: RelationId,
    /// SET: column and value.
    pub assignments: Vec<(u16, Bound)>,
    /// WHERE.
    pub filter: Option<Bound>,
}

/// Where an INSERT's rows come from. Every column of the table has a value.
#[derive(Clone, Debug)]
pub enum InsertSource {
    /// VALUES: rows of expressions, a column of the table each.
    Values(Vec<Vec<Bound>>),
    /// A query, and for each column of the table an expression over its outputs.
    Query(Box<Query>, Vec<Bound>),
}

/// UPDATE.
#[derive(Clone, Debug)]
pub struct Update {
    /// The table.
    pub table: Arc<RelationInfo>,
    /// Its relation.
    pub relation: RelationId,
    /// The table, joined with FROM.
    pub from: From,
    /// WHERE.
    pub filter: Option<Bound>,
    /// SET: column and value.
    pub assignments: Vec<(u16, Bound)>,
    /// RETURNING.
    pub returning: Vec<Output>,
}

/// DELETE.
#[derive(Clone, Debug)]
pub struct Delete {
    /// The table.
    pub table: Arc<RelationInfo>,
    /// Its relation.
    pub relation: RelationId,
    /// The table, joined with USING.
    pub from: From,
    /// WHERE.
    pub filter: Option<Bound>,
    /// RETURNING.
    pub returning: Vec<Output>,
}

impl Bound {
    /// An expression.
    pub fn new(kind: BoundKind, ty: impl Into<Type>, at: At) -> Bound {
        Bound { kind, ty: ty.into(), at }
    }

    /// A constant.
    pub fn constant(value: Datum, ty: impl Into<Type>) -> Bound {
        Bound::new(BoundKind::Constant(value), ty, At::NONE)
    }

    /// Is it the constant NULL?
    pub fn is_null_constant(&self) -> bool {
        matches!(self.kind, BoundKind::Constant(Datum::Null))
    }

    /// Its value, if it is a constant.
    pub fn as_constant(&self) -> Option<&Datum> {
        match &self.kind {
            BoundKind::Constant(value) => Some(value),
            _ => None,
        }
    }
}

impl std::fmt::Debug for Coercion {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Coercion::Relabel => f.write_str("relabel"),
            Coercion::Function(_) | Coercion::SessionFunction(_) => f.write_str("function"),
            Coercion::ViaText { source, target } => write!(f, "{source:?} via text {target:?}"),
            Coercion::Elements { element, each } => write!(f, "each to {element:?} by {each:?}"),
        }
    }
}
