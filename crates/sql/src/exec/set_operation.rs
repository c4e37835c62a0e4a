//! UNION ALL, INTERSECT ALL and EXCEPT ALL. Without ALL, DISTINCT is above: then rows that are to
//! be given, or not, whatever their number need not be counted.
//!
//! Invariants: NULLs are equal to each other here. In memory the left side's order is kept; what
//! memory does not hold is sorted by the rows' keys on disk, both sides, and merged.

use super::filter::KEY_BYTES;
use super::program::Slot;
use super::spill::{Reservation, Row, SortKey, Sorted, Sorter};
use super::{BoxedOperator, Cx, KeyMap, Operator, hash_key};
use crate::error::SqlResult;
use crate::parse::ast::SetOperation;
use crate::types::{Datum, TypeOid};

/// UNION ALL at work.
pub(super) struct Append<'p> {
    sides: (BoxedOperator<'p>, BoxedOperator<'p>),
    from: &'p (Vec<Slot>, Vec<Slot>),
    slots: &'p [Slot],
    left_ended: bool,
}

impl<'p> Append<'p> {
    pub(super) fn new(
        sides: (BoxedOperator<'p>, BoxedOperator<'p>),
        from: &'p (Vec<Slot>, Vec<Slot>),
        slots: &'p [Slot],
    ) -> Append<'p> {
        Append { sides, from, slots, left_ended: false }
    }
}

fn copy(from: &[Slot], to: &[Slot], cx: &mut Cx<'_, '_>) {
    for (from, to) in from.iter().zip(to) {
        cx.frame[*to as usize] = cx.frame[*from as usize].clone();
    }
}

impl Operator for Append<'_> {
    fn next(&mut self, cx: &mut Cx<'_, '_>) -> SqlResult<bool> {
        cx.check_stack()?;
        cx.breathe()?;
        if !self.left_ended {
            if self.sides.0.next(cx)? {
                copy(&self.from.0, self.slots, cx);
                return Ok(true);
            }
            self.left_ended = true;
        }
        if !self.sides.1.next(cx)? {
            return Ok(false);
        }
        copy(&self.from.1, self.slots, cx);
        Ok(true)
    }

    fn restart(&mut self, cx: &mut Cx<'_, '_>) -> SqlResult<()> {
        self.left_ended = false;
        self.sides.0.restart(cx)?;
        self.sides.1.restart(cx)
    }
}

/// INTERSECT or EXCEPT at work.
pub(super) struct Compare<'p> {
    operation: (SetOperation, bool),
    sides: (BoxedOperator<'p>, BoxedOperator<'p>),
    from: &'p (Vec<Slot>, Vec<Slot>),
    slots: &'p [Slot],
    types: &'p [TypeOid],
    stage: Stage,
    reserved: Reservation,
}

/// How far it is.
enum Stage {
    Begin,
    /// How often each row of the right side is there.
    Memory(KeyMap<u64>),
    Merge(Box<Merging>),
}

/// Both sides sorted by key.
struct Merging {
    left: Sorted,
    right: Sorted,
    /// The right row that is not used up.
    next_right: Option<Row>,
    /// The key of the present group of left rows, and how many of the right rows with it are left.
    key: Option<Datum>,
    matches: u64,
}

