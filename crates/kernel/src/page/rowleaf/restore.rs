//! Changing the rows of one leaf one after the other, as recovery does: what needs no more room than
//! there is, and no long value.
//!
//! Invariants: as in `edit`. A change is made whole, or answered with [`Took::No`]: then nothing but
//! values that the same change names may be as it wants them, and whoever makes it again, whole,
//! makes it right. Rows come in ascending order mostly: where the last one was is where the next is
//! looked for first.

use super::super::overflow::Form;
use super::edit::{LeafMut, RowState, put_fixed};
use super::{Leaf, SlotIndex, check_row_bytes, heap_bytes};
use crate::base::RowId;
use crate::latch::OwnedPage;
use crate::sync::mutant;

/// Whether a change was made.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Took {
    /// It was.
    Yes,
    /// Not here: it needs room, or the row is not as the change wants it, or long values are in it.
    No,
}

/// The slot of `row`, which is near `near` if rows ascend.
#[inline]
fn find(leaf: &Leaf<'_, OwnedPage<'_>>, row: RowId, near: SlotIndex) -> Option<SlotIndex> {
    for slot in [near.0, near.0.wrapping_add(1)] {
        if leaf.holds(SlotIndex(slot), row) {
            return Some(SlotIndex(slot));
        }
    }
    leaf.find(row)
}

impl LeafMut<'_> {
    /// Changes columns of a row that is here; `near` is where the last row was, and then where this
    /// one is.
    #[inline]
    pub fn take_columns<'v>(
        &mut self,
        row: RowId,
        near: &mut SlotIndex,
        changes: impl Iterator<Item = (u16, Option<&'v [u8]>)>,
    ) -> Took {
        let view = self.view();
        let Some(slot) = find(&view, row, *near) else { return Took::No };
        *near = slot;
        let (geometry, state) = (view.geometry(), view.state(slot));
        for (column, value) in changes {
            let column = usize::from(column);
            let Some(place) = self.layout.place(column) else { return Took::No };
            if place.variable {
                if self.take_variable(slot, column, value) == Took::No {
                    return Took::No;
                }
                continue;
            }
            let at = geometry.value(slot.index(), place);
            let null = geometry.null_bit(slot.index(), column);
            let Some(value) = value else {
                null.set(self.page, true);
                continue;
            };
            if value.len() != usize::from(place.width) {
                return Took::No;
            }
            put_fixed(self.page, at, value);
            null.set(self.page, false);
        }
        if state == RowState::Deleted {
            self.set_state(slot, RowState::Live);
        }
        Took::Yes
    }

    fn take_variable(&mut self, slot: SlotIndex, column: usize, value: Option<&[u8]>) -> Took {
        let view = self.view();
        if view.form(slot, column) == Form::Long && !mutant("replay-long-value-overwritten") {
            return Took::No;
        }
        let (old, new) =
            (view.column_bytes(slot, column).unwrap_or(0), value.map_or(0, <[u8]>::len));
        if new > old {
            let bytes = view.row_heap_bytes(slot) + (new - old);
            if new - old > view.free_bytes() || check_row_bytes(self.layout, bytes).is_err() {
                return Took::No;
            }
        }
        self.set_column(slot, column, value);
        Took::Yes
    }

    /// Stores a row that belongs here, if it is not here and `fits` says so; all its columns. `near`
    /// is then where it is.
    #[inline]
    pub fn take_row(
        &mut self,
        row: RowId,
        near: &mut SlotIndex,
        columns: &[Option<&[u8]>],
        fits: impl FnOnce(&Leaf<'_, OwnedPage<'_>>, usize) -> bool,
    ) -> Took {
        let view = self.view();
        let heap = heap_bytes(self.layout, columns);
        let is_last = view.count() == 0 || view.row_id(SlotIndex(view.count() as u16 - 1)) < row;
        let is_new = is_last || view.find(row).is_none();
        if !is_new || !fits(&view, heap) || check_row_bytes(self.layout, heap).is_err() {
            return Took::No;
        }
        *near = self.insert(row, columns);
        Took::Yes
    }

    /// Takes a row out that is here.
    pub fn take_out(&mut self, row: RowId, near: &mut SlotIndex) -> Took {
        let view = self.view();
        let Some(slot) = find(&view, row, *near) else { return Took::No };
        let has_longs =
            (0..self.layout.columns().len()).any(|column| view.form(slot, column) == Form::Long);
        if has_longs {
            return Took::No;
        }
        *near = slot;
        self.remove(slot);
        Took::Yes
    }
}
