//! Appending rows: row-id ranges and the cursor of one instance (rule 5.2).
//!
//! Invariants: a range is handed out once, and ids of a range in ascending order, so an id is
//! never used twice and its place is behind all rows of its range; a range begins in a leaf of its
//! own, so the inserts of two instances never meet. The cursor names its leaf by frame and PID and
//! checks both under the latch, and that the page is a leaf of this tree that covers its row: then it
//! is the right one. A version would fail when other changes to the leaf have raised it.

use super::tree::row_key;
use super::{LeafWrite, TableTree};
use crate::base::{HomeId, Outcome, RowId};
use crate::buffer::{FrameRef, PageWrite};
use crate::latch::OwnedPage;
use crate::page::PageKind;
use crate::page::keynode::Probe;
use crate::page::rowleaf::{self, SlotIndex, USABLE_BYTES};
use crate::sync::{Ordering, mutant, point};
use crate::tree::descent::{SplitLeaf, SplitPlan};
use crate::tree::hints;

/// Row ids of one range. A power of two; range k begins at k times this (the first at 1).
pub const RANGE_ROWS: u64 = 1 << 20;

/// An appending leaf's heap is compacted only while this much of it is free: near the end each row
/// would need it again.
const COMPACT_FREE_MIN: usize = USABLE_BYTES / 16;

#[derive(Clone, Copy, PartialEq, Eq)]
enum Place {
    /// The range is new: its first leaf must be linked at its first id.
    Unlinked,
    /// The cursor's leaf at its last use.
    Leaf(FrameRef),
    /// Somewhere in the tree: descend.
    Unknown,
}

/// Where one instance appends to one tree: its row-id range and its own leaf. One per (instance,
/// tree), owned by the instance; dropping it leaves the rest of its range unused.
pub struct AppendCursor {
    home: HomeId,
    next: u64,
    end: u64,
    place: Place,
}

impl AppendCursor {
    /// A cursor without a range; its leaves will be pages of `home`.
    pub fn new(home: HomeId) -> AppendCursor {
        AppendCursor { home, next: 0, end: 0, place: Place::Unknown }
    }
}

impl TableTree {
    /// The next row id and a leaf, held exclusively, that has room for a row with that id and
    /// `heap` bytes of variable values ([`crate::page::rowleaf::checked_heap_bytes`]) in the newest
    /// layout. An id that is then not used is lost, which is no harm.
    ///
    /// Stops: `Retry`; `OutOfMemory` when the buffer pool is full; `TooLarge`. Holds nothing then.
    #[inline]
    pub fn append(
        &self,
        cursor: &mut AppendCursor,
        heap: usize,
    ) -> Outcome<(RowId, LeafWrite<'_>)> {
        if cursor.next != cursor.end
            && let Place::Leaf(frame) = cursor.place
        {
            let row = RowId(cursor.next);
            if let Some(leaf) = self.cached_leaf(frame)? {
                let covers = leaf.view().covers(row) || mutant("table_append_fence_unchecked");
                if covers && self.takes_append(&leaf, heap) {
                    cursor.next += 1;
                    return Ok((row, leaf));
                }
                leaf.unchanged();
            }
        }
        self.append_slowly(cursor, heap)
    }

    /// One more row id, if the leaf that [`TableTree::append`] has just answered has room for such a
    /// row too.
    #[inline]
    pub fn append_more(
        &self,
        cursor: &mut AppendCursor,
        leaf: &LeafWrite<'_>,
        heap: usize,
    ) -> Option<RowId> {
        let row = RowId(cursor.next);
        let fits =
            cursor.next != cursor.end && leaf.view().covers(row) && self.takes_append(leaf, heap);
        fits.then(|| {
            cursor.next += 1;
            row
        })
    }

    #[cold]
    fn append_slowly(
        &self,
        cursor: &mut AppendCursor,
        heap: usize,
    ) -> Outcome<(RowId, LeafWrite<'_>)> {
        rowleaf::check_row_bytes(self.layout(), heap)?;
        if cursor.next == cursor.end {
            let range = self.next_range.fetch_add(1, Ordering::Relaxed);
            cursor.next = (range * RANGE_ROWS).max(1);
            cursor.end = (range + 1) * RANGE_ROWS;
            // The first range begins in the leaf that every tree begins with.
            cursor.place = if range == 0 { Place::Unknown } else { Place::Unlinked };
        }
        let row = RowId(cursor.next);
        loop {
            if cursor.place != Place::Unlinked {
                let mut leaf = self.write(row)?;
                let stale = leaf.layout().version() != self.layout().version();
                if stale && leaf.view().count() == 0 {
                    self.relayout(&mut leaf);
                }
                if self.takes_append(&leaf, heap) {
                    cursor.next += 1;
                    cursor.place = Place::Leaf(leaf.frame());
                    return Ok((row, leaf));
                }
            }
            point("table.append.link");
            let key = row_key(row);
            let own = cursor.place == Place::Unlinked;
            let mut link = Link { tree: self, row, own, begins: false };
            self.trunk.split_leaf(cursor.home, Probe::before(&key), &mut link)?;
            if !own && link.begins {
                // Rows at or after ours are here already (somebody restored them): halve it.
                self.make_room(row, heap)?;
            }
            cursor.place = Place::Unknown;
        }
    }

