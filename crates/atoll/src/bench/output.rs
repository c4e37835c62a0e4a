//! How a benchmark's figures are printed: for people or as JSON, with the ledger if it is asked for.
//!
//! Invariants: a build that counts nothing refuses `--ledger` before anything runs; what runs no
//! instances in this process is not offered it.

use std::fmt::Display;

use atoll_bench::ledger::{self, Costs};
use serde_json::Value;

/// For people or for programs.
#[derive(clap::Args, Debug)]
pub struct Format {
    /// Print one JSON object instead of lines for people.
    #[arg(long)]
    json: bool,
}

impl Format {
    /// Prints a report, or `json` of the same.
    pub fn print(&self, report: &impl Display, json: &Value) {
        if self.json {
            println!("{json}");
        } else {
            println!("{report}");
        }
    }
}

/// The same for what runs instances, whose costs are counted.
#[derive(clap::Args, Debug)]
pub struct Output {
    #[command(flatten)]
    format: Format,
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

    /// Whether the ledger is asked for.
    pub fn is_ledger(&self) -> bool {
        self.ledger
    }

    /// Prints a report, `json` of the same, and what the ledger counted.
    pub fn print(&self, report: &impl Display, json: Value, costs: Option<&Costs>) {
        let Some(costs) = costs.filter(|_| self.ledger) else {
            return self.format.print(report, &json);
        };
        let mut json = json;
        if let Value::Object(all) = &mut json {
            all.insert("ledger".to_owned(), costs.json());
        }
        self.format.print(&format_args!("{report}\n{costs}"), &json);
    }
}
