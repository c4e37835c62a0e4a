//! Making checkpoints: choosing S, gathering the trees, publishing (rules 8.1, 8.6 to 8.8, 2.11).
//!
//! One task at a time has the *role*, by a term: it registers S as a snapshot, lets every instance
//! adopt it, takes the catalog as of S, lets each instance image its share of the trees, waits until
//! all commits below S are stable, makes the pages durable and swaps the manifest. Whoever sees that
//! the role has not moved for long takes it over with a new term; who had it finds that out before it
//! publishes, and its checkpoint comes to nothing. No transaction waits for the role.
//!
//! Invariants: the manifest is swapped under one mutex that checks the term; nothing of the published
//! checkpoint is given up before that. Trees that are dropped while a checkpoint is made keep their
//! pages until it ends (rule 8.5). Whatever fails before the swap abandons this checkpoint only.

mod archiver;
mod ask;
mod backup;
mod choose;
mod due;
mod pace;
mod report;
mod shares;
mod shrink;
mod versions;
mod watch;

use rustc_hash::FxHashMap as HashMap;
use std::sync::mpsc::Sender;
use std::sync::{Arc, Mutex};

use super::core::{Context, Core, Shared};
use super::options::{OldLogs, Options};
use crate::base::{Cts, Error, HomeId, LogPosition, Observed, Result, TreeId, Unread};
use crate::catalog::Catalog;
use crate::checkpoint::{ImagedTree, Turn, sync};
use crate::io::Disk;
use crate::log::manifest::{Checkpoint, HasLongs, Incarnation, LogSpan, Manifest, SequenceImage};
use crate::log::{Leftovers, remove_leftovers};
use crate::runtime::{Hub, Parker};
use crate::store::{PageStore, Term};
use crate::sync::{AtomicU64, Ordering, mutant};
use archiver::Archiving;
use choose::{Adopted, Chosen, choose};
use due::Due;
use pace::{Pace, Paces};
use report::Listener;
use shares::{Imaged, image_all};
use versions::{Versions, recycle};

pub use archiver::ArchiveStatus;
pub(super) use archiver::Archiver;
pub use backup::BackupReport;
pub(super) use backup::restore;
pub(super) use due::Covered;
pub use report::{CheckpointCause, CheckpointCounters, CheckpointEvent, CheckpointReport};
pub use versions::{PinnedCheckpoint, WhichCheckpoint};
pub use watch::{CheckpointStatus, CheckpointWatch};

/// The role is taken over from whoever has not moved for so long.
const STALLED_NS: u64 = 30_000_000_000;
/// How often who waits looks whether the database closes.
const LOOK_NS: u64 = 5_000_000;

/// What a database knows of its checkpoints.
pub(super) struct Checkpoints {
    store: Arc<PageStore>,
    /// Who makes one.
    role: Mutex<Role>,
    /// Sign of life of who has the role.
    beat_ns: Arc<AtomicU64>,
    due: Due,
    published: Mutex<Published>,
    versions: Versions,
    counters: Mutex<CheckpointCounters>,
    /// Who is told how attempts end.
    listener: Mutex<Option<Listener>>,
    /// None if logs are used again, as is wanted.
    archiving: Option<Archiving>,
    paces: Paces,
}

#[derive(Default)]
struct Role {
    term: Term,
    is_taken: bool,
    /// The manifest is being swapped: nobody takes over.
    is_publishing: bool,
    /// Trees dropped while a checkpoint is made.
    graves: Vec<Box<dyn Send>>,
}

struct Published {
    manifest: Manifest,
    trees: Arc<HashMap<TreeId, ImagedTree>>,
    /// Whether logs of earlier incarnations lie there still, which nobody needs to recover.
    has_leftovers: bool,
    /// A time before S was picked, if this process made the checkpoint: everything that was
    /// acknowledged by then is in it.
    wall_micros: Option<i64>,
}

fn locked<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().expect("no holder panics")
}

impl Checkpoints {
    /// Of a database with this manifest, whose checkpoint, if it has one, consists of `trees`.
    pub fn new(
        store: Arc<PageStore>,
        manifest: Manifest,
        trees: HashMap<TreeId, ImagedTree>,
        (options, old_logs): (&Options, OldLogs),
    ) -> Checkpoints {
        let trees = Arc::new(trees);
        let newest = manifest.checkpoint.as_ref().map_or(0, |it| it.number);
        // What is about to be archived was not removed at the start.
        let has_leftovers = manifest.incarnations.len() > 1 || old_logs == OldLogs::Kept;
        let archiving = Archiving::new(options, old_logs, &manifest);
        let published = Published { manifest, trees, has_leftovers, wall_micros: None };
        let counters = CheckpointCounters { newest, ..CheckpointCounters::default() };
        Checkpoints {
            store,
            role: Mutex::default(),
            beat_ns: Arc::new(AtomicU64::new(0)),
            due: Due::default(),
            published: Mutex::new(published),
            versions: Versions::default(),
            counters: Mutex::new(counters),
            listener: Mutex::default(),
            archiving,
            paces: Paces::default(),
        }
    }

