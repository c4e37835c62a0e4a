//! Sorting in memory; with a limit only the first rows are kept.
//!
//! Invariants: stable: rows with equal keys keep their input's order.

use super::compare::compare;
use super::limit::{limit_of, offset_of};
use super::program::{Program, Slot};
use super::{BoxedOperator, Cx, Operator};
use crate::error::SqlResult;
use crate::plan::node::SortBy;
use crate::types::Datum;
use std::cmp::Ordering;

struct Entry {
    keys: Box<[Datum]>,
    values: Box<[Datum]>,
}

/// A sort at work.
pub(super) struct Sort<'p> {
    input: BoxedOperator<'p>,
    keys: &'p [SortBy],
    slots: &'p [Slot],
    limit: Option<&'p (Program, Option<Program>)>,
    rows: Option<std::vec::IntoIter<Entry>>,
}

impl<'p> Sort<'p> {
    pub(super) fn new(
        input: BoxedOperator<'p>,
        keys: &'p [SortBy],
        slots: &'p [Slot],
        limit: Option<&'p (Program, Option<Program>)>,
    ) -> Sort<'p> {
        Sort { input, keys, slots, limit, rows: None }
    }

    fn fill(&mut self, cx: &mut Cx<'_, '_>) -> SqlResult<Vec<Entry>> {
        let wanted = match self.limit {
            Some((limit, offset)) => {
                let offset = offset_of(offset.as_ref(), cx)?;
                limit_of(Some(limit), cx)?.map(|limit| limit.saturating_add(offset))
            }
            None => None,
        };
        // Room to sort seldom: twice what is wanted, and some.
        let room = wanted.and_then(|wanted| usize::try_from(wanted).ok()).filter(|w| *w < 1 << 20);
        let mut rows: Vec<Entry> = Vec::new();
        while self.input.next(cx)? {
            cx.breathe()?;
            let keys = self.keys.iter().map(|key| cx.frame[key.slot as usize].clone()).collect();
            rows.push(Entry { keys, values: cx.save(self.slots) });
            if let Some(room) = room
                && rows.len() >= 2 * room + 1024
            {
                self.sort(&mut rows);
                rows.truncate(room);
            }
        }
        self.sort(&mut rows);
        Ok(rows)
    }

    fn sort(&self, rows: &mut [Entry]) {
        rows.sort_by(|a, b| order(self.keys, &a.keys, &b.keys));
    }
}

fn order(keys: &[SortBy], a: &[Datum], b: &[Datum]) -> Ordering {
    for (key, (a, b)) in keys.iter().zip(a.iter().zip(b)) {
        let found = match (a.is_null(), b.is_null()) {
            (true, true) => Ordering::Equal,
            (true, false) => {
                if key.nulls_first {
                    Ordering::Less
                } else {
                    Ordering::Greater
                }
            }
            (false, true) => {
                if key.nulls_first {
                    Ordering::Greater
                } else {
                    Ordering::Less
                }
            }
            (false, false) => {
                let found = compare(a, b, key.ty);
                if key.descending { found.reverse() } else { found }
            }
        };
        if found != Ordering::Equal {
            return found;
        }
    }
    Ordering::Equal
}

impl Operator for Sort<'_> {
    fn next(&mut self, cx: &mut Cx<'_, '_>) -> SqlResult<bool> {
        if self.rows.is_none() {
            let rows = self.fill(cx)?;
            self.rows = Some(rows.into_iter());
        }
        match self.rows.as_mut().and_then(Iterator::next) {
            Some(entry) => {
                cx.restore(self.slots, &entry.values);
                Ok(true)
            }
            None => Ok(false),
        }
    }

    fn restart(&mut self, cx: &mut Cx<'_, '_>) -> SqlResult<()> {
        self.rows = None;
        self.input.restart(cx)
    }
}
