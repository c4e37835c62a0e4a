//! `atoll restore BACKUP DIR`: a database directory from a backup and archived logs.
//!
//! Invariants: BACKUP and the archive are only read; DIR is empty or not there, and is left so if
//! anything is wrong.

use std::path::PathBuf;

use atoll_kernel::api::{Cts, Database, Until};
use atoll_sql::functions::ConstantContext;
use atoll_sql::types::datetime::{TimeZone, parse_timestamptz, write_timestamptz};

/// Microseconds from 1970 to 2000, from where SQL's timestamps count.
const EPOCH_MICROS: i64 = 946_684_800_000_000;

/// What `atoll restore` is told.
#[derive(clap::Args, Debug)]
pub struct Arguments {
    /// What `atoll backup` made.
    backup: PathBuf,
    /// The data directory to be made; it is empty or not there.
    directory: PathBuf,
    /// The `archive_directory` of the server that was backed up: logs beyond the backup.
    #[arg(long, value_name = "DIR")]
    archive: Option<PathBuf>,
    /// Up to when: a timestamp (UTC unless it names a zone) as `2026-11-23 12:00:00.5+01`, or the
    /// number of a commit timestamp; everything that the logs hold without this.
    #[arg(long, value_name = "TIMESTAMP", value_parser = until)]
    until: Option<Until>,
}

fn until(text: &str) -> Result<Until, String> {
    if text.bytes().all(|byte| byte.is_ascii_digit()) {
        let cts = text.parse().map_err(|_| "a number that is too large".to_owned())?;
        return Ok(Until::Cts(Cts(cts)));
    }
    let micros = parse_timestamptz(text, &ConstantContext).map_err(|error| error.to_string())?;
    let since_1970 = micros.checked_add(EPOCH_MICROS);
    since_1970.map(Until::Micros).ok_or_else(|| "a time that is too far away".to_owned())
}

/// A time in microseconds since 1970, as `--until` takes it.
pub fn utc(micros: i64) -> String {
    let mut time = Vec::new();
    write_timestamptz(&mut time, micros - EPOCH_MICROS, &TimeZone::utc());
    String::from_utf8_lossy(&time).into_owned()
}

/// Makes the database and says up to when it goes.
pub fn run(arguments: &Arguments) -> Result<(), String> {
    let until = arguments.until.unwrap_or(Until::End);
    let archive = arguments.archive.as_deref();
    let restored = Database::restore(&arguments.backup, archive, &arguments.directory, until)
        .map_err(|error| format!("{}: {error}", arguments.backup.display()))?;
    for line in &restored.damaged {
        eprintln!("atoll: {line}; what was restored does not need it");
    }
    let to = match until {
        Until::Cts(_) => String::new(),
        Until::End | Until::Micros(_) => {
            format!("what was committed by {}, ", utc(restored.wall_micros))
        }
    };
    println!(
        "{}: restored {to}up to cts {}: checkpoint {} and {} commits behind it, {:.1} MB",
        arguments.directory.display(),
        restored.below.0.saturating_sub(1),
        restored.checkpoint,
        restored.commits,
        restored.bytes as f64 / 1e6
    );
    Ok(())
}
