//! Index trees, one thread, against a model.
#![expect(clippy::unwrap_used, reason = "clippy sees helpers here as no tests under cfg(all)")]

use std::collections::BTreeSet;
use std::ops::Bound;
use std::sync::Arc;

use super::*;
use crate::base::{NeededPage, Place};
use crate::tree::hints::LeafHints;

pub(super) fn seed() -> u64 {
    let seed = std::env::var("ATOLL_SEED").ok().and_then(|text| text.parse().ok());
    let seed = seed.unwrap_or_else(|| fastrand::u64(..));
    eprintln!("ATOLL_SEED={seed}");
    seed
}

/// Calls again until it is no `Retry`, as the shell does; not for ever.
pub(super) fn done<T>(mut operation: impl FnMut() -> Outcome<T>) -> T {
    for _ in 0..2000 {
        match operation() {
            Err(Stop::Retry) => std::thread::yield_now(),
            other => return other.unwrap(),
        }
    }
    panic!("an operation never ends");
}

pub(super) fn pool(mib: usize) -> Arc<BufferPool> {
    BufferPool::new(1, mib << 20).unwrap()
}

pub(super) fn assert_sound(tree: &IndexTree) {
    assert_eq!(tree.check().unwrap(), Vec::<String>::new());
}

/// All entries of a scan, in its order.
pub(super) fn scan_all(
    tree: &IndexTree,
    from: Bound<&[u8]>,
    to: Bound<&[u8]>,
    direction: ScanDirection,
    limit: usize,
) -> Vec<(Vec<u8>, RowId)> {
    let own = |bound: Bound<&[u8]>| bound.map(<[u8]>::to_vec);
    let (mut from, mut to) = (own(from), own(to));
    let mut batch = IndexBatch::with_limit(limit);
    let mut out = Vec::new();
    loop {
        let (low, high) = (from.as_ref().map(Vec::as_slice), to.as_ref().map(Vec::as_slice));
        let next = done(|| tree.scan(low, high, direction, &mut batch));
        assert!(batch.len() <= limit);
        out.extend((0..batch.len()).map(|at| (batch.key(at).to_vec(), batch.row(at))));
        let Some(next) = next else { return out };
        assert!(out.len() < 1 << 20, "a scan never ends");
        match direction {
            ScanDirection::Forward => from = Bound::Included(next.key),
            ScanDirection::Backward => to = Bound::Excluded(next.key),
        }
    }
}

/// Prefix-free keys that share heads, prefixes and lengths in unpleasant ways.
fn random_key(random: &mut fastrand::Rng, long: bool) -> Vec<u8> {
    let mut key: Vec<u8> = (0..random.usize(1..5)).map(|_| random.u8(1..5)).collect();
    if long && random.u8(0..3) == 0 {
        key.extend(std::iter::repeat_n(b'z', random.usize(0..1900)));
        key.push(random.u8(1..9));
    }
    key.push(0);
    key
}

type Model = BTreeSet<(Vec<u8>, u64)>;

fn compare_scans(tree: &IndexTree, model: &Model, random: &mut fastrand::Rng, long: bool) {
    let mut bound = || {
        let mut key = random_key(random, long);
        if random.bool() {
            key.truncate(random.usize(0..4));
        }
        match random.u8(0..5) {
            0 => Bound::Unbounded,
            1 | 2 => Bound::Included(key),
            _ => Bound::Excluded(key),
        }
    };
    let (from, to) = (bound(), bound());
    let is_in = |key: &[u8]| {
        let from = match &from {
            Bound::Included(from) => key >= from.as_slice(),
            Bound::Excluded(from) => key > from.as_slice() && !key.starts_with(from),
            Bound::Unbounded => true,
        };
        from && match &to {
            Bound::Included(to) => key <= to.as_slice() || key.starts_with(to),
            Bound::Excluded(to) => key < to.as_slice(),
            Bound::Unbounded => true,
        }
    };
    let mut expected: Vec<_> =
        model.iter().filter(|(key, _)| is_in(key)).map(|(k, r)| (k.clone(), RowId(*r))).collect();
    let (low, high) = (from.as_ref().map(Vec::as_slice), to.as_ref().map(Vec::as_slice));
    let limit = *random.choice(&[1, 7, usize::MAX]).unwrap();
    assert_eq!(scan_all(tree, low, high, ScanDirection::Forward, limit), expected);
    expected.reverse();
    assert_eq!(scan_all(tree, low, high, ScanDirection::Backward, limit), expected);
}

