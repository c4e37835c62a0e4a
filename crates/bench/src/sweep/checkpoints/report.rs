//! A sweep as Markdown, as JSON, and as a picture.
//!
//! Invariants: a figure is the median of its rounds, with the least and the most beside it where that says
//! something; a ratio is made within a round and then its median taken.

use std::fmt::Write;

use serde_json::{Value, json};

use super::{Run, Sweep};
use crate::compare::figures::Spread;
use crate::picture::{COLOURS, PANELS, Scale, axes, begin, number, path, place, spread};

const MB: f64 = 1e6;
/// For so much of a second a checkpoint must have been made, that the second counts as one beside it.
const BESIDE_MIN: f64 = 0.5;

/// An interval for people.
pub fn interval(ms: u64) -> String {
    match ms {
        0 => "none".to_owned(),
        ms if ms.is_multiple_of(1000) => format!("{} s", ms / 1000),
        ms => format!("{ms} ms"),
    }
}

impl Run {
    /// Transactions of the seconds in which a checkpoint was made, by those of the same seconds of a
    /// run without; none if there was none.
    fn beside(&self, without: &Run) -> Option<f64> {
        let both = self.by_second.iter().zip(&without.by_second);
        let both = both.filter(|(own, _)| own.beside >= BESIDE_MIN);
        let (own, other) = both.fold((0.0, 0.0), |(own, other), (a, b)| {
            (own + a.transactions, other + b.transactions)
        });
        (other > 0.0).then(|| own / other)
    }
}

impl Sweep {
    /// The runs without checkpoints, if there are any.
    fn without(&self) -> Option<&[Run]> {
        let at = self.plan.intervals_ms.iter().position(|it| *it == 0)?;
        Some(&self.runs[at])
    }

    /// Ratios of each round's run to the one without checkpoints.
    fn ratios(&self, runs: &[Run], of: impl Fn(&Run, &Run) -> Option<f64>) -> Option<Spread> {
        let pairs = runs.iter().zip(self.without()?);
        let ratios: Vec<f64> = pairs.filter_map(|(run, without)| of(run, without)).collect();
        (!ratios.is_empty()).then(|| Spread::of(ratios))
    }

    /// As Markdown, with the picture at this place.
    pub fn markdown(&self, picture: Option<&str>) -> String {
        let plan = &self.plan;
        let mut out = format!(
            "`{}`, {}, on {}.\nTPC-C natively, {} warehouses, {} clients, READ COMMITTED, {} s a run behind {} s, {} MiB for \
             pages, {} rounds in turns: medians, the least and the most in brackets.\n\n\
             | interval | transactions a second | of those without | while one is made | checkpoints, pages | MB written a \
             second | us of processor | p99, p99.9, longest in ms | MB of log at the start | first answer |\n\
             | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |\n",
            self.command,
            self.date,
            self.machine,
            plan.warehouses,
            plan.clients,
            plan.seconds,
            plan.warmup_seconds,
            plan.pool_mib,
            plan.rounds,
        );
        for (ms, runs) in plan.intervals_ms.iter().zip(&self.runs) {
            self.row(&mut out, *ms, runs);
        }
        if self.without().is_some() {
            out.push_str(
                "\n*Of those without*: a run's rate by that of the run without checkpoints of the same round. *While one is \
                 made*: the same of those seconds in which a checkpoint was made.\n",
            );
        }
        if let Some(picture) = picture {
            let _ = write!(out, "\n![Throughput and start by checkpoint_interval]({picture})\n");
        }
        out
    }

    fn row(&self, out: &mut String, ms: u64, runs: &[Run]) {
        let of = |value: &dyn Fn(&Run) -> f64| Spread::of(runs.iter().map(value));
        let ratio = |of: &dyn Fn(&Run, &Run) -> Option<f64>| match self.ratios(runs, of) {
            Some(Spread { median, least, most }) if ms > 0 => {
                format!("{median:.3} ({least:.3} to {most:.3})")
            }
            _ => String::new(),
        };
        let all = of(&|run| run.per_second);
        let seconds = self.plan.seconds as f64;
        // Writing to a string does not fail.
        let _ = writeln!(
            out,
            "| {} | {} ({} to {}) | {} | {} | {:.0}, {} | {:.0} | {:.1} | {:.1}, {:.1}, {:.0} | {} | {:.2} s |",
            interval(ms),
            number(all.median),
            number(all.least),
            number(all.most),
            ratio(&|run, without| Some(run.per_second / without.per_second)),
            ratio(&Run::beside),
            of(&|run| run.checkpoints).median,
            number(of(&|run| run.pages).median),
            of(&|run| run.written / seconds / MB).median,
            of(&|run| run.cpu_us).median,
            of(&|run| run.latency[0] / 1e3).median,
            of(&|run| run.latency[1] / 1e3).median,
            of(&|run| run.latency[2] / 1e3).median,
            number(of(&|run| run.replayed / MB).median),
            of(&|run| run.first_answer).median,
        );
    }

    /// As JSON, every run with both its reports.
    pub fn json(&self) -> Value {
        let intervals = self.plan.intervals_ms.iter().zip(&self.runs).map(|(ms, runs)| {
            let runs: Vec<Value> =
                runs.iter().map(|it| json!({ "run": it.json[0], "start": it.json[1] })).collect();
            json!({ "interval_ms": ms, "runs": runs })
        });
        json!({
            "benchmark": "checkpoints",
            "command": self.command,
            "date": self.date,
            "machine": self.machine,
            "rounds": self.plan.rounds,
            "intervals": intervals.collect::<Vec<_>>(),
        })
    }

    /// As a picture: throughput, and the time to a start's first answer, by interval.
    pub fn svg(&self) -> String {
        let mut out = begin("Throughput and start by checkpoint_interval");
        let labels: Vec<String> = self.plan.intervals_ms.iter().map(|ms| interval(*ms)).collect();
        self.panel(&mut out, 0, &labels, "transactions a second", |run| run.per_second);
        self.panel(&mut out, 1, &labels, "seconds to a start's first answer", |run| {
            run.first_answer
        });
        out.push_str("</svg>\n");
        out
    }

    fn panel(
        &self,
        out: &mut String,
        which: usize,
        labels: &[String],
        name: &str,
        value: fn(&Run) -> f64,
    ) {
        let spreads: Vec<Spread> =
            self.runs.iter().map(|runs| Spread::of(runs.iter().map(value))).collect();
        let scale = Scale::linear(spreads.iter().map(|it| it.most).fold(0.0, f64::max));
        let (panel, colour) = (PANELS[which], COLOURS[which]);
        axes(out, panel, (labels, "checkpoint_interval"), &scale, name);
        let mut points = Vec::new();
        for (at, its) in spreads.iter().enumerate() {
            let x = place(panel, labels.len(), at);
            spread(out, x, *its, &scale, colour);
            points.push((x, scale.y(its.median)));
        }
        path(out, points, colour, "none");
    }
}
