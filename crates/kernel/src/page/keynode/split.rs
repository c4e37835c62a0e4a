//! Where and how a node splits.
//!
//! Invariants: the separator is above every key that stays and not above any that moves, above
//! the lower and below the upper fence; of a leaf it is as short as it can be (suffix truncation),
//! of an inner node it is the first key that moves. After a split of a node that is too full for
//! a key, a second attempt finds room, at the latest after one more split.

use std::ops::RangeInclusive;

use crate::base::PAGE_BYTES;
use crate::latch::OwnedPage;

use super::change::{Run, lower_slice, rebuild, upper_slice};
use super::{KeyNode, SLOT_BYTES, SPACE_BYTES, common_prefix};

/// Insertions in a row that make a node expect more of them.
const RUN_MIN: u16 = 8;

/// Where a node splits: keys from this slot on move right.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SplitPoint(pub usize);

/// Chooses where to split so that `incoming`, which is not in the node and does not fit, will;
/// writes the separator. `None` if the node has too few keys to split (it then has room).
///
/// In the middle by bytes, within some slots of it where the separator is shortest; but behind
/// the latest insertion if insertions have been going one behind the other: ascending keys, also
/// of one group among others, leave full nodes behind.
pub fn choose_split(
    page: &[u8; PAGE_BYTES],
    incoming: &[u8],
    separator: &mut Vec<u8>,
) -> Option<SplitPoint> {
    let node = KeyNode::new(OwnedPage(page));
    let count = node.count();
    separator.clear();
    if count < 2 {
        return None;
    }
    let sizes = Sizes::of(&node, page);
    let run = Run::of(page);
    let place = node.find(incoming).unwrap_or_else(|place| place);
    if run.length >= RUN_MIN
        && place == run.slot + 1
        && let Some(at) = split_behind_run(&node, &sizes, place, incoming, separator)
    {
        return Some(at);
    }
    let at = middle(&node, &sizes);
    separator_at(&node, at, separator);
    Some(SplitPoint(at))
}

/// Splits where the next key goes, or a little before: a separator takes room that its node did
/// not need before, and a full node has none.
fn split_behind_run(
    node: &KeyNode<OwnedPage<'_>>,
    sizes: &Sizes,
    place: usize,
    incoming: &[u8],
    separator: &mut Vec<u8>,
) -> Option<SplitPoint> {
    let count = node.count();
    if place == count && !node.is_inner() {
        // Nothing moves; the new key begins the right node.
        let mut last = Vec::new();
        node.key(count - 1, &mut last);
        shortest_separator(&last, incoming, separator);
        if sizes.fit(count, separator.len()) {
            return Some(SplitPoint(count));
        }
        separator.clear();
    }
    let at = place.clamp(1, count - 1);
    let low = if node.is_inner() { at } else { at.saturating_sub(window(count)).max(1) };
    let at = shortest(node, sizes, low..=at, at)?;
    separator_at(node, at, separator);
    Some(SplitPoint(at))
}

/// What nodes would hold, without the longer prefixes that they might get.
struct Sizes {
    /// Bytes of slots and heap of all slots before each one; one more entry than slots.
    before: Vec<usize>,
    lower: usize,
    upper: usize,
}

impl Sizes {
    fn of(node: &KeyNode<OwnedPage<'_>>, page: &[u8; PAGE_BYTES]) -> Sizes {
        let mut before = vec![0];
        let mut sum = 0;
        before.extend((0..node.count()).map(|at| {
            sum += node.heap_bytes(at) + SLOT_BYTES;
            sum
        }));
        let upper = upper_slice(page).map_or(0, <[u8]>::len);
        Sizes { before, lower: lower_slice(page).len(), upper }
    }

    fn total(&self) -> usize {
        self.before[self.before.len() - 1]
    }

    /// Whether both nodes fit their pages after a split at slot `at`.
    fn fit(&self, at: usize, separator: usize) -> bool {
        let (left, right) = (self.before[at], self.total() - self.before[at]);
        left + self.lower + separator <= SPACE_BYTES
            && right + self.upper + separator <= SPACE_BYTES
    }
}

/// Writes the separator of a split at slot `at`, which has a slot before it.
fn separator_at(node: &KeyNode<OwnedPage<'_>>, at: usize, separator: &mut Vec<u8>) {
    if node.is_inner() {
        node.key(at, separator);
        return;
    }
    let (mut last, mut first) = (Vec::new(), Vec::new());
    node.key(at - 1, &mut last);
    node.key(at, &mut first);
    shortest_separator(&last, &first, separator);
}

/// Appends the shortest string above `low` and not above `high`, which is above `low`.
pub fn shortest_separator(low: &[u8], high: &[u8], out: &mut Vec<u8>) {
    let len = common_prefix(low, high) + 1;
    out.extend_from_slice(&high[..len.min(high.len())]);
}

/// So many slots to a side are looked at for a shorter separator.
fn window(count: usize) -> usize {
    count / 32
}

/// The slot in the middle by bytes, or one near it with a shorter separator. The middle itself
/// always fits: half of a page, one key, an old and a new fence of the longest are less than one.
fn middle(node: &KeyNode<OwnedPage<'_>>, sizes: &Sizes) -> usize {
    let count = node.count();
    let at = sizes.before.partition_point(|before| *before < sizes.total() / 2);
    let at = at.clamp(1, count - 1);
    if node.is_inner() {
        return at;
    }
    let (low, high) =
        (at.saturating_sub(window(count)).max(1), (at + window(count)).min(count - 1));
    shortest(node, sizes, low..=high, at).unwrap_or(at)
}

/// Which of these slots has the shortest separator, of several the one nearest to `near`; none if
/// the nodes would not fit their pages after a split at any of them.
fn shortest(
    node: &KeyNode<OwnedPage<'_>>,
    sizes: &Sizes,
    slots: RangeInclusive<usize>,
    near: usize,
) -> Option<usize> {
    let mut separator = Vec::new();
    let mut best = None;
    for slot in slots {
        separator.clear();
        separator_at(node, slot, &mut separator);
        let is = (separator.len(), slot.abs_diff(near), slot);
        if best.is_none_or(|best| is < best) && sizes.fit(slot, separator.len()) {
            best = Some(is);
        }
    }
    best.map(|(_, _, slot)| slot)
}

/// Moves the keys from slot `at` on into `right`, a freshly formatted page of the same kind, and
/// sets the fences of both. `separator` is what [`choose_split`] wrote. A run of insertions goes on
/// in the node that has the latest of them.
pub fn split(
    left: &mut [u8; PAGE_BYTES],
    right: &mut [u8; PAGE_BYTES],
    at: SplitPoint,
    separator: &[u8],
) {
    let source = *left;
    let run = Run::of(&source);
    let count = KeyNode::new(OwnedPage(&source)).count();
    let (lower, upper) = (lower_slice(&source), upper_slice(&source));
    rebuild(right, &source, at.0..count, separator, upper);
    rebuild(left, &source, 0..at.0, lower, Some(separator));
    match run.slot.checked_sub(at.0) {
        Some(slot) if slot < count - at.0 => Run { slot, ..run }.put(right),
        Some(_) => {}
        None => run.put(left),
    }
}
