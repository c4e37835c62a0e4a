//! Dates, times and time zones: calendar arithmetic, printing and reading.
//!
//! Invariants: a date is days, a timestamp microseconds since 2000-01-01 (proleptic Gregorian);
//! the smallest and largest numbers are -infinity and infinity; finite values lie within
//! PostgreSQL's range, 4713 BC to 294276 AD (dates to 5874897 AD).

mod parse;
mod print;
mod zone;

use crate::error::{SqlError, SqlState};

pub use parse::{parse_date, parse_time, parse_timestamp, parse_timestamptz};
pub(crate) use print::write_fraction as print_fraction;
pub use print::{write_date, write_time, write_timestamp, write_timestamptz};
pub use zone::TimeZone;

/// Microseconds of a second.
pub const SECOND: i64 = 1_000_000;
/// Microseconds of a minute.
pub const MINUTE: i64 = 60 * SECOND;
/// Microseconds of an hour.
pub const HOUR: i64 = 60 * MINUTE;
/// Microseconds of a day.
pub const DAY: i64 = 24 * HOUR;
/// Days from 1970-01-01 to 2000-01-01.
pub const UNIX_DAYS: i64 = 10_957;
/// The julian day of 2000-01-01.
pub const JULIAN_2000: i64 = 2_451_545;

/// The smallest finite timestamp, 4713-11-24 BC.
const TIMESTAMP_MIN: i64 = -211_813_488_000_000_000;
/// The first timestamp that is out of range, 294277-01-01.
const TIMESTAMP_END: i64 = 9_223_371_331_200_000_000;
/// The smallest finite date.
const DATE_MIN: i64 = -JULIAN_2000;
/// The first date out of range, 5874898-01-01.
const DATE_END: i64 = 2_147_483_494 - JULIAN_2000;

/// `infinity` as a date.
pub const DATE_INFINITY: i32 = i32::MAX;
/// `-infinity` as a date.
pub const DATE_NEGATIVE_INFINITY: i32 = i32::MIN;
/// `infinity` as a timestamp.
pub const TIMESTAMP_INFINITY: i64 = i64::MAX;
/// `-infinity` as a timestamp.
pub const TIMESTAMP_NEGATIVE_INFINITY: i64 = i64::MIN;

/// Is the timestamp a point in time, not an infinity?
pub const fn is_finite(micros: i64) -> bool {
    micros != TIMESTAMP_INFINITY && micros != TIMESTAMP_NEGATIVE_INFINITY
}

/// Is the date a day, not an infinity?
pub const fn is_finite_date(days: i32) -> bool {
    days != DATE_INFINITY && days != DATE_NEGATIVE_INFINITY
}

/// A day and a time of day, in the calendar.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Civil {
    /// Astronomical year: 0 is 1 BC.
    pub year: i64,
    /// 1 to 12.
    pub month: i64,
    /// 1 to 31.
    pub day: i64,
    /// Microseconds since midnight.
    pub micros: i64,
}

/// Days since 2000-01-01 of a calendar day.
pub const fn days_from_civil(year: i64, month: i64, day: i64) -> i64 {
    let year = if month <= 2 { year - 1 } else { year };
    let era = year.div_euclid(400);
    let year_of_era = year - era * 400;
    let day_of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    let day_of_era = year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year;
    era * 146_097 + day_of_era - 719_468 - UNIX_DAYS
}

/// Year, month and day of days since 2000-01-01.
pub const fn civil_from_days(days: i64) -> (i64, i64, i64) {
    let days = days + UNIX_DAYS + 719_468;
    let era = days.div_euclid(146_097);
    let day_of_era = days - era * 146_097;
    let year_of_era =
        (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * shifted + 2) / 5 + 1;
    let month = if shifted < 10 { shifted + 3 } else { shifted - 9 };
    let year = year_of_era + era * 400;
    (if month <= 2 { year + 1 } else { year }, month, day)
}

/// Days of a month.
pub const fn days_in_month(year: i64, month: i64) -> i64 {
    match month {
        2 if is_leap(year) => 29,
        2 => 28,
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
}

/// Has the year 366 days?
pub const fn is_leap(year: i64) -> bool {
    year % 4 == 0 && (year % 100 != 0 || year % 400 == 0)
}

/// Day of the week, 0 = Sunday.
pub const fn weekday(days: i64) -> i64 {
    (days + 6).rem_euclid(7)
}

impl Civil {
    /// The calendar form of a finite timestamp.
    pub const fn from_micros(micros: i64) -> Civil {
        let (days, rest) = (micros.div_euclid(DAY), micros.rem_euclid(DAY));
        let (year, month, day) = civil_from_days(days);
        Civil { year, month, day, micros: rest }
    }

    /// The timestamp, None out of range.
    pub fn to_micros(self) -> Option<i64> {
        let days = days_from_civil(self.year, self.month, self.day);
        check_timestamp(days.checked_mul(DAY)?.checked_add(self.micros)?)
    }
}

/// The timestamp if it is within the range.
pub fn check_timestamp(micros: i64) -> Option<i64> {
    (TIMESTAMP_MIN..TIMESTAMP_END).contains(&micros).then_some(micros)
}

/// The date if it is within the range.
pub fn check_date(days: i64) -> Option<i32> {
    (DATE_MIN..DATE_END).contains(&days).then_some(days as i32)
}

/// `timestamp out of range` (22008).
#[cold]
pub fn timestamp_out_of_range() -> SqlError {
    SqlError::new(SqlState::DATETIME_FIELD_OVERFLOW, "timestamp out of range")
}

/// `date out of range` (22008).
#[cold]
pub fn date_out_of_range() -> SqlError {
    SqlError::new(SqlState::DATETIME_FIELD_OVERFLOW, "date out of range")
}

/// A local timestamp in a zone, as UTC.
pub fn local_to_utc(local: i64, zone: &TimeZone) -> Result<i64, SqlError> {
    if !is_finite(local) {
        return Ok(local);
    }
    let offset = i64::from(zone.offset_of_local(local)) * SECOND;
    local.checked_sub(offset).and_then(check_timestamp).ok_or_else(timestamp_out_of_range)
}

/// A UTC timestamp as local time in a zone.
pub fn utc_to_local(utc: i64, zone: &TimeZone) -> Result<i64, SqlError> {
    if !is_finite(utc) {
        return Ok(utc);
    }
    let offset = i64::from(zone.offset_of_utc(utc)) * SECOND;
    utc.checked_add(offset).and_then(check_timestamp).ok_or_else(timestamp_out_of_range)
}

#[cfg(test)]
mod tests;
