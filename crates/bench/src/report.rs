//! What a run measured, for people and as JSON; the same fields for every workload.
//!
//! Invariants: a figure is said with what it was measured on (clients, instances, isolation,
//! durability, seed). What only a native run can know (log, flushes, waits, memory) is not there
//! over the wire, rather than zero.

use std::time::Duration;

use atoll_kernel::api::{CheckpointCounters, Metrics, PoolTraffic};
use atoll_kernel::buffer::trace::Comparison;
use atoll_kernel::log::LogCounters;
use atoll_kernel::txn::TxnCounters;
use serde_json::{Map, Value, json};

use crate::arrivals::{self, Rate};
use crate::cpu::Machine;
use crate::latency::Latencies;
use crate::ledger::Costs;
use crate::memory::Series;
use crate::native::{Looks, traced};
use crate::setting::{Calls, Setting, Way};
use crate::wire::Sessions;
use crate::workload::{Checked, Counts, Fields, Loaded, Workload};

/// What clients did.
pub struct Driven {
    /// Of all transactions.
    pub latencies: Latencies,
    /// Of each kind.
    pub by_kind: Vec<Latencies>,
    /// What was counted.
    pub counts: Counts,
    /// How long it took.
    pub elapsed: Duration,
    /// Open loop: transactions that arrived, but nobody was free for them until the end.
    pub unserved: u64,
}

impl Driven {
    /// Nothing yet, of so many kinds.
    pub fn new(kinds: usize) -> Driven {
        Driven {
            latencies: Latencies::default(),
            by_kind: std::iter::repeat_with(Latencies::default).take(kinds).collect(),
            counts: Counts::default(),
            elapsed: Duration::ZERO,
            unserved: 0,
        }
    }

    /// One transaction of this kind took so long.
    pub fn record(&mut self, kind: usize, latency: Duration) {
        self.by_kind[kind].record(latency);
        self.latencies.record(latency);
    }

    /// Transactions a second.
    pub fn per_second(&self) -> f64 {
        self.counts.transactions() as f64 / self.elapsed.as_secs_f64()
    }
}

/// How it was run, and what only that way knows.
pub enum Side {
    /// In this process.
    Native {
        /// How many instances ran.
        instances: usize,
        /// Processor time of this process while it was measured.
        cpu: Duration,
        /// Bytes that it had written to disks meanwhile; none where the system does not say.
        written: Option<u64>,
        /// The kernel's counters, before and after.
        metrics: Box<(Metrics, Metrics)>,
        /// What looks at it found meanwhile.
        looks: Box<Looks>,
        /// What the ledger counted; none in a build that does not count.
        ledger: Option<Costs>,
        /// The pool's misses beside those of an LRU; none in a build that records no uses.
        lru: Option<Comparison>,
    },
    /// Against a server.
    Wire {
        /// Processor time of the server meanwhile, where its process was named.
        server_cpu: Option<Duration>,
        /// That of the clients, which is this process's.
        client_cpu: Duration,
        /// What the whole machine did meanwhile.
        machine: Machine,
        /// Memory of the server by second; nothing where its process was not named.
        memory: Series,
        /// What became of its sessions, where they are to be near their data.
        sessions: Option<Sessions>,
    },
}

/// What came of a run.
pub struct Report {
    /// The workload's name.
    pub name: &'static str,
    /// What was run.
    pub about: Fields,
    /// What came of it besides latencies and counts.
    pub results: Fields,
    /// The kinds of transactions.
    pub kinds: &'static [&'static str],
    /// How it was run.
    pub setting: Setting,
    /// What the clients did.
    pub driven: Driven,
    /// How it was run, too.
    pub side: Side,
    /// What loading did; nothing if the tables were there.
    pub loaded: Loaded,
    /// What holds at the end, and how long it took to see.
    pub checked: (Checked, Duration),
}

impl Report {
    /// Of a workload's run.
    pub fn of<W: Workload>(
        workload: &W,
        setting: &Setting,
        driven: Driven,
        side: Side,
        loaded: Loaded,
        checked: (Checked, Duration),
    ) -> Report {
        Report {
            name: W::NAME,
            about: workload.about(),
            results: workload.results(&driven.counts, driven.elapsed),
            kinds: W::KINDS,
            setting: setting.clone(),
            driven,
            side,
            loaded,
            checked,
        }
    }

    /// What the ledger counted, if this build counts and the run was native.
    pub fn ledger(&self) -> Option<&Costs> {
        match &self.side {
            Side::Native { ledger, .. } => ledger.as_ref(),
            Side::Wire { .. } => None,
        }
    }

