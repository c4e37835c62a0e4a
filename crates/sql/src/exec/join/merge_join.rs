//! Merge join: both sides in the order of the keys, which is also how a hash join goes on that
//! does not fit into memory.
//!
//! Invariants: keys ascend, NULLs last, on both sides; rows with a NULL key join nothing. The
//! inner rows of one key are kept in a store, on disk if they are many, and read again for every
//! outer row with that key; what they matched is one bit a row.

use super::{Input, JoinPlan, Side};
use crate::error::SqlResult;
use crate::exec::program::Slot;
use crate::exec::spill::{Reservation, Row, RowStore, SortKey, Sorted, Sorter, StoreCursor, order};
use crate::exec::{Cx, Operator};
use crate::plan::node::JoinType;
use crate::types::Datum;
use std::cmp::Ordering;

/// A sorted side: sorted here, or read in order.
enum Stream {
    Filling(Sorter),
    Sorted(Sorted),
}

impl Stream {
    fn next(&mut self, cx: &mut Cx<'_, '_>) -> SqlResult<Option<Row>> {
        match self {
            Stream::Filling(_) => Ok(None),
            Stream::Sorted(sorted) => sorted.next(cx),
        }
    }
}

/// What comes next.
#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    /// An outer row.
    Outer,
    /// The next inner row of the group, for the present outer row.
    Probe,
    /// The inner rows of the group that nothing matched (full joins), from this one on.
    Unmatched(u64),
    /// Inner rows whose key no outer row has (full joins), then back to the outer row.
    Skip,
    End,
}

/// The join of two sides whose rows are given to it.
pub(super) struct Merger<'p> {
    plan: JoinPlan<'p>,
    outer_slots: &'p [Slot],
    inner_slots: &'p [Slot],
    order: Box<[SortKey]>,
    outer: Stream,
    inner: Stream,
    /// The present outer row (keys, then values), and whether it has joined.
    row: Option<Row>,
    matched: bool,
    /// The inner rows with one key, how many of them were tried, and which have matched.
    key: Option<Vec<Datum>>,
    group: RowStore,
    cursor: StoreCursor,
    at: u64,
    group_matched: Vec<u64>,
    bits: Reservation,
    /// The first inner row behind the group.
    ahead: Option<Row>,
    state: State,
}

