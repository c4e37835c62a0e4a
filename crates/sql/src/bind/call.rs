//! Binding of function calls: scalar, set-returning and aggregate.
//!
//! Invariants: an aggregate is entered in the list of its block and stands in the tree as a
//! column of the block's grouping relation.

use super::bound::{Aggregate, Bound, BoundCall, BoundKind, BoundSet, ColumnRef};
use super::{Binder, error_at, fold};
use crate::error::{SqlError, SqlResult, SqlState};
use crate::functions::{
    FunctionKind, FunctionRow, ResolvedCall, ResolvedFunction, VariadicCall, resolve_function,
};
use crate::parse::ast::{At, Call, Name};
use crate::types::{Datum, Type, TypeOid};

/// Keys of a grouping come first among its relation's columns; aggregates start here.
pub const FIRST_AGGREGATE: u16 = 1 << 14;

impl<'a> Binder<'a> {
    /// A call as written.
    pub(super) fn call(&mut self, call: &'a Call, at: At) -> SqlResult<Bound> {
        let decorated =
            call.star || call.distinct || !call.order_by.is_empty() || call.filter.is_some();
        let is_aggregate = crate::functions::functions()
            .any(|row| row.name == call.name.name && row.is_aggregate());
        if is_aggregate {
            self.check_schema(&call.name, &[])?;
            return self.aggregate(call, at);
        }
        let arguments = self.all(&call.arguments)?;
        if let ("pg_typeof", [argument]) = (call.name.name.as_str(), arguments.as_slice()) {
            // The type is known here and nowhere later.
            let value = Datum::Oid(argument.ty.oid.0);
            return Ok(Bound::new(BoundKind::Constant(value), TypeOid::REGTYPE, at));
        }
        let types: Vec<TypeOid> = arguments.iter().map(|argument| argument.ty.oid).collect();
        self.check_schema(&call.name, &types)?;
        if decorated {
            let what = if call.star {
                "(*)"
            } else if call.distinct {
                "DISTINCT"
            } else if call.filter.is_some() {
                "FILTER"
            } else {
                "ORDER BY"
            };
            // Says that the function does not exist, if it does not.
            resolve_function(&call.name.name, &types, VariadicCall::Spread)
                .map_err(|error| error.at(at.position()))?;
            return Err(error_at(
                SqlState::WRONG_OBJECT_TYPE,
                format!("{what} specified, but {} is not an aggregate function", call.name.name),
                at,
            ));
        }
        let variadic = if call.variadic { VariadicCall::Array } else { VariadicCall::Spread };
        self.call_bound(&call.name.name, arguments, variadic, at)
    }

    fn check_schema(&self, name: &Name, types: &[TypeOid]) -> SqlResult<()> {
        let known = match name.schema.as_deref() {
            None | Some("pg_catalog") => true,
            Some("information_schema") => name.name.starts_with("_pg_"),
            Some(_) => false,
        };
        if known {
            return Ok(());
        }
        let schema = name.schema.as_deref().unwrap_or_default();
        if !self.view.schema_exists(schema) {
            return Err(error_at(
                SqlState::INVALID_SCHEMA_NAME,
                format!("schema \"{schema}\" does not exist"),
                name.at,
            ));
        }
        let types: Vec<String> = types.iter().map(|oid| oid.sql_name()).collect();
        Err(error_at(
            SqlState::UNDEFINED_FUNCTION,
            format!("function {name}({}) does not exist", types.join(", ")),
            name.at,
        )
        .hint(
            "No function matches the given name and argument types. \
             You might need to add explicit type casts.",
        ))
    }

    /// A call of a built-in function by name.
    pub(super) fn call_by_name(
        &mut self,
        name: &str,
        arguments: Vec<Bound>,
        at: At,
    ) -> SqlResult<Bound> {
        self.call_bound(name, arguments, VariadicCall::Spread, at)
    }

