//! Running a plan to its end.
//!
//! Invariants: rows go to the sink in order; the sink may stop the execution by an error, or
//! because it has enough.

use super::{Cx, fast, modify, open};
use crate::error::SqlResult;
use crate::plan::fast::Fast;
use crate::plan::{Action, Planned};
use crate::types::Datum;

/// Takes rows; answers whether it wants more.
pub type Sink<'s> = &'s mut dyn FnMut(&[Datum], &mut Cx<'_, '_>) -> SqlResult<bool>;

/// Runs the plan; answers how many rows it returned (a query) or changed.
pub fn run(planned: &Planned, cx: &mut Cx<'_, '_>, sink: Sink<'_>) -> SqlResult<u64> {
    match &planned.action {
        Action::Query { plan, outputs } => {
            if planned.fast == Some(Fast::Select) {
                return match fast::select(plan, cx)? {
                    true => give(outputs, cx, sink).map(|_| 1),
                    false => Ok(0),
                };
            }
            let mut operator = open(plan);
            let mut count = 0;
            while operator.next(cx)? {
                count += 1;
                if !give(outputs, cx, sink)? {
                    break;
                }
            }
            Ok(count)
        }
        Action::Modify(plan) => {
            let mut returned = |values: &[Datum], cx: &mut Cx<'_, '_>| sink(values, cx).map(|_| ());
            match planned.fast {
                Some(_) => fast::modify(&planned.action, cx, &mut returned),
                None => modify::run(plan, cx, &mut returned),
            }
        }
    }
}

fn give(outputs: &[u32], cx: &mut Cx<'_, '_>, sink: Sink<'_>) -> SqlResult<bool> {
    let mut values = std::mem::take(&mut cx.output);
    values.clear();
    values.extend(outputs.iter().map(|slot| cx.frame[*slot as usize].clone()));
    let more = sink(&values, cx);
    cx.output = values;
    more
}
