//! The small operators: one row, VALUES, filter, projection, kept rows, DISTINCT.
//!
//! Invariants: as in the module's header.

use super::program::{Program, Slot};
use super::spill::{Reservation, RowStore, SortKey, Sorted, Sorter, StoreCursor};
use super::{BoxedOperator, Cx, KeySet, Operator, hash_key};
use crate::error::SqlResult;
use crate::plan::node::InnerRows;
use crate::types::{Datum, TypeOid};

/// One row without columns.
pub(super) struct One {
    given: bool,
}

impl One {
    pub(super) fn new() -> One {
        One { given: false }
    }
}

impl Operator for One {
    fn next(&mut self, _cx: &mut Cx<'_, '_>) -> SqlResult<bool> {
        Ok(!std::mem::replace(&mut self.given, true))
    }

    fn restart(&mut self, _cx: &mut Cx<'_, '_>) -> SqlResult<()> {
        self.given = false;
        Ok(())
    }
}

/// No rows.
pub(super) struct Nothing;

impl Operator for Nothing {
    fn next(&mut self, _cx: &mut Cx<'_, '_>) -> SqlResult<bool> {
        Ok(false)
    }

    fn restart(&mut self, _cx: &mut Cx<'_, '_>) -> SqlResult<()> {
        Ok(())
    }
}

/// VALUES.
pub(super) struct Values<'p> {
    rows: &'p [Vec<Program>],
    slots: &'p [Slot],
    at: usize,
}

impl<'p> Values<'p> {
    pub(super) fn new(rows: &'p [Vec<Program>], slots: &'p [Slot]) -> Values<'p> {
        Values { rows, slots, at: 0 }
    }
}

impl Operator for Values<'_> {
    fn next(&mut self, cx: &mut Cx<'_, '_>) -> SqlResult<bool> {
        cx.breathe()?;
        let Some(row) = self.rows.get(self.at) else { return Ok(false) };
        self.at += 1;
        for (program, slot) in row.iter().zip(self.slots) {
            let value = program.eval(cx)?;
            cx.frame[*slot as usize] = value;
        }
        Ok(true)
    }

    fn restart(&mut self, _cx: &mut Cx<'_, '_>) -> SqlResult<()> {
        self.at = 0;
        Ok(())
    }
}

/// Rows that satisfy a condition.
pub(super) struct Filter<'p> {
    input: BoxedOperator<'p>,
    condition: &'p Program,
}

impl<'p> Filter<'p> {
    pub(super) fn new(input: BoxedOperator<'p>, condition: &'p Program) -> Filter<'p> {
        Filter { input, condition }
    }
}

impl Operator for Filter<'_> {
    fn next(&mut self, cx: &mut Cx<'_, '_>) -> SqlResult<bool> {
        while self.input.next(cx)? {
            cx.breathe()?;
            if self.condition.test(cx)? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    fn restart(&mut self, cx: &mut Cx<'_, '_>) -> SqlResult<()> {
        self.input.restart(cx)
    }
}

/// Values computed into slots.
pub(super) struct Project<'p> {
    input: BoxedOperator<'p>,
    outputs: &'p [(Program, Slot)],
}

impl<'p> Project<'p> {
    pub(super) fn new(input: BoxedOperator<'p>, outputs: &'p [(Program, Slot)]) -> Project<'p> {
        Project { input, outputs }
    }
}

impl Operator for Project<'_> {
    fn next(&mut self, cx: &mut Cx<'_, '_>) -> SqlResult<bool> {
        if !self.input.next(cx)? {
            return Ok(false);
        }
        for (program, slot) in self.outputs {
            let value = program.eval(cx)?;
            cx.frame[*slot as usize] = value;
        }
        Ok(true)
    }

    fn restart(&mut self, cx: &mut Cx<'_, '_>) -> SqlResult<()> {
        self.input.restart(cx)
    }
}

/// The inner side of a loop kept, so that it is not computed again for each row of the outer side,
/// which its input does not read. When the loop begins again it may give other rows.
pub(super) struct Keep<'p> {
    input: BoxedOperator<'p>,
    slots: &'p [Slot],
    rows: RowStore,
    cursor: StoreCursor,
    complete: bool,
    at: u64,
    inner_rows: InnerRows,
}

impl<'p> Keep<'p> {
    pub(super) fn new(
        input: BoxedOperator<'p>,
        slots: &'p [Slot],
        inner_rows: InnerRows,
    ) -> Keep<'p> {
        let (rows, cursor) = (RowStore::default(), StoreCursor::default());
        Keep { input, slots, rows, cursor, complete: false, at: 0, inner_rows }
    }
}

impl Operator for Keep<'_> {
    fn next(&mut self, cx: &mut Cx<'_, '_>) -> SqlResult<bool> {
        cx.breathe()?;
        let slots = self.slots;
        let give = |row: &[Datum], cx: &mut Cx<'_, '_>| cx.restore(slots, row);
        if self.rows.with(self.at, &mut self.cursor, cx, give)?.is_some() {
            self.at += 1;
            return Ok(true);
        }
        if self.complete || !self.input.next(cx)? {
            self.complete = true;
            return Ok(false);
        }
        let row = cx.save(self.slots);
        self.rows.push(row, cx)?;
        self.at += 1;
        Ok(true)
    }

    fn restart(&mut self, cx: &mut Cx<'_, '_>) -> SqlResult<()> {
        if self.inner_rows == InnerRows::Others {
            self.rows.clear();
            self.cursor = StoreCursor::default();
            self.complete = false;
            self.input.restart(cx)?;
        }
        self.repeat(cx)
    }

    fn repeat(&mut self, _cx: &mut Cx<'_, '_>) -> SqlResult<()> {
        self.at = 0;
        Ok(())
    }
}

