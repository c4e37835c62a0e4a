//! COPY's CSV format: quoted fields may hold delimiters, quotes (escaped) and newlines; an unquoted
//! field equal to the null string is NULL.

use super::{CopyFormat, Decoded, Fields, Force, bad};
use crate::error::SqlResult;

/// Where reading a row stopped because more is needed: the row's bytes before `at` are in the
/// fields already, so that a long row which comes in many pieces is read once.
#[derive(Clone, Copy, Debug)]
pub(super) struct Place {
    at: usize,
    lines: u64,
    quoted: bool,
    was_quoted: bool,
    /// Where the present field begins in the fields' bytes.
    start: usize,
}

impl Place {
    /// The beginning of a row.
    pub(super) const START: Place =
        Place { at: 0, lines: 1, quoted: false, was_quoted: false, start: 0 };
}

/// Reads one row off `rest`: what it was, bytes used, lines used. `place` is where an earlier call
/// for this row stopped; `fields` must be as that call left them.
pub(super) fn read(
    format: &CopyFormat,
    force: &Force,
    rest: &[u8],
    finished: bool,
    place: &mut Place,
    fields: &mut Fields,
) -> SqlResult<(Decoded, usize, u64)> {
    let Place { mut at, mut lines, mut quoted, mut was_quoted, mut start } =
        std::mem::replace(place, Place::START);
    loop {
        let Some(byte) = rest.get(at).copied() else {
            if !finished {
                *place = Place { at, lines, quoted, was_quoted, start };
                return Ok((Decoded::NeedsMore, 0, 0));
            }
            if quoted {
                return Err(bad("unterminated CSV quoted field"));
            }
            end_field(format, force, fields, start, was_quoted);
            return Ok((Decoded::Row, at, lines));
        };
        if quoted {
            if byte == format.escape
                && let Some(next) = rest.get(at + 1)
                && (*next == format.quote || *next == format.escape)
            {
                fields.bytes.push(*next);
                at += 2;
                continue;
            }
            // What an escape is, the byte behind it tells.
            if byte == format.escape && at + 1 == rest.len() && !finished {
                *place = Place { at, lines, quoted, was_quoted, start };
                return Ok((Decoded::NeedsMore, 0, 0));
            }
            if byte == format.quote {
                quoted = false;
            } else {
                lines += u64::from(byte == b'\n');
                fields.bytes.push(byte);
            }
        } else if byte == format.quote {
            (quoted, was_quoted) = (true, true);
        } else if byte == format.delimiter {
            end_field(format, force, fields, start, was_quoted);
            (start, was_quoted) = (fields.bytes.len(), false);
        } else if byte == b'\n' {
            if fields.bytes.last() == Some(&b'\r') && fields.bytes.len() > start {
                fields.bytes.pop();
            }
            if fields.is_empty() && !was_quoted && &fields.bytes[start..] == b"\\." {
                return Ok((Decoded::End, at + 1, 1));
            }
            end_field(format, force, fields, start, was_quoted);
            return Ok((Decoded::Row, at + 1, lines));
        } else {
            fields.bytes.push(byte);
        }
        at += 1;
    }
}

/// An unquoted null string is NULL, unless FORCE_NOT_NULL; a quoted one only under FORCE_NULL.
fn end_field(
    format: &CopyFormat,
    force: &Force,
    fields: &mut Fields,
    start: usize,
    was_quoted: bool,
) {
    let column = fields.len();
    let forced = |list: &[bool]| list.get(column).copied().unwrap_or(false);
    let counts = if was_quoted { forced(&force.null) } else { !forced(&force.not_null) };
    let is_null = fields.bytes[start..] == *format.null.as_bytes() && counts;
    fields.end_field(is_null);
}

/// Appends a value, in quotes if it needs them or is to have them.
pub(super) fn write(format: &CopyFormat, value: &str, quote: bool, out: &mut Vec<u8>) {
    let special = |byte: u8| {
        byte == format.delimiter || byte == format.quote || byte == b'\n' || byte == b'\r'
    };
    let needs_quotes = quote || value == format.null || value.bytes().any(special);
    if !needs_quotes {
        out.extend_from_slice(value.as_bytes());
        return;
    }
    out.push(format.quote);
    for byte in value.bytes() {
        if byte == format.quote || byte == format.escape {
            out.push(format.escape);
        }
        out.push(byte);
    }
    out.push(format.quote);
}
