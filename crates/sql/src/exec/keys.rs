//! Index keys from programs' values.
//!
//! Invariants: a value that the column's type cannot hold matches nothing; a NULL matches
//! nothing. The answer says so instead of a key. An end of a range that no stored number equals
//! (of more digits than the column has) is the next lower one: what is below the end is at or
//! below it, what is above the end is above it.

use super::{Cx, Encoder};
use crate::error::SqlResult;
use crate::functions::{CastContext, apply_typmod};
use crate::plan::node::{KeyValue, RangeEnd};
use crate::types::order::unpadded;
use crate::types::typmod::numeric_parts;
use crate::types::{Among, Datum, Type, TypeOid, storage};
use atoll_kernel::api::{ColumnType, IndexEntry, KeyBytes, KeyRange};
use std::ops::Bound;

/// A value as the column stores it.
pub(super) enum Fitted {
    /// It fits.
    Value(Datum),
    /// NULL: nothing compares with it.
    Null,
    /// Below every value of the column's type.
    Below,
    /// Above every value of the column's type.
    Above,
    /// Equal to no value, and neither below nor above all.
    Nothing,
    /// Equal to no value; the next lower one.
    After(Datum),
}

/// The value of one column of a key.
pub(super) fn fitted(key: &KeyValue, cx: &mut Cx<'_, '_>) -> SqlResult<Fitted> {
    let value = key.program.eval(cx)?;
    fit(value, key.ty)
}

/// The same for a column of this physical type.
fn fitted_as(physical: ColumnType, key: &KeyValue, cx: &mut Cx<'_, '_>) -> SqlResult<Fitted> {
    let value = key.program.eval(cx)?;
    fit_as(physical, value, key.ty)
}

fn fit_as(physical: ColumnType, value: Datum, ty: Type) -> SqlResult<Fitted> {
    match (fit(value, ty)?, physical) {
        (Fitted::Value(Datum::Numeric(number)), ColumnType::Int8) => {
            let (_, scale) = numeric_parts(ty.typmod);
            Ok(match number.among_scaled(scale) {
                Among::One(number) => Fitted::Value(Datum::Numeric(number)),
                Among::After(lower) => Fitted::After(Datum::Numeric(lower)),
                Among::Below => Fitted::Below,
            })
        }
        (fitted, _) => Ok(fitted),
    }
}

fn fit(value: Datum, ty: Type) -> SqlResult<Fitted> {
    let out_of_range = |value: i64| if value < 0 { Fitted::Below } else { Fitted::Above };
    Ok(match (ty.oid, value) {
        (_, Datum::Null) => Fitted::Null,
        (TypeOid::INT4, value @ Datum::Int4(_)) | (TypeOid::INT8, value @ Datum::Int8(_)) => {
            Fitted::Value(value)
        }
        (TypeOid::INT2, value @ (Datum::Int2(_) | Datum::Int4(_) | Datum::Int8(_))) => {
            let value = value.as_i64();
            i16::try_from(value).map_or(out_of_range(value), |v| Fitted::Value(Datum::Int2(v)))
        }
        (TypeOid::INT4, value @ (Datum::Int2(_) | Datum::Int8(_))) => {
            let value = value.as_i64();
            i32::try_from(value).map_or(out_of_range(value), |v| Fitted::Value(Datum::Int4(v)))
        }
        (TypeOid::INT8, value @ (Datum::Int2(_) | Datum::Int4(_))) => {
            Fitted::Value(Datum::Int8(value.as_i64()))
        }
        (TypeOid::BPCHAR, Datum::Text(text)) => {
            // Stored values are padded to the column's length.
            let trimmed = unpadded(&text);
            let room = ty.typmod - 4;
            if ty.typmod >= 4 && trimmed.chars().count() > room as usize {
                return Ok(Fitted::Nothing);
            }
            Fitted::Value(apply_typmod(Datum::text(trimmed), ty, CastContext::Explicit)?)
        }
        (_, value) => Fitted::Value(value),
    })
}

/// The key of equal values, the whole or its first columns, into `key`; false if nothing can match. With `last`, of one
/// more value for the column behind them, which has this type.
#[inline]
pub(super) fn point(
    index: &IndexEntry,
    values: &[KeyValue],
    last: Option<(Datum, Type)>,
    key: &mut KeyBytes,
    cx: &mut Cx<'_, '_>,
) -> SqlResult<bool> {
    let mut encoder = std::mem::take(&mut cx.encoder);
    encoder.clear();
    let complete = encode(index, values, last, &mut encoder, cx);
    if complete == Ok(true) {
        encoder.with_values(|values| key.set(index, values));
    }
    cx.encoder = encoder;
    complete
}

