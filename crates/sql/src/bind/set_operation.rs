//! Binding of UNION, INTERSECT and EXCEPT, and bringing a query's outputs into other types.
//!
//! Invariants: both sides have the outputs' types in the bound tree.

use super::bound::{Body, Bound, From, Output, Query, Select};
use super::query::{Unknowns, plain};
use super::scope::column_of;
use super::{Binder, error_at};
use crate::error::{SqlError, SqlResult, SqlState};
use crate::functions::{CastContext, Comparison, common_type, default_order};
use crate::parse::ast::{self, SetOperation};
use crate::types::{Type, TypeOid};

impl<'a> Binder<'a> {
    /// A set operation.
    pub(super) fn set_operation(
        &mut self,
        operation: SetOperation,
        all: bool,
        sides: (&'a ast::Query, &'a ast::Query),
        query: &'a ast::Query,
    ) -> SqlResult<Query> {
        let left = self.query(sides.0, Unknowns::Keep)?;
        let right = self.query(sides.1, Unknowns::Keep)?;
        let (types, (left, right)) = self.matched(operation, all, (left, right))?;
        let outputs: Vec<Output> = left.outputs[..left.visible]
            .iter()
            .zip(&types)
            .map(|(output, ty)| Output {
                name: output.name.clone(),
                value: None,
                ty: *ty,
                origin: None,
            })
            .collect();
        let order_by = self.outer_order(query, &outputs)?;
        super::from::check_lockable(query.for_update.as_ref().map(|_| "UNION/INTERSECT/EXCEPT"))?;
        let relation = self.new_relation();
        let body = Body::SetOperation { operation, all, sides: Box::new((left, right)) };
        Ok(plain(relation, outputs, body, order_by))
    }

    /// The types that both sides have in common, and both in them.
    pub(super) fn matched(
        &mut self,
        operation: SetOperation,
        all: bool,
        (left, right): (Query, Query),
    ) -> SqlResult<(Vec<Type>, (Query, Query))> {
        let construct = match operation {
            SetOperation::Union => "UNION",
            SetOperation::Intersect => "INTERSECT",
            SetOperation::Except => "EXCEPT",
        };
        if left.visible != right.visible {
            return Err(SqlError::new(
                SqlState::SYNTAX_ERROR,
                format!("each {construct} query must have the same number of columns"),
            ));
        }
        let mut types = Vec::with_capacity(left.visible);
        for (a, b) in left.outputs[..left.visible].iter().zip(&right.outputs) {
            let common = common_type(&[a.ty.oid, b.ty.oid], construct)?;
            let typmod = if a.ty == b.ty { a.ty.typmod } else { -1 };
            types.push(Type::with(common, typmod));
            if !(operation == SetOperation::Union && all) {
                default_order(common, Comparison::Equal)?;
            }
        }
        let left = self.retype(left, &types, construct)?;
        let right = self.retype(right, &types, construct)?;
        Ok((types, (left, right)))
    }

    /// The query with its visible outputs in these types.
    pub(super) fn retype(
        &mut self,
        mut query: Query,
        types: &[Type],
        construct: &str,
    ) -> SqlResult<Query> {
        let fits = query.outputs.iter().zip(types).all(|(o, ty)| o.ty.oid == ty.oid);
        if fits {
            return Ok(query);
        }
        let free = query.order_by.is_empty() && query.limit.is_none();
        match &mut query.body {
            Body::Select(select) if free && !select.distinct => {
                for (output, ty) in query.outputs.iter_mut().zip(types) {
                    let value = output.value.take().expect("a SELECT's outputs have values");
                    let value = self.set_side(value, ty.oid, construct)?;
                    output.ty = value.ty;
                    output.value = Some(value);
                }
                Ok(query)
            }
            Body::Values(rows) if free => {
                for row in rows {
                    for (value, ty) in row.iter_mut().zip(types) {
                        let own = std::mem::replace(value, Self::null_of(*ty));
                        *value = self.set_side(own, ty.oid, construct)?;
                    }
                }
                query.outputs.iter_mut().zip(types).for_each(|(o, ty)| o.ty = Type::new(ty.oid));
                Ok(query)
            }
            _ => self.wrap(query, types, construct),
        }
    }

    fn set_side(&mut self, value: Bound, target: TypeOid, construct: &str) -> SqlResult<Bound> {
        let (from, at) = (value.ty.oid, value.at);
        self.convert(value, target, CastContext::Implicit)?.ok_or_else(|| {
            error_at(
                SqlState::DATATYPE_MISMATCH,
                format!("{construct} types {target} and {from} cannot be matched"),
                at,
            )
        })
    }

    fn wrap(&mut self, query: Query, types: &[Type], construct: &str) -> SqlResult<Query> {
        let mut outputs = Vec::with_capacity(types.len());
        for (index, ty) in types.iter().enumerate() {
            let inner = &query.outputs[index];
            let value = column_of(query.relation, index, inner.ty);
            let name = inner.name.clone();
            let value = self.set_side(value, ty.oid, construct)?;
            outputs.push(Output { name, ty: value.ty, value: Some(value), origin: None });
        }
        let select = Select {
            from: Some(From::Subquery(Box::new(query))),
            filter: None,
            grouping: None,
            having: None,
            distinct: false,
            distinct_on: Vec::new(),
            has_sets: false,
        };
        let relation = self.new_relation();
        Ok(plain(relation, outputs, Body::Select(Box::new(select)), Vec::new()))
    }
}
