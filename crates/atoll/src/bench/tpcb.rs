//! `atoll bench tpcb`: TPC-B-like transactions against the kernel, in this process.

use std::path::PathBuf;

use atoll_bench::sweep::clients;
use atoll_bench::tpcb::{self, Affinity, SCALE_MAX, Setting};

use super::common::refuse_sweep;
use super::folder::Folder;
use super::output::Output;
use super::shared::{Clients, Course, Memory, Run};

#[derive(clap::Args, Debug)]
pub struct Arguments {
    /// Branches; each has 100,000 accounts.
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..=SCALE_MAX))]
    scale: u64,
    #[command(flatten)]
    clients: Clients,
    #[command(flatten)]
    run: Run,
    #[command(flatten)]
    memory: Memory,
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
    let plan = arguments.clients.plan();
    arguments.output.validate()?;
    refuse_sweep(&plan, &arguments.run, &arguments.output)?;
    let folder = Folder::new(arguments.run.data.as_deref())?;
    let say = |line: &str| eprintln!("* {line}");
    let Some(clients) = plan.one() else {
        let one = |clients| {
            let ran = folder.run(&plan, |data| {
                tpcb::run(&arguments.setting(clients, data), &mut |line| say(line))
            });
            ran.map(|report| report.json())
        };
        let sweep = clients::run(&plan, one, &mut |line| say(line))?;
        arguments.output.print(&sweep, sweep.json(), None);
        return Ok(());
    };
    let setting = arguments.setting(clients, folder.path().to_owned());
    let report = tpcb::run(&setting, &mut |line| say(line))?;
    arguments.output.print(&report, report.json(), report.ledger.as_ref());
    Ok(())
}

impl Arguments {
    fn setting(&self, clients: u64, data: PathBuf) -> Setting {
        let Arguments { run, course, .. } = self;
        Setting {
            scale: self.scale,
            clients,
            instances: run.instances,
            prefault: self.memory.prefault(),
            seconds: run.seconds,
            warmup_seconds: course.warmup,
            affinity: if self.affinity == "home" { Affinity::Home } else { Affinity::None },
            durability: course.durability(),
            rate: course.rate,
            data: Some(data),
            seed: course.seed,
        }
    }
}
