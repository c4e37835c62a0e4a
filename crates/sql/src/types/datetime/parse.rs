//! Reading dates, times and timestamps: ISO 8601, PostgreSQL's own and the common others, with
//! month before day where they are ambiguous (DateStyle ISO, MDY).

use super::{
    Civil, DAY, HOUR, MINUTE, SECOND, TimeZone, check_date, days_from_civil, days_in_month,
    local_to_utc,
};
use super::{
    DATE_INFINITY, DATE_NEGATIVE_INFINITY, TIMESTAMP_INFINITY, TIMESTAMP_NEGATIVE_INFINITY,
};
use crate::error::{SqlError, SqlResult, SqlState};
use crate::functions::FunctionContext;

/// Why a literal is refused.
enum Bad {
    /// 22007
    Format,
    /// 22008
    Field,
    /// 22008, and the order of month and day may be meant otherwise.
    MonthDay,
    /// 22009
    Displacement,
    /// 22023
    UnknownZone(String),
}

impl Bad {
    fn error(self, ty: &str, text: &str) -> SqlError {
        match self {
            Bad::Format => SqlError::new(
                SqlState::INVALID_DATETIME_FORMAT,
                format!("invalid input syntax for type {ty}: \"{text}\""),
            ),
            Bad::Field => SqlError::new(
                SqlState::DATETIME_FIELD_OVERFLOW,
                format!("date/time field value out of range: \"{text}\""),
            ),
            Bad::MonthDay => Bad::Field
                .error(ty, text)
                .hint("Perhaps you need a different \"datestyle\" setting."),
            Bad::Displacement => SqlError::new(
                SqlState::INVALID_TIME_ZONE_DISPLACEMENT,
                format!("time zone displacement out of range: \"{text}\""),
            ),
            Bad::UnknownZone(zone) => SqlError::new(
                SqlState::INVALID_PARAMETER_VALUE,
                format!("time zone \"{zone}\" not recognized"),
            ),
        }
    }
}

/// A zone in a literal.
enum Zone {
    Offset(i32),
    Named(TimeZone),
}

/// What a literal said.
#[derive(Default)]
struct Fields {
    date: Option<(i64, i64, i64)>,
    micros: Option<i64>,
    zone: Option<Zone>,
    special: Option<Special>,
}

enum Special {
    Infinity,
    NegativeInfinity,
    Epoch,
    Now,
    /// Midnight this many days from today.
    Day(i64),
}

/// Reads a date. Errors 22007, 22008.
pub fn parse_date(text: &str, context: &dyn FunctionContext) -> SqlResult<i32> {
    let refuse = |bad: Bad| bad.error("date", text);
    let fields = scan(text).map_err(refuse)?;
    let today = || {
        super::utc_to_local(context.transaction_timestamp(), &context.time_zone())
            .map(|local| local.div_euclid(DAY))
    };
    let days = match fields.special {
        Some(Special::Infinity) => return Ok(DATE_INFINITY),
        Some(Special::NegativeInfinity) => return Ok(DATE_NEGATIVE_INFINITY),
        Some(Special::Epoch) => -super::UNIX_DAYS,
        Some(Special::Now) => today()?,
        Some(Special::Day(shift)) => today()? + shift,
        None => {
            let (year, month, day) = fields.date.ok_or(Bad::Format).map_err(refuse)?;
            days_from_civil(year, month, day)
        }
    };
    check_date(days).ok_or_else(|| {
        SqlError::new(SqlState::DATETIME_FIELD_OVERFLOW, format!("date out of range: \"{text}\""))
    })
}

/// Reads a time of day, in microseconds. Errors 22007, 22008.
pub fn parse_time(text: &str, context: &dyn FunctionContext) -> SqlResult<i64> {
    let refuse = |bad: Bad| bad.error("time", text);
    let trimmed = text.trim_ascii();
    if matches!(trimmed.len(), 4 | 6) && trimmed.bytes().all(|byte| byte.is_ascii_digit()) {
        return compact_time(trimmed).map_err(refuse);
    }
    let fields = scan(text).map_err(refuse)?;
    if let Some(Special::Now) = fields.special {
        let local = super::utc_to_local(context.transaction_timestamp(), &context.time_zone())?;
        return Ok(local.rem_euclid(DAY));
    }
    fields.micros.ok_or(Bad::Format).map_err(refuse)
}

