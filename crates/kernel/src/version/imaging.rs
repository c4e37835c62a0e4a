//! Leaves that have older versions while a checkpoint is made: what it must image before its S can let
//! go of them (rules 8.2 and 8.3).
//!
//! A checkpoint needs, of each leaf that it has not imaged yet, the versions that S sees. They are in
//! undo; a leaf whose rows have undo has a twin table. So undo of a commit at or above S may go as soon
//! as the leaves with its rows are imaged, and those are the leaves that had a twin table when S was
//! adopted or got one since. Each instance lists the leaves whose twin it looks after; what came by a
//! split, or back from disk with its twin, is listed for all. An instance whose list is empty has
//! *reached* the time at which it began to look: the least of what all have reached is a floor in the
//! place of S (`txn/imaged.rs`).
//!
//! **Why that is right.** Take a record with a cts at or above S and below the floor, in a leaf that is
//! not imaged. Some instance has made the leaf's twin table, in the latched section of a change that came
//! before the record or wrote it, and has listed the leaf in that section (before it adopted S, with
//! its twins, which are listed when it does). If the list was empty at a time that is above the cts, the
//! leaf had been listed by then: a record's cts is read after it was written, from a clock that never
//! warps. So the leaf was imaged, or it was no more where it was listed: it was split, and then what moved
//! is listed for all before anybody sees the new leaf; or evicted, and then its table is parked. While
//! anything is listed for all, or parked, no floor is raised.
//!
//! Invariants: of two checkpoints that are being made (one has lost its role and does not know yet) only
//! the later one's lists are kept; the other reaches nothing any more. Lists may name frames with other
//! pages by now, or leaves that were imaged: who takes one looks.
//!
//! Words: `checkpoint` is written by who makes a checkpoint, at its begin and end, and read by whoever
//! makes a twin table; the list for all is under its mutex, its length is written there and read by who
//! raises the floor.

use std::collections::VecDeque;

use super::collect::InstanceVersions;
use super::twin::VersionSpace;
use crate::base::Cts;
use crate::buffer::FrameRef;
use crate::sync::{AtomicU64, AtomicUsize, Ordering, PlainMutex as Mutex, mutant};

/// What is listed for all instances.
#[derive(Default)]
pub(super) struct Imaging {
    /// S of the checkpoint that is being made, 0 if there is none.
    checkpoint: AtomicU64,
    listed: Mutex<Vec<FrameRef>>,
    /// Leaves that were listed for all and are not known to be imaged. Written under the mutex.
    left: AtomicUsize,
}

/// One instance's list.
#[derive(Default)]
pub(super) struct Listed {
    checkpoint: Cts,
    leaves: VecDeque<FrameRef>,
}

/// A leaf to be imaged, and where it was listed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ToImage {
    /// In the instance's own list.
    Own(FrameRef),
    /// For all.
    Shared(FrameRef),
}

impl ToImage {
    /// The leaf's frame; it may have another page by now.
    pub fn frame(self) -> FrameRef {
        match self {
            ToImage::Own(frame) | ToImage::Shared(frame) => frame,
        }
    }
}

impl VersionSpace {
    /// A checkpoint of this S begins: leaves are listed from now on.
    pub fn begin_imaging(&self, checkpoint: Cts) {
        let imaging = &self.imaging;
        // Before the list is emptied: who raises an earlier checkpoint's floor reads it last.
        imaging.checkpoint.store(checkpoint.0, Ordering::SeqCst);
        let mut listed = imaging.listed.lock().expect("no holder panics");
        listed.clear();
        imaging.left.store(0, Ordering::SeqCst);
    }

    /// The checkpoint of this S has imaged everything, or came to nothing.
    pub fn end_imaging(&self, checkpoint: Cts) {
        if self.is_imaging(checkpoint) {
            self.begin_imaging(Cts::ZERO);
        }
    }

    /// Whether the checkpoint of this S is the one whose leaves are listed.
    fn is_imaging(&self, checkpoint: Cts) -> bool {
        self.imaging.checkpoint.load(Ordering::SeqCst) == checkpoint.0
    }

