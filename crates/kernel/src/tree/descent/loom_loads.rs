//! Loom models of leaves that leave memory and come back, over the code that runs (run with `--cfg
//! loom`, filter `loom_loads`).
//!
//! A root with one leaf, which has a twin table and lies on disk, where a model of the disk has it. One
//! thread reads it and loads it if it must; another evicts it, loads it too, or changes it and writes it
//! to the very place that it had, as happens on a full disk. What holds: a leaf that is there has its
//! twin, one that is out has it parked; it is loaded once; one that has changed does not leave; and what
//! a load has read is not believed when the leaf has come, changed and gone meanwhile. As in `loom_merge`,
//! pages' bytes are no atomics here. Mutants caught here: `evicted-while-it-is-loaded`,
//! `load-installed-though-taken-over`, `loaded-ahead-while-another-loads`, `evict-with-twin`.

use loom::sync::Mutex;
use loom::thread;

use super::*;
use crate::base::PAGE_BYTES;
use crate::buffer::{LoadTurn, SideStore};
use crate::latch::PageBytes;
use crate::page::rowleaf;
use crate::tree::loom_threads::{model, with_stack};

const HOME: HomeId = HomeId(0);
const PLACE: Place = Place::new(HOME, 7);
/// Where in the leaf the value is.
const VALUE: usize = 8000;
const OLD: u64 = 7;
const NEW: u64 = 8;
/// Stands for a twin table: nobody looks into it here.
const TWIN: *mut u8 = std::ptr::without_provenance_mut(64);

/// Keeps the one twin while its leaf is out.
#[derive(Default)]
struct Sides(std::sync::Mutex<Option<usize>>);

impl SideStore for Sides {
    fn park(&self, place: Place, leaf: FrameRef) {
        assert_eq!(place, PLACE);
        let twin = leaf.side().load();
        leaf.side().store(std::ptr::null_mut());
        let before = self.0.lock().unwrap().replace(twin.addr());
        assert_eq!((before, twin), (None, TWIN), "one twin");
    }

    fn take_back(&self, place: Place, leaf: FrameRef) -> Option<u32> {
        assert_eq!(place, PLACE);
        let twin = self.0.lock().unwrap().take().expect("it was parked");
        leaf.side().store(std::ptr::without_provenance_mut(twin));
        Some(0)
    }

    fn is_parked(&self, _: Place) -> bool {
        self.0.lock().unwrap().is_some()
    }

    fn dropped(&self, _: Place) {}
}

struct World {
    trunk: Trunk,
    /// The page at [`PLACE`].
    disk: Mutex<Box<[u8; PAGE_BYTES]>>,
    sides: std::sync::Arc<Sides>,
}

/// What a reader saw of the leaf, and under which version.
struct Seen {
    value: u64,
    leaf: PageRead,
}

impl World {
    fn new() -> loom::sync::Arc<World> {
        let pool = BufferPool::new(1, 5 * PAGE_BYTES).expect("memory");
        let sides = std::sync::Arc::new(Sides::default());
        pool.know_sides(sides.clone());
        let mut image = None;
        let trunk = Trunk::create(pool, HOME, TreeId(4), PageKind::TableLeaf, &mut |leaf| {
            leaf.bytes_mut()[VALUE..VALUE + 8].copy_from_slice(&OLD.to_le_bytes());
            header::put_u64(leaf.bytes_mut(), rowleaf::AT_UPPER, rowleaf::NO_FENCE);
            leaf.frame().side().store(TWIN);
            image = Some(Box::new(*leaf.bytes()));
        });
        let disk = Mutex::new(image.expect("the leaf was formatted"));
        let trunk = trunk.expect("the pool has room");
        let world = loom::sync::Arc::new(World { trunk, disk, sides });
        let leaf = world.look().expect("it is in memory").leaf;
        let clean = leaf.set_clean(PLACE).expect("nobody is in the way");
        assert!(clean.is_none());
        world
    }

