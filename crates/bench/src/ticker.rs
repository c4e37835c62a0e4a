//! What people are told while something takes long: a line a second, not more.

use std::time::{Duration, Instant};

use crate::workload::Counts;

/// Between two lines.
const EVERY: Duration = Duration::from_secs(1);

/// Adds progress up and has a line to say every second.
pub struct Ticker {
    began: Instant,
    said: Instant,
    since: Counts,
}

impl Default for Ticker {
    fn default() -> Ticker {
        Ticker::new()
    }
}

impl Ticker {
    /// From now on.
    pub fn new() -> Ticker {
        Ticker { began: Instant::now(), said: Instant::now(), since: Counts::default() }
    }

    /// So much more was done.
    pub fn add(&mut self, counts: &Counts) {
        self.since.add(counts);
    }

    /// What to say, if a second has gone.
    pub fn line(&mut self) -> Option<String> {
        let seconds = self.said.elapsed().as_secs_f64();
        if seconds < EVERY.as_secs_f64() {
            return None;
        }
        self.said = Instant::now();
        let since = std::mem::take(&mut self.since);
        Some(format!(
            "  {:>4.0} s: {:.0} transactions a second, {} conflicts",
            self.began.elapsed().as_secs_f64(),
            since.transactions() as f64 / seconds,
            since.aborts
        ))
    }
}

/// Rows that were loaded, said once a second.
pub struct Loading {
    began: Instant,
    said: Instant,
    rows: u64,
    expected: u64,
}

impl Loading {
    /// About so many rows are to come.
    pub fn new(expected: u64) -> Loading {
        Loading { began: Instant::now(), said: Instant::now(), rows: 0, expected }
    }

    /// So many more are there.
    pub fn add(&mut self, rows: u64, say: &mut dyn FnMut(&str)) {
        self.rows += rows;
        if self.said.elapsed() >= EVERY {
            self.said = Instant::now();
            say(&format!("  {} of about {} rows", self.rows, self.expected));
        }
    }

    /// All are there.
    pub fn end(self, say: &mut dyn FnMut(&str)) -> crate::workload::Loaded {
        let elapsed = self.began.elapsed();
        say(&format!("  {} rows in {:.2} s", self.rows, elapsed.as_secs_f64()));
        crate::workload::Loaded { rows: self.rows, elapsed }
    }
}
