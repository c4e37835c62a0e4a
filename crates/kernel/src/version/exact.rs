//! Sweeping index leaves whose rows are settled, so that scans need not look at the rows (rule 5.7).
//!
//! A sweep looks at every row of a leaf, as a scan does that finds no bit, so it pays only where scans
//! come by again. Therefore scans say what they would have liked: an instance keeps a list of ranges
//! whose rows its scans had to look at though they asked for columns of the index alone, and sweeps
//! them in portions. What nobody reads so is never swept.
//!
//! Invariants:
//! - A leaf gets its bit only if, under its exclusive latch, every entry's row has no undo (its
//!   newest record is reclaimed: the version is stable and below the horizon), is not deleted and
//!   has the entry's key (as all its versions have if the leaf is keyed). Table leaves are read, never latched, meanwhile (`tree::index::exact` has
//!   why that is enough).
//! - None gets it while a checkpoint is still to copy its index (`collect/postponed.rs` tells when): rows may be settled that
//!   its S sees otherwise, or not at all, and who reads the checkpoint, or a database restored to a moment soon
//!   after, would believe the copy. Bits that are older than S are true of what S sees, until a change clears them. As for
//!   entries: undo that S needs goes only when this instance has seen the checkpoint, and no sweep goes on then.
//! - Never waits: what is latched, or not settled, is tried again, after longer and longer pauses, and
//!   forgotten after [`TRIES_MAX`]; leaves that have the bit cost a descent then.
//! - Sweeps judge about as many entries as scans have looked at rows in vain: of small scans only
//!   each one that fills [`SWEEP_AT`] is noted, and a range that is noted already is not noted again.
//! - Sweeps that spare scans less than they cost are wanted in vain (of a queue, whose first row everybody wants: most
//!   leaves become exact, and few scans come by). Scans tell how many rows exact leaves have spared them; where these are
//!   not half as many as entries were judged, so many more looks at rows it takes to note the next range of
//!   the index: twice as many each time. Sweeps that were worth it end that.
//! - The list is bounded, and may forget: who reads the range again asks for it again.
//! - An entry that a crash, or the end of a process, has left over keeps its leaf from being exact, and is noted to be
//!   removed as any other is, if no retained version has its key (`entries`). That its row is not there is enough to
//!   note it: rows come before their entries, and ids are never used twice.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;

use rustc_hash::FxHashMap;

use super::access::{IndexAccess, TableAccess, Tables};
use super::row_buffer::RowBuffer;
use super::{InstanceVersions, Presence, longs};
use crate::base::{Outcome, RowId, Stop, TreeId};
use crate::page::rowleaf::RowState;
use crate::sync::mutant;
use crate::tree::hints::LeafHints;
use crate::tree::index::{Exact, Judged, LeafStamp};
use crate::tree::table::LeafView;

/// Ranges in an instance's list, beyond which the oldest is forgotten.
const RANGES_MAX: usize = 512;
/// The last ranges of the list that a leaf may lengthen: as many scans may go on at a time and have one range each.
const SCANS: usize = 8;
/// Rows of an index that scans look at in vain before the leaf of the last one is noted: about those of a leaf.
const SWEEP_AT: usize = 128;
/// How often [`SWEEP_AT`] may be doubled for an index: a scan of half a million rows is always noted.
const DOUBLINGS_MAX: u32 = 12;
/// Indexes whose demands are remembered; then all are forgotten (many were dropped, most likely).
const DEMANDS_MAX: usize = 4096;
/// After so many entries judged it is compared what that has spared scans.
const COMPARED_AT: usize = 4096;
/// How often a range is gone through in vain before it is forgotten. Each pause is twice the last, up to 64 sweeps: two or three seconds.
const TRIES_MAX: u32 = 8;
/// Places of its rows' leaves that a sweep remembers, as a power of two: an index leaf's rows lie in
/// many leaves, and without a hint half of a look at a row is the way to its leaf.
const SWEEP_HINTS: u32 = 11;
/// What a leaf that needs no look at its entries counts like, in entries.
const LEAF_COST: usize = 16;

/// A range of an index to be swept: from one leaf's lower fence to another's upper one.
struct Range {
    table: TreeId,
    index: TreeId,
    from: Vec<u8>,
    /// None: up to the end.
    to: Option<Vec<u8>>,
    /// The next leaf.
    at: Vec<u8>,
    /// Whether a leaf before that was not ready.
    missed: bool,
    /// How often it was gone through in vain.
    tries: u32,
    /// Not before this round.
    due: u64,
}

impl Range {
    fn is_before_end(&self, key: &[u8]) -> bool {
        self.to.as_ref().is_none_or(|to| key < to.as_slice())
    }

