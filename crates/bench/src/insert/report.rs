//! What a run of the insert bench measured, for people and as JSON.

use std::time::Duration;

use atoll_kernel::api::Metrics;
use atoll_kernel::log::LogCounters;

use super::Setting;
use crate::ledger::Costs;

/// What came of a run.
pub struct Report {
    /// What was run.
    pub setting: Setting,
    /// How many instances ran.
    pub instances: usize,
    /// Rows inserted and committed.
    pub rows: u64,
    /// How long it took.
    pub elapsed: Duration,
    /// Processor time of this process meanwhile.
    pub cpu: Duration,
    /// The kernel's counters, before and after.
    pub metrics: (Metrics, Metrics),
    /// What the ledger counted, a transaction of many rows; none in a build that does not count.
    pub ledger: Option<Costs>,
}

impl Report {
    /// Rows a second.
    pub fn per_second(&self) -> f64 {
        self.rows as f64 / self.elapsed.as_secs_f64()
    }

    fn each(&self, of: impl Fn(&LogCounters) -> u64) -> f64 {
        let sum = |metrics: &Metrics| metrics.logs.iter().map(&of).sum::<u64>();
        (sum(&self.metrics.1) - sum(&self.metrics.0)) as f64 / self.rows.max(1) as f64
    }

    fn cpu_us(&self) -> f64 {
        self.cpu.as_secs_f64() * 1e6 / self.rows.max(1) as f64
    }

    /// As one JSON object.
    pub fn json(&self) -> serde_json::Value {
        serde_json::json!({
            "benchmark": "insert",
            "rows_per_second": self.per_second(),
            "rows": self.rows,
            "seconds": self.elapsed.as_secs_f64(),
            "cpu_us_per_row": self.cpu_us(),
            "log_bytes_per_row": {
                "payload": self.each(|log| log.bytes_payload),
                "padded": self.each(|log| log.bytes_padded),
            },
            "commit_every": self.setting.commit_every,
            "clients": self.setting.clients,
            "instances": self.instances,
            "durability": "commit",
        })
    }
}

impl std::fmt::Display for Report {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        writeln!(
            f,
            "insert: {} clients, {} instances, a commit every {} rows, each durable",
            self.setting.clients, self.instances, self.setting.commit_every
        )?;
        writeln!(f, "  {:.0} rows a second ({} rows)", self.per_second(), self.rows)?;
        write!(
            f,
            "  processor: {:.2} us a row; log: {:.0} bytes a row ({:.0} with padding)",
            self.cpu_us(),
            self.each(|log| log.bytes_payload),
            self.each(|log| log.bytes_padded)
        )
    }
}
