//! Finding places and keys in a node.
//!
//! Invariants: searches take a place that the node covers (or touches with its upper fence), so
//! the place's bytes begin with the node's prefix and only the rest is compared; every loop is
//! bounded by the number of slots that fit a page, whatever a racy page says.
//!
//! How: hints narrow the range to a seventeenth, heads to the slots with the same first four
//! bytes, and only those are compared in the heap: usually one cache line each for hints, slots
//! and heap. Heads are compared without branches: a mispredicted branch costs more than a probe.

use std::cmp::Ordering;
use std::hint::select_unpredictable;

use crate::base::PAGE_BYTES;
use crate::latch::PageBytes;

use super::{
    AT_HEAP, AT_HINTS, AT_LOWER, AT_SLOTS, AT_UPPER, Edge, HINTED_COUNT_MIN, HINTS, KeyNode, Probe,
    SLOT_BYTES, SWIP_BYTES, head_of,
};

const _: () = assert!(HINTS == 16, "as many as `PageBytes::count_below` counts");

/// Heap bytes that are worth fetching ahead.
const HEAP_PREFETCH_MAX: usize = 768;

/// Whether the lines that a search will read are worth asking for.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Lines {
    Far,
    /// They were asked for.
    Fetched,
}

/// The first eight bytes of a place's rest, `fill` behind its end: a key whose word is another is
/// below the place if and only if its word is below this one.
#[inline]
fn word_of(rest: &[u8], fill: u8) -> u64 {
    if let Some(bytes) = rest.first_chunk() {
        return u64::from_be_bytes(*bytes);
    }
    let mut bytes = [fill; 8];
    bytes[..rest.len()].copy_from_slice(rest);
    u64::from_be_bytes(bytes)
}

impl<P: PageBytes> KeyNode<P> {
    /// How many keys are below the place: the slot of the first key at or above it.
    #[inline]
    pub fn place(&self, place: Probe<'_>) -> usize {
        self.search(place, Lines::Far)
    }

    /// As [`KeyNode::place`], after [`KeyNode::prefetch_place`].
    #[inline]
    pub fn place_fetched(&self, place: Probe<'_>) -> usize {
        self.search(place, Lines::Fetched)
    }

