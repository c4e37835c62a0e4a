//! Memory ahead of its use: threads that have the system find and clear memory for frames that were never used,
//! shortly before somebody uses them.
//!
//! The system gives memory when it is written first, 2 MB at once, and clears it: up to milliseconds in a virtual
//! machine, in which an instance would stand still with everything that waits for it. A database that grows would have that as its p99.
//!
//! Invariants: nothing here changes a byte of a frame, and nobody waits for it: a frame that has no memory yet is taken as ever, and its
//! memory comes when it is written. How much is asked for ahead grows with what is used ([`lead`]), so that a small database stays
//! small. A partition's lock is held for a look at its fresh frames, never while the system works; the thread is nice, for it would keep an
//! instance on its processor waiting for a time slice with each wake-up.
//!
//! **No asking is lost.** In one critical section of the partition's lock its thread sees that enough is ready, and notes the frame that
//! asks ([`Fresh::due`]). Frames taken before are in what it saw; who takes that frame later unparks it ([`Fresh::asks`]), and an
//! `unpark` before `park` is not lost, either. Who asks takes the note away, so that a thread is woken once for half a lead. Modelled in
//! `loom_ahead.rs`.
//!
//! Sharing: a note in the line that the lock guards, read for each page allocated; a wake-up in half a lead, 64 pages at least.

use std::ops::Range;
use std::sync::Arc;
use std::thread::JoinHandle;

use crate::base::{Error, Result};
use crate::buffer::pool::BufferPool;
use crate::runtime::stand_back;
use crate::sync::{AtomicBool, Ordering, mutant};

/// Frames that are made ready between two looks: 2 MB, which the system gives at once.
const STEP_FRAMES: u32 = if cfg!(loom) { 2 } else { 128 };
/// At most so many frames are ready ahead, 16 MB: a tenth of a second of inserting as fast as one core can.
const LEAD_MAX_FRAMES: u32 = 8 * STEP_FRAMES;
/// A partition with fewer frames is left alone.
const WORTHWHILE_FRAMES: u32 = LEAD_MAX_FRAMES;
/// Partitions that one thread looks after. The system clears some GB a second on one processor.
const PARTITIONS_A_THREAD: usize = 8;
/// No fresh frame asks.
const NOBODY: u32 = u32::MAX;

/// A partition's frames that were never used, in the order in which they will be.
pub(in crate::buffer) struct Fresh {
    next: u32,
    end: u32,
    /// Who takes this frame, or one behind it, asks for memory.
    asks_at: u32,
    is_left_alone: bool,
}

/// What who has taken frames is to do.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(in crate::buffer) enum Asks {
    Nothing,
    /// Wake the thread that sees to memory.
    ForMemory,
}

impl Fresh {
    /// All of so many frames.
    pub fn new(frames: u32) -> Fresh {
        Fresh { next: 0, end: frames, asks_at: NOBODY, is_left_alone: false }
    }

    /// The next one, which is used from now on.
    pub fn take(&mut self) -> Option<u32> {
        let index = self.next;
        (index < self.end).then(|| {
            self.next += 1;
            index
        })
    }

    /// How many there are.
    pub fn left(&self) -> u32 {
        self.end - self.next
    }

    /// The first of them; all frames before it were used.
    pub fn next(&self) -> u32 {
        self.next
    }

    /// Whether frames were taken that ask. Says so once, until the thread has looked again.
    pub fn asks(&mut self) -> Asks {
        if self.next <= self.asks_at {
            return Asks::Nothing;
        }
        self.asks_at = NOBODY;
        Asks::ForMemory
    }

    /// Nobody is to ask for memory ahead.
    pub fn leave_alone(&mut self) {
        self.is_left_alone = true;
        self.asks_at = NOBODY;
    }

    /// The thread's look, when memory for all frames before `ready` was given: those whose turn it is now. None: enough is ready, and
    /// whoever uses up half of the lead will ask.
    pub fn due(&mut self, ready: u32) -> Option<Range<u32>> {
        if self.is_left_alone {
            return None;
        }
        // The instance may have overtaken its thread.
        let from = ready.max(self.next);
        let lead = lead(self.next);
        if from < self.end && from < self.next.saturating_add(lead) {
            return Some(from..from.saturating_add(STEP_FRAMES).min(self.end));
        }
        let is_last = from == self.end || mutant("memory-not-asked-for-again") && self.next > 0;
        self.asks_at = if is_last { NOBODY } else { from - lead / 2 };
        None
    }
}

/// Frames that are to be ready when so many are used: an eighth of these.
fn lead(used: u32) -> u32 {
    (used / 8).clamp(STEP_FRAMES, LEAD_MAX_FRAMES)
}

/// The threads that see to a pool's memory. They end when this is dropped.
pub struct MemoryAhead {
    stops: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
}

impl MemoryAhead {
    /// Starts them, one for eight partitions, if the pool's partitions are large enough to be worth it. Once for a pool.
    /// Error: `Unusable` if the system gives no thread.
    pub fn start(pool: &Arc<BufferPool>) -> Result<MemoryAhead> {
        let mut ahead =
            MemoryAhead { stops: Arc::new(AtomicBool::new(false)), threads: Vec::new() };
        if pool.partitions().iter().all(|it| it.frames < WORTHWHILE_FRAMES) {
            return Ok(ahead);
        }
        for first in (0..pool.homes()).step_by(PARTITIONS_A_THREAD) {
            let homes = first..pool.homes().min(first + PARTITIONS_A_THREAD);
            let (pool, stops) = (pool.clone(), ahead.stops.clone());
            let thread = std::thread::Builder::new()
                .name("atoll-memory".to_owned())
                .spawn(move || keep_ahead(&pool, homes, &stops))
                .map_err(|error| Error::Unusable {
                    detail: format!("no thread for memory: {error}"),
                })?;
            ahead.threads.push(thread);
        }
        Ok(ahead)
    }
}

