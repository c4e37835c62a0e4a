//! From a directory to a running database: lock, manifest, scan, cut, replay, instances.
//!
//! Invariants: nothing is written before everything was read and found good (rules 9.1 to 9.3); the
//! new incarnation's manifest is durable before the first log record (rule 9.4); the clock starts
//! above every cts on disk (rule 3.1); the first answer comes after all that.

use rustc_hash::FxHashMap as HashMap;
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::checkpoint::Checkpoints;
use super::core::{Core, Instance, Numbers, Parts, Shared};
use super::environment::KernelEnvironment;
use super::options::{NEVER_ARCHIVED, OldLogs, Options, Prefault, UnarchivedLogs};
use super::registry::LocalTables;
use crate::backup;
use crate::base::{Error, HomeId, PAGE_BYTES, Result, TreeId, Unread};
use crate::buffer::BufferPool;
use crate::catalog::{Catalog, Published};
use crate::checkpoint::ImagedTree;
use crate::io::{Disk, Entropy, RealEntropy, RealTime, TimeSource};
use crate::log::manifest::{Incarnation, Manifest};
use crate::log::{self, Leftovers, LogOptions, LogWriter, Retention, StableMarks, Swap};
use crate::recovery::{
    Definitions, Places, ReplayOptions, Replayed, Workers, build_catalog, load, replay,
};
use crate::runtime::{Clock, Hub};
use crate::store::PageStore;
use crate::tree::hints::LeafHints;
use crate::tree::table::SideTables;
use crate::txn::{TxnLocal, TxnOptions, TxnShared};
use crate::version::{InstanceVersions, VersionSpace};

/// What opening found and did.
#[derive(Clone, Copy, Debug, Default)]
pub struct RecoveryReport {
    /// Commits replayed.
    pub commits: u64,
    /// Row changes replayed.
    pub changes: u64,
    /// Bytes of redo replayed.
    pub bytes: u64,
    /// Bytes of redo that were in memory at once, at most: about
    /// [`Options::recovery_round`] for each log, more only for a row that is larger.
    pub held_bytes_max: usize,
    /// Durable commits that no client was told of and that depended on lost ones (rule 9.3).
    pub commits_cut: u64,
    /// Pages of the checkpoint that were loaded.
    pub pages: u64,
    /// What could not be read and was done without, for no row needs it: each was told of.
    pub unread: u64,
    /// Loading the checkpoint.
    pub load: Duration,
    /// Scanning and cutting the logs.
    pub scan: Duration,
    /// Replaying them.
    pub replay: Duration,
    /// Building indexes.
    pub indexes: Duration,
}

/// The machine, or a simulated one.
pub(super) struct Machine {
    pub disk: Arc<dyn Disk>,
    pub time: Arc<dyn TimeSource>,
    pub entropy: Arc<dyn Entropy>,
    pub retention: Retention,
    /// Threads that recover.
    pub threads: Threads,
}

impl Machine {
    /// The machine that this process runs on, with `disk`.
    pub fn real(disk: Arc<dyn Disk>, retention: Retention) -> Machine {
        let (time, entropy) = (Arc::new(RealTime::default()), Arc::new(RealEntropy));
        Machine { disk, time, entropy, retention, threads: Threads::ForAllCores }
    }
}

/// How many threads recover.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Threads {
    /// One, so that a seed decides where every row comes to lie.
    #[cfg(not(loom))]
    One,
    /// As many as keep all cores busy.
    ForAllCores,
}

/// Threads a core that replay if they wait for pages, which each reads one at a time (measured:
/// docs/benchmarks.md, "Recovery").
const READING_PER_CORE: usize = 4;

impl Threads {
    /// Threads that hardly wait.
    fn computing(self) -> usize {
        match self {
            #[cfg(not(loom))]
            Threads::One => 1,
            Threads::ForAllCores => {
                std::thread::available_parallelism().map_or(1, std::num::NonZero::get)
            }
        }
    }

    /// Threads that replay over the `pages` of a checkpoint.
    fn replaying(self, pages: u64) -> Workers {
        let computing = self.computing();
        match self {
            Threads::ForAllCores if pages > 0 => {
                Workers { computing, reading: READING_PER_CORE * computing }
            }
            _ => Workers { computing, reading: computing },
        }
    }
}

