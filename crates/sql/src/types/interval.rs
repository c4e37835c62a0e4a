//! The interval type: months, days and microseconds, as PostgreSQL keeps them apart.
//!
//! Invariants: compared by span with months of 30 and days of 24 hours; equal spans are equal
//! though their parts differ.

use super::datetime::{DAY, HOUR, MINUTE, SECOND, print_fraction};
use crate::error::{SqlError, SqlResult, SqlState};
use std::cmp::Ordering;

/// An interval.
#[derive(Clone, Copy, Debug, Default)]
pub struct Interval {
    /// Months, years included.
    pub months: i32,
    /// Days, weeks included.
    pub days: i32,
    /// Microseconds of the time part.
    pub micros: i64,
}

/// `interval out of range` (22008).
#[cold]
pub(crate) fn interval_out_of_range() -> SqlError {
    SqlError::new(SqlState::DATETIME_FIELD_OVERFLOW, "interval out of range")
}

impl Interval {
    /// A time span without days and months.
    pub const fn of_micros(micros: i64) -> Interval {
        Interval { months: 0, days: 0, micros }
    }

    /// The span that comparisons use, in microseconds.
    pub fn span(&self) -> i128 {
        let days = i128::from(self.months) * 30 + i128::from(self.days);
        days * i128::from(DAY) + i128::from(self.micros)
    }

    /// -x (22008).
    pub fn neg(&self) -> SqlResult<Interval> {
        let negated = || {
            Some(Interval {
                months: self.months.checked_neg()?,
                days: self.days.checked_neg()?,
                micros: self.micros.checked_neg()?,
            })
        };
        negated().ok_or_else(interval_out_of_range)
    }

    /// x + y, part by part (22008).
    pub fn add(&self, other: &Interval) -> SqlResult<Interval> {
        let sum = || {
            Some(Interval {
                months: self.months.checked_add(other.months)?,
                days: self.days.checked_add(other.days)?,
                micros: self.micros.checked_add(other.micros)?,
            })
        };
        sum().ok_or_else(interval_out_of_range)
    }

    /// x * factor; fractions of months go to days, of days to time (22008).
    pub fn mul(&self, factor: f64) -> SqlResult<Interval> {
        let months = f64::from(self.months) * factor;
        let days = f64::from(self.days) * factor;
        let rounded = |value: f64| (value * SECOND as f64).round_ties_even() / SECOND as f64;
        let month_days = rounded((months - months.trunc()) * 30.0);
        let second_rest =
            rounded((days - days.trunc() + month_days - month_days.trunc()) * 86_400.0);
        let mut whole_days = days.trunc() + month_days.trunc();
        let mut seconds = second_rest;
        if seconds.abs() >= 86_400.0 {
            whole_days += (seconds / 86_400.0).trunc();
            seconds -= (seconds / 86_400.0).trunc() * 86_400.0;
        }
        let micros = (self.micros as f64 * factor + seconds * SECOND as f64).round_ties_even();
        Interval::of_floats(months, whole_days, micros)
    }

    /// x / divisor (22012, 22008).
    pub fn div(&self, divisor: f64) -> SqlResult<Interval> {
        if divisor == 0.0 {
            return Err(crate::functions::fast::division_by_zero());
        }
        let months = f64::from(self.months) / divisor;
        let days = f64::from(self.days) / divisor;
        let rounded = |value: f64| (value * SECOND as f64).round_ties_even() / SECOND as f64;
        let month_days = rounded((months - months.trunc()) * 30.0);
        let seconds = rounded((days - days.trunc() + month_days - month_days.trunc()) * 86_400.0);
        let (mut whole, mut rest) = (days.trunc() + month_days.trunc(), seconds);
        if rest.abs() >= 86_400.0 {
            whole += (rest / 86_400.0).trunc();
            rest -= (rest / 86_400.0).trunc() * 86_400.0;
        }
        let micros = (self.micros as f64 / divisor + rest * SECOND as f64).round_ties_even();
        Interval::of_floats(months, whole, micros)
    }

    /// The parts cut to whole numbers, if all are within their range (22008).
    fn of_floats(months: f64, days: f64, micros: f64) -> SqlResult<Interval> {
        // 2^63 itself is beyond: the largest i64 has no float of its own.
        let within = |value: f64, bound: f64| value.abs() < bound;
        if !within(months, 2f64.powi(31))
            || !within(days, 2f64.powi(31))
            || !within(micros, 2f64.powi(63))
        {
            return Err(interval_out_of_range());
        }
        Ok(Interval { months: months as i32, days: days as i32, micros: micros as i64 })
    }

