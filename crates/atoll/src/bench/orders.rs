//! `atoll bench orders`: veDB's batches of orders natively, in this process; over the wire with
//! `--url`.

use atoll_bench::choice::Choice;
use atoll_bench::orders::{BATCH_MAX, Orders};

use super::common::Common;

#[derive(clap::Args, Debug)]
pub struct Arguments {
    /// Merchants.
    #[arg(long, default_value_t = 1000,
        value_parser = clap::value_parser!(u64).range(1..=1_000_000_000))]
    merchants: u64,
    /// How merchants are chosen: `uniform`, `zipfian`, or `hotspot:KEYS/OPS`.
    #[arg(long, default_value = "hotspot:0.001/0.9")]
    access: Choice,
    /// Rows of 2 KB that a transaction inserts.
    #[arg(long, default_value_t = 10,
        value_parser = clap::value_parser!(u32).range(1..=i64::from(BATCH_MAX)))]
    rows_per_transaction: u32,
    #[command(flatten)]
    common: Common,
}

/// Runs and prints what was measured.
pub fn run(arguments: &Arguments) -> Result<(), String> {
    let Arguments { merchants, access, rows_per_transaction, common } = arguments;
    common.run(&Orders::new(*merchants, *access, *rows_per_transaction)?)
}
