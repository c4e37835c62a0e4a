//! Makes and fills the tables over the wire, by COPY in text form.
//!
//! Invariants: the rows are those that the native loader writes for the same seed. One COPY fills
//! one table of one warehouse: rows of different tables are collected apart meanwhile.

use std::io::Write;

use postgres::Client;

use super::super::{Result, message};
use crate::tpcc::{self, INDEXES, NAMES, RowTarget, Sink, Size, TABLES};

/// Text is sent when there is so much of it.
const CHUNK: usize = 1 << 20;

/// Makes the tables and fills them.
pub fn load(
    client: &mut Client,
    size: Size,
    warehouses: i32,
    seed: u64,
    say: &mut dyn FnMut(&str),
) -> Result<()> {
    client.batch_execute(TABLES).map_err(|error| message(&error))?;
    client.batch_execute(INDEXES).map_err(|error| message(&error))?;
    let mut text = Text { client, tables: Default::default(), row: String::new() };
    tpcc::items(&size, seed, &mut text)?;
    for warehouse in 1..=warehouses {
        tpcc::warehouse(&size, seed, warehouse, &mut text)?;
        say(&format!("  {warehouse} of {warehouses} warehouses"));
    }
    for table in 0..NAMES.len() {
        text.send(table)?;
    }
    // Statistics, for servers that plan by them.
    client.batch_execute("analyze").map_err(|error| message(&error))
}

/// Rows as COPY's text form has them, by table.
struct Text<'a> {
    client: &'a mut Client,
    // In the order of `NAMES`, which is that of `RowTarget`.
    tables: [String; 9],
    // The row being written.
    row: String,
}

impl Text<'_> {
    fn column(&mut self, value: std::fmt::Arguments<'_>) {
        use std::fmt::Write;
        if !self.row.is_empty() {
            self.row.push('\t');
        }
        // Writing to memory does not fail.
        let _ = self.row.write_fmt(value);
    }

    fn send(&mut self, table: usize) -> Result<()> {
        let text = std::mem::take(&mut self.tables[table]);
        if text.is_empty() {
            return Ok(());
        }
        let failed = |error: postgres::Error| format!("copy: {}", message(&error));
        let statement = format!("copy {} from stdin", NAMES[table]);
        let mut writer = self.client.copy_in(&statement).map_err(failed)?;
        writer.write_all(text.as_bytes()).map_err(|error| format!("copy: {error}"))?;
        writer.finish().map_err(failed)?;
        Ok(())
    }
}

impl Sink for Text<'_> {
    type Error = String;

    fn int(&mut self, value: i32) {
        self.column(format_args!("{value}"));
    }

    fn decimal(&mut self, mantissa: i64, scale: u16) {
        let unit = 10_i64.pow(u32::from(scale));
        let sign = if mantissa < 0 { "-" } else { "" };
        let (whole, part) = (mantissa.abs() / unit, mantissa.abs() % unit);
        self.column(format_args!("{sign}{whole}.{part:0width$}", width = usize::from(scale)));
    }

    fn text(&mut self, value: &str) {
        self.column(format_args!("{value}"));
    }

    fn padded(&mut self, value: &str, _width: usize) {
        self.column(format_args!("{value}"));
    }

    fn time(&mut self, micros: i64) {
        // Seconds and what is left of them after the time that timestamps count from.
        let (days, rest) = (micros.div_euclid(86_400_000_000), micros.rem_euclid(86_400_000_000));
        let (date, seconds) = (civil(days), rest / 1_000_000);
        self.column(format_args!(
            "{:04}-{:02}-{:02} {:02}:{:02}:{:02}.{:06}",
            date.0,
            date.1,
            date.2,
            seconds / 3600,
            seconds / 60 % 60,
            seconds % 60,
            rest % 1_000_000
        ));
    }

    fn null(&mut self) {
        self.column(format_args!("\\N"));
    }

    fn end(&mut self, table: RowTarget) -> Result<()> {
        let text = &mut self.tables[table as usize];
        text.push_str(&self.row);
        text.push('\n');
        self.row.clear();
        if text.len() >= CHUNK { self.send(table as usize) } else { Ok(()) }
    }
}

/// Year, month and day of a day counted from 2000-01-01 (Howard Hinnant's days_from_civil, turned
/// round).
fn civil(day: i64) -> (i64, i64, i64) {
    let shifted = day + 730_425;
    let era = shifted.div_euclid(146_097);
    let of_era = shifted.rem_euclid(146_097);
    let year = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year + year / 4 - year / 100);
    let shifted_month = (5 * of_year + 2) / 153;
    let month = if shifted_month < 10 { shifted_month + 3 } else { shifted_month - 9 };
    let year = year + era * 400 + i64::from(month <= 2);
    (year, month, of_year - (153 * shifted_month + 2) / 5 + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn days_have_their_dates() {
        assert_eq!(civil(0), (2000, 1, 1));
        assert_eq!(civil(59), (2000, 2, 29));
        assert_eq!(civil(9826), (2026, 11, 26));
        assert_eq!(civil(-1), (1999, 12, 31));
    }
}
