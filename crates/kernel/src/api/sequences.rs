//! Sequences: their definitions, and values from them (rule 7.7).
//!
//! Invariants: definitions are transactional like any other; values are not: what was handed out
//! stays handed out whatever becomes of the transaction. Whoever takes values holds ROW EXCLUSIVE
//! on the sequence to its end, so a redefinition (ACCESS EXCLUSIVE) waits for it, and it observes
//! the record that covers them. A redefinition that changes how a sequence counts, and a restart,
//! give it values with a number of their own, as TRUNCATE gives a table a new tree; rolling back
//! shows the old ones again.
//!
//! An instance takes `cache` values at a time and hands them to its sessions one by one, so that
//! with a cache above 1 instances seldom meet at the shared word; values then come out of order
//! between instances, and those that are left are lost at a restart, as PostgreSQL has it for
//! sessions.

use std::cell::RefCell;
use std::collections::HashMap;
use std::sync::Arc;

use super::statement::{Statement, lock_name};
use crate::base::{Error, Observed, Result, TreeId};
use crate::catalog::{ColumnId, Object, Oid, SequenceDef, SequenceEntry};
use crate::sync::mutant;
use crate::txn::{Counting, LockMode, SequenceState, Taken};

/// A sequence to be made.
#[derive(Clone, Debug)]
pub struct NewSequence {
    /// Where.
    pub namespace: Oid,
    /// Its name.
    pub name: String,
    /// SQL's type of its values.
    pub type_oid: u32,
    /// The first value.
    pub start: i64,
    /// How it counts.
    pub counting: Counting,
    /// Values that an instance takes at a time; at least 1.
    pub cache: u64,
    /// The column with which it is dropped.
    pub owner: Option<(Oid, ColumnId)>,
}

/// The values that one instance has taken and not handed out, by their number.
#[derive(Default)]
pub(super) struct SequenceCache {
    values: RefCell<HashMap<TreeId, Taken>>,
}

impl SequenceCache {
    fn next(&self, values: TreeId, increment: i64) -> Option<(i64, Observed)> {
        let mut cache = self.values.borrow_mut();
        let taken = cache.get_mut(&values)?;
        let (value, seen) = (taken.first, taken.seen);
        taken.count -= 1;
        if taken.count == 0 {
            cache.remove(&values);
        } else {
            taken.first += increment;
        }
        Some((value, seen))
    }

    fn keep(&self, values: TreeId, increment: i64, taken: Taken) {
        if taken.count > 1 {
            let rest = Taken { first: taken.first + increment, count: taken.count - 1, ..taken };
            self.values.borrow_mut().insert(values, rest);
        }
    }

    fn forget(&self, values: TreeId) {
        self.values.borrow_mut().remove(&values);
    }
}

impl Statement<'_> {
    /// Makes a sequence. `AlreadyExists`.
    pub fn create_sequence(&mut self, new: NewSequence) -> Result<Oid> {
        self.lock_catalog()?;
        let shared = &self.core.shared;
        let NewSequence { namespace, name, type_oid, start, counting, cache, owner } = new;
        let (oid, values) = (shared.new_oid(), shared.new_tree());
        let first = SequenceState { last: start, called: false };
        let def = SequenceDef {
            oid,
            namespace,
            name,
            values,
            type_oid,
            start,
            counting,
            cache,
            first,
            owner,
        };
        self.change_catalog(|catalog| catalog.add_sequence(SequenceEntry::new(def.clone())))?;
        self.insert_object(&Object::Sequence(def))?;
        self.lock_exclusive(oid)?;
        Ok(oid)
    }

    /// Changes a sequence; its values go on unless `restart` says where they begin. `NotFound`,
    /// `AlreadyExists`.
    pub fn alter_sequence(
        &mut self,
        mut def: SequenceDef,
        restart: Option<SequenceState>,
    ) -> Result<()> {
        self.lock_catalog()?;
        self.lock_exclusive(def.oid)?;
        let before = self.sequence(def.oid)?;
        let entry = if restart.is_none() && def.counting == before.def.counting {
            def.values = before.def.values;
            def.first = before.def.first;
            SequenceEntry { def: def.clone(), values: before.values.clone() }
        } else {
            // What is covered by a record was counted the old way.
            def.values = self.core.shared.new_tree();
            def.first = restart.unwrap_or_else(|| before.values.state());
            SequenceEntry::new(def.clone())
        };
        self.update_object(&Object::Sequence(def))?;
        self.change_catalog(|catalog| catalog.replace_sequence(entry))
    }

    /// Drops a sequence. `NotFound`.
    pub fn drop_sequence(&mut self, oid: Oid) -> Result<()> {
        self.lock_catalog()?;
        self.lock_exclusive(oid)?;
        self.delete_object(oid)?;
        self.change_catalog(|catalog| catalog.remove_sequence(oid))
    }

    /// The sequence with this identifier. `NotFound`.
    pub fn sequence(&self, oid: Oid) -> Result<Arc<SequenceEntry>> {
        let found = self.catalog.sequence_by_oid(oid).cloned();
        found.ok_or_else(|| Error::NotFound { what: format!("sequence {oid}") })
    }

    /// The next value; none if the sequence has come to its end. Never undone. `NotFound`,
    /// `Deadlock`, `Cancelled`, `DiskFull`, `Io`.
    pub fn next_value(&mut self, oid: Oid) -> Result<Option<i64>> {
        let entry = self.use_sequence(oid)?;
        let SequenceDef { counting, cache, .. } = &entry.def;
        let id = entry.values.id();
        if let Some((value, seen)) = self.core.sequences.next(id, counting.increment) {
            self.observe_sequence(seen);
            return Ok(Some(value));
        }
        let (txn, waiter) = (&self.core.txn, self.session.waiter(self.context));
        let taken =
            txn.run(self.handle, &waiter, |_| txn.take_values(&entry.values, counting, *cache))?;
        let Some(taken) = taken else { return Ok(None) };
        self.observe_sequence(taken.seen);
        self.core.sequences.keep(id, counting.increment, taken);
        Ok(Some(taken.first))
    }

    /// Lets a sequence go on from `state`, which the caller has checked. Never undone. Errors as
    /// [`Statement::next_value`].
    pub fn set_sequence(&mut self, oid: Oid, state: SequenceState) -> Result<()> {
        let entry = self.use_sequence(oid)?;
        let (txn, waiter) = (&self.core.txn, self.session.waiter(self.context));
        let seen = txn.run(self.handle, &waiter, |_| txn.set_sequence(&entry.values, state))?;
        self.observe_sequence(seen);
        self.core.sequences.forget(entry.values.id());
        Ok(())
    }

    fn observe_sequence(&mut self, seen: Observed) {
        if !mutant("sequence-not-observed") && !self.core.shared.is_stable(seen) {
            self.handle.observe(seen);
        }
    }

    /// Locks the sequence against redefinition and answers its newest definition. The command goes
    /// on with its own snapshot and catalog: a sequence has no rows.
    fn use_sequence(&mut self, oid: Oid) -> Result<Arc<SequenceEntry>> {
        self.check_may_change()?;
        let waiter = self.session.waiter(self.context);
        self.core.txn.lock_table(self.handle, lock_name(oid), LockMode::RowExclusive, &waiter)?;
        let newest = self.changes.own().unwrap_or_else(|| self.session.catalog());
        if let Some(seen) = newest.committed().filter(|it| !self.core.shared.is_stable(*it)) {
            self.handle.observe(seen);
        }
        let found = newest.sequence_by_oid(oid).cloned();
        found.ok_or_else(|| Error::NotFound { what: format!("sequence {oid}") })
    }
}
