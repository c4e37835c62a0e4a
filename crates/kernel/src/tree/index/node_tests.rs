//! Inner nodes leave memory after their children and come back (`buffer/inner.rs`): trees of several levels
//! in pools that their inner nodes alone would not fit.
#![expect(clippy::unwrap_used, reason = "clippy sees helpers here as no tests under cfg(all)")]

use std::collections::BTreeSet;
use std::ops::Bound;
use std::sync::Arc;

use super::tests::assert_sound;
use super::*;
use crate::base::{NeededPage, PAGE_BYTES, Place};
use crate::buffer::{FrameRef, PoolTraffic, SideStore, Swip};
use crate::io::{Fault, FaultOn, IoBuffer, SimDisk, SimOptions};
use crate::latch::PageBytes;
use crate::page::header;
use crate::page::keynode::KeyNode;
use crate::store::{PageStore, offset};
use crate::sync::{AtomicBool, Ordering};
use crate::tree::descent::AloneNode;

const HOME: HomeId = HomeId(0);
/// Inner nodes of these have some ten children.
const DIGITS: u32 = 6;

/// Neighbours differ late, and those that are far from each other early: separators are long, and little of
/// them is common to a node's.
fn key(number: u64) -> Vec<u8> {
    let digit = |at: u32| number / 4_u64.pow(DIGITS - 1 - at) % 4;
    let parts = (0..DIGITS).map(|at| vec![digit(at) as u8 + 1; 320]);
    parts.collect::<Vec<_>>().concat()
}

const KEYS: u64 = 4_u64.pow(DIGITS);

struct World {
    disk: SimDisk,
    tree: IndexTree,
}

/// An empty index in a pool of so many frames.
fn world(frames: usize) -> World {
    let disk = SimDisk::new(SimOptions::seeded(5));
    let store = PageStore::new(Arc::new(disk.clone()), 7, 1, 1);
    let pool = BufferPool::over(1, frames * (PAGE_BYTES + 64), Some(store)).unwrap();
    let tree = IndexTree::create(pool, HOME, TreeId(9)).unwrap();
    World { disk, tree }
}

/// One with every second key, on disk but for its root.
fn filled(frames: usize) -> World {
    let world = world(frames);
    (0..KEYS).step_by(2).for_each(|number| world.insert(number));
    world.evict_all();
    world
}

impl World {
    /// Does it, with the thread blocked for pages that are out.
    fn now<T>(&self, mut operation: impl FnMut(&IndexTree) -> Outcome<T>) -> T {
        for _ in 0..10_000 {
            match operation(&self.tree) {
                Err(Stop::Retry) => std::thread::yield_now(),
                Err(Stop::NeedPage(page)) => self.pool().load_now(page).unwrap(),
                other => return other.unwrap(),
            }
        }
        panic!("an operation never ends");
    }

    fn pool(&self) -> &Arc<BufferPool> {
        self.tree.pool()
    }

    fn traffic(&self) -> PoolTraffic {
        self.pool().traffic_sum()
    }

    fn insert(&self, number: u64) {
        let (key, row) = (key(number), RowId(number));
        let added = self.now(|tree| tree.insert(Near::Nowhere, (&key, row), Keys::One));
        assert!(matches!(added, Added::Yes), "{number}");
    }

    fn remove(&self, number: u64) {
        let (key, row) = (key(number), RowId(number));
        let removed = self.now(|tree| tree.remove(&key, row, &mut || Ok(Keep::No)));
        assert!(matches!(removed, Removed::Yes), "{number}");
    }

    /// Whether the leaf of the key has it; the page of the path that is missing.
    fn look(&self, number: u64) -> std::result::Result<bool, NeededPage> {
        let key = key(number);
        loop {
            let found = self.tree.copy_leaf(&key, |leaf| {
                let node = KeyNode::new(leaf.racy());
                let at = node.place(Probe::before(&key));
                Ok(at < node.count() && node.begins_with(at, &key))
            });
            match found {
                Err(Stop::Retry) => {}
                Err(Stop::NeedPage(page)) => return Err(page),
                other => return Ok(other.unwrap()),
            }
        }
    }

    /// Evicts whatever can be, level by level.
    fn evict_all(&self) {
        let pool = self.pool();
        for _ in 0..8 {
            let used = pool.stats().used;
            (1..pool.frames()).rev().for_each(|count| drop(pool.reserve(HOME, count)));
            if pool.stats().used == used {
                return;
            }
        }
    }

    fn entries(&self) -> Vec<u64> {
        let mut batch = IndexBatch::with_limit(usize::MAX);
        let (mut from, mut found) = (Vec::new(), Vec::new());
        loop {
            let (lower, forward) = (Bound::Included(from.as_slice()), ScanDirection::Forward);
            let next = self.now(|tree| tree.scan(lower, Bound::Unbounded, forward, &mut batch));
            found.extend((0..batch.len()).map(|at| batch.row(at).0));
            let Some(next) = next else { return found };
            from = next.key;
        }
    }

