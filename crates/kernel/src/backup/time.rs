//! Times for people.
//!
//! Invariants: pure; UTC.

const DAY: i64 = 86_400_000_000;

/// Microseconds since 1970 as date and time of UTC, as PostgreSQL prints it.
pub(super) fn utc(micros: i64) -> String {
    let (days, rest) = (micros.div_euclid(DAY), micros.rem_euclid(DAY));
    let (year, month, day) = date_of(days);
    let (seconds, micros) = (rest / 1_000_000, rest % 1_000_000);
    let (hour, minute, second) = (seconds / 3600, seconds / 60 % 60, seconds % 60);
    format!("{year:04}-{month:02}-{day:02} {hour:02}:{minute:02}:{second:02}.{micros:06}+00")
}

/// The date so many days after 1970-01-01 (H. Hinnant, "chrono-compatible low-level date
/// algorithms").
fn date_of(days: i64) -> (i64, i64, i64) {
    let days = days + 719_468;
    let (era, of_era) = (days.div_euclid(146_097), days.rem_euclid(146_097));
    let year_of_era = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted = (5 * of_year + 2) / 153;
    let month = if shifted < 10 { shifted + 3 } else { shifted - 9 };
    let year = year_of_era + era * 400 + i64::from(month <= 2);
    (year, month, of_year - (153 * shifted + 2) / 5 + 1)
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn times_are_printed_as_postgresql_prints_them() {
        let cases = [
            (0, "1970-01-01 00:00:00.000000+00"),
            (-1, "1969-12-31 23:59:59.999999+00"),
            (951_782_400_000_000, "2000-02-29 00:00:00.000000+00"),
            (1_709_251_199_500_000, "2024-02-29 23:59:59.500000+00"),
            (4_107_542_400_000_001, "2100-03-01 00:00:00.000001+00"),
        ];
        for (micros, expected) in cases {
            assert_eq!(utc(micros), expected);
        }
    }
}
