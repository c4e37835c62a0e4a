//! `atoll check DIR`: everything verified offline, nothing changed.

use std::path::PathBuf;

use atoll_kernel::api::{Database, Options};

use crate::supervise;

/// What `atoll check` is told.
#[derive(clap::Args, Debug)]
pub struct Arguments {
    /// The data directory; nobody may have it open.
    directory: PathBuf,
    /// Memory for pages, in MiB; inner nodes and long values must fit.
    #[arg(long, default_value_t = 4096, env = "ATOLL_CHECK_POOL_MIB")]
    buffer_pool_mib: u64,
}

/// Prints what was looked at, and one line for each thing that is wrong.
pub fn run(arguments: &Arguments) -> Result<(), String> {
    let options =
        Options { buffer_pool_bytes: arguments.buffer_pool_mib << 20, ..Options::default() };
    let name = arguments.directory.display();
    if !arguments.directory.is_dir() {
        return Err(format!("{name} is not a directory"));
    }
    supervise::wait_for_an_orphan(&arguments.directory);
    let findings = Database::inspect(&arguments.directory, options, &mut |line| println!("{line}"))
        .map_err(|error| format!("{name}: {error}"))?;
    for problem in &findings.problems {
        println!("{problem}");
    }
    println!(
        "{name}: {} tables, {} rows, {} index entries, {} overflow pages",
        findings.tables, findings.rows, findings.entries, findings.overflow_pages
    );
    if findings.problems.is_empty() {
        println!("nothing is wrong");
        return Ok(());
    }
    Err(format!("{} problems", findings.problems.len()))
}
