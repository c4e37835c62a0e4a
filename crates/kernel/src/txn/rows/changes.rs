//! All changes of the transaction that runs in one slot: its undo and its redo.
//!
//! Invariants: lives on the slot's instance; used by one transaction at a time. Own records are
//! linked by position, newest first; rolled-back ones are out of that list and of every chain.
//! Rolling back cannot fail (rule 6.7): heap room was reserved, latches are only waited for, and
//! what cannot be latched at once is tried again.

use std::rc::Rc;

use super::rollback::{self, Waits};
use crate::base::{CommandId, Cts, KeyHash, NeededPage, Result, RowId, SlotId, TreeId, Xid};
use crate::sync::mutant;
use crate::tree::index::Keys;
use crate::txn::redo::{RedoBuffer, RedoMark};
use crate::version::undo::{
    Arena, Finished, Header, ImageBuilder, Kind, NewRecord, Scratch, UndoRef, Visits, needs_visit,
};
use crate::version::{InstanceVersions, RowBuffer, Tables};

/// A position in a transaction's changes: savepoints and statements roll back to one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mark {
    pub(super) last: u64,
    /// Of the record at `last`, if it is a run that may go on: how many rows it had.
    run_rows: u16,
    redo: RedoMark,
    frozen_rows: u64,
}

/// The record at a mark is complete: nothing is added to it later.
const COMPLETE: u16 = u16::MAX;

impl Mark {
    /// Where every transaction begins.
    pub const START: Mark =
        Mark { last: 0, run_rows: COMPLETE, redo: RedoMark::START, frozen_rows: 0 };
}

/// Whether a rollback gave anything back that others may wait for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GivenBack {
    /// Rows, by changes or locks.
    Rows,
    /// There was nothing to undo.
    Nothing,
}

/// Consecutive rows that were inserted without undo.
#[derive(Clone, Copy)]
struct FrozenRun {
    tree: TreeId,
    first: RowId,
    count: u64,
}

/// Consecutive rows of one command, which share one undo record (rule 6.2).
///
/// Begins with every insert that cannot join; grows while nothing else is pushed: so undoing the newest record first undoes everything in the
/// opposite order. A rollback to a mark within takes rows out and leaves their ids in the range.
#[derive(Clone, Copy)]
pub(super) struct Run {
    pub(super) at: UndoRef,
    tree: TreeId,
    command: CommandId,
    first: RowId,
    rows: u16,
}

/// A key that was waited for.
#[derive(Clone, Copy, PartialEq, Eq)]
struct AwaitedKey {
    index: TreeId,
    key: KeyHash,
    /// Whether the entry is there now.
    is_added: bool,
}

/// Whether stamping is finished.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stamping {
    /// All records bear the cts.
    Done,
    /// The quota was used up; call again.
    More,
}

/// All changes of the transaction that runs in one slot: undo arena and redo. Reused by the slot's
/// next transaction. Lives on the slot's instance.
pub struct SlotChanges {
    pub(super) versions: Rc<InstanceVersions>,
    pub(super) arena: Rc<Arena>,
    xid: Option<Xid>,
    /// The newest own record, 0 if there is none.
    pub(super) last: u64,
    /// Where stamping goes on.
    stamp_at: Option<u64>,
    visits: Visits,
    /// The run that was begun last.
    run: Option<Run>,
    /// Of a run, a record's position, that is being undone: how many of its rows are left.
    left: Option<(u64, u16)>,
    /// The key that was waited for last.
    awaited_key: Option<AwaitedKey>,
    pub(super) redo: RedoBuffer,
    /// Rows without undo, in order, and how many they are.
    frozen: Vec<FrozenRun>,
    frozen_rows: u64,
    pub(super) image: ImageBuilder,
    pub(super) scratch: Scratch,
    pub(super) work: Work,
}

/// Buffers of the operation that runs.
#[derive(Default)]
pub(super) struct Work {
    /// The columns that go into the before-image, and whether the change touches them.
    pub(super) columns: Vec<(u16, bool)>,
    /// Keys of entries still to be added, and of leaves whose exact bit is to be cleared.
    pub(super) keys: Vec<u8>,
    pub(super) pending: Vec<Pending>,
    pub(super) row: RowBuffer,
    pub(super) key: Vec<u8>,
    /// Long values of the before-image that keys are made of; hardly ever any.
    pub(super) longs: Vec<(u16, Vec<u8>)>,
}

