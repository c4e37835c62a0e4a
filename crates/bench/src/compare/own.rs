//! Our own benchmarks as processes: each prints one JSON object, its report.
//!
//! Invariants: whatever is wrong with a report is one line, which names the run or what it does not say.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use serde_json::Value;

use super::Result;
use super::process::{self, Finished, Watch};

/// Runs a benchmark to its end, as [`process::run`] does; its report.
pub fn report(
    what: &str,
    command: Command,
    folder: &Path,
    limit: Duration,
    watch: &Watch<'_>,
) -> Result<Value> {
    read(what, &process::run(what, command, folder, limit, watch)?)
}

/// The report of a benchmark that has run to its end.
pub fn read(what: &str, finished: &Finished) -> Result<Value> {
    serde_json::from_str(&finished.stdout).map_err(|error| format!("{what}: {error}"))
}

/// A figure of a report, by its JSON pointer.
pub fn figure(report: &Value, path: &str) -> Result<f64> {
    let found = report.pointer(path).and_then(Value::as_f64);
    found.ok_or_else(|| format!("a run does not say {path}"))
}
