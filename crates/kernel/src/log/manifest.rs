//! The manifest: what a database is and which part of each log counts (rules 9.1, 9.4).
//!
//! Invariants: a manifest is swapped atomically and its number grows; the last incarnation is
//! the running one and has no cuts; earlier ones have a cut for every log they wrote.

use std::sync::Arc;

use crate::base::{Cts, HomeId, LogPosition, Result};
use crate::io::Disk;

/// The version of everything on disk that this program reads and writes.
pub const FORMAT_VERSION: u32 = 1;

/// What a data directory is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Manifest {
    /// Grows with every swap.
    pub number: u64,
    /// Chosen at random when the database was made; in every segment header.
    pub database: u128,
    /// Bytes of a page, fixed at creation.
    pub page_bytes: u32,
    /// Added to clock cycles so that timestamps are above every one found on disk (rule 3.1).
    pub clock_offset: u64,
    /// How many homes there are.
    pub homes: u16,
    /// All incarnations of which a log is kept, oldest first; the last one is running.
    pub incarnations: Vec<Incarnation>,
}

/// One life of the database between two starts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Incarnation {
    /// Its number; grows.
    pub number: u32,
    /// One for every home it had: where its part of the log begins and ends.
    pub logs: Vec<LogSpan>,
}

/// The part of a home's log that one incarnation wrote.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LogSpan {
    /// Where its first segment begins.
    pub start: LogPosition,
    /// Where it ends, once recovery has cut it; `None` while it runs.
    pub cut: Option<Cut>,
}

/// Where a log ends (rule 9.3): what lies before `position` counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cut {
    /// The log.
    pub home: HomeId,
    /// One past the last byte that counts.
    pub position: LogPosition,
    /// The largest cts that counts, over all incarnations of this log.
    pub cts: Cts,
}

impl Manifest {
    /// Reads the newest whole manifest; `None` in a directory that holds nothing. Names what it
    /// refuses: other versions, foreign files, damage (`Unusable`, `Corrupt`).
    pub fn read(disk: &dyn Disk) -> Result<Option<Manifest>> {
        let _ = disk;
        todo!()
    }

    /// Makes this the directory's manifest. Blocks until it is durable; its number must exceed
    /// the one on disk.
    pub fn swap(&self, disk: &Arc<dyn Disk>) -> Result<()> {
        let _ = disk;
        todo!()
    }

    /// The running incarnation.
    pub fn current(&self) -> &Incarnation {
        self.incarnations.last().expect("a manifest has an incarnation")
    }
}
