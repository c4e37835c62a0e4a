//! The default order and hash of values of one form: what sorting, DISTINCT, hash joins and
//! grouping use without going through operators.
//!
//! Invariants: agrees with the `<` and `=` operators of the type; values of different forms are
//! never compared (the binder coerces first), except integers among themselves. NULLs are the
//! caller's. Text compares bytewise (collation "C").

use super::{Datum, TypeOid};
use crate::functions::fast::{bpchar_compare, float8_compare};
use std::cmp::Ordering;
use std::hash::{Hash, Hasher};

/// Compares two values of a type.
pub type Comparator = fn(&Datum, &Datum) -> Ordering;

/// How values of a type are ordered; None for types without a default order.
pub fn comparator(ty: TypeOid) -> Option<Comparator> {
    Some(match ty {
        TypeOid::BPCHAR => |a, b| bpchar_compare(a.as_str(), b.as_str()),
        TypeOid::XID | TypeOid::CID | TypeOid::ACLITEM | TypeOid::PG_NODE_TREE => return None,
        TypeOid::UNKNOWN => compare,
        other if other.category() == super::Category::Pseudo && other != TypeOid::RECORD => {
            return None;
        }
        _ => compare,
    })
}

/// A bpchar without the blanks at its end, which do not count.
///
/// They are looked at eight at a time: a value is padded to its column's length.
#[inline]
pub fn unpadded(text: &str) -> &str {
    const BLANKS: &[u8; 8] = b"        ";
    let mut rest = text.as_bytes();
    while let Some((head, BLANKS)) = rest.split_last_chunk() {
        rest = head;
    }
    while let Some((b' ', head)) = rest.split_last() {
        rest = head;
    }
    // A blank is no part of another character.
    &text[..rest.len()]
}

/// Compares two values that are not NULL, of any type but bpchar.
#[inline]
pub fn compare(left: &Datum, right: &Datum) -> Ordering {
    match (left, right) {
        (Datum::Int4(a), Datum::Int4(b)) => a.cmp(b),
        (Datum::Int8(a), Datum::Int8(b)) => a.cmp(b),
        (Datum::Text(a), Datum::Text(b)) => a.as_bytes().cmp(b.as_bytes()),
        _ => compare_other(left, right),
    }
}

fn compare_other(left: &Datum, right: &Datum) -> Ordering {
    match (left, right) {
        (Datum::Bool(a), Datum::Bool(b)) => a.cmp(b),
        (Datum::Char(a), Datum::Char(b)) => a.cmp(b),
        (Datum::Float4(_) | Datum::Float8(_), _) => float8_compare(left.as_f64(), right.as_f64()),
        (Datum::Numeric(a), Datum::Numeric(b)) => a.cmp(b),
        (Datum::Date(a), Datum::Date(b)) => a.cmp(b),
        (Datum::Time(a), Datum::Time(b))
        | (Datum::Timestamp(a), Datum::Timestamp(b))
        | (Datum::Timestamptz(a), Datum::Timestamptz(b)) => a.cmp(b),
        (Datum::Interval(a), Datum::Interval(b)) => a.cmp(b),
        (Datum::Bytea(a), Datum::Bytea(b)) => a.cmp(b),
        (Datum::Uuid(a), Datum::Uuid(b)) => a.cmp(b),
        (Datum::Array(a), Datum::Array(b)) => {
            let order = comparator(a.element).unwrap_or(compare);
            let elements = compare_lists(&a.elements, &b.elements, |_| order);
            let dimensions = || a.dimensions.len().cmp(&b.dimensions.len());
            let bounds = || {
                let key = |d: &super::Dimension| (d.length, d.lower);
                a.dimensions.iter().map(key).cmp(b.dimensions.iter().map(key))
            };
            elements.then_with(dimensions).then_with(bounds)
        }
        (Datum::Record(a), Datum::Record(b)) => compare_lists(&a.fields, &b.fields, |index| {
            a.types.get(index).and_then(|ty| comparator(*ty)).unwrap_or(compare)
        }),
        (Datum::Null, Datum::Null) => Ordering::Equal,
        (Datum::Null, _) => Ordering::Greater,
        (_, Datum::Null) => Ordering::Less,
        _ => left.as_i64().cmp(&right.as_i64()),
    }
}

