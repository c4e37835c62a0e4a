//! The bodies of the built-in functions, one file a family.
//!
//! Invariants: arguments have the forms that the tables promise; strict functions never see NULL;
//! nothing here keeps state or reaches outside its arguments and the context.

pub(in crate::functions) mod array;
pub(in crate::functions) mod bytes;
pub(in crate::functions) mod compare;
pub(in crate::functions) mod datetime;
pub(in crate::functions) mod decimal;
pub(in crate::functions) mod encoding;
pub(in crate::functions) mod extract;
pub(in crate::functions) mod float;
pub(in crate::functions) mod format;
pub(in crate::functions) mod integer;
pub(in crate::functions) mod overlap;
pub(in crate::functions) mod regexp;
pub(in crate::functions) mod session;
pub(in crate::functions) mod sets;
pub(in crate::functions) mod string;
pub mod pattern;

use super::{
    CastContext, ConstantContext, FunctionContext, ObjectClass, SetValues, SettingScope, SizeOf,
    fast, function_by_oid, quote,
};
