//! Binding of expressions: the choice by kind, and what is neither operator, call nor subquery.
//!
//! Invariants: as in the module's header.

use super::bound::{Bound, BoundKind};
use super::operator::Op;
use super::{Binder, coerce, error_at};
use crate::error::{SqlError, SqlResult, SqlState};
use crate::functions::{CastContext, Comparison, ConstantContext, default_order};
use crate::parse::ast::{At, Expr, ExprKind, Literal, Name, Test, TypeName};
use crate::types::{Datum, Type, TypeOid, text as text_form};

impl<'a> Binder<'a> {
    /// Binds one expression.
    pub(super) fn expr(&mut self, expr: &'a Expr) -> SqlResult<Bound> {
        let at = expr.at;
        match &expr.kind {
            ExprKind::Column { parts, star: false } => self.column(parts, at),
            ExprKind::Column { parts, star: true } => {
                let columns = self.star(parts, at)?;
                let fields = columns.into_iter().map(|column| column.value).collect();
                Ok(Bound::new(BoundKind::Row(fields), TypeOid::RECORD, at))
            }
            ExprKind::Literal(literal) => self.literal(literal, at),
            ExprKind::Parameter(number) => self.parameter(*number, at),
            ExprKind::Operator { schema, name, left, right } => {
                self.operator_expr(schema.as_deref(), name, left.as_deref(), right, at)
            }
            ExprKind::Quantified { name, quantifier, left, right } => {
                self.quantified(name, *quantifier, left, right, at)
            }
            ExprKind::Distinct { negated, left, right } => {
                self.distinct_from(*negated, left, right, at)
            }
            ExprKind::NullIf(left, right) => self.null_if(left, right, at),
            ExprKind::In { negated, left, list } => {
                let found = self.in_list(left, list, at)?;
                Ok(if *negated { negate(found) } else { found })
            }
            ExprKind::Between { negated, symmetric, value, low, high } => {
                let found = self.between(*symmetric, value, low, high, at)?;
                Ok(if *negated { negate(found) } else { found })
            }
            ExprKind::And(items) => {
                let items = self.conditions(items, "AND")?;
                Ok(Bound::new(BoundKind::And(items), TypeOid::BOOL, at))
            }
            ExprKind::Or(items) => {
                let items = self.conditions(items, "OR")?;
                Ok(Bound::new(BoundKind::Or(items), TypeOid::BOOL, at))
            }
            ExprKind::Not(inner) => {
                let inner = self.expr(inner)?;
                Ok(negate(self.condition(inner, "NOT")?))
            }
            ExprKind::Call(call) => self.call(call, at),
            ExprKind::Case { operand, branches, otherwise } => {
                self.case(operand.as_deref(), branches, otherwise.as_deref(), at)
            }
            ExprKind::Coalesce(items) => {
                let items = self.all(items)?;
                let (items, ty) = self.in_common_type(items, "COALESCE")?;
                Ok(Bound::new(BoundKind::Coalesce(items), ty, at))
            }
            ExprKind::MinMax(which, items) => {
                let items = self.all(items)?;
                let construct = match which {
                    crate::parse::ast::Extreme::Greatest => "GREATEST",
                    crate::parse::ast::Extreme::Least => "LEAST",
                };
                let (items, ty) = self.in_common_type(items, construct)?;
                let less = default_order(ty.oid, Comparison::Less)
                    .map_err(|error| error.at(at.position()))?;
                Ok(Bound::new(BoundKind::MinMax(*which, less.operator, items), ty, at))
            }
            _ => self.other_expr(expr),
        }
    }

