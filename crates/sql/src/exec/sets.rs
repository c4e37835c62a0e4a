//! Set-returning functions, in FROM and in target lists.
//!
//! Invariants: a strict function gives no rows for a NULL argument; several functions of one
//! target list go in step, shorter ones give NULL at their end.

use super::program::Slot;
use super::{BoxedOperator, Cx, Operator};
use crate::error::SqlResult;
use crate::functions::{SetValues, Strictness};
use crate::plan::node::{FunctionSource, SetPlan};
use crate::types::Datum;

fn call(plan: &SetPlan, cx: &mut Cx<'_, '_>) -> SqlResult<SetValues> {
    let mut arguments = Vec::with_capacity(plan.arguments.len());
    for program in &plan.arguments {
        arguments.push(program.eval(cx)?);
    }
    if plan.strictness == Strictness::Strict && arguments.iter().any(Datum::is_null) {
        return Ok(Box::new(std::iter::empty()));
    }
    (plan.function)(&arguments, cx.functions)
}

/// A function of FROM at work.
pub(super) struct Function<'p> {
    call: &'p FunctionSource,
    slots: &'p [Slot],
    ordinality: Option<Slot>,
    values: Option<SetValues>,
    count: i64,
}

impl<'p> Function<'p> {
    pub(super) fn new(
        call: &'p FunctionSource,
        slots: &'p [Slot],
        ordinality: Option<Slot>,
    ) -> Function<'p> {
        Function { call, slots, ordinality, values: None, count: 0 }
    }
}

impl Operator for Function<'_> {
    fn next(&mut self, cx: &mut Cx<'_, '_>) -> SqlResult<bool> {
        cx.breathe()?;
        if self.values.is_none() {
            self.count = 0;
            self.values = Some(match self.call {
                FunctionSource::Set(plan) => call(plan, cx)?,
                FunctionSource::Scalar(program) => {
                    let value = program.eval(cx)?;
                    Box::new(std::iter::once(Ok(value)))
                }
            });
        }
        let Some(value) = self.values.as_mut().and_then(Iterator::next) else { return Ok(false) };
        self.count += 1;
        match (value?, self.slots) {
            (Datum::Record(record), slots) if slots.len() > 1 => {
                for (slot, field) in slots.iter().zip(&record.fields) {
                    cx.frame[*slot as usize] = field.clone();
                }
            }
            (value, slots) => {
                for slot in &slots[1..] {
                    cx.frame[*slot as usize] = Datum::Null;
                }
                cx.frame[slots[0] as usize] = match value {
                    // One OUT column still comes as a record.
                    Datum::Record(record)
                        if matches!(self.call, FunctionSource::Set(_))
                            && record.fields.len() == 1 =>
                    {
                        record.fields[0].clone()
                    }
                    value => value,
                };
            }
        }
        if let Some(slot) = self.ordinality {
            cx.frame[slot as usize] = Datum::Int8(self.count);
        }
        Ok(true)
    }

    fn restart(&mut self, _cx: &mut Cx<'_, '_>) -> SqlResult<()> {
        self.values = None;
        Ok(())
    }
}

/// Set-returning functions of a target list at work.
pub(super) struct ProjectSet<'p> {
    input: BoxedOperator<'p>,
    outputs: &'p [(SetPlan, Slot)],
    open: Vec<Option<SetValues>>,
    active: bool,
}

impl<'p> ProjectSet<'p> {
    pub(super) fn new(input: BoxedOperator<'p>, outputs: &'p [(SetPlan, Slot)]) -> ProjectSet<'p> {
        ProjectSet { input, outputs, open: Vec::new(), active: false }
    }
}

impl Operator for ProjectSet<'_> {
    fn next(&mut self, cx: &mut Cx<'_, '_>) -> SqlResult<bool> {
        loop {
            cx.breathe()?;
            if !self.active {
                if !self.input.next(cx)? {
                    return Ok(false);
                }
                self.open.clear();
                for (plan, _) in self.outputs {
                    self.open.push(Some(call(plan, cx)?));
                }
                self.active = true;
            }
            let mut any = false;
            for (values, (_, slot)) in self.open.iter_mut().zip(self.outputs) {
                let next = values.as_mut().and_then(Iterator::next);
                cx.frame[*slot as usize] = match next {
                    Some(value) => {
                        any = true;
                        value?
                    }
                    None => {
                        *values = None;
                        Datum::Null
                    }
                };
            }
            if any {
                return Ok(true);
            }
            self.active = false;
        }
    }

    fn restart(&mut self, cx: &mut Cx<'_, '_>) -> SqlResult<()> {
        self.active = false;
        self.input.restart(cx)
    }
}