#[test]
fn a_tree_agrees_with_a_model() {
    let mut random = fastrand::Rng::with_seed(seed());
    for long in [false, true] {
        let tree = IndexTree::create(pool(64), HomeId(0), TreeId(9)).unwrap();
        let (mut model, hints) = (Model::new(), LeafHints::new(3));
        for step in 0..12_000 {
            let (key, row) = (random_key(&mut random, long), random.u64(0..40));
            match random.u8(0..8) {
                0..=3 => {
                    let added = model.insert((key.clone(), row));
                    let expected = if added { Added::Yes } else { Added::Already };
                    assert_eq!(
                        tree.insert(Near::Hints(&hints), (&key, RowId(row)), Keys::One).unwrap(),
                        expected
                    );
                }
                4 | 5 => {
                    let mut asked = 0;
                    let keep = random.bool();
                    let removed = tree.remove(&key, RowId(row), &mut || {
                        asked += 1;
                        Ok(if keep { Keep::Yes } else { Keep::No })
                    });
                    let there = model.contains(&(key.clone(), row));
                    assert_eq!(asked, there as i32);
                    let expected = match (there, keep) {
                        (false, _) => Removed::Absent,
                        (true, true) => Removed::Kept,
                        (true, false) => Removed::Yes,
                    };
                    assert_eq!(removed.unwrap(), expected);
                    if there && !keep {
                        model.remove(&(key, row));
                    }
                }
                6 => {
                    let mut rows = vec![RowId(77)];
                    tree.point(Near::Hints(&hints), &key, &mut rows).unwrap();
                    let expected = model.iter().filter(|(other, _)| *other == key);
                    let expected: Vec<_> = expected.map(|(_, row)| RowId(*row)).collect();
                    assert_eq!(rows[1..], expected);
                }
                _ if step % 64 == 7 => compare_scans(&tree, &model, &mut random, long),
                _ => {}
            }
            if step % 3000 == 0 {
                assert_sound(&tree);
            }
        }
        assert_sound(&tree);
        for (key, row) in &model {
            assert_eq!(tree.remove(key, RowId(*row), &mut || Ok(Keep::No)).unwrap(), Removed::Yes);
        }
        assert_sound(&tree);
        let rest = scan_all(&tree, Bound::Unbounded, Bound::Unbounded, ScanDirection::Forward, 9);
        assert!(rest.is_empty());
    }
}

#[test]
fn one_key_of_many_rows_spans_leaves() {
    let tree = IndexTree::create(pool(16), HomeId(0), TreeId(1)).unwrap();
    let mut rows: Vec<u64> = (0..5000).map(|n| n * 3).collect();
    fastrand::Rng::with_seed(seed()).shuffle(&mut rows);
    for row in &rows {
        tree.insert(Near::Nowhere, (b"before\0", RowId(*row)), Keys::One).unwrap();
        tree.insert(Near::Nowhere, (b"same\0", RowId(*row)), Keys::One).unwrap();
    }
    rows.sort_unstable();
    let rows: Vec<_> = rows.into_iter().map(RowId).collect();
    let mut found = Vec::new();
    tree.point(Near::Nowhere, b"same\0", &mut found).unwrap();
    assert_eq!(found, rows);
    let mut judged = Vec::new();
    let mut judge = |row| {
        judged.push(row);
        Ok(Judgement::Free)
    };
    assert_eq!(
        tree.insert_unique(Near::Nowhere, (b"same\0", RowId(7001)), Keys::One, &mut judge).unwrap(),
        UniqueAnswer::Added
    );
    // A split on the way makes the judge run again from the start.
    assert_eq!(judged[judged.len() - rows.len()..], rows);
    let mut judge = |row| Ok(if row == RowId(14_997) { Judgement::Taken } else { Judgement::Free });
    let answer = tree
        .insert_unique(Near::Nowhere, (b"same\0", RowId(20_000)), Keys::One, &mut judge)
        .unwrap();
    assert_eq!(answer, UniqueAnswer::Taken(RowId(14_997)));
    assert_sound(&tree);
}

