//! Leaves that leave memory while the disk is full: to the place that they had, while somebody may be
//! about to read what lay there before (buffer rules 4 and 9).
#![expect(clippy::unwrap_used, reason = "clippy sees helpers here as no tests under cfg(all)")]

use std::ops::Bound;
use std::sync::Arc;

use super::tests::assert_sound;
use super::*;
use crate::base::{NeededPage, PAGE_BYTES, Place};
use crate::buffer::LoadTurn;
use crate::io::{Fault, FaultOn, SimDisk, SimOptions};
use crate::page::keynode::KeyNode;
use crate::store::PageStore;

const HOME: HomeId = HomeId(0);
const KEYS: u64 = 400;

fn key(number: u64) -> Vec<u8> {
    let mut key = number.to_be_bytes().to_vec();
    key.resize(400, 1);
    key
}

/// Does it, with the thread blocked for pages that are out.
fn now<T>(tree: &IndexTree, mut operation: impl FnMut() -> Outcome<T>) -> T {
    for _ in 0..10_000 {
        match operation() {
            Err(Stop::Retry) => std::thread::yield_now(),
            Err(Stop::NeedPage(page)) => tree.pool().load_now(page).unwrap(),
            other => return other.unwrap(),
        }
    }
    panic!("an operation never ends");
}

fn insert(tree: &IndexTree, number: u64) {
    let added = now(tree, || tree.insert(Near::Nowhere, (&key(number), RowId(number)), Keys::One));
    assert!(matches!(added, Added::Yes), "{number}");
}

/// The rows of the leaf that covers the key, if that is in memory.
fn rows(tree: &IndexTree, number: u64) -> std::result::Result<usize, NeededPage> {
    loop {
        let found = tree.copy_leaf(&key(number), |leaf| Ok(KeyNode::new(leaf.racy()).count()));
        match found {
            Err(Stop::Retry) => {}
            Err(Stop::NeedPage(page)) => return Err(page),
            other => return Ok(other.unwrap()),
        }
    }
}

/// Evicts whatever can be.
fn evict_all(tree: &IndexTree) {
    let frames = tree.pool().frames();
    (1..frames).rev().for_each(|count| drop(tree.pool().reserve(HOME, count)));
}

/// An index, all of whose leaves lie on disk, on one that is full; and the first one's place.
fn evicted() -> (IndexTree, NeededPage) {
    let disk = SimDisk::new(SimOptions::seeded(5));
    let store = PageStore::new(Arc::new(disk.clone()), 7, 1, 1);
    let pool = BufferPool::over(1, 40 * (PAGE_BYTES + 64), Some(store)).unwrap();
    let tree = IndexTree::create(pool, HOME, TreeId(9)).unwrap();
    (0..KEYS).for_each(|number| insert(&tree, 2 * number));
    evict_all(&tree);
    let page = rows(&tree, 0).expect_err("it is evicted");
    // Room that is free takes what is written next.
    while tree.pool().store().unwrap().take_free(HOME).is_some() {}
    let (on, errno) = (FaultOn::Grow, libc::ENOSPC);
    disk.inject(Fault { on, name_contains: "pages", after: 0, times: u64::MAX, errno });
    (tree, page)
}

fn is_sound(tree: &IndexTree, entries: u64) {
    let all = || {
        let mut batch = IndexBatch::with_limit(usize::MAX);
        let (mut from, mut count) = (Vec::new(), 0);
        loop {
            let (lower, forward) = (Bound::Included(from.as_slice()), ScanDirection::Forward);
            let next = tree.scan(lower, Bound::Unbounded, forward, &mut batch)?;
            count += batch.len() as u64;
            let Some(next) = next else { return Ok(count) };
            from = next.key;
        }
    };
    assert_eq!(now(tree, all), entries);
    assert_sound(tree);
}

fn begin(tree: &IndexTree, place: Place) -> crate::buffer::LoadId {
    match tree.pool().begin_load(place, Box::new(|| ())) {
        LoadTurn::Yours(id) => id,
        LoadTurn::Another => panic!("nobody loads {place}"),
    }
}

#[test]
fn a_leaf_goes_back_to_its_place_when_the_disk_is_full() {
    let (tree, page) = evicted();
    for turn in 0..5 {
        assert_eq!(rows(&tree, 0), Err(page), "at the same place as before");
        insert(&tree, 2 * turn + 1);
        assert!(rows(&tree, 0).is_ok());
        evict_all(&tree);
    }
    is_sound(&tree, KEYS + 5);
}

#[test]
fn a_leaf_stays_while_somebody_loads_what_lay_at_its_place_before() {
    let (tree, page) = evicted();
    tree.pool().load_now(page).unwrap();
    // Somebody who has seen the swip of before.
    let id = begin(&tree, page.place);
    let mut read = crate::io::IoBuffer::zeroed(PAGE_BYTES);
    tree.pool().store().unwrap().read(page.place, &mut read).unwrap();
    insert(&tree, 1);
    evict_all(&tree);
    assert!(rows(&tree, 0).is_ok(), "what was read would take its place");
    let mut reserved = tree.pool().reserve(HOME, 1).unwrap();
    tree.pool().install(page, read.first_chunk().unwrap(), &mut reserved).unwrap();
    tree.pool().end_load(page.place, id);
    drop(reserved);
    evict_all(&tree);
    assert_eq!(rows(&tree, 0), Err(page));
    is_sound(&tree, KEYS + 1);
}

