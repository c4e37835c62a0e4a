//! float4 and float8: arithmetic with PostgreSQL's overflow errors, and mathematics.
//!
//! Invariants: a finite computation never answers infinity or a denormalised zero silently:
//! 22003 says overflow or underflow.

use super::FunctionContext;
use super::fast::{division_by_zero, out_of_range};
use crate::error::{SqlError, SqlResult, SqlState};
use crate::types::{Datum, Numeric};

type Context<'a> = &'a dyn FunctionContext;

fn value_out_of_range(how: &str) -> SqlError {
    SqlError::new(SqlState::NUMERIC_VALUE_OUT_OF_RANGE, format!("value out of range: {how}"))
}

/// The result in the wider of the two forms, checked.
fn finish(
    args: &[Datum],
    result: f64,
    inputs: &[f64],
    zero_is_underflow: bool,
) -> SqlResult<Datum> {
    let single = args.iter().all(|arg| matches!(arg, Datum::Float4(_)));
    let infinite = if single { (result as f32).is_infinite() } else { result.is_infinite() };
    if infinite && !inputs.iter().any(|input| input.is_infinite()) {
        return Err(value_out_of_range("overflow"));
    }
    let zero = if single { result as f32 == 0.0 } else { result == 0.0 };
    if zero && zero_is_underflow {
        return Err(value_out_of_range("underflow"));
    }
    Ok(if single { Datum::Float4(result as f32) } else { Datum::Float8(result) })
}

fn pair(args: &[Datum]) -> [f64; 2] {
    [args[0].as_f64(), args[1].as_f64()]
}

pub(in crate::functions) fn add(args: &[Datum], _: Context) -> SqlResult<Datum> {
    let inputs @ [left, right] = pair(args);
    finish(args, left + right, &inputs, false)
}

pub(in crate::functions) fn subtract(args: &[Datum], _: Context) -> SqlResult<Datum> {
    let inputs @ [left, right] = pair(args);
    finish(args, left - right, &inputs, false)
}

pub(in crate::functions) fn multiply(args: &[Datum], _: Context) -> SqlResult<Datum> {
    let inputs @ [left, right] = pair(args);
    finish(args, left * right, &inputs, left != 0.0 && right != 0.0)
}

pub(in crate::functions) fn divide(args: &[Datum], _: Context) -> SqlResult<Datum> {
    let inputs @ [left, right] = pair(args);
    if right == 0.0 && !left.is_nan() {
        return Err(division_by_zero());
    }
    finish(args, left / right, &inputs, left != 0.0 && !right.is_infinite())
}

pub(in crate::functions) fn negate(args: &[Datum], _: Context) -> SqlResult<Datum> {
    Ok(map(&args[0], |value| -value))
}

pub(in crate::functions) fn absolute(args: &[Datum], _: Context) -> SqlResult<Datum> {
    Ok(map(&args[0], f64::abs))
}

fn map(value: &Datum, function: impl Fn(f64) -> f64) -> Datum {
    match value {
        Datum::Float4(value) => Datum::Float4(function(f64::from(*value)) as f32),
        other => Datum::Float8(function(other.as_f64())),
    }
}

macro_rules! unary {
    ($($name:ident = $function:expr;)*) => {
        $(pub(in crate::functions) fn $name(args: &[Datum], _: Context) -> SqlResult<Datum> {
            Ok(Datum::Float8($function(args[0].as_f64())))
        })*
    };
}

unary! {
    round = f64::round_ties_even;
    floor = f64::floor;
    ceil = f64::ceil;
    truncate = f64::trunc;
    cbrt = f64::cbrt;
    radians = f64::to_radians;
    atan = f64::atan;
    sinh = f64::sinh;
    cosh = f64::cosh;
    tanh = f64::tanh;
    asinh = f64::asinh;
    sign = |value: f64| if value == 0.0 || value.is_nan() { 0.0 } else { value.signum() };
}

