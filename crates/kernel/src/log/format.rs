//! The bytes of log records (docs/format/log.md).
//!
//! Invariants: pure functions over bytes; little-endian; nothing is believed before its checksum.

use super::ChunkRef;
use crate::base::Observed;

/// The dependencies of a commit record: an iterator of [`Observed`].
#[derive(Clone, Copy)]
pub struct Dependencies<'a> {
    bytes: &'a [u8],
}

impl Iterator for Dependencies<'_> {
    type Item = Observed;
    fn next(&mut self) -> Option<Observed> {
        let _ = self.bytes;
        todo!()
    }
}

/// The chunks of a commit record: an iterator of [`ChunkRef`].
#[derive(Clone, Copy)]
pub struct Chunks<'a> {
    bytes: &'a [u8],
}

impl Iterator for Chunks<'_> {
    type Item = ChunkRef;
    fn next(&mut self) -> Option<ChunkRef> {
        let _ = self.bytes;
        todo!()
    }
}
