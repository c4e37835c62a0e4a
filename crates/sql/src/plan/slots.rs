//! Slots: the place of each column of each relation of a statement in its frame.
//!
//! Invariants: one slot a column that is used at all; an output that is a plain column of
//! its query shares the column's slot.

use crate::bind::bound::{ColumnRef, RelationId};
use crate::exec::program::Slot;
use std::collections::HashMap;

/// The slots of a statement.
#[derive(Default)]
pub(super) struct Slots {
    map: HashMap<ColumnRef, Slot>,
    alias: HashMap<ColumnRef, ColumnRef>,
    next: Slot,
}

impl Slots {
    /// The slot of a column, given out now if it has none yet.
    pub(super) fn of(&mut self, column: ColumnRef) -> Slot {
        let column = self.resolve(column);
        let next = self.next;
        let slot = *self.map.entry(column).or_insert(next);
        if slot == next {
            self.next += 1;
        }
        slot
    }

    /// Makes `column` another name of `of`.
    pub(super) fn alias(&mut self, column: ColumnRef, of: ColumnRef) {
        let of = self.resolve(of);
        if of != column {
            self.alias.insert(column, of);
        }
    }

    /// The column that really has the slot.
    pub(super) fn resolve(&self, mut column: ColumnRef) -> ColumnRef {
        while let Some(of) = self.alias.get(&column) {
            column = *of;
        }
        column
    }

    /// The used columns of a relation with their slots, by column.
    pub(super) fn used(&self, relation: RelationId) -> Vec<(u16, Slot)> {
        let own = self.map.iter().filter(|(column, _)| column.relation == relation);
        let mut used: Vec<(u16, Slot)> = own.map(|(column, slot)| (column.column, *slot)).collect();
        used.sort_unstable();
        used
    }

    /// All columns that have a slot.
    pub(super) fn all(&self) -> impl Iterator<Item = (ColumnRef, Slot)> + '_ {
        self.map.iter().map(|(column, slot)| (*column, *slot))
    }

    /// How many slots there are.
    pub(super) fn count(&self) -> usize {
        self.next as usize
    }
}
