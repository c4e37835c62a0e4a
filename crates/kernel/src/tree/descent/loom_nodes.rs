//! Loom models of an inner node that leaves memory after its child, over the code that runs (run with `--cfg
//! loom`, filter `loom_nodes`).
//!
//! A root, a node and one leaf. One thread looks the leaf up and loads what is missing, or has seen before that
//! the leaf is missing and loads it now, though the node that it names as its parent may have left since, or
//! come back, or another page be in that frame; another has leaf and node leave, and in one model changes the
//! leaf and writes it to its old place before. What holds: whoever looks finds the leaf as it is now, nothing is in
//! two frames, and a node that leaves has no child in memory. As in `loom_loads`, pages' bytes are
//! no atomics here, so pages are read under shared latches. Mutants caught here: `evicted-while-it-is-loaded`,
//! `load-installed-though-taken-over`.

use std::collections::HashMap;

use loom::sync::Mutex;
use loom::thread;

use super::*;
use crate::base::PAGE_BYTES;
use crate::buffer::LoadTurn;
use crate::latch::{OwnedPage, PageBytes};
use crate::page::rowleaf;
use crate::tree::loom_threads::{model, with_stack};

const HOME: HomeId = HomeId(0);
const TREE: TreeId = TreeId(4);
const LEAF: Place = Place::new(HOME, 7);
/// Where in the leaf the value is.
const VALUE: usize = 8000;
const OLD: u64 = 7;
const NEW: u64 = 8;

struct World {
    trunk: Trunk,
    disk: Mutex<Disk>,
}

/// Pages by their places, and the next free place.
struct Disk {
    pages: HashMap<Place, Box<[u8; PAGE_BYTES]>>,
    next: Place,
}

impl World {
    fn new() -> loom::sync::Arc<World> {
        let pool = BufferPool::new(1, 7 * PAGE_BYTES).expect("memory");
        let mut reserved = pool.reserve(HOME, 3).expect("the pool is empty");
        let mut leaf = pool.allocate(&mut reserved, PageKind::TableLeaf, TREE);
        leaf.bytes_mut()[VALUE..VALUE + 8].copy_from_slice(&OLD.to_le_bytes());
        header::put_u64(leaf.bytes_mut(), rowleaf::AT_UPPER, rowleaf::NO_FENCE);
        let pages = HashMap::from([(LEAF, Box::new(*leaf.bytes()))]);
        let mut child = leaf.release();
        for level in 1..=2 {
            let mut node = pool.allocate(&mut reserved, PageKind::Inner, TREE);
            keynode::format_node(node.bytes_mut(), level, &[], None);
            keynode::insert(node.bytes_mut(), 0, &[], Swip::hot(child).raw()).expect("it is empty");
            node.note_children();
            child = node.release();
        }
        drop(reserved);
        let trunk = Trunk::adopt(pool, HOME, TREE, PageKind::TableLeaf, child);
        let disk = Mutex::new(Disk { pages, next: LEAF.after(1) });
        let world = loom::sync::Arc::new(World { trunk, disk });
        let leaf = world.look(0).expect("it is in memory").0;
        assert!(leaf.set_clean(LEAF).expect("nobody is in the way").is_none());
        world
    }

    fn pool(&self) -> &std::sync::Arc<BufferPool> {
        self.trunk.pool()
    }

    /// The page of `level` as it was under a shared latch, and its copy; or what is missing.
    fn look(
        &self,
        level: u16,
    ) -> std::result::Result<(PageRead, Box<[u8; PAGE_BYTES]>), NeededPage> {
        loop {
            match self.trunk.couple(Probe::before(&[]), Side::At, level) {
                Ok(held) => return Ok((held.read(), Box::new(*held.bytes()))),
                Err(Stop::NeedPage(needed)) => return Err(needed),
                Err(Stop::Retry) => thread::yield_now(),
                Err(stop) => panic!("a reader stopped: {stop:?}"),
            }
        }
    }

    fn read(&self, place: Place) -> Box<[u8; PAGE_BYTES]> {
        self.disk.lock().unwrap().pages[&place].clone()
    }

    /// As a task does: `BufferPool::load` without its wait for the disk.
    fn load(&self, needed: NeededPage) {
        let LoadTurn::Yours(id) = self.pool().begin_load(needed.place, Box::new(|| ())) else {
            return thread::yield_now();
        };
        let contents = self.read(needed.place);
        let mut reserved = self.pool().reserve(HOME, 1).expect("there is room");
        while self.pool().begin_install(needed.place, id) {
            match self.pool().install(needed, &contents, &mut reserved) {
                Ok(()) => break,
                Err(Stop::Retry) => {}
                Err(stop) => panic!("a load stopped: {stop:?}"),
            }
            self.pool().pause_install(needed.place, id);
            thread::yield_now();
        }
        drop(reserved);
        self.pool().end_load(needed.place, id);
    }

