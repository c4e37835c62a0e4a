//! `atoll bench aims`: what Atoll has set itself, natively, and what of it this machine reaches.

use atoll_bench::aims::{self, Aim, Plan};

use super::{command_line, watched};
use crate::bench::shared::Reported;

#[derive(clap::Args, Debug)]
pub struct Arguments {
    /// Which of `confined`, `two`, `relaxed`, `eight`, `one`, `hot`, `insert`, `half-load`.
    #[arg(
        long,
        value_name = "LIST",
        value_delimiter = ',',
        default_value = "confined,two,relaxed,eight,one,hot,insert,half-load"
    )]
    aims: Vec<Aim>,
    /// How often everything is run; the ways of running take turns.
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u64).range(1..=1000))]
    rounds: u64,
    /// Seconds of a run that are measured.
    #[arg(long, default_value_t = 8, value_parser = clap::value_parser!(u64).range(1..=86_400))]
    seconds: u64,
    /// Seconds before that.
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u64).range(0..=86_400))]
    warmup: u64,
    #[command(flatten)]
    reported: Reported,
}

/// Measures all, prints the report, and writes it where it belongs.
pub fn run(arguments: &Arguments) -> Result<(), String> {
    let targets = arguments.reported.targets();
    let report =
        watched(|watch, say| aims::run(arguments.plan()?, command_line(), &targets, watch, say))?;
    println!("{report}");
    Ok(())
}

impl Arguments {
    fn plan(&self) -> Result<Plan, String> {
        Ok(Plan {
            program: std::env::current_exe().map_err(|error| error.to_string())?,
            aims: self.aims.clone(),
            rounds: self.rounds,
            seconds: self.seconds,
            warmup_seconds: self.warmup,
            folder: self.reported.folder("aims")?,
        })
    }
}
