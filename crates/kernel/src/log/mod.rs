//! The logs: one a home, redo only, with dependencies instead of a global order (section 7).
//!
//! Invariants: payloads are opaque here; a block that holds a durable record is never rewritten;
//! `durable` advances only over a gapless prefix; `stable` only over records whose dependencies
//! are stable; a failed write or sync poisons the log. Rules by number: README.md; every byte:
//! docs/format/log.md. The writer belongs to one instance; marks are read by all.

mod copied;
mod cut;
mod files;
mod flush;
mod format;
pub mod fuzz;
pub mod manifest;
mod marks;
mod options;
mod reader;
mod recover;
mod scan;
mod segment;
mod stability;
mod walk;
mod writer;

pub use copied::{
    CopiedLog, CopiedLogs, CopiedPart, Origin, Validity, committed_by, examine_below, segments,
    validity, verify_copied,
};
pub use cut::{Dependent, LogSummary, cut};
pub use format::{Chunks, Dependencies, HeaderFault, SEGMENT_HEADER_BYTES, SegmentHeader};
pub use marks::{Asked, StableMarks};
pub use options::{
    ChunkRef, Load, LogCounters, LogHealth, LogOptions, LogPoll, Reservation, Retention, Unflushed,
};
pub use reader::{CommitRecord, LogReader};
pub use recover::{
    Beside, Examined, Leftovers, Swap, create, examine, remove_leftovers, summaries,
};
pub use segment::{folder as segment_folder, name as segment_name};
pub use writer::LogWriter;

#[cfg(test)]
mod tests;
