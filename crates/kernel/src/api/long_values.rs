//! Values too long for their row's leaf (rule 5.8): moved out before a change, fetched after a read.
//!
//! Invariants: the usual change knows nothing of this; one that is refused because its row is too
//! large comes here. The longest values are written to overflow pages and to the redo first, a block
//! at a time, yielding and spilling in between, nothing latched; then the row is changed, with
//! references in their place. Whatever fails leaves the transaction as it was and no page behind.
//! Fetching is for rows that the command's snapshot (or lock) holds, so their pages stay; unless the
//! snapshot was ended (rule 6.9), which is asked after each value.

use std::borrow::Cow;
use std::ops::Range;

use super::statement::Statement;
use crate::base::{Error, HomeId, Result, RowId};
use crate::catalog::TableEntry;
use crate::page::keynode::KEY_BYTES_MAX;
use crate::page::overflow::{
    BLOCK_BYTES, Form, LongRef, REFERENCE_BYTES, VALUE_BYTES_MAX, encode_block,
};
use crate::page::rowleaf;
use crate::runtime::Parker;
use crate::tree::overflow::{LongReader, LongWriter, NewLong, Portion};
use crate::tree::table::TableTree;
use crate::txn::rows::{self, Frozen, Longs, Progress, WriteOutcome};
use crate::version::{RowBuffer, TableAccess};

/// How often, and for how long, other instances are waited for when the pool is full: each collects
/// every two milliseconds.
const OTHERS_TRIES: u32 = 50;
const OTHERS_NS: u64 = 1_000_000;

/// A changed column; its value is the caller's, or one that must leave the row to make room.
type Changed<'v> = (u16, Option<Cow<'v, [u8]>>);

/// Whether a change was refused because its row does not fit a leaf.
#[inline]
pub(super) fn is_too_long<T>(result: &Result<T>) -> bool {
    matches!(result, Err(Error::TooLarge { what: rowleaf::ROW, .. }))
}

