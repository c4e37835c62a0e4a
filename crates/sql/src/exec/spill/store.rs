//! Rows kept to be read several times and from any place: common table expressions, the inner
//! side of loops, scrolling cursors, and cursors that outlive their transaction.
//!
//! Invariants: rows are numbered from 0 in the order in which they were added; once the store has
//! more than `work_mem`, it and all later rows are in a file. A cursor is good for one store. An
//! execution is not needed, neither for adding nor for reading: portals have rows when theirs is over.

use super::file::{SpillFile, SpillReader};
use super::memory::{Memory, Reservation};
use super::{Row, row_bytes};
use crate::error::SqlResult;
use crate::exec::Cx;
use crate::types::Datum;
use atoll_kernel::api::Context;
use std::rc::Rc;

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
        let context = cx.statement.context();
        self.add(row, cx.memory(), context)?;
        if self.is_overfull() {
            self.file = Some(SpillFile::create(cx)?);
            for row in std::mem::take(&mut self.rows) {
                cx.breathe()?;
                self.write(&row, context)?;
            }
            self.reserved.clear();
        }
        Ok(())
    }

    /// The same, for whoever adds rows without an execution, under an account of its own.
    pub fn push_in(&mut self, row: Row, memory: &Rc<Memory>, context: &Context) -> SqlResult<()> {
        self.add(row, memory, context)?;
        if self.is_overfull() {
            self.file = Some(SpillFile::create_in(memory.clone(), context)?);
            for row in std::mem::take(&mut self.rows) {
                self.write(&row, context)?;
            }
            self.reserved.clear();
        }
        Ok(())
    }

    fn add(&mut self, row: Row, memory: &Rc<Memory>, context: &Context) -> SqlResult<()> {
        if self.file.is_some() {
            return self.write(&row, context);
        }
        self.reserved.grow(memory, row_bytes(&row))?;
        self.rows.push(row);
        Ok(())
    }

    fn is_overfull(&self) -> bool {
        self.file.is_none() && self.reserved.is_over()
    }

    fn write(&mut self, row: &[Datum], context: &Context) -> SqlResult<()> {
        let Some(file) = &mut self.file else { return Ok(()) };
        if file.rows().is_multiple_of(STRIDE) {
            self.places.push(file.end());
        }
        self.is_flushed = false;
        file.push_in(row, context)
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
        if self.file.is_none() {
            return Ok(Some(read(&self.rows[number as usize], cx)));
        }
        let row = self.row_of_file(number, cursor, cx.statement.context())?;
        Ok(row.map(|row| read(&row, cx)))
    }

    /// The row of this number; none if there is no such row. Needs no execution.
    pub fn row(
        &mut self,
        number: u64,
        cursor: &mut StoreCursor,
        context: &Context,
    ) -> SqlResult<Option<Row>> {
        if number >= self.len() {
            return Ok(None);
        }
        match self.file {
            None => Ok(Some(self.rows[number as usize].clone())),
            Some(_) => self.row_of_file(number, cursor, context),
        }
    }

    fn row_of_file(
        &mut self,
        number: u64,
        cursor: &mut StoreCursor,
        context: &Context,
    ) -> SqlResult<Option<Row>> {
        let Some(file) = &mut self.file else { return Ok(None) };
        if !self.is_flushed {
            file.flush(context)?;
            self.is_flushed = true;
            // A reader at the old end has seen too little.
            cursor.next = None;
        }
        if cursor.next != Some(number) {
            let start = number / STRIDE;
            cursor.reader = SpillReader::at(self.places[start as usize]);
            for _ in start * STRIDE..number {
                cursor.reader.next_in(file, context)?;
            }
        }
        cursor.next = Some(number + 1);
        cursor.reader.next_in(file, context)
    }

    /// No more rows are added: the buffer for writing goes.
    pub fn finish(&mut self, cx: &mut Cx<'_, '_>) -> SqlResult<()> {
        if let Some(file) = &mut self.file {
            file.finish(cx)?;
        }
        Ok(())
    }

    /// The execution that added the rows is gone, and they stay: what its memory account took from
    /// the server's budget for everything else goes back.
    pub fn give_back_unused(&self) {
        if let Some(memory) = self.reserved.memory() {
            memory.give_back_unused();
        }
        if let Some(file) = &self.file {
            file.memory().give_back_unused();
        }
    }

    /// Forgets all rows.
    pub fn clear(&mut self) {
        *self = RowStore::default();
    }
}
