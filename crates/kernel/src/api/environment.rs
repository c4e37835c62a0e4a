//! What transactions stand on for real: the instance's log, its undo, its trees.
//!
//! Invariants: belongs to one instance and is called on its thread; hands every call on, adds
//! nothing.

use std::rc::Rc;
use std::sync::Arc;

use super::registry::LocalTables;
use crate::base::{
    Cts, HomeId, KeyHash, LogPosition, Observed, Outcome, Result, RowId, SlotId, TreeId, Xid,
};
use crate::buffer::BufferPool;
use crate::log::{ChunkRef, LogWriter, Reservation, StableMarks};
use crate::txn::rows::{SlotChanges, Stamping};
use crate::txn::{Changes, Environment};
use crate::version::{CollectLimit, Collected, InstanceVersions, Passed, Reaped, Tables};

/// One instance's log, undo and trees.
pub struct KernelEnvironment {
    pub(super) home: HomeId,
    pub(super) log: LogWriter,
    pub(super) marks: Arc<StableMarks>,
    pub(super) versions: Rc<InstanceVersions>,
    pub(super) tables: Rc<LocalTables>,
    pub(super) pool: Arc<BufferPool>,
}

impl Environment for KernelEnvironment {
    type Changes = SlotChanges;
    type Room = Reservation;
    type Chunk = ChunkRef;

    fn home(&self) -> HomeId {
        self.home
    }

    fn new_changes(&self, slot: SlotId) -> SlotChanges {
        SlotChanges::new(&self.versions, slot)
    }

    fn reserve(&self, payload_bytes: usize, chunks: usize) -> Outcome<Reservation> {
        self.log.reserve(payload_bytes + chunks * ChunkRef::ENCODED_BYTES)
    }

    fn commit(
        &self,
        room: Reservation,
        cts: Cts,
        dependencies: &[Observed],
        chunks: &[ChunkRef],
        payload: &[u8],
    ) -> LogPosition {
        self.log.commit(room, cts, dependencies, chunks, payload)
    }

    fn chunk(&self, room: Reservation, xid: Xid, payload: &[u8]) -> ChunkRef {
        self.log.chunk(room, xid, payload)
    }

    fn cut(&self, chunk: ChunkRef, bytes: u32) -> ChunkRef {
        chunk.part(0, bytes)
    }

    fn chunks_named_max(&self) -> usize {
        self.log.payload_max() / 4 / ChunkRef::ENCODED_BYTES
    }

    fn encode_list(&self, chunks: &[ChunkRef]) -> Vec<u8> {
        chunks.iter().flat_map(|chunk| chunk.encode()).collect()
    }

    fn as_list(&self, chunk: ChunkRef) -> ChunkRef {
        chunk.as_list()
    }

    fn spill_bytes(&self) -> usize {
        self.log.payload_max() / 2
    }

    fn pool(&self) -> Option<&BufferPool> {
        Some(&self.pool)
    }

    fn log_end(&self) -> LogPosition {
        self.log.end()
    }

    fn durable(&self) -> LogPosition {
        self.log.durable()
    }

    fn stable(&self, home: HomeId) -> Cts {
        self.marks.get(home)
    }

    fn snapshots_to_end(&self, limit: CollectLimit) -> Option<Cts> {
        self.versions.snapshots_to_end(limit)
    }

    fn collect(&self, limit: CollectLimit, records_max: usize) -> Result<Collected> {
        self.tables.refresh();
        Ok(self.versions.collect(limit, &*self.tables, records_max))
    }

    fn could_not_load(&self) {
        self.versions.could_not_load();
    }

    fn reap(&self, passed: &Passed, records_max: usize) -> Reaped {
        self.versions.reap(passed, &*self.tables, records_max)
    }
}

impl Changes for SlotChanges {
    type Tables = dyn Tables;

    fn begin(&mut self, xid: Xid) {
        SlotChanges::begin(self, xid);
    }

    fn is_empty(&self) -> bool {
        SlotChanges::is_empty(self)
    }

    fn has_just_taken(&self, tree: TreeId, row: RowId) -> bool {
        SlotChanges::has_just_taken(self, tree, row)
    }

    fn has_just_added(&self, index: TreeId, key: KeyHash) -> bool {
        SlotChanges::has_just_added(self, index, key)
    }

    fn redo(&self) -> &[u8] {
        SlotChanges::redo(self)
    }

    fn redo_spilled_bytes(&self) -> u64 {
        SlotChanges::redo_spilled_bytes(self)
    }

    fn spilled(&mut self, bytes: usize) {
        SlotChanges::spilled(self, bytes);
    }

    fn is_exhausted(&self) -> bool {
        SlotChanges::is_exhausted(self)
    }

    fn abort(&mut self, tables: &dyn Tables) {
        SlotChanges::abort(self, tables);
    }

    fn stamp(&mut self, cts: Cts, records_max: usize) -> Stamping {
        SlotChanges::stamp(self, cts, records_max)
    }

    fn finish(&mut self, cts: Cts) {
        SlotChanges::finish(self, cts);
    }
}