    /// The kinds that are no operators or calls.
    fn other_expr(&mut self, expr: &'a Expr) -> SqlResult<Bound> {
        let at = expr.at;
        match &expr.kind {
            ExprKind::Is(test, inner) => self.is(*test, inner, at),
            ExprKind::Cast(inner, name) => self.cast_expr(inner, name, at),
            ExprKind::Collate(inner, collation) => self.collate(inner, collation),
            ExprKind::Row(items) => {
                let fields = self.row_fields(items)?;
                Ok(Bound::new(BoundKind::Row(fields), TypeOid::RECORD, at))
            }
            ExprKind::Array(items) => self.array(items, at),
            ExprKind::Exists(query) => self.exists(query, at),
            ExprKind::QuantifiedQuery { name, quantifier, left, query } => {
                self.quantified_query(name, *quantifier, left, query, at)
            }
            ExprKind::Subquery(query) => self.scalar_subquery(query, at),
            ExprKind::ArrayQuery(query) => self.array_subquery(query, at),
            ExprKind::Subscript(array, indices) => self.subscript(array, indices, at),
            ExprKind::Slice(array, low, high) => {
                self.slice(array, low.as_deref(), high.as_deref(), at)
            }
            ExprKind::Field(inner, field) => self.field(inner, field.as_deref(), at),
            ExprKind::Default => {
                Err(error_at(SqlState::SYNTAX_ERROR, "DEFAULT is not allowed in this context", at))
            }
            ExprKind::SqlValue(word, precision) => self.sql_value(word, *precision, at),
            _ => Err(SqlError::internal("an expression of no kind")),
        }
    }

    /// Binds several.
    pub(super) fn all(&mut self, items: &'a [Expr]) -> SqlResult<Vec<Bound>> {
        items.iter().map(|item| self.expr(item)).collect()
    }

    fn conditions(&mut self, items: &'a [Expr], clause: &str) -> SqlResult<Vec<Bound>> {
        let mut bound = Vec::with_capacity(items.len());
        for item in items {
            let item = self.expr(item)?;
            bound.push(self.condition(item, clause)?);
        }
        Ok(bound)
    }

    fn literal(&mut self, literal: &Literal, at: At) -> SqlResult<Bound> {
        let (value, oid) = match literal {
            Literal::Null => (Datum::Null, TypeOid::UNKNOWN),
            Literal::Boolean(value) => (Datum::Bool(*value), TypeOid::BOOL),
            Literal::Integer(value) => (Datum::Int4(*value), TypeOid::INT4),
            Literal::String(text) => (Datum::text(text), TypeOid::UNKNOWN),
            Literal::Number(text) => number(text, at)?,
        };
        Ok(Bound::new(BoundKind::Constant(value), oid, at))
    }

    fn parameter(&mut self, number: u16, at: At) -> SqlResult<Bound> {
        if self.no_parameters && number as usize > self.parameters.len() {
            return Err(error_at(
                SqlState::UNDEFINED_PARAMETER,
                format!("there is no parameter ${number}"),
                at,
            ));
        }
        let index = number as usize - 1;
        if self.parameters.len() <= index {
            self.parameters.resize(index + 1, TypeOid::UNKNOWN);
        }
        let oid = self.parameters[index];
        Ok(Bound::new(BoundKind::Parameter(number - 1), oid, at))
    }

    fn case(
        &mut self,
        operand: Option<&'a Expr>,
        branches: &'a [(Expr, Expr)],
        otherwise: Option<&'a Expr>,
        at: At,
    ) -> SqlResult<Bound> {
        let operand = match operand {
            Some(operand) => {
                let operand = self.expr(operand)?;
                Some(self.resolve_unknown(operand)?)
            }
            None => None,
        };
        let mut conditions = Vec::new();
        let mut results = Vec::new();
        for (when, then) in branches {
            let condition = self.expr(when)?;
            conditions.push(match &operand {
                Some(operand) => {
                    let compared =
                        self.operator(Op::of("="), Some(operand.clone()), condition, when.at)?;
                    self.condition(compared, "CASE/WHEN")?
                }
                None => self.condition(condition, "CASE/WHEN")?,
            });
            results.push(self.expr(then)?);
        }
        // The default comes first when the common type is chosen, as in PostgreSQL.
        results.insert(
            0,
            match otherwise {
                Some(otherwise) => self.expr(otherwise)?,
                None => Bound::new(BoundKind::Constant(Datum::Null), TypeOid::UNKNOWN, At::NONE),
            },
        );
        let (mut results, ty) = self.in_common_type(results, "CASE")?;
        let otherwise = Box::new(results.remove(0));
        let branches = conditions.into_iter().zip(results).collect();
        Ok(Bound::new(BoundKind::Case(branches, otherwise), ty, at))
    }

