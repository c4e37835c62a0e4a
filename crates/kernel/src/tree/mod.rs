//! B-trees over swizzled pages: table trees (row leaves, key row_id) and index trees.
//!
//! Invariants: optimistic latch coupling, no sibling pointers, one parent per page, scans go on by
//! the fence key (rule 5.1); a root keeps its frame and PID; latches are taken in the order of
//! README.md and none is held when an operation returns. Trees know no transaction.

pub mod descent;
pub mod frames;
pub mod guesses;
pub mod hints;
pub mod index;
pub mod key;
#[cfg(all(test, loom))]
mod loom_threads;
pub mod nodes;
pub mod overflow;
pub mod table;
