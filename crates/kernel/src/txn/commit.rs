//! Ending transactions: commit (rules 3.3 to 3.5), abort (3.6, 6.7), spilling (7.3).
//!
//! Commit, in order: reserve room in the log and everything else that can fail or wait; publish
//! *preparing*; fence; read the clock; choose and publish the cts; copy the redo into the log's
//! buffer; publish *committed*; wait until the clock has passed the cts; stamp the undo records,
//! in portions; give back table locks; publish *finished*; wake. Each step is in
//! [`TxnLocal::commit_step`], which the shell calls until it answers.
//!
//! Invariants: before *preparing* any failure leaves the transaction running, to be aborted;
//! after it nothing can fail, and a panic ends the process (rule 2.8). Between the clock reading
//! and the log copy nothing else of the instance runs. The slot is given back only after
//! *finished*, and *finished* is published only after the last record is stamped.

use super::environment::{Changes, Environment};
use super::handle::{Parts, Phase, Spilled, TxnHandle};
use super::local::TxnLocal;
use super::observe::Session;
use super::row_queue::Took;
use super::rows::Stamping;
use crate::base::{Cts, Error, Observed, Outcome, Stop, WaitFor};
use crate::runtime::Critical;
use crate::sync::{mutant, point};

/// An observed cts this far above the clock (cycles; about half a minute) is damage, not skew.
const SKEW_MAX: u64 = 1 << 36;

/// How a transaction committed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Committed {
    /// It wrote nothing: no record, no cts. What it observed goes on with its session.
    Nothing,
    /// Its record is in the log at this timestamp, not yet stable.
    At(Cts),
}

impl<E: Environment> TxnLocal<E> {
    /// Brings a commit as far as it gets without waiting; call again until it answers `Ok`. An
    /// error (`DiskFull`, `Io`, `Limit`) can only come while the transaction is still running:
    /// abort it then. `WaitFor` is `LogRoom`, `Clock` or `Yield`.
    pub fn commit_step(&self, txn: &mut TxnHandle<E>, session: &mut Session) -> Outcome<Committed> {
        loop {
            match txn.phase {
                Phase::Running if txn.changes().is_empty() && txn.parts().chunks.is_empty() => {
                    self.count(|counters| counters.read_only += 1);
                    // Rolled back to its beginning, it may still have undo that nobody needs.
                    txn.changes_mut().finish(Cts::ZERO);
                    session.carried.merge(txn.observed());
                    self.end_slot(txn, None);
                    return Ok(Committed::Nothing);
                }
                Phase::Running => {
                    self.spill_if_large(txn)?;
                    self.list_chunks(txn)?;
                    self.decide(txn)?;
                }
                Phase::Committed(cts) => {
                    if self.shared.clock.snapshot() <= cts && !mutant("txn-no-clock-wait") {
                        self.count(|counters| counters.clock_waits += 1);
                        return Err(Stop::WaitFor(WaitFor::Clock(cts)));
                    }
                    self.stamp(txn, cts)?;
                }
                Phase::Stamped(cts) => {
                    self.finish(txn, session, cts);
                    return Ok(Committed::At(cts));
                }
                Phase::Ended => unreachable!("a transaction ends once"),
            }
        }
    }

    /// Reserves, then takes the steps from *preparing* to *committed* at one go.
    fn decide(&self, txn: &mut TxnHandle<E>) -> Outcome<()> {
        let observed = txn.observed().newest();
        if observed.0 > self.shared.clock.snapshot().0 + SKEW_MAX {
            let detail =
                format!("transaction {} observed the impossible commit {observed}", txn.xid);
            return Err(Error::Internal { detail }.into());
        }
        let parts = txn.parts();
        let room = self.environment.reserve(parts.changes.redo().len(), parts.chunks.len())?;
        let dependencies = self.dependencies(txn);
        let forgotten = usize::from(mutant("spill-forgets-a-chunk"));
        let chunks = parts.chunks.iter().skip(forgotten).map(|spilled| spilled.chunk);
        let chunks: Vec<E::Chunk> = chunks.collect();
        // Nothing below may fail or wait.
        let critical = Critical::enter("commit");
        let slot = &self.entry(txn.xid).slot;
        let cts = slot.prepare(|| {
            let after = if mutant("txn-observed-cts-ignored") { Cts::ZERO } else { observed };
            let clock = self.shared.clock.commit_reading();
            clock.max(self.last_cts.get().next()).max(after.next())
        });
        self.last_cts.set(cts);
        let redo = txn.changes().redo();
        self.environment.commit(room, cts, &dependencies, &chunks, redo);
        point("txn-redo-copied");
        slot.committed();
        txn.phase = Phase::Committed(cts);
        if let Some(then) = txn.at_committed.take() {
            then(cts);
        }
        self.count(|counters| {
            counters.committed += 1;
            counters.dependencies += dependencies.len() as u64;
        });
        drop(critical);
        Ok(())
    }

