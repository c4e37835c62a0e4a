//! A database, as the program that opened it holds it.
//!
//! Invariants: clones share one database; it closes when asked, or when the last clone goes. A
//! plain thread never touches pages: it sends work to an instance and waits (section 10).

use std::path::Path;
use std::sync::{Arc, Mutex};

use super::core::{Context, Core, Instance, Shared};
use super::metrics::Metrics;
use super::open::{Machine, Recovered, RecoveryReport, recover, workers};
use super::options::Options;
use super::session::{Access, Session};
use crate::base::{HomeId, InstanceId, Result};
use crate::catalog::{Catalog, NamespaceDef, PUBLIC_NAMESPACE};
use crate::io::{Disk, Entropy, MemoryDisk, RealDisk, RealEntropy, RealTime, TimeSource};
use crate::log::Retention;
use crate::runtime::{AffinityKey, Hub, Runtime, Target};
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
        let time: Arc<dyn TimeSource> = Arc::new(RealTime::default());
        let entropy: Arc<dyn Entropy> = Arc::new(RealEntropy);
        let machine =
            Machine { disk, time, entropy, retention: Retention::Keep, workers: workers() };
        Database::run_threads(recover(machine, options, progress)?)
    }

    /// An empty database that lives in memory and is gone when it closes.
    pub fn open_in_memory(options: Options) -> Result<Database> {
        let disk: Arc<dyn Disk> = Arc::new(MemoryDisk::new(options.rings));
        let time: Arc<dyn TimeSource> = Arc::new(RealTime::default());
        let entropy: Arc<dyn Entropy> = Arc::new(RealEntropy);
        let machine =
            Machine { disk, time, entropy, retention: Retention::Recycle, workers: workers() };
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
        Ok(database)
    }

    /// Makes what every database has; once, before anything else runs. For whoever runs the
    /// instances by hand.
    pub fn prepare(context: &Context) -> Result<()> {
        make_first_object(context)
    }

    pub(super) fn without_threads(recovered: Recovered) -> Database {
        let Recovered { shared, hub, report, .. } = recovered;
        let runtime = Mutex::new(None);
        Database { inner: Arc::new(Inner { shared, hub, report, runtime }) }
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
    /// use atoll_kernel::api::{AffinityKey, Context, Database, Options};
    ///
    /// # fn main() -> atoll_kernel::api::Result<()> {
    /// fn deliver(context: &Context, warehouse: i64) -> String {
    ///     // Transactions on what belongs to this warehouse go here.
    ///     format!("warehouse {warehouse}, on instance {}", context.instance().id())
    /// }
    ///
    /// let database = Database::open_in_memory(Options::default())?;
    /// for warehouse in 1_i64..=8 {
    ///     let said = database.run_routed(warehouse, deliver)?;
    ///     assert!(said.starts_with(&format!("warehouse {warehouse}, ")));
    ///     // There, unless it was overloaded; in every process with as many instances.
    ///     let there = AffinityKey::from(warehouse).instance(database.instances());
    ///     assert!(usize::from(there.0) < database.instances());
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
        Ok(Metrics { transactions, logs, undo_bytes, pool: self.inner.shared.pool.stats() })
    }

    pub(super) fn shared(&self) -> &Arc<Shared> {
        &self.inner.shared
    }

    /// Closes: lets running tasks finish, flushes, ends the instances. Not called from an
    /// instance. Everything acknowledged is on disk either way.
    pub fn close(&self) -> Result<()> {
        let runtime = self.inner.runtime.lock().expect("no holder panics").take();
        if let Some(runtime) = runtime {
            runtime.close();
        }
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