impl Statement<'_> {
    /// Puts long values in the place of their references.
    #[inline]
    pub(super) fn fetch_longs(&mut self, tree: &TableTree, out: &mut RowBuffer) -> Result<()> {
        match out.has_long() {
            false => Ok(()),
            true => self.fetch_longs_of(tree, out, 0..out.len()),
        }
    }

    /// As [`Statement::fetch_longs`], of these cells alone.
    #[cold]
    pub(super) fn fetch_longs_of(
        &mut self,
        tree: &TableTree,
        out: &mut RowBuffer,
        cells: Range<usize>,
    ) -> Result<()> {
        let mut next = out.next_long(cells.clone());
        while let Some((index, reference)) = next {
            let mut bytes = out.take_bytes(reference.raw_bytes as usize)?;
            let start = bytes.len();
            let fetched = self.fetch(tree, reference, &mut bytes);
            out.put_long(index, bytes, start);
            // If the snapshot was ended its pages may have become others'.
            self.core.txn.check_snapshot(self.handle)?;
            fetched?;
            next = out.next_long(index + 1..cells.end);
        }
        Ok(())
    }

    fn fetch(&mut self, tree: &TableTree, reference: LongRef, out: &mut Vec<u8>) -> Result<()> {
        let mut reader = LongReader::new(reference, tree.long_owner());
        while reader.portion(tree.pool(), out)? == Portion::More {
            self.breathe()?;
        }
        Ok(())
    }

    /// Lets others run if it is time; an error if this statement is to end.
    fn breathe(&mut self) -> Result<()> {
        if self.context.should_yield() {
            self.waiter().check()?;
            self.context.yield_now();
        }
        Ok(())
    }

    /// Writes a value to overflow pages of this instance's home and to the redo. Errors:
    /// `TooLarge`, `OutOfMemory`, `DiskFull`, `Cancelled`: then no page is left.
    fn write_long(&mut self, table: &TableAccess, value: &[u8]) -> Result<(NewLong, u64)> {
        if value.len() > VALUE_BYTES_MAX {
            let bytes = value.len();
            return Err(Error::TooLarge { what: "value", bytes, bytes_max: VALUE_BYTES_MAX });
        }
        let home = HomeId(self.handle.xid().instance().0);
        let mut writer = LongWriter::new(table.tree.pool(), home, table.id());
        let number = self.handle.changes_mut().begin_long(value.len() as u32);
        let mut block = Vec::new();
        for raw in value.chunks(BLOCK_BYTES) {
            block.clear();
            encode_block(raw, &mut block);
            self.put(&mut writer, raw, &block)?;
            self.handle.changes_mut().long_block(&block);
            self.spill()?;
            self.breathe()?;
        }
        let value = writer.finish();
        self.handle.changes_mut().end_long(value.reference().checksum);
        Ok((value, number))
    }

    /// Adds a block; if there is no room, what nobody needs goes first: what this instance replaced at
    /// once, and what others replaced in their time, which is waited for a while.
    fn put(&mut self, writer: &mut LongWriter, raw: &[u8], block: &[u8]) -> Result<()> {
        if writer.put(raw, block).is_ok() {
            return Ok(());
        }
        self.core.txn.collect_all(&self.waiter())?;
        for _ in 0..OTHERS_TRIES {
            match writer.put(raw, block) {
                Err(Error::OutOfMemory { .. }) => {}
                put => return put,
            }
            self.waiter().check()?;
            self.context.park(Some(self.context.now_ns() + OTHERS_NS));
        }
        writer.put(raw, block)
    }

    /// Moves one of a change's values out of its row.
    fn move_out(
        &mut self,
        table: &TableAccess,
        longs: &mut Longs,
        (at, column): (usize, u16),
        value: &[u8],
    ) -> Result<()> {
        if value.len() > KEY_BYTES_MAX
            && let Some(index) = table.indexes.iter().find(|own| own.columns.contains(&column))
        {
            let (index, bytes, bytes_max) = (index.tree.tree(), value.len(), KEY_BYTES_MAX);
            return Err(Error::KeyTooLong { index, bytes, bytes_max });
        }
        let (value, number) = self.write_long(table, value)?;
        longs.add(at, value, number);
        Ok(())
    }

    /// Runs a change that may move values out; if it fails, everything is as it was before.
    fn undoing<T>(&mut self, change: impl FnOnce(&mut Self) -> Result<T>) -> Result<T> {
        let mark = self.handle.changes().mark();
        let result = change(self);
        if result.is_err() {
            self.roll_back_change(mark);
        }
        result
    }

    /// Inserts a row that does not fit a leaf as it is.
    #[cold]
    pub(super) fn insert_long(
        &mut self,
        table: &TableEntry,
        values: &[Option<&[u8]>],
        frozen: Frozen,
    ) -> Result<RowId> {
        let access = &table.access;
        self.undoing(|statement| {
            let mut longs = Longs::new();
            for at in longest(access, values)? {
                let value = values[at].unwrap_or_default();
                statement.move_out(access, &mut longs, (at, at as u16), value)?;
            }
            let mut progress = Progress::default();
            let row = statement
                .run(|writer| writer.insert(access, values, (frozen, &mut longs), &mut progress))?;
            statement.spill()?;
            Ok(row)
        })
    }

    /// Changes a row that does not fit a leaf afterwards.
    #[cold]
    pub(super) fn update_long(
        &mut self,
        table: &TableEntry,
        row: RowId,
        changes: &[(u16, Option<&[u8]>)],
    ) -> Result<WriteOutcome> {
        let access = &table.access;
        let mut all: Vec<Changed<'_>> =
            changes.iter().map(|(column, value)| (*column, value.map(Cow::Borrowed))).collect();
        self.undoing(|statement| {
            let mut longs = Longs::new();
            loop {
                let changes: Vec<(u16, Option<&[u8]>)> =
                    all.iter().map(|(column, value)| (*column, value.as_deref())).collect();
                let mut progress = Progress::default();
                let result = statement.run(|writer| {
                    writer.update_long(access, row, &changes, &mut longs, &mut progress)
                });
                if !is_too_long(&result) {
                    let outcome = result?;
                    statement.spill()?;
                    return Ok(outcome);
                }
                drop(changes);
                let at = match longest_changed(access, &all, &longs) {
                    Some(at) => at,
                    None => {
                        let locked = statement.run(|writer| writer.lock_row(access, row))?;
                        if locked != WriteOutcome::Done {
                            return Ok(locked);
                        }
                        let kept = statement.longest_kept(access, row, &all)?;
                        let Some(kept) = kept else { return result };
                        all.push(kept);
                        all.len() - 1
                    }
                };
                let (column, value) = &all[at];
                let value = value.as_deref().unwrap_or_default();
                statement.move_out(access, &mut longs, (at, *column), value)?;
            }
        })
    }

    /// The longest value of a locked row that the change leaves alone and that is in the leaf.
    fn longest_kept(
        &mut self,
        table: &TableAccess,
        row: RowId,
        changes: &[Changed<'_>],
    ) -> Result<Option<Changed<'static>>> {
        let layout = table.tree.layout().columns();
        let columns: Vec<u16> = (0..layout.len() as u16)
            .filter(|column| layout[usize::from(*column)].fixed_bytes().is_none())
            .filter(|column| changes.iter().all(|(changed, _)| changed != column))
            .collect();
        let mut kept = RowBuffer::new();
        self.run(|_| rows::read_newest(table, row, &columns, &mut kept))?;
        let inline = |at: &usize| *at < kept.len() && kept.form(*at) == Form::Inline;
        let len = |at: usize| kept.column(at).map_or(0, <[u8]>::len);
        let longest = (0..columns.len()).filter(inline).max_by_key(|at| len(*at));
        let longest = longest.filter(|at| len(*at) > REFERENCE_BYTES);
        Ok(longest.map(|at| (columns[at], kept.column(at).map(|value| Cow::Owned(value.to_vec())))))
    }
}

