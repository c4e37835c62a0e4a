//! The log's small types: options, counters, what a poll and a reservation answer.
//!
//! Invariants: plain data; nothing here does I/O.

use crate::base::{Cts, LogPosition, Observed};

/// How a log is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LogOptions {
    /// Bytes of a segment file; a multiple of 4096, at least four times a buffer.
    pub segment_bytes: u64,
    /// Bytes of one log buffer; there are `flushes_max + 1`. A record has half of one at most.
    pub buffer_bytes: usize,
    /// Flushes in flight at most (rule 7.2).
    pub flushes_max: usize,
    /// What becomes of durable segments.
    pub retention: Retention,
}

impl Default for LogOptions {
    fn default() -> LogOptions {
        LogOptions {
            segment_bytes: 32 << 20,
            buffer_bytes: 1 << 20,
            flushes_max: 2,
            retention: Retention::Keep,
        }
    }
}

/// What becomes of segments that are wholly durable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Retention {
    /// They stay until `LogWriter::recycle_below`.
    Keep,
    /// They are recycled at once: for databases in memory, which never recover.
    Recycle,
}

/// Room in the log buffer, and on disk behind it, for one record. Give it to `commit` or
/// `chunk`, or back with `LogWriter::release`.
#[must_use]
#[derive(Debug)]
pub struct Reservation {
    pub(super) bytes: usize,
}

/// A range of an early-spilled chunk that a commit takes (rule 7.3): what savepoint or statement
/// rollback discarded is simply in no range. Ranges are replayed in the order given. A range may be
/// a *list*: its bytes are ranges, which stand in its place, so that a commit record can name any
/// number of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ChunkRef {
    /// Where the chunk's record begins, in the same log.
    pub position: LogPosition,
    /// First byte taken of the chunk's payload.
    pub from: u32,
    /// One past the last byte taken.
    pub to: u32,
}

impl ChunkRef {
    /// Bytes of one reference in a commit record: add them to what is reserved.
    pub const ENCODED_BYTES: usize = 16;
    /// In `from`: the range is a list.
    const LIST: u32 = 1 << 31;

    /// As it stands in a commit record or a list.
    pub fn encode(self) -> [u8; ChunkRef::ENCODED_BYTES] {
        let mut out = [0; ChunkRef::ENCODED_BYTES];
        out[..8].copy_from_slice(&self.position.0.to_le_bytes());
        out[8..12].copy_from_slice(&self.from.to_le_bytes());
        out[12..].copy_from_slice(&self.to.to_le_bytes());
        out
    }

    /// The whole chunk, whose payload is encoded ranges, as the list of them.
    pub fn as_list(self) -> ChunkRef {
        ChunkRef { from: self.from | ChunkRef::LIST, ..self }
    }

    /// Whether the range is a list.
    pub fn is_list(self) -> bool {
        self.from & ChunkRef::LIST != 0
    }

    /// The range of bytes in the chunk's payload.
    pub(super) fn bytes(self) -> (u32, u32) {
        (self.from & !ChunkRef::LIST, self.to)
    }

    /// How many bytes the range has.
    pub fn len(self) -> usize {
        let (from, to) = self.bytes();
        to.saturating_sub(from) as usize
    }

    /// Whether the range has no bytes.
    pub fn is_empty(self) -> bool {
        self.len() == 0
    }

    /// The part `from..to` of the chunk's payload, where `self` is the whole.
    pub fn part(self, from: u32, to: u32) -> ChunkRef {
        assert!(from <= to && to <= self.to - self.from, "a part lies within its chunk");
        ChunkRef { position: self.position, from: self.from + from, to: self.from + to }
    }
}

/// Whether bytes have been committed to the buffer but are not durable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unflushed {
    /// All is durable.
    Nothing,
    /// Some bytes are in flight or wait for a flush.
    Some,
}

/// What a log is told of its instance when it is polled.
#[derive(Clone, Copy, Debug)]
pub struct Load {
    /// Nanoseconds of the database's monotonic clock.
    pub now_ns: u64,
    /// Tasks that are ready to run: a flush may wait for their commits (rule 7.2).
    pub ready_tasks: usize,
    /// Transactions whose commits a flush may wait for a little although none is ready to run: the open
    /// ones where processors are short, else none.
    pub open: u64,
}

impl Load {
    /// Nothing else to do.
    pub const IDLE: Load = Load { now_ns: 0, ready_tasks: 0, open: 0 };
}

/// What a poll of the log found.
#[derive(Clone, Copy, Debug)]
pub struct LogPoll {
    /// Whether bytes are not durable: the instance must not sleep without its ring (rule 2.6).
    pub unflushed: Unflushed,
    /// The log's stable mark, just published.
    pub stable: Cts,
    /// Whether the stable mark moved in this poll.
    pub advanced: bool,
    /// Whether another instance has asked (`StableMarks::ask`) to hear of the move: poke it.
    pub asked: bool,
    /// Whether room has become free since a reservation was told to wait.
    pub room: bool,
    /// Until when a flush waits for others at most, though nobody here is ready to run: to be polled then.
    pub gathers_until: Option<u64>,
    /// The first dependency that keeps a durable commit from being stable.
    pub waits_for: Option<Observed>,
}

/// Whether the log works (rule 7.8).
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LogHealth {
    /// It does.
    Good,
    /// No further segment could be made; reservations fail with `DiskFull` when the present one
    /// is used up, and work again when space returns.
    DiskFull {
        /// The file that could not be made.
        path: String,
    },
    /// A write or sync failed: nothing more is written; the process must end.
    Poisoned {
        /// What failed.
        what: String,
        /// The error number.
        errno: i32,
    },
}

/// What a log has done since it was opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LogCounters {
    /// Flushes started.
    pub flushes: u64,
    /// Flushes completed.
    pub flushes_done: u64,
    /// Bytes of records.
    pub bytes_payload: u64,
    /// Bytes written: records, flush heads and padding.
    pub bytes_padded: u64,
    /// Commit records written; divided by `flushes`: commits a flush.
    pub commits: u64,
    /// Chunk records written.
    pub chunks: u64,
    /// Dependencies written into commit records.
    pub dependencies: u64,
    /// Reservations that had to wait.
    pub waits: u64,
    /// Segments put into use.
    pub segments: u64,
}
