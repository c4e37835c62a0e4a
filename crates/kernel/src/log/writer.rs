//! The writing end of a home's log: buffers, flushes, stability (rules 7.2, 7.3, 7.5, 7.8, 7.9).
//!
//! Invariants: belongs to one instance and is used by its thread alone; after a successful
//! reservation `commit` and `chunk` cannot fail; cts grow strictly along the log.

use std::sync::Arc;

use super::manifest::Manifest;
use super::{ChunkRef, LogCounters, LogHealth, LogOptions, LogPoll, Reservation, StableMarks};
use crate::base::{Cts, HomeId, LogPosition, Observed, Outcome, Result, Xid};
use crate::io::{Completion, Disk, Ring, Token};

/// One home's log, open for writing by its instance.
pub struct LogWriter {
    _home: HomeId,
}

impl LogWriter {
    /// Opens the log of `home` for the running incarnation of `manifest`, in a fresh segment.
    /// Blocks while that is made. `DiskFull`, `Io`.
    pub fn open(
        disk: Arc<dyn Disk>,
        manifest: &Manifest,
        home: HomeId,
        options: LogOptions,
        marks: Arc<StableMarks>,
    ) -> Result<LogWriter> {
        let _ = (disk, manifest, options, marks);
        Ok(LogWriter { _home: home })
    }

    /// Reserves room for a record of `bytes` payload (plus `ChunkRef::ENCODED_BYTES` for each
    /// chunk that a commit names). Stops with `WaitFor(LogRoom)`; fails with `DiskFull`,
    /// `TooLarge` beyond [`LogWriter::payload_max`] (then spill chunks), `Io` once poisoned.
    pub fn reserve(&self, bytes: usize) -> Outcome<Reservation> {
        let _ = bytes;
        todo!()
    }

    /// Gives back a reservation that is not used.
    pub fn release(&self, reservation: Reservation) {
        let _ = reservation;
        todo!()
    }

    /// The largest payload of one record.
    pub fn payload_max(&self) -> usize {
        todo!()
    }

    /// Writes a commit record; cannot fail. `dependencies`: commits of *other* homes that the
    /// transaction observed; those known to be stable, or covered by an earlier record of this
    /// log, are left out (the writer keeps V, rule 7.4). Returns the end of the record.
    pub fn commit(
        &self,
        reservation: Reservation,
        cts: Cts,
        dependencies: &[Observed],
        chunks: &[ChunkRef],
        payload: &[u8],
    ) -> LogPosition {
        let _ = (reservation, cts, dependencies, chunks, payload);
        todo!()
    }

    /// Spills redo of a large transaction early (rule 7.3); cannot fail. Returns the whole chunk.
    pub fn chunk(&self, reservation: Reservation, xid: Xid, payload: &[u8]) -> ChunkRef {
        let _ = (reservation, xid, payload);
        todo!()
    }

    /// Starts flushes, prepares segments, advances and publishes the stable mark. Call it in
    /// every turn (rule 2.6), after completions have been given to [`LogWriter::completed`].
    pub fn poll(&self, ring: &dyn Ring, now_ns: u64) -> LogPoll {
        let _ = (ring, now_ns);
        todo!()
    }

    /// Whether an operation with this token is the log's.
    pub fn owns(&self, token: Token) -> bool {
        let _ = token;
        todo!()
    }

    /// Takes the completion of one of the log's operations. `Io` once poisoned (rule 7.8): the
    /// process must end.
    pub fn completed(&self, completion: Completion) -> Result<()> {
        let _ = completion;
        todo!()
    }

    /// The end of the durable prefix.
    pub fn durable(&self) -> LogPosition {
        todo!()
    }

    /// The end of what has been committed to the buffer.
    pub fn end(&self) -> LogPosition {
        todo!()
    }

    /// The largest stable cts.
    pub fn stable(&self) -> Cts {
        todo!()
    }

    /// The cts of the last commit record.
    pub fn last_cts(&self) -> Cts {
        todo!()
    }

    /// Whether the log works.
    pub fn health(&self) -> LogHealth {
        todo!()
    }

    /// What the log has done.
    pub fn counters(&self) -> LogCounters {
        todo!()
    }

    /// Lets segments that lie wholly below `position` be used again (rule 8.7).
    pub fn recycle_below(&self, position: LogPosition) {
        let _ = position;
        todo!()
    }
}
