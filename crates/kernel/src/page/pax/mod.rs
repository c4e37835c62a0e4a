//! PAX leaves of table trees (rules 5.2 and 5.3): per column a minipage, a heap at the end.
//!
//! ```text
//! 0   common header (page::header)
//! 32  u16 layout version     34  u16 rows            36  u16 capacity (rows that minipages hold)
//! 38  u16 heap start         40  u16 dead heap bytes 42  u16 reserved bytes
//! 44  u16 deleted rows       46  u16 zero
//! 48  u64 lower fence, inclusive                     56  u64 upper fence, exclusive (MAX: none)
//! 64  row ids, u64 each, ascending
//!     deleted bits, one a row, then null bits, one a row for each column
//!     one minipage a column: fixed-width values, or u16 offset and u16 length into the heap
//!     (bit 15 of the length: those bytes are a reference to a long value, page::overflow)
//!     ...free...
//!     heap, growing down from the page's end
//! ```
//!
//! Invariants: rows are sorted by row id, within the fences, no id twice; minipages end at or
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
use super::layout::Layout;
use super::overflow::{Form, LongRef};
use crate::base::{Error, PAGE_BYTES, Result, RowId};
use crate::latch::PageBytes;
use crate::sync::mutant;

/// Bytes of the largest row: its part of every minipage and its heap bytes. What two to a page
/// leave each, in whole hundreds: 8,000 with pages of 16 KiB, 3,900 of 8 KiB, 1,900 of 4 KiB.
pub const ROW_BYTES_MAX: usize = ((USABLE_BYTES - BITS_BYTES) / 2 - ROW_ID_BYTES) / 100 * 100;
/// What is too large when a row is (an `Error::TooLarge`'s `what`).
pub const ROW: &str = "row";

pub(crate) const AT_LAYOUT: usize = 32;
pub(crate) const AT_COUNT: usize = 34;
pub(crate) const AT_CAPACITY: usize = 36;
pub(crate) const AT_HEAP_START: usize = 38;
pub(crate) const AT_HEAP_DEAD: usize = 40;
pub(crate) const AT_RESERVED: usize = 42;
pub(crate) const AT_DELETED: usize = 44;
pub(crate) const AT_LOWER: usize = 48;
pub(crate) const AT_UPPER: usize = 56;
/// Where the minipages begin.
pub(crate) const AT_ROWS: usize = 64;
/// Bytes that rows share.
pub(crate) const USABLE_BYTES: usize = PAGE_BYTES - AT_ROWS;
/// Kept for what two rows have besides their ids and values: a byte of bits for each of 201
/// columns and for deletion. With more columns the largest rows are alone in their leaves.
const BITS_BYTES: usize = 202;
const ROW_ID_BYTES: usize = 8;
/// In the length of a variable value: its bytes are a reference to a long value.
pub(crate) const LONG: u16 = 1 << 15;
/// The upper fence of the last leaf.
pub const NO_FENCE: u64 = u64::MAX;

