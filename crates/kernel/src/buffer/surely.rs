//! Loads for which a thread is blocked: of those who cannot wait otherwise (recovery), or have waited in vain, for their
//! pages drive each other out or find no frame (a rollback, a collection), and among them those that cannot fail: a rollback puts
//! rows back whatever happens (rule 6.7), also when the pool is full of pages that a full disk has no room for.
//!
//! Invariants: some frames of each partition are kept for such loads, half of them for those that cannot
//! fail ([`BufferPool::load_surely`]). These are *lent* for one load after the other. When no frame is
//! free, those that were lent last hold what was loaded surely: a frame that comes free while no more are
//! free than are kept goes to nobody else. What was loaded surely can leave again on a full disk: it is
//! written to the place where it lies already, which no checkpoint has. For it is a table's leaf with a
//! change that is not committed; such a leaf has a twin, so a checkpoint writes it elsewhere (and leaves
//! it its place, `give_up_place`); and no one that is published has what was written since the change
//! was made. An index leaf may be in a checkpoint, changed or not, so it is not loaded surely: its entry
//! is left where it is then (txn/rows/rollback.rs).
//!
//! Inner nodes above such a leaf have been in memory since the change (`inner.rs`), so a rollback's load of
//! a row's leaf is one load. Rows that were frozen as they were put (COPY FREEZE) have no twin, and their table
//! is new in this transaction: no checkpoint has its pages, so each can leave again, and the frames that are lent
//! to one path after the other hold it if they are as many as the table has levels.
//!
//! What remains is waited for: who is just using such a page, a write of it that is under way.
//!
//! Other steps may need several pages at the same time: the path to an index leaf below the last node of it that
//! is in memory, and that to a table's leaf. They get them one by one, from above: what is loaded keeps what is
//! above it in memory, so a load loses at most what was loaded last. When loads drive each other out, the
//! step's next ones go to kept frames without evicting anything. These are eight in a pool that is no
//! toy, as many as nodes are on the paths in an index of a million pages with keys of 150 bytes (four
//! levels) and in its table (three), or of an index alone with the longest keys (a node has seven
//! children at least when it is full: seven levels). A step of a larger one still comes to an end, for which
//! pages are evicted is a matter of chance; who must not try for ever counts its loads.

use std::collections::VecDeque;
use std::time::Duration;

use super::again::LoadsAgain;
use super::evict::Looked;
use super::pool::{BufferPool, PageReservation};
use super::{FrameRef, Pace};
use crate::base::{Error, HomeId, NeededPage, Outcome, Result, Stop};
use crate::sync::{AtomicU32, Ordering, PlainMutex as Mutex, mutant, spin, spin_to_retry};

/// A rollback's loads for which a pool is not looked through again in which nothing could be evicted:
/// that takes long.
const LOADS_STUCK: u32 = 64;
/// Attempts to find a frame for a load that cannot fail; after some it is waited for a moment before
/// each.
const TRIES_MAX: u32 = 10_000;
const TRIES_AT_ONCE: u32 = 100;
const AGAIN: Duration = Duration::from_millis(1);

/// What a pool knows of loads for which threads are blocked.
#[derive(Default)]
pub(super) struct Surely {
    /// Frames that were lent to loads that cannot fail, those longest ago first; each once.
    lent: Mutex<VecDeque<FrameRef>>,
    /// A rollback's loads for which the pool is not to be looked through. Written and read by who loads so; a
    /// count that is lost matters little.
    stuck: AtomicU32,
}

/// Loads for one step before it gets frames that others do not.
const LOADS_ALONE: u32 = 16;

/// The loads of a step, one after the other, with the thread blocked: if they drive each other out, the
/// next get frames that only such loads get.
#[derive(Default)]
pub struct StepLoads(u32);

impl StepLoads {
    /// How many there were.
    pub fn made(&self) -> u32 {
        self.0
    }

    /// Loads a page. `Corrupt`, `Io`, `OutOfMemory`.
    pub fn load(&mut self, pool: &BufferPool, needed: NeededPage) -> Result<()> {
        self.load_by(pool, needed, |home| pool.reserve_shared(home, 1))
    }

    /// As [`StepLoads::load`], for who can go on without the page: `OutOfMemory` at once if no
    /// frame was found lately.
    pub fn load_if_room(&mut self, pool: &BufferPool, needed: NeededPage) -> Result<()> {
        self.load_by(pool, needed, |home| pool.reserve_evicting(home))
    }

    /// Into a frame that `reserve` finds or, if there is none, a kept one; after some loads a kept one
    /// first: no other page is evicted for it then, which the step may need as well.
    fn load_by(
        &mut self,
        pool: &BufferPool,
        needed: NeededPage,
        reserve: impl FnOnce(HomeId) -> Result<PageReservation>,
    ) -> Result<()> {
        self.0 += 1;
        let kept_first = self.0 > LOADS_ALONE;
        pool.load_blocking(needed, |home| match kept_first {
            true => pool.reserve_kept(home).map_or_else(|| reserve(home), Ok),
            false => reserve(home).or_else(|error| pool.reserve_kept(home).ok_or(error)),
        })
    }
}

