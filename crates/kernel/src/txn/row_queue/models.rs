//! Models of a row's queue, over the code that runs (rule 6.5):
//! `RUSTFLAGS="--cfg loom" cargo test -p atoll-kernel --lib loom_row_queue`.
//!
//! Every taker goes the way of `shell`. Two owners at a time meet in `row`; a turn that is lost
//! shows as a deadlock.

use std::sync::Arc;

use super::*;
use crate::base::{Cts, InstanceId, SlotId};
use loom::sync::Notify;
use loom::thread;

const NAME: RowName = RowName { tree: TreeId(1), row: RowId(1) };

#[derive(Clone)]
struct Bell(Arc<Notify>);
impl Wake for Bell {
    fn wake(&self) {
        self.0.notify();
    }
}

struct Table([Slot<Bell>; 3]);
impl Slots<Bell> for Table {
    fn slot(&self, xid: Xid) -> &Slot<Bell> {
        &self.0[xid.slot().0 as usize]
    }
}

struct World {
    slots: Table,
    queues: RowQueues<Bell>,
    /// Who has the row, under its leaf's latch.
    row: Mutex<Option<Xid>>,
}

fn xid(slot: usize) -> Xid {
    Xid::new(InstanceId(0), SlotId(slot as u16), 1)
}

impl World {
    /// Transaction 0 has the row.
    fn new() -> Arc<World> {
        let slots = Table(std::array::from_fn(|_| {
            let slot = Slot::default();
            slot.begin(Cts(1)).unwrap();
            slot
        }));
        let row = Mutex::new(Some(xid(0)));
        Arc::new(World { slots, queues: RowQueues::new(), row })
    }

    /// One try: who is in the way.
    fn claim(&self, own: Xid) -> Option<Xid> {
        let mut row = self.row.lock().unwrap();
        let in_the_way = row.or_else(|| self.queues.in_front(NAME, own));
        if in_the_way.is_none() {
            *row = Some(own);
        }
        in_the_way
    }

    fn take(&self, own: Xid) {
        self.go(own, Wants::Newest, Took::TheRow, |world| world.claim(own));
    }

    /// Wants the row as it was under transaction 0, which commits: fails as soon as that is over.
    fn lose(&self, own: Xid) {
        let outrun = |world: &World| world.row.lock().unwrap().filter(|holder| *holder == xid(0));
        self.go(own, Wants::AsSeen, Took::Outrun, outrun);
    }

    fn go(&self, own: Xid, wants: Wants, took: Took, look: impl Fn(&World) -> Option<Xid>) {
        let bell = Arc::new(Notify::new());
        let mut stands = Stands::NoMore;
        while let Some(holder) = look(self) {
            if stands == Stands::NoMore {
                self.queues.stand(NAME, (own, wants), Bell(bell.clone()));
                stands = Stands::Still;
            }
            match self.queues.found(&self.slots, NAME, own, holder) {
                Next::Look => continue,
                Next::LetGo => {
                    stands = Stands::NoMore;
                    continue;
                }
                Next::Sleep => {}
            }
            while !self.queues.is_over(&self.slots, NAME, own) {
                bell.wait();
            }
            stands = self.queues.woke(&self.slots, NAME, own).stands;
        }
        if stands == Stands::Still {
            self.queues.leave(&self.slots, NAME, own, took);
        }
    }

    fn let_go(&self, own: Xid) {
        let had = self.row.lock().unwrap().take();
        assert_eq!(had, Some(own), "two had the row");
    }

    fn end(&self, own: Xid) {
        self.let_go(own);
        self.slots.slot(own).end();
    }
}

fn model(body: impl Fn() + Sync + Send + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(3);
    builder.check(body);
}

/// The row is handed over twice.
#[test]
fn loom_row_queue_hand_over() {
    model(|| {
        let world = World::new();
        let takers = [1, 2].map(|taker| {
            let world = world.clone();
            thread::spawn(move || {
                world.take(xid(taker));
                world.end(xid(taker));
            })
        });
        world.end(xid(0));
        takers.into_iter().for_each(|taker| taker.join().unwrap());
        assert_eq!(world.queues.shards[0].standing.load(Ordering::Relaxed), 0);
    });
}

fn outrun(second: fn(&World)) {
    model(move || {
        let world = World::new();
        let first = {
            let world = world.clone();
            thread::spawn(move || world.lose(xid(1)))
        };
        let second = {
            let world = world.clone();
            thread::spawn(move || second(&world))
        };
        world.end(xid(0));
        first.join().unwrap();
        second.join().unwrap();
        assert_eq!(world.queues.shards[0].standing.load(Ordering::Relaxed), 0);
    });
}

/// Two want the row as it was: both go, whoever is first.
#[test]
fn loom_row_queue_outrun() {
    outrun(|world| world.lose(xid(2)));
}

/// One wants it as it was, one as it is: that one gets it.
#[test]
fn loom_row_queue_outrun_before_another() {
    outrun(|world| {
        world.take(xid(2));
        world.end(xid(2));
    });
}

/// One gives up, wherever it stands: the other gets the row.
#[test]
fn loom_row_queue_give_up() {
    model(|| {
        let world = World::new();
        let impatient = {
            let world = world.clone();
            thread::spawn(move || {
                let bell = Bell(Arc::new(Notify::new()));
                world.queues.stand(NAME, (xid(1), Wants::Newest), bell);
                world.queues.found(&world.slots, NAME, xid(1), xid(0));
                world.queues.leave(&world.slots, NAME, xid(1), Took::Nothing);
            })
        };
        let patient = {
            let world = world.clone();
            thread::spawn(move || world.take(xid(2)))
        };
        world.end(xid(0));
        impatient.join().unwrap();
        patient.join().unwrap();
        world.let_go(xid(2));
    });
}

/// Who took the row gives it back before its end (a savepoint): the next one, who was put on its
/// list unasked, gets it.
#[test]
fn loom_row_queue_give_back() {
    model(|| {
        let world = World::new();
        world.queues.stand(NAME, (xid(1), Wants::Newest), Bell(Arc::new(Notify::new())));
        let next = {
            let world = world.clone();
            thread::spawn(move || world.take(xid(2)))
        };
        *world.row.lock().unwrap() = Some(xid(1));
        world.queues.leave(&world.slots, NAME, xid(1), Took::TheRow);
        world.let_go(xid(1));
        world.slots.slot(xid(1)).give_back();
        next.join().unwrap();
        world.let_go(xid(2));
    });
}