    /// Memory by second: of this process, or of the server.
    pub fn memory(&self) -> &Series {
        match &self.side {
            Side::Native { looks, .. } => &looks.memory,
            Side::Wire { memory, .. } => memory,
        }
    }

    fn each(&self, time: Duration) -> f64 {
        time.as_secs_f64() * 1e6 / self.driven.counts.transactions().max(1) as f64
    }

    /// As one JSON object.
    pub fn json(&self) -> Value {
        let (counts, setting) = (&self.driven.counts, &self.setting);
        let kinds = self.kinds.iter().zip(&self.driven.by_kind);
        let kinds: Map<String, Value> =
            kinds.map(|(kind, its)| ((*kind).to_owned(), its.json())).collect();
        let benchmark = match self.side {
            Side::Native { .. } => self.name.to_owned(),
            Side::Wire { .. } => format!("{} over the wire", self.name),
        };
        let mut json = json!({
            "benchmark": benchmark,
            "tps": self.driven.per_second(),
            "transactions": counts.transactions(),
            "rollbacks": counts.rollbacks(),
            "aborts": counts.aborts,
            "seconds": self.driven.elapsed.as_secs_f64(),
            "latency_us": self.driven.latencies.json(),
            "latency_us_by_transaction": kinds,
            "loop": arrivals::kind(setting.rate),
            "rate": setting.rate.map(Rate::per_second),
            "unserved": self.driven.unserved,
            "clients": setting.clients,
            "isolation": setting.isolation.name(),
            "durability": setting.durability.name(),
            "loaded_rows": self.loaded.rows,
            "load_seconds": self.loaded.elapsed.as_secs_f64(),
            "checked_rows": self.checked.0.rows,
            "check_seconds": self.checked.1.as_secs_f64(),
            "seed": setting.seed,
        });
        let side = match &self.side {
            Side::Native { instances, cpu, written, metrics, looks, .. } => {
                let mut json = self.native_json(*instances, *cpu, &Measured(metrics));
                json["bytes_written"] = json!(written);
                json["calls"] = json!(setting.calls.name());
                json["ran_elsewhere"] = json!(self.ran_elsewhere());
                json["space"] = looks.space.json();
                json["beside_checkpoints"] = looks.json();
                json
            }
            Side::Wire { server_cpu, client_cpu, machine, sessions, .. } => json!({
                "sessions": sessions.as_ref().map(Sessions::json),
                "server_cpu_us_per_txn": server_cpu.map(|cpu| self.each(cpu)),
                "client_cpu_us_per_txn": self.each(*client_cpu),
                "machine_seconds": machine.json(),
            }),
        };
        if let (Value::Object(all), Value::Object(side)) = (&mut json, side) {
            all.extend(side);
            all.insert("memory".to_owned(), self.memory().json());
            let named = self.about.iter().chain(&self.results);
            all.extend(named.map(|(name, value)| ((*name).to_owned(), value.clone())));
        }
        json
    }

    /// Routed transactions that another instance than their key's has run; none if they were not routed.
    fn ran_elsewhere(&self) -> Option<u64> {
        let is_routed = self.setting.calls == Calls::Outside(Way::Routed);
        is_routed.then_some(self.driven.counts.elsewhere)
    }

