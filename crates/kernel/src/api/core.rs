//! What hangs from a database ([`Shared`]) and from each of its instances ([`Core`]).
//!
//! Invariants: [`Shared`] is reached by reference from every instance; nothing in it is written per
//! transaction but by the protocols of `txn`, `log` and `version`. [`Core`] is one instance's and is
//! touched by its thread alone; its poll drives log, floor and collection (rules 2.6, 6.8).

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::{Arc, OnceLock};

use super::checkpoint::{Checkpoints, Covered};
use super::environment::KernelEnvironment;
use super::options::{OnFailure, Options};
use super::registry::{LocalTables, Registry};
use crate::base::{Cts, HomeId, NeededPage, Observed, TreeId};
use crate::buffer::{BufferPool, Watermarks, provide};
use crate::catalog::{CatalogCache, Oid, Published};
use crate::io::{Completion, DirLock, Disk};
use crate::log::{Load, LogHealth, StableMarks, Unflushed};
use crate::runtime::{Class, Hub, InstanceState, Parker, Poll, Processor, TaskContext};
use crate::sync::{AtomicU32, AtomicU64, Ordering, mutant};
use crate::txn::{TxnLocal, TxnShared};
use crate::version::{SweptLeaves, VersionSpace};

/// What every task of a database is given.
pub type Context = TaskContext<Core>;
/// One instance of a database.
pub type Instance = crate::runtime::Instance<Core>;

/// Collection starts this long after the last one if so many ended transactions have undo, and
/// [`COLLECT_IDLE_NS`] after it if there are fewer: their commits must become stable first, so
/// trying at once would only keep the instance from sleeping.
const COLLECT_AT: usize = 64;
const COLLECT_BUSY_NS: u64 = 200_000;
const COLLECT_IDLE_NS: u64 = 2_000_000;
/// ... and this long when only leaves are left to look after: a transaction that idles may be in
/// the way of that for hours.
const COLLECT_LEAVES_NS: u64 = 20_000_000;
/// Index leaves are swept (rule 5.7) so often, about so many entries at a time: one or two percent
/// of a busy instance's time, and a big new index within a minute.
const SWEEP_NS: u64 = 20_000_000;
const SWEEP_ENTRIES: usize = 2048;
/// How often an instance looks whether frames are short.
const PROVIDE_NS: u64 = 100_000;
/// For how long it does not after pages could not be written: asking a full disk for room takes long.
const PROVIDE_AGAIN_NS: u64 = 20_000_000;

/// What all instances of a database share.
pub struct Shared {
    pub(super) options: Options,
    pub(super) disk: Arc<dyn Disk>,
    pub(super) pool: Arc<BufferPool>,
    pub(super) versions: Arc<VersionSpace>,
    pub(super) txn: Arc<TxnShared>,
    pub(super) marks: Arc<StableMarks>,
    pub(super) published: Published,
    pub(super) registry: Arc<Registry>,
    // None for a database in memory.
    pub(super) checkpoints: Option<Checkpoints>,
    // The next numbers; written by definitions only.
    next_oid: AtomicU32,
    next_tree: AtomicU32,
    // Versions of catalogs that are not committed yet; above every committed one.
    next_private: AtomicU64,
    // Why the database stands still; set once.
    failure: OnceLock<String>,
    pub(super) _lock: Option<DirLock>,
}

/// What a database is opened with.
pub(super) struct Parts {
    pub options: Options,
    pub disk: Arc<dyn Disk>,
    pub pool: Arc<BufferPool>,
    pub versions: Arc<VersionSpace>,
    pub txn: Arc<TxnShared>,
    pub marks: Arc<StableMarks>,
    pub published: Published,
    pub checkpoints: Option<Checkpoints>,
    pub numbers: Numbers,
    pub lock: Option<DirLock>,
}

/// The smallest numbers of objects and trees that a checkpoint says were never used.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Numbers {
    pub oid: u32,
    pub tree: u32,
}

/// Private catalogs have versions from here on.
const PRIVATE: u64 = 1 << 63;

impl Shared {
    pub(super) fn new(parts: Parts) -> Arc<Shared> {
        let catalog = parts.published.newest();
        let tables = catalog.tables().map(|table| table.access.clone());
        let registry = Arc::new(Registry::new(tables.chain(catalog.own_access().cloned())));
        Arc::new(Shared {
            registry,
            next_oid: AtomicU32::new(
                (catalog.oid_max().0.max(Oid::FIRST_USER.0 - 1) + 1).max(parts.numbers.oid),
            ),
            next_tree: AtomicU32::new((catalog.tree_max().0 + 1).max(parts.numbers.tree)),
            checkpoints: parts.checkpoints,
            next_private: AtomicU64::new(PRIVATE),
            failure: OnceLock::new(),
            options: parts.options,
            disk: parts.disk,
            pool: parts.pool,
            versions: parts.versions,
            txn: parts.txn,
            marks: parts.marks,
            published: parts.published,
            _lock: parts.lock,
        })
    }

