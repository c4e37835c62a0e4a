//! Verifying an archive of logs, or one database's part of it.
//!
//! Invariants: nothing is written, nothing is locked: a server may go on archiving there.

use std::path::Path;
use std::sync::Arc;

use super::super::database::Database;
use crate::backup::{ArchiveFindings, databases, verify_archive};
use crate::base::Result;
use crate::io::{Disk, RealDisk};

impl Database {
    /// Verifies the archive `directory`: every point, and every record of the logs that they tell of, of each
    /// database that it has a folder for; or of one, if it is such a folder. None if it is neither. `progress` gets
    /// a line for each log. Damage is a problem, not an error; `Io`.
    pub fn inspect_archive(
        directory: &Path,
        progress: &mut dyn FnMut(&str),
    ) -> Result<Option<Vec<ArchiveFindings>>> {
        let whole = RealDisk::to_read(directory);
        let names = whole.list("")?;
        if names.iter().any(|name| name.starts_with("MANIFEST")) {
            return Ok(None);
        }
        let found = databases(names.iter().map(String::as_str));
        let (disk, found) = match found.is_empty() {
            false => (whole, found),
            true => {
                // Seen from within: the name of a folder says whose it is.
                let full = directory.canonicalize().unwrap_or_default();
                let (Some(parent), Some(name)) = (full.parent(), full.file_name()) else {
                    return Ok(None);
                };
                (RealDisk::to_read(parent), databases(name.to_str().into_iter()))
            }
        };
        if found.is_empty() {
            return Ok(None);
        }
        let disk: Arc<dyn Disk> = Arc::new(disk);
        let all = found.into_iter().map(|database| verify_archive(&disk, database, progress));
        all.collect::<Result<_>>().map(Some)
    }
}
