//! Subqueries of expressions.
//!
//! Invariants: a subquery that reads nothing of the query around it is run at most once an
//! execution; a correlated one is restarted for each evaluation.

use super::program::{and, compare_by, or};
use super::spill::{Reservation, RowStore, StoreCursor};
use super::{Cx, KeySet, Operator, Rows, hash_key, open};
use crate::error::{SqlError, SqlResult, SqlState};
use crate::functions::OperatorRow;
use crate::parse::ast::Quantifier;
use crate::plan::node::{Subplan, SubplanKind};
use crate::types::{Datum, TypeOid};
use std::cell::RefCell;
use std::rc::Rc;

/// The rows of an uncorrelated `IN` as a hash table.
#[derive(Default)]
pub struct Table {
    keys: KeySet,
    /// Some row has a NULL: no answer is false for certain.
    has_null: bool,
    is_empty: bool,
    reserved: Reservation,
}

/// The value of a subquery.
pub(super) fn evaluate(cx: &mut Cx<'_, '_>, index: usize) -> SqlResult<Datum> {
    let planned = cx.planned;
    let subplan = &planned.subplans[index];
    if let SubplanKind::Quantified { quantifier, left, hashed } = &subplan.kind {
        let mut values = Vec::with_capacity(left.len());
        for (program, _) in left {
            values.push(program.eval(cx)?);
        }
        let operators: Vec<&'static OperatorRow> = left.iter().map(|(_, row)| *row).collect();
        return match hashed {
            Some(types) => probe(cx, index, subplan, types, &values),
            None => quantified(cx, index, subplan, *quantifier, &values, &operators),
        };
    }
    if let Some(value) = &cx.subplans[index].value {
        return Ok(value.clone());
    }
    let value = with_rows(cx, index, subplan, |rows, cx| match &subplan.kind {
        SubplanKind::Exists => Ok(Datum::Bool(rows.next(cx)?)),
        SubplanKind::Scalar => {
            if !rows.next(cx)? {
                return Ok(Datum::Null);
            }
            let value = cx.frame[subplan.outputs[0] as usize].clone();
            if rows.next(cx)? {
                return Err(SqlError::new(
                    SqlState::CARDINALITY_VIOLATION,
                    "more than one row returned by a subquery used as an expression",
                ));
            }
            Ok(value)
        }
        SubplanKind::Array(element) => {
            let mut items = Vec::new();
            while rows.next(cx)? {
                items.push(cx.frame[subplan.outputs[0] as usize].clone());
            }
            super::program::array_of(*element, items)
        }
        SubplanKind::Quantified { .. } => Err(SqlError::internal("handled above")),
    })?;
    if !subplan.correlated {
        cx.subplans[index].value = Some(value.clone());
    }
    Ok(value)
}

/// Runs the subquery from its beginning. The frame's slots of the query around stay as they are:
/// the subquery writes its own only.
fn with_rows<R>(
    cx: &mut Cx<'_, '_>,
    index: usize,
    subplan: &Subplan,
    run: impl FnOnce(&mut dyn Operator, &mut Cx<'_, '_>) -> SqlResult<R>,
) -> SqlResult<R> {
    cx.check_stack()?;
    let planned = cx.planned;
    let mut operator = match cx.subplans[index].operator.take() {
        Some(mut operator) => {
            operator.restart(cx)?;
            operator
        }
        None => open(&planned.subplans[index].plan, cx.opening())?,
    };
    debug_assert!(std::ptr::eq(subplan, &planned.subplans[index]), "one plan, one list");
    let result = run(&mut *operator, cx);
    cx.subplans[index].operator = Some(operator);
    result
}

