//! One instance's share of a checkpoint: tables in tiles, those rows first whose older versions hold undo back.
//!
//! A table is walked from its first row to its last, as an index is (`index.rs`), past what is imaged already. In
//! between, and before anything but small tables, the instance images the leaves that it has listed
//! (`version/imaging.rs`), whatever their tables: so undo is let go of within milliseconds, and the walk can
//! take its time (rule 8.8). What is between two tiles is imaged alone: of a leaf that reaches further
//! (it was merged with what has been imaged) the rest is cut off.
//!
//! Invariants: those of `tiles.rs`; nothing is latched while anything is waited for. An instance that has
//! gone through all its trees goes on with listed leaves until all others have.

use super::image::{Work, table_leaf};
use super::tiles::{At, Tiles};
use super::tree::{ImagedTree, Imager};
use super::{Share, image::Leaf};
use crate::base::{Cts, Error, Outcome, Place, Result, RowId, TreeId};
use crate::buffer::{FrameRef, PageRead};
use crate::page::{PageKind, header, rowleaf};
use crate::runtime::{InstanceState, Parker};
use crate::sync::{Ordering, ledger, mutant};
use crate::tree::descent::LeavePlaces;
use crate::version::{TableAccess, ToImage, TransactionStates};

/// How often who waits looks for listed leaves, and whether others have ended.
const LOOK_NS: u64 = 2_000_000;

/// When the leaves of a share's trees are imaged.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum When {
    /// At once, before any listed leaf.
    First,
    /// As soon as no leaf is listed.
    Soon,
    /// When they are due, and none is listed.
    Due,
}

/// Images trees, in the order in which it is told to.
pub(super) struct ShareImager<'i, 'w, 'c, 's, S: InstanceState> {
    pub(super) imager: &'i mut Imager<'w, 'c, S>,
    pub(super) share: &'s Share<'s>,
    states: &'s dyn TransactionStates,
    work: Work,
    when: When,
    /// Leaves gone past, of all trees.
    pub(super) passed: u64,
}