#[test]
fn unique_insertion_answers_by_the_judge_alone() {
    let tree = IndexTree::create(pool(4), HomeId(0), TreeId(1)).unwrap();
    let mut taken = |_| Ok(Judgement::Taken);
    let mut free = |_| Ok(Judgement::Free);
    let answer = |row, judge: &mut dyn FnMut(RowId) -> Outcome<Judgement>| {
        tree.insert_unique(Near::Nowhere, (b"k\0", RowId(row)), Keys::One, judge).unwrap()
    };
    assert_eq!(answer(1, &mut taken), UniqueAnswer::Added);
    assert_eq!(answer(1, &mut taken), UniqueAnswer::Already);
    assert_eq!(answer(2, &mut taken), UniqueAnswer::Taken(RowId(1)));
    assert_eq!(answer(2, &mut free), UniqueAnswer::Added);
    let stopped =
        tree.insert_unique(Near::Nowhere, (b"k\0", RowId(3)), Keys::One, &mut |_| Err(Stop::Retry));
    assert!(matches!(stopped, Err(Stop::Retry)));
    assert_eq!(crate::latch::held_latches(), 0);
    let gone = NeededPage { place: Place(5), parent: 64 };
    let stopped = tree.remove(b"k\0", RowId(2), &mut || Err(Stop::NeedPage(gone)));
    assert!(matches!(stopped, Err(Stop::NeedPage(page)) if page == gone));
    assert_eq!(crate::latch::held_latches(), 0);
    let mut rows = Vec::new();
    tree.point(Near::Nowhere, b"k\0", &mut rows).unwrap();
    assert_eq!(rows, [RowId(1), RowId(2)]);
}

#[test]
fn a_full_pool_fails_the_insertion_and_loses_nothing() {
    let pool = pool(1);
    let tree = IndexTree::create(pool.clone(), HomeId(0), TreeId(1)).unwrap();
    let mut random = fastrand::Rng::with_seed(seed());
    let mut there = BTreeSet::new();
    loop {
        let key = random.u64(..);
        let entry = key.to_be_bytes();
        match tree.insert(
            Near::Nowhere,
            (&[&entry[..], &[b'x'; 200]].concat(), RowId(key)),
            Keys::One,
        ) {
            Ok(_) => there.insert(key),
            Err(Stop::Error(Error::OutOfMemory { what: "buffer pool" })) => break,
            Err(other) => panic!("{other:?}"),
        };
    }
    assert!(there.len() > 1500, "{}", there.len());
    assert_eq!(pool.stats().free, 0);
    assert_sound(&tree);
    let all = scan_all(&tree, Bound::Unbounded, Bound::Unbounded, ScanDirection::Forward, 50);
    assert!(all.into_iter().map(|(_, row)| row.0).eq(there.iter().copied()));
    tree.free().unwrap();
    assert_eq!(pool.stats().used, 0);
    let late = tree.insert(Near::Nowhere, (b"k\0", RowId(1)), Keys::One);
    assert!(matches!(late, Err(Stop::Error(Error::CatalogChanged))));
}

