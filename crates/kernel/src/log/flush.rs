//! From a buffer with commits to *stable*: flushes, the durable prefix, marks (rules 7.2, 7.5,
//! 7.8, 7.9).
//!
//! Invariants: a flush starts at a block that no flush has touched and is padded to whole blocks;
//! at most `flushes_max` are in flight; `durable` is the end of the longest run of completed
//! flushes from the start; the stable mark is published after it moved, never before.

use super::format::{BLOCK_BYTES, FLUSH_MARKS_MAX, FlushSays, Place, encode_flush};
use super::writer::{Flight, FlightState, Inner};
use super::{Load, LogHealth, LogPoll, Retention, Unflushed};
use crate::base::{Error, HomeId, LogPosition, Observed, Result};
use crate::io::{Completion, Durability, Op, Returned, Ring};
use crate::sync::ledger::share;
use crate::sync::mutant;

/// How long a flush waits for more commits at most, while others run.
const GATHER_NS_MAX: u64 = 2_000_000;
/// So many must have committed for each task that is ready before it goes without that task's commit: what is
/// left to run is to fill the time that it flies, not more.
const COMMITS_PER_READY: u64 = 2;
/// How long it waits for open transactions at most.
const GATHER_OPEN_NS_MAX: u64 = 300_000;
/// So many flushes go on without the open transactions that one has waited for, if none of them came.
const NONE_CAME_FLUSHES: u32 = 16;
/// If some did: most of the others are only late, and will come next time.
const SOME_CAME_FLUSHES: u32 = 2;

/// Open transactions that a flush has waited for in vain: idle ones, or long ones. The next flushes wait only for those
/// above so many, for a while.
#[derive(Default)]
pub(super) struct Absent {
    open: u64,
    flushes: u32,
}

impl Absent {
    /// A flush with so many commits begins without these.
    fn note(&mut self, open: u64, gathered: u64) {
        let flushes = if gathered > 1 { SOME_CAME_FLUSHES } else { NONE_CAME_FLUSHES };
        *self = Absent { open, flushes: flushes + 1 };
    }

    fn flushed(&mut self) {
        self.flushes = self.flushes.saturating_sub(1);
        if self.flushes == 0 {
            self.open = 0;
        }
    }
}

impl Inner {
    pub(super) fn poll(&mut self, ring: &dyn Ring, load: Load) -> LogPoll {
        if self.health == LogHealth::Good {
            let full_before = self.preparer.full().is_some();
            if let Err(error) = self.preparer.poll(ring, load.now_ns, self.wanted()) {
                self.poison(&error);
            }
            // Those who wait must hear that the disk is full, or that it may no longer be.
            self.room |= full_before != self.preparer.full().is_some();
            while self.should_flush(load) {
                self.start_flush(ring);
            }
        }
        let before = self.stability.stable();
        let waits_for = self.stability.advance(self.durable, &self.marks);
        let stable = self.stability.stable();
        let advanced = stable > before;
        let asked = advanced && self.marks.publish_stable(self.home, stable);
        let room = self.waited && self.room;
        if room {
            (self.waited, self.room) = (false, false);
        }
        let (unflushed, gathers_until) = (self.unflushed(), self.gathers_until);
        LogPoll { unflushed, stable, advanced, asked, room, gathers_until, waits_for }
    }

    pub(super) fn unflushed(&self) -> Unflushed {
        let some = self.has_bytes() || !self.flights.is_empty();
        if some { Unflushed::Some } else { Unflushed::Nothing }
    }

    pub(super) fn conclude(&mut self) -> Unflushed {
        let is_told = self.told_durable >= self.records_end || mutant("log-not-concluded");
        if is_told || self.health != LogHealth::Good || self.fill.is_none() {
            return Unflushed::Nothing;
        }
        self.concludes = true;
        Unflushed::Some
    }

