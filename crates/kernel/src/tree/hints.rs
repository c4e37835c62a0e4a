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

use super::guesses::RowGuesses;
use crate::base::{RowId, TreeId};
use crate::buffer::{FrameRef, PageRead, PageWrite};
use crate::latch::{PageBytes, prefetch_line};
use crate::page::{PageKind, header};

/// Where something was found last.
#[derive(Clone, Copy, Debug, Default)]
pub struct LeafHint(Option<(TreeId, FrameRef)>);

impl LeafHint {
    /// The leaf of `tree` in this frame.
    #[inline]
    pub(super) fn new(tree: TreeId, frame: FrameRef) -> LeafHint {
        LeafHint(Some((tree, frame)))
    }

    /// The frame, if the leaf is in `tree`.
    #[inline]
    pub(super) fn frame(&self, tree: TreeId) -> Option<FrameRef> {
        self.0.filter(|place| place.0 == tree).map(|place| place.1)
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
/// Hints that an instance keeps, of 16 bytes each.
const HINTS_LOG2: u32 = 16;
const MIX: u64 = 0x9e37_79b9_7f4a_7c15;

/// What the bytes of a tree's key are by number: that of the last eight of them, and where those of their
/// beginning begin.
///
/// So `hash_of(beginning + number)` gives consecutive numbers a place each, as long as there are so many
/// places: the golden ratio spreads them evenly (Knuth, The Art of Computer Programming, volume 3, section
/// 6.4). Beginnings, and trees, are spread at random.
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

/// Of a number, with its best bits at the top.
#[inline]
pub(super) fn hash_of(number: u64) -> u64 {
    number.wrapping_mul(MIX)
}

/// The place, of `1 << log2`, of what has this number among four that follow each other and share this hash,
/// and a cache line.
#[inline]
pub(super) fn place_of_four(hash: u64, log2: u32, number: u64) -> usize {
    ((hash >> (64 - log2)) as usize & !3) | (number as usize & 3)
}

/// Where an instance has found leaves of all its trees: of those that share a place in here, the
/// one that was used last.
pub struct LeafHints {
    hints: Box<[Cell<LeafHint>]>,
    log2: u32,
    /// Which rows have which keys, most likely.
    pub guesses: RowGuesses,
}

impl Default for LeafHints {
    fn default() -> LeafHints {
        LeafHints::new(HINTS_LOG2)
    }
}

impl LeafHints {
    /// `1 << log2` hints, at least four.
    pub fn new(log2: u32) -> LeafHints {
        let hints = (0..1 << log2).map(|_| Cell::default()).collect();
        LeafHints { hints, log2, guesses: RowGuesses::new(log2) }
    }

    /// Of a row and its neighbours; those behind are in the same cache line.
    #[inline]
    pub fn of_row(&self, tree: TreeId, row: RowId) -> &Cell<LeafHint> {
        let group = row.0 >> ROWS_LOG2;
        let hash = hash_of(beginning_of(u64::from(tree.0)).wrapping_add(group / 4));
        &self.hints[place_of_four(hash, self.log2, group)]
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
        let (beginning, number) = numbered(tree, bytes);
        self.at(hash_of(beginning.wrapping_add(number)))
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
    fn at(&self, hash: u64) -> &Cell<LeafHint> {
        &self.hints[(hash >> (64 - self.log2)) as usize]
    }
}