    fn call_bound(
        &mut self,
        name: &str,
        arguments: Vec<Bound>,
        variadic: VariadicCall,
        at: At,
    ) -> SqlResult<Bound> {
        let types: Vec<TypeOid> = arguments.iter().map(|argument| argument.ty.oid).collect();
        let resolved =
            resolve_function(name, &types, variadic).map_err(|error| error.at(at.position()))?;
        let resolved = match resolved {
            ResolvedCall::Cast(target) => {
                let value = arguments.into_iter().next().expect("a cast has one argument");
                return self.cast(value, Type::new(target), at);
            }
            ResolvedCall::Function(resolved) => resolved,
        };
        let row = resolved.function;
        let ty = Type::new(resolved.result);
        let arguments = self.arguments(&resolved, arguments, at)?;
        match row.kind {
            FunctionKind::Scalar(function) => {
                let call = BoundCall {
                    name: row.name,
                    function,
                    strictness: row.strictness,
                    volatility: row.volatility,
                    arguments,
                };
                Ok(fold::call(call, ty, at))
            }
            FunctionKind::Set(function) => {
                let clause = self.block().clause;
                if !self.block().sets_allowed {
                    return Err(error_at(
                        SqlState::FEATURE_NOT_SUPPORTED,
                        format!("set-returning functions are not allowed in {clause}"),
                        at,
                    ));
                }
                self.block().has_sets = true;
                let columns = row.columns.iter().map(|(name, ty)| ((*name).into(), *ty)).collect();
                let strictness = row.strictness;
                let set = BoundSet { name: row.name, function, strictness, arguments, columns };
                Ok(Bound::new(BoundKind::Set(Box::new(set)), ty, at))
            }
            FunctionKind::Aggregate(_) => Err(SqlError::internal("an aggregate called plainly")),
            FunctionKind::Window => Err(error_at(
                SqlState::WINDOWING_ERROR,
                format!("window function {name} requires an OVER clause"),
                at,
            )),
        }
    }

    /// The arguments converted, gathered and completed.
    fn arguments(
        &mut self,
        resolved: &ResolvedFunction,
        arguments: Vec<Bound>,
        at: At,
    ) -> SqlResult<Vec<Bound>> {
        let mut converted = Vec::with_capacity(arguments.len());
        for (argument, target) in arguments.into_iter().zip(&resolved.args) {
            converted.push(if *target == TypeOid::ANY {
                self.resolve_unknown(argument)?
            } else {
                self.implicit(argument, *target)?
            });
        }
        if let Some((from, element)) = resolved.gather {
            let rest = converted.split_off(from);
            converted.push(if element == TypeOid::ANY {
                // Each keeps its own type, which an array's elements do not.
                Bound::new(BoundKind::Row(rest), TypeOid::RECORD, at)
            } else {
                let array = element.array_type().unwrap_or(TypeOid::TEXT_ARRAY);
                Bound::new(BoundKind::Array(element, rest), array, at)
            });
        }
        let first = resolved.function.args.len() - resolved.defaults.len();
        for (index, default) in resolved.defaults.iter().enumerate() {
            let oid = resolved.function.args.get(first + index).copied().unwrap_or(TypeOid::TEXT);
            converted.push(Bound::constant(default.datum(), oid));
        }
        Ok(converted)
    }

    fn aggregate(&mut self, call: &'a Call, at: At) -> SqlResult<Bound> {
        let block = self.block();
        if block.in_aggregate {
            return Err(error_at(
                SqlState::GROUPING_ERROR,
                "aggregate function calls cannot be nested",
                at,
            ));
        }
        if !block.aggregates_allowed {
            let clause = block.clause;
            return Err(error_at(
                SqlState::GROUPING_ERROR,
                format!("aggregate functions are not allowed in {clause}"),
                at,
            ));
        }
        block.in_aggregate = true;
        let inside = self.aggregate_inside(call, at);
        self.block().in_aggregate = false;
        let (aggregate, ty) = inside?;
        self.refuse_outer(&aggregate, at)?;
        let relation = match self.block().grouping {
            Some(relation) => relation,
            None => {
                let relation = self.new_relation();
                self.block().grouping = Some(relation);
                relation
            }
        };
        let block = self.block();
        // The same aggregate written twice is computed once.
        let known = block
            .aggregates
            .iter()
            .position(|other| super::group::same_aggregate(other, &aggregate));
        let index = known.unwrap_or_else(|| {
            block.aggregates.push(aggregate);
            block.aggregates.len() - 1
        });
        let column = FIRST_AGGREGATE + index as u16;
        Ok(Bound::new(BoundKind::Aggregate(ColumnRef { relation, column }), ty, at))
    }

