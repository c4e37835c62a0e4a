//! TPC-B-like transactions against the kernel in process: no SQL, no wire.
//!
//! Invariants: every transaction is one of pgbench's default script: add to an account, read it,
//! add to its teller and branch, insert into history, commit, wait until stable. With affinity a
//! client's branches are those of its instance and 85 of 100 accounts are of the branch, as the
//! standard says; without, everything is drawn from everywhere. At the end the sums must agree.

mod load;
mod run;
#[cfg(test)]
mod tests;

use std::path::PathBuf;
use std::time::Duration;

use atoll_kernel::api::{Database, Error, Instances, Metrics, Options, Pin, Prefault};

use crate::arrivals::{self, Rate};
use crate::cpu;
use crate::latency::Latencies;
use crate::ledger::{Costs, Counting};
use crate::native::checkpoint_loaded;
use crate::setting::{Durability, Place};
use crate::space::{self, Advice, Each, Need};

pub(crate) use load::Tables;

/// Accounts of a branch.
pub(crate) const ACCOUNTS: u64 = 100_000;
/// Tellers of a branch.
pub(crate) const TELLERS: u64 = 10;
/// Branches at most: the keys of their accounts are int4.
pub const SCALE_MAX: u64 = i32::MAX as u64 / ACCOUNTS;

/// Transactions that an instance may do in a second.
const RATE: u64 = 200_000;
/// What a branch takes with its accounts: about 13 MB of pages, with their index about 16.
const BRANCH: Each = Each { pages: 20 << 20, log: 20 << 20 };
/// What a transaction adds: a row of history.
const TRANSACTION: Each = Each { pages: 100, log: 500 };
/// What a run needs less with.
const ADVICE: Advice = Advice {
    memory: "a smaller --scale",
    disk: "a smaller --scale, fewer seconds, or another --data",
};

/// What to run.
#[derive(Clone, Debug)]
pub struct Setting {
    /// Branches; each has 100,000 accounts.
    pub scale: u64,
    /// Clients, each a task, spread over the instances.
    pub clients: u64,
    /// Instances.
    pub instances: Instances,
    /// When the pool's memory is taken.
    pub prefault: Prefault,
    /// How long is measured.
    pub seconds: u64,
    /// How long runs before that.
    pub warmup_seconds: u64,
    /// Transactions that arrive a second (open loop); none: closed loop.
    pub rate: Option<Rate>,
    /// Whether a client keeps to its instance's branches.
    pub affinity: Affinity,
    /// Whether a commit waits until it is stable.
    pub durability: Durability,
    /// Where the data goes; none: memory only, which says nothing about durability.
    pub data: Option<PathBuf>,
    /// The seed of all random choices.
    pub seed: u64,
}

impl Setting {
    /// One line for what cannot be run.
    fn validate(&self) -> Result<(), String> {
        validate_scale(self.scale)?;
        if self.clients == 0 || self.seconds == 0 {
            return Err("clients and seconds must be at least 1".to_owned());
        }
        Ok(())
    }

    /// What a run may need, at most.
    fn need(&self) -> Need {
        let seconds = space::seconds(self.seconds, self.warmup_seconds, self.rate);
        let instance_seconds = seconds.saturating_mul(self.instances.count().into());
        Need::of((self.scale, BRANCH), (instance_seconds, RATE), TRANSACTION)
    }
}

/// One line for a scale whose keys would not fit their columns.
pub(crate) fn validate_scale(scale: u64) -> Result<(), String> {
    if (1..=SCALE_MAX).contains(&scale) {
        return Ok(());
    }
    Err(format!("scale must be from 1 to {SCALE_MAX}"))
}

/// Memory for pages; on disk history may outgrow it.
pub(crate) fn pool_bytes(scale: u64) -> u64 {
    scale.saturating_mul(24 << 20).saturating_add(512 << 20)
}

/// Which branches a client uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Affinity {
    /// Those of its instance.
    Home,
    /// All.
    None,
}

/// What came of it.
pub struct Report {
    /// What was run.
    pub setting: Setting,
    /// How many instances ran.
    pub instances: usize,
    /// Transactions committed while it was measured.
    pub transactions: u64,
    /// Deadlocks and the like, rolled back and not counted.
    pub aborts: u64,
    /// Open loop: transactions that arrived, but nobody was free for them until the end.
    pub unserved: u64,
    /// How long was measured.
    pub elapsed: Duration,
    /// Latencies of the transactions.
    pub latencies: Latencies,
    /// Processor time of this process while it was measured.
    pub cpu: Duration,
    /// The kernel's counters, before and after.
    pub metrics: (Metrics, Metrics),
    /// What the ledger counted; none in a build that does not count.
    pub ledger: Option<Costs>,
    /// Rows loaded a second.
    pub loaded_per_second: f64,
}

impl Report {
    /// Transactions a second.
    pub fn per_second(&self) -> f64 {
        self.transactions as f64 / self.elapsed.as_secs_f64()
    }

    fn transactions(&self, of: impl Fn(&atoll_kernel::txn::TxnCounters) -> u64) -> u64 {
        let sum = |metrics: &Metrics| metrics.transactions.iter().map(&of).sum::<u64>();
        sum(&self.metrics.1) - sum(&self.metrics.0)
    }

    fn logs(&self, of: impl Fn(&atoll_kernel::log::LogCounters) -> u64) -> u64 {
        let sum = |metrics: &Metrics| metrics.logs.iter().map(&of).sum::<u64>();
        sum(&self.metrics.1) - sum(&self.metrics.0)
    }

