//! Functions and operators of numeric, over [`Numeric`].

use super::FunctionContext;
use super::fast::out_of_range;
use crate::error::{SqlError, SqlResult, SqlState};
use crate::types::{Datum, Numeric};

type Context<'a> = &'a dyn FunctionContext;

macro_rules! binary {
    ($($name:ident = $method:ident;)*) => {
        $(pub(in crate::functions) fn $name(args: &[Datum], _: Context) -> SqlResult<Datum> {
            Ok(Datum::Numeric(args[0].as_numeric().$method(args[1].as_numeric())?))
        })*
    };
}

binary! {
    add = add;
    subtract = sub;
    multiply = mul;
    divide = div;
    modulo = rem;
    divide_whole = div_trunc;
    power = power;
}

/// `log(base, x)`.
pub(in crate::functions) fn log_base(args: &[Datum], _: Context) -> SqlResult<Datum> {
    Ok(args[1].as_numeric().log(args[0].as_numeric())?.into())
}

/// `log(x)`: base 10.
pub(in crate::functions) fn log10(args: &[Datum], _: Context) -> SqlResult<Datum> {
    Ok(args[0].as_numeric().log(&Numeric::from(10i64))?.into())
}

macro_rules! unary {
    ($($name:ident = $method:ident;)*) => {
        $(pub(in crate::functions) fn $name(args: &[Datum], _: Context) -> SqlResult<Datum> {
            Ok(Datum::Numeric(args[0].as_numeric().$method()?))
        })*
    };
}

unary! {
    sqrt = sqrt;
    exp = exp;
    ln = ln;
    floor = floor;
    ceil = ceil;
}

pub(in crate::functions) fn negate(args: &[Datum], _: Context) -> SqlResult<Datum> {
    Ok(args[0].as_numeric().neg().into())
}

pub(in crate::functions) fn absolute(args: &[Datum], _: Context) -> SqlResult<Datum> {
    Ok(args[0].as_numeric().abs().into())
}

pub(in crate::functions) fn sign(args: &[Datum], _: Context) -> SqlResult<Datum> {
    let value = args[0].as_numeric();
    Ok(if value.is_nan() { Numeric::NAN } else { Numeric::from(i64::from(value.signum())) }.into())
}

pub(in crate::functions) fn round(args: &[Datum], _: Context) -> SqlResult<Datum> {
    Ok(args[0].as_numeric().round(args.get(1).map_or(0, Datum::as_i32))?.into())
}

pub(in crate::functions) fn truncate(args: &[Datum], _: Context) -> SqlResult<Datum> {
    Ok(args[0].as_numeric().truncate(args.get(1).map_or(0, Datum::as_i32))?.into())
}

pub(in crate::functions) fn trim_scale(args: &[Datum], _: Context) -> SqlResult<Datum> {
    Ok(args[0].as_numeric().trim_scale().into())
}

pub(in crate::functions) fn scale(args: &[Datum], _: Context) -> SqlResult<Datum> {
    let value = args[0].as_numeric();
    Ok(value.is_finite().then(|| i32::from(value.scale())).into())
}

pub(in crate::functions) fn min_scale(args: &[Datum], _: Context) -> SqlResult<Datum> {
    let value = args[0].as_numeric();
    Ok(value.is_finite().then(|| i32::from(value.min_scale())).into())
}

pub(in crate::functions) fn gcd(args: &[Datum], _: Context) -> SqlResult<Datum> {
    let (mut left, mut right) = (args[0].as_numeric().clone(), args[1].as_numeric().clone());
    if !left.is_finite() || !right.is_finite() {
        return Ok(Numeric::NAN.into());
    }
    let scale = left.scale().max(right.scale());
    while !right.is_zero() {
        (left, right) = (right.clone(), left.rem(&right)?);
    }
    Ok(left.abs().round(i32::from(scale))?.into())
}

pub(in crate::functions) fn lcm(args: &[Datum], context: Context) -> SqlResult<Datum> {
    let (left, right) = (args[0].as_numeric(), args[1].as_numeric());
    if !left.is_finite() || !right.is_finite() {
        return Ok(Numeric::NAN.into());
    }
    let scale = i32::from(left.scale().max(right.scale()));
    if left.is_zero() || right.is_zero() {
        return Ok(Numeric::ZERO.round(scale)?.into());
    }
    let divisor = gcd(args, context)?;
    Ok(left.div_trunc(divisor.as_numeric())?.mul(right)?.abs().round(scale)?.into())
}

pub(in crate::functions) fn to_int2(args: &[Datum], _: Context) -> SqlResult<Datum> {
    let wide = args[0].as_numeric().to_i64("smallint")?;
    i16::try_from(wide).map(Datum::Int2).map_err(|_| out_of_range("smallint"))
}

pub(in crate::functions) fn to_int4(args: &[Datum], _: Context) -> SqlResult<Datum> {
    let wide = args[0].as_numeric().to_i64("integer")?;
    i32::try_from(wide).map(Datum::Int4).map_err(|_| out_of_range("integer"))
}

pub(in crate::functions) fn to_int8(args: &[Datum], _: Context) -> SqlResult<Datum> {
    Ok(Datum::Int8(args[0].as_numeric().to_i64("bigint")?))
}

pub(in crate::functions) fn to_float8(args: &[Datum], _: Context) -> SqlResult<Datum> {
    Ok(Datum::Float8(args[0].as_numeric().to_f64()?))
}

pub(in crate::functions) fn to_float4(args: &[Datum], _: Context) -> SqlResult<Datum> {
    let value = args[0].as_numeric();
    if !value.is_finite() {
        return Ok(Datum::Float4(value.to_f64_lossy() as f32));
    }
    crate::types::text::input(
        crate::types::TypeOid::FLOAT4.into(),
        &value.to_string(),
        &super::ConstantContext,
    )
}

/// `width_bucket(x, low, high, count)`.
pub(in crate::functions) fn width_bucket(args: &[Datum], _: Context) -> SqlResult<Datum> {
    let refuse = |what: &str| Err(SqlError::new(SqlState::INVALID_ARGUMENT_FOR_WIDTH_BUCKET, what));
    let (value, low, high) = (args[0].as_numeric(), args[1].as_numeric(), args[2].as_numeric());
    let count = args[3].as_i32();
    if count <= 0 {
        return refuse("count must be greater than zero");
    }
    if value.is_nan() || low.is_nan() || high.is_nan() {
        return refuse("operand, lower bound, and upper bound cannot be NaN");
    }
    if !low.is_finite() || !high.is_finite() {
        return refuse("lower and upper bounds must be finite");
    }
    let ascending = match low.cmp(high) {
        std::cmp::Ordering::Equal => return refuse("lower bound cannot equal upper bound"),
        ordering => ordering == std::cmp::Ordering::Less,
    };
    let (before, beyond) =
        if ascending { (value < low, value >= high) } else { (value > low, value <= high) };
    if before {
        return Ok(Datum::Int4(0));
    }
    if beyond {
        return Ok(Datum::Int4(super::float::fast_next(count)?));
    }
    let place = value.sub(low)?.mul(&Numeric::from(i64::from(count)))?;
    let bucket = place.div_trunc(&high.sub(low)?)?.to_i64("integer")?;
    Ok(Datum::Int4(bucket as i32 + 1))
}
