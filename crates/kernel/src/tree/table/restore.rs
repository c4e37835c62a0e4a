//! Putting rows back in recovery (rule 9.5): any row, in any order, fast when ids ascend.
//!
//! Invariants: no transaction is running and nothing has a twin; threads may restore different
//! rows of one leaf at the same time (each change is made under the leaf's exclusive latch).
//! Every function may be repeated: it sets a state, it does not add to one.

use super::append::Link;
use super::tree::row_key;
use super::{LeafWrite, TableTree};
use crate::base::{HomeId, Outcome, Pid, RowId};
use crate::buffer::FrameRef;
use crate::page::keynode::Probe;
use crate::page::pax::{self, RowState, SlotIndex};

/// Remembers the leaf of the last row restored, so that neighbours need no descent. One per
/// thread and tree.
pub struct RestoreCursor {
    home: HomeId,
    leaf: Option<(FrameRef, Pid)>,
}

impl RestoreCursor {
    /// A cursor whose new leaves will be pages of `home`.
    pub fn new(home: HomeId) -> RestoreCursor {
        RestoreCursor { home, leaf: None }
    }
}

impl TableTree {
    /// Stores a row as it was inserted, or replaces the row that is there; raises the mark.
    /// `columns` may be fewer than the layout has: the rest are null.
    pub fn restore(
        &self,
        cursor: &mut RestoreCursor,
        row: RowId,
        columns: &[Option<&[u8]>],
    ) -> Outcome<()> {
        let layout = self.layout();
        let padded;
        let columns = if columns.len() < layout.columns().len() {
            let mut all = columns.to_vec();
            all.resize(layout.columns().len(), None);
            padded = all;
            padded.as_slice()
        } else {
            columns
        };
        let heap = pax::checked_heap_bytes(layout, columns)?;
        self.raise_row_id_mark(row);
        loop {
            let mut leaf = self.restore_leaf(cursor, row)?;
            if self.relayout(&mut leaf) {
                if let Some(slot) = leaf.find(row) {
                    let old = leaf.view().row_heap_bytes(slot);
                    if heap.saturating_sub(old) <= leaf.view().free_bytes() {
                        leaf.remove(slot);
                        leaf.insert(row, columns);
                        return Ok(());
                    }
                } else if leaf.fits_row(heap) {
                    leaf.insert(row, columns);
                    return Ok(());
                }
            }
            let rows = leaf.view().count();
            let last = rows.checked_sub(1).map(|last| leaf.view().row_id(SlotIndex(last as u16)));
            drop(leaf);
            if last.is_some_and(|last| last < row) {
                // Behind all others: leave the full leaf full.
                let key = row_key(row);
                let mut link = Link { tree: self, row, heap, own: true, begins: false };
                self.trunk.split_leaf(cursor.home, Probe::before(&key), &mut link)?;
            } else {
                self.make_room(row, heap)?;
            }
        }
    }

    /// Changes some columns of a row that is there; answers whether it is.
    pub fn restore_columns(
        &self,
        cursor: &mut RestoreCursor,
        row: RowId,
        changes: &[(usize, Option<&[u8]>)],
    ) -> Outcome<bool> {
        loop {
            let mut leaf = self.restore_leaf(cursor, row)?;
            let Some(slot) = leaf.find(row) else {
                leaf.unchanged();
                return Ok(false);
            };
            let growth = growth(&leaf, slot, changes);
            pax::check_row_bytes(leaf.layout(), leaf.view().row_heap_bytes(slot) + growth)?;
            if self.relayout(&mut leaf) && leaf.can_grow(growth) {
                for (column, value) in changes {
                    leaf.set_column(slot, *column, *value);
                }
                leaf.set_state(slot, RowState::Live);
                return Ok(true);
            }
            drop(leaf);
            self.make_room(row, growth)?;
        }
    }

    /// Takes a row out if it is there; answers whether it was.
    pub fn remove(&self, cursor: &mut RestoreCursor, row: RowId) -> Outcome<bool> {
        self.raise_row_id_mark(row);
        let mut leaf = self.restore_leaf(cursor, row)?;
        let slot = leaf.find(row);
        match slot {
            Some(slot) => leaf.remove(slot),
            None => leaf.unchanged(),
        }
        Ok(slot.is_some())
    }

    fn restore_leaf(&self, cursor: &mut RestoreCursor, row: RowId) -> Outcome<LeafWrite<'_>> {
        if let Some((frame, pid)) = cursor.leaf
            && let Some(leaf) = self.cached_leaf(frame, pid)?
        {
            if leaf.view().covers(row) {
                return Ok(leaf);
            }
            leaf.unchanged();
        }
        let leaf = self.write(row)?;
        cursor.leaf = Some((leaf.frame(), leaf.pid()));
        Ok(leaf)
    }
}

/// Heap bytes by which the changed values grow, those that shrink not counted.
fn growth(leaf: &LeafWrite<'_>, slot: SlotIndex, changes: &[(usize, Option<&[u8]>)]) -> usize {
    let view = leaf.view();
    let grows = |(column, value): &(usize, Option<&[u8]>)| {
        let place = leaf.layout().columns().get(*column);
        if place.is_some_and(|column| column.fixed_bytes().is_some()) {
            return 0;
        }
        value.map_or(0, <[u8]>::len).saturating_sub(view.column_bytes(slot, *column).unwrap_or(0))
    };
    changes.iter().map(grows).sum()
}
