//! Scans of kernel tables, whole or by index.
//!
//! Invariants: a scan reads the columns its plan names and no others; rows of several keys of one
//! list come once even if two keys are equal. Rows of whole keys of a unique index are fetched from
//! memory together before the first of them is read.

mod list;
mod points;

use super::{Cx, Operator, decode_row, keys};
use crate::error::SqlResult;
use crate::plan::node::{Access, Order, TableScan};
use crate::types::Datum;
use atoll_kernel::api::{
    IndexCursor, KeyBytes, KeyRange, RowId, RowView, ScanDirection, TableCursor,
};
use list::List;
use points::Points;
use std::collections::HashSet;

enum State {
    New,
    All(TableCursor),
    Index(IndexCursor),
    /// Keys of a list still to be read, and the cursor of the present one.
    Points {
        list: List,
        cursor: Option<IndexCursor>,
        seen: HashSet<Vec<u8>>,
    },
    /// The same, of whole keys of a unique index.
    Whole(Points),
    End,
}

/// A scan at work.
pub(super) struct Scan<'p> {
    plan: &'p TableScan,
    state: State,
}

impl<'p> Scan<'p> {
    pub(super) fn new(plan: &'p TableScan) -> Scan<'p> {
        Scan { plan, state: State::New }
    }

    /// The row with the whole key of a unique index, into the frame.
    fn point(&mut self, cx: &mut Cx<'_, '_>) -> SqlResult<bool> {
        let Access::Point(index, values) = &self.plan.access else { return Ok(false) };
        let mut key = std::mem::take(&mut cx.key);
        let complete = keys::point(index, values, None, &mut key, cx);
        let found = match complete {
            Ok(true) => {
                let ids = &self.plan.columns.ids;
                let statement = &mut *cx.statement;
                statement.index_point(&self.plan.table, index, &key, ids, &mut cx.row)
            }
            Ok(false) => Ok(None),
            Err(error) => {
                cx.key = key;
                return Err(error);
            }
        };
        cx.key = key;
        match found? {
            Some(row) => {
                decode(self.plan, row, cx.row.view(), &mut cx.frame)?;
                self.accept(cx)
            }
            None => Ok(false),
        }
    }

    /// Tests the filter.
    fn accept(&self, cx: &mut Cx<'_, '_>) -> SqlResult<bool> {
        match &self.plan.filter {
            Some(filter) => filter.test(cx),
            None => Ok(true),
        }
    }

    fn begin(&mut self, cx: &mut Cx<'_, '_>) -> SqlResult<State> {
        let (table, ids) = (&self.plan.table, &self.plan.columns.ids);
        Ok(match &self.plan.access {
            Access::All => State::All(cx.statement.scan(table, ids)),
            Access::Point(..) => State::End,
            Access::Points(..) if self.plan.is_whole_points() => State::Whole(Points::default()),
            Access::Points(..) => {
                State::Points { list: List::default(), cursor: None, seen: HashSet::new() }
            }
            Access::Range { index, prefix, low, high, order } => {
                let range = keys::range(index, prefix, low.as_ref(), high.as_ref(), cx)?;
                let direction = match order {
                    Order::Forward => ScanDirection::Forward,
                    Order::Backward => ScanDirection::Backward,
                };
                match range {
                    Some(range) => {
                        State::Index(cx.statement.index_scan(table, index, range, direction, ids))
                    }
                    None => State::End,
                }
            }
        })
    }

    fn next_point(&mut self, cx: &mut Cx<'_, '_>) -> SqlResult<bool> {
        let plan = self.plan;
        let (Access::Points(index, keys), State::Points { list, cursor, seen }) =
            (&plan.access, &mut self.state)
        else {
            return Ok(false);
        };
        loop {
            if let Some(open) = cursor {
                if next_entry(plan, open, cx)? {
                    return Ok(true);
                }
                *cursor = None;
            }
            let mut key = KeyBytes::default();
            if !list.next((index, keys), &mut key, cx)? {
                return Ok(false);
            }
            if seen.insert(key.bytes().to_vec()) {
                let range = KeyRange::prefix(key);
                let ids = &plan.columns.ids;
                let forward = ScanDirection::Forward;
                *cursor = Some(cx.statement.index_scan(&plan.table, index, range, forward, ids));
            }
        }
    }
}

/// Puts a row that was read into the frame.
#[inline]
pub(super) fn decode(
    plan: &TableScan,
    id: RowId,
    row: RowView<'_>,
    frame: &mut [Datum],
) -> SqlResult<()> {
    let columns = &plan.columns;
    decode_row(row, &columns.types, &columns.slots, frame)?;
    if let Some(slot) = columns.row_id {
        frame[slot as usize] = Datum::Int8(id.0 as i64);
    }
    Ok(())
}

/// The next row of the table, into the frame; false at the end.
fn next_row(plan: &TableScan, cursor: &mut TableCursor, cx: &mut Cx<'_, '_>) -> SqlResult<bool> {
    match cursor.next_view(cx.statement, &mut cx.row)? {
        Some((id, row)) => decode(plan, id, row, &mut cx.frame).map(|()| true),
        None => Ok(false),
    }
}

/// The next row of an index, into the frame; false at the end.
fn next_entry(plan: &TableScan, cursor: &mut IndexCursor, cx: &mut Cx<'_, '_>) -> SqlResult<bool> {
    let before = cursor.fetched();
    let found = match cursor.next_view(cx.statement, &mut cx.row)? {
        Some((id, row)) => decode(plan, id, row, &mut cx.frame).map(|()| true),
        None => Ok(false),
    };
    cx.heap_fetches += cursor.fetched() - before;
    found
}

impl Operator for Scan<'_> {
    fn next(&mut self, cx: &mut Cx<'_, '_>) -> SqlResult<bool> {
        if matches!(self.state, State::New) {
            if matches!(self.plan.access, Access::Point(..)) {
                self.state = State::End;
                return self.point(cx);
            }
            self.state = self.begin(cx)?;
        }
        loop {
            cx.breathe()?;
            let found = match &mut self.state {
                State::All(cursor) => next_row(self.plan, cursor, cx)?,
                State::Index(cursor) => next_entry(self.plan, cursor, cx)?,
                State::Points { .. } => self.next_point(cx)?,
                State::Whole(points) => match points.next(self.plan, cx)? {
                    Some(row) => {
                        decode(self.plan, row, cx.row.view(), &mut cx.frame)?;
                        true
                    }
                    None => false,
                },
                State::New | State::End => false,
            };
            if !found {
                self.state = State::End;
                return Ok(false);
            }
            if self.accept(cx)? {
                return Ok(true);
            }
        }
    }

    fn restart(&mut self, _cx: &mut Cx<'_, '_>) -> SqlResult<()> {
        self.state = State::New;
        Ok(())
    }
}
