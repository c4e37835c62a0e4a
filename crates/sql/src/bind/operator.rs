//! Binding of operators: plain ones, quantified over arrays, IN, BETWEEN, DISTINCT, NULLIF.
//!
//! Invariants: operands carry the conversions that the chosen operator needs.

use super::bound::{Bound, BoundKind};
use super::{Binder, error_at, fold};
use crate::error::{SqlError, SqlResult, SqlState};
use crate::functions::{ResolvedOperator, common_type, resolve_operator};
use crate::parse::ast::{At, Expr, ExprKind, Quantifier};
use crate::types::{Type, TypeOid};

/// An operator's symbol, with the schema if written.
#[derive(Clone, Copy)]
pub(super) struct Op<'s> {
    pub schema: Option<&'s str>,
    pub name: &'s str,
}

impl<'s> Op<'s> {
    /// Without a schema.
    pub(super) fn of(name: &'s str) -> Op<'s> {
        Op { schema: None, name }
    }
}

impl<'a> Binder<'a> {
    /// `left op right` as written.
    pub(super) fn operator_expr(
        &mut self,
        schema: Option<&str>,
        name: &str,
        left: Option<&'a Expr>,
        right: &'a Expr,
        at: At,
    ) -> SqlResult<Bound> {
        let op = Op { schema, name };
        let left_row = left.is_some_and(|left| matches!(left.kind, ExprKind::Row(_)));
        if left_row && matches!(right.kind, ExprKind::Row(_)) {
            let left = left.expect("looked above");
            return self.row_operator(name, left, right, at);
        }
        let left = left.map(|left| self.expr(left)).transpose()?;
        let right = self.expr(right)?;
        self.operator(op, left, right, at)
    }

    /// An operator on bound operands.
    pub(super) fn operator(
        &mut self,
        op: Op<'_>,
        left: Option<Bound>,
        right: Bound,
        at: At,
    ) -> SqlResult<Bound> {
        let resolved = self.resolve(op, left.as_ref().map(|left| left.ty.oid), right.ty.oid, at)?;
        let left = match left {
            Some(left) => Some(self.implicit(left, resolved.left)?),
            None => None,
        };
        let right = self.implicit(right, resolved.right)?;
        Ok(fold::operator(resolved.operator, left, right, Type::new(resolved.result), at))
    }

    /// Which operator is meant.
    pub(super) fn resolve(
        &self,
        op: Op<'_>,
        left: Option<TypeOid>,
        right: TypeOid,
        at: At,
    ) -> SqlResult<ResolvedOperator> {
        if let Some(schema) = op.schema.filter(|schema| *schema != "pg_catalog") {
            let left = left.map(|left| format!("{left} ")).unwrap_or_default();
            return Err(error_at(
                SqlState::UNDEFINED_FUNCTION,
                format!("operator does not exist: {left}{schema}.{} {right}", op.name),
                at,
            ));
        }
        let name = if op.name == "!=" { "<>" } else { op.name };
        resolve_operator(name, left, right).map_err(|error| error.at(at.position()))
    }

    /// `left op ANY|ALL (array)`.
    pub(super) fn quantified(
        &mut self,
        name: &str,
        quantifier: Quantifier,
        left: &'a Expr,
        right: &'a Expr,
        at: At,
    ) -> SqlResult<Bound> {
        let left = self.expr(left)?;
        let array = self.expr(right)?;
        self.quantified_bound(name, quantifier, left, array, at)
    }

    fn quantified_bound(
        &mut self,
        name: &str,
        quantifier: Quantifier,
        left: Bound,
        array: Bound,
        at: At,
    ) -> SqlResult<Bound> {
        let right = match array.ty.oid {
            TypeOid::UNKNOWN => TypeOid::UNKNOWN,
            oid => oid.element_type().ok_or_else(|| {
                error_at(
                    SqlState::WRONG_OBJECT_TYPE,
                    "op ANY/ALL (array) requires array on right side",
                    at,
                )
            })?,
        };
        let resolved = self.resolve(Op::of(name), Some(left.ty.oid), right, at)?;
        if resolved.result != TypeOid::BOOL {
            return Err(error_at(
                SqlState::WRONG_OBJECT_TYPE,
                "op ANY/ALL (array) requires operator to yield boolean",
                at,
            ));
        }
        let left = self.implicit(left, resolved.left)?;
        let wanted = match (array.ty.oid.element_type(), resolved.right.array_type()) {
            // int2vector and oidvector keep their form when their elements already fit.
            (Some(element), _) if element == resolved.right => array.ty.oid,
            (_, Some(wanted)) => wanted,
            _ => return Err(SqlError::internal("an element type without an array type")),
        };
        let array = Box::new(self.implicit(array, wanted)?);
        let operator = resolved.operator;
        let kind = BoundKind::Quantified { operator, quantifier, left: Box::new(left), array };
        Ok(Bound::new(kind, TypeOid::BOOL, at))
    }

