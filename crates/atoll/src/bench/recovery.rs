//! `atoll bench recovery`: how fast a directory that `tpcb --data` left is recovered.

use std::path::PathBuf;

use atoll_bench::tpcb::{self, SCALE_MAX};
use atoll_kernel::api::RecoveryReport;
use serde_json::{Value, json};

use super::interrupt;
use super::output::Format;

#[derive(clap::Args, Debug)]
pub struct Arguments {
    /// The directory.
    #[arg(long)]
    data: PathBuf,
    /// The scale it was loaded with.
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..=SCALE_MAX))]
    scale: u64,
    #[command(flatten)]
    format: Format,
}

/// Recovers and prints what was measured.
pub fn run(arguments: &Arguments) -> Result<(), String> {
    interrupt::watch(None)?;
    let report = Report(tpcb::recover(&arguments.data, arguments.scale)?);
    arguments.format.print(&report, &report.json());
    Ok(())
}

/// What came of it.
struct Report(RecoveryReport);

impl Report {
    /// Row changes a second.
    fn per_second(&self) -> f64 {
        self.0.changes as f64 / self.0.replay.as_secs_f64().max(1e-9)
    }

    /// As one JSON object.
    fn json(&self) -> Value {
        json!({
            "benchmark": "recovery",
            "commits": self.0.commits,
            "row_changes": self.0.changes,
            "bytes": self.0.bytes,
            "scan_seconds": self.0.scan.as_secs_f64(),
            "replay_seconds": self.0.replay.as_secs_f64(),
            "index_seconds": self.0.indexes.as_secs_f64(),
            "row_changes_per_second": self.per_second(),
            "cores": cores(),
        })
    }
}

impl std::fmt::Display for Report {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let RecoveryReport { commits, changes, scan, replay, indexes, .. } = self.0;
        writeln!(f, "recovery: {commits} commits, {changes} row changes")?;
        writeln!(
            f,
            "  scan {:.2} s, replay {:.2} s, indexes {:.2} s",
            scan.as_secs_f64(),
            replay.as_secs_f64(),
            indexes.as_secs_f64()
        )?;
        let (rate, cores) = (self.per_second(), cores());
        write!(
            f,
            "  {rate:.0} row changes a second on {cores} cores, {:.0} a core",
            rate / cores as f64
        )
    }
}

fn cores() -> usize {
    std::thread::available_parallelism().map_or(1, std::num::NonZero::get)
}
