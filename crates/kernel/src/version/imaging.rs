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
//! A frame says that all rows of its leaf are imaged: else every change of a leaf that has no twin at the
//! moment, some twenty a transaction, would be looked up. Who moves rows into a leaf takes that back (merges;
//! splits move them to frames that say nothing).
//!
//! Invariants: of two checkpoints that are being made (one has lost its role and does not know yet) only
//! the later one's lists are kept; the other reaches nothing any more. Lists may name frames with other
//! pages by now, or leaves that were imaged: who takes one looks.
//!
//! Words: `checkpoint` is written by who makes a checkpoint, at its begin and end, under the list's mutex, and read by whoever
//! makes a twin table or removes an index entry (`collect/postponed.rs`); `is_hurried` is reset with it, set by who postpones
//! many, and read before each paced leaf; the list for all is under its mutex, its length is written there and read by who
//! raises the floor.

use std::collections::VecDeque;

use super::collect::InstanceVersions;
use super::twin::VersionSpace;
use crate::base::Cts;
use crate::buffer::FrameRef;
use crate::sync::{AtomicBool, AtomicU64, AtomicUsize, Mutex, Ordering, mutant};

/// What is listed for all instances. Generic for its model.
pub(super) struct Imaging<L = FrameRef> {
    /// S of the checkpoint that is being made, 0 if there is none.
    checkpoint: AtomicU64,
    listed: Mutex<Vec<L>>,
    /// Leaves that were listed for all and are not known to be imaged. Written under the mutex.
    left: AtomicUsize,
    /// Whether the checkpoint is to hurry, because of what is postponed until it has copied indexes.
    is_hurried: AtomicBool,
}

impl<L> Default for Imaging<L> {
    fn default() -> Self {
        Imaging {
            checkpoint: AtomicU64::new(0),
            listed: Mutex::new(Vec::new()),
            left: AtomicUsize::new(0),
            is_hurried: AtomicBool::new(false),
        }
    }
}

impl<L> Imaging<L> {
    /// A checkpoint begins; not if a later one has begun, which has taken its role over.
    pub(super) fn begin(&self, checkpoint: Cts) {
        let mut listed = self.listed.lock().expect("no holder panics");
        if self.checkpoint.load(Ordering::Relaxed) < checkpoint.0 {
            self.set(checkpoint, &mut listed);
        }
    }

    /// The checkpoint has ended; nothing happens if another has begun.
    pub(super) fn end(&self, checkpoint: Cts) {
        let mut listed = self.listed.lock().expect("no holder panics");
        if self.is_of(checkpoint) {
            self.set(Cts::ZERO, &mut listed);
        }
    }

    /// `listed` is the list for all, under its mutex.
    fn set(&self, checkpoint: Cts, listed: &mut Vec<L>) {
        // Before the list is emptied: who raises an earlier checkpoint's floor reads it last.
        self.checkpoint.store(checkpoint.0, Ordering::SeqCst);
        listed.clear();
        self.is_hurried.store(false, Ordering::Relaxed);
        self.left.store(0, Ordering::SeqCst);
    }

    /// Whether the checkpoint of this S is the one whose leaves are listed.
    fn is_of(&self, checkpoint: Cts) -> bool {
        self.checkpoint.load(Ordering::SeqCst) == checkpoint.0
    }

    /// S of the checkpoint that is being made.
    pub(super) fn checkpoint(&self) -> Option<Cts> {
        match self.checkpoint.load(Ordering::Acquire) {
            0 => None,
            checkpoint => Some(Cts(checkpoint)),
        }
    }

    fn list(&self, leaf: L) {
        if self.checkpoint.load(Ordering::Relaxed) != 0 && !mutant("checkpoint-forgets-splits") {
            let mut listed = self.listed.lock().expect("no holder panics");
            listed.push(leaf);
            self.left.fetch_add(1, Ordering::SeqCst);
        }
    }

    fn next(&self, checkpoint: Cts) -> Option<L> {
        if self.left.load(Ordering::Relaxed) == 0 {
            return None;
        }
        // Under the mutex, here and below: another checkpoint may begin.
        let mut listed = self.listed.lock().expect("no holder panics");
        if self.is_of(checkpoint) { listed.pop() } else { None }
    }

