//! Changing a PAX leaf: insert, set, mark, remove.
//!
//! Invariants: the caller holds the page exclusively and has made sure of room where a function
//! says so; a function leaves the page as `check` wants it. Values have their column's width (a
//! wrong width is a mistake of the layer above and ends in a panic before anything is stored).

use super::super::header::{put_u16, put_u64};
use super::super::layout::Layout;
use super::super::overflow::REFERENCE_BYTES;
use super::reshape::{capacity_for, compact_heap, reshape};
use super::{
    AT_COUNT, AT_DELETED, AT_HEAP_DEAD, AT_HEAP_START, AT_LOWER, AT_RESERVED, AT_ROWS, AT_UPPER,
    Geometry, LONG, Leaf, SlotIndex, USABLE_BYTES,
};
use crate::base::{PAGE_BYTES, RowId};
use crate::latch::{OwnedPage, PageBytes};

/// Whether a row is there or marked deleted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum RowState {
    /// There.
    Live,
    /// Deleted by the newest version; the bytes stay until garbage collection.
    Deleted,
}

/// A leaf that is held exclusively.
pub struct LeafMut<'a> {
    pub(super) page: &'a mut [u8; PAGE_BYTES],
    pub(super) layout: &'a Layout,
}

impl<'a> LeafMut<'a> {
    /// The leaf in `page`, whose layout version is `layout`'s.
    #[inline]
    pub fn new(page: &'a mut [u8; PAGE_BYTES], layout: &'a Layout) -> LeafMut<'a> {
        LeafMut { page, layout }
    }

    /// The leaf for reading.
    #[inline]
    pub fn view(&self) -> Leaf<'_, OwnedPage<'_>> {
        Leaf::new(OwnedPage(self.page), self.layout)
    }

    #[inline(always)]
    fn u16(&self, at: usize) -> usize {
        usize::from(OwnedPage(self.page).u16(at))
    }

    #[inline(always)]
    fn put(&mut self, at: usize, value: usize) {
        debug_assert!(value <= usize::from(u16::MAX));
        put_u16(self.page, at, value as u16);
    }

    /// Makes sure that one more row with `heap` variable bytes can be stored without reshaping.
    /// Must fit ([`Leaf::fits_row`]). Slots do not change.
    #[inline]
    pub fn prepare_row(&mut self, heap: usize) {
        let view = self.view();
        if view.count() == view.geometry().capacity || view.contiguous() < heap {
            self.prepare_row_slowly(heap);
        }
    }

    #[cold]
    fn prepare_row_slowly(&mut self, heap: usize) {
        let view = self.view();
        debug_assert!(view.fits_row(heap), "the caller made sure of room");
        let rows = view.count() + 1;
        let capacity = capacity_for(self.layout, rows, view.heap_live() + view.reserved() + heap);
        reshape(self.page, self.layout, self.layout, capacity);
    }

    /// Stores a new row at its place by row id. It must fit ([`Leaf::fits_row`]), belong here and
    /// not be here. `columns` are all columns of the layout. Rows behind move up by one slot.
    #[inline]
    pub fn insert(&mut self, row: RowId, columns: &[Option<&[u8]>]) -> SlotIndex {
        assert_eq!(columns.len(), self.layout.columns().len(), "a row has every column");
        let heap = super::heap_bytes(self.layout, columns);
        self.prepare_row(heap);
        let view = self.view();
        let (geometry, count) = (view.geometry(), view.count());
        debug_assert!(view.covers(row));
        let slot = if count == 0 || view.row_id(SlotIndex(count as u16 - 1)) < row {
            count
        } else {
            let slot = view.lower_bound(row);
            debug_assert_ne!(view.row_id(slot), row, "a row is inserted once");
            self.open_slot(geometry, slot.index(), count);
            slot.index()
        };
        let mut heap_start = self.u16(AT_HEAP_START);
        let at = geometry.row_id(slot);
        self.page[at..at + 8].copy_from_slice(&row.0.to_le_bytes());
        self.set_bit(geometry.deleted + slot / 8, slot, false);
        let mut null = geometry.null_byte(slot, 0);
        for (place, value) in self.layout.places().iter().zip(columns) {
            let at = geometry.value(slot, *place);
            self.set_bit(null, slot, value.is_none());
            null += geometry.bits_bytes;
            let width = usize::from(place.width);
            match value {
                Some(value) if place.variable => {
                    heap_start -= value.len();
                    self.page[heap_start..heap_start + value.len()].copy_from_slice(value);
                    self.put_entry(at, heap_start, value.len());
                }
                Some(value) => {
                    assert_eq!(value.len(), width, "a fixed value has its width");
                    put_fixed(self.page, at, value);
                }
                None => put_fixed(self.page, at, &[0; FIXED_BYTES_MAX][..width]),
            }
        }
        self.put(AT_HEAP_START, heap_start);
        self.put(AT_COUNT, count + 1);
        SlotIndex(slot as u16)
    }

    /// Changes one value: in place if the new one is no longer, else elsewhere in the heap,
    /// compacting if need be. Returns heap bytes freed: negative if the row grew. The growth must
    /// fit what is free or what is reserved for this very row; the caller accounts the latter
    /// ([`LeafMut::reserve`]).
    pub fn set_column(&mut self, slot: SlotIndex, column: usize, value: Option<&[u8]>) -> isize {
        let geometry = self.view().geometry();
        let place = self.layout.place(column).expect("the leaf's layout has the column");
        let at = geometry.value(slot.index(), place);
        let width = usize::from(place.width);
        if !place.variable {
            if let Some(value) = value {
                assert_eq!(value.len(), width, "a fixed value has its width");
                self.page[at..at + width].copy_from_slice(value);
            }
            let null_byte = geometry.null_byte(slot.index(), column);
            self.set_bit(null_byte, slot.index(), value.is_none());
            return 0;
        }
        let old = self.view().column_bytes(slot, column).unwrap_or(0);
        let new = value.map_or(0, <[u8]>::len);
        if new <= old {
            let offset = if new == 0 { 0 } else { self.u16(at) };
            self.page[offset..offset + new].copy_from_slice(value.unwrap_or(&[]));
            self.put_entry(at, offset, new);
            self.put(AT_HEAP_DEAD, self.u16(AT_HEAP_DEAD) + old - new);
        } else {
            self.put_entry(at, 0, 0);
            self.put(AT_HEAP_DEAD, self.u16(AT_HEAP_DEAD) + old);
            self.make_contiguous(new);
            let heap_start = self.u16(AT_HEAP_START) - new;
            self.page[heap_start..heap_start + new].copy_from_slice(value.unwrap_or(&[]));
            self.put(AT_HEAP_START, heap_start);
            let at = self.view().geometry().value(slot.index(), place);
            self.put_entry(at, heap_start, new);
        }
        let null_byte = self.view().geometry().null_byte(slot.index(), column);
        self.set_bit(null_byte, slot.index(), value.is_none());
        old as isize - new as isize
    }

    /// Says that the value's bytes are a reference to a long value.
    pub fn set_long(&mut self, slot: SlotIndex, column: usize) {
        let view = self.view();
        let place = view.layout().place(column).expect("the leaf's layout has the column");
        let at = view.geometry().value(slot.index(), place);
        let len = self.u16(at + 2);
        assert!(place.variable && len == REFERENCE_BYTES, "a reference has its size");
        self.put(at + 2, len | usize::from(LONG));
    }

    /// Makes `bytes` contiguous in front of the heap; minipages may shrink to the rows there are.
    fn make_contiguous(&mut self, bytes: usize) {
        let view = self.view();
        if view.contiguous() >= bytes {
            return;
        }
        let (rows, live) = (view.count(), view.heap_live());
        if view.geometry().end(self.layout) + live + bytes <= PAGE_BYTES {
            compact_heap(self.page, self.layout);
        } else {
            let capacity = capacity_for(self.layout, rows, live + view.reserved() + bytes);
            reshape(self.page, self.layout, self.layout, capacity);
        }
        // What a rollback needs was reserved, and what a change needs was asked for before.
        assert!(self.view().contiguous() >= bytes, "the leaf has room for what it promised");
    }

    /// Marks a row deleted, or not deleted again. Its bytes stay.
    pub fn set_state(&mut self, slot: SlotIndex, state: RowState) {
        let view = self.view();
        let (before, deleted, geometry) = (view.state(slot), view.deleted(), view.geometry());
        if before == state {
            return;
        }
        let gone = state == RowState::Deleted;
        self.set_bit(geometry.deleted + slot.index() / 8, slot.index(), gone);
        self.put(AT_DELETED, if gone { deleted + 1 } else { deleted - 1 });
    }

    /// Takes a row out; rows behind move down by one slot. Its heap bytes are dead, not reserved.
    pub fn remove(&mut self, slot: SlotIndex) {
        self.set_state(slot, RowState::Live);
        let view = self.view();
        let (geometry, count, heap) = (view.geometry(), view.count(), view.row_heap_bytes(slot));
        self.put(AT_HEAP_DEAD, self.u16(AT_HEAP_DEAD) + heap);
        self.close_slot(geometry, slot.index(), count);
        self.put(AT_COUNT, count - 1);
        if count == 1 {
            self.put(AT_HEAP_START, PAGE_BYTES);
            self.put(AT_HEAP_DEAD, 0);
        }
    }

    /// Leaves the rows from `lower` on, which is the lower fence then; it lies within the fences.
    pub fn trim(&mut self, lower: RowId) {
        let first = self.view().lower_bound(lower).index();
        for slot in (0..first).rev() {
            self.remove(SlotIndex(slot as u16));
        }
        put_u64(self.page, AT_LOWER, lower.0);
    }

    /// Leaves the rows below `upper`, which is the upper fence then; it lies within the fences.
    pub fn trim_from(&mut self, upper: RowId) {
        let first = self.view().lower_bound(upper).index();
        for slot in (first..self.view().count()).rev() {
            self.remove(SlotIndex(slot as u16));
        }
        put_u64(self.page, AT_UPPER, upper.0);
    }

    /// Adds to, or takes from, what is kept free for rollbacks.
    pub fn reserve(&mut self, bytes: isize) {
        reserve(self.page, bytes);
    }

    #[inline(always)]
    fn put_entry(&mut self, at: usize, offset: usize, len: usize) {
        let offset = if len == 0 { 0 } else { offset };
        self.put(at, offset);
        self.put(at + 2, len);
    }

    #[inline(always)]
    pub(super) fn set_bit(&mut self, at: usize, slot: usize, on: bool) {
        let mask = 1 << (slot % 8);
        let byte = &mut self.page[at];
        *byte = if on { *byte | mask } else { *byte & !mask };
    }

    fn open_slot(&mut self, geometry: Geometry, slot: usize, count: usize) {
        self.page
            .copy_within(geometry.row_id(slot)..geometry.row_id(count), AT_ROWS + slot * 8 + 8);
        self.each_bitmap(geometry, |bits| bits_up(bits, slot, count));
        for column in 0..self.layout.columns().len() {
            let place = self.layout.place(column).expect("columns were counted");
            let (from, to) = (geometry.value(slot, place), geometry.value(count, place));
            self.page.copy_within(from..to, from + usize::from(place.width));
        }
    }

    fn close_slot(&mut self, geometry: Geometry, slot: usize, count: usize) {
        self.page
            .copy_within(geometry.row_id(slot + 1)..geometry.row_id(count), AT_ROWS + slot * 8);
        self.each_bitmap(geometry, |bits| bits_down(bits, slot, count));
        for column in 0..self.layout.columns().len() {
            let place = self.layout.place(column).expect("columns were counted");
            let (from, to) = (geometry.value(slot + 1, place), geometry.value(count, place));
            self.page.copy_within(from..to, from - usize::from(place.width));
        }
    }

    fn each_bitmap(&mut self, geometry: Geometry, mut change: impl FnMut(&mut [u8])) {
        for bitmap in 0..1 + self.layout.columns().len() {
            let at = geometry.deleted + bitmap * geometry.bits_bytes;
            change(&mut self.page[at..at + geometry.bits_bytes]);
        }
    }
}

