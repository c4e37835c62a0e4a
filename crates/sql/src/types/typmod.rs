//! Type modifiers: `varchar(10)`, `numeric(12,2)`, `timestamp(3)`.
//!
//! Invariants: modifiers are PostgreSQL's numbers. A bpchar fitted to its modifier has exactly
//! that many characters; blanks beyond the length are cut silently, anything else is refused by
//! assignment (22001) and cut by an explicit cast.

use super::{Array, Datum, Interval, Text, Type, TypeOid};
use crate::error::{SqlError, SqlResult, SqlState};
use crate::functions::CastContext;

/// Bytes of a name, without the terminator.
pub const NAME_BYTES_MAX: usize = 63;

/// The modifier that `name(args)` means (22023 and 42601 as PostgreSQL's).
pub fn type_modifier(oid: TypeOid, args: &[i32]) -> SqlResult<i32> {
    let refuse = |message: String| Err(SqlError::new(SqlState::INVALID_PARAMETER_VALUE, message));
    match oid {
        TypeOid::BPCHAR | TypeOid::VARCHAR | TypeOid::BPCHAR_ARRAY | TypeOid::VARCHAR_ARRAY => {
            let name = if matches!(oid, TypeOid::BPCHAR | TypeOid::BPCHAR_ARRAY) {
                "char"
            } else {
                "varchar"
            };
            match args {
                [length] if *length < 1 => {
                    refuse(format!("length for type {name} must be at least 1"))
                }
                [length] if *length > 10_485_760 => {
                    refuse(format!("length for type {name} cannot exceed 10485760"))
                }
                [length] => Ok(length + 4),
                _ => refuse("invalid type modifier".into()),
            }
        }
        TypeOid::NUMERIC | TypeOid::NUMERIC_ARRAY => {
            let (precision, scale) = match args {
                [precision] => (*precision, 0),
                [precision, scale] => (*precision, *scale),
                _ => return refuse("invalid NUMERIC type modifier".into()),
            };
            if !(1..=1000).contains(&precision) {
                return refuse(format!("NUMERIC precision {precision} must be between 1 and 1000"));
            }
            if !(-1000..=1000).contains(&scale) {
                return refuse(format!("NUMERIC scale {scale} must be between -1000 and 1000"));
            }
            Ok((precision << 16 | scale & 0x7ff) + 4)
        }
        TypeOid::TIMESTAMP
        | TypeOid::TIMESTAMPTZ
        | TypeOid::TIME
        | TypeOid::TIMESTAMP_ARRAY
        | TypeOid::TIMESTAMPTZ_ARRAY
        | TypeOid::TIME_ARRAY => match args {
            [precision] if *precision < 0 => {
                let zone = if oid == TypeOid::TIMESTAMPTZ { " WITH TIME ZONE" } else { "" };
                let name = if oid == TypeOid::TIME { "TIME" } else { "TIMESTAMP" };
                refuse(format!("{name}({precision}){zone} precision must not be negative"))
            }
            [precision] => Ok((*precision).min(6)),
            _ => refuse("invalid type modifier".into()),
        },
        TypeOid::INTERVAL | TypeOid::INTERVAL_ARRAY => match args {
            [fields] if *fields == INTERVAL_FULL_RANGE => Ok(-1),
            [fields] => Ok(fields << 16 | 0xffff),
            [fields, precision] => Ok(fields << 16 | (*precision).clamp(0, 6)),
            _ => refuse("invalid INTERVAL type modifier".into()),
        },
        other => Err(SqlError::new(
            SqlState::SYNTAX_ERROR,
            match super::type_by_oid(other) {
                Some(row) => format!("type modifier is not allowed for type \"{}\"", row.name),
                None => "type modifier is not allowed".into(),
            },
        )),
    }
}

const INTERVAL_FULL_RANGE: i32 = 0x7fff;

/// Fits a value to a modifier. Explicit casts truncate where assignment refuses.
pub fn coerce(value: Datum, ty: Type, context: CastContext) -> SqlResult<Datum> {
    Ok(match (value, ty.oid) {
        (Datum::Text(text), TypeOid::NAME) => Datum::Text(cut_name(text)),
        (value, _) if ty.typmod < 0 => value,
        (Datum::Text(text), TypeOid::BPCHAR) => Datum::Text(pad(text, ty.typmod - 4, context)?),
        (Datum::Text(text), TypeOid::VARCHAR) => {
            Datum::Text(limit(text, ty.typmod - 4, "character varying", context)?)
        }
        (Datum::Numeric(number), TypeOid::NUMERIC) => {
            let (precision, scale) = numeric_parts(ty.typmod);
            Datum::Numeric(number.fit(precision, scale)?)
        }
        (Datum::Timestamp(micros), TypeOid::TIMESTAMP) => {
            Datum::Timestamp(round_timestamp(micros, ty.typmod)?)
        }
        (Datum::Timestamptz(micros), TypeOid::TIMESTAMPTZ) => {
            Datum::Timestamptz(round_timestamp(micros, ty.typmod)?)
        }
        (Datum::Time(micros), TypeOid::TIME) => {
            Datum::Time(round_micros(micros, ty.typmod).unwrap_or(micros))
        }
        (Datum::Interval(interval), TypeOid::INTERVAL) => {
            fit_interval(&interval, ty.typmod)?.into()
        }
        (Datum::Array(array), _) => {
            let element = Type::with(array.element, ty.typmod);
            let fit = |item: &Datum| coerce(item.clone(), element, context);
            let elements: SqlResult<Vec<Datum>> = array.elements.iter().map(fit).collect();
            let dimensions = array.dimensions.clone();
            Array { element: array.element, dimensions, elements: elements? }.into()
        }
        (value, _) => value,
    })
}

