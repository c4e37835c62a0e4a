//! What went in and out of memory: counts of the pool's partitions, for operators and tests.
//!
//! Invariants: counted where it happens, by whoever does it, and read by those who show it; nothing depends
//! on a count.

use super::pool::BufferPool;
use crate::base::HomeId;
use crate::page::PageKind;
use crate::sync::{AtomicU64, Ordering};

/// What went in and out of one partition, over the life of the pool.
#[derive(Default)]
pub(super) struct Traffic {
    pub loads: AtomicU64,
    pub evictions: AtomicU64,
    pub written: AtomicU64,
    pub inline: AtomicU64,
    pub blocking: AtomicU64,
    pub nodes_loaded: AtomicU64,
    pub nodes_evicted: AtomicU64,
}

/// What went in and out of memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PoolTraffic {
    /// Pages loaded: misses.
    pub loads: u64,
    /// Pages evicted.
    pub evictions: u64,
    /// Pages written so that they could be evicted, but for those of checkpoints.
    pub written: u64,
    /// Times that somebody who wanted frames had to evict pages himself.
    pub inline: u64,
    /// Loads for which a thread was blocked.
    pub blocking: u64,
    /// Loads that were of inner nodes.
    pub nodes_loaded: u64,
    /// Evictions that were of inner nodes.
    pub nodes_evicted: u64,
}

impl BufferPool {
    pub(super) fn traffic(&self, home: HomeId) -> &Traffic {
        &self.partition_of(home).traffic
    }

    /// The page provider has written so many pages.
    pub(super) fn note_provided(&self, home: HomeId, pages: u64) {
        self.traffic(home).written.fetch_add(pages, Ordering::Relaxed);
    }

    /// What went in and out of memory since the start.
    pub fn traffic_sum(&self) -> PoolTraffic {
        let homes = (0..self.homes()).map(|home| self.traffic_of(HomeId(home as u16)));
        homes.fold(PoolTraffic::default(), |sum, it| PoolTraffic {
            loads: sum.loads + it.loads,
            evictions: sum.evictions + it.evictions,
            written: sum.written + it.written,
            inline: sum.inline + it.inline,
            blocking: sum.blocking + it.blocking,
            nodes_loaded: sum.nodes_loaded + it.nodes_loaded,
            nodes_evicted: sum.nodes_evicted + it.nodes_evicted,
        })
    }

    /// What of one home's pages went in and out of memory since the start.
    pub fn traffic_of(&self, home: HomeId) -> PoolTraffic {
        let (of, traffic) = (|count: &AtomicU64| count.load(Ordering::Relaxed), self.traffic(home));
        PoolTraffic {
            loads: of(&traffic.loads),
            evictions: of(&traffic.evictions),
            written: of(&traffic.written),
            inline: of(&traffic.inline),
            blocking: of(&traffic.blocking),
            nodes_loaded: of(&traffic.nodes_loaded),
            nodes_evicted: of(&traffic.nodes_evicted),
        }
    }

    pub(super) fn note_loaded(&self, home: HomeId, kind: PageKind) {
        let traffic = self.traffic(home);
        traffic.loads.fetch_add(1, Ordering::Relaxed);
        if kind == PageKind::Inner {
            traffic.nodes_loaded.fetch_add(1, Ordering::Relaxed);
        }
    }

    pub(super) fn note_evicted(&self, home: HomeId, kind: Option<PageKind>) {
        let traffic = self.traffic(home);
        traffic.evictions.fetch_add(1, Ordering::Relaxed);
        if kind == Some(PageKind::Inner) {
            traffic.nodes_evicted.fetch_add(1, Ordering::Relaxed);
        }
        self.note_any_evicted();
    }
}
