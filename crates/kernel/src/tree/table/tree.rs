//! The tree itself: creation, layouts, reading, writing, scanning by fences.
//!
//! Invariants: everything in [`TableTree`] is immutable or an atomic that is written once per
//! leaf, range or layout, never per row (the ledger of kernel.md section 12). Reading writes
//! nothing (rule 1.3).

use std::sync::{Arc, OnceLock};

use super::append::RANGE_ROWS;
use super::leaf::layout_version;
use super::{LeafView, LeafWrite, SideTables};
use crate::base::{Error, HomeId, NeededPage, Outcome, Result, RowId, Stop, TreeId};
use crate::buffer::{BufferPool, PageRead, PageWrite};
use crate::latch::PageBytes;
use crate::page::keynode::{KeyNode, Probe};
use crate::page::rowleaf::{self, Leaf};
use crate::page::{Layout, PageKind};
use crate::sync::{AtomicU64, Ordering};
use crate::tree::descent::{KeepLeaf, LeafPlace, LeavePlaces, Side, Trunk};
use crate::tree::overflow::{LongOwner, LongPages};

/// Layouts that a tree may have over its life.
const LAYOUTS_MAX: usize = 256;

/// Leaves that `approximate_rows` looks at.
const SAMPLE_LEAVES: u64 = 32;

/// A row id as a key of the trunk: big-endian, so that byte order is number order.
#[inline]
pub(super) fn row_key(row: RowId) -> [u8; 8] {
    row.0.to_be_bytes()
}

/// The first row at or behind a separator, which may be shorter than a key.
fn row_of(separator: &[u8]) -> RowId {
    let mut key = [0; 8];
    let len = separator.len().min(key.len());
    key[..len].copy_from_slice(&separator[..len]);
    RowId(u64::from_be_bytes(key))
}

/// A table's rows. Shared by all instances; see the module.
pub struct TableTree {
    id: TreeId,
    long_owner: LongOwner,
    pub(super) trunk: Trunk,
    layouts: Layouts,
    pub(super) sides: Arc<dyn SideTables>,
    /// The next row-id range that nobody has (`append::RANGE_ROWS` each). Written once per range.
    pub(super) next_range: AtomicU64,
    /// Leaves. Written once per split; read by planners.
    pub(super) leaves: AtomicU64,
}

/// All layouts that leaves may name, oldest first. Only ever grows (rule 5.2).
struct Layouts {
    first: Layout,
    later: OnceLock<Box<[OnceLock<Layout>; LAYOUTS_MAX - 1]>>,
    /// The newest's number after the first. Written by DDL; read by writers of rows.
    newest: AtomicU64,
}

impl Layouts {
    #[inline]
    fn get(&self, version: u16) -> Option<&Layout> {
        match version.checked_sub(self.first.version()) {
            Some(0) => Some(&self.first),
            Some(later) => self.later.get()?.get(usize::from(later) - 1)?.get(),
            None => None,
        }
    }

    #[inline]
    fn newest(&self) -> &Layout {
        // Acquire: pairs with the release in `add`.
        let after = self.newest.load(Ordering::Acquire) as u16;
        self.get(self.first.version() + after).expect("layouts stay for ever")
    }

