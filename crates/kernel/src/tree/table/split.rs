//! Splits of table leaves in the middle, and bringing a leaf to the newest layout.
//!
//! Invariants: a split happens with parent, leaf and new leaf held exclusively (the trunk sees to
//! that), moves rows together with their twins and reserved bytes, and changes no row. Splitting
//! until it fits ends: a leaf with a single row has room for that row's largest form and for one
//! more (page::rowleaf).

use super::tree::row_key;
use super::{LeafWrite, TableTree};
use crate::base::{Outcome, RowId};
use crate::buffer::PageWrite;
use crate::page::keynode::Probe;
use crate::page::rowleaf::{self, SlotIndex};
use crate::sync::point;
use crate::tree::descent::{SplitLeaf, SplitPlan};

impl TableTree {
    /// Splits the leaf that covers `row` until `bytes` of heap are free in it beside a new row:
    /// enough for an insert with so many heap bytes, or for growth of a row by so many. Twins move
    /// along. Stops: `Retry`; `OutOfMemory`. Holds nothing when it returns; the caller looks again,
    /// since others may have used the room.
    pub fn make_room(&self, row: RowId, bytes: usize) -> Outcome<()> {
        point("table.make_room");
        let key = row_key(row);
        loop {
            let mut middle = Middle { tree: self, row, bytes, enough: false };
            let home = self.trunk.home();
            self.trunk.split_leaf(home, Probe::before(&key), &mut middle)?;
            if middle.enough {
                return Ok(());
            }
        }
    }

    /// Brings the leaf to the newest layout if it fits; else call `make_room` and try again.
    /// Answers whether the leaf has the newest layout now.
    pub fn relayout<'t>(&'t self, leaf: &mut LeafWrite<'t>) -> bool {
        let (old, new) = (leaf.layout(), self.layout());
        if old.version() == new.version() {
            return true;
        }
        let fits = rowleaf::relayout(leaf.page_mut().bytes_mut(), old, new);
        if fits {
            leaf.set_layout(new);
        }
        fits
    }
}

/// Halves a leaf by rows until there is room.
struct Middle<'t> {
    tree: &'t TableTree,
    row: RowId,
    bytes: usize,
    enough: bool,
}

impl Middle<'_> {
    /// The first slot that moves, and its separator.
    fn place(&self, leaf: &PageWrite) -> Option<(SlotIndex, RowId)> {
        let layout = self.tree.layout_of(leaf).ok()?;
        let view = rowleaf::Leaf::new(leaf.owned(), layout);
        let rows = view.count();
        // In the newest layout, so that the leaf can be brought to it.
        let heap = view.heap_live() + view.reserved() + self.bytes;
        let used = rowleaf::fixed_bytes(self.tree.layout(), rows + 1) + heap;
        if rows == 0 || used <= rowleaf::USABLE_BYTES {
            return None;
        }
        let first = SlotIndex((rows / 2) as u16);
        let separator = view.row_id(first);
        if separator > view.lower_fence() && rows > 1 {
            return Some((first, separator));
        }
        // One row: the new one goes to whichever side of it is its own.
        match self.row.cmp(&view.row_id(SlotIndex(0))) {
            std::cmp::Ordering::Greater => Some((SlotIndex(1), self.row)),
            std::cmp::Ordering::Less => Some((SlotIndex(0), view.row_id(SlotIndex(0)))),
            std::cmp::Ordering::Equal => None,
        }
    }
}

impl SplitLeaf for Middle<'_> {
    fn plan(&mut self, leaf: &PageWrite, separator: &mut Vec<u8>) -> SplitPlan {
        match self.place(leaf) {
            Some((_, row)) => {
                separator.extend_from_slice(&row_key(row));
                SplitPlan::Split
            }
            None => {
                self.enough = true;
                SplitPlan::Leave
            }
        }
    }

    fn split(&mut self, left: &mut PageWrite, right: &mut PageWrite, _separator: &[u8]) {
        let (first, row) = self.place(left).expect("`plan` found it under the same latch");
        let layout = self.tree.layout_of(left).expect("`place` read it");
        self.tree.split_pages(left, right, layout, first, row);
    }
}