#[test]
fn who_has_lost_a_load_installs_nothing() {
    let (tree, page) = evicted();
    let id = begin(&tree, page.place);
    assert!(tree.pool().begin_install(page.place, id));
    tree.pool().pause_install(page.place, id);
    // A thread takes it over, and the leaf is there, changes, and leaves again.
    tree.pool().load_now(page).unwrap();
    assert!(!tree.pool().begin_install(page.place, id));
    insert(&tree, 1);
    evict_all(&tree);
    assert_eq!(rows(&tree, 0), Err(page));
    assert!(!tree.pool().begin_install(page.place, id), "it is another's by now, or nobody's");
    let other = begin(&tree, page.place);
    assert!(!tree.pool().begin_install(page.place, id));
    // While it is installed nobody takes it over.
    assert!(tree.pool().begin_install(page.place, other));
    std::thread::scope(|scope| {
        let thread = scope.spawn(|| tree.pool().load_now(page).unwrap());
        std::thread::sleep(std::time::Duration::from_millis(20));
        assert!(rows(&tree, 0).is_err() && !thread.is_finished());
        tree.pool().end_load(page.place, other);
        thread.join().unwrap();
    });
    is_sound(&tree, KEYS + 1);
}

#[test]
fn what_was_loaded_surely_leaves_for_the_next_when_nothing_else_can() {
    let (tree, _) = evicted();
    let pool = tree.pool();
    let all = pool.frames();
    // Others have all frames but those that are kept.
    let others = (1..all).rev().find_map(|count| pool.reserve(HOME, count).ok()).unwrap();
    let before = pool.traffic_sum();
    for number in 0..KEYS {
        let key = key(2 * number);
        let removed = loop {
            match tree.remove(&key, RowId(2 * number), &mut || Ok(Keep::No)) {
                Err(Stop::Retry) => {}
                Err(Stop::NeedPage(page)) => pool.load_surely(page).unwrap(),
                removed => break removed.unwrap(),
            }
        };
        assert!(matches!(removed, Removed::Yes));
        if number % 3 != 0 {
            let row = RowId(2 * number);
            tree.insert(Near::Nowhere, (&key, row), Keys::One).unwrap();
        }
    }
    let after = pool.traffic_sum();
    let loads = after.blocking - before.blocking;
    assert!(loads > 8, "{loads} loads");
    assert_eq!(after.inline - before.inline, 1, "the pool is looked through once");
    drop(others);
    is_sound(&tree, KEYS - KEYS.div_ceil(3));
}

/// All leaves that are not in memory, in order of their places.
fn missing_leaves(tree: &IndexTree) -> Vec<NeededPage> {
    let (mut missing, mut next) = (Vec::new(), Some(key(0)));
    while let Some(from) = next {
        next = now(tree, || tree.missing_leaf(&from, &mut missing));
    }
    missing.sort_by_key(|page| page.place);
    missing
}

#[test]
fn leaves_that_are_loaded_ahead_are_read_together() {
    let (tree, _) = evicted();
    let pool = tree.pool();
    let missing = missing_leaves(&tree);
    let leaves = missing.len();
    assert!(leaves > 10, "{leaves} leaves");
    // One that somebody loads, and one that is damaged: they stay where they are.
    let (loaded, damaged) = (missing[3], missing[7]);
    let id = begin(&tree, loaded.place);
    let store = pool.store().unwrap();
    let mut intact = crate::io::IoBuffer::zeroed(PAGE_BYTES);
    store.read(damaged.place, &mut intact).unwrap();
    let file = store.file(HOME).unwrap();
    let at = crate::store::offset(damaged.place);
    file.write_at(at, &crate::io::IoBuffer::zeroed(PAGE_BYTES)).unwrap();
    let before = pool.traffic_sum();
    pool.load_runs(&missing);
    let reads = pool.traffic_sum().blocking - before.blocking;
    assert!(0 < reads && reads <= leaves as u64 / 4, "{reads} reads of {leaves} pages");
    assert_eq!(missing_leaves(&tree), [loaded, damaged]);
    pool.end_load(loaded.place, id);
    assert!(matches!(pool.load_now(damaged), Err(Error::Corrupt { .. })));
    file.write_at(at, &intact).unwrap();
    is_sound(&tree, KEYS);
}

/// A regression: each frame that was made free went to those that are kept, as often as was tried.
#[test]
fn frames_that_are_kept_come_back_before_a_reservation_has_its_own() {
    let store = PageStore::new(Arc::new(SimDisk::new(SimOptions::seeded(6))), 7, 1, 1);
    let pool = BufferPool::over(1, 100 * (PAGE_BYTES + 64), Some(store)).unwrap();
    let tree = IndexTree::create(pool, HOME, TreeId(9)).unwrap();
    (0..10 * KEYS).for_each(|number| insert(&tree, number));
    let pool = tree.pool();
    let free = |kept| std::iter::from_fn(move || pool.reserve_free(HOME, kept));
    let lent: Vec<_> = free(0).collect();
    assert!(lent.len() >= pool.kept(), "{} frames were free", lent.len());
    drop(pool.reserve(HOME, 1).unwrap());
    drop(lent);
    insert(&tree, 10 * KEYS);
    assert!(rows(&tree, 10 * KEYS).is_ok());
}
