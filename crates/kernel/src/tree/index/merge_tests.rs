//! Index trees that shrink: everything in, everything out, in any order, with scans meanwhile.

use std::collections::BTreeSet;
use std::ops::Bound;
use std::sync::Arc;

use super::*;
use crate::base::{HomeId, Outcome, PAGE_BYTES, Stop};
use crate::page::keynode::KeyNode;
use crate::sync::{AtomicBool, Ordering};
use crate::tree::hints::LeafHints;

fn shell<T>(mut operation: impl FnMut() -> Outcome<T>) -> T {
    loop {
        match operation() {
            Ok(done) => return done,
            Err(Stop::Retry) => std::thread::yield_now(),
            Err(stop) => panic!("{stop:?}"),
        }
    }
}

fn make() -> (Arc<BufferPool>, IndexTree) {
    let pool = BufferPool::new(2, 6000 * (PAGE_BYTES + 64)).expect("memory");
    let tree = IndexTree::create(pool.clone(), HomeId(0), TreeId(5)).expect("the pool has room");
    (pool, tree)
}

/// Keys of all lengths, so that inner nodes are few and many.
fn key(number: u64, longest: usize) -> Vec<u8> {
    let mut key = number.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_be_bytes().to_vec();
    key.resize(8 + number as usize % longest, b'k');
    key
}

/// Keys that begin alike: a root has no fences and so no prefix, few children, and inner nodes
/// below it.
fn alike(number: u64) -> Vec<u8> {
    [&[b'p'; 1500][..], &key(number, 1)].concat()
}

fn remove(tree: &IndexTree, key: &[u8], row: RowId) {
    let removed = shell(|| tree.remove(key, row, &mut || Ok(Keep::No)));
    assert_eq!(removed, Removed::Yes);
}

fn entries(tree: &IndexTree, direction: ScanDirection) -> Vec<(Vec<u8>, RowId)> {
    let mut batch = IndexBatch::with_limit(64);
    let mut all = Vec::new();
    let (mut from, mut to): (Bound<Vec<u8>>, Bound<Vec<u8>>) = (Bound::Unbounded, Bound::Unbounded);
    loop {
        let as_slice = |bound: &Bound<Vec<u8>>| match bound {
            Bound::Included(key) => Bound::Included(key.clone()),
            Bound::Excluded(key) => Bound::Excluded(key.clone()),
            Bound::Unbounded => Bound::Unbounded,
        };
        let (low, high) = (as_slice(&from), as_slice(&to));
        let goes_on = shell(|| {
            let low = low.as_ref().map(Vec::as_slice);
            let high = high.as_ref().map(Vec::as_slice);
            tree.scan(low, high, direction, &mut batch)
        });
        all.extend((0..batch.len()).map(|at| (batch.key(at).to_vec(), batch.row(at))));
        match (goes_on, direction) {
            (None, _) => return all,
            (Some(place), ScanDirection::Forward) => from = Bound::Included(place.key),
            (Some(place), ScanDirection::Backward) => to = Bound::Excluded(place.key),
        }
    }
}

#[test]
fn an_index_shrinks_to_a_root_and_a_leaf_or_two() {
    type Key = fn(u64) -> Vec<u8>;
    let kinds: [(Key, u64); 4] = [
        (|number| key(number, 1), 60_000),
        (|number| key(number, 300), 20_000),
        (|number| key(number, 1900), 6000),
        (alike, 30_000),
    ];
    for (key, count) in kinds {
        let (pool, tree) = make();
        let mut random = fastrand::Rng::with_seed(count);
        for round in 0..2 {
            let mut numbers: Vec<u64> = (0..count).collect();
            for number in &numbers {
                shell(|| tree.insert(Near::Nowhere, (&key(*number), RowId(*number)), Keys::One));
            }
            let full = pool.stats().used;
            assert!(full > 60, "{full} pages");
            if round == 0 {
                random.shuffle(&mut numbers);
            }
            for (done, number) in numbers.iter().enumerate() {
                remove(&tree, &key(*number), RowId(*number));
                if done % 5000 == 0 {
                    assert_eq!(tree.check().unwrap(), Vec::<String>::new());
                    let left = entries(&tree, ScanDirection::Forward).len();
                    assert_eq!(left, numbers.len() - done - 1);
                }
            }
            assert_eq!(tree.check().unwrap(), Vec::<String>::new());
            assert!(entries(&tree, ScanDirection::Forward).is_empty());
            let root = KeyNode::new(tree.trunk.root().racy());
            let (level, children) = (root.level(), root.count());
            assert!(level == 1 || children > 1, "a root of level {level} with {children} child");
            let used = pool.stats().used;
            assert!(used <= 4, "{used} pages of {full} for nothing, {count} keys");
        }
    }
}

#[test]
fn scans_meet_all_that_stays_while_an_index_breathes() {
    let (_pool, tree) = make();
    let staying: BTreeSet<u64> = (0..40_000).filter(|number| number % 53 == 0).collect();
    for number in &staying {
        shell(|| tree.insert(Near::Nowhere, (&key(*number, 200), RowId(*number)), Keys::One));
    }
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let (tree, stop, staying) = (&tree, &stop, &staying);
        for direction in [ScanDirection::Forward, ScanDirection::Backward] {
            scope.spawn(move || {
                while !stop.load(Ordering::Relaxed) {
                    let seen = entries(tree, direction);
                    let in_order = |pair: &[(Vec<u8>, RowId)]| match direction {
                        ScanDirection::Forward => pair[0] < pair[1],
                        ScanDirection::Backward => pair[0] > pair[1],
                    };
                    assert!(seen.windows(2).all(in_order), "in order, each once");
                    let seen: BTreeSet<u64> = seen.into_iter().map(|(_, row)| row.0).collect();
                    assert!(staying.is_subset(&seen), "an entry that stays was missed");
                }
            });
        }
        let writers: Vec<_> = (0..2)
            .map(|part| {
                scope.spawn(move || {
                    let hints = LeafHints::new(6);
                    for _ in 0..3 {
                        let mine = || (0..40_000).filter(move |it| it % 53 != 0 && it % 2 == part);
                        mine().for_each(|it| {
                            shell(|| {
                                tree.insert(
                                    Near::Hints(&hints),
                                    (&key(it, 200), RowId(it)),
                                    Keys::One,
                                )
                            });
                        });
                        mine().for_each(|it| remove(tree, &key(it, 200), RowId(it)));
                    }
                })
            })
            .collect();
        writers.into_iter().for_each(|writer| writer.join().unwrap());
        stop.store(true, Ordering::Relaxed);
    });
    assert_eq!(tree.check().unwrap(), Vec::<String>::new());
    let left: BTreeSet<u64> =
        entries(&tree, ScanDirection::Forward).into_iter().map(|(_, row)| row.0).collect();
    assert!(left == staying);
}
