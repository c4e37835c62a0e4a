//! Comparison operators, over the default order of the forms.
//!
//! Invariants: arguments are not NULL; both sides have forms that [`order::compare`] accepts.

use super::FunctionContext;
use super::fast::bpchar_compare;
use crate::error::SqlResult;
use crate::types::datetime::{DAY, TimeZone, is_finite_date, local_to_utc};
use crate::types::{Datum, order};
use std::cmp::Ordering;

type Context<'a> = &'a dyn FunctionContext;

macro_rules! six {
    ($compare:path, $eq:ident, $ne:ident, $lt:ident, $le:ident, $gt:ident, $ge:ident) => {
        pub(in crate::functions) fn $eq(args: &[Datum], context: Context) -> SqlResult<Datum> {
            Ok(Datum::Bool($compare(args, context)? == Ordering::Equal))
        }
        pub(in crate::functions) fn $ne(args: &[Datum], context: Context) -> SqlResult<Datum> {
            Ok(Datum::Bool($compare(args, context)? != Ordering::Equal))
        }
        pub(in crate::functions) fn $lt(args: &[Datum], context: Context) -> SqlResult<Datum> {
            Ok(Datum::Bool($compare(args, context)? == Ordering::Less))
        }
        pub(in crate::functions) fn $le(args: &[Datum], context: Context) -> SqlResult<Datum> {
            Ok(Datum::Bool($compare(args, context)? != Ordering::Greater))
        }
        pub(in crate::functions) fn $gt(args: &[Datum], context: Context) -> SqlResult<Datum> {
            Ok(Datum::Bool($compare(args, context)? == Ordering::Greater))
        }
        pub(in crate::functions) fn $ge(args: &[Datum], context: Context) -> SqlResult<Datum> {
            Ok(Datum::Bool($compare(args, context)? != Ordering::Less))
        }
    };
}

fn plain(args: &[Datum], _context: Context) -> SqlResult<Ordering> {
    Ok(order::compare(&args[0], &args[1]))
}

fn bpchar(args: &[Datum], _context: Context) -> SqlResult<Ordering> {
    Ok(bpchar_compare(args[0].as_str(), args[1].as_str()))
}

/// date against timestamp, both as local time.
fn local(args: &[Datum], _context: Context) -> SqlResult<Ordering> {
    Ok(as_local(&args[0]).cmp(&as_local(&args[1])))
}

/// A date or timestamp as wide microseconds; dates beyond the timestamps' range stay ordered.
fn as_local(value: &Datum) -> i128 {
    match value {
        Datum::Date(days) if !is_finite_date(*days) => {
            if *days > 0 {
                i128::from(i64::MAX)
            } else {
                i128::from(i64::MIN)
            }
        }
        Datum::Date(days) => i128::from(*days) * i128::from(DAY),
        other => i128::from(other.as_micros()),
    }
}

/// date or timestamp against timestamptz, in the session's zone.
fn zoned(args: &[Datum], context: Context) -> SqlResult<Ordering> {
    let zone = context.time_zone();
    Ok(as_utc(&args[0], &zone).cmp(&as_utc(&args[1], &zone)))
}

fn as_utc(value: &Datum, zone: &TimeZone) -> i128 {
    if let Datum::Timestamptz(utc) = value {
        return i128::from(*utc);
    }
    let local = as_local(value);
    match i64::try_from(local).map(|micros| local_to_utc(micros, zone)) {
        Ok(Ok(utc)) => i128::from(utc),
        _ => local,
    }
}

six!(plain, eq, ne, lt, le, gt, ge);
six!(bpchar, bpchar_eq, bpchar_ne, bpchar_lt, bpchar_le, bpchar_gt, bpchar_ge);
six!(local, local_eq, local_ne, local_lt, local_le, local_gt, local_ge);
six!(zoned, zoned_eq, zoned_ne, zoned_lt, zoned_le, zoned_gt, zoned_ge);
