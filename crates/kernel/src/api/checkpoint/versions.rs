//! The Global Version Table: published checkpoints that somebody reads or copies (rules 8.5, 8.6, 8.9).
//!
//! A [`PinnedCheckpoint`] keeps one checkpoint's pages where they are, whatever is published later,
//! and if asked for the logs from where its replay begins. Pinning takes the mutex under which
//! checkpoints are published, for a moment; readers of a pinned one take nothing.
//!
//! What is kept for pinned checkpoints alone has a limit (rule 8.7): above it the oldest is given up, and
//! fails those who have it at their next step.
//!
//! Invariants: what is pinned is the published checkpoint at that moment, or one that is pinned
//! already; the last who lets go of it frees its frames, then its places, holding no mutex of this
//! module. Views are opened by one task, others wait beside it.

use rustc_hash::FxHashMap as HashMap;
use std::sync::{Arc, Mutex, TryLockError, Weak};

use super::super::core::{Context, Core, Instance, Shared};
use super::{Checkpoints, locked};
use crate::base::{Cts, Error, HomeId, InstanceId, LogPosition, PAGE_BYTES, Result, TreeId};
use crate::log::manifest::{Checkpoint, Manifest};
use crate::recovery::{CheckpointView, Places, view};
use crate::runtime::{Hub, Parker};
use crate::store::{PageStore, PinId};
use crate::sync::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering, mutant};
use crate::tree::table::SideTables;

/// How often it is looked whether another task has opened a view.
const OPENED_NS: u64 = 50_000;

/// What may be kept for pinned checkpoints alone, however little the data takes.
const PIN_BYTES_LEAST: u64 = 1 << 30;

/// Of so many frames at most one is a root of a checkpoint that is read.
const ROOTS_SHARE: usize = 8;

/// Which checkpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WhichCheckpoint {
    /// The one that was published last.
    Newest,
    /// The one with this number: the newest, or one that is pinned.
    Number(u64),
}

/// All checkpoints that are pinned.
#[derive(Default)]
pub(super) struct Versions {
    pinned: Mutex<Vec<Weak<Version>>>,
    logs: Mutex<Vec<Weak<LogsKept>>>,
    pins: AtomicU64,
    given_up: AtomicU64,
    trees: AtomicU32,
    // Roots of all views; each keeps a frame.
    roots: Arc<AtomicUsize>,
}

/// One checkpoint that is pinned.
struct Version {
    number: u64,
    manifest: Manifest,
    store: Arc<PageStore>,
    pin: PinId,
    view: Mutex<Option<Arc<CheckpointView>>>,
    roots: Arc<AtomicUsize>,
    // Whoever has it is to let go of it.
    given_up: Arc<AtomicBool>,
}

impl Version {
    fn trees(&self) -> usize {
        self.manifest.checkpoint.as_ref().map_or(0, |it| it.trees.len())
    }
}

impl Drop for Version {
    fn drop(&mut self) {
        // Its frames go before its places do.
        if locked(&self.view).take().is_some() {
            self.roots.fetch_sub(self.trees(), Ordering::Relaxed);
        }
        self.store.unpin(self.pin);
    }
}

/// Where the logs that are kept begin.
struct LogsKept(HashMap<HomeId, LogPosition>);

/// A checkpoint that stays as it is while this, or a clone, lives.
#[derive(Clone)]
pub struct PinnedCheckpoint {
    version: Arc<Version>,
    // Keeps the logs from where its replay begins.
    _logs: Option<Arc<LogsKept>>,
}

impl PinnedCheckpoint {
    /// The manifest that published it: with what follows in the logs it says, it is the database.
    pub(crate) fn manifest(&self) -> &Manifest {
        &self.version.manifest
    }

    /// Its pages on disk.
    pub(super) fn pages(&self) -> (&Arc<PageStore>, PinId) {
        (&self.version.store, self.version.pin)
    }

    fn checkpoint(&self) -> &Checkpoint {
        self.manifest().checkpoint.as_ref().expect("only manifests with one are pinned")
    }

    /// Its number.
    pub fn number(&self) -> u64 {
        self.version.number
    }

    /// Says when too much is kept for it: then whoever has it is to let go of it. Until he does, it is
    /// as it was.
    pub(in crate::api) fn given_up(&self) -> &Arc<AtomicBool> {
        &self.version.given_up
    }

