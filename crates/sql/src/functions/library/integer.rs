//! Integer arithmetic, bits and conversions. Overflow is 22003, division by zero 22012.

use super::FunctionContext;
use super::fast::{self, division_by_zero, out_of_range};
use crate::error::{SqlError, SqlResult, SqlState};
use crate::types::{Datum, Numeric};

type Context<'a> = &'a dyn FunctionContext;

fn int2(value: &Datum) -> i16 {
    match value {
        Datum::Int2(value) => *value,
        other => other.as_i64() as i16,
    }
}

macro_rules! arithmetic {
    ($($name:ident: $get:expr, $wrap:path, $operation:path;)*) => {
        $(pub(in crate::functions) fn $name(args: &[Datum], _: Context) -> SqlResult<Datum> {
            Ok($wrap($operation($get(&args[0]), $get(&args[1]))?))
        })*
    };
}

arithmetic! {
    int2_add: int2, Datum::Int2, fast::int2_add;
    int2_subtract: int2, Datum::Int2, fast::int2_subtract;
    int2_multiply: int2, Datum::Int2, fast::int2_multiply;
    int2_divide: int2, Datum::Int2, divide_i16;
    int2_modulo: int2, Datum::Int2, modulo_i16;
    int4_add: Datum::as_i32, Datum::Int4, fast::int4_add;
    int4_subtract: Datum::as_i32, Datum::Int4, fast::int4_subtract;
    int4_multiply: Datum::as_i32, Datum::Int4, fast::int4_multiply;
    int4_divide: Datum::as_i32, Datum::Int4, divide_i32;
    int4_modulo: Datum::as_i32, Datum::Int4, modulo_i32;
    int8_add: Datum::as_i64, Datum::Int8, fast::int8_add;
    int8_subtract: Datum::as_i64, Datum::Int8, fast::int8_subtract;
    int8_multiply: Datum::as_i64, Datum::Int8, fast::int8_multiply;
    int8_divide: Datum::as_i64, Datum::Int8, divide_i64;
    int8_modulo: Datum::as_i64, Datum::Int8, modulo_i64;
    int2_and: int2, Datum::Int2, and;
    int2_or: int2, Datum::Int2, or;
    int2_xor: int2, Datum::Int2, xor;
    int4_and: Datum::as_i32, Datum::Int4, and;
    int4_or: Datum::as_i32, Datum::Int4, or;
    int4_xor: Datum::as_i32, Datum::Int4, xor;
    int8_and: Datum::as_i64, Datum::Int8, and;
    int8_or: Datum::as_i64, Datum::Int8, or;
    int8_xor: Datum::as_i64, Datum::Int8, xor;
    int4_gcd: Datum::as_i32, Datum::Int4, gcd_i32;
    int8_gcd: Datum::as_i64, Datum::Int8, gcd_i64;
    int4_lcm: Datum::as_i32, Datum::Int4, lcm_i32;
    int8_lcm: Datum::as_i64, Datum::Int8, lcm_i64;
}

macro_rules! division {
    ($($divide:ident, $modulo:ident, $ty:ty, $sql:literal;)*) => {
        $(fn $divide(left: $ty, right: $ty) -> SqlResult<$ty> {
            if right == 0 {
                return Err(division_by_zero());
            }
            left.checked_div(right).ok_or_else(|| out_of_range($sql))
        }
        fn $modulo(left: $ty, right: $ty) -> SqlResult<$ty> {
            if right == 0 {
                return Err(division_by_zero());
            }
            Ok(left.wrapping_rem(right))
        })*
    };
}

division! {
    divide_i16, modulo_i16, i16, "smallint";
    divide_i32, modulo_i32, i32, "integer";
    divide_i64, modulo_i64, i64, "bigint";
}

fn and<T: std::ops::BitAnd<Output = T>>(left: T, right: T) -> SqlResult<T> {
    Ok(left & right)
}

fn or<T: std::ops::BitOr<Output = T>>(left: T, right: T) -> SqlResult<T> {
    Ok(left | right)
}