    /// Appends the `postgres` style: `1 year 2 mons 3 days 04:05:06.7`.
    pub fn write(&self, out: &mut Vec<u8>) {
        let start = out.len();
        let mut negative_before = false;
        let mut part = |out: &mut Vec<u8>, value: i64, unit: &str| {
            if value == 0 {
                return;
            }
            let space = if out.len() > start { " " } else { "" };
            let sign = if negative_before && value > 0 { "+" } else { "" };
            let plural = if value == 1 { "" } else { "s" };
            out.extend_from_slice(format!("{space}{sign}{value} {unit}{plural}").as_bytes());
            negative_before = value < 0;
        };
        part(out, i64::from(self.months / 12), "year");
        part(out, i64::from(self.months % 12), "mon");
        part(out, i64::from(self.days), "day");
        if self.micros == 0 && out.len() > start {
            return;
        }
        if out.len() > start {
            out.push(b' ');
        }
        if self.micros < 0 {
            out.push(b'-');
        } else if negative_before {
            out.push(b'+');
        }
        let micros = self.micros.unsigned_abs();
        let (hours, minutes) = (micros / HOUR as u64, micros / MINUTE as u64 % 60);
        let seconds = micros / SECOND as u64 % 60;
        out.extend_from_slice(format!("{hours:02}:{minutes:02}:{seconds:02}").as_bytes());
        print_fraction(out, (micros % SECOND as u64) as i64);
    }

    /// Reads `1 day 2:03`, `1 year 2 mons ago`, `P1Y2M`, `1-2` (22007, 22008, 22015).
    /// The modifier's fields say what a bare number at the end means.
    pub fn parse(text: &str, typmod: i32) -> SqlResult<Interval> {
        let builder = Builder { fields: fields_of(typmod), ..Builder::default() };
        builder.read(text).map_err(|bad| match bad {
            Bad::Format => SqlError::new(
                SqlState::INVALID_DATETIME_FORMAT,
                format!("invalid input syntax for type interval: \"{text}\""),
            ),
            Bad::Overflow => SqlError::new(
                SqlState::INTERVAL_FIELD_OVERFLOW,
                format!("interval field value out of range: \"{text}\""),
            ),
            Bad::Range => interval_out_of_range(),
        })
    }
}

impl PartialEq for Interval {
    fn eq(&self, other: &Interval) -> bool {
        self.span() == other.span()
    }
}

impl Eq for Interval {}

impl PartialOrd for Interval {
    fn partial_cmp(&self, other: &Interval) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Interval {
    fn cmp(&self, other: &Interval) -> Ordering {
        self.span().cmp(&other.span())
    }
}

enum Bad {
    Format,
    Overflow,
    Range,
}

/// The fields as they are read. Each keeps to its own range, as PostgreSQL's do (22015); that
/// years and months together are too many shows at the end (22008).
#[derive(Default)]
struct Builder {
    years: i32,
    months: i32,
    days: i32,
    micros: i64,
    seen: u32,
    // The fields of the type's modifier.
    fields: i32,
}

// The modifier's bits, as PostgreSQL has them.
const MONTH_BIT: i32 = 1 << 1;
const DAY_BIT: i32 = 1 << 3;
const HOUR_BIT: i32 = 1 << 10;
const MINUTE_BIT: i32 = 1 << 11;
const SECOND_BIT: i32 = 1 << 12;

/// The fields that a modifier names; all if it names none.
fn fields_of(typmod: i32) -> i32 {
    const ALL: i32 = 0x7fff;
    if typmod < 0 { ALL } else { typmod >> 16 & ALL }
}

/// What a number without a unit counts: the least field of the type.
fn bare_unit(fields: i32) -> &'static str {
    match fields {
        f if f & SECOND_BIT != 0 => "second",
        f if f & MINUTE_BIT != 0 => "minute",
        f if f & HOUR_BIT != 0 => "hour",
        f if f & DAY_BIT != 0 => "day",
        f if f & MONTH_BIT != 0 => "month",
        _ => "year",
    }
}

/// Adds to a field of the interval.
fn add<T: TryFrom<i64> + Into<i64> + Copy>(field: &mut T, value: i64) -> Result<(), Bad> {
    let sum = Into::<i64>::into(*field).checked_add(value).ok_or(Bad::Overflow)?;
    *field = T::try_from(sum).map_err(|_| Bad::Overflow)?;
    Ok(())
}

/// A number as written: its whole part and the rest, both with its sign.
#[derive(Clone, Copy)]
struct Number {
    whole: i64,
    fraction: f64,
}

fn number(text: &str) -> Result<Number, Bad> {
    let negative = text.starts_with('-');
    let digits = text.strip_prefix(['+', '-']).unwrap_or(text);
    let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
    let all = |part: &str| part.bytes().all(|byte| byte.is_ascii_digit());
    if whole.len() + fraction.len() == 0 || !all(whole) || !all(fraction) {
        return Err(Bad::Format);
    }
    let sign = if negative { "-" } else { "" };
    let whole = format!("{sign}0{whole}").parse::<i64>().map_err(|_| Bad::Overflow)?;
    let fraction = format!("{sign}0.{fraction}0").parse::<f64>().map_err(|_| Bad::Format)?;
    Ok(Number { whole, fraction })
}

