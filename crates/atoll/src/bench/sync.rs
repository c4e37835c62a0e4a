//! `atoll bench sync`: bare durable writes, which commits' latencies are measured against.

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
    let (bytes, seconds) = (arguments.bytes, arguments.seconds);
    let setting = Setting { bytes, seconds, folder: folder.path().to_owned() };
    let report = sync::run(&setting)?;
    arguments.format.print(&report, &report.json());
    Ok(())
}
