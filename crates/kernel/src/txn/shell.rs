//! The thin shell (rule 1.1): runs core operations to their end, waiting as they ask.
//!
//! Invariants: no latch is held in any wait (the parker asserts it); every wait loops until what
//! it waits for has happened, so a spurious wake-up is harmless; a transaction that waits for
//! another or for a table lock shows the edge in its slot before it parks, and takes it back
//! before it goes on; a wait that ends by cancellation, deadlock or error has taken itself out of
//! every list it was on. Only waits before *preparing* can be interrupted.

use std::sync::Arc;

use super::Isolation;
use super::commit::Committed;
use super::deadlock::Detected;
use super::environment::{Changes, Environment};
use super::handle::{HeldLock, Parts, TxnHandle};
use super::interrupt::Interrupt;
use super::local::{TxnLocal, is_short_of_memory};
use super::locks::{Asked, Asker, LockMode};
use super::observe::{Session, Settling, Synchronous};
use super::row_queue::{Next, RowName, Stands, Took, Wants};
use super::shared::{IoWaker, StableWaker};
use super::slot::Edge;
use crate::base::{
    Cts, Error, HomeId, KeyHash, NeededPage, Observed, Outcome, Result, Stop, TreeId, WaitFor, Xid,
};
use crate::buffer::LoadsAgain;
use crate::runtime::{Parked, Parker};
use crate::sync::{ledger, mutant, point, spin};
use crate::version::Collected;

/// Portions of a collection in which nothing goes on, before who waits for it gives up, and pages for which he waits at
/// most.
const IDLE_MAX: usize = 8;
const LOADS_MAX: usize = 1000;

/// Retries that only spin; after these each one lets others run.
const SPINS: u32 = 16;

/// Who waits: a task or thread, and what may end its waits early.
#[derive(Clone, Copy)]
pub struct Waiter<'a> {
    /// The task or thread.
    pub parker: &'a dyn Parker,
    /// Cancellation from outside.
    pub interrupt: &'a Interrupt,
    /// When the statement's time is up, on the parker's clock.
    pub deadline_ns: Option<u64>,
}

/// Whether who waits is among those that bound new transactions (rule 2.4).
#[derive(Clone, Copy, PartialEq, Eq)]
enum Counts {
    Yes,
    No,
}

/// Who has waited for so long for another's end counts no more: it may be that of a client who idles, and
/// then as many as are admitted would close the instance to all others. Where rows are handed over
/// all the time nobody waits for so long, and who is not admitted queues without a stack.
const ASIDE_NS: u64 = 10_000_000;

impl Waiter<'_> {
    /// An error if the statement is to end. Loops of executors may ask it at their yields.
    pub fn check(&self) -> Result<()> {
        self.interrupt.check()?;
        match self.deadline_ns {
            Some(deadline) if self.parker.now_ns() >= deadline => Err(Error::Cancelled),
            _ => Ok(()),
        }
    }

    /// Parks until woken, interrupted or `until`; an error if interrupted.
    fn park(&self, until_ns: Option<u64>, counts: Counts) -> Result<Parked> {
        self.interrupt.show(self.parker.unparker())?;
        let until = match (until_ns, self.deadline_ns) {
            (Some(one), Some(other)) => Some(one.min(other)),
            (one, other) => one.or(other),
        };
        let parked = match counts {
            Counts::Yes => self.parker.park(until),
            Counts::No => self.parker.park_aside(until),
        };
        self.interrupt.hide();
        self.check()?;
        Ok(parked)
    }
}

/// Whether a table lock had to be waited for; then READ COMMITTED takes its snapshot again, and a
/// statement binds again if the catalog changed (rule 6.10).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Waited {
    /// It was free, or held already.
    No,
    /// Others were in the way.
    Yes,
}

