//! Order and identity of values in their types' default order, for sorting, grouping and joining.
//!
//! Invariants: agrees with the types' `<` and `=` operators (a test compares them); NULL is not
//! ordered here, the callers place it. [`hash_key`] gives equal bytes exactly for equal values of
//! the given type; integers of different widths give equal bytes when equal. [`order_head`] never
//! contradicts [`compare`]: values with different heads compare as these do.

use crate::functions::fast::{bpchar_compare, float8_compare};
use crate::types::order::unpadded;
use crate::types::{Datum, TypeOid};
use std::cmp::Ordering;
use std::collections::{HashMap, HashSet};

/// Compares two values that are not NULL; of one type, or integers of any widths.
pub fn compare(left: &Datum, right: &Datum, ty: TypeOid) -> Ordering {
    match (left, right) {
        (Datum::Bool(a), Datum::Bool(b)) => a.cmp(b),
        (Datum::Char(a), Datum::Char(b)) => a.cmp(b),
        (Datum::Int4(a), Datum::Int4(b)) => a.cmp(b),
        (Datum::Int8(a), Datum::Int8(b)) => a.cmp(b),
        (
            Datum::Int2(_) | Datum::Int4(_) | Datum::Int8(_) | Datum::Oid(_),
            Datum::Int2(_) | Datum::Int4(_) | Datum::Int8(_) | Datum::Oid(_),
        ) => left.as_i64().cmp(&right.as_i64()),
        (Datum::Float4(_) | Datum::Float8(_), Datum::Float4(_) | Datum::Float8(_)) => {
            float8_compare(left.as_f64(), right.as_f64())
        }
        (Datum::Date(a), Datum::Date(b)) => a.cmp(b),
        (Datum::Time(a), Datum::Time(b)) => a.cmp(b),
        (Datum::Timestamp(a), Datum::Timestamp(b)) => a.cmp(b),
        (Datum::Timestamptz(a), Datum::Timestamptz(b)) => a.cmp(b),
        (Datum::Interval(a), Datum::Interval(b)) => {
            span(a.months, a.days, a.micros).cmp(&span(b.months, b.days, b.micros))
        }
        (Datum::Numeric(a), Datum::Numeric(b)) => a.cmp(b),
        (Datum::Text(a), Datum::Text(b)) if ty == TypeOid::BPCHAR => bpchar_compare(a, b),
        (Datum::Text(a), Datum::Text(b)) => a.as_bytes().cmp(b.as_bytes()),
        (Datum::Bytea(a), Datum::Bytea(b)) => a.cmp(b),
        (Datum::Uuid(a), Datum::Uuid(b)) => a.cmp(b),
        (Datum::Array(a), Datum::Array(b)) => {
            let elements = a.elements.iter().zip(&b.elements);
            let first = elements
                .map(|(a_item, b_item)| compare_nulls_last(a_item, b_item, a.element))
                .find(|order| *order != Ordering::Equal);
            first.unwrap_or_else(|| {
                a.elements.len().cmp(&b.elements.len()).then_with(|| {
                    let shape = |array: &crate::types::Array| -> Vec<(i32, i32)> {
                        array.dimensions.iter().map(|d| (d.length, d.lower)).collect()
                    };
                    shape(a).cmp(&shape(b))
                })
            })
        }
        (Datum::Record(a), Datum::Record(b)) => {
            let fields = a.fields.iter().zip(&b.fields).zip(&a.types);
            let first = fields
                .map(|((a_field, b_field), ty)| compare_nulls_last(a_field, b_field, *ty))
                .find(|order| *order != Ordering::Equal);
            first.unwrap_or_else(|| a.fields.len().cmp(&b.fields.len()))
        }
        _ => rank(left).cmp(&rank(right)),
    }
}

