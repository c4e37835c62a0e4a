//! The steps by which a row's leaf is fetched from memory before the row is read.
//!
//! Invariants: nothing that is read here is believed: no version is taken and nothing validates.
//! What comes of it are cache lines, and hints.

use std::cell::Cell;

use super::leaf::layout_version;
use super::tree::row_key;
use super::{SlotIndex, TableTree};
use crate::base::RowId;
use crate::buffer::FrameRef;
use crate::latch::RacyPage;
use crate::page::PageKind;
use crate::page::keynode::Probe;
use crate::page::rowleaf::{self, Leaf};
use crate::tree::hints::{LeafHint, is_leaf};

/// Bytes of a leaf that say what it is and where things are in it.
const HEAD_BYTES: usize = rowleaf::AT_ROWS;

impl TableTree {
    /// Asks for the beginning of the hinted leaf.
    #[inline]
    pub fn prefetch_leaf(&self, hint: LeafHint) -> Option<FrameRef> {
        hint.prefetch(self.id(), HEAD_BYTES)
    }

    /// Finds the leaf of a row whose hint was wrong, by a descent: notes it in the hint and asks for
    /// its beginning. None if the leaf is not in memory, or somebody is in the way.
    #[inline]
    pub fn prefetch_leaf_anew(&self, hint: &Cell<LeafHint>, row: RowId) -> Option<FrameRef> {
        let leaf = self.trunk.leaf_ahead(Probe::before(&row_key(row)))?;
        hint.set(LeafHint::new(self.id(), leaf));
        self.prefetch_leaf(hint.get())
    }

    /// Asks for what says where a row's values are, in a leaf whose beginning is there: of
    /// `columns`, and of `more` of which most rows have none. Answers where the row seems to be, none
    /// if its leaf is another.
    #[inline]
    pub fn prefetch_row(
        &self,
        frame: FrameRef,
        row: RowId,
        (columns, more): (&[u16], &[u16]),
    ) -> Option<SlotIndex> {
        let leaf = self.likely_leaf(frame).filter(|leaf| leaf.covers(row))?;
        let slot = leaf.likely_slot(row);
        leaf.prefetch(slot, columns);
        if !more.is_empty() {
            leaf.prefetch(slot, more);
        }
        Some(slot)
    }

    /// Asks for a row's variable values, when it is there where they are.
    #[inline]
    pub fn prefetch_values(&self, frame: FrameRef, slot: SlotIndex, columns: &[u16]) {
        if let Some(leaf) = self.likely_leaf(frame) {
            leaf.prefetch_heap(slot, columns);
        }
    }

    #[inline]
    fn likely_leaf(&self, frame: FrameRef) -> Option<Leaf<'_, RacyPage>> {
        let page = frame.racy();
        if !is_leaf(page, self.id(), PageKind::TableLeaf) {
            return None;
        }
        Some(Leaf::new(page, self.layout_for(layout_version(page))?))
    }
}
