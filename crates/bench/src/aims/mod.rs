//! What Atoll has set itself, natively: each aim measured, in turns, and said to be met or missed.
//!
//! ```text
//!   aims --name--> the ways of running that they need --in rounds, a process each--> figures
//!   a round's figures --> what an aim asks for, and what was measured: a rate, a share, a latency
//! ```
//!
//! Invariants: a round runs every way once, who begins changes; all runs of a way are alike, in processes of their
//! own, so that none has another's memory. What is set beside something else is set beside the same round's. No
//! data outlives its run, no process the measurement; nothing is written if anything fails. Nothing here is an error
//! for being slow.

mod aim;
mod pace;
mod report;
mod way;

use std::path::PathBuf;
use std::time::Duration;

use serde_json::Value;

pub use aim::Aim;

use crate::compare::output::Marks;
use crate::compare::process::{self, Watch};
use crate::compare::rounds::in_turns;
use crate::compare::runs::has_twice;
use crate::compare::server::Folder;
use crate::compare::{Result, Targets, machine, own};

use pace::{Pace, Probe};
use way::Way;

/// What a run may take besides its seconds: loading and checking.
const LIMIT: Duration = Duration::from_secs(1800);

/// What to measure.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The program that runs: this one.
    pub program: PathBuf,
    /// Of what.
    pub aims: Vec<Aim>,
    /// How often.
    pub rounds: u64,
    /// Seconds of a run that are measured.
    pub seconds: u64,
    /// Seconds before that.
    pub warmup_seconds: u64,
    /// A new folder, on the disk that is to be measured.
    pub folder: PathBuf,
}

/// What came of one way in one round.
#[derive(Clone, Debug)]
struct Run {
    /// Transactions, or rows, a second.
    per_second: f64,
    /// Processor time of one, in microseconds.
    cpu_us: f64,
    /// Of its latencies the one that a hundredth exceeds, in microseconds, where they are measured.
    p99_us: Option<f64>,
    /// What the disk alone did beside it, where that is set beside it.
    bare: Option<Bare>,
    /// The reports of its processes, as they were.
    json: Vec<Value>,
}

/// What the disk alone does: latencies of bare durable writes that a hundredth exceeds, in microseconds.
#[derive(Clone, Copy, Debug)]
struct Bare {
    /// Of a write, one at a time.
    write_p99_us: f64,
    /// Of commits that arrive as transactions do and wait for a write alone: what is left for one that costs nothing.
    commit_p99_us: f64,
}

/// What came of all.
struct Measured {
    plan: Plan,
    command: String,
    machine: String,
    date: String,
    /// The processor that takes the disk's interrupts.
    core: usize,
    ways: Vec<Way>,
    /// By way, in the same order, then by round.
    runs: Vec<Vec<Run>>,
    /// How fast the machine was before each run, in their order.
    paces: Vec<Pace>,
}

impl Plan {
    fn validate(&self) -> Result<()> {
        if has_twice(&self.aims) {
            return Err("an aim is named twice".to_owned());
        }
        Ok(())
    }

    /// The ways that its aims need, each once, in a fixed order.
    fn ways(&self) -> Vec<Way> {
        let needed = |way: &Way| self.aims.iter().any(|aim| aim.ways().contains(way));
        Way::ALL.into_iter().filter(needed).collect()
    }

    /// Runs one way, in an empty folder.
    fn run(&self, way: Way, core: usize, watch: &Watch<'_>) -> Result<Run> {
        let mut reports: Vec<Value> = Vec::new();
        for step in way.steps() {
            let folder = Folder::new(self.folder.join("run"))?;
            let rate = step.rate(&reports)?;
            let mut words = step.words(self.seconds, self.warmup_seconds, &rate);
            words.extend(step.place(folder.path()));
            let what = format!("{} ({})", way.name(), words[..2].join(" "));
            let mut command = process::on_core(&self.program, way.core(core));
            command.args(&words);
            let limit = LIMIT + Duration::from_secs(self.seconds + self.warmup_seconds);
            reports.push(own::report(&what, command, folder.path(), limit, watch)?);
        }
        Run::of(way, reports)
    }
}

/// Measures all, and writes what came of it; the report is also answered, as Markdown.
pub fn run(
    plan: Plan,
    command: String,
    targets: &Targets,
    watch: &Watch<'_>,
    say: &mut dyn FnMut(&str),
) -> Result<String> {
    plan.validate()?;
    // Before an hour goes by: a document that cannot take the report is refused now.
    let document = targets.check(Marks::AIMS)?;
    let folder = Folder::new(plan.folder.clone())?;
    let (machine, date) = (machine::describe(folder.path())?, machine::today());
    let (core, ways) = (machine::core_of_the_disk(), plan.ways());
    let count = ways.len() as u64 * plan.rounds;
    let each = plan.seconds + plan.warmup_seconds;
    say(&format!("{count} runs of {each} s each, and loading and checking come to that"));
    let (probe, mut paces) = (Probe::new(), Vec::new());
    let runs = in_turns(ways.len(), plan.rounds, |round, at| {
        paces.push(probe.pace());
        let ran = plan.run(ways[at], core, watch)?;
        say(&format!(
            "round {} of {}, {}: {:.0} a second",
            round + 1,
            plan.rounds,
            ways[at].name(),
            ran.per_second
        ));
        Ok(ran)
    })?;
    let measured = Measured { plan, command, machine, date, core, ways, runs, paces };
    let report = measured.markdown();
    targets.publish(&measured.json(), document.map(|it| (it, report.as_str(), &[][..])))?;
    Ok(report)
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests;
