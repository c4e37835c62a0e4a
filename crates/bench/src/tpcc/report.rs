//! What a run measured, for people and as JSON.

use std::time::Duration;

use atoll_kernel::api::Metrics;
use atoll_kernel::log::LogCounters;
use atoll_kernel::txn::TxnCounters;

use super::Setting;
use super::drive::Driven;
use super::inputs::Kind;
use super::load::Loaded;
use crate::latency::Latencies;

/// Said with every figure.
pub const NOTE: &str = "no keying and no think times; snapshot isolation where REPEATABLE READ \
is said, under which TPC-C's transactions are serializable (SERIALIZABLE is not there yet)";

/// What came of a run.
pub struct Report {
    /// What was run.
    pub setting: Setting,
    /// How many instances ran.
    pub instances: usize,
    /// What the clients did.
    pub driven: Driven,
    /// Processor time of this process while it was measured.
    pub cpu: Duration,
    /// The kernel's counters, before and after.
    pub metrics: (Metrics, Metrics),
    /// What loading did; nothing if the tables were there.
    pub loaded: Loaded,
    /// Rows that the check of the twelve conditions looked at, and how long it took.
    pub checked: (u64, Duration),
}

impl Report {
    /// Transactions a second.
    pub fn per_second(&self) -> f64 {
        self.driven.counts.transactions as f64 / self.driven.elapsed.as_secs_f64()
    }

    /// New-Orders a minute.
    pub fn new_orders_per_minute(&self) -> f64 {
        self.driven.counts.new_orders as f64 * 60.0 / self.driven.elapsed.as_secs_f64()
    }

    fn logs(&self, of: impl Fn(&LogCounters) -> u64) -> f64 {
        let sum = |metrics: &Metrics| metrics.logs.iter().map(&of).sum::<u64>();
        (sum(&self.metrics.1) - sum(&self.metrics.0)) as f64
    }

    fn txns(&self, of: impl Fn(&TxnCounters) -> u64) -> u64 {
        let sum = |metrics: &Metrics| metrics.transactions.iter().map(&of).sum::<u64>();
        sum(&self.metrics.1) - sum(&self.metrics.0)
    }

    fn each(&self, of: impl Fn(&LogCounters) -> u64) -> f64 {
        self.logs(of) / self.driven.counts.transactions.max(1) as f64
    }

    fn cpu_us(&self) -> f64 {
        self.cpu.as_secs_f64() * 1e6 / self.driven.counts.transactions.max(1) as f64
    }

    fn per_flush(&self) -> f64 {
        self.logs(|log| log.commits) / self.logs(|log| log.flushes).max(1.0)
    }

    /// As one JSON object.
    pub fn json(&self) -> serde_json::Value {
        let (counts, setting) = (&self.driven.counts, &self.setting);
        let kinds = Kind::ALL.iter().zip(&self.driven.by_kind);
        let kinds: serde_json::Map<String, serde_json::Value> =
            kinds.map(|(kind, its)| (kind.name().to_owned(), latency_json(its))).collect();
        serde_json::json!({
            "benchmark": "tpcc",
            "note": NOTE,
            "tps": self.per_second(),
            "new_orders_per_minute": self.new_orders_per_minute(),
            "transactions": counts.transactions,
            "new_orders": counts.new_orders,
            "rollbacks": counts.rollbacks,
            "aborts": counts.aborts,
            "seconds": self.driven.elapsed.as_secs_f64(),
            "latency_us": latency_json(&self.driven.latencies),
            "latency_us_by_transaction": kinds,
            "cpu_us_per_txn": self.cpu_us(),
            "log_bytes_per_txn": {
                "payload": self.each(|log| log.bytes_payload),
                "padded": self.each(|log| log.bytes_padded),
            },
            "flushes_per_second":
                self.logs(|log| log.flushes) / self.driven.elapsed.as_secs_f64(),
            "txns_per_flush": self.per_flush(),
            "dependencies_per_txn": self.each(|log| log.dependencies),
            "waits": {
                "rows": self.txns(|txn| txn.rows_awaited),
                "rows_handed_over": self.txns(|txn| txn.row_turns),
                "ends": self.txns(|txn| txn.end_waits),
                "table_locks": self.txns(|txn| txn.table_lock_waits),
                "deciding": self.txns(|txn| txn.preparing_met),
                "clock": self.txns(|txn| txn.clock_waits),
                "log_room": self.txns(|txn| txn.room_waits),
                "reads_repeated": self.txns(|txn| txn.retries),
            },
            "instances": self.instances,
            "warehouses": setting.warehouses,
            "clients": setting.clients,
            "isolation": setting.isolation.name(),
            "durability": format!("{:?}", setting.durability).to_lowercase(),
            "loaded_rows": self.loaded.rows,
            "load_seconds": self.loaded.elapsed.as_secs_f64(),
            "checked_rows": self.checked.0,
            "check_seconds": self.checked.1.as_secs_f64(),
            "pool_bytes_used": self.pool_bytes_used(),
            "undo_bytes": self.metrics.1.undo_bytes.iter().sum::<u64>(),
            "seed": setting.seed,
        })
    }

