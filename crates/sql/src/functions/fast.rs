//! Operators on the integer and text forms without slices or pointers: what the executor's
//! compact expressions call inline.
//!
//! Invariants: the same answers and errors as the table's functions (tests compare them); no
//! argument is NULL, the caller has looked.

use crate::error::{SqlError, SqlResult, SqlState};
use crate::types::Datum;
use crate::types::order::unpadded;
use std::cmp::Ordering;

/// An operator that [`FastOperator::apply`] knows how to run.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum FastOperator {
    /// int4 + int4.
    Int4Add,
    /// int4 - int4.
    Int4Subtract,
    /// int4 * int4.
    Int4Multiply,
    /// int8 + int8 (or int4 on a side).
    Int8Add,
    /// int8 - int8 (or int4 on a side).
    Int8Subtract,
    /// int8 * int8 (or int4 on a side).
    Int8Multiply,
    /// `=` of any two of int2, int4, int8.
    IntegerEqual,
    /// `<>` of any two of int2, int4, int8.
    IntegerNotEqual,
    /// `<` of any two of int2, int4, int8.
    IntegerLess,
    /// `<=` of any two of int2, int4, int8.
    IntegerLessEqual,
    /// `>` of any two of int2, int4, int8.
    IntegerGreater,
    /// `>=` of any two of int2, int4, int8.
    IntegerGreaterEqual,
    /// `=` of two texts.
    TextEqual,
    /// `<>` of two texts.
    TextNotEqual,
}

impl FastOperator {
    /// Runs the operator on two values that are not NULL.
    #[inline]
    pub fn apply(self, left: &Datum, right: &Datum) -> SqlResult<Datum> {
        Ok(match self {
            FastOperator::Int4Add => Datum::Int4(int4_add(left.as_i32(), right.as_i32())?),
            FastOperator::Int4Subtract => {
                Datum::Int4(int4_subtract(left.as_i32(), right.as_i32())?)
            }
            FastOperator::Int4Multiply => {
                Datum::Int4(int4_multiply(left.as_i32(), right.as_i32())?)
            }
            FastOperator::Int8Add => Datum::Int8(int8_add(left.as_i64(), right.as_i64())?),
            FastOperator::Int8Subtract => {
                Datum::Int8(int8_subtract(left.as_i64(), right.as_i64())?)
            }
            FastOperator::Int8Multiply => {
                Datum::Int8(int8_multiply(left.as_i64(), right.as_i64())?)
            }
            other => Datum::Bool(other.test(left, right)),
        })
    }

    /// Runs a comparison on two values that are not NULL, as a plain bool; false for operators
    /// that are none.
    #[inline]
    pub fn test(self, left: &Datum, right: &Datum) -> bool {
        match self {
            FastOperator::IntegerEqual => left.as_i64() == right.as_i64(),
            FastOperator::IntegerNotEqual => left.as_i64() != right.as_i64(),
            FastOperator::IntegerLess => left.as_i64() < right.as_i64(),
            FastOperator::IntegerLessEqual => left.as_i64() <= right.as_i64(),
            FastOperator::IntegerGreater => left.as_i64() > right.as_i64(),
            FastOperator::IntegerGreaterEqual => left.as_i64() >= right.as_i64(),
            FastOperator::TextEqual => left.as_str() == right.as_str(),
            FastOperator::TextNotEqual => left.as_str() != right.as_str(),
            _ => false,
        }
    }
}

/// `integer out of range` and its like (22003).
#[cold]
pub fn out_of_range(ty: &str) -> SqlError {
    SqlError::new(SqlState::NUMERIC_VALUE_OUT_OF_RANGE, format!("{ty} out of range"))
}

/// `division by zero` (22012).
#[cold]
pub fn division_by_zero() -> SqlError {
    SqlError::new(SqlState::DIVISION_BY_ZERO, "division by zero")
}

macro_rules! checked {
    ($($(#[$doc:meta])* $name:ident($ty:ty, $sql:literal) = $method:ident;)*) => {
        $($(#[$doc])*
        #[inline]
        pub fn $name(left: $ty, right: $ty) -> SqlResult<$ty> {
            left.$method(right).ok_or_else(|| out_of_range($sql))
        })*
    };
}

checked! {
    /// int2 + int2 (22003).
    int2_add(i16, "smallint") = checked_add;
    /// int2 - int2 (22003).
    int2_subtract(i16, "smallint") = checked_sub;
    /// int2 * int2 (22003).
    int2_multiply(i16, "smallint") = checked_mul;
    /// int4 + int4 (22003).
    int4_add(i32, "integer") = checked_add;
    /// int4 - int4 (22003).
    int4_subtract(i32, "integer") = checked_sub;
    /// int4 * int4 (22003).
    int4_multiply(i32, "integer") = checked_mul;
    /// int8 + int8 (22003).
    int8_add(i64, "bigint") = checked_add;
    /// int8 - int8 (22003).
    int8_subtract(i64, "bigint") = checked_sub;
    /// int8 * int8 (22003).
    int8_multiply(i64, "bigint") = checked_mul;
}

/// float8 in PostgreSQL's order: NaN equals itself and is above everything; -0 equals 0.
#[inline]
pub fn float8_compare(left: f64, right: f64) -> Ordering {
    match left.partial_cmp(&right) {
        Some(ordering) => ordering,
        None => left.is_nan().cmp(&right.is_nan()),
    }
}

/// bpchar in PostgreSQL's order: trailing blanks do not count.
#[inline]
pub fn bpchar_compare(left: &str, right: &str) -> Ordering {
    unpadded(left).as_bytes().cmp(unpadded(right).as_bytes())
}
