//! Making, reshaping and splitting PAX leaves.
//!
//! Invariants: reshaping keeps rows, slots, states, values, fences and the reserved sum; it only
//! moves bytes: it compacts the heap, gives the minipages another capacity, or brings the leaf to
//! a newer layout (whose added columns are null). A split moves the upper rows to an empty leaf.

use super::super::header::{put_u16, put_u64};
use super::super::layout::{ColumnPlace, Layout};
use super::{
    AT_CAPACITY, AT_COUNT, AT_DELETED, AT_HEAP_DEAD, AT_HEAP_START, AT_LAYOUT, AT_LOWER,
    AT_RESERVED, AT_ROWS, AT_UPPER, Geometry, LONG, Leaf, NO_FENCE, RowState, SlotIndex,
    USABLE_BYTES, minipage_bytes,
};
use crate::base::{PAGE_BYTES, RowId};
use crate::latch::{OwnedPage, PageBytes};

/// The capacity that suits a leaf which has `rows` rows and `heap` bytes for them: minipages and
/// heap fill up together if the rows to come are like those. At least `rows`.
pub(super) fn capacity_for(layout: &Layout, rows: usize, heap: usize) -> usize {
    let rows = rows.max(1);
    let average = heap.div_ceil(rows);
    let eighths = 8 * (8 + layout.row_bytes() + average) + 1 + layout.columns().len();
    let mut capacity = (USABLE_BYTES * 8 / eighths).max(rows);
    while capacity > rows
        && minipage_bytes(layout, capacity) + heap.max(capacity * average) > USABLE_BYTES
    {
        capacity -= 1;
    }
    capacity
}

/// Makes an empty leaf in a page that has its common header (`page::header::format`).
/// `heap_per_row` is what rows are expected to need.
pub(crate) fn format(
    page: &mut [u8; PAGE_BYTES],
    layout: &Layout,
    lower: RowId,
    upper: Option<RowId>,
    heap_per_row: usize,
) {
    put_u16(page, AT_LAYOUT, layout.version());
    put_u16(page, AT_COUNT, 0);
    put_u16(page, AT_CAPACITY, capacity_for(layout, 1, heap_per_row) as u16);
    put_u16(page, AT_HEAP_START, PAGE_BYTES as u16);
    put_u16(page, AT_HEAP_DEAD, 0);
    put_u16(page, AT_RESERVED, 0);
    put_u16(page, AT_DELETED, 0);
    put_u64(page, AT_LOWER, lower.0);
    put_u64(page, AT_UPPER, upper.map_or(NO_FENCE, |row| row.0));
}

/// Gives the leaf another capacity and the layout `to`, and compacts its heap. The capacity is at
/// least the row count and everything fits.
pub(super) fn reshape(page: &mut [u8; PAGE_BYTES], from: &Layout, to: &Layout, capacity: usize) {
    let old = Box::new(*page);
    let view = Leaf::new(OwnedPage(&old), from);
    let rows = view.count();
    debug_assert!(capacity >= rows);
    let geometry = Geometry::new(to, capacity);
    page[AT_ROWS..].fill(0);
    put_u16(page, AT_LAYOUT, to.version());
    put_u16(page, AT_CAPACITY, capacity as u16);
    put_u16(page, AT_HEAP_DEAD, 0);
    let heap_start = copy_rows(&view, 0..rows, page, to, geometry);
    put_u16(page, AT_HEAP_START, heap_start as u16);
    assert!(geometry.end(to) <= heap_start, "a reshaped leaf fits its page");
}

/// Wins the heap's dead bytes back. The minipages stay where they are: but for where values lie, nothing changes in them.
pub(super) fn compact_heap(page: &mut [u8; PAGE_BYTES], layout: &Layout) {
    let old = Box::new(*page);
    let view = Leaf::new(OwnedPage(&old), layout);
    let (rows, geometry) = (view.count(), view.geometry());
    let start = usize::from(view.bytes().u16(AT_HEAP_START));
    let mut heap_start = PAGE_BYTES;
    let places = (0..layout.columns().len()).filter_map(|column| layout.place(column));
    for place in places.filter(|place| place.variable) {
        heap_start = copy_heap_column(&view, 0..rows, place, page, geometry, place, heap_start);
    }
    page[start..heap_start].fill(0);
    put_u16(page, AT_HEAP_START, heap_start as u16);
    put_u16(page, AT_HEAP_DEAD, 0);
}

