//! Where and how a node splits.
//!
//! Invariants: the separator is above every key that stays and not above any that moves, above
//! the lower and below the upper fence; of a leaf it is as short as it can be (suffix truncation),
//! of an inner node it is the first key that moves. After a split of a node that is too full for
//! a key, a second attempt finds room, at the latest after one more split.

use crate::base::PAGE_BYTES;
use crate::latch::OwnedPage;
use crate::latch::PageBytes;

use super::change::{lower_slice, rebuild, upper_slice};
use super::{AT_RUN, AT_RUN_SLOT, KeyNode, SLOT_BYTES, common_prefix};

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
    let ascending = OwnedPage(page).u16(AT_RUN) >= RUN_MIN;
    let behind_latest = OwnedPage(page).u16(AT_RUN_SLOT) as usize + 1;
    let place = node.find(incoming).unwrap_or_else(|place| place);
    if ascending && place == behind_latest && place == count && !node.is_inner() {
        // Nothing moves; the new key begins the right node.
        let mut last = Vec::new();
        node.key(count - 1, &mut last);
        shortest_separator(&last, incoming, separator);
        return Some(SplitPoint(count));
    }
    let at = if ascending && place == behind_latest {
        place.clamp(1, count - 1)
    } else {
        middle(&node, count)
    };
    let mut first = Vec::new();
    node.key(at, &mut first);
    if node.is_inner() {
        separator.append(&mut first);
    } else {
        let mut last = Vec::new();
        node.key(at - 1, &mut last);
        shortest_separator(&last, &first, separator);
    }
    Some(SplitPoint(at))
}

/// Appends the shortest string above `low` and not above `high`, which is above `low`.
pub fn shortest_separator(low: &[u8], high: &[u8], out: &mut Vec<u8>) {
    let len = common_prefix(low, high) + 1;
    out.extend_from_slice(&high[..len.min(high.len())]);
}

fn middle(node: &KeyNode<OwnedPage<'_>>, count: usize) -> usize {
    let total: usize = (0..count).map(|at| node.heap_bytes(at) + SLOT_BYTES).sum();
    let mut left = 0;
    let mut at = 0;
    while at < count - 1 && left < total / 2 {
        left += node.heap_bytes(at) + SLOT_BYTES;
        at += 1;
    }
    let at = at.clamp(1, count - 1);
    if node.is_inner() {
        return at;
    }
    let window = count / 32;
    let (low, high) = (at.saturating_sub(window).max(1), (at + window).min(count - 1));
    let (mut before, mut here) = (Vec::new(), Vec::new());
    let separator_len = |slot: usize, before: &mut Vec<u8>, here: &mut Vec<u8>| {
        before.clear();
        here.clear();
        node.key(slot - 1, before);
        node.key(slot, here);
        common_prefix(before, here)
    };
    let cost = |slot: usize, len: usize| (len, slot.abs_diff(at));
    (low..=high)
        .min_by_key(|slot| cost(*slot, separator_len(*slot, &mut before, &mut here)))
        .unwrap_or(at)
}

/// Moves the keys from slot `at` on into `right`, a freshly formatted page of the same kind, and
/// sets the fences of both. `separator` is what [`choose_split`] wrote.
pub fn split(
    left: &mut [u8; PAGE_BYTES],
    right: &mut [u8; PAGE_BYTES],
    at: SplitPoint,
    separator: &[u8],
) {
    let source = *left;
    let count = KeyNode::new(OwnedPage(&source)).count();
    let (lower, upper) = (lower_slice(&source), upper_slice(&source));
    rebuild(right, &source, at.0..count, separator, upper);
    rebuild(left, &source, 0..at.0, lower, Some(separator));
}
