//! `atoll bench recovery`: how fast a directory that `tpcb --data` or `tpcc --data` left is recovered.

use std::path::PathBuf;
use std::time::Duration;

use atoll_bench::recovery::{Left, Recovered, recover};
use atoll_bench::tpcb::SCALE_MAX;
use atoll_kernel::api::RecoveryReport;
use serde_json::{Value, json};

use super::interrupt;
use super::output::Format;

#[derive(clap::Args, Debug)]
pub struct Arguments {
    /// The directory.
    #[arg(long)]
    data: PathBuf,
    /// The scale that `tpcb` has loaded it with.
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..=SCALE_MAX))]
    scale: u64,
    /// The warehouses that `tpcc` has loaded it with.
    #[arg(long, conflicts_with = "scale",
        value_parser = clap::value_parser!(u64).range(1..=100_000))]
    warehouses: Option<u64>,
    /// Memory for pages in MiB; what such a run takes without this.
    #[arg(long, value_name = "MIB", value_parser = clap::value_parser!(u64).range(1..=1 << 24))]
    buffer_pool: Option<u64>,
    #[command(flatten)]
    format: Format,
}

/// Recovers and prints what was measured.
pub fn run(arguments: &Arguments) -> Result<(), String> {
    interrupt::watch(None)?;
    let left = match arguments.warehouses {
        Some(warehouses) => Left::Tpcc { warehouses },
        None => Left::Tpcb { scale: arguments.scale },
    };
    let pool_bytes = arguments.buffer_pool.map(|mib| mib << 20);
    let Recovered { report, first_answer } = recover(&arguments.data, left, pool_bytes)?;
    let report = Report { report, first_answer };
    arguments.format.print(&report, &report.json());
    Ok(())
}

/// What came of it.
struct Report {
    report: RecoveryReport,
    first_answer: Duration,
}

impl Report {
    /// Row changes a second.
    fn per_second(&self) -> f64 {
        self.report.changes as f64 / self.report.replay.as_secs_f64().max(1e-9)
    }

    /// As one JSON object.
    fn json(&self) -> Value {
        json!({
            "benchmark": "recovery",
            "commits": self.report.commits,
            "row_changes": self.report.changes,
            "bytes": self.report.bytes,
            "scan_seconds": self.report.scan.as_secs_f64(),
            "replay_seconds": self.report.replay.as_secs_f64(),
            "index_seconds": self.report.indexes.as_secs_f64(),
            "row_changes_per_second": self.per_second(),
            "first_answer_seconds": self.first_answer.as_secs_f64(),
            "load_seconds": self.report.load.as_secs_f64(),
            "cores": cores(),
        })
    }
}

impl std::fmt::Display for Report {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let RecoveryReport { commits, changes, load, scan, replay, indexes, .. } = self.report;
        writeln!(f, "recovery: {commits} commits, {changes} row changes")?;
        writeln!(
            f,
            "  load {:.2} s, scan {:.2} s, replay {:.2} s, indexes {:.2} s; first answer after {:.2} s",
            load.as_secs_f64(),
            scan.as_secs_f64(),
            replay.as_secs_f64(),
            indexes.as_secs_f64(),
            self.first_answer.as_secs_f64()
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
