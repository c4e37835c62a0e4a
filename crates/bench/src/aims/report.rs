//! What was measured, as Markdown and as JSON.
//!
//! Invariants: a figure is the median of its rounds, with the least and the most beside it; an aim is met if the
//! median is. Every line of runs says what to type for it.

use std::fmt::Write;

use serde_json::{Value, json};

use super::aim::{Asked, Judged};
use super::pace::Pace;
use super::way::{Step, Way};
use super::{Aim, Measured, Run};
use crate::compare::figures::Spread;
use crate::compare::report::spread_json;
use crate::picture::number;

impl Measured {
    /// As Markdown.
    pub fn markdown(&self) -> String {
        let plan = &self.plan;
        let mut out = format!(
            "`{}`, {}, on {}.\nRuns of {} s behind {} s, each in a process of its own; {} rounds in turns: medians, the least \
             and the most in brackets. What is beside something is beside the same round's.\n\n\
             | aim | asked for | measured | |\n| --- | --- | --- | --- |\n",
            self.command, self.date, self.machine, plan.seconds, plan.warmup_seconds, plan.rounds,
        );
        for aim in &plan.aims {
            if let Some(judged) = self.judged(*aim) {
                row(&mut out, *aim, judged);
            }
        }
        let [step, read, pass] = self.pace();
        // Writing to a string does not fail.
        let _ = writeln!(
            out,
            "\nHow fast the machine was before each run: {step} ns a multiplication and an addition, {read} ns a read somewhere in \
             16 MiB, each after the one before, {pass} ns until one thread sees what another has written."
        );
        out.push_str(
            "\n| run | a second | us of processor each | p99 in us |\n| --- | --- | --- | --- |\n",
        );
        for (way, runs) in self.ways.iter().zip(&self.runs) {
            self.run(&mut out, *way, runs);
        }
        out
    }

    /// What steps of the processor, reads of memory and passes from thread to thread took, in nanoseconds.
    fn pace(&self) -> [String; 3] {
        let of =
            |value: &dyn Fn(&Pace) -> f64| hundredths(Spread::of(self.paces.iter().map(value)));
        [of(&|pace| pace.step_ns), of(&|pace| pace.read_ns), of(&|pace| pace.pass_ns)]
    }

    fn run(&self, out: &mut String, way: Way, runs: &[Run]) {
        let of = |value: &dyn Fn(&Run) -> f64| Spread::of(runs.iter().map(value));
        let spread = |value: &dyn Fn(&Run) -> Option<f64>| {
            let all: Vec<f64> = runs.iter().filter_map(value).collect();
            (!all.is_empty()).then(|| numbers(Spread::of(all)))
        };
        let mut p99 = spread(&|run| run.p99_us).unwrap_or_default();
        if let Some(commits) = spread(&|run| Some(run.bare?.commit_p99_us)) {
            p99 = format!("{p99}; the disk alone, with the same arrivals: {commits}");
        }
        // Writing to a string does not fail.
        let _ = writeln!(
            out,
            "| {}: {} | {} | {:.1} | {p99} |",
            way.name(),
            self.typed(way),
            numbers(of(&|run| run.per_second)),
            of(&|run| run.cpu_us).median,
        );
    }

    /// What to type for a way; the rate that follows from its first step is left to who types.
    fn typed(&self, way: Way) -> String {
        let step = |step: &Step| {
            let words = step.words(self.plan.seconds, self.plan.warmup_seconds, "HALF").join(" ");
            match way.core(self.core) {
                Some(core) => format!("`taskset -c {core} atoll {words}`"),
                None => format!("`atoll {words}`"),
            }
        };
        way.steps().iter().map(step).collect::<Vec<_>>().join(", ")
    }

    /// As JSON, every run with its processes' reports.
    pub fn json(&self) -> Value {
        let aims = self.plan.aims.iter().filter_map(|aim| {
            let Judged { asked, measured, is_met } = self.judged(*aim)?;
            let measured = spread_json(measured);
            Some(json!({ "aim": aim.name(), "asked": asked, "measured": measured, "met": is_met }))
        });
        let runs = self.ways.iter().zip(&self.runs).map(|(way, runs)| {
            let reports: Vec<&Vec<Value>> = runs.iter().map(|run| &run.json).collect();
            json!({ "run": way.name(), "typed": self.typed(*way), "rounds": reports })
        });
        json!({
            "benchmark": "aims",
            "command": self.command,
            "date": self.date,
            "machine": self.machine,
            "rounds": self.plan.rounds,
            "step_ns": self.paces.iter().map(|pace| pace.step_ns).collect::<Vec<_>>(),
            "read_ns": self.paces.iter().map(|pace| pace.read_ns).collect::<Vec<_>>(),
            "pass_ns": self.paces.iter().map(|pace| pace.pass_ns).collect::<Vec<_>>(),
            "aims": aims.collect::<Vec<_>>(),
            "runs": runs.collect::<Vec<_>>(),
        })
    }
}

fn row(out: &mut String, aim: Aim, judged: Judged) {
    let Judged { asked, measured, is_met } = judged;
    let (asked, measured) = match aim.asked() {
        Asked::Rate { unit, .. } => (format!("{} {unit}", number(asked)), numbers(measured)),
        Asked::Share { .. } => (format!("{asked} times"), hundredths(measured)),
        Asked::Latency { .. } => (format!("at most {} us", number(asked)), numbers(measured)),
    };
    let met = if is_met { "met" } else { "missed" };
    // Writing to a string does not fail.
    let _ = writeln!(out, "| {}: {} | {asked} | {measured} | {met} |", aim.name(), aim.what());
}

fn hundredths(Spread { median, least, most }: Spread) -> String {
    format!("{median:.2} ({least:.2} to {most:.2})")
}

fn numbers(Spread { median, least, most }: Spread) -> String {
    format!("{} ({} to {})", number(median), number(least), number(most))
}
