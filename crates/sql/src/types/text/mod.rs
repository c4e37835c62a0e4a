//! Text input and output of every type, as PostgreSQL's input and output functions do it.
//!
//! Invariants: `output` never fails and appends only; `input` reads what `output` wrote. Trailing
//! and leading blanks are allowed around numbers and booleans only.

use super::float::{parse_float4, parse_float8, write_float4, write_float8};
use super::{Datum, Interval, Numeric, Text, Type, TypeOid, array_text, datetime, reg, typmod};
use crate::error::{SqlError, SqlResult, SqlState};
use crate::functions::{CastContext, FunctionContext};
use std::sync::Arc;

mod plain;

pub use plain::plain_number;

/// Reads a value as `ty`'s input function does; the modifier is applied as in assignment
/// (too long: 22001). Errors 22P02, 22003, 22007, 22008 ...
pub fn input(ty: Type, text: &str, context: &dyn FunctionContext) -> SqlResult<Datum> {
    let value = read(ty.oid, ty.typmod, text, context)?;
    if ty.typmod < 0 && ty.oid != TypeOid::NAME {
        return Ok(value);
    }
    typmod::coerce(value, ty, CastContext::Assignment)
}

fn read(
    oid: TypeOid,
    modifier: i32,
    text: &str,
    context: &dyn FunctionContext,
) -> SqlResult<Datum> {
    Ok(match oid {
        TypeOid::TEXT
        | TypeOid::VARCHAR
        | TypeOid::BPCHAR
        | TypeOid::NAME
        | TypeOid::CSTRING
        | TypeOid::UNKNOWN
        | TypeOid::PG_NODE_TREE
        | TypeOid::ACLITEM => Datum::text(text),
        TypeOid::INT2 => Datum::Int2(integer(text, "smallint")?),
        TypeOid::INT4 => Datum::Int4(integer(text, "integer")?),
        TypeOid::INT8 => Datum::Int8(integer(text, "bigint")?),
        TypeOid::BOOL => Datum::Bool(boolean(text)?),
        TypeOid::FLOAT4 => Datum::Float4(parse_float4(text)?),
        TypeOid::FLOAT8 => Datum::Float8(parse_float8(text)?),
        TypeOid::NUMERIC => Datum::Numeric(Numeric::parse(text)?),
        TypeOid::OID | TypeOid::XID | TypeOid::CID => Datum::Oid(oid_number(text, oid)?),
        TypeOid::XID8 => Datum::Int8(integer::<u64>(text, "xid8")? as i64),
        TypeOid::CHAR => Datum::Char(match text.as_bytes() {
            [b'\\', a @ b'0'..=b'3', b @ b'0'..=b'7', c @ b'0'..=b'7'] => octal(*a, *b, *c),
            bytes => bytes.first().copied().unwrap_or(0),
        }),
        TypeOid::DATE => Datum::Date(datetime::parse_date(text, context)?),
        TypeOid::TIME => Datum::Time(datetime::parse_time(text, context)?),
        TypeOid::TIMESTAMP => Datum::Timestamp(datetime::parse_timestamp(text, context)?),
        TypeOid::TIMESTAMPTZ => Datum::Timestamptz(datetime::parse_timestamptz(text, context)?),
        TypeOid::INTERVAL => Interval::parse(text, modifier)?.into(),
        TypeOid::BYTEA => Datum::Bytea(bytea(text)?),
        TypeOid::UUID => Datum::Uuid(Arc::new(uuid(text)?)),
        TypeOid::VOID => Datum::text(""),
        TypeOid::INT2VECTOR | TypeOid::OIDVECTOR => array_text::read_vector(oid, text, context)?,
        TypeOid::RECORD => {
            return Err(SqlError::new(
                SqlState::FEATURE_NOT_SUPPORTED,
                "input of anonymous composite types is not implemented",
            ));
        }
        other if reg::is_reg_type(other) => Datum::Oid(reg::read(other, text, context)?),
        other => match other.element_type() {
            Some(element) => array_text::read(Type::with(element, modifier), text, context)?,
            None => {
                return Err(SqlError::new(
                    SqlState::FEATURE_NOT_SUPPORTED,
                    format!("cannot accept a value of type {other}"),
                ));
            }
        },
    })
}

