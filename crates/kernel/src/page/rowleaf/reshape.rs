//! Making, reshaping and splitting leaves.
//!
//! Invariants: reshaping keeps rows, slots, states, values, fences and the reserved sum; it only
//! moves bytes: it compacts the heap, or brings the leaf to a newer layout (whose added columns are
//! null). A split moves the upper rows to an empty leaf.

use super::super::header::{put_u16, put_u64};
use super::super::layout::Layout;
use super::{
    AT_COUNT, AT_DELETED, AT_HEAP_DEAD, AT_HEAP_START, AT_LAYOUT, AT_LOWER, AT_RESERVED,
    AT_ROW_BYTES, AT_ROWS, AT_UPPER, Geometry, LONG, Leaf, NO_FENCE, RowState, SlotIndex,
    USABLE_BYTES, fixed_bytes,
};
use crate::base::{PAGE_BYTES, RowId};
use crate::latch::{OwnedPage, PageBytes};

/// Makes an empty leaf in a page that has its common header (`page::header::format`).
pub(crate) fn format(
    page: &mut [u8; PAGE_BYTES],
    layout: &Layout,
    lower: RowId,
    upper: Option<RowId>,
) {
    put_u16(page, AT_LAYOUT, layout.version());
    put_u16(page, AT_COUNT, 0);
    put_u16(page, AT_ROW_BYTES, layout.fixed_bytes() as u16);
    put_u16(page, AT_HEAP_START, PAGE_BYTES as u16);
    put_u16(page, AT_HEAP_DEAD, 0);
    put_u16(page, AT_RESERVED, 0);
    put_u16(page, AT_DELETED, 0);
    put_u64(page, AT_LOWER, lower.0);
    put_u64(page, AT_UPPER, upper.map_or(NO_FENCE, |row| row.0));
}

/// Wins the heap's dead bytes back. But for where values lie, nothing changes in the fixed parts.
pub(super) fn compact_heap(page: &mut [u8; PAGE_BYTES], layout: &Layout) {
    let old = Box::new(*page);
    let view = Leaf::new(OwnedPage(&old), layout);
    let start = usize::from(view.bytes().u16(AT_HEAP_START));
    let mut heap_start = PAGE_BYTES;
    for slot in 0..view.count() {
        let values = view.geometry().row(slot) + layout.values_at();
        heap_start = copy_heap(&view, slot, page, values, heap_start);
    }
    page[start..heap_start].fill(0);
    put_u16(page, AT_HEAP_START, heap_start as u16);
    put_u16(page, AT_HEAP_DEAD, 0);
}

/// Copies rows into a leaf of layout `to` without any, from slot 0 on; returns the heap's start.
fn copy_rows(
    from: &Leaf<'_, OwnedPage<'_>>,
    rows: std::ops::Range<usize>,
    page: &mut [u8; PAGE_BYTES],
    to: &Layout,
) -> usize {
    let (layout, geometry) = (from.layout(), Geometry::new(to));
    // A newer layout begins with the older one's columns; the added ones are null.
    let (head, values) = (layout.values_at(), layout.row_bytes());
    let added = layout.columns().len()..to.columns().len();
    let mut heap_start = PAGE_BYTES;
    for (slot, row) in rows.enumerate() {
        let (at, old) = (geometry.row(slot), &from.bytes().0[from.geometry().row(row)..]);
        page[at..at + head].copy_from_slice(&old[..head]);
        for column in added.clone() {
            geometry.null_bit(slot, column).set(page, true);
        }
        let at = at + to.values_at();
        page[at..at + values].copy_from_slice(&old[head..head + values]);
        heap_start = copy_heap(from, row, page, at, heap_start);
    }
    heap_start
}

/// Copies a row's variable values in front of `heap_start`, and says where they are in its values
/// at `at`; returns the heap's start.
fn copy_heap(
    from: &Leaf<'_, OwnedPage<'_>>,
    row: usize,
    page: &mut [u8; PAGE_BYTES],
    at: usize,
    mut heap_start: usize,
) -> usize {
    let layout = from.layout();
    for place in layout.variable().iter().map(|column| layout.places()[usize::from(*column)]) {
        let entry = from.geometry().value(row, place);
        let (offset, stored) = (from.bytes().u16(entry), from.bytes().u16(entry + 2));
        let len = usize::from(stored & !LONG);
        if len == 0 {
            continue;
        }
        heap_start -= len;
        let offset = usize::from(offset);
        page[heap_start..heap_start + len].copy_from_slice(&from.bytes().0[offset..offset + len]);
        put_u16(page, at + place.before as usize - layout.values_at(), heap_start as u16);
    }
    heap_start
}

/// Brings a leaf to a newer layout; `false` if it does not fit (split it first). Rows, slots, states,
/// values, fences and what is reserved stay.
pub(crate) fn relayout(page: &mut [u8; PAGE_BYTES], from: &Layout, to: &Layout) -> bool {
    let view = Leaf::new(OwnedPage(page), from);
    let rows = view.count();
    if fixed_bytes(to, rows) + view.heap_live() + view.reserved() > USABLE_BYTES {
        return false;
    }
    let old = Box::new(*page);
    let view = Leaf::new(OwnedPage(&old), from);
    page[AT_ROWS..].fill(0);
    put_u16(page, AT_LAYOUT, to.version());
    put_u16(page, AT_ROW_BYTES, to.fixed_bytes() as u16);
    let heap_start = copy_rows(&view, 0..rows, page, to);
    put_u16(page, AT_HEAP_START, heap_start as u16);
    put_u16(page, AT_HEAP_DEAD, 0);
    true
}

/// Moves the rows from slot `first` on to the empty page `right` (common header made, else zeros), which then
/// covers what `left` covered from `separator` on. Reserved bytes stay with `left`: the caller
/// moves those of the rows that went.
pub(crate) fn split(
    left: &mut [u8; PAGE_BYTES],
    right: &mut [u8; PAGE_BYTES],
    layout: &Layout,
    first: SlotIndex,
    separator: RowId,
) {
    let view = Leaf::new(OwnedPage(left), layout);
    let (rows, first) = (view.count(), first.index());
    debug_assert!(first <= rows && view.covers(separator));
    format(right, layout, separator, view.upper_fence());
    // An appending leaf that is full stays as it is; only its fence moves.
    if first < rows {
        let old = Box::new(*left);
        let view = Leaf::new(OwnedPage(&old), layout);
        take_rows(right, &view, first..rows);
        left[AT_ROWS..].fill(0);
        take_rows(left, &view, 0..first);
    }
    put_u64(left, AT_UPPER, separator.0);
}

/// Copies rows of `from` to a leaf of its layout without any, whose bytes behind the header are zeros.
fn take_rows(
    page: &mut [u8; PAGE_BYTES],
    from: &Leaf<'_, OwnedPage<'_>>,
    rows: std::ops::Range<usize>,
) {
    let heap_start = copy_rows(from, rows.clone(), page, from.layout());
    let is_deleted = |row: &usize| from.state(SlotIndex(*row as u16)) == RowState::Deleted;
    let deleted = rows.clone().filter(is_deleted).count();
    put_u16(page, AT_COUNT, rows.len() as u16);
    put_u16(page, AT_HEAP_START, heap_start as u16);
    put_u16(page, AT_HEAP_DEAD, 0);
    put_u16(page, AT_DELETED, deleted as u16);
}