    fn is(&mut self, test: Test, inner: &'a Expr, at: At) -> SqlResult<Bound> {
        let inner_bound = self.expr(inner)?;
        let inner = match test {
            Test::Null | Test::NotNull => {
                if let BoundKind::Row(fields) = inner_bound.kind {
                    let each = |field: Bound| {
                        Bound::new(BoundKind::Is(test, Box::new(field)), TypeOid::BOOL, at)
                    };
                    let tests = fields.into_iter().map(each).collect();
                    return Ok(Bound::new(BoundKind::And(tests), TypeOid::BOOL, at));
                }
                self.resolve_unknown(inner_bound)?
            }
            _ => {
                let clause = match test {
                    Test::True => "IS TRUE",
                    Test::NotTrue => "IS NOT TRUE",
                    Test::False => "IS FALSE",
                    Test::NotFalse => "IS NOT FALSE",
                    Test::Unknown => "IS UNKNOWN",
                    _ => "IS NOT UNKNOWN",
                };
                self.condition(inner_bound, clause)?
            }
        };
        Ok(Bound::new(BoundKind::Is(test, Box::new(inner)), TypeOid::BOOL, at))
    }

    fn cast_expr(&mut self, inner: &'a Expr, name: &'a TypeName, at: At) -> SqlResult<Bound> {
        let target = coerce::type_of(name)?;
        if let (ExprKind::Array(items), Some(element)) = (&inner.kind, target.oid.element_type()) {
            return self.array_of(items, element, at);
        }
        let value = self.expr(inner)?;
        self.cast(value, target, if at == At::NONE { name.name.at } else { at })
    }

    fn collate(&mut self, inner: &'a Expr, collation: &Name) -> SqlResult<Bound> {
        let known = matches!(collation.schema.as_deref(), None | Some("pg_catalog"))
            && matches!(collation.name.as_str(), "default" | "C" | "POSIX" | "ucs_basic");
        if !known {
            return Err(error_at(
                SqlState::UNDEFINED_OBJECT,
                format!("collation \"{collation}\" for encoding \"UTF8\" does not exist"),
                collation.at,
            ));
        }
        let value = self.expr(inner)?;
        if !matches!(
            value.ty.oid,
            TypeOid::TEXT | TypeOid::VARCHAR | TypeOid::BPCHAR | TypeOid::NAME | TypeOid::UNKNOWN
        ) && value.ty.oid.element_type().is_none()
        {
            return Err(error_at(
                SqlState::DATATYPE_MISMATCH,
                format!("collations are not supported by type {}", value.ty.oid),
                collation.at,
            ));
        }
        // Every text compares by its bytes here, so these collations are one.
        Ok(value)
    }

    fn array(&mut self, items: &'a [Expr], at: At) -> SqlResult<Bound> {
        if items.is_empty() {
            return Err(error_at(
                SqlState::INDETERMINATE_DATATYPE,
                "cannot determine type of empty array",
                at,
            )
            .hint("Explicitly cast to the desired type, for example ARRAY[]::integer[]."));
        }
        let values = self.all(items)?;
        let (values, ty) = self.in_common_type(values, "ARRAY")?;
        let element = ty.oid.element_type().unwrap_or(ty.oid);
        let nested = ty.oid.element_type().is_some();
        let result = if nested { Some(ty.oid) } else { element.array_type() };
        let Some(result) = result else {
            return Err(error_at(
                SqlState::UNDEFINED_OBJECT,
                format!("could not find array type for data type {element}"),
                at,
            ));
        };
        Ok(Bound::new(BoundKind::Array(element, values), result, at))
    }

    /// `ARRAY[..]::element[]`: each element is cast.
    fn array_of(&mut self, items: &'a [Expr], element: TypeOid, at: At) -> SqlResult<Bound> {
        let Some(array) = element.array_type() else {
            return Err(SqlError::internal("an element type without an array type"));
        };
        let mut values = Vec::with_capacity(items.len());
        for item in items {
            values.push(match &item.kind {
                ExprKind::Array(inner) => self.array_of(inner, element, item.at)?,
                _ => {
                    let value = self.expr(item)?;
                    let is_array = value.ty.oid.element_type().is_some();
                    let target = if is_array { array } else { element };
                    self.cast(value, Type::new(target), item.at)?
                }
            });
        }
        Ok(Bound::new(BoundKind::Array(element, values), array, at))
    }

