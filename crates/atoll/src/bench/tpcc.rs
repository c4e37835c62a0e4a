//! `atoll bench tpcc`: TPC-C natively, in this process; over the wire with `--url`.

use atoll_bench::tpcc::{Affinity, Mix, Size, Tpcc};

use super::common::Common;

#[derive(clap::Args, Debug)]
pub struct Arguments {
    /// Warehouses; each has about half a million rows.
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(i32).range(1..=100_000))]
    warehouses: i32,
    /// `standard`, or only some of the transactions: `payment`, `new-order`, or
    /// `new-order-delivery` in equal parts.
    #[arg(long, default_value = "standard",
        value_parser = ["standard", "payment", "new-order", "new-order-delivery"])]
    mix: String,
    /// Natively: `home`, a terminal's transactions run on the instance of its home warehouse; `none`:
    /// a warehouse's terminals are spread over all instances.
    #[arg(long, default_value = "home", value_parser = ["home", "none"], conflicts_with = "url")]
    affinity: String,
    #[command(flatten)]
    common: Common,
}

/// Runs and prints what was measured.
pub fn run(arguments: &Arguments) -> Result<(), String> {
    let named = |mix: &Mix| mix.name() == arguments.mix;
    arguments.common.run(&Tpcc {
        warehouses: arguments.warehouses,
        size: Size::STANDARD,
        mix: Mix::ALL.into_iter().find(named).unwrap_or(Mix::Standard),
        affinity: Affinity::ALL
            .into_iter()
            .find(|it| it.name() == arguments.affinity)
            .unwrap_or(Affinity::Home),
    })
}
