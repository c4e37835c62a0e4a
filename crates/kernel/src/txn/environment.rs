//! What transactions stand on, as a seam: the changes of a slot and the instance's log.
//!
//! Invariants: everything here belongs to one instance and is called on its thread only (except
//! that [`Environment::stable`] reads other homes' marks). `Kernel` is the real one; tests put
//! simple models behind the same trait, so that begin, commit, abort and their waits can be
//! tested without trees or files.

use crate::base::{
    Cts, HomeId, KeyHash, LogPosition, Observed, Outcome, Result, RowId, SlotId, TreeId, Xid,
};
use crate::buffer::BufferPool;
use crate::version::{CollectLimit, Collected, Passed, Reaped};

use super::rows::Stamping;

/// All changes of the transaction that runs in one slot.
pub trait Changes {
    /// What rolling back needs to find trees by number.
    type Tables: ?Sized;

    /// Starts a transaction; `xid` will be the writer of its records.
    fn begin(&mut self, xid: Xid);
    /// Whether there is nothing to commit: no redo and no undo record, a row lock's included.
    fn is_empty(&self) -> bool;
    /// The redo collected and not spilled yet.
    fn redo(&self) -> &[u8];
    /// Whether the newest change or lock is of this row, which so is in flight by the transaction.
    fn has_just_taken(&self, tree: TreeId, row: RowId) -> bool;
    /// Whether the key of a unique index that was waited for last is this one, and the entry has
    /// been added since.
    fn has_just_added(&self, index: TreeId, key: KeyHash) -> bool;
    /// How many bytes of redo come before [`Changes::redo`], in chunks: what was spilled, less
    /// what a rollback to a savepoint has discarded since.
    fn redo_spilled_bytes(&self) -> u64;
    /// The first `bytes` of the redo have been copied into a chunk (rule 7.3): drops them here.
    fn spilled(&mut self, bytes: usize);
    /// Whether the slot can take no further transaction (its undo positions are used up): it is
    /// retired.
    fn is_exhausted(&self) -> bool {
        false
    }
    /// Undoes everything while the slot says *active* (rule 3.6). Cannot fail.
    fn abort(&mut self, tables: &Self::Tables);
    /// Writes `cts` into up to `records_max` undo records (rule 3.4).
    fn stamp(&mut self, cts: Cts, records_max: usize) -> Stamping;
    /// All are stamped and *finished* is about to be published: queues the undo for collection.
    fn finish(&mut self, cts: Cts);
}

/// One instance's log, undo and collection.
pub trait Environment {
    /// See [`Changes`].
    type Changes: Changes;
    /// Reserved room in the log.
    type Room;
    /// Names a spilled chunk, or its beginning.
    type Chunk: Copy;

    /// The home whose log this instance commits into.
    fn home(&self) -> HomeId;
    /// The changes of a slot that was never used before.
    fn new_changes(&self, slot: SlotId) -> Self::Changes;
    /// Reserves room for a record with this payload and these many chunks, on disk and in memory;
    /// `WaitFor(LogRoom)`, `DiskFull`, `Io`. Dropping it gives it back.
    fn reserve(&self, payload_bytes: usize, chunks: usize) -> Outcome<Self::Room>;
    /// Copies a commit record into the log. Cannot fail; cts strictly grow. `dependencies` are
    /// observations of other homes; those that an earlier record of the log covers may be left
    /// out (the log keeps V, rule 7.4).
    fn commit(
        &self,
        room: Self::Room,
        cts: Cts,
        dependencies: &[Observed],
        chunks: &[Self::Chunk],
        payload: &[u8],
    ) -> LogPosition;
    /// Copies a chunk of a transaction that has not committed into the log.
    fn chunk(&self, room: Self::Room, xid: Xid, payload: &[u8]) -> Self::Chunk;
    /// The first `bytes` of a chunk; the rest was discarded by a rollback to a savepoint.
    fn cut(&self, chunk: Self::Chunk, bytes: u32) -> Self::Chunk;
    /// How many chunks a commit record can name, and how many a list; more are named by lists.
    fn chunks_named_max(&self) -> usize {
        usize::MAX
    }
    /// The payload of a chunk that lists `chunks`.
    fn encode_list(&self, chunks: &[Self::Chunk]) -> Vec<u8> {
        unreachable!("no more than {} chunks are named", chunks.len())
    }
    /// The chunk as a list of chunks.
    fn as_list(&self, chunk: Self::Chunk) -> Self::Chunk {
        chunk
    }
    /// Redo beyond this is spilled; a record of this size always fits the log's buffer.
    fn spill_bytes(&self) -> usize;
    /// Where pages are loaded.
    fn pool(&self) -> Option<&BufferPool> {
        None
    }
    /// Where the last record of the own log ends: the next one lies there or behind.
    fn log_end(&self) -> LogPosition {
        LogPosition(0)
    }
    /// Up to where the own log is durable.
    fn durable(&self) -> LogPosition;
    /// The stable mark of any home.
    fn stable(&self, home: HomeId) -> Cts;
    /// After a collection within `limit`: below what snapshots are to be ended, because they hold
    /// back too much undo (rule 6.9).
    fn snapshots_to_end(&self, _limit: CollectLimit) -> Option<Cts> {
        None
    }
    /// Reclaims undo within `limit`, about `records_max` records.
    fn collect(&self, limit: CollectLimit, records_max: usize) -> Result<Collected>;
    /// A page that a collection needs could not be loaded: the next one does without, or blocks the thread.
    fn could_not_load(&self) {}
    /// Takes out deleted rows that only the checkpoint that is being made holds back, and which it
    /// has passed; looks at about `records_max` records.
    fn reap(&self, _passed: &Passed, _records_max: usize) -> Reaped {
        Reaped::default()
    }
}
