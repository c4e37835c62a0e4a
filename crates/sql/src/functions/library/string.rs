//! Text and bytea functions.
//!
//! Invariants: positions and lengths count characters, from 1; results above 1 GB are refused
//! before they are built (54000).

use super::FunctionContext;
use super::quote::{quote_identifier, quote_literal};
use crate::error::{SqlError, SqlResult, SqlState};
use crate::types::limits::{VALUE_BYTES_MAX, append, too_large};
use crate::types::order::unpadded;
use crate::types::{Array, Datum, Text, TypeOid, text as io};
use std::sync::Arc;

type Context<'a> = &'a dyn FunctionContext;

pub(in crate::functions) fn characters(text: &str) -> usize {
    if text.is_ascii() { text.len() } else { text.chars().count() }
}

/// Byte position of the n-th character (from 0), or the end.
fn byte_of(text: &str, n: usize) -> usize {
    if text.is_ascii() {
        return n.min(text.len());
    }
    text.char_indices().nth(n).map_or(text.len(), |(at, _)| at)
}

pub(in crate::functions) fn length(args: &[Datum], _: Context) -> SqlResult<Datum> {
    Ok(Datum::Int4(characters(args[0].as_str()) as i32))
}

pub(in crate::functions) fn bpchar_length(args: &[Datum], _: Context) -> SqlResult<Datum> {
    Ok(Datum::Int4(characters(unpadded(args[0].as_str())) as i32))
}

pub(in crate::functions) fn octet_length(args: &[Datum], _: Context) -> SqlResult<Datum> {
    Ok(Datum::Int4(bytes_of(&args[0]).len() as i32))
}

pub(in crate::functions) fn bit_length(args: &[Datum], _: Context) -> SqlResult<Datum> {
    let bits = i32::try_from(bytes_of(&args[0]).len() * 8);
    bits.map(Datum::Int4).map_err(|_| super::fast::out_of_range("integer"))
}

fn bytes_of(value: &Datum) -> &[u8] {
    match value {
        Datum::Bytea(bytes) => bytes,
        other => other.as_str().as_bytes(),
    }
}

pub(in crate::functions) fn lower(args: &[Datum], _: Context) -> SqlResult<Datum> {
    let simple = |c: char| c.to_lowercase().next().unwrap_or(c);
    Ok(args[0].as_str().chars().map(simple).collect::<String>().into())
}

/// One character stays one character, as towupper does it.
fn to_upper(c: char) -> char {
    let mut upper = c.to_uppercase();
    upper.next().filter(|_| upper.next().is_none()).unwrap_or(c)
}

pub(in crate::functions) fn upper(args: &[Datum], _: Context) -> SqlResult<Datum> {
    Ok(args[0].as_str().chars().map(to_upper).collect::<String>().into())
}

pub(in crate::functions) fn initcap(args: &[Datum], _: Context) -> SqlResult<Datum> {
    let mut inside = false;
    let mut out = String::new();
    for c in args[0].as_str().chars() {
        if inside {
            out.extend(c.to_lowercase().next());
        } else {
            out.push(to_upper(c));
        }
        inside = c.is_alphanumeric();
    }
    Ok(out.into())
}

/// `substr(text, from [, count])`.
pub(in crate::functions) fn substring(args: &[Datum], _: Context) -> SqlResult<Datum> {
    let from = i64::from(args[1].as_i32());
    let end = match args.get(2) {
        Some(count) if count.as_i32() < 0 => {
            return Err(SqlError::new(
                SqlState::SUBSTRING_ERROR,
                "negative substring length not allowed",
            ));
        }
        Some(count) => from + i64::from(count.as_i32()),
        None => i64::MAX,
    };
    if let Datum::Bytea(bytes) = &args[0] {
        let clamp = |at: i64| (at - 1).clamp(0, bytes.len() as i64) as usize;
        let (start, end) = (clamp(from), clamp(end));
        return Ok(Datum::Bytea(Arc::from(&bytes[start..end.max(start)])));
    }
    let text = args[0].as_str();
    let start = byte_of(text, (from - 1).max(0) as usize);
    if end <= from.max(1) {
        return Ok("".into());
    }
    let count = (end - from.max(1)) as usize;
    let rest = &text[start..];
    Ok(rest[..byte_of(rest, count)].into())
}

