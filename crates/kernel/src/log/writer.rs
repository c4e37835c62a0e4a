//! The writing end of a home's log: buffers and commits (rules 7.2, 7.3, 7.4, 7.8).
//!
//! Invariants: belongs to one instance and is used by its thread alone; after a successful
//! reservation `commit` and `chunk` cannot fail; cts grow strictly along the log.
//!
//! There are `flushes_max + 1` buffers: one is being filled, the others are in flight or free.
//! A buffer's place in the log, in a segment that is ready, is fixed when filling begins, so that
//! a record knows its position, and reserving memory reserves disk. The flush record at its head
//! is written when the flush starts. `flush.rs` has the way from a full buffer to *stable*.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::sync::Arc;

use super::flush::Absent;
use super::format::{
    BLOCK_BYTES, COMMIT_HEADER_BYTES, OBSERVED_BYTES, Place, RECORD_HEADER_BYTES,
    SEGMENT_HEADER_BYTES, SegmentHeader, encode_chunk, encode_commit, flush_head_bytes,
};
use super::manifest::Manifest;
use super::segment::{Preparer, Segment, numbers};
use super::stability::Stability;
use super::{
    ChunkRef, Load, LogCounters, LogHealth, LogOptions, LogPoll, Reservation, StableMarks,
    Unflushed,
};
use crate::base::{Cts, Error, HomeId, LogPosition, Observed, Outcome, Result, Stop, WaitFor, Xid};
use crate::io::{Completion, Disk, IoBuffer, Ring, TimeSource, Token};
use crate::sync::point;

/// The log's operations: service 0, and this mark above their own number.
const TOKEN_MARK: u64 = 0x4c;
const TOKEN_MARK_SHIFT: u32 = 40;
/// The segment preparer's operations: there is one at a time.
const PREPARE_TOKEN: Token = Token(TOKEN_MARK << TOKEN_MARK_SHIFT);

/// One home's log, open for writing by its instance.
pub struct LogWriter {
    inner: RefCell<Inner>,
}

/// What the writer owns; `flush.rs` has the second half of its functions.
pub(super) struct Inner {
    pub(super) home: HomeId,
    pub(super) incarnation: u32,
    pub(super) options: LogOptions,
    pub(super) marks: Arc<StableMarks>,
    /// Bytes of a flush record.
    pub(super) head_bytes: usize,
    pub(super) fill: Option<Fill>,
    /// Bytes promised to reservations, all of which `fill` has room for.
    pub(super) reserved: usize,
    pub(super) free: Vec<IoBuffer>,
    /// Flushes in flight, in log order; the front one may be done before others only.
    pub(super) flights: VecDeque<Flight>,
    pub(super) preparer: Preparer,
    pub(super) segment: Segment,
    /// Segments of this incarnation that are still in use, the current one last.
    pub(super) used: VecDeque<SegmentHeader>,
    /// Where the next buffer goes.
    pub(super) next: LogPosition,
    /// The padded end of the last flush started, 0 before the first.
    pub(super) previous_end: LogPosition,
    /// That of the last flush with records, and how far the last flush said that the log is durable.
    pub(super) records_end: LogPosition,
    pub(super) told_durable: LogPosition,
    /// A flush is to say so although it has no records.
    pub(super) concludes: bool,
    pub(super) durable: LogPosition,
    pub(super) stability: Stability,
    /// V: the largest dependency on each other log that this log has written (rule 7.4).
    vector: Vec<Cts>,
    /// The stable marks of others that flushes have carried, and whose turn is next.
    pub(super) told: Vec<Cts>,
    pub(super) told_next: usize,
    last_cts: Cts,
    end: LogPosition,
    pub(super) health: LogHealth,
    pub(super) counters: LogCounters,
    pub(super) last_token: u64,
    /// Somebody was told to wait for room; room may have come since.
    pub(super) waited: bool,
    /// Commits since the last flush began, and when a poll first saw bytes of theirs.
    pub(super) gathered: u64,
    pub(super) gathers_since: Option<u64>,
    /// Until when it waits for open transactions, and for how many of them it does not.
    pub(super) gathers_until: Option<u64>,
    pub(super) absent: Absent,
    pub(super) room: bool,
    scratch: Vec<Observed>,
    /// Where flushes have it from when they start.
    pub(super) time: Option<Arc<dyn TimeSource>>,
}

/// The buffer that commits go into.
pub(super) struct Fill {
    pub(super) buffer: IoBuffer,
    /// Where its first byte goes.
    pub(super) position: LogPosition,
    /// Bytes written so far, the flush record's included.
    pub(super) used: usize,
    /// Bytes that may be written: the buffer's, or what its segment has left.
    pub(super) cap: usize,
}