    fn give_back(&self, checkpoint: Cts, leaf: L) {
        let mut listed = self.listed.lock().expect("no holder panics");
        if self.is_of(checkpoint) {
            listed.push(leaf);
        }
    }

    fn imaged(&self, checkpoint: Cts) {
        let _listed = self.listed.lock().expect("no holder panics");
        if self.is_of(checkpoint) {
            self.left.fetch_sub(1, Ordering::SeqCst);
        }
    }

    /// Whether nothing is listed for all that is not imaged, and nothing parked. `parked` answers whether
    /// anything is, and how often anything was.
    fn is_done(&self, checkpoint: Cts, parked: impl Fn() -> (bool, u64)) -> bool {
        // In this order: a leaf that comes back is listed before it is parked no more, and the lists
        // are emptied after another checkpoint has begun. A leaf that leaves while this looks is parked
        // before whoever it was listed for finds it gone.
        let (is_any_parked, times) = parked();
        !is_any_parked
            && self.left.load(Ordering::SeqCst) == 0
            && (parked() == (false, times) || mutant("checkpoint-looks-once-for-parked"))
            && self.is_of(checkpoint)
    }
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
        self.imaging.begin(checkpoint);
    }

    /// The checkpoint of this S has imaged everything, or came to nothing.
    pub fn end_imaging(&self, checkpoint: Cts) {
        self.imaging.end(checkpoint);
    }

    /// The checkpoint that is being made is to go as fast as it can.
    pub(super) fn hurry_imaging(&self) {
        if !self.is_imaging_hurried() {
            self.imaging.is_hurried.store(true, Ordering::Relaxed);
        }
    }

    /// Whether the checkpoint that is being made is to go as fast as it can, for entries are postponed until it
    /// has copied their indexes.
    pub fn is_imaging_hurried(&self) -> bool {
        self.imaging.is_hurried.load(Ordering::Relaxed)
    }

    /// Lists a leaf for all that has a twin table from elsewhere. Its frame is held exclusively.
    pub(super) fn list_for_all(&self, leaf: FrameRef) {
        self.imaging.list(leaf);
    }

    /// Whether every leaf that had older versions below what all instances have reached is imaged
    /// by the checkpoint of this S. Asked after reading what they have reached.
    pub fn are_others_imaged(&self, checkpoint: Cts) -> bool {
        self.imaging.is_done(checkpoint, || self.parked_now())
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

    /// Lists a leaf that has got a twin table, unless it is known to be imaged. Its frame is held
    /// exclusively, or it is one of those that wait to be looked after by anybody.
    pub(super) fn list(&self, leaf: FrameRef) {
        let mut listed = self.listed.borrow_mut();
        if listed.checkpoint == Cts::ZERO {
            return;
        }
        if self.space().imaging.is_of(listed.checkpoint) {
            if leaf.imaged_as_of() != listed.checkpoint {
                listed.leaves.push_back(leaf);
            }
        } else {
            *listed = Listed::default();
        }
    }

    /// The next leaf to be imaged by the checkpoint of this S. Whoever cannot image it now gives it back
    /// ([`InstanceVersions::give_back`]); who did, or found that there is nothing to image, says so
    /// ([`InstanceVersions::imaged`]).
    pub fn next_to_image(&self, checkpoint: Cts) -> Option<ToImage> {
        let mut own = self.listed.borrow_mut();
        if own.checkpoint != checkpoint || !self.space().imaging.is_of(checkpoint) {
            return None;
        }
        if let Some(leaf) = own.leaves.pop_front() {
            return Some(ToImage::Own(leaf));
        }
        self.space().imaging.next(checkpoint).map(ToImage::Shared)
    }

    /// The leaf could not be imaged now.
    pub fn give_back(&self, checkpoint: Cts, leaf: ToImage) {
        if !self.space().imaging.is_of(checkpoint) {
            return;
        }
        match leaf {
            ToImage::Own(leaf) => self.listed.borrow_mut().leaves.push_back(leaf),
            ToImage::Shared(leaf) => self.space().imaging.give_back(checkpoint, leaf),
        }
    }

    /// The leaf is imaged.
    pub fn imaged(&self, checkpoint: Cts, leaf: ToImage) {
        if let ToImage::Shared(_) = leaf {
            self.space().imaging.imaged(checkpoint);
        }
    }

    /// Whether the checkpoint of this S lists leaves here, and none is left in the own list.
    pub fn has_imaged_all(&self, checkpoint: Cts) -> bool {
        let own = self.listed.borrow();
        own.checkpoint == checkpoint
            && own.leaves.is_empty()
            && self.space().imaging.is_of(checkpoint)
    }
}

