//! Floors and the horizon (rule 6.8): below what timestamp no snapshot looks.
//!
//! Each instance always publishes a *floor*: the smaller of its oldest snapshot and its clock at
//! the top of its loop. Its later snapshots are read from the same clock later, so they are not
//! below it. Going to sleep it publishes only its oldest snapshot, or [`ASLEEP`]. Waking, it
//! publishes a floor, fences, and only then takes snapshots. Outside threads do the same.
//!
//! **Why a collector is right**: it reads its clock first, fences, then reads the floors. If it
//! misses the floor of one that wakes, its fence came before that one's fence, so its clock was
//! read before that one's first snapshot: the horizon, which is not above that clock, is not above
//! the snapshot. A floor that it does not miss is itself a bound. `loom_horizon_wake` runs this.
//!
//! Who writes: each floor by its instance (or outside thread) only; any collector reads. A floor
//! that is too low costs memory, never correctness.
//!
//! A checkpoint lets go of its S table by table: which ones it has *passed*, stands beside its floor,
//! written by its tasks when they have copied the last leaf, under the mutex that gives that to
//! collectors (`version/collect/passed.rs`).

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::sync::Arc;

use rustc_hash::FxHashSet;

use crate::base::{Cts, InstanceId, TreeId};
use crate::sync::{AtomicU64, AtomicUsize, Mutex, Ordering, fence, mutant, point};
use crate::version::EndedMark;

/// The floor of one who takes no snapshots until it has published another.
const ASLEEP: u64 = u64::MAX;

/// One floor, on a line of its own.
#[repr(align(128))]
pub(super) struct Floor {
    // Owner writes (Release), collectors read (Acquire after a fence).
    value: AtomicU64,
}

impl Floor {
    fn asleep() -> Floor {
        Floor { value: AtomicU64::new(ASLEEP) }
    }

    /// The owner, awake, holds no snapshot below `floor` and will take none.
    pub fn publish(&self, floor: Cts) {
        self.value.store(floor.0, Ordering::Release);
    }

    /// The owner wakes: publishes a bound of the snapshots that it will take, and fences. Only
    /// after this may it take a snapshot.
    pub fn wake(&self, floor: Cts) {
        if !mutant("txn-floor-not-published-on-wake") {
            self.value.store(floor.0, Ordering::Release);
        }
        point("txn-floor-on-wake");
        // Partner: the fence in `Floors::horizon`.
        fence(Ordering::SeqCst);
    }

    /// The owner takes no snapshot until it wakes; `oldest` is the oldest that it still holds.
    pub fn sleep(&self, oldest: Option<Cts>) {
        self.value.store(oldest.map_or(ASLEEP, |oldest| oldest.0), Ordering::Release);
    }

    /// What was published last.
    pub fn published(&self) -> Cts {
        Cts(self.value.load(Ordering::Acquire))
    }

    /// Whether the owner must call [`Floor::wake`] before its next snapshot.
    pub fn is_asleep(&self) -> bool {
        self.value.load(Ordering::Relaxed) == ASLEEP
    }
}

/// A registered floor of no instance.
struct Outsider {
    floor: Arc<Floor>,
    /// Of a checkpoint, the tables that it will not read as of its S any more.
    passed: Option<Arc<FxHashSet<TreeId>>>,
}

/// Whose floor it is.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Outside {
    /// A thread's, which reads what it likes until it lets go.
    Reader,
    /// A checkpoint's.
    Checkpoint,
}

/// The floors of all instances and of the outside threads that registered.
pub(super) struct Floors {
    instances: Box<[Floor]>,
    // Registered and dropped rarely, under the mutex; collectors walk it.
    outside: Mutex<Vec<Outsider>>,
    // How many these are: stored under the mutex (Release), read by collectors (Acquire after a
    // fence), who take the mutex only if there are any. A collector that misses one misses it as it
    // misses a floor: the store is before the fence of the owner's `wake`.
    outsiders: AtomicUsize,
    /// Instances' snapshots below are ended (rule 6.9).
    pub ended: EndedMark,
}

impl Floors {
    /// All asleep.
    pub fn new(instances: usize) -> Floors {
        Floors {
            instances: (0..instances).map(|_| Floor::asleep()).collect(),
            outside: Mutex::new(Vec::new()),
            outsiders: AtomicUsize::new(0),
            ended: EndedMark::new(),
        }
    }

    /// An instance's floor; it alone may write it.
    pub fn of(&self, instance: InstanceId) -> &Floor {
        &self.instances[instance.0 as usize]
    }

    /// A floor for a thread that is no instance (rule 2.9), or for a checkpoint's S.
    pub fn register_outside(&self, whose: Outside) -> Arc<Floor> {
        let floor = Arc::new(Floor::asleep());
        let passed = (whose == Outside::Checkpoint).then(Arc::default);
        let mut outside = self.outside.lock().expect("no panic while it is held");
        outside.push(Outsider { floor: Arc::clone(&floor), passed });
        if !mutant("txn-outsiders-not-counted") {
            self.outsiders.store(outside.len(), Ordering::Release);
        }
        drop(outside);
        floor
    }

