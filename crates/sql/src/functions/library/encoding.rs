//! encode, decode and the conversions between text and bytea.

use super::FunctionContext;
use super::string::hex;
use crate::error::{SqlError, SqlResult, SqlState};
use crate::types::limits::VALUE_BYTES_MAX;
use crate::types::{Datum, TypeOid, text as io};
use std::sync::Arc;

type Context<'a> = &'a dyn FunctionContext;

fn unknown_encoding(name: &str) -> SqlError {
    SqlError::new(SqlState::INVALID_PARAMETER_VALUE, format!("unrecognized encoding: \"{name}\""))
}

/// `encode(bytea, format)`.
pub(in crate::functions) fn encode(args: &[Datum], _: Context) -> SqlResult<Datum> {
    let bytes = args[0].as_bytes();
    let (written, form): (usize, fn(&[u8]) -> String) =
        match args[1].as_str().to_ascii_lowercase().as_str() {
            "hex" => (2 * bytes.len(), hex),
            "escape" => (bytes.iter().map(|byte| escaped_len(*byte)).sum(), escape),
            "base64" => (bytes.len() / 3 * 4 + bytes.len() / 57, base64),
            other => return Err(unknown_encoding(other)),
        };
    if written > VALUE_BYTES_MAX {
        let message = "result of encoding conversion is too large";
        return Err(SqlError::new(SqlState::PROGRAM_LIMIT_EXCEEDED, message));
    }
    Ok(form(bytes).into())
}

fn escaped_len(byte: u8) -> usize {
    match byte {
        b'\\' => 2,
        0 | 0x80.. => 4,
        _ => 1,
    }
}

fn escape(bytes: &[u8]) -> String {
    let mut out = String::new();
    for byte in bytes {
        match byte {
            b'\\' => out.push_str("\\\\"),
            0 | 0x80.. => {
                let octal = |shift: u8| char::from(b'0' + (byte >> shift & 7));
                out.extend(['\\', octal(6), octal(3), octal(0)]);
            }
            other => out.push(char::from(*other)),
        }
    }
    out
}

const BASE64: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

fn base64(bytes: &[u8]) -> String {
    let mut out = String::new();
    let mut column = 0;
    for chunk in bytes.chunks(3) {
        let word = chunk.iter().fold(0u32, |word, byte| word << 8 | u32::from(*byte))
            << (8 * (3 - chunk.len()));
        for index in 0..4 {
            let digit = BASE64[(word >> (18 - 6 * index) & 63) as usize];
            out.push(if index <= chunk.len() { char::from(digit) } else { '=' });
        }
        column += 4;
        if column >= 76 {
            out.push('\n');
            column = 0;
        }
    }
    if out.ends_with('\n') {
        out.pop();
    }
    out
}

fn base64_digit(byte: u8) -> Option<u32> {
    let digit = match byte {
        b'A'..=b'Z' => byte - b'A',
        b'a'..=b'z' => byte - b'a' + 26,
        b'0'..=b'9' => byte - b'0' + 52,
        b'+' => 62,
        b'/' => 63,
        _ => return None,
    };
    Some(u32::from(digit))
}

/// `decode(text, format)`.
pub(in crate::functions) fn decode(args: &[Datum], context: Context) -> SqlResult<Datum> {
    let text = args[0].as_str();
    match args[1].as_str().to_ascii_lowercase().as_str() {
        "hex" => io::input(TypeOid::BYTEA.into(), &format!("\\x{text}"), context),
        "escape" => io::input(TypeOid::BYTEA.into(), text, context),
        "base64" => {
            let mut out = Vec::new();
            let (mut word, mut count) = (0u32, 0);
            for byte in text.bytes().filter(|byte| !byte.is_ascii_whitespace() && *byte != b'=') {
                let digit = base64_digit(byte).ok_or_else(|| {
                    SqlError::new(
                        SqlState::INVALID_PARAMETER_VALUE,
                        format!(
                            "invalid symbol \"{}\" found while decoding base64 sequence",
                            char::from(byte)
                        ),
                    )
                })?;
                word = word << 6 | digit;
                count += 1;
                if count % 4 == 0 {
                    out.extend_from_slice(&word.to_be_bytes()[1..]);
                    word = 0;
                }
            }
            match count % 4 {
                2 => out.push((word >> 4) as u8),
                3 => out.extend_from_slice(&[(word >> 10) as u8, (word >> 2) as u8]),
                1 => {
                    return Err(SqlError::new(
                        SqlState::INVALID_PARAMETER_VALUE,
                        "invalid base64 end sequence",
                    ));
                }
                _ => {}
            }
            Ok(Datum::Bytea(out.into()))
        }
        other => Err(unknown_encoding(other)),
    }
}

/// `convert_to(text, encoding)`; UTF8 only.
pub(in crate::functions) fn convert_to(args: &[Datum], _: Context) -> SqlResult<Datum> {
    check_utf8(args[1].as_str())?;
    Ok(Datum::Bytea(Arc::from(args[0].as_str().as_bytes())))
}

/// `convert_from(bytea, encoding)`; UTF8 only.
pub(in crate::functions) fn convert_from(args: &[Datum], context: Context) -> SqlResult<Datum> {
    check_utf8(args[1].as_str())?;
    crate::types::binary::receive(TypeOid::TEXT.into(), args[0].as_bytes(), context)
}

fn check_utf8(encoding: &str) -> SqlResult<()> {
    match encoding.to_ascii_lowercase().replace(['-', '_'], "").as_str() {
        "utf8" | "unicode" => Ok(()),
        other => Err(SqlError::not_supported(format!("encoding \"{other}\""))),
    }
}
