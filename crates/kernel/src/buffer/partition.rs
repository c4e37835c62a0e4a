//! A home's part of the pool: its frames, which of them are free, and its PIDs.
//!
//! Invariants: a frame is in exactly one of: fresh, the free list, a reservation, a tree. The lock around [`Free`] is
//! the innermost but for that of the PIDs' extents: nothing else is taken or waited for inside.

use std::collections::BTreeSet;
use std::sync::OnceLock;
use std::thread::Thread;

use crossbeam_utils::CachePadded;

use super::FrameRef;
use super::directory::{Directory, Named};
use super::evict::Loads;
use super::memory::{Arena, Asks, Fresh};
use super::traffic::Traffic;
use crate::base::{Result, TreeId};
use crate::latch::SpinLock;
use crate::sync::PlainMutex as Mutex;

/// PIDs that a home takes from the shared allocator at once.
const EXTENT_PIDS: u64 = 256;

/// Frames of a partition that are kept for loads for which a thread is blocked, half of them for those
/// that cannot fail: one at a time is needed of these, for what was loaded so can be evicted when the next
/// is (surely.rs). The others may have to hold all that one step needs at the same time.
const KEPT_FRAMES: usize = 16;

struct Free {
    /// Indices of frames that were used and freed; the last freed is warm and goes out first.
    list: Vec<u32>,
    /// Those that were never used.
    fresh: Fresh,
    /// The rest of the current PID extent.
    pid_next: u64,
    pid_end: u64,
    /// PID numbers of freed pages, to be given again.
    pids: Vec<u64>,
    /// The state of the sequence by which frames are picked to be evicted.
    random: u64,
}

impl Free {
    fn count(&self) -> usize {
        self.list.len() + self.fresh.left() as usize
    }
}

pub(super) struct Partition {
    pub(super) arena: Arena,
    pub(super) frames: u32,
    free: CachePadded<SpinLock<Free>>,
    /// Who has the system give memory ahead of its use, if anybody does (memory/ahead.rs).
    ahead: OnceLock<Thread>,
    pub(super) traffic: CachePadded<Traffic>,
    /// This home's overflow pages, wherever their frames are.
    pub(super) overflow: Directory,
    /// Trees of which this home has overflow pages, or had. Taken for each long value written.
    pub(super) longs: Mutex<BTreeSet<TreeId>>,
    /// This home's pages that are being loaded, with those who wait for them.
    pub(super) loads: CachePadded<crate::sync::Mutex<Loads>>,
}

impl Partition {
    /// A partition of so many frames, all of them fresh. Error: `OutOfMemory` if the system refuses.
    pub fn new(frames: u32, named: Named) -> Result<Partition> {
        let free = Free {
            list: Vec::new(),
            fresh: Fresh::new(frames),
            pid_next: 0,
            pid_end: 0,
            pids: Vec::new(),
            random: 1,
        };
        Ok(Partition {
            arena: Arena::map(frames as usize)?,
            frames,
            free: CachePadded::new(SpinLock::new(free)),
            ahead: OnceLock::new(),
            traffic: CachePadded::default(),
            overflow: Directory::new(named),
            longs: Mutex::default(),
            loads: CachePadded::default(),
        })
    }

    /// Takes frames until `out` has `wanted`, or only `kept` are free.
    pub fn take(&self, wanted: usize, kept: usize, out: &mut Vec<FrameRef>) {
        let asks = self.free.with(|free| {
            while out.len() < wanted && free.count() > kept {
                let Some(index) = free.list.pop().or_else(|| free.fresh.take()) else { break };
                out.push(self.arena.frame(index as usize));
            }
            free.fresh.asks()
        });
        if asks == Asks::ForMemory
            && let Some(ahead) = self.ahead.get()
        {
            ahead.unpark();
        }
    }

    /// The frame of that index is free again.
    pub fn put_back(&self, index: u32) {
        self.free.with(|free| free.list.push(index));
    }

    /// How many frames are free.
    pub fn free_frames(&self) -> usize {
        self.free.with(|free| free.count())
    }

    /// A frame that was used before, each as likely as any other; none if none was.
    pub fn random_frame(&self) -> Option<FrameRef> {
        let index = self.free.with(|free| {
            free.random = free.random.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(1);
            let used = u64::from(free.fresh.next());
            (used > 0).then(|| (free.random >> 33) % used)
        })?;
        Some(self.arena.frame(index as usize))
    }

    /// A PID number that no page of this home has; `extents` is where the next come from.
    pub fn next_pid(&self, extents: &SpinLock<u64>) -> u64 {
        self.free.with(|free| {
            if let Some(number) = free.pids.pop() {
                return number;
            }
            if free.pid_next == free.pid_end {
                free.pid_next = extents.with(|next| {
                    *next += EXTENT_PIDS;
                    *next - EXTENT_PIDS
                });
                free.pid_end = free.pid_next + EXTENT_PIDS;
            }
            free.pid_next += 1;
            free.pid_next - 1
        })
    }

    /// No page has that PID number any more.
    pub fn put_back_pid(&self, number: u64) {
        self.free.with(|free| free.pids.push(number));
    }

    /// Says whom to wake when memory is to be asked for. Once.
    pub fn know_ahead(&self, thread: Thread) {
        let _ = self.ahead.set(thread);
    }

    /// What is done with the fresh frames under the lock: no more than a few instructions.
    pub fn with_fresh<R>(&self, body: impl FnOnce(&mut Fresh) -> R) -> R {
        self.free.with(|free| body(&mut free.fresh))
    }
}

/// Frames of a partition of so many that only loads get for which a thread is blocked.
pub(super) fn kept_of(frames: usize) -> usize {
    KEPT_FRAMES.min(frames / 8)
}
