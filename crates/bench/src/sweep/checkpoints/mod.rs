//! Intervals between checkpoints, in turns: what TPC-C does at each, what is written, and how long a start
//! takes on what it has left.
//!
//! Each run is two processes of their own, `bench tpcc --data` and then `bench recovery` on its directory:
//! so no run has another's memory, and the start is a start. A database that is closed makes no
//! checkpoint, so a start finds the log that a kill would leave.
//!
//! Invariants: in a round every interval is run once, who begins changes; all runs take equally long. What a run is set beside is the run without checkpoints of the same round, second
//! by second. No data outlives its run, no process the sweep; nothing is written if anything fails.

mod report;

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use serde_json::Value;

use crate::compare::output::{Document, Marks};
use crate::compare::own::{self, figure};
use crate::compare::process::Watch;
use crate::compare::rounds::in_turns;
use crate::compare::runs::has_twice;
use crate::compare::server::Folder;
use crate::compare::{PICTURES, Result, Targets, machine};

/// The picture's name.
const PICTURE: &str = "checkpoint-intervals.svg";
/// What a run may take besides its seconds: loading, checking, and a start of an hour's log.
const LIMIT: Duration = Duration::from_secs(1800);

/// What to run.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The program that runs: this one.
    pub program: PathBuf,
    /// Intervals in milliseconds; 0: no checkpoints.
    pub intervals_ms: Vec<u64>,
    /// How often each is run.
    pub rounds: u64,
    /// Seconds of a run that are measured.
    pub seconds: u64,
    /// Seconds before that.
    pub warmup_seconds: u64,
    /// Warehouses of TPC-C.
    pub warehouses: u64,
    /// Clients.
    pub clients: u64,
    /// Memory for pages, in MiB.
    pub pool_mib: u64,
    /// A new folder, on the disk that is to be measured.
    pub folder: PathBuf,
}

/// What was done in one second of a run.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Second {
    transactions: f64,
    /// For which part of it a checkpoint was being made.
    beside: f64,
}

/// What came of one run.
#[derive(Clone, Debug)]
struct Run {
    per_second: f64,
    by_second: Vec<Second>,
    checkpoints: f64,
    pages: f64,
    /// Bytes, in all.
    written: f64,
    /// p99, p99.9 and the longest, in microseconds.
    latency: [f64; 3],
    /// Processor time of a transaction, in microseconds.
    cpu_us: f64,
    /// Bytes of log that the start has replayed.
    replayed: f64,
    /// Seconds to its first answer.
    first_answer: f64,
    /// Both reports, as they were.
    json: [Value; 2],
}

/// What came of all.
struct Sweep {
    plan: Plan,
    command: String,
    machine: String,
    date: String,
    /// By interval, in the plan's order, then by round.
    runs: Vec<Vec<Run>>,
}

impl Plan {
    fn validate(&self) -> Result<()> {
        if has_twice(&self.intervals_ms) {
            return Err("an interval is named twice".to_owned());
        }
        let longest = self.intervals_ms.iter().copied().max().unwrap_or(0);
        if longest > self.seconds * 1000 {
            return Err(format!(
                "in {} s no checkpoint follows another after {} s: longer --seconds, or shorter intervals",
                self.seconds,
                longest / 1000
            ));
        }
        Ok(())
    }

    /// Runs one interval in an empty folder.
    fn run(&self, interval_ms: u64, watch: &Watch<'_>) -> Result<Run> {
        let folder = Folder::new(self.folder.join("run"))?;
        let data = folder.path().join("data");
        let number = |name: &str, value: u64| [format!("--{name}"), value.to_string()];
        let mut run = self.bench("tpcc", &data);
        run.args(["--isolation", "read-committed", "--checkpoint-wal", "0"]);
        run.args(["--checkpoint-interval".to_owned(), format!("{interval_ms}ms")]);
        run.args(number("clients", self.clients)).args(number("seconds", self.seconds));
        run.args(number("warmup", self.warmup_seconds));
        let limit = LIMIT + Duration::from_secs(self.seconds + self.warmup_seconds);
        let ran = own::report("bench tpcc", run, folder.path(), limit, watch)?;
        let start = self.bench("recovery", &data);
        let started = own::report("bench recovery", start, folder.path(), LIMIT, watch)?;
        Run::of(ran, started)
    }

    fn bench(&self, benchmark: &str, data: &Path) -> Command {
        let mut command = Command::new(&self.program);
        command.args(["bench", benchmark, "--json", "--data"]).arg(data);
        command.args(["--warehouses".to_owned(), self.warehouses.to_string()]);
        command.args(["--buffer-pool".to_owned(), self.pool_mib.to_string()]);
        command
    }
}

impl Run {
    fn of(ran: Value, started: Value) -> Result<Run> {
        let by_second = ran.pointer("/beside_checkpoints/by_second").and_then(Value::as_array);
        let by_second = by_second.ok_or("a run does not say what it did by second")?;
        let second =
            |it: &Value| Ok(Second { transactions: figure(it, "/0")?, beside: figure(it, "/1")? });
        Ok(Run {
            per_second: figure(&ran, "/tps")?,
            by_second: by_second.iter().map(second).collect::<Result<_>>()?,
            checkpoints: figure(&ran, "/checkpoints")?,
            pages: figure(&ran, "/checkpoint_pages")?,
            written: figure(&ran, "/bytes_written")?,
            latency: [
                figure(&ran, "/latency_us/p99")?,
                figure(&ran, "/latency_us/p999")?,
                figure(&ran, "/latency_us/max")?,
            ],
            cpu_us: figure(&ran, "/cpu_us_per_txn")?,
            replayed: figure(&started, "/bytes")?,
            first_answer: figure(&started, "/first_answer_seconds")?,
            json: [ran, started],
        })
    }
}

/// Runs all, and writes what came of it; the report is also answered, as Markdown.
pub fn run(
    plan: Plan,
    command: String,
    targets: &Targets,
    watch: &Watch<'_>,
    say: &mut dyn FnMut(&str),
) -> Result<String> {
    plan.validate()?;
    // Before an hour goes by: a document that cannot take the report is refused now.
    let document = targets.check(Marks::CHECKPOINTS)?;
    let folder = Folder::new(plan.folder.clone())?;
    let (machine, date) = (machine::describe(folder.path())?, machine::today());
    let each = plan.seconds + plan.warmup_seconds;
    let count = plan.intervals_ms.len() as u64 * plan.rounds;
    say(&format!("{count} runs of {each} s, and loading, checking and starting come to that"));
    let runs = in_turns(plan.intervals_ms.len(), plan.rounds, |round, at| {
        let interval_ms = plan.intervals_ms[at];
        let ran = plan.run(interval_ms, watch)?;
        say(&format!(
            "round {}, {}: {:.0} transactions a second, first answer after {:.1} s",
            round + 1,
            report::interval(interval_ms),
            ran.per_second,
            ran.first_answer
        ));
        Ok(ran)
    })?;
    let sweep = Sweep { plan, command, machine, date, runs };
    write(&sweep, document, targets)
}

fn write(sweep: &Sweep, document: Option<Document>, targets: &Targets) -> Result<String> {
    let place = document.is_some().then(|| format!("{PICTURES}/{PICTURE}"));
    let report = sweep.markdown(place.as_deref());
    let pictures = [(PICTURE.to_owned(), sweep.svg())];
    targets.publish(&sweep.json(), document.map(|it| (it, report.as_str(), &pictures[..])))?;
    Ok(report)
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests;
