//! COPY's text format: one line a row, backslash escapes, `\N` for NULL by default.

use super::{CopyFormat, Decoded, Fields, bad};
use crate::error::SqlResult;

/// Reads one row off `rest`: what it was, bytes used, lines used. `searched` is how far the line's
/// end was looked for in vain; it is kept between calls while more is needed.
pub(super) fn read(
    format: &CopyFormat,
    rest: &[u8],
    finished: bool,
    searched: &mut usize,
    fields: &mut Fields,
) -> SqlResult<(Decoded, usize, u64)> {
    let Some((line, used)) = line_of(rest, finished, *searched) else {
        *searched = rest.len();
        return Ok((Decoded::NeedsMore, 0, 0));
    };
    *searched = 0;
    if line == b"\\." {
        return Ok((Decoded::End, used, 1));
    }
    let mut at = 0;
    loop {
        let (raw, stop) = field(format, line, at, fields)?;
        let is_null = raw == format.null.as_bytes();
        fields.end_field(is_null);
        match stop {
            Some(next) => at = next,
            None => return Ok((Decoded::Row, used, 1)),
        }
    }
}

/// The first line without its end, and its bytes with it. A newline behind a backslash is data;
/// none that ends the line is before `from`.
fn line_of(rest: &[u8], finished: bool, mut from: usize) -> Option<(&[u8], usize)> {
    loop {
        let Some(found) = rest[from..].iter().position(|byte| *byte == b'\n') else {
            return finished.then(|| (without_return(rest), rest.len()));
        };
        let end = from + found;
        let backslashes = rest[..end].iter().rev().take_while(|byte| **byte == b'\\').count();
        if backslashes % 2 == 0 {
            return Some((without_return(&rest[..end]), end + 1));
        }
        from = end + 1;
    }
}

fn without_return(line: &[u8]) -> &[u8] {
    line.strip_suffix(b"\r").unwrap_or(line)
}

/// Appends the field that begins at `at`; answers its raw bytes and where the next one begins.
fn field<'l>(
    format: &CopyFormat,
    line: &'l [u8],
    at: usize,
    fields: &mut Fields,
) -> SqlResult<(&'l [u8], Option<usize>)> {
    let mut here = at;
    loop {
        let plain = line[here..].iter().position(|it| *it == format.delimiter || *it == b'\\');
        let stop = plain.map_or(line.len(), |bytes| here + bytes);
        fields.bytes.extend_from_slice(&line[here..stop]);
        if stop == line.len() {
            return Ok((&line[at..], None));
        }
        if line[stop] == format.delimiter {
            return Ok((&line[at..stop], Some(stop + 1)));
        }
        here = escape(&line[stop + 1..], fields)? + stop + 1;
    }
}

/// Appends what an escape means; answers the bytes used behind the backslash.
fn escape(rest: &[u8], fields: &mut Fields) -> SqlResult<usize> {
    let Some(first) = rest.first() else {
        return Err(bad("missing data after backslash at the end of a line"));
    };
    let (byte, used) = match first {
        b'b' => (8, 1),
        b'f' => (12, 1),
        b'n' => (b'\n', 1),
        b'r' => (b'\r', 1),
        b't' => (b'\t', 1),
        b'v' => (11, 1),
        b'0'..=b'7' => number(rest, 0, 3, 8),
        b'x' if rest.get(1).is_some_and(u8::is_ascii_hexdigit) => number(rest, 1, 3, 16),
        other => (*other, 1),
    };
    fields.bytes.push(byte);
    Ok(used)
}

/// A byte written in digits from `start` on, before `end` at the latest.
fn number(rest: &[u8], start: usize, end: usize, radix: u32) -> (u8, usize) {
    let (mut value, mut at) = (0, start);
    while at < end {
        let digit = rest.get(at).and_then(|byte| char::from(*byte).to_digit(radix));
        let Some(digit) = digit else { break };
        value = value * radix + digit;
        at += 1;
    }
    (value as u8, at)
}

/// Appends a value with its escapes.
pub(super) fn write(format: &CopyFormat, value: &str, out: &mut Vec<u8>) {
    for byte in value.bytes() {
        let letter = match byte {
            b'\\' => b'\\',
            8 => b'b',
            12 => b'f',
            b'\n' => b'n',
            b'\r' => b'r',
            b'\t' => b't',
            11 => b'v',
            byte if byte == format.delimiter => byte,
            byte => {
                out.push(byte);
                continue;
            }
        };
        out.extend_from_slice(&[b'\\', letter]);
    }
}