    /// S: it holds exactly the commits below.
    pub fn timestamp(&self) -> Cts {
        self.checkpoint().timestamp
    }

    /// The catalog and the trees as of S. Blocks the thread when it is the first to ask; else it may
    /// wait. `Corrupt`, `Io`, `OutOfMemory`.
    pub(in crate::api) fn view(
        &self,
        context: &Context,
        shared: &Shared,
    ) -> Result<Arc<CheckpointView>> {
        let mut held = loop {
            match self.version.view.try_lock() {
                Ok(held) => break held,
                // Whoever panicked has opened nothing.
                Err(TryLockError::Poisoned(held)) => break held.into_inner(),
                Err(TryLockError::WouldBlock) => {
                    context.park(Some(context.now_ns() + OPENED_NS));
                }
            }
        };
        if let Some(view) = &*held {
            return Ok(view.clone());
        }
        let checkpoints = shared.checkpoints.as_ref().expect("it has pinned this one");
        let sides: Arc<dyn SideTables> = shared.versions.clone();
        let homes = shared.pool.homes() as u16;
        let places =
            Places { store: &self.version.store, pool: &shared.pool, sides: &sides, homes };
        let trees = &checkpoints.versions.trees;
        let mut new_tree = || TreeId::of_view(trees.fetch_add(1, Ordering::Relaxed));
        // Roots stay in memory while the view lives.
        let roots = self.version.trees();
        let all = self.version.roots.fetch_add(roots, Ordering::Relaxed) + roots;
        let none = || {
            self.version.roots.fetch_sub(roots, Ordering::Relaxed);
        };
        if all > shared.pool.frames() / ROOTS_SHARE {
            none();
            return Err(Error::OutOfMemory { what: "buffer pool, for reading a checkpoint" });
        }
        let versions = (&shared.versions, shared.new_private_version());
        let opened = view(self.checkpoint(), places, versions, &mut new_tree);
        let opened = Arc::new(opened.inspect_err(|_| none())?);
        *held = Some(opened.clone());
        Ok(opened)
    }
}

/// Whether the logs behind a pinned checkpoint are kept, too.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::api) enum PinLogs {
    /// From where its replay begins.
    Keep,
    /// They are used again.
    No,
}

impl Shared {
    /// Keeps a checkpoint as it is, to be read. `NotFound`.
    pub(in crate::api) fn pin_checkpoint(
        &self,
        which: WhichCheckpoint,
    ) -> Result<PinnedCheckpoint> {
        match &self.checkpoints {
            Some(checkpoints) => checkpoints.pin(which, PinLogs::No),
            None => {
                Err(Error::NotFound { what: "a checkpoint (the database is in memory)".to_owned() })
            }
        }
    }
}

impl Checkpoints {
    /// Keeps a checkpoint as it is while the answer lives. `NotFound` if there is none, or not this
    /// one any more.
    pub(in crate::api) fn pin(
        &self,
        which: WhichCheckpoint,
        logs: PinLogs,
    ) -> Result<PinnedCheckpoint> {
        // Dropped when nothing is held: one of them may be the last.
        let known: Vec<Arc<Version>>;
        // Nothing is published meanwhile, so no log is used again either.
        let published = locked(&self.published);
        let newest = published.manifest.checkpoint.as_ref().map(|it| it.number);
        let what = match which {
            WhichCheckpoint::Newest => "a checkpoint".to_owned(),
            WhichCheckpoint::Number(number) => format!("checkpoint {number}"),
        };
        let not_found = || Error::NotFound { what: what.clone() };
        let number = match which {
            WhichCheckpoint::Newest => newest.ok_or_else(not_found)?,
            WhichCheckpoint::Number(number) => number,
        };
        let mut pinned = locked(&self.versions.pinned);
        pinned.retain(|version| version.strong_count() > 0);
        known = pinned.iter().filter_map(Weak::upgrade).collect();
        let version = match known.iter().find(|it| it.number == number) {
            Some(version) if version.given_up.load(Ordering::Relaxed) => {
                return Err(Error::CheckpointGivenUp);
            }
            Some(version) => version.clone(),
            None if newest == Some(number) => {
                let pin = PinId(self.versions.pins.fetch_add(1, Ordering::Relaxed));
                self.store.pin(pin);
                let (manifest, store) = (published.manifest.clone(), self.store.clone());
                let (view, roots) = (Mutex::default(), self.versions.roots.clone());
                let given_up = Arc::default();
                let version = Version { number, manifest, store, pin, view, roots, given_up };
                let version = Arc::new(version);
                pinned.push(Arc::downgrade(&version));
                version
            }
            None => return Err(not_found()),
        };
        let logs = (logs == PinLogs::Keep).then(|| {
            let spans = version.manifest.current().logs.iter().enumerate();
            let starts = spans.map(|(home, span)| (HomeId(home as u16), span.start));
            let kept = Arc::new(LogsKept(starts.collect()));
            let mut logs = locked(&self.versions.logs);
            logs.retain(|kept| kept.strong_count() > 0);
            logs.push(Arc::downgrade(&kept));
            kept
        });
        Ok(PinnedCheckpoint { version, _logs: logs })
    }

