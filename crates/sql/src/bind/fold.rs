//! Constant folding while the tree is built.
//!
//! Invariants: only immutable functions are folded, and only when they succeed: an error is left
//! to execution, where the expression may never be reached. Reading a literal is different: its
//! error is reported at once, with the literal's position, as PostgreSQL does.

use super::bound::{Bound, BoundCall, BoundKind};
use crate::error::SqlResult;
use crate::functions::{
    CastContext, Coercion, ConstantContext, OperatorRow, Strictness, Volatility, apply_typmod,
};
use crate::parse::ast::At;
use crate::types::{Datum, Type, TypeOid};

/// A conversion of `value`, done at once where possible.
pub(super) fn coercion(coercion: Coercion, value: Bound, ty: Type, at: At) -> SqlResult<Bound> {
    if let BoundKind::Constant(constant) = &value.kind
        && coercion.volatility() == Volatility::Immutable
    {
        match coercion.apply(constant, &ConstantContext) {
            Ok(folded) => return Ok(Bound::new(BoundKind::Constant(folded), ty, at)),
            Err(error) if value.ty.oid == TypeOid::UNKNOWN => {
                return Err(error.at(value.at.position()));
            }
            Err(_) => {}
        }
    }
    Ok(Bound::new(BoundKind::Coerce(coercion, Box::new(value)), ty, at))
}

/// A modifier applied to `value`, at once where possible.
pub(super) fn typmod(value: Bound, ty: Type, context: CastContext) -> SqlResult<Bound> {
    let at = value.at;
    if let BoundKind::Constant(constant) = &value.kind
        && let Ok(folded) = apply_typmod(constant.clone(), ty, context)
    {
        return Ok(Bound::new(BoundKind::Constant(folded), ty, at));
    }
    Ok(Bound::new(BoundKind::Typmod(context, Box::new(value)), ty, at))
}

/// An operator, folded where possible.
pub(super) fn operator(
    row: &'static OperatorRow,
    left: Option<Bound>,
    right: Bound,
    ty: Type,
    at: At,
) -> Bound {
    let constants: Option<Vec<Datum>> =
        left.iter().chain([&right]).map(|argument| argument.as_constant().cloned()).collect();
    if let Some(constants) = constants
        && row.volatility == Volatility::Immutable
    {
        let null = row.strictness == Strictness::Strict && constants.iter().any(Datum::is_null);
        let result =
            if null { Ok(Datum::Null) } else { (row.function)(&constants, &ConstantContext) };
        if let Ok(value) = result {
            return Bound::new(BoundKind::Constant(value), ty, at);
        }
    }
    Bound::new(BoundKind::Operator(row, left.map(Box::new), Box::new(right)), ty, at)
}

/// A function call, folded where possible.
pub(super) fn call(call: BoundCall, ty: Type, at: At) -> Bound {
    if call.volatility == Volatility::Immutable {
        let constants: Option<Vec<Datum>> =
            call.arguments.iter().map(|argument| argument.as_constant().cloned()).collect();
        if let Some(constants) = constants {
            let null =
                call.strictness == Strictness::Strict && constants.iter().any(Datum::is_null);
            let result =
                if null { Ok(Datum::Null) } else { (call.function)(&constants, &ConstantContext) };
            if let Ok(value) = result {
                return Bound::new(BoundKind::Constant(value), ty, at);
            }
        }
    }
    Bound::new(BoundKind::Call(call), ty, at)
}