const YEAR: u32 = 1;
const MONTH: u32 = 2;
const DAYS: u32 = 4;
const HOURS: u32 = 8;
const MINUTES: u32 = 16;
const SECONDS: u32 = 32;
const MILLIS: u32 = 64;
const MICROS: u32 = 128;
const LONG: [u32; 4] = [256, 512, 1024, 2048];

impl Builder {
    fn mark(&mut self, unit: u32) -> Result<(), Bad> {
        if self.seen & unit != 0 {
            return Err(Bad::Format);
        }
        self.seen |= unit;
        Ok(())
    }

    fn add_months(&mut self, value: Number) -> Result<(), Bad> {
        add(&mut self.months, value.whole)?;
        let days = value.fraction * 30.0;
        add(&mut self.days, days.trunc() as i64)?;
        self.add_time(days - days.trunc(), DAY)
    }

    fn add_years(&mut self, value: Number, per: i64) -> Result<(), Bad> {
        add(&mut self.years, value.whole.checked_mul(per).ok_or(Bad::Overflow)?)?;
        // Less than a whole unit of a thousand years at most.
        let months = (value.fraction * per as f64 * 12.0).round_ties_even() as i64;
        add(&mut self.months, months)
    }

    fn add_days(&mut self, value: Number, per: i64) -> Result<(), Bad> {
        add(&mut self.days, value.whole.checked_mul(per).ok_or(Bad::Overflow)?)?;
        let extra = value.fraction * per as f64;
        add(&mut self.days, extra.trunc() as i64)?;
        self.add_time(extra - extra.trunc(), DAY)
    }

    fn add_time(&mut self, fraction: f64, unit: i64) -> Result<(), Bad> {
        add(&mut self.micros, (fraction * unit as f64).round_ties_even() as i64)
    }

    fn add_micros(&mut self, value: Number, unit: i64) -> Result<(), Bad> {
        add(&mut self.micros, value.whole.checked_mul(unit).ok_or(Bad::Overflow)?)?;
        self.add_time(value.fraction, unit)
    }

    fn unit(&mut self, value: Number, unit: &str) -> Result<(), Bad> {
        match unit {
            "year" | "years" | "yr" | "yrs" | "y" => {
                self.mark(YEAR)?;
                self.add_years(value, 1)
            }
            "month" | "months" | "mon" | "mons" => {
                self.mark(MONTH)?;
                self.add_months(value)
            }
            "decade" | "decades" | "dec" | "decs" => {
                self.mark(LONG[0])?;
                self.add_years(value, 10)
            }
            "century" | "centuries" | "c" | "cent" => {
                self.mark(LONG[1])?;
                self.add_years(value, 100)
            }
            "millennium" | "millennia" | "mil" | "mils" => {
                self.mark(LONG[2])?;
                self.add_years(value, 1000)
            }
            "week" | "weeks" | "w" => {
                self.mark(LONG[3])?;
                self.add_days(value, 7)
            }
            "day" | "days" | "d" => {
                self.mark(DAYS)?;
                self.add_days(value, 1)
            }
            "hour" | "hours" | "hr" | "hrs" | "h" => {
                self.mark(HOURS)?;
                self.add_micros(value, HOUR)
            }
            "minute" | "minutes" | "min" | "mins" | "m" => {
                self.mark(MINUTES)?;
                self.add_micros(value, MINUTE)
            }
            "second" | "seconds" | "sec" | "secs" | "s" => {
                let below = if value.fraction == 0.0 { 0 } else { MILLIS | MICROS };
                self.mark(SECONDS | below)?;
                self.add_micros(value, SECOND)
            }
            "millisecond" | "milliseconds" | "msec" | "msecs" | "ms" => {
                self.mark(MILLIS)?;
                self.add_micros(value, 1000)
            }
            "microsecond" | "microseconds" | "usec" | "usecs" | "us" => {
                self.mark(MICROS)?;
                self.add_micros(value, 1)
            }
            _ => Err(Bad::Format),
        }
    }

    fn read(mut self, text: &str) -> Result<Interval, Bad> {
        let lower = text.trim().to_ascii_lowercase();
        let ago = lower.ends_with(" ago");
        let body = lower.strip_suffix(" ago").unwrap_or(&lower);
        let body = body.strip_prefix('@').unwrap_or(body).trim();
        if let Some(iso) = body.strip_prefix('p').filter(|rest| !rest.is_empty()) {
            self.read_iso(iso)?;
        } else {
            self.read_words(body)?;
        }
        if ago {
            self.negate().ok_or(Bad::Overflow)?;
        }
        let months = i64::from(self.years) * 12 + i64::from(self.months);
        let months = i32::try_from(months).map_err(|_| Bad::Range)?;
        Ok(Interval { months, days: self.days, micros: self.micros })
    }

