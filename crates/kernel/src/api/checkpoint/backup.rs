//! Backups of a running database (rule 8.9).
//!
//! A checkpoint is made, and pinned with the logs behind it; its pages are copied, while
//! transactions go on; then a timestamp B is picked which all instances adopt, as for a checkpoint,
//! and the logs are copied as far as they are durable when all commits below B are. The copied logs
//! are cut at B and the manifest that says so is made last. So a backup is the database as of B:
//! everything that was acknowledged when the copying of logs began is below it.
//!
//! Invariants: files are copied by a thread of its own; the session's task waits beside it and can
//! be interrupted; who fails or is interrupted removes what was copied.

use std::path::Path;
use std::sync::{Arc, Mutex};

use super::super::core::{Context, Instance, Shared};
use super::super::session::Session;
use super::archiver::Archiving;
use super::ask::ask_all;
use super::versions::PinLogs;
use super::{PinnedCheckpoint, WhichCheckpoint, locked, wait_until_stable};
use crate::backup::{
    BACKUP_NAME, Point, Restore, Restored, Until, Watch, copy_begun, copy_logs, copy_pages,
};
use crate::base::{Cts, Error, HomeId, LogPosition, Observed, Result};
use crate::io::{DirLock, Disk, Entropy, IoChoice, LOCK_NAME, RealDisk, RealEntropy, look_for};
use crate::log::{CopiedLogs, CopiedPart, Leftovers, examine_below};
use crate::runtime::{Parker, UnparkClass, Unparker};
use crate::sync::Ordering;

/// How often the waiter looks whether it was interrupted, in nanoseconds.
const LOOK_NS: u64 = 20_000_000;

/// What a backup is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BackupReport {
    /// The number of its checkpoint.
    pub checkpoint: u64,
    /// B: it holds exactly the commits below.
    pub below: Cts,
    /// Pages copied.
    pub pages: u64,
    /// Bytes of pages copied.
    pub page_bytes: u64,
    /// Bytes of logs copied.
    pub log_bytes: u64,
    /// How long it took, with the checkpoint, in nanoseconds.
    pub elapsed_ns: u64,
}

/// Told of bytes copied, and bytes to be copied as far as is known; its error ends the backup.
type Progress<'a> = &'a mut dyn FnMut(u64, u64) -> Result<()>;

/// The directory that a backup is made in, locked: nobody else makes anything there, or opens what is not
/// finished.
struct Target {
    disk: Arc<RealDisk>,
    made: Option<std::path::PathBuf>,
    lock: Mutex<Option<DirLock>>,
}

impl Target {
    fn open(path: &Path) -> Result<Target> {
        let made = (!look_for(path)?).then(|| path.to_owned());
        let disk = Arc::new(RealDisk::open(path, IoChoice::Threads)?);
        // A lock that nobody holds is one that a killed process left.
        let check_empty = || match disk.list("")?.iter().any(|name| name != LOCK_NAME) {
            true => Err(Error::NotEmpty { path: path.display().to_string() }),
            false => Ok(()),
        };
        check_empty()?;
        let lock = disk.lock("is making a backup here")?;
        // Who was just done has let go of it.
        check_empty()?;
        Ok(Target { disk, made, lock: Mutex::new(Some(lock)) })
    }

    /// Leaves it as it was found.
    fn give_up(&self) {
        // What cannot be removed has no manifest and counts for nothing.
        let _ = self.disk.clear();
        drop(self.lock.lock().expect("no holder panics").take());
        if let Some(path) = &self.made {
            let _ = std::fs::remove_dir(path);
        }
    }
}

