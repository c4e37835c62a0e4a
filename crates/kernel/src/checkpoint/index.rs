//! The indexes of a checkpoint: each is walked from its first key to its last, by one instance.
//!
//! Invariants: those of `tree.rs`. Entries that the checkpoint needs stay until the index says that its last leaf was
//! copied (version/postponed.rs), so it may take as long as it likes. Nothing is latched while anything is waited for.

use super::image::{Leaf, index_leaf};
use super::table::ShareImager;
use super::tree::ImagedTree;
use crate::base::{Place, Result};
use crate::page::keynode::UpperFence;
use crate::runtime::InstanceState;
use crate::sync::mutant;
use crate::tree::index::IndexTree;

impl<S: InstanceState> ShareImager<'_, '_, '_, '_, S> {
    /// Images an index as it is. `before`: the tree in the published checkpoint.
    pub(super) fn image_index(
        &mut self,
        tree: &IndexTree,
        before: Option<&ImagedTree>,
    ) -> Result<ImagedTree> {
        let checkpoint = self.share.snapshot.timestamp;
        if mutant("checkpoint-index-counts-early") {
            tree.set_copied_as_of(checkpoint);
        }
        let moves = self.imager.moves.clone();
        let keep = |place: Place| moves.keep(place);
        let (mut upper, mut key) = (Vec::new(), Vec::new());
        let (mut leaves, mut all_held) = (Vec::new(), true);
        let mut nodes_done = Some(Vec::new());
        loop {
            self.wait_for_pace()?;
            let imager = &mut *self.imager;
            if nodes_done.as_ref().is_some_and(|end| *end <= key) {
                nodes_done =
                    imager.leave_places(tree.pool(), |how| tree.leave_places(&key, how))?;
            }
            let (leaf, fence) = imager.until_done(tree.pool(), |page| {
                let keep_whole =
                    |lower: &[u8], _: Option<&[u8]>, at: Place| Ok(lower == key && keep(at)?);
                let place = tree.leaf_place(&key, &keep_whole)?;
                if let Some(on_disk) = place.on_disk {
                    let fence =
                        if place.upper.is_some() { UpperFence::Some } else { UpperFence::None };
                    upper = place.upper.unwrap_or_default();
                    return Ok((Leaf::Clean(on_disk), fence));
                }
                index_leaf(tree, (&key, &keep), page, &mut upper)
            })?;
            let (place, is_held) = imager.take(leaf)?;
            self.passed += 1;
            all_held &= is_held;
            leaves.push((key.clone(), place));
            if fence == UpperFence::None {
                tree.set_copied_as_of(checkpoint);
                return self.imager.finish(tree.tree(), leaves.into_iter(), (all_held, before));
            }
            std::mem::swap(&mut key, &mut upper);
        }
    }
}