/// `overlay(text placing new from n [for count])`.
pub(in crate::functions) fn overlay(args: &[Datum], _: Context) -> SqlResult<Datum> {
    let (text, new) = (args[0].as_str(), args[1].as_str());
    let from = args[2].as_i32();
    let count = args.get(3).map_or(characters(new) as i32, Datum::as_i32);
    if from <= 0 {
        return Err(SqlError::new(
            SqlState::SUBSTRING_ERROR,
            "negative substring length not allowed",
        ));
    }
    let start = byte_of(text, (from - 1) as usize);
    let end = byte_of(text, (i64::from(from) - 1 + i64::from(count)).max(0) as usize);
    Ok(format!("{}{new}{}", &text[..start], &text[end..]).into())
}

/// `strpos(text, part)`.
pub(in crate::functions) fn position(args: &[Datum], _: Context) -> SqlResult<Datum> {
    let text = args[0].as_str();
    let at = text.find(args[1].as_str());
    Ok(Datum::Int4(at.map_or(0, |at| characters(&text[..at]) as i32 + 1)))
}

/// `starts_with(text, prefix)`, `^@`.
pub(in crate::functions) fn starts_with(args: &[Datum], _: Context) -> SqlResult<Datum> {
    Ok(Datum::Bool(args[0].as_str().starts_with(args[1].as_str())))
}

pub(in crate::functions) fn replace(args: &[Datum], _: Context) -> SqlResult<Datum> {
    let (text, from, to) = (args[0].as_str(), args[1].as_str(), args[2].as_str());
    if from.is_empty() {
        return Ok(args[0].clone());
    }
    let mut out = String::new();
    let mut last = 0;
    for (at, _) in text.match_indices(from) {
        append(&mut out, &text[last..at])?;
        append(&mut out, to)?;
        last = at + from.len();
    }
    if last == 0 {
        return Ok(args[0].clone());
    }
    append(&mut out, &text[last..])?;
    Ok(out.into())
}

pub(in crate::functions) fn translate(args: &[Datum], _: Context) -> SqlResult<Datum> {
    let from: Vec<char> = args[1].as_str().chars().collect();
    let to: Vec<char> = args[2].as_str().chars().collect();
    let swap = |c: char| match from.iter().position(|other| *other == c) {
        Some(at) => to.get(at).copied(),
        None => Some(c),
    };
    Ok(args[0].as_str().chars().filter_map(swap).collect::<String>().into())
}

fn trim_set(args: &[Datum]) -> Vec<char> {
    args.get(1).map_or(vec![' '], |set| set.as_str().chars().collect())
}

pub(in crate::functions) fn trim_both(args: &[Datum], _: Context) -> SqlResult<Datum> {
    let set = trim_set(args);
    Ok(args[0].as_str().trim_matches(set.as_slice()).into())
}

pub(in crate::functions) fn trim_left(args: &[Datum], _: Context) -> SqlResult<Datum> {
    let set = trim_set(args);
    Ok(args[0].as_str().trim_start_matches(set.as_slice()).into())
}

pub(in crate::functions) fn trim_right(args: &[Datum], _: Context) -> SqlResult<Datum> {
    let set = trim_set(args);
    Ok(args[0].as_str().trim_end_matches(set.as_slice()).into())
}

/// bpchar to text: without the padding.
pub(in crate::functions) fn trim_blanks(args: &[Datum], _: Context) -> SqlResult<Datum> {
    let text = args[0].as_str();
    let trimmed = unpadded(text);
    Ok(if trimmed.len() == text.len() { args[0].clone() } else { trimmed.into() })
}

/// `text || text`.
pub(in crate::functions) fn concatenate(args: &[Datum], _: Context) -> SqlResult<Datum> {
    let (left, right) = (args[0].as_str(), args[1].as_str());
    if left.len() + right.len() > VALUE_BYTES_MAX {
        return Err(too_large());
    }
    let mut out = String::with_capacity(left.len() + right.len());
    out.push_str(left);
    out.push_str(right);
    Ok(out.into())
}

/// `text || any` and `any || text`: the other side as its cast to text prints it.
pub(in crate::functions) fn concatenate_any(args: &[Datum], context: Context) -> SqlResult<Datum> {
    let text = |value: &Datum| match value {
        Datum::Bool(true) => Text::new_static("true"),
        Datum::Bool(false) => Text::new_static("false"),
        other => io::output_string(super::array::type_of(other), other, context),
    };
    concatenate(&[Datum::Text(text(&args[0])), Datum::Text(text(&args[1]))], context)
}

pub(in crate::functions) fn concatenate_bytes(args: &[Datum], _: Context) -> SqlResult<Datum> {
    let (left, right) = (args[0].as_bytes(), args[1].as_bytes());
    if left.len() + right.len() > VALUE_BYTES_MAX {
        return Err(too_large());
    }
    Ok(Datum::Bytea([left, right].concat().into()))
}

