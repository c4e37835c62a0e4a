//! Functions on bytea and uuid.
//!
//! Invariants: positions of bytes count from 0 in get_byte and its kin, from 1 elsewhere, as in
//! PostgreSQL; bit 0 of a byte is its lowest.

use super::FunctionContext;
use super::pattern::like_matches;
use crate::error::{SqlError, SqlResult, SqlState};
use crate::types::Datum;
use sha2::Digest;
use std::sync::Arc;

type Context<'a> = &'a dyn FunctionContext;

fn bytea(bytes: impl AsRef<[u8]>) -> SqlResult<Datum> {
    Ok(Datum::Bytea(Arc::from(bytes.as_ref())))
}

/// `gen_random_uuid()`: version 4, 122 bits of the machine's randomness.
pub(in crate::functions) fn random_uuid(_: &[Datum], context: Context) -> SqlResult<Datum> {
    let words = [context.entropy_u64(), context.entropy_u64()];
    let mut bytes = [0; 16];
    bytes[..8].copy_from_slice(&words[0].to_be_bytes());
    bytes[8..].copy_from_slice(&words[1].to_be_bytes());
    bytes[6] = bytes[6] & 0x0f | 0x40;
    bytes[8] = bytes[8] & 0x3f | 0x80;
    Ok(Datum::Uuid(Arc::new(bytes)))
}

fn index_of(wanted: i64, length: usize) -> SqlResult<usize> {
    usize::try_from(wanted).ok().filter(|index| *index < length).ok_or_else(|| {
        SqlError::new(
            SqlState::ARRAY_SUBSCRIPT_ERROR,
            format!("index {wanted} out of valid range, 0..{}", length as i64 - 1),
        )
    })
}

/// `get_byte(bytea, index)`.
pub(in crate::functions) fn get_byte(args: &[Datum], _: Context) -> SqlResult<Datum> {
    let bytes = args[0].as_bytes();
    let index = index_of(args[1].as_i64(), bytes.len())?;
    Ok(Datum::Int4(i32::from(bytes[index])))
}

/// `set_byte(bytea, index, byte)`.
pub(in crate::functions) fn set_byte(args: &[Datum], _: Context) -> SqlResult<Datum> {
    let mut bytes = args[0].as_bytes().to_vec();
    let index = index_of(args[1].as_i64(), bytes.len())?;
    bytes[index] = args[2].as_i32() as u8;
    bytea(bytes)
}

/// `get_bit(bytea, index)`.
pub(in crate::functions) fn get_bit(args: &[Datum], _: Context) -> SqlResult<Datum> {
    let bytes = args[0].as_bytes();
    let index = index_of(args[1].as_i64(), bytes.len() * 8)?;
    Ok(Datum::Int4(i32::from(bytes[index / 8] >> (index % 8) & 1)))
}

/// `set_bit(bytea, index, bit)`.
pub(in crate::functions) fn set_bit(args: &[Datum], _: Context) -> SqlResult<Datum> {
    let mut bytes = args[0].as_bytes().to_vec();
    let index = index_of(args[1].as_i64(), bytes.len() * 8)?;
    let bit = 1u8 << (index % 8);
    match args[2].as_i32() {
        0 => bytes[index / 8] &= !bit,
        1 => bytes[index / 8] |= bit,
        _ => {
            return Err(SqlError::new(SqlState::INVALID_PARAMETER_VALUE, "new bit must be 0 or 1"));
        }
    }
    bytea(bytes)
}

/// `bit_count(bytea)`.
pub(in crate::functions) fn bit_count(args: &[Datum], _: Context) -> SqlResult<Datum> {
    let ones = |byte: &u8| i64::from(byte.count_ones());
    Ok(Datum::Int8(args[0].as_bytes().iter().map(ones).sum()))
}

/// `overlay(bytea placing bytea from start [for count])`.
pub(in crate::functions) fn overlay(args: &[Datum], _: Context) -> SqlResult<Datum> {
    let (bytes, new) = (args[0].as_bytes(), args[1].as_bytes());
    let from = args[2].as_i32();
    let count = args.get(3).map_or(new.len() as i64, |count| i64::from(count.as_i32()));
    if from <= 0 {
        return Err(SqlError::new(
            SqlState::SUBSTRING_ERROR,
            "negative substring length not allowed",
        ));
    }
    let clamp = |at: i64| at.clamp(0, bytes.len() as i64) as usize;
    let start = i64::from(from) - 1;
    bytea([&bytes[..clamp(start)], new, &bytes[clamp(start + count)..]].concat())
}

/// `position(part in bytea)`.
pub(in crate::functions) fn position(args: &[Datum], _: Context) -> SqlResult<Datum> {
    let (bytes, part) = (args[0].as_bytes(), args[1].as_bytes());
    if part.is_empty() {
        return Ok(Datum::Int4(1));
    }
    let at = bytes.windows(part.len()).position(|window| window == part);
    Ok(Datum::Int4(at.map_or(0, |at| at as i32 + 1)))
}

#[derive(Clone, Copy, PartialEq)]
enum Side {
    Left,
    Right,
    Both,
}

fn trim(args: &[Datum], side: Side) -> SqlResult<Datum> {
    let (mut bytes, set) = (args[0].as_bytes(), args[1].as_bytes());
    while side != Side::Right && bytes.first().is_some_and(|byte| set.contains(byte)) {
        bytes = &bytes[1..];
    }
    while side != Side::Left && bytes.last().is_some_and(|byte| set.contains(byte)) {
        bytes = &bytes[..bytes.len() - 1];
    }
    bytea(bytes)
}

/// `btrim(bytea, bytes)`.
pub(in crate::functions) fn trim_both(args: &[Datum], _: Context) -> SqlResult<Datum> {
    trim(args, Side::Both)
}

/// `ltrim(bytea, bytes)`.
pub(in crate::functions) fn trim_left(args: &[Datum], _: Context) -> SqlResult<Datum> {
    trim(args, Side::Left)
}

/// `rtrim(bytea, bytes)`.
pub(in crate::functions) fn trim_right(args: &[Datum], _: Context) -> SqlResult<Datum> {
    trim(args, Side::Right)
}

/// Matches byte by byte: each byte as the character of its number.
fn matches(args: &[Datum]) -> SqlResult<bool> {
    let wide =
        |value: &Datum| -> String { value.as_bytes().iter().copied().map(char::from).collect() };
    like_matches(&wide(&args[0]), &wide(&args[1]))
}

/// `bytea LIKE bytea`.
pub(in crate::functions) fn like(args: &[Datum], _: Context) -> SqlResult<Datum> {
    matches(args).map(Datum::Bool)
}

/// `bytea NOT LIKE bytea`.
pub(in crate::functions) fn not_like(args: &[Datum], _: Context) -> SqlResult<Datum> {
    matches(args).map(|found| Datum::Bool(!found))
}

/// `sha224(bytea)`.
pub(in crate::functions) fn sha224(args: &[Datum], _: Context) -> SqlResult<Datum> {
    bytea(sha2::Sha224::digest(args[0].as_bytes()))
}

/// `sha384(bytea)`.
pub(in crate::functions) fn sha384(args: &[Datum], _: Context) -> SqlResult<Datum> {
    bytea(sha2::Sha384::digest(args[0].as_bytes()))
}

/// `sha512(bytea)`.
pub(in crate::functions) fn sha512(args: &[Datum], _: Context) -> SqlResult<Datum> {
    bytea(sha2::Sha512::digest(args[0].as_bytes()))
}
