//! Leaves of table trees (rules 5.2 and 5.3): the rows' fixed parts, and a heap at the end.
//!
//! ```text
//! 0   common header (page::header)
//! 32  u16 layout version     34  u16 rows            36  u16 bytes of a fixed part
//! 38  u16 heap start         40  u16 dead heap bytes 42  u16 reserved bytes
//! 44  u16 deleted rows       46  u16 zero
//! 48  u64 lower fence, inclusive                     56  u64 upper fence, exclusive (MAX: none)
//! 64  the rows' fixed parts, by ascending id, one behind the other without gaps:
//!       u64 row id
//!       bits: whether the row is deleted, then for each column whether it is null
//!       for each column its value, or u16 offset and u16 length into the heap
//!       (bit 15 of the length: those bytes are a reference to a long value, page::overflow)
//!     ...free...
//!     heap, growing down from the page's end
//! ```
//!
//! A transaction wants most of what it reads of a row, and waits for each cache line of a cold one:
//! so a row's fixed part is in one piece, where PhoebeDB's leaves are PAX (ADR 2026-11-28, rows in one
//! piece).
//!
//! Invariants: rows are sorted by row id, within the fences, no id twice; fixed parts end at or
//! before the heap's start; a null or empty variable value owns no heap bytes;
//! **what is used, what is live in the heap and what is reserved never exceed the page**, whatever
//! rolls back (rule 5.3). Reading is generic over [`PageBytes`] and yields nonsense, never a fault,
//! on a page that is changing. Pure functions: no latch, no frame, no twin; `tree::table` pairs
//! each change with the twin's. The largest row is [`ROW_BYTES_MAX`], so two fit a page and a
//! split always makes room.

mod check;
mod edit;
mod fixed;
mod merge;
mod reshape;
mod restore;
#[cfg(all(test, not(loom)))]
mod tests;

pub use check::check;
pub use edit::{LeafMut, RowState};
pub(crate) use edit::{reserve, reserved};
pub use fixed::FixedValues;
pub(crate) use merge::{fences, is_underfull, lower_fence, merge};
pub(crate) use reshape::{format, relayout, split};
pub use restore::Took;

use super::header::HEADER_BYTES;
use super::layout::{Layout, ROW_ID_BYTES};
use super::overflow::{Form, LongRef};
use crate::base::{Error, PAGE_BYTES, Result, RowId};
use crate::latch::PageBytes;
use crate::sync::mutant;

/// Bytes of the largest row: its values' in its fixed part and its heap bytes. What two to a page
/// leave each, in whole hundreds: 8,000 with pages of 16 KiB, 3,900 of 8 KiB, 1,900 of 4 KiB.
pub const ROW_BYTES_MAX: usize = ((USABLE_BYTES - BITS_BYTES) / 2 - ROW_ID_BYTES) / 100 * 100;
/// What is too large when a row is (an `Error::TooLarge`'s `what`).
pub const ROW: &str = "row";

pub(crate) const AT_LAYOUT: usize = 32;
pub(crate) const AT_COUNT: usize = 34;
pub(crate) const AT_ROW_BYTES: usize = 36;
pub(crate) const AT_HEAP_START: usize = 38;
pub(crate) const AT_HEAP_DEAD: usize = 40;
pub(crate) const AT_RESERVED: usize = 42;
pub(crate) const AT_DELETED: usize = 44;
pub(crate) const AT_LOWER: usize = 48;
pub(crate) const AT_UPPER: usize = 56;
/// Where the rows' fixed parts begin.
pub(crate) const AT_ROWS: usize = 64;
/// Bytes that rows share.
pub(crate) const USABLE_BYTES: usize = PAGE_BYTES - AT_ROWS;
/// Kept for what two rows have besides their ids and values: bits, of 807 columns each and of
/// deletion. With more columns the largest rows are alone in their leaves.
const BITS_BYTES: usize = 202;
/// Fixed parts of so many bytes are fetched ahead whole.
const PREFETCHED_WHOLE_BYTES: usize = 256;
/// In the length of a variable value: its bytes are a reference to a long value.
pub(crate) const LONG: u16 = 1 << 15;
/// Rows that a leaf has at most, of any layout: each has an id and a byte of bits.
const ROWS_MAX: usize = USABLE_BYTES / (ROW_ID_BYTES + 1);
/// The upper fence of the last leaf.
pub const NO_FENCE: u64 = u64::MAX;