#[test]
fn a_key_too_long_is_refused_and_the_longest_is_not() {
    let tree = IndexTree::create(pool(4), HomeId(0), TreeId(1)).unwrap();
    let too_long = tree.insert(Near::Nowhere, (&[b'x'; KEY_BYTES_MAX + 1], RowId(1)), Keys::One);
    assert!(matches!(too_long, Err(Stop::Error(Error::KeyTooLong { bytes: 2001, .. }))));
    for row in 0..60 {
        let mut key = [b'x'; KEY_BYTES_MAX];
        key[KEY_BYTES_MAX - 1] = (row as u8).wrapping_mul(37);
        assert_eq!(tree.insert(Near::Nowhere, (&key, RowId(row)), Keys::One).unwrap(), Added::Yes);
    }
    assert_sound(&tree);
}

#[test]
fn bulk_load_builds_what_insertion_builds() {
    let mut random = fastrand::Rng::with_seed(seed());
    for count in [0, 1, 5, 700, 20_000] {
        for long in [false, true] {
            let mut model = Model::new();
            for _ in 0..count {
                let mut key = random_key(&mut random, long);
                key.insert(0, random.u8(..));
                model.insert((key, random.u64(0..1000)));
            }
            let pool = pool(256);
            let entries = model.iter().map(|(key, row)| (key, RowId(*row)));
            let tree = IndexTree::bulk_load(pool.clone(), HomeId(0), TreeId(3), Exact::No, entries)
                .unwrap();
            assert_sound(&tree);
            let direction = ScanDirection::Forward;
            let all = scan_all(&tree, Bound::Unbounded, Bound::Unbounded, direction, usize::MAX);
            assert!(all.into_iter().eq(model.iter().map(|(k, row)| (k.clone(), RowId(*row)))));
            for _ in 0..count.min(500) {
                let mut key = random_key(&mut random, long);
                key.insert(0, random.u8(..));
                tree.insert(Near::Nowhere, (&key, RowId(5)), Keys::One).unwrap();
            }
            assert_sound(&tree);
            tree.free().unwrap();
            assert_eq!(pool.stats().used, 0);
        }
    }
}

#[test]
fn bulk_load_gives_everything_back_when_it_fails() {
    let pool = pool(1);
    let many = (0..1_000_000_u64).map(|n| (n.to_be_bytes(), RowId(n)));
    let full = IndexTree::bulk_load(pool.clone(), HomeId(0), TreeId(3), Exact::No, many);
    assert!(matches!(full, Err(Error::OutOfMemory { .. })));
    assert_eq!(pool.stats().used, 0);
    for wrong in [[3_u64, 2], [2, 2]] {
        let entries = wrong.iter().map(|n| (n.to_be_bytes(), RowId(1)));
        let unsorted = IndexTree::bulk_load(pool.clone(), HomeId(0), TreeId(3), Exact::No, entries);
        assert!(matches!(unsorted, Err(Error::Internal { .. })));
        assert_eq!(pool.stats().used, 0);
    }
}

#[test]
fn bulk_loaded_leaves_are_ninety_percent_full() {
    let pool = pool(64);
    let entries = (0..300_000_u64).map(|n| (n.to_be_bytes(), RowId(n)));
    let tree =
        IndexTree::bulk_load(pool.clone(), HomeId(0), TreeId(3), Exact::No, entries).unwrap();
    let (mut leaves, mut room) = (0, 0);
    tree.trunk
        .check(&mut |leaf, _, _, _| {
            leaves += 1;
            room += keynode::room(leaf);
        })
        .unwrap();
    let full = 100 - 100 * room / (leaves * keynode::SPACE_BYTES);
    assert!((88..=91).contains(&full), "{full} percent of {leaves} leaves");
}

