//! Date and time arithmetic, constructors and conversions.
//!
//! Invariants: infinities stay infinite; results out of range are 22008. What depends on the
//! session's zone takes it from the context.

use super::FunctionContext;
use super::float::fast_next;
use crate::error::{SqlError, SqlResult, SqlState};
use crate::types::datetime::{
    Civil, DATE_INFINITY, DATE_NEGATIVE_INFINITY, DAY, HOUR, MINUTE, SECOND, TIMESTAMP_INFINITY,
    TIMESTAMP_NEGATIVE_INFINITY, TimeZone, UNIX_DAYS, check_date, check_timestamp,
    date_out_of_range, days_from_civil, days_in_month, is_finite, is_finite_date, local_to_utc,
    timestamp_out_of_range, utc_to_local,
};
use crate::types::{Datum, Interval, Text, interval_out_of_range};

type Context<'a> = &'a dyn FunctionContext;

fn overflow(message: impl Into<String>) -> SqlError {
    SqlError::new(SqlState::DATETIME_FIELD_OVERFLOW, message)
}

/// A date as local midnight.
pub(in crate::functions) fn date_to_micros(days: i32) -> SqlResult<i64> {
    match days {
        DATE_INFINITY => Ok(TIMESTAMP_INFINITY),
        DATE_NEGATIVE_INFINITY => Ok(TIMESTAMP_NEGATIVE_INFINITY),
        _ => i64::from(days)
            .checked_mul(DAY)
            .and_then(check_timestamp)
            .ok_or_else(|| overflow("date out of range for timestamp")),
    }
}

fn micros_to_date(micros: i64) -> i32 {
    match micros {
        TIMESTAMP_INFINITY => DATE_INFINITY,
        TIMESTAMP_NEGATIVE_INFINITY => DATE_NEGATIVE_INFINITY,
        _ => micros.div_euclid(DAY) as i32,
    }
}

/// timestamp + interval: months (with the day clipped), days, then time.
pub(in crate::functions) fn add_local(micros: i64, span: &Interval) -> SqlResult<i64> {
    if !is_finite(micros) {
        return Ok(micros);
    }
    let days = add_calendar(micros, span)?;
    days.checked_add(span.micros).and_then(check_timestamp).ok_or_else(timestamp_out_of_range)
}

fn add_calendar(micros: i64, span: &Interval) -> SqlResult<i64> {
    let mut local = micros;
    if span.months != 0 {
        let civil = Civil::from_micros(local);
        let months = civil.year * 12 + civil.month - 1 + i64::from(span.months);
        let (year, month) = (months.div_euclid(12), months.rem_euclid(12) + 1);
        let day = civil.day.min(days_in_month(year, month));
        local = Civil { year, month, day, micros: civil.micros }
            .to_micros()
            .ok_or_else(timestamp_out_of_range)?;
    }
    let shift = i64::from(span.days).checked_mul(DAY).ok_or_else(timestamp_out_of_range)?;
    local.checked_add(shift).and_then(check_timestamp).ok_or_else(timestamp_out_of_range)
}

/// timestamptz + interval: calendar parts in the session's zone, time in UTC.
pub(in crate::functions) fn add_zoned(
    utc: i64,
    span: &Interval,
    zone: &TimeZone,
) -> SqlResult<i64> {
    if !is_finite(utc) {
        return Ok(utc);
    }
    let mut moved = utc;
    if span.months != 0 || span.days != 0 {
        moved = local_to_utc(add_calendar(utc_to_local(utc, zone)?, span)?, zone)?;
    }
    moved.checked_add(span.micros).and_then(check_timestamp).ok_or_else(timestamp_out_of_range)
}

pub(in crate::functions) fn timestamp_add(args: &[Datum], _: Context) -> SqlResult<Datum> {
    let micros = match &args[0] {
        Datum::Date(days) => date_to_micros(*days)?,
        other => other.as_micros(),
    };
    add_local(micros, args[1].as_interval()).map(Datum::Timestamp)
}

pub(in crate::functions) fn timestamp_subtract_interval(
    args: &[Datum],
    context: Context,
) -> SqlResult<Datum> {
    timestamp_add(&[args[0].clone(), args[1].as_interval().neg()?.into()], context)
}

pub(in crate::functions) fn timestamptz_add(args: &[Datum], context: Context) -> SqlResult<Datum> {
    add_zoned(args[0].as_micros(), args[1].as_interval(), &context.time_zone())
        .map(Datum::Timestamptz)
}

