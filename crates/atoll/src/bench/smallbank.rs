//! `atoll bench smallbank`: SmallBank natively, in this process; over the wire with `--url`.

use atoll_bench::choice::Choice;
use atoll_bench::smallbank::{CUSTOMERS, HOTSPOT, SmallBank};

use super::common::Common;

#[derive(clap::Args, Debug)]
pub struct Arguments {
    /// Customers, each with two accounts.
    #[arg(long, default_value_t = CUSTOMERS,
        value_parser = clap::value_parser!(u64).range(2..=1_000_000_000))]
    customers: u64,
    /// How customers are chosen: `uniform`, `zipfian`, or `hotspot:KEYS/OPS` as
    /// `hotspot:0.05/0.95` [default: the paper's, 1 of 18 has 90 of 100 transactions]
    #[arg(long)]
    access: Option<Choice>,
    #[command(flatten)]
    common: Common,
}

/// Runs and prints what was measured.
pub fn run(arguments: &Arguments) -> Result<(), String> {
    let choice = arguments.access.unwrap_or(HOTSPOT);
    arguments.common.run(&SmallBank::new(arguments.customers, choice)?)
}