    /// Removes an outside thread's floor.
    pub fn forget_outside(&self, floor: &Arc<Floor>) {
        let mut outside = self.outside.lock().expect("no panic while it is held");
        outside.retain(|other| !Arc::ptr_eq(&other.floor, floor));
        self.outsiders.store(outside.len(), Ordering::Release);
    }

    /// The checkpoint with this floor reads the table and its indexes no more.
    pub fn pass(&self, floor: &Arc<Floor>, table: TreeId) {
        let mut outside = self.outside.lock().expect("no panic while it is held");
        let own = outside.iter_mut().find(|other| Arc::ptr_eq(&other.floor, floor));
        if let Some(passed) = own.and_then(|own| own.passed.as_mut()) {
            Arc::make_mut(passed).insert(table);
        }
    }

    /// The floor of the checkpoint that is being made, if it has passed any table, and which. None
    /// while there are two: one that has lost its role reads on until it finds out.
    pub fn passed(&self) -> Option<(Arc<Floor>, Arc<FxHashSet<TreeId>>)> {
        if self.outsiders.load(Ordering::Acquire) == 0 {
            return None;
        }
        let outside = self.outside.lock().expect("no panic while it is held");
        let passed = |other: &Outsider| Some((other.floor.clone(), other.passed.clone()?));
        let mut checkpoints = outside.iter().filter_map(passed);
        let only = checkpoints.next().filter(|_| checkpoints.next().is_none());
        only.filter(|(_, tables)| !tables.is_empty())
    }

    /// The horizon: no snapshot, present or future, is below it but those that are ended.
    /// `read_clock` is called first.
    pub fn horizon(&self, read_clock: impl FnOnce() -> Cts) -> Cts {
        self.horizon_but_for(None, read_clock)
    }

    /// The horizon as it would be without this outside floor.
    pub fn horizon_but_for(
        &self,
        floor: Option<&Arc<Floor>>,
        read_clock: impl FnOnce() -> Cts,
    ) -> Cts {
        let mut horizon =
            if mutant("txn-collector-reads-clock-last") { Cts::MAX } else { read_clock() };
        point("txn-collector-clock-read");
        // Partner: the fence in `Floor::wake`.
        fence(Ordering::SeqCst);
        let read = |floor: &Floor| match floor.value.load(Ordering::Acquire) {
            ASLEEP => Cts::MAX,
            floor => Cts(floor),
        };
        // What an ended snapshot hides in its instance's floor is not below the mark.
        let ended = self.ended.below();
        let instances = self.instances.iter().map(|floor| read(floor).max(ended));
        horizon = instances.fold(horizon, Cts::min);
        if self.outsiders.load(Ordering::Acquire) == 0 {
            return horizon;
        }
        // A checkpoint's S is never ended, nor is what an outside thread reads.
        let outside = self.outside.lock().expect("no panic while it is held");
        let is_it = |other: &Outsider| floor.is_some_and(|floor| Arc::ptr_eq(floor, &other.floor));
        let others = outside.iter().filter(|other| !is_it(other));
        others.map(|other| read(&other.floor)).fold(horizon, Cts::min)
    }
}

/// Names one snapshot in its instance's [`Snapshots`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct SnapshotTicket(u64);

/// The snapshots that one instance's transactions hold. Not shared.
///
/// Invariant: timestamps never decrease from front to back, because the instance reads its one
/// clock; so the oldest live one is at the front once dead ones are dropped.
#[derive(Default)]
pub(super) struct Snapshots {
    // (timestamp, still held); tickets count from `first`.
    held: RefCell<VecDeque<(Cts, bool)>>,
    first: Cell<u64>,
}

impl Snapshots {
    /// Registers a snapshot that was just read from the clock.
    pub fn take(&self, timestamp: Cts) -> SnapshotTicket {
        let mut held = self.held.borrow_mut();
        assert!(
            held.back().is_none_or(|(last, _)| *last <= timestamp),
            "an instance's clock never goes back"
        );
        held.push_back((timestamp, true));
        SnapshotTicket(self.first.get() + held.len() as u64 - 1)
    }

    /// Forgets the snapshots below `ended`: they hold nothing back any more.
    pub fn forget_ended(&self, ended: Cts) {
        let mut held = self.held.borrow_mut();
        while held.front().is_some_and(|(timestamp, live)| !live || *timestamp < ended) {
            held.pop_front();
            self.first.set(self.first.get() + 1);
        }
    }

    /// The snapshot is not used any more.
    pub fn release(&self, ticket: SnapshotTicket) {
        let Some(index) = ticket.0.checked_sub(self.first.get()) else {
            // It was ended, and forgotten.
            return;
        };
        let mut held = self.held.borrow_mut();
        held[index as usize].1 = false;
        while held.front().is_some_and(|(_, live)| !live) {
            held.pop_front();
            self.first.set(self.first.get() + 1);
        }
    }

