//! extract, date_part and date_trunc.
//!
//! Invariants: extract answers numeric, date_part float8, of the same field. Unknown units are
//! 22023, units that the type does not have 0A000.

use super::FunctionContext;
use crate::error::{SqlError, SqlResult, SqlState};
use crate::types::datetime::{
    Civil, DAY, HOUR, JULIAN_2000, MINUTE, SECOND, UNIX_DAYS, check_timestamp, civil_from_days,
    days_from_civil, is_finite, is_finite_date, local_to_utc, timestamp_out_of_range, utc_to_local,
    weekday,
};
use crate::types::{Datum, Interval, Numeric, TypeOid};

type Context<'a> = &'a dyn FunctionContext;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Unit {
    Microsecond,
    Millisecond,
    Second,
    Minute,
    Hour,
    Day,
    Week,
    Month,
    Quarter,
    Year,
    Decade,
    Century,
    Millennium,
    IsoYear,
    WeekDay,
    IsoWeekDay,
    YearDay,
    Julian,
    Epoch,
    Zone,
    ZoneHour,
    ZoneMinute,
}

fn unit(text: &str, ty: TypeOid) -> SqlResult<Unit> {
    let lower = text.to_lowercase();
    Ok(match lower.as_str() {
        "microseconds" | "microsecond" | "us" | "usec" | "usecs" | "usecond" | "useconds" => {
            Unit::Microsecond
        }
        "milliseconds" | "millisecond" | "ms" | "msec" | "msecs" | "msecond" | "mseconds" => {
            Unit::Millisecond
        }
        "second" | "seconds" | "sec" | "secs" | "s" => Unit::Second,
        "minute" | "minutes" | "min" | "mins" | "m" => Unit::Minute,
        "hour" | "hours" | "hr" | "hrs" | "h" => Unit::Hour,
        "day" | "days" | "d" => Unit::Day,
        "week" | "weeks" | "w" => Unit::Week,
        "month" | "months" | "mon" | "mons" => Unit::Month,
        "quarter" | "qtr" => Unit::Quarter,
        "year" | "years" | "yr" | "yrs" | "y" => Unit::Year,
        "decade" | "decades" | "dec" | "decs" => Unit::Decade,
        "century" | "centuries" | "c" | "cent" => Unit::Century,
        "millennium" | "millennia" | "mil" | "mils" => Unit::Millennium,
        "isoyear" => Unit::IsoYear,
        "dow" => Unit::WeekDay,
        "isodow" => Unit::IsoWeekDay,
        "doy" => Unit::YearDay,
        "julian" | "jd" | "j" => Unit::Julian,
        "epoch" => Unit::Epoch,
        "timezone" => Unit::Zone,
        "timezone_hour" | "timezone_h" => Unit::ZoneHour,
        "timezone_minute" | "timezone_m" => Unit::ZoneMinute,
        _ => return Err(not_recognized(&lower, ty)),
    })
}

fn not_recognized(text: &str, ty: TypeOid) -> SqlError {
    SqlError::new(
        SqlState::INVALID_PARAMETER_VALUE,
        format!("unit \"{}\" not recognized for type {ty}", text.to_lowercase()),
    )
}

fn not_supported(text: &str, ty: TypeOid) -> SqlError {
    SqlError::not_supported_message(format!(
        "unit \"{}\" not supported for type {ty}",
        text.to_lowercase()
    ))
}

/// A field as an exact number, or infinite; None is NULL.
enum Field {
    /// mantissa / 10^scale
    Exact(i128, u16),
    Number(Numeric),
    Infinite(bool),
    Null,
}

impl Field {
    fn numeric(self) -> Datum {
        match self {
            Field::Exact(mantissa, scale) => Numeric::scaled(mantissa, scale).into(),
            Field::Number(value) => value.into(),
            Field::Infinite(true) => Numeric::INFINITY.into(),
            Field::Infinite(false) => Numeric::NEGATIVE_INFINITY.into(),
            Field::Null => Datum::Null,
        }
    }

    fn float(self) -> SqlResult<Datum> {
        Ok(match self {
            Field::Exact(mantissa, scale) => {
                Datum::Float8(mantissa as f64 / 10f64.powi(i32::from(scale)))
            }
            Field::Number(value) => Datum::Float8(value.to_f64()?),
            Field::Infinite(true) => Datum::Float8(f64::INFINITY),
            Field::Infinite(false) => Datum::Float8(f64::NEG_INFINITY),
            Field::Null => Datum::Null,
        })
    }
}

