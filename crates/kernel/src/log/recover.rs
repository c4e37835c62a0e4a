//! The logs at start: scan, cut, and the beginning of a new incarnation (rules 9.1 to 9.4).
//!
//! Invariants: examining changes nothing on disk; `begin` makes a manifest durable before any
//! log record of the new incarnation can be written; both may crash and run again.

use std::sync::Arc;

use super::manifest::{Cut, Manifest};
use super::reader::LogReader;
use super::{LogOptions, StableMarks};
use crate::base::{Cts, HomeId, Result};
use crate::io::{Disk, Entropy};

/// What the logs of a directory hold.
pub struct Examined {
    /// The manifest they were read by.
    pub manifest: Manifest,
    /// One for every home: the largest consistent state.
    pub cuts: Vec<Cut>,
    /// The largest cts found, inside a cut or not: new ones must be above it.
    pub cts_max: Cts,
    /// Valid commit records of the last incarnation that the cut leaves out.
    pub commits_cut: u64,
}

/// Scans all logs, one thread each, and cuts them. `Corrupt` names the file and place of damage.
pub fn examine(disk: &Arc<dyn Disk>, manifest: Manifest) -> Result<Examined> {
    let _ = (disk, manifest);
    todo!()
}

impl Examined {
    /// Everything within the cut of `home`, from its first record.
    pub fn reader(&self, disk: &Arc<dyn Disk>, home: HomeId) -> Result<LogReader> {
        let _ = (disk, home);
        todo!()
    }

    /// Begins a new incarnation with at least `homes` homes: syncs the logs up to their cuts and
    /// swaps the manifest (rule 9.4). `LogWriter::open` may follow, with the marks returned.
    pub fn begin(
        &self,
        disk: &Arc<dyn Disk>,
        homes: u16,
        clock_offset: u64,
    ) -> Result<(Manifest, Arc<StableMarks>)> {
        let _ = (disk, homes, clock_offset);
        todo!()
    }
}

/// Makes an empty directory a database: its first manifest, with incarnation 1.
pub fn create(
    disk: &Arc<dyn Disk>,
    homes: u16,
    page_bytes: u32,
    clock_offset: u64,
    entropy: &dyn Entropy,
) -> Result<(Manifest, Arc<StableMarks>)> {
    let _ = (disk, homes, page_bytes, clock_offset, entropy, LogOptions::default());
    todo!()
}
