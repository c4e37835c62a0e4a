//! Rows kept to be read several times and from any place: common table expressions, the inner
//! side of loops, scrolling cursors.
//!
//! Invariants: rows are numbered from 0 in the order in which they were added; once the store has
//! more than `work_mem`, it and all later rows are in a file. A cursor is good for one store.

use super::file::{SpillFile, SpillReader};
use super::memory::Reservation;
use super::{Row, row_bytes};
use crate::error::SqlResult;
use crate::exec::Cx;
use crate::types::Datum;

/// One place of so many rows is remembered.
const STRIDE: u64 = 64;

/// Rows kept.
#[derive(Default)]
pub struct RowStore {
    rows: Vec<Row>,
    reserved: Reservation,
    file: Option<SpillFile>,
    /// Where every [`STRIDE`]th row of the file begins.
    places: Vec<u64>,
    is_flushed: bool,
}

/// A reader's place.
#[derive(Default)]
pub struct StoreCursor {
    reader: SpillReader,
    /// The row that the reader gives next; none if it has not begun.
    next: Option<u64>,
}

impl RowStore {
    /// How many rows there are.
    pub fn len(&self) -> u64 {
        self.rows.len() as u64 + self.file.as_ref().map_or(0, SpillFile::rows)
    }

    /// Are there none?
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Adds a row.
    pub fn push(&mut self, row: Row, cx: &mut Cx<'_, '_>) -> SqlResult<()> {
        if self.file.is_none() {
            self.reserved.grow(cx.memory(), row_bytes(&row))?;
            self.rows.push(row);
            if self.reserved.is_over() {
                self.spill(cx)?;
            }
            return Ok(());
        }
        self.write(&row, cx)
    }

    fn spill(&mut self, cx: &mut Cx<'_, '_>) -> SqlResult<()> {
        self.file = Some(SpillFile::create(cx)?);
        for row in std::mem::take(&mut self.rows) {
            cx.breathe()?;
            self.write(&row, cx)?;
        }
        self.reserved.clear();
        Ok(())
    }

    fn write(&mut self, row: &[Datum], cx: &mut Cx<'_, '_>) -> SqlResult<()> {
        let Some(file) = &mut self.file else { return Ok(()) };
        if file.rows().is_multiple_of(STRIDE) {
            self.places.push(file.end());
        }
        self.is_flushed = false;
        file.push(row, cx)
    }

    /// Calls `read` with the row of this number; none if there is no such row.
    pub fn with<R>(
        &mut self,
        number: u64,
        cursor: &mut StoreCursor,
        cx: &mut Cx<'_, '_>,
        read: impl FnOnce(&[Datum], &mut Cx<'_, '_>) -> R,
    ) -> SqlResult<Option<R>> {
        if number >= self.len() {
            return Ok(None);
        }
        let Some(file) = &mut self.file else {
            return Ok(Some(read(&self.rows[number as usize], cx)));
        };
        if !self.is_flushed {
            file.flush(cx)?;
            self.is_flushed = true;
            // A reader at the old end has seen too little.
            cursor.next = None;
        }
        if cursor.next != Some(number) {
            let start = number / STRIDE;
            cursor.reader = SpillReader::at(self.places[start as usize]);
            for _ in start * STRIDE..number {
                cursor.reader.next(file, cx)?;
            }
        }
        cursor.next = Some(number + 1);
        let Some(row) = cursor.reader.next(file, cx)? else { return Ok(None) };
        Ok(Some(read(&row, cx)))
    }

    /// Forgets all rows.
    pub fn clear(&mut self) {
        *self = RowStore::default();
    }
}