pub(in crate::functions) fn timestamptz_subtract_interval(
    args: &[Datum],
    context: Context,
) -> SqlResult<Datum> {
    timestamptz_add(&[args[0].clone(), args[1].as_interval().neg()?.into()], context)
}

/// interval + timestamp and its kin: the sides swapped.
pub(in crate::functions) fn interval_add_timestamp(
    args: &[Datum],
    context: Context,
) -> SqlResult<Datum> {
    timestamp_add(&[args[1].clone(), args[0].clone()], context)
}

pub(in crate::functions) fn interval_add_timestamptz(
    args: &[Datum],
    context: Context,
) -> SqlResult<Datum> {
    timestamptz_add(&[args[1].clone(), args[0].clone()], context)
}

/// timestamp - timestamp: days and time.
pub(in crate::functions) fn subtract(args: &[Datum], _: Context) -> SqlResult<Datum> {
    let (left, right) = (args[0].as_micros(), args[1].as_micros());
    if !is_finite(left) || !is_finite(right) {
        return Err(overflow("cannot subtract infinite timestamps"));
    }
    let micros = left.checked_sub(right).ok_or_else(interval_out_of_range)?;
    Ok(Interval { months: 0, days: (micros / DAY) as i32, micros: micros % DAY }.into())
}

pub(in crate::functions) fn date_add(args: &[Datum], _: Context) -> SqlResult<Datum> {
    shift_date(args[0].as_days(), i64::from(args[1].as_i32()))
}

pub(in crate::functions) fn date_add_reversed(args: &[Datum], _: Context) -> SqlResult<Datum> {
    shift_date(args[1].as_days(), i64::from(args[0].as_i32()))
}

pub(in crate::functions) fn date_subtract_days(args: &[Datum], _: Context) -> SqlResult<Datum> {
    shift_date(args[0].as_days(), -i64::from(args[1].as_i32()))
}

fn shift_date(days: i32, by: i64) -> SqlResult<Datum> {
    if !is_finite_date(days) {
        return Ok(Datum::Date(days));
    }
    check_date(i64::from(days) + by).map(Datum::Date).ok_or_else(date_out_of_range)
}

pub(in crate::functions) fn date_subtract(args: &[Datum], _: Context) -> SqlResult<Datum> {
    let (left, right) = (args[0].as_days(), args[1].as_days());
    if !is_finite_date(left) || !is_finite_date(right) {
        return Err(overflow("cannot subtract infinite dates"));
    }
    Ok(Datum::Int4(left - right))
}

/// date + time.
pub(in crate::functions) fn date_add_time(args: &[Datum], _: Context) -> SqlResult<Datum> {
    let (date, time) = match &args[0] {
        Datum::Date(days) => (*days, args[1].as_micros()),
        other => (args[1].as_days(), other.as_micros()),
    };
    let midnight = date_to_micros(date)?;
    Ok(Datum::Timestamp(if is_finite(midnight) { midnight + time } else { midnight }))
}

pub(in crate::functions) fn time_add(args: &[Datum], _: Context) -> SqlResult<Datum> {
    let (time, span) = match &args[0] {
        Datum::Time(time) => (*time, args[1].as_interval().micros),
        other => (args[1].as_micros(), other.as_interval().micros),
    };
    Ok(Datum::Time((time + span % DAY).rem_euclid(DAY)))
}

pub(in crate::functions) fn time_subtract_interval(args: &[Datum], _: Context) -> SqlResult<Datum> {
    let span = args[1].as_interval().micros;
    Ok(Datum::Time((args[0].as_micros() - span % DAY).rem_euclid(DAY)))
}

pub(in crate::functions) fn time_subtract(args: &[Datum], _: Context) -> SqlResult<Datum> {
    Ok(Interval::of_micros(args[0].as_micros() - args[1].as_micros()).into())
}

pub(in crate::functions) fn interval_add(args: &[Datum], _: Context) -> SqlResult<Datum> {
    Ok(args[0].as_interval().add(args[1].as_interval())?.into())
}

pub(in crate::functions) fn interval_subtract(args: &[Datum], _: Context) -> SqlResult<Datum> {
    Ok(args[0].as_interval().add(&args[1].as_interval().neg()?)?.into())
}

pub(in crate::functions) fn interval_negate(args: &[Datum], _: Context) -> SqlResult<Datum> {
    Ok(args[0].as_interval().neg()?.into())
}

pub(in crate::functions) fn interval_multiply(args: &[Datum], _: Context) -> SqlResult<Datum> {
    Ok(args[0].as_interval().mul(args[1].as_f64())?.into())
}

pub(in crate::functions) fn interval_multiply_reversed(
    args: &[Datum],
    _: Context,
) -> SqlResult<Datum> {
    Ok(args[1].as_interval().mul(args[0].as_f64())?.into())
}

