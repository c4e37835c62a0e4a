//! What all instances share of transactions: one [`TxnShared`] per database.
//!
//! Invariants: no word here is written per transaction but the own slot's line and the own
//! instance's lines (stripe, floor). Everything is reached by reference, nothing is counted.

use std::sync::Arc;

use super::deadlock::{Detected, detect};
use super::horizon::{Floor, Floors, Outside};
use super::imaged::CheckpointSnapshot;
use super::locks::TableLocks;
use super::row_queue::{RowName, RowQueues};
use super::slot::{Seen, SlotTable, Wake};
use super::stability::StableWaiters;
use crate::base::{Cts, INSTANCES_MAX, InstanceId, KeyHash, RowId, TreeId, WaitFor, Xid};
use crate::runtime::{Clock, UnparkClass, Unparker};
use crate::version::{CollectLimit, Fate, Judgement, Passed, SnapshotView, TransactionStates};

impl Wake for Unparker {
    fn wake(&self) {
        self.unpark(UnparkClass::Lock);
    }
}

/// Wakes by class I/O: for waits on a log (rule 2.3).
pub(super) struct IoWaker(pub Unparker);

impl Wake for IoWaker {
    fn wake(&self) {
        self.0.unpark(UnparkClass::Io);
    }
}

/// Who is woken when a log becomes stable.
pub(super) enum StableWaker {
    /// A task or thread whose answer depends on it.
    Task(IoWaker),
    /// An instance whose own log's records depend on it (rule 7.5).
    Instance(Arc<dyn Fn() + Send + Sync>),
}

impl Wake for StableWaker {
    fn wake(&self) {
        match self {
            StableWaker::Task(waker) => waker.wake(),
            StableWaker::Instance(wake) => wake(),
        }
    }
}

/// Settings of transactions.
#[derive(Clone, Copy, Debug)]
pub struct TxnOptions {
    /// Running instances; instance i commits into log i.
    pub instances: usize,
    /// Homes, at least as many as instances.
    pub homes: usize,
    /// A waiter that has waited this long looks for a deadlock; again after twice as long, and so on.
    pub deadlock_timeout_ms: u64,
    /// Undo records that are stamped before a commit lets others run.
    pub stamp_portion: usize,
    /// Undo records that one call of the collector visits.
    pub collect_portion: usize,
}

impl Default for TxnOptions {
    fn default() -> Self {
        TxnOptions {
            instances: 1,
            homes: 1,
            deadlock_timeout_ms: 100,
            stamp_portion: 4096,
            collect_portion: 512,
        }
    }
}

/// Slots, floors, table locks, who waits for rows or stability, and the clock of one database.
pub struct TxnShared {
    pub(super) options: TxnOptions,
    pub(super) clock: Arc<Clock>,
    pub(super) slots: SlotTable<Unparker>,
    pub(super) floors: Floors,
    pub(super) locks: TableLocks<Unparker>,
    pub(super) rows: RowQueues<Unparker>,
    pub(super) stable_waiters: StableWaiters<StableWaker>,
}

impl TxnShared {
    /// Nothing runs yet. `clock` has been set above every cts on disk (rule 3.1).
    pub fn new(options: TxnOptions, clock: Arc<Clock>) -> Arc<TxnShared> {
        assert!(options.instances > 0 && options.instances <= INSTANCES_MAX);
        assert!(options.homes >= options.instances, "instance i commits into log i");
        Arc::new(TxnShared {
            options,
            clock,
            slots: SlotTable::new(options.instances),
            floors: Floors::new(options.instances),
            locks: TableLocks::new(options.instances),
            rows: RowQueues::new(),
            stable_waiters: StableWaiters::new(options.homes),
        })
    }

    /// The database's clock.
    pub fn clock(&self) -> &Clock {
        &self.clock
    }

    /// The horizon now (rule 6.8): no snapshot, present or future, is below it.
    pub fn horizon(&self) -> Cts {
        self.floors.horizon(|| self.clock.snapshot())
    }

    /// Transactions of `instance` that have begun and not ended.
    pub fn open_transactions(&self, instance: InstanceId) -> Vec<Xid> {
        self.slots.open_uses(instance).map(|(xid, _)| xid).collect()
    }

    /// How many wait for the end of the transaction that uses this slot.
    #[cfg(all(test, not(loom)))]
    pub fn waiters_of(&self, xid: Option<Xid>) -> u64 {
        xid.map_or(0, |xid| self.slots.get(xid).slot.enlisted())
    }