    /// The pages on disk.
    pub fn store(&self) -> &Arc<PageStore> {
        &self.store
    }

    /// Counts so far.
    pub fn counters(&self) -> CheckpointCounters {
        locked(&self.counters).clone()
    }

    /// Tells `listener` from now on how attempts end; who was told before is not any more. `unread`: how much could not
    /// be read that was told of otherwise.
    pub fn tell(&self, listener: Sender<CheckpointEvent>, unread: u64) {
        *locked(&self.listener) = Some(Listener::new(listener, unread));
    }

    /// Whether a checkpoint is being made.
    pub fn is_running(&self) -> bool {
        locked(&self.role).is_taken
    }

    /// What the newest checkpoint did, if it was begun after the term `asked`.
    fn published_since(&self, asked: Term) -> Option<CheckpointReport> {
        if self.due.newest() <= asked {
            return None;
        }
        locked(&self.counters).last
    }

    /// Tells how an attempt ended.
    fn note(&self, made: &Result<CheckpointReport>, unread: &Unread) {
        let event = locked(&self.counters).add(made);
        self.send(event, Some(unread));
    }

    /// Tells who listens.
    fn send(&self, event: CheckpointEvent, unread: Option<&Unread>) {
        if let Some(listener) = &mut *locked(&self.listener) {
            listener.tell(event, unread);
        }
    }

    /// Takes the role; none if another has it and moves.
    fn begin(&self, now_ns: u64) -> Option<Turn> {
        let mut role = locked(&self.role);
        let stalled = now_ns > self.beat_ns.load(Ordering::Relaxed) + STALLED_NS;
        if role.is_taken && (!stalled || role.is_publishing) {
            return None;
        }
        role.term = Term(role.term.0 + 1);
        role.is_taken = true;
        self.paces.begin();
        self.beat_ns.store(now_ns, Ordering::Relaxed);
        self.store.begin(role.term);
        Some(Turn { term: role.term, beat_ns: self.beat_ns.clone() })
    }

    /// From now on, until [`Checkpoints::end_publishing`] or the role's end, nobody takes the role over: the
    /// manifest is about to name the places of this term, and whoever began another would take them for
    /// free. False if the term is over.
    fn begin_publishing(&self, term: Term) -> bool {
        let mut role = locked(&self.role);
        role.is_publishing = role.term == term || role.is_publishing;
        role.term == term
    }

    /// The manifest names the term's places, or for certain does not.
    fn end_publishing(&self) {
        locked(&self.role).is_publishing = false;
    }

    /// Gives the role back, if it was not taken over. Trees dropped meanwhile are freed.
    fn end(&self, term: Term) {
        let graves = {
            let mut role = locked(&self.role);
            // One that may have been published in part keeps its places: the next start may need them.
            if role.term != term || role.is_publishing {
                return;
            }
            role.is_taken = false;
            std::mem::take(&mut role.graves)
        };
        self.store.abandon(term);
        drop(graves);
    }

    /// Removes what lies there of logs of earlier incarnations, which nobody needs to recover since
    /// there is a checkpoint of this one, unless somebody copies logs.
    fn remove_leftovers(&self, disk: &dyn Disk, published: &mut Published) {
        let is_archived = self.archiving.as_ref().is_none_or(Archiving::has_begun);
        if !published.has_leftovers || self.are_logs_kept() || !is_archived {
            return;
        }
        published.has_leftovers = false;
        for home in (0..published.manifest.homes).map(HomeId) {
            // What cannot be removed now is ignored by every recovery.
            let _ = remove_leftovers(disk, &published.manifest, home, Leftovers::Whole);
        }
    }

    /// Runs `bury` now, or at the end of the checkpoint that is being made.
    pub fn bury(&self, bury: impl FnOnce() + Send + 'static) {
        let mut role = locked(&self.role);
        if role.is_taken && !mutant("checkpoint-trees-freed-meanwhile") {
            role.graves.push(Box::new(AtDrop(Some(bury))));
            self.paces.hurry();
            return;
        }
        drop(role);
        bury();
    }
}

/// Runs something when it is dropped.
struct AtDrop<F: FnOnce()>(Option<F>);

impl<F: FnOnce()> Drop for AtDrop<F> {
    fn drop(&mut self) {
        if let Some(work) = self.0.take() {
            work();
        }
    }
}