const fn whole(value: i64) -> Field {
    Field::Exact(value as i128, 0)
}

/// ISO 8601 week and its year.
pub(in crate::functions) fn iso_week(days: i64, year: i64) -> (i64, i64) {
    let start = |year: i64| {
        let fourth = days_from_civil(year, 1, 4);
        fourth - (weekday(fourth) + 6) % 7
    };
    let year = if days < start(year) {
        year - 1
    } else if days >= start(year + 1) {
        year + 1
    } else {
        year
    };
    ((days - start(year)) / 7 + 1, year)
}

/// Years count from 1; there is no year 0.
const fn shown_year(year: i64) -> i64 {
    if year > 0 { year } else { year - 1 }
}

fn century(year: i64, length: i64) -> i64 {
    if year > 0 { (year + length - 1) / length } else { -((length - 1 - (year - 1)) / length) }
}

fn calendar_field(unit: Unit, micros: i64) -> Option<Field> {
    match unit {
        Unit::Epoch => {
            Some(Field::Exact(i128::from(micros) + i128::from(UNIX_DAYS) * i128::from(DAY), 6))
        }
        other => day_field(other, micros.div_euclid(DAY), micros.rem_euclid(DAY)),
    }
}

/// The field of a day and the time in it: dates go beyond the timestamps.
fn day_field(unit: Unit, days: i64, micros: i64) -> Option<Field> {
    let (year, month, day) = civil_from_days(days);
    let civil = Civil { year, month, day, micros };
    Some(match unit {
        Unit::Microsecond => whole(civil.micros % MINUTE),
        Unit::Millisecond => Field::Exact(i128::from(civil.micros % MINUTE), 3),
        Unit::Second => Field::Exact(i128::from(civil.micros % MINUTE), 6),
        Unit::Minute => whole(civil.micros / MINUTE % 60),
        Unit::Hour => whole(civil.micros / HOUR),
        Unit::Day => whole(civil.day),
        Unit::Week => whole(iso_week(days, civil.year).0),
        Unit::Month => whole(civil.month),
        Unit::Quarter => whole((civil.month - 1) / 3 + 1),
        Unit::Year => whole(shown_year(civil.year)),
        Unit::Decade => whole(civil.year.div_euclid(10)),
        Unit::Century => whole(century(civil.year, 100)),
        Unit::Millennium => whole(century(civil.year, 1000)),
        Unit::IsoYear => whole(shown_year(iso_week(days, civil.year).1)),
        Unit::WeekDay => whole(weekday(days)),
        Unit::IsoWeekDay => whole((weekday(days) + 6) % 7 + 1),
        Unit::YearDay => whole(days - days_from_civil(civil.year, 1, 1) + 1),
        Unit::Julian => {
            let fraction = Numeric::from(civil.micros).div(&Numeric::from(DAY)).ok()?;
            Field::Number(Numeric::from(days + JULIAN_2000).add(&fraction).ok()?)
        }
        Unit::Epoch | Unit::Zone | Unit::ZoneHour | Unit::ZoneMinute => return None,
    })
}

fn infinite_field(unit: Unit, positive: bool) -> Field {
    match unit {
        Unit::Year
        | Unit::Decade
        | Unit::Century
        | Unit::Millennium
        | Unit::IsoYear
        | Unit::Julian
        | Unit::Epoch => Field::Infinite(positive),
        _ => Field::Null,
    }
}

fn interval_field(unit: Unit, span: &Interval) -> Option<Field> {
    let (years, months) = (i64::from(span.months / 12), i64::from(span.months % 12));
    Some(match unit {
        Unit::Microsecond => whole(span.micros % MINUTE),
        Unit::Millisecond => Field::Exact(i128::from(span.micros % MINUTE), 3),
        Unit::Second => Field::Exact(i128::from(span.micros % MINUTE), 6),
        Unit::Minute => whole(span.micros / MINUTE % 60),
        Unit::Hour => whole(span.micros / HOUR),
        Unit::Day => whole(i64::from(span.days)),
        Unit::Month => whole(months),
        Unit::Quarter => whole(months / 3 + 1),
        Unit::Year => whole(years),
        Unit::Decade => whole(years / 10),
        Unit::Century => whole(years / 100),
        Unit::Millennium => whole(years / 1000),
        Unit::Epoch => {
            // A year has 365.25 days here, a month 30.
            let quarter_days = years * 1461 + (months * 30 + i64::from(span.days)) * 4;
            let micros = i128::from(quarter_days) * i128::from(DAY / 4) + i128::from(span.micros);
            Field::Exact(micros, 6)
        }
        _ => return None,
    })
}