impl<'p> Merger<'p> {
    pub(super) fn new(
        plan: JoinPlan<'p>,
        outer_slots: &'p [Slot],
        inner_slots: &'p [Slot],
    ) -> Merger<'p> {
        let order: Box<[SortKey]> =
            plan.keys.iter().map(|(_, _, ty)| SortKey::ascending(*ty)).collect();
        Merger {
            plan,
            outer_slots,
            inner_slots,
            outer: Stream::Filling(Sorter::new(order.clone(), None)),
            inner: Stream::Filling(Sorter::new(order.clone(), None)),
            order,
            row: None,
            matched: false,
            key: None,
            group: RowStore::default(),
            cursor: StoreCursor::default(),
            at: 0,
            group_matched: Vec::new(),
            bits: Reservation::default(),
            ahead: None,
            state: State::Outer,
        }
    }

    /// Adds the row in the frame to a side.
    pub(super) fn add(&mut self, side: Side, cx: &mut Cx<'_, '_>) -> SqlResult<()> {
        let mut row = self.plan.keys_of(side, cx)?;
        let (slots, stream) = match side {
            Side::Outer => (self.outer_slots, &mut self.outer),
            Side::Inner => (self.inner_slots, &mut self.inner),
        };
        let keeps = match side {
            Side::Outer => self.plan.keeps_outer(),
            Side::Inner => self.plan.kind == JoinType::Full,
        };
        if !keeps && row.iter().any(Datum::is_null) {
            return Ok(());
        }
        row.extend(slots.iter().map(|slot| cx.frame[*slot as usize].clone()));
        match stream {
            Stream::Filling(sorter) => sorter.add(row.into(), cx),
            Stream::Sorted(_) => Ok(()),
        }
    }

    /// Adds all rows of a side.
    pub(super) fn fill(
        &mut self,
        side: Side,
        input: &mut Input<'_>,
        cx: &mut Cx<'_, '_>,
    ) -> SqlResult<()> {
        while input.operator.next(cx)? {
            cx.breathe()?;
            self.add(side, cx)?;
        }
        Ok(())
    }

    /// Both sides are complete.
    pub(super) fn begin(&mut self, cx: &mut Cx<'_, '_>) -> SqlResult<()> {
        for stream in [&mut self.outer, &mut self.inner] {
            let empty = Stream::Filling(Sorter::new(Box::default(), None));
            if let Stream::Filling(sorter) = std::mem::replace(stream, empty) {
                let sorted = sorter.finish(cx)?;
                cx.note_disk(sorted.is_on_disk());
                *stream = Stream::Sorted(sorted);
            }
        }
        self.ahead = self.inner.next(cx)?;
        Ok(())
    }

    fn width(&self) -> usize {
        self.order.len()
    }

    /// The next row of the join, into the frame.
    pub(super) fn next(&mut self, cx: &mut Cx<'_, '_>) -> SqlResult<bool> {
        loop {
            cx.breathe()?;
            let given = match self.state {
                State::Outer => self.next_outer(cx)?,
                State::Probe => self.probe(cx)?,
                State::Unmatched(from) => self.unmatched(from, cx)?,
                State::Skip => self.skip(cx)?,
                State::End => return Ok(false),
            };
            if given {
                return Ok(true);
            }
        }
    }

    /// Takes the next outer row and looks for its group.
    fn next_outer(&mut self, cx: &mut Cx<'_, '_>) -> SqlResult<bool> {
        self.row = self.outer.next(cx)?;
        self.matched = false;
        let width = self.width();
        let is_null = self.row.as_ref().is_some_and(|row| row[..width].iter().any(Datum::is_null));
        if is_null {
            return Ok(self.give_unmatched_outer(cx));
        }
        self.find_group()
    }

    /// The group of the present outer row; without one, everything that is left of a full join.
    fn find_group(&mut self) -> SqlResult<bool> {
        let width = self.width();
        if let (Some(row), Some(key)) = (&self.row, &self.key)
            && order(&self.order, &row[..width], key) == Ordering::Equal
        {
            self.at = 0;
            self.state = State::Probe;
            return Ok(false);
        }
        if self.key.take().is_some() && self.plan.kind == JoinType::Full {
            self.state = State::Unmatched(0);
            return Ok(false);
        }
        let is_over = self.row.is_none() && self.plan.kind != JoinType::Full;
        self.state = if is_over { State::End } else { State::Skip };
        Ok(false)
    }

    /// Passes over inner rows with smaller keys, then collects the group.
    fn skip(&mut self, cx: &mut Cx<'_, '_>) -> SqlResult<bool> {
        let width = self.width();
        while let Some(ahead) = &self.ahead {
            cx.breathe()?;
            let found = match &self.row {
                // A NULL within the inner key equals nothing, as the outer key has none, but has
                // its place: only what it is greater than waits behind it.
                Some(row) => order(&self.order, &ahead[..width], &row[..width]),
                None => Ordering::Less,
            };
            match found {
                Ordering::Less if self.plan.kind == JoinType::Full => {
                    cx.restore(self.inner_slots, &ahead[width..]);
                    cx.clear(self.outer_slots);
                    self.ahead = self.inner.next(cx)?;
                    return Ok(true);
                }
                Ordering::Less => self.ahead = self.inner.next(cx)?,
                Ordering::Equal => {
                    self.collect(cx)?;
                    self.at = 0;
                    self.state = State::Probe;
                    return Ok(false);
                }
                Ordering::Greater => break,
            }
        }
        if self.row.is_none() {
            self.state = State::End;
            return Ok(false);
        }
        self.state = State::Outer;
        Ok(self.give_unmatched_outer(cx))
    }

    /// The outer row, if rows that join nothing are given.
    fn give_unmatched_outer(&mut self, cx: &mut Cx<'_, '_>) -> bool {
        let Some(row) = self.row.as_ref().filter(|_| self.plan.keeps_outer()) else { return false };
        cx.restore(self.outer_slots, &row[self.order.len()..]);
        cx.clear(self.inner_slots);
        true
    }

    /// Takes the inner rows with the key of the first one.
    fn collect(&mut self, cx: &mut Cx<'_, '_>) -> SqlResult<()> {
        let width = self.width();
        self.group.clear();
        self.cursor = StoreCursor::default();
        self.group_matched.clear();
        self.bits.clear();
        let Some(first) = self.ahead.take() else { return Ok(()) };
        let key = first[..width].to_vec();
        let mut next = Some(first);
        while let Some(row) = next {
            cx.breathe()?;
            if order(&self.order, &row[..width], &key) != Ordering::Equal {
                self.ahead = Some(row);
                break;
            }
            self.group.push(row[width..].into(), cx)?;
            next = self.inner.next(cx)?;
        }
        if self.plan.kind == JoinType::Full {
            let words = self.group.len().div_ceil(64) as usize;
            self.bits.grow(cx.memory(), 8 * words)?;
            self.group_matched.resize(words, 0);
        }
        self.key = Some(key);
        Ok(())
    }

    /// The next inner row of the group that joins the outer row.
    fn probe(&mut self, cx: &mut Cx<'_, '_>) -> SqlResult<bool> {
        let (width, slots) = (self.width(), self.inner_slots);
        if let Some(row) = &self.row {
            cx.restore(self.outer_slots, &row[width..]);
        }
        while self.at < self.group.len() {
            cx.breathe()?;
            let give = |row: &[Datum], cx: &mut Cx<'_, '_>| cx.restore(slots, row);
            self.group.with(self.at, &mut self.cursor, cx, give)?;
            let at = self.at;
            self.at += 1;
            if !self.plan.joins(cx)? {
                continue;
            }
            self.matched = true;
            match self.plan.kind {
                JoinType::Semi | JoinType::Anti => {
                    self.state = State::Outer;
                    return Ok(self.plan.kind == JoinType::Semi);
                }
                JoinType::Full => self.group_matched[(at / 64) as usize] |= 1 << (at % 64),
                JoinType::Inner | JoinType::Left => {}
            }
            return Ok(true);
        }
        self.state = State::Outer;
        Ok(!self.matched && self.give_unmatched_outer(cx))
    }

    /// The inner rows of the group that nothing has matched.
    fn unmatched(&mut self, from: u64, cx: &mut Cx<'_, '_>) -> SqlResult<bool> {
        let slots = self.inner_slots;
        for at in from..self.group.len() {
            cx.breathe()?;
            if self.group_matched[(at / 64) as usize] & (1 << (at % 64)) == 0 {
                let give = |row: &[Datum], cx: &mut Cx<'_, '_>| cx.restore(slots, row);
                self.group.with(at, &mut self.cursor, cx, give)?;
                cx.clear(self.outer_slots);
                self.state = State::Unmatched(at + 1);
                return Ok(true);
            }
        }
        self.state = State::Skip;
        Ok(false)
    }
}