/// Gives the role back however its task ends.
struct InRole<'a> {
    checkpoints: &'a Checkpoints,
    turn: Turn,
}

impl Drop for InRole<'_> {
    fn drop(&mut self) {
        self.checkpoints.end(self.turn.term);
    }
}

/// Makes a checkpoint that begins after the call, waiting for one that is being made first; or waits
/// for another's that was begun after the call. None for a database in memory. Errors: what kept it
/// from being published; `Cancelled` if nobody wants it any more before it begins.
pub(super) fn checkpoint(
    context: &Context,
    is_wanted: impl Fn() -> bool,
) -> Result<Option<CheckpointReport>> {
    let shared = context.instance().state().inner.shared.clone();
    let Some(checkpoints) = &shared.checkpoints else { return Ok(None) };
    let asked = locked(&checkpoints.role).term;
    let _awaiting = checkpoints.paces.awaiting();
    let turn = loop {
        if !is_wanted() {
            return Err(Error::Cancelled);
        }
        if let Some(report) = checkpoints.published_since(asked) {
            return Ok(Some(report));
        }
        if let Some(turn) = checkpoints.begin(context.now_ns()) {
            break turn;
        }
        pause(context, &shared)?;
    };
    make(context, &shared, checkpoints, (turn, CheckpointCause::Request)).map(Some)
}

/// Waits a little. `ShuttingDown`; `Internal` if the database stands still.
fn pause(context: &Context, shared: &Shared) -> Result<()> {
    if context.instance().is_stopping() {
        return Err(Error::ShuttingDown);
    }
    if let Some(failure) = shared.failure() {
        return Err(Error::Internal { detail: format!("the database stands still: {failure}") });
    }
    context.park(Some(context.now_ns() + LOOK_NS));
    Ok(())
}

fn make(
    context: &Context,
    shared: &Arc<Shared>,
    checkpoints: &Checkpoints,
    (turn, cause): (Turn, CheckpointCause),
) -> Result<CheckpointReport> {
    let term = turn.term;
    let role = InRole { checkpoints, turn };
    let began_ns = context.now_ns();
    let interval_ns = shared.options.checkpoint_interval_ms.saturating_mul(1_000_000);
    let pace = checkpoints.paces.of(cause, began_ns, interval_ns);
    let mut made = publish_new(context, shared, &role, pace);
    let now_ns = context.now_ns();
    if let Ok(report) = &mut made {
        report.returned = shrink::shrink(context, &checkpoints.store);
        report.elapsed_ns = now_ns - began_ns;
        report.cause = cause;
    }
    checkpoints.note(&made, &shared.pool.unread());
    match made {
        // From one's beginning to the next one's, unless it took longer.
        Ok(_) => {
            let next_ns = began_ns.saturating_add(interval_ns);
            checkpoints.due.published(term, next_ns.max(now_ns.saturating_add(interval_ns / 8)));
        }
        Err(_) => checkpoints.due.abandoned(term, now_ns),
    }
    made
}

fn publish_new(
    context: &Context,
    shared: &Arc<Shared>,
    role: &InRole<'_>,
    pace: Pace,
) -> Result<CheckpointReport> {
    let (checkpoints, turn) = (role.checkpoints, &role.turn);
    let before = locked(&checkpoints.published).trees.clone();
    let wall_micros = context.instance().time().wall_micros();
    let Chosen { snapshot, catalog, adopted, imaging } = choose(context, shared, turn.term)?;
    let timestamp = snapshot.view().timestamp;
    let (mut stable, sequences) = sequences_of(&catalog);
    stable.extend(adopted.iter().map(|it| Observed { home: it.home, cts: it.last_cts }));
    let Imaged { mut trees, longs, written } =
        image_all(context, shared, (turn, pace), (&catalog, &snapshot), &before)?;
    note_marks(&catalog, &mut trees);
    // From here on nothing is read as of S.
    drop((imaging, snapshot));
    wait_until_stable(context, shared, stable)?;
    context.linger("role: stable");
    let sync_ns = sync_pages(context, shared, &checkpoints.store)?;
    context.linger("role: synced");
    let (oid_next, tree_next) = shared.next_numbers();
    let mut images: Vec<_> = trees.values().map(|tree| tree.image).collect();
    images.sort_by_key(|image| image.tree);
    let mut published = locked(&checkpoints.published);
    if !checkpoints.begin_publishing(turn.term) {
        return Err(Error::Internal { detail: report::OVERTAKEN.to_owned() });
    }
    let number = published.manifest.checkpoint.as_ref().map_or(1, |it| it.number + 1);
    let checkpoint = Checkpoint {
        number,
        timestamp,
        incarnation: published.manifest.current().number,
        instances: adopted.len() as u32,
        oid_next,
        tree_next,
        trees: images,
        sequences,
        longs,
    };
    let incarnations = vec![replayed_from(published.manifest.current(), &adopted)];
    let manifest = swap(shared, checkpoints, |number| Manifest {
        number,
        incarnations,
        checkpoint: Some(checkpoint),
        ..published.manifest.clone()
    })?;
    let report = CheckpointReport {
        number,
        timestamp,
        pages: written.pages,
        moved: written.moved,
        trees: trees.len() as u64,
        sync_ns,
        ..CheckpointReport::default()
    };
    published.manifest = manifest;
    published.trees = Arc::new(trees);
    published.wall_micros = Some(wall_micros);
    checkpoints.store.publish(turn.term);
    checkpoints.end_publishing();
    checkpoints.remove_leftovers(&*shared.disk, &mut published);
    drop(published);
    let starts = adopted.iter().map(|it| (it.home, it.replay_from));
    let_go(context.instance().hub(), shared, checkpoints, starts);
    Ok(report)
}

