//! Text input and output of every type (being built).

use super::{Datum, Text, Type, TypeOid};
use crate::error::SqlResult;
use crate::functions::FunctionContext;

/// Reads a value as `ty`'s input function does; the modifier is applied as in assignment
/// (too long: 22001). Errors 22P02, 22003, 22007, 22008 ...
pub fn input(_ty: Type, _text: &str, _context: &dyn FunctionContext) -> SqlResult<Datum> {
    todo!()
}

/// Appends what the type's output function prints. The value is not NULL.
pub fn output(_ty: TypeOid, _value: &Datum, _context: &dyn FunctionContext, _out: &mut Vec<u8>) {
    todo!()
}

/// The same as a string of its own.
pub fn output_string(_ty: TypeOid, _value: &Datum, _context: &dyn FunctionContext) -> Text {
    todo!()
}
