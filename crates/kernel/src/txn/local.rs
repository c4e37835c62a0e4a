//! One instance's transactions: begin, commands and snapshots, the poll, collection.
//!
//! Invariants: used on the instance's own thread only; nothing here waits; no `RefCell` of it is
//! borrowed while [`Environment`] runs anything that could come back. Between the clock reading
//! and the log copy of a commit nothing else of the instance runs (rule 3.4), so cts grow strictly
//! along its log. `commit.rs` ends transactions, `shell.rs` waits for them.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use super::Isolation;
use super::environment::{Changes, Environment};
use super::handle::Reads;
use super::handle::{HeldSnapshot, Parts, Phase, TxnHandle};
use super::horizon::{Floor, Snapshots};
use super::locks::LockCache;
use super::observe::{Observations, Session, Unsettled};
use super::row_queue::Took;
use super::shared::{IoWaker, StableWaker, TxnShared};
use super::slot::{FreeSlots, SlotEntry, Wake};
use crate::base::{
    CommandId, Cts, EXIT_CLOCK_RAN_BACK, Error, HomeId, InstanceId, LogPosition, Observed, Result,
    SlotId, Xid,
};
use crate::runtime::Unparker;
use crate::sync::{AtomicBool, Ordering, mutant, point};
use crate::version::{CollectLimit, Collected};

/// Counters of one instance; plain numbers, read by their own thread.
#[derive(Clone, Copy, Default, Debug, PartialEq, Eq)]
pub struct TxnCounters {
    /// Transactions begun.
    pub begun: u64,
    /// Commit records written.
    pub committed: u64,
    /// Transactions that ended without a record and without being rolled back.
    pub read_only: u64,
    /// Transactions rolled back.
    pub aborted: u64,
    /// Slots used again.
    pub slots_reused: u64,
    /// Reads that met a *preparing* transaction and had to wait for its word.
    pub preparing_met: u64,
    /// Reads that did not validate and were repeated.
    pub retries: u64,
    /// Waits for a row or key: for another transaction's end, or for the turn.
    pub end_waits: u64,
    /// How often those who waited so were woken.
    pub end_wakes: u64,
    /// Operations that stood in a row's or key's queue,
    pub rows_awaited: u64,
    /// ... and how many of them took it: it was handed over.
    pub row_turns: u64,
    /// Waits for a table lock.
    pub table_lock_waits: u64,
    /// Waits for a log to be stable.
    pub stable_waits: u64,
    /// Waits for room in the log.
    pub room_waits: u64,
    /// Commits whose cts was not below the clock and that waited for it.
    pub clock_waits: u64,
    /// Entries of other logs that commit records carried.
    pub dependencies: u64,
    /// Chunks spilled.
    pub chunks: u64,
    /// Cycles of waiters broken by this instance's detectors.
    pub deadlocks: u64,
    /// Times that this instance ended old snapshots for the undo that they held back.
    pub snapshots_ended: u64,
    /// Deleted rows that went before the checkpoint had ended which held them back.
    pub rows_reaped: u64,
    /// How often a checkpoint was seen to let go of undo before its end.
    pub undo_let_go: u64,
    /// Pages that collections waited for, while others ran.
    pub collect_loads: u64,
}

/// One instance's transactions. Not `Sync`.
pub struct TxnLocal<E: Environment> {
    pub(super) shared: Arc<TxnShared>,
    pub(super) instance: InstanceId,
    pub(super) environment: E,
    pub(super) free: FreeSlots,
    // What slots keep between their transactions, by slot.
    resting: RefCell<Vec<Option<Parts<E>>>>,
    pub(super) snapshots: Snapshots,
    pub(super) lock_cache: LockCache<Unparker>,
    // The last cts of this instance (rule 3.3).
    pub(super) last_cts: Cell<Cts>,
    room_waiters: RefCell<VecDeque<IoWaker>>,
    // Where the first chunk of each running transaction that has spilled any lies, or before it.
    spilled: RefCell<BTreeMap<SlotId, LogPosition>>,
    seen_stable: Cell<Cts>,
    seen_durable: Cell<LogPosition>,
    counters: RefCell<TxnCounters>,
}

