//! The steps by which a look-up's index leaf is fetched from memory before the look-up.
//!
//! Invariants: what the steps read is not believed; what comes of them are cache lines and hints. The
//! last one finds the key under a version of the leaf, and what it has found is believed only while
//! the leaf still has that version: then a search would find the same.

use std::cell::Cell;

use super::{IndexTree, Keyed};
use crate::base::{NeededPage, Outcome, RowId};
use crate::buffer::{FrameRef, PageRead};
use crate::latch::RacyPage;
use crate::page::PageKind;
use crate::page::keynode::{KeyNode, Probe};
use crate::sync::mutant;
use crate::tree::hints::{LeafHint, is_leaf};

/// Bytes of an index leaf that say where a search goes on.
const HEAD_BYTES: usize = 128;

/// The only entry of a key, as it was found ahead of a look-up. Holds nothing.
#[derive(Clone, Copy, Debug)]
pub struct KeyPlace {
    leaf: PageRead,
    row: RowId,
    keyed: Keyed,
}

impl KeyPlace {
    /// The key's row, if the leaf is as it was: no entry with the key has come or gone since.
    #[inline]
    pub fn row(&self) -> Option<(RowId, Keyed)> {
        (self.leaf.validate().is_ok() || mutant("index_key_place_outdated"))
            .then_some((self.row, self.keyed))
    }
}

/// What looking for a key ahead came to.
#[derive(Clone, Copy, Debug)]
pub enum FoundKey {
    /// It has one entry, and that is here.
    Here(KeyPlace),
    /// It has several entries, or is the beginning of several keys; the first is here, of this row.
    Several(RowId),
    /// The leaf is the key's, but does not decide: there is no entry, or somebody is changing it.
    Undecided,
    /// The key's leaf is another.
    Elsewhere,
}

impl IndexTree {
    /// Notes the leaf where entries of `key` begin if it is not in memory; answers where it ends, none if it is the
    /// last. Stops: `Retry`, `NeedPage` of an inner node.
    pub fn missing_leaf(
        &self,
        key: &[u8],
        missing: &mut Vec<NeededPage>,
    ) -> Outcome<Option<Vec<u8>>> {
        self.trunk.missing_leaves(Probe::before(key), 1, missing)
    }

    /// Asks for the beginning of the hinted leaf.
    #[inline]
    pub fn prefetch_leaf(&self, hint: LeafHint) -> Option<FrameRef> {
        hint.prefetch(self.tree(), HEAD_BYTES)
    }

    /// Finds the leaf of a key whose hint was wrong, by a descent: notes it in the hint and asks for
    /// its beginning. None if the leaf is not in memory, or somebody is in the way.
    #[inline]
    pub fn prefetch_leaf_anew(&self, hint: &Cell<LeafHint>, key: &[u8]) -> Option<FrameRef> {
        hint.set(LeafHint::new(self.tree(), self.trunk.leaf_ahead(Probe::before(key))?));
        self.prefetch_leaf(hint.get())
    }

    /// Asks for what a search for `key` will read of the leaf, whose beginning is there.
    #[inline]
    pub fn prefetch_search(&self, frame: FrameRef, key: &[u8]) {
        if let Some(node) = self.likely_leaf(frame) {
            node.prefetch_place(Probe::before(key));
        }
    }

    /// The entry of a key, whole or its beginning, if it is in the leaf and the only one; or the first.
    #[inline]
    pub fn find_ahead(&self, frame: FrameRef, key: &[u8]) -> FoundKey {
        let Ok(leaf) = PageRead::begin(frame) else { return FoundKey::Undecided };
        let place = Probe::before(key);
        let Some(node) = self.likely_leaf(frame).filter(|node| node.covers(place)) else {
            return FoundKey::Elsewhere;
        };
        let (at, count) = (node.place_fetched(place), node.count());
        if at >= count || !node.begins_with(at, key) {
            return FoundKey::Undecided;
        }
        let is_only = match at + 1 < count {
            true => !node.begins_with(at + 1, key),
            false => !node.upper_begins_with(key),
        };
        let found = KeyPlace { leaf, row: node.row(at), keyed: Keyed::by_bit(node.is_keyed()) };
        match leaf.validate().is_ok() {
            true if is_only => FoundKey::Here(found),
            true => FoundKey::Several(found.row),
            false => FoundKey::Undecided,
        }
    }

    #[inline]
    fn likely_leaf(&self, frame: FrameRef) -> Option<KeyNode<RacyPage>> {
        let page = frame.racy();
        is_leaf(page, self.tree(), PageKind::IndexLeaf).then(|| KeyNode::new(page))
    }
}
