//! Segment files: their names, and making the next one ready before it is needed (rule 7.1).
//!
//! Invariants: a segment in use is wholly written (zeros, or stale bytes of its earlier use), its
//! header, its length and its name durable before the first flush goes into it; so flushes never
//! wait for space, and a durable write changes no metadata. No space is an answer, not a fault:
//! nothing that was reserved depends on a segment that is not ready (rule 7.8).
//!
//! ```text
//!   Idle --wanted--> Writing --all zeros written--> Syncing --synced, name synced--> Idle (+1 ready)
//!     ^                 | no space
//!     +--after a while--+ Full
//! ```

use std::collections::VecDeque;
use std::sync::Arc;

use super::format::{SEGMENT_HEADER_BYTES, SegmentHeader};
use crate::base::{Error, HomeId, Result};
use crate::io::{Direct, Disk, Durability, FileRef, IoBuffer, Op, OpenHow, Returned, Ring, Token};
use crate::sync::ledger::share;
use crate::sync::mutant;

/// How long to leave a full disk alone before trying again.
const FULL_RETRY_NS: u64 = 100_000_000;
/// Bytes of one write of zeros: small enough not to hold up flushes on the same device.
const PIECE_BYTES: usize = 128 << 10;
/// Bytes of one write of zeros at start, when nobody waits for flushes.
const PIECE_NOW_BYTES: usize = 1 << 20;

/// The folder of a home's segments.
pub fn folder(home: HomeId) -> String {
    format!("log/{:04}", home.0)
}

/// The name of segment `number` of a home.
pub fn name(home: HomeId, number: u64) -> String {
    format!("log/{:04}/{number:012}.seg", home.0)
}

/// The numbers of a home's segment files, ascending; other names are ignored.
pub fn numbers(disk: &dyn Disk, home: HomeId) -> Result<Vec<u64>> {
    let names = disk.list(&folder(home))?;
    let number = |name: &String| name.strip_suffix(".seg").and_then(|n| n.parse().ok());
    let mut numbers: Vec<u64> = names.iter().filter_map(number).collect();
    numbers.sort_unstable();
    Ok(numbers)
}

/// A segment that is ready for flushes.
#[derive(Clone)]
pub struct Segment {
    /// The file.
    pub file: FileRef,
    /// What its header says.
    pub header: SegmentHeader,
}

/// Makes segments ready, one at a time, with operations on the instance's ring.
pub struct Preparer {
    disk: Arc<dyn Disk>,
    /// The header of the next segment to be made.
    next: SegmentHeader,
    state: State,
    ready: VecDeque<Segment>,
    /// Numbers of segments whose files may be used again.
    recycled: Vec<u64>,
    token: Token,
}

enum State {
    Idle,
    Writing { segment: Segment, written: u64, until: u64, buffer: Option<IoBuffer> },
    Syncing { segment: Segment, submitted: Submitted },
    Full { path: String, retry_ns: Option<u64> },
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Submitted {
    Yes,
    No,
}

impl Preparer {
    /// Makes segments from `next` on; `token` marks its operations.
    pub fn new(disk: Arc<dyn Disk>, next: SegmentHeader, token: Token) -> Preparer {
        let (state, ready, recycled) = (State::Idle, VecDeque::new(), Vec::new());
        Preparer { disk, next, state, ready, recycled, token }
    }

    /// Makes a segment ready now, blocking: for the first one of an incarnation.
    pub fn prepare_now(&mut self) -> Result<()> {
        self.create_folder()?;
        let segment = self.create()?;
        let zeros = IoBuffer::zeroed(PIECE_NOW_BYTES);
        let mut at = 0;
        while at < segment.header.bytes {
            let n = piece(at, segment.header.bytes, PIECE_NOW_BYTES);
            segment.file.write_at(at, &zeros[..n])?;
            at += n as u64;
        }
        let mut block = IoBuffer::zeroed(SEGMENT_HEADER_BYTES);
        segment.header.encode(&mut block);
        segment.file.write_at(0, &block)?;
        segment.file.sync()?;
        self.finish(segment)
    }

    /// Makes the folder durable, so that names in it can be.
    fn create_folder(&self) -> Result<()> {
        let folder = folder(self.next.home);
        if !self.disk.exists(&folder)? {
            self.disk.create_dir(&folder)?;
        }
        self.disk.sync_dir("")?;
        self.disk.sync_dir("log")
    }

    fn create(&mut self) -> Result<Segment> {
        let name = name(self.next.home, self.next.number);
        let file = self.disk.open(&name, OpenHow::CreateNew, Direct::Yes)?;
        if let Err(error) = file.allocate(self.next.bytes) {
            self.give_up(&name);
            return Err(error);
        }
        Ok(Segment { file, header: self.next })
    }

    /// Gives a half-made segment's space back. If the file stays, recovery ignores it.
    fn give_up(&mut self, name: &str) {
        let _ = self.disk.remove(name);
        self.next.number += 1;
    }

    /// Takes an old file under the new name. Its stale bytes stay: records say where they belong.
    fn reuse(&mut self, number: u64) -> Result<Segment> {
        let (old, new) = (name(self.next.home, number), name(self.next.home, self.next.number));
        self.disk.rename(&old, &new)?;
        let file = self.disk.open(&new, OpenHow::Existing, Direct::Yes)?;
        Ok(Segment { file, header: self.next })
    }

