//! Index trees, several threads, against models. Keys are long, so that leaves hold few entries
//! and everything splits all the time.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;

use super::tests::{assert_sound, done, pool, scan_all, seed};
use super::*;
use crate::sync::{AtomicBool, AtomicU64, Ordering};
use crate::tree::hints::LeafHints;

/// Says when its thread ends, by panic too, so that the others end.
struct EndsWith<'a>(&'a AtomicBool);

impl Drop for EndsWith<'_> {
    fn drop(&mut self) {
        self.0.store(false, Ordering::Release);
    }
}

/// Keys of 1200 bytes and more; some share nothing, some all but the end.
fn key(n: u64) -> Vec<u8> {
    let mixed = n.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let mut key = Vec::with_capacity(1400);
    if mixed & 1 == 0 {
        key.extend_from_slice(&mixed.to_be_bytes());
    } else {
        key.push((mixed >> 60) as u8);
    }
    key.resize(1200 + (mixed >> 8 & 127) as usize, b'z');
    key.extend_from_slice(&n.to_be_bytes());
    key
}

#[test]
fn readers_meet_all_that_stays_exactly_once_while_leaves_split() {
    let seed = seed();
    for round in 0..3 {
        let tree = IndexTree::create(pool(256), HomeId(0), TreeId(1)).unwrap();
        let stable: BTreeSet<u64> = (0..400).map(|n| n * 40).collect();
        for n in &stable {
            tree.insert(Near::Nowhere, (&key(*n), RowId(*n)), Keys::One).unwrap();
        }
        let writing = AtomicBool::new(true);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let _end = EndsWith(&writing);
                let mut random = fastrand::Rng::with_seed(seed ^ round);
                for _ in 0..9000 {
                    let n = random.u64(0..16_000);
                    if n.is_multiple_of(40) {
                        continue;
                    }
                    if random.u8(0..4) > 0 {
                        done(|| tree.insert(Near::Nowhere, (&key(n), RowId(n)), Keys::One));
                    } else {
                        done(|| tree.remove(&key(n), RowId(n), &mut || Ok(Keep::No)));
                    }
                }
            });
            scope.spawn(|| {
                let mut random = fastrand::Rng::with_seed(seed ^ round ^ 1);
                let keys: BTreeMap<u64, Vec<u8>> = stable.iter().map(|n| (*n, key(*n))).collect();
                let (mut rows, hints) = (Vec::new(), LeafHints::new(4));
                while writing.load(Ordering::Acquire) {
                    let n = random.u64(0..400) * 40;
                    rows.clear();
                    done(|| tree.point(Near::Hints(&hints), &keys[&n], &mut rows));
                    assert_eq!(rows, [RowId(n)], "an entry that stays is found");
                }
            });
            scope.spawn(|| {
                let mut direction = ScanDirection::Forward;
                while writing.load(Ordering::Acquire) {
                    let all =
                        scan_all(&tree, Bound::Unbounded, Bound::Unbounded, direction, usize::MAX);
                    assert!(
                        all.is_sorted_by(|(a, _), (b, _)| match direction {
                            ScanDirection::Forward => a < b,
                            ScanDirection::Backward => a > b,
                        }),
                        "a scan meets nothing twice"
                    );
                    let stayed = all.iter().filter(|(_, row)| row.0 % 40 == 0).count();
                    assert_eq!(stayed, stable.len(), "a scan meets all that stays");
                    direction = match direction {
                        ScanDirection::Forward => ScanDirection::Backward,
                        ScanDirection::Backward => ScanDirection::Forward,
                    };
                }
            });
        });
        assert_sound(&tree);
    }
}

#[test]
fn writers_find_what_they_wrote_and_nothing_is_lost() {
    const THREADS: u64 = 3;
    let seed = seed();
    for round in 0..3 {
        let tree = IndexTree::create(pool(256), HomeId(0), TreeId(1)).unwrap();
        let run = |thread: u64| {
            let mut random = fastrand::Rng::with_seed(seed ^ round << 8 ^ thread);
            let mut model = BTreeSet::new();
            let (mut rows, hints) = (Vec::new(), LeafHints::new(4));
            for _ in 0..6000 {
                let n = random.u64(0..6000) * THREADS + thread;
                let key = key(n);
                match random.u8(0..6) {
                    0..=2 => {
                        let added =
                            done(|| tree.insert(Near::Hints(&hints), (&key, RowId(n)), Keys::One));
                        assert_eq!(added == Added::Yes, model.insert(n));
                    }
                    3 => {
                        let removed = done(|| tree.remove(&key, RowId(n), &mut || Ok(Keep::No)));
                        assert_eq!(removed == Removed::Yes, model.remove(&n));
                    }
                    _ => {
                        rows.clear();
                        done(|| tree.point(Near::Hints(&hints), &key, &mut rows));
                        assert_eq!(rows.len(), model.contains(&n) as usize, "own entry {n}");
                    }
                }
            }
            model
        };
        let models: Vec<BTreeSet<u64>> = std::thread::scope(|scope| {
            let threads: Vec<_> = (0..THREADS).map(|t| scope.spawn(move || run(t))).collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).collect()
        });
        assert_sound(&tree);
        let all = scan_all(&tree, Bound::Unbounded, Bound::Unbounded, ScanDirection::Forward, 1000);
        let there: BTreeSet<u64> = all.iter().map(|(_, row)| row.0).collect();
        assert_eq!(there.len(), all.len());
        assert_eq!(there, models.into_iter().flatten().collect::<BTreeSet<_>>());
    }
}