    fn subscript(&mut self, array: &'a Expr, indices: &'a [Expr], at: At) -> SqlResult<Bound> {
        let array = self.expr(array)?;
        let Some(element) = array.ty.oid.element_type() else {
            return Err(no_subscripts(array.ty.oid, at));
        };
        let mut subscripts = Vec::with_capacity(indices.len());
        for index in indices {
            subscripts.push(self.array_index(index)?);
        }
        let ty = Type::with(element, array.ty.typmod);
        Ok(Bound::new(BoundKind::Subscript(Box::new(array), subscripts), ty, at))
    }

    /// A subscript.
    pub(super) fn array_index(&mut self, index: &'a Expr) -> SqlResult<Bound> {
        let value = self.expr(index)?;
        self.convert(value, TypeOid::INT4, CastContext::Assignment)?.ok_or_else(|| {
            error_at(
                SqlState::DATATYPE_MISMATCH,
                "array subscript must have type integer",
                index.at,
            )
        })
    }

    fn slice(
        &mut self,
        array: &'a Expr,
        low: Option<&'a Expr>,
        high: Option<&'a Expr>,
        at: At,
    ) -> SqlResult<Bound> {
        let array = self.expr(array)?;
        if array.ty.oid.element_type().is_none() {
            return Err(no_subscripts(array.ty.oid, at));
        }
        let ty = array.ty;
        let low = low.map(|low| self.array_index(low)).transpose()?.map(Box::new);
        let high = high.map(|high| self.array_index(high)).transpose()?.map(Box::new);
        Ok(Bound::new(BoundKind::Slice(Box::new(array), low, high), ty, at))
    }

    /// CURRENT_TIMESTAMP and its kin, in terms of functions.
    fn sql_value(&mut self, word: &str, precision: Option<i32>, at: At) -> SqlResult<Bound> {
        let (function, cast) = match word {
            "current_timestamp" => ("now", None),
            "localtimestamp" => ("now", Some(TypeOid::TIMESTAMP)),
            "current_date" => ("now", Some(TypeOid::DATE)),
            "localtime" => ("now", Some(TypeOid::TIME)),
            "current_user" | "user" | "current_role" => ("current_user", None),
            "session_user" => ("session_user", None),
            "current_catalog" => ("current_database", None),
            _ => ("current_schema", None),
        };
        let value = self.call_by_name(function, Vec::new(), at)?;
        let value = match cast {
            Some(target) => self.cast(value, Type::new(target), at)?,
            None => value,
        };
        match precision {
            Some(precision) => {
                let target = Type::with(value.ty.oid, precision.min(6));
                self.cast(value, target, at)
            }
            None => Ok(value),
        }
    }
}

/// NOT.
pub(super) fn negate(bound: Bound) -> Bound {
    let at = bound.at;
    Bound::new(BoundKind::Not(Box::new(bound)), TypeOid::BOOL, at)
}

/// A number that is no int4: int8 if it fits, else numeric.
fn number(text: &str, at: At) -> SqlResult<(Datum, TypeOid)> {
    let digits = text.replace('_', "");
    let radix = |prefix: &str, radix| {
        let lower = digits.to_ascii_lowercase();
        lower.strip_prefix(prefix).and_then(|rest| i64::from_str_radix(rest, radix).ok())
    };
    let integer = digits
        .parse::<i64>()
        .ok()
        .or_else(|| radix("0x", 16))
        .or_else(|| radix("0o", 8))
        .or_else(|| radix("0b", 2));
    if let Some(value) = integer {
        return Ok(match i32::try_from(value) {
            Ok(small) => (Datum::Int4(small), TypeOid::INT4),
            Err(_) => (Datum::Int8(value), TypeOid::INT8),
        });
    }
    let value = text_form::input(Type::new(TypeOid::NUMERIC), &digits, &ConstantContext)
        .map_err(|error| error.at(at.position()))?;
    Ok((value, TypeOid::NUMERIC))
}

/// 42804.
pub(super) fn no_subscripts(ty: TypeOid, at: At) -> SqlError {
    error_at(
        SqlState::DATATYPE_MISMATCH,
        format!("cannot subscript type {ty} because it does not support subscripting"),
        at,
    )
}