    /// How much of the next segment should be written by now: it is begun when an eighth of the
    /// current one is used, and ready when three quarters are, a little at a time.
    fn wanted(&self) -> u64 {
        if self.waited {
            return u64::MAX;
        }
        let bytes = self.segment.header.bytes;
        let used = self.next.0 - self.segment.header.start.0;
        used.saturating_sub(bytes / 8).saturating_mul(8) / 5
    }

    fn has_bytes(&self) -> bool {
        self.fill.as_ref().is_some_and(|fill| fill.used > self.head_bytes)
    }

    /// Whether the next flush waits for more commits although none is in flight: while more than half as many tasks
    /// are ready to run as have committed, so that the processor has work all the while and
    /// when the flush flies. Not for long, not if the buffer fills, and not if another
    /// instance or a transaction without room waits. An instance that has nothing else to do
    /// flushes at once, if there are processors enough. Where they are short, a flush is dear, for it costs as much
    /// whatever it carries: then it waits for all open transactions, a fraction of a millisecond, but for as many as
    /// one has waited for in vain lately.
    fn gathers(&mut self, load: Load) -> bool {
        self.gathers_until = None;
        if !self.has_bytes() || !self.flights.is_empty() {
            return false;
        }
        let since = *self.gathers_since.get_or_insert(load.now_ns);
        let waited = load.now_ns.saturating_sub(since);
        let may = self.fill.as_ref().is_some_and(|fill| fill.used < self.options.buffer_bytes / 2)
            && !self.waited
            && !self.marks.is_asked(self.home);
        let enough = COMMITS_PER_READY * load.ready_tasks as u64;
        if may && self.gathered < enough && waited < GATHER_NS_MAX {
            return true;
        }
        let are_open = may && load.open > self.absent.open;
        let waits = are_open && waited < GATHER_OPEN_NS_MAX;
        if waits {
            self.gathers_until = Some(since + GATHER_OPEN_NS_MAX);
        } else if are_open {
            self.absent.note(load.open, self.gathered);
        }
        waits
    }

    /// Rule 7.2: if none is in flight and enough is gathered, else when the buffer is half full. What
    /// is reserved must fit the buffer that follows; if it does not, its owners commit first.
    fn should_flush(&mut self, load: Load) -> bool {
        let gathers = self.gathers(load);
        let Some(fill) = self.fill.as_ref() else { return false };
        let due = match self.flights.len() {
            0 => self.concludes || (fill.used > self.head_bytes && !gathers),
            n => n < self.options.flushes_max && fill.used >= self.options.buffer_bytes / 2,
        };
        if !due || self.reserved == 0 {
            return due;
        }
        let end = fill.position.0 + fill.used.next_multiple_of(BLOCK_BYTES) as u64;
        self.head_bytes + self.reserved <= self.room_at(LogPosition(end))
    }

    fn start_flush(&mut self, ring: &dyn Ring) {
        let marks = self.marks_to_tell();
        let mut fill = self.fill.take().expect("should_flush has looked");
        let padded = fill.used.next_multiple_of(BLOCK_BYTES);
        fill.buffer.set_len(padded);
        fill.buffer[fill.used..].fill(0);
        let place =
            Place { incarnation: self.incarnation, home: self.home, position: fill.position };
        let head = self.head_bytes;
        let end = LogPosition(fill.position.0 + padded as u64);
        if fill.used > head {
            self.records_end = end;
        }
        (self.told_durable, self.concludes) = (self.durable, false);
        let says = FlushSays {
            durable: self.durable,
            previous_end: self.previous_end,
            bytes: fill.used,
            marks: &marks,
            wall_micros: self.time.as_ref().map(|time| time.wall_micros()),
        };
        encode_flush(&mut fill.buffer, head, place, says);
        let is_spared = mutant("log-one-flush-volatile") && self.counters.flushes == 50;
        let durability = if is_spared || mutant("log-volatile-flush") {
            Durability::Volatile
        } else {
            Durability::Durable
        };
        let token = self.flush_token();
        let offset = fill.position.0 - self.segment.header.start.0;
        let file = share(&self.segment.file);
        let op = Op::Write { file, offset, buffer: fill.buffer, durability };
        ring.submit(op, token);
        self.flights.push_back(Flight { token, end, bytes: padded, state: FlightState::Flying });
        (self.gathers_since, self.gathered) = (None, 0);
        self.absent.flushed();
        self.counters.flushes += 1;
        self.counters.bytes_padded += padded as u64;
        self.previous_end = end;
        self.next = end;
        if mutant("log-rewrites-a-block") && padded > BLOCK_BYTES {
            self.next.0 -= BLOCK_BYTES as u64;
        }
        self.room |= self.place_fill();
    }

