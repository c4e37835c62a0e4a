//! One log's commits, read ahead into memory, so that rounds can take them by timestamp.
//!
//! Invariants: commits are in order of cts; a commit's payload (chunks first, then its own) is one
//! range of the buffer; what a round has taken is dropped before the next one fills.

use std::collections::VecDeque;
use std::ops::Range;

use crate::base::{Cts, Result};
use crate::log::LogReader;

/// One commit that was read.
#[derive(Clone, Debug)]
pub(super) struct Pending {
    pub cts: Cts,
    pub payload: Range<usize>,
}

/// A log and what was read ahead of it.
pub(super) struct Feed {
    reader: LogReader,
    bytes: Vec<u8>,
    commits: VecDeque<Pending>,
    finished: bool,
}

impl Feed {
    pub fn new(reader: LogReader) -> Feed {
        Feed { reader, bytes: Vec::new(), commits: VecDeque::new(), finished: false }
    }

    /// Reads on until about `bytes_max` bytes are held or the log ends.
    pub fn fill(&mut self, bytes_max: usize) -> Result<()> {
        while !self.finished && (self.bytes.len() < bytes_max || self.commits.is_empty()) {
            if !self.reader.advance()? {
                self.finished = true;
                break;
            }
            let record = self.reader.current();
            let start = self.bytes.len();
            for chunk in record.chunks {
                self.reader.chunk(chunk, &mut self.bytes)?;
            }
            self.bytes.extend_from_slice(record.payload);
            self.commits.push_back(Pending { cts: record.cts, payload: start..self.bytes.len() });
        }
        Ok(())
    }

    /// Up to which cts every commit of this log is held: none means all that there are.
    pub fn complete_to(&self) -> Option<Cts> {
        if self.finished { None } else { self.commits.back().map(|commit| commit.cts) }
    }

    /// Whether the log has ended and nothing is held.
    pub fn is_empty(&self) -> bool {
        self.finished && self.commits.is_empty()
    }

    /// The commits held, with their payloads, whose cts is at most `to`.
    pub fn up_to(&self, to: Cts) -> impl Iterator<Item = (Cts, &[u8])> {
        let within = self.commits.iter().take_while(move |commit| commit.cts <= to);
        within.map(|commit| (commit.cts, &self.bytes[commit.payload.clone()]))
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
}
