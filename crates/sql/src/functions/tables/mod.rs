//! The tables themselves: one file per family, gathered here.
//!
//! Invariants: oids are PostgreSQL's where it has the row; no two functions share name and
//! argument types; no two operators share name and operand types (tests check both).

mod aggregate_functions;
mod array_functions;
mod build;
mod bytes_functions;
mod casts;
mod datetime_functions;
mod datetime_operators;
mod integer_operators;
mod math_functions;
mod operators;
mod session_functions;
mod text_functions;

use super::row::{CastRow, FunctionRow, OperatorRow};
use crate::types::TypeOid;

static FUNCTION_GROUPS: &[&[FunctionRow]] = &[
    aggregate_functions::FUNCTIONS,
    array_functions::FUNCTIONS,
    bytes_functions::FUNCTIONS,
    datetime_functions::FUNCTIONS,
    math_functions::FUNCTIONS,
    session_functions::FUNCTIONS,
    text_functions::FUNCTIONS,
];
static OPERATOR_GROUPS: &[&[OperatorRow]] = &[
    integer_operators::OPERATORS,
    operators::OPERATORS,
    datetime_operators::OPERATORS,
    bytes_functions::OPERATORS,
];
static CAST_GROUPS: &[&[CastRow]] = &[casts::CASTS];

/// Every built-in function.
pub fn functions() -> impl Iterator<Item = &'static FunctionRow> {
    FUNCTION_GROUPS.iter().flat_map(|group| group.iter())
}

/// Every built-in operator.
pub fn operators() -> impl Iterator<Item = &'static OperatorRow> {
    OPERATOR_GROUPS.iter().flat_map(|group| group.iter())
}

/// Every built-in cast between two types.
pub fn casts() -> impl Iterator<Item = &'static CastRow> {
    CAST_GROUPS.iter().flat_map(|group| group.iter())
}

/// The function with this oid.
pub fn function_by_oid(oid: u32) -> Option<&'static FunctionRow> {
    functions().find(|row| row.oid == oid)
}

/// The operator with this oid.
pub fn operator_by_oid(oid: u32) -> Option<&'static OperatorRow> {
    operators().find(|row| row.oid == oid)
}

/// The functions with this name.
pub(super) fn functions_named(name: &str) -> impl Iterator<Item = &'static FunctionRow> {
    functions().filter(move |row| row.name == name)
}

/// The operators with this name.
pub(super) fn operators_named(name: &str) -> impl Iterator<Item = &'static OperatorRow> {
    operators().filter(move |row| row.name == name)
}

/// The pg_cast row of a pair of types.
pub(super) fn cast_row(source: TypeOid, target: TypeOid) -> Option<&'static CastRow> {
    casts().find(|row| row.source == source && row.target == target)
}
