//! `atoll check DIR`: everything verified offline. Nothing is changed that the database refers to.

use std::ops::RangeInclusive;
use std::path::PathBuf;

use atoll_kernel::api::{Database, Findings, Options};

use crate::supervise;

/// Sizes that a buffer pool may have, in MiB: enough for the roots of a few tables, up to 16 TiB.
const POOL_MIB: RangeInclusive<u64> = 4..=1 << 24;

/// What `atoll check` is told.
#[derive(clap::Args, Debug)]
pub struct Arguments {
    /// The data directory; nobody may have it open.
    directory: PathBuf,
    /// Memory for pages, in MiB: the roots of all tables and indexes must fit. What recovery changes and
    /// finds no room for is written to free places of the page files; nothing else is written.
    #[arg(
        long,
        default_value_t = 4096,
        value_parser = clap::value_parser!(u64).range(POOL_MIB),
        env = "ATOLL_CHECK_POOL_MIB"
    )]
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
    print(&findings);
    println!(
        "{name}: {} tables, {} rows, {} index entries, {} overflow pages",
        findings.tables, findings.rows, findings.entries, findings.overflow_pages
    );
    let Some(first) = findings.problems.first() else {
        println!("nothing is wrong");
        return Ok(());
    };
    match findings.problems.len() as u64 + findings.more_problems {
        1 => Err(format!("{name}: 1 problem: {first}")),
        count => Err(format!("{name}: {count} problems, the first: {first}")),
    }
}

fn print(findings: &Findings) {
    for problem in &findings.problems {
        println!("{problem}");
    }
    if findings.more_problems > 0 {
        println!("and {} more problems", findings.more_problems);
    }
    for what in &findings.unchecked {
        println!("not checked: {what}");
    }
}
