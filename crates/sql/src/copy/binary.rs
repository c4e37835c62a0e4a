//! COPY's binary format: a signature, then rows of length-prefixed values in the types' binary
//! forms, then the trailer -1. All numbers are big-endian.
//!
//! Invariants: a length is believed only once its bytes are there; nothing is copied before the
//! whole row is. The values themselves are the caller's (`types::binary`).

use super::{Decoded, Fields, bad};
use crate::error::SqlResult;

/// What every file begins with.
const SIGNATURE: &[u8; 11] = b"PGCOPY\n\xff\r\n\0";

/// A field of one gigabyte or more is none.
const FIELD_BYTES_MAX: i32 = 0x3fff_ffff;

/// Signature, flags and header extension; the bytes used, none if more must come.
pub(super) fn read_header(rest: &[u8], finished: bool) -> SqlResult<Option<usize>> {
    let known = rest.len().min(SIGNATURE.len());
    if rest[..known] != SIGNATURE[..known] || (finished && known < SIGNATURE.len()) {
        return Err(bad("COPY file signature not recognized"));
    }
    let missing = |what: &str| match finished {
        true => Err(bad(format!("invalid COPY file header ({what})"))),
        false => Ok(None),
    };
    let Some(flags) = word(rest, 11) else { return missing("missing flags") };
    if flags & (1 << 16) != 0 {
        return Err(bad("invalid COPY file header (WITH OIDS)"));
    }
    if (flags & !(1 << 16)) as u32 >> 16 != 0 {
        return Err(bad("unrecognized critical flags in COPY file header"));
    }
    let Some(extension) = word(rest, 15) else { return missing("missing length") };
    let Ok(extension) = usize::try_from(extension) else {
        return Err(bad("invalid COPY file header (missing length)"));
    };
    if rest.len() - 19 < extension {
        return missing("wrong length");
    }
    Ok(Some(19 + extension))
}

/// Reads one row of `columns` values off `rest`: what it was, bytes used, rows begun.
pub(super) fn read(
    rest: &[u8],
    finished: bool,
    columns: usize,
    fields: &mut Fields,
) -> SqlResult<(Decoded, usize, u64)> {
    let more = || match finished {
        true => Err(bad("unexpected EOF in COPY data")),
        false => Ok((Decoded::NeedsMore, 0, 0)),
    };
    let Some(count) = rest.first_chunk::<2>() else {
        // PostgreSQL, too, takes an end without the trailer, even one in the middle of it.
        return if finished { Ok((Decoded::End, rest.len(), 1)) } else { more() };
    };
    let count = i16::from_be_bytes(*count);
    if count == -1 {
        return Ok((Decoded::End, 2, 1));
    }
    if usize::try_from(count) != Ok(columns) {
        return Err(bad(format!("row field count is {count}, expected {columns}")));
    }
    let mut at = 2;
    for column in 0..columns {
        fields.failed = Some(column);
        let Some(length) = word(rest, at) else { return more() };
        at += 4;
        if length == -1 {
            continue;
        }
        if !(0..=FIELD_BYTES_MAX).contains(&length) {
            return Err(bad("invalid field size"));
        }
        at += length as usize;
        if at > rest.len() {
            return more();
        }
    }
    fields.failed = None;
    let end = at;
    at = 2;
    for _ in 0..columns {
        let length = word(rest, at).unwrap_or(-1);
        at += 4;
        if let Ok(length) = usize::try_from(length) {
            fields.bytes.extend_from_slice(&rest[at..at + length]);
            at += length;
        }
        fields.end_field(length == -1);
    }
    Ok((Decoded::Row, end, 1))
}

fn word(bytes: &[u8], at: usize) -> Option<i32> {
    bytes.get(at..)?.first_chunk::<4>().map(|raw| i32::from_be_bytes(*raw))
}

/// Appends what stands before the first row.
pub(super) fn write_header(out: &mut Vec<u8>) {
    out.extend_from_slice(SIGNATURE);
    out.extend_from_slice(&[0; 8]);
}

/// Appends what stands behind the last row.
pub(super) fn write_trailer(out: &mut Vec<u8>) {
    out.extend_from_slice(&(-1i16).to_be_bytes());
}
