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
        assert_eq!(world.queues.standing[0].load(Ordering::Relaxed), 0);
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
        assert_eq!(world.queues.standing[0].load(Ordering::Relaxed), 0);
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

/// A key of a unique index, as rule 5.6 sees it under the latch of the leaf.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Key {
    /// A row in flight has it, or gives it up.
    Undecided(Xid),
    Free,
    /// A committed row has it.
    Taken,
}

/// How who gets the key ends.
#[derive(Clone, Copy)]
enum End {
    Commit,
    RollBack,
}

struct KeyWorld {
    slots: Table,
    queues: RowQueues<Bell>,
    key: Mutex<Key>,
}

impl KeyWorld {
    /// Transaction 0 has put the key in.
    fn new() -> Arc<KeyWorld> {
        let World { slots, queues, .. } =
            Arc::into_inner(World::new()).expect("nobody else has it");
        Arc::new(KeyWorld { slots, queues, key: Mutex::new(Key::Undecided(xid(0))) })
    }

    /// One try to add it: who is in the way, or the key as it is now.
    fn add(&self, own: Xid) -> Result<Key, Xid> {
        // Before the latch, as `rows::holder` does.
        let first = match self.queues.are_keys_awaited() {
            true => self.queues.in_front(NAME, own),
            false => None,
        };
        let mut key = self.key.lock().unwrap();
        match (*key, first) {
            (Key::Undecided(holder), _) if holder != own => Err(holder),
            (Key::Free, Some(first)) => Err(first),
            (Key::Free, None) => {
                *key = Key::Undecided(own);
                Ok(*key)
            }
            (known, _) => Ok(known),
        }
    }

    /// Looks whether the key is free.
    fn look(&self, own: Xid) -> Result<Key, Xid> {
        let key = *self.key.lock().unwrap();
        match key {
            Key::Undecided(holder) if holder != own => Err(holder),
            known => Ok(known),
        }
    }

    fn wait(
        &self,
        own: Xid,
        stands: &mut Stands,
        mut look: impl FnMut() -> Result<Key, Xid>,
    ) -> Key {
        let bell = Arc::new(Notify::new());
        loop {
            let holder = match look() {
                Ok(key) => return key,
                Err(holder) => holder,
            };
            if *stands == Stands::NoMore {
                self.queues.stand(NAME, (own, Wants::Key), Bell(bell.clone()));
                *stands = Stands::Still;
            }
            match self.queues.found(&self.slots, NAME, own, holder) {
                Next::Look => continue,
                Next::LetGo => {
                    *stands = Stands::NoMore;
                    continue;
                }
                Next::Sleep => {}
            }
            while !self.queues.is_over(&self.slots, NAME, own) {
                bell.wait();
            }
            *stands = self.queues.woke(&self.slots, NAME, own).stands;
        }
    }

    fn leave(&self, own: Xid, stands: &mut Stands, took: Took) {
        if std::mem::replace(stands, Stands::NoMore) == Stands::Still {
            self.queues.leave(&self.slots, NAME, own, took);
        }
    }

    /// An insertion and its end; whether it got the key.
    fn insert(&self, own: Xid, end: End) -> bool {
        let mut stands = Stands::NoMore;
        let got = self.wait(own, &mut stands, || self.add(own)) == Key::Undecided(own);
        self.leave(own, &mut stands, if got { Took::TheRow } else { Took::Outrun });
        self.end(own, got, end);
        got
    }

    /// A look that keeps its turn, and the insertion.
    fn look_and_insert(&self, own: Xid, end: End) -> bool {
        let mut stands = Stands::NoMore;
        let mut got = false;
        if self.wait(own, &mut stands, || self.look(own)) == Key::Free {
            got = self.insert_standing(own, &mut stands);
        } else {
            self.leave(own, &mut stands, Took::Outrun);
        }
        self.end(own, got, end);
        got
    }

    fn insert_standing(&self, own: Xid, stands: &mut Stands) -> bool {
        // Who keeps its turn and finds another there all the same leaves first and comes anew: its
        // bell is the old wait's.
        match self.add(own) {
            Ok(key) => {
                let got = key == Key::Undecided(own);
                self.leave(own, stands, if got { Took::TheRow } else { Took::Outrun });
                got
            }
            Err(_) => {
                self.leave(own, stands, Took::Nothing);
                let got = self.wait(own, stands, || self.add(own)) == Key::Undecided(own);
                self.leave(own, stands, if got { Took::TheRow } else { Took::Outrun });
                got
            }
        }
    }

    fn end(&self, own: Xid, has_it: bool, end: End) {
        if has_it {
            let mut key = self.key.lock().unwrap();
            assert!(*key == Key::Undecided(own), "two had the key");
            *key = match end {
                End::Commit => Key::Taken,
                End::RollBack => Key::Free,
            };
        }
        self.slots.slot(own).end();
    }

    fn assert_idle(&self) {
        assert_eq!(self.queues.standing[0].load(Ordering::Relaxed), 0);
        assert!(!self.queues.are_keys_awaited());
    }
}

fn keys(first: End, one: fn(&KeyWorld) -> bool, other: fn(&KeyWorld) -> bool, got: usize) {
    model(move || {
        let world = KeyWorld::new();
        let inserters = [one, other].map(|insert| {
            let world = world.clone();
            thread::spawn(move || insert(&world))
        });
        world.end(xid(0), true, first);
        let had: Vec<bool> = inserters.into_iter().map(|it| it.join().unwrap()).collect();
        assert_eq!(had.iter().filter(|had| **had).count(), got);
        world.assert_idle();
    });
}

/// Who has the key gives it back, and so does who gets it next: both get it.
#[test]
fn loom_row_queue_key_given_back_twice() {
    let one = |world: &KeyWorld| world.insert(xid(1), End::RollBack);
    let other = |world: &KeyWorld| world.insert(xid(2), End::RollBack);
    keys(End::RollBack, one, other, 2);
}

/// It is given back, and taken for good: one gets it, the other is told.
#[test]
fn loom_row_queue_key_given_back_and_taken() {
    let one = |world: &KeyWorld| world.insert(xid(1), End::Commit);
    let other = |world: &KeyWorld| world.insert(xid(2), End::Commit);
    keys(End::RollBack, one, other, 1);
}

/// It is taken for good at once: nobody gets it, and all are told.
#[test]
fn loom_row_queue_key_taken() {
    let one = |world: &KeyWorld| world.insert(xid(1), End::Commit);
    let other = |world: &KeyWorld| world.insert(xid(2), End::Commit);
    keys(End::Commit, one, other, 0);
}

/// One looks first, and keeps its turn until it inserts.
#[test]
fn loom_row_queue_key_turn_kept() {
    let one = |world: &KeyWorld| world.look_and_insert(xid(1), End::RollBack);
    let other = |world: &KeyWorld| world.insert(xid(2), End::RollBack);
    keys(End::RollBack, one, other, 2);
}
