//! nextval and setval: functions that wait and leave a trace in the kernel.
//!
//! Invariants: what they do is never undone; currval and lastval of the session follow them.

use crate::error::{SqlError, SqlResult, SqlState};
use crate::exec::Cx;
use crate::relations::sequence_of;
use crate::types::Datum;
use atoll_kernel::api::{Error, Oid, SequenceEntry, SequenceState};
use std::sync::Arc;

/// Which function.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SequenceCall {
    /// `nextval(regclass)`.
    Next,
    /// `setval(regclass, bigint [, is_called])`.
    Set,
}

impl SequenceCall {
    /// The built-in function of this name, if it is one of these.
    pub fn named(name: &str) -> Option<SequenceCall> {
        match name {
            "nextval" => Some(SequenceCall::Next),
            "setval" => Some(SequenceCall::Set),
            _ => None,
        }
    }
}

/// Calls the function.
pub(super) fn call(
    cx: &mut Cx<'_, '_>,
    what: SequenceCall,
    arguments: &[Datum],
) -> SqlResult<Datum> {
    if arguments.iter().any(Datum::is_null) {
        return Ok(Datum::Null);
    }
    let oid = arguments[0].as_oid();
    let entry = sequence_of(cx.view, oid)?;
    if cx.functions.is_read_only() {
        let name = if what == SequenceCall::Next { "nextval()" } else { "setval()" };
        return Err(SqlError::new(
            SqlState::READ_ONLY_SQL_TRANSACTION,
            format!("cannot execute {name} in a read-only transaction"),
        ));
    }
    let value = match what {
        SequenceCall::Next => next(cx, &entry)?,
        SequenceCall::Set => {
            let called = arguments.get(2).is_none_or(Datum::is_true);
            set(cx, &entry, SequenceState { last: arguments[1].as_i64(), called })?
        }
    };
    Ok(Datum::Int8(value))
}

fn gone(error: Error, entry: &SequenceEntry) -> SqlError {
    match error {
        Error::NotFound { .. } => SqlError::new(
            SqlState::UNDEFINED_TABLE,
            format!("relation \"{}\" does not exist", entry.def.name),
        ),
        other => other.into(),
    }
}

fn next(cx: &mut Cx<'_, '_>, entry: &Arc<SequenceEntry>) -> SqlResult<i64> {
    let oid = entry.def.oid;
    match cx.statement.next_value(oid).map_err(|error| gone(error, entry))? {
        Some(value) => {
            cx.functions.note_sequence(oid.0, value, true);
            Ok(value)
        }
        None => {
            let counting = entry.def.counting;
            let (word, bound) = match counting.increment > 0 {
                true => ("maximum", counting.max),
                false => ("minimum", counting.min),
            };
            Err(SqlError::new(
                SqlState::SEQUENCE_GENERATOR_LIMIT_EXCEEDED,
                format!(
                    "nextval: reached {word} value of sequence \"{}\" ({bound})",
                    entry.def.name
                ),
            ))
        }
    }
}

fn set(cx: &mut Cx<'_, '_>, entry: &SequenceEntry, state: SequenceState) -> SqlResult<i64> {
    let (oid, counting): (Oid, _) = (entry.def.oid, entry.def.counting);
    let last = state.last;
    if last < counting.min || last > counting.max {
        return Err(SqlError::new(
            SqlState::NUMERIC_VALUE_OUT_OF_RANGE,
            format!(
                "setval: value {last} is out of bounds for sequence \"{}\" ({}..{})",
                entry.def.name, counting.min, counting.max
            ),
        ));
    }
    cx.statement.set_sequence(oid, state).map_err(|error| gone(error, entry))?;
    if state.called {
        cx.functions.note_sequence(oid.0, last, false);
    }
    Ok(last)
}