    /// What the commit record depends on (rule 7.4): what was observed of other logs and is not
    /// known to be stable.
    fn dependencies(&self, txn: &TxnHandle<E>) -> Vec<Observed> {
        if mutant("txn-drop-a-dependency") {
            return Vec::new();
        }
        let home = self.environment.home();
        let matters = |seen: &&Observed| seen.home != home && !self.is_stable(**seen);
        txn.observed().entries().iter().filter(matters).copied().collect()
    }

    fn stamp(&self, txn: &mut TxnHandle<E>, cts: Cts) -> Outcome<()> {
        let _critical = Critical::enter("stamping a commit");
        let portion = self.shared.options.stamp_portion;
        if txn.changes_mut().stamp(cts, portion) == Stamping::More
            && !mutant("txn-slot-reused-before-stamped")
        {
            point("txn-stamping");
            return Err(Stop::WaitFor(WaitFor::Yield));
        }
        txn.phase = Phase::Stamped(cts);
        Ok(())
    }

    fn finish(&self, txn: &mut TxnHandle<E>, session: &mut Session, cts: Cts) {
        let _critical = Critical::enter("finishing a commit");
        txn.changes_mut().finish(cts);
        let own = Observed { home: self.environment.home(), cts };
        // The own commit is stable only when all that it observed is.
        session.carried.clear();
        if !mutant("txn-acknowledge-before-stable") {
            session.carried.observe(own);
        }
        self.end_slot(txn, Some(own));
    }

    /// Rolls the transaction back and ends it. Cannot fail, does not wait. What it observed goes
    /// on with its session (rule 7.4). While the slot says active (rule 3.6).
    pub fn abort(
        &self,
        txn: &mut TxnHandle<E>,
        session: &mut Session,
        tables: &<E::Changes as Changes>::Tables,
    ) {
        assert_eq!(txn.phase, Phase::Running, "only a running transaction is rolled back");
        let _critical = Critical::enter("rolling back");
        txn.changes_mut().abort(tables);
        session.carried.merge(txn.observed());
        self.count(|counters| counters.aborted += 1);
        self.end_slot(txn, None);
    }

    /// Gives everything back: snapshot, table locks, then the slot, whose end wakes the waiters.
    fn end_slot(&self, txn: &mut TxnHandle<E>, seen: Option<Observed>) {
        self.release_snapshot(txn);
        self.release_locks(txn, seen);
        // It stands there still if a panic ended its operation.
        self.leave_row(txn, Took::Nothing);
        txn.phase = Phase::Ended;
        let parts = txn.parts.take().expect("a transaction ends once");
        let exhausted = parts.changes.is_exhausted();
        self.rest_parts(txn.xid.slot(), parts);
        self.entry(txn.xid).slot.end();
        if !exhausted {
            self.free.give_back(txn.xid.slot());
        }
    }

    fn release_locks(&self, txn: &mut TxnHandle<E>, seen: Option<Observed>) {
        if let Some((tree, request)) = txn.pending.take() {
            self.lock_cache.with(&self.shared.locks, tree, |lock| lock.withdraw(&request));
        }
        let xid = txn.xid;
        let locks = &mut txn.all_parts_mut().locks;
        if locks.is_empty() {
            return;
        }
        for held in locks.drain(..) {
            self.lock_cache.with(&self.shared.locks, held.tree, |lock| {
                held.modes.iter().for_each(|mode| lock.release(xid, mode, seen));
            });
        }
        self.entry(xid).held.clear();
    }

