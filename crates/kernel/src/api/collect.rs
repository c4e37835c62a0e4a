//! Collecting old versions now, on all instances: what VACUUM asks for.
//!
//! Garbage collection runs by itself (rule 6.8), each instance over its own undo, when there is
//! enough to collect. This waits for one collection of everything that no snapshot needs.
//!
//! Invariants: collects no more than an instance's own collector would, at the same horizon, and may do so
//! beside it; waits without a latch; every instance is counted down exactly once, whether its collector ended, failed,
//! panicked or never began. A plain statement: its own snapshot holds the horizon where it began, so
//! what was committed and stable before it is collected, unless an older snapshot needs it.

use std::sync::{Arc, Mutex, PoisonError};

use super::core::{Context, CoreInner, Instance};
use super::session::Session;
use crate::base::{Error, InstanceId, NeededPage, Result};
use crate::runtime::{Class, Parker, Unparker};
use crate::sync::{AtomicUsize, Ordering};
use crate::txn::Reason;
use crate::version::Collected;

/// How often the waiter looks whether it was interrupted, in nanoseconds.
const LOOK_NS: u64 = 20_000_000;

/// If more ended transactions wait than these, a collector goes on with the next portion at once, ...
const CATCH_UP_ABOVE: usize = 512;
/// ... for so long: half of what a checkpoint's writer goes on.
const CATCH_UP_NS: u64 = 500_000;

/// One collection, shared by the collectors and who waits for them.
struct Round {
    // Instances that have not ended. Written by each collector's end (release), read by the
    // waiter (acquire), who then sees `found`.
    left: AtomicUsize,
    found: Mutex<Result<u64>>,
    waiter: Unparker,
}

/// One instance's part in a round; dropping it counts it down.
struct Part(Arc<Round>);

impl Drop for Part {
    fn drop(&mut self) {
        self.0.left.fetch_sub(1, Ordering::Release);
        self.0.waiter.unpark(crate::runtime::UnparkClass::Io);
    }
}

impl Part {
    fn add(&self, collected: Result<u64>) {
        let mut found = self.0.found.lock().unwrap_or_else(PoisonError::into_inner);
        match (&mut *found, collected) {
            (Ok(sum), Ok(more)) => *sum += more,
            (Ok(_), Err(error)) => *found = Err(error),
            (Err(_), _) => {}
        }
    }
}

impl Session {
    /// Reclaims all undo of transactions that no snapshot needs, on every instance, with the index
    /// entries and reserved bytes that hung on it, and makes index leaves exact that scans have asked for; waits for the end.
    /// Answers how many transactions' undo went. May wait; no latch is held. Errors: `Cancelled`,
    /// `ShuttingDown`.
    pub fn collect(&self, context: &Context) -> Result<u64> {
        // The first round makes every instance take a turn, which publishes its floor: the
        // horizon of the second is not held by one that slept.
        let first = self.collect_once(context)?;
        Ok(first + self.collect_once(context)?)
    }

    fn collect_once(&self, context: &Context) -> Result<u64> {
        let hub = context.instance().hub();
        let round = Arc::new(Round {
            left: AtomicUsize::new(hub.instances()),
            found: Mutex::new(Ok(0)),
            waiter: context.unparker(),
        });
        for number in 0..hub.instances() {
            let part = Part(round.clone());
            let begin = move |instance: &Instance| {
                instance.spawn(Class::System, move |context: &Context| part.collect(context));
            };
            hub.send(InstanceId(number as u16), Box::new(begin));
        }
        while round.left.load(Ordering::Acquire) > 0 {
            match self.interrupt().reason() {
                Some(Reason::ShutDown) => return Err(Error::ShuttingDown),
                Some(_) => return Err(Error::Cancelled),
                None => {}
            }
            context.park(Some(context.now_ns() + LOOK_NS));
        }
        let found = round.found.lock().unwrap_or_else(PoisonError::into_inner);
        found.clone()
    }
}

impl Part {
    fn collect(self, context: &Context) {
        let core = &context.instance().state().inner;
        loop {
            if context.instance().is_stopping() {
                return self.add(Err(Error::ShuttingDown));
            }
            match core.collect_portion(context) {
                Ok(collected) => {
                    self.add(Ok(collected.transactions as u64));
                    if !collected.more {
                        let lost = core.txn.environment().versions.lost_pages();
                        lost.into_iter().for_each(|error| self.add(Err(error)));
                        return sweep(core, context);
                    }
                }
                Err(error) => return self.add(Err(error)),
            }
        }
    }
}

impl CoreInner {
    /// Collects a portion, several while many transactions wait, or up to a page that is not in memory, which it waits
    /// for; then lets others run if there is more. Answers the last portion, with the transactions of all. Any number of tasks may do so at a time (`version/collect/mod.rs`).
    ///
    /// Between two turns every session may end a transaction, and many of them leave more than a portion takes; and what
    /// a checkpoint held back is to be gone soon, for who reads its rows looks at it.
    pub(super) fn collect_portion(&self, context: &Context) -> Result<Collected> {
        let versions = &self.txn.environment().versions;
        let until_ns = context.now_ns() + CATCH_UP_NS;
        let mut transactions = 0;
        let collected = loop {
            let portion = self.txn.collect()?;
            transactions += portion.transactions;
            // Not if a busy latch is in the way.
            let goes_on = portion.more && portion.needs.is_none() && portion.transactions > 0;
            if !goes_on || versions.finished() <= CATCH_UP_ABOVE || context.now_ns() >= until_ns {
                break Collected { transactions, ..portion };
            }
        };
        if let Some(page) = collected.needs {
            self.begin_loads(page, context);
            self.txn.load_to_collect(page, context);
        }
        // Who has waited has let others run.
        if collected.more && (collected.needs.is_none() || context.should_yield()) {
            context.yield_now();
        }
        Ok(collected)
    }

    /// Has what the next records need read together with this page, unless it was read so.
    fn begin_loads(&self, page: NeededPage, context: &Context) {
        let mut begun = self.begun.take();
        if let Some(at) = begun.iter().position(|other| *other == page) {
            begun.swap_remove(at);
        } else if self.shared.pool.has_free_frames() {
            let (versions, limit) = (&self.txn.environment().versions, self.txn.collect_limit());
            begun = versions.missing_pages(limit, &*self.tables);
            begun.retain(|other| *other != page);
            self.shared.pool.load_soon(context, &begun);
        }
        self.begun.replace(begun);
    }
}

/// Gives index leaves that scans have asked for their *exact* bit, now that undo has gone (rule 5.7).
fn sweep(core: &CoreInner, context: &Context) {
    core.txn.environment().versions.hurry_sweep();
    while core.sweep_indexes().more {
        context.yield_now();
    }
}