    pub(super) fn new_oid(&self) -> Oid {
        Oid(self.next_oid.fetch_add(1, Ordering::Relaxed))
    }

    pub(super) fn new_tree(&self) -> TreeId {
        TreeId(self.next_tree.fetch_add(1, Ordering::Relaxed))
    }

    /// The next numbers of objects and trees, none of them used yet.
    pub(super) fn next_numbers(&self) -> (u32, u32) {
        (self.next_oid.load(Ordering::Relaxed), self.next_tree.load(Ordering::Relaxed))
    }

    pub(super) fn new_private_version(&self) -> u64 {
        self.next_private.fetch_add(1, Ordering::Relaxed)
    }
}

/// One instance's share of a database.
pub struct Core {
    pub(super) inner: Rc<CoreInner>,
}

/// What transactions of this instance keep hold of.
pub(super) struct CoreInner {
    pub shared: Arc<Shared>,
    pub txn: TxnLocal<KernelEnvironment>,
    pub tables: Rc<LocalTables>,
    pub catalog: CatalogCache,
    pub hub: Arc<Hub<Core>>,
    // Transactions dropped without an end, rolled back in the next turn.
    pub orphans: RefCell<Vec<super::session::Orphan>>,
    // The number of the next temporary file.
    pub temporary: Cell<u64>,
    // Values that were taken together and not handed out yet.
    pub sequences: super::sequences::SequenceCache,
    // What cursors of this instance worked with, for the next ones.
    pub cursors: super::cursor::CursorMemories,
    collecting: Cell<bool>,
    // Loads that were begun for the records that are to be collected next.
    pub(super) begun: RefCell<Vec<NeededPage>>,
    // When the last collection ended.
    collected_ns: Cell<u64>,
    // When index leaves were last swept.
    swept_ns: Cell<u64>,
    // Up to where a checkpoint has the own log.
    pub covered: Covered,
    // Whether the page provider runs, and when it was last looked whether it must.
    providing: Cell<bool>,
    provider_looked_ns: Cell<u64>,
    // The dependency whose stability this instance has asked to be told of.
    asked: Cell<Option<Observed>>,
}

impl Core {
    pub(super) fn new(
        shared: Arc<Shared>,
        hub: Arc<Hub<Core>>,
        tables: Rc<LocalTables>,
        txn: TxnLocal<KernelEnvironment>,
    ) -> Core {
        let catalog = CatalogCache::new(&shared.published);
        let covered = Covered::up_to(txn.environment().log.end());
        let inner = CoreInner {
            shared,
            txn,
            covered,
            providing: Cell::new(false),
            provider_looked_ns: Cell::new(0),
            tables,
            catalog,
            hub,
            orphans: RefCell::default(),
            temporary: Cell::new(0),
            sequences: Default::default(),
            cursors: Default::default(),
            collecting: Cell::new(false),
            begun: RefCell::default(),
            collected_ns: Cell::new(0),
            swept_ns: Cell::new(0),
            asked: Cell::new(None),
        };
        Core { inner: Rc::new(inner) }
    }
}

impl CoreInner {
    fn poll_log(&self, instance: &Instance, now_ns: u64) -> Poll {
        let log = &self.txn.environment().log;
        let open = match instance.processor() {
            Processor::Enough => 0,
            Processor::Short => self.txn.open(),
        };
        let load = Load { now_ns, ready_tasks: instance.ready_tasks(), open };
        let polled = log.poll(instance.ring(), load);
        self.stop_if_poisoned();
        if polled.room {
            // Room can come without a flush's end (a segment became ready).
            self.txn.log_has_room();
        }
        let idle = polled.gathers_until.map_or(Poll::Idle, Poll::Until);
        let Some(seen) = polled.waits_for else {
            self.asked.set(None);
            return idle;
        };
        if self.asked.get() == Some(seen) {
            return idle;
        }
        let (hub, id) = (self.hub.clone(), instance.id());
        // The message's arrival is all: the next turn polls the log.
        let wake = Arc::new(move || hub.send(id, Box::new(|_| ())));
        if self.txn.wake_when_stable(seen, wake) {
            self.asked.set(Some(seen));
            return idle;
        }
        Poll::Busy
    }

    /// Rule 7.8: a failed write or sync is never retried; the process ends and recovers.
    fn stop_if_poisoned(&self) {
        if let LogHealth::Poisoned { what, errno } = self.txn.environment().log.health()
            && !mutant("api_ignores_poisoned_log")
        {
            self.shared.fail(format!("the log failed: {what} (error {errno})"));
        }
    }

