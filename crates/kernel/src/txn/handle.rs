//! A running transaction, as its own thread sees it.
//!
//! Invariants: stays on the instance that began it; ended exactly once, by commit or abort of
//! [`super::TxnLocal`] (a handle must not just be dropped: its slot would stay in use). Phases go
//! forward only:
//!
//! ```text
//! Running -> Committed(cts) -> Stamped(cts) -> Ended
//!      \---------------------------------------^
//! ```
//!
//! *Running*: the slot says active; everything that can fail happens here. *Committed*: the record
//! is in the log's buffer and readers believe the cts; nothing can fail any more. *Stamped*: no
//! undo record carries the xid. *Ended*: the slot may be in its next use.

use std::sync::Arc;

use super::Isolation;
use super::environment::Environment;
use super::horizon::SnapshotTicket;
use super::mode::{LockMode, ModeSet};
use super::observe::Observations;
use super::table_lock::Request;
use crate::base::{CommandId, Cts, Observed, TreeId, Xid};
use crate::runtime::Unparker;
use crate::version::{Observe, SnapshotView};

/// How far a transaction has come.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Phase {
    Running,
    Committed(Cts),
    Stamped(Cts),
    Ended,
}

/// The modes held on one table.
pub(super) struct HeldLock {
    pub tree: TreeId,
    pub modes: ModeSet,
}

/// A chunk of redo in the log, and where it lies in the transaction's redo.
#[derive(Clone, Copy)]
pub(super) struct Spilled<C> {
    pub start: u64,
    pub bytes: u32,
    pub chunk: C,
}

/// A running transaction. Not `Send`: it belongs to its instance.
pub struct TxnHandle<E: Environment> {
    pub(super) xid: Xid,
    pub(super) isolation: Isolation,
    pub(super) command: CommandId,
    pub(super) timestamp: Cts,
    pub(super) ticket: Option<SnapshotTicket>,
    pub(super) observed: Observations,
    // None once it has ended.
    pub(super) changes: Option<Box<E::Changes>>,
    pub(super) chunks: Vec<Spilled<E::Chunk>>,
    pub(super) locks: Vec<HeldLock>,
    pub(super) pending: Option<(TreeId, Arc<Request<Unparker>>)>,
    pub(super) phase: Phase,
}

impl<E: Environment> TxnHandle<E> {
    /// Its xid.
    pub fn xid(&self) -> Xid {
        self.xid
    }

    /// How much it sees of others.
    pub fn isolation(&self) -> Isolation {
        self.isolation
    }

    /// The number of the present command; the first is 1.
    pub fn command(&self) -> CommandId {
        self.command
    }

    /// What the present command sees.
    pub fn snapshot(&self) -> SnapshotView {
        SnapshotView { timestamp: self.timestamp, own: Some(self.xid), command: self.command }
    }

    /// Its changes.
    pub fn changes(&self) -> &E::Changes {
        self.changes.as_ref().expect("the transaction has not ended")
    }

    /// Its changes, to add to.
    pub fn changes_mut(&mut self) -> &mut E::Changes {
        self.changes.as_mut().expect("the transaction has not ended")
    }

    /// What a row operation needs at once: the changes and where observations go.
    pub fn parts_mut(&mut self) -> (&mut E::Changes, &mut Observations) {
        let changes = self.changes.as_mut().expect("the transaction has not ended");
        (changes, &mut self.observed)
    }

    /// What it has observed so far, the session's earlier transactions included.
    pub fn observed(&self) -> &Observations {
        &self.observed
    }

    /// Notes an observation that no row read made (a catalog version, a sequence).
    pub fn observe(&mut self, seen: Observed) {
        self.observed.observe(seen);
    }

    /// The modes it holds on `tree`.
    pub fn held_modes(&self, tree: TreeId) -> ModeSet {
        self.locks.iter().find(|held| held.tree == tree).map_or(ModeSet::NONE, |held| held.modes)
    }

    /// Whether what it holds on `tree` already keeps out all that `mode` would.
    pub fn holds(&self, tree: TreeId, mode: LockMode) -> bool {
        let wanted = mode.conflicts().bits();
        self.held_modes(tree).iter().any(|held| wanted & !held.conflicts().bits() == 0)
    }
}

impl Observe for Observations {
    #[inline]
    fn observe(&mut self, seen: Observed) {
        Observations::observe(self, seen);
    }
}