const _: () = {
    assert!(AT_LAYOUT == HEADER_BYTES && AT_COUNT == AT_LAYOUT + 2 && AT_CAPACITY == AT_COUNT + 2);
    assert!(AT_HEAP_START == AT_CAPACITY + 2 && AT_HEAP_DEAD == AT_HEAP_START + 2);
    assert!(AT_RESERVED == AT_HEAP_DEAD + 2 && AT_DELETED == AT_RESERVED + 2);
    assert!(AT_LOWER == AT_DELETED + 4 && AT_UPPER == AT_LOWER + 8 && AT_ROWS == AT_UPPER + 8);
    assert!(2 * (ROW_BYTES_MAX + ROW_ID_BYTES) + BITS_BYTES <= USABLE_BYTES);
    // The largest row with a bit for each of 1,600 columns fits a page of its own.
    assert!(ROW_BYTES_MAX + ROW_ID_BYTES + 1 + super::layout::COLUMNS_MAX <= USABLE_BYTES);
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

/// Where things are in a leaf of a layout and a capacity.
#[derive(Clone, Copy)]
pub(crate) struct Geometry {
    pub capacity: usize,
    pub bits_bytes: usize,
    pub deleted: usize,
    pub nulls: usize,
    pub columns: usize,
}

impl Geometry {
    #[inline(always)]
    pub fn new(layout: &Layout, capacity: usize) -> Geometry {
        let bits_bytes = capacity.div_ceil(8);
        let deleted = AT_ROWS + capacity * 8;
        let nulls = deleted + bits_bytes;
        let columns = nulls + bits_bytes * layout.columns().len();
        Geometry { capacity, bits_bytes, deleted, nulls, columns }
    }

    /// Where the minipages end.
    #[inline(always)]
    pub fn end(&self, layout: &Layout) -> usize {
        self.columns + self.capacity * layout.row_bytes()
    }

    #[inline(always)]
    pub fn row_id(&self, slot: usize) -> usize {
        AT_ROWS + slot * 8
    }

    #[inline(always)]
    pub fn null_byte(&self, slot: usize, column: usize) -> usize {
        self.nulls + column * self.bits_bytes + slot / 8
    }

    #[inline(always)]
    pub fn value(&self, slot: usize, place: super::layout::ColumnPlace) -> usize {
        self.columns + self.capacity * place.before as usize + slot * usize::from(place.width)
    }
}

/// What a variable value's length says of its bytes.
#[inline(always)]
fn form(len: u16) -> Form {
    if len & LONG == 0 { Form::Inline } else { Form::Long }
}

/// Bytes of the minipages for `rows` rows.
pub(crate) fn minipage_bytes(layout: &Layout, rows: usize) -> usize {
    rows * (8 + layout.row_bytes()) + rows.div_ceil(8) * (1 + layout.columns().len())
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
        let capacity = usize::from(bytes.u16(AT_CAPACITY));
        let count = usize::from(bytes.u16(AT_COUNT)).min(capacity);
        Leaf { bytes, layout, geometry: Geometry::new(layout, capacity), count }
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
        RowId(self.bytes.u64(self.geometry.row_id(slot.index())))
    }

    /// The first slot whose row id is at least `row`; the count if there is none.
    #[inline]
    pub fn lower_bound(&self, row: RowId) -> SlotIndex {
        if self.count == 0 {
            return SlotIndex(0);
        }
        let first = self.row_id(SlotIndex(0)).0;
        if row.0 <= first {
            return SlotIndex(0);
        }
        // Ids ascend, so row `first + n` is in slot n or before: exactly there while nothing is
        // missing, which is the usual case. And no more slots before than ids lie between.
        let guess = usize::try_from(row.0 - first).unwrap_or(usize::MAX).min(self.count - 1);
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
        let byte = self.bytes.u8(self.geometry.deleted + slot.index() / 8);
        if byte >> (slot.index() % 8) & 1 == 0 { RowState::Live } else { RowState::Deleted }
    }

    /// Whether the value is null. A column that the leaf's layout does not have is null.
    #[inline]
    pub fn is_null(&self, slot: SlotIndex, column: usize) -> bool {
        if column >= self.layout.columns().len() {
            return true;
        }
        let byte = self.bytes.u8(self.geometry.null_byte(slot.index(), column));
        byte >> (slot.index() % 8) & 1 != 0
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

    /// Asks for the cache lines of a row's values, all at once: a leaf has each column elsewhere.
    #[inline]
    pub fn prefetch(&self, slot: SlotIndex, columns: &[u16]) {
        for place in columns.iter().filter_map(|column| self.layout.place(usize::from(*column))) {
            self.bytes.prefetch(self.geometry.value(slot.index(), place), 1);
        }
    }

    /// The slot where `row` is if no row before it is missing.
    #[inline]
    pub(crate) fn likely_slot(&self, row: RowId) -> SlotIndex {
        let slot = row.0.saturating_sub(self.row_id(SlotIndex(0)).0);
        SlotIndex(slot.min(self.count.saturating_sub(1) as u64) as u16)
    }

    /// Asks for what tells of a row's values and where they are: id, bits, minipages.
    #[inline]
    pub(crate) fn prefetch_row(&self, slot: SlotIndex, columns: &[u16]) {
        let at = slot.index();
        self.bytes.prefetch(self.geometry.row_id(at), 1);
        self.bytes.prefetch(self.geometry.deleted + at / 8, 1);
        for column in columns {
            self.bytes.prefetch(self.geometry.null_byte(at, usize::from(*column)), 1);
        }
        self.prefetch(slot, columns);
    }

    /// Asks for a row's variable values, as far as the minipages say where they are.
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
        let reserved = if mutant("pax_grows_into_reserved") { 0 } else { self.reserved() };
        let used = minipage_bytes(self.layout, self.count) + self.heap_live() + reserved;
        USABLE_BYTES.saturating_sub(used)
    }

    /// Whether one more row with `heap` bytes of variable values fits, reshaping if need be.
    #[inline]
    pub fn fits_row(&self, heap: usize) -> bool {
        let used = minipage_bytes(self.layout, self.count + 1) + self.heap_live() + self.reserved();
        used + heap <= USABLE_BYTES
    }

    /// Bytes in one piece between the minipages and the heap.
    #[inline]
    pub(crate) fn contiguous(&self) -> usize {
        usize::from(self.bytes.u16(AT_HEAP_START)).saturating_sub(self.geometry.end(self.layout))
    }

    pub(crate) fn bytes(&self) -> B {
        self.bytes
    }

    pub(crate) fn geometry(&self) -> Geometry {
        self.geometry
    }
}
