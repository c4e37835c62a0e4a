//! Inserting rows, one or several at a time (rules 5.2, 5.5, 5.6, 6.2).
//!
//! Invariants: a row goes into the leaf at the instance's append cursor under that leaf's exclusive
//! latch, and its undo with it; undo room was there before the latch (rule 4.6). Of several rows as
//! many go in under one latch as the undo room and the leaf last for. Entries come second, when all
//! rows are in, each step repeatable; the entries of one index in the order of the rows, those under
//! one latch that lie in one leaf.
//!
//! Rows of one command with consecutive ids share an undo record while nothing else is pushed. The
//! first row of an empty leaf begins a record that the twin table has as its run; other rows have
//! twin entries of their own that name the shared record.

use std::rc::Rc;

use super::{Longs, Progress, RowWriter};
use crate::base::{Outcome, RowId};
use crate::page::rowleaf::{self, SlotIndex};
use crate::tree::table::LeafWrite;
use crate::version::TableAccess;
use crate::version::undo::{Kind, UndoRef, record_words};

/// Values of rows: the physical values of all columns of the first (to be inserted), or of those to be
/// changed, then of the second ...
#[derive(Clone, Copy, Debug)]
pub struct RowValues<'a> {
    values: &'a [Option<&'a [u8]>],
    rows: usize,
    /// Of each row; a table may have none.
    columns: usize,
}

impl<'a> RowValues<'a> {
    /// The values of so many rows, of each equally many.
    pub fn new(values: &'a [Option<&'a [u8]>], rows: usize) -> RowValues<'a> {
        RowValues { values, rows, columns: values.len().checked_div(rows).unwrap_or(0) }
    }

    /// The values of one row.
    #[inline]
    pub fn one(values: &'a [Option<&'a [u8]>]) -> RowValues<'a> {
        RowValues { values, rows: 1, columns: values.len() }
    }

    /// How many rows.
    #[inline]
    pub fn len(&self) -> usize {
        self.rows
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Those from row `first` on.
    pub fn from(&self, first: usize) -> RowValues<'a> {
        let RowValues { values, rows, columns } = *self;
        RowValues { values: &values[first * columns..], rows: rows - first, columns }
    }

    /// That row alone.
    pub fn only(&self, number: usize) -> RowValues<'a> {
        RowValues::one(self.row(number))
    }

    /// The values of a row.
    #[inline]
    pub fn row(&self, number: usize) -> &'a [Option<&'a [u8]>] {
        &self.values[number * self.columns..][..self.columns]
    }
}

/// How far an insertion of several rows got that stopped on its way. Starts as the default; pass
/// the same one when calling again.
#[derive(Default, Debug)]
pub struct RowsProgress {
    /// The next entry to see to, once all rows are in.
    next: Option<usize>,
}

