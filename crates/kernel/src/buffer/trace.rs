//! The page trace: which pages were used, in order, and what an exact LRU would have made of it.
//! Recorded with feature `page-trace` only; without it [`note`] is nothing.
//!
//! Atoll's replacement keeps a few degrees of heat per page (module `evict`); an LRU list would be a
//! shared structure that every use changes. What that costs in misses is answered by replaying one against the same trace
//! (Denning's stack property: an LRU of a size needs nothing but the order of uses).
//!
//! Invariants: one trace in a process, of one pool. Events of several threads are in the order in
//! which they took the trace's mutex. A page keeps its identity over eviction and load through the
//! place that it lies at. What is read without saying that it will be read again (scans, checkpoints)
//! is no use, here as in the pool.

use std::collections::HashMap;

use super::FrameRef;
use crate::base::Place;

/// Events that are kept: 24 bytes each.
#[cfg(feature = "page-trace")]
const EVENTS_MAX: usize = 1 << 27;

/// What happened to the page in a frame.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum PageEvent {
    /// It is used.
    Use(u64),
    /// The frame has a page that was nowhere before.
    New(u64),
    /// The page is freed.
    Freed(u64),
    /// It was evicted; it lies at the place.
    Left(u64, u64),
    /// The frame has the page that lies at the place.
    Came(u64, u64),
    /// What comes from here on counts.
    Mark,
}

/// What is noted of a frame.
#[derive(Clone, Copy, Debug)]
pub enum Noted {
    /// As [`PageEvent::Use`].
    Use,
    /// As [`PageEvent::New`].
    New,
    /// As [`PageEvent::Freed`].
    Freed,
    /// As [`PageEvent::Left`].
    Left(Place),
    /// As [`PageEvent::Came`].
    Came(Place),
}

/// Notes what happened, if a trace is recorded.
#[inline]
pub(super) fn note(frame: FrameRef, what: Noted) {
    #[cfg(feature = "page-trace")]
    on::note(frame, what);
    #[cfg(not(feature = "page-trace"))]
    let _ = (frame, what);
}

#[cfg(feature = "page-trace")]
pub use on::{begin, end, mark};

#[cfg(feature = "page-trace")]
mod on {
    use std::sync::{Mutex, MutexGuard, PoisonError};

    use super::{EVENTS_MAX, FrameRef, Noted, PageEvent};

    /// A global, for uses are noted where no pool is known; such a build is for measuring alone.
    static EVENTS: Mutex<Option<Vec<PageEvent>>> = Mutex::new(None);

    fn events() -> MutexGuard<'static, Option<Vec<PageEvent>>> {
        EVENTS.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Records from now on.
    pub fn begin() {
        *events() = Some(Vec::new());
    }

    /// What comes from now on counts.
    pub fn mark() {
        if let Some(events) = &mut *events() {
            events.push(PageEvent::Mark);
        }
    }

    /// Ends the recording; what was recorded. None if there was none, or more than is kept.
    pub fn end() -> Option<Vec<PageEvent>> {
        events().take().filter(|events| events.len() < EVENTS_MAX)
    }

    pub(super) fn note(frame: FrameRef, what: Noted) {
        let mut events = events();
        let Some(events) = events.as_mut().filter(|events| events.len() < EVENTS_MAX) else {
            return;
        };
        let at = frame.address();
        let event = match what {
            Noted::Use => PageEvent::Use(at),
            Noted::New => PageEvent::New(at),
            Noted::Freed => PageEvent::Freed(at),
            Noted::Left(place) => PageEvent::Left(at, place.0),
            Noted::Came(place) => PageEvent::Came(at, place.0),
        };
        // A page that is used again at once is in every replacement's memory.
        if events.last() != Some(&event) {
            events.push(event);
        }
    }
}

/// Misses of this pool and of an LRU of the same size, on the same uses.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Comparison {
    /// Uses that count; those of one page in a row as one.
    pub uses: u64,
    /// Loads among them.
    pub loads: u64,
    /// Loads that an LRU would have made.
    pub lru_loads: u64,
    /// Whether more pages than fit had been used before what counts: what the LRU held then follows
    /// from the trace alone.
    pub is_exact: bool,
}

