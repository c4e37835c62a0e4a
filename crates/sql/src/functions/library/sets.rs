//! Set-returning functions.
//!
//! Invariants: rows are made one at a time where their number is not bounded by the arguments'
//! size; overflow at the end of the range ends the series.

use super::datetime::{add_local, add_zoned};
use super::{FunctionContext, SetValues};
use crate::error::{SqlError, SqlResult, SqlState};
use crate::types::{Datum, Interval, Numeric, Record, TypeOid};
use std::cmp::Ordering;
use std::sync::Arc;

type Context<'a> = &'a dyn FunctionContext;

fn zero_step() -> SqlError {
    SqlError::new(SqlState::INVALID_PARAMETER_VALUE, "step size cannot equal zero")
}

fn integers(args: &[Datum], wrap: fn(i64) -> Datum, end: i64) -> SqlResult<SetValues> {
    let (start, stop) = (args[0].as_i64(), args[1].as_i64());
    let step = args.get(2).map_or(1, Datum::as_i64);
    if step == 0 {
        return Err(zero_step());
    }
    let mut next = Some(start);
    Ok(Box::new(std::iter::from_fn(move || {
        let value = next.filter(|value| if step > 0 { *value <= stop } else { *value >= stop })?;
        next = value.checked_add(step).filter(|next| next.unsigned_abs() <= end.unsigned_abs() + 1);
        Some(Ok(wrap(value)))
    })))
}

pub(in crate::functions) fn series_int4(args: &[Datum], _: Context) -> SqlResult<SetValues> {
    integers(args, |value| Datum::Int4(value as i32), i64::from(i32::MAX))
}

pub(in crate::functions) fn series_int8(args: &[Datum], _: Context) -> SqlResult<SetValues> {
    integers(args, Datum::Int8, i64::MAX)
}

pub(in crate::functions) fn series_numeric(args: &[Datum], _: Context) -> SqlResult<SetValues> {
    const NAMES: [&str; 3] = ["start", "stop", "step size"];
    for (value, name) in args.iter().zip(NAMES) {
        let value = value.as_numeric();
        if !value.is_finite() {
            let what = if value.is_nan() { "NaN" } else { "infinity" };
            let noun = if name == "step size" { "" } else { " value" };
            return Err(SqlError::new(
                SqlState::INVALID_PARAMETER_VALUE,
                format!("{name}{noun} cannot be {what}"),
            ));
        }
    }
    let stop = args[1].as_numeric().clone();
    let step = args.get(2).map_or(Numeric::from(1i64), |step| step.as_numeric().clone());
    if step.is_zero() {
        return Err(zero_step());
    }
    let beyond = if step.signum() > 0 { Ordering::Greater } else { Ordering::Less };
    let mut next = Some(args[0].as_numeric().clone());
    Ok(Box::new(std::iter::from_fn(move || {
        let value = next.take().filter(|value| value.cmp(&stop) != beyond)?;
        match value.add(&step) {
            Ok(sum) => next = Some(sum),
            Err(error) => return Some(Err(error)),
        }
        Some(Ok(Datum::Numeric(value)))
    })))
}

fn step_sign(step: &Interval) -> SqlResult<Ordering> {
    match step.span().signum() {
        0 => Err(zero_step()),
        1 => Ok(Ordering::Greater),
        _ => Ok(Ordering::Less),
    }
}

pub(in crate::functions) fn series_timestamp(args: &[Datum], _: Context) -> SqlResult<SetValues> {
    let (start, stop, step) = (args[0].as_micros(), args[1].as_micros(), *args[2].as_interval());
    let beyond = step_sign(&step)?;
    let mut next = Some(start);
    Ok(Box::new(std::iter::from_fn(move || {
        let value = next.take().filter(|value| value.cmp(&stop) != beyond)?;
        match add_local(value, &step) {
            Ok(sum) => next = Some(sum),
            Err(error) => return Some(Err(error)),
        }
        Some(Ok(Datum::Timestamp(value)))
    })))
}

pub(in crate::functions) fn series_timestamptz(
    args: &[Datum],
    context: Context,
) -> SqlResult<SetValues> {
    let (start, stop, step) = (args[0].as_micros(), args[1].as_micros(), *args[2].as_interval());
    let zone = context.time_zone();
    let beyond = step_sign(&step)?;
    let mut next = Some(start);
    Ok(Box::new(std::iter::from_fn(move || {
        let value = next.take().filter(|value| value.cmp(&stop) != beyond)?;
        match add_zoned(value, &step, &zone) {
            Ok(sum) => next = Some(sum),
            Err(error) => return Some(Err(error)),
        }
        Some(Ok(Datum::Timestamptz(value)))
    })))
}

/// `unnest(array)`.
pub(in crate::functions) fn unnest(args: &[Datum], _: Context) -> SqlResult<SetValues> {
    let array = args[0].as_array().clone();
    let count = array.elements.len();
    Ok(Box::new((0..count).map(move |index| Ok(array.elements[index].clone()))))
}

/// `generate_subscripts(array, dimension [, reverse])`.
pub(in crate::functions) fn subscripts(args: &[Datum], _: Context) -> SqlResult<SetValues> {
    let array = args[0].as_array();
    let dimension = usize::try_from(args[1].as_i32())
        .ok()
        .and_then(|n| n.checked_sub(1))
        .and_then(|n| array.dimensions.get(n));
    let Some(dimension) = dimension else { return Ok(Box::new(std::iter::empty())) };
    let (lower, length) = (dimension.lower, dimension.length);
    let reverse = args.get(2).is_some_and(Datum::is_true);
    let at = move |index: i32| if reverse { lower + length - 1 - index } else { lower + index };
    Ok(Box::new((0..length).map(move |index| Ok(Datum::Int4(at(index))))))
}

/// `string_to_table(text, separator [, null])`.
pub(in crate::functions) fn string_to_table(args: &[Datum], _: Context) -> SqlResult<SetValues> {
    if args[0].is_null() {
        return Ok(Box::new(std::iter::empty()));
    }
    Ok(Box::new(super::string::split(args).into_iter().map(Ok)))
}

/// `information_schema._pg_expandarray(array)`: elements with their positions.
pub(in crate::functions) fn expand_array(args: &[Datum], _: Context) -> SqlResult<SetValues> {
    let array = args[0].as_array().clone();
    let element = array.element;
    let count = array.elements.len();
    Ok(Box::new((0..count).map(move |index| {
        let fields = vec![array.elements[index].clone(), Datum::Int4(index as i32 + 1)];
        Ok(Datum::Record(Arc::new(Record { types: vec![element, TypeOid::INT4], fields })))
    })))
}

/// `pg_options_to_table(options)`: `name=value` pairs.
pub(in crate::functions) fn options_to_table(args: &[Datum], _: Context) -> SqlResult<SetValues> {
    let rows: Vec<SqlResult<Datum>> = args[0]
        .as_array()
        .elements
        .iter()
        .filter(|option| !option.is_null())
        .map(|option| {
            let text = option.as_str();
            let fields = match text.split_once('=') {
                Some((name, value)) => vec![name.into(), value.into()],
                None => vec![text.into(), Datum::Null],
            };
            let types = vec![TypeOid::TEXT, TypeOid::TEXT];
            Ok(Datum::Record(Arc::new(Record { types, fields })))
        })
        .collect();
    Ok(Box::new(rows.into_iter()))
}