impl<E: Environment> TxnLocal<E> {
    /// The transactions of `instance`; asleep until [`TxnLocal::woke`] or the first poll.
    pub fn new(shared: Arc<TxnShared>, instance: InstanceId, environment: E) -> TxnLocal<E> {
        assert_eq!(environment.home(), HomeId(instance.0), "instance i commits into log i");
        TxnLocal {
            shared,
            instance,
            free: FreeSlots::new(instance),
            resting: RefCell::new(Vec::new()),
            snapshots: Snapshots::default(),
            lock_cache: LockCache::new(),
            last_cts: Cell::new(Cts::ZERO),
            room_waiters: RefCell::new(VecDeque::new()),
            spilled: RefCell::new(BTreeMap::new()),
            seen_stable: Cell::new(environment.stable(environment.home())),
            seen_durable: Cell::new(environment.durable()),
            counters: RefCell::new(TxnCounters::default()),
            environment,
        }
    }

    /// What all instances share.
    pub fn shared(&self) -> &Arc<TxnShared> {
        &self.shared
    }

    /// The instance.
    pub fn instance(&self) -> InstanceId {
        self.instance
    }

    /// The instance's log, undo and collection.
    pub fn environment(&self) -> &E {
        &self.environment
    }

    /// The counters now.
    pub fn counters(&self) -> TxnCounters {
        *self.counters.borrow()
    }

    /// Transactions that have begun and not ended here.
    pub fn open(&self) -> u64 {
        let counters = self.counters.borrow();
        counters.begun - counters.committed - counters.read_only - counters.aborted
    }

    pub(super) fn count(&self, add: impl FnOnce(&mut TxnCounters)) {
        add(&mut self.counters.borrow_mut());
    }

    pub(super) fn entry(&self, xid: Xid) -> &SlotEntry<Unparker> {
        self.shared.slots.get(xid)
    }

    fn floor(&self) -> &Floor {
        self.shared.floors.of(self.instance)
    }

    /// Begins a transaction of `session`: it depends on what the session carries (rule 7.4).
    /// `Limit` if the instance has no slot left.
    pub fn begin(&self, session: &Session, isolation: Isolation) -> Result<TxnHandle<E>> {
        let now = self.shared.clock.snapshot();
        let xid = self.free.begin(&self.shared.slots, now)?;
        let mut parts = self.take_parts(xid.slot());
        parts.changes.begin(xid);
        parts.observed.merge(&session.carried);
        self.count(|counters| {
            counters.begun += 1;
            counters.slots_reused += (xid.sequence() > 1) as u64;
        });
        Ok(TxnHandle {
            xid,
            isolation,
            command: CommandId(0),
            timestamp: Cts::ZERO,
            ticket: None,
            parts: Some(parts),
            pending: None,
            standing: None,
            phase: Phase::Running,
            at_committed: None,
            given_up: None,
        })
    }

    fn take_parts(&self, slot: SlotId) -> Parts<E> {
        let resting = {
            let mut resting = self.resting.borrow_mut();
            if resting.len() <= slot.0 as usize {
                resting.resize_with(slot.0 as usize + 1, || None);
            }
            resting[slot.0 as usize].take()
        };
        resting.unwrap_or_else(|| Parts::new(self.environment.new_changes(slot)))
    }

    /// The slot's next transaction may use these again.
    pub(super) fn rest_parts(&self, slot: SlotId, mut parts: Parts<E>) {
        if !parts.chunks.is_empty() || !self.spilled.borrow().is_empty() {
            self.spilled.borrow_mut().remove(&slot);
        }
        parts.clear();
        self.resting.borrow_mut()[slot.0 as usize] = Some(parts);
    }

    pub(super) fn note_spilled(&self, slot: SlotId, at: LogPosition) {
        self.spilled.borrow_mut().entry(slot).or_insert(at);
    }

