//! Models of the two handshakes of a slot, over the code that runs (rule 3.7):
//! `RUSTFLAGS="--cfg loom" cargo test -p atoll-kernel --lib loom_` (with `--features mutants` and
//! `ATOLL_MUTANT=name` for a fault).
//!
//! The clock is one monotone word that is read by relaxed read-modify-writes: every reading is
//! later than all before it, as the processor's counter is, but orders nothing else. A snapshot's
//! reading is followed by a fence, as in `runtime`.

use std::sync::Arc;

use super::*;
use crate::base::{InstanceId, SlotId, Stamp, Xid};
use loom::sync::Notify;
use loom::thread;

struct Bell(Arc<Notify>);
impl Wake for Bell {
    fn wake(&self) {
        self.0.notify();
    }
}

struct World {
    slot: Slot<Bell>,
    clock: AtomicU64,
    /// The writer words of the transaction's two undo records: its xid, later its cts.
    rows: [AtomicU64; 2],
}

impl World {
    /// A transaction has changed both rows and is about to commit.
    fn new() -> (Arc<World>, Xid) {
        let slot = Slot::default();
        let sequence = slot.begin(Cts(1)).unwrap().sequence();
        let xid = Xid::new(InstanceId(0), SlotId(0), sequence);
        let rows = [AtomicU64::new(xid.raw()), AtomicU64::new(xid.raw())];
        (Arc::new(World { slot, clock: AtomicU64::new(2), rows }), xid)
    }

    fn reading(&self) -> Cts {
        Cts(self.clock.fetch_add(1, Ordering::Relaxed))
    }

    fn snapshot(&self) -> Cts {
        let snapshot = self.reading();
        fence(Ordering::SeqCst);
        snapshot
    }

    fn prepare(&self) -> Cts {
        self.slot.prepare(|| self.reading())
    }

    fn stamp(&self, cts: Cts) {
        for row in &self.rows {
            row.store(cts.0, Ordering::Release);
        }
    }

    /// Whether the version of `row` is seen: the reader's loop of rule 3.5.
    fn sees(&self, row: usize, snapshot: Cts) -> bool {
        loop {
            match Stamp::from_raw(self.rows[row].load(Ordering::Acquire)) {
                Stamp::Committed(cts) => return cts < snapshot,
                Stamp::InFlight(xid) => match self.slot.judge(xid.sequence(), snapshot) {
                    Seen::Older => return false,
                    Seen::This(cts) => {
                        assert!(cts < snapshot);
                        return true;
                    }
                    Seen::Undecided(_) | Seen::Reread => thread::yield_now(),
                },
            }
        }
    }

    /// Reads both rows in one snapshot, and says what was seen.
    fn read(&self) -> (Cts, [bool; 2]) {
        let snapshot = self.snapshot();
        (snapshot, [self.sees(0, snapshot), self.sees(1, snapshot)])
    }
}

fn check((snapshot, seen): (Cts, [bool; 2]), cts: Cts) {
    assert_eq!(seen[0], seen[1], "half a commit was seen");
    assert_eq!(seen[0], cts < snapshot, "commit {cts}, snapshot {snapshot}");
}

/// Sleeps first, looks then: whoever enlisted relies on being woken.
fn sleep(bell: &Notify, done: impl Fn() -> bool) {
    loop {
        bell.wait();
        if done() {
            return;
        }
    }
}

fn model(body: impl Fn() + Sync + Send + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(3);
    builder.check(body);
}

/// A commit, its stamping, its end and the slot's next use, against a reader.
#[test]
fn loom_commit_visibility() {
    model(|| {
        let (world, _) = World::new();
        let reader = {
            let world = world.clone();
            thread::spawn(move || world.read())
        };
        let cts = world.prepare();
        world.slot.committed();
        world.stamp(cts);
        world.slot.end();
        world.slot.begin(Cts(9)).unwrap();
        check(reader.join().unwrap(), cts);
    });
}

/// A commit that gives its first cts up and takes a later one (rule 6.4), against a reader: the
/// first is never believed.
#[test]
fn loom_commit_visibility_second_attempt() {
    model(|| {
        let (world, _) = World::new();
        let reader = {
            let world = world.clone();
            thread::spawn(move || world.read())
        };
        world.prepare();
        world.slot.give_up();
        let cts = world.prepare();
        world.slot.committed();
        check(reader.join().unwrap(), cts);
    });
}

/// The slot's next use is preparing while somebody still judges a version of the use before.
#[test]
fn loom_commit_visibility_next_use() {
    model(|| {
        let (world, xid) = World::new();
        let first = world.prepare();
        let reader = {
            let world = world.clone();
            thread::spawn(move || {
                let snapshot = world.snapshot();
                (snapshot, world.slot.judge(xid.sequence(), snapshot))
            })
        };
        world.slot.committed();
        world.stamp(first);
        world.slot.end();
        world.slot.begin(Cts(9)).unwrap();
        world.prepare();
        let (snapshot, seen) = reader.join().unwrap();
        assert!(first < snapshot, "the reader came after the cts was chosen");
        assert_ne!(seen, Seen::Older, "the cts of another use was believed");
    });
}

/// A transaction ends while another enlists: a lost wake-up shows as a deadlock.
#[test]
fn loom_wait_end() {
    model(|| {
        let (world, xid) = World::new();
        let ender = {
            let world = world.clone();
            thread::spawn(move || world.slot.end())
        };
        let bell = Arc::new(Notify::new());
        if world.slot.enlist(xid.sequence(), Bell(bell.clone())).is_some() {
            sleep(&bell, || world.slot.word().has_ended(xid.sequence()));
        }
        assert_eq!(world.slot.ending(xid.sequence()), Some(Ending::Gone));
        ender.join().unwrap();
    });
}

/// Two wait, one gives up: the other is woken all the same.
#[test]
fn loom_wait_end_two_waiters() {
    model(|| {
        let (world, xid) = World::new();
        let impatient = {
            let world = world.clone();
            thread::spawn(move || {
                let bell = Arc::new(Notify::new());
                if let Some(place) = world.slot.enlist(xid.sequence(), Bell(bell)) {
                    world.slot.withdraw(place.ticket);
                }
            })
        };
        let patient = {
            let world = world.clone();
            thread::spawn(move || {
                let bell = Arc::new(Notify::new());
                if world.slot.enlist(xid.sequence(), Bell(bell.clone())).is_some() {
                    sleep(&bell, || world.slot.word().has_ended(xid.sequence()));
                }
            })
        };
        world.slot.end();
        impatient.join().unwrap();
        patient.join().unwrap();
    });
}

/// A transaction gives a row back before its end while another enlists for it and looks at the row
/// again: it sees the row free, or is woken.
#[test]
fn loom_give_back() {
    model(|| {
        let (world, xid) = World::new();
        let owner = {
            let world = world.clone();
            thread::spawn(move || {
                // The row is free again, as under its leaf's latch, and nothing else orders it.
                world.rows[0].store(0, Ordering::Relaxed);
                world.slot.give_back();
            })
        };
        let bell = Arc::new(Notify::new());
        let free = || world.rows[0].load(Ordering::Relaxed) == 0;
        if !free() {
            let place = world.slot.enlist(xid.sequence(), Bell(bell.clone()));
            let place = place.expect("the transaction does not end");
            if !free() {
                sleep(&bell, || world.slot.has_moved(xid.sequence(), place));
                assert!(free(), "whoever sees the count sees the rows");
            }
            world.slot.withdraw(place.ticket);
        }
        owner.join().unwrap();
    });
}