/// Element by element, NULL above everything; then the shorter first.
fn compare_lists(left: &[Datum], right: &[Datum], order: impl Fn(usize) -> Comparator) -> Ordering {
    for (index, (a, b)) in left.iter().zip(right).enumerate() {
        let ordering = match (a.is_null(), b.is_null()) {
            (true, true) => Ordering::Equal,
            (true, false) => Ordering::Greater,
            (false, true) => Ordering::Less,
            (false, false) => order(index)(a, b),
        };
        if ordering != Ordering::Equal {
            return ordering;
        }
    }
    left.len().cmp(&right.len())
}

/// Feeds a value to a hasher such that equal values of the type feed the same.
pub fn hash<H: Hasher>(ty: TypeOid, value: &Datum, state: &mut H) {
    match value {
        Datum::Null => state.write_u8(0),
        Datum::Bool(value) => value.hash(state),
        Datum::Char(value) => value.hash(state),
        Datum::Int2(_) | Datum::Int4(_) | Datum::Int8(_) | Datum::Oid(_) => {
            value.as_i64().hash(state);
        }
        Datum::Float4(_) | Datum::Float8(_) => {
            let number = value.as_f64();
            let canonical = if number.is_nan() { f64::NAN } else { number + 0.0 };
            canonical.to_bits().hash(state);
        }
        Datum::Numeric(value) => value.hash(state),
        Datum::Date(value) => value.hash(state),
        Datum::Time(value) | Datum::Timestamp(value) | Datum::Timestamptz(value) => {
            value.hash(state);
        }
        Datum::Interval(value) => value.span().hash(state),
        Datum::Text(value) if ty == TypeOid::BPCHAR => unpadded(value).hash(state),
        Datum::Text(value) => value.as_str().hash(state),
        Datum::Bytea(value) => value.hash(state),
        Datum::Uuid(value) => value.hash(state),
        Datum::Array(value) => {
            for element in &value.elements {
                hash(value.element, element, state);
            }
        }
        Datum::Record(value) => {
            for (ty, field) in value.types.iter().zip(&value.fields) {
                hash(*ty, field, state);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::types::{Array, Numeric};

    fn hashed(ty: TypeOid, value: &Datum) -> u64 {
        let mut hasher = std::collections::hash_map::DefaultHasher::new();
        hash(ty, value, &mut hasher);
        hasher.finish()
    }

    #[track_caller]
    fn check(ty: TypeOid, left: impl Into<Datum>, right: impl Into<Datum>, expect: Ordering) {
        let (left, right) = (left.into(), right.into());
        let order = comparator(ty).expect("has an order");
        assert_eq!(order(&left, &right), expect);
        assert_eq!(order(&right, &left), expect.reverse());
        if expect == Ordering::Equal {
            assert_eq!(hashed(ty, &left), hashed(ty, &right));
        }
    }

    #[test]
    fn blanks_at_the_end_do_not_count() {
        for body in ["", "a", "a b", " a", "      7", "\u{a0}", "a\u{3000}", "é", "\t"] {
            for blanks in 0..30 {
                let text = format!("{body}{}", " ".repeat(blanks));
                assert_eq!(unpadded(&text), body, "{blanks}");
            }
        }
        assert_eq!(unpadded("        b       "), "        b");
    }

    #[test]
    fn values_order_as_in_postgresql() {
        use Ordering::{Equal, Less};
        check(TypeOid::INT4, 1, 2, Less);
        check(TypeOid::INT8, Datum::Int4(1), 1i64, Equal);
        check(TypeOid::TEXT, "a", "a ", Less);
        check(TypeOid::TEXT, "Z", "a", Less);
        check(TypeOid::BPCHAR, "a", "a   ", Equal);
        check(TypeOid::FLOAT8, f64::INFINITY, f64::NAN, Less);
        check(TypeOid::FLOAT8, f64::NAN, -f64::NAN, Equal);
        check(TypeOid::FLOAT8, 0.0, -0.0, Equal);
        check(TypeOid::NUMERIC, Numeric::small(10, 1), Numeric::small(1, 0), Equal);
        check(TypeOid::NUMERIC, Numeric::INFINITY, Numeric::NAN, Less);
        let list = |items: &[i32]| {
            Array::of(TypeOid::INT4, items.iter().map(|item| Datum::Int4(*item)).collect())
        };
        check(TypeOid::INT4_ARRAY, list(&[1, 2]), list(&[1, 2, 0]), Less);
        check(TypeOid::INT4_ARRAY, list(&[1, 2]), list(&[1, 3]), Less);
        check(TypeOid::INT4_ARRAY, list(&[]), list(&[1]), Less);
    }
}