fn xor<T: std::ops::BitXor<Output = T>>(left: T, right: T) -> SqlResult<T> {
    Ok(left ^ right)
}

fn gcd(mut left: u64, mut right: u64) -> u64 {
    while right != 0 {
        (left, right) = (right, left % right);
    }
    left
}

fn gcd_i64(left: i64, right: i64) -> SqlResult<i64> {
    i64::try_from(gcd(left.unsigned_abs(), right.unsigned_abs()))
        .map_err(|_| out_of_range("bigint"))
}

fn gcd_i32(left: i32, right: i32) -> SqlResult<i32> {
    let found = gcd_i64(i64::from(left), i64::from(right))?;
    i32::try_from(found).map_err(|_| out_of_range("integer"))
}

fn lcm_i64(left: i64, right: i64) -> SqlResult<i64> {
    if left == 0 || right == 0 {
        return Ok(0);
    }
    let divisor = gcd(left.unsigned_abs(), right.unsigned_abs());
    (left.unsigned_abs() / divisor)
        .checked_mul(right.unsigned_abs())
        .and_then(|product| i64::try_from(product).ok())
        .ok_or_else(|| out_of_range("bigint"))
}

fn lcm_i32(left: i32, right: i32) -> SqlResult<i32> {
    lcm_i64(i64::from(left), i64::from(right))
        .ok()
        .and_then(|product| i32::try_from(product).ok())
        .ok_or_else(|| out_of_range("integer"))
}

macro_rules! shifts {
    ($($left:ident, $right:ident, $get:expr, $wrap:path, $bits:literal;)*) => {
        $(pub(in crate::functions) fn $left(args: &[Datum], _: Context) -> SqlResult<Datum> {
            Ok($wrap($get(&args[0]).wrapping_shl(args[1].as_i32() as u32 & ($bits - 1))))
        }
        pub(in crate::functions) fn $right(args: &[Datum], _: Context) -> SqlResult<Datum> {
            Ok($wrap($get(&args[0]).wrapping_shr(args[1].as_i32() as u32 & ($bits - 1))))
        })*
    };
}

shifts! {
    int4_shift_left, int4_shift_right, Datum::as_i32, Datum::Int4, 32;
    int8_shift_left, int8_shift_right, Datum::as_i64, Datum::Int8, 64;
}

/// C shifts int2 as an int and cuts the result.
pub(in crate::functions) fn int2_shift_left(args: &[Datum], _: Context) -> SqlResult<Datum> {
    Ok(Datum::Int2(i32::from(int2(&args[0])).wrapping_shl(args[1].as_i32() as u32) as i16))
}

pub(in crate::functions) fn int2_shift_right(args: &[Datum], _: Context) -> SqlResult<Datum> {
    Ok(Datum::Int2(i32::from(int2(&args[0])).wrapping_shr(args[1].as_i32() as u32) as i16))
}

pub(in crate::functions) fn not(args: &[Datum], _: Context) -> SqlResult<Datum> {
    Ok(match &args[0] {
        Datum::Int2(value) => Datum::Int2(!value),
        Datum::Int4(value) => Datum::Int4(!value),
        other => Datum::Int8(!other.as_i64()),
    })
}

pub(in crate::functions) fn negate(args: &[Datum], _: Context) -> SqlResult<Datum> {
    match &args[0] {
        Datum::Int2(value) => {
            value.checked_neg().map(Datum::Int2).ok_or_else(|| out_of_range("smallint"))
        }
        Datum::Int4(value) => {
            value.checked_neg().map(Datum::Int4).ok_or_else(|| out_of_range("integer"))
        }
        other => {
            other.as_i64().checked_neg().map(Datum::Int8).ok_or_else(|| out_of_range("bigint"))
        }
    }
}

pub(in crate::functions) fn absolute(args: &[Datum], context: Context) -> SqlResult<Datum> {
    if args[0].as_i64() < 0 { negate(args, context) } else { Ok(args[0].clone()) }
}