fn time_field(unit: Unit, micros: i64) -> Option<Field> {
    Some(match unit {
        Unit::Microsecond => whole(micros % MINUTE),
        Unit::Millisecond => Field::Exact(i128::from(micros % MINUTE), 3),
        Unit::Second => Field::Exact(i128::from(micros % MINUTE), 6),
        Unit::Minute => whole(micros / MINUTE % 60),
        Unit::Hour => whole(micros / HOUR),
        Unit::Epoch => Field::Exact(i128::from(micros), 6),
        _ => return None,
    })
}

fn field(args: &[Datum], context: Context) -> SqlResult<Field> {
    let text = args[0].as_str();
    let (ty, found) = match &args[1] {
        Datum::Date(days) => {
            let unit = unit(text, TypeOid::DATE)?;
            let of_time = matches!(
                unit,
                Unit::Microsecond
                    | Unit::Millisecond
                    | Unit::Second
                    | Unit::Minute
                    | Unit::Hour
                    | Unit::Zone
                    | Unit::ZoneHour
                    | Unit::ZoneMinute
            );
            let found = match unit {
                _ if of_time => None,
                _ if !is_finite_date(*days) => Some(infinite_field(unit, *days > 0)),
                Unit::Epoch => Some(whole((i64::from(*days) + UNIX_DAYS) * 86_400)),
                Unit::Julian => Some(whole(i64::from(*days) + JULIAN_2000)),
                other => day_field(other, i64::from(*days), 0),
            };
            (TypeOid::DATE, found)
        }
        Datum::Timestamp(micros) => {
            let unit = unit(text, TypeOid::TIMESTAMP)?;
            let found = if is_finite(*micros) {
                calendar_field(unit, *micros)
            } else {
                Some(infinite_field(unit, *micros > 0))
            };
            (TypeOid::TIMESTAMP, found)
        }
        Datum::Timestamptz(utc) => (TypeOid::TIMESTAMPTZ, Some(zoned_field(text, *utc, context)?)),
        Datum::Time(micros) => (TypeOid::TIME, time_field(unit(text, TypeOid::TIME)?, *micros)),
        other => {
            let unit = unit(text, TypeOid::INTERVAL)?;
            (TypeOid::INTERVAL, interval_field(unit, other.as_interval()))
        }
    };
    found.ok_or_else(|| not_supported(text, ty))
}

fn zoned_field(text: &str, utc: i64, context: Context) -> SqlResult<Field> {
    let unit = unit(text, TypeOid::TIMESTAMPTZ)?;
    if !is_finite(utc) {
        return Ok(infinite_field(unit, utc > 0));
    }
    let zone = context.time_zone();
    let offset = i64::from(zone.offset_of_utc(utc));
    Ok(match unit {
        Unit::Zone => whole(offset),
        Unit::ZoneHour => whole(offset / 3600),
        Unit::ZoneMinute => whole(offset / 60 % 60),
        Unit::Epoch => calendar_field(unit, utc).unwrap_or(Field::Null),
        other => calendar_field(other, utc_to_local(utc, &zone)?).unwrap_or(Field::Null),
    })
}

/// `extract(unit from value)`.
pub(in crate::functions) fn extract(args: &[Datum], context: Context) -> SqlResult<Datum> {
    field(args, context).map(Field::numeric)
}

/// `date_part(unit, value)`.
pub(in crate::functions) fn date_part(args: &[Datum], context: Context) -> SqlResult<Datum> {
    // A date is a timestamp here, unlike in extract.
    if let Datum::Date(days) = &args[1] {
        let midnight = Datum::Timestamp(super::datetime::date_to_micros(*days)?);
        return field(&[args[0].clone(), midnight], context)?.float();
    }
    field(args, context)?.float()
}

