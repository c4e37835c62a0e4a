//! A database, as the program that opened it holds it.
//!
//! Invariants: clones share one database; it closes when asked, or when the last clone goes. A
//! plain thread never touches pages: it sends work to an instance and waits (section 10).

use std::path::Path;
use std::sync::mpsc::Receiver;
use std::sync::{Arc, Mutex};

use super::checkpoint::{
    Archiver, BackupReport, CheckpointCounters, CheckpointEvent, CheckpointReport, Checkpoints,
    PinnedCheckpoint, WhichCheckpoint,
};
use super::core::{Context, Core, Instance, Shared};
use super::metrics::Metrics;
use super::open::{Machine, Recovered, RecoveryReport, recover};
use super::options::{Options, Prefault};
use super::session::{Access, Session};
use crate::backup::{Restored, Until};
use crate::base::{HomeId, InstanceId, Result};
use crate::buffer::{MemoryAhead, PoolTraffic};
use crate::catalog::{Catalog, NamespaceDef, PUBLIC_NAMESPACE};
use crate::io::{Disk, MemoryDisk, RealDisk};
use crate::log::Retention;
use crate::runtime::{AffinityKey, Hub, Runtime, Target};
use crate::store::SpaceStats;
use crate::txn::Isolation;

/// An open database.
#[derive(Clone)]
pub struct Database {
    inner: Arc<Inner>,
}

struct Inner {
    shared: Arc<Shared>,
    hub: Arc<Hub<Core>>,
    report: RecoveryReport,
    // None for the simulator, or if it is not asked for, and once closed.
    memory: Mutex<Option<MemoryAhead>>,
    // None if logs are not archived, and once closed.
    archiver: Mutex<Option<Archiver>>,
    // None for the simulator, and once closed.
    runtime: Mutex<Option<Runtime<Core>>>,
}

impl Database {
    /// Opens the database in `directory`, made if it is empty; recovers it if need be. Errors:
    /// `Unusable` (in use, foreign, another version), `Corrupt` (with file and place), `Io`,
    /// `DiskFull`, `OutOfMemory` if the data does not fit the buffer pool.
    pub fn open(directory: &Path, options: Options) -> Result<Database> {
        Database::open_telling(directory, options, &mut |_| ())
    }

    /// As [`Database::open`]; `progress` gets a line now and then while a long recovery runs.
    pub fn open_telling(
        directory: &Path,
        options: Options,
        progress: &mut dyn FnMut(&str),
    ) -> Result<Database> {
        let disk = Arc::new(RealDisk::open(directory, options.rings)?);
        Database::open_on(disk, options, progress)
    }

    /// Opens a database on any disk.
    pub fn open_on(
        disk: Arc<dyn Disk>,
        options: Options,
        progress: &mut dyn FnMut(&str),
    ) -> Result<Database> {
        let machine = Machine::real(disk, Retention::Keep);
        let recovered = recover(machine, options, progress)?;
        let options = &recovered.shared.options;
        if options.prefault == Prefault::AtStart {
            let pool_mib = options.buffer_pool_bytes >> 20;
            progress(&format!("taking {pool_mib} MiB for the buffer pool"));
        }
        Database::run_threads(recovered)
    }

    /// An empty database that lives in memory and is gone when it closes.
    pub fn open_in_memory(options: Options) -> Result<Database> {
        let disk: Arc<dyn Disk> = Arc::new(MemoryDisk::new(options.rings));
        let machine = Machine::real(disk, Retention::Recycle);
        Database::run_threads(recover(machine, options, &mut |_| ())?)
    }

    fn run_threads(recovered: Recovered) -> Result<Database> {
        let state = Arc::new(recovered.open_state());
        let disk = recovered.shared.disk.clone();
        let ring = Arc::new(move |_| disk.ring());
        let runtime = Runtime::start(recovered.hub.clone(), ring, state)?;
        let database = Database::without_threads(recovered);
        *database.inner.runtime.lock().expect("no holder panics") = Some(runtime);
        database.run(Target::Instance(InstanceId(0)), make_first_object)??;
        if database.inner.shared.options.prefault == Prefault::Ahead {
            let ahead = MemoryAhead::start(&database.inner.shared.pool)?;
            *database.inner.memory.lock().expect("no holder panics") = Some(ahead);
        }
        let archiver = Archiver::start(&database.inner.shared, &database.inner.hub)?;
        *database.inner.archiver.lock().expect("no holder panics") = archiver;
        Ok(database)
    }

    /// Makes what every database has; once, before anything else runs. For whoever runs the
    /// instances by hand.
    pub fn prepare(context: &Context) -> Result<()> {
        make_first_object(context)
    }