impl Work {
    pub(super) fn clear_pending(&mut self) {
        self.keys.clear();
        self.pending.clear();
    }

    #[inline]
    pub(super) fn key_of(&self, pending: &Pending) -> &[u8] {
        &self.keys[pending.start as usize..pending.end as usize]
    }
}

/// What is left to do in an index after a row was changed.
#[derive(Clone, Copy)]
pub(super) struct Pending {
    pub(super) row: RowId,
    pub(super) index: u16,
    pub(super) start: u32,
    pub(super) end: u32,
    pub(super) what: PendingWhat,
    pub(super) keys: Keys,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum PendingWhat {
    /// Add the entry, checking for others (rule 5.6).
    AddUnique,
    /// Add the entry.
    Add,
    /// Clear the *exact* bit of the old entry's leaf (rule 5.7).
    ClearExact,
}

impl SlotChanges {
    /// For one slot of the instance of `versions`.
    pub fn new(versions: &Rc<InstanceVersions>, slot: SlotId) -> SlotChanges {
        SlotChanges {
            versions: Rc::clone(versions),
            arena: versions.arena(slot),
            xid: None,
            last: 0,
            stamp_at: None,
            visits: Visits::None,
            run: None,
            left: None,
            awaited_key: None,
            redo: RedoBuffer::default(),
            frozen: Vec::new(),
            frozen_rows: 0,
            image: ImageBuilder::default(),
            scratch: Scratch::default(),
            work: Work::default(),
        }
    }

    /// Starts a transaction: `xid` will be the writer of its records. The last one of this slot
    /// has called `finish` or `abort`, or changed nothing.
    pub fn begin(&mut self, xid: Xid) {
        debug_assert!(self.last == 0 && self.stamp_at.is_none(), "the last user has ended");
        self.xid = Some(xid);
        self.redo.clear();
        self.forget_frozen();
        self.visits = Visits::None;
        self.run = None;
        self.left = None;
        self.awaited_key = None;
    }

    /// Whether the slot's undo positions are nearly used up, so that it must be retired: after
    /// about 4 TiB of undo.
    pub fn is_exhausted(&self) -> bool {
        self.arena.is_exhausted()
    }

    /// Whether there is nothing to log. A transaction with any undo record, a mere row lock too,
    /// must write a commit record (its payload may be empty): the record carries what it observed,
    /// and collection relies on "stable up to its cts" meaning that all below it is stable.
    pub fn is_empty(&self) -> bool {
        self.last == 0 && self.redo.bytes().is_empty() && self.redo.spilled_bytes() == 0
    }

    /// Whether the newest own record is of this row.
    pub fn has_just_taken(&self, tree: TreeId, row: RowId) -> bool {
        let newest = (self.last != 0).then(|| self.arena.header(self.last));
        newest.is_some_and(|record| record.tree == tree && record.row == row)
    }

    /// Whether the key that was waited for last is this one, and has been added since.
    pub fn has_just_added(&self, index: TreeId, key: KeyHash) -> bool {
        let added = AwaitedKey { index, key, is_added: true };
        self.awaited_key.is_some_and(|awaited| awaited == added)
    }

    /// The key is waited for from now on.
    pub(super) fn await_key(&mut self, index: TreeId, key: KeyHash) {
        self.awaited_key = Some(AwaitedKey { index, key, is_added: false });
    }

    /// An entry of a unique index was added.
    #[inline]
    pub(super) fn key_added(&mut self, index: TreeId, pending: &Pending) {
        if let Some(awaited) = &mut self.awaited_key
            && awaited.index == index
            && awaited.key == KeyHash::of(self.work.key_of(pending))
        {
            awaited.is_added = true;
        }
    }

    /// The redo so far that was not spilled (see `txn::redo`).
    pub fn redo(&self) -> &[u8] {
        self.redo.bytes()
    }

    /// How many bytes of redo come before [`SlotChanges::redo`], in chunks: what was spilled, less
    /// what a rollback to a savepoint has discarded since.
    pub fn redo_spilled_bytes(&self) -> u64 {
        self.redo.spilled_bytes()
    }

    /// The first `bytes` of the redo have been copied into a chunk (rule 7.3): drops them here.
    pub fn spilled(&mut self, bytes: usize) {
        self.redo.spill(bytes);
    }

