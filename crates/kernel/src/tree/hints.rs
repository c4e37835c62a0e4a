//! Where leaves were found last: an instance that has looked something up often looks it up, or its
//! neighbour, again, and need not descend from the root then (rule 5.2's validated cached position,
//! for every look-up).
//!
//! Invariants: a [`LeafHint`] is a guess and never more. Whoever takes it checks, under the version
//! or the latch with which the page is then used, that the page is a leaf of the tree and that its
//! fences cover what is looked for: frames are never unmapped, and such a page is what a descent
//! would have found. (So no PID is kept: it would tell nothing, PIDs are given again.) A hint holds
//! nothing and may be kept over waits. Hints are an instance's own: neither shared nor waited for.

use std::cell::Cell;
use std::ops::RangeInclusive;

use super::guesses::RowGuesses;
use crate::base::{PAGE_BYTES, RowId, TreeId};
use crate::buffer::{FrameRef, PageRead, PageWrite};
use crate::latch::{PageBytes, prefetch_line};
use crate::page::{PageKind, header};

/// Where something was found last; all zero bytes: nowhere.
#[derive(Clone, Copy, Debug, Default, bytemuck::Zeroable)]
pub struct LeafHint {
    frame: Option<FrameRef>,
    tree: TreeId,
}

impl LeafHint {
    /// The leaf of `tree` in this frame.
    #[inline]
    pub(super) fn new(tree: TreeId, frame: FrameRef) -> LeafHint {
        LeafHint { frame: Some(frame), tree }
    }

    /// The frame, if the leaf is in `tree`.
    #[inline]
    pub(super) fn frame(&self, tree: TreeId) -> Option<FrameRef> {
        self.frame.filter(|_| self.tree == tree)
    }

    /// Asks for the cache lines of the frame's header and of the leaf's first `bytes`.
    #[inline]
    pub(super) fn prefetch(&self, tree: TreeId, bytes: usize) -> Option<FrameRef> {
        let frame = self.frame(tree)?;
        frame.prefetch(bytes);
        Some(frame)
    }
}

/// Whether the page is a leaf of `tree`, of this kind.
#[inline]
pub(super) fn is_leaf(page: impl PageBytes, tree: TreeId, kind: PageKind) -> bool {
    header::kind(page) == Some(kind) && header::tree(page) == tree
}

/// Begins a read of the hinted page, if it looks like a leaf of the tree.
#[inline]
#[cfg_attr(feature = "ledger", track_caller)]
pub(super) fn begin(hint: LeafHint, tree: TreeId, kind: PageKind) -> Option<PageRead> {
    let page = PageRead::begin(hint.frame(tree)?).ok()?;
    is_leaf(page.racy(), tree, kind).then_some(page)
}

/// Takes a page exclusively as it was read, without waiting.
#[inline]
pub(super) fn upgrade(page: PageRead) -> Option<PageWrite> {
    page.upgrade().ok()
}

/// Consecutive rows that share a hint: fewer than most leaves hold, so most hints are right.
const ROWS_LOG2: u32 = 4;
/// Places that follow each other for numbers that do: a kilobyte, so that what is used together lies in few
/// cache lines and pages.
const RUN_LOG2: u32 = 6;
/// The part of the pool's memory that all instances' hints and guesses may take, and what an instance has
/// of each at least and at most.
const POOL_PART: usize = 64;
const PLACES_LOG2: RangeInclusive<u32> = 10..=20;
const MIX: u64 = 0x9e37_79b9_7f4a_7c15;

/// What the bytes of a tree's key are by number: that of the last eight of them, and where those of their
/// beginning begin.
#[inline]
pub(super) fn numbered(tree: TreeId, bytes: &[u8]) -> (u64, u64) {
    let (head, tail) = bytes.split_at(bytes.len().saturating_sub(8));
    let number_of = |bytes: &[u8]| bytes.iter().fold(0, |sum, byte| sum << 8 | u64::from(*byte));
    let number =
        tail.first_chunk().map_or_else(|| number_of(tail), |tail| u64::from_be_bytes(*tail));
    let mut beginning = u64::from(tree.0);
    let mut words = head.chunks_exact(8);
    for word in &mut words {
        let word = word.first_chunk().map_or(0, |word| u64::from_le_bytes(*word));
        beginning = (beginning ^ word).wrapping_mul(MIX).rotate_left(29);
    }
    (beginning_of(beginning ^ number_of(words.remainder())), number)
}

/// Where the numbers of a tree begin, or those behind the beginning of a key.
#[inline]
fn beginning_of(whole: u64) -> u64 {
    let mixed = whole.wrapping_mul(MIX);
    (mixed ^ (mixed >> 32)).wrapping_mul(MIX)
}

/// The place, of `1 << log2`, of a number behind a beginning, and a hash that others that share it do not
/// have, most likely.
///
/// Consecutive numbers have a place each as long as there are so many: those of a run follow each other, and
/// the golden ratio spreads the runs evenly (Knuth, The Art of Computer Programming, volume 3, section 6.4).
/// Beginnings, and trees, are spread at random.
#[inline]
pub(super) fn place_of((beginning, number): (u64, u64), log2: u32) -> (usize, u64) {
    let run = RUN_LOG2.min(log2);
    let hash = beginning.wrapping_add(number >> run).wrapping_mul(MIX);
    let within = (1 << run) - 1;
    ((hash >> (64 - log2)) as usize & !within | number as usize & within, hash)
}

