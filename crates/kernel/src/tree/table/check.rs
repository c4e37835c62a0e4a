//! Checking and freeing a whole table tree.
//!
//! Invariants: both are for a tree at rest: nobody writes while it is checked (collection may still merge
//! leaves: then it is checked again), nobody uses it any more when it is freed.

use std::collections::HashSet;

use super::tree::row_key;
use super::{LeafView, TableTree};
use crate::base::{Outcome, PAGE_BYTES, Pid, RowId, Stop};
use crate::latch::OwnedPage;
use crate::page::pax::{self, Leaf};
use crate::page::{ColumnType, header};
use crate::tree::descent::FreedLeaves;
use crate::tree::overflow::{free_chain, pages_of, read_whole};

impl TableTree {
    /// What is wrong with the tree, one sentence each; empty if nothing is: order, fences, counts,
    /// every leaf's structure, every inner node's.
    pub fn check(&self) -> Outcome<Vec<String>> {
        loop {
            let (mut leaves, made) = (0, self.leaves());
            let mut faults = self.trunk.check(&mut |page, lower, upper, faults| {
                leaves += 1;
                self.check_leaf(page, lower, upper, faults);
            })?;
            if self.leaves() != made {
                // Collection still merges leaves, each of which it counts with the leaf latched.
                continue;
            }
            if leaves != made {
                faults.push(format!("{leaves} leaves are linked, {made} were made"));
            }
            return Ok(faults);
        }
    }

    fn check_leaf(
        &self,
        bytes: &[u8; PAGE_BYTES],
        lower: &[u8],
        upper: Option<&[u8]>,
        faults: &mut Vec<String>,
    ) {
        let pid = header::pid(OwnedPage(bytes));
        let Some(layout) = self.layout_for(super::leaf::layout_version(OwnedPage(bytes))) else {
            faults.push(format!("leaf {pid} has an unknown layout"));
            return;
        };
        faults.extend(pax::check(bytes, layout).into_iter().map(|it| format!("leaf {pid}: {it}")));
        let view = Leaf::new(OwnedPage(bytes), layout);
        let own_lower = match view.lower_fence() {
            RowId(0) => vec![],
            row => row_key(row).to_vec(),
        };
        let own_upper = view.upper_fence().map(row_key);
        if own_lower != lower || own_upper.as_ref().map(<[u8; 8]>::as_slice) != upper {
            faults.push(format!("leaf {pid} has other fences than its parent says"));
        }
        if let Some(upper) = view.upper_fence()
            && upper > self.row_id_mark().max(RowId(1))
        {
            faults.push(format!("leaf {pid} ends at row {upper}, above the mark"));
        }
        let last = view.count().checked_sub(1).map(|last| view.row_id(pax::SlotIndex(last as u16)));
        if last.is_some_and(|last| last > self.row_id_mark()) {
            faults.push(format!("leaf {pid} has rows above the mark"));
        }
    }

    /// Reads every long value that a row refers to; adds their pages to `pages`. Answers what is
    /// wrong: a value that cannot be read, a page that two values have.
    pub fn check_longs(&self, pages: &mut HashSet<Pid>) -> Outcome<Vec<String>> {
        let mut longs = Vec::new();
        let mut from = Some(RowId(0));
        while let Some(start) = from {
            let scanned = self.scan_leaf(start, &mut |leaf: &LeafView<'_>| {
                let mut found = Vec::new();
                for slot in leaf.lower_bound(start).index()..leaf.count() {
                    let slot = pax::SlotIndex(slot as u16);
                    let row = leaf.row_id(slot);
                    leaf.each_long(slot, |column, long| found.push((row, column, long)));
                }
                Ok(found)
            });
            let (found, next) = match scanned {
                // Begun again here, not at the tree's beginning.
                Err(Stop::NeedPage(page)) => {
                    self.pool().load_now(page)?;
                    continue;
                }
                scanned => scanned?,
            };
            longs.extend(found);
            from = next;
        }
        let mut faults = Vec::new();
        let mut value = Vec::new();
        for (row, column, reference) in longs {
            value.clear();
            for page in pages_of(self.pool(), self.long_owner(), reference) {
                if !pages.insert(page) {
                    faults.push(format!(
                        "row {row}, column {column}: page {page} belongs to two long values"
                    ));
                    break;
                }
            }
            if let Err(error) = read_whole(self.pool(), self.long_owner(), reference, &mut value) {
                faults.push(format!("row {row}, column {column}: {error}"));
            }
        }
        Ok(faults)
    }

    /// Gives the frames of a checkpoint's table back; its places stay. Nobody uses it any more.
    pub fn forget(&self) {
        self.trunk.forget();
    }

    /// Gives all pages back. Nobody uses the tree any more (it was dropped below the horizon, and
    /// all undo that refers to it is gone). The tree must not be used afterwards.
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
                    view.each_long(pax::SlotIndex(slot as u16), |_, long| longs.push(long));
                }
            }
            if let Some(frame) = frame {
                self.sides.dropped(frame);
            }
        });
        for long in longs {
            free_chain(self.pool(), long.first)?;
        }
        freed
    }
}