    /// Whether there is something for [`TxnLocal::spill_if_large`] to do.
    #[inline]
    pub fn redo_is_large(&self, txn: &TxnHandle<E>) -> bool {
        txn.changes().redo().len() > self.environment.spill_bytes()
    }

    /// Spills redo beyond the limit as chunks (rule 7.3), so that the commit record will fit.
    /// Call it after changes; cheap when there is nothing to do. `WaitFor(LogRoom)`, `DiskFull`,
    /// `Io`: nothing is lost, call again or abort.
    pub fn spill_if_large(&self, txn: &mut TxnHandle<E>) -> Outcome<()> {
        let limit = self.environment.spill_bytes();
        let xid = txn.xid;
        while self.redo_is_large(txn) {
            let Parts { changes, chunks, .. } = txn.all_parts_mut();
            let room = self.environment.reserve(limit, 0)?;
            let start = changes.redo_spilled_bytes();
            self.note_spilled(xid.slot(), self.environment.log_end());
            let chunk = self.environment.chunk(room, xid, &changes.redo()[..limit]);
            changes.spilled(limit);
            chunks.push(Spilled { start, bytes: limit as u32, chunk });
            self.count(|counters| counters.chunks += 1);
        }
        Ok(())
    }

    /// After a rollback to a savepoint: gives back the table locks taken since `position`, the last
    /// first, and lets those in who waited for them.
    pub fn release_locks_since(&self, txn: &mut TxnHandle<E>, position: usize) {
        let xid = txn.xid;
        let Parts { locks, lock_order, .. } = txn.all_parts_mut();
        for (tree, mode) in lock_order.drain(position..).rev() {
            let index = locks.iter().position(|held| held.tree == tree);
            let index = index.expect("what is in the order is held");
            locks[index].modes = locks[index].modes.without(mode);
            // The first mode of a table goes last, so that what is empty is at the end.
            if locks[index].modes.is_empty() {
                locks.truncate(index);
                self.entry(xid).held.truncate(index);
            } else {
                self.entry(xid).held.set(index, tree, locks[index].modes);
            }
            self.lock_cache.with(&self.shared.locks, tree, |lock| lock.release(xid, mode, None));
        }
    }

    /// Rows went back to what they were before this transaction had them: whoever waits for it
    /// looks again (rule 6.5).
    pub fn rows_given_back(&self, txn: &TxnHandle<E>) {
        self.entry(txn.xid).slot.give_back();
    }

    /// Before the commit record: if there are more chunks than it can name, puts lists of them into
    /// chunks of their own, which it names instead. Stops as `spill_if_large`; call again.
    fn list_chunks(&self, txn: &mut TxnHandle<E>) -> Outcome<()> {
        let named_max = self.environment.chunks_named_max();
        let xid = txn.xid;
        let chunks = &mut txn.all_parts_mut().chunks;
        while chunks.len() > named_max {
            // Lists come first, and count no bytes of their own.
            let Some(first) = chunks.iter().position(|chunk| chunk.bytes > 0) else {
                return Err(Error::Limit { what: "chunks of a transaction" }.into());
            };
            let end = chunks.len().min(first + named_max);
            let listed: Vec<E::Chunk> = chunks[first..end].iter().map(|it| it.chunk).collect();
            let payload = self.environment.encode_list(&listed);
            let room = self.environment.reserve(payload.len(), 0)?;
            let list = self.environment.as_list(self.environment.chunk(room, xid, &payload));
            let start = chunks[first].start;
            chunks.splice(first..end, [Spilled { start, bytes: 0, chunk: list }]);
            self.count(|counters| counters.chunks += 1);
        }
        Ok(())
    }

    /// After a rollback to a savepoint: chunks, or their ends, whose redo it discarded are not
    /// named by the commit record (rule 7.3).
    pub fn discard_chunks(&self, txn: &mut TxnHandle<E>) {
        let kept = txn.changes().redo_spilled_bytes();
        let chunks = &mut txn.all_parts_mut().chunks;
        if mutant("spill-keeps-what-was-rolled-back") {
            return;
        }
        chunks.retain(|spilled| spilled.start < kept);
        if let Some(last) = chunks.last_mut()
            && last.start + last.bytes as u64 > kept
        {
            last.bytes = (kept - last.start) as u32;
            last.chunk = self.environment.cut(last.chunk, last.bytes);
        }
    }
}
