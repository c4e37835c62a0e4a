//! `atoll bench sync`: bare durable writes, which commits' latencies are measured against.

use atoll_bench::arrivals::Rate;
use atoll_bench::sync::{self, Setting};

use super::folder::Folder;
use super::output::Format;
use super::shared::Disk;

#[derive(clap::Args, Debug)]
pub struct Arguments {
    /// Bytes of a write, a multiple of 4096; what a flush of the log has on the average is
    /// `log_bytes_per_flush` of the reports of tpcb and the workloads.
    #[arg(long, default_value_t = 4096)]
    bytes: usize,
    /// How many write at once, each to a file of its own, as every instance does to its log.
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..=64))]
    writers: u64,
    /// Commits that arrive a second, evenly, whatever becomes of those before: each waits for the next write of
    /// its writer, which carries all that have arrived; latencies count from the arrival. Without, a write begins
    /// when the one before has ended, and latencies are writes'.
    #[arg(long)]
    rate: Option<Rate>,
    /// Seconds that are measured.
    #[arg(long, default_value_t = 10, value_parser = clap::value_parser!(u64).range(1..=1_000_000))]
    seconds: u64,
    #[command(flatten)]
    disk: Disk,
    #[command(flatten)]
    format: Format,
}

/// Runs and prints what was measured.
pub fn run(arguments: &Arguments) -> Result<(), String> {
    let disk = arguments.disk.folder();
    if !disk.is_dir() {
        return Err(format!("{} is not a folder", disk.display()));
    }
    let folder = Folder::within(&disk)?;
    let setting = Setting {
        bytes: arguments.bytes,
        writers: arguments.writers as usize,
        rate: arguments.rate,
        seconds: arguments.seconds,
        folder: folder.path().to_owned(),
    };
    let report = sync::run(&setting)?;
    arguments.format.print(&report, &report.json());
    Ok(())
}
