//! `atoll crash-images`: the power-loss test's command line.
//!
//! Invariants: the recorded server, its files and its socket live in a folder of their own, which
//! goes with the run.

use std::time::Duration;

use atoll_sim::images::{Setting, run as run_images};

/// What `atoll crash-images` is told.
#[derive(clap::Args, Debug)]
pub struct Arguments {
    /// Crash images to recover and judge.
    #[arg(long, default_value_t = 1000)]
    images: u64,
    /// Seconds of load that are recorded.
    #[arg(long, default_value_t = 5)]
    seconds: u64,
    /// Instances of the recorded server.
    #[arg(long, default_value_t = 2, value_parser = clap::value_parser!(u16).range(1..=16))]
    instances: u16,
    /// Decides the load, the points of the crashes and what survives them. The recorded server
    /// runs on real threads, so two recordings of one seed differ.
    #[arg(long, default_value_t = 1)]
    seed: u64,
}

/// Records, crashes, judges; prints progress and a line `N passed, N failed` at the end.
pub fn run(arguments: &Arguments) -> Result<(), String> {
    let directory = std::env::temp_dir().join(format!("atoll-crash-images-{}", std::process::id()));
    std::fs::create_dir(&directory).map_err(|error| format!("{}: {error}", directory.display()))?;
    let setting = Setting {
        images: arguments.images,
        time: Duration::from_secs(arguments.seconds),
        instances: arguments.instances,
        seed: arguments.seed,
    };
    let result = run_images(&setting, &directory, &|line| println!("{line}"));
    // Made for this run; a failure to remove it hides nothing.
    let _ = std::fs::remove_dir_all(&directory);
    let summary = result?;
    println!("acknowledgements found kept: {}", summary.verified);
    println!("images shortened by the cut: {}", summary.shortened);
    println!("images recovered from a checkpoint: {}", summary.from_checkpoint);
    println!(
        "images cut within a checkpoint: {}, {} of them between the manifest's name and its sync",
        summary.within, summary.within_naming
    );
    println!("images cut shortly after a log segment was used again: {}", summary.after_reuse);
    println!(
        "images cut while pages were evicted: {}, while pages were loaded: {}",
        summary.among_evictions, summary.among_loads
    );
    println!("images cut within a checkpoint that moved leaves: {}", summary.within_compaction);
    println!("{} passed, {} failed", summary.passed, summary.failed);
    if summary.failed == 0
        && let Some(gap) = summary.gap()
    {
        return Err(gap.to_owned());
    }
    if summary.failed == 0 {
        Ok(())
    } else {
        Err("a power cut would have lost something".to_owned())
    }
}