    pub(super) fn without_threads(recovered: Recovered) -> Database {
        let Recovered { shared, hub, report, .. } = recovered;
        let (memory, archiver, runtime) = (Mutex::new(None), Mutex::new(None), Mutex::new(None));
        Database { inner: Arc::new(Inner { shared, hub, report, memory, archiver, runtime }) }
    }

    /// How many instances run.
    pub fn instances(&self) -> usize {
        self.inner.hub.instances()
    }

    /// Runs `work` on an instance and blocks the calling thread for its answer. `Internal` if it
    /// panicked, or if the caller is an instance itself; `ShuttingDown`.
    pub fn run<T: Send>(
        &self,
        target: Target,
        work: impl FnOnce(&Context) -> T + Send,
    ) -> Result<T> {
        self.inner.hub.run(target, work)
    }

    /// Runs a routed procedure: where its first argument, the affinity key, hashes to (rule 2.10);
    /// elsewhere if that instance is overloaded. Blocks and fails as [`Database::run`].
    ///
    /// ```
    /// use atoll_kernel::api::{AffinityKey, Context, Database, InstanceId, Instances, Options};
    ///
    /// # fn main() -> atoll_kernel::api::Result<()> {
    /// fn deliver(context: &Context, warehouse: i64) -> (i64, InstanceId) {
    ///     // Transactions on what belongs to this warehouse go here.
    ///     (warehouse, context.instance().id())
    /// }
    ///
    /// let mut options = Options { instances: Instances::Count(4), ..Options::default() };
    /// // An hour: no instance seems overloaded, however busy the machine is.
    /// options.runtime.steal_after_ns = 3_600_000_000_000;
    /// let database = Database::open_in_memory(options)?;
    /// for warehouse in 1_i64..=8 {
    ///     // The same instance in every process that has as many.
    ///     let there = AffinityKey::from(warehouse).instance(database.instances());
    ///     assert_eq!(database.run_routed(warehouse, deliver)?, (warehouse, there));
    /// }
    /// database.close()
    /// # }
    /// ```
    pub fn run_routed<A: Send + Clone + Into<AffinityKey>, T: Send>(
        &self,
        first: A,
        procedure: impl FnOnce(&Context, A) -> T + Send,
    ) -> Result<T> {
        let target = Target::Key(first.clone().into());
        self.run(target, move |context| procedure(context, first))
    }

    /// Starts `work` on an instance and does not wait for it.
    pub fn spawn(&self, target: Target, work: impl FnOnce(&Context) + Send + 'static) {
        self.inner.hub.start(target, Box::new(work));
    }

    /// Runs `visit` once on every instance, outside any task: to register services. Returns when
    /// it was sent, not when it has run.
    pub fn on_instances(&self, visit: impl Fn(&Instance) + Send + Sync + 'static) {
        let visit = Arc::new(visit);
        for number in 0..self.instances() {
            let visit = visit.clone();
            let letter = Box::new(move |instance: &Instance| visit(instance));
            self.inner.hub.send(InstanceId(number as u16), letter);
        }
    }

    /// The instances: to send letters to, as a server does.
    pub fn hub(&self) -> &Arc<Hub<Core>> {
        &self.inner.hub
    }

    /// The newest committed catalog.
    pub fn catalog(&self) -> Arc<Catalog> {
        self.inner.shared.published.newest()
    }

    /// The open transactions and what each waits for, and each log's stable mark, a line each.
    pub fn describe_waits(&self) -> Vec<String> {
        let shared = &self.inner.shared;
        let mut lines = shared.txn.describe();
        for home in (0..shared.marks.homes()).map(|home| HomeId(home as u16)) {
            let (stable, durable) = (shared.marks.get(home), shared.marks.durable(home));
            lines.push(format!("log {home}: stable up to {stable}, durable up to {durable}"));
        }
        lines
    }

    /// Why the database stands still, if it does ([`super::OnFailure::StandStill`]).
    pub fn failure(&self) -> Option<String> {
        self.inner.shared.failure().map(str::to_owned)
    }

    /// What opening found and did.
    pub fn recovery(&self) -> RecoveryReport {
        self.inner.report
    }

    /// Makes a checkpoint that has every commit up to the call, as a task of an instance, and waits
    /// until it is durable. None for a database in memory. Errors: what kept it from being
    /// published; the database goes on without it.
    pub fn checkpoint(context: &Context) -> Result<Option<CheckpointReport>> {
        super::checkpoint::checkpoint(context, || true)
    }

    /// Makes a backup of the running database in `directory`, as [`Session::backup`], and blocks the
    /// calling thread, which is no instance.
    pub fn backup(
        &self,
        directory: &Path,
        progress: &mut (dyn FnMut(u64, u64) -> Result<()> + Send),
    ) -> Result<BackupReport> {
        self.run(Target::Any, |context| {
            Session::new(context.instance()).backup(context, directory, progress)
        })?
    }

