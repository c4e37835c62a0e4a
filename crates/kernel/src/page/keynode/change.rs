//! Changing a node: formatting, insertion, removal, compaction, appending in order.
//!
//! Invariants: every function leaves a valid node behind, except that [`append`] leaves the hints
//! to [`finish`]; a removal never needs room. Heap bytes of what is removed become dead and are
//! won back by the next insertion that needs them.

use std::ops::Range;

use crate::base::PAGE_BYTES;
use crate::latch::{OwnedPage, PageBytes};
use crate::page::header::{self, PageKind, put_u16, put_u32, put_u64};

use super::{
    AT_COUNT, AT_DEAD, AT_HEAP, AT_HINTS, AT_LEVEL, AT_LOWER, AT_PREFIX, AT_RUN, AT_RUN_SLOT,
    AT_SLOTS, AT_UPPER, FLAG_EXACT, FLAG_KEYED, HINTED_COUNT_MIN, HINTS, KeyNode, NO_UPPER,
    SLOT_BYTES, SWIP_BYTES, Slot, common_prefix, head_of,
};

type Page = [u8; PAGE_BYTES];

/// The key does not fit even after compaction: split the node.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct NoRoom;

/// Makes an empty node of a page whose common header says what it is: level and fences.
///
/// Panics if the fences do not fit a page: they are at most `ENTRY_BYTES_MAX` each.
pub fn format_node(page: &mut Page, level: u16, lower: &[u8], upper: Option<&[u8]>) {
    page[AT_COUNT..AT_SLOTS].fill(0);
    put_u16(page, AT_LEVEL, level);
    put_u16(page, AT_LEVEL + 2, 0);
    let mut heap = PAGE_BYTES - lower.len();
    page[heap..].copy_from_slice(lower);
    put_u16(page, AT_LOWER, heap as u16);
    put_u16(page, AT_LOWER + 2, lower.len() as u16);
    match upper {
        Some(upper) => {
            heap -= upper.len();
            page[heap..heap + upper.len()].copy_from_slice(upper);
            put_u16(page, AT_UPPER, heap as u16);
            put_u16(page, AT_UPPER + 2, upper.len() as u16);
            put_u16(page, AT_PREFIX, common_prefix(lower, upper) as u16);
        }
        None => put_u16(page, AT_UPPER + 2, NO_UPPER),
    }
    put_u16(page, AT_HEAP, heap as u16);
}

/// Sets the *exact* bit, and *keyed* with it (rule 5.7).
pub fn set_exact(page: &mut Page) {
    page[header::AT_FLAGS] = FLAG_EXACT | FLAG_KEYED;
}

/// Sets the *keyed* bit alone (rule 5.7).
pub fn set_keyed(page: &mut Page) {
    page[header::AT_FLAGS] = FLAG_KEYED;
}

/// Clears the *exact* bit; the leaf stays *keyed* if it is.
pub fn clear_exact(page: &mut Page) {
    page[header::AT_FLAGS] &= !FLAG_EXACT;
}

/// Clears the *keyed* bit, and *exact* with it.
pub fn clear_keyed(page: &mut Page) {
    page[header::AT_FLAGS] = 0;
}

/// Bytes for slots and keys that an insertion can have, after compaction if need be.
pub fn room(page: &Page) -> usize {
    let view = OwnedPage(page);
    contiguous(page) + view.u16(AT_DEAD) as usize
}

fn contiguous(page: &Page) -> usize {
    let view = OwnedPage(page);
    let slots_end = AT_SLOTS + view.u16(AT_COUNT) as usize * SLOT_BYTES;
    (view.u16(AT_HEAP) as usize).saturating_sub(slots_end)
}

/// Bytes that `key` takes in this node: its slot, what the prefix leaves of it, a swip.
pub fn bytes_needed(page: &Page, key: &[u8]) -> usize {
    let prefix = OwnedPage(page).u16(AT_PREFIX) as usize;
    SLOT_BYTES + key.len().saturating_sub(prefix) + swip_bytes(page)
}

/// Whether `key` could be inserted now.
pub fn has_room(page: &Page, key: &[u8]) -> bool {
    bytes_needed(page, key) <= room(page)
}

fn swip_bytes(page: &Page) -> usize {
    if page[header::AT_KIND] == PageKind::Inner as u8 { SWIP_BYTES } else { 0 }
}

