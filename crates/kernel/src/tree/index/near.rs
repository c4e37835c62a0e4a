//! The leaf of a key, where it was found last ([`crate::tree::hints`]).
//!
//! Invariants: the hinted leaf is taken only if, under the version (or the latch) with which it is
//! then used, it is a leaf of this index whose fences cover the key. Everything else descends, and
//! a hinted leaf is never waited for.

use super::IndexTree;
use crate::base::{Outcome, Stop};
use crate::buffer::{FrameRef, PageRead, PageWrite};
use crate::page::PageKind;
use crate::page::keynode::{KeyNode, Probe};
use crate::sync::{mutant, point};
use crate::tree::descent::Side;
use crate::tree::hints::{self, LeafHint, LeafHints};

/// Whether a key's leaf is looked for where it was found last.
#[derive(Clone, Copy)]
pub enum Near<'h> {
    /// It is; and where it is found is noted.
    Hints(&'h LeafHints),
    /// In this leaf, where the key before it was; nothing is noted. For reads.
    Leaf(FrameRef),
    /// By a descent.
    Nowhere,
}

impl IndexTree {
    /// Runs `read` on the leaf that covers `key`, as `Trunk::read_leaf`.
    #[inline]
    pub(super) fn read_leaf_of<R>(
        &self,
        near: Near<'_>,
        key: &[u8],
        mut read: impl FnMut(&PageRead) -> Outcome<R>,
    ) -> Outcome<R> {
        let place = Probe::before(key);
        let hints = match near {
            Near::Hints(hints) => hints,
            Near::Leaf(frame) => {
                let there = self.hinted(LeafHint::new(self.tree(), frame), place);
                let done = there.and_then(|leaf| believed(&leaf, &mut read));
                return done.unwrap_or_else(|| self.trunk.read_leaf(place, Side::At, read));
            }
            Near::Nowhere => return self.trunk.read_leaf(place, Side::At, read),
        };
        let hint = hints.of_key(self.tree(), key);
        if let Some(leaf) = self.nearest((hints, key), hint.get(), place)
            && let Some(done) = believed(&leaf, &mut read)
        {
            hint.set(LeafHint::new(self.tree(), leaf.frame()));
            return done;
        }
        let mut found = LeafHint::default();
        let result = self.trunk.read_leaf(place, Side::At, |leaf| {
            found = LeafHint::new(self.tree(), leaf.frame());
            read(leaf)
        });
        hint.set(found);
        hints.of_keys_about(self.tree(), key).set(found);
        result
    }

    /// The leaf that covers `place`, which is among the entries of `key`, held exclusively, as
    /// `Trunk::write_leaf`.
    #[inline]
    pub(super) fn write_leaf_of(
        &self,
        near: Near<'_>,
        key: &[u8],
        place: Probe<'_>,
    ) -> Outcome<PageWrite> {
        let Near::Hints(hints) = near else { return self.trunk.write_leaf(place) };
        let hint = hints.of_key(self.tree(), key);
        let near = self.nearest((hints, key), hint.get(), place);
        if let Some(leaf) = near.and_then(hints::upgrade) {
            hint.set(LeafHint::new(self.tree(), leaf.frame()));
            return Ok(leaf);
        }
        let leaf = self.trunk.write_leaf(place)?;
        let found = LeafHint::new(self.tree(), leaf.frame());
        hint.set(found);
        hints.of_keys_about(self.tree(), key).set(found);
        Ok(leaf)
    }

    /// The leaf where the key was found last, else where keys about it were.
    #[inline]
    fn nearest(
        &self,
        (hints, key): (&LeafHints, &[u8]),
        hint: LeafHint,
        place: Probe<'_>,
    ) -> Option<PageRead> {
        let about = || self.hinted(hints.of_keys_about(self.tree(), key).get(), place);
        self.hinted(hint, place).or_else(about)
    }

    /// The hinted leaf, if it seems to cover the place: true if the read validates.
    #[inline]
    fn hinted(&self, hint: LeafHint, place: Probe<'_>) -> Option<PageRead> {
        let leaf = hints::begin(hint, self.tree(), PageKind::IndexLeaf)?;
        let covers = KeyNode::new(leaf.racy()).covers(place);
        (covers || mutant("index_hint_fence_unchecked")).then_some(leaf)
    }
}

/// What `read` finds in a leaf that nobody changes meanwhile. None: a descent asks again.
#[inline]
fn believed<R>(
    leaf: &PageRead,
    read: &mut impl FnMut(&PageRead) -> Outcome<R>,
) -> Option<Outcome<R>> {
    let result = read(leaf);
    point("index.near.read");
    (leaf.validate().is_ok() && !matches!(result, Err(Stop::Retry))).then_some(result)
}