    fn collect_if_due(&self, instance: &Instance, now_ns: u64) -> Poll {
        let waiting = self.txn.environment().versions.finished();
        if self.collecting.get() || self.txn.environment().versions.is_clean() {
            return Poll::Idle;
        }
        let pause = match waiting {
            0 => COLLECT_LEAVES_NS,
            1..COLLECT_AT => COLLECT_IDLE_NS,
            _ => COLLECT_BUSY_NS,
        };
        let due = self.collected_ns.get() + pause;
        if now_ns < due {
            return Poll::Until(due);
        }
        self.collecting.set(true);
        instance.spawn(Class::System, |context| {
            let core = &context.instance().state().inner;
            // Errors are told by whoever needs the room that was not reclaimed. What is left when the
            // database closes nobody needs.
            while !context.instance().is_stopping()
                && core.collect_portion(context).is_ok_and(|collected| collected.more)
            {
                // It may go on for long, if it waits for the disk as often as others change rows.
                core.sweep_if_due(context.now_ns());
            }
            core.sweep_if_due(context.now_ns());
            core.collecting.set(false);
            core.collected_ns.set(context.now_ns());
        });
        Poll::Busy
    }

    /// Lets the page provider run when few frames are free (rule 4.4).
    fn provide_if_due(&self, instance: &Instance, now_ns: u64) {
        if self.providing.get() || now_ns < self.provider_looked_ns.get() + PROVIDE_NS {
            return;
        }
        self.provider_looked_ns.set(now_ns);
        let (home, pool) = (HomeId(instance.id().0), &self.shared.pool);
        if pool.store().is_none() {
            return;
        }
        let (frames, free) = pool.frames_of(home);
        if free >= Watermarks::of(frames).low {
            return;
        }
        self.providing.set(true);
        instance.spawn(Class::System, move |context| {
            let core = &context.instance().state().inner;
            // What cannot be written is told to whoever wants a frame and gets none.
            if provide(context, &core.shared.pool, home).is_err() {
                core.provider_looked_ns.set(context.now_ns() + PROVIDE_AGAIN_NS);
            }
            core.providing.set(false);
        });
    }

    fn sweep_if_due(&self, now_ns: u64) {
        if now_ns >= self.swept_ns.get() + SWEEP_NS {
            self.sweep_indexes();
            self.swept_ns.set(now_ns);
        }
    }

    pub(super) fn sweep_indexes(&self) -> SweptLeaves {
        self.txn.environment().versions.sweep_indexes(&*self.tables, SWEEP_ENTRIES)
    }

    fn end_orphans(self: &Rc<Self>, instance: &Instance) {
        for orphan in self.orphans.take() {
            orphan.roll_back(instance, self);
        }
    }
}

impl InstanceState for Core {
    fn poll(&self, instance: &Instance) -> Poll {
        if self.inner.shared.failure().is_some() {
            return Poll::Idle;
        }
        self.inner.end_orphans(instance);
        // Once: a turn is short, and reading the clock takes as long as some of its steps.
        let now_ns = instance.time().now_ns();
        let log = self.inner.poll_log(instance, now_ns);
        self.inner.provide_if_due(instance, now_ns);
        let due = self.inner.checkpoint_if_due(instance, now_ns);
        let woke = if self.inner.txn.poll() { Poll::Busy } else { Poll::Idle };
        log.and(woke).and(due).and(self.inner.collect_if_due(instance, now_ns))
    }

    fn completed(&self, _instance: &Instance, completion: Completion) {
        // An error poisons the log; the poll of this turn sees it.
        if self.inner.txn.environment().log.completed(completion).is_err() {
            self.inner.stop_if_poisoned();
        }
    }

    fn durable_write_in_flight(&self, _instance: &Instance) -> bool {
        matches!(self.inner.txn.environment().log.unflushed(), Unflushed::Some)
    }

    fn sleeps(&self, _instance: &Instance) {
        self.inner.txn.sleeps();
    }

    fn woke(&self, _instance: &Instance) {
        self.inner.txn.woke();
    }

    fn may_end(&self, _instance: &Instance) -> bool {
        if self.inner.shared.failure().is_some() {
            return true;
        }
        // Every turn polls the log; to poll it here would take what one poll tells once.
        let log = &self.inner.txn.environment().log;
        matches!(log.unflushed(), Unflushed::Nothing)
            && matches!(log.conclude(), Unflushed::Nothing)
    }
}

impl Shared {
    /// What nothing in this process can mend: say so and end it (rules 2.8, 7.8).
    pub(super) fn fail(&self, why: String) {
        if self.options.on_failure == OnFailure::EndProcess {
            eprintln!("atoll: {why}; ending the process, the next start recovers");
            std::process::abort();
        }
        // The first reason stays.
        let _ = self.failure.set(why);
    }

    /// Why the database stands still, if it does.
    pub(super) fn failure(&self) -> Option<&str> {
        self.failure.get().map(String::as_str)
    }

    /// The home whose pages a tree gets: trees are spread over all homes.
    pub(super) fn home_of(&self, tree: TreeId) -> HomeId {
        HomeId((tree.0 as usize % self.pool.homes()) as u16)
    }

    /// Whether the commit is stable: nothing that depends on it needs to wait.
    pub(super) fn is_stable(&self, seen: Observed) -> bool {
        self.marks.get(seen.home) >= seen.cts || seen.cts == Cts::ZERO
    }
}