impl BufferPool {
    /// Loads a page and blocks the thread meanwhile: for those who cannot wait otherwise (a checkpoint that finds no
    /// frame). `Corrupt`, `Io`, `OutOfMemory`.
    pub fn load_now(&self, needed: NeededPage) -> Result<()> {
        StepLoads::default().load(self, needed)
    }

    /// As [`BufferPool::load_now`], of a leaf of a table with a change that is not committed: does not
    /// fail for want of a frame as long as such leaves can be written where they lie.
    pub fn load_surely(&self, needed: NeededPage) -> Result<()> {
        self.load_blocking(needed, |home| self.reserve_surely(home))
    }

    /// A free frame, of those that are kept, too.
    fn reserve_kept(&self, home: HomeId) -> Option<PageReservation> {
        self.reserve_free(home, self.kept().div_ceil(2))
    }

    /// Whether every partition has free frames besides those that are kept: its page provider keeps up, so that
    /// who loads a page need not look for one. Not so on a full disk.
    pub fn has_free_frames(&self) -> bool {
        let mut homes = (0..self.homes()).map(|home| HomeId(home as u16));
        homes.all(|home| self.frames_of(home).1 > self.kept())
    }

    /// A frame for one page, made free if there is none, unless that came to nothing just before.
    fn reserve_evicting(&self, home: HomeId) -> Result<PageReservation> {
        if let Some(reserved) = self.reserve_free(home, self.kept()) {
            return Ok(reserved);
        }
        let stuck = &self.surely().stuck;
        let left = stuck.load(Ordering::Relaxed);
        if left > 0 {
            stuck.store(left - 1, Ordering::Relaxed);
            return Err(Error::OutOfMemory { what: "buffer pool" });
        }
        let reserved = self.reserve_shared(home, 1);
        if reserved.is_err() {
            stuck.store(LOADS_STUCK, Ordering::Relaxed);
        }
        reserved
    }

    fn reserve_surely(&self, home: HomeId) -> Result<PageReservation> {
        let mut tries = 0;
        loop {
            let reserved = self.reserve_evicting(home);
            let found = match &reserved {
                Ok(_) => return reserved,
                Err(_) => self.reserve_free(home, 0).or_else(|| self.take_back(home)),
            };
            if let Some(found) = found {
                self.note_lent(&found);
                return Ok(found);
            }
            tries += 1;
            if tries == TRIES_MAX {
                return reserved;
            }
            spin();
            if tries > TRIES_AT_ONCE {
                std::thread::sleep(AGAIN);
            }
        }
    }

    fn note_lent(&self, reserved: &PageReservation) {
        let Some(frame) = reserved.next() else { return };
        let mut lent = self.surely().lent();
        lent.retain(|other| *other != frame);
        lent.push_back(frame);
        if lent.len() > self.kept() * self.homes() {
            lent.pop_front();
        }
    }

    /// Evicts one of the pages that were loaded surely, that of the longest ago first, and takes the
    /// frame; none if they are in use or cannot leave.
    fn take_back(&self, home: HomeId) -> Option<PageReservation> {
        if mutant("lent-frames-stay") {
            return None;
        }
        let lent: Vec<_> = self.surely().lent().iter().copied().collect();
        lent.into_iter().find_map(|frame| {
            // Used by who had it loaded.
            frame.cool(Pace::Fast);
            if let Ok(Looked::Dirty(read)) = self.look_at(frame, Pace::Fast) {
                // On a full disk in its own place, without asking for another; else the disk is not full.
                let all = (0..self.homes()).map(|home| HomeId(home as u16));
                if self.write_and_evict(read, &mut all.collect()).is_err() {
                    let _ = self.write_and_evict(read, &mut Vec::new());
                }
            }
            self.reserve_free(home, 0)
        })
    }
}

impl Surely {
    fn lent(&self) -> std::sync::MutexGuard<'_, VecDeque<FrameRef>> {
        self.lent.lock().expect("no holder panics")
    }
}

/// The shell of recovery, of building indexes and of offline checks: an optimistic read is simply made
/// again, and a page loaded with the thread blocked; nothing else can be waited for. `OutOfMemory` also if
/// the operation's own loads drive each other out for ever: the disk takes no page, say.
pub fn until_done<T>(pool: &BufferPool, mut operation: impl FnMut() -> Outcome<T>) -> Result<T> {
    let (mut loads, mut again) = (StepLoads::default(), LoadsAgain::default());
    loop {
        match operation() {
            Ok(value) => return Ok(value),
            Err(Stop::Retry) => spin_to_retry(),
            Err(Stop::NeedPage(page)) => {
                again.check(page)?;
                loads.load(pool, page)?;
            }
            Err(Stop::Error(error)) => return Err(error),
            Err(stop) => {
                return Err(Error::Internal {
                    detail: format!("a blocked thread's operation stopped: {stop:?}"),
                });
            }
        }
    }
}