    fn is_sound(&self, expected: impl Iterator<Item = u64>) {
        assert_eq!(self.entries(), expected.collect::<Vec<_>>());
        assert_sound(&self.tree);
        self.evict_all();
        assert_eq!(self.pool().stats().used, 1, "all but the root is out");
        assert_sound(&self.tree);
    }
}

#[test]
fn a_tree_whose_inner_nodes_do_not_fit_the_pool_is_filled_changed_and_emptied() {
    let seed =
        std::env::var("ATOLL_SEED").map_or_else(|_| fastrand::u64(..), |it| it.parse().unwrap());
    println!("ATOLL_SEED={seed}");
    let mut random = fastrand::Rng::with_seed(seed);
    let world = world(40);
    let mut model = BTreeSet::new();
    for turn in 0..12_000 {
        // Grows, and then shrinks.
        let number = random.u64(..KEYS);
        match random.u32(..9_000) > turn {
            true if model.insert(number) => world.insert(number),
            false if model.remove(&number) => world.remove(number),
            _ => {
                let key = key(number);
                let found = world.now(|tree| {
                    tree.copy_leaf(&key, |leaf| {
                        Ok(KeyNode::new(leaf.racy())
                            .find(&[&key[..], &number.to_be_bytes()].concat()))
                    })
                });
                assert_eq!(found.is_ok(), model.contains(&number), "{number}");
            }
        }
        if turn % 3000 == 2999 {
            world.is_sound(model.iter().copied());
        }
    }
    let traffic = world.traffic();
    assert!(traffic.nodes_loaded > 1000 && traffic.nodes_evicted > 1000, "{traffic:?}");
    for number in std::mem::take(&mut model) {
        world.remove(number);
    }
    world.is_sound(model.into_iter());
    let store = world.pool().store().unwrap().clone();
    world.tree.free().unwrap();
    assert_eq!((store.stats().used, world.pool().stats().used), (0, 0));
}

#[test]
fn a_node_leaves_after_its_children_and_a_root_stays() {
    let world = filled(60);
    let pool = world.pool();
    assert_eq!(pool.stats().used, 1, "the root");
    let before = world.traffic();
    let missing: Vec<NeededPage> = std::iter::from_fn(|| {
        let page = world.look(0).err()?;
        pool.load_now(page).unwrap();
        Some(page)
    })
    .collect();
    let nodes = missing.len() - 1;
    assert!(nodes >= 2, "{missing:?}");
    assert_eq!(world.traffic().nodes_loaded - before.nodes_loaded, nodes as u64);
    // The leaf is in use: what is above it stays, however often it is looked at.
    let read = crate::buffer::PageRead::begin;
    let held = loop {
        let frame = world.now(|tree| tree.copy_leaf(&key(0), |leaf| Ok(leaf.frame())));
        let held = crate::buffer::PageShared::lock(frame).unwrap();
        if read(frame).is_ok() {
            break held;
        }
    };
    world.evict_all();
    assert_eq!(pool.stats().used, missing.len() + 1, "the root and the path");
    drop(held);
    world.evict_all();
    assert_eq!(pool.stats().used, 1);
    // A node that has changed by nothing but the coming of a child goes to another place.
    assert_ne!(world.look(0).unwrap_err(), missing[0]);
    world.is_sound((0..KEYS).step_by(2));
}

/// Says of every place, or of none, that its leaf has a twin.
#[derive(Default)]
struct Sides(AtomicBool);

impl SideStore for Sides {
    fn park(&self, _: Place, _: FrameRef) {}
    fn take_back(&self, _: Place, _: FrameRef) -> Option<u32> {
        None
    }
    fn is_parked(&self, _: Place) -> bool {
        self.0.load(Ordering::Relaxed)
    }
    fn dropped(&self, _: Place) {}
}

#[test]
fn a_node_stays_while_a_leaf_below_it_has_a_twin() {
    let world = filled(60);
    let sides = Arc::new(Sides::default());
    world.pool().know_sides(sides.clone());
    sides.0.store(true, Ordering::Relaxed);
    assert!(world.now(|tree| tree.copy_leaf(&key(0), |_| Ok(true))));
    world.evict_all();
    let page = world.look(0).expect_err("the leaf is out");
    assert!(world.pool().stats().used >= 3, "{:?}", world.pool().stats());
    // One load, of the leaf.
    world.pool().load_surely(page).unwrap();
    assert_eq!(world.look(0), Ok(true));
    sides.0.store(false, Ordering::Relaxed);
    world.is_sound((0..KEYS).step_by(2));
}

#[test]
fn what_is_loaded_for_a_node_that_has_left_comes_to_nowhere() {
    let world = filled(60);
    let pool = world.pool();
    // The last page of the path to be missing is the leaf.
    let mut needed = None;
    while let Err(page) = world.look(0) {
        pool.load_now(page).unwrap();
        needed = Some(page);
    }
    world.evict_all();
    let late = needed.unwrap();
    // Its parent's frame has other pages now, mostly.
    let mut came = 0;
    for number in (1..KEYS / 2).step_by(40) {
        world.insert(number);
        let (loads, was_there) = (world.traffic().loads, world.look(0) == Ok(true));
        pool.load_now(late).unwrap();
        // Unless the parent is there again, and names the place still.
        let is_loaded = !was_there && world.look(0) == Ok(true);
        assert_eq!(world.traffic().loads, loads + u64::from(is_loaded), "behind {number}");
        came += u64::from(is_loaded);
        world.evict_all();
    }
    assert!(came < KEYS / 80, "its parent was there each time");
    let inserted: BTreeSet<u64> = (0..KEYS).step_by(2).chain((1..KEYS / 2).step_by(40)).collect();
    world.is_sound(inserted.into_iter());
}

