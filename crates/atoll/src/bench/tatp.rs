//! `atoll bench tatp`: TATP natively, in this process; over the wire with `--url`.

use atoll_bench::tatp::{Choice, SUBSCRIBERS, Tatp};

use super::common::Common;

#[derive(clap::Args, Debug)]
pub struct Arguments {
    /// Subscribers, each with about nine other rows.
    #[arg(long, default_value_t = SUBSCRIBERS,
        value_parser = clap::value_parser!(u32).range(1..=200_000_000))]
    subscribers: u32,
    /// How subscribers are chosen: `nurand` as the description has it, or `uniform`.
    #[arg(long, default_value = "nurand", value_parser = ["nurand", "uniform"])]
    access: String,
    #[command(flatten)]
    common: Common,
}

/// Runs and prints what was measured.
pub fn run(arguments: &Arguments) -> Result<(), String> {
    let choice = if arguments.access == "uniform" { Choice::Uniform } else { Choice::Uneven };
    arguments.common.run(&Tatp::new(arguments.subscribers, choice)?)
}
