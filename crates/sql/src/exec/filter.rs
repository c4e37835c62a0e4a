//! The small operators: one row, VALUES, filter, projection, kept rows, DISTINCT.
//!
//! Invariants: as in the module's header.

use super::program::{Program, Slot};
use super::{BoxedOperator, Cx, Operator, hash_key};
use crate::error::SqlResult;
use crate::types::{Datum, TypeOid};
use std::collections::HashSet;

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

/// Rows kept, so that a restart does not compute them again. Its input reads no outer row.
pub(super) struct Keep<'p> {
    input: BoxedOperator<'p>,
    slots: &'p [Slot],
    rows: Vec<Box<[Datum]>>,
    complete: bool,
    at: usize,
}

impl<'p> Keep<'p> {
    pub(super) fn new(input: BoxedOperator<'p>, slots: &'p [Slot]) -> Keep<'p> {
        Keep { input, slots, rows: Vec::new(), complete: false, at: 0 }
    }
}

impl Operator for Keep<'_> {
    fn next(&mut self, cx: &mut Cx<'_, '_>) -> SqlResult<bool> {
        cx.breathe()?;
        if let Some(row) = self.rows.get(self.at) {
            self.at += 1;
            cx.restore(self.slots, row);
            return Ok(true);
        }
        if self.complete || !self.input.next(cx)? {
            self.complete = true;
            return Ok(false);
        }
        self.rows.push(cx.save(self.slots));
        self.at += 1;
        Ok(true)
    }

    fn restart(&mut self, _cx: &mut Cx<'_, '_>) -> SqlResult<()> {
        self.at = 0;
        Ok(())
    }
}

/// DISTINCT: each row the first time only.
pub(super) struct Distinct<'p> {
    input: BoxedOperator<'p>,
    keys: &'p [(Slot, TypeOid)],
    seen: HashSet<Vec<u8>>,
}

impl<'p> Distinct<'p> {
    pub(super) fn new(input: BoxedOperator<'p>, keys: &'p [(Slot, TypeOid)]) -> Distinct<'p> {
        Distinct { input, keys, seen: HashSet::new() }
    }
}

fn key_of(keys: &[(Slot, TypeOid)], cx: &Cx<'_, '_>) -> Vec<u8> {
    let mut key = Vec::new();
    keys.iter().for_each(|(slot, ty)| hash_key(&cx.frame[*slot as usize], *ty, &mut key));
    key
}

impl Operator for Distinct<'_> {
    fn next(&mut self, cx: &mut Cx<'_, '_>) -> SqlResult<bool> {
        while self.input.next(cx)? {
            cx.breathe()?;
            let key = key_of(self.keys, cx);
            if self.seen.insert(key) {
                return Ok(true);
            }
        }
        Ok(false)
    }

    fn restart(&mut self, cx: &mut Cx<'_, '_>) -> SqlResult<()> {
        self.seen.clear();
        self.input.restart(cx)
    }
}

/// DISTINCT ON: of sorted rows the first of each key.
pub(super) struct First<'p> {
    input: BoxedOperator<'p>,
    keys: &'p [(Slot, TypeOid)],
    last: Option<Vec<u8>>,
}

impl<'p> First<'p> {
    pub(super) fn new(input: BoxedOperator<'p>, keys: &'p [(Slot, TypeOid)]) -> First<'p> {
        First { input, keys, last: None }
    }
}

impl Operator for First<'_> {
    fn next(&mut self, cx: &mut Cx<'_, '_>) -> SqlResult<bool> {
        while self.input.next(cx)? {
            let key = key_of(self.keys, cx);
            if self.last.as_ref() != Some(&key) {
                self.last = Some(key);
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