impl Drop for MemoryAhead {
    fn drop(&mut self) {
        // Relaxed: `unpark` releases, and `park` acquires.
        self.stops.store(true, Ordering::Relaxed);
        for thread in self.threads.drain(..) {
            thread.thread().unpark();
            let _ = thread.join();
        }
    }
}

/// A thread's life, behind the instances' where processors are short: memory for the partitions of `homes`, in turns, while
/// any is due; then it sleeps until one asks.
fn keep_ahead(pool: &BufferPool, homes: Range<usize>, stops: &AtomicBool) {
    stand_back();
    let partitions = &pool.partitions()[homes];
    for partition in partitions {
        partition.know_ahead(std::thread::current());
    }
    let mut ready = vec![0; partitions.len()];
    while !stops.load(Ordering::Relaxed) {
        let mut is_any_due = false;
        for (partition, ready) in partitions.iter().zip(&mut ready) {
            if let Some(due) = partition.with_fresh(|fresh| fresh.due(*ready)) {
                *ready = due.end;
                // The system may have none, or be too old to be asked: it is as if nobody had.
                match partition.arena.populate(due) {
                    Ok(()) => is_any_due = true,
                    Err(_) => *ready = partition.frames,
                }
            }
        }
        if !is_any_due {
            std::thread::park();
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::base::{HomeId, PAGE_BYTES};
    use crate::buffer::frame::FRAME_BYTES;

    #[test]
    fn what_is_ready_grows_with_what_is_used_up_to_a_limit() {
        let mut fresh = Fresh::new(100_000);
        let mut ready = 0;
        let mut leads = Vec::new();
        let mut look = |fresh: &mut Fresh| {
            while let Some(due) = fresh.due(ready) {
                assert_eq!(due.start, ready, "nothing is left out");
                assert!(due.end <= fresh.end);
                ready = due.end;
            }
            leads.push(ready - fresh.next());
            ready
        };
        let mut ready_at_last = look(&mut fresh);
        while let Some(index) = fresh.take() {
            assert!(ready_at_last > index, "frame {index} has its memory before it is taken");
            if fresh.asks() == Asks::ForMemory {
                ready_at_last = look(&mut fresh);
            }
        }
        assert_eq!(ready_at_last, 100_000);
        let most = leads.iter().max().unwrap();
        assert!((LEAD_MAX_FRAMES..LEAD_MAX_FRAMES + STEP_FRAMES).contains(most), "{most}");
        assert!(leads[0] < 2 * STEP_FRAMES, "{leads:?}");
        assert!(leads.len() < 100_000 / (LEAD_MAX_FRAMES as usize / 2) + 40, "{}", leads.len());
    }

    #[test]
    fn who_was_overtaken_goes_on_where_frames_are_fresh() {
        let mut fresh = Fresh::new(1_000);
        assert_eq!(fresh.due(0), Some(0..STEP_FRAMES));
        for _ in 0..500 {
            fresh.take();
        }
        assert_eq!(fresh.due(STEP_FRAMES), Some(500..500 + STEP_FRAMES));
        while fresh.take().is_some() {}
        assert_eq!(fresh.due(STEP_FRAMES), None);
        assert_eq!(fresh.asks(), Asks::Nothing, "there is nothing to ask for any more");
    }

    #[test]
    fn nobody_asks_where_memory_is_to_be_left_alone() {
        let mut fresh = Fresh::new(10_000);
        assert_eq!(fresh.due(0), Some(0..STEP_FRAMES));
        assert_eq!(fresh.due(STEP_FRAMES), None);
        fresh.leave_alone();
        while fresh.take().is_some() {
            assert_eq!(fresh.asks(), Asks::Nothing);
            assert_eq!(fresh.due(STEP_FRAMES), None);
        }
    }

    #[test]
    fn frames_have_memory_before_they_are_used_and_a_small_pool_is_left_alone() {
        let pool = BufferPool::new(2, 2 * 4_000 * FRAME_BYTES).unwrap();
        let resident = |home: usize| pool.partitions()[home].arena.resident_bytes();
        let _used = pool.reserve(HomeId(0), 10).unwrap();
        assert_eq!(resident(0), 0, "frames are taken, but nobody has written to them");
        let ahead = MemoryAhead::start(&pool).unwrap();
        assert_eq!(ahead.threads.len(), 1);
        until(|| resident(0) >= PAGE_BYTES * STEP_FRAMES as usize && resident(1) > 0);
        let _more = pool.reserve(HomeId(0), 3_000).unwrap();
        // What was overtaken stays without; what comes next has it.
        until(|| resident(0) >= FRAME_BYTES * (3_010_u32 / 8) as usize);
        drop(ahead);

        let small = BufferPool::new(2, 2 * 100 * FRAME_BYTES).unwrap();
        assert_eq!(MemoryAhead::start(&small).unwrap().threads.len(), 0);
    }

    fn until(holds: impl Fn() -> bool) {
        let began = std::time::Instant::now();
        while !holds() {
            assert!(began.elapsed().as_secs() < 60, "memory does not come");
            std::thread::sleep(std::time::Duration::from_millis(1));
        }
    }
}
