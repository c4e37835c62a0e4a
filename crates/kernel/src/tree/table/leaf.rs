//! Leaves of a table tree as other modules see them: racy to read, exclusive to change, and the
//! twin table beside each.
//!
//! Invariants: what a [`LeafView`] says is believed only after the read around it validated
//! (`TableTree::read` sees to that); a [`LeafWrite`] holds the leaf exclusively. Twin entries go by
//! row id, so only a split touches the twin table. Neither outlives the operation.

use crate::base::{Pid, RowId};
use crate::buffer::{FrameRef, PageWrite, SideSlot};
use crate::latch::{OwnedPage, PageBytes, RacyPage, Version};
use crate::page::Layout;
use crate::page::rowleaf::{self, FixedValues, Leaf, LeafMut, RowState, SlotIndex};

/// What the tree asks of the twin tables (`version` implements it). All calls come with the
/// leaves' latches held exclusively; none may fail, wait, or take a latch.
pub trait SideTables: Send + Sync {
    /// The rows from `separator` on went from the leaf in `from` to the one in `to`, which had no
    /// twin. Moves their entries and returns the heap bytes that are reserved for them.
    fn split(&self, from: FrameRef, to: FrameRef, separator: RowId) -> usize;
    /// The leaf is being freed with its tree: take the twin down.
    fn dropped(&self, leaf: FrameRef);
}

/// For trees that never have twins: recovery's, tests'.
pub struct NoSideTables;

impl SideTables for NoSideTables {
    fn split(&self, _: FrameRef, _: FrameRef, _: RowId) -> usize {
        0
    }
    fn dropped(&self, _: FrameRef) {}
}

/// A leaf being read without a latch (or with a shared one). Everything it says may be nonsense
/// until the read validates; nothing it does faults.
#[derive(Clone, Copy)]
pub struct LeafView<'a> {
    leaf: Leaf<'a, RacyPage>,
    frame: FrameRef,
    version: Version,
}

impl<'a> LeafView<'a> {
    #[inline]
    pub(super) fn new(leaf: Leaf<'a, RacyPage>, frame: FrameRef, version: Version) -> Self {
        LeafView { leaf, frame, version }
    }

    /// The leaf's frame, for remembering where the row was.
    #[inline]
    pub fn frame(&self) -> FrameRef {
        self.frame
    }

    /// The latch version under which this view reads.
    #[inline]
    pub fn version(&self) -> Version {
        self.version
    }

    /// Where the leaf's twin table hangs.
    #[inline]
    pub fn side(&self) -> &'a SideSlot {
        self.frame.side()
    }

    /// Whether what was read so far is right. For readers that follow pointers out of the leaf's
    /// twin or act on what they read before the operation ends.
    #[inline]
    pub fn is_valid(&self) -> bool {
        self.frame.latch().validate(self.version)
    }
}

impl<'a> std::ops::Deref for LeafView<'a> {
    type Target = Leaf<'a, RacyPage>;

    #[inline]
    fn deref(&self) -> &Leaf<'a, RacyPage> {
        &self.leaf
    }
}

/// A leaf held exclusively.
pub struct LeafWrite<'t> {
    page: PageWrite,
    layout: &'t Layout,
}

impl<'t> LeafWrite<'t> {
    #[inline]
    pub(super) fn new(page: PageWrite, layout: &'t Layout) -> Self {
        LeafWrite { page, layout }
    }

    /// The leaf for reading; all of it is true.
    #[inline]
    pub fn view(&self) -> Leaf<'_, OwnedPage<'_>> {
        Leaf::new(self.page.owned(), self.layout)
    }

    /// The leaf's layout.
    #[inline]
    pub fn layout(&self) -> &'t Layout {
        self.layout
    }

    /// The leaf's frame.
    #[inline]
    pub fn frame(&self) -> FrameRef {
        self.page.frame()
    }

    /// The leaf's PID.
    #[inline]
    pub fn pid(&self) -> Pid {
        self.page.pid()
    }

    /// Where the leaf's twin table hangs.
    #[inline]
    pub fn side(&self) -> &SideSlot {
        self.page.frame().side()
    }

    /// The slot of `row`, if it is here.
    #[inline]
    pub fn find(&self, row: RowId) -> Option<SlotIndex> {
        self.view().find(row)
    }

    /// Whether a row with `heap` bytes of variable values fits ([`rowleaf::heap_bytes`]).
    #[inline]
    pub fn fits_row(&self, heap: usize) -> bool {
        self.view().fits_row(heap)
    }

    /// Whether variable values may grow by `bytes` beyond what is reserved for their row.
    #[inline]
    pub fn can_grow(&self, bytes: usize) -> bool {
        bytes <= self.view().free_bytes()
    }

    /// Stores a row that is not here and fits; see [`LeafMut::insert`].
    #[inline]
    pub fn insert(&mut self, row: RowId, columns: &[Option<&[u8]>]) -> SlotIndex {
        self.edit().insert(row, columns)
    }

    /// Changes one value; see [`LeafMut::set_column`]. Returns heap bytes freed, negative if the
    /// row grew.
    #[inline]
    pub fn set_column(&mut self, slot: SlotIndex, column: usize, value: Option<&[u8]>) -> isize {
        self.edit().set_column(slot, column, value)
    }

    /// A row's values of fixed width, to be read and replaced.
    #[inline]
    pub fn fixed(&mut self, slot: SlotIndex) -> FixedValues<'_> {
        self.edit().into_fixed(slot)
    }

    /// Says that the value's bytes are a reference to a long value ([`LeafMut::set_long`]).
    pub fn set_long(&mut self, slot: SlotIndex, column: usize) {
        self.edit().set_long(slot, column);
    }

    /// Marks a row deleted, or live again.
    #[inline]
    pub fn set_state(&mut self, slot: SlotIndex, state: RowState) {
        self.edit().set_state(slot, state);
    }

    /// Takes a row out for good; rows behind it move down by one slot (their twin entries go by row
    /// id and stay). What was reserved for it must have been given back.
    pub fn remove(&mut self, slot: SlotIndex) {
        self.edit().remove(slot);
    }

    /// Adds to, or takes from, the heap bytes that are kept free for rollbacks (rule 5.3).
    #[inline]
    pub fn reserve(&mut self, bytes: isize) {
        self.edit().reserve(bytes);
    }

    /// Lets go without having changed anything that readers see: they need not begin again.
    #[inline]
    pub fn unchanged(self) {
        self.page.unchanged();
    }

    #[inline]
    pub(super) fn edit(&mut self) -> LeafMut<'_> {
        LeafMut::new(self.page.bytes_mut(), self.layout)
    }

    /// The page was brought to another layout.
    pub(super) fn set_layout(&mut self, layout: &'t Layout) {
        self.layout = layout;
    }

    pub(super) fn page_mut(&mut self) -> &mut PageWrite {
        &mut self.page
    }
}

/// The layout version that a page names, read racily.
#[inline]
pub(super) fn layout_version(page: impl PageBytes) -> u16 {
    page.u16(rowleaf::AT_LAYOUT)
}