/// Unary plus, and casts that change nothing.
pub(in crate::functions) fn same(args: &[Datum], _: Context) -> SqlResult<Datum> {
    Ok(args[0].clone())
}

pub(in crate::functions) fn to_int2(args: &[Datum], _: Context) -> SqlResult<Datum> {
    i16::try_from(args[0].as_i64()).map(Datum::Int2).map_err(|_| out_of_range("smallint"))
}

pub(in crate::functions) fn to_int4(args: &[Datum], _: Context) -> SqlResult<Datum> {
    // An oid keeps its bits.
    if let Datum::Oid(oid) = &args[0] {
        return Ok(Datum::Int4(*oid as i32));
    }
    i32::try_from(args[0].as_i64()).map(Datum::Int4).map_err(|_| out_of_range("integer"))
}

pub(in crate::functions) fn to_int8(args: &[Datum], _: Context) -> SqlResult<Datum> {
    Ok(Datum::Int8(args[0].as_i64()))
}

pub(in crate::functions) fn to_oid(args: &[Datum], _: Context) -> SqlResult<Datum> {
    match &args[0] {
        Datum::Int8(value) => {
            u32::try_from(*value).map(Datum::Oid).map_err(|_| out_of_range("OID"))
        }
        other => Ok(Datum::Oid(other.as_i64() as i32 as u32)),
    }
}

pub(in crate::functions) fn to_numeric(args: &[Datum], _: Context) -> SqlResult<Datum> {
    Ok(Datum::Numeric(Numeric::from(args[0].as_i64())))
}

pub(in crate::functions) fn to_float8(args: &[Datum], _: Context) -> SqlResult<Datum> {
    Ok(Datum::Float8(args[0].as_i64() as f64))
}

pub(in crate::functions) fn to_float4(args: &[Datum], _: Context) -> SqlResult<Datum> {
    Ok(Datum::Float4(args[0].as_i64() as f32))
}

pub(in crate::functions) fn to_bool(args: &[Datum], _: Context) -> SqlResult<Datum> {
    Ok(Datum::Bool(args[0].as_i64() != 0))
}

pub(in crate::functions) fn from_bool(args: &[Datum], _: Context) -> SqlResult<Datum> {
    Ok(Datum::Int4(i32::from(args[0].as_bool())))
}

pub(in crate::functions) fn to_char(args: &[Datum], _: Context) -> SqlResult<Datum> {
    i8::try_from(args[0].as_i64())
        .map(|value| Datum::Char(value as u8))
        .map_err(|_| out_of_range("\"char\""))
}

pub(in crate::functions) fn from_char(args: &[Datum], _: Context) -> SqlResult<Datum> {
    match &args[0] {
        Datum::Char(value) => Ok(Datum::Int4(i32::from(*value as i8))),
        other => Err(SqlError::internal(format!("no \"char\": {other:?}"))),
    }
}

/// `to_hex(x)`.
pub(in crate::functions) fn to_hex(args: &[Datum], _: Context) -> SqlResult<Datum> {
    Ok(Datum::from(match &args[0] {
        Datum::Int4(value) => format!("{value:x}"),
        other => format!("{:x}", other.as_i64()),
    }))
}

/// `factorial(x)`.
pub(in crate::functions) fn factorial(args: &[Datum], context: Context) -> SqlResult<Datum> {
    let n = args[0].as_i64();
    if n < 0 {
        return Err(SqlError::new(
            SqlState::NUMERIC_VALUE_OUT_OF_RANGE,
            "factorial of a negative number is undefined",
        ));
    }
    if n > 32_177 {
        return Err(SqlError::new(
            SqlState::NUMERIC_VALUE_OUT_OF_RANGE,
            "value overflows numeric format",
        ));
    }
    let mut product = Numeric::from(1i64);
    for factor in 2..=n {
        context.check_cancel()?;
        product = product.mul(&Numeric::from(factor))?;
    }
    Ok(product.into())
}
