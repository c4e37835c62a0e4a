//! A leaf that recovery holds while it changes several of its rows, one after the other.
//!
//! Invariants: as in `restore`: nobody reads and nothing has a twin. Whoever holds a leaf so holds no
//! other latch, takes none, and waits for nothing but memory: what a leaf does not take
//! ([`Took::No`]) is made after it was let go, by `restore`'s functions, which make the whole change.
//! All changes here set a state, so that making a part of one twice is no harm.

use super::append::takes_last;
use super::restore::RestoreCursor;
use super::{LeafWrite, SlotIndex, TableTree};
use crate::base::{Outcome, RowId};
use crate::latch::OwnedPage;
use crate::page::rowleaf::{self, Leaf, Took};
use crate::sync::mutant;

/// A leaf of a table tree, of the newest layout, held exclusively for several changes.
pub struct HeldLeaf<'t> {
    tree: &'t TableTree,
    leaf: LeafWrite<'t>,
    /// Where the last row was.
    near: SlotIndex,
    /// The rows that belong here: from the first number on, below the second.
    lower: u64,
    upper: u64,
}

impl TableTree {
    /// The leaf that covers `row`; none if it cannot be brought to the newest layout as it is.
    pub fn hold(&self, cursor: &mut RestoreCursor, row: RowId) -> Outcome<Option<HeldLeaf<'_>>> {
        let mut leaf = self.restore_leaf(cursor, row)?;
        if !self.relayout(&mut leaf) {
            return Ok(None);
        }
        let view = leaf.view();
        let lower = view.lower_fence().0;
        let upper = view.upper_fence().map_or(rowleaf::NO_FENCE, |row| row.0);
        Ok(Some(HeldLeaf { tree: self, leaf, near: SlotIndex(0), lower, upper }))
    }
}

impl HeldLeaf<'_> {
    /// Whether `row` belongs here. The very last row id is said not to, which is no harm.
    #[inline]
    pub fn covers(&self, row: RowId) -> bool {
        self.lower <= row.0 && row.0 < self.upper || mutant("replay-held-leaf-fence-unchecked")
    }

    /// The leaf as it stands.
    pub fn leaf(&self) -> &LeafWrite<'_> {
        &self.leaf
    }

    /// Where a row is.
    #[inline]
    pub fn slot(&self, row: RowId) -> Option<SlotIndex> {
        self.leaf.view().find(row)
    }

    /// Changes columns of a row; see [`TableTree::restore_columns`].
    #[inline]
    pub fn columns<'v>(
        &mut self,
        row: RowId,
        changes: impl Iterator<Item = (u16, Option<&'v [u8]>)>,
    ) -> Took {
        self.leaf.edit().take_columns(row, &mut self.near, changes)
    }

    /// Stores a row; see [`TableTree::restore`]. `columns` may be fewer than the layout has, and are
    /// completed then.
    #[inline]
    pub fn row(&mut self, row: RowId, columns: &mut Vec<Option<&[u8]>>) -> Took {
        let count = self.leaf.layout().columns().len();
        if columns.len() > count {
            return Took::No;
        }
        columns.resize(count, None);
        self.tree.raise_row_id_mark(row);
        let fits = |leaf: &Leaf<'_, OwnedPage<'_>>, heap| takes(leaf, row, heap);
        self.leaf.edit().take_row(row, &mut self.near, columns, fits)
    }

    /// Takes a row out; see [`TableTree::remove`].
    pub fn remove(&mut self, row: RowId) -> Took {
        self.tree.raise_row_id_mark(row);
        self.leaf.edit().take_out(row, &mut self.near)
    }
}

/// Whether a row that is not in a leaf of the newest layout belongs into it rather than into a new one.
pub(super) fn takes(leaf: &Leaf<'_, OwnedPage<'_>>, row: RowId, heap: usize) -> bool {
    let last = leaf.count().checked_sub(1).map(|last| leaf.row_id(SlotIndex(last as u16)));
    if last.is_none_or(|last| last < row) { takes_last(leaf, heap) } else { leaf.fits_row(heap) }
}