#[test]
fn the_exact_bit_is_set_by_a_sweep_and_cleared_by_changes() {
    let tree = IndexTree::create(pool(16), HomeId(0), TreeId(1)).unwrap();
    let key = |n: u64| n.to_be_bytes();
    for n in 0..3000 {
        tree.insert(Near::Nowhere, (&key(n * 2), RowId(n * 2)), Keys::One).unwrap();
    }
    let exact_at = |n: u64| {
        let mut batch = IndexBatch::with_limit(1);
        let key = key(n);
        let bound = Bound::Included(key.as_slice());
        tree.scan(bound, Bound::Unbounded, ScanDirection::Forward, &mut batch).unwrap();
        batch.is_exact()
    };
    let sweep = |undone: u64| {
        let mut from = Vec::new();
        let mut leaves = 0;
        loop {
            leaves += 1;
            let mut judge = |bytes: Option<&[u8]>, row: RowId| {
                assert!(bytes.is_none_or(|bytes| bytes == key(row.0)));
                Ok(if row.0 == undone { Judged::NotReady } else { Judged::Exact })
            };
            match tree.sweep_exact(&from, &mut judge).unwrap().next {
                Some(next) => from = next.key,
                None => return leaves,
            }
        }
    };
    assert!(!exact_at(0) && !exact_at(5998));
    assert!(sweep(0) > 3);
    assert!(!exact_at(0) && exact_at(5998));
    sweep(u64::MAX);
    assert!(exact_at(0) && exact_at(3000));
    tree.insert(Near::Nowhere, (&key(1), RowId(1)), Keys::One).unwrap();
    assert!(!exact_at(0), "adding an entry clears the bit");
    assert!(exact_at(3000));
    tree.clear_exact(&key(3000), RowId(3000), Keys::One).unwrap();
    assert!(!exact_at(3000));
    sweep(u64::MAX);
    tree.insert(Near::Nowhere, (&key(1), RowId(1)), Keys::One).unwrap();
    assert!(!exact_at(0), "adding it again clears the bit: its row has changed");
    let mut free = |_| Ok(Judgement::Free);
    assert!(exact_at(5000));
    tree.insert_unique(Near::Nowhere, (&key(5000), RowId(9)), Keys::One, &mut free).unwrap();
    assert!(!exact_at(5000));
}

#[test]
fn who_gives_a_row_another_key_clears_both_bits() {
    let tree = IndexTree::create(pool(16), HomeId(0), TreeId(1)).unwrap();
    let bits = || {
        let mut batch = IndexBatch::new();
        let (from, to) = (Bound::Unbounded, Bound::Unbounded);
        tree.scan(from, to, ScanDirection::Forward, &mut batch).unwrap();
        (batch.is_exact(), batch.keyed())
    };
    let given = std::cell::Cell::new(0);
    let sweep = || {
        let mut judge = |key: Option<&[u8]>, _| {
            given.set(given.get() + usize::from(key.is_some()));
            Ok(Judged::Exact)
        };
        tree.sweep_exact(&[], &mut judge).unwrap();
        assert_eq!(bits(), (true, Keyed::Yes));
    };
    let mut free = |_| Ok(Judgement::Free);
    for (key, keys, keyed) in [(b"a\0", Keys::One, Keyed::Yes), (b"b\0", Keys::Several, Keyed::No)]
    {
        tree.insert(Near::Nowhere, (key, RowId(1)), keys).unwrap();
        assert_eq!(bits(), (false, keyed));
        sweep();
        tree.insert_unique(Near::Nowhere, (key, RowId(2)), keys, &mut free).unwrap();
        assert_eq!(bits(), (false, keyed));
        sweep();
        tree.clear_exact(key, RowId(1), keys).unwrap();
        assert_eq!(bits(), (false, keyed));
        if keyed == Keyed::Yes {
            assert_eq!(given.get(), 0, "no key is looked at in a keyed leaf");
            // Of a leaf that is not exact, too.
            tree.clear_exact(key, RowId(1), Keys::Several).unwrap();
            assert_eq!(bits(), (false, Keyed::No));
        }
        sweep();
        assert!(given.get() > 0);
    }
}