    #[inline(always)]
    fn search(&self, place: Probe<'_>, lines: Lines) -> usize {
        let rest = place.bytes.get(self.prefix_len()..).unwrap_or(&[]);
        let fill = match place.edge {
            Edge::Before => 0,
            Edge::After => 0xff,
        };
        let head = head_of(rest, fill);
        let (mut low, mut high) = self.same_heads(head, lines);
        let word = word_of(rest, fill);
        let rest = Probe { bytes: rest, edge: place.edge };
        while low < high {
            let middle = low + (high - low) / 2;
            let slot = self.slot(middle);
            // Most keys differ in eight bytes; only those that do not are compared whole.
            let below = match self.word(slot.offset, slot.len) {
                Some(key) if key != word => key < word,
                _ => self.is_below(slot.offset, slot.len, rest),
            };
            if below {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        low
    }

    /// The slots that have this head: from the first at or above it to the first above it.
    #[inline(always)]
    fn same_heads(&self, head: u32, lines: Lines) -> (usize, usize) {
        let count = self.count();
        let low = self.heads_below(head, count, lines);
        if low >= count || self.slot_head(low) != head {
            return (low, low);
        }
        let mut high = low + 1;
        if high < count && self.slot_head(high) == head {
            // Where keys begin alike and no fence tells (a root), all heads but the first are the
            // same.
            high = match head.checked_add(1) {
                Some(next) if self.slot_head(count - 1) != head => {
                    self.heads_below(next, count, Lines::Fetched).max(low)
                }
                _ => count,
            };
        }
        (low, high)
    }

    /// The first eight bytes of the string of `len` bytes at `at` as a number that orders as they
    /// do, zeros behind its end. None at the page's very end.
    #[inline]
    fn word(&self, at: usize, len: usize) -> Option<u64> {
        if at + 8 > PAGE_BYTES {
            return None;
        }
        let word = self.page.u64(at).swap_bytes();
        Some(if len >= 8 { word } else { word & !(u64::MAX >> (8 * len)) })
    }

    /// How many slots have heads below `head`.
    #[inline]
    fn heads_below(&self, head: u32, count: usize, lines: Lines) -> usize {
        let (mut base, mut size) = self.hinted(head, count);
        if lines == Lines::Far {
            self.prefetch_slots(base, size, count);
        }
        while size > 1 {
            let half = size / 2;
            let goes_right = self.slot_head(base + half - 1) < head;
            base = select_unpredictable(goes_right, base + half, base);
            size -= half;
        }
        base + (size == 1 && self.slot_head(base) < head) as usize
    }

    /// The slots among which the first one with a head not below `head` is, or the one behind them:
    /// the first and how many.
    #[inline]
    fn hinted(&self, head: u32, count: usize) -> (usize, usize) {
        if count < HINTED_COUNT_MIN {
            return (0, count);
        }
        let distance = count / (HINTS + 1);
        let below = self.page.count_below(AT_HINTS, head);
        let base = below * distance;
        let size = if below == HINTS { count - base } else { distance };
        (base, size)
    }

    /// Asks for the lines of `size` slots from `base` on, if they are not at the node's beginning,
    /// and of their keys.
    #[inline]
    fn prefetch_slots(&self, base: usize, size: usize, count: usize) {
        if count >= HINTED_COUNT_MIN {
            self.page.prefetch(AT_SLOTS + base * SLOT_BYTES, size * SLOT_BYTES);
            self.prefetch_heap(base, size, count);
        }
    }

    /// Asks for what a search for the place will read behind the node's first 128 bytes, as far as
    /// these tell.
    #[inline]
    pub fn prefetch_place(&self, place: Probe<'_>) {
        let rest = place.bytes.get(self.prefix_len()..).unwrap_or(&[]);
        let count = self.count();
        let (base, size) = self.hinted(head_of(rest, 0), count);
        self.prefetch_slots(base, size, count);
        self.page.prefetch(self.page.u16(AT_LOWER) as usize, 1);
        self.page.prefetch(self.page.u16(AT_UPPER) as usize, 1);
    }

    /// Asks for the heap bytes of `size` slots from `base` on where they are if all keys are about
    /// as long and came in order: so it is after bulk load, a split or a compaction, and roughly so
    /// for some time after. Saves a cache miss behind that of the slots.
    #[inline]
    fn prefetch_heap(&self, base: usize, size: usize, count: usize) {
        let heap = self.page.u16(AT_HEAP) as usize;
        let each = PAGE_BYTES.saturating_sub(heap) / count;
        if size * each <= HEAP_PREFETCH_MAX {
            let end = PAGE_BYTES.saturating_sub((base + size) * each);
            self.page.prefetch(end, size * each);
        }
    }

    /// Whether the string of `len` bytes at `at` is below the place.
    #[inline]
    pub(super) fn is_below(&self, at: usize, len: usize, place: Probe<'_>) -> bool {
        match place.edge {
            Edge::Before => self.page.compare(at, len, place.bytes) == Ordering::Less,
            Edge::After => {
                let len = len.min(place.bytes.len());
                self.page.compare(at, len, place.bytes) != Ordering::Greater
            }
        }
    }

    #[inline]
    fn rest_is(&self, at: usize, rest: &[u8]) -> bool {
        let slot = self.slot(at);
        slot.len == rest.len() && self.page.compare(slot.offset, slot.len, rest).is_eq()
    }

    /// The child of an inner node that covers the place: key i ≤ place < key i+1.
    #[inline]
    pub fn child_at(&self, place: Probe<'_>) -> usize {
        let slot = self.place(place);
        if place.edge == Edge::Before && slot < self.count() {
            let rest = place.bytes.get(self.prefix_len()..).unwrap_or(&[]);
            if self.rest_is(slot, rest) {
                return slot;
            }
        }
        slot.saturating_sub(1)
    }

    /// The child of an inner node that ends at the place or covers it: key i < place ≤ key i+1.
    #[inline]
    pub fn child_before(&self, place: Probe<'_>) -> usize {
        self.place(place).saturating_sub(1)
    }

    /// The slot that holds exactly `key`, or where it would go.
    #[inline]
    pub fn find(&self, key: &[u8]) -> Result<usize, usize> {
        let slot = self.place(Probe::before(key));
        let rest = key.get(self.prefix_len()..).unwrap_or(&[]);
        if slot < self.count() && self.rest_is(slot, rest) { Ok(slot) } else { Err(slot) }
    }

    /// Whether the key in slot `at` begins with `bytes`, which the node covers.
    #[inline]
    pub fn begins_with(&self, at: usize, bytes: &[u8]) -> bool {
        let slot = self.slot(at);
        let rest = bytes.get(self.prefix_len()..).unwrap_or(&[]);
        slot.len >= rest.len() && self.page.compare(slot.offset, rest.len(), rest).is_eq()
    }

    /// Whether entries with `key` go right behind slot `at`, whose entry has the key `before`, and there are none
    /// with it: neither here nor further right. No key begins with another one (`tree::key`).
    #[inline]
    pub fn goes_behind(&self, at: usize, before: &[u8], key: &[u8]) -> bool {
        let prefix = self.prefix_len();
        let (Some(shared), Some(rest)) = (before.get(..prefix), key.get(prefix..)) else {
            return false;
        };
        if before >= key || !key.starts_with(shared) {
            return false;
        }
        if at + 1 == self.count() {
            return self.upper_is_above(Probe::after(key));
        }
        let slot = self.slot(at + 1);
        !self.is_below(slot.offset, slot.len, Probe::after(rest))
    }

    /// Whether the upper fence begins with `bytes`: keys that do may go on in the next leaf.
    #[inline]
    pub fn upper_begins_with(&self, bytes: &[u8]) -> bool {
        let (at, len) = self.upper_place();
        len != usize::MAX && len >= bytes.len() && self.page.compare(at, bytes.len(), bytes).is_eq()
    }

    #[inline]
    fn upper_place(&self) -> (usize, usize) {
        let len = self.page.u16(AT_UPPER + 2);
        let len = if len == super::NO_UPPER { usize::MAX } else { len as usize };
        (self.page.u16(AT_UPPER) as usize, len)
    }

    /// Bytes that slot `at` takes in the heap.
    #[inline]
    pub(super) fn heap_bytes(&self, at: usize) -> usize {
        self.slot(at).len + if self.is_inner() { SWIP_BYTES } else { 0 }
    }

    /// Appends the bytes that all keys share.
    pub fn prefix(&self, out: &mut Vec<u8>) {
        self.page.append(self.page.u16(AT_LOWER) as usize, self.prefix_len(), out);
    }
}