/// What a new checkpoint makes superfluous: logs below where its replays begin, and pages of older ones
/// that are pinned, if they are too many.
fn let_go(
    hub: &Hub<Core>,
    shared: &Shared,
    checkpoints: &Checkpoints,
    starts: impl Iterator<Item = (HomeId, LogPosition)>,
) {
    checkpoints.keep_pins_within(shared.options.checkpoint_pin_bytes);
    recycle(hub, checkpoints, starts);
    if let Some(archiving) = &checkpoints.archiving {
        archiving.wake();
    }
}

/// Makes what `make` makes of its number the database's manifest. If that fails when it has its name already,
/// nobody can tell which one the next start will find, so the database fails with it.
fn swap(
    shared: &Shared,
    checkpoints: &Checkpoints,
    make: impl FnOnce(u64) -> Manifest,
) -> Result<Manifest> {
    let disk = &*shared.disk;
    let number = Manifest::next_number(disk).inspect_err(|_| checkpoints.end_publishing())?;
    let manifest = make(number);
    let Err(error) = manifest.swap(disk) else { return Ok(manifest) };
    if Manifest::next_number(disk) == Ok(number) {
        checkpoints.end_publishing();
    } else {
        shared.fail(format!("manifest {number} was swapped in part: {error}"));
    }
    Err(error)
}

/// As [`pause`].
fn wait_until_stable(context: &Context, shared: &Shared, stable: Vec<Observed>) -> Result<()> {
    for seen in stable {
        while !shared.is_stable(seen) && !mutant("checkpoint-before-stable") {
            pause(context, shared)?;
        }
    }
    Ok(())
}

/// Makes the pages durable; answers how long that took, in nanoseconds. The database fails with it.
fn sync_pages(context: &Context, shared: &Shared, store: &PageStore) -> Result<u64> {
    let began_ns = context.now_ns();
    if let Err(error) = sync(context, store) {
        // What was written since the last sync may be gone, and pages count as clean there: as for
        // the log, nothing is tried again (rule 7.8).
        shared.fail(format!("the page files failed: {error}"));
        return Err(error);
    }
    Ok(context.now_ns() - began_ns)
}

/// The running incarnation with its logs read from where S was adopted.
fn replayed_from(current: &Incarnation, adopted: &[Adopted]) -> Incarnation {
    let mut logs = current.logs.clone();
    for it in adopted {
        logs[usize::from(it.home.0)] = LogSpan { start: it.replay_from, cut: None };
    }
    Incarnation { number: current.number, logs }
}

/// Notes which tables may have long values, and which row ids were never used: now that the last
/// index leaf was copied, which may name rows that came after S and that a crash may lose. Their ids
/// must not be given again, or such an entry would be taken for another row's.
fn note_marks(catalog: &Catalog, trees: &mut HashMap<TreeId, ImagedTree>) {
    let own = catalog.own_access().into_iter();
    for table in own.chain(catalog.tables().map(|table| &table.access)) {
        if let Some(tree) = trees.get_mut(&table.id()) {
            tree.image.rows_next = table.tree.rows_next();
            let has_longs = table.tree.pool().has_longs(table.id());
            tree.image.longs = if has_longs { HasLongs::Yes } else { HasLongs::No };
        }
    }
}

/// Where sequences stand, and the records that say so.
fn sequences_of(catalog: &Catalog) -> (Vec<Observed>, Vec<SequenceImage>) {
    let mut records = Vec::new();
    let images = catalog.sequences().map(|sequence| {
        let (state, record) = sequence.values.logged();
        records.extend(record);
        let cts = record.map_or(Cts::ZERO, |record| record.cts);
        let values = sequence.values.id();
        SequenceImage { values, cts, last: state.last, called: state.called }
    });
    let images = images.collect();
    (records, images)
}
