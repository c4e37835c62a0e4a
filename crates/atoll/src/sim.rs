//! `atoll sim`: the simulator's command line.

use std::time::{Duration, SystemTime};

use atoll_sim::campaign::{Campaign, Seeds, run as run_campaign};
use atoll_sim::run::Setting;

/// What `atoll sim` is told.
#[derive(clap::Args, Debug)]
pub struct Arguments {
    /// Run this seed, once.
    #[arg(long, conflicts_with_all = ["fixed", "fresh", "seconds"])]
    seed: Option<u64>,
    /// Steps of each simulation: how often an instance is let go on.
    #[arg(long, default_value_t = 60_000)]
    steps: u64,
    /// Instances at most; each start has 1 to so many.
    #[arg(long, default_value_t = 4, value_parser = clap::value_parser!(u16).range(1..=16))]
    instances: u16,
    /// Crashes at most in each simulation.
    #[arg(long)]
    crashes: Option<u64>,
    /// Begin fresh seeds until so many seconds have passed.
    #[arg(long, default_value_t = 10)]
    seconds: u64,
    /// Seeds at a time; as many as there are cores if it is not given.
    #[arg(long)]
    jobs: Option<usize>,
    /// Run the fixed seeds, all of them.
    #[arg(long)]
    fixed: bool,
    /// Run fresh seeds, from the clock.
    #[arg(long)]
    fresh: bool,
}

fn cores() -> usize {
    std::thread::available_parallelism().map_or(1, std::num::NonZero::get)
}

/// Runs, prints failing seeds and counters, and a line `N passed, N failed` at the end.
pub fn run(arguments: &Arguments) -> Result<(), String> {
    let seeds = match (arguments.seed, arguments.fixed, arguments.fresh) {
        (Some(_), ..) => Seeds::One,
        (None, true, false) => Seeds::Fixed,
        (None, true, true) => Seeds::FixedThenFresh,
        (None, false, _) => Seeds::Fresh,
    };
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    let campaign = Campaign {
        setting: Setting {
            seed: arguments.seed.unwrap_or(0),
            steps: arguments.steps,
            instances_max: arguments.instances,
            crashes_max: arguments.crashes.unwrap_or(u64::MAX),
        },
        seeds,
        time: Duration::from_secs(arguments.seconds),
        fresh_from: since.as_micros() as u64,
        jobs: arguments.jobs.unwrap_or_else(cores),
    };
    if !cfg!(feature = "interleave") {
        println!("built without feature `interleave`: instances change places between turns only");
    }
    if matches!(seeds, Seeds::Fresh | Seeds::FixedThenFresh) {
        println!("fresh seeds from {}", campaign.fresh_from.wrapping_add(1));
    }
    let summary = run_campaign(&campaign, &mut |line| println!("{line}"));
    for (name, count) in summary.counters.iter() {
        println!("  {name:<36} {count:>12}");
    }
    println!("history {:016x}", summary.digest.0);
    println!("{} passed, {} failed", summary.passed, summary.failed);
    if summary.failed == 0 { Ok(()) } else { Err("the simulation found something".to_owned()) }
}