    fn pool_bytes_used(&self) -> u64 {
        let pool = &self.metrics.1.pool;
        pool.used as u64 * atoll_kernel::base::PAGE_BYTES as u64
    }
}

/// Percentiles as one JSON object.
pub fn latency_json(latencies: &Latencies) -> serde_json::Value {
    serde_json::json!({
        "p50": latencies.percentile_us(50.0),
        "p95": latencies.percentile_us(95.0),
        "p99": latencies.percentile_us(99.0),
        "p999": latencies.percentile_us(99.9),
        "max": latencies.max_us(),
    })
}

impl std::fmt::Display for Report {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (setting, counts) = (&self.setting, &self.driven.counts);
        writeln!(
            f,
            "tpcc: {} warehouses, {} clients, {} instances, {}, durability {:?}, seed {}",
            setting.warehouses,
            setting.clients,
            self.instances,
            setting.isolation.name(),
            setting.durability,
            setting.seed
        )?;
        writeln!(f, "  ({NOTE})")?;
        writeln!(
            f,
            "  {:.0} transactions a second, {:.0} New-Orders a minute",
            self.per_second(),
            self.new_orders_per_minute()
        )?;
        writeln!(
            f,
            "  {} rolled back as the standard asks, {} conflicts retried",
            counts.rollbacks, counts.aborts
        )?;
        writeln!(f, "  latency: {}", self.driven.latencies)?;
        for (kind, latencies) in Kind::ALL.iter().zip(&self.driven.by_kind) {
            writeln!(f, "    {:<12} {:>9}: {latencies}", kind.name(), latencies.count())?;
        }
        writeln!(
            f,
            "  processor: {:.1} us a transaction (clients and kernel in one process)",
            self.cpu_us()
        )?;
        writeln!(
            f,
            "  log: {:.0} bytes a transaction ({:.0} with padding), {:.0} flushes a second, \
             {:.1} commits a flush",
            self.each(|log| log.bytes_payload),
            self.each(|log| log.bytes_padded),
            self.logs(|log| log.flushes) / self.driven.elapsed.as_secs_f64(),
            self.per_flush()
        )?;
        writeln!(
            f,
            "  memory: {} MiB of pages, {} MiB of undo",
            self.pool_bytes_used() >> 20,
            self.metrics.1.undo_bytes.iter().sum::<u64>() >> 20
        )?;
        if self.loaded.rows > 0 {
            let seconds = self.loaded.elapsed.as_secs_f64();
            writeln!(
                f,
                "  loaded {} rows in {seconds:.2} s, {:.0} a second",
                self.loaded.rows,
                self.loaded.rows as f64 / seconds
            )?;
        }
        write!(
            f,
            "  all twelve consistency conditions hold ({} rows in {:.1} s)",
            self.checked.0,
            self.checked.1.as_secs_f64()
        )
    }
}
