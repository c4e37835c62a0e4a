//! Type modifiers: `varchar(10)`, `numeric(12,2)`, `timestamp(3)` (being built).

use super::{Datum, Type, TypeOid};
use crate::error::SqlResult;
use crate::functions::CastContext;

/// The modifier that `name(args)` means (22023 and 42601 as PostgreSQL's).
pub fn type_modifier(_oid: TypeOid, _args: &[i32]) -> SqlResult<i32> {
    todo!()
}

/// Fits a value to a modifier. Explicit casts truncate where assignment refuses.
pub fn coerce(_value: Datum, _ty: Type, _context: CastContext) -> SqlResult<Datum> {
    todo!()
}

/// Precision and scale of a numeric's modifier.
pub fn numeric_parts(typmod: i32) -> (i32, i32) {
    let packed = typmod - 4;
    (packed >> 16 & 0xffff, ((packed & 0x7ff) ^ 1024) - 1024)
}

/// `interval day to second(3)` and the like.
pub fn format_interval(_typmod: i32) -> String {
    "interval".into()
}
