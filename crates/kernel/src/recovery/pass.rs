//! One pass: the changes of a span of time, given out to several workers.
//!
//! Invariants: the rows of each tree are in shares; the worker that takes one makes all its changes of the pass (module
//! `worker`), so a row is one worker's. Before that all shares are sorted, and the leaves that they need are loaded
//! (module `ahead`). What is given out first is what takes longest. Entries of kept indexes are
//! noted by the workers, and made afterwards (module `entries`), for two shares may have entries of one leaf.

use std::cmp::Reverse;

use super::ahead::{load_missing, note_missing};
use super::definitions::{Definitions, Rows};
use super::entries::{Noted, Notes};
use super::order::Sorter;
use super::parsed::{Item, Parsed, Span};
use super::replay::Workers;
use super::worker::Worker;
use crate::base::{HomeId, NeededPage, Result, TreeId};
use crate::buffer::BufferPool;
use crate::sync::in_turns;

/// A share of one tree's rows, and how many changes they have.
struct Unit<'d> {
    rows: &'d Rows,
    tree: TreeId,
    share: usize,
    changes: usize,
}

/// A share, its changes in the order in which they are applied.
struct Sorted<'d> {
    unit: &'d Unit<'d>,
    items: Vec<Item>,
}

/// What is to be applied in a span of time, for several workers.
pub(super) struct Pass<'d> {
    parsed: &'d [Parsed<'d>],
    span: Span,
    homes: u16,
    /// The large ones first, so that in the end nobody waits long for another.
    units: Vec<Unit<'d>>,
    pool: &'d BufferPool,
}

impl<'d> Pass<'d> {
    /// What there is in `trees`, whose rows are in so many shares.
    pub fn new(
        parsed: &'d [Parsed<'d>],
        (span, trees): (Span, &[TreeId]),
        definitions: &'d Definitions,
        shares: usize,
    ) -> Pass<'d> {
        // None: nobody owns it.
        let owned = trees.iter().filter_map(|tree| Some((*tree, definitions.rows(*tree)?)));
        let units = owned.flat_map(|(tree, rows)| {
            (0..shares).map(move |share| {
                let items = parsed.iter().map(|part| part.items((tree, share), span).len());
                Unit { rows, tree, share, changes: items.sum() }
            })
        });
        let mut units: Vec<Unit<'d>> = units.filter(|unit| unit.changes > 0).collect();
        units.sort_by_key(|unit| Reverse(unit.changes));
        let (homes, pool) = (definitions.homes, &*definitions.pool);
        Pass { parsed, span, homes, units, pool }
    }

    /// Applies it. Answers what is to become of entries of kept indexes, settled, as each worker has noted it,
    /// `noted_max` bytes at most.
    pub fn run(&'d self, workers: Workers, noted_max: usize) -> Result<Vec<Noted<'d>>> {
        let sorted = in_turns(&self.units, workers.computing, |units| self.sort(units))?;
        let (mut sorted, threads) = load_missing(self.pool, sorted, workers)?;
        sorted.sort_unstable_by_key(|it| Reverse(it.items.len()));
        let noted = in_turns(&sorted, threads, |units| self.apply(units, noted_max / threads))?;
        Ok(noted.into_iter().flatten().collect())
    }

    /// Sorts the changes of shares, and notes the leaves that they need and that are not in memory.
    fn sort(
        &self,
        units: &mut dyn Iterator<Item = &'d Unit<'d>>,
    ) -> Result<(Vec<Sorted<'d>>, Vec<NeededPage>)> {
        let (mut sorter, mut sorted, mut missing) = (Sorter::default(), Vec::new(), Vec::new());
        for unit in units {
            let Unit { rows, tree, share, .. } = *unit;
            let lists = self.parsed.iter().map(|part| part.items((tree, share), self.span));
            let items = sorter.order(&lists.collect::<Vec<_>>());
            let look = |row: &_, missing: &mut _| rows.tree.missing_leaves(*row, 1, missing);
            note_missing(self.pool, items.iter().map(|item| &item.row), look, &mut missing)?;
            sorted.push(Sorted { unit, items });
        }
        Ok((sorted, missing))
    }

    /// Applies what no other worker does.
    fn apply<'s>(
        &self,
        units: &mut dyn Iterator<Item = &'s Sorted<'d>>,
        noted_max: usize,
    ) -> Result<Vec<Noted<'d>>> {
        let mut notes = Notes::new(noted_max);
        for Sorted { unit, items } in units {
            let home = HomeId(unit.share as u16 % self.homes);
            Worker::new(self.parsed, unit.rows, home, &mut notes).run(items)?;
        }
        Ok(notes.settled().collect())
    }
}