/// A recovered database whose instances do not run yet.
pub(super) struct Recovered {
    pub shared: Arc<Shared>,
    pub hub: Arc<Hub<Core>>,
    pub manifest: Arc<Manifest>,
    pub report: RecoveryReport,
    log: LogOptions,
}

/// The manifest of the database that `disk` holds, if there is one. `Unusable` if its pages have
/// another size than this build's: rows and keys of one may be too long for the other.
fn read_manifest(disk: &dyn Disk) -> Result<Option<Manifest>> {
    let found = Manifest::read(disk)?;
    match found.as_ref().map(|manifest| manifest.page_bytes) {
        Some(bytes) if bytes as usize != PAGE_BYTES => Err(Error::Unusable {
            detail: format!(
                "the database has pages of {bytes} bytes; this program reads pages of \
                 {PAGE_BYTES} only"
            ),
        }),
        _ => Ok(found),
    }
}

/// Opens what `machine.disk` holds, or makes it. `progress` gets lines for people.
pub(super) fn recover(
    machine: Machine,
    options: Options,
    progress: &mut dyn FnMut(&str),
) -> Result<Recovered> {
    // Before the lock file is written: a foreign directory is left as it is.
    read_manifest(&*machine.disk)?;
    let lock = machine.disk.lock(&options.lock_note)?;
    let instances = options.instances.count();
    super::temporary::remove_old(&*machine.disk)?;
    let clock = Clock::choose(options.clock)?;
    let found = read_manifest(&*machine.disk)?;
    let homes = found.as_ref().map_or(instances, |manifest| manifest.homes.max(instances));
    let versions = VersionSpace::new(usize::from(instances));
    let mut report = RecoveryReport::default();
    let mut state = State::new(&machine, found.as_ref(), homes, &options, &versions)?;
    let numbers = match found.as_ref().and_then(|manifest| manifest.checkpoint.as_ref()) {
        Some(it) => Numbers { oid: it.oid_next, tree: it.tree_next },
        None => Numbers::default(),
    };
    (report.pages, report.load) = state.tell(found.as_ref(), progress);
    let old_logs = options.old_logs(&*machine.disk)?;
    tell_of_archiving(&*machine.disk, &options, old_logs, progress)?;
    let (manifest, marks) = match found {
        None => create(&machine, &state, (homes, clock.offset()), old_logs)?,
        Some(manifest) => {
            let mut restart = Restart {
                machine: &machine,
                round_bytes: options.recovery_round(usize::from(manifest.homes)),
                old_logs,
                definitions: &mut state.definitions,
                report: &mut report,
            };
            restart.run(manifest, homes, &clock, progress)?
        }
    };
    report.unread = state.tell_unread(progress);
    let State { pool, store, definitions, imaged, .. } = state;
    let began = Instant::now();
    let catalog = build_catalog(&definitions, &versions, machine.threads.computing())?;
    report.indexes = began.elapsed();
    let txn = TxnOptions {
        instances: usize::from(instances),
        homes: usize::from(homes),
        deadlock_timeout_ms: options.deadlock_timeout_ms,
        ..TxnOptions::default()
    };
    let runtime = options.of_runtime(instances);
    let log = log_options(&options, machine.retention);
    let hub = Hub::new(runtime, machine.time.clone(), clock.clone());
    let how = (&options, old_logs);
    let checkpoints = store.map(|it| Checkpoints::new(it, manifest.clone(), imaged, how));
    let shared = Shared::new(Parts {
        options,
        disk: machine.disk,
        pool,
        versions,
        txn: TxnShared::new(txn, clock),
        marks,
        published: Published::new(catalog),
        checkpoints,
        numbers,
        lock: Some(lock),
    });
    Ok(Recovered { shared, hub, manifest: Arc::new(manifest), report, log })
}

/// Makes a new database.
fn create(
    machine: &Machine,
    state: &State,
    (homes, clock_offset): (u16, u64),
    old_logs: OldLogs,
) -> Result<(Manifest, Arc<StableMarks>)> {
    let (disk, database) = (&machine.disk, state.database);
    let made = log::create(disk, homes, PAGE_BYTES as u32, clock_offset, database)?;
    // Behind its manifest: a directory that has anything without one would be refused, and a start that
    // ends between the two leaves nothing that an archive could lack.
    if state.store.is_some() {
        note_begun(machine, old_logs, (Swap::Ahead, &made.0), None)?;
    }
    Ok(made)
}

