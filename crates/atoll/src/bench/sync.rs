//! `atoll bench sync`: bare durable writes, which commits' latencies are measured against.

use std::path::PathBuf;

use atoll_bench::sync::{self, Setting};

use super::output::Output;

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
    output: Output,
}

/// Runs and prints what was measured.
pub fn run(arguments: &Arguments) -> Result<(), String> {
    arguments.output.validate()?;
    let folder = arguments.folder.clone().unwrap_or_else(std::env::temp_dir);
    let setting = Setting { bytes: arguments.bytes, seconds: arguments.seconds, folder };
    let report = sync::run(&setting)?;
    arguments.output.print(&report, report.json(), None);
    Ok(())
}
