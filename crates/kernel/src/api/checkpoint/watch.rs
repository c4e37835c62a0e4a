//! Checkpoints as sessions see them: asking for one, and what became of all.
//!
//! Invariants: who asks waits beside the checkpoint, not in it: a session that is interrupted stops
//! waiting, and a checkpoint that was begun goes on. One that was not begun yet never is, if nobody
//! else wants it. Looking takes short mutexes only, none of them held over a write.

use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::super::core::{Context, Instance, Shared};
use super::super::session::Session;
use super::archiver::Archiving;
use super::{ArchiveStatus, CheckpointCounters, CheckpointReport, checkpoint};
use crate::base::{Error, Result};
use crate::runtime::{Class, Parker, UnparkClass, Unparker};
use crate::store::SpaceStats;

/// How often the waiter looks whether it was interrupted, in nanoseconds.
const LOOK_NS: u64 = 20_000_000;

/// A checkpoint that a session waits for.
struct Wish {
    state: Mutex<State>,
    waiter: Unparker,
}

#[derive(Default)]
struct State {
    is_given_up: bool,
    made: Option<Result<Option<CheckpointReport>>>,
}

impl Wish {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The task that makes it; dropping it answers, however it ended.
struct Maker(Arc<Wish>);

impl Drop for Maker {
    fn drop(&mut self) {
        let lost = || {
            let detail = "the checkpoint ended without an answer".to_owned();
            Err(Error::Internal { detail })
        };
        self.0.state().made.get_or_insert_with(lost);
        self.0.waiter.unpark(UnparkClass::Io);
    }
}

impl Session {
    /// Makes a checkpoint that begins after the call, or waits for another's that does; answers
    /// when it is published. None for a database in memory. May wait; no latch is held. Errors:
    /// `Cancelled` (what was begun goes on), `ShuttingDown`, and what kept it from being published.
    pub fn checkpoint(&self, context: &Context) -> Result<Option<CheckpointReport>> {
        let wish = Arc::new(Wish { state: Mutex::default(), waiter: context.unparker() });
        let maker = Maker(wish.clone());
        context.instance().spawn(Class::System, move |context: &Context| {
            let made = checkpoint(context, || !maker.0.state().is_given_up);
            maker.0.state().made = Some(made);
        });
        loop {
            if let Some(made) = wish.state().made.take() {
                return made;
            }
            if let Err(error) = self.waiter(context).check() {
                wish.state().is_given_up = true;
                return Err(error);
            }
            let look_ns = context.now_ns() + LOOK_NS;
            context.park(Some(self.deadline_ns.map_or(look_ns, |deadline| deadline.min(look_ns))));
        }
    }
}

/// What became of a database's checkpoints, and the disk space of its pages.
#[derive(Clone, Debug)]
pub struct CheckpointStatus {
    /// Counts over the life of the process.
    pub counters: CheckpointCounters,
    /// Pages on disk.
    pub space: SpaceStats,
    /// Whether one is being made.
    pub is_running: bool,
    /// Checkpoints that are pinned, each with how many have it.
    pub pinned: Vec<(u64, usize)>,
    /// How many pinned ones were given up, because too much was kept for them.
    pub given_up: u64,
    /// What became of archiving; none if logs are neither archived nor kept for that.
    pub archive: Option<ArchiveStatus>,
}

/// A look at a database's checkpoints from one of its instances, without waiting. Keeps the
/// database's directory locked while it lives.
#[derive(Clone)]
pub struct CheckpointWatch {
    shared: Arc<Shared>,
}

impl CheckpointWatch {
    /// Of this instance's database.
    pub fn new(instance: &Instance) -> CheckpointWatch {
        CheckpointWatch { shared: instance.state().inner.shared.clone() }
    }

    /// What is known now; none for a database in memory.
    pub fn status(&self) -> Option<CheckpointStatus> {
        let checkpoints = self.shared.checkpoints.as_ref()?;
        Some(CheckpointStatus {
            counters: checkpoints.counters(),
            space: checkpoints.store().stats(),
            is_running: checkpoints.is_running(),
            pinned: checkpoints.pinned(),
            given_up: checkpoints.given_up(),
            archive: checkpoints.archiving.as_ref().map(Archiving::status),
        })
    }

    /// The option `archive_directory`.
    pub fn archive_directory(&self) -> Option<&Path> {
        self.shared.options.archive_directory.as_deref()
    }

    /// The option `checkpoint_interval_ms`.
    pub fn interval_ms(&self) -> u64 {
        self.shared.options.checkpoint_interval_ms
    }

    /// The option `checkpoint_pin_bytes`.
    pub fn pin_bytes(&self) -> u64 {
        self.shared.options.checkpoint_pin_bytes
    }

    /// The option `checkpoint_wal_bytes`.
    pub fn wal_bytes(&self) -> u64 {
        self.shared.options.checkpoint_wal_bytes
    }
}