fn log_options(options: &Options, retention: Retention) -> LogOptions {
    LogOptions {
        segment_bytes: options.log_segment_bytes,
        buffer_bytes: options.log_buffer_bytes,
        retention,
        ..LogOptions::default()
    }
}

/// What is removed of logs at the start: what must be archived is not.
fn leftovers(old_logs: OldLogs) -> Leftovers {
    match old_logs {
        OldLogs::Kept => Leftovers::Unfinished,
        OldLogs::UsedAgain | OldLogs::NeverArchived => Leftovers::All,
    }
}

/// Notes how the incarnation of `manifest` begins if its logs are to be archived, ahead of its manifest; if not,
/// forgets what the archive does not have of those before, behind it.
fn note_begun(
    machine: &Machine,
    old_logs: OldLogs,
    (swap, manifest): (Swap, &Manifest),
    ended: Option<&Incarnation>,
) -> Result<()> {
    let (disk, now) = (&*machine.disk, machine.time.wall_micros());
    match (old_logs, swap) {
        (OldLogs::Kept, Swap::Ahead) => backup::note_begun(disk, manifest, ended.cloned(), now),
        (OldLogs::UsedAgain | OldLogs::NeverArchived, Swap::Done) => backup::forget_begun(disk),
        _ => Ok(()),
    }
}

/// Says what somebody should know of archiving, who may not look for it.
fn tell_of_archiving(
    disk: &dyn Disk,
    options: &Options,
    old_logs: OldLogs,
    progress: &mut dyn FnMut(&str),
) -> Result<()> {
    match old_logs {
        OldLogs::Kept => {
            for damage in backup::damaged_begun(disk)? {
                progress(&format!("logs cannot be archived any more: {damage}"));
            }
        }
        OldLogs::NeverArchived => progress(NEVER_ARCHIVED),
        OldLogs::UsedAgain
            if options.unarchived_logs == UnarchivedLogs::Remove && backup::was_archived(disk)? =>
        {
            progress(
                "logs of this database were archived, and are not any more: archive_directory is \
                 not set; no restore goes on from what the archive has to what is done from now on",
            );
        }
        OldLogs::UsedAgain => {}
    }
    Ok(())
}

/// What is said of what a checkpoint has and no row needs ...
const NOT_FOLLOWED: &str = "a long value that no row refers to could not be followed to its end";
/// ... and of what the logs took out.
const NOT_FREED: &str =
    "something that the log takes out could not be read, and pages may stay in use";

/// What replay begins with: nothing, or the checkpoint.
struct State {
    database: u128,
    pool: Arc<BufferPool>,
    store: Option<Arc<PageStore>>,
    definitions: Definitions,
    imaged: HashMap<TreeId, ImagedTree>,
    pages: u64,
    /// As in [`LoadedCheckpoint`](crate::recovery::LoadedCheckpoint).
    unread: Unread,
    load: Duration,
}

impl State {
    fn new(
        machine: &Machine,
        found: Option<&Manifest>,
        homes: u16,
        options: &Options,
        versions: &Arc<VersionSpace>,
    ) -> Result<State> {
        let database = match found {
            Some(manifest) => manifest.database,
            None => u128::from(machine.entropy.u64()) << 64 | u128::from(machine.entropy.u64()),
        };
        let began = Instant::now();
        // What recycles its log at once never recovers.
        let extent = options.page_extent_bytes / PAGE_BYTES as u64;
        let store = (machine.retention == Retention::Keep)
            .then(|| PageStore::new(machine.disk.clone(), database, homes, extent));
        let pool_bytes = options.buffer_pool_bytes as usize;
        let pool = BufferPool::over(usize::from(homes), pool_bytes, store.clone())?;
        pool.know_sides(versions.clone());
        let sides: Arc<dyn SideTables> = versions.clone();
        let checkpoint = found.and_then(|manifest| manifest.checkpoint.as_ref());
        let (Some(checkpoint), Some(store)) = (checkpoint, &store) else {
            let definitions = Definitions::new(pool.clone(), sides, homes)?;
            let (imaged, unread, load) = (HashMap::default(), Unread::default(), Duration::ZERO);
            return Ok(State {
                database,
                pool,
                store,
                definitions,
                imaged,
                pages: 0,
                unread,
                load,
            });
        };
        let places = Places { store, pool: &pool, sides: &sides, homes };
        let loaded = load(checkpoint, places, machine.threads.computing())?;
        let definitions = Definitions::adopt(pool.clone(), sides, homes, loaded.loaded)?;
        let (imaged, pages, load) = (loaded.imaged, loaded.pages, began.elapsed());
        let (store, unread) = (Some(store.clone()), loaded.unread);
        Ok(State { database, pool, store, definitions, imaged, pages, unread, load })
    }
}