    /// The open transactions and what each waits for, a line each: for reports of what is stuck.
    pub fn describe(&self) -> Vec<String> {
        let instances = (0..self.options.instances).map(|it| InstanceId(it as u16));
        let open = instances.flat_map(|instance| self.slots.open_uses(instance));
        open.map(|(xid, entry)| {
            let (word, waits) = (entry.slot.word(), entry.wait.read());
            format!("transaction {xid} ({word:?}) waits for {waits:?}")
        })
        .collect()
    }

    /// Looks for a deadlock through the waiting transaction `asker`, and ends the youngest member.
    pub(super) fn detect_deadlock(&self, asker: Xid) -> Detected {
        detect(&self.slots, (&self.locks, &self.rows), asker)
    }

    /// A snapshot for a thread that is no instance (rule 2.9); it holds the horizon back until it
    /// is dropped.
    pub fn outside_snapshot(self: &Arc<Self>) -> OutsideSnapshot {
        self.snapshot_of(Outside::Reader)
    }

    /// A checkpoint's S. It holds the horizon back until it is dropped, but for what it lets go of.
    pub fn checkpoint_snapshot(self: &Arc<Self>) -> CheckpointSnapshot {
        let snapshot = self.snapshot_of(Outside::Checkpoint);
        // No two checkpoints have the same S, by which they are told apart: a counter stands still.
        let _ = self.clock.commit_reading();
        CheckpointSnapshot::new(snapshot, self.options.instances)
    }

    fn snapshot_of(self: &Arc<Self>, whose: Outside) -> OutsideSnapshot {
        let floor = self.floors.register_outside(whose);
        // Published and fenced before the snapshot is taken (rule 6.8).
        floor.wake(self.clock.snapshot());
        let timestamp = self.clock.snapshot();
        floor.publish(timestamp);
        OutsideSnapshot { shared: Arc::clone(self), floor, timestamp }
    }

    /// What the checkpoint that is being made lets go of already, of what is stable up to `stable`.
    pub fn passed(&self, stable: Cts) -> Option<Passed> {
        let (floor, tables) = self.floors.passed()?;
        let horizon = self.floors.horizon_but_for(Some(&floor), || self.clock.snapshot());
        let limit = CollectLimit { horizon, stable };
        Some(Passed { limit, checkpoint: floor.published(), tables })
    }
}

/// A registered snapshot of a thread that is no instance.
pub struct OutsideSnapshot {
    shared: Arc<TxnShared>,
    floor: Arc<Floor>,
    timestamp: Cts,
}

impl OutsideSnapshot {
    /// What it sees.
    pub fn view(&self) -> SnapshotView {
        SnapshotView { timestamp: self.timestamp, own: None, command: Default::default() }
    }

    pub(super) fn floor(&self) -> &Arc<Floor> {
        &self.floor
    }

    pub(super) fn shared(&self) -> &TxnShared {
        &self.shared
    }
}

impl Drop for OutsideSnapshot {
    fn drop(&mut self) {
        self.shared.floors.forget_outside(&self.floor);
    }
}

impl TransactionStates for TxnShared {
    #[inline]
    fn judge(&self, xid: Xid, snapshot: &SnapshotView) -> Judgement {
        debug_assert_ne!(Some(xid), snapshot.own, "own versions are judged by their command");
        match self.slots.judge(xid, snapshot.timestamp) {
            Seen::Older => Judgement::NotVisible,
            Seen::This(cts) => Judgement::Visible(cts),
            Seen::Undecided(_) => Judgement::Wait(WaitFor::Decision(xid)),
            Seen::Reread => Judgement::Reread,
        }
    }

    fn fate(&self, xid: Xid) -> Fate {
        self.slots.fate(xid)
    }

    #[inline]
    fn in_front(&self, tree: TreeId, row: RowId, own: Xid) -> Option<Xid> {
        self.rows.in_front(RowName { tree, row }, own)
    }

    #[inline]
    fn are_keys_awaited(&self) -> bool {
        self.rows.are_keys_awaited()
    }

    fn in_front_at_key(&self, index: TreeId, key: KeyHash, own: Xid) -> Option<Xid> {
        self.rows.in_front(RowName::of_key(index, key), own)
    }
}