    fn native_json(&self, instances: usize, cpu: Duration, measured: &Measured<'_>) -> Value {
        let transactions = self.driven.counts.transactions().max(1) as f64;
        let each = |of: fn(&LogCounters) -> u64| measured.logs(of) / transactions;
        json!({
            "cpu_us_per_txn": self.each(cpu),
            "log_bytes_per_txn": {
                "payload": each(|log| log.bytes_payload),
                "padded": each(|log| log.bytes_padded),
            },
            "flushes_per_second":
                measured.logs(|log| log.flushes) / self.driven.elapsed.as_secs_f64(),
            "log_bytes_per_flush":
                measured.logs(|log| log.bytes_padded) / measured.logs(|log| log.flushes).max(1.0),
            "txns_per_flush": measured.commits_per_flush(),
            "dependencies_per_txn": each(|log| log.dependencies),
            "waits": {
                "rows": measured.txns(|txn| txn.rows_awaited),
                "rows_handed_over": measured.txns(|txn| txn.row_turns),
                "ends": measured.txns(|txn| txn.end_waits),
                "table_locks": measured.txns(|txn| txn.table_lock_waits),
                "deciding": measured.txns(|txn| txn.preparing_met),
                "clock": measured.txns(|txn| txn.clock_waits),
                "log_room": measured.txns(|txn| txn.room_waits),
                "reads_repeated": measured.txns(|txn| txn.retries),
            },
            "instances": instances,
            "pool_bytes_used": measured.pool_bytes_used(),
            "pages_per_txn": {
                "read": measured.traffic(|it| it.loads) as f64 / transactions,
                "written": measured.traffic(|it| it.written) as f64 / transactions,
                "written_by_checkpoints":
                    measured.checkpoints(|it| it.pages) as f64 / transactions,
            },
            "inner_nodes_read": measured.traffic(|it| it.nodes_loaded),
            "evictions": measured.traffic(|it| it.evictions),
            "evictions_awaited": measured.traffic(|it| it.inline),
            "reads_that_block": measured.traffic(|it| it.blocking),
            "undo_bytes": measured.undo_bytes(),
            "checkpoints": measured.checkpoints(|it| it.published),
            "checkpoint_pages": measured.checkpoints(|it| it.pages),
            "checkpoint_pages_moved": measured.checkpoints(|it| it.moved),
            "pages_returned": measured.checkpoints(|it| it.returned),
        })
    }

    fn wire_lines(
        &self,
        f: &mut std::fmt::Formatter<'_>,
        (server_cpu, client_cpu): (Option<Duration>, Duration),
        sessions: Option<&Sessions>,
    ) -> std::fmt::Result {
        if let Some(cpu) = server_cpu {
            let (server, client) = (self.each(cpu), self.each(client_cpu));
            writeln!(f, "  processor: server {server:.1}, clients {client:.1} us a transaction")?;
        }
        if let Some(sessions) = sessions {
            writeln!(f, "  {}", sessions.line(self.setting.clients))?;
        }
        Ok(())
    }

    fn native_lines(
        &self,
        f: &mut std::fmt::Formatter<'_>,
        cpu: Duration,
        measured: &Measured<'_>,
    ) -> std::fmt::Result {
        let transactions = self.driven.counts.transactions().max(1) as f64;
        writeln!(
            f,
            "  processor: {:.1} us a transaction (clients and kernel in one process)",
            self.each(cpu)
        )?;
        if let Some(elsewhere) = self.ran_elsewhere() {
            writeln!(f, "  {elsewhere} ran on another instance than their key's")?;
        }
        writeln!(
            f,
            "  log: {:.0} bytes a transaction ({:.0} with padding), {:.0} flushes a second, \
             {:.1} commits a flush",
            measured.logs(|log| log.bytes_payload) / transactions,
            measured.logs(|log| log.bytes_padded) / transactions,
            measured.logs(|log| log.flushes) / self.driven.elapsed.as_secs_f64(),
            measured.commits_per_flush()
        )?;
        writeln!(
            f,
            "  memory: {} MiB of pages, {} MiB of undo",
            measured.pool_bytes_used() >> 20,
            measured.undo_bytes() >> 20
        )?;
        if measured.traffic(|it| it.loads + it.evictions) > 0 {
            writeln!(
                f,
                "  pages a transaction: {:.3} read, {:.3} written to be evicted, {:.3} by \
                 checkpoints; {} of {} evictions awaited",
                measured.traffic(|it| it.loads) as f64 / transactions,
                measured.traffic(|it| it.written) as f64 / transactions,
                measured.checkpoints(|it| it.pages) as f64 / transactions,
                measured.traffic(|it| it.inline),
                measured.traffic(|it| it.evictions)
            )?;
        }
        writeln!(
            f,
            "  checkpoints: {} published, {} pages written, {} of them moved, {} given back",
            measured.checkpoints(|it| it.published),
            measured.checkpoints(|it| it.pages),
            measured.checkpoints(|it| it.moved),
            measured.checkpoints(|it| it.returned)
        )
    }
}

/// The kernel's counters, before and after.
struct Measured<'a>(&'a (Metrics, Metrics));

