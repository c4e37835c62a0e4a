//! WITH RECURSIVE.
//!
//! Invariants: the left side's rows are the first working table; the right side reads a working
//! table and its rows are the next one; the end is a working table without rows. Every row is given
//! as it is made. Working tables, and for UNION the keys of all rows, go to disk beyond `work_mem`.
//! Each row and each iteration breathes, so a recursion without end can be cancelled, and a LIMIT
//! above ends it.

use crate::error::SqlResult;
use crate::exec::program::Slot;
use crate::exec::spill::{RowStore, SeenKeys, StoreCursor};
use crate::exec::{BoxedOperator, Cx, Operator, Rows, hash_key};
use crate::types::{Datum, TypeOid};
use std::cell::RefCell;
use std::rc::Rc;

/// Where a recursion is.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Stage {
    /// Reads the left side.
    First,
    /// Reads the right side.
    Again,
    /// Is over.
    End,
}

/// A recursion at work.
pub(in crate::exec) struct Recursive<'p> {
    index: usize,
    sides: (BoxedOperator<'p>, BoxedOperator<'p>),
    from: &'p (Vec<Slot>, Vec<Slot>),
    slots: &'p [Slot],
    distinct: Option<&'p [TypeOid]>,
    seen: SeenKeys,
    /// What the present iteration has made.
    next: RowStore,
    stage: Stage,
    /// The right side has been read before.
    is_used: bool,
}

impl<'p> Recursive<'p> {
    pub(in crate::exec) fn new(
        index: usize,
        sides: (BoxedOperator<'p>, BoxedOperator<'p>),
        from: &'p (Vec<Slot>, Vec<Slot>),
        slots: &'p [Slot],
        distinct: &'p Option<Vec<TypeOid>>,
    ) -> Recursive<'p> {
        let (seen, next) = (SeenKeys::default(), RowStore::default());
        let distinct = distinct.as_deref();
        let stage = Stage::First;
        Recursive { index, sides, from, slots, distinct, seen, next, stage, is_used: false }
    }

    /// Keeps the row in the frame and says that it is to be given; false if UNION has had it.
    fn accept(&mut self, from: &[Slot], cx: &mut Cx<'_, '_>) -> SqlResult<bool> {
        let row = cx.save(from);
        if let Some(types) = self.distinct {
            let mut key = Vec::new();
            row.iter().zip(types).for_each(|(value, ty)| hash_key(value, *ty, &mut key));
            if !self.seen.add(key, cx)? {
                return Ok(false);
            }
        }
        cx.restore(self.slots, &row);
        self.next.push(row, cx)?;
        Ok(true)
    }

    /// Makes what the iteration has made the working table; false if that is nothing.
    fn turn(&mut self, cx: &mut Cx<'_, '_>) -> SqlResult<bool> {
        let made = std::mem::take(&mut self.next);
        if made.is_empty() {
            self.stage = Stage::End;
            cx.working[self.index] = None;
            return Ok(false);
        }
        cx.working[self.index] = Some(Rc::new(RefCell::new(made)));
        self.stage = Stage::Again;
        if std::mem::replace(&mut self.is_used, true) {
            self.sides.1.restart(cx)?;
        }
        Ok(true)
    }
}

impl Operator for Recursive<'_> {
    fn next(&mut self, cx: &mut Cx<'_, '_>) -> SqlResult<bool> {
        cx.check_stack()?;
        let from = self.from;
        loop {
            cx.breathe()?;
            let (has_row, from) = match self.stage {
                Stage::First => (self.sides.0.next(cx)?, &from.0),
                Stage::Again => (self.sides.1.next(cx)?, &from.1),
                Stage::End => return Ok(false),
            };
            if has_row {
                if self.accept(from, cx)? {
                    return Ok(true);
                }
            } else if !self.turn(cx)? {
                return Ok(false);
            }
        }
    }

    fn restart(&mut self, cx: &mut Cx<'_, '_>) -> SqlResult<()> {
        self.stage = Stage::First;
        self.seen = SeenKeys::default();
        self.next.clear();
        cx.working[self.index] = None;
        self.sides.0.restart(cx)
    }
}

/// A scan of a working table.
pub(in crate::exec) struct WorkingScan<'p> {
    index: usize,
    slots: &'p [Slot],
    rows: Option<Rows>,
    cursor: StoreCursor,
    at: u64,
}

impl<'p> WorkingScan<'p> {
    pub(in crate::exec) fn new(index: usize, slots: &'p [Slot]) -> WorkingScan<'p> {
        WorkingScan { index, slots, rows: None, cursor: StoreCursor::default(), at: 0 }
    }
}

impl Operator for WorkingScan<'_> {
    fn next(&mut self, cx: &mut Cx<'_, '_>) -> SqlResult<bool> {
        cx.breathe()?;
        if self.rows.is_none() {
            self.rows = cx.working[self.index].clone();
        }
        let Some(rows) = &self.rows else { return Ok(false) };
        let slots = self.slots;
        let give = |row: &[Datum], cx: &mut Cx<'_, '_>| cx.restore(slots, row);
        let found = rows.borrow_mut().with(self.at, &mut self.cursor, cx, give)?;
        self.at += u64::from(found.is_some());
        Ok(found.is_some())
    }

    fn restart(&mut self, _cx: &mut Cx<'_, '_>) -> SqlResult<()> {
        self.rows = None;
        self.cursor = StoreCursor::default();
        self.at = 0;
        Ok(())
    }
}