/// The widest value of a fixed width.
const FIXED_BYTES_MAX: usize = 8;

/// Puts a value of a fixed width at `at`: the widths that columns have are copied as words.
#[inline(always)]
pub(super) fn put_fixed(page: &mut [u8; PAGE_BYTES], at: usize, value: &[u8]) {
    let to = &mut page[at..at + value.len()];
    match value.len() {
        8 => copy::<8>(to, value),
        4 => copy::<4>(to, value),
        2 => copy::<2>(to, value),
        _ => to.copy_from_slice(value),
    }
}

/// Copies `N` bytes, of both.
#[inline(always)]
fn copy<const N: usize>(to: &mut [u8], from: &[u8]) {
    if let (Some(to), Some(from)) = (to.first_chunk_mut::<N>(), from.first_chunk::<N>()) {
        *to = *from;
    }
}

/// Adds to, or takes from, what a leaf keeps free for rollbacks, whatever its layout.
pub(crate) fn reserve(page: &mut [u8; PAGE_BYTES], bytes: isize) {
    let reserved = usize::from(OwnedPage(page).u16(AT_RESERVED)).checked_add_signed(bytes);
    let reserved = reserved.expect("no more is given back than was reserved");
    assert!(reserved <= USABLE_BYTES, "a leaf reserves no more than it has");
    put_u16(page, AT_RESERVED, reserved as u16);
}

