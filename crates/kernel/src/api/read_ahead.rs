//! Read-ahead of a scan of a table: leaves are read from disk before the scan needs them
//! (kernel.md 4.4).
//!
//! The leaves are asked for in pieces, each twice as large as the one before, up to a limit: when the
//! scan enters a piece, the next one is asked for. So a LIMIT 1 reads one leaf, and a long scan finds
//! what it needs in memory or on its way.
//!
//! Invariants: what is asked for is a guess. A scan is right without it, and a leaf that left memory
//! again, or could not be read, is loaded when the scan needs it.

use super::statement::Statement;
use crate::base::{RowId, Stop};
use crate::tree::table::TableTree;

/// Leaves in the first piece, and in the largest.
const LEAVES_FIRST: usize = 2;
const LEAVES_MAX: usize = 32;
/// A piece has at most this part of the buffer pool: two are there at a time.
const POOL_PART: usize = 128;

/// How far a scan has asked for leaves.
pub struct ReadAhead {
    /// The scan asks again when it is there; none if nothing is left.
    due: Option<RowId>,
    /// The leaves below were asked for.
    asked: RowId,
    /// Leaves in the next piece.
    leaves: usize,
}

impl ReadAhead {
    /// A scan from the first row on; its first leaf is not read ahead.
    pub fn new() -> ReadAhead {
        ReadAhead { due: Some(RowId(1)), asked: RowId(0), leaves: LEAVES_FIRST }
    }

    /// The scan is about to read the leaf that covers `from`.
    pub fn pass(&mut self, statement: &Statement<'_>, tree: &TableTree, from: RowId) {
        let pool = tree.pool();
        if self.due.is_none_or(|due| from < due) || pool.store().is_none() {
            return;
        }
        let first = self.asked.max(from);
        let most = self.leaves.min(pool.frames() / POOL_PART).max(1);
        let mut missing = Vec::new();
        let end = match tree.missing_leaves(first, most, &mut missing) {
            Ok(end) => end,
            // The node above them; another look when it is there.
            Err(Stop::NeedPage(node)) => return statement.load_soon(tree, &[node]),
            // If somebody changes the parent just now, the next leaf is as good for another look.
            Err(_) => return,
        };
        self.due = end.map(|_| first);
        self.asked = end.unwrap_or(first);
        self.leaves = (self.leaves * 2).min(LEAVES_MAX);
        statement.load_soon(tree, &missing);
    }
}