impl<E: Environment> TxnLocal<E> {
    /// Runs `operation` of the transaction to its end: calls it until it answers something that
    /// is not a reason to wait, and waits in between. Errors: the operation's own, `Deadlock`,
    /// `Cancelled`, `ShuttingDown`.
    #[cfg_attr(feature = "ledger", track_caller)]
    pub fn run<T>(
        &self,
        txn: &mut TxnHandle<E>,
        waiter: &Waiter<'_>,
        mut operation: impl FnMut(&mut TxnHandle<E>) -> Outcome<T>,
    ) -> Result<T> {
        let result = self.run_waiting(txn, waiter, &mut operation);
        self.leave_row(txn, tells_others(&result));
        result
    }

    /// As [`TxnLocal::run`], of a look whether a key is free. If it is (none), and was waited for,
    /// the transaction's turn at it lasts to the end of its next operation, or its command.
    #[cfg_attr(feature = "ledger", track_caller)]
    pub fn run_look<T>(
        &self,
        txn: &mut TxnHandle<E>,
        waiter: &Waiter<'_>,
        mut operation: impl FnMut(&mut TxnHandle<E>) -> Outcome<Option<T>>,
    ) -> Result<Option<T>> {
        let result = self.run_waiting(txn, waiter, &mut operation);
        match &result {
            Ok(None) if !mutant("key-turn-not-kept") => {}
            // Who has the key has it for all who wait.
            Ok(Some(_)) => self.leave_row(txn, Took::Outrun),
            _ => self.leave_row(txn, tells_others(&result)),
        }
        result
    }

    #[cfg_attr(feature = "ledger", track_caller)]
    fn run_waiting<T>(
        &self,
        txn: &mut TxnHandle<E>,
        waiter: &Waiter<'_>,
        operation: &mut impl FnMut(&mut TxnHandle<E>) -> Outcome<T>,
    ) -> Result<T> {
        let mut retries = 0;
        let mut collected = false;
        let mut loads = LoadsAgain::default();
        loop {
            let outcome = operation(txn);
            // After the copy, before anybody believes it; whatever else it says.
            self.check_snapshot(txn)?;
            match outcome {
                Ok(answer) => return Ok(answer),
                Err(Stop::WaitFor(WaitFor::Row { holder, tree, row })) => {
                    let wants = match txn.isolation() {
                        Isolation::ReadCommitted => Wants::Newest,
                        Isolation::RepeatableRead => Wants::AsSeen,
                    };
                    self.wait_for_turn(txn, (RowName { tree, row }, wants), holder, waiter)?;
                }
                Err(Stop::WaitFor(WaitFor::Key { holder, index, key })) => {
                    let name = (RowName::of_key(index, key), Wants::Key);
                    self.wait_for_turn(txn, name, holder, waiter)?;
                }
                Err(Stop::Retry) => {
                    retries += 1;
                    self.retry(retries, waiter)?;
                }
                Err(Stop::WaitFor(what)) => self.wait(what, waiter)?,
                Err(Stop::Error(error)) => self.collect_for(error, waiter, &mut collected)?,
                Err(Stop::NeedPage(page)) => {
                    if let Err(error) = loads.check(page).and_then(|()| self.load(page, waiter)) {
                        self.collect_for(error, waiter, &mut collected)?;
                    }
                }
            }
        }
    }

    /// If memory is short, what nobody needs goes first, once (rule 6.9); else, or if there is nothing to
    /// go, the error stays.
    #[cold]
    fn collect_for(&self, error: Error, waiter: &Waiter<'_>, collected: &mut bool) -> Result<()> {
        let may = is_short_of_memory(&error) && !std::mem::replace(collected, true);
        if may && self.collect_all(waiter)? { Ok(()) } else { Err(error) }
    }

    /// As [`TxnLocal::collect`], and loads the page that it needs then, if any; others run meanwhile. Nothing is latched.
    pub fn collect_waiting(&self, parker: &dyn Parker) -> Result<Collected> {
        let collected = self.collect()?;
        if let Some(page) = collected.needs {
            self.load_to_collect(page, parker);
        }
        Ok(collected)
    }

