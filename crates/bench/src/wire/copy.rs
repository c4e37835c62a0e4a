//! Makes and fills a workload's tables over the wire, by COPY in text form.
//!
//! Invariants: the rows are those that the native loader writes for the same seed. Each loader is
//! a thread with its connection and takes the next part that nobody has; rows of different tables
//! are collected apart meanwhile. Every COPY commits by itself: an interrupted load leaves tables
//! that the next run refuses.

use std::io::Write;
use std::sync::{Mutex, mpsc};

use postgres::Client;

use super::{Result, connect_to, message, start};
use crate::setting::Setting;
use crate::ticker::Loading;
use crate::workload::{Loaded, Sink, Workload};

/// Text is sent when there is so much of it.
const CHUNK: usize = 1 << 20;
/// Loaders at most.
const LOADERS_MAX: u64 = 8;

/// Makes the tables and fills them, by as many connections as there are clients, but not too many.
pub fn load<W: Workload>(
    client: &mut Client,
    workload: &W,
    setting: &Setting,
    url: &str,
    say: &mut dyn FnMut(&str),
) -> Result<Loaded> {
    let mut loading = Loading::new(workload.rows());
    client.batch_execute(&workload.definitions()).map_err(|error| message(&error))?;
    let next = Mutex::new(0..workload.parts());
    let (sender, receiver) = mpsc::channel();
    let loaders = workload.parts().min(setting.clients).clamp(1, LOADERS_MAX);
    // If one fails, the others' work is for nothing, too.
    let give_up = || *next.lock().expect("no holder panics") = 0..0;
    let done: Vec<Result<()>> = std::thread::scope(|scope| -> Result<_> {
        let mut threads = Vec::new();
        for _ in 0..loaders {
            let (sender, next, give_up) = (sender.clone(), &next, &give_up);
            let loader = start(scope, move || {
                let take = || next.lock().expect("no holder panics").next();
                let fill = || {
                    let mut text = Text::new(connect_to(url)?, W::TABLES, sender);
                    while let Some(part) = take() {
                        workload.fill(setting.seed, part, &mut text)?;
                    }
                    text.send_all()
                };
                fill().inspect_err(|_| give_up())
            });
            threads.push(loader.inspect_err(|_| give_up())?);
        }
        drop(sender);
        receiver.into_iter().for_each(|rows| loading.add(rows, say));
        Ok(threads.into_iter().map(|it| it.join().expect("a loader does not panic")).collect())
    })?;
    done.into_iter().collect::<Result<()>>()?;
    // Statistics, for servers that plan by them.
    client.batch_execute("analyze").map_err(|error| message(&error))?;
    Ok(loading.end(say))
}

/// Rows as COPY's text form has them, by table.
struct Text {
    client: Client,
    names: &'static [&'static str],
    // In the order of `names`; with the number of rows.
    tables: Vec<(String, u64)>,
    // The row being written.
    row: String,
    sender: mpsc::Sender<u64>,
}

impl Text {
    fn new(client: Client, names: &'static [&'static str], sender: mpsc::Sender<u64>) -> Text {
        let tables = names.iter().map(|_| Default::default()).collect();
        Text { client, names, tables, row: String::new(), sender }
    }

    fn send_all(&mut self) -> Result<()> {
        (0..self.names.len()).try_for_each(|table| self.send(table))
    }

    fn column(&mut self, value: std::fmt::Arguments<'_>) {
        use std::fmt::Write;
        if !self.row.is_empty() {
            self.row.push('\t');
        }
        // Writing to memory does not fail.
        let _ = self.row.write_fmt(value);
    }

    fn send(&mut self, table: usize) -> Result<()> {
        let (text, rows) = std::mem::take(&mut self.tables[table]);
        if text.is_empty() {
            return Ok(());
        }
        let failed = |error: postgres::Error| format!("copy: {}", message(&error));
        let statement = format!("copy {} from stdin", self.names[table]);
        let mut writer = self.client.copy_in(&statement).map_err(failed)?;
        writer.write_all(text.as_bytes()).map_err(|error| format!("copy: {error}"))?;
        writer.finish().map_err(failed)?;
        // The receiver waits for every loader.
        let _ = self.sender.send(rows);
        Ok(())
    }
}

impl Sink for Text {
    type Error = String;

    fn int(&mut self, value: i32) {
        self.column(format_args!("{value}"));
    }

    fn small(&mut self, value: i16) {
        self.column(format_args!("{value}"));
    }

    fn long(&mut self, value: i64) {
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

    fn end<T: Into<usize>>(&mut self, table: T) -> Result<()> {
        let table = table.into();
        let (text, rows) = &mut self.tables[table];
        text.push_str(&self.row);
        text.push('\n');
        *rows += 1;
        self.row.clear();
        if text.len() >= CHUNK { self.send(table) } else { Ok(()) }
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
