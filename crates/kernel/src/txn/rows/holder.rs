//! Who holds a key of a unique index: for rule 5.6's check, and for INSERT .. ON CONFLICT.
//!
//! Invariants: the newest state decides, never the snapshot; a row in flight by another transaction
//! that may have the key is waited for with nothing held. An answer is a moment's: nothing keeps
//! another transaction from taking or freeing the key right after, so whoever acts on it inserts
//! (and is told `UniqueViolation`) or locks the row and asks again.

use super::RowWriter;
use crate::base::{Error, Outcome, RowId};
use crate::sync::mutant;
use crate::tree::index::Near;
use crate::txn::Isolation;
use crate::version::undo::{HasKey, Newest, Reader};
use crate::version::{IndexAccess, Presence, RowBuffer, TableAccess};

/// Whether `row` has the key of a unique index in the sense of rule 5.6. `WaitFor::End` of who has
/// it in flight; the buffers are scratch.
pub(super) fn has_unique_key(
    table: &TableAccess,
    (index, key): (&IndexAccess, &[u8]),
    row: RowId,
    reader: &mut Reader<'_>,
    (buffer, check): (&mut RowBuffer, &mut Vec<u8>),
) -> Outcome<HasKey> {
    table.tree.read(row, &mut |leaf| {
        let Some(slot) = leaf.find(row) else { return Ok(HasKey::No) };
        let at = table.row_at(leaf, row, slot);
        at.unique_has_key(reader, &index.columns, buffer, &mut |version| {
            index.encode(check, |column| version.column(column));
            check.as_slice() == key
        })
    })
}

impl RowWriter<'_> {
    /// The row that has this whole key (without NULLs) of a unique index now, if any; `found` is
    /// scratch. In REPEATABLE READ a holder that the snapshot does not see is a
    /// `SerializationFailure`, unless this transaction made it. Stops: `WaitFor::End` of a
    /// transaction that has the key in flight.
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
            let has = has_unique_key(table, (index, key), row, &mut reader, (buffer, check))?;
            if has == HasKey::Yes {
                let strict = self.isolation == Isolation::RepeatableRead;
                if strict && !mutant("holder-unseen") {
                    self.check_seen(table, row)?;
                }
                return Ok(Some(row));
            }
        }
        Ok(None)
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
