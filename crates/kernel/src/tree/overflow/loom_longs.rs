//! Loom models of pages of long values that leave memory, come back and are freed, over the code that runs
//! (run with `--cfg loom`, filter `loom_longs`).
//!
//! A value of one page, over a store on a simulated disk (whose bytes are no atomics: what is at a place
//! changes only while nobody may read there, which is what the models are about). What holds: a reader
//! who has the value reads it, wherever its page is; one who has it no more reads it or finds out; a page
//! comes into memory once; and one that was freed does not come back in the place of another, nor is it
//! found after it. Mutants caught here: `long-page-loaded-dead`, `long-page-freed-unasked`.

use std::sync::Arc;

use loom::thread;

use super::*;
use crate::base::{Error, HomeId, PAGE_BYTES, Result, TreeId};
use crate::buffer::{BufferPool, Looked, Pace};
use crate::io::{SimDisk, SimOptions};
use crate::page::overflow::{LongRef, encode_block};
use crate::store::PageStore;
use crate::tree::loom_threads::{model, with_stack};

const TREE: TreeId = TreeId(4);
const HOME: HomeId = HomeId(0);
const OLD: &[u8] = b"old";
const NEW: &[u8] = b"new";
struct World {
    pool: Arc<BufferPool>,
    store: Arc<PageStore>,
}

fn world() -> loom::sync::Arc<World> {
    let disk = SimDisk::new(SimOptions::seeded(1));
    let store = PageStore::new(Arc::new(disk), 7, 1, 4);
    let pool = BufferPool::over(1, 4 * (PAGE_BYTES + 64), Some(store.clone())).expect("memory");
    loom::sync::Arc::new(World { pool, store })
}

impl World {
    fn write(&self, value: &[u8]) -> NewLong {
        let mut block = Vec::new();
        encode_block(value, &mut block);
        let mut writer = LongWriter::new(&self.pool, HOME, TREE);
        writer.put(value, &block).expect("there is room");
        writer.finish()
    }

    fn read(&self, reference: LongRef) -> Result<Vec<u8>> {
        let mut out = Vec::new();
        read_whole(&self.pool, LongOwner::newest(TREE), reference, &mut out)?;
        Ok(out)
    }

    /// Writes the value's page, if it does not lie on disk, and evicts it if nobody is in the way.
    fn evict(&self, reference: LongRef) {
        let Some(frame) = self.pool.find_overflow(reference.first) else { return };
        // It cools down first.
        for _ in 0..2 {
            if let Ok(Looked::Dirty(read)) = self.pool.look_at(frame, Pace::Fast) {
                let _ = self.pool.write_and_evict(read, &mut Vec::new());
            }
        }
    }

    fn is_here(&self, reference: LongRef) -> bool {
        self.pool.find_overflow(reference.first).is_some()
    }
}

/// A reader who may have come too late.
fn is_old_or_gone(found: &Result<Vec<u8>>) -> bool {
    match found {
        Ok(bytes) => bytes == OLD,
        Err(Error::Corrupt { page, .. }) => page.is_some(),
        Err(_) => false,
    }
}

fn reader(world: &loom::sync::Arc<World>, long: &NewLong) -> thread::JoinHandle<Result<Vec<u8>>> {
    let (world, reference) = (world.clone(), long.reference());
    with_stack(move || world.read(reference))
}

#[test]
fn loom_longs_a_reader_and_an_eviction() {
    model(3, || {
        let world = world();
        let long = world.write(OLD);
        let reading = reader(&world, &long);
        world.evict(long.reference());
        assert_eq!(reading.join().unwrap().as_deref(), Ok(OLD));
        assert_eq!(world.read(long.reference()).as_deref(), Ok(OLD));
        assert_eq!(world.pool.stats().used, 1);
    });
}

#[test]
fn loom_longs_two_readers_load_a_page_once() {
    model(3, || {
        let world = world();
        let long = world.write(OLD);
        world.evict(long.reference());
        assert!(!world.is_here(long.reference()));
        let reading = reader(&world, &long);
        assert_eq!(world.read(long.reference()).as_deref(), Ok(OLD));
        assert_eq!(reading.join().unwrap().as_deref(), Ok(OLD));
        assert_eq!((world.pool.traffic_sum().loads, world.pool.stats().used), (1, 1));
    });
}

/// The place is given to another value while a late reader may be about to load the first.
fn freed_and_given_again(is_here: bool) {
    let world = world();
    let old = world.write(OLD);
    world.evict(old.reference());
    if is_here {
        assert_eq!(world.read(old.reference()).as_deref(), Ok(OLD));
    }
    let reading = reader(&world, &old);
    let before = old.reference();
    drop(old);
    let new = world.write(NEW);
    assert_eq!(new.reference().first, before.first, "the place is given again");
    assert_eq!(world.read(new.reference()).as_deref(), Ok(NEW));
    let found = reading.join().unwrap();
    assert!(is_old_or_gone(&found), "{found:?}");
    assert_eq!(world.read(new.reference()).as_deref(), Ok(NEW));
    world.evict(new.reference());
    assert_eq!(world.read(new.reference()).as_deref(), Ok(NEW));
    drop(new);
    assert_eq!(world.store.alive_fixed(), Vec::new());
    assert!(!world.is_here(before), "what was freed is found");
    assert_eq!(world.pool.stats().used, 0, "what was freed has come back");
}

#[test]
fn loom_longs_a_late_reader_and_a_place_that_is_given_again() {
    model(2, || freed_and_given_again(false));
}

#[test]
fn loom_longs_a_late_reader_of_a_page_in_memory_and_its_place_given_again() {
    model(2, || freed_and_given_again(true));
}

/// One frees the page while another evicts it.
#[test]
fn loom_longs_an_eviction_and_a_free() {
    model(2, || {
        let world = world();
        let long = world.write(OLD);
        let before = long.reference();
        let evicting = {
            let world = world.clone();
            with_stack(move || world.evict(before))
        };
        drop(long);
        let new = world.write(NEW);
        evicting.join().unwrap();
        assert_eq!(world.read(new.reference()).as_deref(), Ok(NEW));
        assert_eq!(world.store.alive_fixed().len(), 1);
        assert_eq!(world.pool.stats().used, 1);
    });
}

/// The place of a page is given to another one as soon as it may be.
#[test]
fn loom_longs_a_free_and_a_new_value() {
    model(3, || {
        let world = world();
        let old = world.write(OLD);
        let freeing = with_stack(move || drop(old));
        let new = world.write(NEW);
        assert_eq!(world.read(new.reference()).as_deref(), Ok(NEW));
        freeing.join().unwrap();
        assert!(world.is_here(new.reference()));
        assert_eq!((world.store.alive_fixed().len(), world.pool.stats().used), (1, 1));
    });
}