fn input_out_of_range() -> SqlError {
    SqlError::new(SqlState::NUMERIC_VALUE_OUT_OF_RANGE, "input is out of range")
}

macro_rules! bounded {
    ($($name:ident = $function:expr, $allowed:expr;)*) => {
        $(pub(in crate::functions) fn $name(args: &[Datum], _: Context) -> SqlResult<Datum> {
            let value = args[0].as_f64();
            if !value.is_nan() && !$allowed(value) {
                return Err(input_out_of_range());
            }
            Ok(Datum::Float8($function(value)))
        })*
    };
}

bounded! {
    sin = f64::sin, f64::is_finite;
    cos = f64::cos, f64::is_finite;
    tan = f64::tan, f64::is_finite;
    cot = |value: f64| 1.0 / value.tan(), f64::is_finite;
    asin = f64::asin, |value: f64| value.abs() <= 1.0;
    acos = f64::acos, |value: f64| value.abs() <= 1.0;
    acosh = acosh_of, |value: f64| value >= 1.0;
    atanh = f64::atanh, |value: f64| value.abs() <= 1.0;
}

/// The square in the standard library's formula overflows for large values, where it does not matter.
fn acosh_of(value: f64) -> f64 {
    if value > 1e9 { value.ln() + std::f64::consts::LN_2 } else { value.acosh() }
}

/// `degrees(radians)`: divided, not multiplied, as PostgreSQL does it.
pub(in crate::functions) fn degrees(args: &[Datum], _: Context) -> SqlResult<Datum> {
    let value = args[0].as_f64();
    finish(args, value / 1f64.to_radians(), &[value], false)
}

pub(in crate::functions) fn atan2(args: &[Datum], _: Context) -> SqlResult<Datum> {
    let [left, right] = pair(args);
    Ok(Datum::Float8(left.atan2(right)))
}

pub(in crate::functions) fn sqrt(args: &[Datum], _: Context) -> SqlResult<Datum> {
    let value = args[0].as_f64();
    if value < 0.0 {
        return Err(SqlError::new(
            SqlState::INVALID_ARGUMENT_FOR_POWER_FUNCTION,
            "cannot take square root of a negative number",
        ));
    }
    Ok(Datum::Float8(value.sqrt()))
}

pub(in crate::functions) fn exp(args: &[Datum], _: Context) -> SqlResult<Datum> {
    let value = args[0].as_f64();
    let result = value.exp();
    finish(&[Datum::Float8(value)], result, &[value], !value.is_infinite())
}

fn check_logarithm(value: f64) -> SqlResult<()> {
    let what = if value == 0.0 {
        "zero"
    } else if value < 0.0 {
        "a negative number"
    } else {
        return Ok(());
    };
    Err(SqlError::new(
        SqlState::INVALID_ARGUMENT_FOR_LOGARITHM,
        format!("cannot take logarithm of {what}"),
    ))
}

pub(in crate::functions) fn ln(args: &[Datum], _: Context) -> SqlResult<Datum> {
    check_logarithm(args[0].as_f64())?;
    Ok(Datum::Float8(args[0].as_f64().ln()))
}

pub(in crate::functions) fn log10(args: &[Datum], _: Context) -> SqlResult<Datum> {
    check_logarithm(args[0].as_f64())?;
    Ok(Datum::Float8(args[0].as_f64().log10()))
}

pub(in crate::functions) fn power(args: &[Datum], _: Context) -> SqlResult<Datum> {
    let inputs @ [base, exponent] = pair(args);
    let refuse =
        |what: &str| Err(SqlError::new(SqlState::INVALID_ARGUMENT_FOR_POWER_FUNCTION, what));
    if base == 0.0 && exponent < 0.0 {
        return refuse("zero raised to a negative power is undefined");
    }
    if base < 0.0 && exponent.is_finite() && exponent.trunc() != exponent {
        return refuse("a negative number raised to a non-integer power yields a complex result");
    }
    let result = base.powf(exponent);
    if inputs.iter().any(|input| input.is_nan() || input.is_infinite()) {
        return Ok(Datum::Float8(result));
    }
    finish(&[Datum::Float8(0.0)], result, &inputs, base != 0.0)
}