impl RowWriter<'_> {
    /// Inserts a row: row first, entries second, unique indexes by rule 5.6; those values are long
    /// that `longs` names. `WaitFor::Key` for a competitor in flight, `UniqueViolation` for a
    /// committed one; then the row is already there: roll the statement back.
    pub fn insert(
        &mut self,
        table: &TableAccess,
        values: &[Option<&[u8]>],
        (frozen, longs): (Frozen, &mut Longs),
        progress: &mut Progress,
    ) -> Outcome<RowId> {
        let row = match progress.row {
            Some(row) => row,
            None => {
                let row = if longs.is_empty() {
                    self.insert_row(table, values, frozen, longs)?
                } else {
                    let pairs = values.iter().enumerate();
                    let stored: Vec<Option<&[u8]>> =
                        pairs.map(|(at, value)| longs.stored(at, *value)).collect();
                    self.insert_row(table, &stored, frozen, longs)?
                };
                longs.adopt();
                progress.row = Some(row);
                progress.next = 0;
                self.pend_new_entries(table, row, values);
                row
            }
        };
        self.entries(table, &mut progress.next)?;
        Ok(row)
    }

    /// Inserts rows as [`RowWriter::insert`] does one after the other, without long values; their
    /// ids are in `ids`, empty at the first call, in order. `UniqueViolation` and other errors do
    /// not say of which row; some rows are there then: roll the statement back.
    pub fn insert_rows(
        &mut self,
        table: &TableAccess,
        (rows, frozen): (RowValues<'_>, Frozen),
        ids: &mut Vec<RowId>,
        progress: &mut RowsProgress,
    ) -> Outcome<()> {
        while ids.len() < rows.len() {
            self.append_rows(table, rows, frozen, ids)?;
        }
        let next = match &mut progress.next {
            Some(next) => next,
            none => {
                self.pend_entries_of_rows(table, rows, ids);
                none.insert(0)
            }
        };
        self.entries(table, next)
    }

    /// Inserts the rows behind those of `ids` under one latch, at least one, as far as room for
    /// undo and the leaf last.
    fn append_rows(
        &mut self,
        table: &TableAccess,
        rows: RowValues<'_>,
        frozen: Frozen,
        ids: &mut Vec<RowId>,
    ) -> Outcome<()> {
        let (layout, first) = (table.tree.layout(), ids.len());
        let heap = rowleaf::checked_heap_bytes(layout, rows.row(first))?;
        self.changes.reserve(record_words(0))?;
        let versions = Rc::clone(&self.changes.versions);
        versions.with_cursor(table.id(), |cursor| -> Outcome<()> {
            let (mut row, mut leaf) = table.tree.append(cursor, heap)?;
            loop {
                self.put_row(table, &mut leaf, row, (rows.row(ids.len()), frozen));
                ids.push(row);
                if ids.len() == rows.len() || !self.changes.arena.has_room(record_words(0)) {
                    return Ok(());
                }
                // What is wrong with the next row is said with nothing held.
                let heap = rowleaf::checked_heap_bytes(layout, rows.row(ids.len()));
                let next = heap.ok().and_then(|heap| table.tree.append_more(cursor, &leaf, heap));
                let Some(next) = next else { return Ok(()) };
                row = next;
            }
        })?;
        for (number, row) in ids.iter().enumerate().skip(first) {
            self.changes.redo.insert(table.id(), *row, rows.row(number));
        }
        Ok(())
    }

    fn insert_row(
        &mut self,
        table: &TableAccess,
        values: &[Option<&[u8]>],
        frozen: Frozen,
        longs: &Longs,
    ) -> Outcome<RowId> {
        let heap = rowleaf::checked_heap_bytes(table.tree.layout(), values)?;
        self.changes.reserve(record_words(0))?;
        let versions = Rc::clone(&self.changes.versions);
        let (row, mut leaf) =
            versions.with_cursor(table.id(), |cursor| table.tree.append(cursor, heap))?;
        let slot = self.put_row(table, &mut leaf, row, (values, frozen));
        for column in longs.positions() {
            self.changes.versions.garbage().know(table.tree.pool());
            leaf.set_long(slot, column);
        }
        drop(leaf);
        self.changes.redo.insert_with(table.id(), row, values, |at| longs.in_redo(at));
        Ok(row)
    }

    /// Puts a row into the held leaf, with its undo.
    fn put_row(
        &mut self,
        table: &TableAccess,
        leaf: &mut LeafWrite<'_>,
        row: RowId,
        (values, frozen): (&[Option<&[u8]>], Frozen),
    ) -> SlotIndex {
        let is_first = leaf.view().count() == 0;
        let slot = leaf.insert(row, values);
        match frozen {
            Frozen::No => self.undo_of_insert(table, leaf, row, is_first),
            Frozen::Yes => self.changes.note_frozen(table.id(), row),
        }
        slot
    }

    /// Links undo to a row that was just inserted (rule 6.2): that of the row before it, if it may
    /// join it, else a record of its own. The first row of a leaf never joins, so that the leaf
    /// can have a run.
    fn undo_of_insert(
        &mut self,
        table: &TableAccess,
        leaf: &LeafWrite<'_>,
        row: RowId,
        is_first: bool,
    ) {
        let (tree, command, side) = (table.id(), self.snapshot.command, leaf.side());
        let (record, named) = match self.changes.run_for(tree, command, row) {
            Some(run) if !is_first => {
                self.changes.run_extended(run);
                (run.at, table.versions.extend_run(side, row, run.at))
            }
            _ => {
                let new = self.new_record(table, row, UndoRef::NONE, 0);
                let at = self.changes.push_plain(new, Kind::Insert);
                self.changes.run_begun(at, tree, command, row);
                let begun = if is_first { table.versions.begin_run(side, row, at) } else { None };
                (at, begun)
            }
        };
        let made = named.unwrap_or_else(|| table.versions.set_newest(side, row, record));
        self.changes.versions.note_twin(made, leaf.frame());
    }
}

/// Whether an insert has no undo, redo only (COPY FREEZE): into a tree made by this transaction.
/// Rolling back to a savepoint takes the row out; rolling back whole drops the tree.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Frozen {
    /// It has none: once committed, every snapshot sees it.
    Yes,
    /// It has undo, as every other change.
    No,
}