impl Session {
    /// Makes a backup of the running database in `directory`, which is empty or not there. May wait
    /// long; no latch is held. `progress` is told now and then of bytes copied and bytes to copy;
    /// its error ends the backup.
    /// Errors: `NotEmpty`, `DiskFull`, `Cancelled`, `CheckpointGivenUp`, `Corrupt` (with file and page), `Unusable` for a
    /// database in memory, `ShuttingDown`, `Io`: then what was copied is removed.
    pub fn backup(
        &self,
        context: &Context,
        directory: &Path,
        progress: Progress<'_>,
    ) -> Result<BackupReport> {
        let shared = context.instance().state().inner.shared.clone();
        if shared.checkpoints.is_none() {
            let detail = "a database in memory has no files to copy".to_owned();
            return Err(Error::Unusable { detail });
        }
        let began_ns = context.now_ns();
        let path = directory.to_owned();
        let watch = Arc::new(Watch::default());
        let open = move || Target::open(&path);
        let target = Arc::new(self.aside(context, &watch, &mut |_, _| Ok(()), open)?);
        let made = self.backup_into(context, &shared, (&target, &watch), progress);
        if made.is_err() {
            let target = target.clone();
            let give_up = move || {
                target.give_up();
                Ok(())
            };
            let unwatched = Arc::new(Watch::default());
            // It was interrupted already, perhaps; this ends all the same.
            let _ = self.aside(context, &unwatched, &mut |_, _| Ok(()), give_up);
        }
        made.map(|report| BackupReport { elapsed_ns: context.now_ns() - began_ns, ..report })
    }

    fn backup_into(
        &self,
        context: &Context,
        shared: &Arc<Shared>,
        (target, watch): (&Arc<Target>, &Arc<Watch>),
        progress: Progress<'_>,
    ) -> Result<BackupReport> {
        self.checkpoint(context)?;
        let pin = pin(shared)?;
        let time = context.instance().time().clone();
        let from_micros = time.wall_micros();
        let (to, pinned, seen) = (target.clone(), pin.clone(), watch.clone());
        let given_up = pin.given_up().clone();
        let mut watched = |done: u64, all: u64| match given_up.load(Ordering::Relaxed) {
            true => Err(Error::CheckpointGivenUp),
            false => progress(done, all),
        };
        let pages = self.aside(context, watch, &mut watched, move || {
            let (store, pages) = pinned.pages();
            copy_pages(store, (pages, pinned.manifest().database), &*to.disk, &seen)
        })?;
        let wall_micros = time.wall_micros();
        let homes = pin.manifest().homes;
        let (cts, ends) = complete(context, shared, homes)?;
        let manifest = pin.manifest().clone();
        let point = Point { cts, from_micros, wall_micros, ends, manifest };
        let archiving = shared.checkpoints.as_ref().and_then(|it| it.archiving.as_ref());
        let is_archiving = archiving.is_some_and(Archiving::keeps_logs);
        let (to, from, seen) = (target.clone(), shared.disk.clone(), watch.clone());
        let log_bytes = self.aside(context, watch, progress, move || {
            let disk: Arc<dyn Disk> = to.disk.clone();
            let bytes = copy_logs(&*from, &point.manifest, &point.ends, &*disk, &seen)?;
            if is_archiving {
                copy_begun(&*from, &*disk, point.incarnation())?;
            }
            finish(&disk, &point)?;
            Ok(bytes)
        })?;
        let (checkpoint, below) = (pin.number(), cts);
        let (pages, page_bytes) = (pages.pages, pages.bytes);
        Ok(BackupReport { checkpoint, below, pages, page_bytes, log_bytes, elapsed_ns: 0 })
    }

    /// Runs `work` in a thread of its own and waits for it. Interrupted, it cancels `watch`, waits
    /// still, and answers why.
    fn aside<T: Send + 'static>(
        &self,
        context: &Context,
        watch: &Watch,
        progress: Progress<'_>,
        work: impl FnOnce() -> Result<T> + Send + 'static,
    ) -> Result<T> {
        let answer = Arc::new(Answer { done: Mutex::new(None), waiter: context.unparker() });
        let answering = Answering(answer.clone());
        let thread = std::thread::Builder::new().name("atoll-backup".to_owned());
        let started = thread.spawn(move || {
            let done = work();
            *locked(&answering.0.done) = Some(done);
        });
        started.map_err(|error| Error::Io {
            what: "start a thread for a backup".to_owned(),
            errno: error.raw_os_error().unwrap_or(0),
        })?;
        let mut interrupted = None;
        loop {
            if let Some(done) = locked(&answer.done).take() {
                return interrupted.map_or(done, Err);
            }
            let (done, total) = watch.progress();
            let wanted = self.waiter(context).check().and_then(|()| progress(done, total));
            if let Err(error) = wanted
                && interrupted.is_none()
            {
                watch.cancel();
                interrupted = Some(error);
            }
            context.park(Some(context.now_ns() + LOOK_NS));
        }
    }
}

