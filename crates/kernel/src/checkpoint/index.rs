//! The indexes of a checkpoint: each is copied in pieces (`pieces.rs`), by all instances.
//!
//! A piece is walked from its first key to its last. Of a leaf that begins before the piece, or reaches beyond it (it was
//! merged with a neighbour since), only the keys within are taken.
//!
//! Invariants: those of `tree.rs`. Entries that the checkpoint needs stay until the index says that its last leaf was
//! copied (version/collect/postponed.rs), so it may take as long as it likes. Nothing is latched while anything is waited for.

use super::image::{Leaf, index_leaf};
use super::pieces::{Piece, Pieces};
use super::table::ShareImager;
use super::tree::ImagedTree;
use crate::base::{Place, Result};
use crate::page::keynode::UpperFence;
use crate::runtime::InstanceState;
use crate::sync::mutant;
use crate::tree::descent::LeavePlaces;
use crate::tree::index::IndexTree;

/// Keys from the first to below the second, or to the end.
type Keys = (Vec<u8>, Option<Vec<u8>>);

impl<S: InstanceState> ShareImager<'_, '_, '_, '_, S> {
    /// Copies pieces of an index, as it is, until none is left to be taken. Answers its image if the last one was copied
    /// here. `before`: the tree in the published checkpoint.
    pub(super) fn image_index(
        &mut self,
        tree: &IndexTree,
        before: Option<&ImagedTree>,
    ) -> Result<Option<ImagedTree>> {
        let checkpoint = self.share.snapshot.timestamp;
        if mutant("checkpoint-index-counts-early") {
            tree.set_copied_as_of(checkpoint);
        }
        let pieces = self.share.common.index(tree.tree()).expect("it is in the checkpoint");
        while let Some((from, until)) = self.claim_piece(tree, pieces)? {
            let piece = self.copy_piece(tree, &from, until.as_deref())?;
            if let Some(all) = pieces.put(from, piece) {
                tree.set_copied_as_of(checkpoint);
                let leaves = all.leaves.into_iter();
                return self.imager.finish(tree.tree(), leaves, (all.all_held, before)).map(Some);
            }
        }
        Ok(None)
    }

    /// The next piece; none if all are taken.
    fn claim_piece(&mut self, tree: &IndexTree, pieces: &Pieces) -> Result<Option<Keys>> {
        while let Some(from) = pieces.next() {
            self.wait_for_pace()?;
            let leave = |how: LeavePlaces<'_>| tree.leave_places(&from, how);
            let until = self.imager.leave_places(tree.pool(), leave)?;
            if pieces.claim(&from, until.as_deref()) {
                return Ok(Some((from, until)));
            }
        }
        Ok(None)
    }

    fn copy_piece(&mut self, tree: &IndexTree, from: &[u8], until: Option<&[u8]>) -> Result<Piece> {
        let moves = self.imager.moves.clone();
        let keep = |place: Place| moves.keep(place);
        let (mut key, mut upper) = (from.to_vec(), Vec::new());
        let mut piece = Piece { leaves: Vec::new(), all_held: true };
        loop {
            self.wait_for_pace()?;
            let fits = |upper: Option<&[u8]>| {
                until.is_none_or(|until| upper.is_some_and(|upper| upper <= until))
            };
            let (leaf, fence) = self.imager.until_done(tree.pool(), |page| {
                let keep_whole = |lower: &[u8], upper: Option<&[u8]>, at: Place| {
                    Ok(lower == key && fits(upper) && keep(at)?)
                };
                let place = tree.leaf_place(&key, &keep_whole)?;
                if let Some(on_disk) = place.on_disk {
                    let fence =
                        if place.upper.is_some() { UpperFence::Some } else { UpperFence::None };
                    upper = place.upper.unwrap_or_default();
                    return Ok((Leaf::Clean(on_disk), fence));
                }
                index_leaf(tree, ((&key, until), &keep), page, &mut upper)
            })?;
            let (place, is_held) = self.imager.take(leaf)?;
            self.passed += 1;
            piece.all_held &= is_held;
            piece.leaves.push((key.clone(), place));
            if fence == UpperFence::None || until.is_some_and(|until| upper.as_slice() >= until) {
                return Ok(piece);
            }
            std::mem::swap(&mut key, &mut upper);
        }
    }
}
