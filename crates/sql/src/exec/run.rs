//! Running a plan to its end.
//!
//! Invariants: rows go to the sink in order; the sink may stop the execution by an error, or
//! because it has enough.

use super::program::Slot;
use super::{BoxedOperator, Cx, Opening, fast, modify, open, with};
use crate::error::{SqlError, SqlResult};
use crate::plan::fast::Fast;
use crate::plan::{Action, Planned};
use crate::types::{Datum, RowValues};

/// Where the values of a row are that a [`Sink`] is given.
#[derive(Clone, Copy)]
pub enum Given<'r> {
    /// In these slots of the frame.
    Slots(&'r [Slot]),
    /// Here.
    Values(&'r [Datum]),
}

impl<'r> Given<'r> {
    /// The values; `frame` is the execution's.
    #[inline]
    pub fn values(self, frame: &'r [Datum]) -> RowValues<'r> {
        match self {
            Given::Slots(slots) => RowValues::in_slots(frame, slots),
            Given::Values(values) => values.into(),
        }
    }
}

/// Takes rows; answers whether it wants more.
pub type Sink<'s> = &'s mut dyn FnMut(Given<'_>, &mut Cx<'_, '_>) -> SqlResult<bool>;

/// Runs the plan; answers how many rows it returned (a query) or changed.
pub fn run(planned: &Planned, cx: &mut Cx<'_, '_>, sink: Sink<'_>) -> SqlResult<u64> {
    match &planned.action {
        Action::Query { plan, outputs } => {
            if planned.fast == Some(Fast::Select) {
                return match fast::select(plan, cx)? {
                    true => sink(Given::Slots(outputs), cx).map(|_| 1),
                    false => Ok(0),
                };
            }
            let mut operator = open(plan, cx.opening())?;
            let mut count = 0;
            while operator.next(cx)? {
                // What was sorted, grouped or kept comes without a scan that would breathe.
                cx.breathe()?;
                count += 1;
                if !sink(Given::Slots(outputs), cx)? {
                    break;
                }
            }
            with::run_changes(cx)?;
            Ok(count)
        }
        Action::Modify(plan) => {
            let mut returned =
                |values: &[Datum], cx: &mut Cx<'_, '_>| sink(Given::Values(values), cx).map(|_| ());
            if planned.fast.is_some() {
                return fast::modify(&planned.action, cx, &mut returned);
            }
            let count = modify::run(plan, cx, &mut returned)?;
            with::run_changes(cx)?;
            Ok(count)
        }
    }
}

/// A query that gives its rows one by one.
pub struct Pull<'c, 'e, 't> {
    /// The execution.
    pub cx: &'c mut Cx<'e, 't>,
    operator: &'c mut BoxedOperator<'e>,
    outputs: &'c [Slot],
}

impl<'c, 'e, 't> Pull<'c, 'e, 't> {
    /// Of an operator that was opened for the query's plan.
    pub fn new(
        planned: &'e Planned,
        operator: &'c mut BoxedOperator<'e>,
        cx: &'c mut Cx<'e, 't>,
    ) -> Pull<'c, 'e, 't>
    where
        'e: 'c,
    {
        let outputs: &[Slot] = match &planned.action {
            Action::Query { outputs, .. } => outputs,
            Action::Modify(_) => &[],
        };
        Pull { cx, operator, outputs }
    }

    /// The next row; none at the end.
    pub fn row(&mut self) -> SqlResult<Option<Box<[Datum]>>> {
        if !self.operator.next(self.cx)? {
            return Ok(None);
        }
        self.cx.breathe()?;
        Ok(Some(self.cx.save(self.outputs)))
    }
}

/// The operators of a query.
pub fn open_query<'p>(planned: &'p Planned, opening: Opening<'_>) -> SqlResult<BoxedOperator<'p>> {
    match &planned.action {
        Action::Query { plan, .. } => open(plan, opening),
        Action::Modify(_) => Err(SqlError::internal("a change is not read row by row")),
    }
}