    /// Loads a page that a collection needs; others run meanwhile. Nothing is latched. Whatever is in the way, the
    /// collection meets it again, with the thread blocked.
    pub fn load_to_collect(&self, page: NeededPage, parker: &dyn Parker) {
        let Some(pool) = self.environment.pool() else { return };
        self.count(|counters| counters.collect_loads += 1);
        if pool.load(page, parker).is_err() {
            self.environment.could_not_load();
        }
    }

    /// Memory is short: reclaims all that can be reclaimed now. True if that was anything. Ends
    /// too when nothing goes on for a while, for the thread that has the page in the way may be this one; and after so
    /// many loads, for others of this instance may change rows as fast as it collects. Errors: `Cancelled`,
    /// `ShuttingDown`.
    pub fn collect_all(&self, waiter: &Waiter<'_>) -> Result<bool> {
        let (mut any, mut idle, mut loads) = (false, 0, 0);
        loop {
            let collected = self.collect_waiting(waiter.parker)?;
            any |= collected.transactions > 0 || collected.pages > 0;
            if collected.needs.is_some() {
                waiter.check()?;
                loads += 1;
            } else {
                idle = if collected.got_on() { 0 } else { idle + 1 };
            }
            if !collected.more || idle == IDLE_MAX || loads == LOADS_MAX {
                return Ok(any);
            }
        }
    }

    /// Loads a page; nothing is latched. A statement that is to end ends before it.
    #[cold]
    fn load(&self, page: NeededPage, waiter: &Waiter<'_>) -> Result<()> {
        waiter.check()?;
        let Some(pool) = self.environment.pool() else {
            let detail = format!("page {page} is needed, and there is no pool");
            return Err(Error::Internal { detail });
        };
        pool.load(page, waiter.parker)
    }

    #[cfg_attr(feature = "ledger", track_caller)]
    fn retry(&self, retries: u32, waiter: &Waiter<'_>) -> Result<()> {
        self.count(|counters| counters.retries += 1);
        let _pause = ledger::timed(ledger::What::Retry);
        if retries < SPINS {
            spin();
            return Ok(());
        }
        waiter.check()?;
        waiter.parker.yield_now();
        Ok(())
    }

    /// Waits for one thing that is not another's end. Nothing is latched.
    fn wait(&self, what: WaitFor, waiter: &Waiter<'_>) -> Result<()> {
        match what {
            WaitFor::Row { holder, .. } | WaitFor::Key { holder, .. } => {
                let detail = format!("transaction {holder} is waited for through run");
                Err(Error::Internal { detail })
            }
            WaitFor::Decision(xid) => self.wait_for_decision(xid, waiter),
            WaitFor::TableLock(tree) => {
                let detail = format!("table lock {tree} is taken through lock_table");
                Err(Error::Internal { detail })
            }
            WaitFor::LogRoom => {
                self.count(|counters| counters.room_waits += 1);
                self.enlist_for_room(waiter.parker.unparker());
                waiter.park(None, Counts::Yes).map(drop)
            }
            WaitFor::Clock(cts) => {
                self.wait_for_clock(cts, waiter.parker);
                Ok(())
            }
            WaitFor::Stable(home, cts) => {
                waiter.check()?;
                self.wait_stable(Observed { home, cts }, waiter.parker);
                Ok(())
            }
            WaitFor::Yield => {
                waiter.check()?;
                waiter.parker.yield_now();
                Ok(())
            }
        }
    }