#[test]
fn of_all_that_want_a_unique_key_one_gets_it() {
    const KEYS: u64 = 1500;
    let tree = IndexTree::create(pool(256), HomeId(0), TreeId(1)).unwrap();
    // Every tenth key drags dead entries along, so that it spans leaves.
    for n in (0..KEYS).step_by(10) {
        for row in 0..12 {
            tree.insert(Near::Nowhere, (&key(n), RowId(1 << 20 | row)), Keys::One).unwrap();
        }
    }
    let owners: Vec<AtomicU64> = (0..KEYS).map(|_| AtomicU64::new(0)).collect();
    std::thread::scope(|scope| {
        for thread in 1..=3_u64 {
            let (tree, owners) = (&tree, &owners);
            scope.spawn(move || {
                let hints = LeafHints::new(4);
                for n in 0..KEYS {
                    // Rows of the first thread sort before the dead ones, the others' behind.
                    let row = RowId(thread << 20 >> (20 * (thread == 1) as u32));
                    let mut judge = |other: RowId| {
                        let dead = other.0 >> 20 == 1;
                        Ok(if dead { Judgement::Free } else { Judgement::Taken })
                    };
                    match done(|| {
                        tree.insert_unique(
                            Near::Hints(&hints),
                            (&key(n), row),
                            Keys::One,
                            &mut judge,
                        )
                    }) {
                        UniqueAnswer::Added => {
                            let before = owners[n as usize].swap(row.0, Ordering::Relaxed);
                            assert_eq!(before, 0, "key {n} has two owners");
                        }
                        UniqueAnswer::Taken(other) => assert_ne!(other, row),
                        UniqueAnswer::Already => panic!("key {n} twice"),
                    }
                }
            });
        }
    });
    assert_sound(&tree);
    for (n, owner) in owners.iter().enumerate() {
        let mut rows = Vec::new();
        tree.point(Near::Nowhere, &key(n as u64), &mut rows).unwrap();
        rows.retain(|row| row.0 >> 20 != 1);
        assert_eq!(rows, [RowId(owner.load(Ordering::Relaxed))]);
    }
}

#[test]
fn ascending_insertions_of_several_threads_fill_the_tree() {
    const EACH: u64 = 40_000;
    let tree = IndexTree::create(pool(64), HomeId(0), TreeId(1)).unwrap();
    let next = AtomicU64::new(0);
    std::thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| {
                for _ in 0..EACH {
                    let n = next.fetch_add(1, Ordering::Relaxed);
                    assert_eq!(
                        done(|| tree.insert(
                            Near::Nowhere,
                            (&n.to_be_bytes(), RowId(n)),
                            Keys::One
                        )),
                        Added::Yes
                    );
                }
            });
        }
    });
    assert_sound(&tree);
    let all = scan_all(&tree, Bound::Unbounded, Bound::Unbounded, ScanDirection::Backward, 300);
    assert!(all.into_iter().map(|(_, row)| row.0).eq((0..3 * EACH).rev()));
}

/// Small trees: all threads are in the same few leaves, which split under them.
#[test]
fn threads_in_the_same_splitting_leaf_put_entries_where_they_belong() {
    const THREADS: u64 = 3;
    const TREES: usize = 250;
    const EACH: u64 = 30;
    let pool = pool(256);
    let create = |n| IndexTree::create(pool.clone(), HomeId(0), TreeId(n as u32)).unwrap();
    let trees: Vec<IndexTree> = (0..TREES).map(create).collect();
    let arrived: Vec<AtomicU64> = (0..TREES).map(|_| AtomicU64::new(0)).collect();
    let seed = seed();
    std::thread::scope(|scope| {
        for thread in 0..THREADS {
            let (trees, arrived) = (&trees, &arrived);
            scope.spawn(move || {
                let mut random = fastrand::Rng::with_seed(seed ^ thread);
                let mut rows = Vec::new();
                for (tree, arrived) in trees.iter().zip(arrived) {
                    arrived.fetch_add(1, Ordering::AcqRel);
                    // Not for ever: a thread that failed does not come.
                    for _ in 0..2000 {
                        if arrived.load(Ordering::Acquire) == THREADS {
                            break;
                        }
                        std::thread::yield_now();
                    }
                    for n in 0..EACH {
                        done(|| {
                            tree.insert(
                                Near::Nowhere,
                                (&key(n * THREADS + thread), RowId(n)),
                                Keys::One,
                            )
                        });
                        let n = random.u64(0..=n);
                        rows.clear();
                        done(|| tree.point(Near::Nowhere, &key(n * THREADS + thread), &mut rows));
                        assert_eq!(rows, [RowId(n)], "what was written is found");
                    }
                }
            });
        }
    });
    for tree in &trees {
        assert_sound(tree);
        let all = scan_all(tree, Bound::Unbounded, Bound::Unbounded, ScanDirection::Forward, 9);
        assert_eq!(all.len() as u64, THREADS * EACH);
    }
}