/// A number that orders values of type `ty`, not NULL, as far as eight bytes can: most comparisons
/// of a sort are decided by it, without a look at the values. Zero for all values of types that have
/// none.
pub fn order_head(value: &Datum, ty: TypeOid) -> u64 {
    const SIGN: u64 = 1 << 63;
    let signed = |value: i64| value as u64 ^ SIGN;
    match value {
        Datum::Int2(_) | Datum::Int4(_) | Datum::Int8(_) | Datum::Oid(_) => signed(value.as_i64()),
        Datum::Date(value) => signed(i64::from(*value)),
        Datum::Time(value) | Datum::Timestamp(value) | Datum::Timestamptz(value) => signed(*value),
        Datum::Float4(_) | Datum::Float8(_) => match value.as_f64() {
            value if value.is_nan() => u64::MAX,
            value if value > 0.0 => value.to_bits() | SIGN,
            // Zeros are equal.
            0.0 => SIGN,
            value => !value.to_bits(),
        },
        Datum::Text(text) if ty == TypeOid::BPCHAR => first_bytes(unpadded(text).as_bytes()),
        Datum::Text(text) => first_bytes(text.as_bytes()),
        Datum::Bytea(bytes) => first_bytes(bytes),
        Datum::Uuid(bytes) => first_bytes(&bytes[..]),
        _ => 0,
    }
}

fn first_bytes(bytes: &[u8]) -> u64 {
    let mut first = [0; 8];
    let len = bytes.len().min(8);
    first[..len].copy_from_slice(&bytes[..len]);
    u64::from_be_bytes(first)
}

/// Compares two values with NULLs last.
pub fn compare_nulls_last(left: &Datum, right: &Datum, ty: TypeOid) -> Ordering {
    match (left.is_null(), right.is_null()) {
        (true, true) => Ordering::Equal,
        (true, false) => Ordering::Greater,
        (false, true) => Ordering::Less,
        (false, false) => compare(left, right, ty),
    }
}

/// A month counts as 30 days and a day as 24 hours when intervals are compared.
fn span(months: i32, days: i32, micros: i64) -> i128 {
    let days = i128::from(months) * 30 + i128::from(days);
    days * 86_400_000_000 + i128::from(micros)
}

fn rank(value: &Datum) -> u8 {
    match value {
        Datum::Null => 0,
        Datum::Bool(_) => 1,
        Datum::Numeric(_) => 2,
        Datum::Text(_) => 3,
        _ => 4,
    }
}

/// A set of values by their [`hash_key`]s.
pub type KeySet = HashSet<Vec<u8>, foldhash::fast::RandomState>;

/// A map from values by their [`hash_key`]s.
pub type KeyMap<V> = HashMap<Vec<u8>, V, foldhash::fast::RandomState>;

/// Appends bytes that identify a value of type `ty`: equal for equal values only. NULL has its
/// own.
pub fn hash_key(value: &Datum, ty: TypeOid, out: &mut Vec<u8>) {
    let fixed = |out: &mut Vec<u8>, tag: u8, value: i64| {
        out.push(tag);
        out.extend_from_slice(&value.to_le_bytes());
    };
    match value {
        Datum::Null => out.push(0),
        Datum::Bool(value) => fixed(out, 1, i64::from(*value)),
        Datum::Char(value) => fixed(out, 1, i64::from(*value)),
        Datum::Int2(_) | Datum::Int4(_) | Datum::Int8(_) | Datum::Oid(_) => {
            fixed(out, 2, value.as_i64());
        }
        Datum::Float4(_) | Datum::Float8(_) => {
            let value = value.as_f64();
            // Zeros are equal, and so are all NaNs.
            let value = if value == 0.0 {
                0.0
            } else if value.is_nan() {
                f64::NAN
            } else {
                value
            };
            fixed(out, 3, value.to_bits() as i64);
        }
        Datum::Date(value) => fixed(out, 4, i64::from(*value)),
        Datum::Time(value) | Datum::Timestamp(value) | Datum::Timestamptz(value) => {
            fixed(out, 5, *value);
        }
        Datum::Interval(value) => {
            out.push(6);
            out.extend_from_slice(&span(value.months, value.days, value.micros).to_le_bytes());
        }
        Datum::Numeric(value) => {
            out.push(7);
            let start = out.len();
            out.extend_from_slice(&[0; 4]);
            value.encode_ordered(out);
            // The display scale at the end takes no part in equality.
            out.truncate(out.len() - 2);
            let length = (out.len() - start - 4) as u32;
            out[start..start + 4].copy_from_slice(&length.to_le_bytes());
        }
        Datum::Text(text) => {
            let text = if ty == TypeOid::BPCHAR { unpadded(text) } else { text };
            bytes(out, 8, text.as_bytes());
        }
        Datum::Bytea(value) => bytes(out, 9, value),
        Datum::Uuid(value) => bytes(out, 10, &value[..]),
        Datum::Array(array) => {
            out.push(11);
            out.extend_from_slice(&(array.dimensions.len() as u32).to_le_bytes());
            for dimension in &array.dimensions {
                out.extend_from_slice(&dimension.length.to_le_bytes());
                out.extend_from_slice(&dimension.lower.to_le_bytes());
            }
            array.elements.iter().for_each(|element| hash_key(element, array.element, out));
        }
        Datum::Record(record) => {
            out.push(12);
            out.extend_from_slice(&(record.fields.len() as u32).to_le_bytes());
            for (field, ty) in record.fields.iter().zip(&record.types) {
                hash_key(field, *ty, out);
            }
        }
    }
}

