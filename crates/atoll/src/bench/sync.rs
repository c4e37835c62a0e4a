//! `atoll bench sync`: bare durable writes, which commits' latencies are measured against.

use std::path::PathBuf;

use atoll_bench::sync::{self, Setting};

use super::folder::Folder;
use super::output::Format;

#[derive(clap::Args, Debug)]
pub struct Arguments {
    /// Bytes of a write, a multiple of 4096; what a flush of the log has on the average is
    /// `log_bytes_per_flush` of the reports of tpcb and the workloads.
    #[arg(long, default_value_t = 4096)]
    bytes: usize,
    /// Seconds that are measured.
    #[arg(long, default_value_t = 10, value_parser = clap::value_parser!(u64).range(1..=1_000_000))]
    seconds: u64,
    /// A folder on the disk that is to be measured; 32 MiB in it are written and removed
    /// [default: the system's for temporary files]
    #[arg(long, value_name = "DIR")]
    folder: Option<PathBuf>,
    #[command(flatten)]
    format: Format,
}

/// Runs and prints what was measured.
pub fn run(arguments: &Arguments) -> Result<(), String> {
    let disk = arguments.folder.clone().unwrap_or_else(std::env::temp_dir);
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