fn cut_name(text: Text) -> Text {
    if text.len() <= NAME_BYTES_MAX {
        return text;
    }
    let mut end = NAME_BYTES_MAX;
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    Text::new(&text[..end])
}

/// Where the first `length` characters end, and how many characters are missing.
fn split_at_chars(text: &str, length: usize) -> (usize, usize) {
    if text.is_ascii() {
        return (text.len().min(length), length.saturating_sub(text.len()));
    }
    let mut count = 0;
    for (at, _) in text.char_indices() {
        if count == length {
            return (at, 0);
        }
        count += 1;
    }
    (text.len(), length - count)
}

fn too_long(name: &str, length: i32) -> SqlError {
    SqlError::new(
        SqlState::STRING_DATA_RIGHT_TRUNCATION,
        format!("value too long for type {name}({length})"),
    )
}

fn limit(text: Text, length: i32, name: &str, context: CastContext) -> SqlResult<Text> {
    if text.len() <= length as usize {
        return Ok(text);
    }
    let (end, _) = split_at_chars(&text, length as usize);
    if end == text.len() {
        return Ok(text);
    }
    if context != CastContext::Explicit && !text[end..].bytes().all(|byte| byte == b' ') {
        return Err(too_long(name, length));
    }
    Ok(Text::new(&text[..end]))
}

fn pad(text: Text, length: i32, context: CastContext) -> SqlResult<Text> {
    let text = limit(text, length, "character", context)?;
    let (_, missing) = split_at_chars(&text, length as usize);
    if missing == 0 {
        return Ok(text);
    }
    let mut padded = String::with_capacity(text.len() + missing);
    padded.push_str(&text);
    padded.extend(std::iter::repeat_n(' ', missing));
    Ok(Text::from(padded))
}

/// Rounds to this many digits of a second, half away from zero; None beyond 64 bits.
fn round_micros(micros: i64, digits: i32) -> Option<i64> {
    if !(0..6).contains(&digits) {
        return Some(micros);
    }
    let unit = 10i64.pow((6 - digits) as u32);
    let half = if micros >= 0 { unit / 2 } else { -(unit / 2) };
    Some(micros.checked_add(half)? / unit * unit)
}

fn round_timestamp(micros: i64, digits: i32) -> SqlResult<i64> {
    if !super::datetime::is_finite(micros) {
        return Ok(micros);
    }
    round_micros(micros, digits)
        .and_then(super::datetime::check_timestamp)
        .ok_or_else(super::datetime::timestamp_out_of_range)
}

const MONTH: i32 = 1 << 1;
const YEAR: i32 = 1 << 2;
const DAY: i32 = 1 << 3;
const HOUR: i32 = 1 << 10;
const MINUTE: i32 = 1 << 11;
const SECOND: i32 = 1 << 12;

/// AdjustIntervalForTypmod: cuts the fields below the range, rounds the seconds (22008).
fn fit_interval(interval: &Interval, typmod: i32) -> SqlResult<Interval> {
    use super::datetime::{HOUR as HOUR_MICROS, MINUTE as MINUTE_MICROS};
    let (range, precision) = (typmod >> 16 & 0x7fff, typmod & 0xffff);
    let mut fitted = *interval;
    let cut = |micros: i64, unit: i64| micros / unit * unit;
    match range {
        YEAR => fitted = Interval { months: interval.months / 12 * 12, days: 0, micros: 0 },
        r if r & (DAY | HOUR | MINUTE | SECOND) == 0 && r & (YEAR | MONTH) != 0 => {
            fitted = Interval { months: interval.months, days: 0, micros: 0 };
        }
        DAY => fitted.micros = 0,
        r if r != INTERVAL_FULL_RANGE && r & (MINUTE | SECOND) == 0 => {
            fitted.micros = cut(interval.micros, HOUR_MICROS);
        }
        r if r != INTERVAL_FULL_RANGE && r & SECOND == 0 => {
            fitted.micros = cut(interval.micros, MINUTE_MICROS);
        }
        _ => {}
    }
    if precision != 0xffff {
        fitted.micros =
            round_micros(fitted.micros, precision).ok_or_else(super::interval_out_of_range)?;
    }
    Ok(fitted)
}