    /// Lists a leaf for all that has a twin table from elsewhere. Its frame is held exclusively, or
    /// nobody knows it yet.
    pub(super) fn list_for_all(&self, leaf: FrameRef) {
        let imaging = &self.imaging;
        if imaging.checkpoint.load(Ordering::Relaxed) != 0 && !mutant("checkpoint-forgets-splits") {
            let mut listed = imaging.listed.lock().expect("no holder panics");
            listed.push(leaf);
            imaging.left.fetch_add(1, Ordering::SeqCst);
        }
    }

    /// Whether every leaf that had older versions below what all instances have reached is imaged
    /// by the checkpoint of this S. Asked after reading what they have reached.
    pub fn are_others_imaged(&self, checkpoint: Cts) -> bool {
        // In this order: a leaf that comes back is listed before it is parked no more, and the lists
        // are emptied after another checkpoint has begun.
        !self.has_any_parked()
            && self.imaging.left.load(Ordering::SeqCst) == 0
            && self.is_imaging(checkpoint)
    }
}

impl InstanceVersions {
    /// The instance adopts S: lists the leaves whose twin tables it looks after, those that wait to be
    /// looked after by anybody among them.
    pub fn begin_imaging(&self, checkpoint: Cts) {
        self.take_splits();
        let leaves = self.leaves_with_twins();
        self.listed.replace(Listed { checkpoint, leaves });
    }

    /// Lists a leaf that has got a twin table.
    pub(super) fn list(&self, leaf: FrameRef) {
        let mut listed = self.listed.borrow_mut();
        if listed.checkpoint == Cts::ZERO {
            return;
        }
        if self.space().is_imaging(listed.checkpoint) {
            listed.leaves.push_back(leaf);
        } else {
            *listed = Listed::default();
        }
    }

    /// The next leaf to be imaged by the checkpoint of this S. Whoever cannot image it now gives it back
    /// ([`InstanceVersions::give_back`]); who did, or found that there is nothing to image, says so
    /// ([`InstanceVersions::imaged`]).
    pub fn next_to_image(&self, checkpoint: Cts) -> Option<ToImage> {
        let mut own = self.listed.borrow_mut();
        if own.checkpoint != checkpoint || !self.space().is_imaging(checkpoint) {
            return None;
        }
        if let Some(leaf) = own.leaves.pop_front() {
            return Some(ToImage::Own(leaf));
        }
        let imaging = &self.space().imaging;
        if imaging.left.load(Ordering::Relaxed) == 0 {
            return None;
        }
        imaging.listed.lock().expect("no holder panics").pop().map(ToImage::Shared)
    }

    /// The leaf could not be imaged now.
    pub fn give_back(&self, checkpoint: Cts, leaf: ToImage) {
        if !self.space().is_imaging(checkpoint) {
            return;
        }
        match leaf {
            ToImage::Own(leaf) => self.listed.borrow_mut().leaves.push_back(leaf),
            ToImage::Shared(leaf) => {
                let listed = &self.space().imaging.listed;
                listed.lock().expect("no holder panics").push(leaf);
            }
        }
    }

    /// The leaf is imaged.
    pub fn imaged(&self, checkpoint: Cts, leaf: ToImage) {
        let imaging = &self.space().imaging;
        if let ToImage::Shared(_) = leaf {
            // Under the mutex: another checkpoint may begin.
            let _listed = imaging.listed.lock().expect("no holder panics");
            if self.space().is_imaging(checkpoint) {
                imaging.left.fetch_sub(1, Ordering::SeqCst);
            }
        }
    }

    /// Whether the checkpoint of this S lists leaves here, and none is left in the own list.
    pub fn has_imaged_all(&self, checkpoint: Cts) -> bool {
        let own = self.listed.borrow();
        own.checkpoint == checkpoint
            && (own.leaves.is_empty() || mutant("checkpoint-reaches-unimaged"))
            && self.space().is_imaging(checkpoint)
    }
}
