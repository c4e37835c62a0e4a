//! `atoll check DIR`: everything verified, of a database that nobody has open, or of an archive. Nothing is changed that
//! they refer to.

use std::ops::RangeInclusive;
use std::path::PathBuf;

use atoll_kernel::api::{ArchiveFindings, Database, Findings, Options};

use crate::{restore, supervise};

/// Sizes that a buffer pool may have, in MiB: enough for the roots of a few tables, up to 16 TiB.
const POOL_MIB: RangeInclusive<u64> = 4..=1 << 24;

/// What `atoll check` is told.
#[derive(clap::Args, Debug)]
pub struct Arguments {
    /// The data directory, or a backup: nobody may have it open. Or an archive_directory, or one database's folder in
    /// it: servers may go on archiving there.
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
    let progress = &mut |line: &str| println!("{line}");
    let archives = Database::inspect_archive(&arguments.directory, progress)
        .map_err(|error| format!("{name}: {error}"))?;
    if let Some(archives) = archives {
        return tell_of_archives(&name.to_string(), &archives);
    }
    supervise::wait_for_an_orphan(&arguments.directory);
    let findings = Database::inspect(&arguments.directory, options, progress)
        .map_err(|error| format!("{name}: {error}"))?;
    print(&findings);
    println!(
        "{name}: {} tables, {} rows, {} index entries, {} overflow pages",
        findings.tables, findings.rows, findings.entries, findings.overflow_pages
    );
    let count = findings.problems.len() as u64 + findings.more_problems;
    end(&name.to_string(), findings.problems.first(), count)
}

/// The last line: nothing is wrong, or so much is.
fn end(name: &str, first: Option<&String>, count: u64) -> Result<(), String> {
    match (first, count) {
        (None, _) => {
            println!("nothing is wrong");
            Ok(())
        }
        (Some(first), 1) => Err(format!("{name}: 1 problem: {first}")),
        (Some(first), count) => Err(format!("{name}: {count} problems, the first: {first}")),
    }
}

/// Prints what was looked at of each database, what somebody should know, and one line for each thing that is wrong.
fn tell_of_archives(name: &str, archives: &[ArchiveFindings]) -> Result<(), String> {
    for archive in archives {
        for line in archive.notes.iter().chain(&archive.problems) {
            println!("{line}");
        }
        let complete = match archive.complete_to_micros {
            Some(micros) => format!("complete up to {}", restore::utc(micros)),
            None => "with nothing that says how far it is complete".to_owned(),
        };
        println!(
            "database {}: {} segments, {:.1} MB, {} commits, {complete}",
            archive.folder,
            archive.segments,
            archive.bytes as f64 / 1e6,
            archive.commits
        );
    }
    let problems = || archives.iter().flat_map(|archive| &archive.problems);
    end(name, problems().next(), problems().count() as u64)
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
