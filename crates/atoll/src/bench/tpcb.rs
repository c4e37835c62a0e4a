//! `atoll bench tpcb`: TPC-B-like transactions against the kernel, in this process.

use std::path::PathBuf;

use atoll_bench::arrivals::Rate;
use atoll_bench::tpcb::{self, Affinity, SCALE_MAX, Setting};
use atoll_kernel::api::Instances;

use super::common;
use super::folder::Folder;
use super::output::Output;
use super::parse_instances;

#[derive(clap::Args, Debug)]
pub struct Arguments {
    /// Branches; each has 100,000 accounts.
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..=SCALE_MAX))]
    scale: u64,
    /// Clients, spread over the instances.
    #[arg(long, default_value_t = 64, value_parser = clap::value_parser!(u64).range(1..=100_000))]
    clients: u64,
    /// Instances: `auto` (one per core) or a number.
    #[arg(long, default_value = "auto", value_parser = parse_instances)]
    instances: Instances,
    /// Seconds that are measured.
    #[arg(long, default_value_t = 10, value_parser = clap::value_parser!(u64).range(1..=1_000_000))]
    seconds: u64,
    /// Seconds before that.
    #[arg(long, default_value_t = 0, value_parser = clap::value_parser!(u64).range(0..=1_000_000))]
    warmup: u64,
    /// `commit`: wait until a commit survives a crash; `relaxed`: do not.
    #[arg(long, default_value = "commit", value_parser = ["commit", "relaxed"])]
    durability: String,
    /// `home`: clients keep to their instance's branches; `none`: everything from everywhere.
    #[arg(long, default_value = "home", value_parser = ["home", "none"])]
    affinity: String,
    /// A new directory for the data; a temporary one without this.
    #[arg(long)]
    data: Option<PathBuf>,
    /// Transactions that arrive a second, evenly (open loop: latency counts from the arrival);
    /// without this a client's next begins when its last has ended.
    #[arg(long)]
    rate: Option<Rate>,
    /// The seed of all random choices.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    #[command(flatten)]
    output: Output,
}

/// Runs the benchmark and prints what it measured.
pub fn run(arguments: &Arguments) -> Result<(), String> {
    arguments.output.validate()?;
    let data = Folder::new(arguments.data.as_deref())?;
    let setting = Setting {
        scale: arguments.scale,
        clients: arguments.clients,
        instances: arguments.instances,
        seconds: arguments.seconds,
        warmup_seconds: arguments.warmup,
        affinity: if arguments.affinity == "home" { Affinity::Home } else { Affinity::None },
        durability: common::durability(&arguments.durability),
        rate: arguments.rate,
        data: Some(data.path().to_owned()),
        seed: arguments.seed,
    };
    let quiet = arguments.output.is_json();
    let report = tpcb::run(&setting, &mut |line| {
        if !quiet {
            println!("* {line}");
        }
    })?;
    arguments.output.print(&report, report.json(), report.ledger.as_ref());
    Ok(())
}
