//! Picking the S of a checkpoint, and having every instance adopt it (rules 8.1, 8.6).
//!
//! Invariants: where a log is to be replayed from is noted before S is picked. S is registered as a snapshot and leaves
//! are listed before any instance adopts it. The catalog is that of S: if definitions were committed since, another S is
//! picked.

use rustc_hash::FxHashMap as HashMap;
use std::sync::Arc;

use super::super::core::{Context, Shared};
use super::ask::ask_all;
use super::shares::EndImaging;
use crate::base::{Cts, HomeId, LogPosition, Result};
use crate::catalog::Catalog;
use crate::runtime::Parker;
use crate::store::Term;
use crate::txn::CheckpointSnapshot;

/// What one instance answered when it adopted S.
pub(super) struct Adopted {
    pub home: HomeId,
    pub replay_from: LogPosition,
    pub last_cts: Cts,
}

/// What S a checkpoint is made of.
pub(super) struct Chosen<'a> {
    pub snapshot: Arc<CheckpointSnapshot>,
    pub catalog: Arc<Catalog>,
    pub adopted: Vec<Adopted>,
    pub imaging: EndImaging<'a>,
}

/// Picks S: registers it, lets every instance adopt it, and answers the catalog as of S. All commits
/// below S are in the logs, and finished or about to be; all others lie, with their chunks, behind
/// where replays begin, which was noted before S was picked.
pub(super) fn choose<'a>(
    context: &Context,
    shared: &'a Arc<Shared>,
    term: Term,
) -> Result<Chosen<'a>> {
    loop {
        // Before S is picked: what commits at or above it may be in a log before S is adopted there.
        let starts = ask_all(context, shared, |instance| {
            let core = &instance.state().inner;
            let from = core.txn.environment().log.segment_start(core.txn.replay_from());
            (HomeId(instance.id().0), from)
        })?;
        let starts: HashMap<HomeId, LogPosition> = starts.into_iter().collect();
        let snapshot = Arc::new(shared.txn.checkpoint_snapshot());
        let s = snapshot.view().timestamp;
        let imaging = EndImaging::begin(&shared.versions, s);
        let adopted = ask_all(context, shared, move |instance| {
            let core = &instance.state().inner;
            let log = &core.txn.environment().log;
            core.txn.adopt(s);
            core.txn.environment().versions.begin_imaging(s);
            if let Some(checkpoints) = &core.shared.checkpoints {
                core.covered.adopt(&checkpoints.due, term, log.end());
            }
            let home = HomeId(instance.id().0);
            Adopted { home, replay_from: starts[&home], last_cts: log.last_cts() }
        })?;
        let catalog = shared.published.newest();
        // Definitions that committed since: rare, so simply once more.
        if catalog.committed().is_none_or(|committed| committed.cts < s) {
            return Ok(Chosen { snapshot, catalog, adopted, imaging });
        }
        context.yield_now();
    }
}
