//! From the PID of an overflow page to its frame.
//!
//! Other pages are found through their parents' swips; a long value's pages are named by PIDs, in
//! rows, in undo and in each other, so that a reader who follows what it read racily finds a page
//! or none, never a wild address.
//!
//! Invariants: a PID is here from [`Directory::set`] (its page is in that frame) to
//! [`Directory::clear`] (before the frame is freed, or the page leaves memory; module `long`). An answer may be old by the time it is used:
//! whoever latches or reads the frame checks that the page is the one meant. Entries are made in
//! segments that stay until the pool goes; PIDs of freed overflow pages are given again, so there
//! are as many as the home ever had overflow pages at a time, about.

use std::sync::OnceLock;

use super::FrameRef;
use crate::base::{HomeId, Pid, Place};
use crate::sync::{AtomicU64, Ordering};

// A model makes its atomics one by one, each time.
const SEGMENT_BITS: u32 = if cfg!(loom) { 3 } else { 16 };
const SEGMENT_PIDS: usize = 1 << SEGMENT_BITS;
/// Four terabytes of pages a home.
const SEGMENTS: usize = 1 << 12;

type Segment = Box<[AtomicU64]>;

/// The overflow pages of one home that are in memory.
pub(super) struct Directory {
    segments: Box<[OnceLock<Segment>]>,
    named: Named,
}

/// What the PIDs of overflow pages are.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Named {
    /// Numbers of their own.
    ByNumber,
    /// Their places on disk.
    ByPlace,
}

/// The number by which a PID is found here.
fn number_of(pid: Pid) -> u64 {
    pid.place().map_or(pid.number(), Place::number)
}

impl Directory {
    pub fn new(named: Named) -> Directory {
        Directory { segments: (0..SEGMENTS).map(|_| OnceLock::new()).collect(), named }
    }

    fn segment(&self, number: u64) -> Option<&OnceLock<Segment>> {
        self.segments.get(usize::try_from(number >> SEGMENT_BITS).ok()?)
    }

    /// The page is in `frame`, which the caller holds exclusively. False: the number is too large.
    pub fn set(&self, pid: Pid, frame: FrameRef) -> bool {
        let Some(segment) = self.segment(number_of(pid)) else { return false };
        let segment =
            segment.get_or_init(|| (0..SEGMENT_PIDS).map(|_| AtomicU64::new(0)).collect());
        // Release: partner is `find`; who finds the frame finds it with this page's PID.
        segment[number_of(pid) as usize % SEGMENT_PIDS].store(frame.address(), Ordering::Release);
        true
    }

    /// The page is going, or leaves memory; the caller holds it exclusively.
    pub fn clear(&self, pid: Pid) {
        if let Some(segment) = self.segment(number_of(pid)).and_then(OnceLock::get) {
            segment[number_of(pid) as usize % SEGMENT_PIDS].store(0, Ordering::Release);
        }
    }

    /// The frame's address, 0 if the page is none of those here.
    pub fn find(&self, pid: Pid) -> u64 {
        match self.segment(number_of(pid)).and_then(OnceLock::get) {
            // Acquire: partner is `set`.
            Some(segment) => {
                segment[number_of(pid) as usize % SEGMENT_PIDS].load(Ordering::Acquire)
            }
            None => 0,
        }
    }

    /// All pages here now.
    pub fn pids(&self, home: HomeId) -> impl Iterator<Item = Pid> {
        let segments = self.segments.iter().enumerate();
        segments.filter_map(|(at, segment)| Some((at, segment.get()?))).flat_map(
            move |(at, segment)| {
                let used = segment.iter().enumerate();
                let used = used.filter(|(_, word)| word.load(Ordering::Relaxed) != 0);
                used.map(move |(index, _)| {
                    let number = (at * SEGMENT_PIDS + index) as u64;
                    match self.named {
                        Named::ByNumber => Pid::new(home, number),
                        Named::ByPlace => Pid::of_place(Place::new(home, number)),
                    }
                })
            },
        )
    }
}