/// `concat(..)`: the arguments come gathered in a record that knows their types.
pub(in crate::functions) fn concat(args: &[Datum], context: Context) -> SqlResult<Datum> {
    join(&args[0], "", context)
}

/// `concat_ws(separator, ..)`.
pub(in crate::functions) fn concat_ws(args: &[Datum], context: Context) -> SqlResult<Datum> {
    if args[0].is_null() {
        return Ok(Datum::Null);
    }
    join(&args[1], args[0].as_str(), context)
}

/// What VARIADIC "any" gathered: types and values, or an array's.
pub(in crate::functions) fn gathered(value: &Datum) -> Vec<(TypeOid, &Datum)> {
    match value {
        Datum::Record(record) => record.types.iter().copied().zip(&record.fields).collect(),
        Datum::Array(array) => array.elements.iter().map(|item| (array.element, item)).collect(),
        _ => Vec::new(),
    }
}

fn join(value: &Datum, separator: &str, context: Context) -> SqlResult<Datum> {
    let mut out = String::new();
    let mut first = true;
    for (ty, item) in gathered(value) {
        if item.is_null() {
            continue;
        }
        if !std::mem::take(&mut first) {
            append(&mut out, separator)?;
        }
        append(&mut out, &io::output_string(ty, item, context))?;
    }
    Ok(out.into())
}

pub(in crate::functions) fn left(args: &[Datum], _: Context) -> SqlResult<Datum> {
    let (text, count) = (args[0].as_str(), i64::from(args[1].as_i32()));
    let keep = if count < 0 { characters(text) as i64 + count } else { count };
    Ok(text[..byte_of(text, keep.max(0) as usize)].into())
}

pub(in crate::functions) fn right(args: &[Datum], _: Context) -> SqlResult<Datum> {
    let (text, count) = (args[0].as_str(), i64::from(args[1].as_i32()));
    let total = characters(text) as i64;
    let skip = if count < 0 { -count } else { total - count };
    Ok(text[byte_of(text, skip.max(0) as usize)..].into())
}

fn padding(args: &[Datum]) -> SqlResult<(String, usize)> {
    let length = args[1].as_i32().max(0) as usize;
    // As if all of them had four bytes.
    if length > VALUE_BYTES_MAX / 4 {
        return Err(too_large());
    }
    let have = characters(args[0].as_str());
    let fill = args.get(2).map_or(" ", Datum::as_str);
    let missing = if fill.is_empty() { 0 } else { length.saturating_sub(have) };
    let pad: String = fill.chars().cycle().take(missing).collect();
    Ok((pad, length))
}

pub(in crate::functions) fn pad_left(args: &[Datum], _: Context) -> SqlResult<Datum> {
    let (pad, length) = padding(args)?;
    let text = args[0].as_str();
    Ok(format!("{pad}{}", &text[..byte_of(text, length)]).into())
}

pub(in crate::functions) fn pad_right(args: &[Datum], _: Context) -> SqlResult<Datum> {
    let (pad, length) = padding(args)?;
    let text = args[0].as_str();
    Ok(format!("{}{pad}", &text[..byte_of(text, length)]).into())
}

pub(in crate::functions) fn repeat(args: &[Datum], _: Context) -> SqlResult<Datum> {
    let (text, count) = (args[0].as_str(), args[1].as_i32().max(0) as usize);
    match text.len().checked_mul(count) {
        Some(total) if total <= VALUE_BYTES_MAX => Ok(text.repeat(count).into()),
        _ => Err(too_large()),
    }
}

pub(in crate::functions) fn reverse(args: &[Datum], _: Context) -> SqlResult<Datum> {
    Ok(args[0].as_str().chars().rev().collect::<String>().into())
}

pub(in crate::functions) fn split_part(args: &[Datum], _: Context) -> SqlResult<Datum> {
    let (text, separator, n) = (args[0].as_str(), args[1].as_str(), i64::from(args[2].as_i32()));
    if n == 0 {
        return Err(SqlError::new(
            SqlState::INVALID_PARAMETER_VALUE,
            "field position must not be zero",
        ));
    }
    let parts: Vec<&str> = if separator.is_empty() || text.is_empty() {
        vec![text]
    } else {
        text.split(separator).collect()
    };
    let index = if n > 0 { n - 1 } else { parts.len() as i64 + n };
    Ok(usize::try_from(index).ok().and_then(|index| parts.get(index)).copied().unwrap_or("").into())
}

