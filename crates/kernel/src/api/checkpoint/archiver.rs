//! Archiving logs: a thread of its own that copies them before they are used again (rule 8.7).
//!
//! After every checkpoint it copies what the logs hold up to then, and says so in the archive; only
//! then may segments be used again, and those of earlier incarnations go. If that fails, segments
//! are kept and it is tried again, for as long as it takes; nobody waits.
//!
//! Invariants: the thread reads files of the data directory only, and writes those of the archive;
//! but `REACHED`; what it may read is kept: `archived` bounds what is used again. It holds the lock of the
//! archive's folder while it writes there. It ends before its database does.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Condvar, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;

use super::super::core::{Core, Shared};
use super::super::options::{NEVER_ARCHIVED, OldLogs, Options};
use super::versions::recycle;
use super::{CheckpointEvent, Checkpoints, locked};
use crate::backup::{Archive, Point, Watch, was_archived};
use crate::base::{Error, HomeId, LogPosition, Result};
use crate::io::{DirLock, Disk, IoChoice, RealDisk, look_for};
use crate::log::manifest::Manifest;
use crate::runtime::Hub;

/// How long it waits for something to do at most.
const IDLE: Duration = Duration::from_secs(3600);
/// How long archiving that failed is left alone.
const AGAIN: Duration = Duration::from_secs(1);

/// What became of archiving.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ArchiveStatus {
    /// Segments copied by this process; the last one of a log whenever it has grown.
    pub segments: u64,
    /// The newest checkpoint up to whose S everything is in the archive, by number; 0: none that
    /// this process made.
    pub checkpoint: u64,
    /// Why archiving fails, if it does.
    pub failure: Option<String>,
}

/// What checkpoints know of archiving.
pub(super) struct Archiving {
    old_logs: OldLogs,
    /// None: there is no thread; if logs are kept it is for a later start.
    path: Option<PathBuf>,
    database: u128,
    incarnation: u32,
    known: Mutex<Known>,
    /// Told when there is something to do.
    changed: Condvar,
    watch: Watch,
}

#[derive(Default)]
struct Known {
    status: ArchiveStatus,
    has_begun: bool,
    /// Of each home, up to where all segments are archived.
    whole: Vec<LogPosition>,
    has_work: bool,
    is_ending: bool,
}

impl Archiving {
    /// As `options` say, of the incarnation that `manifest` began. None if logs are used again and nobody
    /// wants it otherwise.
    pub fn new(options: &Options, old_logs: OldLogs, manifest: &Manifest) -> Option<Archiving> {
        let mut known = Known { has_work: true, ..Known::default() };
        let path = match old_logs {
            OldLogs::UsedAgain => return None,
            OldLogs::Kept => options.archive_directory.clone(),
            OldLogs::NeverArchived => {
                known.status.failure = Some(NEVER_ARCHIVED.to_owned());
                // Nothing waits for the archive.
                known.has_begun = true;
                known.whole = vec![LogPosition(u64::MAX); usize::from(manifest.homes)];
                None
            }
        };
        let (database, incarnation) = (manifest.database, manifest.current().number);
        let (known, changed, watch) = (Mutex::new(known), Condvar::new(), Watch::default());
        Some(Archiving { old_logs, path, database, incarnation, known, changed, watch })
    }

    /// Whether logs are kept until they are archived.
    pub fn keeps_logs(&self) -> bool {
        self.old_logs == OldLogs::Kept
    }

    /// There is a new checkpoint.
    pub fn wake(&self) {
        locked(&self.known).has_work = true;
        self.changed.notify_all();
    }

    /// What became of it.
    pub fn status(&self) -> ArchiveStatus {
        locked(&self.known).status.clone()
    }

    /// Whether everything that earlier incarnations left is archived.
    pub fn has_begun(&self) -> bool {
        locked(&self.known).has_begun
    }

    /// Up to where all segments of `home` are archived.
    pub fn archived(&self, home: HomeId) -> LogPosition {
        let known = locked(&self.known);
        known.whole.get(usize::from(home.0)).copied().unwrap_or(LogPosition(0))
    }

    /// Waits for something to do; false at the end.
    fn wait(&self) -> bool {
        let mut known = locked(&self.known);
        while !known.has_work && !known.is_ending {
            let again = match known.status.failure {
                Some(_) => AGAIN,
                None => IDLE,
            };
            let (held, timeout) =
                self.changed.wait_timeout(known, again).expect("no holder panics");
            known = held;
            known.has_work |= timeout.timed_out();
        }
        known.has_work = false;
        !known.is_ending
    }
}

