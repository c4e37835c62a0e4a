//! Statements that run without operators: one row by its whole key, or new rows of VALUES.
//!
//! Invariants: the same steps as the general plan, on the same plan, minus the boxes: nothing is
//! allocated but what the row itself needs.

use super::modify::{Returned, Update, delete, insert};
use super::scan::decode;
use super::{Cx, keys};
use crate::error::{SqlError, SqlResult};
use crate::plan::node::{Access, Plan, TableScan};
use crate::plan::{Action, InsertPlan, Modification};
use atoll_kernel::api::{Parker, RowId};

/// Finds the row of a point access into the frame.
fn find(scan: &TableScan, cx: &mut Cx<'_, '_>) -> SqlResult<Option<RowId>> {
    let Some(watch) = cx.watch.clone() else { return find_unwatched(scan, cx) };
    let began = cx.statement.context().now_ns();
    let found = find_unwatched(scan, cx);
    let counts = watch.at(std::ptr::from_ref(scan).addr());
    counts.loops.set(counts.loops.get() + 1);
    counts.rows.set(counts.rows.get() + u64::from(matches!(found, Ok(Some(_)))));
    counts.total_ns.set(cx.statement.context().now_ns().saturating_sub(began));
    counts.first_ns.set(counts.total_ns.get());
    found
}

fn find_unwatched(scan: &TableScan, cx: &mut Cx<'_, '_>) -> SqlResult<Option<RowId>> {
    let Access::Point(index, values) = &scan.access else {
        return Err(SqlError::internal("a fast plan without a point access"));
    };
    let mut key = std::mem::take(&mut cx.key);
    let complete = keys::point(index, values, None, &mut key, cx);
    let found = match complete {
        Ok(true) => {
            let ids = &scan.columns.ids;
            let found = cx.statement.index_point(&scan.table, index, &key, ids, &mut cx.row);
            found.map_err(SqlError::from)
        }
        Ok(false) => Ok(None),
        Err(error) => Err(error),
    };
    cx.key = key;
    let Some(row) = found? else { return Ok(None) };
    decode(scan, row, cx.row.view(), &mut cx.frame)?;
    match &scan.filter {
        Some(filter) if !filter.test(cx)? => Ok(None),
        _ => Ok(Some(row)),
    }
}

fn scan_of(plan: &Plan) -> SqlResult<&TableScan> {
    match plan {
        Plan::Table(scan) => Ok(scan),
        Plan::Project(input, _) => scan_of(input),
        _ => Err(SqlError::internal("a fast plan that is no scan")),
    }
}

/// Runs a fast SELECT: true if its row's columns are in the frame.
pub fn select(plan: &Plan, cx: &mut Cx<'_, '_>) -> SqlResult<bool> {
    if find(scan_of(plan)?, cx)?.is_none() {
        return Ok(false);
    }
    if let Plan::Project(_, outputs) = plan {
        for (program, slot) in outputs {
            let value = program.eval(cx)?;
            cx.frame[*slot as usize] = value;
        }
    }
    Ok(true)
}

/// Runs a fast data change without RETURNING; answers how many rows it changed.
pub fn modify(action: &Action, cx: &mut Cx<'_, '_>, returned: Returned<'_>) -> SqlResult<u64> {
    let Action::Modify(modify) = action else {
        return Err(SqlError::internal("a fast change that is a query"));
    };
    if modify.returning.is_some() {
        return super::modify::run(modify, cx, returned);
    }
    match &modify.modification {
        Modification::Insert { source: InsertPlan::Values(rows), new_row, .. } => {
            // Several rows go together.
            let [row] = &rows[..] else { return super::modify::run(modify, cx, returned) };
            insert(modify, row, new_row, cx)?;
            Ok(1)
        }
        Modification::Update { plan, target, assignments, recheck, new_row, .. } => {
            let Some(row) = find(scan_of(plan)?, cx)? else { return Ok(0) };
            let recheck = recheck.as_ref();
            let update = Update { plan: modify, target, assignments, recheck, new_row };
            update.run(row, cx).map(u64::from)
        }
        Modification::Delete { plan, target, recheck, .. } => {
            let Some(row) = find(scan_of(plan)?, cx)? else { return Ok(0) };
            delete(target, recheck.as_ref(), row, cx).map(u64::from)
        }
        Modification::Insert { .. } => Err(SqlError::internal("a fast INSERT of a query")),
    }
}
