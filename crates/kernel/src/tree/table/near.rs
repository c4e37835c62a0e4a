//! Where a row was found last: whoever reads a row often changes it next, or reads its neighbour.
//!
//! Invariants: a [`LeafHint`] is a guess and never more. The leaf it names is taken only if, under
//! the version (or the latch) with which it is then used, it is a leaf of this tree, by frame and
//! PID, whose fences cover the row: frames are never unmapped and PIDs never reused, so that is what
//! a descent would have found. Everything else descends. A hint holds nothing and may be kept over
//! waits; it is private to its owner.

use super::{LeafView, LeafWrite, TableTree};
use crate::base::{Outcome, Pid, RowId, Stop, TreeId};
use crate::buffer::{FrameRef, PageRead};
use crate::page::{PageKind, header};
use crate::sync::{mutant, point};

/// Where a row was found last.
#[derive(Clone, Copy, Debug, Default)]
pub struct LeafHint(Option<(TreeId, FrameRef, Pid)>);

impl LeafHint {
    #[inline]
    fn place(&self, tree: TreeId) -> Option<(FrameRef, Pid)> {
        self.0.filter(|place| place.0 == tree).map(|place| (place.1, place.2))
    }
}

impl TableTree {
    /// As [`TableTree::read`], beginning where `hint` says; `hint` then says where it was.
    #[inline]
    pub fn read_near<R, F>(&self, hint: &mut LeafHint, row: RowId, f: &mut F) -> Outcome<R>
    where
        F: FnMut(&LeafView<'_>) -> Outcome<R> + ?Sized,
    {
        if let Some((frame, pid)) = hint.place(self.id())
            && let Some(done) = self.read_hinted(frame, pid, row, f)
        {
            return done;
        }
        let mut found = None;
        let result = self.read(row, &mut |leaf: &LeafView<'_>| {
            found = Some((self.id(), leaf.frame(), leaf.frame().pid()));
            f(leaf)
        });
        *hint = LeafHint(found);
        result
    }

    /// None if the row is not there, or the leaf did not validate.
    #[inline]
    fn read_hinted<R, F>(
        &self,
        frame: FrameRef,
        pid: Pid,
        row: RowId,
        f: &mut F,
    ) -> Option<Outcome<R>>
    where
        F: FnMut(&LeafView<'_>) -> Outcome<R> + ?Sized,
    {
        let page = PageRead::begin(frame).ok()?;
        if frame.pid() != pid || header::kind(page.racy()) != Some(PageKind::TableLeaf) {
            return None;
        }
        let view = self.view(&page).ok()?;
        if !view.covers(row) && !mutant("table_hint_fence_unchecked") {
            return None;
        }
        let result = f(&view);
        point("table.near.read");
        page.validate().ok()?;
        // What is not to be believed yet is asked again by a descent.
        if matches!(result, Err(Stop::Retry)) { None } else { Some(result) }
    }

    /// As [`TableTree::write`], beginning where `hint` says.
    #[inline]
    pub fn write_near(&self, hint: &LeafHint, row: RowId) -> Outcome<LeafWrite<'_>> {
        if let Some((frame, pid)) = hint.place(self.id())
            && let Some(leaf) = self.cached_leaf(frame, pid)?
        {
            if leaf.view().covers(row) || mutant("table_hint_fence_unchecked") {
                return Ok(leaf);
            }
            leaf.unchanged();
        }
        self.write(row)
    }
}
