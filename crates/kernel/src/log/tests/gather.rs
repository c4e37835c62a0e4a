//! How long a flush waits for more commits (rule 7.2).

use std::sync::Arc;

use super::super::*;
use super::*;
use crate::io::{IoChoice, MemoryDisk};

struct World {
    home: Home,
    now_ns: u64,
    cts: u64,
}

impl World {
    fn new() -> World {
        let disk: Arc<dyn Disk> = Arc::new(MemoryDisk::new(IoChoice::Threads));
        let (manifest, marks) = new_database(&disk, 1);
        let mut home = Home::open(&disk, &manifest, 0, SMALL, &marks).unwrap();
        home.settle();
        World { home, now_ns: 1 << 40, cts: 0 }
    }

    fn commit(&mut self) {
        self.cts += 1;
        self.home.commit(self.cts, &[], &[1; 50]);
    }

    /// Polls `later_us` later; answers how long it is to wait, in microseconds, if a flush waits for open transactions.
    fn poll(&mut self, later_us: u64, ready_tasks: usize, open: u64) -> Option<u64> {
        self.now_ns += later_us * 1000;
        let load = Load { now_ns: self.now_ns, ready_tasks, open };
        let polled = self.home.log.poll(self.home.ring.as_ref(), load);
        polled.gathers_until.map(|until| (until - self.now_ns) / 1000)
    }

    fn flushes(&self) -> u64 {
        self.home.log.counters().flushes
    }

    /// One commit that open transactions let wait in vain: how many flushes that was.
    fn commit_in_vain(&mut self) -> u64 {
        let before = self.flushes();
        self.commit();
        assert_eq!(self.poll(0, 0, 5), Some(300));
        assert_eq!(self.poll(299, 0, 5), Some(1));
        assert_eq!(self.flushes(), before);
        assert_eq!(self.poll(1, 0, 5), None);
        let flushes = self.flushes() - before;
        self.home.settle();
        flushes
    }
}

#[test]
fn who_has_nothing_else_to_do_flushes_at_once() {
    let mut world = World::new();
    let before = world.flushes();
    world.commit();
    assert_eq!((world.poll(0, 0, 0), world.flushes()), (None, before + 1));
}

#[test]
fn a_flush_waits_while_half_as_many_are_ready_as_have_committed() {
    let mut world = World::new();
    let before = world.flushes();
    for ready in (1..4).rev() {
        world.commit();
        let waits = world.cts < 2 * ready;
        assert_eq!(
            (world.poll(10, ready as usize, 0), world.flushes()),
            (None, before + u64::from(!waits))
        );
        if !waits {
            break;
        }
    }
    world.home.settle();
    let before = world.flushes();
    world.commit();
    world.poll(0, 9, 0);
    world.poll(1999, 9, 0);
    assert_eq!(world.flushes(), before);
    world.poll(1, 9, 0);
    assert_eq!(world.flushes(), before + 1, "not for long");
}

#[test]
fn where_processors_are_short_it_waits_for_all_that_are_open() {
    let mut world = World::new();
    let before = world.flushes();
    world.commit();
    assert_eq!(world.poll(0, 0, 2), Some(300));
    world.commit();
    assert_eq!((world.poll(50, 0, 1), world.flushes()), (Some(250), before));
    world.commit();
    assert_eq!((world.poll(50, 0, 0), world.flushes()), (None, before + 1));
    world.home.settle();
    // Somebody waits for room: for nobody any more.
    world.commit();
    assert_eq!(world.poll(0, 0, 3), Some(300));
    let mut held = Vec::new();
    let full = loop {
        match world.home.log.reserve(4000) {
            Ok(room) => held.push(room),
            Err(stop) => break stop,
        }
    };
    assert!(matches!(full, Stop::WaitFor(WaitFor::LogRoom)));
    held.into_iter().for_each(|room| world.home.log.release(room));
    assert_eq!((world.poll(1, 0, 3), world.flushes()), (None, before + 2));
}

#[test]
fn who_has_waited_in_vain_does_not_for_a_while() {
    let mut world = World::new();
    assert_eq!(world.commit_in_vain(), 1);
    for _ in 0..16 {
        let before = world.flushes();
        world.commit();
        assert_eq!((world.poll(0, 0, 5), world.flushes()), (None, before + 1));
        world.home.settle();
    }
    assert_eq!(world.commit_in_vain(), 1, "tried again");
}

#[test]
fn it_goes_on_without_as_many_as_did_not_come() {
    let mut world = World::new();
    world.commit();
    assert_eq!(world.poll(0, 0, 4), Some(300));
    world.commit();
    assert_eq!(world.poll(299, 0, 3), Some(1));
    assert_eq!(world.poll(1, 0, 3), None);
    world.home.settle();
    // Three are idle; a fourth comes each time.
    for _ in 0..2 {
        let before = world.flushes();
        world.commit();
        assert_eq!((world.poll(0, 0, 4), world.flushes()), (Some(300), before));
        world.commit();
        assert_eq!((world.poll(10, 0, 3), world.flushes()), (None, before + 1));
        world.home.settle();
    }
    world.commit();
    assert_eq!(world.poll(0, 0, 3), Some(300), "tried again");
}

#[test]
fn who_does_not_come_either_is_counted_too() {
    let mut world = World::new();
    for open in [3, 5] {
        world.commit();
        assert_eq!(world.poll(0, 0, open), Some(300));
        assert_eq!(world.poll(300, 0, open), None);
        world.home.settle();
    }
    let before = world.flushes();
    world.commit();
    assert_eq!((world.poll(0, 0, 5), world.flushes()), (None, before + 1));
}