    /// Takes in a leaf that is within, begins at its end or ends at its beginning.
    fn takes_in(&mut self, leaf: &LeafStamp<'_>) -> bool {
        if self.to.as_deref().is_some_and(|to| to == leaf.lower) {
            self.to = leaf.upper.map(<[u8]>::to_vec);
            return true;
        }
        if leaf.upper.is_some_and(|upper| upper == self.from) {
            self.from = leaf.lower.to_vec();
            self.at.clone_from(&self.from);
            return true;
        }
        *self.from <= *leaf.lower && self.is_before_end(leaf.lower)
    }

    /// It is gone through from its beginning, not before round `due`.
    fn begin_again(&mut self, due: u64) {
        self.at.clone_from(&self.from);
        self.missed = false;
        self.due = due;
    }
}

/// What scans have asked for of an index.
#[derive(Default)]
struct Demand {
    /// Rows that they have looked at in vain since a range was noted.
    looked_at: usize,
    /// How often their number that it takes was doubled.
    doublings: u32,
    /// Entries that sweeps have judged, and rows that exact leaves have spared scans, since it was
    /// last compared.
    judged: usize,
    spared: usize,
}

impl Demand {
    /// Scans have looked at more rows in vain: whether a range is to be noted.
    fn is_met_by(&mut self, rows: usize) -> bool {
        self.looked_at += rows;
        if self.looked_at < SWEEP_AT {
            return false;
        }
        if self.judged >= COMPARED_AT {
            self.doublings = match self.spared >= self.judged / 2 {
                true => 0,
                false => (self.doublings + 1).min(DOUBLINGS_MAX),
            };
            (self.judged, self.spared) = (0, 0);
        }
        if self.looked_at < SWEEP_AT << self.doublings {
            return false;
        }
        self.looked_at = 0;
        true
    }
}

/// One instance's list of ranges to be swept.
pub(super) struct Unswept {
    ranges: RefCell<VecDeque<Range>>,
    demands: RefCell<FxHashMap<TreeId, Demand>>,
    /// Counts sweeps.
    round: Cell<u64>,
    scratch: RefCell<Scratch>,
    /// Where rows are; of its own, so that statements keep theirs.
    hints: LeafHints,
}

impl Default for Unswept {
    fn default() -> Unswept {
        Unswept {
            ranges: RefCell::default(),
            demands: RefCell::default(),
            round: Cell::new(0),
            scratch: RefCell::default(),
            hints: LeafHints::new(SWEEP_HINTS),
        }
    }
}

impl Unswept {
    pub(super) fn is_empty(&self) -> bool {
        self.ranges.borrow().is_empty()
    }

    fn note(&self, (table, index): (TreeId, TreeId), leaf: &LeafStamp<'_>, rows: usize) {
        let mut ranges = self.ranges.borrow_mut();
        let mut last = ranges.iter_mut().rev().take(SCANS);
        if last.any(|range| range.index == index && range.takes_in(leaf)) {
            return;
        }
        if !self.demand(index, |demand| demand.is_met_by(rows)) {
            return;
        }
        if ranges.len() >= RANGES_MAX {
            ranges.pop_front();
        }
        ranges.push_back(Range {
            table,
            index,
            from: leaf.lower.to_vec(),
            to: leaf.upper.map(<[u8]>::to_vec),
            at: leaf.lower.to_vec(),
            missed: false,
            tries: 0,
            due: self.round.get(),
        });
    }

    /// Looks at what is wanted of an index.
    fn demand<T>(&self, index: TreeId, look: impl FnOnce(&mut Demand) -> T) -> T {
        let mut demands = self.demands.borrow_mut();
        if demands.len() >= DEMANDS_MAX && !demands.contains_key(&index) {
            demands.clear();
        }
        look(demands.entry(index).or_default())
    }

    /// The next range that is due, taken out.
    fn take_due(&self, round: u64) -> Option<Range> {
        let mut ranges = self.ranges.borrow_mut();
        let at = ranges.iter().position(|range| range.due <= round)?;
        ranges.remove(at)
    }
}

/// What a sweep did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SweptLeaves {
    /// Leaves that became exact, or were.
    pub exact: usize,
    /// Leaves with entries whose rows are not settled.
    pub not_ready: usize,
    /// Whether the portion ended it: there is more that could be tried at once.
    pub more: bool,
}

impl InstanceVersions {
    /// A scan that asks for columns of `index` alone, one of the indexes of `table`, has looked at `rows` rows of a leaf
    /// because it is not exact. Cheap; what is noted is swept later.
    pub(crate) fn want_exact(
        &self,
        (table, index): (&TableAccess, &IndexAccess),
        leaf: &LeafStamp<'_>,
        rows: usize,
    ) {
        self.unswept().note((table.id(), index.tree.tree()), leaf, rows);
    }

    /// Exact leaves of `index` have spared a scan looks at so many rows.
    pub(crate) fn spared(&self, index: &IndexAccess, rows: usize) {
        self.unswept().demand(index.tree.tree(), |demand| demand.spared += rows);
    }

    /// Ranges of indexes that are still to be swept.
    pub fn unswept_ranges(&self) -> usize {
        self.unswept().ranges.borrow().len()
    }

