//! Table trees: rows by row_id in row leaves (rules 5.1 to 5.3).
//!
//! Invariants (tree/README.md numbers them): the root is an inner node and keeps its frame; every
//! row id ever handed out is at most the mark; a leaf's fences tile the ids; a change to a leaf's
//! slots is passed on to its twin table under the same latch ([`SideTables`]); every operation is
//! a plain function that holds no latch when it returns, but for the guard it returns. The tree
//! knows no transaction: what a row's state means is `version`'s business.

mod ahead;
mod append;
mod check;
mod held;
#[cfg(all(test, not(loom)))]
mod held_tests;
mod leaf;
mod merge;
#[cfg(all(test, not(loom)))]
mod merge_tests;
mod near;
mod restore;
mod split;
#[cfg(all(test, not(loom)))]
mod tests;
mod tree;

pub use append::{AppendCursor, RANGE_ROWS};
pub use check::{CheckedLeaves, VisitLeaf};
pub use held::HeldLeaf;
pub use leaf::{LeafView, LeafWrite, NoSideTables, SideTables};
pub use restore::{RestoreCursor, Restored, Unwatched, Watch};
pub use tree::TableTree;

pub use crate::page::rowleaf::{ROW_BYTES_MAX, RowState, SlotIndex};