pub(in crate::functions) fn ascii(args: &[Datum], _: Context) -> SqlResult<Datum> {
    Ok(Datum::Int4(args[0].as_str().chars().next().map_or(0, |c| c as i32)))
}

pub(in crate::functions) fn chr(args: &[Datum], _: Context) -> SqlResult<Datum> {
    let code = args[0].as_i32();
    if code < 0 {
        return Err(SqlError::new(
            SqlState::INVALID_PARAMETER_VALUE,
            "character number must be positive",
        ));
    }
    if code == 0 {
        return Err(SqlError::new(
            SqlState::PROGRAM_LIMIT_EXCEEDED,
            "null character not permitted",
        ));
    }
    let found = u32::try_from(code).ok().and_then(char::from_u32);
    let refuse = || {
        SqlError::new(
            SqlState::PROGRAM_LIMIT_EXCEEDED,
            format!("requested character too large for encoding: {code}"),
        )
    };
    Ok(found.ok_or_else(refuse)?.to_string().into())
}

pub(in crate::functions) fn hex(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let digit = |value: u8| char::from(DIGITS[usize::from(value & 15)]);
    let mut out = String::with_capacity(2 * bytes.len());
    bytes.iter().for_each(|byte| out.extend([digit(byte >> 4), digit(*byte)]));
    out
}

pub(in crate::functions) fn md5(args: &[Datum], _: Context) -> SqlResult<Datum> {
    use md5::Digest;
    Ok(hex(&md5::Md5::digest(bytes_of(&args[0]))).into())
}

pub(in crate::functions) fn sha256(args: &[Datum], _: Context) -> SqlResult<Datum> {
    use sha2::Digest;
    Ok(Datum::Bytea(Arc::from(sha2::Sha256::digest(args[0].as_bytes()).as_slice())))
}

pub(in crate::functions) fn quote_ident(args: &[Datum], _: Context) -> SqlResult<Datum> {
    Ok(quote_identifier(args[0].as_str()).into())
}

pub(in crate::functions) fn quote_literal_text(args: &[Datum], _: Context) -> SqlResult<Datum> {
    Ok(quote_literal(args[0].as_str()).into())
}

pub(in crate::functions) fn quote_nullable(args: &[Datum], _: Context) -> SqlResult<Datum> {
    Ok(if args[0].is_null() { "NULL".into() } else { quote_literal(args[0].as_str()).into() })
}

/// bool to text.
pub(in crate::functions) fn from_bool(args: &[Datum], _: Context) -> SqlResult<Datum> {
    Ok(if args[0].as_bool() { "true" } else { "false" }.into())
}

/// "char" to text.
pub(in crate::functions) fn from_char(args: &[Datum], context: Context) -> SqlResult<Datum> {
    Ok(Datum::Text(io::output_string(TypeOid::CHAR, &args[0], context)))
}

/// text to "char".
pub(in crate::functions) fn to_char(args: &[Datum], _: Context) -> SqlResult<Datum> {
    Ok(Datum::Char(args[0].as_str().bytes().next().unwrap_or(0)))
}

/// text to name: cut to 63 bytes.
pub(in crate::functions) fn to_name(args: &[Datum], _: Context) -> SqlResult<Datum> {
    let ty = crate::types::Type::new(TypeOid::NAME);
    let text: Datum = unpadded(args[0].as_str()).into();
    crate::types::typmod::coerce(text, ty, super::CastContext::Explicit)
}

/// `string_to_array(text, separator [, null])`.
pub(in crate::functions) fn string_to_array(args: &[Datum], _: Context) -> SqlResult<Datum> {
    if args[0].is_null() {
        return Ok(Datum::Null);
    }
    Ok(Array::of(TypeOid::TEXT, split(args)).into())
}

/// The parts of `string_to_array` and `string_to_table`.
pub(in crate::functions) fn split(args: &[Datum]) -> Vec<Datum> {
    let text = args[0].as_str();
    let null = args.get(2).filter(|null| !null.is_null()).map(Datum::as_str);
    let part = |part: &str| if null == Some(part) { Datum::Null } else { Datum::from(part) };
    match &args[1] {
        _ if text.is_empty() => Vec::new(),
        Datum::Null => text.chars().map(|c| part(c.encode_utf8(&mut [0; 4]))).collect(),
        separator if separator.as_str().is_empty() => vec![part(text)],
        separator => text.split(separator.as_str()).map(part).collect(),
    }
}