pub(in crate::functions) fn interval_divide(args: &[Datum], _: Context) -> SqlResult<Datum> {
    Ok(args[0].as_interval().div(args[1].as_f64())?.into())
}

pub(in crate::functions) fn justify_hours(args: &[Datum], _: Context) -> SqlResult<Datum> {
    let span = args[0].as_interval();
    let mut days = i64::from(span.days) + span.micros / DAY;
    let mut micros = span.micros % DAY;
    if days > 0 && micros < 0 {
        (days, micros) = (days - 1, micros + DAY);
    } else if days < 0 && micros > 0 {
        (days, micros) = (days + 1, micros - DAY);
    }
    let days = i32::try_from(days).map_err(|_| interval_out_of_range())?;
    Ok(Interval { months: span.months, days, micros }.into())
}

pub(in crate::functions) fn justify_days(args: &[Datum], _: Context) -> SqlResult<Datum> {
    let span = args[0].as_interval();
    let mut months = i64::from(span.months) + i64::from(span.days / 30);
    let mut days = span.days % 30;
    if months > 0 && days < 0 {
        (months, days) = (months - 1, days + 30);
    } else if months < 0 && days > 0 {
        (months, days) = (months + 1, days - 30);
    }
    let months = i32::try_from(months).map_err(|_| interval_out_of_range())?;
    Ok(Interval { months, days, micros: span.micros }.into())
}

pub(in crate::functions) fn justify_interval(args: &[Datum], _: Context) -> SqlResult<Datum> {
    let span = args[0].as_interval().span();
    let month = i128::from(DAY) * 30;
    let months = i32::try_from(span / month).map_err(|_| interval_out_of_range())?;
    let rest = (span % month) as i64;
    Ok(Interval { months, days: (rest / DAY) as i32, micros: rest % DAY }.into())
}

/// `age(a, b)`: the difference in years, months, days and time.
pub(in crate::functions) fn age(args: &[Datum], context: Context) -> SqlResult<Datum> {
    let localize = |value: &Datum| match value {
        Datum::Timestamptz(utc) => utc_to_local(*utc, &context.time_zone()),
        other => Ok(other.as_micros()),
    };
    let (left, right) = (localize(&args[0])?, localize(&args[1])?);
    if !is_finite(left) || !is_finite(right) {
        return Err(timestamp_out_of_range());
    }
    let (sign, later, earlier) = if left < right { (-1, right, left) } else { (1, left, right) };
    let (a, b) = (Civil::from_micros(later), Civil::from_micros(earlier));
    let mut months = (a.year - b.year) * 12 + a.month - b.month;
    let mut days = a.day - b.day;
    let mut micros = a.micros - b.micros;
    if micros < 0 {
        micros += DAY;
        days -= 1;
    }
    while days < 0 {
        // Days of the month that the earlier one is in, whichever side it is.
        days += days_in_month(b.year, b.month);
        months -= 1;
    }
    Ok(Interval {
        months: (months * sign) as i32,
        days: (days * sign) as i32,
        micros: micros * sign,
    }
    .into())
}

/// `age(a)`: from midnight of today.
pub(in crate::functions) fn age_from_today(args: &[Datum], context: Context) -> SqlResult<Datum> {
    let today = utc_to_local(context.transaction_timestamp(), &context.time_zone())?;
    let midnight = Datum::Timestamp(today.div_euclid(DAY) * DAY);
    let other = match &args[0] {
        Datum::Timestamptz(utc) => Datum::Timestamp(utc_to_local(*utc, &context.time_zone())?),
        other => other.clone(),
    };
    age(&[midnight, other], context)
}

pub(in crate::functions) fn is_finite_value(args: &[Datum], _: Context) -> SqlResult<Datum> {
    Ok(Datum::Bool(match &args[0] {
        Datum::Date(days) => is_finite_date(*days),
        Datum::Interval(_) => true,
        other => is_finite(other.as_micros()),
    }))
}

pub(in crate::functions) fn now(_: &[Datum], context: Context) -> SqlResult<Datum> {
    Ok(Datum::Timestamptz(context.transaction_timestamp()))
}

pub(in crate::functions) fn statement_timestamp(_: &[Datum], context: Context) -> SqlResult<Datum> {
    Ok(Datum::Timestamptz(context.statement_timestamp()))
}

pub(in crate::functions) fn clock_timestamp(_: &[Datum], context: Context) -> SqlResult<Datum> {
    Ok(Datum::Timestamptz(context.clock_timestamp()))
}

