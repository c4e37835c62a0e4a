//! Index entries of a change, which follow the row (rules 5.5 to 5.7).
//!
//! Invariants: what is to be done is worked out when the row changes, from its new values and its
//! before-image, and done afterwards step by step ([`Progress`]); each step may be repeated. Long
//! values of keys were read under the row's latch.

use super::changes::{Pending, PendingWhat, SlotChanges};
use super::holder::has_unique_key;
use super::{RowValues, RowWriter};
use crate::base::{Error, Outcome, RowId};
use crate::page::rowleaf::SlotIndex;
use crate::sync::point;
use crate::tree::index::{Judgement, Keys, Near, Others, UniqueAnswer};
use crate::tree::table::LeafWrite;
use crate::version::undo::{HasKey, HasNull, Reader, copy_held, resolve_keys};
use crate::version::{TableAccess, Unique};

impl RowWriter<'_> {
    pub(super) fn pend_new_entries(
        &mut self,
        table: &TableAccess,
        row: RowId,
        values: &[Option<&[u8]>],
    ) {
        self.pend_entries_of_rows(table, RowValues::one(values), &[row]);
    }

    /// The entries of new rows, index by index, each in the order of the rows.
    pub(super) fn pend_entries_of_rows(
        &mut self,
        table: &TableAccess,
        rows: RowValues<'_>,
        ids: &[RowId],
    ) {
        let work = &mut self.changes.work;
        work.clear_pending();
        for (number, index) in table.indexes.iter().enumerate() {
            for (at, row) in ids.iter().enumerate() {
                let values = rows.row(at);
                let null = index.encode(&mut work.key, |i| values[index.columns[i] as usize]);
                let what = (add(index.unique, null), Keys::One);
                pend(&mut work.keys, &mut work.pending, (number, *row), &work.key, what);
            }
        }
    }

    /// The entries of an update, by its before-image and its new values.
    pub(super) fn pend_changed_entries(
        &mut self,
        table: &TableAccess,
        row: RowId,
        changes: &[(u16, Option<&[u8]>)],
    ) {
        let SlotChanges { image, work, .. } = &mut *self.changes;
        work.clear_pending();
        if !changes.iter().any(|(column, _)| table.is_indexed(*column)) {
            return;
        }
        let new = |column: u16| changes.iter().rev().find(|(changed, _)| *changed == column);
        let long = |column: u16| work.longs.iter().find(|(known, _)| *known == column);
        let old = |column: u16| match long(column) {
            Some((_, value)) => Some(&value[..]),
            None => image.read().find(|old| old.column == column)?.value,
        };
        for (number, index) in table.indexes.iter().enumerate() {
            if !index.columns.iter().any(|column| new(*column).is_some()) {
                continue;
            }
            index.encode(&mut work.key, |i| old(index.columns[i]));
            let start = work.keys.len();
            let what = (PendingWhat::ClearExact, Keys::Several);
            pend(&mut work.keys, &mut work.pending, (number, row), &work.key, what);
            let null = index.encode(&mut work.key, |i| {
                let column = index.columns[i];
                new(column).map_or_else(|| old(column), |(_, value)| *value)
            });
            if work.keys[start..] == work.key[..] {
                work.pending.pop();
                continue;
            }
            let what = (add(index.unique, null), Keys::Several);
            pend(&mut work.keys, &mut work.pending, (number, row), &work.key, what);
        }
    }

    /// The entries of a row that is being deleted, whose leaves are no longer exact.
    pub(super) fn pend_old_entries(
        &mut self,
        table: &TableAccess,
        leaf: &LeafWrite<'_>,
        (slot, row): (SlotIndex, RowId),
    ) -> Outcome<()> {
        let work = &mut self.changes.work;
        work.clear_pending();
        for (number, index) in table.indexes.iter().enumerate() {
            work.row.clear();
            copy_held(leaf, slot, &index.columns, &mut work.row);
            resolve_keys(&table.tree, &mut work.row, 0)?;
            index.encode(&mut work.key, |column| work.row.column(column));
            let what = (PendingWhat::ClearExact, Keys::One);
            pend(&mut work.keys, &mut work.pending, (number, row), &work.key, what);
        }
        Ok(())
    }

    /// Does what is left to do in the indexes, from the entry `next` on. May be called again after
    /// a `Stop`.
    pub(super) fn entries(&mut self, table: &TableAccess, next: &mut usize) -> Outcome<()> {
        while let Some(pending) = self.changes.work.pending.get(*next).copied() {
            point("row entry");
            let index = &table.indexes[pending.index as usize];
            let done = match self.add_together(table, *next)? {
                0 => {
                    self.one_entry(table, pending)?;
                    1
                }
                several => {
                    for number in *next..*next + several {
                        let added = self.changes.work.pending[number];
                        self.changes.key_added(index.tree.tree(), &added);
                    }
                    several
                }
            };
            *next += done;
        }
        Ok(())
    }

    fn one_entry(&mut self, table: &TableAccess, pending: Pending) -> Outcome<()> {
        let index = &table.indexes[pending.index as usize];
        let work = &self.changes.work;
        match pending.what {
            PendingWhat::ClearExact => {
                index.tree.clear_exact(work.key_of(&pending), pending.row, pending.keys)
            }
            PendingWhat::Add => {
                let near = Near::Hints(&self.changes.versions.hints);
                let entry = (work.key_of(&pending), pending.row);
                index.tree.insert(near, entry, pending.keys).map(drop)
            }
            PendingWhat::AddUnique => self.add_unique(table, pending),
        }
    }

    /// Adds entries from `next` on that lie in one leaf of one index; answers how many. None if
    /// there is only one, or the first needs more than its leaf.
    #[inline]
    fn add_together(&mut self, table: &TableAccess, next: usize) -> Outcome<usize> {
        let work = &self.changes.work;
        let first = work.pending[next];
        let alike =
            |it: &&Pending| (it.index, it.what, it.keys) == (first.index, first.what, first.keys);
        if first.what == PendingWhat::ClearExact {
            return Ok(0);
        }
        let index = &table.indexes[first.index as usize];
        let is_unique = first.what == PendingWhat::AddUnique;
        // Of a key that others wait for, the long way sees whose turn it is.
        let is_free =
            |it: &&Pending| !is_unique || self.first_at_key(index, work.key_of(it)).is_none();
        let entries = work.pending[next..].iter().take_while(alike).take_while(is_free);
        let entries = entries.map(|pending| (work.key_of(pending), pending.row));
        let near = Near::Hints(&self.changes.versions.hints);
        let others = if is_unique { Others::MayNot } else { Others::May };
        index.tree.insert_together(near, entries, first.keys, others)
    }

    /// Rule 5.6: check and insertion under the latch of the first leaf that can hold the key. Whose
    /// turn it is was looked at before, without that latch: a turn missed is no key lost.
    fn add_unique(&mut self, table: &TableAccess, pending: Pending) -> Outcome<()> {
        let index = &table.indexes[pending.index as usize];
        if let Some(first) = self.first_at_key(index, self.changes.work.key_of(&pending)) {
            let key = self.changes.work.key_of(&pending).to_vec();
            self.check_key_turn(table, (index, &key), (first, &mut Vec::new()))?;
        }
        let answer = self.try_add_unique(table, pending);
        let index = table.indexes[pending.index as usize].tree.tree();
        match self.noting_waits(answer)? {
            UniqueAnswer::Added | UniqueAnswer::Already => {
                self.changes.key_added(index, &pending);
                Ok(())
            }
            UniqueAnswer::Taken(_) => Err(Error::UniqueViolation { index }.into()),
        }
    }

    fn try_add_unique(&mut self, table: &TableAccess, pending: Pending) -> Outcome<UniqueAnswer> {
        let row = pending.row;
        let index = &table.indexes[pending.index as usize];
        let super::changes::Work { keys, row: buffer, key: check, .. } = &mut self.changes.work;
        let key = &keys[pending.start as usize..pending.end as usize];
        let (snapshot, states, observed) = (&self.snapshot, self.states, &mut *self.observed);
        let mut judge = |other: RowId| {
            if other == row {
                return Ok(Judgement::Free);
            }
            let mut reader = Reader { snapshot, states, observed: &mut *observed };
            let has = has_unique_key(table, (index, key), other, &mut reader, (buffer, check))?;
            Ok(if has == HasKey::Yes { Judgement::Taken } else { Judgement::Free })
        };
        let near = Near::Hints(&self.changes.versions.hints);
        index.tree.insert_unique(near, (key, row), pending.keys, &mut judge)
    }
}

fn add(unique: Unique, null: HasNull) -> PendingWhat {
    match (unique, null) {
        (Unique::Yes, HasNull::No) => PendingWhat::AddUnique,
        _ => PendingWhat::Add,
    }
}

fn pend(
    keys: &mut Vec<u8>,
    pending: &mut Vec<Pending>,
    (index, row): (usize, RowId),
    key: &[u8],
    (what, keys_of_row): (PendingWhat, Keys),
) {
    let start = keys.len() as u32;
    keys.extend_from_slice(key);
    let end = keys.len() as u32;
    pending.push(Pending { index: index as u16, row, start, end, what, keys: keys_of_row });
}