#[test]
fn a_place_found_ahead_is_good_until_its_leaf_changes() {
    let tree = IndexTree::create(pool(16), HomeId(0), TreeId(1)).unwrap();
    let hints = LeafHints::new(16);
    for n in 0..3000_u64 {
        let key = n.to_be_bytes();
        tree.insert(Near::Hints(&hints), (&key, RowId(n)), Keys::One).unwrap();
    }
    let find = |key: &[u8]| {
        let mut rows = Vec::new();
        tree.point(Near::Hints(&hints), key, &mut rows).unwrap();
        let leaf = tree.prefetch_leaf(hints.prefetch_key(tree.tree(), key).get());
        match tree.find_ahead(leaf.expect("it was found there"), key) {
            FoundKey::Here(place) => Some(place),
            FoundKey::Several(_) | FoundKey::Undecided => None,
            FoundKey::Elsewhere => panic!("it was found there"),
        }
    };
    let key = |n: u64| n.to_be_bytes();
    for n in 0..3000 {
        assert_eq!(find(&key(n)).unwrap().row(), Some((RowId(n), Keyed::Yes)), "{n}");
    }
    assert!(find(&key(3000)).is_none(), "no such key");
    let (here, far) = (find(&key(5)).unwrap(), find(&key(2900)).unwrap());
    tree.insert(Near::Nowhere, (&key(5), RowId(9999)), Keys::One).unwrap();
    assert_eq!(here.row(), None, "another row has the key now");
    assert_eq!(far.row(), Some((RowId(2900), Keyed::Yes)), "in a leaf that is as it was");
    assert!(find(&key(5)).is_none(), "not the only one");
    tree.remove(&key(2900), RowId(2900), &mut || Ok(Keep::No)).unwrap();
    assert_eq!(far.row(), None);
}

#[test]
fn a_key_is_found_ahead_in_its_first_leaf_alone_and_only_if_it_has_one_row() {
    let tree = IndexTree::create(pool(16), HomeId(0), TreeId(1)).unwrap();
    let insert = |n: u64, row: u64| {
        tree.insert(Near::Nowhere, (&n.to_be_bytes(), RowId(row)), Keys::One).unwrap();
    };
    (0..3000).for_each(|n| insert(n, n));
    // One key goes on through several leaves, the last of which has others, too.
    (0..3000).for_each(|row| insert(1500, 10_000 + row));
    let first = |key: &[u8]| tree.first(Near::Nowhere, key).unwrap();
    assert_eq!(first(&1500_u64.to_be_bytes()), Some(RowId(1500)), "of several");
    assert_eq!(first(&512_u64.to_be_bytes()[..7]), Some(RowId(512)), "of keys that begin so");
    assert_eq!(first(&3000_u64.to_be_bytes()), None, "no such key");
    let mut batch = IndexBatch::new();
    let (mut from, mut leaves) = (Some(Vec::new()), 0);
    while let Some(start) = from {
        let bound = Bound::Included(start.as_slice());
        let next = tree.scan(bound, Bound::Unbounded, ScanDirection::Forward, &mut batch);
        let stamp = batch.stamp().unwrap();
        for n in 0..3000_u64 {
            let key = n.to_be_bytes();
            let is_its = stamp.lower <= key.as_slice()
                && stamp.upper.is_none_or(|upper| key.as_slice() < upper);
            match tree.find_ahead(stamp.frame, &key) {
                FoundKey::Here(place) => {
                    assert!(is_its && n != 1500, "{n}");
                    assert_eq!(place.row().unwrap().0, RowId(n));
                }
                // Where its last leaf begins, too, its own first row is not the first.
                FoundKey::Several(row) => {
                    assert!(is_its && n == 1500, "{n}");
                    assert_eq!(row, RowId(1500));
                }
                FoundKey::Undecided => panic!("{n}"),
                FoundKey::Elsewhere => assert!(!is_its, "{n}"),
            }
        }
        leaves += 1;
        from = next.unwrap().map(|next| next.key);
    }
    assert!(leaves > 8, "{leaves}");
}