/// Copies rows into an empty leaf of `geometry`, from slot 0 on; returns the heap's start.
fn copy_rows(
    from: &Leaf<'_, OwnedPage<'_>>,
    rows: std::ops::Range<usize>,
    page: &mut [u8; PAGE_BYTES],
    to: &Layout,
    geometry: Geometry,
) -> usize {
    let source = from.bytes().0;
    let old = from.geometry();
    let ids = &source[old.row_id(rows.start)..old.row_id(rows.end)];
    page[AT_ROWS..AT_ROWS + ids.len()].copy_from_slice(ids);
    for (slot, row) in rows.clone().enumerate() {
        if from.state(SlotIndex(row as u16)) == RowState::Deleted {
            page[geometry.deleted + slot / 8] |= 1 << (slot % 8);
        }
    }
    let mut heap_start = PAGE_BYTES;
    for column in 0..to.columns().len() {
        for (slot, row) in rows.clone().enumerate() {
            if from.is_null(SlotIndex(row as u16), column) {
                page[geometry.null_byte(slot, column)] |= 1 << (slot % 8);
            }
        }
        let place = to.place(column).expect("columns were counted");
        let Some(old_place) = from.layout().place(column) else { continue };
        if place.variable {
            heap_start =
                copy_heap_column(from, rows.clone(), old_place, page, geometry, place, heap_start);
        } else {
            let values = &source[old.value(rows.start, old_place)..old.value(rows.end, old_place)];
            let at = geometry.value(0, place);
            page[at..at + values.len()].copy_from_slice(values);
        }
    }
    heap_start
}

fn copy_heap_column(
    from: &Leaf<'_, OwnedPage<'_>>,
    rows: std::ops::Range<usize>,
    old_place: ColumnPlace,
    page: &mut [u8; PAGE_BYTES],
    geometry: Geometry,
    place: ColumnPlace,
    mut heap_start: usize,
) -> usize {
    for (slot, row) in rows.enumerate() {
        let entry = from.geometry().value(row, old_place);
        let (offset, stored) = (from.bytes().u16(entry), from.bytes().u16(entry + 2));
        let len = usize::from(stored & !LONG);
        if len == 0 {
            continue;
        }
        heap_start -= len;
        let offset = usize::from(offset);
        page[heap_start..heap_start + len].copy_from_slice(&from.bytes().0[offset..offset + len]);
        let at = geometry.value(slot, place);
        put_u16(page, at, heap_start as u16);
        put_u16(page, at + 2, stored);
    }
    heap_start
}

/// Brings a leaf to a newer layout; `false` if it does not fit (split it first).
pub(crate) fn relayout(page: &mut [u8; PAGE_BYTES], from: &Layout, to: &Layout) -> bool {
    let view = Leaf::new(OwnedPage(page), from);
    let (rows, heap) = (view.count(), view.heap_live() + view.reserved());
    if minipage_bytes(to, rows) + heap > USABLE_BYTES {
        return false;
    }
    reshape(page, from, to, capacity_for(to, rows, heap));
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
    format(right, layout, separator, view.upper_fence(), view.heap_live() / rows.max(1));
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

/// Copies rows of `from` to a leaf without any, whose minipages and heap are zeros.
fn take_rows(
    page: &mut [u8; PAGE_BYTES],
    from: &Leaf<'_, OwnedPage<'_>>,
    rows: std::ops::Range<usize>,
) {
    let layout = from.layout();
    let heap: usize = rows.clone().map(|row| from.row_heap_bytes(SlotIndex(row as u16))).sum();
    let hint = if rows.is_empty() { from.heap_live() / from.count().max(1) } else { heap };
    let capacity = capacity_for(layout, rows.len(), hint);
    let geometry = Geometry::new(layout, capacity);
    let heap_start = copy_rows(from, rows.clone(), page, layout, geometry);
    let is_deleted = |row: &usize| from.state(SlotIndex(*row as u16)) == RowState::Deleted;
    let deleted = rows.clone().filter(is_deleted).count();
    put_u16(page, AT_CAPACITY, capacity as u16);
    put_u16(page, AT_COUNT, rows.len() as u16);
    put_u16(page, AT_HEAP_START, heap_start as u16);
    put_u16(page, AT_HEAP_DEAD, 0);
    put_u16(page, AT_DELETED, deleted as u16);
}
