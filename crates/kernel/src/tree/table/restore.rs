//! Putting rows back in recovery (rule 9.5): any row, in any order, fast when ids ascend.
//!
//! Invariants: no transaction is running and nothing has a twin; threads may restore different
//! rows of one leaf at the same time (each change is made under the leaf's exclusive latch).
//! Every function may be repeated: it sets a state, it does not add to one. Long values are in overflow
//! pages before their row is put back (not written by what is repeated: in a full pool their pages and the
//! row's leaf would drive each other out for ever), and become the row's when it is; those that are
//! replaced or go with their row are freed at once, for nobody reads, as far as they can be read: a page that is
//! damaged and that no row needs any more stops nobody (the pool counts it: `BufferPool::unread`). Who keeps indexes is shown each row before and after its change
//! ([`Watch`]), under the one latch that the change takes, and while its long values are still there.

use super::append::Link;
use super::held::takes;
use super::tree::row_key;
use super::{LeafWrite, TableTree};
use crate::base::{HomeId, Outcome, RowId};
use crate::buffer::FrameRef;
use crate::page::keynode::Probe;
use crate::page::overflow::{LongRef, REFERENCE_BYTES};
use crate::page::rowleaf::{self, RowState, SlotIndex};
use crate::tree::overflow::free_chain;

/// Remembers the leaf of the last row restored, so that neighbours need no descent. One per
/// thread and tree.
pub struct RestoreCursor {
    home: HomeId,
    leaf: Option<FrameRef>,
}

impl RestoreCursor {
    /// A cursor whose new leaves will be pages of `home`.
    pub fn new(home: HomeId) -> RestoreCursor {
        RestoreCursor { home, leaf: None }
    }

    /// Whose pages new ones will be.
    pub fn home(&self) -> HomeId {
        self.home
    }
}

/// A value to be put back.
#[derive(Clone, Copy, Debug)]
pub enum Restored<'a> {
    /// Null.
    Null,
    /// These bytes.
    Inline(&'a [u8]),
    /// The reference to a long value, which is the row's when the function that puts it back has
    /// answered that it did.
    Long([u8; REFERENCE_BYTES]),
}

impl Restored<'_> {
    /// What the leaf stores.
    fn stored(&self) -> Option<&[u8]> {
        match self {
            Restored::Null => None,
            Restored::Inline(value) => Some(value),
            Restored::Long(reference) => Some(reference),
        }
    }
}

impl<'a> From<Option<&'a [u8]>> for Restored<'a> {
    fn from(value: Option<&'a [u8]>) -> Restored<'a> {
        value.map_or(Restored::Null, Restored::Inline)
    }
}

