//! The rows of a table: the structure of their tree, their long values, and what their keys are.
//!
//! Invariants: each leaf is looked at once, with the latches of the walk held, so nothing here waits for any
//! (long values may be loaded: buffer/long.rs). If collection has merged leaves meanwhile all is begun again, for some
//! may have been met twice.

use super::tallies::{Balance, Lines, PageSet};
use super::{Check, ended};
use crate::base::{Outcome, Result, RowId};
use crate::latch::{OwnedPage, PageBytes};
use crate::page::rowleaf::{Leaf, RowState, SlotIndex};
use crate::tree::descent::Onward;
use crate::tree::table::{CheckedLeaves, TableTree};
use crate::version::undo::{copy_newest, resolve_keys};
use crate::version::{IndexAccess, RowBuffer};

/// What a table's rows are.
#[derive(Default)]
pub(super) struct Rows {
    /// Those that live.
    pub count: u64,
    /// Pages and long values that could not be read: of some rows nothing is known.
    pub unread: u64,
    /// For each index, what the rows say that its entries are.
    pub balances: Vec<Balance>,
}

/// Checks a table's tree and long values; tells what is wrong.
pub(super) fn check_rows(
    tree: &TableTree,
    indexes: &[IndexAccess],
    label: &str,
    check: &mut Check,
) -> Result<Rows> {
    loop {
        let made = tree.leaves();
        let mut walk = RowWalk::new(tree, indexes);
        let mut from = Some(RowId(0));
        while let Some(start) = from {
            let visited =
                tree.check_from(start, &mut |leaf, problems| walk.leaf(leaf, start, problems));
            let part = ended(visited)?;
            from = part.next;
            walk.take_in(part);
        }
        // A merge counts with the leaf latched.
        if tree.leaves() == made {
            return Ok(walk.finish(made, label, check));
        }
    }
}

struct RowWalk<'t> {
    tree: &'t TableTree,
    indexes: &'t [IndexAccess],
    found: Rows,
    leaves: u64,
    lines: Lines,
    longs: PageSet,
    keys: KeyMaker,
}

impl<'t> RowWalk<'t> {
    fn new(tree: &'t TableTree, indexes: &'t [IndexAccess]) -> RowWalk<'t> {
        let balances = indexes.iter().map(|_| Balance::new(tree.rows_next())).collect();
        RowWalk {
            tree,
            indexes,
            found: Rows { balances, ..Rows::default() },
            leaves: 0,
            lines: Lines::default(),
            longs: PageSet::default(),
            keys: KeyMaker::default(),
        }
    }

    /// A leaf that is in order; its rows before `from` have been met already.
    fn leaf(
        &mut self,
        leaf: &Leaf<'_, OwnedPage<'_>>,
        from: RowId,
        problems: &mut Vec<String>,
    ) -> Onward {
        let longs = &mut self.longs;
        let wrong = self.tree.check_longs_of(leaf, from, &mut |page| longs.insert(page));
        let are_longs_read = wrong.is_empty();
        self.found.unread += wrong.len() as u64;
        problems.extend(wrong);
        for (row, slot) in live_rows(leaf, from) {
            self.found.count += 1;
            for (index, balance) in self.indexes.iter().zip(&mut self.found.balances) {
                match self.keys.make(self.tree, index, leaf, slot) {
                    Ok(key) => balance.add(row, key),
                    Err(stop) => {
                        self.found.unread += 1;
                        // Else it is a long value of which was just told.
                        if are_longs_read {
                            problems.push(format!("row {row}: its keys cannot be made: {stop:?}"));
                        }
                    }
                }
            }
        }
        Onward::Go
    }

    fn take_in(&mut self, part: CheckedLeaves) {
        self.leaves += part.leaves;
        self.found.unread += part.passed_over;
        self.lines.add(part.problems);
    }

    fn finish(mut self, made: u64, label: &str, check: &mut Check) -> Rows {
        if self.found.unread == 0 && self.leaves != made {
            self.lines.add([format!("{} leaves are linked, {made} were made", self.leaves)]);
        }
        let twice = check.longs.take_in(self.longs);
        if twice > 0 {
            let wrong = "of its overflow pages belong to long values of other tables, too";
            self.lines.add([format!("{twice} {wrong}")]);
        }
        check.unread += self.found.unread;
        check.findings.tell(label, self.lines);
        self.found
    }
}

/// The rows of a leaf that live, from `from` on.
pub(super) fn live_rows<'l>(
    leaf: &'l Leaf<'_, OwnedPage<'_>>,
    from: RowId,
) -> impl Iterator<Item = (RowId, SlotIndex)> + 'l {
    let slots = leaf.lower_bound(from).index()..leaf.count();
    let live = slots.map(|slot| SlotIndex(slot as u16));
    let live = live.filter(move |slot| leaf.state(*slot) == RowState::Live);
    live.map(move |slot| (leaf.row_id(slot), slot))
}

/// Makes keys of rows; its memory is used again.
#[derive(Default)]
pub(super) struct KeyMaker {
    row: RowBuffer,
    key: Vec<u8>,
}

impl KeyMaker {
    /// The key of the row in `slot`. Stops: `Retry` if a reference in it leads to no long value, and why a long
    /// value cannot be read.
    pub fn make<B: PageBytes>(
        &mut self,
        tree: &TableTree,
        index: &IndexAccess,
        leaf: &Leaf<'_, B>,
        slot: SlotIndex,
    ) -> Outcome<&[u8]> {
        self.row.clear();
        copy_newest(leaf, slot, &index.columns, &mut self.row);
        resolve_keys(tree, &mut self.row, 0)?;
        let row = &self.row;
        index.encode(&mut self.key, |at| row.column(at));
        Ok(&self.key)
    }
}
