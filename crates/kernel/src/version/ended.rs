//! The mark below which snapshots are ended so that their undo may go (rule 6.9).
//!
//! One timestamp for the whole database, which only grows: every snapshot of an instance below it is
//! ended, whatever its transaction is doing. (Not one mark per snapshot: undo of a commit is held
//! back by all snapshots that are not above it, so the oldest go together.)
//!
//! **A reader never believes what a reclaimed record should have undone.** Who ends raises the mark,
//! fences, and reclaims after that; any other collector reads the mark (acquire) before it goes
//! beyond a floor below it. A reader copies (page, chain, index entries, long values), fences, and
//! looks at the mark. If any word of its copy was stored by a collection that a mark above its
//! snapshot had allowed, that store comes after the mark's, and the reader sees the mark. If it does
//! not see it, its copy is from before. A change asks likewise before it is told to be done, and is
//! rolled back: whether "nothing newer than my snapshot" is true needs that undo, too.
//!
//! Who writes: any instance's collection; who reads: every operation of a transaction, once, at its
//! end. So the word sits in every processor's cache but for a moment after it moved.
//! `loom_an_ended_snapshot` runs this.

use crate::base::Cts;
use crate::sync::{AtomicU64, Ordering, fence, mutant};

/// Below what timestamp snapshots are ended. On a line of its own.
#[repr(align(128))]
pub struct EndedMark {
    below: AtomicU64,
}

impl EndedMark {
    /// No snapshot is ended.
    pub fn new() -> EndedMark {
        EndedMark { below: AtomicU64::new(0) }
    }

    /// Ends all snapshots below `timestamp`. What they alone needed may be reclaimed after this.
    pub fn end_below(&self, timestamp: Cts) {
        // Release: partner is the load in `below`.
        self.below.fetch_max(timestamp.0, Ordering::AcqRel);
        // Orders the mark before all that is reclaimed for it, however that is stored; partner: the
        // fence in `has_ended`.
        fence(Ordering::SeqCst);
    }

    /// Snapshots below are ended; for collectors.
    pub fn below(&self) -> Cts {
        Cts(self.below.load(Ordering::Acquire))
    }

    /// Whether what was copied for `snapshot` is not to be believed. Asked after the copy.
    #[inline]
    pub fn has_ended(&self, snapshot: Cts) -> bool {
        // Partner: the fence in `end_below`.
        fence(Ordering::Acquire);
        snapshot.0 < self.below.load(Ordering::Relaxed) && !mutant("ended-mark-not-looked-at")
    }
}

impl Default for EndedMark {
    fn default() -> EndedMark {
        EndedMark::new()
    }
}

/// A reader follows a row's chain while its snapshot is ended and the record reclaimed, by who
/// ended it or by another who saw the mark.
#[cfg(all(test, loom))]
mod loom_tests {
    use super::super::space::{UndoRef, UndoSpace};
    use super::*;
    use crate::base::{InstanceId, SlotId};
    use loom::thread;
    use std::sync::Arc;

    /// The reader's; the page's value is of a commit above it, and its record has the older one.
    const SNAPSHOT: Cts = Cts(5);
    const PAGE: u64 = 77;
    const OLDER: u64 = 55;

    struct World {
        space: UndoSpace,
        ended: EndedMark,
        at: UndoRef,
    }

    impl World {
        fn new() -> Arc<World> {
            let space = UndoSpace::new(1);
            let arena = Arc::clone(space.arena(InstanceId(0), SlotId(0)));
            let chunk = space.allocate(InstanceId(0));
            arena.set_chunk(0, 0, chunk);
            // SAFETY: `space` outlives the words.
            let words = unsafe { chunk.words() };
            words[2].store(OLDER, Ordering::Relaxed);
            let at = UndoRef::new(InstanceId(0), SlotId(0), 2);
            Arc::new(World { space, ended: EndedMark::new(), at })
        }

        /// What the snapshot sees, if it is told.
        fn read(&self) -> Option<u64> {
            let copied = self.space.copy(self.at, |words| words[0].load(Ordering::Relaxed));
            // A reclaimed record ends the chain: the page's version is everybody's.
            let found = copied.unwrap_or(PAGE);
            (!self.ended.has_ended(SNAPSHOT)).then_some(found)
        }

        fn reclaim(&self) {
            self.space.arena(InstanceId(0), SlotId(0)).set_reclaimed(4);
        }
    }

    #[test]
    fn loom_an_ended_snapshot_is_told_nothing_wrong() {
        loom::model(|| {
            let world = World::new();
            let reader = {
                let world = world.clone();
                thread::spawn(move || world.read())
            };
            world.ended.end_below(Cts(6));
            world.reclaim();
            let told = reader.join().expect("no panic");
            assert!(told.is_none_or(|value| value == OLDER), "{told:?}");
        });
    }

    #[test]
    fn loom_an_ended_snapshot_whose_undo_another_instance_reclaims() {
        loom::model(|| {
            let world = World::new();
            let threads: [thread::JoinHandle<Option<u64>>; 2] = [
                {
                    let world = world.clone();
                    thread::spawn(move || world.read())
                },
                {
                    let world = world.clone();
                    thread::spawn(move || {
                        if world.ended.below() > SNAPSHOT {
                            world.reclaim();
                        }
                        None
                    })
                },
            ];
            world.ended.end_below(Cts(6));
            for thread in threads {
                let told = thread.join().expect("no panic");
                assert!(told.is_none_or(|value| value == OLDER), "{told:?}");
            }
        });
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn the_mark_only_rises_and_ends_what_is_below_it() {
        let ended = EndedMark::new();
        assert!(!ended.has_ended(Cts(1)));
        ended.end_below(Cts(10));
        ended.end_below(Cts(7));
        assert_eq!(ended.below(), Cts(10));
        assert!(ended.has_ended(Cts(9)) && !ended.has_ended(Cts(10)));
    }
}