impl State {
    /// Says what was loaded, if there was a checkpoint; answers pages and time.
    fn tell(&self, found: Option<&Manifest>, progress: &mut dyn FnMut(&str)) -> (u64, Duration) {
        if let Some(it) = found.and_then(|manifest| manifest.checkpoint.as_ref()) {
            let (number, pages, seconds) = (it.number, self.pages, self.load.as_secs_f64());
            progress(&format!("loaded checkpoint {number}: {pages} pages in {seconds:.3} s"));
            self.unread.lines(NOT_FOLLOWED).iter().for_each(|line| progress(line));
        }
        (self.pages, self.load)
    }

    /// Says what could not be read of what replay took out; answers how much that is with what loading did without.
    fn tell_unread(&mut self, progress: &mut dyn FnMut(&str)) -> u64 {
        self.pool.unread().lines(NOT_FREED).iter().for_each(|line| progress(line));
        self.pool.take_unread(std::mem::take(&mut self.unread));
        self.pool.unread().count()
    }
}

/// The part of opening that only an existing database needs.
struct Restart<'a> {
    machine: &'a Machine,
    round_bytes: usize,
    old_logs: OldLogs,
    definitions: &'a mut Definitions,
    report: &'a mut RecoveryReport,
}

impl Restart<'_> {
    fn run(
        &mut self,
        manifest: Manifest,
        homes: u16,
        clock: &Clock,
        progress: &mut dyn FnMut(&str),
    ) -> Result<(Manifest, Arc<StableMarks>)> {
        let disk = &self.machine.disk;
        let began = Instant::now();
        let logs = manifest.homes;
        let examined = log::examine(disk, manifest)?;
        self.report.scan = began.elapsed();
        self.report.commits_cut = examined.commits_cut;
        clock.start_above(examined.cts_max);
        let readers = (0..logs).map(|home| examined.reader(disk, HomeId(home)));
        let readers = readers.collect::<Result<Vec<_>>>()?;
        let mut said = Instant::now();
        let mut tell = |done: &Replayed| {
            if said.elapsed() >= Duration::from_secs(2) {
                said = Instant::now();
                let rate = done.changes as f64 / done.elapsed.as_secs_f64().max(1e-9);
                progress(&format!("replayed {} row changes, {rate:.0} a second", done.changes));
            }
        };
        let workers = self.machine.threads.replaying(self.report.pages);
        let how = ReplayOptions { workers, round_bytes: self.round_bytes };
        let replayed = replay(readers, self.definitions, how, &mut tell)?;
        self.report.commits = replayed.commits;
        self.report.changes = replayed.changes;
        self.report.bytes = replayed.bytes;
        self.report.held_bytes_max = replayed.held_bytes_max;
        self.report.replay = replayed.elapsed;
        if replayed.commits > 0 {
            let (commits, changes) = (replayed.commits, replayed.changes);
            let seconds = replayed.elapsed.as_secs_f64();
            progress(&format!(
                "replayed {commits} commits, {changes} row changes in {seconds:.3} s"
            ));
        }
        let (ended, old_logs) = (examined.ended(), self.old_logs);
        let beside = &mut |swap: Swap, manifest: &Manifest| {
            note_begun(self.machine, old_logs, (swap, manifest), Some(&ended))
        };
        examined.begin_beside(disk, homes, clock.offset(), leftovers(old_logs), beside)
    }
}