impl Measured<'_> {
    fn logs(&self, of: impl Fn(&LogCounters) -> u64) -> f64 {
        let sum = |metrics: &Metrics| metrics.logs.iter().map(&of).sum::<u64>();
        (sum(&self.0.1) - sum(&self.0.0)) as f64
    }

    fn txns(&self, of: impl Fn(&TxnCounters) -> u64) -> u64 {
        let sum = |metrics: &Metrics| metrics.transactions.iter().map(&of).sum::<u64>();
        sum(&self.0.1) - sum(&self.0.0)
    }

    fn checkpoints(&self, of: impl Fn(&CheckpointCounters) -> u64) -> u64 {
        let count = |metrics: &Metrics| metrics.checkpoints.as_ref().map_or(0, &of);
        count(&self.0.1) - count(&self.0.0)
    }

    fn traffic(&self, of: impl Fn(&PoolTraffic) -> u64) -> u64 {
        of(&self.0.1.traffic) - of(&self.0.0.traffic)
    }

    fn commits_per_flush(&self) -> f64 {
        self.logs(|log| log.commits) / self.logs(|log| log.flushes).max(1.0)
    }

    fn pool_bytes_used(&self) -> u64 {
        self.0.1.pool.used as u64 * atoll_kernel::base::PAGE_BYTES as u64
    }

    fn undo_bytes(&self) -> u64 {
        self.0.1.undo_bytes.iter().sum()
    }
}

/// `name value` with blanks for underscores.
fn named((name, value): &(&'static str, Value)) -> String {
    let value = match value {
        Value::String(text) => text.clone(),
        Value::Number(number) if number.is_f64() => {
            format!("{:.0}", number.as_f64().unwrap_or_default())
        }
        other => other.to_string(),
    };
    format!("{} {value}", name.replace('_', " "))
}

impl std::fmt::Display for Report {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (setting, counts) = (&self.setting, &self.driven.counts);
        let how = match &self.side {
            Side::Native { instances, .. } => {
                let (durability, calls) = (setting.durability.name(), setting.calls.name());
                format!(": {instances} instances, durability {durability}, calls {calls}")
            }
            Side::Wire { .. } => " over the wire".to_owned(),
        };
        let (clients, isolation) = (setting.clients, setting.isolation.name());
        let begun = arrivals::told(setting.rate);
        writeln!(
            f,
            "{}{how}, {begun}, {clients} clients, {isolation}, seed {}",
            self.name, setting.seed
        )?;
        for field in &self.about {
            writeln!(f, "  {}", named(field))?;
        }
        writeln!(f, "  {:.0} transactions a second (no think times)", self.driven.per_second())?;
        for field in &self.results {
            writeln!(f, "  {}", named(field))?;
        }
        let (rollbacks, aborts) = (counts.rollbacks(), counts.aborts);
        writeln!(f, "  {rollbacks} rolled back as the workload asks, {aborts} conflicts retried")?;
        if let Some(line) = arrivals::unserved_line(self.driven.unserved) {
            writeln!(f, "  {line}")?;
        }
        writeln!(f, "  latency: {}", self.driven.latencies)?;
        for (kind, latencies) in self.kinds.iter().zip(&self.driven.by_kind) {
            if latencies.count() > 0 {
                writeln!(f, "    {kind:<22} {:>9}: {latencies}", latencies.count())?;
            }
        }
        match &self.side {
            Side::Native { cpu, written, metrics, looks, lru, .. } => {
                self.native_lines(f, *cpu, &Measured(metrics))?;
                if let Some(written) = written {
                    let rate = *written as f64 / 1e6 / self.driven.elapsed.as_secs_f64();
                    writeln!(f, "  written: {rate:.0} MB a second")?;
                }
                if let Some(comparison) = lru {
                    writeln!(f, "  {}", traced::line(comparison))?;
                }
                if let Some(line) = looks.line() {
                    writeln!(f, "  {line}")?;
                }
                if let Some((most, mean)) = looks.space.amplification() {
                    writeln!(f, "  space: {most:.2} times the data at most, {mean:.2} on average")?;
                }
            }
            Side::Wire { server_cpu, client_cpu, sessions, .. } => {
                self.wire_lines(f, (*server_cpu, *client_cpu), sessions.as_ref())?;
            }
        }
        if let Some((last, most)) = self.memory().resident() {
            writeln!(f, "  resident: {} MiB in the end, {} at most", last >> 20, most >> 20)?;
        }
        if self.loaded.rows > 0 {
            let (rows, seconds) = (self.loaded.rows, self.loaded.elapsed.as_secs_f64());
            let rate = rows as f64 / seconds;
            writeln!(f, "  loaded {rows} rows in {seconds:.2} s, {rate:.0} a second")?;
        }
        let (Checked { what, rows }, elapsed) = &self.checked;
        write!(f, "  {what} ({rows} rows in {:.1} s)", elapsed.as_secs_f64())
    }
}
