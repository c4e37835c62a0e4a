//! A reusable private copy of one row version.
//!
//! Invariants: the cells are those of the columns asked for, in that order; bytes are exactly as
//! in the page (fixed-width little-endian, or variable). No allocation once the buffer has grown
//! to the rows it holds. Content is meaningless until the read that filled it has succeeded. A
//! cell may hold a reference to a long value (rule 5.8) until whoever reads for a user has put the
//! value in its place: `api` does, before it hands a row out.

use std::ops::Range;

use crate::base::{Error, Result};
use crate::page::overflow::{Form, LongRef};

/// Where a cell's bytes lie; `start == NULL` marks a null. Bit 31 of `len`: a reference.
#[derive(Clone, Copy, Debug)]
struct Cell {
    start: u32,
    len: u32,
}

const NULL: u32 = u32::MAX;
const LONG: u32 = 1 << 31;
/// A buffer that grew beyond this, for a long value, gives its memory back.
const KEPT_BYTES_MAX: usize = 4 << 20;

fn len_of(len: usize, form: Form) -> u32 {
    len as u32 | if form == Form::Long { LONG } else { 0 }
}

/// A row that was read, where a buffer of one row or of many has it.
#[derive(Clone, Copy, Debug)]
pub struct RowView<'b> {
    buffer: &'b RowBuffer,
    // Its cells begin here.
    first: usize,
}

impl<'b> RowView<'b> {
    /// The bytes of the `index`-th column asked for; none if it is null.
    ///
    /// Panics if fewer columns were asked for.
    #[inline]
    pub fn column(&self, index: usize) -> Option<&'b [u8]> {
        self.buffer.column(self.first + index)
    }
}

impl<'b> From<&'b RowBuffer> for RowView<'b> {
    fn from(buffer: &'b RowBuffer) -> RowView<'b> {
        buffer.view()
    }
}

/// A place between columns of a buffer.
#[derive(Clone, Copy, Debug)]
pub(crate) struct BufferMark {
    pub(crate) cells: usize,
    bytes: usize,
}

/// One row's columns, copied out of a page and its undo.
#[derive(Clone, Debug, Default)]
pub struct RowBuffer {
    bytes: Vec<u8>,
    cells: Vec<Cell>,
    /// Before-images on their way into the cells.
    pub(super) scratch: Vec<u8>,
}

impl RowBuffer {
    /// An empty buffer.
    pub fn new() -> RowBuffer {
        RowBuffer::default()
    }

    /// How many columns it holds.
    pub fn len(&self) -> usize {
        self.cells.len()
    }

    /// Whether it holds no columns.
    pub fn is_empty(&self) -> bool {
        self.cells.is_empty()
    }

    /// The bytes of the `index`-th column asked for; none if it is null.
    ///
    /// Panics if fewer columns were asked for.
    #[inline]
    pub fn column(&self, index: usize) -> Option<&[u8]> {
        let cell = self.cells[index];
        let len = (cell.len & !LONG) as usize;
        (cell.start != NULL).then(|| &self.bytes[cell.start as usize..][..len])
    }