    /// As one JSON object.
    pub fn json(&self) -> serde_json::Value {
        let (flushes, commits) = (self.logs(|log| log.flushes), self.logs(|log| log.commits));
        let seconds = self.elapsed.as_secs_f64();
        let each = |bytes: u64| bytes as f64 / commits.max(1) as f64;
        serde_json::json!({
            "benchmark": "tpcb",
            "tps": self.per_second(),
            "transactions": self.transactions,
            "aborts": self.aborts,
            "loop": arrivals::kind(self.setting.rate),
            "rate": self.setting.rate.map(Rate::per_second),
            "unserved": self.unserved,
            "seconds": seconds,
            "latency_us": self.latencies.json(),
            "cpu_us_per_txn": self.cpu.as_secs_f64() * 1e6 / self.transactions.max(1) as f64,
            "log_bytes_per_txn": {
                "payload": each(self.logs(|log| log.bytes_payload)),
                "padded": each(self.logs(|log| log.bytes_padded)),
            },
            "flushes_per_second": flushes as f64 / seconds,
            "log_bytes_per_flush":
                self.logs(|log| log.bytes_padded) as f64 / flushes.max(1) as f64,
            "txns_per_flush": commits as f64 / flushes.max(1) as f64,
            "row_turns_per_txn": each(self.transactions(|txn| txn.row_turns)),
            "wakes_per_txn": each(self.transactions(|txn| txn.end_wakes)),
            "dependencies_per_txn": each(self.logs(|log| log.dependencies)),
            "instances": self.instances,
            "clients": self.setting.clients,
            "scale": self.setting.scale,
            "affinity": format!("{:?}", self.setting.affinity).to_lowercase(),
            "durability": self.setting.durability.name(),
            "loaded_rows_per_second": self.loaded_per_second,
            "seed": self.setting.seed,
        })
    }
}

impl std::fmt::Display for Report {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (flushes, commits) = (self.logs(|log| log.flushes), self.logs(|log| log.commits));
        let each = |bytes: u64| bytes as f64 / commits.max(1) as f64;
        let setting = &self.setting;
        writeln!(
            f,
            "tpcb: {}, scale {}, {} clients, {} instances, affinity {:?}, durability {:?}, seed {}",
            arrivals::told(setting.rate),
            setting.scale,
            setting.clients,
            self.instances,
            setting.affinity,
            setting.durability,
            setting.seed
        )?;
        writeln!(f, "  {:.0} transactions a second, {} aborts", self.per_second(), self.aborts)?;
        if let Some(line) = arrivals::unserved_line(self.unserved) {
            writeln!(f, "  {line}")?;
        }
        writeln!(f, "  latency: {}", self.latencies)?;
        writeln!(
            f,
            "  processor: {:.1} us a transaction (clients and kernel in one process)",
            self.cpu.as_secs_f64() * 1e6 / self.transactions.max(1) as f64
        )?;
        writeln!(
            f,
            "  log: {:.0} bytes a transaction ({:.0} with padding), {:.0} flushes a second, \
             {:.1} transactions a flush",
            each(self.logs(|log| log.bytes_payload)),
            each(self.logs(|log| log.bytes_padded)),
            flushes as f64 / self.elapsed.as_secs_f64(),
            commits as f64 / flushes.max(1) as f64
        )?;
        let (turns, wakes) =
            (self.transactions(|txn| txn.row_turns), self.transactions(|txn| txn.end_wakes));
        writeln!(
            f,
            "  rows: {:.2} of a transaction awaited and taken, {:.2} wake-ups each",
            each(turns),
            wakes as f64 / turns.max(1) as f64
        )?;
        write!(f, "  loaded at {:.0} rows a second", self.loaded_per_second)
    }
}

/// Loads, runs, checks. `say` gets progress for people. Errors are one line.
pub fn run(setting: &Setting, say: &mut dyn FnMut(&str)) -> Result<Report, String> {
    setting.validate()?;
    let need = setting.need();
    let pool = match &setting.data {
        Some(_) => pool_bytes(setting.scale),
        None => pool_bytes(setting.scale).max(need.pool_bytes),
    };
    let place = Place { data: setting.data.clone(), ..Place::default() };
    space::refuse(&need, pool, &place, &ADVICE)?;
    let options = Options {
        instances: setting.instances,
        buffer_pool_bytes: pool,
        prefault: setting.prefault,
        pin: Pin::Auto,
        lock_note: "atoll bench tpcb".to_owned(),
        ..Options::default()
    };
    let database = match &setting.data {
        Some(directory) => Database::open(directory, options),
        None => Database::open_in_memory(options),
    };
    let database = database.map_err(text)?;
    let (tables, loaded_per_second) = load::load(&database, setting.scale, say).map_err(text)?;
    checkpoint_loaded(&database, &place, say)?;
    if setting.warmup_seconds > 0 {
        say("warming up");
        let warmup = Setting { seconds: setting.warmup_seconds, ..setting.clone() };
        run::drive(&database, &tables, &warmup)?;
    }
    say("running");
    let before = database.metrics().map_err(text)?;
    let counting = Counting::begin();
    let cpu_before = cpu::own();
    let driven = run::drive(&database, &tables, setting)?;
    let cpu = cpu::own().saturating_sub(cpu_before);
    let ledger = counting.end(&["tpcb"])?;
    let after = database.metrics().map_err(text)?;
    run::check_sums(&database, &tables)?;
    let report = Report {
        setting: setting.clone(),
        instances: database.instances(),
        transactions: driven.latencies.count(),
        aborts: driven.aborts,
        unserved: driven.unserved,
        elapsed: driven.elapsed,
        latencies: driven.latencies,
        cpu,
        metrics: (before, after),
        ledger,
        loaded_per_second,
    };
    database.close().map_err(text)?;
    Ok(report)
}

fn text(error: Error) -> String {
    error.to_string()
}