fn rows_of(cx: &mut Cx<'_, '_>, index: usize, subplan: &Subplan) -> SqlResult<Rows> {
    if let Some(rows) = &cx.subplans[index].rows {
        return Ok(rows.clone());
    }
    let rows = with_rows(cx, index, subplan, |operator, cx| {
        let mut rows = RowStore::default();
        while operator.next(cx)? {
            cx.breathe()?;
            let row = cx.save(&subplan.outputs);
            rows.push(row, cx)?;
        }
        Ok(Rc::new(RefCell::new(rows)))
    })?;
    if !subplan.correlated {
        cx.subplans[index].rows = Some(rows.clone());
    }
    Ok(rows)
}

/// Calls `visit` with each row until it answers false.
fn each_row(
    rows: &Rows,
    cx: &mut Cx<'_, '_>,
    mut visit: impl FnMut(&[Datum], &mut Cx<'_, '_>) -> SqlResult<bool>,
) -> SqlResult<()> {
    let (mut cursor, mut at) = (StoreCursor::default(), 0);
    let mut rows = rows.borrow_mut();
    while let Some(more) = rows.with(at, &mut cursor, cx, &mut visit)? {
        cx.breathe()?;
        at += 1;
        if !more? {
            break;
        }
    }
    Ok(())
}

fn quantified(
    cx: &mut Cx<'_, '_>,
    index: usize,
    subplan: &Subplan,
    quantifier: Quantifier,
    left: &[Datum],
    operators: &[&'static OperatorRow],
) -> SqlResult<Datum> {
    let rows = rows_of(cx, index, subplan)?;
    // `<>` of rows is true when any column differs; everything else when all columns hold.
    let differs = left.len() > 1 && operators.iter().all(|row| row.name == "<>");
    let mut result = Some(quantifier == Quantifier::All);
    each_row(&rows, cx, |row, cx| {
        let mut holds = Some(!differs);
        for ((left, right), operator) in left.iter().zip(row).zip(operators) {
            let test = compare_by(operator, left, right, cx)?;
            holds = if differs { or(holds, test) } else { and(holds, test) };
        }
        result = match quantifier {
            Quantifier::Any => or(result, holds),
            Quantifier::All => and(result, holds),
        };
        Ok(result != Some(quantifier == Quantifier::Any))
    })?;
    Ok(result.map_or(Datum::Null, Datum::Bool))
}

fn probe(
    cx: &mut Cx<'_, '_>,
    index: usize,
    subplan: &Subplan,
    types: &[TypeOid],
    left: &[Datum],
) -> SqlResult<Datum> {
    if cx.subplans[index].table.is_none() {
        let rows = rows_of(cx, index, subplan)?;
        let is_empty = rows.borrow().is_empty();
        let mut table = Table { is_empty, ..Table::default() };
        each_row(&rows, cx, |row, cx| {
            if row[..types.len()].iter().any(Datum::is_null) {
                table.has_null = true;
                return Ok(true);
            }
            let mut key = Vec::new();
            row.iter().zip(types).for_each(|(value, ty)| hash_key(value, *ty, &mut key));
            table.reserved.grow(cx.memory(), key.len() + super::filter::KEY_BYTES)?;
            table.keys.insert(key);
            Ok(true)
        })?;
        cx.subplans[index].table = Some(table);
    }
    let Some(table) = &cx.subplans[index].table else { return Ok(Datum::Null) };
    if table.is_empty {
        return Ok(Datum::Bool(false));
    }
    let unsure = left.iter().any(Datum::is_null) || (table.has_null && types.len() > 1);
    if !unsure {
        let mut key = Vec::new();
        left.iter().zip(types).for_each(|(value, ty)| hash_key(value, *ty, &mut key));
        if table.keys.contains(&key) {
            return Ok(Datum::Bool(true));
        }
        return Ok(if table.has_null { Datum::Null } else { Datum::Bool(false) });
    }
    // With NULLs on either side of a row, each row has to be looked at.
    let SubplanKind::Quantified { left: programs, .. } = &subplan.kind else {
        return Err(SqlError::internal("a hash table without a quantifier"));
    };
    let operators: Vec<&'static OperatorRow> = programs.iter().map(|(_, row)| *row).collect();
    quantified(cx, index, subplan, Quantifier::Any, left, &operators)
}
