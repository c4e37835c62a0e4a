//! Reading and writing a row where it was found last ([`crate::tree::hints`]).
//!
//! Invariants: the hinted leaf is taken only if, under the version (or the latch) with which it is
//! then used, it is a leaf of this tree whose fences cover the row. Everything else descends.

use std::cell::Cell;

use super::{LeafView, LeafWrite, TableTree};
use crate::base::{Outcome, RowId, Stop};
use crate::buffer::PageRead;
use crate::page::PageKind;
use crate::page::rowleaf::SlotIndex;
use crate::sync::{mutant, point};
use crate::tree::hints::{self, LeafHint, LeafHints};

impl TableTree {
    /// As [`TableTree::read`], beginning where `hints` say, which then say where it was.
    #[inline]
    pub fn read_near<R, F>(&self, hints: &LeafHints, row: RowId, f: &mut F) -> Outcome<R>
    where
        F: FnMut(&LeafView<'_>) -> Outcome<R> + ?Sized,
    {
        let hint = hints.of_row(self.id(), row);
        if let Some(page) = hints::begin(hint.get(), self.id(), PageKind::TableLeaf)
            && let Some(done) = self.read_hinted(&page, row, f)
        {
            return done;
        }
        let mut found = LeafHint::default();
        let result = self.read(row, &mut |leaf: &LeafView<'_>| {
            found = LeafHint::new(self.id(), leaf.frame());
            f(leaf)
        });
        hint.set(found);
        result
    }

    /// Reads a row in the leaf that `hint` says, or not at all: none if that is not the row's leaf, or
    /// did not validate. `f` is given its slot, none if the row is nowhere.
    #[inline]
    pub fn read_there<R>(
        &self,
        hint: LeafHint,
        row: RowId,
        f: impl FnOnce(&LeafView<'_>, Option<SlotIndex>) -> Outcome<R>,
    ) -> Option<Outcome<R>> {
        let page = hints::begin(hint, self.id(), PageKind::TableLeaf)?;
        let view = self.view(&page).ok()?;
        let likely = view.likely_slot(row);
        // A row that is in a leaf belongs there.
        let slot = if view.holds(likely, row) {
            Some(likely)
        } else if view.covers(row) || mutant("table_hint_fence_unchecked") {
            view.find(row)
        } else {
            return None;
        };
        believed(&page, f(&view, slot))
    }

    /// None if the row is not there, or the leaf did not validate.
    #[inline]
    fn read_hinted<R, F>(&self, page: &PageRead, row: RowId, f: &mut F) -> Option<Outcome<R>>
    where
        F: FnMut(&LeafView<'_>) -> Outcome<R> + ?Sized,
    {
        let view = self.view(page).ok()?;
        if !view.covers(row) && !mutant("table_hint_fence_unchecked") {
            return None;
        }
        believed(page, f(&view))
    }

    /// As [`TableTree::write`], beginning where `near` says, which then says where it was.
    #[inline]
    pub fn write_near(&self, near: &Cell<LeafHint>, row: RowId) -> Outcome<LeafWrite<'_>> {
        if let Some(frame) = near.get().frame(self.id())
            && let Some(leaf) = self.cached_leaf(frame)?
        {
            if leaf.view().covers(row) || mutant("table_hint_fence_unchecked") {
                return Ok(leaf);
            }
            leaf.unchanged();
        }
        let leaf = self.write(row)?;
        near.set(LeafHint::new(self.id(), leaf.frame()));
        Ok(leaf)
    }
}

/// What was read in a hinted leaf, if it validates. None: a descent asks again.
#[inline]
fn believed<R>(page: &PageRead, result: Outcome<R>) -> Option<Outcome<R>> {
    point("table.near.read");
    (page.validate().is_ok() && !matches!(result, Err(Stop::Retry))).then_some(result)
}