    /// `holder` has the row or key, or is to have it first: stands in its queue, and sleeps there
    /// unless it is to be looked at again at once (rule 6.5).
    fn wait_for_turn(
        &self,
        txn: &mut TxnHandle<E>,
        (name, wants): (RowName, Wants),
        holder: Xid,
        waiter: &Waiter<'_>,
    ) -> Result<()> {
        let _waits = ledger::timed(ledger::What::RowWait);
        let (own, shared) = (txn.xid, &self.shared);
        assert_ne!(holder, own, "a transaction does not wait for itself");
        if txn.standing != Some((name, wants)) {
            self.leave_row(txn, Took::Nothing);
            shared.rows.stand(name, (own, wants), waiter.parker.unparker());
            txn.standing = Some((name, wants));
            self.count(|counters| counters.rows_awaited += 1);
        }
        match shared.rows.found(&shared.slots, name, own, holder) {
            Next::Look => {
                self.observe_end(txn, holder);
                return Ok(());
            }
            Next::LetGo => {
                txn.standing = None;
                return Ok(());
            }
            Next::Sleep => {}
        }
        self.count(|counters| counters.end_waits += 1);
        // Enlist, fence, look again: the second look was the operation's own, because who has the
        // row may give it back before its end.
        let edge = Edge::Row(name.tree, name.row);
        let is_over = || shared.rows.is_over(&shared.slots, name, own);
        let waited = self.park_in_graph(own, edge, waiter, is_over);
        let woken = shared.rows.woke(&shared.slots, name, own);
        if woken.stands == Stands::NoMore {
            txn.standing = None;
        }
        if let Some(holder) = woken.watched {
            self.observe_end(txn, holder);
        }
        waited
    }

    /// Stands in no queue any more; passes the turn on. `otherwise`: if the row is not taken.
    #[inline]
    pub(super) fn leave_row(&self, txn: &mut TxnHandle<E>, otherwise: Took) {
        if let Some(standing) = txn.standing.take() {
            self.leave_queue(txn, standing, otherwise);
        }
    }

    fn leave_queue(
        &self,
        txn: &mut TxnHandle<E>,
        (name, wants): (RowName, Wants),
        otherwise: Took,
    ) {
        let changes = txn.changes();
        let has_it = match wants {
            Wants::Newest | Wants::AsSeen => changes.has_just_taken(name.tree, name.row),
            Wants::Key => changes.has_just_added(name.tree, KeyHash(name.row.0)),
        };
        let took = if has_it { Took::TheRow } else { otherwise };
        self.count(|counters| counters.row_turns += u64::from(took == Took::TheRow));
        self.shared.rows.leave(&self.shared.slots, name, txn.xid, took);
    }

    /// Having waited for a transaction that committed is an observation (rule 7.4).
    fn observe_end(&self, txn: &mut TxnHandle<E>, xid: Xid) {
        if let Some(ending) = self.entry(xid).slot.ending(xid.sequence())
            && let Some(seen) = ending.observed(HomeId(xid.instance().0))
        {
            txn.observe(seen);
            self.assert_no_warp(seen.cts);
        }
    }

    /// Parks until `is_over`, with the edge shown; ends early if doomed, interrupted or out of
    /// time.
    fn park_in_graph(
        &self,
        own: Xid,
        edge: Edge,
        waiter: &Waiter<'_>,
        is_over: impl Fn() -> bool,
    ) -> Result<()> {
        let wait = &self.entry(own).wait;
        wait.begin(edge, waiter.parker.unparker());
        point("txn-edge-shown");
        let timeout_ns = self.shared.options.deadlock_timeout_ms * 1_000_000;
        let mut next_look_ns = timeout_ns;
        let began_ns = waiter.parker.now_ns();
        let (aside_at_ns, mut look_at_ns) = (began_ns + ASIDE_NS, began_ns + next_look_ns);
        let waited = loop {
            if is_over() {
                break Ok(());
            }
            if let Some(detail) = wait.doomed() {
                // The text names the holders.
                break Err(Error::Deadlock { waited_for: own, detail });
            }
            let parked = if waiter.parker.now_ns() < aside_at_ns {
                waiter.park(Some(look_at_ns.min(aside_at_ns)), Counts::Yes)
            } else {
                waiter.park(Some(look_at_ns), Counts::No)
            };
            match parked {
                Err(error) => break Err(error),
                Ok(Parked::Woken) if !matches!(edge, Edge::Table(..)) => {
                    self.count(|counters| counters.end_wakes += 1);
                }
                Ok(_) => {}
            }
            if waiter.parker.now_ns() >= look_at_ns {
                // Who waits long mostly waits in a long queue, which is long to look through.
                next_look_ns = (next_look_ns * 2).min(timeout_ns * 10);
                look_at_ns = waiter.parker.now_ns() + next_look_ns;
                match self.shared.detect_deadlock(own) {
                    Detected::Nothing => {}
                    Detected::Other(_) => self.count(|counters| counters.deadlocks += 1),
                    Detected::Asker { waited_for, detail } => {
                        self.count(|counters| counters.deadlocks += 1);
                        break Err(Error::Deadlock { waited_for, detail });
                    }
                }
            }
        };
        wait.end();
        waited
    }

