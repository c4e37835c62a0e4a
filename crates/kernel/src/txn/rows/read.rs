//! Reading rows: one by its id, one by an index entry, several together, all of a leaf.
//!
//! Invariants: reading writes nothing shared (rule 1.3); what is answered validated. A reader that
//! comes from an index entry checks that the version it sees still has the key (rule 5.4).

use super::ahead::{WIDTH, prefetch_rows};
use crate::base::{Outcome, PAGE_BYTES, RowId};
use crate::latch::RacyPage;
use crate::page::overflow::Form;
use crate::page::rowleaf::SlotIndex;
use crate::sync::mutant;
use crate::tree::hints::LeafHints;
use crate::tree::index::Keyed;
use crate::tree::table::LeafView;
use crate::version::undo::{Reader, RowAt, copy_newest, resolve_keys};
use crate::version::{
    IndexAccess, Observe, Presence, RowBuffer, RowView, SnapshotView, TableAccess,
    TransactionStates,
};

/// How a statement reads: its snapshot, the states of others, where observations go.
pub struct RowReader<'a> {
    /// What is seen.
    pub snapshot: SnapshotView,
    /// The states of all transactions.
    pub states: &'a dyn TransactionStates,
    /// Where observations go (rule 7.4).
    pub observed: &'a mut dyn Observe,
    /// Where the instance found rows and keys.
    pub hints: &'a LeafHints,
}

/// Visible rows that were read together.
#[derive(Default)]
pub struct RowBatch {
    rows: Vec<RowId>,
    columns: usize,
    cells: RowBuffer,
}

impl RowBatch {
    /// An empty batch.
    pub fn new() -> RowBatch {
        RowBatch::default()
    }

    /// Rows in it.
    pub fn len(&self) -> usize {
        self.rows.len()
    }

    /// Whether it has none.
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// The id of the `at`-th row.
    pub fn row(&self, at: usize) -> RowId {
        self.rows[at]
    }

    /// The `column`-th of the columns asked for, of the `at`-th row; none if it is null.
    #[inline]
    pub fn column(&self, at: usize, column: usize) -> Option<&[u8]> {
        self.cells.column(at * self.columns + column)
    }

    /// Whether all values of the `at`-th row are here, and none is only a reference.
    #[inline]
    pub fn is_whole(&self, at: usize) -> bool {
        let first = at * self.columns;
        (first..first + self.columns).all(|cell| self.cells.form(cell) == Form::Inline)
    }

    /// The `at`-th row.
    #[inline]
    pub fn view(&self, at: usize) -> RowView<'_> {
        self.cells.view_from(at * self.columns)
    }

    /// Copies the `at`-th row into `out` (cleared first).
    pub fn copy_to(&self, at: usize, out: &mut RowBuffer) {
        out.clear();
        for column in 0..self.columns {
            let index = at * self.columns + column;
            out.push_form(self.cells.column(index), self.cells.form(index));
        }
    }

    /// Forgets all rows and keeps the memory.
    pub fn clear(&mut self, columns: usize) {
        self.rows.clear();
        self.cells.clear();
        self.columns = columns;
    }

    /// Bytes of memory for rows that it keeps.
    pub fn memory_bytes(&self) -> usize {
        self.cells.memory_bytes()
    }

    /// Makes room for so many rows, of about so many bytes each, but for no more bytes than a page has.
    pub fn reserve(&mut self, rows: usize, row_bytes: usize) {
        self.rows.reserve(rows);
        let bytes = rows.saturating_mul(row_bytes).min(PAGE_BYTES);
        self.cells.reserve(rows * self.columns, bytes);
    }
}