/// DISTINCT: each row the first time only. What memory does not hold is sorted on disk and comes
/// after the rest.
pub(super) struct Distinct<'p> {
    input: BoxedOperator<'p>,
    keys: &'p [(Slot, TypeOid)],
    slots: Vec<Slot>,
    seen: KeySet,
    /// The present row's key; its memory is used again.
    key: Vec<u8>,
    reserved: Reservation,
    /// Rows that were new when memory was full, by their keys.
    rest: Option<Sorter>,
    sorted: Option<Sorted>,
    last: Option<Datum>,
}

impl<'p> Distinct<'p> {
    pub(super) fn new(input: BoxedOperator<'p>, keys: &'p [(Slot, TypeOid)]) -> Distinct<'p> {
        Distinct {
            input,
            keys,
            slots: keys.iter().map(|(slot, _)| *slot).collect(),
            seen: KeySet::default(),
            key: Vec::new(),
            reserved: Reservation::default(),
            rest: None,
            sorted: None,
            last: None,
        }
    }

    /// Is the row's key new? If memory is full it is put aside.
    fn is_new(&mut self, cx: &mut Cx<'_, '_>) -> SqlResult<bool> {
        key_of(self.keys, cx, &mut self.key);
        let key = &self.key;
        if self.seen.contains(key) {
            return Ok(false);
        }
        if self.reserved.is_over() {
            let row = std::iter::once(Datum::Bytea(key.as_slice().into()));
            let row = row.chain(self.slots.iter().map(|slot| cx.frame[*slot as usize].clone()));
            let row = row.collect();
            let by_key = || Sorter::new([SortKey::ascending(TypeOid::BYTEA)].into(), None);
            self.rest.get_or_insert_with(by_key).add(row, cx)?;
            return Ok(false);
        }
        self.reserved.grow(cx.memory(), key.len() + KEY_BYTES)?;
        self.seen.insert(key.clone());
        Ok(true)
    }

    fn next_sorted(&mut self, cx: &mut Cx<'_, '_>) -> SqlResult<bool> {
        let Some(sorted) = &mut self.sorted else { return Ok(false) };
        while let Some(row) = sorted.next(cx)? {
            cx.breathe()?;
            let is_same = match (&self.last, &row[0]) {
                (Some(Datum::Bytea(last)), Datum::Bytea(key)) => last == key,
                _ => false,
            };
            if !is_same {
                self.last = Some(row[0].clone());
                cx.put(&self.slots, row, 1);
                return Ok(true);
            }
        }
        Ok(false)
    }
}

/// What an entry of a set of keys takes besides the key, roughly.
pub(super) const KEY_BYTES: usize = 56;

fn key_of(keys: &[(Slot, TypeOid)], cx: &Cx<'_, '_>, key: &mut Vec<u8>) {
    key.clear();
    keys.iter().for_each(|(slot, ty)| hash_key(&cx.frame[*slot as usize], *ty, key));
}

impl Operator for Distinct<'_> {
    fn next(&mut self, cx: &mut Cx<'_, '_>) -> SqlResult<bool> {
        if self.sorted.is_some() {
            return self.next_sorted(cx);
        }
        while self.input.next(cx)? {
            cx.breathe()?;
            if self.is_new(cx)? {
                return Ok(true);
            }
        }
        let Some(rest) = self.rest.take() else { return Ok(false) };
        self.seen = KeySet::default();
        self.reserved.clear();
        self.sorted = Some(rest.finish(cx)?);
        cx.note_disk(true);
        self.next_sorted(cx)
    }

    fn restart(&mut self, cx: &mut Cx<'_, '_>) -> SqlResult<()> {
        self.seen.clear();
        self.reserved.clear();
        self.rest = None;
        self.sorted = None;
        self.last = None;
        self.input.restart(cx)
    }
}

/// DISTINCT ON: of sorted rows the first of each key.
pub(super) struct First<'p> {
    input: BoxedOperator<'p>,
    keys: &'p [(Slot, TypeOid)],
    last: Option<Vec<u8>>,
    /// The present row's key; its memory is used again.
    key: Vec<u8>,
}

impl<'p> First<'p> {
    pub(super) fn new(input: BoxedOperator<'p>, keys: &'p [(Slot, TypeOid)]) -> First<'p> {
        First { input, keys, last: None, key: Vec::new() }
    }
}

impl Operator for First<'_> {
    fn next(&mut self, cx: &mut Cx<'_, '_>) -> SqlResult<bool> {
        while self.input.next(cx)? {
            key_of(self.keys, cx, &mut self.key);
            if self.last.as_ref() != Some(&self.key) {
                std::mem::swap(self.last.get_or_insert_default(), &mut self.key);
                return Ok(true);
            }
        }
        Ok(false)
    }

    fn restart(&mut self, cx: &mut Cx<'_, '_>) -> SqlResult<()> {
        self.last = None;
        self.input.restart(cx)
    }
}
