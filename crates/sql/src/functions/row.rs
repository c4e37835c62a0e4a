//! What a row of the function, operator, cast and aggregate tables says.

use super::FunctionContext;
use super::aggregate::Accumulator;
use super::fast::FastOperator;
use crate::error::SqlResult;
use crate::types::{Datum, TypeOid};

/// A function of one row. Strict functions are never called with a NULL argument.
pub type ScalarFn = fn(&[Datum], &dyn FunctionContext) -> SqlResult<Datum>;

/// The rows of a set-returning function, one at a time.
pub type SetValues = Box<dyn Iterator<Item = SqlResult<Datum>>>;

/// A set-returning function. Functions with several columns yield records.
pub type SetFn = fn(&[Datum], &dyn FunctionContext) -> SqlResult<SetValues>;

/// Makes the state of one group of an aggregate. The types are those of its arguments.
pub type AggregateFn = fn(&[TypeOid]) -> Box<dyn Accumulator>;

/// Is the function called with NULL arguments?
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Strictness {
    /// A NULL argument makes the result NULL without a call.
    Strict,
    /// It is called with NULLs.
    CalledOnNull,
}

/// `pg_proc.provolatile`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Volatility {
    /// The same answer for ever: may be folded when planning.
    Immutable,
    /// The same answer within a statement.
    Stable,
    /// Called for every row.
    Volatile,
}

/// What a function is, and how it is called.
#[derive(Clone, Copy)]
pub enum FunctionKind {
    /// One value for one row.
    Scalar(ScalarFn),
    /// Many rows for one call.
    Set(SetFn),
    /// One value for many rows.
    Aggregate(AggregateFn),
    /// A window function by name; the executor has it.
    Window,
}

/// One row of pg_proc.
pub struct FunctionRow {
    /// `oid`.
    pub oid: u32,
    /// `proname`.
    pub name: &'static str,
    /// `proargtypes`.
    pub args: &'static [TypeOid],
    /// `prorettype`.
    pub result: TypeOid,
    /// `provariadic`: the element type of the last argument, INVALID if not variadic.
    pub variadic: TypeOid,
    /// How many of the last arguments may be left out, and what they are then.
    pub defaults: &'static [Default],
    /// `proisstrict`.
    pub strictness: Strictness,
    /// `provolatile`.
    pub volatility: Volatility,
    /// What it is.
    pub kind: FunctionKind,
    /// Names and types of the columns of a set-returning function with OUT arguments.
    pub columns: &'static [(&'static str, TypeOid)],
}

/// A default of a built-in function's argument.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Default {
    /// NULL.
    Null,
    /// A boolean.
    Bool(bool),
    /// An int4.
    Int4(i32),
    /// A float8.
    Float8(f64),
}

impl Default {
    /// The value.
    pub fn datum(self) -> Datum {
        match self {
            Default::Null => Datum::Null,
            Default::Bool(value) => Datum::Bool(value),
            Default::Int4(value) => Datum::Int4(value),
            Default::Float8(value) => Datum::Float8(value),
        }
    }
}

impl FunctionRow {
    /// The scalar function, if it is one.
    pub fn scalar(&self) -> Option<ScalarFn> {
        match self.kind {
            FunctionKind::Scalar(function) => Some(function),
            _ => None,
        }
    }

    /// Is it an aggregate?
    pub fn is_aggregate(&self) -> bool {
        matches!(self.kind, FunctionKind::Aggregate(_))
    }

    /// Does it return a set?
    pub fn is_set(&self) -> bool {
        matches!(self.kind, FunctionKind::Set(_))
    }
}

impl std::fmt::Debug for FunctionRow {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}({:?}) -> {:?}", self.name, self.args, self.result)
    }
}

/// Which comparison an operator is, for index conditions and sorting.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Comparison {
    /// `<`
    Less,
    /// `<=`
    LessEqual,
    /// `=`
    Equal,
    /// `>=`
    GreaterEqual,
    /// `>`
    Greater,
    /// `<>`: no index strategy.
    NotEqual,
}

/// One row of pg_operator.
pub struct OperatorRow {
    /// `oid`.
    pub oid: u32,
    /// `oprname`.
    pub name: &'static str,
    /// `oprleft`; INVALID for a prefix operator.
    pub left: TypeOid,
    /// `oprright`.
    pub right: TypeOid,
    /// `oprresult`.
    pub result: TypeOid,
    /// `oprcode`, by name.
    pub code: &'static str,
    /// `oprcom`, 0 if none.
    pub commutator: u32,
    /// `oprnegate`, 0 if none.
    pub negator: u32,
    /// The function: one argument for prefix operators, two otherwise.
    pub function: ScalarFn,
    /// Which comparison it is in the types' default order, if one.
    pub comparison: Option<Comparison>,
    /// The form without slices, where there is one.
    pub fast: Option<FastOperator>,
    /// NULL handling.
    pub strictness: Strictness,
    /// Volatility of the function.
    pub volatility: Volatility,
}

impl std::fmt::Debug for OperatorRow {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:?} {} {:?}", self.left, self.name, self.right)
    }
}

/// Where a cast is applied without being written: `pg_cast.castcontext`.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum CastContext {
    /// Anywhere.
    Implicit,
    /// When storing into a column, too.
    Assignment,
    /// Only where CAST or :: is written.
    Explicit,
}

/// How a cast is done.
#[derive(Clone, Copy)]
pub enum CastMethod {
    /// The same form: nothing to do.
    Relabel,
    /// By a function of one argument.
    Function(ScalarFn),
}

/// One row of pg_cast.
pub struct CastRow {
    /// `castsource`.
    pub source: TypeOid,
    /// `casttarget`.
    pub target: TypeOid,
    /// `castcontext`.
    pub context: CastContext,
    /// `castmethod` and `castfunc`.
    pub method: CastMethod,
    /// Volatility of the function.
    pub volatility: Volatility,
}
