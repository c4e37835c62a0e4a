//! Swips: references to children in inner nodes (kernel.md section 0; [PhoebeDB], LeanStore).
//!
//! Invariants: a word with bit 63 set is an evicted child's place on disk (home below 512, so the
//! bit is free); otherwise it is a frame's address (64-byte aligned), bit 0 set while it is cooling.
//! Zero is no swip. A swip read racily is resolved only after the parent's version validated.

use super::FrameRef;
use crate::base::{HomeId, INSTANCES_MAX, NeededPage, Outcome, Place, Stop};

const EVICTED: u64 = 1 << 63;
const COOLING: u64 = 1;

const _: () = assert!(INSTANCES_MAX << 48 <= EVICTED as usize);

/// A child reference as it stands in an inner node.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Swip(u64);

/// What a swip says.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SwipState {
    /// In this frame.
    Hot(FrameRef),
    /// In this frame, about to be evicted unless it is used.
    Cooling(FrameRef),
    /// Not in memory.
    Evicted(Place),
}

impl Swip {
    /// A reference to the page in `frame`.
    #[inline]
    pub fn hot(frame: FrameRef) -> Swip {
        Swip(frame.address())
    }

    /// A reference to a page that is not in memory but lies at `place`.
    pub fn evicted(place: Place) -> Swip {
        debug_assert!(place.home() < HomeId(INSTANCES_MAX as u16));
        Swip(EVICTED | place.0)
    }

    /// The word in the page.
    #[inline]
    pub fn raw(self) -> u64 {
        self.0
    }

    /// Reads the word of a page.
    ///
    /// # Safety
    /// `word` came out of [`Swip::raw`] in this process and was read under a latch or under a
    /// version that has validated since; the pool it belongs to outlives every use of the result.
    #[inline]
    pub unsafe fn from_raw(word: u64) -> Swip {
        Swip(word)
    }

    /// Where the page lies that the word of an inner node on disk stands for; none if it is no such
    /// word.
    pub fn place_on_disk(word: u64) -> Option<Place> {
        let place = Place(word & !EVICTED);
        (word & EVICTED != 0 && !place.is_none()).then_some(place)
    }

    /// What the swip says.
    #[inline]
    pub fn state(self) -> SwipState {
        if self.0 & EVICTED != 0 {
            return SwipState::Evicted(Place(self.0 & !EVICTED));
        }
        // SAFETY: a swip that is not evicted was made from a frame (`from_raw`'s promise).
        let frame = unsafe { FrameRef::from_address(self.0 & !COOLING) };
        if self.0 & COOLING == 0 { SwipState::Hot(frame) } else { SwipState::Cooling(frame) }
    }

    /// The child's frame, or [`Stop::NeedPage`], where `parent` is the frame that this stands in.
    #[inline]
    pub fn child_of(self, parent: FrameRef) -> Outcome<FrameRef> {
        match self.state() {
            SwipState::Hot(frame) | SwipState::Cooling(frame) => Ok(frame),
            SwipState::Evicted(place) => {
                Err(Stop::NeedPage(NeededPage { place, parent: parent.address() }))
            }
        }
    }
}