/// Removes keys from the first on until that leaves a node alone; answers it, and the first key behind it.
fn remove_until_alone(world: &World) -> (AloneNode, u64) {
    for number in (0..KEYS).step_by(2) {
        world.remove(number);
        if let Some(node) = world.tree.take_alone().pop_front() {
            return (node, number + 2);
        }
    }
    panic!("no node was left alone");
}

/// Nobody is blocked for the neighbour of a node with one child: the node is noted, and merged when who can wait has loaded it.
#[test]
fn a_node_that_is_alone_is_merged_when_its_neighbour_is_there() {
    let world = filled(60);
    let (mut node, next) = remove_until_alone(&world);
    assert!(matches!(world.tree.merge_alone(&mut node), Err(Stop::NeedPage(_))));
    // It is full, so nothing comes of it.
    world.now(|tree| tree.merge_alone(&mut node));
    world.is_sound((next..KEYS).step_by(2));

    let world = filled(60);
    let few = |number: &u64| !(next + next / 4..2 * next).contains(number);
    (next..2 * next).step_by(2).filter(|number| !few(number)).for_each(|it| world.remove(it));
    world.evict_all();
    world.tree.take_alone();
    let (mut node, again) = remove_until_alone(&world);
    assert_eq!(again, next);
    let blocked = world.traffic().blocking;
    let mut used = 0;
    world.now(|tree| {
        used = tree.pool().stats().used;
        tree.merge_alone(&mut node)
    });
    assert!(world.pool().stats().used < used, "the node's page is free");
    assert!(world.traffic().blocking > blocked, "its neighbour was not there");
    world.is_sound((next..KEYS).step_by(2).filter(few));
}

#[test]
fn a_node_goes_back_to_its_place_when_the_disk_is_full() {
    let world = filled(60);
    // Room that is free takes what is written next.
    while world.pool().store().unwrap().take_free(HOME).is_some() {}
    let (on, errno) = (FaultOn::Grow, libc::ENOSPC);
    world.disk.inject(Fault { on, name_contains: "pages", after: 0, times: u64::MAX, errno });
    let before = world.look(0).unwrap_err();
    for turn in 0..5 {
        match turn % 2 {
            0 => world.remove(0),
            _ => world.insert(0),
        }
        world.evict_all();
        assert_eq!(world.look(0), Err(before), "the highest node is where it was");
    }
    world.is_sound((0..KEYS).step_by(2).skip(1));
}

#[test]
fn a_page_that_is_none_below_its_parent_is_not_followed() {
    let world = filled(60);
    let store = world.pool().store().unwrap();
    let read = |place: Place| {
        let mut page = IoBuffer::zeroed(PAGE_BYTES);
        assert_eq!(
            store.read(place, &mut page).unwrap(),
            header::kind(OwnedPage(bytes(&page))).unwrap()
        );
        page
    };
    let child = |page: &IoBuffer, at: usize| {
        let view = OwnedPage(bytes(page));
        Swip::place_on_disk(view.u64(KeyNode::new(view).swip_position(at))).unwrap()
    };
    let top = world.look(0).unwrap_err();
    world.pool().load_now(top).unwrap();
    let below = world.look(0).unwrap_err();
    let (high, right) = (read(top.place), read(below.place));
    assert_eq!(child(&high, 0), below.place);
    let mut of_another_tree = read(below.place);
    header::set_tree(of_another_tree.first_chunk_mut().unwrap(), TreeId(8));
    let mut with_a_frame = read(below.place);
    let at = KeyNode::new(OwnedPage(bytes(&right))).swip_position(1);
    // The address of the root's frame.
    header::put_u64(with_a_frame.first_chunk_mut().unwrap(), at, top.parent);
    // As if a write had gone to another page's place, or not to its own, with everything as it should
    // be otherwise.
    let wrong = [
        ("a node of a higher level", read(top.place)),
        ("a leaf", read(child(&right, 0))),
        ("its neighbour", read(child(&high, 1))),
        ("a page of another tree", of_another_tree),
        ("a node with a child in memory", with_a_frame),
    ];
    let file = store.file(HOME).unwrap();
    for (what, mut page) in wrong {
        header::seal(page.first_chunk_mut().unwrap(), below.place);
        file.write_at(offset(below.place), &page).unwrap();
        let loaded = world.pool().load_now(below);
        assert!(matches!(loaded, Err(Error::Corrupt { .. })), "{what}: {loaded:?}");
    }
    file.write_at(offset(below.place), &right).unwrap();
    world.is_sound((0..KEYS).step_by(2));
}

fn bytes(page: &IoBuffer) -> &[u8; PAGE_BYTES] {
    page.first_chunk().unwrap()
}
