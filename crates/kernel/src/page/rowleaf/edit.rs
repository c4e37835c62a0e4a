//! Changing a row leaf: insert, set, mark, remove.
//!
//! Invariants: the caller holds the page exclusively and has made sure of room where a function
//! says so; a function leaves the page as `check` wants it. Values have their column's width (a
//! wrong width is a mistake of the layer above and ends in a panic before anything is stored).

use super::super::header::{put_u16, put_u64};
use super::super::layout::Layout;
use super::super::overflow::REFERENCE_BYTES;
use super::reshape::compact_heap;
use super::{
    AT_COUNT, AT_DELETED, AT_HEAP_DEAD, AT_HEAP_START, AT_LOWER, AT_RESERVED, AT_UPPER, Geometry,
    LONG, Leaf, SlotIndex, USABLE_BYTES,
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

    /// Makes `bytes` contiguous in front of the heap: they fit ([`Leaf::fits_row`],
    /// [`Leaf::free_bytes`]), or were reserved. Slots do not change.
    #[inline]
    fn make_contiguous(&mut self, bytes: usize) {
        if self.view().contiguous() < bytes {
            compact_heap(self.page, self.layout);
            // What a rollback needs was reserved, and what a change needs was asked for before.
            assert!(self.view().contiguous() >= bytes, "the leaf has room for what it promised");
        }
    }

    /// Stores a new row at its place by row id. It must fit ([`Leaf::fits_row`]), belong here and
    /// not be here. `columns` are all columns of the layout. Rows behind move up by one slot.
    #[inline]
    pub fn insert(&mut self, row: RowId, columns: &[Option<&[u8]>]) -> SlotIndex {
        assert_eq!(columns.len(), self.layout.columns().len(), "a row has every column");
        let heap = super::heap_bytes(self.layout, columns);
        self.make_contiguous(self.layout.fixed_bytes() + heap);
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
        let at_row = geometry.row(slot);
        put_u64(self.page, at_row, row.0);
        let bits = geometry.bits(slot);
        self.page[bits..bits + self.layout.bits_bytes()].fill(0);
        for (column, (place, value)) in self.layout.places().iter().zip(columns).enumerate() {
            let at = at_row + place.before as usize;
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
                None => {
                    geometry.null_bit(slot, column).set(self.page, true);
                    put_fixed(self.page, at, &[0; FIXED_BYTES_MAX][..width]);
                }
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
            geometry.null_bit(slot.index(), column).set(self.page, value.is_none());
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
            self.put_entry(at, heap_start, new);
        }
        geometry.null_bit(slot.index(), column).set(self.page, value.is_none());
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

    /// Marks a row deleted, or not deleted again. Its bytes stay.
    pub fn set_state(&mut self, slot: SlotIndex, state: RowState) {
        let view = self.view();
        let (before, deleted, geometry) = (view.state(slot), view.deleted(), view.geometry());
        if before == state {
            return;
        }
        let gone = state == RowState::Deleted;
        geometry.deleted_bit(slot.index()).set(self.page, gone);
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

    fn open_slot(&mut self, geometry: Geometry, slot: usize, count: usize) {
        self.page.copy_within(geometry.row(slot)..geometry.row(count), geometry.row(slot + 1));
    }

    fn close_slot(&mut self, geometry: Geometry, slot: usize, count: usize) {
        self.page.copy_within(geometry.row(slot + 1)..geometry.row(count), geometry.row(slot));
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
