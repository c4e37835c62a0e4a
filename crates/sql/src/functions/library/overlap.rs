//! OVERLAPS of two stretches of time, each given by two ends or by an end and a length.
//!
//! Invariants: as the standard has it with NULLs: an end may be unknown, and the answer is unknown
//! only if it depends on it; ends may come in either order.

use super::FunctionContext;
use super::datetime::{add_local, add_zoned};
use crate::error::SqlResult;
use crate::types::Datum;

type Context<'a> = &'a dyn FunctionContext;
type Ends = (i64, Option<i64>);

/// The second end, where a length stands in its place.
fn end_of(start: &Datum, end: &Datum, context: Context) -> SqlResult<Datum> {
    Ok(match (start, end) {
        (Datum::Null, Datum::Interval(_)) => Datum::Null,
        (Datum::Timestamp(start), Datum::Interval(length)) => {
            Datum::Timestamp(add_local(*start, length)?)
        }
        (start, Datum::Interval(length)) => {
            Datum::Timestamptz(add_zoned(start.as_micros(), length, &context.time_zone())?)
        }
        (_, end) => end.clone(),
    })
}

/// The known end, or the earlier one, first; nothing if both are unknown.
fn ordered(start: &Datum, end: &Datum) -> Option<Ends> {
    let micros = |value: &Datum| (!value.is_null()).then(|| value.as_micros());
    match (micros(start), micros(end)) {
        (None, None) => None,
        (Some(known), None) | (None, Some(known)) => Some((known, None)),
        (Some(start), Some(end)) => Some((start.min(end), Some(start.max(end)))),
    }
}

/// Given that `earlier` begins first: does `later` begin before it ends?
fn reaches(earlier: Ends, later: Ends) -> Option<bool> {
    match earlier.1 {
        None => None,
        Some(end) if later.0 < end => Some(true),
        Some(_) => later.1.map(|_| false),
    }
}

/// `(start, end) OVERLAPS (start, end)`.
pub(in crate::functions) fn overlaps(args: &[Datum], context: Context) -> SqlResult<Datum> {
    let first = ordered(&args[0], &end_of(&args[0], &args[1], context)?);
    let second = ordered(&args[2], &end_of(&args[2], &args[3], context)?);
    let (Some(first), Some(second)) = (first, second) else { return Ok(Datum::Null) };
    Ok(match first.0.cmp(&second.0) {
        std::cmp::Ordering::Greater => reaches(second, first),
        std::cmp::Ordering::Less => reaches(first, second),
        std::cmp::Ordering::Equal => first.1.and(second.1).map(|_| true),
    }
    .into())
}