    fn pool(&self) -> &std::sync::Arc<BufferPool> {
        self.trunk.pool()
    }

    /// The leaf, or where it is needed.
    fn look(&self) -> std::result::Result<Seen, NeededPage> {
        loop {
            let look = self.trunk.read_leaf(Probe::before(&[]), Side::At, |leaf| {
                Ok(Seen { value: leaf.racy().u64(VALUE), leaf: *leaf })
            });
            match look {
                Ok(seen) if self.is_present(&seen) => return Ok(seen),
                Err(Stop::NeedPage(needed)) => return Err(needed),
                Ok(_) | Err(Stop::Retry) => thread::yield_now(),
                Err(stop) => panic!("a reader stopped: {stop:?}"),
            }
        }
    }

    /// Whether the leaf is as it was seen; then it has its twin. A latch's version that was read may be
    /// an old one, and the page's bytes, which are no atomics here, do not tell as they do otherwise: so
    /// the latch is taken.
    fn is_present(&self, seen: &Seen) -> bool {
        let Ok(held) = PageShared::lock(seen.leaf.frame()) else { return false };
        let is_present = held.read().version() == seen.leaf.version();
        let twin = held.frame().side().load();
        assert!(!is_present || twin == TWIN, "a leaf without its twin");
        is_present
    }

    /// As a task does: `BufferPool::load` without its wait for the disk.
    fn load(&self, needed: NeededPage) {
        let LoadTurn::Yours(id) = self.pool().begin_load(needed.place, Box::new(|| ())) else {
            return thread::yield_now();
        };
        let contents = self.disk.lock().unwrap().clone();
        let mut reserved = self.pool().reserve(HOME, 1).expect("there is room");
        while self.pool().begin_install(needed.place, id)
            && self.pool().install(needed, &contents, &mut reserved).is_err()
        {
            self.pool().pause_install(needed.place, id);
            thread::yield_now();
        }
        drop(reserved);
        self.pool().end_load(needed.place, id);
    }

    /// As a thread does that blocks: it takes a task's load over.
    fn load_now(&self, needed: NeededPage) {
        self.pool().load_as_thread(needed.place);
        self.load_begun(needed);
    }

    /// As a thread does that loads several pages: it waits for nobody.
    fn load_ahead(&self, needed: NeededPage) {
        if self.pool().load_as_thread_if_nobody(needed.place) {
            self.load_begun(needed);
        }
    }

    fn load_begun(&self, needed: NeededPage) {
        let contents = self.disk.lock().unwrap().clone();
        let mut reserved = self.pool().reserve(HOME, 1).expect("there is room");
        while self.pool().install(needed, &contents, &mut reserved).is_err() {
            thread::yield_now();
        }
        drop(reserved);
        self.pool().end_load_as_thread(needed.place);
    }

    /// The value, with the leaf loaded if it is out.
    fn value(&self) -> u64 {
        loop {
            match self.look() {
                Ok(seen) => return seen.value,
                Err(needed) => self.load(needed),
            }
        }
    }

    /// One attempt.
    fn evict(&self) -> Outcome<()> {
        let Ok(Seen { leaf, .. }) = self.look() else { return Ok(()) };
        let place = leaf.clean_place().ok_or(Stop::Retry)?;
        self.pool().evict(leaf, place)
    }

    /// Changes the value, with the leaf loaded if it is out.
    fn change(&self, load: fn(&World, NeededPage)) {
        loop {
            match self.trunk.write_leaf(Probe::before(&[])) {
                Ok(mut leaf) => {
                    leaf.bytes_mut()[VALUE..VALUE + 8].copy_from_slice(&NEW.to_le_bytes());
                    return;
                }
                Err(Stop::NeedPage(needed)) => load(self, needed),
                Err(Stop::Retry) => thread::yield_now(),
                Err(stop) => panic!("a writer stopped: {stop:?}"),
            }
        }
    }