    /// Adds a note to the redo (a catalog event; opaque here), in order with the row changes.
    pub fn note(&mut self, bytes: &[u8]) {
        self.redo.note(bytes);
    }

    /// A long value of `raw_bytes` begins in the redo; its blocks follow ([`SlotChanges::long_block`]).
    /// Answers its number for [`super::Longs::add`].
    pub fn begin_long(&mut self, raw_bytes: u32) -> u64 {
        self.redo.begin_long(raw_bytes)
    }

    /// The next block of the long value that was begun.
    pub fn long_block(&mut self, block: &[u8]) {
        self.redo.long_block(block);
    }

    /// All blocks of the long value were given.
    pub fn end_long(&mut self, checksum: u32) {
        self.redo.end_long(checksum);
    }

    /// Frees pages of long values that nobody refers to any more, about `pages_max` of them.
    pub fn free_garbage(&self, pages_max: usize) -> usize {
        self.versions.free_garbage(pages_max)
    }

    /// The present position.
    pub fn mark(&self) -> Mark {
        let run_rows = self.open_run().map_or(COMPLETE, |run| run.rows);
        Mark { last: self.last, run_rows, redo: self.redo.mark(), frozen_rows: self.frozen_rows }
    }

    /// Whether more rows were changed than so many.
    pub fn has_more_than(&self, rows: usize) -> bool {
        let (mut at, mut left) = (self.last, Some(rows));
        while at != 0
            && let Some(more) = left
        {
            let record = self.arena.header(at);
            left = more.checked_sub(usize::from(record.rows));
            at = record.previous;
        }
        left.is_none()
    }

    /// Whether any record came after the mark.
    pub fn has_changed_since(&self, mark: Mark) -> bool {
        self.last > mark.last
    }

    /// The run that nothing was pushed after.
    fn open_run(&self) -> Option<&Run> {
        self.run.as_ref().filter(|run| run.at.position() == self.last)
    }

    /// The run that this row of this command may join.
    pub(super) fn run_for(&self, tree: TreeId, command: CommandId, row: RowId) -> Option<Run> {
        let fits = |run: &&Run| {
            run.tree == tree
                && (run.command == command || mutant("run-goes-on-in-the-next-command"))
                && run.first.0 + u64::from(run.rows) == row.0
                && run.rows < COMPLETE - 1
        };
        self.open_run().filter(fits).copied()
    }

    /// The row is the first of a run, whose record is the newest.
    pub(super) fn run_begun(&mut self, at: UndoRef, tree: TreeId, command: CommandId, row: RowId) {
        self.run = Some(Run { at, tree, command, first: row, rows: 1 });
    }

    /// One more row is in the run. Its leaf is held.
    pub(super) fn run_extended(&mut self, run: Run) {
        let run = Run { rows: run.rows + 1, ..run };
        self.arena.set_rows(run.at.position(), run.rows);
        self.run = Some(run);
    }

