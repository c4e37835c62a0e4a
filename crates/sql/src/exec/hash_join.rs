//! Hash join: inner, left and full.
//!
//! Invariants: the inner side is read whole, once, into the table; rows with a NULL key join
//! nothing. Without keys every inner row is a candidate (full joins on any condition).

use super::program::{Program, Slot};
use super::{BoxedOperator, Cx, Operator, hash_key};
use crate::error::SqlResult;
use crate::plan::node::JoinType;
use crate::types::{Datum, TypeOid};
use std::collections::HashMap;

type Keys<'p> = &'p [(Program, Program, TypeOid)];

struct Kept {
    values: Box<[Datum]>,
    matched: bool,
}

/// A hash join at work.
pub(super) struct HashJoin<'p> {
    kind: JoinType,
    outer: (BoxedOperator<'p>, &'p [Slot]),
    inner: (BoxedOperator<'p>, &'p [Slot]),
    keys: Keys<'p>,
    condition: Option<&'p Program>,
    rows: Vec<Kept>,
    table: HashMap<Vec<u8>, Vec<u32>>,
    built: bool,
    /// The present outer row's candidates, how many were tried, and whether one joined.
    candidates: Vec<u32>,
    at: usize,
    probing: bool,
    matched: bool,
    /// Where the unmatched inner rows of a full join go on.
    unmatched: Option<usize>,
    key: Vec<u8>,
}

impl<'p> HashJoin<'p> {
    pub(super) fn new(
        kind: JoinType,
        outer: (BoxedOperator<'p>, &'p [Slot]),
        inner: (BoxedOperator<'p>, &'p [Slot]),
        keys: Keys<'p>,
        condition: Option<&'p Program>,
    ) -> HashJoin<'p> {
        HashJoin {
            kind,
            outer,
            inner,
            keys,
            condition,
            rows: Vec::new(),
            table: HashMap::new(),
            built: false,
            candidates: Vec::new(),
            at: 0,
            probing: false,
            matched: false,
            unmatched: None,
            key: Vec::new(),
        }
    }

    fn build(&mut self, cx: &mut Cx<'_, '_>) -> SqlResult<()> {
        while self.inner.0.next(cx)? {
            cx.breathe()?;
            let has_key = self.key_of(cx, Side::Inner)?;
            if !has_key && self.kind != JoinType::Full {
                continue;
            }
            let number = self.rows.len() as u32;
            self.rows.push(Kept { values: cx.save(self.inner.1), matched: false });
            if has_key {
                self.table.entry(self.key.clone()).or_default().push(number);
            }
        }
        self.built = true;
        Ok(())
    }

    /// The key of the row in the frame into `self.key`; false if a part of it is NULL.
    fn key_of(&mut self, cx: &mut Cx<'_, '_>, side: Side) -> SqlResult<bool> {
        self.key.clear();
        for (outer, inner, ty) in self.keys {
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
        if self.key_of(cx, Side::Outer)?
            && let Some(found) = self.table.get(&self.key)
        {
            self.candidates.extend_from_slice(found);
        }
        self.at = 0;
        self.matched = false;
        self.probing = true;
        Ok(())
    }

    fn next_unmatched(&mut self, cx: &mut Cx<'_, '_>) -> SqlResult<bool> {
        let mut at = self.unmatched.unwrap_or(0);
        while let Some(row) = self.rows.get(at) {
            at += 1;
            if !row.matched {
                cx.restore(self.inner.1, &row.values);
                cx.clear(self.outer.1);
                self.unmatched = Some(at);
                return Ok(true);
            }
        }
        self.unmatched = Some(at);
        Ok(false)
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Side {
    Outer,
    Inner,
}

impl Operator for HashJoin<'_> {
    fn next(&mut self, cx: &mut Cx<'_, '_>) -> SqlResult<bool> {
        cx.check_stack()?;
        if !self.built {
            self.build(cx)?;
        }
        if self.unmatched.is_some() {
            return self.next_unmatched(cx);
        }
        loop {
            cx.breathe()?;
            if !self.probing {
                if !self.outer.0.next(cx)? {
                    break;
                }
                self.probe(cx)?;
            }
            while let Some(&candidate) = self.candidates.get(self.at) {
                self.at += 1;
                cx.restore(self.inner.1, &self.rows[candidate as usize].values);
                let joins = match self.condition {
                    Some(condition) => condition.test(cx)?,
                    None => true,
                };
                if joins {
                    self.matched = true;
                    self.rows[candidate as usize].matched = true;
                    return Ok(true);
                }
            }
            self.probing = false;
            if self.kind != JoinType::Inner && !self.matched {
                cx.clear(self.inner.1);
                return Ok(true);
            }
        }
        if self.kind == JoinType::Full { self.next_unmatched(cx) } else { Ok(false) }
    }

    fn restart(&mut self, cx: &mut Cx<'_, '_>) -> SqlResult<()> {
        // The inner side may read outer rows of a query around: read it again.
        self.rows.clear();
        self.table.clear();
        self.built = false;
        self.probing = false;
        self.unmatched = None;
        self.inner.0.restart(cx)?;
        self.outer.0.restart(cx)
    }
}
