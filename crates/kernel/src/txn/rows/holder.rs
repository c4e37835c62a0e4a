//! Who holds a key of a unique index: for rule 5.6's check, and for INSERT .. ON CONFLICT.
//!
//! Invariants: the newest state decides, never the snapshot; if it depends on how another
//! transaction ends whether a row has the key, that end is waited for with nothing held, in the
//! key's queue (rule 6.5). Who finds a key free while others stand there goes behind them, unless it
//! is itself whom they wait for: a row of its own has or had the key. An answer is a moment's: nothing keeps
//! another transaction from taking or freeing the key right after, so whoever acts on it inserts
//! (and is told `UniqueViolation`) or locks the row and asks again.

use super::RowWriter;
use crate::base::{Error, KeyHash, Outcome, RowId, Stop, WaitFor, Xid};
use crate::sync::mutant;
use crate::tree::index::Near;
use crate::txn::Isolation;
use crate::version::undo::{HasKey, Newest, Reader, UniqueKey};
use crate::version::{IndexAccess, Presence, RowBuffer, TableAccess};

/// Whether `row` has the key of a unique index in the sense of rule 5.6. `WaitFor::Key` of whose end
/// decides it; the buffers are scratch.
pub(super) fn has_unique_key(
    table: &TableAccess,
    (index, key): (&IndexAccess, &[u8]),
    row: RowId,
    reader: &mut Reader<'_>,
    (buffer, check): (&mut RowBuffer, &mut Vec<u8>),
) -> Outcome<HasKey> {
    let found = table.tree.read(row, &mut |leaf| {
        let Some(slot) = leaf.find(row) else { return Ok(UniqueKey::Free) };
        let at = table.row_at(leaf, row, slot);
        at.unique_has_key(reader, &index.columns, buffer, &mut |version| {
            index.encode(check, |column| version.column(column));
            check.as_slice() == key
        })
    })?;
    match found {
        UniqueKey::Had => Ok(HasKey::Yes),
        UniqueKey::Free => Ok(HasKey::No),
        UniqueKey::Undecided(holder) => Err(wait_for_key(holder, index, key)),
    }
}

fn wait_for_key(holder: Xid, index: &IndexAccess, key: &[u8]) -> Stop {
    Stop::WaitFor(WaitFor::Key { holder, index: index.tree.tree(), key: KeyHash::of(key) })
}

impl RowWriter<'_> {
    /// The row that has this whole key (without NULLs) of a unique index now, if any; `found` is
    /// scratch. In REPEATABLE READ a holder that the snapshot does not see is a
    /// `SerializationFailure`, unless this transaction made it. Stops: `WaitFor::Key` of the
    /// transaction whose end decides it, or who is to look first.
    pub fn unique_holder(
        &mut self,
        table: &TableAccess,
        (index, key): (&IndexAccess, &[u8]),
        found: &mut Vec<RowId>,
    ) -> Outcome<Option<RowId>> {
        found.clear();
        index.tree.point(Near::Hints(&self.changes.versions.hints), key, found)?;
        for &row in found.iter() {
            let super::changes::Work { row: buffer, key: check, .. } = &mut self.changes.work;
            let mut reader = Reader {
                snapshot: &self.snapshot,
                states: self.states,
                observed: &mut *self.observed,
            };
            let has = has_unique_key(table, (index, key), row, &mut reader, (buffer, check));
            if self.noting_waits(has)? == HasKey::Yes {
                let strict = self.isolation == Isolation::RepeatableRead;
                if strict && !mutant("holder-unseen") {
                    self.check_seen(table, row)?;
                }
                return Ok(Some(row));
            }
        }
        if let Some(first) = self.first_at_key(index, key) {
            self.check_key_turn(table, (index, key), (first, found))?;
        }
        Ok(None)
    }

    /// Who has the first right to a free key, if others wait for it (rule 6.5).
    #[inline]
    pub(super) fn first_at_key(&self, index: &IndexAccess, key: &[u8]) -> Option<Xid> {
        if !self.states.are_keys_awaited() || mutant("key-queue-jumped") {
            return None;
        }
        let own = self.changes.xid();
        self.states.in_front_at_key(index.tree.tree(), KeyHash::of(key), own)
    }

    /// `first` waits for a key that may be free: whether it is this transaction's to take all the
    /// same. `found` is scratch. Stops: `WaitFor::Key`.
    pub(super) fn check_key_turn(
        &mut self,
        table: &TableAccess,
        (index, key): (&IndexAccess, &[u8]),
        (first, found): (Xid, &mut Vec<RowId>),
    ) -> Outcome<()> {
        let own = self.changes.xid();
        // They may wait for this transaction, which must not wait for them then.
        found.clear();
        index.tree.point(Near::Hints(&self.changes.versions.hints), key, found)?;
        for &row in found.iter() {
            let is_own = table.tree.read(row, &mut |leaf| {
                let Some(slot) = leaf.find(row) else { return Ok(false) };
                let newest = table.row_at(leaf, row, slot).newest(own, self.states)?;
                Ok(matches!(newest, Newest::Own(_)))
            })?;
            if is_own && !mutant("key-holder-waits-behind") {
                return Ok(());
            }
        }
        self.noting_waits(Err(wait_for_key(first, index, key)))
    }

    /// Remembers the key that is to be waited for, so that it is known when it was added.
    #[inline]
    pub(super) fn noting_waits<T>(&mut self, outcome: Outcome<T>) -> Outcome<T> {
        if let Err(Stop::WaitFor(WaitFor::Key { index, key, .. })) = &outcome {
            self.changes.await_key(*index, *key);
        }
        outcome
    }

    /// A row that only others have made since the snapshot is none of a REPEATABLE READ
    /// transaction's.
    fn check_seen(&mut self, table: &TableAccess, row: RowId) -> Outcome<()> {
        let own = self.changes.xid();
        let mut out = RowBuffer::new();
        let (snapshot, states, observed) = (&self.snapshot, self.states, &mut *self.observed);
        let seen = table.tree.read(row, &mut |leaf| {
            let Some(slot) = leaf.find(row) else { return Ok(true) };
            let at = table.row_at(leaf, row, slot);
            if matches!(at.newest(own, states)?, Newest::Own(_)) {
                return Ok(true);
            }
            let mut reader = Reader { snapshot, states, observed: &mut *observed };
            Ok(at.visible(&mut reader, &[], &mut out)? == Presence::Present)
        })?;
        if seen {
            return Ok(());
        }
        let tree = table.id();
        let detail = format!("row {row} of tree {tree} was inserted after the snapshot");
        Err(Error::SerializationFailure { detail }.into())
    }
}
