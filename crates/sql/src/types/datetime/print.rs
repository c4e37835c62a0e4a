//! Printing in the ISO style.

use super::{
    Civil, DATE_INFINITY, DATE_NEGATIVE_INFINITY, HOUR, MINUTE, SECOND, TIMESTAMP_INFINITY,
    TIMESTAMP_NEGATIVE_INFINITY, TimeZone, civil_from_days,
};

fn two(out: &mut Vec<u8>, value: i64) {
    out.extend_from_slice(&[b'0' + (value / 10 % 10) as u8, b'0' + (value % 10) as u8]);
}

/// Appends a non-negative number with at least `width` digits.
fn padded(out: &mut Vec<u8>, value: i64, width: usize) {
    let text = value.to_string();
    out.resize(out.len() + width.saturating_sub(text.len()), b'0');
    out.extend_from_slice(text.as_bytes());
}

/// Appends year-month-day; answers whether the year is before Christ.
fn day(out: &mut Vec<u8>, year: i64, month: i64, day: i64) -> bool {
    let before_christ = year <= 0;
    padded(out, if before_christ { 1 - year } else { year }, 4);
    out.push(b'-');
    two(out, month);
    out.push(b'-');
    two(out, day);
    before_christ
}

/// Appends `hh:mm:ss` and the fraction that is needed.
pub fn write_time(out: &mut Vec<u8>, micros: i64) {
    two(out, micros / HOUR);
    out.push(b':');
    two(out, micros / MINUTE % 60);
    out.push(b':');
    two(out, micros / SECOND % 60);
    write_fraction(out, micros % SECOND);
}

/// Appends `.ffffff` without zeros at its end; nothing for 0.
pub(crate) fn write_fraction(out: &mut Vec<u8>, micros: i64) {
    if micros == 0 {
        return;
    }
    out.push(b'.');
    padded(out, micros, 6);
    while out.last() == Some(&b'0') {
        out.pop();
    }
}

/// Appends a date.
pub fn write_date(out: &mut Vec<u8>, days: i32) {
    match days {
        DATE_INFINITY => return out.extend_from_slice(b"infinity"),
        DATE_NEGATIVE_INFINITY => return out.extend_from_slice(b"-infinity"),
        _ => {}
    }
    let (year, month, day_of_month) = civil_from_days(i64::from(days));
    if day(out, year, month, day_of_month) {
        out.extend_from_slice(b" BC");
    }
}

/// Appends a timestamp.
pub fn write_timestamp(out: &mut Vec<u8>, micros: i64) {
    write_with_zone(out, micros, None);
}

/// Appends a timestamptz as local time of the zone, with its offset.
pub fn write_timestamptz(out: &mut Vec<u8>, utc: i64, zone: &TimeZone) {
    if !super::is_finite(utc) {
        return write_with_zone(out, utc, None);
    }
    let offset = zone.offset_of_utc(utc);
    write_with_zone(out, utc.saturating_add(i64::from(offset) * SECOND), Some(offset));
}

fn write_with_zone(out: &mut Vec<u8>, micros: i64, offset: Option<i32>) {
    match micros {
        TIMESTAMP_INFINITY => return out.extend_from_slice(b"infinity"),
        TIMESTAMP_NEGATIVE_INFINITY => return out.extend_from_slice(b"-infinity"),
        _ => {}
    }
    let civil = Civil::from_micros(micros);
    let before_christ = day(out, civil.year, civil.month, civil.day);
    out.push(b' ');
    write_time(out, civil.micros);
    if let Some(offset) = offset {
        out.push(if offset < 0 { b'-' } else { b'+' });
        let rest = i64::from(offset.unsigned_abs());
        two(out, rest / 3600);
        if rest % 3600 != 0 {
            out.push(b':');
            two(out, rest / 60 % 60);
        }
        if rest % 60 != 0 {
            out.push(b':');
            two(out, rest % 60);
        }
    }
    if before_christ {
        out.extend_from_slice(b" BC");
    }
}