    /// Undoes about `rows_max` of the rows that were changed after `to`, newest first; false when all
    /// records after it are undone. [`SlotChanges::roll_back`] has to follow, and nothing else.
    pub fn roll_back_some(
        &mut self,
        to: Mark,
        how: (&dyn Tables, Waits<'_>),
        rows_max: u16,
    ) -> bool {
        self.awaited_key = None;
        let mut rows = rows_max;
        while self.last > to.last && rows > 0 {
            rows -= rollback::undo_some(self, how, rows);
        }
        self.last > to.last
    }

    /// Pages that undoing the next rows after `to` needs, of about `rows_max` of them.
    pub fn pages_to_undo(&self, to: Mark, tables: &dyn Tables, rows_max: u16) -> Vec<NeededPage> {
        rollback::pages_to_undo(self, tables, to.last, rows_max)
    }

    /// How many rows of the record at `at` are to be undone yet.
    pub(super) fn rows_left(&self, at: u64, record: &Header) -> u16 {
        self.left.filter(|(undoing, _)| *undoing == at).map_or(record.rows, |(_, left)| left)
    }

    /// So many rows of the newest record are left; it leaves the list if none is.
    pub(super) fn undone(&mut self, record: &Header, left: u16) {
        self.left = (left > 0).then_some((self.last, left));
        if left == 0 {
            self.last = record.previous;
        }
    }

    /// Undoes everything after `to`, newest first (rule 6.7). Cannot fail; spins while a latch is
    /// busy. While the slot still says *active* (rule 3.6).
    pub fn roll_back(&mut self, to: Mark, tables: &dyn Tables) -> GivenBack {
        self.awaited_key = None;
        let mut any = self.last > to.last;
        while self.last > to.last {
            rollback::undo_some(self, (tables, Waits::Thread), u16::MAX);
        }
        if to.run_rows != COMPLETE && self.last == to.last {
            any |= rollback::undo_run_from(self, to.run_rows, tables);
        }
        while self.frozen_rows > to.frozen_rows
            && let Some(run) = self.frozen.last_mut()
        {
            run.count -= 1;
            let (tree, row) = (run.tree, RowId(run.first.0 + run.count));
            if run.count == 0 {
                self.frozen.pop();
            }
            self.frozen_rows -= 1;
            rollback::remove_frozen(self, tables, tree, row);
        }
        if !mutant("rollback-keeps-redo") {
            self.redo.truncate(to.redo);
        }
        if any { GivenBack::Rows } else { GivenBack::Nothing }
    }

    /// A row was inserted without undo: only this transaction can reach its tree, which is dropped
    /// with the whole transaction; a rollback to a savepoint takes it out.
    pub(super) fn note_frozen(&mut self, tree: TreeId, row: RowId) {
        self.frozen_rows += 1;
        if let Some(run) = self.frozen.last_mut()
            && run.tree == tree
            && run.first.0 + run.count == row.0
        {
            run.count += 1;
            return;
        }
        self.frozen.push(FrozenRun { tree, first: row, count: 1 });
    }

    fn forget_frozen(&mut self) {
        self.frozen.clear();
        self.frozen_rows = 0;
    }

    /// Undoes everything and queues the undo for collection. Call before the slot is freed.
    pub fn abort(&mut self, tables: &dyn Tables) {
        while self.last != 0 {
            rollback::undo_some(self, (tables, Waits::Thread), u16::MAX);
        }
        self.redo.clear();
        self.forget_frozen();
        self.hand_over(Cts::ZERO, 0);
    }

    /// Writes `cts` into up to `records_max` records (rule 3.4, between *committed* and *finished*).
    pub fn stamp(&mut self, cts: Cts, records_max: usize) -> Stamping {
        let mut at = self.stamp_at.unwrap_or(self.last);
        for _ in 0..records_max {
            if at == 0 {
                break;
            }
            at = self.arena.stamp(at, cts);
        }
        if at == 0 || (mutant("stamp-forgets-the-rest") && self.stamp_at.is_none()) {
            self.stamp_at = None;
            return Stamping::Done;
        }
        self.stamp_at = Some(at);
        Stamping::More
    }

    /// Queues the stamped undo for collection. Call when *finished* is about to be published.
    pub fn finish(&mut self, cts: Cts) {
        debug_assert!(self.stamp_at.is_none(), "stamping was finished");
        let last = std::mem::take(&mut self.last);
        self.redo.clear();
        self.hand_over(cts, last);
    }

    fn hand_over(&mut self, cts: Cts, last: u64) {
        let visits = std::mem::replace(&mut self.visits, Visits::None);
        let end = self.arena.position();
        self.xid = None;
        if self.arena.has_unclaimed() {
            let bytes = self.arena.claim();
            let arena = Rc::clone(&self.arena);
            self.versions.queue(Finished { arena, next: last, end, bytes, cts, visits });
        } else {
            self.arena.release_unused();
        }
    }

    /// The running transaction.
    pub(super) fn xid(&self) -> Xid {
        self.xid.expect("a transaction runs in the slot")
    }

    /// Room for a record of `words`, asked for before any latch (rule 4.6).
    #[inline]
    pub(super) fn reserve(&mut self, words: usize) -> Result<()> {
        self.versions.reserve(&self.arena, words)
    }

    /// Writes a record with the image in `self.image`; the caller links it under the leaf's latch.
    #[inline]
    pub(super) fn push(&mut self, new: &NewRecord) -> UndoRef {
        let at = self.arena.push(new, &self.image);
        self.last = at.position();
        if needs_visit(new.kind, new.flags) {
            self.visits = Visits::Some;
        }
        at
    }

    /// A record without an image.
    #[inline]
    pub(super) fn push_plain(&mut self, mut new: NewRecord, kind: Kind) -> UndoRef {
        self.image.clear();
        new.kind = kind;
        self.push(&new)
    }
}
