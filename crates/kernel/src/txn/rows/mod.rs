//! Row operations of a transaction: insert, update, delete, lock, read, roll back.
//!
//! `txn` keeps one [`SlotChanges`] per slot and builds a [`RowWriter`] from it for each operation.
//!
//! Invariants: every operation is a core operation (rule 1.1): it may answer `Stop`, holds no latch
//! then, and is called again with the same [`Progress`]. A change is either wholly there (row,
//! twin, undo, redo) or not at all; index entries follow it, and whoever cannot finish them rolls
//! back to the mark taken before the operation. Rules are in version/README.md.

mod ahead;
mod changes;
mod entries;
mod holder;
mod in_place;
mod insert;
mod long;
mod points;
mod read;
mod rollback;
#[cfg(all(test, not(loom)))]
mod tests;
mod write;

pub use ahead::{
    FoundAhead, PointAhead, WIDTH as AHEAD_ROWS, missing_leaves, missing_pages, prefetch_points,
};
pub use changes::{GivenBack, Mark, SlotChanges, Stamping};
pub use in_place::UpdatesProgress;
pub use insert::{Frozen, RowValues, RowsProgress};
pub use long::Longs;
pub use points::PointRows;
pub use read::{KeyCheck, RowBatch, RowReader, read_newest};
pub use rollback::Waits;

use super::Isolation;
use crate::base::RowId;
use crate::page::rowleaf::SlotIndex;
use crate::tree::table::LeafWrite;
use crate::version::{Observe, SnapshotView, TransactionStates};

/// What a change of a row answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WriteOutcome {
    /// It is done.
    Done,
    /// READ COMMITTED: the newest version is newer than the snapshot. The row is now locked by the
    /// transaction: read it with `read_newest`, check it, try again.
    Changed,
    /// The newest version is a committed delete (READ COMMITTED), or the row never was, or an
    /// earlier command of this transaction deleted it.
    Gone,
    /// This very command has already changed or deleted the row: skip it, as PostgreSQL does.
    DoneByThisCommand,
}

/// How far a change got that stopped between row and index entries. Starts as the default; pass
/// the same one when calling again, a new one for every new change.
#[derive(Clone, Copy, Default, Debug)]
pub struct Progress {
    /// The row, once it is changed.
    row: Option<RowId>,
    /// The next entry to see to.
    next: usize,
}

/// One operation's view of its transaction; made anew for each call, it only borrows.
pub struct RowWriter<'a> {
    /// The statement's snapshot, own xid and command.
    pub snapshot: SnapshotView,
    /// READ COMMITTED or REPEATABLE READ.
    pub isolation: Isolation,
    /// The states of all transactions.
    pub states: &'a dyn TransactionStates,
    /// Where observations go (rule 7.4).
    pub observed: &'a mut dyn Observe,
    /// The transaction's changes.
    pub changes: &'a mut SlotChanges,
}

/// Sets columns of a row, those that do not grow first, so that their bytes are there for the
/// others.
fn set_columns<'v>(
    leaf: &mut LeafWrite<'_>,
    slot: SlotIndex,
    columns: impl Iterator<Item = (u16, Option<&'v [u8]>)> + Clone,
) {
    let mut grow = false;
    for (column, value) in columns.clone() {
        let column = column as usize;
        let variable = leaf.layout().columns()[column].fixed_bytes().is_none();
        let new = value.map_or(0, <[u8]>::len);
        if variable && new > leaf.view().column_bytes(slot, column).unwrap_or(0) {
            grow = true;
        } else {
            leaf.set_column(slot, column, value);
        }
    }
    for (column, value) in columns.filter(|_| grow) {
        let column = column as usize;
        let variable = leaf.layout().columns()[column].fixed_bytes().is_none();
        let new = value.map_or(0, <[u8]>::len);
        if variable && new > leaf.view().column_bytes(slot, column).unwrap_or(0) {
            leaf.set_column(slot, column, value);
        }
    }
}
