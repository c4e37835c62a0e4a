//! Checking and freeing a whole table tree.
//!
//! Invariants: both are for a tree at rest: nobody writes while it is checked (collection may still merge
//! leaves: then it is checked again), nobody uses it any more when it is freed. What is damaged is named, one
//! sentence for each page and each long value, and passed over.

use std::collections::HashSet;

use super::TableTree;
use super::tree::row_key;
use crate::base::{Outcome, Pid, RowId};
use crate::latch::OwnedPage;
use crate::page::ColumnType;
use crate::page::overflow::LongRef;
use crate::page::rowleaf::{self, Leaf};
use crate::tree::descent::{FreedLeaves, MetLeaf, Onward, page_problem, place_name};
use crate::tree::overflow::{LongReader, Portion, free_chain, pages_of};

/// What a check calls on each leaf that is in order, with the list of problems to add to.
pub type VisitLeaf<'a> = &'a mut dyn FnMut(&Leaf<'_, OwnedPage<'_>>, &mut Vec<String>) -> Onward;

/// What came of checking leaves.
#[derive(Debug, Default)]
pub struct CheckedLeaves {
    /// What is wrong, a sentence each.
    pub problems: Vec<String>,
    /// Leaves that were met, in order or not.
    pub leaves: u64,
    /// Pages that could not be read or followed, or are not in order: nobody was shown their rows.
    pub passed_over: u64,
    /// The first row of the next leaf, if there was a pause before it.
    pub next: Option<RowId>,
}

impl TableTree {
    /// What is wrong with the tree, one sentence each; empty if nothing is: order, fences, counts,
    /// every leaf's structure, every inner node's.
    pub fn check(&self) -> Outcome<Vec<String>> {
        loop {
            let (mut leaves, mut passed_over, made) = (0, 0, self.leaves());
            let (mut faults, mut from) = (Vec::new(), Some(RowId(0)));
            while let Some(start) = from {
                let part = self.check_from(start, &mut |_, _| Onward::Go)?;
                faults.extend(part.problems);
                leaves += part.leaves;
                passed_over += part.passed_over;
                from = part.next;
            }
            if self.leaves() != made {
                // Collection still merges leaves, each of which it counts with the leaf latched.
                continue;
            }
            if passed_over == 0 && leaves != made {
                faults.push(format!("{leaves} leaves are linked, {made} were made"));
            }
            return Ok(faults);
        }
    }

    /// Checks inner nodes and leaves from the leaf that covers `from` on, and calls `visit` on each leaf that is
    /// in order. After a pause leaves may have been merged: then rows before `from` are shown again. Stops: errors
    /// that are no damage.
    pub fn check_from(&self, from: RowId, visit: VisitLeaf<'_>) -> Outcome<CheckedLeaves> {
        let start = if from == RowId(0) { Vec::new() } else { row_key(from).to_vec() };
        let (mut leaves, mut in_disorder) = (0, 0);
        let walked = self.trunk.walk(&start, &mut |met, problems| {
            leaves += 1;
            match self.leaf_in_order(met) {
                Ok(leaf) => visit(&leaf, problems),
                Err(faults) => {
                    in_disorder += 1;
                    problems.push(page_problem(OwnedPage(met.page), &faults));
                    Onward::Go
                }
            }
        })?;
        Ok(CheckedLeaves {
            problems: walked.problems,
            leaves,
            passed_over: walked.passed_over + in_disorder,
            next: walked.next.map(|fence| row_of(&fence)),
        })
    }