/// A flush in flight.
pub(super) struct Flight {
    pub(super) token: Token,
    /// Its padded end.
    pub(super) end: LogPosition,
    pub(super) bytes: usize,
    pub(super) state: FlightState,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum FlightState {
    Flying,
    Done,
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
        let smallest = 4 * options.buffer_bytes as u64;
        let fits = options.segment_bytes.is_multiple_of(BLOCK_BYTES as u64)
            && options.buffer_bytes.is_multiple_of(BLOCK_BYTES)
            && options.segment_bytes >= smallest
            && options.buffer_bytes >= 4 * BLOCK_BYTES
            && options.flushes_max >= 1;
        if !fits {
            let detail = format!("log options do not fit together: {options:?}");
            return Err(Error::Internal { detail });
        }
        let incarnation = manifest.current();
        let start = incarnation.logs[usize::from(home.0)].start;
        let header = SegmentHeader {
            database: manifest.database,
            home,
            incarnation: incarnation.number,
            number: numbers(disk.as_ref(), home)?.last().map_or(1, |last| last + 1),
            start,
            bytes: options.segment_bytes,
        };
        let mut preparer = Preparer::new(disk, header, PREPARE_TOKEN);
        preparer.prepare_now()?;
        let segment = preparer.take().expect("just prepared");
        Ok(LogWriter { inner: RefCell::new(Inner::new(options, marks, preparer, segment)) })
    }

    /// From now on every flush says when it started.
    pub fn with_times(self, time: Arc<dyn TimeSource>) -> LogWriter {
        self.inner.borrow_mut().time = Some(time);
        self
    }

    /// Reserves room for a record of `bytes` payload (plus `ChunkRef::ENCODED_BYTES` for each
    /// chunk that a commit names). Stops with `WaitFor(LogRoom)`; fails with `DiskFull`,
    /// `TooLarge` beyond [`LogWriter::payload_max`] (then spill chunks), `Io` once poisoned.
    pub fn reserve(&self, bytes: usize) -> Outcome<Reservation> {
        self.inner.borrow_mut().reserve(bytes)
    }

    /// Gives back a reservation that is not used.
    pub fn release(&self, reservation: Reservation) {
        let mut inner = self.inner.borrow_mut();
        inner.reserved -= reservation.bytes;
        inner.room = true;
    }

    /// The largest payload of one record.
    pub fn payload_max(&self) -> usize {
        self.inner.borrow().payload_max()
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
        self.inner.borrow_mut().commit(reservation, cts, dependencies, chunks, payload)
    }

    /// Spills redo of a large transaction early (rule 7.3); cannot fail. Returns the whole chunk.
    pub fn chunk(&self, reservation: Reservation, xid: Xid, payload: &[u8]) -> ChunkRef {
        self.inner.borrow_mut().chunk(reservation, xid, payload)
    }

    /// Starts flushes, prepares segments, advances and publishes the stable mark. Call it in
    /// every turn (rule 2.6), after completions have been given to [`LogWriter::completed`].
    pub fn poll(&self, ring: &dyn Ring, load: Load) -> LogPoll {
        self.inner.borrow_mut().poll(ring, load)
    }

    /// Whether an operation with this token is the log's.
    pub fn owns(&self, token: Token) -> bool {
        token.0 >> TOKEN_MARK_SHIFT == TOKEN_MARK
    }

    /// Takes the completion of one of the log's operations. `Io` once poisoned (rule 7.8): the
    /// process must end.
    pub fn completed(&self, completion: Completion) -> Result<()> {
        let mut inner = self.inner.borrow_mut();
        if completion.token == PREPARE_TOKEN {
            inner.prepared(completion)
        } else {
            inner.flushed(completion)
        }
    }

    /// The end of the durable prefix.
    pub fn durable(&self) -> LogPosition {
        self.inner.borrow().durable
    }

    /// The end of what has been committed to the buffer.
    pub fn end(&self) -> LogPosition {
        self.inner.borrow().end
    }

    /// The beginning of the segment from which a replay of everything at or behind `position` would
    /// read (rule 7.3).
    pub fn segment_start(&self, position: LogPosition) -> LogPosition {
        let inner = self.inner.borrow();
        let starts = inner.used.iter().map(|segment| segment.start);
        let first = inner.used.front().map_or(position, |segment| segment.start);
        starts.rev().find(|start| *start <= position).unwrap_or(first)
    }

    /// Whether bytes have been committed that are not durable. Changes nothing, unlike a poll.
    pub fn unflushed(&self) -> Unflushed {
        self.inner.borrow().unflushed()
    }

