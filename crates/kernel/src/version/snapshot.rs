//! What a reader knows and asks: its snapshot, the states of others, and what it observed.
//!
//! Invariants: a snapshot never changes while a read runs. `version` never looks into a slot
//! itself: it asks [`TransactionStates`], which `txn` implements (rule 3.5), so that the same
//! visibility code runs against a fake in tests. Nothing here blocks or latches.

use crate::base::{CommandId, Cts, KeyHash, Observed, RowId, TreeId, WaitFor, Xid};

/// A snapshot: commits strictly below `timestamp`, and own changes of commands before `command`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SnapshotView {
    /// Commits with a cts strictly below are seen.
    pub timestamp: Cts,
    /// The reader's own transaction, if it has one.
    pub own: Option<Xid>,
    /// Own changes of earlier commands are seen; those of this one or later are not.
    pub command: CommandId,
}

/// What rule 3.5 says of a foreign transaction's change, seen from a snapshot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Judgement {
    /// It committed at this timestamp, below the snapshot's.
    Visible(Cts),
    /// It is active, or committed or will commit at or above the snapshot.
    NotVisible,
    /// It is *preparing*: let go of everything, wait, judge again from the start.
    Wait(WaitFor),
    /// The slot has moved on: read the row again from its twin entry.
    Reread,
}

/// What has become of a foreign transaction, whatever any snapshot says (for writers and checks).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// *active* or *preparing*: it may still change, commit or roll back.
    InFlight,
    /// It is *committed* at this timestamp.
    Committed(Cts),
    /// The slot has moved on: its records are stamped or unlinked; read the row again.
    Reread,
}

/// The states of all transactions of the database. Implemented by `txn`, and by fakes in tests.
/// Called under latches: must not wait, latch or allocate; a mutex is held for moments only.
pub trait TransactionStates {
    /// Rule 3.5 for the writer `xid` of a version that a reader with `snapshot` met. Never called
    /// for the reader's own transaction.
    fn judge(&self, xid: Xid, snapshot: &SnapshotView) -> Judgement;

    /// What `xid` is now. Never called for the caller's own transaction.
    fn fate(&self, xid: Xid) -> Fate;

    /// Who has the right to a free row before `own` (rule 6.5), if anybody waits for it.
    fn in_front(&self, _tree: TreeId, _row: RowId, _own: Xid) -> Option<Xid> {
        None
    }

    /// Whether anybody waits for any key. No more than a hint.
    fn are_keys_awaited(&self) -> bool {
        false
    }

    /// Who has the right to a free key of an index before `own`, if anybody waits for it.
    fn in_front_at_key(&self, _index: TreeId, _key: KeyHash, _own: Xid) -> Option<Xid> {
        None
    }
}

/// Where a read or write tells which commits it observed (rule 7.4). Implementations drop what
/// they know to be stable. Called under latches, possibly for reads that then do not validate: an
/// observation too many costs a wait, never correctness.
pub trait Observe {
    /// The transaction now depends on `seen`.
    fn observe(&mut self, seen: Observed);
}

impl Observe for Vec<Observed> {
    fn observe(&mut self, seen: Observed) {
        match self.iter_mut().find(|known| known.home == seen.home) {
            Some(known) => known.cts = known.cts.max(seen.cts),
            None => self.push(seen),
        }
    }
}
