//! Binding of subqueries in expressions.
//!
//! Invariants: a subquery's columns of outer queries stay plain column references: the planner
//! sees by their relation that they come from outside.

use super::bound::{Bound, BoundKind, BoundSubquery, Query, SubqueryKind};
use super::operator::Op;
use super::query::Unknowns;
use super::{Binder, error_at};
use crate::error::{SqlError, SqlResult, SqlState};
use crate::parse::ast::{self, At, Expr, ExprKind, Quantifier};
use crate::types::{Type, TypeOid};

fn subquery(kind: SubqueryKind, query: Query, ty: Type, at: At) -> Bound {
    Bound::new(BoundKind::Subquery(Box::new(BoundSubquery { kind, query })), ty, at)
}

impl<'a> Binder<'a> {
    fn one_column(&mut self, query: &'a ast::Query, at: At) -> SqlResult<Query> {
        let query = self.query(query, Unknowns::Resolve)?;
        match query.visible {
            1 => Ok(query),
            _ => Err(error_at(SqlState::SYNTAX_ERROR, "subquery must return only one column", at)),
        }
    }

    /// EXISTS.
    pub(super) fn exists(&mut self, query: &'a ast::Query, at: At) -> SqlResult<Bound> {
        let query = self.query(query, Unknowns::Resolve)?;
        Ok(subquery(SubqueryKind::Exists, query, Type::new(TypeOid::BOOL), at))
    }

    /// `(SELECT ..)` as a value.
    pub(super) fn scalar_subquery(&mut self, query: &'a ast::Query, at: At) -> SqlResult<Bound> {
        let query = self.one_column(query, at)?;
        let ty = query.outputs[0].ty;
        Ok(subquery(SubqueryKind::Scalar, query, ty, at))
    }

    /// ARRAY(SELECT ..).
    pub(super) fn array_subquery(&mut self, query: &'a ast::Query, at: At) -> SqlResult<Bound> {
        let query = self.one_column(query, at)?;
        let element = query.outputs[0].ty.oid;
        let (element, ty) = match (element.element_type(), element.array_type()) {
            (Some(inner), _) if element.array_type().is_none() => (inner, element),
            (_, Some(array)) => (element, array),
            _ => {
                return Err(error_at(
                    SqlState::UNDEFINED_OBJECT,
                    format!("could not find array type for data type {element}"),
                    at,
                ));
            }
        };
        Ok(subquery(SubqueryKind::Array(element), query, Type::new(ty), at))
    }

    /// `left op ANY|ALL (SELECT ..)`, IN included.
    pub(super) fn quantified_query(
        &mut self,
        name: &str,
        quantifier: Quantifier,
        left: &'a Expr,
        query: &'a ast::Query,
        at: At,
    ) -> SqlResult<Bound> {
        let left = match &left.kind {
            ExprKind::Row(items) => self.row_fields(items)?,
            _ => vec![self.expr(left)?],
        };
        let mut query = self.query(query, Unknowns::Resolve)?;
        if query.visible != left.len() {
            let few = if query.visible > left.len() { "many" } else { "few" };
            return Err(error_at(
                SqlState::SYNTAX_ERROR,
                format!("subquery has too {few} columns"),
                at,
            ));
        }
        if left.len() > 1 && !matches!(name, "=" | "<>" | "!=") {
            return Err(SqlError::not_supported(format!(
                "the operator {name} between a row and a subquery"
            ))
            .at(at.position()));
        }
        let mut pairs = Vec::with_capacity(left.len());
        let mut types = Vec::with_capacity(left.len());
        for (index, left) in left.into_iter().enumerate() {
            let column = query.outputs[index].ty;
            let resolved = self.resolve(Op::of(name), Some(left.ty.oid), column.oid, at)?;
            let typmod = if resolved.right == column.oid { column.typmod } else { -1 };
            types.push(Type::with(resolved.right, typmod));
            pairs.push((self.implicit(left, resolved.left)?, resolved.operator));
        }
        query = self.retype(query, &types, "IN")?;
        let kind = SubqueryKind::Quantified { quantifier, left: pairs };
        Ok(subquery(kind, query, Type::new(TypeOid::BOOL), at))
    }
}
