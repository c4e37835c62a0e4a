//! `atoll bench checkpoints`: what intervals between checkpoints cost, and what a start takes.

use atoll_bench::compare::machine;
use atoll_bench::sweep::checkpoints::{self, Plan};
use atoll_server::config::interval_ms;

use super::{command_line, watched};
use crate::bench::shared::Reported;

#[derive(clap::Args, Debug)]
pub struct Arguments {
    /// Times from a checkpoint to the next, as 5s or 1min; 0: a run without checkpoints, which the others are set
    /// beside.
    #[arg(long, value_name = "LIST", value_delimiter = ',', default_value = "0,2s,5s,10s,20s,60s",
        value_parser = interval_ms)]
    intervals: Vec<u64>,
    /// How often each is run; they take turns.
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u64).range(1..=1000))]
    rounds: u64,
    /// Seconds of a run that are measured; not less than the longest interval.
    #[arg(long, default_value_t = 120, value_parser = clap::value_parser!(u64).range(1..=86_400))]
    seconds: u64,
    /// Seconds before that.
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u64).range(0..=86_400))]
    warmup: u64,
    /// TPC-C's warehouses.
    #[arg(long, default_value_t = 4, value_parser = clap::value_parser!(u64).range(1..=100_000))]
    warehouses: u64,
    /// Clients.
    #[arg(long, default_value_t = 32, value_parser = clap::value_parser!(u64).range(1..=100_000))]
    clients: u64,
    /// Memory for pages in MiB [default: half of the machine's]
    #[arg(long, value_name = "MIB", value_parser = clap::value_parser!(u64).range(1..=1 << 24))]
    buffer_pool: Option<u64>,
    #[command(flatten)]
    reported: Reported,
}

/// Runs all, prints the report, and writes it where it belongs.
pub fn run(arguments: &Arguments) -> Result<(), String> {
    let targets = arguments.reported.targets();
    let report = watched(|watch, say| {
        checkpoints::run(arguments.plan()?, command_line(), &targets, watch, say)
    })?;
    println!("{report}");
    Ok(())
}

impl Arguments {
    fn plan(&self) -> Result<Plan, String> {
        let pool_mib = match self.buffer_pool {
            Some(mib) => mib,
            None => (machine::memory_bytes()? / 2) >> 20,
        };
        Ok(Plan {
            program: std::env::current_exe().map_err(|error| error.to_string())?,
            intervals_ms: self.intervals.clone(),
            rounds: self.rounds,
            seconds: self.seconds,
            warmup_seconds: self.warmup,
            warehouses: self.warehouses,
            clients: self.clients,
            pool_mib,
            folder: self.reported.folder("checkpoints")?,
        })
    }
}
