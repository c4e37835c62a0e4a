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
use super::locks::{LockMode, ModeSet, Request};
use super::observe::Observations;
use super::row_queue::{RowName, Wants};
use crate::base::{CommandId, Cts, Observed, TreeId, Xid};
use crate::runtime::Unparker;
use crate::sync::AtomicBool;
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

/// What a slot keeps from one transaction to the next, so that a small one allocates nothing.
pub(super) struct Parts<E: Environment> {
    pub changes: Box<E::Changes>,
    pub observed: Observations,
    pub chunks: Vec<Spilled<E::Chunk>>,
    pub locks: Vec<HeldLock>,
    /// Every mode in the order in which it was taken: savepoints are positions in it.
    pub lock_order: Vec<(TreeId, LockMode)>,
}

impl<E: Environment> Parts<E> {
    /// For a slot that was never used.
    pub fn new(changes: E::Changes) -> Parts<E> {
        Parts {
            changes: Box::new(changes),
            observed: Observations::new(),
            chunks: Vec::new(),
            locks: Vec::new(),
            lock_order: Vec::new(),
        }
    }

    /// The transaction has ended: keeps the memory only.
    pub fn clear(&mut self) {
        self.observed.clear();
        self.chunks.clear();
        self.locks.clear();
        self.lock_order.clear();
    }
}

/// A running transaction. Not `Send`: it belongs to its instance.
pub struct TxnHandle<E: Environment> {
    pub(super) xid: Xid,
    pub(super) isolation: Isolation,
    pub(super) command: CommandId,
    pub(super) timestamp: Cts,
    pub(super) ticket: Option<SnapshotTicket>,
    // None once it has ended.
    pub(super) parts: Option<Parts<E>>,
    pub(super) pending: Option<(TreeId, Arc<Request<Unparker>>)>,
    /// The row or key in whose queue it stands, and what for.
    pub(super) standing: Option<(RowName, Wants)>,
    pub(super) phase: Phase,
    // Runs at *committed*, before any lock is given back.
    pub(super) at_committed: Option<AtCommitted>,
    /// Of one that reads a checkpoint: set by whoever keeps that, if it is to be kept no more.
    pub(super) given_up: Option<Arc<AtomicBool>>,
}

/// What a transaction's commands read.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Reads {
    /// The tables as they are.
    Newest,
    /// A checkpoint, which never changes; they change nothing.
    Checkpoint,
}

/// What one command of a transaction saw, kept beyond that command. It must be released
/// ([`super::TxnLocal::release_held`]) or nothing newer is ever collected.
pub struct HeldSnapshot {
    pub(super) timestamp: Cts,
    pub(super) command: CommandId,
    pub(super) ticket: Option<SnapshotTicket>,
}

/// What is to happen at *committed*; told the cts. Must neither fail nor wait.
pub type AtCommitted = Box<dyn FnOnce(Cts)>;

impl<E: Environment> TxnHandle<E> {
    /// Sees to it that `then` runs at *committed*, before any lock is given back (rule 6.10: a new
    /// catalog is published there). Never runs if the transaction rolls back.
    pub fn at_committed(&mut self, then: AtCommitted) {
        self.at_committed = Some(then);
    }

    /// Its xid.
    pub fn xid(&self) -> Xid {
        self.xid
    }

    /// What its commands read.
    pub fn reads(&self) -> Reads {
        if self.given_up.is_some() { Reads::Checkpoint } else { Reads::Newest }
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

    pub(super) fn parts(&self) -> &Parts<E> {
        self.parts.as_ref().expect("the transaction has not ended")
    }

    pub(super) fn all_parts_mut(&mut self) -> &mut Parts<E> {
        self.parts.as_mut().expect("the transaction has not ended")
    }

    /// Its changes.
    pub fn changes(&self) -> &E::Changes {
        &self.parts().changes
    }

    /// Its changes, to add to.
    pub fn changes_mut(&mut self) -> &mut E::Changes {
        &mut self.all_parts_mut().changes
    }

    /// What a row operation needs at once: the changes and where observations go.
    pub fn parts_mut(&mut self) -> (&mut E::Changes, &mut Observations) {
        let parts = self.all_parts_mut();
        (&mut parts.changes, &mut parts.observed)
    }

    /// What it has observed so far, the session's earlier transactions included.
    pub fn observed(&self) -> &Observations {
        &self.parts().observed
    }

    /// Notes an observation that no row read made (a catalog version, a sequence).
    pub fn observe(&mut self, seen: Observed) {
        self.all_parts_mut().observed.observe(seen);
    }

    /// The modes it holds on `tree`.
    pub fn held_modes(&self, tree: TreeId) -> ModeSet {
        let held = self.parts().locks.iter().find(|held| held.tree == tree);
        held.map_or(ModeSet::NONE, |held| held.modes)
    }

    /// How many table locks it has taken: a position for [`super::TxnLocal::release_locks_since`].
    pub fn locks_taken(&self) -> usize {
        self.parts().lock_order.len()
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
