//! The steps by which a look-up's index leaf is fetched from memory before the look-up.
//!
//! Invariants: nothing that is read here is believed: no version is taken and nothing validates.
//! What comes of it are cache lines, and guesses as good as hints.

use super::IndexTree;
use crate::base::RowId;
use crate::buffer::FrameRef;
use crate::latch::RacyPage;
use crate::page::PageKind;
use crate::page::keynode::{KeyNode, Probe};
use crate::tree::hints::{LeafHint, is_leaf};

/// Bytes of an index leaf that say where a search goes on.
const HEAD_BYTES: usize = 128;

impl IndexTree {
    /// Asks for the beginning of the hinted leaf.
    #[inline]
    pub fn prefetch_leaf(&self, hint: LeafHint) -> Option<FrameRef> {
        hint.prefetch(self.tree(), HEAD_BYTES)
    }

    /// Asks for what a search for `key` will read of the leaf, whose beginning is there.
    #[inline]
    pub fn prefetch_search(&self, frame: FrameRef, key: &[u8]) {
        if let Some(node) = self.likely_leaf(frame) {
            node.prefetch_place(Probe::before(key));
        }
    }

    /// The row that `key` seems to lead to.
    #[inline]
    pub fn likely_row(&self, frame: FrameRef, key: &[u8]) -> Option<RowId> {
        let node = self.likely_leaf(frame)?;
        let at = node.place(Probe::before(key));
        (at < node.count() && node.begins_with(at, key)).then(|| node.row(at))
    }

    #[inline]
    fn likely_leaf(&self, frame: FrameRef) -> Option<KeyNode<RacyPage>> {
        let page = frame.racy();
        is_leaf(page, self.tree(), PageKind::IndexLeaf).then(|| KeyNode::new(page))
    }
}
