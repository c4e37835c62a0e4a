//! Numbers of clients, in turns: what a workload does with few of them and with many (over-subscription).
//!
//! Any workload, natively or over the wire: whoever runs one hands in how, and what is read of a run is its
//! own report in JSON.
//!
//! Invariants: in a round every number is run once, who begins changes; all runs take equally long. The first
//! error ends everything. Nothing here asserts a time.

mod report;
#[cfg(test)]
mod tests;

use serde_json::Value;

use crate::compare::figures::{Spread, least_by_most};
use crate::compare::own::figure;
use crate::compare::rounds::in_turns;
use crate::compare::runs::has_twice;

/// What went wrong, as one line for a person.
type Result<T> = std::result::Result<T, String>;

/// Where a run's report has processor time, in microseconds a transaction, and whose it is.
const PROCESSOR: [(&str, &str); 3] = [
    ("server_cpu_us_per_txn", "server (us)"),
    ("client_cpu_us_per_txn", "clients (us)"),
    // Natively both are one process.
    ("cpu_us_per_txn", "processor (us)"),
];

/// What is run how often.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plan {
    /// Numbers of clients, in the order in which they are reported.
    pub clients: Vec<u64>,
    /// How often each is run.
    pub rounds: u64,
}

impl Plan {
    /// The number of clients, if this is one run and no sweep.
    pub fn one(&self) -> Option<u64> {
        match (&*self.clients, self.rounds) {
            ([clients], 1) => Some(*clients),
            _ => None,
        }
    }

    /// One line for what cannot be swept.
    pub fn validate(&self) -> Result<()> {
        if has_twice(&self.clients) {
            return Err("a number of clients is named twice".to_owned());
        }
        if self.clients.iter().min().is_none_or(|least| *least == 0) || self.rounds == 0 {
            return Err("numbers of clients, and rounds, must be at least 1".to_owned());
        }
        Ok(())
    }
}

/// What came of one run.
#[derive(Clone, Debug)]
struct Run {
    per_second: f64,
    /// p50, p95, p99, in microseconds.
    latency: [f64; 3],
    aborts: f64,
    /// As [`PROCESSOR`] has them; what a run does not know is not there.
    processor: [Option<f64>; 3],
    /// The whole report.
    json: Value,
}

impl Run {
    fn of(json: Value) -> Result<Run> {
        let number = |path| figure(&json, path);
        Ok(Run {
            per_second: number("/tps")?,
            latency: [
                number("/latency_us/p50")?,
                number("/latency_us/p95")?,
                number("/latency_us/p99")?,
            ],
            aborts: number("/aborts")?,
            processor: PROCESSOR.map(|(name, _)| json[name].as_f64()),
            json,
        })
    }
}

/// What came of all.
#[derive(Clone, Debug)]
pub struct Sweep {
    plan: Plan,
    /// By number of clients, in the plan's order, then by round.
    runs: Vec<Vec<Run>>,
}

impl Sweep {
    /// Throughput with the number of clients that does least by that with the number that does most: of the
    /// medians, and the least and the most of single rounds.
    pub fn least_by_most(&self) -> Option<Spread> {
        let rates = |runs: &Vec<Run>| runs.iter().map(|it| it.per_second).collect();
        least_by_most(&self.runs.iter().map(rates).collect::<Vec<Vec<f64>>>())
    }
}

/// Runs everything: `one` runs so many clients, and answers its report.
pub fn run(
    plan: &Plan,
    mut one: impl FnMut(u64) -> Result<Value>,
    say: &mut dyn FnMut(&str),
) -> Result<Sweep> {
    plan.validate()?;
    let runs = in_turns(plan.clients.len(), plan.rounds, |round, at| {
        let clients = plan.clients[at];
        let ran = Run::of(one(clients)?)?;
        say(&format!(
            "round {} of {}, {clients} clients: {:.0} transactions a second",
            round + 1,
            plan.rounds,
            ran.per_second
        ));
        Ok(ran)
    })?;
    Ok(Sweep { plan: plan.clone(), runs })
}