const _: () = {
    assert!(AT_LAYOUT == HEADER_BYTES && AT_COUNT == AT_LAYOUT + 2 && AT_ROW_BYTES == AT_COUNT + 2);
    assert!(AT_HEAP_START == AT_ROW_BYTES + 2 && AT_HEAP_DEAD == AT_HEAP_START + 2);
    assert!(AT_RESERVED == AT_HEAP_DEAD + 2 && AT_DELETED == AT_RESERVED + 2);
    assert!(AT_LOWER == AT_DELETED + 4 && AT_UPPER == AT_LOWER + 8 && AT_ROWS == AT_UPPER + 8);
    assert!(2 * (ROW_BYTES_MAX + ROW_ID_BYTES) + BITS_BYTES <= USABLE_BYTES);
    // The largest row with a bit for each of 1,600 columns fits a page of its own.
    let bits_bytes_max = (1 + super::layout::COLUMNS_MAX).div_ceil(8);
    assert!(ROW_BYTES_MAX + ROW_ID_BYTES + bits_bytes_max <= USABLE_BYTES);
    // The documented limit of pages as they are unless a build says otherwise.
    assert!(ROW_BYTES_MAX == 8000 || PAGE_BYTES != 16 * 1024);
    assert!(ROW_BYTES_MAX < LONG as usize);
};

/// A row's place in its leaf; changes when rows before it come or go.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Hash)]
pub struct SlotIndex(pub u16);

impl SlotIndex {
    /// As an index.
    #[inline]
    pub fn index(self) -> usize {
        usize::from(self.0)
    }
}

/// Where things are in a leaf of a layout.
#[derive(Clone, Copy)]
pub(crate) struct Geometry {
    /// Bytes of a fixed part.
    row_bytes: usize,
}

impl Geometry {
    #[inline(always)]
    pub fn new(layout: &Layout) -> Geometry {
        Geometry { row_bytes: layout.fixed_bytes() }
    }

    /// Where the fixed part of a row is; it begins with its id.
    #[inline(always)]
    pub fn row(&self, slot: usize) -> usize {
        AT_ROWS + slot * self.row_bytes
    }

    /// Where the bits of a row are.
    #[inline(always)]
    pub fn bits(&self, slot: usize) -> usize {
        self.row(slot) + ROW_ID_BYTES
    }

    #[inline(always)]
    pub fn null_bit(&self, slot: usize, column: usize) -> Bit {
        Bit::new(self.bits(slot), 1 + column)
    }

    #[inline(always)]
    pub fn deleted_bit(&self, slot: usize) -> Bit {
        Bit::new(self.bits(slot), 0)
    }

    #[inline(always)]
    pub fn value(&self, slot: usize, place: super::layout::ColumnPlace) -> usize {
        self.row(slot) + place.before as usize
    }
}

/// A bit of a page: its byte, and its place in there.
#[derive(Clone, Copy)]
pub(crate) struct Bit {
    pub byte: usize,
    pub mask: u8,
}

impl Bit {
    #[inline(always)]
    fn new(from: usize, number: usize) -> Bit {
        Bit { byte: from + number / 8, mask: 1 << (number % 8) }
    }

    #[inline(always)]
    fn is_set(self, bytes: impl PageBytes) -> bool {
        bytes.u8(self.byte) & self.mask != 0
    }

    #[inline(always)]
    fn set(self, page: &mut [u8; PAGE_BYTES], on: bool) {
        let byte = &mut page[self.byte];
        *byte = if on { *byte | self.mask } else { *byte & !self.mask };
    }
}

/// What a variable value's length says of its bytes.
#[inline(always)]
fn form(len: u16) -> Form {
    if len & LONG == 0 { Form::Inline } else { Form::Long }
}