/// Appends what the type's output function prints. The value is not NULL.
pub fn output(ty: TypeOid, value: &Datum, context: &dyn FunctionContext, out: &mut Vec<u8>) {
    match value {
        Datum::Null => {}
        Datum::Text(value) => out.extend_from_slice(value.as_bytes()),
        Datum::Int4(value) => write_integer(out, i64::from(*value)),
        Datum::Int8(value) if ty == TypeOid::XID8 => {
            out.extend_from_slice(value.cast_unsigned().to_string().as_bytes());
        }
        Datum::Int8(value) => write_integer(out, *value),
        Datum::Int2(value) => write_integer(out, i64::from(*value)),
        Datum::Bool(value) => out.push(if *value { b't' } else { b'f' }),
        Datum::Char(0) => {}
        // No character of its own in UTF-8.
        Datum::Char(value @ 128..) => {
            out.push(b'\\');
            out.extend([value >> 6, value >> 3 & 7, value & 7].map(|digit| b'0' + digit));
        }
        Datum::Char(value) => out.push(*value),
        Datum::Float4(value) => write_float4(out, *value, context.extra_float_digits()),
        Datum::Float8(value) => write_float8(out, *value, context.extra_float_digits()),
        Datum::Numeric(value) => value.write(out),
        Datum::Oid(value) if reg::is_reg_type(ty) => reg::write(ty, *value, context, out),
        Datum::Oid(value) => write_integer(out, i64::from(*value)),
        Datum::Date(value) => datetime::write_date(out, *value),
        Datum::Time(value) => datetime::write_time(out, *value),
        Datum::Timestamp(value) => datetime::write_timestamp(out, *value),
        Datum::Timestamptz(value) => {
            datetime::write_timestamptz(out, *value, &context.time_zone());
        }
        Datum::Interval(value) => value.write(out),
        Datum::Bytea(value) => write_bytea(out, value),
        Datum::Uuid(value) => write_uuid(out, value),
        Datum::Array(value) => array_text::write(ty, value, context, out),
        Datum::Record(value) => array_text::write_record(value, context, out),
    }
}

/// The same as a string of its own.
pub fn output_string(ty: TypeOid, value: &Datum, context: &dyn FunctionContext) -> Text {
    if let Datum::Text(text) = value {
        return text.clone();
    }
    let mut out = Vec::new();
    output(ty, value, context, &mut out);
    Text::new(String::from_utf8_lossy(&out))
}

/// Appends a decimal integer without allocation.
pub fn write_integer(out: &mut Vec<u8>, value: i64) {
    let mut buffer = [0u8; 20];
    let mut start = buffer.len();
    let mut rest = value.unsigned_abs();
    loop {
        start -= 1;
        buffer[start] = b'0' + (rest % 10) as u8;
        rest /= 10;
        if rest == 0 {
            break;
        }
    }
    if value < 0 {
        start -= 1;
        buffer[start] = b'-';
    }
    out.extend_from_slice(&buffer[start..]);
}

pub(super) fn invalid(ty: &str, text: &str) -> SqlError {
    SqlError::new(
        SqlState::INVALID_TEXT_REPRESENTATION,
        format!("invalid input syntax for type {ty}: \"{text}\""),
    )
}

fn blank(c: char) -> bool {
    matches!(c, ' ' | '\t' | '\n' | '\r' | '\u{b}' | '\u{c}')
}

pub(super) fn integer<T: std::str::FromStr>(text: &str, ty: &str) -> SqlResult<T> {
    let trimmed = text.trim_matches(blank);
    if let Ok(value) = trimmed.parse() {
        return Ok(value);
    }
    let digits = trimmed.strip_prefix(['+', '-']).unwrap_or(trimmed);
    if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(invalid(ty, text));
    }
    Err(SqlError::new(
        SqlState::NUMERIC_VALUE_OUT_OF_RANGE,
        format!("value \"{text}\" is out of range for type {ty}"),
    ))
}

/// An int4 in text form, wide (22P02, 22003).
pub(crate) fn integer_text(text: &str) -> SqlResult<i64> {
    integer::<i32>(text, "integer").map(i64::from)
}

fn oid_number(text: &str, oid: TypeOid) -> SqlResult<u32> {
    let name = oid.sql_name();
    let value: i64 = integer(text, &name)?;
    if value >= 0 {
        u32::try_from(value).ok()
    } else {
        // As strtoul does: -1 is the largest.
        i32::try_from(value).ok().map(|value| value as u32)
    }
    .ok_or_else(|| {
        SqlError::new(
            SqlState::NUMERIC_VALUE_OUT_OF_RANGE,
            format!("value \"{text}\" is out of range for type {name}"),
        )
    })
}