    /// Waits until the word of a *preparing* transaction changes (rule 3.5): spins a little, then
    /// lets others run. It takes nanoseconds unless that instance lost its processor.
    fn wait_for_decision(&self, xid: Xid, waiter: &Waiter<'_>) -> Result<()> {
        self.count(|counters| counters.preparing_met += 1);
        let slot = &self.entry(xid).slot;
        let met = slot.word();
        if met.sequence() != xid.sequence() || met.state() != super::State::Preparing {
            return Ok(());
        }
        let _waits = ledger::timed(ledger::What::RowWait);
        let mut spins = 0;
        while slot.word() == met {
            spins += 1;
            if spins < SPINS * 8 {
                spin();
                continue;
            }
            waiter.check()?;
            waiter.parker.yield_now();
        }
        Ok(())
    }

    fn wait_for_clock(&self, cts: Cts, parker: &dyn Parker) {
        while self.shared.clock.snapshot() <= cts {
            parker.yield_now();
        }
    }

    /// Waits until `seen` is stable. Not interrupted: what depends on it must not be told.
    fn wait_stable(&self, seen: Observed, parker: &dyn Parker) {
        while !self.is_stable(seen) {
            if self.enlist(seen, parker) {
                parker.park(None);
            }
        }
    }

    /// Has the caller woken when `seen` is stable. False: it is.
    fn enlist(&self, seen: Observed, parker: &dyn Parker) -> bool {
        self.count(|counters| counters.stable_waits += 1);
        let waker = StableWaker::Task(IoWaker(parker.unparker()));
        let mark = || self.environment.stable(seen.home);
        self.shared.stable_waiters.enlist(seen, waker, mark)
    }

    /// Locks a table in `mode` until the transaction ends (rule 6.6), waiting as long as it takes.
    /// Errors: `Deadlock`, `Cancelled`, `ShuttingDown`; then the lock is not held, and what was
    /// held before still is. `tree` is whatever number names the table for its whole life.
    pub fn lock_table(
        &self,
        txn: &mut TxnHandle<E>,
        tree: TreeId,
        mode: LockMode,
        waiter: &Waiter<'_>,
    ) -> Result<Waited> {
        if txn.holds(tree, mode) {
            return Ok(Waited::No);
        }
        let _timed = ledger::timed(ledger::What::TableLock);
        let asker = Asker { owner: txn.xid, held: txn.held_modes(tree) };
        let asked = self.lock_cache.with(&self.shared.locks, tree, |lock| {
            if mode.is_weak() && lock.try_weak(txn.xid, mode) {
                return Asked::Granted(Vec::new());
            }
            lock.request(asker, mode, waiter.parker.unparker())
        });
        let (observed, waited) = match asked {
            Asked::Granted(observed) => (observed, Waited::No),
            Asked::Queued(request) => {
                self.count(|counters| counters.table_lock_waits += 1);
                self.leave_row(txn, Took::Nothing);
                txn.pending = Some((tree, Arc::clone(&request)));
                let edge = Edge::Table(tree, mode, asker.held);
                let outcome = self.park_in_graph(txn.xid, edge, waiter, || request.is_granted());
                txn.pending = None;
                if let Err(error) = outcome {
                    self.lock_cache.with(&self.shared.locks, tree, |lock| lock.withdraw(&request));
                    return Err(error);
                }
                (request.observed(), Waited::Yes)
            }
        };
        observed.into_iter().for_each(|seen| txn.observe(seen));
        self.note_held(txn, tree, mode);
        Ok(waited)
    }