pub(in crate::functions) fn pi(_: &[Datum], _: Context) -> SqlResult<Datum> {
    Ok(Datum::Float8(std::f64::consts::PI))
}

/// 0 <= x < 1 with 53 random bits.
pub(in crate::functions) fn random(_: &[Datum], context: Context) -> SqlResult<Datum> {
    Ok(Datum::Float8((context.random_u64() >> 11) as f64 / (1u64 << 53) as f64))
}

pub(in crate::functions) fn set_seed(args: &[Datum], context: Context) -> SqlResult<Datum> {
    let seed = args[0].as_f64();
    if !(-1.0..=1.0).contains(&seed) {
        return Err(SqlError::new(
            SqlState::INVALID_PARAMETER_VALUE,
            format!("setseed parameter {seed} is out of allowed range [-1,1]"),
        ));
    }
    context.set_seed(seed)?;
    Ok(Datum::text(""))
}

macro_rules! to_integer {
    ($($name:ident: $ty:ty, $wrap:path, $sql:literal, $end:literal;)*) => {
        $(pub(in crate::functions) fn $name(args: &[Datum], _: Context) -> SqlResult<Datum> {
            let rounded = args[0].as_f64().round_ties_even();
            if !(-$end..$end).contains(&rounded) {
                return Err(out_of_range($sql));
            }
            Ok($wrap(rounded as $ty))
        })*
    };
}

to_integer! {
    to_int2: i16, Datum::Int2, "smallint", 32_768.0;
    to_int4: i32, Datum::Int4, "integer", 2_147_483_648.0;
    to_int8: i64, Datum::Int8, "bigint", 9_223_372_036_854_775_808.0;
}

pub(in crate::functions) fn to_float8(args: &[Datum], _: Context) -> SqlResult<Datum> {
    Ok(Datum::Float8(args[0].as_f64()))
}

pub(in crate::functions) fn to_float4(args: &[Datum], _: Context) -> SqlResult<Datum> {
    let value = args[0].as_f64();
    let single = value as f32;
    if single.is_infinite() && value.is_finite() {
        return Err(value_out_of_range("overflow"));
    }
    if single == 0.0 && value != 0.0 {
        return Err(value_out_of_range("underflow"));
    }
    Ok(Datum::Float4(single))
}

pub(in crate::functions) fn to_numeric(args: &[Datum], _: Context) -> SqlResult<Datum> {
    Ok(Datum::Numeric(match &args[0] {
        Datum::Float4(value) => Numeric::from_f32(*value)?,
        other => Numeric::from_f64(other.as_f64())?,
    }))
}

/// `width_bucket(x, low, high, count)`.
pub(in crate::functions) fn width_bucket(args: &[Datum], _: Context) -> SqlResult<Datum> {
    let refuse = |what: &str| Err(SqlError::new(SqlState::INVALID_ARGUMENT_FOR_WIDTH_BUCKET, what));
    let (value, low, high) = (args[0].as_f64(), args[1].as_f64(), args[2].as_f64());
    let count = args[3].as_i32();
    if count <= 0 {
        return refuse("count must be greater than zero");
    }
    if value.is_nan() || low.is_nan() || high.is_nan() {
        return refuse("operand, lower bound, and upper bound cannot be NaN");
    }
    if low.is_infinite() || high.is_infinite() {
        return refuse("lower and upper bounds must be finite");
    }
    if low == high {
        return refuse("lower bound cannot equal upper bound");
    }
    let place = (value - low) / (high - low);
    Ok(Datum::Int4(if place < 0.0 {
        0
    } else if place >= 1.0 {
        fast_next(count)?
    } else {
        (f64::from(count) * place) as i32 + 1
    }))
}

pub(in crate::functions) fn fast_next(count: i32) -> SqlResult<i32> {
    count.checked_add(1).ok_or_else(|| out_of_range("integer"))
}
