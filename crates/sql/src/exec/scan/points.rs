//! Look-ups of rows by the whole keys of a list, some at a time.
//!
//! Invariants: rows come in the order of their keys, each once: within a snapshot a unique index has
//! one row for a key, so that equal keys are known by their row. Keys are computed a group at a time,
//! and what their look-ups will read is asked for together.

use super::list::List;
use crate::error::SqlResult;
use crate::exec::Cx;
use crate::plan::node::{Access, TableScan};
use atoll_kernel::api::{FoundAhead, KeyBytes, PointAhead, RowId};
use std::collections::HashSet;

/// Keys that are computed and asked for together.
const TOGETHER: usize = 32;
/// So few are read one after the other.
const AHEAD_MIN: usize = 3;
/// So many rows are compared one by one; more are hashed.
const FEW: usize = 32;

/// A list's look-ups at work.
#[derive(Default)]
pub(super) struct Points {
    /// The group's keys, and the memory of keys that it does not use.
    keys: Vec<KeyBytes>,
    found: Vec<FoundAhead>,
    /// Of the group, the next look-up.
    at: usize,
    /// The list's keys that are not in a group yet.
    list: List,
    is_at_end: bool,
    seen: Seen,
}

#[derive(Default)]
struct Seen {
    few: Vec<RowId>,
    many: HashSet<RowId>,
}

impl Seen {
    /// Notes a row; true if it is new.
    fn insert(&mut self, row: RowId) -> bool {
        if self.few.contains(&row) {
            return false;
        }
        if self.few.len() < FEW {
            self.few.push(row);
            return true;
        }
        self.many.insert(row)
    }
}

impl Points {
    /// The next row, into the row buffer.
    pub(super) fn next(
        &mut self,
        plan: &TableScan,
        cx: &mut Cx<'_, '_>,
    ) -> SqlResult<Option<RowId>> {
        let Access::Points(index, _) = &plan.access else { return Ok(None) };
        loop {
            while self.at < self.found.len() {
                let (key, found) = (&self.keys[self.at], self.found[self.at]);
                self.at += 1;
                let point = PointAhead::new(&plan.table, index, key, &plan.columns.ids);
                let row = cx.statement.index_point_ahead(&point.with_found(found), &mut cx.row)?;
                if let Some(row) = row
                    && self.seen.insert(row)
                {
                    return Ok(Some(row));
                }
            }
            if self.is_at_end {
                return Ok(None);
            }
            self.fill(plan, cx)?;
        }
    }

    /// Computes the keys of the next group.
    fn fill(&mut self, plan: &TableScan, cx: &mut Cx<'_, '_>) -> SqlResult<()> {
        let Access::Points(index, keys) = &plan.access else { return Ok(()) };
        self.at = 0;
        self.found.clear();
        let mut count = 0;
        while count < TOGETHER {
            if self.keys.len() == count {
                self.keys.push(KeyBytes::default());
            }
            if !self.list.next((index, keys), &mut self.keys[count], cx)? {
                self.is_at_end = true;
                break;
            }
            count += 1;
        }
        if count < AHEAD_MIN {
            self.found.resize(count, FoundAhead::default());
            return Ok(());
        }
        let point = |key| PointAhead::new(&plan.table, index, key, &plan.columns.ids);
        let points: Vec<PointAhead<'_>> = self.keys[..count].iter().map(point).collect();
        cx.statement.prefetch_points(&points);
        self.found.extend(points.iter().map(PointAhead::found));
        Ok(())
    }
}