/// What a thread answers, and to whom.
struct Answer<T> {
    done: Mutex<Option<Result<T>>>,
    waiter: Unparker,
}

/// Held by the thread; dropping it answers, however it ended.
struct Answering<T>(Arc<Answer<T>>);

impl<T> Drop for Answering<T> {
    fn drop(&mut self) {
        let mut done = self.0.done.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        let lost = || Err(Error::Internal { detail: "a copying thread panicked".to_owned() });
        done.get_or_insert_with(lost);
        drop(done);
        self.0.waiter.unpark(UnparkClass::Io);
    }
}

/// Keeps the newest checkpoint, which this incarnation made, and the logs behind it.
fn pin(shared: &Shared) -> Result<PinnedCheckpoint> {
    let none = || Error::NotFound { what: "a checkpoint".to_owned() };
    let checkpoints = shared.checkpoints.as_ref().ok_or_else(none)?;
    let pin = checkpoints.pin(WhichCheckpoint::Newest, PinLogs::Keep)?;
    match pin.manifest().incarnations.len() {
        1 => Ok(pin),
        _ => Err(Error::Internal { detail: "an earlier incarnation's checkpoint".to_owned() }),
    }
}

/// Picks a timestamp and waits until every commit below it is durable, with all it depends on;
/// answers it and up to where each log is durable then.
fn complete(context: &Context, shared: &Shared, homes: u16) -> Result<(Cts, Vec<LogPosition>)> {
    // Registered, so that nothing below it is picked while it is adopted.
    let snapshot = shared.txn.outside_snapshot();
    let cts = snapshot.view().timestamp;
    let adopted = ask_all(context, shared, move |instance: &Instance| {
        let core = &instance.state().inner;
        core.txn.adopt(cts);
        let last = core.txn.environment().log.last_cts();
        Observed { home: HomeId(instance.id().0), cts: last }
    })?;
    drop(snapshot);
    wait_until_stable(context, shared, adopted)?;
    Ok((cts, (0..homes).map(|home| shared.marks.durable(HomeId(home))).collect()))
}

/// Verifies the copied logs, cuts them, and makes the directory a backup.
fn finish(disk: &Arc<dyn Disk>, point: &Point) -> Result<()> {
    let Point { manifest, cts, .. } = point;
    let parts = &[CopiedPart::up_to(point.ends.clone())];
    // Copies have the names of what they were copied from.
    let examined =
        examine_below(CopiedLogs { disk, manifest, parts, origin: &|_, _, _| None }, *cts)?;
    point.write(&**disk, "", BACKUP_NAME)?;
    examined.begin(disk, manifest.homes, manifest.clock_offset, Leftovers::All)?;
    Ok(())
}

/// Makes a database of a backup. What was begun and failed is removed.
pub(in crate::api) fn restore(
    backup: &Path,
    archive: Option<&Path>,
    target: &Path,
    until: Until,
) -> Result<Restored> {
    let existing = |path: &Path| match look_for(path)? && path.is_dir() {
        true => Ok(RealDisk::to_read(path)),
        false => Err(Error::NotFound { what: format!("directory \"{}\"", path.display()) }),
    };
    let backup = existing(backup)?;
    let archive = archive.map(existing).transpose()?;
    let target = Target::open(target)?;
    let how = Restore {
        backup: &backup,
        archive: archive.map(|disk| Arc::new(disk) as Arc<dyn Disk>),
        target: target.disk.clone(),
        until,
        database: u128::from(RealEntropy.u64()) << 64 | u128::from(RealEntropy.u64()),
    };
    let restored = crate::backup::restore(&how, &Watch::default());
    if restored.is_err() {
        target.give_up();
    }
    restored
}
