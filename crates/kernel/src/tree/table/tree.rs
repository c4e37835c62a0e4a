//! The tree itself: creation, reading, writing, scanning by fences.
#![expect(clippy::todo)]
use super::{LeafView, LeafWrite, SideTables};
use crate::base::{HomeId, Outcome, Result, RowId, TreeId};
use crate::buffer::BufferPool;
use crate::page::Layout;
use std::sync::Arc;

/// A table's rows. Shared by all instances; see the module.
pub struct TableTree {
    id: TreeId,
}

impl TableTree {
    /// An empty tree with a root and one leaf in `home`. Error: `OutOfMemory`.
    pub fn create(
        pool: &Arc<BufferPool>,
        home: HomeId,
        id: TreeId,
        layout: Layout,
        sides: Arc<dyn SideTables>,
    ) -> Result<TableTree> {
        let _ = (pool, home, layout, sides);
        let _ = TableTree { id };
        todo!()
    }

    /// The tree's number.
    pub fn id(&self) -> TreeId {
        self.id
    }

    /// The newest layout.
    pub fn layout(&self) -> &Layout {
        todo!()
    }

    /// Registers a layout with more columns (rule 5.2) and returns it; leaves take it when they
    /// are next written to. Its version must be one above the newest.
    pub fn add_layout(&self, layout: Layout) -> Result<&Layout> {
        let _ = layout;
        todo!()
    }

    /// Reads the leaf that covers `row`: `f` sees it racily, may run several times, and must begin
    /// anew each time; its result counts once the leaf's version has validated. A `Stop` of `f`
    /// is returned if it validates too (`Retry` only after many attempts). No latch is held while
    /// `f` runs, or a shared one after some attempts.
    pub fn read<R, F>(&self, row: RowId, f: &mut F) -> Outcome<R>
    where
        F: FnMut(&LeafView<'_>) -> Outcome<R> + ?Sized,
    {
        let _ = (row, f);
        todo!()
    }

    /// As [`TableTree::read`], for scans: also answers the leaf's upper fence, where to go on,
    /// `None` after the last leaf.
    pub fn scan_leaf<R, F>(&self, from: RowId, f: &mut F) -> Outcome<(R, Option<RowId>)>
    where
        F: FnMut(&LeafView<'_>) -> Outcome<R> + ?Sized,
    {
        let _ = (from, f);
        todo!()
    }

    /// The leaf that covers `row`, held exclusively. Stops: `Retry`.
    pub fn write(&self, row: RowId) -> Outcome<LeafWrite<'_>> {
        let _ = row;
        todo!()
    }

    /// The largest row id that was ever handed out or restored.
    pub fn row_id_mark(&self) -> RowId {
        todo!()
    }

    /// Makes sure that ids up to `row` are not handed out (recovery).
    pub fn raise_row_id_mark(&self, row: RowId) {
        let _ = row;
        todo!()
    }

    /// Leaves of the tree.
    pub fn leaves(&self) -> u64 {
        todo!()
    }

    /// About how many rows the tree has, from a sample of its leaves.
    pub fn approximate_rows(&self) -> u64 {
        todo!()
    }
}