    /// Lets the next sweep try everything again, paused or not.
    pub fn hurry_sweep(&self) {
        for range in self.unswept().ranges.borrow_mut().iter_mut() {
            (range.due, range.tries) = (0, 0);
        }
    }

    /// Looks at leaves that scans asked for, about `entries_max` of their entries, and gives
    /// those their *exact* bit whose rows are all settled. Never waits. Called by the instance as
    /// a system task, after a collection.
    pub fn sweep_indexes(&self, tables: &dyn Tables, entries_max: usize) -> SweptLeaves {
        let unswept = self.unswept();
        let round = unswept.round.get() + 1;
        unswept.round.set(round);
        let mut done = SweptLeaves::default();
        let mut scratch = unswept.scratch.take();
        let mut left = entries_max;
        while left > 0
            && let Some(mut range) = unswept.take_due(round)
        {
            let table = tables.table(range.table);
            let index = table.as_ref().and_then(|table| {
                table.indexes.iter().find(|index| index.tree.tree() == range.index)
            });
            // Dropped, or never committed: nobody will read it.
            let (Some(table), Some(index)) = (&table, index) else { continue };
            if self.space().is_to_be_copied(index) && !mutant("exact-for-checkpoints") {
                range.begin_again(round + 1);
                unswept.ranges.borrow_mut().push_back(range);
                continue;
            }
            let with = (&unswept.hints, &mut scratch, &mut done);
            let (place, before) = ((&**table, index), left);
            let gone = self.sweep_range(place, &mut range, &mut left, with);
            unswept.demand(range.index, |demand| demand.judged += before - left);
            if gone == Gone::ThroughIt {
                range.tries += 1;
                if !range.missed || range.tries >= TRIES_MAX {
                    continue;
                }
                range.begin_again(round + (1 << (range.tries - 1)));
            }
            unswept.ranges.borrow_mut().push_back(range);
        }
        unswept.scratch.replace(scratch);
        done.more = left == 0;
        done
    }
}

/// How far a sweep came in one range.
#[derive(PartialEq, Eq)]
enum Gone {
    ThroughIt,
    /// The portion was used up.
    Halfway,
}

impl InstanceVersions {
    fn sweep_range(
        &self,
        (table, index): (&TableAccess, &IndexAccess),
        range: &mut Range,
        left: &mut usize,
        (hints, scratch, done): (&LeafHints, &mut Scratch, &mut SweptLeaves),
    ) -> Gone {
        while *left > 0 {
            let mut judge =
                |key: Option<&[u8]>, row| judge(table, index, (key, row), (hints, scratch));
            let Ok(swept) = index.tree.sweep_exact(&range.at, &mut judge) else {
                // Latched, or read while it changed: where the next leaf begins is not known.
                *left = left.saturating_sub(LEAF_COST);
                range.missed = true;
                return Gone::ThroughIt;
            };
            *left = left.saturating_sub(LEAF_COST + swept.judged);
            match swept.exact {
                Exact::Yes => done.exact += 1,
                Exact::No => {
                    done.not_ready += 1;
                    range.missed = true;
                }
            }
            for (key, row) in swept.left_over {
                self.postponed().note_left_over(table, index, (&key, row));
            }
            match swept.next {
                Some(next) if range.is_before_end(&next.key) => range.at = next.key,
                _ => return Gone::ThroughIt,
            }
        }
        Gone::Halfway
    }
}

/// Buffers of a sweep.
#[derive(Default)]
struct Scratch {
    row: RowBuffer,
    key: Vec<u8>,
}

/// Judges an entry by its row; by its key, too, if one is given. The index leaf is held exclusively.
fn judge(
    table: &TableAccess,
    index: &IndexAccess,
    (key, row): (Option<&[u8]>, RowId),
    (hints, scratch): (&LeafHints, &mut Scratch),
) -> Outcome<Judged> {
    let Scratch { row: buffer, key: own } = scratch;
    table.tree.read_near(hints, row, &mut |leaf: &LeafView<'_>| {
        let Some(slot) = leaf.find(row) else { return Ok(Judged::LeftOver) };
        let at = table.row_at(leaf, row, slot);
        // Deleted without undo: one that could not be taken out, and has its entries still.
        let is_settled = at.is_settled() || mutant("exact-ignores-undo");
        if !is_settled || leaf.state(slot) != RowState::Live {
            return Ok(Judged::NotReady);
        }
        let Some(key) = key else { return Ok(Judged::Exact) };
        buffer.clear();
        if at.copy_page(&index.columns, buffer) == Presence::Absent {
            return Ok(Judged::NotReady);
        }
        match longs::resolve_keys(&table.tree, buffer, 0) {
            // The leaves behind this one may be exact all the same.
            Err(Stop::Error(why)) if why.is_unreadable() => return Ok(Judged::NotReady),
            resolved => resolved?,
        }
        index.encode(own, |column| buffer.column(column));
        Ok(if own.as_slice() == key { Judged::Exact } else { Judged::LeftOver })
    })
}
