//! Binary wire input and output of every type (being built).

use super::{Datum, Type, TypeOid};
use crate::error::SqlResult;
use crate::functions::FunctionContext;

/// Reads a binary parameter or COPY field (22P03, 08P01); the modifier is applied as in
/// assignment.
pub fn receive(_ty: Type, _bytes: &[u8], _context: &dyn FunctionContext) -> SqlResult<Datum> {
    todo!()
}

/// Appends the binary form. The value is not NULL. 42883 for types without one.
pub fn send(_ty: TypeOid, _value: &Datum, _out: &mut Vec<u8>) -> SqlResult<()> {
    todo!()
}
