//! One pass: the changes of a span of time, given out to several workers.
//!
//! Invariants: the rows of each tree are in shares; a worker that takes one makes all its changes of the pass (module
//! `worker`), so a row is one worker's. What is given out first is what takes longest. Entries of kept indexes are
//! noted by then, and made afterwards (module `entries`), for two shares may have entries of one leaf.

use std::cmp::Reverse;

use super::definitions::{Definitions, Rows};
use super::entries::{Noted, Notes};
use super::order::Sorter;
use super::parsed::{Parsed, Span};
use super::worker::Worker;
use crate::base::{HomeId, Result, TreeId};
use crate::sync::{AtomicUsize, Ordering};

/// A share of one tree's rows, and how many changes they have.
struct Unit<'d> {
    rows: &'d Rows,
    tree: TreeId,
    share: usize,
    changes: usize,
}

/// What is to be applied in a span of time, for several workers.
pub(super) struct Pass<'d> {
    parsed: &'d [Parsed<'d>],
    span: Span,
    homes: u16,
    /// The large ones first, so that in the end nobody waits long for another.
    units: Vec<Unit<'d>>,
    /// How many of them were given out.
    given: AtomicUsize,
    /// Bytes that a worker may note of entries.
    noted_max: usize,
}

impl<'d> Pass<'d> {
    /// What there is in `trees`, whose rows are in so many shares. A worker may note `noted_max` bytes of entries.
    pub fn new(
        parsed: &'d [Parsed<'d>],
        (span, trees): (Span, &[TreeId]),
        definitions: &'d Definitions,
        (shares, noted_max): (usize, usize),
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
        let (homes, given) = (definitions.homes, AtomicUsize::new(0));
        Pass { parsed, span, homes, units, given, noted_max }
    }

    /// For how many workers there is something to do.
    pub fn units(&self) -> usize {
        self.units.len()
    }

    /// Applies what no other worker does. Answers what is to become of entries of kept indexes, settled.
    pub fn work(&'d self, sorter: &mut Sorter) -> Result<Vec<Noted<'d>>> {
        let mut notes = Notes::new(self.noted_max);
        while let Some(unit) = self.units.get(self.given.fetch_add(1, Ordering::Relaxed)) {
            let Unit { rows, tree, share, .. } = *unit;
            let home = HomeId(share as u16 % self.homes);
            let items = self.parsed.iter().map(|part| part.items((tree, share), self.span));
            let items = sorter.order(items);
            Worker::new(self.parsed, rows, home, &mut notes).run(items)?;
        }
        Ok(notes.settled().collect())
    }
}
