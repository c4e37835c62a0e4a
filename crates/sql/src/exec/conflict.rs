//! INSERT .. ON CONFLICT.
//!
//! Invariants: the newest state decides what conflicts, not the snapshot (kernel rule 5.6): a row
//! in flight is waited for, then judged again. What a look finds may be outdated before it is acted
//! on, so acting checks again: an insertion that loses the race for an arbiter's key begins anew,
//! and a row locked in a newer version than the snapshot's must still have the key. REPEATABLE
//! READ: a conflicting row that the snapshot does not see is 40001, both for DO UPDATE and for DO
//! NOTHING. A row made or changed by this very command cannot be updated by it (21000).

use super::Cx;
use super::lock::read_again;
use super::modify::{Update, check_not_null, complete, try_insert};
use super::program::Program;
use crate::error::{SqlError, SqlResult, SqlState};
use crate::plan::{ConflictPlan, ConflictUpdatePlan, ModifyPlan, NewRow};
use crate::types::Datum;
use atoll_kernel::api::{ColumnId, Error, IndexEntry, RowId, WriteOutcome};
use std::sync::Arc;

/// Computes a row and inserts it, or does what ON CONFLICT says; true if a row is new or changed,
/// and then it is in the frame for RETURNING.
pub(super) fn put(
    plan: &ModifyPlan,
    programs: &[Program],
    new_row: &NewRow,
    conflict: &ConflictPlan,
    cx: &mut Cx<'_, '_>,
) -> SqlResult<bool> {
    let mut values = Vec::with_capacity(programs.len());
    for program in programs {
        values.push(program.eval(cx)?);
    }
    check_not_null(plan, &values, cx)?;
    loop {
        cx.breathe()?;
        if let Some((index, row)) = holder(plan, &values, conflict, cx)? {
            let Some(update) = &conflict.update else { return Ok(false) };
            show(&update.excluded, &values, cx);
            match change(plan, update, &values, index, row, cx)? {
                Changed::Yes => return Ok(true),
                Changed::No => return Ok(false),
                Changed::LookAgain => continue,
            }
        }
        match try_insert(plan, &values, cx)? {
            Ok(_) => {
                show(new_row, &values, cx);
                return Ok(true);
            }
            // Another transaction was faster.
            Err(Error::UniqueViolation { index })
                if conflict.arbiters.iter().any(|arbiter| arbiter.def.tree == index) => {}
            Err(error) => {
                let value = |column: ColumnId| values[column.index()].clone();
                return Err(complete(error, &plan.table, value, cx));
            }
        }
    }
}

/// Puts a row's columns that are wanted into the frame.
fn show(wanted: &NewRow, values: &[Datum], cx: &mut Cx<'_, '_>) {
    for (column, slot) in &wanted.slots {
        if let Some(value) = values.get(*column) {
            cx.frame[*slot as usize] = value.clone();
        }
    }
}

/// The row that holds a key of the new one, and by which arbiter.
fn holder<'p>(
    plan: &ModifyPlan,
    values: &[Datum],
    conflict: &'p ConflictPlan,
    cx: &mut Cx<'_, '_>,
) -> SqlResult<Option<(&'p Arc<IndexEntry>, RowId)>> {
    for arbiter in &conflict.arbiters {
        if let Some(row) = holder_by(plan, values, arbiter, cx)? {
            return Ok(Some((arbiter, row)));
        }
    }
    Ok(None)
}

/// The row that holds the new row's key of one unique index.
fn holder_by(
    plan: &ModifyPlan,
    values: &[Datum],
    index: &IndexEntry,
    cx: &mut Cx<'_, '_>,
) -> SqlResult<Option<RowId>> {
    let columns = || index.def.columns.iter().map(|part| part.column.index());
    // A key with a NULL conflicts with nothing.
    if columns().any(|column| values[column].is_null()) {
        return Ok(None);
    }
    let mut key = std::mem::take(&mut cx.key);
    let mut encoder = std::mem::take(&mut cx.encoder);
    encoder.clear();
    let encoded = columns()
        .zip(&index.key)
        .try_for_each(|(column, part)| encoder.push(part.column, &values[column]))
        .map(|()| encoder.with_values(|values| key.set(index, values)));
    cx.encoder = encoder;
    let found = match encoded {
        Ok(_) => cx.statement.unique_holder(&plan.table, index, &key).map_err(SqlError::from),
        Err(error) => Err(error),
    };
    cx.key = key;
    found
}

/// What became of the row that is there.
enum Changed {
    Yes,
    /// The condition does not hold; the row is locked.
    No,
    /// It is not what it was.
    LookAgain,
}

/// Locks the row that is there, and changes its newest version.
fn change(
    plan: &ModifyPlan,
    update: &ConflictUpdatePlan,
    values: &[Datum],
    index: &IndexEntry,
    row: RowId,
    cx: &mut Cx<'_, '_>,
) -> SqlResult<Changed> {
    match cx.statement.lock_row(&plan.table, row)? {
        WriteOutcome::Done => {}
        WriteOutcome::Gone => return Ok(Changed::LookAgain),
        WriteOutcome::DoneByThisCommand => return Err(second_time()),
        WriteOutcome::Changed => {
            if holder_by(plan, values, index, cx)? != Some(row) {
                return Ok(Changed::LookAgain);
            }
        }
    }
    if !read_again(&update.target, row, None, cx)? {
        return Ok(Changed::LookAgain);
    }
    if let Some(filter) = &update.filter
        && !filter.test(cx)?
    {
        return Ok(Changed::No);
    }
    let writer = Update {
        plan,
        target: &update.target,
        assignments: &update.assignments,
        recheck: None,
        new_row: &update.new_row,
    };
    match writer.run(row, cx)? {
        true => Ok(Changed::Yes),
        false => Ok(Changed::LookAgain),
    }
}

fn second_time() -> SqlError {
    SqlError::new(
        SqlState::CARDINALITY_VIOLATION,
        "ON CONFLICT DO UPDATE command cannot affect row a second time",
    )
    .hint(
        "Ensure that no rows proposed for insertion within the same command have duplicate constrained values.",
    )
}
