//! From bound expressions to programs.
//!
//! Invariants: a program leaves one value; columns become slots, subqueries become subplans.

use super::Planner;
use super::node::{Subplan, SubplanKind};
use crate::bind::bound::{Bound, BoundKind, BoundSubquery, SubqueryKind};
use crate::error::{SqlError, SqlResult};
use crate::exec::program::{Program, SequenceCall, Step};
use crate::functions::{Comparison, OperatorRow, Strictness};
use crate::parse::ast::Quantifier;
use crate::types::{Datum, TypeOid};

impl Planner<'_> {
    /// Compiles an expression.
    pub(super) fn compile(&mut self, bound: &Bound) -> SqlResult<Program> {
        let mut steps = Vec::new();
        self.emit(bound, &mut steps)?;
        Ok(Program { steps: steps.into(), text: self.shown(bound) })
    }

    /// Compiles several.
    pub(super) fn compile_all(&mut self, bounds: &[Bound]) -> SqlResult<Vec<Program>> {
        bounds.iter().map(|bound| self.compile(bound)).collect()
    }

    /// Compiles the AND of conditions; None if there are none.
    pub(super) fn compile_filter(&mut self, conditions: &[Bound]) -> SqlResult<Option<Program>> {
        match conditions {
            [] => Ok(None),
            [one] => self.compile(one).map(Some),
            many => {
                let mut steps = Vec::new();
                self.emit_and(many, &mut steps)?;
                let shown: Option<Vec<_>> = many.iter().map(|it| self.shown(it)).collect();
                let text = shown.map(|parts| format!("({})", parts.join(" AND ")).into());
                Ok(Some(Program { steps: steps.into(), text }))
            }
        }
    }

    fn emit(&mut self, bound: &Bound, out: &mut Vec<Step>) -> SqlResult<()> {
        match &bound.kind {
            BoundKind::Constant(value) => out.push(Step::Constant(value.clone())),
            BoundKind::Parameter(index) => out.push(Step::Parameter(*index)),
            BoundKind::Column(column)
            | BoundKind::GroupKey(column)
            | BoundKind::Aggregate(column) => out.push(Step::Slot(self.slots.of(*column))),
            BoundKind::Call(call) => {
                for argument in &call.arguments {
                    self.emit(argument, out)?;
                }
                let count = call.arguments.len() as u16;
                out.push(match SequenceCall::named(call.name) {
                    Some(what) => Step::Sequence(what, count),
                    None => Step::Call(call.function, count, call.strictness),
                });
            }
            BoundKind::Operator(row, left, right) => {
                self.emit_operator(row, left.as_deref(), right, out)?;
            }
            BoundKind::Coerce(coercion, inner) => {
                self.emit(inner, out)?;
                if !coercion.is_noop() {
                    out.push(Step::Coerce(Box::new(coercion.clone())));
                }
            }
            BoundKind::Typmod(context, inner) => {
                self.emit(inner, out)?;
                out.push(Step::Typmod(bound.ty, *context));
            }
            BoundKind::And(items) => self.emit_and(items, out)?,
            BoundKind::Or(items) => self.emit_or(items, out)?,
            BoundKind::Not(inner) => {
                self.emit(inner, out)?;
                out.push(Step::Not);
            }
            BoundKind::Is(test, inner) => {
                self.emit(inner, out)?;
                out.push(Step::Is(*test));
            }
            BoundKind::Case(branches, otherwise) => self.emit_case(branches, otherwise, out)?,
            BoundKind::Coalesce(items) => self.emit_coalesce(items, out)?,
            BoundKind::Subquery(subquery) => {
                let index = self.subplan(subquery)?;
                out.push(Step::Subplan(index));
            }
            BoundKind::Set(_) => {
                return Err(SqlError::not_supported(
                    "a set-returning function inside an expression of the target list",
                )
                .at(bound.at.position()));
            }
            _ => self.emit_rest(bound, out)?,
        }
        Ok(())
    }

    fn emit_rest(&mut self, bound: &Bound, out: &mut Vec<Step>) -> SqlResult<()> {
        let types = |items: &[Bound]| items.iter().map(|item| item.ty.oid).collect::<Vec<_>>();
        match &bound.kind {
            BoundKind::Distinct { equality, negated, sides } => {
                self.emit(&sides.0, out)?;
                self.emit(&sides.1, out)?;
                out.push(Step::Distinct(equality, *negated));
            }
            BoundKind::NullIf(row, sides) => {
                self.emit(&sides.0, out)?;
                self.emit(&sides.1, out)?;
                out.push(Step::NullIf(row));
            }
            BoundKind::In { left, rows } => self.emit_in(left, rows, out)?,
            BoundKind::Quantified { operator, quantifier, left, array } => {
                self.emit(left, out)?;
                self.emit(array, out)?;
                out.push(Step::Quantified(operator, *quantifier));
            }
            BoundKind::RowCompare { or_equal, columns } => {
                for (_, _, left, _) in columns {
                    self.emit(left, out)?;
                }
                for (_, _, _, right) in columns {
                    self.emit(right, out)?;
                }
                let rows = columns.iter().map(|(strict, equal, _, _)| (*strict, *equal)).collect();
                out.push(Step::RowCompare(*or_equal, rows));
            }
            BoundKind::MinMax(which, _, items) => {
                self.emit_each(items, out)?;
                out.push(Step::MinMax(*which, bound.ty.oid, items.len() as u16));
            }
            BoundKind::Array(element, items) => {
                self.emit_each(items, out)?;
                out.push(Step::Array(*element, items.len() as u16));
            }
            BoundKind::Row(items) => {
                self.emit_each(items, out)?;
                out.push(Step::Row(types(items).into()));
            }
            BoundKind::Field(inner, index) => {
                self.emit(inner, out)?;
                out.push(Step::Field(*index));
            }
            BoundKind::Subscript(array, indices) => {
                self.emit(array, out)?;
                self.emit_each(indices, out)?;
                out.push(Step::Subscript(indices.len() as u16));
            }
            BoundKind::SetElement(parts) => {
                let (array, indices, value) = &**parts;
                let element = array.ty.oid.element_type();
                let element = element.ok_or_else(|| SqlError::internal("elements of no array"))?;
                self.emit(array, out)?;
                self.emit_each(indices, out)?;
                self.emit(value, out)?;
                out.push(Step::SetElement(indices.len() as u16, element));
            }
            BoundKind::Slice(array, low, high) => {
                self.emit(array, out)?;
                for end in low.iter().chain(high) {
                    self.emit(end, out)?;
                }
                out.push(Step::Slice(low.is_some(), high.is_some()));
            }
            _ => return Err(SqlError::internal("an expression that has no program")),
        }
        Ok(())
    }

    fn emit_each(&mut self, items: &[Bound], out: &mut Vec<Step>) -> SqlResult<()> {
        items.iter().try_for_each(|item| self.emit(item, out))
    }

    fn emit_operator(
        &mut self,
        row: &'static OperatorRow,
        left: Option<&Bound>,
        right: &Bound,
        out: &mut Vec<Step>,
    ) -> SqlResult<()> {
        let Some(left) = left else {
            self.emit(right, out)?;
            out.push(Step::Call(row.function, 1, row.strictness));
            return Ok(());
        };
        if let (Some(fast), BoundKind::Column(column), Some(constant)) =
            (row.fast, &left.kind, right.as_constant())
            && !constant.is_null()
        {
            let slot = self.slots.of(*column);
            out.push(Step::FastSlotConstant(fast, slot, constant.clone()));
            return Ok(());
        }
        self.emit(left, out)?;
        self.emit(right, out)?;
        match row.fast {
            Some(fast) if row.strictness == Strictness::Strict => out.push(Step::Fast(fast)),
            _ => out.push(Step::Call(row.function, 2, row.strictness)),
        }
        Ok(())
    }

    fn emit_and(&mut self, items: &[Bound], out: &mut Vec<Step>) -> SqlResult<()> {
        self.emit_combined(items, out, Step::And, Step::JumpIfFalse, true)
    }

    fn emit_or(&mut self, items: &[Bound], out: &mut Vec<Step>) -> SqlResult<()> {
        self.emit_combined(items, out, Step::Or, Step::JumpIfTrue, false)
    }

    fn emit_combined(
        &mut self,
        items: &[Bound],
        out: &mut Vec<Step>,
        combine: Step,
        jump: fn(u32) -> Step,
        empty: bool,
    ) -> SqlResult<()> {
        let Some((first, rest)) = items.split_first() else {
            out.push(Step::Constant(Datum::Bool(empty)));
            return Ok(());
        };
        self.emit(first, out)?;
        let mut jumps = Vec::with_capacity(rest.len());
        for item in rest {
            jumps.push(out.len());
            out.push(jump(0));
            self.emit(item, out)?;
            out.push(combine.clone());
        }
        let end = out.len() as u32;
        jumps.into_iter().for_each(|at| out[at] = jump(end));
        Ok(())
    }

    fn emit_case(
        &mut self,
        branches: &[(Bound, Bound)],
        otherwise: &Bound,
        out: &mut Vec<Step>,
    ) -> SqlResult<()> {
        let mut ends = Vec::with_capacity(branches.len());
        for (condition, result) in branches {
            self.emit(condition, out)?;
            let unless = out.len();
            out.push(Step::JumpUnless(0));
            self.emit(result, out)?;
            ends.push(out.len());
            out.push(Step::Jump(0));
            out[unless] = Step::JumpUnless(out.len() as u32);
        }
        self.emit(otherwise, out)?;
        let end = out.len() as u32;
        ends.into_iter().for_each(|at| out[at] = Step::Jump(end));
        Ok(())
    }

    fn emit_coalesce(&mut self, items: &[Bound], out: &mut Vec<Step>) -> SqlResult<()> {
        let Some((last, rest)) = items.split_last() else {
            return Err(SqlError::internal("COALESCE of nothing"));
        };
        let mut jumps = Vec::with_capacity(rest.len());
        for item in rest {
            self.emit(item, out)?;
            jumps.push(out.len());
            out.push(Step::JumpIfNotNull(0));
        }
        self.emit(last, out)?;
        let end = out.len() as u32;
        jumps.into_iter().for_each(|at| out[at] = Step::JumpIfNotNull(end));
        Ok(())
    }

    /// The left side is evaluated once and compared with row after row until one is equal.
    fn emit_in(
        &mut self,
        left: &[Bound],
        rows: &[Vec<(&'static OperatorRow, Bound)>],
        out: &mut Vec<Step>,
    ) -> SqlResult<()> {
        self.emit_each(left, out)?;
        let width = left.len() as u16;
        if width == 1
            && let Some((operator, constants)) = one_operator(rows)
        {
            out.push(Step::InConstants(operator, constants.into()));
            return Ok(());
        }
        let mut jumps = Vec::new();
        for (index, row) in rows.iter().enumerate() {
            // Below: the left side, and from the second row on the answer so far.
            if index == 0 {
                out.push(Step::Again(width));
            } else {
                jumps.push(out.len());
                out.push(Step::JumpIfTrue(0));
                self.emit_each(left, out)?;
            }
            for (_, right) in row {
                self.emit(right, out)?;
            }
            out.push(Step::RowEqual(row.iter().map(|(operator, _)| *operator).collect()));
            if index > 0 {
                out.push(Step::Or);
            }
        }
        if rows.is_empty() {
            out.push(Step::Constant(Datum::Bool(false)));
        }
        let end = out.len() as u32;
        jumps.into_iter().for_each(|at| out[at] = Step::JumpIfTrue(end));
        out.push(Step::Under(width));
        Ok(())
    }

    fn subplan(&mut self, subquery: &BoundSubquery) -> SqlResult<u32> {
        let correlated = super::is_correlated(&subquery.query);
        let (plan, outputs) = self.query(&subquery.query)?;
        let kind = match &subquery.kind {
            SubqueryKind::Scalar => SubplanKind::Scalar,
            SubqueryKind::Exists => SubplanKind::Exists,
            SubqueryKind::Array(element) => SubplanKind::Array(*element),
            SubqueryKind::Quantified { quantifier, left } => {
                let equal = left.iter().all(|(_, row)| row.comparison == Some(Comparison::Equal));
                let types: Vec<TypeOid> =
                    subquery.query.outputs.iter().map(|output| output.ty.oid).collect();
                let hashed = (equal && !correlated && *quantifier == Quantifier::Any)
                    .then(|| types[..left.len()].to_vec());
                let mut programs = Vec::with_capacity(left.len());
                for (side, row) in left {
                    programs.push((self.compile(side)?, *row));
                }
                SubplanKind::Quantified { quantifier: *quantifier, left: programs, hashed }
            }
        };
        self.subplans.push(Subplan { plan, outputs, kind, correlated });
        Ok(self.subplans.len() as u32 - 1)
    }
}

/// The one operator of all rows, and their constants, if that is what they are.
fn one_operator(
    rows: &[Vec<(&'static OperatorRow, Bound)>],
) -> Option<(&'static OperatorRow, Vec<Datum>)> {
    let operator = rows.first()?.first()?.0;
    let mut constants = Vec::with_capacity(rows.len());
    for row in rows {
        let (own, value) = row.first()?;
        if !std::ptr::eq(*own, operator) {
            return None;
        }
        constants.push(value.as_constant()?.clone());
    }
    Some((operator, constants))
}