impl<'i, 'w, 'c, 's, S: InstanceState> ShareImager<'i, 'w, 'c, 's, S> {
    pub(super) fn new(
        imager: &'i mut Imager<'w, 'c, S>,
        (share, states): (&'s Share<'s>, &'s dyn TransactionStates),
        when: When,
    ) -> Self {
        ShareImager { imager, share, states, work: Work::default(), when, passed: 0 }
    }

    /// Images a table as S sees it. `before`: the tree in the published checkpoint.
    pub(super) fn image_table(
        &mut self,
        table: TreeId,
        before: Option<&ImagedTree>,
    ) -> Result<ImagedTree> {
        let (table, tiles) = self.share.common.table(table).expect("it is in the checkpoint");
        let mut from = Some(RowId(0));
        let mut nodes_done = Some(RowId(0));
        while let Some(row) = from {
            self.wait_for_pace()?;
            if nodes_done.is_some_and(|end| end <= row) {
                let tree = &table.tree;
                let leave = |how: LeavePlaces<'_>| tree.leave_places(row, how);
                nodes_done = self.imager.leave_places(tree.pool(), leave)?;
            }
            from = self.go_past(table, tiles, row)?;
            self.passed += 1;
        }
        let (leaves, all_held) = loop {
            if let Some(taken) = tiles.take() {
                break taken;
            }
            self.look_again()?;
        };
        // The first child of a node that begins it all has no key.
        let lower =
            |row: RowId| if row == RowId(0) { Vec::new() } else { row.0.to_be_bytes().to_vec() };
        let leaves = leaves.into_iter().map(|(row, place)| (lower(row), place));
        self.imager.finish(table.id(), leaves, (all_held, before))
    }

    /// Goes past the tile at `row`, imaging it if nobody has; answers where the next one begins.
    fn go_past(&mut self, table: &TableAccess, tiles: &Tiles, row: RowId) -> Result<Option<RowId>> {
        loop {
            let bound = match tiles.at(row) {
                At::Tile(upper) => return Ok(upper),
                At::Gap(bound) => bound,
            };
            let (leaf, upper) = self.image_leaf(table, (row, bound))?;
            if !tiles.claim(row, upper) {
                // Another was faster.
                continue;
            }
            let (place, is_held) = self.imager.take(leaf)?;
            tiles.put(row, place, is_held);
            return Ok(upper);
        }
    }

    fn image_leaf(
        &mut self,
        table: &TableAccess,
        (row, bound): (RowId, Option<RowId>),
    ) -> Result<(Leaf, Option<RowId>)> {
        let (tree, moves) = (&table.tree, self.imager.moves.clone());
        let keep = |place: Place| moves.keep(place);
        let (snapshot, states, work) = (&self.share.snapshot, self.states, &mut self.work);
        self.imager.until_done(tree.pool(), |page| {
            // Only a leaf that is taken whole is held where it lies: what is held counts as the checkpoint's.
            let fits = |upper: Option<&[u8]>| {
                bound.is_none_or(|bound| upper.is_some_and(|upper| row_of(upper) <= bound))
            };
            let keep_whole = |lower: &[u8], upper: Option<&[u8]>, at: Place| {
                Ok(row_of(lower) == row && fits(upper) && keep(at)?)
            };
            let place = tree.leaf_place(row, &keep_whole)?;
            if let Some(on_disk) = place.on_disk {
                return Ok((Leaf::Clean(on_disk), place.upper.as_deref().map(row_of)));
            }
            table_leaf(table, (row, bound), (snapshot, states, &keep), page, work)
        })
    }

    /// Images what is listed, and lets go of what was waited for.
    pub(super) fn image_listed(&mut self) -> Result<()> {
        let share = self.share;
        while let Some(listed) = (share.next_listed)() {
            share.ask_whether_to_go_on()?;
            match covered_by(listed) {
                Ok(None) => {}
                Ok(Some((tree, first, upper))) => {
                    self.image_rows(tree, first, upper)?;
                    note_imaged(listed.frame(), (tree, first, upper), share.snapshot.timestamp);
                }
                Err(_) => {
                    (share.give_back)(listed);
                    let _pause = ledger::timed(ledger::What::Retry);
                    self.imager.writer.context().yield_now();
                    continue;
                }
            }
            (share.imaged)(listed);
        }
        (share.let_go)();
        Ok(())
    }

    fn image_rows(&mut self, tree: TreeId, first: RowId, upper: Option<RowId>) -> Result<()> {
        let Some((table, tiles)) = self.share.common.table(tree) else { return Ok(()) };
        let mut from = Some(first);
        while let Some(row) = from.filter(|row| upper.is_none_or(|upper| *row < upper)) {
            from = self.go_past(table, tiles, row)?;
        }
        Ok(())
    }

    /// Images listed leaves until all instances have gone through their trees.
    pub(super) fn image_listed_to_the_end(&mut self) -> Result<()> {
        while self.share.common.goes_on() {
            self.look_again()?;
        }
        self.share.ask_whether_to_go_on()
    }

    /// Images what is listed, unless the share's leaves come first; waits then until the next one is due, if it is to.
    pub(super) fn wait_for_pace(&mut self) -> Result<()> {
        self.share.ask_whether_to_go_on()?;
        if self.when == When::First {
            return Ok(());
        }
        self.image_listed()?;
        if self.when == When::Soon {
            return Ok(());
        }
        let context = self.imager.writer.context();
        while context.now_ns() < (self.share.due_ns)(self.passed) {
            // Not while others are waited for: one that stands still is to be found out.
            self.share.turn.beat_ns.store(context.now_ns(), Ordering::Relaxed);
            self.look_again()?;
        }
        Ok(())
    }

    /// Images what was listed meanwhile, then lets others run for a while.
    fn look_again(&mut self) -> Result<()> {
        self.share.ask_whether_to_go_on()?;
        self.image_listed()?;
        let context = self.imager.writer.context();
        if context.instance().is_stopping() {
            return Err(Error::ShuttingDown);
        }
        context.park(Some(context.now_ns() + LOOK_NS));
        Ok(())
    }
}

/// Rows of a table's tree, from the first to below the last.
type Rows = (TreeId, RowId, Option<RowId>);

/// The rows of the leaf in the frame that is listed, if there is one.
fn covered_by(listed: ToImage) -> Outcome<Option<Rows>> {
    if mutant("checkpoint-listed-unseen") {
        return Ok(None);
    }
    let read = PageRead::begin_cold(listed.frame())?;
    let rows = rows_in(&read);
    read.validate()?;
    Ok(rows)
}

/// Racy.
fn rows_in(read: &PageRead) -> Option<Rows> {
    let page = read.racy();
    let is_leaf = header::kind(page) == Some(PageKind::TableLeaf);
    let (first, upper) = rowleaf::fences(page);
    is_leaf.then(|| (header::tree(page), first, upper))
}

/// The leaf in the frame need not be listed again, if these are still its rows, and nobody is in the way.
fn note_imaged(frame: FrameRef, rows: Rows, checkpoint: Cts) {
    let Ok(read) = PageRead::begin_cold(frame) else { return };
    let found = rows_in(&read);
    if let Ok(page) = read.upgrade() {
        if found == Some(rows) {
            page.frame().set_imaged_as_of(checkpoint);
        }
        page.unchanged();
    }
}

/// The row of a key of a table's inner node; the first child of all has none.
fn row_of(key: &[u8]) -> RowId {
    key.first_chunk().map_or(RowId(0), |row| RowId(u64::from_be_bytes(*row)))
}