/// Bytes of the fixed parts of `rows` rows.
pub(crate) fn fixed_bytes(layout: &Layout, rows: usize) -> usize {
    rows * layout.fixed_bytes()
}

/// Heap bytes of a row's variable values.
#[inline]
pub fn heap_bytes(layout: &Layout, columns: &[Option<&[u8]>]) -> usize {
    let values = layout.variable().iter().filter_map(|column| columns.get(usize::from(*column)));
    values.flatten().map(|value| value.len()).sum()
}

/// Heap bytes of a row that is to be stored. Error: `TooLarge` (54000) if no page could hold it.
#[inline]
pub fn checked_heap_bytes(layout: &Layout, columns: &[Option<&[u8]>]) -> Result<usize> {
    let heap = heap_bytes(layout, columns);
    check_row_bytes(layout, heap)?;
    Ok(heap)
}

/// Error: `TooLarge` (54000) if a row with that many heap bytes is more than [`ROW_BYTES_MAX`].
#[inline]
pub fn check_row_bytes(layout: &Layout, heap: usize) -> Result<()> {
    let bytes = heap + layout.row_bytes();
    if bytes > ROW_BYTES_MAX {
        return Err(Error::TooLarge { what: ROW, bytes, bytes_max: ROW_BYTES_MAX });
    }
    Ok(())
}

/// A leaf to read: racy, held or owned.
#[derive(Clone, Copy)]
pub struct Leaf<'a, B: PageBytes> {
    bytes: B,
    layout: &'a Layout,
    geometry: Geometry,
    count: usize,
}

impl<'a, B: PageBytes> Leaf<'a, B> {
    /// A view of `bytes` as a leaf of `layout`; the caller has matched the layout version.
    #[inline]
    pub fn new(bytes: B, layout: &'a Layout) -> Leaf<'a, B> {
        let count = usize::from(bytes.u16(AT_COUNT)).min(ROWS_MAX);
        Leaf { bytes, layout, geometry: Geometry::new(layout), count }
    }

    /// The layout by which the leaf is read.
    #[inline]
    pub fn layout(&self) -> &'a Layout {
        self.layout
    }

    /// Rows, deleted ones included.
    #[inline]
    pub fn count(&self) -> usize {
        self.count
    }

    /// The smallest row id that belongs here.
    #[inline]
    pub fn lower_fence(&self) -> RowId {
        RowId(self.bytes.u64(AT_LOWER))
    }

    /// The first row id that belongs to the next leaf; `None` in the last leaf.
    #[inline]
    pub fn upper_fence(&self) -> Option<RowId> {
        match self.bytes.u64(AT_UPPER) {
            NO_FENCE => None,
            fence => Some(RowId(fence)),
        }
    }

    /// Whether `row` belongs here.
    #[inline]
    pub fn covers(&self, row: RowId) -> bool {
        let upper = self.bytes.u64(AT_UPPER);
        self.bytes.u64(AT_LOWER) <= row.0 && (row.0 < upper || upper == NO_FENCE)
    }

    /// The id of the row in `slot`.
    #[inline(always)]
    pub fn row_id(&self, slot: SlotIndex) -> RowId {
        RowId(self.bytes.u64(self.geometry.row(slot.index())))
    }