impl Comparison {
    /// Of a trace of a pool with so many frames.
    pub fn of(events: &[PageEvent], frames: usize) -> Comparison {
        let (mut identities, mut lru) = (Identities::default(), Lru::new(frames));
        let (mut comparison, mut counts) = (Comparison::default(), false);
        for event in events {
            match *event {
                PageEvent::Mark => {
                    counts = true;
                    comparison.is_exact = lru.was_full;
                }
                PageEvent::New(frame) => {
                    // No load, wherever it was before.
                    let _ = lru.touch(identities.renew(frame));
                }
                PageEvent::Freed(frame) => lru.forget(identities.of(frame)),
                PageEvent::Left(frame, place) => identities.leaves(frame, place),
                // It was loaded to be used, which is told next.
                PageEvent::Came(frame, place) => {
                    identities.comes(frame, place);
                    comparison.loads += u64::from(counts);
                }
                PageEvent::Use(frame) => {
                    let had = lru.touch(identities.of(frame));
                    comparison.uses += u64::from(counts);
                    comparison.lru_loads += u64::from(counts && had == Had::No);
                }
            }
        }
        comparison
    }
}

/// Which page is in a frame, or at a place.
#[derive(Default)]
struct Identities {
    in_frames: HashMap<u64, u32>,
    at_places: HashMap<u64, u32>,
    next: u32,
}

impl Identities {
    fn of(&mut self, frame: u64) -> u32 {
        *self.in_frames.entry(frame).or_insert_with(|| {
            self.next += 1;
            self.next
        })
    }

    fn renew(&mut self, frame: u64) -> u32 {
        self.in_frames.remove(&frame);
        self.of(frame)
    }

    fn leaves(&mut self, frame: u64, place: u64) {
        let page = self.of(frame);
        self.in_frames.remove(&frame);
        self.at_places.insert(place, page);
    }

    fn comes(&mut self, frame: u64, place: u64) {
        match self.at_places.remove(&place) {
            Some(page) => drop(self.in_frames.insert(frame, page)),
            // It was evicted before the trace began.
            None => drop(self.renew(frame)),
        }
    }
}

/// Whether a page was in memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Had {
    Yes,
    No,
}

/// An exact LRU of so many pages: a ring of links through an array, with a sentinel at 0.
struct Lru {
    /// Per page: the one used before it and the one used after it; itself if it is not in memory.
    links: Vec<(u32, u32)>,
    len: usize,
    frames: usize,
    was_full: bool,
}

impl Lru {
    fn new(frames: usize) -> Lru {
        Lru { links: vec![(0, 0)], len: 0, frames, was_full: false }
    }

    /// The page is the newest now; what is too much goes.
    fn touch(&mut self, page: u32) -> Had {
        while self.links.len() <= page as usize {
            let own = self.links.len() as u32;
            self.links.push((own, own));
        }
        let had = self.unlink(page);
        let newest = self.links[0].0;
        self.links[page as usize] = (newest, 0);
        self.links[newest as usize].1 = page;
        self.links[0].0 = page;
        self.len += 1;
        self.was_full |= self.len == self.frames;
        if self.len > self.frames {
            self.unlink(self.links[0].1);
        }
        had
    }

    fn forget(&mut self, page: u32) {
        if (page as usize) < self.links.len() {
            self.unlink(page);
        }
    }

    fn unlink(&mut self, page: u32) -> Had {
        let (before, after) = self.links[page as usize];
        if before == page {
            return Had::No;
        }
        self.links[before as usize].1 = after;
        self.links[after as usize].0 = before;
        self.links[page as usize] = (page, page);
        self.len -= 1;
        Had::Yes
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn an_lru_is_as_a_list_that_is_searched() {
        let mut random = fastrand::Rng::with_seed(7);
        let (mut lru, mut list) = (Lru::new(5), Vec::<u32>::new());
        for _ in 0..20_000 {
            let page = random.u32(1..10);
            let had = list.iter().position(|it| *it == page).map(|at| list.remove(at));
            if random.u32(..10) == 0 {
                lru.forget(page);
            } else {
                list.push(page);
                list.drain(..list.len().saturating_sub(5));
                assert_eq!(lru.touch(page) == Had::Yes, had.is_some());
            }
            assert_eq!(lru.len, list.len());
        }
    }

    #[test]
    fn a_page_is_the_same_after_it_was_away() {
        use PageEvent::{Came, Left, Mark, New, Use};
        // Two frames: 10 and 20. The pool evicts the page that is used again, an LRU the other.
        let before = [New(10), New(20), Left(20, 1), New(20), Use(20), Use(10), Mark];
        let after = [Left(10, 5), Came(10, 1), Use(10), Left(20, 6), Came(20, 5), Use(20)];
        let events = [&before[..], &after].concat();
        let comparison = Comparison::of(&events, 2);
        assert_eq!(comparison, Comparison { uses: 2, loads: 2, lru_loads: 1, is_exact: true });
        assert!(!Comparison::of(&events, 4).is_exact, "three were used before the mark");
    }
}
