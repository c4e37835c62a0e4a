//! Scans of index trees: batches, where they begin and go on, what they say of their leaves.

use std::ops::Bound;

use super::tests::{assert_sound, done, pool, scan_all, seed};
use super::*;

#[test]
fn scans_pass_leaves_that_are_empty() {
    let tree = IndexTree::create(pool(16), HomeId(0), TreeId(1)).unwrap();
    let key = |n: u64| n.to_be_bytes().to_vec();
    for n in 0..5000 {
        tree.insert(Near::Nowhere, (&key(n), RowId(n)), Keys::One).unwrap();
    }
    for n in 1000..4000 {
        tree.remove(&key(n), RowId(n), &mut || Ok(Keep::No)).unwrap();
    }
    let expected: Vec<_> = (0..1000).chain(4000..5000).map(|n| (key(n), RowId(n))).collect();
    for direction in [ScanDirection::Forward, ScanDirection::Backward] {
        let mut all = scan_all(&tree, Bound::Unbounded, Bound::Unbounded, direction, usize::MAX);
        if direction == ScanDirection::Backward {
            all.reverse();
        }
        assert_eq!(all, expected);
    }
}

/// Each batch begins in the leaf of the one before it, as a cursor's do; leaves split in between.
#[test]
fn a_scan_goes_on_in_the_leaf_where_it_was() {
    let tree = IndexTree::create(pool(16), HomeId(0), TreeId(1)).unwrap();
    let key = |n: u64| [&n.to_be_bytes()[..], b"\0"].concat();
    let mut random = fastrand::Rng::with_seed(seed());
    let insert = |n: u64| {
        tree.insert(Near::Nowhere, (&key(n), RowId(n)), Keys::One).unwrap();
    };
    (0..20_000).step_by(2).for_each(insert);
    let mut batch = IndexBatch::with_limit(1);
    let (mut from, mut found, mut frames) = (key(0), Vec::new(), 1);
    loop {
        let last = batch.stamp().map(|leaf| leaf.frame);
        let near = last.map_or(Near::Nowhere, Near::Leaf);
        batch.set_limit(random.usize(1..300));
        let bounds = (Bound::Included(&from[..]), Bound::Unbounded);
        let goes_on = done(|| tree.scan_near(near, bounds, ScanDirection::Forward, &mut batch));
        frames += usize::from(batch.stamp().map(|leaf| leaf.frame) != last);
        found.extend(batch.rows().iter().map(|row| row.0).filter(|row| row % 2 == 0));
        let Some(place) = goes_on else { break };
        from = place.key;
        for _ in 0..random.usize(0..200) {
            insert(random.u64(0..10_000) * 2 + 1);
        }
    }
    assert!(found.into_iter().eq((0..20_000).step_by(2)));
    assert!(frames > 20, "{frames} leaves");
    assert_sound(&tree);
}

#[test]
fn a_scan_takes_the_keys_that_somebody_will_look_at() {
    let tree = IndexTree::create(pool(16), HomeId(0), TreeId(1)).unwrap();
    let key = |n: u64| n.to_be_bytes();
    let insert = |n: u64, keys| {
        tree.insert(Near::Nowhere, (&key(n), RowId(n)), keys).unwrap();
    };
    (0..2000).for_each(|n| insert(n, Keys::One));
    tree.sweep_exact(&[], &mut |_, _| Ok(Judged::Exact)).unwrap();
    // The first leaf is exact, the last but keyed, and one in the middle not even that.
    insert(2000, Keys::One);
    tree.clear_exact(&key(1000), RowId(1000), Keys::Several).unwrap();
    let all: Vec<u64> = (0..=2000).collect();
    for (wanted, direction) in [KeysWanted::All, KeysWanted::OfExactLeaves, KeysWanted::Fewest]
        .into_iter()
        .flat_map(|wanted| [(wanted, ScanDirection::Forward), (wanted, ScanDirection::Backward)])
    {
        let (mut from, mut to) = (Bound::Unbounded, Bound::Unbounded);
        let mut batch = IndexBatch::new();
        batch.begin_anew(7, wanted);
        let (mut rows, mut taken) = (Vec::new(), [false; 3]);
        loop {
            let bounds = (from.as_ref().map(Vec::as_slice), to.as_ref().map(Vec::as_slice));
            let next = tree.scan(bounds.0, bounds.1, direction, &mut batch).unwrap();
            for at in 0..batch.len() {
                let row = batch.row(at).0;
                rows.push(row);
                assert!(batch.key(at).is_empty() || batch.key(at) == key(row), "{row}");
                let leaf = match (batch.is_exact(), batch.keyed()) {
                    (true, _) => 0,
                    (false, Keyed::Yes) => 1,
                    (false, Keyed::No) => 2,
                };
                taken[leaf] = !batch.key(at).is_empty();
            }
            match (next, direction) {
                (None, _) => break,
                (Some(next), ScanDirection::Forward) => from = Bound::Included(next.key),
                (Some(next), ScanDirection::Backward) => to = Bound::Excluded(next.key),
            }
        }
        rows.sort_unstable();
        assert_eq!(rows, all, "{wanted:?} {direction:?}");
        let expect = match wanted {
            KeysWanted::All => [true, true, true],
            KeysWanted::OfExactLeaves => [true, false, true],
            KeysWanted::Fewest => [false, false, true],
        };
        assert_eq!(taken, expect, "{wanted:?} {direction:?}");
    }
}

#[test]
fn a_stamp_names_the_leaf_and_its_version() {
    let tree = IndexTree::create(pool(16), HomeId(0), TreeId(1)).unwrap();
    for n in 0..3000_u64 {
        tree.insert(Near::Nowhere, (&n.to_be_bytes(), RowId(n)), Keys::One).unwrap();
    }
    let mut batch = IndexBatch::new();
    let from = 1500_u64.to_be_bytes();
    let from = Bound::Included(from.as_slice());
    let scan = |batch: &mut IndexBatch| {
        let next = tree.scan(from, Bound::Unbounded, ScanDirection::Forward, batch).unwrap();
        let stamp = batch.stamp().unwrap();
        assert_eq!(next.unwrap().key, stamp.upper.unwrap());
        assert!(stamp.lower <= 1500_u64.to_be_bytes().as_slice());
        (stamp.pid, stamp.frame, stamp.version)
    };
    let first = scan(&mut batch);
    assert_eq!(first, scan(&mut batch), "reading changes nothing");
    tree.remove(b"none\0", RowId(3), &mut || Ok(Keep::No)).unwrap();
    tree.remove(&1600_u64.to_be_bytes(), RowId(1600), &mut || Ok(Keep::Yes)).unwrap();
    assert_eq!(first, scan(&mut batch), "nor does a change that did not happen");
    tree.remove(&1600_u64.to_be_bytes(), RowId(1600), &mut || Ok(Keep::No)).unwrap();
    let second = scan(&mut batch);
    assert_eq!((first.0, first.1), (second.0, second.1));
    assert!(second.2.number() > first.2.number());
}
