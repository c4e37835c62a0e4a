//! Structural check of a leaf, for `check` of trees, `atoll check` and the fuzz target.
//!
//! Invariants: reads any bytes at all without a fault; reports, changes nothing.

use super::{
    AT_COUNT, AT_HEAP_DEAD, AT_HEAP_START, AT_LAYOUT, AT_ROW_BYTES, LONG, Leaf, RowState,
    SlotIndex, USABLE_BYTES, fixed_bytes,
};
use crate::base::PAGE_BYTES;
use crate::latch::{OwnedPage, PageBytes};
use crate::page::header::{self, PageKind};
use crate::page::layout::Layout;
use crate::page::overflow::REFERENCE_BYTES;

/// What is wrong with the leaf, one sentence each; empty if nothing is.
pub fn check(page: &[u8; PAGE_BYTES], layout: &Layout) -> Vec<String> {
    let mut faults = Vec::new();
    let bytes = OwnedPage(page);
    if header::kind(bytes) != Some(PageKind::TableLeaf) {
        return vec![format!("kind is {} and not that of a table leaf", bytes.u8(header::AT_KIND))];
    }
    if bytes.u16(AT_LAYOUT) != layout.version() {
        return vec![format!("layout {} is not {}", bytes.u16(AT_LAYOUT), layout.version())];
    }
    let view = Leaf::new(bytes, layout);
    let heap_start = usize::from(bytes.u16(AT_HEAP_START));
    let row_bytes = usize::from(bytes.u16(AT_ROW_BYTES));
    if row_bytes != layout.fixed_bytes() {
        let expected = layout.fixed_bytes();
        return vec![format!("{row_bytes} bytes a row are not the layout's {expected}")];
    }
    let end = view.geometry().row(usize::from(bytes.u16(AT_COUNT)));
    if end > heap_start || heap_start > PAGE_BYTES {
        return vec![format!("rows end at {end}, the heap begins at {heap_start}")];
    }
    check_rows(&view, &mut faults);
    check_heap(&view, heap_start, &mut faults);
    let used = fixed_bytes(layout, view.count()) + view.heap_live() + view.reserved();
    if used > USABLE_BYTES {
        faults.push(format!("used and reserved bytes are {used}, more than the page has"));
    }
    faults
}

fn check_rows(view: &Leaf<'_, OwnedPage<'_>>, faults: &mut Vec<String>) {
    let mut deleted = 0;
    let mut before = None;
    for slot in 0..view.count() {
        let slot = SlotIndex(slot as u16);
        let row = view.row_id(slot);
        if before.is_some_and(|before| before >= row) {
            faults.push(format!("row {row} in slot {} is out of order", slot.0));
        }
        if !view.covers(row) {
            faults.push(format!("row {row} is outside the fences"));
        }
        before = Some(row);
        deleted += usize::from(view.state(slot) == RowState::Deleted);
    }
    if deleted != view.deleted() {
        faults.push(format!("{deleted} rows are deleted, the header says {}", view.deleted()));
    }
    if let Some(upper) = view.upper_fence()
        && upper <= view.lower_fence()
    {
        faults.push(format!("fences {} and {upper} enclose nothing", view.lower_fence()));
    }
}

fn check_heap(view: &Leaf<'_, OwnedPage<'_>>, heap_start: usize, faults: &mut Vec<String>) {
    let (layout, bytes) = (view.layout(), view.bytes());
    let mut pieces = Vec::new();
    for column in 0..layout.columns().len() {
        let place = layout.place(column).expect("columns were counted");
        if !place.variable {
            continue;
        }
        for slot in 0..view.count() {
            let at = view.geometry().value(slot, place);
            let (offset, stored) = (usize::from(bytes.u16(at)), bytes.u16(at + 2));
            let len = usize::from(stored & !LONG);
            if stored & LONG != 0 && len != REFERENCE_BYTES {
                faults.push(format!("slot {slot}, column {column}: a reference of {len} bytes"));
            }
            if len == 0 {
                continue;
            }
            if view.is_null(SlotIndex(slot as u16), column) {
                faults.push(format!("the null in slot {slot}, column {column} owns heap bytes"));
            }
            if offset < heap_start || offset + len > PAGE_BYTES {
                faults.push(format!("slot {slot}, column {column} points outside the heap"));
            }
            pieces.push((offset, len));
        }
    }
    pieces.sort_unstable();
    for pair in pieces.windows(2) {
        if pair[0].0 + pair[0].1 > pair[1].0 {
            faults.push(format!("heap bytes at {} have two owners", pair[1].0));
        }
    }
    let live: usize = pieces.iter().map(|piece| piece.1).sum();
    let dead = usize::from(bytes.u16(AT_HEAP_DEAD));
    if live + dead != PAGE_BYTES - heap_start {
        faults.push(format!("{live} live and {dead} dead bytes do not make up the heap"));
    }
}
