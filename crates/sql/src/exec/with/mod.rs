//! Common table expressions that are evaluated once: queries, and data changes.
//!
//! Invariants: a query's rows are computed as they are asked for, by whoever is first to ask for
//! one, and kept for the others; so a LIMIT above may end what would never end by itself. A data
//! change runs to its end when it is first read, and when the statement ends if nobody has read it:
//! once, whatever happens. All of a statement has one snapshot and one command number, so nothing
//! of it sees what another part of it has changed.

mod recursive;

pub(super) use recursive::{Recursive, WorkingScan};

use crate::error::SqlResult;
use crate::exec::program::Slot;
use crate::exec::spill::StoreCursor;
use crate::exec::{Cx, Operator, modify, open};
use crate::plan::node::CteRows;
use crate::types::Datum;

/// The rows of a common table expression, copied into the reader's slots.
pub(in crate::exec) struct CteScan<'p> {
    index: usize,
    slots: &'p [Slot],
    cursor: StoreCursor,
    at: u64,
}

impl<'p> CteScan<'p> {
    pub(in crate::exec) fn new(index: usize, slots: &'p [Slot]) -> CteScan<'p> {
        CteScan { index, slots, cursor: StoreCursor::default(), at: 0 }
    }

    /// A row that is there.
    fn kept(&mut self, cx: &mut Cx<'_, '_>) -> SqlResult<bool> {
        let (rows, slots) = (cx.ctes[self.index].rows.clone(), self.slots);
        let give = |row: &[Datum], cx: &mut Cx<'_, '_>| cx.restore(slots, row);
        let found = rows.borrow_mut().with(self.at, &mut self.cursor, cx, give)?;
        Ok(found.is_some())
    }

    /// Computes one more row, keeps it and gives it; false if there is none.
    fn computed(&mut self, cx: &mut Cx<'_, '_>) -> SqlResult<bool> {
        let planned = cx.planned;
        let CteRows::Query(plan, outputs) = &planned.ctes[self.index].rows else {
            run_change(self.index, cx)?;
            return self.kept(cx);
        };
        let mut operator = match cx.ctes[self.index].operator.take() {
            Some(operator) => operator,
            None => open(plan, cx.opening())?,
        };
        if !operator.next(cx)? {
            cx.ctes[self.index].is_complete = true;
            return Ok(false);
        }
        let row = cx.save(outputs);
        cx.restore(self.slots, &row);
        let state = &mut cx.ctes[self.index];
        state.operator = Some(operator);
        let rows = state.rows.clone();
        rows.borrow_mut().push(row, cx)?;
        Ok(true)
    }
}

impl Operator for CteScan<'_> {
    fn next(&mut self, cx: &mut Cx<'_, '_>) -> SqlResult<bool> {
        cx.check_stack()?;
        cx.breathe()?;
        let state = &cx.ctes[self.index];
        let is_there = self.at < state.rows.borrow().len();
        let given = match state.is_complete || is_there {
            true => self.kept(cx)?,
            false => self.computed(cx)?,
        };
        self.at += u64::from(given);
        Ok(given)
    }

    fn restart(&mut self, _cx: &mut Cx<'_, '_>) -> SqlResult<()> {
        self.at = 0;
        Ok(())
    }
}

/// Runs a data change of WITH, if it has not run.
fn run_change(index: usize, cx: &mut Cx<'_, '_>) -> SqlResult<()> {
    let planned = cx.planned;
    let CteRows::Change(plan) = &planned.ctes[index].rows else { return Ok(()) };
    if std::mem::replace(&mut cx.ctes[index].is_complete, true) {
        return Ok(());
    }
    let is_read = planned.ctes[index].is_read;
    let rows = cx.ctes[index].rows.clone();
    modify::run(plan, cx, &mut |values, cx| match is_read {
        true => rows.borrow_mut().push(values.into(), cx),
        false => Ok(()),
    })?;
    Ok(())
}

/// Runs the data changes of WITH that nobody has read, the last one first, as PostgreSQL does: what
/// that one reads of earlier ones makes them run.
pub(in crate::exec) fn run_changes(cx: &mut Cx<'_, '_>) -> SqlResult<()> {
    let planned = cx.planned;
    planned.changes.iter().rev().try_for_each(|index| run_change(*index as usize, cx))
}