    /// At an orderly end, when nothing is unflushed: sees to it that a flush without records says how far
    /// the log is durable, for nothing that follows the last one would. Then damage of the last records
    /// is not taken for a tail that a crash tore. `Nothing` when that is done, or cannot be for want
    /// of disk; call it again after the next polls else.
    pub fn conclude(&self) -> Unflushed {
        self.inner.borrow_mut().conclude()
    }

    /// The largest stable cts.
    pub fn stable(&self) -> Cts {
        self.inner.borrow().stability.stable()
    }

    /// The cts of the last commit record.
    pub fn last_cts(&self) -> Cts {
        self.inner.borrow().last_cts
    }

    /// Whether the log works.
    pub fn health(&self) -> LogHealth {
        let inner = self.inner.borrow();
        match (&inner.health, inner.preparer.full()) {
            (LogHealth::Good, Some(path)) => LogHealth::DiskFull { path: path.to_owned() },
            (health, _) => health.clone(),
        }
    }

    /// What the log has done.
    pub fn counters(&self) -> LogCounters {
        self.inner.borrow().counters
    }

    /// Lets segments of this incarnation that lie wholly below `position` be used again
    /// (rule 8.7); what `position` is below must be durable elsewhere.
    pub fn recycle_below(&self, position: LogPosition) {
        self.inner.borrow_mut().recycle_below(position);
    }
}

impl Inner {
    fn new(
        options: LogOptions,
        marks: Arc<StableMarks>,
        preparer: Preparer,
        segment: Segment,
    ) -> Inner {
        let home = segment.header.home;
        let homes = marks.homes();
        let stable = marks.get(home);
        let start = LogPosition(segment.header.start.0 + SEGMENT_HEADER_BYTES as u64);
        marks.publish_durable(home, start);
        let buffers = options.flushes_max + 1;
        Inner {
            home,
            incarnation: segment.header.incarnation,
            options,
            head_bytes: flush_head_bytes(homes),
            fill: None,
            reserved: 0,
            free: (0..buffers).map(|_| IoBuffer::zeroed(options.buffer_bytes)).collect(),
            flights: VecDeque::new(),
            preparer,
            used: VecDeque::from([segment.header]),
            segment,
            next: start,
            previous_end: LogPosition(0),
            records_end: LogPosition(0),
            told_durable: LogPosition(0),
            concludes: false,
            durable: start,
            stability: Stability::new(stable),
            vector: vec![Cts::ZERO; homes],
            // What recovery found stable is in the manifest's cuts: nothing to tell yet.
            told: (0..homes).map(|home| marks.get(HomeId(home as u16))).collect(),
            told_next: 0,
            marks,
            last_cts: stable,
            end: start,
            health: LogHealth::Good,
            counters: LogCounters { segments: 1, ..LogCounters::default() },
            last_token: PREPARE_TOKEN.0,
            waited: false,
            gathered: 0,
            gathers_since: None,
            gathers_until: None,
            absent: Absent::default(),
            room: false,
            scratch: Vec::new(),
            time: None,
        }
    }

    /// What a record needs beside its payload, at most.
    fn overhead(&self) -> usize {
        COMMIT_HEADER_BYTES + OBSERVED_BYTES * self.marks.homes().saturating_sub(1)
    }

    fn payload_max(&self) -> usize {
        self.options.buffer_bytes / 2 - self.overhead()
    }

    fn reserve(&mut self, payload: usize) -> Outcome<Reservation> {
        if let LogHealth::Poisoned { what, errno } = &self.health {
            return Err(Error::Io { what: what.clone(), errno: *errno }.into());
        }
        let bytes_max = self.payload_max();
        if payload > bytes_max {
            return Err(Error::TooLarge { what: "log record", bytes: payload, bytes_max }.into());
        }
        let bytes = payload + self.overhead();
        if self.fits(bytes) || (self.is_fill_unused() && self.place_fill() && self.fits(bytes)) {
            self.reserved += bytes;
            return Ok(Reservation { bytes });
        }
        // Without a next segment, what the current one has left is all there is.
        if let Some(path) = self.preparer.full()
            && self.is_last_room()
        {
            return Err(Error::DiskFull { path: path.to_owned() }.into());
        }
        self.waited = true;
        self.counters.waits += 1;
        Err(Stop::WaitFor(WaitFor::LogRoom))
    }

    fn fits(&self, bytes: usize) -> bool {
        self.fill.as_ref().is_some_and(|fill| fill.used + self.reserved + bytes <= fill.cap)
    }

    fn is_fill_unused(&self) -> bool {
        let unused = |fill: &Fill| fill.used == self.head_bytes;
        self.reserved == 0 && self.fill.as_ref().is_none_or(unused)
    }