/// Reads a timestamp; a zone in the text is ignored, as in PostgreSQL. Errors 22007, 22008.
pub fn parse_timestamp(text: &str, context: &dyn FunctionContext) -> SqlResult<i64> {
    let refuse = |bad: Bad| bad.error("timestamp", text);
    let fields = scan(text).map_err(refuse)?;
    local(&fields, context)?.ok_or(Bad::Format).map_err(refuse)?.ok_or_else(|| range(text))
}

/// Reads a timestamptz; without a zone in the text the session's counts. Errors 22007, 22008,
/// 22009, 22023.
pub fn parse_timestamptz(text: &str, context: &dyn FunctionContext) -> SqlResult<i64> {
    let refuse = |bad: Bad| bad.error("timestamp with time zone", text);
    let fields = scan(text).map_err(refuse)?;
    match fields.special {
        Some(Special::Now) => return Ok(context.transaction_timestamp()),
        Some(Special::Epoch) => return Ok(-super::UNIX_DAYS * DAY),
        _ => {}
    }
    let local = local(&fields, context)?.ok_or(Bad::Format).map_err(refuse)?;
    let local = local.ok_or_else(|| range(text))?;
    if !super::is_finite(local) {
        return Ok(local);
    }
    match &fields.zone {
        Some(Zone::Offset(seconds)) => {
            let utc = local - i64::from(*seconds) * SECOND;
            super::check_timestamp(utc).ok_or_else(|| range(text))
        }
        Some(Zone::Named(zone)) => local_to_utc(local, zone),
        None => local_to_utc(local, &context.time_zone()),
    }
}

fn range(text: &str) -> SqlError {
    SqlError::new(SqlState::DATETIME_FIELD_OVERFLOW, format!("timestamp out of range: \"{text}\""))
}

/// Local time of the fields: outer None = no date, inner None = out of range.
fn local(fields: &Fields, context: &dyn FunctionContext) -> SqlResult<Option<Option<i64>>> {
    let now = || super::utc_to_local(context.transaction_timestamp(), &context.time_zone());
    let time = fields.micros.unwrap_or(0);
    Ok(Some(match fields.special {
        Some(Special::Infinity) => Some(TIMESTAMP_INFINITY),
        Some(Special::NegativeInfinity) => Some(TIMESTAMP_NEGATIVE_INFINITY),
        Some(Special::Epoch) => Some(-super::UNIX_DAYS * DAY),
        Some(Special::Now) => Some(now()?),
        Some(Special::Day(shift)) => Some((now()?.div_euclid(DAY) + shift) * DAY + time),
        None => match fields.date {
            None => return Ok(None),
            Some((year, month, day)) => Civil { year, month, day, micros: time }.to_micros(),
        },
    }))
}

/// Words of a literal: runs of letters, numbers with their separators, signs.
struct Scanner<'a> {
    text: &'a str,
    at: usize,
}

impl<'a> Scanner<'a> {
    fn rest(&self) -> &'a str {
        &self.text[self.at..]
    }

    fn peek(&self) -> Option<u8> {
        self.text.as_bytes().get(self.at).copied()
    }

    fn take(&mut self, accept: impl Fn(u8) -> bool) -> &'a str {
        let start = self.at;
        while self.peek().is_some_and(&accept) {
            self.at += 1;
        }
        &self.text[start..self.at]
    }
}

fn scan(text: &str) -> Result<Fields, Bad> {
    let mut scanner = Scanner { text, at: 0 };
    let mut fields = Fields::default();
    let mut loose = Loose::default();
    loop {
        scanner.take(|byte| byte.is_ascii_whitespace() || byte == b',');
        let Some(byte) = scanner.peek() else { break };
        match byte {
            b'0'..=b'9' => number(&mut scanner, &mut fields, &mut loose)?,
            b'+' | b'-' if fields.micros.is_some() || loose.raw_date.is_some() => {
                let zone = offset(&mut scanner)?;
                set(&mut fields.zone, Zone::Offset(zone))?;
            }
            b'-' if scanner.rest()[1..].to_ascii_lowercase().starts_with("infinity") => {
                scanner.at += "-infinity".len();
                set(&mut fields.special, Special::NegativeInfinity)?;
            }
            b'a'..=b'z' | b'A'..=b'Z' => word(&mut scanner, &mut fields, &mut loose)?,
            _ => return Err(Bad::Format),
        }
    }
    loose.finish(&mut fields)?;
    if fields.special.is_none() && fields.date.is_none() && fields.micros.is_none() {
        return Err(Bad::Format);
    }
    Ok(fields)
}