    fn aggregate_inside(&mut self, call: &'a Call, at: At) -> SqlResult<(Aggregate, Type)> {
        let arguments = self.all(&call.arguments)?;
        let types: Vec<TypeOid> = arguments.iter().map(|argument| argument.ty.oid).collect();
        let name = &call.name.name;
        let resolved = resolve_function(name, &types, VariadicCall::Spread)
            .map_err(|error| error.at(at.position()))?;
        let ResolvedCall::Function(resolved) = resolved else {
            return Err(SqlError::internal("an aggregate that is a cast"));
        };
        let row: &'static FunctionRow = resolved.function;
        let FunctionKind::Aggregate(function) = row.kind else {
            return Err(SqlError::not_supported(format!(
                "the function {name} with these arguments"
            ))
            .at(at.position()));
        };
        if arguments.is_empty() && !call.star {
            return Err(error_at(
                SqlState::WRONG_OBJECT_TYPE,
                format!("{name}(*) must be used to call a parameterless aggregate function"),
                at,
            ));
        }
        let ty = Type::new(resolved.result);
        let arguments = self.arguments(&resolved, arguments, at)?;
        let mut order_by = Vec::new();
        for key in &call.order_by {
            let expr = self.expr(&key.expr)?;
            let expr = self.resolve_unknown(expr)?;
            order_by.push((expr, key.descending, key.nulls_first));
        }
        let among =
            |key: &Bound| arguments.iter().any(|argument| super::group::same(argument, key));
        if call.distinct && !order_by.iter().all(|(key, ..)| among(key)) {
            return Err(error_at(
                SqlState::INVALID_COLUMN_REFERENCE,
                "in an aggregate with DISTINCT, ORDER BY expressions must appear in argument list",
                at,
            ));
        }
        let filter = match &call.filter {
            Some(filter) => {
                let filter = self.expr(filter)?;
                Some(self.condition(filter, "FILTER")?)
            }
            None => None,
        };
        let aggregate = Aggregate {
            name: row.name,
            function,
            strictness: row.strictness,
            arguments,
            distinct: call.distinct,
            order_by,
            filter,
            ty,
        };
        Ok((aggregate, ty))
    }

    /// An aggregate whose columns are all of outer queries belongs to an outer query.
    fn refuse_outer(&mut self, aggregate: &Aggregate, at: At) -> SqlResult<()> {
        let mut columns = Vec::new();
        for part in aggregate.arguments.iter().chain(&aggregate.filter) {
            super::walk::columns(part, &mut columns);
        }
        let own = |column: &ColumnRef| {
            self.blocks.last().is_some_and(|block| {
                block.items.iter().flat_map(|item| &item.columns).any(|shown| {
                    let mut inside = Vec::new();
                    super::walk::columns(&shown.value, &mut inside);
                    inside.iter().any(|other| other.relation == column.relation)
                })
            })
        };
        if columns.is_empty() || columns.iter().any(own) || self.blocks.len() < 2 {
            return Ok(());
        }
        Err(SqlError::not_supported("an aggregate of an outer query's columns").at(at.position()))
    }

    /// The value of a default.
    pub(super) fn null_of(ty: Type) -> Bound {
        Bound::constant(Datum::Null, ty)
    }
}
