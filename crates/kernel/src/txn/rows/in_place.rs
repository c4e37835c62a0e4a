//! Changing columns of fixed width that no key has: what most updates are, the short way.
//!
//! Invariants: those of `write`. Such a change moves no heap bytes, has no index entries and keeps
//! what is reserved for its row; its undo record has a known size, for which there is room before
//! the latch. So under the latch nothing can fail once the row is the transaction's.
//!
//! Several rows may be changed one after the other, each under its own latch, which costs less than
//! as many operations: what they share is worked out once, and each step's code is still in the
//! processor's cache when the next row comes.

use std::cell::Cell;
use std::rc::Rc;

use super::write::Claimed;
use super::{RowValues, RowWriter, WriteOutcome};
use crate::base::{Outcome, RowId};
use crate::page::rowleaf::SlotIndex;
use crate::sync::{mutant, point};
use crate::tree::hints::LeafHint;
use crate::tree::table::LeafWrite;
use crate::version::TableAccess;
use crate::version::undo::{Kind, NewRecord, newest_and_reserved, record_words};

/// The bytes of a column in a before-image: its head and the widest value.
const IMAGE_COLUMN_BYTES: usize = 4 + 8;

/// How far a change of several rows got. Starts as the default; pass the same one when calling
/// again.
#[derive(Clone, Copy, Default, Debug)]
pub struct UpdatesProgress {
    /// Rows that are changed.
    pub done: usize,
    /// Whether the row behind them was begun and stopped.
    stopped: bool,
}

impl RowWriter<'_> {
    /// Changes the same columns of rows, in order, to the values of `values`: those behind the
    /// `progress.done` first. Ends at the first that does not answer `Done`, with its answer. All
    /// columns must be such as are changed in place (`TableAccess::in_place`).
    ///
    /// A row that had to be waited for is the last of its call: its queue wants to know at once that
    /// it was taken (rule 6.5). Call again for the others.
    pub fn update_rows(
        &mut self,
        table: &TableAccess,
        columns: &[u16],
        (rows, values): (&[RowId], RowValues<'_>),
        progress: &mut UpdatesProgress,
    ) -> Outcome<WriteOutcome> {
        let waited = progress.stopped;
        let versions = Rc::clone(&self.changes.versions);
        while let Some(row) = rows.get(progress.done) {
            let near = versions.hints.of_row(table.id(), *row);
            let new = values.row(progress.done);
            let changes = columns.iter().copied().zip(new.iter().copied());
            progress.stopped = true;
            let outcome = self.update_in_place(table, *row, changes, near)?;
            progress.stopped = false;
            if outcome != WriteOutcome::Done {
                return Ok(outcome);
            }
            progress.done += 1;
            if waited && !mutant("turn-told-late") {
                break;
            }
        }
        Ok(WriteOutcome::Done)
    }

    /// Changes columns of one row in place.
    #[inline]
    pub(super) fn update_in_place<'v>(
        &mut self,
        table: &TableAccess,
        row: RowId,
        changes: impl ExactSizeIterator<Item = (u16, Option<&'v [u8]>)> + Clone,
        near: &Cell<LeafHint>,
    ) -> Outcome<WriteOutcome> {
        let words = record_words(IMAGE_COLUMN_BYTES * changes.len());
        loop {
            self.changes.reserve(words)?;
            let (mut leaf, slot) = match self.claimed(table, row, near)? {
                Claimed::Row(leaf, slot) => (leaf, slot),
                Claimed::Refused(outcome) => return Ok(outcome),
            };
            // Columns that came after the leaf was made.
            if !table.tree.relayout(&mut leaf) {
                leaf.unchanged();
                table.tree.make_room(row, 0)?;
                continue;
            }
            self.replace_values(table, leaf, (slot, row), changes.clone());
            self.changes.redo.update_columns(table.id(), row, changes);
            return Ok(WriteOutcome::Done);
        }
    }

    /// The part under the latch, which cannot fail.
    #[inline]
    fn replace_values<'v>(
        &mut self,
        table: &TableAccess,
        mut leaf: LeafWrite<'_>,
        (slot, row): (SlotIndex, RowId),
        changes: impl Iterator<Item = (u16, Option<&'v [u8]>)> + Clone,
    ) {
        let (next, reserved) = newest_and_reserved(leaf.side(), row);
        let new = self.new_record(table, row, next, reserved);
        let mut values = leaf.fixed(slot);
        let image = &mut self.changes.image;
        image.clear();
        for (column, _) in changes.clone() {
            let value = values.get(column).filter(|_| !mutant("image-of-nulls"));
            image.push_fixed(column, value);
        }
        let at = self.changes.push(&NewRecord { kind: Kind::Update, ..new });
        point("row update");
        for (column, value) in changes {
            values.set(column, value);
        }
        let made = table.versions.set_newest(leaf.side(), row, at);
        self.changes.versions.note_twin(made, leaf.frame());
    }
}