    /// From where on the log must be read to replay whatever commits from now on (rule 7.3): its end,
    /// or the first chunk of a transaction that is running.
    pub fn replay_from(&self) -> LogPosition {
        let end = self.environment.log_end();
        let spilled = self.spilled.borrow().values().copied().min();
        spilled.filter(|_| !mutant("checkpoint-forgets-chunks")).map_or(end, |at| at.min(end))
    }

    /// Adopts a checkpoint's timestamp `s` (rule 8.1): from here on this instance commits at or
    /// above it only. Called where nothing of the instance is between two waits, so every commit
    /// below `s` is in the log.
    pub fn adopt(&self, s: Cts) {
        self.last_cts.set(self.last_cts.get().max(Cts(s.0.saturating_sub(1))));
    }

    /// Begins the transaction's next command, with the snapshot that its isolation asks for:
    /// READ COMMITTED a new one, REPEATABLE READ the first command's. Call it after the command's
    /// table locks (rule 6.4), or call [`TxnLocal::refresh_snapshot`] after those that waited.
    pub fn begin_command(&self, txn: &mut TxnHandle<E>) {
        txn.command = CommandId(txn.command.0 + 1);
        // A turn at a key lasts no longer than the command that looked.
        self.leave_row(txn, Took::Nothing);
        match txn.isolation {
            Isolation::ReadCommitted => self.refresh_snapshot(txn),
            Isolation::RepeatableRead if txn.ticket.is_none() => self.take_snapshot(txn),
            Isolation::RepeatableRead => {}
        }
    }

    /// Goes on with the transaction's command: READ COMMITTED by the snapshot that is there (the
    /// command's, or one that was exchanged for it), or by a new one after the command's end.
    pub fn resume_command(&self, txn: &mut TxnHandle<E>) {
        if txn.isolation == Isolation::ReadCommitted && txn.ticket.is_none() {
            self.take_snapshot(txn);
        }
    }

    /// READ COMMITTED: takes a new snapshot for the present command (after a lock wait, or to run
    /// the command again). REPEATABLE READ: nothing.
    pub fn refresh_snapshot(&self, txn: &mut TxnHandle<E>) {
        if txn.isolation == Isolation::ReadCommitted {
            self.release_snapshot(txn);
            self.take_snapshot(txn);
        }
    }

    /// The command is over and nothing (no open cursor) uses its snapshot: READ COMMITTED no
    /// longer holds the horizon back.
    pub fn end_command(&self, txn: &mut TxnHandle<E>) {
        self.leave_row(txn, Took::Nothing);
        if txn.isolation == Isolation::ReadCommitted {
            self.release_snapshot(txn);
        }
    }

    /// Keeps what the present command sees, to be read on while other commands run (a cursor). In
    /// READ COMMITTED it holds the horizon back until it is released; in REPEATABLE READ the
    /// transaction's own snapshot does.
    pub fn hold_snapshot(&self, txn: &mut TxnHandle<E>) -> HeldSnapshot {
        let ticket = match txn.isolation {
            Isolation::ReadCommitted => txn.ticket.take(),
            Isolation::RepeatableRead => None,
        };
        HeldSnapshot { timestamp: txn.timestamp, command: txn.command, ticket }
    }

    /// Exchanges what the transaction's present command sees for what is held, and back when it is
    /// called again. In between no command may begin.
    pub fn exchange_snapshot(&self, txn: &mut TxnHandle<E>, held: &mut HeldSnapshot) {
        std::mem::swap(&mut txn.timestamp, &mut held.timestamp);
        std::mem::swap(&mut txn.command, &mut held.command);
        if txn.isolation == Isolation::ReadCommitted {
            std::mem::swap(&mut txn.ticket, &mut held.ticket);
        }
    }

    /// Nobody reads on with it.
    pub fn release_held(&self, held: &mut HeldSnapshot) {
        if let Some(ticket) = held.ticket.take() {
            self.snapshots.release(ticket);
        }
    }

