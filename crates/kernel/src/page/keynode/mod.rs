//! Key nodes: inner nodes of all trees and leaves of index trees (rules 5.1 and 5.4).
//!
//! An inner node holds (key, child) pairs; child i covers the keys from key i up to key i+1, and
//! key 0 is the node's lower fence. An index leaf holds entries: key bytes, then the row id as
//! eight big-endian bytes. Keys are byte strings and compare as such.
//!
//! ```text
//! 0    common header (`page::header`); kind Inner or IndexLeaf; flags: bit 0 = exact, bit 1 = keyed
//!      (rule 5.7)
//! 20   u16 level: 0 for a leaf, one more than its children's for an inner node; 22 u16 zero
//! 32   u16 count of slots
//! 34   u16 heap: where the lowest byte in use of the heap is (PAGE_BYTES: it is empty)
//! 36   u16 dead: bytes of the heap that belong to nothing
//! 38   u16 prefix: bytes that all keys here share, not stored with them
//! 40   u16 offset, u16 length of the lower fence (inclusive; length 0: before every key)
//! 44   u16 offset, u16 length of the upper fence (exclusive; length 65535: after every key)
//! 48   u16 slot of the latest insertion; 50 u16 how many insertions in a row went right behind
//!      the one before (a hint for where to split)
//! 52   12 bytes zero
//! 64   16 x u32 hints: heads of the slots i * (count / 17), i = 1..=16; zero below 34 slots
//! 128  slots, 8 bytes each, in key order: u32 head, u16 offset, u16 length of the rest of the key
//! ...  free
//! heap ... end of the page: rests of keys (an inner node's with the u64 swip behind), fences
//! ```
//!
//! Invariants: lower fence ≤ every key < upper fence; prefix is the longest common prefix of the
//! two fences (so every key in between has it), 0 if there is no upper fence; the rest of a key is
//! the key without the prefix; its head is its first four bytes as a big-endian number, filled
//! with zeros; slots are strictly ascending in key; heap bytes, dead bytes and slots add up.
//!
//! Reading is generic over [`PageBytes`]; on a racy page the results are arbitrary but all loops
//! are bounded, and nothing is to be believed before the page validates. Changing takes the bytes
//! of a page that is held exclusively. This module knows no frames: a swip is a number.

mod change;
mod check;
mod merge;
mod search;
mod split;
#[cfg(all(test, not(loom)))]
mod tests;

pub use change::{
    NoRoom, append, clear_exact, clear_keyed, finish, format_node, has_room, insert, remove,
    replace_contents, room, set_exact, set_keyed, trim,
};
pub use check::check;
pub use merge::{is_underfull, merge};
pub use split::{SplitPoint, choose_split, shortest_separator, split};

use crate::base::{PAGE_BYTES, RowId};
use crate::latch::PageBytes;

use super::header::{self, PageKind};

/// Bytes of the longest key of an index entry, without its row id (54000 beyond it): 2,000 with
/// pages of 16 KiB, and the same part of smaller ones.
pub const KEY_BYTES_MAX: usize = 125 * PAGE_BYTES / 1024;
/// Bytes of the longest entry or separator.
pub const ENTRY_BYTES_MAX: usize = KEY_BYTES_MAX + ROW_BYTES;
/// Bytes of a row id at the end of an entry.
pub const ROW_BYTES: usize = 8;

const AT_LEVEL: usize = header::AT_KIND_WORD;
const AT_COUNT: usize = header::HEADER_BYTES;
const AT_HEAP: usize = 34;
const AT_DEAD: usize = 36;
const AT_PREFIX: usize = 38;
const AT_LOWER: usize = 40;
const AT_UPPER: usize = 44;
const AT_RUN_SLOT: usize = 48;
const AT_RUN: usize = 50;
const AT_HINTS: usize = 64;
const AT_SLOTS: usize = 128;

const SLOT_BYTES: usize = 8;
const SWIP_BYTES: usize = 8;
const HINTS: usize = 16;
const HINTED_COUNT_MIN: usize = 2 * (HINTS + 1);
const NO_UPPER: u16 = u16::MAX;
const FLAG_EXACT: u8 = 1;
const FLAG_KEYED: u8 = 2;
/// Bytes for slots and heap together.
pub const SPACE_BYTES: usize = PAGE_BYTES - AT_SLOTS;
const COUNT_MAX: usize = SPACE_BYTES / SLOT_BYTES;

