//! Long values in a checkpoint: their pages are written before all else, by all instances.
//!
//! Invariants: which values the checkpoint has is settled before the first page is written (`PageStore::hold_longs`), by
//! whoever makes it; each home's pages are written by one instance. Every instance looks at its own undo until the last
//! has written its pages, because the checkpoint holds all of it back meanwhile: an instance that would run out of
//! room gives the checkpoint up for all.

use std::sync::Arc;

use crate::base::{Error, HomeId, Result};
use crate::buffer::{BufferPool, ImageWriter, Turn, Written};
use crate::runtime::{InstanceState, Parker, TaskContext};
use crate::store::PageStore;
use crate::sync::{AtomicBool, AtomicUsize, Ordering};

/// How often an instance that has written its pages looks at its undo and at the others.
const LOOK_NS: u64 = 1_000_000;

/// What the instances know of each other.
pub struct LongShares {
    /// Instances that have not written their pages. Counted down by each (release), read by those that wait (acquire).
    left: AtomicUsize,
    /// Whether one has given up. Written by it (release), read by the others (acquire), who give up, too.
    has_failed: AtomicBool,
}

impl LongShares {
    /// Of so many instances.
    pub fn new(instances: usize) -> LongShares {
        LongShares { left: AtomicUsize::new(instances), has_failed: AtomicBool::new(false) }
    }
}

/// One instance's share; others hear of it however it ends.
struct OwnShare<'a> {
    shares: &'a LongShares,
    is_counted: bool,
    has_succeeded: bool,
}

impl OwnShare<'_> {
    fn count(&mut self) {
        if !std::mem::replace(&mut self.is_counted, true) {
            self.shares.left.fetch_sub(1, Ordering::AcqRel);
        }
    }
}

impl Drop for OwnShare<'_> {
    fn drop(&mut self) {
        if !self.has_succeeded {
            self.shares.has_failed.store(true, Ordering::Release);
        }
        self.count();
    }
}

/// Where pages are, in memory and on disk.
pub type Pages<'a> = (&'a BufferPool, &'a Arc<PageStore>);

/// Writes the pages of complete long values that are `homes`' and do not lie on disk, and waits until all instances have
/// written theirs. To be called when the checkpoint has taken the values in (`PageStore::hold_longs`) and S holds
/// all undo back still, so that all that it sees are alive; afterwards they may be freed: they are on disk, and the
/// checkpoint has their places. `may_go_on` looks at the own undo. `DiskFull`, `Io`, `ShuttingDown`, errors of
/// `may_go_on`; `Internal` if another instance has failed.
pub fn write_long_values<S: InstanceState>(
    context: &TaskContext<S>,
    (pool, store): Pages<'_>,
    turn: &Turn,
    (shares, homes): (&LongShares, impl Iterator<Item = HomeId>),
    may_go_on: &dyn Fn() -> Result<()>,
) -> Result<Written> {
    let mut own = OwnShare { shares, is_counted: false, has_succeeded: false };
    let goes_on = || {
        may_go_on()?;
        if context.instance().is_stopping() {
            return Err(Error::ShuttingDown);
        }
        if shares.has_failed.load(Ordering::Acquire) {
            let detail = "another instance could not write its long values".to_owned();
            return Err(Error::Internal { detail });
        }
        // Else another goes on in its place.
        Ok(store.is_making(turn.term))
    };
    let mut written = Written::default();
    for home in homes {
        let mut writer = ImageWriter::new(context, store.clone(), turn.clone(), home);
        writer.write_longs(pool, pool.overflow_pages_of(home).collect(), &goes_on)?;
        written.pages += writer.written.pages;
        written.writes += writer.written.writes;
    }
    own.count();
    while shares.left.load(Ordering::Acquire) > 0 && goes_on()? {
        context.park(Some(context.now_ns() + LOOK_NS));
    }
    own.has_succeeded = true;
    Ok(written)
}
