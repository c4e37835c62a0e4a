//! The body of the log record's fuzz target, shared with `cargo test` (`log::tests::fuzz`).
//!
//! Invariants: decoding answers or refuses, whatever the bytes are; what it answers lies within
//! them.

use super::format::{Record, decode_anywhere};

/// What came of the bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// They begin with a record.
    Taken,
    /// They do not.
    Refused,
}

/// Reads a record at the beginning of `bytes`, and every part of it. Panics if a part lies
/// elsewhere.
pub fn record(bytes: &[u8]) -> Verdict {
    match decode_anywhere(bytes) {
        Some((Record::Commit { dependencies, chunks, payload, .. }, length)) => {
            let parts = dependencies.count() * 10 + chunks.count() * 16 + payload.len();
            assert_eq!(parts + 40, length);
        }
        Some((Record::Flush(head), length)) => assert!(head.marks.count() * 10 + 48 <= length),
        Some((Record::Chunk { payload }, length)) => assert_eq!(payload.len() + 32, length),
        None => return Verdict::Refused,
    }
    Verdict::Taken
}
