//! One log's commits, read ahead into memory, so that rounds can take them by timestamp; a commit
//! too large for that is handed out in pieces.
//!
//! Invariants: commits are in order of cts; a commit's payload (chunks first, then its own) is one
//! range of the buffer; what a round has taken is dropped before the next one fills. Reading stops at
//! a large commit: nothing behind it is held, and it is only known by its cts and its chunks until
//! everything before it, of every log, was applied. So memory is bounded by the bytes asked for, and
//! by one row with its long values.

use std::collections::VecDeque;
use std::ops::Range;

use crate::base::{Cts, Result};
use crate::log::{ChunkRef, LogReader};
use crate::txn::redo::{Ends, RedoPlace, RedoReader};

/// One commit that was read.
#[derive(Clone, Debug)]
pub(super) struct Pending {
    pub cts: Cts,
    pub payload: Range<usize>,
}

/// The commit that the reader stands at, whose payload is too large to be held.
struct Large {
    cts: Cts,
    parts: Vec<ChunkRef>,
}

/// A log and what was read ahead of it.
pub(super) struct Feed {
    reader: LogReader,
    bytes: Vec<u8>,
    commits: VecDeque<Pending>,
    large: Option<Large>,
    finished: bool,
}

impl Feed {
    pub fn new(reader: LogReader) -> Feed {
        Feed { reader, bytes: Vec::new(), commits: VecDeque::new(), large: None, finished: false }
    }

    /// Reads on until about `bytes_max` bytes are held, or a commit is larger than that, or the log
    /// ends.
    pub fn fill(&mut self, bytes_max: usize) -> Result<()> {
        while !self.finished
            && self.large.is_none()
            && (self.bytes.len() < bytes_max || self.commits.is_empty())
        {
            if !self.reader.advance()? {
                self.finished = true;
                break;
            }
            let parts = self.reader.parts()?;
            let record = self.reader.current();
            let bytes: usize = parts.iter().map(|part| part.len()).sum();
            if bytes + record.payload.len() > bytes_max {
                self.large = Some(Large { cts: record.cts, parts });
                break;
            }
            let start = self.bytes.len();
            for part in parts {
                self.reader.chunk(part, &mut self.bytes)?;
            }
            self.bytes.extend_from_slice(record.payload);
            self.commits.push_back(Pending { cts: record.cts, payload: start..self.bytes.len() });
        }
        Ok(())
    }

    /// Bytes of redo in memory.
    pub fn held_bytes(&self) -> usize {
        self.bytes.len()
    }

    /// Up to which cts every commit of this log is held: none means all that there are.
    pub fn complete_to(&self) -> Option<Cts> {
        match &self.large {
            Some(large) => Some(Cts(large.cts.0 - 1)),
            None if self.finished => None,
            None => self.commits.back().map(|commit| commit.cts),
        }
    }

    /// Whether the log has ended and nothing is held.
    pub fn is_empty(&self) -> bool {
        self.finished && self.commits.is_empty()
    }

    /// What is held: payloads are ranges of it.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// The commits held whose cts is at most `to`, in `parts` runs of about as many each.
    pub fn up_to(&self, to: Cts, parts: usize) -> impl Iterator<Item = Range<usize>> {
        let count = self.commits.partition_point(|commit| commit.cts <= to);
        (0..parts).map(move |part| count * part / parts..count * (part + 1) / parts)
    }

    /// Those commits, and where their payloads are.
    pub fn commits(&self, run: Range<usize>) -> impl Iterator<Item = &Pending> {
        self.commits.range(run)
    }

    /// Forgets the commits whose cts is at most `to`.
    pub fn drop_up_to(&mut self, to: Cts) {
        let count = self.commits.iter().take_while(|commit| commit.cts <= to).count();
        let taken = self.commits.drain(..count).next_back();
        let Some(end) = taken.map(|commit| commit.payload.end) else { return };
        self.bytes.drain(..end);
        for commit in &mut self.commits {
            commit.payload = commit.payload.start - end..commit.payload.end - end;
        }
    }

    /// The large commit that is next if everything up to `to` was applied.
    pub fn large_after(&self, to: Cts) -> Option<Cts> {
        self.large.as_ref().map(|large| large.cts).filter(|cts| cts.0 == to.0 + 1)
    }

    /// Hands the large commit's changes to `take` in order, about `bytes_max` bytes of them at a
    /// time, and a reader of them; each is to be read to its end.
    pub fn large_in_pieces(
        &self,
        bytes_max: usize,
        mut take: impl for<'b> FnMut(&'b [u8], &mut RedoReader<'b>) -> Result<()>,
    ) -> Result<()> {
        let parts = self.large.as_ref().map_or(&[][..], |large| &large.parts);
        let own = self.reader.current().payload;
        let (mut bytes, mut place) = (Vec::new(), RedoPlace::default());
        let mut parts = parts.iter();
        loop {
            let until = bytes.len() + bytes_max;
            while bytes.len() < until
                && let Some(part) = parts.next()
            {
                self.reader.chunk(*part, &mut bytes)?;
            }
            let ends = if bytes.len() < until { Ends::Here } else { Ends::Later };
            if ends == Ends::Here {
                bytes.extend_from_slice(own);
            }
            let mut reader = RedoReader::piece(&bytes, place, ends);
            take(&bytes, &mut reader)?;
            let (whole, next) = reader.whole();
            if ends == Ends::Here {
                return Ok(());
            }
            place = next;
            bytes.drain(..whole);
        }
    }

    /// The large commit was replayed.
    pub fn drop_large(&mut self) {
        self.large = None;
    }
}