/// Precision and scale of a numeric's modifier.
pub fn numeric_parts(typmod: i32) -> (i32, i32) {
    let packed = typmod - 4;
    (packed >> 16 & 0xffff, ((packed & 0x7ff) ^ 1024) - 1024)
}

/// `interval day to second(3)` and the like.
pub fn format_interval(typmod: i32) -> String {
    let (range, precision) = (typmod >> 16 & 0x7fff, typmod & 0xffff);
    let names = [
        (YEAR, "year"),
        (MONTH, "month"),
        (DAY, "day"),
        (HOUR, "hour"),
        (MINUTE, "minute"),
        (SECOND, "second"),
    ];
    let mut out = "interval".to_owned();
    if range != INTERVAL_FULL_RANGE {
        let inside: Vec<&str> =
            names.iter().filter(|(bit, _)| range & bit != 0).map(|(_, name)| *name).collect();
        match inside.as_slice() {
            [] => {}
            [only] => out.push_str(&format!(" {only}")),
            [first, .., last] => out.push_str(&format!(" {first} to {last}")),
        }
    }
    if precision != 0xffff {
        out.push_str(&format!("({precision})"));
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::functions::ConstantContext;
    use crate::types::{format_type, text};

    #[track_caller]
    fn check(ty: TypeOid, args: &[i32], input: &str, context: CastContext, expect: &str) {
        let got = type_modifier(ty, args).and_then(|typmod| {
            let value = text::input(Type::new(ty), input, &ConstantContext)?;
            let value = coerce(value, Type::with(ty, typmod), context)?;
            Ok(text::output_string(ty, &value, &ConstantContext).to_string())
        });
        let got = got.unwrap_or_else(|error| format!("{} {}", error.sqlstate(), error.message()));
        assert_eq!(got, expect);
    }

    #[test]
    fn values_fit_as_in_postgresql() {
        use CastContext::{Assignment, Explicit};
        let varchar = TypeOid::VARCHAR;
        check(
            varchar,
            &[3],
            "abcd",
            Assignment,
            "22001 value too long for type character varying(3)",
        );
        check(varchar, &[3], "abc   ", Assignment, "abc");
        check(varchar, &[3], "abcd", Explicit, "abc");
        check(varchar, &[3], "äöü", Assignment, "äöü");
        check(varchar, &[2], "äöü", Explicit, "äö");
        check(varchar, &[0], "a", Explicit, "22023 length for type varchar must be at least 1");
        let bpchar = TypeOid::BPCHAR;
        check(bpchar, &[5], "ab", Assignment, "ab   ");
        check(bpchar, &[3], "äö", Assignment, "äö ");
        check(bpchar, &[2], "abc", Assignment, "22001 value too long for type character(2)");
        check(bpchar, &[2], "abc", Explicit, "ab");
        check(
            bpchar,
            &[20_000_000],
            "a",
            Explicit,
            "22023 length for type char cannot exceed 10485760",
        );
        let numeric = TypeOid::NUMERIC;
        check(numeric, &[4, 2], "99.994", Assignment, "99.99");
        check(numeric, &[4, 2], "99.995", Assignment, "22003 numeric field overflow");
        check(numeric, &[4], "1.5", Assignment, "2");
        check(numeric, &[3, -2], "12345", Assignment, "12300");
        check(numeric, &[2, 4], "0.00991", Assignment, "0.0099");
        check(numeric, &[2, 4], "0.01", Assignment, "22003 numeric field overflow");
        check(
            numeric,
            &[0],
            "1",
            Assignment,
            "22023 NUMERIC precision 0 must be between 1 and 1000",
        );
        check(TypeOid::TIMESTAMP, &[0], "2020-01-01 00:00:00.5", Assignment, "2020-01-01 00:00:01");
        check(
            TypeOid::TIMESTAMP,
            &[2],
            "1999-01-01 00:00:00.015",
            Assignment,
            "1999-01-01 00:00:00.01",
        );
        check(
            TypeOid::INT4,
            &[2],
            "1",
            Assignment,
            "42601 type modifier is not allowed for type \"int4\"",
        );
        let name = coerce(Datum::text("x".repeat(70)), Type::new(TypeOid::NAME), Assignment);
        assert_eq!(name.expect("names are cut").as_str().len(), NAME_BYTES_MAX);
    }

    #[test]
    fn the_detail_names_the_bound() {
        let error = coerce(
            crate::types::Numeric::small(1000, 0).into(),
            Type::with(TypeOid::NUMERIC, (3 << 16) + 4),
            CastContext::Assignment,
        );
        let error = error.expect_err("four digits into three");
        let detail =
            "A field with precision 3, scale 0 must round to an absolute value less than 10^3.";
        assert_eq!(error.fields().detail.as_deref(), Some(detail));
        assert_eq!(format_type(Type::with(TypeOid::INTERVAL, 0x7fff << 16 | 3)), "interval(3)");
    }
}
