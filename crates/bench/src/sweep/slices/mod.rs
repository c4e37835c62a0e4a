//! Two builds in slices ([`crate::compare::slices`]): both run the same benchmark at once on the same processors, and one
//! of them is always stopped.
//!
//! Only the processor time of a transaction tells: each stands still for half of the time.
//!
//! Invariants: who begins changes from round to round. A ratio is of one round. Neither process nor data outlives its
//! round.

use std::fmt::{Display, Formatter};
use std::path::PathBuf;
use std::time::Duration;

use serde_json::{Value, json};

use crate::compare::Result;
use crate::compare::figures::Spread;
use crate::compare::own;
use crate::compare::process::{Running, Watch, on_core};
use crate::compare::report::spread_json;
use crate::compare::rounds::turns;
use crate::compare::server::Folder;
use crate::compare::slices::{self, Party};
use crate::random::Random;

/// What a round may take.
const LIMIT: Duration = Duration::from_secs(3600);

/// What to run.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The program that is judged, and the one that it is set beside.
    pub programs: [PathBuf; 2],
    /// The benchmark and what it is told, but for where it runs and how it reports.
    pub words: Vec<String>,
    /// The processor that both are confined to, if they are.
    pub core: Option<usize>,
    /// How often.
    pub rounds: u64,
    /// A slice, about.
    pub slice: Duration,
    /// A new folder, on the disk that is to be measured.
    pub folder: PathBuf,
}

/// What came of it.
#[derive(Debug)]
pub struct Sliced {
    plan: Plan,
    /// By round: the reports of both.
    rounds: Vec<[Value; 2]>,
    /// By round: microseconds of processor that a transaction, or row, took.
    cpu_us: Vec<[f64; 2]>,
}

impl Plan {
    /// Both at once; the reports of both.
    fn round(&self, number: u64, random: &mut Random, watch: &Watch<'_>) -> Result<[Value; 2]> {
        let folder = Folder::new(self.folder.join("round"))?;
        let one = |which: usize| -> Result<One<'_>> {
            let folder = Folder::new(folder.path().join(which.to_string()))?;
            Ok(One { plan: self, which, process: None, report: None, folder })
        };
        let mut both = [one(0)?, one(1)?];
        slices::run(&mut both, turns(2, number), (self.slice, random), (LIMIT, watch))?;
        Ok(both.map(|it| it.report.unwrap_or_default()))
    }
}

/// One of the two in its round.
struct One<'a> {
    plan: &'a Plan,
    which: usize,
    process: Option<Running>,
    report: Option<Value>,
    /// For its data and what it prints; after the process, which must have ended before it goes.
    folder: Folder,
}

impl One<'_> {
    fn program(&self) -> String {
        self.plan.programs[self.which].display().to_string()
    }
}

impl Party for One<'_> {
    fn go_on(&mut self) -> Result<()> {
        if let Some(process) = &self.process {
            process.resume();
            return Ok(());
        }
        let mut command = on_core(&self.plan.programs[self.which], self.plan.core);
        command.arg("bench").args(&self.plan.words).arg("--json");
        command.arg("--data").arg(self.folder.path().join(format!("data-{}", self.which)));
        self.process = Some(Running::start(&self.program(), command, self.folder.path())?);
        Ok(())
    }

    fn stop(&mut self) {
        self.process.iter().for_each(Running::pause);
    }

    fn has_ended(&mut self) -> Result<bool> {
        self.process.as_ref().map_or(Ok(true), Running::has_ended)
    }

    fn finish(&mut self) -> Result<()> {
        if let Some(process) = self.process.take() {
            self.report = Some(own::read(&self.program(), &process.finish()?)?);
        }
        Ok(())
    }
}

fn cpu_us(report: &Value) -> Result<f64> {
    let found = ["cpu_us_per_txn", "cpu_us_per_row"].iter().find_map(|it| report[*it].as_f64());
    found.ok_or_else(|| "this benchmark does not say what a transaction costs".to_owned())
}

/// Runs all rounds.
pub fn run(plan: Plan, watch: &Watch<'_>, say: &mut dyn FnMut(&str)) -> Result<Sliced> {
    if plan.words.iter().any(|it| it == "--url") {
        return Err(
            "slices are of benchmarks that run in their own process: leave --url out".to_owned()
        );
    }
    let _folder = Folder::new(plan.folder.clone())?;
    let mut random = Random::new(plan.rounds);
    let mut sliced = Sliced { plan, rounds: Vec::new(), cpu_us: Vec::new() };
    for round in 0..sliced.plan.rounds {
        let reports = sliced.plan.round(round, &mut random, watch)?;
        let [own, other] = [cpu_us(&reports[0])?, cpu_us(&reports[1])?];
        say(&format!(
            "round {} of {}: {own:.2} and {other:.2} us, {:.3}",
            round + 1,
            sliced.plan.rounds,
            own / other
        ));
        sliced.rounds.push(reports);
        sliced.cpu_us.push([own, other]);
    }
    Ok(sliced)
}

impl Sliced {
    fn ratio(&self) -> Spread {
        Spread::of(self.cpu_us.iter().map(|[own, other]| own / other))
    }

    fn of(&self, which: usize) -> Spread {
        Spread::of(self.cpu_us.iter().map(|both| both[which]))
    }

    /// As one JSON object.
    pub fn json(&self) -> Value {
        json!({
            "benchmark": "slices",
            "programs": self.plan.programs,
            "of": self.plan.words.join(" "),
            "core": self.plan.core,
            "slice_ms": self.plan.slice.as_millis() as u64,
            "cpu_us": [spread_json(self.of(0)), spread_json(self.of(1))],
            "ratio": spread_json(self.ratio()),
            "rounds": self.rounds,
        })
    }
}

impl Display for Sliced {
    fn fmt(&self, f: &mut Formatter<'_>) -> std::fmt::Result {
        let Plan { words, rounds, core, slice, .. } = &self.plan;
        let confined = core.map_or_else(String::new, |core| format!(" on processor {core}"));
        let slice = slice.as_millis();
        writeln!(
            f,
            "slices: {}{confined}, {rounds} rounds, slices of {slice} ms",
            words.join(" ")
        )?;
        for (which, program) in self.plan.programs.iter().enumerate() {
            let Spread { median, least, most } = self.of(which);
            let program = program.display();
            writeln!(f, "  {program}: {median:.2} us of processor each ({least:.2} to {most:.2})")?;
        }
        let Spread { median, least, most } = self.ratio();
        write!(f, "  the first by the second: {median:.3} ({least:.3} to {most:.3})")
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests;