    /// The oldest that is still held.
    pub fn oldest(&self) -> Option<Cts> {
        self.held.borrow().front().map(|(timestamp, _)| *timestamp)
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_live_snapshot_is_the_front() {
        let snapshots = Snapshots::default();
        let first = snapshots.take(Cts(1));
        let second = snapshots.take(Cts(2));
        let third = snapshots.take(Cts(2));
        snapshots.release(second);
        assert_eq!(snapshots.oldest(), Some(Cts(1)));
        snapshots.release(first);
        assert_eq!(snapshots.oldest(), Some(Cts(2)));
        snapshots.release(third);
        assert_eq!(snapshots.oldest(), None);
        let fourth = snapshots.take(Cts(9));
        assert_eq!(snapshots.oldest(), Some(Cts(9)));
        snapshots.release(fourth);
    }

    #[test]
    fn ended_snapshots_are_forgotten_and_may_be_released_all_the_same() {
        let snapshots = Snapshots::default();
        let [old, other, young] = [1, 3, 5].map(|at| snapshots.take(Cts(at)));
        snapshots.forget_ended(Cts(5));
        assert_eq!(snapshots.oldest(), Some(Cts(5)));
        snapshots.release(old);
        assert_eq!(snapshots.oldest(), Some(Cts(5)));
        snapshots.release(young);
        assert_eq!(snapshots.oldest(), None);
        let next = snapshots.take(Cts(7));
        snapshots.release(other);
        assert_eq!(snapshots.oldest(), Some(Cts(7)));
        snapshots.release(next);
    }

    #[test]
    fn an_ended_snapshot_holds_nothing_back_unless_it_is_an_outside_ones() {
        let floors = Floors::new(2);
        floors.of(InstanceId(0)).wake(Cts(10));
        floors.of(InstanceId(1)).wake(Cts(60));
        assert_eq!(floors.horizon(|| Cts(90)), Cts(10));
        floors.ended.end_below(Cts(40));
        assert_eq!(floors.horizon(|| Cts(90)), Cts(40), "others of the instance may be there");
        let outside = floors.register_outside(Outside::Reader);
        outside.wake(Cts(20));
        assert_eq!(floors.horizon(|| Cts(90)), Cts(20));
        floors.forget_outside(&outside);
        floors.of(InstanceId(0)).publish(Cts(70));
        assert_eq!(floors.horizon(|| Cts(90)), Cts(60));
    }

    #[test]
    fn the_horizon_is_the_smallest_of_clock_and_floors() {
        let floors = Floors::new(2);
        assert_eq!(floors.horizon(|| Cts(50)), Cts(50), "all asleep: the clock alone");
        floors.of(InstanceId(0)).wake(Cts(40));
        assert_eq!(floors.horizon(|| Cts(50)), Cts(40));
        let outside = floors.register_outside(Outside::Reader);
        outside.wake(Cts(10));
        assert_eq!(floors.horizon(|| Cts(50)), Cts(10));
        floors.forget_outside(&outside);
        floors.of(InstanceId(0)).sleep(Some(Cts(45)));
        assert_eq!(floors.horizon(|| Cts(50)), Cts(45), "asleep with an open snapshot");
        floors.of(InstanceId(0)).sleep(None);
        assert!(floors.of(InstanceId(0)).is_asleep());
        assert_eq!(floors.horizon(|| Cts(50)), Cts(50));
    }
}

#[cfg(all(test, loom))]
mod loom_horizon {
    //! `RUSTFLAGS="--cfg loom" cargo test -p atoll-kernel --lib loom_horizon`

    use super::*;
    use loom::thread;

    /// A waking instance takes a snapshot while a collector computes the horizon: never above it.
    #[test]
    fn loom_horizon_wake() {
        loom::model(|| {
            let floors = Arc::new(Floors::new(1));
            // The clock: every reading is later than those before it, and orders nothing else.
            let clock = Arc::new(AtomicU64::new(1));
            let collector = {
                let (floors, clock) = (floors.clone(), clock.clone());
                thread::spawn(move || floors.horizon(|| Cts(clock.fetch_add(1, Ordering::Relaxed))))
            };
            let floor = floors.of(InstanceId(0));
            floor.wake(Cts(clock.fetch_add(1, Ordering::Relaxed)));
            let snapshot = Cts(clock.fetch_add(1, Ordering::Relaxed));
            let horizon = collector.join().unwrap();
            assert!(horizon <= snapshot, "horizon {horizon} above snapshot {snapshot}");
        });
    }

    /// The same of an outside thread, which registers meanwhile: who does not find it counted has
    /// read the clock before its snapshot.
    #[test]
    fn loom_horizon_outside() {
        loom::model(|| {
            let floors = Arc::new(Floors::new(1));
            let clock = Arc::new(AtomicU64::new(1));
            let collector = {
                let (floors, clock) = (floors.clone(), clock.clone());
                thread::spawn(move || floors.horizon(|| Cts(clock.fetch_add(1, Ordering::Relaxed))))
            };
            let floor = floors.register_outside(Outside::Reader);
            floor.wake(Cts(clock.fetch_add(1, Ordering::Relaxed)));
            let snapshot = Cts(clock.fetch_add(1, Ordering::Relaxed));
            let horizon = collector.join().unwrap();
            assert!(horizon <= snapshot, "horizon {horizon} above snapshot {snapshot}");
        });
    }
}