    /// Gives up the oldest pinned checkpoints while more is kept for pinned ones alone than
    /// `Options::checkpoint_pin_bytes` says (rule 8.7). Called when one was published, which alone lets
    /// this grow.
    pub(super) fn keep_pins_within(&self, pin_bytes: u64) {
        let mut known = self.known();
        known.retain(|version| !version.given_up.load(Ordering::Relaxed));
        if known.is_empty() || mutant("pins-without-limit") {
            return;
        }
        known.sort_by_key(|version| version.number);
        let pins: Vec<PinId> = known.iter().map(|version| version.pin).collect();
        let bytes_max = match pin_bytes {
            0 => (self.store.stats().live() * PAGE_BYTES as u64).max(PIN_BYTES_LEAST),
            bytes => bytes,
        };
        for (at, version) in known.iter().enumerate() {
            if self.store.kept_for(&pins[at..]) * PAGE_BYTES as u64 <= bytes_max {
                return;
            }
            // Relaxed: those who have it see it in their next step; nothing goes before they let go.
            version.given_up.store(true, Ordering::Relaxed);
            self.versions.given_up.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// The checkpoints that are pinned. To be dropped when nothing is held: one may be the last.
    fn known(&self) -> Vec<Arc<Version>> {
        locked(&self.versions.pinned).iter().filter_map(Weak::upgrade).collect()
    }

    /// How many pinned checkpoints were given up.
    pub(super) fn given_up(&self) -> u64 {
        self.versions.given_up.load(Ordering::Relaxed)
    }

    /// The numbers of the checkpoints that are pinned, each with how many have it.
    pub fn pinned(&self) -> Vec<(u64, usize)> {
        self.known().iter().map(|it| (it.number, Arc::strong_count(it) - 1)).collect()
    }

    /// From where on the log of `home` must be kept, if `from` is where replays begin.
    pub(super) fn log_kept_from(&self, home: HomeId, from: LogPosition) -> LogPosition {
        let logs = locked(&self.versions.logs);
        let archived = self.archiving.as_ref().map(|archiving| archiving.archived(home));
        let from = archived.map_or(from, |archived| archived.min(from));
        let kept = logs.iter().filter_map(Weak::upgrade).filter_map(|it| it.0.get(&home).copied());
        kept.fold(from, LogPosition::min)
    }

    /// Whether somebody needs logs of earlier incarnations, or may.
    pub(super) fn are_logs_kept(&self) -> bool {
        locked(&self.versions.logs).iter().any(|kept| kept.strong_count() > 0)
    }
}

/// Segments below the replays' beginnings may be used again, if nobody copies them (rule 8.7).
pub(super) fn recycle(
    hub: &Hub<Core>,
    checkpoints: &Checkpoints,
    starts: impl Iterator<Item = (HomeId, LogPosition)>,
) {
    for (home, replay_from) in starts.filter(|(home, _)| usize::from(home.0) < hub.instances()) {
        let from = checkpoints.log_kept_from(home, replay_from);
        let recycle = move |instance: &Instance| {
            instance.state().inner.txn.environment().log.recycle_below(from);
        };
        hub.send(InstanceId(home.0), Box::new(recycle));
    }
}