    fn negate(&mut self) -> Option<()> {
        self.years = self.years.checked_neg()?;
        self.months = self.months.checked_neg()?;
        self.days = self.days.checked_neg()?;
        self.micros = self.micros.checked_neg()?;
        Some(())
    }

    fn read_words(&mut self, body: &str) -> Result<(), Bad> {
        let words = split_words(body);
        if words.is_empty() {
            return Err(Bad::Format);
        }
        let mut index = 0;
        while index < words.len() {
            let word = words[index];
            index += 1;
            if word.contains(':') {
                self.mark(HOURS | MINUTES | SECONDS | MILLIS | MICROS)?;
                self.clock(word)?;
            } else if let Some((years, months)) = year_month(word) {
                self.mark(YEAR | MONTH)?;
                add(&mut self.years, years)?;
                add(&mut self.months, months)?;
            } else {
                let value = number(word)?;
                match words.get(index) {
                    Some(unit) if unit.as_bytes()[0].is_ascii_alphabetic() => {
                        self.unit(value, unit)?;
                        index += 1;
                    }
                    Some(_) => self.unit(value, "day")?,
                    None => self.unit(value, bare_unit(self.fields))?,
                }
            }
        }
        Ok(())
    }

    /// `[-]hh:mm[:ss[.f]]`, or `mm:ss` where there is a fraction or the type has no hours.
    fn clock(&mut self, word: &str) -> Result<(), Bad> {
        let negative = word.starts_with('-');
        let parts: Vec<&str> = word.trim_start_matches(['+', '-']).split(':').collect();
        let mut total = 0i64;
        let units: [i64; 3] = match parts.as_slice() {
            [_, second] if second.contains('.') || self.fields == MINUTE_BIT | SECOND_BIT => {
                [MINUTE, SECOND, 0]
            }
            [_, _] | [_, _, _] => [HOUR, MINUTE, SECOND],
            _ => return Err(Bad::Format),
        };
        for (index, (part, unit)) in parts.iter().zip(units).enumerate() {
            let value = number(part)?;
            if index > 0 && value.whole > 59 + i64::from(index == 2) {
                return Err(Bad::Overflow);
            }
            add(&mut total, value.whole.checked_mul(unit).ok_or(Bad::Overflow)?)?;
            add(&mut total, (value.fraction * unit as f64).round_ties_even() as i64)?;
        }
        let total = if negative { total.checked_neg() } else { Some(total) };
        add(&mut self.micros, total.ok_or(Bad::Overflow)?)
    }

    /// ISO 8601 after the P: `1Y2M3DT4H5M6S`, `1W`.
    fn read_iso(&mut self, body: &str) -> Result<(), Bad> {
        let mut time = false;
        let mut rest = body;
        while !rest.is_empty() {
            if let Some(after) = rest.strip_prefix('t') {
                time = true;
                rest = after;
                continue;
            }
            let end = rest.find(|c: char| c.is_ascii_alphabetic()).ok_or(Bad::Format)?;
            let value = number(&rest[..end])?;
            let unit = match (rest.as_bytes()[end], time) {
                (b'y', false) => "year",
                (b'm', false) => "month",
                (b'w', false) => "week",
                (b'd', false) => "day",
                (b'h', true) => "hour",
                (b'm', true) => "minute",
                (b's', true) => "second",
                _ => return Err(Bad::Format),
            };
            self.unit(value, unit)?;
            rest = &rest[end + 1..];
        }
        Ok(())
    }
}

fn year_month(word: &str) -> Option<(i64, i64)> {
    let negative = word.starts_with('-');
    let (years, months) = word.trim_start_matches(['+', '-']).split_once('-')?;
    let (years, months) = (years.parse::<i32>().ok()?, months.parse::<i32>().ok()?);
    let sign = if negative { -1 } else { 1 };
    ((0..12).contains(&months)).then(|| (i64::from(years) * sign, i64::from(months) * sign))
}

/// Splits at blanks and between a number and its unit.
fn split_words(body: &str) -> Vec<&str> {
    let mut words = Vec::new();
    for word in body.split(|c: char| c.is_ascii_whitespace() || c == ',') {
        let mut start = 0;
        let bytes = word.as_bytes();
        for index in 1..bytes.len() {
            if bytes[index].is_ascii_alphabetic() != bytes[index - 1].is_ascii_alphabetic() {
                words.push(&word[start..index]);
                start = index;
            }
        }
        if start < bytes.len() {
            words.push(&word[start..]);
        }
    }
    words
}