    /// The leaf, or what is wrong with it.
    fn leaf_in_order<'l>(
        &'l self,
        met: &MetLeaf<'l>,
    ) -> Result<Leaf<'l, OwnedPage<'l>>, Vec<String>> {
        let page = OwnedPage(met.page);
        let version = super::leaf::layout_version(page);
        let Some(layout) = self.layout_for(version) else {
            return Err(vec![format!("it has the unknown layout {version}")]);
        };
        let mut faults = rowleaf::check(met.page, layout);
        let leaf = Leaf::new(page, layout);
        let own_lower = match leaf.lower_fence() {
            RowId(0) => vec![],
            row => row_key(row).to_vec(),
        };
        let own_upper = leaf.upper_fence().map(row_key);
        if own_lower != met.lower || own_upper.as_ref().map(<[u8; 8]>::as_slice) != met.upper {
            faults.push("it has other fences than its parent says".to_owned());
        }
        if let Some(upper) = leaf.upper_fence()
            && upper > self.row_id_mark().max(RowId(1))
        {
            faults.push(format!("it ends at row {upper}, above the mark"));
        }
        let last =
            leaf.count().checked_sub(1).map(|last| leaf.row_id(rowleaf::SlotIndex(last as u16)));
        if last.is_some_and(|last| last > self.row_id_mark()) {
            faults.push("it has rows above the mark".to_owned());
        }
        if faults.is_empty() { Ok(leaf) } else { Err(faults) }
    }

    /// Reads every long value that a row refers to; adds their pages to `pages`. Answers what is
    /// wrong: a value that cannot be read, a page that two values have. For tests.
    pub fn check_longs(&self, pages: &mut HashSet<Pid>) -> Outcome<Vec<String>> {
        let (mut faults, mut from) = (Vec::new(), Some(RowId(0)));
        while let Some(start) = from {
            let part = self.check_from(start, &mut |leaf, _| {
                let found = self.check_longs_of(leaf, start, &mut |page| pages.insert(page));
                faults.extend(found);
                Onward::Go
            })?;
            from = part.next;
        }
        Ok(faults)
    }

    /// Reads the long values that a leaf's rows from `from` on refer to, a block at a time. `is_new` is told of each of
    /// their pages, and answers whether nobody has it. Answers what is wrong, a sentence for a value. Blocks; may
    /// be called with latches held (rule 25).
    pub fn check_longs_of(
        &self,
        leaf: &Leaf<'_, OwnedPage<'_>>,
        from: RowId,
        is_new: &mut dyn FnMut(Pid) -> bool,
    ) -> Vec<String> {
        let mut faults = Vec::new();
        for slot in leaf.lower_bound(from).index()..leaf.count() {
            let slot = rowleaf::SlotIndex(slot as u16);
            let row = leaf.row_id(slot);
            leaf.each_long(slot, |column, long| {
                let wrong = self.check_long(long, is_new);
                faults.extend(wrong.map(|what| format!("row {row}, column {column}: {what}")));
            });
        }
        faults
    }

    fn check_long(&self, long: LongRef, is_new: &mut dyn FnMut(Pid) -> bool) -> Option<String> {
        let (pool, owner) = (self.pool(), self.long_owner());
        for page in pages_of(pool, owner, long) {
            if !is_new(page) {
                let name = page.place().map_or_else(|| format!("page {page}"), place_name);
                return Some(format!("{name}: it belongs to two long values"));
            }
        }
        let (mut reader, mut block) = (LongReader::new(long, owner), Vec::new());
        loop {
            block.clear();
            match reader.portion(pool, &mut block) {
                Ok(Portion::More) => {}
                Ok(Portion::Done) => return None,
                Err(error) => return Some(error.to_string()),
            }
        }
    }

    /// Gives the frames of a checkpoint's table back; its places stay. Nobody uses it any more.
    pub fn forget(&self) {
        self.trunk.forget();
    }

    /// Gives all pages back. Nobody uses the tree any more (it was dropped below the horizon, and
    /// all undo that refers to it is gone). The tree must not be used afterwards. What cannot be read is told to the
    /// pool; what it leads to stays in use until a start.
    pub fn free_pages(&self) -> crate::base::Result<()> {
        let mut longs = Vec::new();
        // Leaves without variable columns name no long values.
        let is_variable = |column: &ColumnType| column.fixed_bytes().is_none();
        let has_longs = self.layout().columns().iter().any(is_variable);
        let seen = if has_longs { FreedLeaves::Seen } else { FreedLeaves::Unseen };
        let freed = self.trunk.free(seen, &mut |page, frame| {
            let view = OwnedPage(page);
            if let Some(layout) = self.layout_for(super::leaf::layout_version(view)) {
                let view = Leaf::new(view, layout);
                for slot in 0..view.count() {
                    view.each_long(rowleaf::SlotIndex(slot as u16), |_, long| longs.push(long));
                }
            }
            if let Some(frame) = frame {
                self.sides.dropped(frame);
            }
        });
        longs.iter().for_each(|long| free_chain(self.pool(), long.first));
        freed
    }
}

/// The first row at or behind a fence, which is a row's key if the leaf is in order.
fn row_of(fence: &[u8]) -> RowId {
    let mut key = [0; 8];
    let len = fence.len().min(key.len());
    key[..len].copy_from_slice(&fence[..len]);
    RowId(u64::from_be_bytes(key))
}
