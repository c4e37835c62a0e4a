//! Merging leaves of a table tree (rule 5.3).
//!
//! Invariants: a leaf with a twin is not merged: the bytes that its rollbacks need, and the
//! entries that name its rows' undo, stay where they are. The first leaf of a range that an
//! instance may be appending to stays a leaf of its own (rule 5.2).

use std::collections::VecDeque;

use super::TableTree;
use super::append::RANGE_ROWS;
use super::tree::row_key;
use crate::base::{Cts, Outcome, RowId};
use crate::buffer::PageWrite;
use crate::page::keynode::Probe;
use crate::page::rowleaf;
use crate::sync::{Ordering, mutant};
use crate::tree::descent::{AloneNode, MergeLeaf, Merged};

/// Ranges behind the newest that nobody appends to any more, most likely.
const OLD_RANGES: u64 = 64;

impl TableTree {
    /// Merges the leaf that covers `row` with a neighbour, if they fit one page. Stops: `Retry`
    /// never; `CatalogChanged` if the tree was freed. Holds nothing when it returns.
    pub fn merge_leaf(&self, row: RowId) -> Outcome<Merged> {
        let key = row_key(row);
        self.trunk.merge_leaf(Probe::before(&key), &mut Rows { tree: self })
    }

    /// Inner nodes that merges left alone; see [`AloneNode`].
    pub fn take_alone(&self) -> VecDeque<AloneNode> {
        self.trunk.take_alone()
    }

    /// Goes on with such a node. `NeedPage`: load it and call again.
    pub fn merge_alone(&self, node: &mut AloneNode) -> Outcome<()> {
        self.trunk.merge_alone(node)
    }
}

struct Rows<'t> {
    tree: &'t TableTree,
}

impl Rows<'_> {
    /// Whether the leaf that begins at `lower` begins a range that may be in use.
    fn begins_range(&self, lower: RowId) -> bool {
        let range = lower.0 / RANGE_ROWS;
        lower.0.is_multiple_of(RANGE_ROWS)
            && range + OLD_RANGES >= self.tree.next_range.load(Ordering::Relaxed)
    }
}

impl MergeLeaf for Rows<'_> {
    fn merge(&mut self, left: &mut PageWrite, right: &mut PageWrite) -> Merged {
        let has_twin = |page: &PageWrite| !page.frame().side().load().is_null();
        if (has_twin(left) || has_twin(right)) && !mutant("merge_ignores_twins") {
            return Merged::Later;
        }
        let layouts = (self.tree.layout_of(left), self.tree.layout_of(right));
        let (Ok(left_layout), Ok(right_layout)) = layouts else { return Merged::No };
        let lower = rowleaf::Leaf::new(right.owned(), right_layout).lower_fence();
        if self.begins_range(lower) {
            return Merged::No;
        }
        let layouts = (left_layout, right_layout);
        if !rowleaf::merge(left.bytes_mut(), right.bytes(), layouts) {
            return Merged::No;
        }
        if mutant("merge_ignores_twins") {
            self.tree.sides.dropped(right.frame());
        }
        // It has rows now that a checkpoint may not have imaged.
        if !mutant("merge-counts-as-imaged") {
            left.frame().set_imaged_as_of(Cts::ZERO);
        }
        self.tree.leaves.fetch_sub(1, Ordering::Relaxed);
        Merged::Yes
    }
}