impl RowReader<'_> {
    /// Reads the version of a row that the snapshot sees into `out` (cleared first). Stops:
    /// `Retry`; `WaitFor` of a writer that is deciding.
    #[inline]
    pub fn read(
        &mut self,
        table: &TableAccess,
        row: RowId,
        columns: &[u16],
        out: &mut RowBuffer,
    ) -> Outcome<Presence> {
        table.tree.read(row, &mut |leaf| {
            out.clear();
            self.found(table, leaf, row, columns, out)
        })
    }

    /// Fetches what reading these columns of these rows will read from memory (`rows::ahead`).
    pub fn prefetch(&self, table: &TableAccess, rows: &[RowId], columns: &[u16]) {
        prefetch_rows(table, rows, columns, self.hints);
    }

    /// Reads a row that an entry of `index` led to into `out` (cleared first): absent also if the
    /// visible version does not have the entry's whole key. (Comparing the first columns only would
    /// give a row twice that has entries of two versions.)
    ///
    /// An entry of a keyed leaf, read under this snapshot, needs no such look (rule 5.7): when the
    /// leaf was read all versions of its row had the entry's key, but those by transactions that
    /// had not committed, which the snapshot does not see.
    #[inline]
    pub fn read_by_key(
        &mut self,
        table: &TableAccess,
        (index, key, keyed): (&IndexAccess, &[u8], Keyed),
        row: RowId,
        columns: &[u16],
        (out, check): (&mut RowBuffer, &mut KeyCheck),
    ) -> Outcome<Presence> {
        out.clear();
        self.append_by_key(table, (index, key, keyed), row, columns, (out, check))
    }

    /// As [`RowReader::read_by_key`], behind what is in `out`; a stop leaves there what is not to be
    /// believed.
    #[inline]
    pub(super) fn append_by_key(
        &mut self,
        table: &TableAccess,
        (index, key, keyed): (&IndexAccess, &[u8], Keyed),
        row: RowId,
        columns: &[u16],
        (out, check): (&mut RowBuffer, &mut KeyCheck),
    ) -> Outcome<Presence> {
        let empty = out.mark();
        if keyed == Keyed::Yes || mutant("entry-key-unchecked") {
            return table.tree.read_near(self.hints, row, &mut |leaf: &LeafView<'_>| {
                out.rewind(empty);
                self.found(table, leaf, row, columns, out)
            });
        }
        let KeyCheck { columns: all, key: bytes } = check;
        // One copy of what is asked for and of the key's columns behind it: one look at the chain.
        all.clear();
        all.extend_from_slice(columns);
        all.extend_from_slice(&index.columns);
        let keys = out.len() + columns.len();
        let presence = table.tree.read_near(self.hints, row, &mut |leaf: &LeafView<'_>| {
            out.rewind(empty);
            let present = self.found(table, leaf, row, all, out)?;
            if present == Presence::Present {
                resolve_keys(&table.tree, out, keys)?;
            }
            Ok(present)
        })?;
        if presence == Presence::Absent {
            return Ok(Presence::Absent);
        }
        index.encode(bytes, |column| out.column(keys + column));
        if bytes == key {
            out.truncate(keys);
            return Ok(Presence::Present);
        }
        out.rewind(empty);
        Ok(Presence::Absent)
    }

    /// Reads these rows, in this order, into `out` (cleared first): the visible ones, with one
    /// validation for neighbours that are in one leaf. Answers how many were looked at: at least one,
    /// and those before the first that would stop.
    pub fn read_together(
        &mut self,
        table: &TableAccess,
        rows: &[RowId],
        columns: &[u16],
        out: &mut RowBatch,
    ) -> Outcome<usize> {
        out.clear(columns.len());
        let mut looked = 0;
        while looked < rows.len() {
            match self.read_neighbours(table, &rows[looked..], columns, out) {
                Ok(more) => looked += more,
                Err(stop) if looked == 0 => return Err(stop),
                // Asked for first, it stops again.
                Err(_) => break,
            }
        }
        Ok(looked)
    }

    /// Reads the first of these rows and those behind it that are found in the same leaf, at most
    /// [`WIDTH`], and adds the visible ones to `out`. Answers how many were looked at.
    fn read_neighbours(
        &mut self,
        table: &TableAccess,
        rows: &[RowId],
        columns: &[u16],
        out: &mut RowBatch,
    ) -> Outcome<usize> {
        let (before, cells) = (out.rows.len(), out.cells.mark());
        let begin_again = |out: &mut RowBatch| {
            out.rows.truncate(before);
            out.cells.rewind(cells);
        };
        let read = table.tree.read_near(self.hints, rows[0], &mut |leaf: &LeafView<'_>| {
            begin_again(out);
            let mut slots = [SlotIndex(0); WIDTH];
            let (mut found, mut behind) = (0, None);
            for (slot, row) in slots.iter_mut().zip(rows) {
                // Rows of one order lie one behind the other.
                let next = behind.filter(|next| leaf.holds(*next, *row));
                let Some(here) = next.or_else(|| leaf.find(*row)) else { break };
                behind = Some(SlotIndex(here.0 + 1));
                leaf.prefetch_heap(here, columns);
                *slot = here;
                found += 1;
            }
            for (slot, row) in slots[..found].iter().zip(rows) {
                let present = self.visible(table, leaf, *slot, columns, &mut out.cells)?;
                if present == Presence::Present {
                    out.rows.push(*row);
                }
            }
            if mutant("rows-together-passed-over") {
                return Ok(rows.len().min(WIDTH));
            }
            // The first one is covered by this leaf: if it is not here, it is nowhere.
            Ok(found.max(1))
        });
        match read {
            // For their changes.
            Ok(looked) => self.hints.follow(table.id(), &rows[..looked]),
            Err(_) => begin_again(out),
        }
        read
    }

    /// Reads the visible rows of the leaf that covers `from`, from `from` on, into `out` (cleared
    /// first). Answers where the next leaf begins, or none at the end.
    pub fn scan(
        &mut self,
        table: &TableAccess,
        from: RowId,
        columns: &[u16],
        out: &mut RowBatch,
    ) -> Outcome<Option<RowId>> {
        let ((), next) = table.tree.scan_leaf(from, &mut |leaf: &LeafView<'_>| {
            out.clear(columns.len());
            for slot in leaf.lower_bound(from).index()..leaf.count() {
                let slot = SlotIndex(slot as u16);
                let present = self.visible(table, leaf, slot, columns, &mut out.cells)?;
                if present == Presence::Present {
                    out.rows.push(leaf.row_id(slot));
                }
            }
            Ok(())
        })?;
        Ok(next)
    }

    /// The row in the leaf where it belongs, behind what is in `out`.
    #[inline]
    fn found(
        &mut self,
        table: &TableAccess,
        leaf: &LeafView<'_>,
        row: RowId,
        columns: &[u16],
        out: &mut RowBuffer,
    ) -> Outcome<Presence> {
        match leaf.find(row) {
            None => Ok(Presence::Absent),
            Some(slot) => self.visible(table, leaf, slot, columns, out),
        }
    }

    #[inline]
    fn visible(
        &mut self,
        table: &TableAccess,
        leaf: &LeafView<'_>,
        slot: SlotIndex,
        columns: &[u16],
        out: &mut RowBuffer,
    ) -> Outcome<Presence> {
        let (at, mut reader) = self.at(table, leaf, slot);
        at.visible(&mut reader, columns, out)
    }

    #[inline]
    pub(super) fn at<'l>(
        &'l mut self,
        table: &'l TableAccess,
        leaf: &'l LeafView<'l>,
        slot: SlotIndex,
    ) -> (RowAt<'l, 'l, RacyPage>, Reader<'l>) {
        let reader =
            Reader { snapshot: &self.snapshot, states: self.states, observed: &mut *self.observed };
        (table.row_at(leaf, leaf.row_id(slot), slot), reader)
    }
}

/// Buffers for checking that a row has an entry's key; reused.
#[derive(Default)]
pub struct KeyCheck {
    columns: Vec<u16>,
    key: Vec<u8>,
}

impl KeyCheck {
    /// Empty buffers.
    pub fn new() -> KeyCheck {
        KeyCheck::default()
    }
}

/// Reads the newest version of a row, committed or not, into `out` (cleared first): for a
/// transaction that has locked or changed it, and for building an index with the table locked.
pub fn read_newest(
    table: &TableAccess,
    row: RowId,
    columns: &[u16],
    out: &mut RowBuffer,
) -> Outcome<Presence> {
    table.tree.read(row, &mut |leaf| {
        out.clear();
        match leaf.find(row) {
            None => Ok(Presence::Absent),
            Some(slot) => Ok(copy_newest(leaf, slot, columns, out)),
        }
    })
}