    /// Whether waiting for flushes alone cannot bring room.
    fn is_last_room(&self) -> bool {
        let cut_short = |fill: &Fill| fill.cap < self.options.buffer_bytes;
        self.preparer.peek().is_none() && self.fill.as_ref().is_none_or(cut_short)
    }

    fn commit(
        &mut self,
        reservation: Reservation,
        cts: Cts,
        dependencies: &[Observed],
        chunks: &[ChunkRef],
        payload: &[u8],
    ) -> LogPosition {
        assert!(cts > self.last_cts, "cts grow along a log: {cts} after {}", self.last_cts);
        self.scratch.clear();
        for &observed in dependencies {
            assert!(observed.home != self.home, "a log depends on others only");
            let known = &mut self.vector[usize::from(observed.home.0)];
            if observed.cts > *known && self.marks.get(observed.home) < observed.cts {
                *known = observed.cts;
                self.scratch.push(observed);
            }
        }
        // The same home may have been named twice; its last entry is the largest.
        let vector = &self.vector;
        self.scratch.retain(|observed| observed.cts == vector[usize::from(observed.home.0)]);
        point("log-commit");
        let place = self.place();
        let fill = self.fill.as_mut().expect("a reservation has a buffer");
        let into = &mut fill.buffer[fill.used..fill.cap];
        let n = encode_commit(into, place, cts, &self.scratch, chunks, payload);
        assert!(n <= reservation.bytes, "a commit of {n} bytes in {reservation:?}");
        fill.used += n;
        self.reserved -= reservation.bytes;
        self.last_cts = cts;
        self.end = LogPosition(place.position.0 + n as u64);
        self.stability.push(cts, self.end, &self.scratch);
        self.counters.commits += 1;
        self.gathered += 1;
        self.counters.bytes_payload += n as u64;
        self.counters.dependencies += self.scratch.len() as u64;
        self.end
    }

    fn chunk(&mut self, reservation: Reservation, xid: Xid, payload: &[u8]) -> ChunkRef {
        let place = self.place();
        let fill = self.fill.as_mut().expect("a reservation has a buffer");
        let into = &mut fill.buffer[fill.used..fill.cap];
        let n = encode_chunk(into, place, xid.raw(), payload);
        assert!(n <= reservation.bytes, "a chunk of {n} bytes in {reservation:?}");
        fill.used += n;
        self.reserved -= reservation.bytes;
        self.end = LogPosition(place.position.0 + n as u64);
        self.counters.chunks += 1;
        self.counters.bytes_payload += n as u64;
        let to = u32::try_from(n - RECORD_HEADER_BYTES).expect("bounded by the buffer");
        ChunkRef { position: place.position, from: 0, to }
    }

    /// Where the next record of the buffer goes.
    fn place(&self) -> Place {
        let fill = self.fill.as_ref().expect("a reservation has a buffer");
        let position = LogPosition(fill.position.0 + fill.used as u64);
        Place { incarnation: self.incarnation, home: self.home, position }
    }

    /// Bytes that a buffer placed now could hold: in the current segment, or in the next one if
    /// that is ready and the current one has not room for a whole buffer.
    pub(super) fn room_at(&self, next: LogPosition) -> usize {
        let left = self.segment.header.end().0.saturating_sub(next.0);
        let left = usize::try_from(left).unwrap_or(usize::MAX);
        let whole = self.options.buffer_bytes;
        let room = if left < whole && self.preparer.peek().is_some() { whole } else { left };
        // A buffer that holds less than its head and a record is none.
        if room < 2 * BLOCK_BYTES { 0 } else { room.min(whole) }
    }

    /// Begins to fill a buffer, if there is one and disk behind it. Returns whether it did.
    pub(super) fn place_fill(&mut self) -> bool {
        let cap = self.room_at(self.next);
        if let Some(fill) = self.fill.take_if(|fill| fill.cap < cap) {
            self.free.push(fill.buffer);
        }
        if self.fill.is_some() || cap == 0 {
            return false;
        }
        let Some(mut buffer) = self.free.pop() else { return false };
        let left = self.segment.header.end().0.saturating_sub(self.next.0);
        if left < self.options.buffer_bytes as u64
            && let Some(segment) = self.preparer.take()
        {
            self.next = LogPosition(segment.header.start.0 + SEGMENT_HEADER_BYTES as u64);
            self.used.push_back(segment.header);
            self.segment = segment;
            self.counters.segments += 1;
        }
        buffer.set_len(buffer.capacity());
        self.fill = Some(Fill { buffer, position: self.next, used: self.head_bytes, cap });
        true
    }

    /// A token for a flush.
    pub(super) fn flush_token(&mut self) -> Token {
        self.last_token += 1;
        Token(self.last_token)
    }
}
