//! float4 and float8 as text: shortest form that reads back the same, as PostgreSQL prints it.

use crate::error::{SqlError, SqlResult, SqlState};

/// Appends a float8. `extra_digits` is extra_float_digits: above 0 the shortest exact form.
pub fn write_float8(out: &mut Vec<u8>, value: f64, extra_digits: i32) {
    if extra_digits > 0 || !value.is_finite() {
        write(out, &format!("{value:e}"), value.is_nan(), value.is_infinite(), value < 0.0, 15);
    } else {
        let digits = (15 + extra_digits).max(1) as usize;
        let text = crate::types::numeric::float_text(value, digits);
        write(out, &text, false, false, value < 0.0, digits as i32);
    }
}

/// Appends a float4.
pub fn write_float4(out: &mut Vec<u8>, value: f32, extra_digits: i32) {
    if extra_digits > 0 || !value.is_finite() {
        write(out, &format!("{value:e}"), value.is_nan(), value.is_infinite(), value < 0.0, 6);
    } else {
        let digits = (6 + extra_digits).max(1) as usize;
        let text = crate::types::numeric::float_text(f64::from(value), digits);
        write(out, &text, false, false, value < 0.0, digits as i32);
    }
}

/// From Rust's scientific form to C's %g: fixed for exponents from -4 to below `limit`.
fn write(
    out: &mut Vec<u8>,
    scientific: &str,
    nan: bool,
    infinite: bool,
    negative: bool,
    limit: i32,
) {
    if nan {
        return out.extend_from_slice(b"NaN");
    }
    if infinite {
        return out.extend_from_slice(if negative { b"-Infinity" } else { b"Infinity" });
    }
    let (mantissa, exponent) = scientific.split_once('e').expect("LowerExp prints an exponent");
    let exponent: i32 = exponent.parse().expect("LowerExp prints a number");
    let unsigned = mantissa.strip_prefix('-').unwrap_or(mantissa);
    if unsigned.len() != mantissa.len() {
        out.push(b'-');
    }
    if !(-4..limit).contains(&exponent) {
        out.extend_from_slice(unsigned.as_bytes());
        let sign = if exponent < 0 { '-' } else { '+' };
        return out.extend_from_slice(format!("e{sign}{:02}", exponent.abs()).as_bytes());
    }
    let digits: Vec<u8> = unsigned.bytes().filter(u8::is_ascii_digit).collect();
    if exponent < 0 {
        out.extend_from_slice(b"0.");
        out.resize(out.len() + (-exponent - 1) as usize, b'0');
        return out.extend_from_slice(&digits);
    }
    let whole = exponent as usize + 1;
    if digits.len() <= whole {
        out.extend_from_slice(&digits);
        out.resize(out.len() + whole - digits.len(), b'0');
    } else {
        out.extend_from_slice(&digits[..whole]);
        out.push(b'.');
        out.extend_from_slice(&digits[whole..]);
    }
}

enum Parsed {
    Value(f64),
    Special(f64),
    Bad,
}

fn scan(text: &str) -> Parsed {
    let lower = text.to_ascii_lowercase();
    let unsigned = lower.strip_prefix(['+', '-']).unwrap_or(&lower);
    let sign = if lower.starts_with('-') { -1.0 } else { 1.0 };
    match unsigned {
        "nan" => return Parsed::Special(f64::NAN),
        "inf" | "infinity" => return Parsed::Special(sign * f64::INFINITY),
        _ => {}
    }
    let plain = |byte: u8| byte.is_ascii_digit() || matches!(byte, b'.' | b'e' | b'+' | b'-');
    if !unsigned.bytes().all(plain) {
        return Parsed::Bad;
    }
    lower.parse().map_or(Parsed::Bad, Parsed::Value)
}

fn refuse(text: &str, ty: &str) -> SqlError {
    SqlError::new(
        SqlState::INVALID_TEXT_REPRESENTATION,
        format!("invalid input syntax for type {ty}: \"{text}\""),
    )
}

fn range(text: &str, ty: &str) -> SqlError {
    SqlError::new(
        SqlState::NUMERIC_VALUE_OUT_OF_RANGE,
        format!("\"{text}\" is out of range for type {ty}"),
    )
}

/// Is some digit of the mantissa not 0?
fn has_digits(text: &str) -> bool {
    text.split(['e', 'E'])
        .next()
        .is_some_and(|mantissa| mantissa.bytes().any(|b| (b'1'..=b'9').contains(&b)))
}

/// Reads a float8 (22P02, 22003).
pub fn parse_float8(text: &str) -> SqlResult<f64> {
    let trimmed = text.trim_matches(|c: char| c.is_ascii_whitespace());
    match scan(trimmed) {
        Parsed::Special(value) => Ok(value),
        Parsed::Bad => Err(refuse(text, "double precision")),
        Parsed::Value(value) if value.is_infinite() || (value == 0.0 && has_digits(trimmed)) => {
            Err(range(trimmed, "double precision"))
        }
        Parsed::Value(value) => Ok(value),
    }
}

/// Reads a float4 (22P02, 22003).
pub fn parse_float4(text: &str) -> SqlResult<f32> {
    let trimmed = text.trim_matches(|c: char| c.is_ascii_whitespace());
    match scan(trimmed) {
        Parsed::Special(value) => Ok(value as f32),
        Parsed::Bad => Err(refuse(text, "real")),
        Parsed::Value(_) => {
            let value: f32 = trimmed.parse().map_err(|_| refuse(text, "real"))?;
            if value.is_infinite() || (value == 0.0 && has_digits(trimmed)) {
                return Err(range(trimmed, "real"));
            }
            Ok(value)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check8(input: &str, expect: &str) {
        let got = match parse_float8(input) {
            Ok(value) => {
                let mut out = Vec::new();
                write_float8(&mut out, value, 1);
                String::from_utf8(out).expect("ASCII")
            }
            Err(error) => error.sqlstate().to_string(),
        };
        assert_eq!(got, expect, "{input}");
    }

    #[track_caller]
    fn check4(value: f32, expect: &str) {
        let mut out = Vec::new();
        write_float4(&mut out, value, 1);
        assert_eq!(out, expect.as_bytes());
    }

    #[test]
    fn float8_prints_as_in_postgresql() {
        check8("0.1", "0.1");
        check8("100000000000000", "100000000000000");
        check8("1e15", "1e+15");
        check8("123456789012345680", "1.2345678901234568e+17");
        check8("0.0001", "0.0001");
        check8("0.00001", "1e-05");
        check8("-0", "-0");
        check8("1.5e300", "1.5e+300");
        check8("nan", "NaN");
        check8("-inf", "-Infinity");
        check8("1e400", "22003");
        check8("1e-400", "22003");
        check8("0e-400", "0");
        check8("12x", "22P02");
        check8("", "22P02");
        check8(" 3.25 ", "3.25");
        check8("0x10", "22P02");
        check8("123456.789", "123456.789");
    }

    #[test]
    fn float4_prints_as_in_postgresql() {
        check4(0.1, "0.1");
        check4(1e6, "1e+06");
        check4(123_456.0, "123456");
        check4(3.402_823_5e38, "3.4028235e+38");
    }
}