    /// Makes a database in the empty or new directory `target` from the backup in `backup` and, if
    /// given, the archive in `archive`, up to `until`. Blocks. Errors: `NotEmpty`; `NotFound`;
    /// `Unusable` if it is no backup, or the time is before it or beyond what the logs are known to
    /// hold; `Corrupt` names what is damaged or missing; `DiskFull`, `Io`.
    pub fn restore(
        backup: &Path,
        archive: Option<&Path>,
        target: &Path,
        until: Until,
    ) -> Result<Restored> {
        super::checkpoint::restore(backup, archive, target, until)
    }

    /// Keeps a published checkpoint as it is while the answer lives, to be read by transactions of any
    /// session ([`super::Transaction::read_checkpoint`]). `NotFound` if there is none (yet), not this
    /// one any more, or the database is in memory.
    pub fn pin_checkpoint(&self, which: WhichCheckpoint) -> Result<PinnedCheckpoint> {
        self.inner.shared.pin_checkpoint(which)
    }

    /// How attempts to make a checkpoint end, from now on: one listener, the last who asked. It may
    /// be slow, nobody waits for it; it ends when the database is dropped. None for a database in
    /// memory.
    pub fn checkpoint_events(&self) -> Option<Receiver<CheckpointEvent>> {
        let checkpoints = self.inner.shared.checkpoints.as_ref()?;
        let (sender, receiver) = std::sync::mpsc::channel();
        checkpoints.tell(sender, self.inner.shared.pool.unread().count());
        Some(receiver)
    }

    /// Numbers about all instances. Waits for each.
    pub fn metrics(&self) -> Result<Metrics> {
        let (mut transactions, mut logs, mut undo_bytes) = (Vec::new(), Vec::new(), Vec::new());
        for number in 0..self.instances() {
            let (txn, log, undo) =
                self.run(Target::Instance(InstanceId(number as u16)), |context| {
                    let txn = &context.instance().state().inner.txn;
                    let environment = txn.environment();
                    (txn.counters(), environment.log.counters(), environment.versions.undo_bytes())
                })?;
            transactions.push(txn);
            logs.push(log);
            undo_bytes.push(undo);
        }
        let (pool, checkpoints) = (&self.inner.shared.pool, &self.inner.shared.checkpoints);
        let store = checkpoints.as_ref().map(|checkpoints| checkpoints.store().stats());
        let checkpoints = checkpoints.as_ref().map(Checkpoints::counters);
        let traffic = pool.traffic_sum();
        let (pool, unread) = (pool.stats(), pool.unread());
        Ok(Metrics { transactions, logs, undo_bytes, pool, traffic, store, checkpoints, unread })
    }

    /// What went in and out of the buffer pool since the start.
    pub fn traffic(&self) -> PoolTraffic {
        self.inner.shared.pool.traffic_sum()
    }

    /// Pages on disk; none for a database in memory.
    pub fn space(&self) -> Option<SpaceStats> {
        let checkpoints = self.inner.shared.checkpoints.as_ref();
        checkpoints.map(|checkpoints| checkpoints.store().stats())
    }

    /// What became of checkpoints so far; none for a database in memory.
    pub fn checkpoint_counters(&self) -> Option<CheckpointCounters> {
        self.inner.shared.checkpoints.as_ref().map(Checkpoints::counters)
    }

    /// Whether a checkpoint is being made just now.
    pub fn is_making_checkpoint(&self) -> bool {
        self.inner.shared.checkpoints.as_ref().is_some_and(Checkpoints::is_running)
    }

    pub(super) fn shared(&self) -> &Arc<Shared> {
        &self.inner.shared
    }

    /// Closes: lets running tasks finish, flushes, ends the instances. Not called from an
    /// instance. Everything acknowledged is on disk either way.
    pub fn close(&self) -> Result<()> {
        drop(self.inner.archiver.lock().expect("no holder panics").take());
        let runtime = self.inner.runtime.lock().expect("no holder panics").take();
        if let Some(runtime) = runtime {
            runtime.close();
        }
        drop(self.inner.memory.lock().expect("no holder panics").take());
        Ok(())
    }
}

/// A new database gets its first object by an ordinary transaction. A database that has it is left
/// alone.
fn make_first_object(context: &Context) -> Result<()> {
    let mut session = Session::new(context.instance());
    if session.catalog().namespace("public").is_some() {
        return Ok(());
    }
    let mut transaction = session.begin(context, Isolation::ReadCommitted, Access::ReadWrite)?;
    let mut statement = transaction.statement(&mut session, context)?;
    statement
        .define_namespace(NamespaceDef { oid: PUBLIC_NAMESPACE, name: "public".to_owned() })?;
    drop(statement);
    transaction.commit(&mut session, context)?;
    session.settle(context)
}