fn boolean(text: &str) -> SqlResult<bool> {
    let lower = text.trim_matches(blank).to_ascii_lowercase();
    let prefix = |word: &str, least: usize| lower.len() >= least && word.starts_with(&lower);
    match lower.as_str() {
        "1" => Ok(true),
        "0" => Ok(false),
        _ if prefix("true", 1) || prefix("yes", 1) || prefix("on", 2) => Ok(true),
        _ if prefix("false", 1) || prefix("no", 1) || prefix("off", 2) => Ok(false),
        _ => Err(invalid("boolean", text)),
    }
}

fn octal(a: u8, b: u8, c: u8) -> u8 {
    (a - b'0') << 6 | (b - b'0') << 3 | (c - b'0')
}

fn bytea(text: &str) -> SqlResult<Arc<[u8]>> {
    if let Some(hex) = text.strip_prefix("\\x") {
        let mut out = Vec::with_capacity(hex.len() / 2);
        let mut high: Option<u8> = None;
        for c in hex.chars() {
            if blank(c) && high.is_none() {
                continue;
            }
            let Some(digit) = c.to_digit(16) else {
                return Err(SqlError::new(
                    SqlState::INVALID_PARAMETER_VALUE,
                    format!("invalid hexadecimal digit: \"{c}\""),
                ));
            };
            match high.take() {
                None => high = Some(digit as u8),
                Some(first) => out.push(first << 4 | digit as u8),
            }
        }
        if high.is_some() {
            return Err(SqlError::new(
                SqlState::INVALID_PARAMETER_VALUE,
                "invalid hexadecimal data: odd number of digits",
            ));
        }
        return Ok(out.into());
    }
    let mut out = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let [first, after @ ..] = rest {
        rest = match (first, after) {
            (b'\\', [b'\\', tail @ ..]) => {
                out.push(b'\\');
                tail
            }
            (b'\\', [a @ b'0'..=b'3', b @ b'0'..=b'7', c @ b'0'..=b'7', tail @ ..]) => {
                out.push(octal(*a, *b, *c));
                tail
            }
            (b'\\', _) => {
                return Err(SqlError::new(
                    SqlState::INVALID_TEXT_REPRESENTATION,
                    "invalid input syntax for type bytea",
                ));
            }
            (byte, tail) => {
                out.push(*byte);
                tail
            }
        };
    }
    Ok(out.into())
}

fn hex(out: &mut Vec<u8>, bytes: &[u8]) {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    for byte in bytes {
        out.push(DIGITS[usize::from(byte >> 4)]);
        out.push(DIGITS[usize::from(byte & 15)]);
    }
}

fn write_bytea(out: &mut Vec<u8>, bytes: &[u8]) {
    out.extend_from_slice(b"\\x");
    hex(out, bytes);
}

fn uuid(text: &str) -> SqlResult<[u8; 16]> {
    let bad = || invalid("uuid", text);
    let inner = match text.strip_prefix('{') {
        Some(rest) => rest.strip_suffix('}').ok_or_else(bad)?,
        None => text,
    };
    let mut out = [0u8; 16];
    let mut count = 0;
    for (index, c) in inner.char_indices() {
        if c == '-' {
            let misplaced = count == 0 || count % 4 != 0 || inner[..index].ends_with('-');
            if misplaced {
                return Err(bad());
            }
            continue;
        }
        let digit = c.to_digit(16).ok_or_else(bad)?;
        let byte = out.get_mut(count / 2).ok_or_else(bad)?;
        *byte = *byte << 4 | digit as u8;
        count += 1;
    }
    if count == 32 && !inner.ends_with('-') { Ok(out) } else { Err(bad()) }
}

fn write_uuid(out: &mut Vec<u8>, value: &[u8; 16]) {
    for (index, part) in [0..4, 4..6, 6..8, 8..10, 10..16].into_iter().enumerate() {
        if index > 0 {
            out.push(b'-');
        }
        hex(out, &value[part]);
    }
}

#[cfg(test)]
mod hostile_tests;
#[cfg(test)]
mod tests;