/// The thread that archives; dropping it ends it.
pub(in crate::api) struct Archiver {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

impl Archiver {
    /// Starts it, if logs are to be archived. `Io` if there can be no thread.
    pub fn start(shared: &Arc<Shared>, hub: &Arc<Hub<Core>>) -> Result<Option<Archiver>> {
        if archiving_of(shared).is_none_or(|(_, archiving)| archiving.path.is_none()) {
            return Ok(None);
        }
        let (inside, hub) = (shared.clone(), hub.clone());
        let thread = std::thread::Builder::new().name("atoll-archive".to_owned());
        let thread = thread.spawn(move || run(&inside, &hub)).map_err(|error| Error::Io {
            what: "start the archiving thread".to_owned(),
            errno: error.raw_os_error().unwrap_or(0),
        })?;
        Ok(Some(Archiver { shared: shared.clone(), thread: Some(thread) }))
    }
}

impl Drop for Archiver {
    fn drop(&mut self) {
        if let Some((_, archiving)) = archiving_of(&self.shared) {
            archiving.watch.cancel();
            locked(&archiving.known).is_ending = true;
            archiving.changed.notify_all();
        }
        if let Some(thread) = self.thread.take() {
            // Its panic would have been told of already.
            let _ = thread.join();
        }
    }
}

fn archiving_of(shared: &Shared) -> Option<(&Checkpoints, &Archiving)> {
    let checkpoints = shared.checkpoints.as_ref()?;
    Some((checkpoints, checkpoints.archiving.as_ref()?))
}

fn run(shared: &Shared, hub: &Hub<Core>) {
    let Some((checkpoints, archiving)) = archiving_of(shared) else { return };
    while archiving.wait() {
        let done = archive(shared, hub, checkpoints, archiving);
        let failure = match done {
            // It ends, and the next start goes on.
            Err(Error::Cancelled) => continue,
            done => done.err().map(|error| error.to_string()),
        };
        let before =
            std::mem::replace(&mut locked(&archiving.known).status.failure, failure.clone());
        match (before, failure) {
            (_, Some(reason)) => checkpoints.send(CheckpointEvent::ArchivingFailed(reason), None),
            (Some(_), None) => checkpoints.send(CheckpointEvent::ArchivingAgain, None),
            (None, None) => {}
        }
    }
}

/// The archive, if there is to be one. What was archived once must be there still: what is not may be
/// on a disk that is not mounted, and what is archived elsewhere would be missing in it. `Unusable`.
///
/// Nobody else writes to the database's part of it while the lock is held: two copies of a database that
/// looked at the same time would each find nothing of the other.
fn open(shared: &Shared, archiving: &Archiving) -> Result<Option<(Archive, DirLock)>> {
    let Some(path) = &archiving.path else { return Ok(None) };
    let was_archived = was_archived(&*shared.disk)?;
    let whole = std::path::absolute(path).ok();
    let has_parent = whole.as_deref().and_then(Path::parent).is_some_and(Path::is_dir);
    let may_be_made = has_parent && !was_archived;
    if !look_for(path)? && !may_be_made {
        let detail = format!(
            "the archive directory \"{}\" is not there, nor the folder \"{:032x}\" in it: is its disk \
             mounted?",
            path.display(),
            archiving.database
        );
        return Err(Error::Unusable { detail });
    }
    let disk = Arc::new(RealDisk::open(path, IoChoice::Threads)?);
    let archive = Archive::new(disk, archiving.database);
    if was_archived && !archive.is_there()? {
        return Err(archive.nothing());
    }
    let lock = lock(&path.join(archive.folder()), was_archived)?;
    Ok(Some((archive, lock)))
}

/// Locks the database's folder. If it was there before it is not made: its disk may go away at any moment,
/// until somebody has a file open in it.
fn lock(folder: &Path, was_archived: bool) -> Result<DirLock> {
    let folder = match was_archived {
        true => RealDisk::existing(folder),
        false => RealDisk::open(folder, IoChoice::Threads)?,
    };
    folder.lock("archives logs here")
}

/// Archives what there is, and lets go of it.
fn archive(
    shared: &Shared,
    hub: &Hub<Core>,
    checkpoints: &Checkpoints,
    archiving: &Archiving,
) -> Result<()> {
    let watch = &archiving.watch;
    let Some((archive, _lock)) = open(shared, archiving)? else { return Ok(()) };
    if !archiving.has_begun() {
        let copied = archive.begin(&*shared.disk, archiving.incarnation, watch)?;
        let mut known = locked(&archiving.known);
        known.status.segments += copied;
        known.has_begun = true;
    }
    let (manifest, wall_micros) = {
        let published = locked(&checkpoints.published);
        // One that an earlier incarnation made says nothing new.
        let Some(wall_micros) = published.wall_micros else { return Ok(()) };
        (published.manifest.clone(), wall_micros)
    };
    let Some(checkpoint) = &manifest.checkpoint else { return Ok(()) };
    let (number, cts) = (checkpoint.number, checkpoint.timestamp);
    // All commits below S were stable before it was published.
    let homes = (0..manifest.homes).map(HomeId);
    let ends = homes.map(|home| shared.marks.durable(home)).collect();
    let point = Point { cts, from_micros: wall_micros, wall_micros, ends, manifest };
    let whole = locked(&archiving.known).whole.clone();
    let done = archive.reach(&*shared.disk, &point, &whole, watch)?;
    {
        let mut known = locked(&archiving.known);
        known.status.segments += done.segments;
        known.status.checkpoint = number;
        known.whole = done.whole;
    }
    let mut published = locked(&checkpoints.published);
    checkpoints.remove_leftovers(&*shared.disk, &mut published);
    let logs = published.manifest.current().logs.iter().enumerate();
    let starts: Vec<_> = logs.map(|(home, span)| (HomeId(home as u16), span.start)).collect();
    drop(published);
    recycle(hub, checkpoints, starts.into_iter());
    Ok(())
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    /// Whoever looked for it a moment ago would find a new archive, and leave its logs where nobody sees them.
    #[test]
    fn a_folder_that_has_just_gone_is_not_made_by_locking_it() {
        let root = tempfile::tempdir().expect("there is room");
        let folder = root.path().join("archive/0123");
        assert!(lock(&folder, true).is_err());
        assert!(!root.path().join("archive").exists());
        let held = lock(&folder, false).expect("it can be made");
        assert!(lock(&folder, true).is_err());
        drop(held);
        assert!(lock(&folder, true).is_ok());
    }
}
