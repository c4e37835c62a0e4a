//! How a benchmark's figures are printed: for people or as JSON, with the ledger if it is asked for.
//!
//! Invariants: a build that counts nothing refuses `--ledger` before anything runs.

use std::fmt::Display;

use atoll_bench::ledger::{self, Costs};
use serde_json::Value;

#[derive(clap::Args, Debug)]
pub struct Output {
    /// Print one JSON object instead of lines for people.
    #[arg(long)]
    pub json: bool,
    /// Print what transactions write that is shared, and what they wait for, by type and by site.
    /// For builds with `--features ledger`; counting costs half as much processor time again.
    #[arg(long)]
    ledger: bool,
}

impl Output {
    /// An error if this build cannot print what is asked for.
    pub fn validate(&self) -> Result<(), String> {
        if self.ledger { ledger::refuse() } else { Ok(()) }
    }

    /// Prints a report, `json` of the same, and what the ledger counted.
    pub fn print(&self, report: &impl Display, json: Value, costs: Option<&Costs>) {
        let costs = costs.filter(|_| self.ledger);
        if self.json {
            let mut json = json;
            if let (Some(costs), Value::Object(all)) = (costs, &mut json) {
                all.insert("ledger".to_owned(), costs.json());
            }
            return println!("{json}");
        }
        println!("{report}");
        if let Some(costs) = costs {
            println!("{costs}");
        }
    }
}