    fn note_held(&self, txn: &mut TxnHandle<E>, tree: TreeId, mode: LockMode) {
        let xid = txn.xid;
        let Parts { locks, lock_order, .. } = txn.all_parts_mut();
        let index = match locks.iter().position(|held| held.tree == tree) {
            Some(index) => index,
            None => {
                locks.push(HeldLock { tree, modes: super::ModeSet::NONE });
                locks.len() - 1
            }
        };
        let held = &mut locks[index];
        if !held.modes.has(mode) {
            lock_order.push((tree, mode));
        }
        held.modes = held.modes.with(mode);
        self.entry(xid).held.set(index, tree, held.modes);
    }

    /// Commits: returns when the transaction is *finished*: visible, its locks free, not yet
    /// stable (then [`TxnLocal::settle`]). On an error (`DiskFull`, `Io`, `Cancelled`, ...)
    /// nothing was committed and the transaction has been rolled back with `tables`.
    pub fn commit(
        &self,
        mut txn: TxnHandle<E>,
        session: &mut Session,
        waiter: &Waiter<'_>,
        tables: &<E::Changes as Changes>::Tables,
    ) -> Result<Committed> {
        loop {
            match self.commit_step(&mut txn, session) {
                Ok(committed) => return Ok(committed),
                // Past *committed* nothing may interrupt.
                Err(Stop::WaitFor(WaitFor::Clock(cts))) => self.wait_for_clock(cts, waiter.parker),
                Err(Stop::WaitFor(WaitFor::Yield)) | Err(Stop::Retry) => waiter.parker.yield_now(),
                Err(Stop::WaitFor(what)) => {
                    if let Err(error) = self.wait(what, waiter) {
                        self.abort(&mut txn, session, tables);
                        return Err(error);
                    }
                }
                Err(Stop::Error(error)) => {
                    self.abort(&mut txn, session, tables);
                    return Err(error);
                }
                Err(Stop::NeedPage(page)) => unreachable!("a commit reads no page, not {page}"),
            }
        }
    }

    /// Waits until everything that `session` depends on, its own commits included, is stable
    /// (rule 7.6). Before anything leaves the database. A relaxed session does not wait.
    pub fn settle(&self, session: &mut Session, parker: &dyn Parker) {
        while self.settle_soon(session, parker) == Settling::Later {
            parker.park(None);
        }
    }

    /// As [`TxnLocal::settle`], as far as it gets without waiting. `Later`: the caller is woken
    /// when it should ask again.
    pub fn settle_soon(&self, session: &mut Session, parker: &dyn Parker) -> Settling {
        if session.synchronous == Synchronous::Off || mutant("txn-settle-skipped") {
            return Settling::Done;
        }
        while let Some(seen) = self.first_unstable(&session.carried) {
            if self.enlist(seen, parker) {
                return Settling::Later;
            }
        }
        session.carried.clear();
        Settling::Done
    }

    /// As [`TxnLocal::settle`], for an answer in the middle of a transaction.
    pub fn settle_transaction(&self, txn: &TxnHandle<E>, session: &Session, parker: &dyn Parker) {
        if session.synchronous == Synchronous::Off || mutant("txn-settle-skipped") {
            return;
        }
        while let Some(seen) = self.first_unstable(txn.observed()) {
            self.wait_stable(seen, parker);
        }
    }
}

/// What the end of an operation that did not take what it stood for tells those behind it.
fn tells_others<T>(result: &Result<T>) -> Took {
    match result {
        Err(Error::SerializationFailure { .. } | Error::UniqueViolation { .. }) => Took::Outrun,
        _ => Took::Nothing,
    }
}