pub(in crate::functions) fn date_to_timestamp(args: &[Datum], _: Context) -> SqlResult<Datum> {
    date_to_micros(args[0].as_days()).map(Datum::Timestamp)
}

pub(in crate::functions) fn date_to_timestamptz(
    args: &[Datum],
    context: Context,
) -> SqlResult<Datum> {
    local_to_utc(date_to_micros(args[0].as_days())?, &context.time_zone()).map(Datum::Timestamptz)
}

pub(in crate::functions) fn timestamp_to_date(args: &[Datum], _: Context) -> SqlResult<Datum> {
    Ok(Datum::Date(micros_to_date(args[0].as_micros())))
}

pub(in crate::functions) fn timestamptz_to_date(
    args: &[Datum],
    context: Context,
) -> SqlResult<Datum> {
    Ok(Datum::Date(micros_to_date(utc_to_local(args[0].as_micros(), &context.time_zone())?)))
}

pub(in crate::functions) fn timestamp_to_timestamptz(
    args: &[Datum],
    context: Context,
) -> SqlResult<Datum> {
    local_to_utc(args[0].as_micros(), &context.time_zone()).map(Datum::Timestamptz)
}

pub(in crate::functions) fn timestamptz_to_timestamp(
    args: &[Datum],
    context: Context,
) -> SqlResult<Datum> {
    utc_to_local(args[0].as_micros(), &context.time_zone()).map(Datum::Timestamp)
}

pub(in crate::functions) fn timestamp_to_time(args: &[Datum], _: Context) -> SqlResult<Datum> {
    let micros = args[0].as_micros();
    Ok(if is_finite(micros) { Datum::Time(micros.rem_euclid(DAY)) } else { Datum::Null })
}

pub(in crate::functions) fn timestamptz_to_time(
    args: &[Datum],
    context: Context,
) -> SqlResult<Datum> {
    timestamp_to_time(&[timestamptz_to_timestamp(args, context)?], context)
}

pub(in crate::functions) fn interval_to_time(args: &[Datum], _: Context) -> SqlResult<Datum> {
    Ok(Datum::Time(args[0].as_interval().micros.rem_euclid(DAY)))
}

pub(in crate::functions) fn time_to_interval(args: &[Datum], _: Context) -> SqlResult<Datum> {
    Ok(Interval::of_micros(args[0].as_micros()).into())
}

pub(in crate::functions) fn zone(name: &str) -> SqlResult<TimeZone> {
    TimeZone::in_query(name).ok_or_else(|| {
        SqlError::new(
            SqlState::INVALID_PARAMETER_VALUE,
            format!("time zone \"{name}\" not recognized"),
        )
    })
}

/// `timezone(name, timestamp)`: AT TIME ZONE.
pub(in crate::functions) fn at_zone(args: &[Datum], _: Context) -> SqlResult<Datum> {
    convert_zone(&zone(args[0].as_str())?, &args[1])
}

/// `timezone(interval, timestamp)`.
pub(in crate::functions) fn at_offset(args: &[Datum], _: Context) -> SqlResult<Datum> {
    let span = args[0].as_interval();
    if is_finite(args[1].as_micros()) && (span.months != 0 || span.days != 0) {
        return Err(SqlError::new(
            SqlState::INVALID_PARAMETER_VALUE,
            "interval time zone must not include months or days",
        ));
    }
    convert_zone(&TimeZone::fixed((span.micros / SECOND) as i32), &args[1])
}

fn convert_zone(zone: &TimeZone, value: &Datum) -> SqlResult<Datum> {
    match value {
        Datum::Timestamptz(utc) => utc_to_local(*utc, zone).map(Datum::Timestamp),
        other => local_to_utc(other.as_micros(), zone).map(Datum::Timestamptz),
    }
}

/// `to_timestamp(seconds since 1970)`.
pub(in crate::functions) fn from_epoch(args: &[Datum], _: Context) -> SqlResult<Datum> {
    let seconds = args[0].as_f64();
    if seconds.is_infinite() {
        let infinite = if seconds > 0.0 { TIMESTAMP_INFINITY } else { TIMESTAMP_NEGATIVE_INFINITY };
        return Ok(Datum::Timestamptz(infinite));
    }
    if seconds.is_nan() {
        return Err(overflow("timestamp cannot be NaN"));
    }
    let refuse = || overflow(format!("timestamp out of range: \"{seconds}\""));
    let micros = ((seconds - (UNIX_DAYS * 86_400) as f64) * SECOND as f64).round_ties_even();
    if micros.abs() >= i64::MAX as f64 {
        return Err(refuse());
    }
    check_timestamp(micros as i64).map(Datum::Timestamptz).ok_or_else(refuse)
}