/// Which values leave the row so that the rest fits a leaf: the longest, those in keys last.
fn longest(table: &TableAccess, values: &[Option<&[u8]>]) -> Result<Vec<usize>> {
    let layout = table.tree.layout();
    let mut bytes = layout.row_bytes() + rowleaf::heap_bytes(layout, values);
    let len = |at: usize| values[at].map_or(0, <[u8]>::len);
    let mut places: Vec<usize> = (0..values.len().min(layout.columns().len()))
        .filter(|at| layout.columns()[*at].fixed_bytes().is_none() && len(*at) > REFERENCE_BYTES)
        .collect();
    places.sort_by_key(|at| (table.is_indexed(*at as u16), usize::MAX - len(*at)));
    let mut chosen = Vec::new();
    for at in places {
        if bytes <= rowleaf::ROW_BYTES_MAX {
            break;
        }
        bytes -= len(at) - REFERENCE_BYTES;
        chosen.push(at);
    }
    if bytes > rowleaf::ROW_BYTES_MAX {
        return Err(Error::TooLarge {
            what: rowleaf::ROW,
            bytes,
            bytes_max: rowleaf::ROW_BYTES_MAX,
        });
    }
    Ok(chosen)
}

/// The longest new value that is still to be in the row; none if none is longer than a reference.
fn longest_changed(table: &TableAccess, changes: &[Changed<'_>], longs: &Longs) -> Option<usize> {
    let layout = table.tree.layout().columns();
    let is_variable = |column: u16| {
        layout.get(usize::from(column)).is_some_and(|column| column.fixed_bytes().is_none())
    };
    let len = |at: usize| changes[at].1.as_ref().map_or(0, |value| value.len());
    (0..changes.len())
        .filter(|at| is_variable(changes[*at].0) && !longs.has(*at) && len(*at) > REFERENCE_BYTES)
        .max_by_key(|at| (!table.is_indexed(changes[*at].0), len(*at)))
}
