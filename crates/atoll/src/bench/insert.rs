//! `atoll bench insert`: Shore-MT's insert bench, in this process.

use atoll_bench::insert::{self, Setting};

use super::folder::Folder;
use super::output::Output;
use super::shared::Run;

#[derive(clap::Args, Debug)]
pub struct Arguments {
    /// Clients, each with its own table.
    #[arg(long, default_value_t = 16, value_parser = clap::value_parser!(u64).range(1..=10_000))]
    clients: u64,
    #[command(flatten)]
    run: Run,
    /// Rows of a transaction.
    #[arg(long, default_value_t = 1000,
        value_parser = clap::value_parser!(u64).range(1..=1_000_000))]
    commit_every: u64,
    /// Rows after which the run ends early.
    #[arg(long, default_value_t = 20_000_000,
        value_parser = clap::value_parser!(u64).range(1..=1_000_000_000_000))]
    rows_max: u64,
    #[command(flatten)]
    output: Output,
}

/// Runs and prints what was measured; progress goes to standard error.
pub fn run(arguments: &Arguments) -> Result<(), String> {
    arguments.output.validate()?;
    let folder = Folder::new(arguments.run.data.as_deref())?;
    let setting = Setting {
        clients: arguments.clients,
        instances: arguments.run.instances,
        seconds: arguments.run.seconds,
        commit_every: arguments.commit_every,
        rows_max: arguments.rows_max,
        data: Some(folder.path().to_owned()),
    };
    let report = insert::run(&setting, &mut |line| eprintln!("* {line}"))?;
    arguments.output.print(&report, report.json(), report.ledger.as_ref());
    Ok(())
}