/// Where an instance has found leaves of all its trees: of those that share a place in here, the
/// one that was used last.
pub struct LeafHints {
    hints: Box<[Cell<LeafHint>]>,
    log2: u32,
    /// Which rows have which keys, most likely.
    pub guesses: RowGuesses,
}

impl LeafHints {
    /// `1 << log2` hints, at least four. Memory is taken from the system when it is used.
    pub fn new(log2: u32) -> LeafHints {
        let hints = bytemuck::zeroed_slice_box(1 << log2);
        LeafHints { hints, log2, guesses: RowGuesses::new(log2) }
    }

    /// As many as are worth it for one of so many instances that use a pool of so many frames.
    pub fn of_pool(frames: usize, instances: usize) -> LeafHints {
        let bytes = frames * PAGE_BYTES / POOL_PART / instances.max(1);
        let places = bytes / (size_of::<LeafHint>() + RowGuesses::BYTES_EACH);
        LeafHints::new(places.max(1).ilog2().clamp(*PLACES_LOG2.start(), *PLACES_LOG2.end()))
    }

    /// Of a row and its neighbours; those behind are in the same cache line, mostly.
    #[inline]
    pub fn of_row(&self, tree: TreeId, row: RowId) -> &Cell<LeafHint> {
        self.at((beginning_of(u64::from(tree.0)), row.0 >> ROWS_LOG2))
    }

    /// Notes that these rows of a leaf, in the order of their ids, are where the first of them is.
    #[inline]
    pub fn follow(&self, tree: TreeId, rows: &[RowId]) {
        let [first, ..] = rows else { return };
        let (hint, mut group) = (self.of_row(tree, *first).get(), first.0 >> ROWS_LOG2);
        for row in rows {
            if row.0 >> ROWS_LOG2 != group {
                group = row.0 >> ROWS_LOG2;
                self.of_row(tree, *row).set(hint);
            }
        }
    }

    /// Of an index key and those that differ in the last byte only: 256 consecutive numbers.
    #[inline]
    pub(super) fn of_key(&self, tree: TreeId, key: &[u8]) -> &Cell<LeafHint> {
        self.of_bytes(tree, &key[..key.len().saturating_sub(1)])
    }

    /// Of an index key and those that differ in the last five bytes only: where what ascends in
    /// the number before the last (a next order's first line) was put lately.
    #[inline]
    pub(super) fn of_keys_about(&self, tree: TreeId, key: &[u8]) -> &Cell<LeafHint> {
        self.of_bytes(tree, &key[..key.len().saturating_sub(5)])
    }

    #[inline]
    fn of_bytes(&self, tree: TreeId, bytes: &[u8]) -> &Cell<LeafHint> {
        self.at(numbered(tree, bytes))
    }

    /// As `of_key`; asks for its cache line.
    #[inline]
    pub fn prefetch_key(&self, tree: TreeId, key: &[u8]) -> &Cell<LeafHint> {
        let hint = self.of_key(tree, key);
        prefetch_line(hint.as_ptr());
        hint
    }

    /// As `of_row`; asks for its cache line.
    #[inline]
    pub fn prefetch_row(&self, tree: TreeId, row: RowId) -> &Cell<LeafHint> {
        let hint = self.of_row(tree, row);
        prefetch_line(hint.as_ptr());
        hint
    }

    #[inline]
    fn at(&self, numbered: (u64, u64)) -> &Cell<LeafHint> {
        &self.hints[place_of(numbered, self.log2).0]
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn a_pool_has_a_64th_of_its_memory_in_hints_and_guesses_within_bounds() {
        let places = |mib: usize, instances| {
            LeafHints::of_pool((mib << 20) / PAGE_BYTES, instances).hints.len()
        };
        assert_eq!(size_of::<LeafHint>() + RowGuesses::BYTES_EACH, 32);
        assert_eq!((places(1 << 10, 2), places(1 << 12, 2)), (1 << 18, 1 << 20));
        assert_eq!((places(1, 2), places(1 << 20, 2)), (1 << 10, 1 << 20));
        assert_eq!(places(1 << 18, 128), 1 << 20);
    }

    #[test]
    fn rows_and_keys_that_follow_each_other_have_a_hint_each() {
        let hints = LeafHints::new(12);
        let row = |number| hints.of_row(TreeId(7), RowId(number)).as_ptr();
        assert_eq!(row(0x5000), row(0x500f));
        assert_eq!(row(0x5010), row(0x500f).wrapping_add(1));
        let rows: HashSet<_> = (0..1 << 11).map(|group| row(group << ROWS_LOG2)).collect();
        assert_eq!(rows.len(), 1 << 11);
        let key = |group: u32| hints.of_key(TreeId(8), &(group << 8).to_be_bytes()).as_ptr();
        let keys: HashSet<_> = (0..1 << 11).map(key).collect();
        assert_eq!(keys.len(), 1 << 11);
    }
}
