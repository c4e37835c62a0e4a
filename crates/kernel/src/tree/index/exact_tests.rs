//! Leaves that are not exact are always within a range that somebody was told to sweep.

#![expect(clippy::unwrap_used, reason = "clippy sees helpers here as no tests under cfg(all)")]

use super::tests::{assert_sound, pool, seed};
use super::*;

fn key(n: u64) -> Vec<u8> {
    let mut key = n.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_be_bytes().to_vec();
    key.resize(100 + n as usize % 90, b'k');
    key
}

/// The lower fences of all leaves, with their bits.
fn leaves(tree: &IndexTree) -> Vec<(Vec<u8>, bool)> {
    let mut found = Vec::new();
    let mut from = Vec::new();
    loop {
        let mut batch = IndexBatch::with_limit(1);
        let bound = std::ops::Bound::Included(from.as_slice());
        let all = std::ops::Bound::Unbounded;
        tree.scan(bound, all, ScanDirection::Forward, &mut batch).unwrap();
        found.push((from.clone(), batch.is_exact()));
        match batch.stamp().unwrap().upper {
            Some(upper) => from = upper.to_vec(),
            None => return found,
        }
    }
}

/// Sweeps a range; entries of rows in `unsettled` are not exact.
fn sweep(tree: &IndexTree, span: &KeySpan, unsettled: &dyn Fn(RowId) -> bool) {
    let mut at = span.from.clone();
    loop {
        let mut judge = |bytes: Option<&[u8]>, row: RowId| {
            assert!(bytes.is_none_or(|bytes| bytes == key(row.0)));
            Ok(if unsettled(row) { Exact::No } else { Exact::Yes })
        };
        let swept = tree.sweep_exact(&at, &mut judge).unwrap();
        match swept.next {
            Some(next) if span.to.as_ref().is_none_or(|to| next.key < *to) => at = next.key,
            _ => return,
        }
    }
}

#[test]
fn what_is_swept_covers_every_leaf_without_the_bit() {
    let mut random = fastrand::Rng::with_seed(seed());
    let tree = IndexTree::create(pool(64), HomeId(0), TreeId(9)).unwrap();
    assert_eq!(leaves(&tree), [(Vec::new(), true)], "an empty leaf is exact");
    let mut noted: Vec<KeySpan> = Vec::new();
    let (mut cleared, mut merged, mut exact) = (0, 0, 0);
    for round in 0..400_u64 {
        // Grows, shrinks, grows again.
        let adding = if round / 80 % 2 == 0 { 8 } else { 1 };
        let before = leaves(&tree).len();
        for _ in 0..random.usize(1..200) {
            let n = random.u64(0..3000);
            match random.u8(0..11) {
                choice if choice < adding => {
                    assert!(tree.insert(Near::Nowhere, (&key(n), RowId(n)), Keys::One).is_ok())
                }
                10 => tree.clear_exact(&key(n), RowId(n), Keys::One).unwrap(),
                _ => assert!(tree.remove(&key(n), RowId(n), &mut || Ok(Keep::No)).is_ok()),
            }
            if random.bool() {
                noted.extend(tree.take_cleared());
            }
        }
        merged += usize::from(leaves(&tree).len() < before);
        noted.extend(tree.take_cleared());
        assert_eq!(tree.take_cleared(), []);
        let is_noted = |lower: &[u8]| {
            let covers = |span: &KeySpan| {
                *span.from <= *lower && span.to.as_ref().is_none_or(|to| *lower < **to)
            };
            noted.iter().any(covers)
        };
        for (lower, is_exact) in leaves(&tree) {
            assert!(is_exact || is_noted(&lower), "round {round}: {lower:?} was forgotten");
            cleared += usize::from(!is_exact);
        }
        // Some ranges are swept while some rows are in flight, and kept if they are not ready.
        if random.u8(0..4) == 0 {
            let modulus = random.u64(2..60);
            let unsettled = |row: RowId| row.0.is_multiple_of(modulus);
            let tried = noted.split_off(random.usize(0..=noted.len()));
            for span in &tried {
                sweep(&tree, span, &unsettled);
            }
            noted.extend(tried);
        }
        if random.u8(0..6) == 0 {
            for span in std::mem::take(&mut noted) {
                sweep(&tree, &span, &|_| false);
            }
            let all = leaves(&tree);
            assert!(all.iter().all(|(_, is_exact)| *is_exact), "round {round}");
            exact += all.len();
        }
    }
    assert_sound(&tree);
    assert!(cleared > 500 && merged > 3 && exact > 500, "{cleared} {merged} {exact}");
}
