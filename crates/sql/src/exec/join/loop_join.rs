//! Nested loops.
//!
//! Invariants: the inner side is restarted for each outer row and may read it.

use crate::error::SqlResult;
use crate::exec::program::{Program, Slot};
use crate::exec::{BoxedOperator, Cx, Operator};
use crate::plan::node::JoinType;

/// Nested loops at work.
pub(in crate::exec) struct Loop<'p> {
    kind: JoinType,
    outer: BoxedOperator<'p>,
    inner: BoxedOperator<'p>,
    condition: Option<&'p Program>,
    inner_slots: &'p [Slot],
    inside: bool,
    matched: bool,
    fresh: bool,
}

impl<'p> Loop<'p> {
    pub(in crate::exec) fn new(
        kind: JoinType,
        outer: BoxedOperator<'p>,
        inner: BoxedOperator<'p>,
        condition: Option<&'p Program>,
        inner_slots: &'p [Slot],
    ) -> Loop<'p> {
        let (inside, matched, fresh) = (false, false, true);
        Loop { kind, outer, inner, condition, inner_slots, inside, matched, fresh }
    }
}

impl Operator for Loop<'_> {
    fn next(&mut self, cx: &mut Cx<'_, '_>) -> SqlResult<bool> {
        cx.check_stack()?;
        loop {
            cx.breathe()?;
            if !self.inside {
                if !self.outer.next(cx)? {
                    return Ok(false);
                }
                if !std::mem::replace(&mut self.fresh, false) {
                    self.inner.repeat(cx)?;
                }
                self.inside = true;
                self.matched = false;
            }
            if self.inner.next(cx)? {
                let joins = match self.condition {
                    Some(condition) => condition.test(cx)?,
                    None => true,
                };
                match self.kind {
                    _ if !joins => {}
                    JoinType::Semi => {
                        self.inside = false;
                        return Ok(true);
                    }
                    JoinType::Anti => self.inside = false,
                    _ => {
                        self.matched = true;
                        return Ok(true);
                    }
                }
                continue;
            }
            self.inside = false;
            if matches!(self.kind, JoinType::Left | JoinType::Anti) && !self.matched {
                cx.clear(self.inner_slots);
                return Ok(true);
            }
        }
    }

    fn restart(&mut self, cx: &mut Cx<'_, '_>) -> SqlResult<()> {
        self.inside = false;
        if !self.fresh {
            self.inner.restart(cx)?;
            self.fresh = true;
        }
        self.outer.restart(cx)
    }
}
