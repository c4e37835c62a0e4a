//! Scans of virtual relations and of sequences.
//!
//! Invariants: the rows are computed when the scan begins or is restarted; a look-up's answer may
//! have too many rows, so the whole filter is applied.

use super::keys::{self, Fitted};
use super::program::{Program, Slot};
use super::{Cx, Operator};
use crate::error::SqlResult;
use crate::plan::node::KeyValue;
use crate::relations::VirtualRelation;
use crate::types::Datum;
use atoll_kernel::api::SequenceEntry;

/// A scan of a virtual relation at work.
pub(super) struct VirtualScan<'p> {
    relation: &'static dyn VirtualRelation,
    columns: &'p [(usize, Slot)],
    key: Option<&'p (usize, KeyValue)>,
    filter: Option<&'p Program>,
    rows: Option<std::vec::IntoIter<Vec<Datum>>>,
    /// All rows, kept for restarts without a look-up.
    all: Option<Vec<Vec<Datum>>>,
}

impl<'p> VirtualScan<'p> {
    pub(super) fn new(
        relation: &'static dyn VirtualRelation,
        columns: &'p [(usize, Slot)],
        key: Option<&'p (usize, KeyValue)>,
        filter: Option<&'p Program>,
    ) -> VirtualScan<'p> {
        VirtualScan { relation, columns, key, filter, rows: None, all: None }
    }

    fn begin(&mut self, cx: &mut Cx<'_, '_>) -> SqlResult<Vec<Vec<Datum>>> {
        let view = cx.view;
        let narrow = |row: SqlResult<Vec<Datum>>| -> SqlResult<Vec<Datum>> {
            let row = row?;
            Ok(self.columns.iter().map(|(column, _)| row[*column].clone()).collect())
        };
        match self.key {
            Some((column, value)) => match keys::fitted(value, cx)? {
                Fitted::Value(datum) => {
                    self.relation.rows_where(view, *column, &datum).map(narrow).collect()
                }
                _ => Ok(Vec::new()),
            },
            None => {
                if self.all.is_none() {
                    let own = self.relation.session_rows(view, cx.functions);
                    let rows = own.unwrap_or_else(|| self.relation.rows(view));
                    self.all = Some(rows.map(narrow).collect::<SqlResult<_>>()?);
                }
                Ok(self.all.clone().unwrap_or_default())
            }
        }
    }
}

impl Operator for VirtualScan<'_> {
    fn next(&mut self, cx: &mut Cx<'_, '_>) -> SqlResult<bool> {
        if self.rows.is_none() {
            let rows = self.begin(cx)?;
            self.rows = Some(rows.into_iter());
        }
        loop {
            cx.breathe()?;
            let Some(row) = self.rows.as_mut().and_then(Iterator::next) else { return Ok(false) };
            for ((_, slot), value) in self.columns.iter().zip(row) {
                cx.frame[*slot as usize] = value;
            }
            match self.filter {
                Some(filter) if !filter.test(cx)? => {}
                _ => return Ok(true),
            }
        }
    }

    fn restart(&mut self, _cx: &mut Cx<'_, '_>) -> SqlResult<()> {
        self.rows = None;
        Ok(())
    }
}

/// The one row of a sequence.
pub(super) struct SequenceScan<'p> {
    sequence: &'p SequenceEntry,
    columns: &'p [(usize, Slot)],
    filter: Option<&'p Program>,
    is_given: bool,
}

impl<'p> SequenceScan<'p> {
    pub(super) fn new(
        sequence: &'p SequenceEntry,
        columns: &'p [(usize, Slot)],
        filter: Option<&'p Program>,
    ) -> SequenceScan<'p> {
        SequenceScan { sequence, columns, filter, is_given: false }
    }
}

impl Operator for SequenceScan<'_> {
    fn next(&mut self, cx: &mut Cx<'_, '_>) -> SqlResult<bool> {
        if std::mem::replace(&mut self.is_given, true) {
            return Ok(false);
        }
        let (state, covered) = self.sequence.values.state_and_covered();
        let row = [Datum::Int8(state.last), Datum::Int8(covered as i64), Datum::Bool(state.called)];
        for (column, slot) in self.columns {
            cx.frame[*slot as usize] = row[*column].clone();
        }
        match self.filter {
            Some(filter) => filter.test(cx),
            None => Ok(true),
        }
    }

    fn restart(&mut self, _cx: &mut Cx<'_, '_>) -> SqlResult<()> {
        self.is_given = false;
        Ok(())
    }
}