fn truncate(unit: Unit, micros: i64) -> Option<i64> {
    let civil = Civil::from_micros(micros);
    let day = |year: i64, month: i64| Some(days_from_civil(year, month, 1) * DAY);
    match unit {
        Unit::Microsecond => Some(micros),
        Unit::Millisecond => Some(micros - micros.rem_euclid(1000)),
        Unit::Second => Some(micros - micros.rem_euclid(SECOND)),
        Unit::Minute => Some(micros - micros.rem_euclid(MINUTE)),
        Unit::Hour => Some(micros - micros.rem_euclid(HOUR)),
        Unit::Day => Some(micros - micros.rem_euclid(DAY)),
        Unit::Week => {
            let days = micros.div_euclid(DAY);
            Some((days - (weekday(days) + 6) % 7) * DAY)
        }
        Unit::Month => day(civil.year, civil.month),
        Unit::Quarter => day(civil.year, (civil.month - 1) / 3 * 3 + 1),
        Unit::Year => day(civil.year, 1),
        Unit::Decade => day(civil.year.div_euclid(10) * 10, 1),
        Unit::Century => day((civil.year - 1).div_euclid(100) * 100 + 1, 1),
        Unit::Millennium => day((civil.year - 1).div_euclid(1000) * 1000 + 1, 1),
        _ => None,
    }
}

/// What date_trunc knows as a unit: the names of single fields are none.
fn trunc_unit(text: &str, ty: TypeOid) -> SqlResult<Unit> {
    let found = unit(text, ty)?;
    match found {
        Unit::IsoYear
        | Unit::WeekDay
        | Unit::IsoWeekDay
        | Unit::YearDay
        | Unit::Julian
        | Unit::Epoch => Err(not_recognized(text, ty)),
        _ => Ok(found),
    }
}

/// `date_trunc(unit, value [, zone])`.
pub(in crate::functions) fn date_trunc(args: &[Datum], context: Context) -> SqlResult<Datum> {
    let text = args[0].as_str();
    match &args[1] {
        Datum::Timestamp(micros) => {
            if !is_finite(*micros) {
                return Ok(args[1].clone());
            }
            let unit = trunc_unit(text, TypeOid::TIMESTAMP)?;
            let cut =
                truncate(unit, *micros).ok_or_else(|| not_supported(text, TypeOid::TIMESTAMP))?;
            // The century of the first days begins before them.
            check_timestamp(cut).map(Datum::Timestamp).ok_or_else(timestamp_out_of_range)
        }
        Datum::Timestamptz(utc) => {
            if !is_finite(*utc) {
                return Ok(args[1].clone());
            }
            let unit = trunc_unit(text, TypeOid::TIMESTAMPTZ)?;
            let zone = match args.get(2) {
                Some(name) => super::datetime::zone(name.as_str())?,
                None => context.time_zone(),
            };
            let local = truncate(unit, utc_to_local(*utc, &zone)?)
                .ok_or_else(|| not_supported(text, TypeOid::TIMESTAMPTZ))?;
            // Below a day the offset stays what it was, even in a fold.
            if matches!(
                unit,
                Unit::Microsecond | Unit::Millisecond | Unit::Second | Unit::Minute | Unit::Hour
            ) {
                let offset = i64::from(zone.offset_of_utc(*utc)) * SECOND;
                return Ok(Datum::Timestamptz(local - offset));
            }
            local_to_utc(local, &zone).map(Datum::Timestamptz)
        }
        other => truncate_interval(trunc_unit(text, TypeOid::INTERVAL)?, other.as_interval())
            .map(Datum::from)
            .ok_or_else(|| not_supported(text, TypeOid::INTERVAL)),
    }
}

fn truncate_interval(unit: Unit, span: &Interval) -> Option<Interval> {
    let months =
        |unit: i32| Some(Interval { months: span.months / unit * unit, days: 0, micros: 0 });
    let micros = |unit: i64| Some(Interval { micros: span.micros / unit * unit, ..*span });
    match unit {
        Unit::Microsecond => Some(*span),
        Unit::Millisecond => micros(1000),
        Unit::Second => micros(SECOND),
        Unit::Minute => micros(MINUTE),
        Unit::Hour => micros(HOUR),
        Unit::Day => Some(Interval { micros: 0, ..*span }),
        Unit::Month => months(1),
        Unit::Quarter => months(3),
        Unit::Year => months(12),
        Unit::Decade => months(120),
        Unit::Century => months(1200),
        Unit::Millennium => months(12_000),
        _ => None,
    }
}
