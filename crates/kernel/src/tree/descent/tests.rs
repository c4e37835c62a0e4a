//! The rare ways of a descent: evicted children, shared latches, parents that never rest.
#![expect(clippy::unwrap_used, reason = "clippy sees helpers here as no tests under cfg(all)")]

use std::cell::Cell;

use super::*;
use crate::base::Place;
use crate::latch::{OwnedPage, held_latches};
use crate::page::keynode::UpperFence;
use crate::sync::{AtomicBool, Ordering};

/// Splits a leaf without entries at a given separator.
struct At<'a>(&'a [u8]);

impl SplitLeaf for At<'_> {
    fn plan(&mut self, leaf: &PageWrite, separator: &mut Vec<u8>) -> SplitPlan {
        let node = KeyNode::new(leaf.owned());
        let mut lower = Vec::new();
        node.lower(&mut lower);
        if lower == self.0 {
            return SplitPlan::Leave;
        }
        separator.extend_from_slice(self.0);
        SplitPlan::Split
    }

    fn split(&mut self, left: &mut PageWrite, right: &mut PageWrite, separator: &[u8]) {
        let (mut lower, mut upper) = (Vec::new(), Vec::new());
        let node = KeyNode::new(left.owned());
        node.lower(&mut lower);
        let upper = (node.upper(&mut upper) == UpperFence::Some).then_some(upper);
        keynode::format_node(left.bytes_mut(), 0, &lower, Some(separator));
        keynode::format_node(right.bytes_mut(), 0, separator, upper.as_deref());
    }
}

const HOME: HomeId = HomeId(0);

/// A tree with a leaf for each of `count` keys of `len` bytes, and one before them.
fn tree(count: u32, len: usize) -> Trunk {
    let pool = BufferPool::new(1, 64 << 20).unwrap();
    let trunk = Trunk::create(pool, HOME, TreeId(4), PageKind::IndexLeaf, &mut |leaf| {
        keynode::format_node(leaf.bytes_mut(), 0, &[], None);
    });
    let trunk = trunk.unwrap();
    for n in 0..count {
        let key = key(n, len);
        trunk.split_leaf(HOME, Probe::before(&key), &mut At(&key)).unwrap();
    }
    trunk
}

fn key(n: u32, len: usize) -> Vec<u8> {
    let mut key = n.wrapping_mul(0x9e37_79b9).to_be_bytes().to_vec();
    key.resize(len, b'.');
    key
}

fn lower_of(leaf: &PageRead) -> Vec<u8> {
    let mut lower = Vec::new();
    KeyNode::new(leaf.racy()).lower(&mut lower);
    lower
}

fn assert_sound(trunk: &Trunk) {
    let problems = trunk.check(&mut |leaf, lower, upper, problems| {
        problems.extend(keynode::check(leaf));
        problems.extend(fence_problems(leaf, lower, upper));
    });
    assert_eq!(problems.unwrap(), Vec::<String>::new());
}

#[test]
fn every_separator_leads_to_its_leaf_from_both_sides_through_many_levels() {
    let trunk = tree(3000, 1500);
    assert_sound(&trunk);
    let root = PageShared::lock(trunk.root()).unwrap();
    assert!(KeyNode::new(OwnedPage(root.bytes())).level() >= 4, "long separators, many levels");
    drop(root);
    let mut sorted: Vec<_> = (0..3000).map(|n| key(n, 1500)).collect();
    sorted.sort();
    for (at, key) in sorted.iter().enumerate() {
        let lower = |place, side| trunk.read_leaf(place, side, |leaf| Ok(lower_of(leaf))).unwrap();
        assert_eq!(lower(Probe::before(key), Side::At), *key);
        assert_eq!(lower(Probe::after(key), Side::At), *key);
        assert_eq!(lower(Probe::after(key), Side::Before), *key);
        let before = at.checked_sub(1).map_or(&[][..], |at| &sorted[at]);
        assert_eq!(lower(Probe::before(key), Side::Before), before);
    }
    assert_eq!(held_latches(), 0);
}

#[test]
fn a_read_that_never_validates_is_done_under_a_shared_latch() {
    let trunk = tree(20, 8);
    let place = key(7, 8);
    for refused in [1, OPTIMISTIC_TRIES - 1, OPTIMISTIC_TRIES, OPTIMISTIC_TRIES + 2] {
        let tries = Cell::new(0);
        let answer = trunk.read_leaf(Probe::before(&place), Side::At, |leaf| {
            tries.set(tries.get() + 1);
            if tries.get() <= refused {
                return Err(Stop::Retry);
            }
            Ok((lower_of(leaf), held_latches()))
        });
        let is_shared = (refused >= OPTIMISTIC_TRIES) as u32;
        assert_eq!(answer.unwrap(), (place.clone(), is_shared));
    }
    let never: Outcome<()> = trunk.read_leaf(Probe::before(&place), Side::At, |_| Err(Stop::Retry));
    assert!(matches!(never, Err(Stop::Retry)));
    assert_eq!(held_latches(), 0);
}

#[test]
fn an_evicted_child_is_asked_for_with_nothing_held() {
    let trunk = tree(1, 8);
    let gone = Place::new(HOME, 77);
    let place = key(0, 8);
    {
        let mut root = PageWrite::lock(trunk.root()).unwrap();
        let bytes = root.bytes_mut();
        keynode::remove(bytes, 1);
        keynode::insert(bytes, 1, &place, Swip::evicted(gone).raw()).unwrap();
    }
    let is_need = |stop: Stop| matches!(stop, Stop::NeedPage(page) if page.place == gone);
    let place = Probe::before(&place);
    assert!(is_need(trunk.read_leaf(place, Side::At, |_| Ok(())).unwrap_err()));
    assert!(is_need(trunk.write_leaf(place).unwrap_err()));
    assert!(is_need(trunk.split_leaf(HOME, place, &mut At(b"zzzz")).unwrap_err()));
    assert_eq!(held_latches(), 0);
    assert!(trunk.read_leaf(Probe::MIN, Side::At, |_| Ok(())).is_ok());
}

#[test]
fn writers_get_their_leaf_though_the_parent_never_rests() {
    let trunk = tree(20, 8);
    let going = AtomicBool::new(true);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while going.load(Ordering::Acquire) {
                if let Ok(root) = PageWrite::lock(trunk.root()) {
                    drop(root);
                }
            }
        });
        for n in 0..4000 {
            let place = key(n % 20, 8);
            let leaf = loop {
                match trunk.write_leaf(Probe::before(&place)) {
                    Err(Stop::Retry) => std::thread::yield_now(),
                    done => break done.unwrap(),
                }
            };
            let mut lower = Vec::new();
            KeyNode::new(leaf.owned()).lower(&mut lower);
            assert_eq!(lower, place);
        }
        going.store(false, Ordering::Release);
    });
    assert_sound(&trunk);
}