    /// As a thread does that blocks.
    fn load_now(&self, needed: NeededPage) {
        self.pool().load_as_thread(needed.place);
        let contents = self.read(needed.place);
        let mut reserved = self.pool().reserve(HOME, 1).expect("there is room");
        while let Err(stop) = self.pool().install(needed, &contents, &mut reserved) {
            assert!(matches!(stop, Stop::Retry), "{stop:?}");
            thread::yield_now();
        }
        drop(reserved);
        self.pool().end_load_as_thread(needed.place);
    }

    fn value_by(&self, load: fn(&World, NeededPage)) -> u64 {
        loop {
            match self.look(0) {
                Ok((_, leaf)) => return OwnedPage(&leaf).u64(VALUE),
                Err(needed) => load(self, needed),
            }
        }
    }

    fn value(&self) -> u64 {
        self.value_by(World::load)
    }

    /// One attempt.
    fn evict_leaf(&self) {
        if let Ok((leaf, _)) = self.look(0)
            && let Some(place) = leaf.clean_place()
        {
            let _ = self.pool().evict(leaf, place);
        }
    }

    /// One attempt: writes the node and evicts it.
    fn evict_node(&self) {
        let Ok((node, page)) = self.look(1) else { return };
        let view = OwnedPage(&*page);
        let swip = view.u64(KeyNode::new(view).swip_position(0));
        if Swip::place_on_disk(swip).is_none() {
            return;
        }
        let place = {
            let mut disk = self.disk.lock().unwrap();
            let place = disk.next;
            disk.next = place.after(1);
            disk.pages.insert(place, page);
            place
        };
        if node.set_clean(place).is_ok() {
            let _ = self.pool().evict(node, place);
        }
    }

    /// Changes the leaf, and writes it to the place that it has. Nobody else changes it.
    fn change_and_write_anew(&self) {
        assert_eq!(self.value_by(World::load_now), OLD);
        let mut leaf = loop {
            match self.trunk.couple(Probe::before(&[]), Side::At, 1) {
                Ok(node) => {
                    let leaf = Trunk::child(&node.read(), Probe::before(&[]), Side::At);
                    if let Ok(leaf) = PageWrite::lock(leaf.expect("nobody else evicts")) {
                        break leaf;
                    }
                }
                Err(stop) => assert!(matches!(stop, Stop::Retry), "{stop:?}"),
            }
            thread::yield_now();
        };
        leaf.bytes_mut()[VALUE..VALUE + 8].copy_from_slice(&NEW.to_le_bytes());
        drop(leaf);
        let (leaf, page) = self.look(0).expect("nobody else evicts");
        self.disk.lock().unwrap().pages.insert(LEAF, page);
        let _ = leaf.set_clean_anew(LEAF);
    }

    /// After all.
    fn check_end(&self, expected: u64) {
        assert_eq!(self.value(), expected);
        assert_eq!(self.pool().stats().used, 3);
    }
}

fn spawn<R: Send + 'static>(
    world: &loom::sync::Arc<World>,
    work: impl FnOnce(&World) -> R + Send + 'static,
) -> thread::JoinHandle<R> {
    let world = world.clone();
    with_stack(move || work(&world))
}

#[test]
fn loom_nodes_a_reader_and_a_path_that_leaves() {
    model(2, || {
        let world = World::new();
        let reader = spawn(&world, World::value);
        world.evict_leaf();
        world.evict_node();
        assert_eq!(reader.join().unwrap(), OLD);
        world.check_end(OLD);
    });
}

/// The parent that a load names leaves, and comes back to this frame or another.
#[test]
fn loom_nodes_a_late_load_and_a_parent_that_leaves() {
    model(2, || {
        let world = World::new();
        world.evict_leaf();
        let needed = world.look(0).err().expect("it is out");
        let reader = spawn(&world, move |world| world.load(needed));
        world.evict_node();
        assert_eq!(world.value(), OLD);
        reader.join().unwrap();
        world.check_end(OLD);
    });
}

/// The leaf has come, changed and gone to the same place meanwhile, and its parent has gone and come.
#[test]
fn loom_nodes_a_late_load_and_a_leaf_that_was_written_anew() {
    model(2, || {
        let world = World::new();
        world.evict_leaf();
        let needed = world.look(0).err().expect("it is out");
        let reader = spawn(&world, move |world| world.load(needed));
        world.change_and_write_anew();
        world.evict_leaf();
        world.evict_node();
        reader.join().unwrap();
        world.check_end(NEW);
    });
}