/// A merge join at work: both sides are sorted first.
pub(in crate::exec) struct MergeJoin<'p> {
    plan: JoinPlan<'p>,
    outer: Input<'p>,
    inner: Input<'p>,
    merger: Option<Merger<'p>>,
}

impl<'p> MergeJoin<'p> {
    pub(in crate::exec) fn new(
        plan: JoinPlan<'p>,
        outer: Input<'p>,
        inner: Input<'p>,
    ) -> MergeJoin<'p> {
        MergeJoin { plan, outer, inner, merger: None }
    }
}

impl Operator for MergeJoin<'_> {
    fn next(&mut self, cx: &mut Cx<'_, '_>) -> SqlResult<bool> {
        cx.check_stack()?;
        if self.merger.is_none() {
            let mut merger = Merger::new(self.plan, self.outer.slots, self.inner.slots);
            merger.fill(Side::Inner, &mut self.inner, cx)?;
            merger.fill(Side::Outer, &mut self.outer, cx)?;
            merger.begin(cx)?;
            self.merger = Some(merger);
        }
        match &mut self.merger {
            Some(merger) => merger.next(cx),
            None => Ok(false),
        }
    }

    fn restart(&mut self, cx: &mut Cx<'_, '_>) -> SqlResult<()> {
        self.merger = None;
        self.inner.operator.restart(cx)?;
        self.outer.operator.restart(cx)
    }
}