fn bytes(out: &mut Vec<u8>, tag: u8, value: &[u8]) {
    out.push(tag);
    out.extend_from_slice(&(value.len() as u32).to_le_bytes());
    out.extend_from_slice(value);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::types::{Array, Interval};

    fn key(value: &Datum, ty: TypeOid) -> Vec<u8> {
        let mut out = Vec::new();
        hash_key(value, ty, &mut out);
        out
    }

    #[track_caller]
    fn check(left: Datum, right: Datum, ty: TypeOid, expect: Ordering) {
        assert_eq!(compare(&left, &right, ty), expect, "{left:?} {right:?}");
        assert_eq!(compare(&right, &left, ty), expect.reverse(), "{left:?} {right:?}");
        assert_eq!(key(&left, ty) == key(&right, ty), expect == Ordering::Equal);
        let heads = order_head(&left, ty).cmp(&order_head(&right, ty));
        assert!(heads == Ordering::Equal || heads == expect, "{left:?} {right:?}");
    }

    #[test]
    fn order_and_identity_agree() {
        use Ordering::{Equal, Less};
        check(Datum::Int4(3), Datum::Int8(3), TypeOid::INT8, Equal);
        check(Datum::Int2(-1), Datum::Int8(3), TypeOid::INT8, Less);
        check(Datum::Float8(0.0), Datum::Float8(-0.0), TypeOid::FLOAT8, Equal);
        check(Datum::Float8(1e300), Datum::Float8(f64::NAN), TypeOid::FLOAT8, Less);
        check(Datum::Float8(f64::INFINITY), Datum::Float8(f64::NAN), TypeOid::FLOAT8, Less);
        check(Datum::Float8(-2.5), Datum::Float8(-1e-300), TypeOid::FLOAT8, Less);
        check(Datum::Float8(-1e-300), Datum::Float8(0.0), TypeOid::FLOAT8, Less);
        check(Datum::Float8(-0.0), Datum::Float8(1e-300), TypeOid::FLOAT8, Less);
        check(Datum::Int8(i64::MIN), Datum::Int8(i64::MAX), TypeOid::INT8, Less);
        check(Datum::Date(-1), Datum::Date(0), TypeOid::DATE, Less);
        check(Datum::text("a  "), Datum::text("a"), TypeOid::BPCHAR, Equal);
        check(Datum::text("a"), Datum::text("a  "), TypeOid::TEXT, Less);
        check(Datum::text("Z"), Datum::text("a"), TypeOid::TEXT, Less);
        check(Datum::text("the same 1"), Datum::text("the same 2"), TypeOid::TEXT, Less);
        check(Datum::text("a"), Datum::text("a\u{1}"), TypeOid::BPCHAR, Less);
        check(Datum::text("a       z"), Datum::text("a"), TypeOid::BPCHAR, Ordering::Greater);
        let day = Interval { months: 0, days: 30, micros: 0 };
        let month = Interval { months: 1, days: 0, micros: 0 };
        check(day.into(), month.into(), TypeOid::INTERVAL, Equal);
        let array = |items: &[i32]| -> Datum {
            Array::of(TypeOid::INT4, items.iter().map(|i| Datum::Int4(*i)).collect()).into()
        };
        check(array(&[1, 2]), array(&[1, 3]), TypeOid::INT4_ARRAY, Less);
        check(array(&[1]), array(&[1, 3]), TypeOid::INT4_ARRAY, Less);
        check(array(&[1]), array(&[1]), TypeOid::INT4_ARRAY, Equal);
    }
}