    /// The first slot whose row id is at least `row`; the count if there is none.
    #[inline]
    pub fn lower_bound(&self, row: RowId) -> SlotIndex {
        if self.count == 0 {
            return SlotIndex(0);
        }
        // Ids ascend from the lower fence on, so row `fence + n` is in slot n or before: exactly there
        // while nothing is missing, which is the usual case. And no more slots before than ids lie
        // between.
        let lower = self.bytes.u64(AT_LOWER);
        let guess =
            usize::try_from(row.0.saturating_sub(lower)).unwrap_or(usize::MAX).min(self.count - 1);
        let at_guess = self.row_id(SlotIndex(guess as u16)).0;
        if at_guess < row.0 {
            return SlotIndex(self.count as u16);
        }
        let between = usize::try_from(at_guess - row.0).unwrap_or(usize::MAX);
        let (mut low, mut high) = (guess.saturating_sub(between), guess);
        while low < high {
            let middle = low.midpoint(high);
            if self.row_id(SlotIndex(middle as u16)).0 < row.0 {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        SlotIndex(low as u16)
    }

    /// The slot of `row`, if it is here (deleted or not).
    #[inline]
    pub fn find(&self, row: RowId) -> Option<SlotIndex> {
        let slot = self.lower_bound(row);
        self.holds(slot, row).then_some(slot)
    }

    /// Whether `row` is in that slot.
    #[inline]
    pub(crate) fn holds(&self, slot: SlotIndex, row: RowId) -> bool {
        slot.index() < self.count && self.row_id(slot) == row
    }

    /// Whether the row is marked deleted.
    #[inline]
    pub fn state(&self, slot: SlotIndex) -> RowState {
        match self.geometry.deleted_bit(slot.index()).is_set(self.bytes) {
            false => RowState::Live,
            true => RowState::Deleted,
        }
    }

    /// Whether the value is null. A column that the leaf's layout does not have is null.
    #[inline]
    pub fn is_null(&self, slot: SlotIndex, column: usize) -> bool {
        column >= self.layout.columns().len()
            || self.geometry.null_bit(slot.index(), column).is_set(self.bytes)
    }

    /// Bytes of the value, `None` if it is null.
    #[inline]
    pub fn column_bytes(&self, slot: SlotIndex, column: usize) -> Option<usize> {
        if self.is_null(slot, column) {
            return None;
        }
        let place = self.layout.place(column)?;
        if !place.variable {
            return Some(usize::from(place.width));
        }
        let at = self.geometry.value(slot.index(), place);
        Some(usize::from(self.bytes.u16(at + 2) & !LONG))
    }

    /// Whether the value's bytes here are a reference to a long value.
    #[inline]
    pub fn form(&self, slot: SlotIndex, column: usize) -> Form {
        match self.layout.place(column) {
            Some(place) if place.variable && !self.is_null(slot, column) => {
                form(self.bytes.u16(self.geometry.value(slot.index(), place) + 2))
            }
            _ => Form::Inline,
        }
    }

    /// Calls `found` for each of the row's long values, with its column.
    pub fn each_long(&self, slot: SlotIndex, mut found: impl FnMut(usize, LongRef)) {
        for column in 0..self.layout.columns().len() {
            if self.form(slot, column) == Form::Long
                && let Some(bytes) = self.column(slot, column)
                && let Some(reference) = LongRef::decode(&bytes)
            {
                found(column, reference);
            }
        }
    }

    /// Appends the value's bytes to `out` and says what they are; `None` if it is null (or the
    /// leaf's layout is older than the column).
    #[inline]
    pub fn append_column(&self, slot: SlotIndex, column: usize, out: &mut Vec<u8>) -> Option<Form> {
        if self.is_null(slot, column) {
            return None;
        }
        let place = self.layout.place(column)?;
        let at = self.geometry.value(slot.index(), place);
        let (at, len, form) = match place.variable {
            true => {
                let (offset, len) = (self.bytes.u16(at), self.bytes.u16(at + 2));
                (usize::from(offset), usize::from(len & !LONG), form(len))
            }
            false => (at, usize::from(place.width), Form::Inline),
        };
        self.bytes.append(at, len, out);
        Some(form)
    }

    /// The bits of a value of fixed width, zeros above; none if it is null, or of another kind.
    #[inline]
    pub(crate) fn fixed_bits(&self, slot: SlotIndex, column: usize) -> Option<u64> {
        let place = self.layout.place(column).filter(|place| !place.variable)?;
        if self.is_null(slot, column) {
            return None;
        }
        let at = self.geometry.value(slot.index(), place);
        Some(match place.width {
            1 => u64::from(self.bytes.u8(at)),
            2 => u64::from(self.bytes.u16(at)),
            4 => u64::from(self.bytes.u32(at)),
            _ => self.bytes.u64(at),
        })
    }

    /// Asks for the cache lines of a row's fixed part: of a long one only for those of `columns`.
    #[inline]
    pub fn prefetch(&self, slot: SlotIndex, columns: &[u16]) {
        let row = self.geometry.row(slot.index());
        if self.geometry.row_bytes <= PREFETCHED_WHOLE_BYTES {
            self.bytes.prefetch(row, self.geometry.row_bytes);
            return;
        }
        self.bytes.prefetch(row, 1);
        for place in columns.iter().filter_map(|column| self.layout.place(usize::from(*column))) {
            self.bytes.prefetch(row + place.before as usize, 1);
        }
    }

    /// The slot where `row` is if no row before it is missing.
    #[inline]
    pub(crate) fn likely_slot(&self, row: RowId) -> SlotIndex {
        // A tree's first fence is 0, its first row 1.
        let slot = row.0.saturating_sub(self.bytes.u64(AT_LOWER).max(1));
        SlotIndex(slot.min(self.count.saturating_sub(1) as u64) as u16)
    }

    /// Asks for a row's variable values, as far as its fixed part says where they are.
    #[inline]
    pub(crate) fn prefetch_heap(&self, slot: SlotIndex, columns: &[u16]) {
        for place in columns.iter().filter_map(|column| self.layout.place(usize::from(*column))) {
            if place.variable {
                let at = self.geometry.value(slot.index(), place);
                let (offset, len) = (self.bytes.u16(at), self.bytes.u16(at + 2) & !LONG);
                let within = usize::from(offset) % 64;
                self.bytes.prefetch(usize::from(offset) - within, within + usize::from(len));
            }
        }
    }

    /// The value as an owned copy, `None` if it is null.
    pub fn column(&self, slot: SlotIndex, column: usize) -> Option<Vec<u8>> {
        let mut out = Vec::new();
        self.append_column(slot, column, &mut out).map(|_| out)
    }

    /// Heap bytes of the row's values.
    pub fn row_heap_bytes(&self, slot: SlotIndex) -> usize {
        let variable = |i: &usize| self.layout.columns()[*i].fixed_bytes().is_none();
        let columns = (0..self.layout.columns().len()).filter(variable);
        columns.map(|i| self.column_bytes(slot, i).unwrap_or(0)).sum()
    }

    /// Bytes of the heap that values own.
    #[inline]
    pub fn heap_live(&self) -> usize {
        let start = usize::from(self.bytes.u16(AT_HEAP_START));
        (PAGE_BYTES.saturating_sub(start)).saturating_sub(usize::from(self.bytes.u16(AT_HEAP_DEAD)))
    }

    /// Bytes kept free for rollbacks (rule 5.3).
    #[inline]
    pub fn reserved(&self) -> usize {
        usize::from(self.bytes.u16(AT_RESERVED))
    }

    /// Rows that are marked deleted.
    #[inline]
    pub fn deleted(&self) -> usize {
        usize::from(self.bytes.u16(AT_DELETED))
    }

    /// Bytes that values may grow by: neither used, nor live, nor reserved.
    #[inline]
    pub fn free_bytes(&self) -> usize {
        let reserved = if mutant("rowleaf_grows_into_reserved") { 0 } else { self.reserved() };
        let used = fixed_bytes(self.layout, self.count) + self.heap_live() + reserved;
        USABLE_BYTES.saturating_sub(used)
    }

    /// Whether one more row with `heap` bytes of variable values fits, compacting the heap if need be.
    #[inline]
    pub fn fits_row(&self, heap: usize) -> bool {
        let used = fixed_bytes(self.layout, self.count + 1) + self.heap_live() + self.reserved();
        used + heap <= USABLE_BYTES
    }

    /// Bytes in one piece between the fixed parts and the heap.
    #[inline]
    pub(crate) fn contiguous(&self) -> usize {
        usize::from(self.bytes.u16(AT_HEAP_START)).saturating_sub(self.geometry.row(self.count))
    }

    pub(crate) fn bytes(&self) -> B {
        self.bytes
    }

    pub(crate) fn geometry(&self) -> Geometry {
        self.geometry
    }
}