fn set<T>(slot: &mut Option<T>, value: T) -> Result<(), Bad> {
    match slot.replace(value) {
        None => Ok(()),
        Some(_) => Err(Bad::Format),
    }
}

/// Parts of a date that stand apart, BC, AM and PM.
#[derive(Default)]
struct Loose {
    month: Option<i64>,
    numbers: Vec<(i64, usize)>,
    before_christ: bool,
    meridiem: Option<i64>,
    raw_date: Option<(i64, i64, i64)>,
}

impl Loose {
    fn finish(self, fields: &mut Fields) -> Result<(), Bad> {
        let mut date = self.raw_date;
        if let Some(month) = self.month {
            // Mon DD YYYY, DD Mon YYYY, YYYY Mon DD.
            let (day, year) = match self.numbers.as_slice() {
                [(first, width), (second, _)] if *width >= 3 => (*second, (*first, *width)),
                [(first, _), (second, width)] => (*first, (*second, *width)),
                _ => return Err(Bad::Format),
            };
            set(&mut date, (full_year(year.0, year.1), month, day))?;
        } else if !self.numbers.is_empty() {
            return Err(Bad::Format);
        }
        if let Some((mut year, month, day)) = date {
            if self.before_christ {
                if year <= 0 {
                    return Err(Bad::Field);
                }
                year = 1 - year;
            } else if year <= 0 {
                return Err(Bad::Field);
            }
            if !(1..=12).contains(&month) || !(1..=31).contains(&day) {
                return Err(Bad::MonthDay);
            }
            if day > days_in_month(year, month) {
                return Err(Bad::Field);
            }
            fields.date = Some((year, month, day));
        } else if self.before_christ {
            return Err(Bad::Format);
        }
        if let Some(shift) = self.meridiem {
            let micros = fields.micros.ok_or(Bad::Format)?;
            let hour = micros / HOUR;
            if !(1..=12).contains(&hour) {
                return Err(Bad::Field);
            }
            fields.micros = Some(micros % HOUR + (hour % 12 + shift) * HOUR);
        }
        Ok(())
    }
}

/// Two digits mean 1970 to 2069.
fn full_year(year: i64, width: usize) -> i64 {
    match (width, year) {
        (0..=2, 0..=69) => year + 2000,
        (0..=2, 70..=99) => year + 1900,
        _ => year,
    }
}

/// A field of at most 32 bits, as PostgreSQL's are: what is computed from fields fits 64.
fn integer(text: &str) -> Result<i64, Bad> {
    text.parse::<i32>().map(i64::from).map_err(|_| Bad::Field)
}

/// A token that starts with a digit: a date, a time, or a part of a date.
fn number(scanner: &mut Scanner, fields: &mut Fields, loose: &mut Loose) -> Result<(), Bad> {
    let digits = scanner.take(|byte| byte.is_ascii_digit());
    match scanner.peek() {
        Some(b':') => {
            let micros = clock(scanner, integer(digits)?)?;
            set(&mut fields.micros, micros)
        }
        Some(separator @ (b'-' | b'/' | b'.')) if date_follows(scanner, fields, loose) => {
            scanner.at += 1;
            let date = separated(scanner, digits, separator)?;
            set(&mut loose.raw_date, date)?;
            iso_t(scanner, fields)
        }
        Some(b'.') if digits.len() == 6 && loose.raw_date.is_some() => {
            let micros = compact_time(digits)? + fraction(scanner)?;
            set(&mut fields.micros, micros)
        }
        _ if loose.month.is_some() || digits.len() < 6 => {
            let followed = matches!(scanner.peek(), Some(b't' | b'T'));
            if loose.raw_date.is_some() && (digits.len() == 4 || followed) {
                return set(&mut fields.micros, compact_time(digits)?);
            }
            loose.numbers.push((integer(digits)?, digits.len()));
            Ok(())
        }
        _ if loose.raw_date.is_some() => set(&mut fields.micros, compact_time(digits)?),
        _ => {
            let date = compact_date(digits)?;
            set(&mut loose.raw_date, date)?;
            iso_t(scanner, fields)
        }
    }
}

fn date_follows(scanner: &Scanner, fields: &Fields, loose: &Loose) -> bool {
    let bytes = scanner.text.as_bytes();
    let next = bytes.get(scanner.at + 1);
    let letter = next.is_some_and(|byte| byte.is_ascii_alphanumeric());
    letter && loose.raw_date.is_none() && loose.month.is_none() && fields.special.is_none()
}

