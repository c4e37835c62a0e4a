//! The ways of running: which benchmark, with what, on which processors.
//!
//! Invariants: a way's words are all that it runs with, so that a line of the report can be typed. A step after
//! the first may take from the reports of those before it.

use std::path::Path;

use serde_json::Value;

use super::{Bare, Run};
use crate::compare::Result;
use crate::compare::own::figure;

/// Bytes of a bare durable write: what a flush of the log has at half load.
const WRITE_BYTES: u64 = 4096;
/// Of what a closed loop does, so much arrives.
const HALF: f64 = 0.5;

/// One of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// TPC-C, one warehouse, one instance, all on one core.
    Confined,
    /// TPC-C, two of each.
    Two,
    /// The first, with relaxed durability.
    ConfinedRelaxed,
    /// The second, with relaxed durability.
    TwoRelaxed,
    /// TPC-C, eight warehouses, whose terminals are spread over two instances.
    Eight,
    /// TPC-C, one warehouse, which two instances share.
    One,
    /// YCSB, half reads, half updates, all records alike.
    Uniform,
    /// The same, with a hundredth of them hot.
    Hot,
    /// Rows of 100 bytes.
    Insert,
    /// TPC-B-like, half of what a closed loop does arriving evenly.
    Half,
}

/// One process of a way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// Clients that go on as soon as they are answered; the benchmark, and what it is told.
    Closed(&'static str),
    /// The same with no checkpoint but the one behind loading: two instances write the log that begins the next in
    /// half the time of one, so it would fall into their run and not into the one that they are set beside.
    OneCheckpoint(&'static str),
    /// Inserts: they have no time before the measured.
    Inserts,
    /// The same as the first step's, half as many arriving.
    HalfOf(&'static str),
    /// Bare durable writes, one at a time.
    Writes,
    /// The same by as many as there are logs, for as many commits a second as arrive in the step of half the load.
    Commits,
}

/// The checkpoint behind loading, and none within an hour, however much log is written.
const ONE_CHECKPOINT: &str = "--checkpoint-interval 1h --checkpoint-wal 0";

const CONFINED: &str = "tpcc --warehouses 1 --instances 1 --clients 64";
const TWO: &str = "tpcc --warehouses 2 --instances 2 --clients 128";
const CONFINED_RELAXED: &str =
    "tpcc --warehouses 1 --instances 1 --clients 64 --durability relaxed";
const TWO_RELAXED: &str = "tpcc --warehouses 2 --instances 2 --clients 128 --durability relaxed";
const EIGHT: &str = "tpcc --warehouses 8 --instances 2 --clients 128 --affinity none";
const ONE: &str = "tpcc --warehouses 1 --instances 2 --clients 64 --affinity none";
const UNIFORM: &str = "ycsb --mix 50/50 --access uniform --instances 2 --clients 64";
const HOT: &str = "ycsb --mix 50/50 --access hotspot:0.01/0.99 --instances 2 --clients 64";
const TPCB: &str = "tpcb --scale 100 --instances 2 --clients 64";

impl Way {
    /// All, in the order in which a first round runs them.
    pub const ALL: [Way; 10] = [
        Way::Confined,
        Way::Two,
        Way::ConfinedRelaxed,
        Way::TwoRelaxed,
        Way::Eight,
        Way::One,
        Way::Uniform,
        Way::Hot,
        Way::Insert,
        Way::Half,
    ];

    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Way::Confined => "confined",
            Way::Two => "two",
            Way::ConfinedRelaxed => "confined, relaxed",
            Way::TwoRelaxed => "two, relaxed",
            Way::Eight => "eight",
            Way::One => "one",
            Way::Uniform => "uniform",
            Way::Hot => "hot",
            Way::Insert => "insert",
            Way::Half => "half load",
        }
    }

    /// Its processes, one after the other.
    pub fn steps(self) -> &'static [Step] {
        match self {
            Way::Confined => &[Step::OneCheckpoint(CONFINED)],
            Way::Two => &[Step::OneCheckpoint(TWO)],
            Way::ConfinedRelaxed => &[Step::OneCheckpoint(CONFINED_RELAXED)],
            Way::TwoRelaxed => &[Step::OneCheckpoint(TWO_RELAXED)],
            Way::Eight => &[Step::OneCheckpoint(EIGHT)],
            Way::One => &[Step::OneCheckpoint(ONE)],
            Way::Uniform => &[Step::Closed(UNIFORM)],
            Way::Hot => &[Step::Closed(HOT)],
            Way::Insert => &[Step::Inserts],
            Way::Half => &[Step::Closed(TPCB), Step::HalfOf(TPCB), Step::Writes, Step::Commits],
        }
    }

    /// The processor that it is confined to, if it is: that of the disk, so that nobody else does its I/O.
    pub fn core(self, of_the_disk: usize) -> Option<usize> {
        matches!(self, Way::Confined | Way::ConfinedRelaxed).then_some(of_the_disk)
    }
}