impl<'p> Compare<'p> {
    pub(super) fn new(
        operation: (SetOperation, bool),
        sides: (BoxedOperator<'p>, BoxedOperator<'p>),
        from: &'p (Vec<Slot>, Vec<Slot>),
        slots: &'p [Slot],
        types: &'p [TypeOid],
    ) -> Compare<'p> {
        let (stage, reserved) = (Stage::Begin, Reservation::default());
        Compare { operation, sides, from, slots, types, stage, reserved }
    }

    fn key(&self, from: &[Slot], cx: &Cx<'_, '_>) -> Vec<u8> {
        let mut key = Vec::new();
        for (slot, ty) in from.iter().zip(self.types) {
            hash_key(&cx.frame[*slot as usize], *ty, &mut key);
        }
        key
    }

    fn begin(&mut self, cx: &mut Cx<'_, '_>) -> SqlResult<Stage> {
        let mut counts: KeyMap<u64> = KeyMap::default();
        while self.sides.1.next(cx)? {
            cx.breathe()?;
            let key = self.key(&self.from.1, cx);
            self.reserved.grow(cx.memory(), key.len() + KEY_BYTES)?;
            *counts.entry(key).or_default() += 1;
            if self.reserved.is_over() {
                return self.sort(counts, cx);
            }
        }
        Ok(Stage::Memory(counts))
    }

    /// Sorts the rest of both sides.
    fn sort(&mut self, counts: KeyMap<u64>, cx: &mut Cx<'_, '_>) -> SqlResult<Stage> {
        let by_key = || Sorter::new([SortKey::ascending(TypeOid::BYTEA)].into(), None);
        let mut right = by_key();
        for (key, count) in counts {
            cx.breathe()?;
            right.add([Datum::Bytea(key.into()), Datum::Int8(count as i64)].into(), cx)?;
        }
        self.reserved.clear();
        while self.sides.1.next(cx)? {
            cx.breathe()?;
            let key = self.key(&self.from.1, cx);
            right.add([Datum::Bytea(key.into()), Datum::Int8(1)].into(), cx)?;
        }
        let mut right = right.finish(cx)?;
        let mut left = by_key();
        while self.sides.0.next(cx)? {
            cx.breathe()?;
            let key = std::iter::once(Datum::Bytea(self.key(&self.from.0, cx).into()));
            let values = self.from.0.iter().map(|slot| cx.frame[*slot as usize].clone());
            left.add(key.chain(values).collect(), cx)?;
        }
        let left = left.finish(cx)?;
        cx.note_disk(true);
        let next_right = right.next(cx)?;
        let (key, matches) = (None, 0);
        Ok(Stage::Merge(Box::new(Merging { left, right, next_right, key, matches })))
    }

    /// Is a left row with so many matches part of the answer?
    fn accepts(&self, matches: u64) -> bool {
        (matches > 0) == (self.operation.0 == SetOperation::Intersect)
    }

    fn next_in_memory(&mut self, cx: &mut Cx<'_, '_>) -> SqlResult<bool> {
        while self.sides.0.next(cx)? {
            cx.breathe()?;
            let key = self.key(&self.from.0, cx);
            let Stage::Memory(counts) = &mut self.stage else { return Ok(false) };
            let mut matches = 0;
            if let Some(count) = counts.get_mut(&key) {
                matches = *count;
                if self.operation.1 {
                    *count = count.saturating_sub(1);
                }
            }
            if self.accepts(matches) {
                copy(&self.from.0, self.slots, cx);
                return Ok(true);
            }
        }
        Ok(false)
    }

    fn next_merged(&mut self, cx: &mut Cx<'_, '_>) -> SqlResult<bool> {
        let (operation, slots) = (self.operation, self.slots);
        loop {
            cx.breathe()?;
            let Stage::Merge(merging) = &mut self.stage else { return Ok(false) };
            let Some(row) = merging.left.next(cx)? else { return Ok(false) };
            if merging.key.as_ref().map(bytes) != Some(bytes(&row[0])) {
                merging.matches = merging.matches_of(bytes(&row[0]), cx)?;
                merging.key = Some(row[0].clone());
            }
            let matches = merging.matches;
            if operation.1 {
                merging.matches = matches.saturating_sub(1);
            }
            if self.accepts(matches) {
                cx.put(slots, row, 1);
                return Ok(true);
            }
        }
    }
}

fn bytes(key: &Datum) -> &[u8] {
    match key {
        Datum::Bytea(key) => key,
        _ => &[],
    }
}

impl Merging {
    /// How many rows of the right side have this key; those with smaller ones are passed over.
    fn matches_of(&mut self, key: &[u8], cx: &mut Cx<'_, '_>) -> SqlResult<u64> {
        let mut matches = 0;
        while let Some(row) = &self.next_right {
            cx.breathe()?;
            match bytes(&row[0]).cmp(key) {
                std::cmp::Ordering::Greater => break,
                std::cmp::Ordering::Equal => matches += row[1].as_i64() as u64,
                std::cmp::Ordering::Less => {}
            }
            self.next_right = self.right.next(cx)?;
        }
        Ok(matches)
    }
}

impl Operator for Compare<'_> {
    fn next(&mut self, cx: &mut Cx<'_, '_>) -> SqlResult<bool> {
        cx.check_stack()?;
        if matches!(self.stage, Stage::Begin) {
            self.stage = self.begin(cx)?;
        }
        match self.stage {
            Stage::Merge(_) => self.next_merged(cx),
            _ => self.next_in_memory(cx),
        }
    }

    fn restart(&mut self, cx: &mut Cx<'_, '_>) -> SqlResult<()> {
        self.stage = Stage::Begin;
        self.reserved.clear();
        self.sides.0.restart(cx)?;
        self.sides.1.restart(cx)
    }
}