    /// The row whose cells begin with the `first`-th, or the buffer's only one.
    #[inline]
    pub(crate) fn view_from(&self, first: usize) -> RowView<'_> {
        RowView { buffer: self, first }
    }

    /// The one row that it holds.
    #[inline]
    pub fn view(&self) -> RowView<'_> {
        self.view_from(0)
    }

    /// Whether the `index`-th column's bytes are the value or a reference to it.
    #[inline]
    pub fn form(&self, index: usize) -> Form {
        let cell = self.cells[index];
        if cell.start != NULL && cell.len & LONG != 0 { Form::Long } else { Form::Inline }
    }

    /// Whether any column is a reference to a long value.
    #[inline]
    pub fn has_long(&self) -> bool {
        self.next_long(0..self.len()).is_some()
    }

    /// The first of these columns that is a reference to a long value, and the reference.
    pub fn next_long(&self, mut columns: Range<usize>) -> Option<(usize, LongRef)> {
        let index = columns.find(|index| self.form(*index) == Form::Long)?;
        let bytes = self.column(index)?;
        // Bytes that are none were read racily; then the read does not count.
        LongRef::decode(bytes).map(|reference| (index, reference))
    }

    /// Takes the bytes out, to put a long value behind them; the cells are useless until
    /// [`RowBuffer::put_long`]. Error: `TooLarge`, the row would have more than 4 GiB;
    /// `OutOfMemory`.
    pub(crate) fn take_bytes(&mut self, more: usize) -> Result<Vec<u8>> {
        let bytes_max = (u32::MAX - 1) as usize;
        let bytes = self.bytes.len() + more;
        if bytes > bytes_max {
            return Err(Error::TooLarge { what: "row as read", bytes, bytes_max });
        }
        if self.bytes.try_reserve_exact(more).is_err() {
            return Err(Error::OutOfMemory { what: "memory for a long value" });
        }
        Ok(std::mem::take(&mut self.bytes))
    }

    /// Gives the bytes back; what is there from `start` on is the `index`-th column's value.
    pub(crate) fn put_long(&mut self, index: usize, bytes: Vec<u8>, start: usize) {
        let len = (bytes.len() - start) as u32;
        self.bytes = bytes;
        self.cells[index] = Cell { start: start as u32, len };
    }

    /// Forgets all columns and keeps the memory.
    #[inline]
    pub fn clear(&mut self) {
        if self.bytes.capacity() > KEPT_BYTES_MAX {
            self.bytes = Vec::new();
        }
        self.bytes.clear();
        self.cells.clear();
    }

    /// Makes room for so many more columns, of so many bytes together.
    pub(crate) fn reserve(&mut self, columns: usize, bytes: usize) {
        self.cells.reserve(columns);
        self.bytes.reserve(bytes);
    }

    /// Appends a column.
    #[inline]
    pub fn push(&mut self, value: Option<&[u8]>) {
        self.push_form(value, Form::Inline);
    }

    /// Appends a column whose bytes are a value or a reference.
    #[inline]
    pub(crate) fn push_form(&mut self, value: Option<&[u8]>, form: Form) {
        match value {
            None => self.cells.push(Cell { start: NULL, len: 0 }),
            Some(value) => {
                let start = self.bytes.len() as u32;
                self.bytes.extend_from_slice(value);
                self.cells.push(Cell { start, len: len_of(value.len(), form) });
            }
        }
    }

    /// Appends a column of what `fill` adds to the bytes; a null if it answers none.
    #[inline]
    pub(crate) fn push_with(&mut self, fill: impl FnOnce(&mut Vec<u8>) -> Option<Form>) {
        let start = self.bytes.len() as u32;
        let cell = match fill(&mut self.bytes) {
            Some(form) => Cell { start, len: len_of(self.bytes.len() - start as usize, form) },
            None => Cell { start: NULL, len: 0 },
        };
        self.cells.push(cell);
    }

    /// How many bytes are held.
    pub(crate) fn byte_len(&self) -> usize {
        self.bytes.len()
    }

    /// How many bytes it has memory for.
    pub(crate) fn memory_bytes(&self) -> usize {
        self.bytes.capacity()
    }

    /// Where the next column will begin.
    #[inline]
    pub(crate) fn mark(&self) -> BufferMark {
        BufferMark { cells: self.cells.len(), bytes: self.bytes.len() }
    }

    /// As it was at `mark`, before columns were pushed.
    #[inline]
    pub(crate) fn rewind(&mut self, mark: BufferMark) {
        self.cells.truncate(mark.cells);
        self.bytes.truncate(mark.bytes);
    }

    /// Forgets all columns but the first `cells`.
    pub(crate) fn truncate(&mut self, cells: usize) {
        self.cells.truncate(cells);
    }

    /// Replaces the `index`-th column (by an older version's value).
    #[inline]
    pub fn set(&mut self, index: usize, value: Option<&[u8]>) {
        self.set_form(index, value, Form::Inline);
    }

    /// As [`RowBuffer::set`], by a value or a reference.
    #[inline]
    pub(crate) fn set_form(&mut self, index: usize, value: Option<&[u8]>, form: Form) {
        let Some(value) = value else {
            self.cells[index] = Cell { start: NULL, len: 0 };
            return;
        };
        let cell = self.cells[index];
        if cell.start != NULL && (cell.len & !LONG) as usize == value.len() {
            self.bytes[cell.start as usize..][..value.len()].copy_from_slice(value);
            self.cells[index].len = len_of(value.len(), form);
            return;
        }
        let start = self.bytes.len() as u32;
        self.bytes.extend_from_slice(value);
        self.cells[index] = Cell { start, len: len_of(value.len(), form) };
    }

    /// The columns in order.
    pub fn iter(&self) -> impl Iterator<Item = Option<&[u8]>> {
        (0..self.len()).map(|index| self.column(index))
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn cells_are_replaced_in_place_or_at_the_end() {
        let mut row = RowBuffer::new();
        row.push(Some(b"abc"));
        row.push(None);
        row.push(Some(b""));
        row.set(0, Some(b"xyz"));
        row.set(1, Some(b"longer"));
        assert_eq!(row.iter().collect::<Vec<_>>(), [Some(&b"xyz"[..]), Some(b"longer"), Some(b"")]);
        row.set(0, None);
        row.set(2, Some(b"q"));
        assert_eq!(row.iter().collect::<Vec<_>>(), [None, Some(&b"longer"[..]), Some(b"q")]);
        row.clear();
        assert!(row.is_empty());
    }
}
