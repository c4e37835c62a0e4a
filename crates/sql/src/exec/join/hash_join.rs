//! Hash join.
//!
//! Invariants: the inner side is read whole, once, into the table (and again when the
//! join begins again, if it may give other rows then); rows with a NULL key join
//! nothing. Without keys every inner row is a candidate (full joins on any condition). If the
//! table exceeds `work_mem`, both sides are sorted instead and the join goes on as a merge join.

use super::merge_join::Merger;
use super::{Input, JoinPlan, Side};
use crate::error::SqlResult;
use crate::exec::spill::{Reservation, Row, row_bytes};
use crate::exec::{Cx, KeyMap, Operator, hash_key};
use crate::plan::node::{InnerRows, JoinType};

struct Kept {
    values: Row,
    matched: bool,
}

/// What an entry of the table takes besides its row and key, roughly.
const ENTRY_BYTES: usize = 96;

/// A hash join at work.
pub(in crate::exec) struct HashJoin<'p> {
    plan: JoinPlan<'p>,
    outer: Input<'p>,
    inner: Input<'p>,
    rows: Vec<Kept>,
    table: KeyMap<Vec<u32>>,
    reserved: Reservation,
    /// The table did not fit.
    merger: Option<Box<Merger<'p>>>,
    built: bool,
    /// The present outer row's candidates, how many were tried, and whether one joined.
    candidates: Vec<u32>,
    at: usize,
    probing: bool,
    matched: bool,
    /// Where the unmatched inner rows of a full join go on.
    unmatched: Option<usize>,
    key: Vec<u8>,
    inner_rows: InnerRows,
}

impl<'p> HashJoin<'p> {
    pub(in crate::exec) fn new(
        plan: JoinPlan<'p>,
        outer: Input<'p>,
        inner: Input<'p>,
        inner_rows: InnerRows,
    ) -> HashJoin<'p> {
        HashJoin {
            plan,
            outer,
            inner,
            rows: Vec::new(),
            table: KeyMap::default(),
            reserved: Reservation::default(),
            merger: None,
            built: false,
            candidates: Vec::new(),
            at: 0,
            probing: false,
            matched: false,
            unmatched: None,
            key: Vec::new(),
            inner_rows,
        }
    }

    fn build(&mut self, cx: &mut Cx<'_, '_>) -> SqlResult<()> {
        while self.inner.operator.next(cx)? {
            cx.breathe()?;
            let has_key = self.key_of(Side::Inner, cx)?;
            if !has_key && self.plan.kind != JoinType::Full {
                continue;
            }
            let number = self.rows.len() as u32;
            let values = cx.save(self.inner.slots);
            self.reserved.grow(cx.memory(), row_bytes(&values) + self.key.len() + ENTRY_BYTES)?;
            self.rows.push(Kept { values, matched: false });
            if has_key {
                self.table.entry(self.key.clone()).or_default().push(number);
            }
            if self.reserved.is_over() {
                return self.merge_instead(cx);
            }
        }
        self.built = true;
        Ok(())
    }

    /// Goes on as a merge join.
    fn merge_instead(&mut self, cx: &mut Cx<'_, '_>) -> SqlResult<()> {
        let mut merger = Box::new(Merger::new(self.plan, self.outer.slots, self.inner.slots));
        self.table = KeyMap::default();
        for kept in std::mem::take(&mut self.rows) {
            cx.breathe()?;
            cx.restore(self.inner.slots, &kept.values);
            merger.add(Side::Inner, cx)?;
        }
        self.reserved.clear();
        merger.fill(Side::Inner, &mut self.inner, cx)?;
        merger.fill(Side::Outer, &mut self.outer, cx)?;
        merger.begin(cx)?;
        cx.note_disk(true);
        self.merger = Some(merger);
        self.built = true;
        Ok(())
    }

    /// The key of the row in the frame into `self.key`; false if a part of it is NULL.
    fn key_of(&mut self, side: Side, cx: &mut Cx<'_, '_>) -> SqlResult<bool> {
        self.key.clear();
        for (outer, inner, ty) in self.plan.keys {
            let program = if side == Side::Outer { outer } else { inner };
            let value = program.eval(cx)?;
            if value.is_null() {
                return Ok(false);
            }
            hash_key(&value, *ty, &mut self.key);
        }
        Ok(true)
    }

    fn probe(&mut self, cx: &mut Cx<'_, '_>) -> SqlResult<()> {
        self.candidates.clear();
        if self.key_of(Side::Outer, cx)?
            && let Some(found) = self.table.get(&self.key)
        {
            self.candidates.extend_from_slice(found);
        }
        self.at = 0;
        self.matched = false;
        self.probing = true;
        Ok(())
    }

    /// The next pair of the present outer row that joins; true if the outer row is to be given.
    fn next_candidate(&mut self, cx: &mut Cx<'_, '_>) -> SqlResult<bool> {
        while let Some(&candidate) = self.candidates.get(self.at) {
            cx.breathe()?;
            self.at += 1;
            cx.restore(self.inner.slots, &self.rows[candidate as usize].values);
            if !self.plan.joins(cx)? {
                continue;
            }
            self.matched = true;
            match self.plan.kind {
                JoinType::Semi | JoinType::Anti => {
                    self.probing = false;
                    return Ok(self.plan.kind == JoinType::Semi);
                }
                JoinType::Full => self.rows[candidate as usize].matched = true,
                JoinType::Inner | JoinType::Left => {}
            }
            return Ok(true);
        }
        self.probing = false;
        if self.matched || !self.plan.keeps_outer() {
            return Ok(false);
        }
        cx.clear(self.inner.slots);
        Ok(true)
    }

    fn next_unmatched(&mut self, cx: &mut Cx<'_, '_>) -> SqlResult<bool> {
        let mut at = self.unmatched.unwrap_or(0);
        while let Some(row) = self.rows.get(at) {
            at += 1;
            if !row.matched {
                cx.restore(self.inner.slots, &row.values);
                cx.clear(self.outer.slots);
                self.unmatched = Some(at);
                return Ok(true);
            }
        }
        self.unmatched = Some(at);
        Ok(false)
    }
}

impl Operator for HashJoin<'_> {
    fn next(&mut self, cx: &mut Cx<'_, '_>) -> SqlResult<bool> {
        cx.check_stack()?;
        if !self.built {
            self.build(cx)?;
        }
        if let Some(merger) = &mut self.merger {
            return merger.next(cx);
        }
        if self.unmatched.is_some() {
            return self.next_unmatched(cx);
        }
        loop {
            cx.breathe()?;
            if !self.probing {
                if !self.outer.operator.next(cx)? {
                    break;
                }
                self.probe(cx)?;
            }
            if self.next_candidate(cx)? {
                return Ok(true);
            }
        }
        if self.plan.kind == JoinType::Full { self.next_unmatched(cx) } else { Ok(false) }
    }

    fn restart(&mut self, cx: &mut Cx<'_, '_>) -> SqlResult<()> {
        self.probing = false;
        self.unmatched = None;
        if self.inner_rows == InnerRows::Same && self.built && self.merger.is_none() {
            self.rows.iter_mut().for_each(|row| row.matched = false);
            return self.outer.operator.restart(cx);
        }
        self.rows.clear();
        self.table.clear();
        self.reserved.clear();
        self.merger = None;
        self.built = false;
        self.inner.operator.restart(cx)?;
        self.outer.operator.restart(cx)
    }
}
