//! Reads a log from its first record to its end, a segment at a time.
//!
//! Invariants: every record handed out has a valid checksum, incarnation, home and position.

use super::ChunkRef;
use super::format::Dependencies;
use crate::base::{Cts, LogPosition, Result};

/// A position in a log that moves from one commit record to the next.
pub struct LogReader {}

/// A commit record.
#[derive(Clone, Copy)]
pub struct CommitRecord<'a> {
    /// Where it begins.
    pub position: LogPosition,
    /// Its timestamp; grows from record to record.
    pub cts: Cts,
    /// What it depends on in other logs.
    pub dependencies: Dependencies<'a>,
    /// The payload in the record itself.
    pub payload: &'a [u8],
    /// Parts of chunks that come before the payload; see [`LogReader::chunk`].
    pub chunks: super::format::Chunks<'a>,
}

impl LogReader {
    /// Goes to the next commit record; `false` at the end.
    pub fn advance(&mut self) -> Result<bool> {
        todo!()
    }

    /// The record that `advance` went to.
    pub fn current(&self) -> CommitRecord<'_> {
        todo!()
    }

    /// Reads a part of an earlier chunk, appending it to `out`.
    pub fn chunk(&self, chunk: ChunkRef, out: &mut Vec<u8>) -> Result<()> {
        let _ = (chunk, out);
        todo!()
    }
}
