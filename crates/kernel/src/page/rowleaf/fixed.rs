//! Values of fixed width of one row, read and replaced in place.
//!
//! Invariants: as in `edit`; the heap is not touched, so nothing moves.

use super::super::layout::{ColumnPlace, Layout};
use super::edit::{LeafMut, put_fixed};
use super::{Geometry, SlotIndex};
use crate::base::PAGE_BYTES;
use crate::latch::OwnedPage;

/// The values of fixed width of a row in a leaf that is held exclusively.
pub struct FixedValues<'a> {
    page: &'a mut [u8; PAGE_BYTES],
    layout: &'a Layout,
    geometry: Geometry,
    slot: usize,
}

impl<'a> LeafMut<'a> {
    /// The row's values of fixed width.
    #[inline]
    pub fn into_fixed(self, slot: SlotIndex) -> FixedValues<'a> {
        let geometry = self.view().geometry();
        FixedValues { page: self.page, layout: self.layout, geometry, slot: slot.index() }
    }
}

impl FixedValues<'_> {
    #[inline]
    fn place(&self, column: u16) -> ColumnPlace {
        let place = self.layout.place(usize::from(column));
        let place = place.expect("the leaf's layout has the column");
        assert!(!place.variable, "a column of fixed width");
        place
    }

    /// The value of a column, none if it is null.
    #[inline]
    pub fn get(&self, column: u16) -> Option<&[u8]> {
        let place = self.place(column);
        let null = self.geometry.null_bit(self.slot, usize::from(column));
        if null.is_set(OwnedPage(self.page)) {
            return None;
        }
        let at = self.geometry.value(self.slot, place);
        Some(&self.page[at..at + usize::from(place.width)])
    }

    /// Replaces the value of a column. Of a null its bytes stay as they were.
    #[inline]
    pub fn set(&mut self, column: u16, value: Option<&[u8]>) {
        let place = self.place(column);
        let null = self.geometry.null_bit(self.slot, usize::from(column));
        null.set(self.page, value.is_none());
        if let Some(value) = value {
            let width = usize::from(place.width);
            assert_eq!(value.len(), width, "a fixed value has its width");
            let at = self.geometry.value(self.slot, place);
            put_fixed(self.page, at, value);
        }
    }
}
