//! Sorting; with a limit only the first rows are kept, with DISTINCT each key once.
//!
//! Invariants: stable: rows with equal keys keep their input's order. A value is kept once, as a key
//! or beside them: it may be long, and go to disk.

use super::limit::{limit_of, offset_of};
use super::program::{Program, Slot};
use super::spill::{self, Sorted, Sorter};
use super::{BoxedOperator, Cx, Operator};
use crate::error::SqlResult;
use crate::plan::node::{Repeated, SortBy};

/// A sort at work.
pub(super) struct Sort<'p> {
    input: BoxedOperator<'p>,
    keys: &'p [SortBy],
    /// What a row keeps: the keys, then what else is needed.
    slots: Box<[Slot]>,
    limit: Option<&'p (Program, Option<Program>)>,
    repeated: Repeated,
    rows: Option<Sorted>,
}

impl<'p> Sort<'p> {
    pub(super) fn new(
        input: BoxedOperator<'p>,
        keys: &'p [SortBy],
        slots: &'p [Slot],
        (limit, repeated): (Option<&'p (Program, Option<Program>)>, Repeated),
    ) -> Sort<'p> {
        let key_slots = || keys.iter().map(|key| key.slot);
        let others = slots.iter().copied().filter(|slot| key_slots().all(|key| key != *slot));
        let slots = key_slots().chain(others).collect();
        Sort { input, keys, slots, limit, repeated, rows: None }
    }

    fn fill(&mut self, cx: &mut Cx<'_, '_>) -> SqlResult<Sorted> {
        let wanted = match self.limit {
            Some((limit, offset)) => {
                let offset = offset_of(offset.as_ref(), cx)?;
                limit_of(Some(limit), cx)?.map(|limit| limit.saturating_add(offset))
            }
            None => None,
        };
        let first = wanted.and_then(|wanted| usize::try_from(wanted).ok()).filter(|w| *w < 1 << 20);
        let keys = self.keys.iter().map(|key| spill::SortKey {
            ty: key.ty,
            descending: key.descending,
            nulls_first: key.nulls_first,
        });
        let mut sorter = Sorter::new(keys.collect(), first).with(self.repeated);
        while self.input.next(cx)? {
            cx.breathe()?;
            let row = self.slots.iter().map(|slot| cx.frame[*slot as usize].clone()).collect();
            sorter.add(row, cx)?;
        }
        let sorted = sorter.finish(cx)?;
        cx.note_disk(sorted.is_on_disk());
        Ok(sorted)
    }
}

impl Operator for Sort<'_> {
    fn next(&mut self, cx: &mut Cx<'_, '_>) -> SqlResult<bool> {
        if self.rows.is_none() {
            self.rows = Some(self.fill(cx)?);
        }
        let Some(rows) = &mut self.rows else { return Ok(false) };
        match rows.next(cx)? {
            Some(row) => {
                cx.put(&self.slots, row, 0);
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