    /// Stable marks of others that no flush of this log has carried yet, a bounded number, each
    /// home in its turn.
    fn marks_to_tell(&mut self) -> Vec<Observed> {
        let homes = self.told.len();
        let mut marks = Vec::new();
        for step in 0..homes {
            let index = (self.told_next + step) % homes;
            let home = HomeId(u16::try_from(index).expect("at most 512 homes"));
            let cts = self.marks.get(home);
            if home == self.home || cts <= self.told[index] {
                continue;
            }
            if marks.len() == FLUSH_MARKS_MAX {
                self.told_next = index;
                break;
            }
            self.told[index] = cts;
            marks.push(Observed { home, cts });
        }
        marks
    }

    /// A flush has ended. A failed one is never tried again (rule 7.8).
    pub(super) fn flushed(&mut self, completion: Completion) -> Result<()> {
        let flight = self.flights.iter_mut().find(|flight| flight.token == completion.token);
        let Some(flight) = flight else {
            let detail = format!("no flush is called {:?}", completion.token);
            return Err(Error::Internal { detail });
        };
        let written = completion.result.is_ok_and(|bytes| bytes as usize == flight.bytes);
        if written {
            flight.state = FlightState::Done;
            if mutant("log-durable-over-a-gap") {
                self.durable = self.durable.max(flight.end);
            }
        }
        if let Returned::Io(buffer) = completion.buffer {
            self.free.push(buffer);
        }
        if !written {
            let errno = completion.result.err().unwrap_or(libc::EIO);
            let what = format!("write log of home {}", self.home);
            self.poison(&Error::Io { what, errno });
        }
        self.outcome()?;
        self.advance_durable();
        Ok(())
    }

    /// Moves the durable mark over completed flushes that nothing unfinished lies before.
    fn advance_durable(&mut self) {
        let is_done = |flight: &mut Flight| flight.state == FlightState::Done;
        while let Some(flight) = self.flights.pop_front_if(is_done) {
            self.durable = self.durable.max(flight.end);
            self.counters.flushes_done += 1;
        }
        self.marks.publish_durable(self.home, self.durable);
        if self.fill.is_none() {
            self.place_fill();
        }
        self.room = true;
        if self.options.retention == Retention::Recycle {
            self.recycle_below(self.durable);
        }
    }

    /// An operation of the segment preparer has ended.
    pub(super) fn prepared(&mut self, completion: Completion) -> Result<()> {
        if let Err(error) = self.preparer.completed(completion.result, completion.buffer) {
            self.poison(&error);
        }
        self.room = true;
        self.outcome()
    }

    fn poison(&mut self, error: &Error) {
        let (what, errno) = match error {
            Error::Io { what, errno } => (what.clone(), *errno),
            other => (other.to_string(), 0),
        };
        self.health = LogHealth::Poisoned { what, errno };
        self.room = true;
    }

    fn outcome(&self) -> Result<()> {
        match &self.health {
            LogHealth::Poisoned { what, errno } => {
                Err(Error::Io { what: what.clone(), errno: *errno })
            }
            LogHealth::Good | LogHealth::DiskFull { .. } => Ok(()),
        }
    }

    /// Hands segments that end at or below `position`, and are not in use, to the preparer.
    pub(super) fn recycle_below(&mut self, position: LogPosition) {
        while self.used.len() > 1 {
            let Some(old) = self.used.pop_front_if(|old| old.end() <= position) else { return };
            self.preparer.recycle(old.number);
        }
    }
}