    /// The leaf in a frame where one of this tree was, held exclusively, if one is there still. The
    /// caller checks that it covers its row.
    #[inline]
    pub(super) fn cached_leaf(&self, frame: FrameRef) -> Outcome<Option<LeafWrite<'_>>> {
        let page = PageWrite::lock(frame)?;
        // The frame may be another page's by now, of another tree too.
        if hints::is_leaf(page.owned(), self.id(), PageKind::TableLeaf) {
            let leaf = self.leaf_write(page)?;
            return Ok(Some(leaf));
        }
        page.unchanged();
        Ok(None)
    }

    /// Whether one more row at the end belongs into this leaf rather than into a new one.
    #[inline]
    fn takes_append(&self, leaf: &LeafWrite<'_>, heap: usize) -> bool {
        leaf.layout().version() == self.layout().version() && takes_last(&leaf.view(), heap)
    }

    /// The largest row id that may have been handed out: the end of the last range.
    pub fn row_id_mark(&self) -> RowId {
        RowId((self.next_range.load(Ordering::Relaxed) * RANGE_ROWS).saturating_sub(1))
    }

    /// Makes sure that ids up to `row` are not handed out (recovery). Cheap when they are not.
    #[inline]
    pub fn raise_row_id_mark(&self, row: RowId) {
        let range = row.0 / RANGE_ROWS + 1;
        if self.next_range.load(Ordering::Relaxed) < range {
            self.next_range.fetch_max(range, Ordering::Relaxed);
        }
    }
}

/// Whether one more row behind all others belongs into a leaf of the newest layout rather than into
/// a new one.
#[inline]
pub(super) fn takes_last(leaf: &rowleaf::Leaf<'_, OwnedPage<'_>>, heap: usize) -> bool {
    if !leaf.fits_row(heap) {
        return false;
    }
    let at_once = leaf.contiguous() >= leaf.layout().fixed_bytes() + heap;
    at_once || leaf.free_bytes() >= COMPACT_FREE_MIN || leaf.count() == 0
}

/// Links a new leaf whose first row id is `row`.
pub(super) struct Link<'t> {
    pub tree: &'t TableTree,
    pub row: RowId,
    /// The leaf must begin at `row`, room or no room.
    pub own: bool,
    /// Out: the leaf begins at `row` already, nothing was done.
    pub begins: bool,
}

impl SplitLeaf for Link<'_> {
    fn plan(&mut self, leaf: &PageWrite, separator: &mut Vec<u8>) -> SplitPlan {
        let Ok(layout) = self.tree.layout_of(leaf) else { return SplitPlan::Leave };
        let view = rowleaf::Leaf::new(leaf.owned(), layout);
        self.begins = view.lower_fence() == self.row;
        if self.begins || !self.own && view.count() == 0 {
            return SplitPlan::Leave;
        }
        separator.extend_from_slice(&row_key(self.row));
        SplitPlan::Split
    }

    fn split(&mut self, left: &mut PageWrite, right: &mut PageWrite, _separator: &[u8]) {
        let layout = self.tree.layout_of(left).expect("`plan` read it under the same latch");
        let view = rowleaf::Leaf::new(left.owned(), layout);
        let first = view.lower_bound(self.row);
        let (moves, upper) = (first.index() < view.count(), view.upper_fence());
        self.tree.split_pages(left, right, layout, first, self.row);
        if !moves && layout.version() != self.tree.layout().version() {
            // A leaf of its own starts with the newest layout.
            rowleaf::format(right.bytes_mut(), self.tree.layout(), self.row, upper);
        }
    }
}

impl TableTree {
    /// Moves rows from `first` on, whose ids are at least `separator`, and their twins.
    pub(super) fn split_pages(
        &self,
        left: &mut PageWrite,
        right: &mut PageWrite,
        layout: &crate::page::Layout,
        first: SlotIndex,
        separator: RowId,
    ) {
        rowleaf::split(left.bytes_mut(), right.bytes_mut(), layout, first, separator);
        if !mutant("table_split_forgets_twins") {
            let reserved = self.sides.split(left.frame(), right.frame(), separator);
            rowleaf::LeafMut::new(left.bytes_mut(), layout).reserve(-(reserved as isize));
            rowleaf::LeafMut::new(right.bytes_mut(), layout).reserve(reserved as isize);
        }
        self.leaves.fetch_add(1, Ordering::Relaxed);
    }
}