#[cfg(all(test, loom))]
mod loom_imaging {
    //! `RUSTFLAGS="--cfg loom" cargo test -p atoll-kernel --lib loom_imaging`
    //!
    //! One leaf has older versions; `imaged` is set when it is imaged. Who says that undo may go although it
    //! is not fails the model.

    use super::*;
    use loom::sync::Arc;
    use loom::thread;

    const S: Cts = Cts(5);

    struct World {
        imaging: Imaging<u8>,
        parked: AtomicUsize,
        parkings: AtomicU64,
        imaged: AtomicBool,
        /// What the instance that listed the leaf has reached.
        reached: AtomicU64,
    }

    impl World {
        fn new(parked: usize) -> Arc<World> {
            let world = World {
                imaging: Imaging::default(),
                parked: AtomicUsize::new(parked),
                parkings: AtomicU64::new(parked as u64),
                imaged: AtomicBool::new(false),
                reached: AtomicU64::new(0),
            };
            world.imaging.begin(S);
            Arc::new(world)
        }

        fn image_next(&self) {
            if self.imaging.next(S).is_some() {
                self.imaged.store(true, Ordering::SeqCst);
                self.imaging.imaged(S);
            }
        }

        fn parked(&self) -> (bool, u64) {
            // As `Parked` writes them, the other way round.
            let is_any = self.parked.load(Ordering::Acquire) != 0;
            (is_any, self.parkings.load(Ordering::SeqCst))
        }

        fn may_let_go(&self) -> bool {
            let reached = self.reached.load(Ordering::Acquire) > 0;
            reached && self.imaging.is_done(S, || self.parked())
        }

        fn look(&self) {
            if self.may_let_go() {
                assert!(self.imaged.load(Ordering::SeqCst), "undo goes that an image needs");
            }
        }
    }

    /// A leaf that one instance has listed is split before that instance images it: the new leaf is
    /// listed for all before the instance finds the rest of the old one alone.
    #[test]
    fn loom_imaging_of_a_split() {
        loom::model(|| {
            let world = World::new(0);
            let split = {
                let world = world.clone();
                thread::spawn(move || {
                    world.imaging.list(1);
                    // The old leaf's latch is let go of, its lister finds it, and has imaged all.
                    world.reached.store(1, Ordering::Release);
                    world.image_next();
                })
            };
            world.look();
            split.join().unwrap();
            world.look();
        });
    }

    /// A leaf comes back from disk with its twin table.
    #[test]
    fn loom_imaging_of_a_leaf_that_comes_back() {
        loom::model(|| {
            let world = World::new(1);
            world.reached.store(1, Ordering::Release);
            let load = {
                let world = world.clone();
                thread::spawn(move || {
                    world.imaging.list(1);
                    world.parked.store(0, Ordering::Release);
                    world.image_next();
                })
            };
            world.look();
            load.join().unwrap();
            world.look();
        });
    }

    /// A leaf that is listed for all leaves memory before it is imaged: who finds it gone says so.
    #[test]
    fn loom_imaging_of_a_leaf_that_leaves() {
        loom::model(|| {
            let world = World::new(0);
            world.reached.store(1, Ordering::Release);
            world.imaging.list(1);
            let evict = {
                let world = world.clone();
                thread::spawn(move || {
                    world.parkings.fetch_add(1, Ordering::SeqCst);
                    world.parked.store(1, Ordering::Release);
                    // Its frame is another's.
                    if world.imaging.next(S).is_some() {
                        world.imaging.imaged(S);
                    }
                })
            };
            world.look();
            evict.join().unwrap();
            world.look();
        });
    }

    /// Another checkpoint begins: the earlier one lets go of nothing by its emptied list.
    #[test]
    fn loom_imaging_of_another_checkpoint() {
        loom::model(|| {
            let world = World::new(0);
            world.reached.store(1, Ordering::Release);
            world.imaging.list(1);
            let other = {
                let world = world.clone();
                thread::spawn(move || world.imaging.begin(Cts(9)))
            };
            world.look();
            other.join().unwrap();
            world.look();
        });
    }
}