const ENTRY_SPACE_MAX: usize = ENTRY_BYTES_MAX + SLOT_BYTES + SWIP_BYTES;

const _: () = {
    assert!(AT_HEAP == AT_COUNT + 2 && AT_RUN + 2 <= AT_HINTS);
    assert!(AT_SLOTS == AT_HINTS + 4 * HINTS);
    // The documented limit of pages as they are unless a build says otherwise.
    assert!(KEY_BYTES_MAX == 2000 || PAGE_BYTES != 16 * 1024);
    // Two fences, and room for at least four of the longest entries: a split always makes room.
    assert!(2 * ENTRY_BYTES_MAX + 4 * ENTRY_SPACE_MAX < SPACE_BYTES);
    // Half of a full page, the key that crosses the middle, and two fences fit a page.
    assert!(SPACE_BYTES / 2 + ENTRY_SPACE_MAX + 2 * ENTRY_BYTES_MAX < SPACE_BYTES);
};

/// On which side of all strings that begin with the probe's bytes the place is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Edge {
    /// Directly before the string itself.
    Before,
    /// Directly after all strings that begin with it.
    After,
}

/// A place between keys.
#[derive(Clone, Copy, Debug)]
pub struct Probe<'a> {
    /// The string.
    pub bytes: &'a [u8],
    /// Which side of it.
    pub edge: Edge,
}

impl<'a> Probe<'a> {
    /// Before every key.
    pub const MIN: Probe<'static> = Probe { bytes: &[], edge: Edge::Before };
    /// After every key.
    pub const MAX: Probe<'static> = Probe { bytes: &[], edge: Edge::After };