/// What a leaf keeps free for rollbacks, whatever its layout.
pub(crate) fn reserved(page: &[u8; PAGE_BYTES]) -> u32 {
    u32::from(OwnedPage(page).u16(AT_RESERVED))
}

/// The lowest `count` bits, of at most eight.
fn low(count: usize) -> u8 {
    ((1_u16 << count) - 1) as u8
}

/// Moves bits `at..count` up by one; bit `at` keeps its value, and there is room for the last.
fn bits_up(bits: &mut [u8], at: usize, count: usize) {
    let (first, last) = (at / 8, count / 8);
    for byte in (first..=last).rev() {
        let old = bits[byte];
        let carry = if byte > first { bits[byte - 1] >> 7 } else { 0 };
        let below = if byte == first { low(at % 8 + 1) } else { 0 };
        let above = if byte == last { !low(count % 8 + 1) } else { 0 };
        let kept = below | above;
        bits[byte] = old & kept | (old << 1 | carry) & !kept;
    }
}

/// Moves bits `at + 1..count` down by one, onto `at`, and clears the last. By words: a leaf of short
/// rows has hundreds, and a queue's first one goes each time.
fn bits_down(bits: &mut [u8], at: usize, count: usize) {
    let (mut byte, last) = (at / 8, (count - 1) / 8);
    bits[last] &= low((count - 1) % 8 + 1);
    // The bits below `at`, in the first word or byte.
    let mut kept = u64::from(low(at % 8));
    while byte + 8 <= last
        && let Some(word) = bits[byte..].first_chunk::<8>()
    {
        let old = u64::from_le_bytes(*word);
        let carry = u64::from(bits[byte + 8]) << 63;
        let new = old & kept | (old >> 1 | carry) & !kept;
        bits[byte..byte + 8].copy_from_slice(&new.to_le_bytes());
        (kept, byte) = (0, byte + 8);
    }
    for byte in byte..=last {
        let old = bits[byte];
        let carry = if byte < last { bits[byte + 1] << 7 } else { 0 };
        bits[byte] = old & kept as u8 | (old >> 1 | carry) & !(kept as u8);
        kept = 0;
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn bits_move_as_one_by_one() {
        let mut random = fastrand::Rng::with_seed(7);
        for _ in 0..20_000 {
            let count = random.usize(1..230);
            let at = random.usize(..count);
            // No bit is set where no row is.
            let bits: Vec<bool> = (0..240).map(|i| i < count && random.bool()).collect();
            let pack = |bits: &[bool]| -> Vec<u8> {
                let byte = |eight: &[bool]| {
                    eight.iter().rev().fold(0, |byte, bit| byte << 1 | u8::from(*bit))
                };
                bits.chunks(8).map(byte).collect()
            };
            let (mut up, mut down) = (bits.clone(), bits.clone());
            up.insert(at, bits[at]);
            down.remove(at);
            down.push(false);
            let (mut moved_up, mut moved_down) = (pack(&bits), pack(&bits));
            bits_up(&mut moved_up, at, count);
            bits_down(&mut moved_down, at, count);
            assert_eq!(moved_up, pack(&up[..240]), "up from {at} of {count}");
            assert_eq!(moved_down, pack(&down), "down to {at} of {count}");
        }
    }
}