/// The T of `2020-01-01T10:00`.
fn iso_t(scanner: &mut Scanner, fields: &Fields) -> Result<(), Bad> {
    let rest = scanner.rest().as_bytes();
    if matches!(rest, [b't' | b'T', b'0'..=b'9', ..]) && fields.micros.is_none() {
        scanner.at += 1;
    }
    Ok(())
}

/// `2020-01-31`, `1/31/2020`, `31-Jan-2020`, `2020.031`.
fn separated(scanner: &mut Scanner, first: &str, separator: u8) -> Result<(i64, i64, i64), Bad> {
    let second = scanner.take(|byte| byte.is_ascii_alphanumeric());
    if separator == b'.' && scanner.peek() != Some(b'.') && second.len() == 3 {
        let (year, day) = (full_year(integer(first)?, first.len()), integer(second)?);
        return day_of_year(year, day);
    }
    if scanner.peek() != Some(separator) {
        // year-dayofyear
        if separator == b'-'
            && second.len() == 3
            && first.len() >= 4
            && let Ok(day) = second.parse()
        {
            return day_of_year(integer(first)?, day);
        }
        return Err(Bad::Format);
    }
    scanner.at += 1;
    let third = scanner.take(|byte| byte.is_ascii_digit());
    if third.is_empty() {
        return Err(Bad::Format);
    }
    if let Some(month) = month_name(second) {
        if first.len() > 2 {
            return Ok((integer(first)?, month, integer(third)?));
        }
        return Ok((full_year(integer(third)?, third.len()), month, integer(first)?));
    }
    let middle = second.parse::<i32>().map(i64::from).map_err(|_| Bad::Format)?;
    if first.len() > 2 {
        return Ok((integer(first)?, middle, integer(third)?));
    }
    Ok((full_year(integer(third)?, third.len()), integer(first)?, middle))
}

fn day_of_year(year: i64, day: i64) -> Result<(i64, i64, i64), Bad> {
    if !(1..=366).contains(&day) {
        return Err(Bad::Field);
    }
    Ok(super::civil_from_days(days_from_civil(year, 1, 1) + day - 1))
}

/// `20200131` or `200131`.
fn compact_date(digits: &str) -> Result<(i64, i64, i64), Bad> {
    let split = match digits.len() {
        6 => 2,
        8.. => digits.len() - 4,
        _ => return Err(Bad::Format),
    };
    let year = full_year(integer(&digits[..split])?, split);
    let (month, day) = (&digits[split..split + 2], &digits[split + 2..]);
    Ok((year, integer(month)?, integer(day)?))
}

/// `103000` or `1030`.
fn compact_time(digits: &str) -> Result<i64, Bad> {
    let part = |from: usize| integer(&digits[from..from + 2]);
    match digits.len() {
        4 => assemble(part(0)?, part(2)?, 0, 0),
        6 => assemble(part(0)?, part(2)?, part(4)?, 0),
        _ => Err(Bad::Format),
    }
}

fn assemble(hour: i64, minute: i64, second: i64, micros: i64) -> Result<i64, Bad> {
    let total = hour * HOUR + minute * MINUTE + second * SECOND + micros;
    // 24:00:00 and a leap second are allowed; more is not.
    if hour > 24 || minute > 59 || second > 60 || total > DAY {
        return Err(Bad::Field);
    }
    Ok(total)
}

/// `:mm[:ss[.ffffff]]` after the hour.
fn clock(scanner: &mut Scanner, hour: i64) -> Result<i64, Bad> {
    scanner.at += 1;
    let minute = scanner.take(|byte| byte.is_ascii_digit());
    if minute.is_empty() || minute.len() > 2 {
        return Err(Bad::Format);
    }
    let mut second = 0;
    let mut micros = 0;
    if scanner.peek() == Some(b':') {
        scanner.at += 1;
        let digits = scanner.take(|byte| byte.is_ascii_digit());
        if digits.is_empty() || digits.len() > 2 {
            return Err(Bad::Format);
        }
        second = integer(digits)?;
        if scanner.peek() == Some(b'.') {
            micros = fraction(scanner)?;
        }
    }
    assemble(hour, integer(minute)?, second, micros)
}

