//! `atoll bench slices`: another build beside this one, both at once and one of them always stopped.

use std::path::PathBuf;
use std::time::Duration;

use atoll_bench::sweep::slices::{self, Plan};

use super::watched;
use crate::bench::output::Format;
use crate::bench::shared::Disk;

#[derive(clap::Args, Debug)]
pub struct Arguments {
    /// The other build of Atoll.
    #[arg(long, value_name = "PROGRAM")]
    against: PathBuf,
    /// How often both are run; who begins changes.
    #[arg(long, default_value_t = 6, value_parser = clap::value_parser!(u64).range(1..=1000))]
    rounds: u64,
    /// Milliseconds that one of them runs before the other has its turn, about.
    #[arg(long, default_value_t = 200, value_parser = clap::value_parser!(u64).range(10..=60_000))]
    slice: u64,
    /// The processor that both are confined to [default: none]
    #[arg(long)]
    core: Option<usize>,
    /// The benchmark and what it is told, behind `--`: `tpcc --warehouses 1 --instances 1 --seconds 20`. Seconds are
    /// shared by both.
    #[arg(last = true, required = true, value_name = "BENCHMARK")]
    words: Vec<String>,
    #[command(flatten)]
    disk: Disk,
    #[command(flatten)]
    format: Format,
}

/// Runs all and prints what came of it.
pub fn run(arguments: &Arguments) -> Result<(), String> {
    let sliced = watched(|watch, say| slices::run(arguments.plan()?, watch, say))?;
    arguments.format.print(&sliced, &sliced.json());
    Ok(())
}

impl Arguments {
    fn plan(&self) -> Result<Plan, String> {
        let this = std::env::current_exe().map_err(|error| error.to_string())?;
        Ok(Plan {
            programs: [this, self.against.clone()],
            words: self.words.clone(),
            core: self.core,
            rounds: self.rounds,
            slice: Duration::from_millis(self.slice),
            folder: self.disk.own("slices")?,
        })
    }
}