/// Inserts `key`, which is not there, at slot `at`, where [`KeyNode::find`] put it; `swip` for
/// inner nodes (0 for leaves). Nothing changes if there is no room.
pub fn insert(page: &mut Page, at: usize, key: &[u8], swip: u64) -> Result<(), NoRoom> {
    let needed = bytes_needed(page, key);
    if needed > contiguous(page) {
        if needed > room(page) {
            return Err(NoRoom);
        }
        compact(page);
    }
    let count = KeyNode::new(OwnedPage(page)).count();
    debug_assert!(at <= count, "the slot comes from a search");
    let prefix = OwnedPage(page).u16(AT_PREFIX) as usize;
    let slot = put_in_heap(page, &key[prefix..], swip);
    let from = AT_SLOTS + at * SLOT_BYTES;
    page.copy_within(from..AT_SLOTS + count * SLOT_BYTES, from + SLOT_BYTES);
    put_u64(page, from, slot.word());
    put_u16(page, AT_COUNT, count as u16 + 1);
    Run::of(page).then(at).put(page);
    refresh_hints(page, count, at);
    Ok(())
}

fn put_in_heap(page: &mut Page, rest: &[u8], swip: u64) -> Slot {
    let swip_bytes = swip_bytes(page);
    let heap = OwnedPage(page).u16(AT_HEAP) as usize - rest.len() - swip_bytes;
    page[heap..heap + rest.len()].copy_from_slice(rest);
    if swip_bytes > 0 {
        put_u64(page, heap + rest.len(), swip);
    }
    put_u16(page, AT_HEAP, heap as u16);
    Slot { head: head_of(rest, 0), offset: heap, len: rest.len() }
}

/// Insertions that went each right behind the one before: a hint for where to split.
#[derive(Clone, Copy)]
pub(super) struct Run {
    /// Where the latest went.
    pub slot: usize,
    pub length: u16,
}

impl Run {
    pub(super) fn of(page: &Page) -> Run {
        let view = OwnedPage(page);
        Run { slot: view.u16(AT_RUN_SLOT) as usize, length: view.u16(AT_RUN) }
    }

    pub(super) fn put(self, page: &mut Page) {
        put_u16(page, AT_RUN_SLOT, self.slot as u16);
        put_u16(page, AT_RUN, self.length);
    }

    /// After an insertion into this slot.
    fn then(self, at: usize) -> Run {
        let follows = at > 0 && self.slot + 1 == at;
        Run { slot: at, length: if follows { self.length.saturating_add(1) } else { 0 } }
    }

    /// After the removal of this slot's key: of a queue the first ones go while others come.
    fn without(self, at: usize) -> Run {
        match self.slot {
            slot if at < slot => Run { slot: slot - 1, ..self },
            slot if at > slot => self,
            _ => Run { slot: 0, length: 0 },
        }
    }
}

/// Removes the key in slot `at`.
pub fn remove(page: &mut Page, at: usize) {
    let node = KeyNode::new(OwnedPage(page));
    let count = node.count();
    debug_assert!(at < count, "the slot comes from a search");
    let (slot, freed) = (node.slot(at), node.heap_bytes(at));
    if slot.offset == OwnedPage(page).u16(AT_HEAP) as usize {
        put_u16(page, AT_HEAP, (slot.offset + freed) as u16);
    } else {
        let dead = OwnedPage(page).u16(AT_DEAD) as usize + freed;
        put_u16(page, AT_DEAD, dead as u16);
    }
    let from = AT_SLOTS + at * SLOT_BYTES;
    page.copy_within(from + SLOT_BYTES..AT_SLOTS + count * SLOT_BYTES, from);
    put_u16(page, AT_COUNT, count as u16 - 1);
    Run::of(page).without(at).put(page);
    refresh_hints(page, count, at);
}

/// Brings the hints up to date after slots from `at` on moved; there were `before` slots.
fn refresh_hints(page: &mut Page, before: usize, at: usize) {
    let count = OwnedPage(page).u16(AT_COUNT) as usize;
    if count < HINTED_COUNT_MIN {
        if before >= HINTED_COUNT_MIN {
            page[AT_HINTS..AT_SLOTS].fill(0);
        }
        return;
    }
    let distance = count / (HINTS + 1);
    let moved = before < HINTED_COUNT_MIN || before / (HINTS + 1) != distance;
    let first = if moved { 1 } else { at.div_ceil(distance).max(1) };
    for hint in first..=HINTS {
        let head = OwnedPage(page).u32(AT_SLOTS + hint * distance * SLOT_BYTES);
        put_u32(page, AT_HINTS + 4 * (hint - 1), head);
    }
}

