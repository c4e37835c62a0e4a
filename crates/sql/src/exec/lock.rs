//! FOR UPDATE: rows are locked as they leave.
//!
//! Invariants: in READ COMMITTED a row that changed since the snapshot is read again in its
//! newest version and given only if it still satisfies the query's condition; a row that is gone
//! is left out.

use super::program::Program;
use super::{BoxedOperator, Cx, Operator, decode_row};
use crate::error::SqlResult;
use crate::plan::node::LockTarget;
use crate::types::Datum;
use atoll_kernel::api::{Presence, RowId, WriteOutcome};

/// The row that a target's slot names; none in the NULLs of an outer join.
pub(super) fn row_of(target: &LockTarget, cx: &Cx<'_, '_>) -> Option<RowId> {
    let slot = target.columns.row_id?;
    match &cx.frame[slot as usize] {
        Datum::Int8(row) => Some(RowId(*row as u64)),
        _ => None,
    }
}

/// Reads a row's newest version into the frame and tests the condition; false if it is gone or
/// does not satisfy it any more.
pub(super) fn read_again(
    target: &LockTarget,
    row: RowId,
    recheck: Option<&Program>,
    cx: &mut Cx<'_, '_>,
) -> SqlResult<bool> {
    let columns = &target.columns;
    let found = cx.statement.get_newest(&target.table, row, &columns.ids, &mut cx.row)?;
    if found == Presence::Absent {
        return Ok(false);
    }
    decode_row(cx.row.view(), &columns.types, &columns.slots, &mut cx.frame)?;
    match recheck {
        Some(recheck) => recheck.test(cx),
        None => Ok(true),
    }
}

/// FOR UPDATE at work.
pub(super) struct Lock<'p> {
    input: BoxedOperator<'p>,
    targets: &'p [LockTarget],
    recheck: Option<&'p Program>,
}

impl<'p> Lock<'p> {
    pub(super) fn new(
        input: BoxedOperator<'p>,
        targets: &'p [LockTarget],
        recheck: Option<&'p Program>,
    ) -> Lock<'p> {
        Lock { input, targets, recheck }
    }
}

impl Operator for Lock<'_> {
    fn next(&mut self, cx: &mut Cx<'_, '_>) -> SqlResult<bool> {
        'rows: while self.input.next(cx)? {
            cx.breathe()?;
            for target in self.targets {
                let Some(row) = row_of(target, cx) else { continue };
                match cx.statement.lock_row(&target.table, row)? {
                    WriteOutcome::Done | WriteOutcome::DoneByThisCommand => {}
                    WriteOutcome::Gone => continue 'rows,
                    WriteOutcome::Changed => {
                        if !read_again(target, row, self.recheck, cx)? {
                            continue 'rows;
                        }
                    }
                }
            }
            return Ok(true);
        }
        Ok(false)
    }

    fn restart(&mut self, cx: &mut Cx<'_, '_>) -> SqlResult<()> {
        self.input.restart(cx)
    }
}