/// Replays what `disk` holds and puts its catalog together, without changing anything on disk that the
/// database refers to, but the lock file. Answers, too, what could not be read that a start can do without.
/// `Unusable` if there is no database.
pub(super) fn inspect(
    disk: &Arc<dyn Disk>,
    options: &Options,
    progress: &mut dyn FnMut(&str),
) -> Result<(Catalog, Unread)> {
    let Some(manifest) = read_manifest(&**disk)? else {
        return Err(Error::Unusable { detail: "there is no database here".to_owned() });
    };
    let _lock = disk.lock(&options.lock_note)?;
    let homes = manifest.homes;
    let versions = VersionSpace::new(1);
    let machine = Machine::real(disk.clone(), Retention::Keep);
    let state = State::new(&machine, Some(&manifest), homes, options, &versions)?;
    state.tell(Some(&manifest), progress);
    let (mut definitions, mut unread) = (state.definitions, state.unread);
    let examined = log::examine(disk, manifest)?;
    let readers = (0..homes).map(|home| examined.reader(disk, HomeId(home)));
    let readers = readers.collect::<Result<Vec<_>>>()?;
    let workers = machine.threads.replaying(state.pages);
    let round_bytes = options.recovery_round(usize::from(homes));
    let how = ReplayOptions { workers, round_bytes };
    let replayed = replay(readers, &mut definitions, how, &mut |_| ())?;
    progress(&format!("{} commits, {} row changes", replayed.commits, replayed.changes));
    let catalog = build_catalog(&definitions, &versions, machine.threads.computing())?;
    unread.take(state.pool.unread());
    Ok((catalog, unread))
}

impl Recovered {
    /// Makes the state of one instance; called on its thread.
    pub fn open_state(&self) -> impl Fn(&Instance) -> Result<Core> + Send + Sync + 'static {
        let (shared, hub) = (self.shared.clone(), self.hub.clone());
        let (manifest, log) = (self.manifest.clone(), self.log);
        move |instance| {
            let (id, home) = (instance.id(), HomeId(instance.id().0));
            let (disk, marks) = (shared.disk.clone(), shared.marks.clone());
            let undo_bytes = shared.options.undo_bytes / hub.instances() as u64;
            // Homes without an instance of their own are served by these, in turn (section 0).
            for home in (usize::from(home.0)..shared.pool.homes()).step_by(hub.instances()) {
                let home = HomeId(home as u16);
                shared.pool.stay_near(home);
                if shared.options.prefault == Prefault::AtStart {
                    shared.pool.prefault(home)?;
                }
            }
            let tables = Rc::new(LocalTables::new(shared.registry.clone()));
            let hints = LeafHints::of_pool(shared.pool.frames(), hub.instances());
            let environment = KernelEnvironment {
                home,
                log: LogWriter::open(disk, &manifest, home, log, marks.clone())?
                    .with_times(hub.time().clone()),
                marks,
                versions: InstanceVersions::new(shared.versions.clone(), id, undo_bytes, hints),
                tables: tables.clone(),
                pool: shared.pool.clone(),
            };
            let txn = TxnLocal::new(shared.txn.clone(), id, environment);
            Ok(Core::new(shared.clone(), hub.clone(), tables, txn))
        }
    }
}

/// Opens a database on `disk` for the simulator: the caller runs the instances, one step at a
/// time.
#[cfg(not(loom))]
pub fn open_interleaved(
    disk: Arc<dyn Disk>,
    time: Arc<dyn TimeSource>,
    entropy: Arc<dyn Entropy>,
    options: Options,
    decider: &Rc<dyn crate::sync::Decider>,
) -> Result<(super::Database, Vec<crate::runtime::Interleaved<Core>>)> {
    use crate::runtime::Interleaved;
    let threads = Threads::One;
    let machine = Machine { disk, time, entropy, retention: Retention::Keep, threads };
    let recovered = recover(machine, options, &mut |_| ())?;
    let open = recovered.open_state();
    let mut instances = Vec::new();
    for number in 0..recovered.hub.instances() {
        let id = crate::base::InstanceId(number as u16);
        let ring = recovered.shared.disk.ring()?;
        let instance = crate::runtime::Instance::open(recovered.hub.clone(), id, ring, &open)?;
        instances.push(Interleaved::new(instance, decider.clone()));
    }
    Ok((super::Database::without_threads(recovered), instances))
}
