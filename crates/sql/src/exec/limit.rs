//! LIMIT and OFFSET.
//!
//! Invariants: both are evaluated once an execution (or restart); NULL means none; negative ones
//! are 2201W and 2201X.

use super::program::Program;
use super::{BoxedOperator, Cx, Operator};
use crate::error::{SqlError, SqlResult, SqlState};
use crate::types::Datum;

/// LIMIT and OFFSET at work.
pub(super) struct Limit<'p> {
    input: BoxedOperator<'p>,
    limit: Option<&'p Program>,
    offset: Option<&'p Program>,
    left: Option<u64>,
    begun: bool,
}

impl<'p> Limit<'p> {
    pub(super) fn new(
        input: BoxedOperator<'p>,
        limit: Option<&'p Program>,
        offset: Option<&'p Program>,
    ) -> Limit<'p> {
        Limit { input, limit, offset, left: None, begun: false }
    }
}

/// The value of LIMIT; None without a limit.
pub(super) fn limit_of(limit: Option<&Program>, cx: &mut Cx<'_, '_>) -> SqlResult<Option<u64>> {
    let Some(limit) = limit else { return Ok(None) };
    match limit.eval(cx)? {
        Datum::Null => Ok(None),
        value => u64::try_from(value.as_i64()).map(Some).map_err(|_| {
            SqlError::new(SqlState::INVALID_ROW_COUNT_IN_LIMIT_CLAUSE, "LIMIT must not be negative")
        }),
    }
}

/// The value of OFFSET.
pub(super) fn offset_of(offset: Option<&Program>, cx: &mut Cx<'_, '_>) -> SqlResult<u64> {
    let Some(offset) = offset else { return Ok(0) };
    match offset.eval(cx)? {
        Datum::Null => Ok(0),
        value => u64::try_from(value.as_i64()).map_err(|_| {
            SqlError::new(
                SqlState::INVALID_ROW_COUNT_IN_OFFSET_CLAUSE,
                "OFFSET must not be negative",
            )
        }),
    }
}

impl Operator for Limit<'_> {
    fn next(&mut self, cx: &mut Cx<'_, '_>) -> SqlResult<bool> {
        if !self.begun {
            self.begun = true;
            self.left = limit_of(self.limit, cx)?;
            let mut skip = offset_of(self.offset, cx)?;
            if self.left == Some(0) {
                return Ok(false);
            }
            while skip > 0 {
                cx.breathe()?;
                if !self.input.next(cx)? {
                    self.left = Some(0);
                    return Ok(false);
                }
                skip -= 1;
            }
        }
        if self.left == Some(0) || !self.input.next(cx)? {
            self.left = Some(0);
            return Ok(false);
        }
        self.left = self.left.map(|left| left - 1);
        Ok(true)
    }

    fn restart(&mut self, cx: &mut Cx<'_, '_>) -> SqlResult<()> {
        self.begun = false;
        self.input.restart(cx)
    }
}