    /// Directly before `bytes`.
    #[inline]
    pub fn before(bytes: &'a [u8]) -> Probe<'a> {
        Probe { bytes, edge: Edge::Before }
    }

    /// Directly after all that begins with `bytes`.
    #[inline]
    pub fn after(bytes: &'a [u8]) -> Probe<'a> {
        Probe { bytes, edge: Edge::After }
    }

    /// Whether `key` is below the place.
    #[inline]
    pub fn is_above(self, key: &[u8]) -> bool {
        key < self.bytes || (self.edge == Edge::After && key.starts_with(self.bytes))
    }
}

#[derive(Clone, Copy)]
struct Slot {
    head: u32,
    offset: usize,
    len: usize,
}

impl Slot {
    #[inline]
    fn from_word(word: u64) -> Slot {
        Slot {
            head: word as u32,
            offset: (word >> 32 & 0xffff) as usize,
            len: (word >> 48) as usize,
        }
    }

    #[inline]
    fn word(self) -> u64 {
        self.head as u64 | (self.offset as u64) << 32 | (self.len as u64) << 48
    }
}

/// The first four bytes of the rest of a key as a number that compares like them.
#[inline]
fn head_of(rest: &[u8], fill: u8) -> u32 {
    match rest.first_chunk() {
        Some(head) => u32::from_be_bytes(*head),
        None => {
            let mut head = [fill; 4];
            head[..rest.len()].copy_from_slice(rest);
            u32::from_be_bytes(head)
        }
    }
}

/// Bytes that two strings have in common at their beginnings.
#[inline]
pub fn common_prefix(a: &[u8], b: &[u8]) -> usize {
    a.iter().zip(b).take_while(|(x, y)| x == y).count()
}

/// A key node as a reader sees it.
#[derive(Clone, Copy)]
pub struct KeyNode<P> {
    page: P,
}

impl<P: PageBytes> KeyNode<P> {
    /// Reads `page` as a key node.
    #[inline]
    pub fn new(page: P) -> KeyNode<P> {
        KeyNode { page }
    }

    /// 0 for a leaf, else one more than its children's.
    #[inline]
    pub fn level(&self) -> u16 {
        self.page.u16(AT_LEVEL)
    }

    /// Slots.
    #[inline]
    pub fn count(&self) -> usize {
        (self.page.u16(AT_COUNT) as usize).min(COUNT_MAX)
    }

    /// Whether it is an inner node.
    #[inline]
    pub fn is_inner(&self) -> bool {
        header::kind(self.page) == Some(PageKind::Inner)
    }

    /// The *exact* bit (rule 5.7).
    #[inline]
    pub fn is_exact(&self) -> bool {
        self.page.u8(header::AT_FLAGS) & FLAG_EXACT != 0
    }

    /// The *keyed* bit (rule 5.7).
    #[inline]
    pub fn is_keyed(&self) -> bool {
        self.page.u8(header::AT_FLAGS) & FLAG_KEYED != 0
    }

    #[inline]
    fn prefix_len(&self) -> usize {
        self.page.u16(AT_PREFIX) as usize
    }

    #[inline]
    fn slot(&self, at: usize) -> Slot {
        Slot::from_word(self.page.u64(AT_SLOTS + at * SLOT_BYTES))
    }

    #[inline]
    fn slot_head(&self, at: usize) -> u32 {
        self.page.u32(AT_SLOTS + at * SLOT_BYTES)
    }

    /// Appends the lower fence (empty: before every key).
    pub fn lower(&self, out: &mut Vec<u8>) {
        let len = self.page.u16(AT_LOWER + 2) as usize;
        self.page.append(self.page.u16(AT_LOWER) as usize, len, out);
    }

    /// Appends the upper fence, if there is one.
    pub fn upper(&self, out: &mut Vec<u8>) -> UpperFence {
        let len = self.page.u16(AT_UPPER + 2);
        if len == NO_UPPER {
            return UpperFence::None;
        }
        self.page.append(self.page.u16(AT_UPPER) as usize, len as usize, out);
        UpperFence::Some
    }

    /// Whether the upper fence, if there is one, is above the place: some key ≥ place, or the
    /// place itself, may be here.
    pub fn upper_is_above(&self, place: Probe<'_>) -> bool {
        let len = self.page.u16(AT_UPPER + 2);
        let (at, len) = match len {
            NO_UPPER => return true,
            len => (self.page.u16(AT_UPPER) as usize, len as usize),
        };
        match place.edge {
            Edge::Before => self.page.compare(at, len, place.bytes).is_gt(),
            Edge::After => !self.is_below(at, len, place),
        }
    }

    /// Whether lower fence ≤ place < upper fence.
    #[inline]
    pub fn covers(&self, place: Probe<'_>) -> bool {
        let (at, len) = (self.page.u16(AT_LOWER) as usize, self.page.u16(AT_LOWER + 2) as usize);
        let from_lower = match place.edge {
            Edge::Before => self.page.compare(at, len, place.bytes).is_le(),
            Edge::After => self.is_below(at, len, place),
        };
        from_lower && self.upper_is_above(place)
    }

    /// Appends the whole key (of an index leaf: the whole entry) in slot `at`.
    #[inline]
    pub fn key(&self, at: usize, out: &mut Vec<u8>) {
        self.page.append(self.page.u16(AT_LOWER) as usize, self.prefix_len(), out);
        let slot = self.slot(at);
        self.page.append(slot.offset, slot.len, out);
    }

    /// Appends the fences of the child in slot `at` of an inner node, the upper one if there is one.
    pub fn child_fences(&self, at: usize, lower: &mut Vec<u8>, upper: &mut Vec<u8>) -> UpperFence {
        self.key(at, lower);
        if at + 1 < self.count() {
            self.key(at + 1, upper);
            return UpperFence::Some;
        }
        self.upper(upper)
    }

    /// The row id at the end of the entry in slot `at` of an index leaf.
    #[inline]
    pub fn row(&self, at: usize) -> RowId {
        let slot = self.slot(at);
        if slot.len >= ROW_BYTES {
            let word = self.page.u64(slot.offset + slot.len - ROW_BYTES);
            return RowId(word.swap_bytes());
        }
        self.row_across_prefix(slot)
    }

    /// The prefix reaches into the row id: many rows with one key.
    #[cold]
    fn row_across_prefix(&self, slot: Slot) -> RowId {
        let mut bytes = [0; ROW_BYTES];
        let missing = ROW_BYTES - slot.len;
        let prefix_end = self.page.u16(AT_LOWER) as usize + self.prefix_len();
        self.page.copy(prefix_end.wrapping_sub(missing), &mut bytes[..missing]);
        self.page.copy(slot.offset, &mut bytes[missing..]);
        RowId(u64::from_be_bytes(bytes))
    }

    /// Where the swip of child `at` of an inner node is in the page.
    #[inline]
    pub fn swip_position(&self, at: usize) -> usize {
        let slot = self.slot(at);
        slot.offset + slot.len
    }
}

/// Whether there is an upper fence.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum UpperFence {
    /// There is; it was appended.
    Some,
    /// The node covers all keys from its lower fence.
    None,
}
