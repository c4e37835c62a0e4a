//! Row operations of a transaction: insert, update, delete, lock, read, roll back.
//!
//! `txn` keeps one [`SlotChanges`] per slot and builds a [`RowWriter`] from it for each operation.
//! Every operation is a core operation (rule 1.1): it may answer `Stop`; the shell then calls it
//! again with the same [`Progress`]. Being filled in.
#![allow(clippy::todo)]

use std::rc::Rc;

use super::Isolation;
use crate::base::{Cts, Outcome, RowId, SlotId, Xid};
use crate::version::{
    InstanceVersions, Observe, Presence, RowBuffer, SnapshotView, TableAccess, Tables,
    TransactionStates,
};

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

/// How far a change got that stopped between row and index entries; start with the default, pass
/// the same one when calling again, `clear` to reuse.
#[derive(Default)]
pub struct Progress {}

/// A position in a transaction's changes: savepoints and statements roll back to one.
#[derive(Clone, Copy, Debug)]
pub struct Mark {}

/// All changes of the transaction that runs in one slot: undo arena and redo. Reused by the slot's
/// next transaction. Lives on the slot's instance.
pub struct SlotChanges {}

/// Whether stamping is finished.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stamping {
    /// All records bear the cts.
    Done,
    /// The quota was used up; call again.
    More,
}

impl SlotChanges {
    /// For one slot of the instance of `versions`.
    pub fn new(versions: &Rc<InstanceVersions>, slot: SlotId) -> SlotChanges {
        let _ = (versions, slot);
        todo!()
    }

    /// Starts a transaction: `xid` will be the writer of its records.
    pub fn begin(&mut self, xid: Xid) {
        let _ = xid;
        todo!()
    }

    /// Whether there is nothing to log. A transaction with any undo record, a mere row lock too,
    /// must write a commit record (its payload may be empty): the record carries what it observed,
    /// and collection relies on "stable up to its cts" meaning that all below it is stable.
    pub fn is_empty(&self) -> bool {
        todo!()
    }

    /// The redo payload so far (see `txn::redo`).
    pub fn redo(&self) -> &[u8] {
        todo!()
    }

    /// Adds a note to the redo (a catalog event; opaque here), in order with the row changes.
    pub fn note(&mut self, bytes: &[u8]) {
        let _ = bytes;
        todo!()
    }

    /// The present position.
    pub fn mark(&self) -> Mark {
        todo!()
    }

    /// Undoes everything after `to`, newest first (rule 6.7). Cannot fail. While the slot still
    /// says *active* (rule 3.6).
    pub fn roll_back(&mut self, to: Mark, tables: &dyn Tables) {
        let _ = (to, tables);
        todo!()
    }

    /// Undoes everything and queues the undo for collection. Call before the slot is freed.
    pub fn abort(&mut self, tables: &dyn Tables) {
        let _ = tables;
        todo!()
    }

    /// Writes `cts` into up to `records_max` records (rule 3.4, between *committed* and *finished*).
    pub fn stamp(&mut self, cts: Cts, records_max: usize) -> Stamping {
        let _ = (cts, records_max);
        todo!()
    }

    /// Queues the stamped undo for collection. Call when *finished* is about to be published.
    pub fn finish(&mut self, cts: Cts) {
        let _ = cts;
        todo!()
    }
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

impl RowWriter<'_> {
    /// Inserts a row: row first, entries second, unique indexes by rule 5.6. `WaitFor::End` for a
    /// competitor in flight, `UniqueViolation` for a committed one; then the row is already there:
    /// roll the statement back.
    pub fn insert(
        &mut self,
        table: &TableAccess,
        values: &[Option<&[u8]>],
        progress: &mut Progress,
    ) -> Outcome<RowId> {
        let _ = (table, values, progress);
        todo!()
    }

    /// Inserts into a tree made by this transaction: no undo, redo only (COPY FREEZE).
    pub fn insert_frozen(
        &mut self,
        table: &TableAccess,
        values: &[Option<&[u8]>],
        progress: &mut Progress,
    ) -> Outcome<RowId> {
        let _ = (table, values, progress);
        todo!()
    }

    /// Changes columns of a row in place.
    pub fn update(
        &mut self,
        table: &TableAccess,
        row: RowId,
        changes: &[(u16, Option<&[u8]>)],
        progress: &mut Progress,
    ) -> Outcome<WriteOutcome> {
        let _ = (table, row, changes, progress);
        todo!()
    }

    /// Deletes a row.
    pub fn delete(&mut self, table: &TableAccess, row: RowId) -> Outcome<WriteOutcome> {
        let _ = (table, row);
        todo!()
    }

    /// Locks a row exclusively (FOR UPDATE).
    pub fn lock_row(&mut self, table: &TableAccess, row: RowId) -> Outcome<WriteOutcome> {
        let _ = (table, row);
        todo!()
    }

    /// The newest version of a row that this transaction has locked or changed.
    pub fn read_newest(
        &mut self,
        table: &TableAccess,
        row: RowId,
        columns: &[u16],
        out: &mut RowBuffer,
    ) -> Outcome<Presence> {
        let _ = (table, row, columns, out);
        todo!()
    }
}

/// Reads a row's version in a snapshot; writes nothing shared.
pub fn read(
    table: &TableAccess,
    row: RowId,
    snapshot: &SnapshotView,
    states: &dyn TransactionStates,
    observed: &mut dyn Observe,
    columns: &[u16],
    out: &mut RowBuffer,
) -> Outcome<Presence> {
    let _ = (table, row, snapshot, states, observed, columns, out);
    todo!()
}

/// The visible rows of one leaf (or of a part of it).
#[derive(Default)]
pub struct RowBatch {}

/// Reads the visible rows of the leaf that covers `from`, from `from` on, into `out` (cleared
/// first). Answers where the next leaf begins, or none at the end.
pub fn scan(
    table: &TableAccess,
    from: RowId,
    snapshot: &SnapshotView,
    states: &dyn TransactionStates,
    observed: &mut dyn Observe,
    columns: &[u16],
    out: &mut RowBatch,
) -> Outcome<Option<RowId>> {
    let _ = (table, from, snapshot, states, observed, columns, out);
    todo!()
}