    /// The transaction reads a checkpoint as of `timestamp` from now on: what does not change needs
    /// no snapshot, so none is held.
    pub fn read_checkpoint(
        &self,
        txn: &mut TxnHandle<E>,
        timestamp: Cts,
        given_up: Arc<AtomicBool>,
    ) {
        self.release_snapshot(txn);
        txn.timestamp = timestamp;
        txn.given_up = Some(given_up);
    }

    fn take_snapshot(&self, txn: &mut TxnHandle<E>) {
        if txn.reads() == Reads::Checkpoint {
            return;
        }
        if self.floor().is_asleep() {
            // Work was handed to an instance that said it sleeps: rule 6.8, a floor first.
            self.woke();
        }
        txn.timestamp = self.shared.clock.snapshot();
        txn.ticket = Some(self.snapshots.take(txn.timestamp));
    }

    pub(super) fn release_snapshot(&self, txn: &mut TxnHandle<E>) {
        if let Some(ticket) = txn.ticket.take() {
            self.snapshots.release(ticket);
        }
    }

    /// Once a turn, after the log's poll: publishes the floor (rule 6.8) and wakes whoever waited
    /// for this home's stable mark or for room in the log. True if somebody was woken.
    pub fn poll(&self) -> bool {
        self.floor().publish(self.bound());
        self.log_progressed()
    }

    /// The oldest snapshot that is held and not ended, or the clock.
    fn bound(&self) -> Cts {
        self.snapshots.forget_ended(self.shared.floors.ended.below());
        let oldest = self.snapshots.oldest().unwrap_or(Cts::MAX);
        oldest.min(self.shared.clock.snapshot())
    }

    /// Whether the transaction's snapshot was ended (rule 6.9): then what was read or decided by it
    /// up to now is not to be believed. `SnapshotTooOld` if so. `CheckpointGivenUp` if it reads one that
    /// is to go.
    #[inline]
    pub fn check_snapshot(&self, txn: &TxnHandle<E>) -> Result<()> {
        if txn.ticket.is_some() && self.shared.floors.ended.has_ended(txn.timestamp) {
            return Err(Error::SnapshotTooOld);
        }
        // Relaxed: what was read is right, for nothing goes before this transaction does.
        match &txn.given_up {
            Some(given_up) if given_up.load(Ordering::Relaxed) => Err(Error::CheckpointGivenUp),
            _ => Ok(()),
        }
    }

    /// The log made progress, perhaps: wakes whoever waited for it.
    pub fn log_progressed(&self) -> bool {
        let mut woken = 0;
        let home = self.environment.home();
        let stable = self.environment.stable(home);
        if stable != self.seen_stable.get() {
            self.seen_stable.set(stable);
            woken += self.shared.stable_waiters.advanced(home, stable);
        }
        let durable = self.environment.durable();
        if durable != self.seen_durable.get() {
            self.seen_durable.set(durable);
            let waiters = std::mem::take(&mut *self.room_waiters.borrow_mut());
            woken += waiters.len();
            waiters.iter().for_each(Wake::wake);
        }
        woken > 0
    }

    /// Durable records of the own log wait for `seen` in another log (rule 7.5): calls `wake` when
    /// that is stable, so that an instance with nothing else to do may sleep. False: it is stable
    /// already, poll the log again.
    pub fn wake_when_stable(&self, seen: Observed, wake: Arc<dyn Fn() + Send + Sync>) -> bool {
        let mark = || self.environment.stable(seen.home);
        self.shared.stable_waiters.enlist(seen, StableWaker::Instance(wake), mark)
    }

    /// The instance is about to sleep (rule 6.8).
    pub fn sleeps(&self) {
        self.snapshots.forget_ended(self.shared.floors.ended.below());
        self.floor().sleep(self.snapshots.oldest());
    }

    /// The instance is awake again; before it takes any snapshot.
    pub fn woke(&self) {
        self.floor().wake(self.bound());
    }

    /// The log's buffer has room again, sooner than its durable end shows: wakes whoever waits.
    pub fn log_has_room(&self) {
        let waiters = std::mem::take(&mut *self.room_waiters.borrow_mut());
        waiters.iter().for_each(Wake::wake);
    }

