//! Time zones: UTC, fixed offsets, and named zones from the compiled-in database.

use super::{SECOND, UNIX_DAYS};
use crate::types::Text;
use jiff::civil::DateTime;
use jiff::tz::{AmbiguousOffset, Offset, TimeZone as Rules, TimeZoneDatabase};

const UNIX_SECONDS: i64 = UNIX_DAYS * 86_400;

/// A time zone, cheap to clone.
#[derive(Clone, Debug)]
pub struct TimeZone {
    name: Text,
    kind: Kind,
}

#[derive(Clone, Debug)]
enum Kind {
    /// Seconds east of Greenwich.
    Fixed(i32),
    Rules(Rules),
}

impl TimeZone {
    /// UTC.
    pub fn utc() -> TimeZone {
        TimeZone { name: Text::new_static("UTC"), kind: Kind::Fixed(0) }
    }

    /// A fixed offset in seconds east of Greenwich, named as PostgreSQL names it: `<+02>-02`.
    pub fn fixed(seconds: i32) -> TimeZone {
        let part = |seconds: i32| {
            let (sign, rest) = (if seconds < 0 { '-' } else { '+' }, seconds.unsigned_abs());
            let (hours, minutes) = (rest / 3600, rest / 60 % 60);
            if minutes == 0 {
                format!("{sign}{hours:02}")
            } else {
                format!("{sign}{hours:02}:{minutes:02}")
            }
        };
        let name = format!("<{}>{}", part(seconds), part(-seconds));
        TimeZone { name: Text::from(name), kind: Kind::Fixed(seconds) }
    }

    /// A zone as SET TIME ZONE takes it: `Europe/Berlin`, `+02` or `5.5` (hours east), `UTC`,
    /// POSIX `EST5` or `UTC+3` (hours west); None if unknown.
    pub fn named(name: &str) -> Option<TimeZone> {
        if let Ok(hours) = name.trim().parse::<f64>() {
            return (hours.abs() <= 167.0).then(|| TimeZone::fixed((hours * 3600.0) as i32));
        }
        if ["utc", "gmt", "z", "zulu"].contains(&name.to_ascii_lowercase().as_str()) {
            let name = if name.eq_ignore_ascii_case("gmt") { "GMT" } else { "UTC" };
            return Some(TimeZone { name: Text::new(name), kind: Kind::Fixed(0) });
        }
        if let Ok(rules) = TimeZoneDatabase::bundled().get(name) {
            let name = rules.iana_name().map_or_else(|| Text::new(name), Text::new);
            return Some(TimeZone { name, kind: Kind::Rules(rules) });
        }
        posix(name).map(|seconds| TimeZone { name: Text::new(name), kind: Kind::Fixed(seconds) })
    }

    /// A zone as AT TIME ZONE and date_trunc take it: abbreviations first.
    pub fn in_query(name: &str) -> Option<TimeZone> {
        match TimeZone::abbreviation(name) {
            Some(seconds) => Some(TimeZone { name: Text::new(name), kind: Kind::Fixed(seconds) }),
            None if name.parse::<f64>().is_ok() => {
                // As a POSIX zone: hours west.
                let hours: f64 = name.parse().ok()?;
                (hours.abs() <= 167.0).then(|| TimeZone::fixed(-(hours * 3600.0) as i32))
            }
            None => TimeZone::named(name),
        }
    }

    /// The zone of an abbreviation in a literal, `EST` or `CEST`, in seconds east.
    pub(super) fn abbreviation(name: &str) -> Option<i32> {
        let hours = match name.to_ascii_lowercase().as_str() {
            "utc" | "gmt" | "z" | "zulu" | "ut" | "wet" => 0.0,
            "bst" | "west" | "cet" | "met" => 1.0,
            "cest" | "mest" | "eet" | "sast" => 2.0,
            "eest" | "msk" => 3.0,
            "jst" | "kst" => 9.0,
            "aest" => 10.0,
            "aedt" => 11.0,
            "nzst" => 12.0,
            "nzdt" => 13.0,
            "adt" => -3.0,
            "ast" | "edt" => -4.0,
            "est" | "cdt" => -5.0,
            "cst" | "mdt" => -6.0,
            "mst" | "pdt" => -7.0,
            "pst" | "akdt" => -8.0,
            "akst" => -9.0,
            "hst" => -10.0,
            "nst" => -3.5,
            "ndt" => -2.5,
            _ => return None,
        };
        Some((hours * 3600.0) as i32)
    }

    /// As SHOW TimeZone prints it.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Seconds east of Greenwich at a UTC timestamp.
    pub fn offset_of_utc(&self, utc: i64) -> i32 {
        match &self.kind {
            Kind::Fixed(seconds) => *seconds,
            Kind::Rules(rules) => {
                let seconds = utc.div_euclid(SECOND).saturating_add(UNIX_SECONDS);
                let (low, high) = (jiff::Timestamp::MIN, jiff::Timestamp::MAX);
                let seconds = seconds.clamp(low.as_second(), high.as_second());
                let at = jiff::Timestamp::from_second(seconds).unwrap_or(high);
                rules.to_offset(at).seconds()
            }
        }
    }

    /// Seconds east of Greenwich at a local timestamp: in a gap the offset before it, in a fold
    /// the one after it, as PostgreSQL does.
    pub fn offset_of_local(&self, local: i64) -> i32 {
        match &self.kind {
            Kind::Fixed(seconds) => *seconds,
            Kind::Rules(rules) => {
                let seconds = local.div_euclid(SECOND).saturating_add(UNIX_SECONDS);
                // Nine thousand years either way; the rules repeat long before.
                let seconds = seconds.clamp(-370_000_000_000, 253_000_000_000);
                let Ok(stamp) = jiff::Timestamp::from_second(seconds) else { return 0 };
                let civil: DateTime = Offset::UTC.to_datetime(stamp);
                match rules.to_ambiguous_timestamp(civil).offset() {
                    AmbiguousOffset::Unambiguous { offset } => offset.seconds(),
                    AmbiguousOffset::Gap { before, .. } => before.seconds(),
                    AmbiguousOffset::Fold { after, .. } => after.seconds(),
                }
            }
        }
    }

    /// The abbreviation in force at a UTC timestamp (`CEST`).
    pub fn abbreviation_at(&self, utc: i64) -> Text {
        match &self.kind {
            Kind::Fixed(_) => self.name.clone(),
            Kind::Rules(rules) => {
                let seconds = utc.div_euclid(SECOND).saturating_add(UNIX_SECONDS);
                match jiff::Timestamp::from_second(seconds) {
                    Ok(at) => Text::new(rules.to_offset_info(at).abbreviation()),
                    Err(_) => self.name.clone(),
                }
            }
        }
    }
}

/// `UTC+3`, `-05:30`: letters or a sign, then hours west of Greenwich.
fn posix(name: &str) -> Option<i32> {
    let letters = name.len() - name.trim_start_matches(|c: char| c.is_ascii_alphabetic()).len();
    let signed = letters == 0 && name.starts_with(['+', '-']);
    if letters < 3 && !signed || letters == name.len() {
        return None;
    }
    let (hours, minutes) = name[letters..].split_once(':').unwrap_or((&name[letters..], "0"));
    let hours = hours.parse::<i32>().ok().filter(|hours| (-167..=167).contains(hours))?;
    let minutes = minutes.parse::<i32>().ok().filter(|minutes| (0..60).contains(minutes))?;
    let seconds = hours.abs() * 3600 + minutes * 60;
    Some(if name[letters..].starts_with('-') { seconds } else { -seconds })
}
