//! Numbers about a running database, summed over its instances.

use std::sync::Arc;

use super::checkpoint::CheckpointCounters;
use super::core::{Core, Instance, Shared};
use crate::base::{HomeId, InstanceId, Unread};
use crate::buffer::{PoolStats, PoolTraffic};
use crate::log::LogCounters;
use crate::store::SpaceStats;
use crate::txn::TxnCounters;

/// Counters since the start.
#[derive(Clone, Debug)]
pub struct Metrics {
    /// Of each instance's transactions.
    pub transactions: Vec<TxnCounters>,
    /// Of each instance's log.
    pub logs: Vec<LogCounters>,
    /// Bytes of undo that each instance holds.
    pub undo_bytes: Vec<u64>,
    /// Frames of the buffer pool.
    pub pool: PoolStats,
    /// What went in and out of the pool.
    pub traffic: PoolTraffic,
    /// Pages on disk; none for a database in memory.
    pub store: Option<SpaceStats>,
    /// Checkpoints; none for a database in memory.
    pub checkpoints: Option<CheckpointCounters>,
    /// What could not be read when it was freed, or found to be nobody's; the pages behind it may stay in use.
    pub unread: Unread,
}

impl Metrics {
    /// Commits per flush, over all instances; 0 before the first flush.
    pub fn commits_per_flush(&self) -> f64 {
        let flushes: u64 = self.logs.iter().map(|log| log.flushes).sum();
        let commits: u64 = self.logs.iter().map(|log| log.commits).sum();
        if flushes == 0 { 0.0 } else { commits as f64 / flushes as f64 }
    }
}

impl Core {
    /// What this instance's transactions and log have done since the start: for whoever runs the
    /// instances by hand and cannot wait for [`super::Database::metrics`].
    pub fn counters(&self) -> (TxnCounters, LogCounters) {
        let txn = &self.inner.txn;
        (txn.counters(), txn.environment().log.counters())
    }
}

/// One home's part of the memory.
#[derive(Clone, Copy, Debug)]
pub struct MemoryPart {
    /// Frames, each with a page.
    pub frames: usize,
    /// Those that are free.
    pub free: usize,
    /// What went in and out of memory since the start.
    pub traffic: PoolTraffic,
    /// Bytes that undo has taken: the most that it ever needed, for it is used again and not given back.
    pub undo_bytes: u64,
}

/// A look at a database's memory from one of its instances, without waiting. Keeps the database's
/// directory locked while it lives.
#[derive(Clone)]
pub struct MemoryWatch {
    shared: Arc<Shared>,
}

impl MemoryWatch {
    /// Of this instance's database.
    pub fn new(instance: &Instance) -> MemoryWatch {
        MemoryWatch { shared: instance.state().inner.shared.clone() }
    }

    /// Its parts, by home.
    pub fn parts(&self) -> Vec<MemoryPart> {
        let Shared { pool, versions, .. } = &*self.shared;
        let part = |home: HomeId| {
            let (frames, free) = pool.frames_of(home);
            let undo_bytes = versions.undo_allocated_bytes(InstanceId(home.0));
            MemoryPart { frames, free, traffic: pool.traffic_of(home), undo_bytes }
        };
        (0..pool.homes()).map(|home| part(HomeId(home as u16))).collect()
    }
}
