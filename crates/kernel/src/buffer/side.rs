//! What hangs from frames beside their pages, when a page leaves memory ([`SideStore`]).

use super::FrameRef;
use crate::base::Place;

/// Keeps the side tables of pages that are evicted (`version` implements it). Calls come with the
/// page's frame and its parent held exclusively, but for [`SideStore::is_parked`]; none may fail, wait,
/// or take a latch.
pub trait SideStore: Send + Sync {
    /// The page in `leaf`, which has a side table, is evicted to `place`: takes the table over and
    /// empties the slot.
    fn park(&self, place: Place, leaf: FrameRef);

    /// The page of `place` is in `leaf` now, whose slot is empty: hangs its table there, if there is
    /// one. Answers the bytes that the page reserves for nothing; none if there is no table, and so
    /// nothing to reserve anything for.
    fn take_back(&self, place: Place, leaf: FrameRef) -> Option<u32>;

    /// Whether the page evicted to `place` has a table. To be believed if the parent's swip, read
    /// before, validates afterwards.
    fn is_parked(&self, place: Place) -> bool;

    /// The page evicted to `place` is given up with its tree.
    fn dropped(&self, place: Place);
}
