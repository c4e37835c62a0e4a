//! Two neighbouring leaves become one.
//!
//! Invariants: all or nothing; neither leaf keeps anything for rollbacks (no twin, rule 5.3). The
//! left leaf then has the rows of both, its own lower fence and the right one's upper fence, and
//! an eighth of a page free.

use super::super::header::put_u64;
use super::super::layout::Layout;
use super::super::overflow::Form;
use super::{
    AT_COUNT, AT_HEAP_DEAD, AT_HEAP_START, AT_LAYOUT, AT_LOWER, AT_ROW_BYTES, AT_UPPER, Leaf,
    LeafMut, NO_FENCE, SlotIndex, USABLE_BYTES, fixed_bytes,
};
use crate::base::{PAGE_BYTES, RowId};
use crate::latch::{OwnedPage, PageBytes};

/// Whether so few rows are in a leaf that it should be merged with a neighbour.
pub(crate) fn is_underfull(page: &[u8; PAGE_BYTES]) -> bool {
    let view = OwnedPage(page);
    let heap = PAGE_BYTES - usize::from(view.u16(AT_HEAP_START)).min(PAGE_BYTES);
    let live = heap.saturating_sub(usize::from(view.u16(AT_HEAP_DEAD)));
    let fixed = usize::from(view.u16(AT_COUNT)) * usize::from(view.u16(AT_ROW_BYTES));
    fixed + live <= USABLE_BYTES / 4
}

/// The smallest row id that belongs into a leaf, whatever its layout.
pub(crate) fn lower_fence(page: &[u8; PAGE_BYTES]) -> RowId {
    RowId(OwnedPage(page).u64(AT_LOWER))
}

/// The smallest row id that belongs into a leaf, and the first that belongs behind it, if there is one;
/// whatever its layout.
pub(crate) fn fences(page: impl PageBytes) -> (RowId, Option<RowId>) {
    let upper = page.u64(AT_UPPER);
    (RowId(page.u64(AT_LOWER)), (upper != NO_FENCE).then_some(RowId(upper)))
}

/// Moves the rows of `right` into `left`; false, and nothing is changed, if they do not fit or the
/// layouts differ.
pub(crate) fn merge(
    left: &mut [u8; PAGE_BYTES],
    right: &[u8; PAGE_BYTES],
    (left_layout, right_layout): (&Layout, &Layout),
) -> bool {
    let from = Leaf::new(OwnedPage(right), right_layout);
    let to = Leaf::new(OwnedPage(left), left_layout);
    debug_assert_eq!((from.reserved(), to.reserved()), (0, 0), "leaves without twins");
    if from.count() == 0 {
        put_u64(left, AT_UPPER, OwnedPage(right).u64(AT_UPPER));
        return true;
    }
    if to.count() == 0 {
        let lower = OwnedPage(left).u64(AT_LOWER);
        left[AT_LAYOUT..].copy_from_slice(&right[AT_LAYOUT..]);
        put_u64(left, AT_LOWER, lower);
        return true;
    }
    let rows = from.count() + to.count();
    let used = fixed_bytes(left_layout, rows) + from.heap_live() + to.heap_live();
    if left_layout.version() != right_layout.version() || used > USABLE_BYTES / 8 * 7 {
        return false;
    }
    put_u64(left, AT_UPPER, OwnedPage(right).u64(AT_UPPER));
    let columns = right_layout.columns().len();
    let mut leaf = LeafMut::new(left, left_layout);
    for slot in (0..from.count()).map(|slot| SlotIndex(slot as u16)) {
        let values: Vec<Option<Vec<u8>>> =
            (0..columns).map(|column| from.column(slot, column)).collect();
        let values: Vec<Option<&[u8]>> = values.iter().map(Option::as_deref).collect();
        let at = leaf.insert(from.row_id(slot), &values);
        for column in (0..columns).filter(|column| from.form(slot, *column) == Form::Long) {
            leaf.set_long(at, column);
        }
        leaf.set_state(at, from.state(slot));
    }
    true
}
