//! `atoll bench tpcb`: TPC-B-like transactions against the kernel, in this process.

use atoll_bench::tpcb::{self, Affinity, SCALE_MAX, Setting};

use super::folder::Folder;
use super::output::Output;
use super::shared::{Course, Run};

#[derive(clap::Args, Debug)]
pub struct Arguments {
    /// Branches; each has 100,000 accounts.
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..=SCALE_MAX))]
    scale: u64,
    /// Clients, spread over the instances.
    #[arg(long, default_value_t = 64, value_parser = clap::value_parser!(u64).range(1..=100_000))]
    clients: u64,
    #[command(flatten)]
    run: Run,
    #[command(flatten)]
    course: Course,
    /// `home`: clients keep to their instance's branches; `none`: everything from everywhere.
    #[arg(long, default_value = "home", value_parser = ["home", "none"])]
    affinity: String,
    #[command(flatten)]
    output: Output,
}

/// Runs the benchmark and prints what it measured.
pub fn run(arguments: &Arguments) -> Result<(), String> {
    arguments.output.validate()?;
    let Arguments { run, course, .. } = arguments;
    let data = Folder::new(run.data.as_deref())?;
    let setting = Setting {
        scale: arguments.scale,
        clients: arguments.clients,
        instances: run.instances,
        seconds: run.seconds,
        warmup_seconds: course.warmup,
        affinity: if arguments.affinity == "home" { Affinity::Home } else { Affinity::None },
        durability: course.durability(),
        rate: course.rate,
        data: Some(data.path().to_owned()),
        seed: course.seed,
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
