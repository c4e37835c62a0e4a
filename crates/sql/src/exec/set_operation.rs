//! UNION, INTERSECT, EXCEPT, with and without ALL.
//!
//! Invariants: NULLs are equal to each other here; UNION and EXCEPT keep the left side's order.

use super::program::Slot;
use super::{BoxedOperator, Cx, Operator, hash_key, open};
use crate::error::SqlResult;
use crate::parse::ast::SetOperation;
use crate::plan::node::Plan;
use crate::types::TypeOid;
use std::collections::{HashMap, HashSet};

#[derive(Clone, Copy, PartialEq, Eq)]
enum Stage {
    Begin,
    Left,
    Right,
}

/// A set operation at work.
pub(super) struct SetOp<'p> {
    operation: Option<(SetOperation, bool)>,
    left: BoxedOperator<'p>,
    right: BoxedOperator<'p>,
    from: &'p (Vec<Slot>, Vec<Slot>),
    slots: &'p [Slot],
    types: &'p [TypeOid],
    stage: Stage,
    /// How often each row of the right side is there (INTERSECT, EXCEPT).
    counts: HashMap<Vec<u8>, u64>,
    seen: HashSet<Vec<u8>>,
}

impl<'p> SetOp<'p> {
    pub(super) fn new(
        operation: Option<(SetOperation, bool)>,
        sides: &'p (Plan, Plan),
        from: &'p (Vec<Slot>, Vec<Slot>),
        slots: &'p [Slot],
        types: &'p [TypeOid],
    ) -> SetOp<'p> {
        let (left, right) = (open(&sides.0), open(&sides.1));
        let (counts, seen) = (HashMap::new(), HashSet::new());
        SetOp { operation, left, right, from, slots, types, stage: Stage::Begin, counts, seen }
    }

    fn key(&self, from: &[Slot], cx: &Cx<'_, '_>) -> Vec<u8> {
        let mut key = Vec::new();
        for (slot, ty) in from.iter().zip(self.types) {
            hash_key(&cx.frame[*slot as usize], *ty, &mut key);
        }
        key
    }

    fn give(&self, from: &[Slot], cx: &mut Cx<'_, '_>) {
        for (from, to) in from.iter().zip(self.slots) {
            cx.frame[*to as usize] = cx.frame[*from as usize].clone();
        }
    }

    /// Is a row of the left side part of the answer?
    fn accept_left(&mut self, cx: &Cx<'_, '_>) -> bool {
        let Some((operation, all)) = self.operation else { return true };
        let key = self.key(&self.from.0, cx);
        match (operation, all) {
            (SetOperation::Union, _) => all || self.seen.insert(key),
            (SetOperation::Intersect, false) => {
                self.counts.contains_key(&key) && self.seen.insert(key)
            }
            (SetOperation::Except, false) => {
                !self.counts.contains_key(&key) && self.seen.insert(key)
            }
            (SetOperation::Intersect, true) => match self.counts.get_mut(&key) {
                Some(count) if *count > 0 => {
                    *count -= 1;
                    true
                }
                _ => false,
            },
            (SetOperation::Except, true) => match self.counts.get_mut(&key) {
                Some(count) if *count > 0 => {
                    *count -= 1;
                    false
                }
                _ => true,
            },
        }
    }
}

impl Operator for SetOp<'_> {
    fn next(&mut self, cx: &mut Cx<'_, '_>) -> SqlResult<bool> {
        cx.check_stack()?;
        let from = self.from;
        if self.stage == Stage::Begin {
            self.stage = Stage::Left;
            let counted =
                matches!(self.operation, Some((SetOperation::Intersect | SetOperation::Except, _)));
            while counted && self.right.next(cx)? {
                cx.breathe()?;
                let key = self.key(&from.1, cx);
                *self.counts.entry(key).or_default() += 1;
            }
        }
        while self.stage == Stage::Left {
            cx.breathe()?;
            if !self.left.next(cx)? {
                self.stage = Stage::Right;
            } else if self.accept_left(cx) {
                self.give(&from.0, cx);
                return Ok(true);
            }
        }
        if matches!(self.operation, Some((SetOperation::Intersect | SetOperation::Except, _))) {
            return Ok(false);
        }
        while self.right.next(cx)? {
            cx.breathe()?;
            let new = match self.operation {
                None => true,
                Some(_) => {
                    let key = self.key(&from.1, cx);
                    self.seen.insert(key)
                }
            };
            if new {
                self.give(&from.1, cx);
                return Ok(true);
            }
        }
        Ok(false)
    }

    fn restart(&mut self, cx: &mut Cx<'_, '_>) -> SqlResult<()> {
        self.stage = Stage::Begin;
        self.counts.clear();
        self.seen.clear();
        self.left.restart(cx)?;
        self.right.restart(cx)
    }
}
