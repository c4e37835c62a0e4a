//! Conversion of DECLARE, FETCH and MOVE.
//!
//! Invariants: contradictions of DECLARE's words are refused here (42P11), what the words ask of
//! the query when the cursor is declared.

use super::Converter;
use super::statement::{CursorSpan, DeclareCursor, FetchDirection, Scroll, Utility};
use crate::error::{SqlError, SqlResult, SqlState};
use pg_raw_parse::{Node, nodes};

// PostgreSQL's bits of DECLARE's words.
const BINARY: i32 = 0x1;
const SCROLL: i32 = 0x2;
const NO_SCROLL: i32 = 0x4;
const INSENSITIVE: i32 = 0x8;
const ASENSITIVE: i32 = 0x10;
const HOLD: i32 = 0x20;

/// DECLARE CURSOR; its text is filled in by whoever has it.
pub(super) fn declare(
    converter: &Converter,
    declare: &nodes::DeclareCursorStmt,
) -> SqlResult<Utility> {
    let has = |word: i32| declare.options & word != 0;
    let scroll = match (has(SCROLL), has(NO_SCROLL)) {
        (true, true) => return Err(both("SCROLL", "NO SCROLL")),
        (true, false) => Scroll::Yes,
        (false, true) => Scroll::No,
        (false, false) => Scroll::Unsaid,
    };
    if has(INSENSITIVE) && has(ASENSITIVE) {
        return Err(both("ASENSITIVE", "INSENSITIVE"));
    }
    let Node::SelectStmt(query) = declare.query() else {
        return Err(SqlError::not_supported("a cursor of another statement than a query"));
    };
    let query = converter.query(query)?;
    // Every cursor is insensitive; this word only says that its rows are not to be locked.
    if has(INSENSITIVE) && query.for_update.is_some() {
        return Err(SqlError::new(
            SqlState::INVALID_CURSOR_DEFINITION,
            "DECLARE INSENSITIVE CURSOR ... FOR UPDATE is not valid",
        )
        .detail("Insensitive cursors must be READ ONLY."));
    }
    Ok(Utility::DeclareCursor(Box::new(DeclareCursor {
        name: declare.portalname().unwrap_or_default().to_owned(),
        binary: has(BINARY),
        scroll,
        span: if has(HOLD) { CursorSpan::Session } else { CursorSpan::Transaction },
        query: Box::new(query),
        text: "".into(),
    })))
}

fn both(one: &str, other: &str) -> SqlError {
    SqlError::new(
        SqlState::INVALID_CURSOR_DEFINITION,
        format!("cannot specify both {one} and {other}"),
    )
}

/// FETCH and MOVE.
pub(super) fn fetch(fetch: &nodes::FetchStmt) -> Utility {
    let count = fetch.how_many;
    // PostgreSQL's numbers: FORWARD, BACKWARD, ABSOLUTE, RELATIVE.
    let direction = match fetch.direction {
        1 => FetchDirection::Forward(count.saturating_neg()),
        2 => FetchDirection::Absolute(count),
        3 => FetchDirection::Relative(count),
        _ => FetchDirection::Forward(count),
    };
    let name = fetch.portalname().unwrap_or_default().to_owned();
    Utility::Fetch { name, direction, is_move: fetch.ismove }
}