    fn add(&self, layout: Layout) -> Result<&Layout> {
        let newest = self.newest();
        let grown = layout.columns().starts_with(newest.columns());
        if layout.version() != newest.version() + 1 || !grown {
            return Err(Error::Internal { detail: "a layout adds columns to the newest".into() });
        }
        let after = usize::from(layout.version() - self.first.version());
        let later = self.later.get_or_init(|| Box::new([const { OnceLock::new() }; _]));
        let place = later.get(after - 1).ok_or(Error::Limit { what: "layouts of one table" })?;
        if place.set(layout).is_err() {
            return Err(Error::Internal { detail: "two layouts of one number".into() });
        }
        // Release: pairs with the acquire in `newest`.
        self.newest.store(after as u64, Ordering::Release);
        Ok(self.newest())
    }
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
        let mut format = |page: &mut PageWrite| {
            rowleaf::format(page.bytes_mut(), &layout, RowId(0), None);
        };
        let trunk = Trunk::create(pool.clone(), home, id, PageKind::TableLeaf, &mut format)?;
        Ok(TableTree {
            id,
            long_owner: LongOwner::newest(id),
            trunk,
            layouts: Layouts { first: layout, later: OnceLock::new(), newest: AtomicU64::new(0) },
            sides,
            next_range: AtomicU64::new(0),
            leaves: AtomicU64::new(1),
        })
    }

    /// A tree over pages that are there, all of them of `layout`, with so many leaves; ids from
    /// `rows_next` on were never used.
    pub fn adopt(
        trunk: Trunk,
        layout: Layout,
        sides: Arc<dyn SideTables>,
        leaves: u64,
        rows_next: u64,
    ) -> TableTree {
        TableTree {
            id: trunk.tree(),
            long_owner: LongOwner::newest(trunk.tree()),
            trunk,
            layouts: Layouts { first: layout, later: OnceLock::new(), newest: AtomicU64::new(0) },
            sides,
            next_range: AtomicU64::new(rows_next.div_ceil(RANGE_ROWS)),
            leaves: AtomicU64::new(leaves),
        }
    }

    /// The same, of a checkpoint that is pinned: its long values name their tree as `tree`.
    pub fn with_longs_of(self, tree: TreeId) -> TableTree {
        TableTree { long_owner: LongOwner { tree, pages: LongPages::OnDisk }, ..self }
    }

    /// Whose its rows' long values are.
    pub fn long_owner(&self) -> LongOwner {
        self.long_owner
    }

    /// Row ids from here on were never handed out.
    pub fn rows_next(&self) -> u64 {
        self.next_range.load(Ordering::Relaxed) * RANGE_ROWS
    }

    /// The tree's number.
    pub fn id(&self) -> TreeId {
        self.id
    }

    /// The pool that its pages are in.
    pub fn pool(&self) -> &Arc<BufferPool> {
        self.trunk.pool()
    }

    /// The newest layout.
    #[inline]
    pub fn layout(&self) -> &Layout {
        self.layouts.newest()
    }

    /// Registers a layout with more columns (rule 5.2) and returns it; leaves take it when they
    /// are next written to. Its version must be one above the newest; one caller at a time.
    pub fn add_layout(&self, layout: Layout) -> Result<&Layout> {
        self.layouts.add(layout)
    }

    /// Reads the leaf that covers `row`: `f` sees it racily, may run several times, and must begin
    /// anew each time; its result counts once the leaf's version has validated. A `Stop` of `f`
    /// is returned if it validates too (`Retry` only after many attempts). No latch is held while
    /// `f` runs, or a shared one after some attempts.
    #[inline]
    pub fn read<R, F>(&self, row: RowId, f: &mut F) -> Outcome<R>
    where
        F: FnMut(&LeafView<'_>) -> Outcome<R> + ?Sized,
    {
        let key = row_key(row);
        self.trunk.read_leaf(Probe::before(&key), Side::At, |page| f(&self.view(page)?))
    }

    /// As [`TableTree::read`], for scans: also answers the leaf's upper fence, where to go on,
    /// `None` after the last leaf.
    pub fn scan_leaf<R, F>(&self, from: RowId, f: &mut F) -> Outcome<(R, Option<RowId>)>
    where
        F: FnMut(&LeafView<'_>) -> Outcome<R> + ?Sized,
    {
        let key = row_key(from);
        self.trunk.pass_leaf(Probe::before(&key), Side::At, |page| {
            let leaf = self.view(page)?;
            Ok((f(&leaf)?, leaf.upper_fence()))
        })
    }

    /// Where the leaves end that have the same parent as the one that covers `row`: their rows are
    /// below; none if they are the last. Reads no leaf. Stops: `Retry`, `NeedPage`.
    pub fn part_end(&self, row: RowId) -> Outcome<Option<RowId>> {
        let upper = self.trunk.parent_end(Probe::before(&row_key(row)))?;
        Ok(upper.map(|key| row_of(&key)))
    }

    /// As [`Trunk::missing_leaves`], from the leaf that covers `row` on.
    pub fn missing_leaves(
        &self,
        row: RowId,
        most: usize,
        missing: &mut Vec<NeededPage>,
    ) -> Outcome<Option<RowId>> {
        let end = self.trunk.missing_leaves(Probe::before(&row_key(row)), most, missing)?;
        Ok(end.map(|key| row_of(&key)))
    }

    /// As [`Trunk::leave_places`], above the leaf that covers `row`.
    pub fn leave_places(&self, row: RowId, how: LeavePlaces<'_>) -> Outcome<Option<RowId>> {
        let end = self.trunk.leave_places(Probe::before(&row_key(row)), how)?;
        Ok(end.map(|key| row_of(&key)))
    }

    /// What the parent of the leaf that covers `row` says of it; see [`Trunk::leaf_place`].
    pub fn leaf_place(&self, row: RowId, keep: KeepLeaf<'_>) -> Outcome<LeafPlace> {
        self.trunk.leaf_place(Probe::before(&row_key(row)), keep)
    }

    /// The leaf that covers `row`, held exclusively. Stops: `Retry`.
    #[inline]
    pub fn write(&self, row: RowId) -> Outcome<LeafWrite<'_>> {
        let key = row_key(row);
        let page = self.trunk.write_leaf(Probe::before(&key))?;
        self.leaf_write(page)
    }

    #[inline]
    pub(super) fn view(&self, page: &PageRead) -> Outcome<LeafView<'_>> {
        let bytes = page.racy();
        let Some(layout) = self.layouts.get(layout_version(bytes)) else {
            return Err(self.unknown_layout(bytes));
        };
        Ok(LeafView::new(Leaf::new(bytes, layout), page.frame(), page.version()))
    }

    #[inline]
    pub(super) fn leaf_write(&self, page: PageWrite) -> Outcome<LeafWrite<'_>> {
        match self.layout_of(&page) {
            Ok(layout) => Ok(LeafWrite::new(page, layout)),
            Err(stop) => Err(stop),
        }
    }

    #[inline]
    pub(super) fn layout_of(&self, page: &PageWrite) -> Outcome<&Layout> {
        let bytes = page.owned();
        self.layouts.get(layout_version(bytes)).ok_or_else(|| self.unknown_layout(bytes))
    }

    /// The layout of that version, if it was ever registered.
    pub fn layout_for(&self, version: u16) -> Option<&Layout> {
        self.layouts.get(version)
    }

    #[cold]
    fn unknown_layout(&self, page: impl PageBytes) -> Stop {
        let detail = format!("layout {} of tree {} is unknown", layout_version(page), self.id);
        Stop::Error(Error::Corrupt { page: Some(crate::page::header::pid(page)), detail })
    }

    /// Leaves of the tree.
    pub fn leaves(&self) -> u64 {
        self.leaves.load(Ordering::Relaxed)
    }

    /// About how many rows the tree has, deleted ones left out: leaves times the mean of a sample.
    /// Right for trees of a few leaves. Takes microseconds, holds nothing.
    pub fn approximate_rows(&self) -> u64 {
        let leaves = self.leaves().max(1);
        let (mut rows, mut seen) = (0, 0);
        if leaves <= SAMPLE_LEAVES {
            let mut from = Some(RowId(0));
            while let Some(row) = from {
                let count = &mut |leaf: &LeafView<'_>| Ok(present(leaf));
                // Those that are not in memory are taken for as full as the others.
                let Ok((count, next)) = self.scan_leaf(row, count) else { break };
                rows += count;
                seen += 1;
                from = next;
            }
            return if from.is_none() { rows } else { rows * leaves / seen.max(1) };
        }
        // Planners want the same answer for the same tree: the sample's steps are fixed.
        let mut step = 0x9e37_79b9_7f4a_7c15_u64;
        for _ in 0..SAMPLE_LEAVES {
            rows += self.sample_leaf(&mut step).map_or(0, |count| {
                seen += 1;
                count
            });
        }
        rows * leaves / seen.max(1)
    }

    /// Rows of a leaf that is found by taking any child at each level.
    fn sample_leaf(&self, step: &mut u64) -> Outcome<u64> {
        let mut node = PageRead::begin(self.trunk.root())?;
        loop {
            let view = KeyNode::new(node.racy());
            let level = view.level();
            *step = step.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(1);
            let at = (*step >> 33) as usize % view.count().max(1);
            let child = PageRead::begin(node.child(view.swip_position(at))?)?;
            node.validate()?;
            if level <= 1 {
                let rows = present(&self.view(&child)?);
                child.validate()?;
                return Ok(rows);
            }
            node = child;
        }
    }
}

fn present(leaf: &LeafView<'_>) -> u64 {
    leaf.count().saturating_sub(leaf.deleted()) as u64
}