#[inline]
fn encode(
    index: &IndexEntry,
    values: &[KeyValue],
    last: Option<(Datum, Type)>,
    encoder: &mut Encoder,
    cx: &mut Cx<'_, '_>,
) -> SqlResult<bool> {
    for (value, part) in values.iter().zip(&index.key) {
        let Fitted::Value(datum) = fitted_as(part.column, value, cx)? else { return Ok(false) };
        encoder.push(part.column, &datum)?;
    }
    if let (Some((value, ty)), Some(part)) = (last, index.key.get(values.len())) {
        let Fitted::Value(datum) = fit_as(part.column, value, ty)? else { return Ok(false) };
        encoder.push(part.column, &datum)?;
    }
    Ok(true)
}

/// The range of keys that begin with the prefix and go on within the ends; None if it is empty.
pub(super) fn range(
    index: &IndexEntry,
    prefix: &[KeyValue],
    low: Option<&RangeEnd>,
    high: Option<&RangeEnd>,
    cx: &mut Cx<'_, '_>,
) -> SqlResult<Option<KeyRange>> {
    if low.is_none() && high.is_none() {
        if prefix.is_empty() {
            return Ok(Some(KeyRange::all()));
        }
        let mut key = KeyBytes::default();
        return Ok(point(index, prefix, None, &mut key, cx)?.then(|| KeyRange::prefix(key)));
    }
    let mut bytes: Vec<Vec<u8>> = Vec::with_capacity(prefix.len() + 1);
    for (value, part) in prefix.iter().zip(&index.key) {
        match fitted_as(part.column, value, cx)? {
            Fitted::Value(datum) => bytes.push(stored(part.column, &datum)?),
            _ => return Ok(None),
        }
    }
    let key = |last: Option<&[u8]>| {
        let values = bytes.iter().map(|value| Some(value.as_slice()));
        let values: Vec<Option<&[u8]>> = values.chain(last.map(Some)).collect();
        KeyBytes::encode(index, &values)
    };
    let whole = || if bytes.is_empty() { Bound::Unbounded } else { Bound::Included(key(None)) };
    let descending = index
        .def
        .columns
        .get(prefix.len())
        .is_some_and(|part| part.direction == atoll_kernel::api::Direction::Descending);
    let physical = index.key[prefix.len()].column;
    let low = match end(low, physical, End::Low, cx)? {
        Some(end) => end,
        None => return Ok(None),
    };
    let high = match end(high, physical, End::High, cx)? {
        Some(end) => end,
        None => return Ok(None),
    };
    let bound = |end: &Option<(Vec<u8>, bool)>| match end {
        Some((value, true)) => Bound::Included(key(Some(value))),
        Some((value, false)) => Bound::Excluded(key(Some(value))),
        // NULL compares with nothing, whatever the ends are.
        None => null_bound(index, prefix.len(), &bytes),
    };
    let (first, last) = if descending { (&high, &low) } else { (&low, &high) };
    let nulls_first = index
        .def
        .columns
        .get(prefix.len())
        .is_some_and(|part| part.nulls == atoll_kernel::api::Nulls::First);
    let from = match first {
        None if !nulls_first => whole(),
        other => bound(other),
    };
    let to = match last {
        None if nulls_first => whole(),
        other => bound(other),
    };
    Ok(Some(KeyRange { from, to }))
}

/// All keys whose column after the prefix is NULL are left out.
fn null_bound(index: &IndexEntry, at: usize, prefix: &[Vec<u8>]) -> Bound<KeyBytes> {
    let values = prefix.iter().map(|value| Some(value.as_slice()));
    let values: Vec<Option<&[u8]>> = values.chain([None]).collect();
    debug_assert_eq!(values.len(), at + 1);
    Bound::Excluded(KeyBytes::encode(index, &values))
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum End {
    Low,
    High,
}

/// One end's value and whether it is included; the outer None says that nothing matches.
#[expect(clippy::type_complexity, reason = "no rows, no bound, or a bound")]
fn end(
    end: Option<&RangeEnd>,
    physical: ColumnType,
    which: End,
    cx: &mut Cx<'_, '_>,
) -> SqlResult<Option<Option<(Vec<u8>, bool)>>> {
    let Some(end) = end else { return Ok(Some(None)) };
    Ok(match (fitted_as(physical, &end.value, cx)?, which) {
        (Fitted::Value(datum), _) => Some(Some((stored(physical, &datum)?, end.inclusive))),
        (Fitted::After(lower), _) => Some(Some((stored(physical, &lower)?, which == End::High))),
        (Fitted::Below, End::Low) | (Fitted::Above, End::High) => Some(None),
        _ => None,
    })
}

fn stored(physical: ColumnType, value: &Datum) -> SqlResult<Vec<u8>> {
    let mut bytes = Vec::new();
    storage::encode(physical, value, &mut bytes)?;
    Ok(bytes)
}
