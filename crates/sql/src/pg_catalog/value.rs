//! Short names for the values that rows of the catalog consist of.
//!
//! Invariants: each answers the form that its column's type has; nothing here fails.

use super::Wanted;
use crate::types::{Array, Datum, TypeOid};
use atoll_kernel::api::Oid;

/// NULL.
pub(super) const NULL: Datum = Datum::Null;

/// An oid, regproc or xid.
pub(super) const fn oid(value: u32) -> Datum {
    Datum::Oid(value)
}

/// A name or text.
pub(super) fn text(value: impl AsRef<str>) -> Datum {
    Datum::text(value)
}

/// A "char".
pub(super) const fn letter(value: u8) -> Datum {
    Datum::Char(value)
}

/// An int2.
pub(super) const fn small(value: i16) -> Datum {
    Datum::Int2(value)
}

/// An int4.
pub(super) const fn int(value: i32) -> Datum {
    Datum::Int4(value)
}

/// A boolean.
pub(super) const fn bool(value: bool) -> Datum {
    Datum::Bool(value)
}

/// `YES` or `NO`, as information_schema has booleans.
pub(super) fn yes_or_no(value: bool) -> Datum {
    Datum::text(if value { "YES" } else { "NO" })
}

/// A text[]; NULL if there is nothing in it.
pub(super) fn texts(values: &[String]) -> Datum {
    if values.is_empty() {
        return NULL;
    }
    Array::of(TypeOid::TEXT, values.iter().map(text).collect()).into()
}

/// An int2vector.
pub(super) fn small_vector(values: impl Iterator<Item = i16>) -> Datum {
    Array::vector(TypeOid::INT2, values.map(Datum::Int2).collect()).into()
}

/// An oidvector.
pub(super) fn oid_vector(values: impl Iterator<Item = u32>) -> Datum {
    Array::vector(TypeOid::OID, values.map(Datum::Oid).collect()).into()
}

impl Wanted<'_> {
    /// The object asked for by the oid in column `column`.
    pub(super) fn object(&self, column: usize) -> Option<Oid> {
        match self {
            Wanted::Equal(at, Datum::Oid(value)) if *at == column => Some(Oid(*value)),
            _ => None,
        }
    }

    /// The name asked for in column `column`.
    pub(super) fn name(&self, column: usize) -> Option<&str> {
        match self {
            Wanted::Equal(at, Datum::Text(value)) if *at == column => Some(value),
            _ => None,
        }
    }
}
