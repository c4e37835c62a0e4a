//! Storage encoding: datum to and from the kernel's physical column bytes (being built).

use super::{Datum, TypeOid};
use crate::error::SqlResult;

/// Appends the stored form. The value is not NULL and fits the column's modifier.
pub fn encode(_ty: TypeOid, _value: &Datum, _out: &mut Vec<u8>) -> SqlResult<()> {
    todo!()
}

/// Reads the stored form (XX001 if it is none).
pub fn decode(_ty: TypeOid, _bytes: &[u8]) -> SqlResult<Datum> {
    todo!()
}
