//! A reusable private copy of one row version.
//!
//! Invariants: the cells are those of the columns asked for, in that order; bytes are exactly as
//! in the page (fixed-width little-endian, or variable). No allocation once the buffer has grown
//! to the rows it holds. Content is meaningless until the read that filled it has succeeded.

/// Where a cell's bytes lie; `start == NULL` marks a null.
#[derive(Clone, Copy, Debug)]
struct Cell {
    start: u32,
    len: u32,
}

const NULL: u32 = u32::MAX;

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
        (cell.start != NULL).then(|| &self.bytes[cell.start as usize..][..cell.len as usize])
    }

    /// Forgets all columns and keeps the memory.
    #[inline]
    pub fn clear(&mut self) {
        self.bytes.clear();
        self.cells.clear();
    }

    /// Appends a column.
    #[inline]
    pub fn push(&mut self, value: Option<&[u8]>) {
        match value {
            None => self.cells.push(Cell { start: NULL, len: 0 }),
            Some(value) => {
                let start = self.bytes.len() as u32;
                self.bytes.extend_from_slice(value);
                self.cells.push(Cell { start, len: value.len() as u32 });
            }
        }
    }

    /// Appends a column of what `fill` adds to the bytes; a null if it answers none.
    #[inline]
    pub(crate) fn push_with(&mut self, fill: impl FnOnce(&mut Vec<u8>) -> Option<usize>) {
        let start = self.bytes.len() as u32;
        let cell = match fill(&mut self.bytes) {
            Some(_) => Cell { start, len: self.bytes.len() as u32 - start },
            None => Cell { start: NULL, len: 0 },
        };
        self.cells.push(cell);
    }

    /// How many bytes are held; for [`RowBuffer::rewind`].
    pub(crate) fn byte_len(&self) -> usize {
        self.bytes.len()
    }

    /// Back to `cells` columns and `bytes` bytes, as both were before columns were pushed.
    pub(crate) fn rewind(&mut self, cells: usize, bytes: usize) {
        self.cells.truncate(cells);
        self.bytes.truncate(bytes);
    }

    /// Replaces the `index`-th column (by an older version's value).
    #[inline]
    pub fn set(&mut self, index: usize, value: Option<&[u8]>) {
        let Some(value) = value else {
            self.cells[index] = Cell { start: NULL, len: 0 };
            return;
        };
        let cell = self.cells[index];
        if cell.start != NULL && cell.len as usize == value.len() {
            self.bytes[cell.start as usize..][..value.len()].copy_from_slice(value);
            return;
        }
        let start = self.bytes.len() as u32;
        self.bytes.extend_from_slice(value);
        self.cells[index] = Cell { start, len: value.len() as u32 };
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