    /// Writes the leaf to the place that it has, and evicts it if it can.
    fn write_anew_and_evict(&self) {
        let Seen { leaf, .. } = self.look().expect("nobody else evicts");
        let mut page = Box::new([0; PAGE_BYTES]);
        leaf.racy().copy(0, &mut *page);
        leaf.validate().expect("nobody else changes it");
        *self.disk.lock().unwrap() = page;
        // Somebody may hold it, for it looks like the leaf that he waits for.
        if leaf.set_clean_anew(PLACE).is_ok() {
            let _ = self.evict();
        }
    }

    /// After all.
    fn check_end(&self, expected: u64) {
        let is_out = self.look().is_err();
        assert_eq!(self.sides.is_parked(PLACE), is_out);
        assert_eq!(self.pool().stats().used, if is_out { 1 } else { 2 });
        assert_eq!(self.value(), expected);
        assert!(!self.sides.is_parked(PLACE));
        assert_eq!(self.pool().stats().used, 2);
    }
}

fn spawn<R: Send + 'static>(
    world: &loom::sync::Arc<World>,
    work: impl FnOnce(&World) -> R + Send + 'static,
) -> thread::JoinHandle<R> {
    let world = world.clone();
    with_stack(move || work(&world))
}

/// Evicts the leaf, which nobody else uses yet.
fn evicted() -> loom::sync::Arc<World> {
    let world = World::new();
    world.evict().expect("nobody is in the way");
    world
}

#[test]
fn loom_loads_a_reader_and_an_eviction() {
    model(3, || {
        let world = World::new();
        let reader = spawn(&world, World::value);
        let _ = world.evict();
        assert_eq!(reader.join().unwrap(), OLD);
        world.check_end(OLD);
    });
}

#[test]
fn loom_loads_a_writer_and_an_eviction() {
    model(3, || {
        let world = World::new();
        let writer = spawn(&world, |world| world.change(World::load));
        let _ = world.evict();
        writer.join().unwrap();
        assert!(world.look().is_ok(), "a leaf that is on disk nowhere was evicted");
        world.check_end(NEW);
    });
}

#[test]
fn loom_loads_two_readers() {
    model(3, || {
        let world = evicted();
        let before = world.pool().traffic_sum().loads;
        let reader = spawn(&world, World::value);
        assert_eq!(world.value(), OLD);
        assert_eq!(reader.join().unwrap(), OLD);
        assert_eq!(world.pool().traffic_sum().loads - before, 1, "loaded once");
        world.check_end(OLD);
    });
}

/// The leaf has come since the reader saw that it was out, and was changed.
#[test]
fn loom_loads_a_late_reader_and_a_place_that_is_written_anew() {
    model(3, || {
        let world = evicted();
        let needed = world.look().err().expect("it is out");
        world.change(World::load);
        let reader = spawn(&world, move |world| world.load(needed));
        world.write_anew_and_evict();
        reader.join().unwrap();
        world.check_end(NEW);
    });
}

/// One loads the leaf in its own way while a thread loads it, changes it, and writes it to the place that it had.
fn loaded_and_written_anew(load: fn(&World, NeededPage)) {
    let world = evicted();
    let needed = world.look().err().expect("it is out");
    let loader = spawn(&world, move |world| load(world, needed));
    world.change(World::load_now);
    world.write_anew_and_evict();
    loader.join().unwrap();
    world.check_end(NEW);
}

/// The thread takes the reader's load over, if that has begun.
#[test]
fn loom_loads_a_reader_and_a_thread_that_writes_the_place_anew() {
    model(3, || loaded_and_written_anew(World::load));
}

/// What has been read ahead may have changed by the time that it was.
#[test]
fn loom_loads_ahead_of_a_thread_that_writes_the_place_anew() {
    model(3, || loaded_and_written_anew(World::load_ahead));
}