    fn finish(&mut self, segment: Segment) -> Result<()> {
        if !mutant("log-segment-name-not-synced") {
            self.disk.sync_dir(&folder(self.next.home))?;
        }
        self.next.number = segment.header.number + 1;
        self.next.start = segment.header.end();
        self.ready.push_back(segment);
        self.state = State::Idle;
        Ok(())
    }

    /// Takes the next ready segment into use.
    pub fn take(&mut self) -> Option<Segment> {
        self.ready.pop_front()
    }

    /// The next ready segment.
    pub fn peek(&self) -> Option<&Segment> {
        self.ready.front()
    }

    /// Lets a segment's file be used again.
    pub fn recycle(&mut self, number: u64) {
        self.recycled.push(number);
    }

    /// Where no space was found, if that is why no segment is ready.
    pub fn full(&self) -> Option<&str> {
        match &self.state {
            State::Full { path, .. } => Some(path),
            _ => None,
        }
    }

    /// Goes on with, or begins, making a segment ready if none is. `wanted`: how many of its
    /// bytes should be written by now, so that a flush never waits behind many of them; 0: do not
    /// begin. `Io` poisons the log.
    pub fn poll(&mut self, ring: &dyn Ring, now_ns: u64, wanted: u64) -> Result<()> {
        if let State::Full { retry_ns, .. } = &mut self.state {
            match retry_ns {
                None => *retry_ns = Some(now_ns + FULL_RETRY_NS),
                Some(at) if now_ns >= *at => self.state = State::Idle,
                Some(_) => {}
            }
        }
        if matches!(self.state, State::Idle) && self.ready.is_empty() && wanted > 0 {
            self.begin()?;
        }
        self.submit(ring, wanted);
        Ok(())
    }

    fn begin(&mut self) -> Result<()> {
        let made = match self.recycled.pop() {
            Some(number) => self.reuse(number).map(|segment| (segment, true)),
            None => self.create().map(|segment| (segment, false)),
        };
        match made {
            Ok((segment, reused)) => {
                let buffer = IoBuffer::zeroed(PIECE_BYTES);
                // A file that is used again only needs its new header.
                let until = if reused { SEGMENT_HEADER_BYTES as u64 } else { segment.header.bytes };
                self.state = State::Writing { segment, written: 0, until, buffer: Some(buffer) };
                Ok(())
            }
            Err(error) => self.failed(error),
        }
    }

    fn failed(&mut self, error: Error) -> Result<()> {
        match error {
            Error::DiskFull { path } => {
                self.state = State::Full { path, retry_ns: None };
                Ok(())
            }
            other => Err(other),
        }
    }

    fn submit(&mut self, ring: &dyn Ring, wanted: u64) {
        match &mut self.state {
            State::Writing { segment, written, until, buffer } if *written < wanted => {
                let Some(mut buffer) = buffer.take() else { return };
                buffer.set_len(piece(*written, *until, PIECE_BYTES));
                if *written == 0 {
                    segment.header.encode(&mut buffer);
                } else {
                    buffer[..SEGMENT_HEADER_BYTES].fill(0);
                }
                let (file, offset) = (share(&segment.file), *written);
                let op = Op::Write { file, offset, buffer, durability: Durability::Volatile };
                ring.submit(op, self.token);
            }
            State::Syncing { segment, submitted } if *submitted == Submitted::No => {
                *submitted = Submitted::Yes;
                ring.submit(Op::Sync { file: share(&segment.file) }, self.token);
            }
            State::Writing { .. } | State::Syncing { .. } | State::Idle | State::Full { .. } => {}
        }
    }

    /// Takes the completion of the operation under way. `Io` poisons the log.
    pub fn completed(
        &mut self,
        result: std::result::Result<u32, i32>,
        back: Returned,
    ) -> Result<()> {
        let state = std::mem::replace(&mut self.state, State::Idle);
        match (state, back, result) {
            (State::Writing { segment, .. }, _, Err(libc::ENOSPC | libc::EDQUOT)) => {
                let path = name(segment.header.home, segment.header.number);
                self.give_up(&path);
                self.failed(Error::DiskFull { path })
            }
            (State::Writing { segment, written, until, .. }, Returned::Io(buffer), Ok(n)) => {
                let written = written + u64::from(n);
                self.state = if written < until {
                    State::Writing { segment, written, until, buffer: Some(buffer) }
                } else {
                    State::Syncing { segment, submitted: Submitted::No }
                };
                Ok(())
            }
            (State::Syncing { segment, .. }, _, Ok(_)) => self.finish(segment),
            (_, _, Err(errno)) => {
                let what = format!("prepare \"{}\"", name(self.next.home, self.next.number));
                Err(Error::Io { what, errno })
            }
            _ => Err(Error::Internal { detail: "a completion that nothing waits for".to_owned() }),
        }
    }
}

fn piece(at: u64, until: u64, bytes_max: usize) -> usize {
    usize::try_from(until - at).unwrap_or(bytes_max).min(bytes_max)
}