impl Step {
    /// What the program is told, but for the place; `rate` is what arrives a second where it does not follow from the
    /// clients.
    pub fn words(self, seconds: u64, warmup: u64, rate: &str) -> Vec<String> {
        let paced = format!("--prefault --warmup {warmup}");
        let (told, rest) = match self {
            Step::Closed(told) => (told, paced),
            Step::OneCheckpoint(told) => (told, format!("{paced} {ONE_CHECKPOINT}")),
            Step::Inserts => ("insert --instances 2", String::new()),
            Step::HalfOf(told) => (told, format!("{paced} --rate {rate}")),
            Step::Writes => ("sync", format!("--bytes {WRITE_BYTES}")),
            Step::Commits => ("sync", format!("--bytes {WRITE_BYTES} --writers 2 --rate {rate}")),
        };
        let all = format!("bench {told} {rest} --seconds {seconds} --json");
        all.split_whitespace().map(str::to_owned).collect()
    }

    /// What arrives a second, from the reports of the steps before.
    pub fn rate(self, before: &[Value]) -> Result<String> {
        match (self, before.first()) {
            (Step::HalfOf(_) | Step::Commits, Some(closed)) => {
                let half = figure(closed, "/tps")? * HALF;
                Ok(format!("{:.0}", half.max(1.0)))
            }
            _ => Ok(String::new()),
        }
    }

    /// Where it puts what it writes.
    pub fn place(self, folder: &Path) -> [String; 2] {
        match self {
            Step::Writes | Step::Commits => ["--folder".to_owned(), folder.display().to_string()],
            _ => ["--data".to_owned(), folder.join("data").display().to_string()],
        }
    }
}

impl Run {
    /// From the reports of a way's steps.
    pub fn of(way: Way, json: Vec<Value>) -> Result<Run> {
        let at = |step: usize, path: &str| {
            let report = json.get(step).ok_or_else(|| format!("{}: no report", way.name()))?;
            figure(report, path)
        };
        let (per_second, cpu_us, p99_us, bare) = match way {
            Way::Insert => (at(0, "/rows_per_second")?, at(0, "/cpu_us_per_row")?, None, None),
            Way::Half => {
                let write_p99_us = at(2, "/fdatasync_us/p99")?;
                let bare = Bare { write_p99_us, commit_p99_us: at(3, "/fdatasync_us/p99")? };
                let p99 = Some(at(1, "/latency_us/p99")?);
                (at(1, "/tps")?, at(1, "/cpu_us_per_txn")?, p99, Some(bare))
            }
            _ => {
                let p99 = Some(at(0, "/latency_us/p99")?);
                (at(0, "/tps")?, at(0, "/cpu_us_per_txn")?, p99, None)
            }
        };
        Ok(Run { per_second, cpu_us, p99_us, bare, json })
    }
}