/// `.ffffff` in microseconds, rounded.
fn fraction(scanner: &mut Scanner) -> Result<i64, Bad> {
    scanner.at += 1;
    let digits = scanner.take(|byte| byte.is_ascii_digit());
    if digits.is_empty() {
        return Ok(0);
    }
    let value: f64 = format!("0.{digits}").parse().map_err(|_| Bad::Format)?;
    Ok((value * SECOND as f64).round_ties_even() as i64)
}

/// `+02`, `-05:30`, `+0530`, `+01:02:03`: seconds east.
fn offset(scanner: &mut Scanner) -> Result<i32, Bad> {
    let negative = scanner.peek() == Some(b'-');
    scanner.at += 1;
    let digits = scanner.take(|byte| byte.is_ascii_digit());
    let (hours, mut minutes, mut seconds) = match digits.len() {
        1 | 2 => (integer(digits)?, 0, 0),
        3 | 4 => {
            let split = digits.len() - 2;
            (integer(&digits[..split])?, integer(&digits[split..])?, 0)
        }
        6 => (integer(&digits[..2])?, integer(&digits[2..4])?, integer(&digits[4..])?),
        _ => return Err(Bad::Format),
    };
    if digits.len() <= 2 && scanner.peek() == Some(b':') {
        scanner.at += 1;
        minutes = integer(scanner.take(|byte| byte.is_ascii_digit()))?;
        if scanner.peek() == Some(b':') {
            scanner.at += 1;
            seconds = integer(scanner.take(|byte| byte.is_ascii_digit()))?;
        }
    }
    if hours > 15 || minutes > 59 || seconds > 59 {
        return Err(Bad::Displacement);
    }
    let total = (hours * 3600 + minutes * 60 + seconds) as i32;
    Ok(if negative { -total } else { total })
}

fn month_name(word: &str) -> Option<i64> {
    const MONTHS: [&str; 12] = [
        "january",
        "february",
        "march",
        "april",
        "may",
        "june",
        "july",
        "august",
        "september",
        "october",
        "november",
        "december",
    ];
    let lower = word.to_ascii_lowercase();
    let full = |name: &&str| {
        lower == **name || lower == name[..3] || (lower == "sept" && name.starts_with("sept"))
    };
    MONTHS.iter().position(full).map(|index| index as i64 + 1)
}

fn word(scanner: &mut Scanner, fields: &mut Fields, loose: &mut Loose) -> Result<(), Bad> {
    const DAYS: [&str; 7] =
        ["sunday", "monday", "tuesday", "wednesday", "thursday", "friday", "saturday"];
    let start = scanner.at;
    let word = scanner.take(|byte| byte.is_ascii_alphabetic());
    let lower = word.to_ascii_lowercase();
    if let Some(month) = month_name(&lower) {
        return set(&mut loose.month, month);
    }
    if DAYS.iter().any(|day| lower == *day || lower == day[..3]) {
        return Ok(());
    }
    let special = match lower.as_str() {
        "t" if loose.raw_date.is_some() && fields.micros.is_none() => return Ok(()),
        "at" | "on" => return Ok(()),
        "bc" => {
            loose.before_christ = true;
            return Ok(());
        }
        "ad" => return Ok(()),
        "am" => return set(&mut loose.meridiem, 0),
        "pm" => return set(&mut loose.meridiem, 12),
        "allballs" => return set(&mut fields.micros, 0),
        "infinity" | "inf" if fields.date.is_none() => Special::Infinity,
        "epoch" => Special::Epoch,
        "now" => Special::Now,
        "today" => Special::Day(0),
        "tomorrow" => Special::Day(1),
        "yesterday" => Special::Day(-1),
        _ => return zone(scanner, fields, start),
    };
    set(&mut fields.special, special)
}

/// A zone's name or abbreviation, `Europe/Berlin`, `EST`, `Z`.
fn zone(scanner: &mut Scanner, fields: &mut Fields, start: usize) -> Result<(), Bad> {
    scanner.take(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'/' | b'_' | b'-' | b'+'));
    let name = &scanner.text[start..scanner.at];
    if let Some(seconds) = TimeZone::abbreviation(name) {
        return set(&mut fields.zone, Zone::Offset(seconds));
    }
    if let Some(found) = TimeZone::named(name) {
        return set(&mut fields.zone, Zone::Named(found));
    }
    if name.contains('/') {
        Err(Bad::UnknownZone(name.to_ascii_lowercase()))
    } else {
        Err(Bad::Format)
    }
}