    /// Enlists for the next progress of the own log's buffer. The caller parks at once: nothing
    /// else of the instance runs in between.
    pub(super) fn enlist_for_room(&self, unparker: Unparker) {
        self.room_waiters.borrow_mut().push_back(IoWaker(unparker));
    }

    /// What may be reclaimed now (rule 6.8).
    pub fn collect_limit(&self) -> CollectLimit {
        CollectLimit {
            horizon: self.shared.horizon(),
            stable: self.environment.stable(self.environment.home()),
        }
    }

    /// Reclaims one portion of undo; if that leaves too much, ends the oldest snapshots that are in
    /// the way (rule 6.9), and the next portion takes what they held. Does not wait: who can load what it
    /// [`needs`](Collected::needs) calls [`TxnLocal::collect_waiting`].
    pub fn collect(&self) -> Result<Collected> {
        let limit = self.collect_limit();
        let mut collected = self.environment.collect(limit, self.shared.options.collect_portion)?;
        if !collected.more
            && let Some(timestamp) = self.environment.snapshots_to_end(limit)
            // Once: what an outside thread's snapshot holds as well stays.
            && timestamp > self.shared.floors.ended.below()
        {
            self.shared.floors.ended.end_below(timestamp);
            point("txn-snapshots-ended");
            self.count(|counters| counters.snapshots_ended += 1);
            collected.more = true;
        }
        if !collected.more
            && let Some(passed) = self.shared.passed(limit.stable)
        {
            let reaped = self.environment.reap(&passed, self.shared.options.collect_portion);
            self.count(|counters| counters.rows_reaped += reaped.rows as u64);
            collected.records += reaped.rows;
            (collected.more, collected.needs) = (reaped.more, reaped.needs);
        }
        Ok(collected)
    }

    /// The checkpoint that is being made has let go of undo.
    pub fn note_let_go(&self) {
        self.count(|counters| counters.undo_let_go += 1);
    }

    /// The first observation that is not stable yet.
    pub(super) fn first_unstable(&self, observed: &Observations) -> Option<Observed> {
        observed.entries().iter().copied().find(|seen| !self.is_stable(*seen))
    }

    /// Whether `seen` is stable.
    pub(super) fn is_stable(&self, seen: Observed) -> bool {
        self.environment.stable(seen.home) >= seen.cts
    }

    /// Whether everything that `session` depends on is stable, or it does not wait for that.
    pub fn is_settled(&self, session: &Session) -> bool {
        session.synchronous == super::Synchronous::Off
            || self.first_unstable(&session.carried).is_none()
    }

    /// What [`TxnLocal::settle`] would wait for. A session that depends on nothing any more forgets
    /// what it depended on, as if it had settled.
    pub fn unsettled(&self, session: &mut Session) -> Unsettled {
        if session.synchronous == super::Synchronous::Off || mutant("txn-settle-skipped") {
            return Unsettled::Nothing;
        }
        let own = self.environment.home();
        let mut unsettled = Unsettled::Nothing;
        for seen in session.carried.entries() {
            if !self.is_stable(*seen) {
                if seen.home != own {
                    return Unsettled::Others;
                }
                unsettled = Unsettled::OwnLog;
            }
        }
        if unsettled == Unsettled::Nothing {
            session.carried.clear();
        }
        unsettled
    }

    /// The processor's clock ran backwards (rule 3.1): the process ends and is restarted with the
    /// shared counter.
    pub(super) fn assert_no_warp(&self, finished: Cts) {
        if self.shared.clock.has_warped(finished) {
            eprintln!(
                "atoll: the clock is below the finished commit {finished}; ending the process"
            );
            std::process::exit(EXIT_CLOCK_RAN_BACK);
        }
    }
}

/// Whether collecting what nobody needs may help.
pub(super) fn is_short_of_memory(error: &Error) -> bool {
    matches!(error, Error::OutOfMemory { what: "undo" | "buffer pool" })
}