/// Is shown a row while its leaf is held exclusively, around its change. Must not wait, and must not
/// latch an index (tree rule 20).
pub trait Watch {
    /// The row as it stands; it is changed or taken out next. A `Stop` is passed on, and nothing was
    /// changed then.
    fn before(&mut self, leaf: &LeafWrite<'_>, slot: SlotIndex) -> Outcome<()>;
    /// The row as it is now. Not called if it was taken out.
    fn after(&mut self, leaf: &LeafWrite<'_>, slot: SlotIndex);
}

/// Nobody wants to see the row.
pub struct Unwatched;

impl Watch for Unwatched {
    #[inline]
    fn before(&mut self, _: &LeafWrite<'_>, _: SlotIndex) -> Outcome<()> {
        Ok(())
    }
    #[inline]
    fn after(&mut self, _: &LeafWrite<'_>, _: SlotIndex) {}
}

impl TableTree {
    /// Stores a row as it was inserted, or replaces the row that is there; raises the mark.
    /// `columns` may be fewer than the layout has: the rest are null.
    pub fn restore(
        &self,
        cursor: &mut RestoreCursor,
        row: RowId,
        values: &[Restored<'_>],
        watch: &mut dyn Watch,
    ) -> Outcome<()> {
        let layout = self.layout();
        let mut columns: Vec<Option<&[u8]>> = values.iter().map(Restored::stored).collect();
        columns.resize(layout.columns().len().max(columns.len()), None);
        let columns = columns.as_slice();
        let heap = rowleaf::checked_heap_bytes(layout, columns)?;
        self.raise_row_id_mark(row);
        loop {
            let mut leaf = self.restore_leaf(cursor, row)?;
            if self.relayout(&mut leaf) {
                if let Some(slot) = leaf.find(row) {
                    let old = leaf.view().row_heap_bytes(slot);
                    if heap.saturating_sub(old) <= leaf.view().free_bytes() {
                        watch.before(&leaf, slot)?;
                        let before = longs_of(&leaf, slot, |_| true);
                        leaf.remove(slot);
                        let slot = leaf.insert(row, columns);
                        mark_longs(&mut leaf, slot, values.iter().enumerate());
                        watch.after(&leaf, slot);
                        drop(leaf);
                        self.free_longs(&before);
                        return Ok(());
                    }
                } else if takes(&leaf.view(), row, heap) {
                    let slot = leaf.insert(row, columns);
                    mark_longs(&mut leaf, slot, values.iter().enumerate());
                    watch.after(&leaf, slot);
                    return Ok(());
                }
            }
            let (rows, slot) = (leaf.view().count(), leaf.view().lower_bound(row));
            let next = (slot.index() < rows).then(|| leaf.view().row_id(slot));
            drop(leaf);
            if rows == 0 || next == Some(row) {
                self.make_room(row, heap)?;
                continue;
            }
            // Behind all others: leave the full leaf full. Else the rows behind go: they came before
            // their time, and those that come now will fill the leaf.
            let first = next.unwrap_or(row);
            let key = row_key(first);
            let mut link = Link { tree: self, row: first, own: true, begins: false };
            self.trunk.split_leaf(cursor.home, Probe::before(&key), &mut link)?;
        }
    }

    /// Changes some columns of a row that is there; answers whether it is.
    pub fn restore_columns(
        &self,
        cursor: &mut RestoreCursor,
        row: RowId,
        values: &[(usize, Restored<'_>)],
        watch: &mut dyn Watch,
    ) -> Outcome<bool> {
        let pairs = values.iter();
        let changes: Vec<(usize, Option<&[u8]>)> =
            pairs.map(|(column, value)| (*column, value.stored())).collect();
        let changes = changes.as_slice();
        loop {
            let mut leaf = self.restore_leaf(cursor, row)?;
            let Some(slot) = leaf.find(row) else {
                leaf.unchanged();
                return Ok(false);
            };
            let growth = growth(&leaf, slot, changes);
            rowleaf::check_row_bytes(leaf.layout(), leaf.view().row_heap_bytes(slot) + growth)?;
            if self.relayout(&mut leaf) && leaf.can_grow(growth) {
                watch.before(&leaf, slot)?;
                let is_changed = |column| changes.iter().any(|(changed, _)| *changed == column);
                let before = longs_of(&leaf, slot, is_changed);
                for (column, value) in changes {
                    leaf.set_column(slot, *column, *value);
                }
                mark_longs(&mut leaf, slot, values.iter().map(|(column, value)| (*column, value)));
                leaf.set_state(slot, RowState::Live);
                watch.after(&leaf, slot);
                drop(leaf);
                self.free_longs(&before);
                return Ok(true);
            }
            drop(leaf);
            self.make_room(row, growth)?;
        }
    }

    /// Takes a row out if it is there; answers whether it was.
    pub fn remove(
        &self,
        cursor: &mut RestoreCursor,
        row: RowId,
        watch: &mut dyn Watch,
    ) -> Outcome<bool> {
        self.raise_row_id_mark(row);
        let mut leaf = self.restore_leaf(cursor, row)?;
        let Some(slot) = leaf.find(row) else {
            leaf.unchanged();
            return Ok(false);
        };
        watch.before(&leaf, slot)?;
        let before = longs_of(&leaf, slot, |_| true);
        leaf.remove(slot);
        drop(leaf);
        self.free_longs(&before);
        Ok(true)
    }

    fn free_longs(&self, references: &[LongRef]) {
        references.iter().for_each(|reference| free_chain(self.pool(), reference.first));
    }

    pub(super) fn restore_leaf(
        &self,
        cursor: &mut RestoreCursor,
        row: RowId,
    ) -> Outcome<LeafWrite<'_>> {
        if let Some(frame) = cursor.leaf
            && let Some(leaf) = self.cached_leaf(frame)?
        {
            if leaf.view().covers(row) {
                return Ok(leaf);
            }
            leaf.unchanged();
        }
        let leaf = self.write(row)?;
        cursor.leaf = Some(leaf.frame());
        Ok(leaf)
    }
}

/// The row refers to the long ones of its new values.
fn mark_longs<'v>(
    leaf: &mut LeafWrite<'_>,
    slot: SlotIndex,
    values: impl Iterator<Item = (usize, &'v Restored<'v>)>,
) {
    for (column, value) in values {
        if matches!(value, Restored::Long(_)) {
            leaf.set_long(slot, column);
        }
    }
}

/// The row's long values in those columns.
fn longs_of(
    leaf: &LeafWrite<'_>,
    slot: SlotIndex,
    is_meant: impl Fn(usize) -> bool,
) -> Vec<LongRef> {
    let mut longs = Vec::new();
    leaf.view().each_long(slot, |column, reference| {
        if is_meant(column) {
            longs.push(reference);
        }
    });
    longs
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
