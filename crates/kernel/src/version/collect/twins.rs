//! Twin tables that are not needed any more: each leaf that got one is looked after by an instance.
//!
//! Invariants: a leaf comes up when the transactions that ended before it got its table are collected, and goes to the
//! back of the queue as long as the table has a live entry. Its heap bytes that are reserved for rows without live
//! records are given back, and the table is dropped when none is left. A leaf that is in use is tried again; nothing
//! waits, one leaf is latched at a time.

use std::collections::VecDeque;

use super::super::twin::{self, PageIs, Swept};
use super::{CollectLimit, Collected, InstanceVersions};
use crate::base::{Cts, Outcome};
use crate::buffer::{FrameRef, PageRead};

/// How far before its turn a leaf's twin table is fetched from memory; the leaf, twice as far.
const TWINS_AHEAD: usize = 4;
/// Bytes of a leaf that a sweep reads.
const TWIN_LEAF_BYTES: usize = 64;

impl InstanceVersions {
    /// Sweeps twin tables whose turn has come, about `twins_max`, and parked ones.
    pub(super) fn sweep_twins(&self, limit: CollectLimit, twins_max: usize, done: &mut Collected) {
        self.take_splits();
        let mut twins = self.twins.borrow_mut();
        let after = self.queued.get();
        for _ in 0..twins_max.min(twins.len()) {
            let Some(&twin) = twins.front() else { break };
            if twin.after > self.collected.get() || limit.horizon <= twin.horizon {
                break;
            }
            twins.pop_front();
            prefetch_twins(&twins);
            let leaf = twin.leaf;
            if !twin::has_table(leaf.side()) {
                continue;
            }
            // Whatever page is in the frame by now: its twin is looked after just the same.
            let again = match self.sweep_leaf(leaf) {
                Err(_) => twin,
                Ok(Swept::Gone) => {
                    done.twins += 1;
                    continue;
                }
                Ok(Swept::Needed) => Twin { leaf, after, horizon: limit.horizon },
            };
            twins.push_back(again);
        }
        drop(twins);
        done.twins += self.space.sweep_parked(self.instance, limit.horizon, twins_max);
    }

    /// Takes over the leaves whose twin tables anybody may look after.
    pub(in crate::version) fn take_splits(&self) {
        let after = self.queued.get();
        for leaf in self.space.take_split() {
            self.twins.borrow_mut().push_back(Twin { leaf, after, horizon: Cts::ZERO });
            self.list(leaf);
        }
    }

    /// The leaves whose twin tables this instance looks after; some have none any more.
    pub(in crate::version) fn leaves_with_twins(&self) -> VecDeque<FrameRef> {
        self.twins.borrow().iter().map(|twin| twin.leaf).collect()
    }

    /// Sweeps the twin table of the leaf that is in a frame. `Retry` if it is in use.
    fn sweep_leaf(&self, leaf: FrameRef) -> Outcome<Swept> {
        let read = PageRead::begin_cold(leaf)?;
        let clean = read.clean_place();
        let mut page = read.upgrade()?;
        let (swept, page_is) = self.space.sweep(&mut page);
        if swept == Swept::Gone {
            self.note_underfull(&page);
        }
        match (swept, page_is, clean) {
            // It lies on disk as it is, still: only its twin is gone.
            (Swept::Gone, PageIs::AsBefore, Some(place)) => drop(page.release_clean(place)),
            (Swept::Gone, ..) | (_, PageIs::Changed, Some(_)) => drop(page),
            (Swept::Needed, ..) => page.unchanged(),
        }
        Ok(swept)
    }
}

/// Fetches from memory what the sweep will look at soon: leaves that were left a while ago.
#[inline]
fn prefetch_twins(twins: &VecDeque<Twin>) {
    if let Some(twin) = twins.get(2 * TWINS_AHEAD) {
        twin.leaf.prefetch(TWIN_LEAF_BYTES);
    }
    if let Some(twin) = twins.get(TWINS_AHEAD) {
        twin::prefetch(twin.leaf.side());
    }
}

/// A leaf that had a twin table.
#[derive(Clone, Copy)]
pub(super) struct Twin {
    pub leaf: FrameRef,
    /// Looked at when this many transactions of the instance were collected ...
    pub after: u64,
    /// ... and the horizon is above this.
    pub horizon: Cts,
}