pub(in crate::functions) fn make_date(args: &[Datum], _: Context) -> SqlResult<Datum> {
    let [year, month, day] = [0, 1, 2].map(|index| args[index].as_i32());
    let refuse = || overflow(format!("date field value out of range: {year}-{month:02}-{day:02}"));
    let astronomical = i64::from(if year < 0 { fast_next(year)? } else { year });
    let (month, day) = (i64::from(month), i64::from(day));
    if year == 0
        || !(1..=12).contains(&month)
        || day < 1
        || day > days_in_month(astronomical, month)
    {
        return Err(refuse());
    }
    let days = days_from_civil(astronomical, month, day);
    check_date(days)
        .map(Datum::Date)
        .ok_or_else(|| overflow(format!("date out of range: {year}-{month:02}-{day:02}")))
}

fn clock(hour: i32, minute: i32, seconds: f64) -> SqlResult<i64> {
    let known =
        (0..=24).contains(&hour) && (0..60).contains(&minute) && (0.0..=60.0).contains(&seconds);
    if known {
        let micros = (seconds * SECOND as f64).round_ties_even() as i64;
        let total = i64::from(hour) * HOUR + i64::from(minute) * MINUTE + micros;
        if total <= DAY {
            return Ok(total);
        }
    }
    let mut text = format!("time field value out of range: {hour}:{minute:02}:");
    let printed = if seconds < 10.0 { format!("0{seconds}") } else { seconds.to_string() };
    text.push_str(&printed);
    Err(overflow(text))
}

pub(in crate::functions) fn make_time(args: &[Datum], _: Context) -> SqlResult<Datum> {
    clock(args[0].as_i32(), args[1].as_i32(), args[2].as_f64()).map(Datum::Time)
}

pub(in crate::functions) fn make_timestamp(args: &[Datum], context: Context) -> SqlResult<Datum> {
    let date = make_date(args, context)?;
    let time = clock(args[3].as_i32(), args[4].as_i32(), args[5].as_f64())?;
    let midnight = date_to_micros(date.as_days())?;
    check_timestamp(midnight + time).map(Datum::Timestamp).ok_or_else(timestamp_out_of_range)
}

pub(in crate::functions) fn make_timestamptz(args: &[Datum], context: Context) -> SqlResult<Datum> {
    let local = make_timestamp(args, context)?;
    match args.get(6) {
        Some(name) => convert_zone(&zone(name.as_str())?, &local),
        None => convert_zone(&context.time_zone(), &local),
    }
}

/// `make_interval(years, months, weeks, days, hours, mins, secs)`.
pub(in crate::functions) fn make_interval(args: &[Datum], _: Context) -> SqlResult<Datum> {
    let whole = |index: usize| i64::from(args[index].as_i32());
    let narrow = |value: i64| i32::try_from(value).map_err(|_| interval_out_of_range());
    let seconds = args[6].as_f64();
    if !seconds.is_finite() {
        return Err(interval_out_of_range());
    }
    let micros = (whole(4) * HOUR + whole(5) * MINUTE)
        .checked_add((seconds * SECOND as f64).round_ties_even() as i64)
        .ok_or_else(interval_out_of_range)?;
    Ok(Interval {
        months: narrow(whole(0) * 12 + whole(1))?,
        days: narrow(whole(2) * 7 + whole(3))?,
        micros,
    }
    .into())
}

/// `timeofday()`.
pub(in crate::functions) fn time_of_day(_: &[Datum], context: Context) -> SqlResult<Datum> {
    const DAYS: [&str; 7] = ["Sun", "Mon", "Tue", "Wed", "Thu", "Fri", "Sat"];
    const MONTHS: [&str; 12] =
        ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
    let utc = context.clock_timestamp();
    let zone = context.time_zone();
    let local = utc_to_local(utc, &zone)?;
    let civil = Civil::from_micros(local);
    let weekday = crate::types::datetime::weekday(local.div_euclid(DAY)) as usize;
    let (hour, minute) = (civil.micros / HOUR, civil.micros / MINUTE % 60);
    let (second, micros) = (civil.micros / SECOND % 60, civil.micros % SECOND);
    let abbreviation: Text = zone.abbreviation_at(utc);
    Ok(format!(
        "{} {} {:02} {hour:02}:{minute:02}:{second:02}.{micros:06} {:04} {abbreviation}",
        DAYS[weekday],
        MONTHS[(civil.month - 1) as usize],
        civil.day,
        civil.year
    )
    .into())
}