    /// `left IN (list)`.
    pub(super) fn in_list(&mut self, left: &'a Expr, list: &'a [Expr], at: At) -> SqlResult<Bound> {
        if let ExprKind::Row(items) = &left.kind {
            return self.row_in_list(items, list, at);
        }
        let left = self.expr(left)?;
        let mut items = self.all(list)?;
        let types: Vec<TypeOid> =
            [left.ty.oid].into_iter().chain(items.iter().map(|item| item.ty.oid)).collect();
        let mut left = left;
        if let Ok(common) = common_type(&types, "IN") {
            // One operator for all, with parameters and literals in the common type.
            let mut converted = Vec::with_capacity(items.len());
            for item in items {
                converted.push(self.implicit(item, common)?);
            }
            items = converted;
            if left.ty.oid == TypeOid::UNKNOWN {
                left = self.implicit(left, common)?;
            }
        }
        let mut rows = Vec::with_capacity(items.len());
        let mut shared = None;
        for item in items {
            let resolved = self.resolve(Op::of("="), Some(left.ty.oid), item.ty.oid, at)?;
            let item = self.implicit(item, resolved.right)?;
            let converted = self.implicit(left.clone(), resolved.left)?;
            let same = shared.get_or_insert_with(|| (resolved.left, converted.clone()));
            if same.0 != resolved.left {
                return Err(SqlError::not_supported("IN with values of types this different")
                    .at(at.position()));
            }
            rows.push(vec![(resolved.operator, item)]);
        }
        let left = shared.map_or(left, |(_, left)| left);
        Ok(Bound::new(BoundKind::In { left: vec![left], rows }, TypeOid::BOOL, at))
    }

    /// `value BETWEEN low AND high`, which is two comparisons.
    pub(super) fn between(
        &mut self,
        symmetric: bool,
        value: &'a Expr,
        low: &'a Expr,
        high: &'a Expr,
        at: At,
    ) -> SqlResult<Bound> {
        let value = self.expr(value)?;
        let low = self.expr(low)?;
        let high = self.expr(high)?;
        let one = |binder: &mut Self, low: Bound, high: Bound| -> SqlResult<Bound> {
            let above = binder.operator(Op::of(">="), Some(value.clone()), low, at)?;
            let below = binder.operator(Op::of("<="), Some(value.clone()), high, at)?;
            Ok(Bound::new(BoundKind::And(vec![above, below]), TypeOid::BOOL, at))
        };
        if !symmetric {
            return one(self, low, high);
        }
        let either = vec![one(self, low.clone(), high.clone())?, one(self, high, low)?];
        Ok(Bound::new(BoundKind::Or(either), TypeOid::BOOL, at))
    }

    /// IS [NOT] DISTINCT FROM.
    pub(super) fn distinct_from(
        &mut self,
        negated: bool,
        left: &'a Expr,
        right: &'a Expr,
        at: At,
    ) -> SqlResult<Bound> {
        if let (ExprKind::Row(left), ExprKind::Row(right)) = (&left.kind, &right.kind) {
            if left.len() != right.len() {
                return Err(unequal_rows(at));
            }
            let mut tests = Vec::new();
            for (left, right) in left.iter().zip(right) {
                tests.push(self.distinct_from(negated, left, right, at)?);
            }
            let kind = if negated { BoundKind::And(tests) } else { BoundKind::Or(tests) };
            return Ok(Bound::new(kind, TypeOid::BOOL, at));
        }
        let (left, right) = (self.expr(left)?, self.expr(right)?);
        let resolved = self.resolve(Op::of("="), Some(left.ty.oid), right.ty.oid, at)?;
        let left = self.implicit(left, resolved.left)?;
        let right = self.implicit(right, resolved.right)?;
        let sides = Box::new((left, right));
        let kind = BoundKind::Distinct { equality: resolved.operator, negated, sides };
        Ok(Bound::new(kind, TypeOid::BOOL, at))
    }

    /// NULLIF.
    pub(super) fn null_if(&mut self, left: &'a Expr, right: &'a Expr, at: At) -> SqlResult<Bound> {
        let (left, right) = (self.expr(left)?, self.expr(right)?);
        let resolved = self.resolve(Op::of("="), Some(left.ty.oid), right.ty.oid, at)?;
        let left = self.implicit(left, resolved.left)?;
        let right = self.implicit(right, resolved.right)?;
        let ty = left.ty;
        Ok(Bound::new(BoundKind::NullIf(resolved.operator, Box::new((left, right))), ty, at))
    }
}

/// 42601.
pub(super) fn unequal_rows(at: At) -> SqlError {
    error_at(SqlState::SYNTAX_ERROR, "unequal number of entries in row expressions", at)
}