/// Adds `key` behind all others, in a node that is being built: no hints until [`finish`].
pub fn append(page: &mut Page, key: &[u8], swip: u64) -> Result<(), NoRoom> {
    if bytes_needed(page, key) > contiguous(page) {
        return Err(NoRoom);
    }
    let prefix = OwnedPage(page).u16(AT_PREFIX) as usize;
    let count = OwnedPage(page).u16(AT_COUNT);
    let slot = put_in_heap(page, &key[prefix..], swip);
    put_u64(page, AT_SLOTS + count as usize * SLOT_BYTES, slot.word());
    put_u16(page, AT_COUNT, count + 1);
    Ok(())
}

/// Ends the building of a node: sets its hints.
pub fn finish(page: &mut Page) {
    refresh_hints(page, 0, 0);
}

/// Makes `page` hold exactly the keys of `source` in `slots`, between the given fences, which lie
/// within the fences of `source`. Level, kind and *exact* bit are taken over.
pub(super) fn rebuild(
    page: &mut Page,
    source: &Page,
    slots: Range<usize>,
    lower: &[u8],
    upper: Option<&[u8]>,
) {
    let node = KeyNode::new(OwnedPage(source));
    page[header::AT_KIND] = source[header::AT_KIND];
    page[header::AT_FLAGS] = source[header::AT_FLAGS];
    format_node(page, node.level(), lower, upper);
    let prefix = OwnedPage(page).u16(AT_PREFIX) as usize;
    let skip = prefix
        .checked_sub(node.prefix_len())
        .expect("fences that lie within others have a prefix at least as long");
    let (count, swip_bytes) = (slots.len(), swip_bytes(source));
    let mut heap = OwnedPage(page).u16(AT_HEAP) as usize;
    for (to, at) in slots.enumerate() {
        let slot = node.slot(at);
        let (from, end) = (slot.offset + skip, slot.offset + slot.len);
        let with_swip = &source[from..end + swip_bytes];
        heap -= with_swip.len();
        page[heap..heap + with_swip.len()].copy_from_slice(with_swip);
        let head = if skip == 0 { slot.head } else { head_of(&source[from..end], 0) };
        let slot = Slot { head, offset: heap, len: end - from };
        put_u64(page, AT_SLOTS + to * SLOT_BYTES, slot.word());
    }
    put_u16(page, AT_HEAP, heap as u16);
    put_u16(page, AT_COUNT, count as u16);
    finish(page);
}

/// Leaves the keys from `lower` to below `upper`, or to the end, which are the fences then; they lie within those that there
/// are.
pub fn trim(page: &mut Page, lower: &[u8], upper: Option<&[u8]>) {
    let source = *page;
    let view = KeyNode::new(OwnedPage(&source));
    let place = |key: &[u8]| view.place(super::Probe::before(key));
    let end = upper.map_or(view.count(), place);
    rebuild(page, &source, place(lower)..end, lower, upper);
}

/// Wins dead bytes back. By itself: its copy of the page would be on the stack of every insertion.
#[cold]
#[inline(never)]
pub(super) fn compact(page: &mut Page) {
    let source = *page;
    let view = KeyNode::new(OwnedPage(&source));
    let (lower, upper) = (lower_slice(&source), upper_slice(&source));
    rebuild(page, &source, 0..view.count(), lower, upper);
    Run::of(&source).put(page);
}

pub(super) fn lower_slice(page: &Page) -> &[u8] {
    let (at, len) = (OwnedPage(page).u16(AT_LOWER), OwnedPage(page).u16(AT_LOWER + 2));
    &page[at as usize..at as usize + len as usize]
}

pub(super) fn upper_slice(page: &Page) -> Option<&[u8]> {
    let (at, len) = (OwnedPage(page).u16(AT_UPPER), OwnedPage(page).u16(AT_UPPER + 2));
    (len != NO_UPPER).then(|| &page[at as usize..at as usize + len as usize])
}

/// Makes `page` hold what `source` holds, under its own PID (a root's contents move down).
pub fn replace_contents(page: &mut Page, source: &Page) {
    page[header::AT_KIND] = source[header::AT_KIND];
    page[header::AT_FLAGS] = source[header::AT_FLAGS];
    page[AT_LEVEL..header::AT_PLACE].copy_from_slice(&source[AT_LEVEL..header::AT_PLACE]);
    page[AT_COUNT..].copy_from_slice(&source[AT_COUNT..]);
}
