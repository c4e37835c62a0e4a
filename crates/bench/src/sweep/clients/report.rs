//! A sweep over numbers of clients as a table (Markdown) and as JSON.
//!
//! Invariants: a figure is the median of its rounds, with the least and the most beside it where that says
//! something; single runs are in the JSON, each with its whole report.

use std::fmt::{Display, Formatter};

use serde_json::{Value, json};

use super::{PROCESSOR, Run, Sweep};
use crate::compare::figures::Spread;
use crate::compare::report::spread_json;
use crate::picture::number;

impl Sweep {
    /// As one JSON object.
    pub fn json(&self) -> Value {
        let results = self.plan.clients.iter().zip(&self.runs).map(|(clients, runs)| {
            let [p50, p95, p99] = [0, 1, 2].map(|at| of(runs, |run| run.latency[at]).median);
            let mut result = json!({
                "clients": clients,
                "tps": spread_json(of(runs, |run| run.per_second)),
                "of_the_most": self.of_the_most(runs),
                "latency_us": {"p50": p50, "p95": p95, "p99": p99},
                "aborts": of(runs, |run| run.aborts).median,
                "runs": runs.iter().map(|run| run.json.clone()).collect::<Vec<_>>(),
            });
            for (at, (name, _)) in PROCESSOR.iter().enumerate() {
                if let Some(spread) = processor(runs, at) {
                    result[*name] = spread_json(spread);
                }
            }
            result
        });
        json!({
            "benchmark": format!("{} by clients", self.said("benchmark").unwrap_or_default()),
            "rounds": self.plan.rounds,
            "results": results.collect::<Vec<_>>(),
            "least_by_most": self.least_by_most().map(spread_json),
        })
    }

    /// Throughput by that of the number of clients which does most.
    fn of_the_most(&self, runs: &[Run]) -> f64 {
        let median = |runs: &[Run]| of(runs, |run| run.per_second).median;
        let most = self.runs.iter().map(|runs| median(runs)).fold(0.0, f64::max);
        if most > 0.0 { median(runs) / most } else { 0.0 }
    }

    /// What the first run says of itself; what it does not say is left out.
    fn said(&self, name: &str) -> Option<String> {
        match &self.runs.first()?.first()?.json[name] {
            Value::String(text) => Some(text.clone()),
            Value::Number(number) => Some(format!("{:.0}", number.as_f64()?)),
            _ => None,
        }
    }

    fn head(&self, f: &mut Formatter<'_>) -> std::fmt::Result {
        let known = [
            self.said("loop").map(|it| format!("{it} loop")),
            self.said("rate").map(|it| format!("{it} arrivals a second")),
            self.said("isolation"),
            self.said("durability").map(|it| format!("durability {it}")),
            self.said("seconds").map(|it| format!("{it} s a run")),
        ];
        let known: Vec<String> = known.into_iter().flatten().collect();
        writeln!(
            f,
            "{} by clients: {}; rounds: {}, in which the numbers of clients take turns. Medians, the least and the \
             most in parentheses; processor times are by transaction.\n",
            self.said("benchmark").unwrap_or_default(),
            known.join(", "),
            self.plan.rounds
        )
    }
}

impl Display for Sweep {
    fn fmt(&self, f: &mut Formatter<'_>) -> std::fmt::Result {
        self.head(f)?;
        let is_known = |at: &usize| self.runs.iter().any(|runs| processor(runs, *at).is_some());
        let known: Vec<usize> = (0..PROCESSOR.len()).filter(is_known).collect();
        write!(f, "| clients | a second | of the most | p50, p95, p99 (us) |")?;
        for at in &known {
            write!(f, " {} |", PROCESSOR[*at].1)?;
        }
        writeln!(f, " conflicts |\n|{}", " --- |".repeat(5 + known.len()))?;
        for (clients, runs) in self.plan.clients.iter().zip(&self.runs) {
            let Spread { median, least, most } = of(runs, |run| run.per_second);
            let [p50, p95, p99] =
                [0, 1, 2].map(|at| number(of(runs, |run| run.latency[at]).median));
            write!(
                f,
                "| {} | {} ({} to {}) | {:.2} | {p50}, {p95}, {p99} |",
                number(*clients as f64),
                number(median),
                number(least),
                number(most),
                self.of_the_most(runs)
            )?;
            for at in &known {
                match processor(runs, *at) {
                    Some(Spread { median, least, most }) => {
                        write!(f, " {median:.1} ({least:.1} to {most:.1}) |")?;
                    }
                    None => write!(f, "  |")?,
                }
            }
            writeln!(f, " {} |", number(of(runs, |run| run.aborts).median))?;
        }
        match self.least_by_most() {
            Some(Spread { median, least, most }) => write!(
                f,
                "\nThe least by the most of these numbers of clients: {median:.2} ({least:.2} to {most:.2} in \
                 single rounds)"
            ),
            None => Ok(()),
        }
    }
}

fn of(runs: &[Run], value: impl Fn(&Run) -> f64) -> Spread {
    Spread::of(runs.iter().map(value))
}

/// If all runs know it.
fn processor(runs: &[Run], at: usize) -> Option<Spread> {
    let all: Option<Vec<f64>> = runs.iter().map(|run| run.processor[at]).collect();
    all.filter(|it| !it.is_empty()).map(Spread::of)
}
