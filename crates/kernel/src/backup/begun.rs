//! What a data directory knows of the archive of its logs.
//!
//! `<incarnation>.begun`, a point, is there from the start of an incarnation whose logs are to be
//! archived: its manifest has the cuts of those before, which the next checkpoint's has no more.
//! When the archive has it, it is `ARCHIVED`. So an archive may be away for many lives of the
//! database; it gets to know of all of them; and one that others wrote, or that is not mounted, is told
//! from the one that was there (backup rules 8 and 9).
//!
//! Invariants: points are made before the instances run, and settled by the one thread that
//! archives; each is verified when it is read.

use super::{BACKUP_NAME, Point};
use crate::base::{Cts, Error, Result};
use crate::io::Disk;
use crate::log::manifest::{Incarnation, Manifest};

/// The newest beginning that the archive has.
pub const ARCHIVED_NAME: &str = "ARCHIVED";

pub(super) const BEGUN: &str = ".begun";
const UNFINISHED: &str = ".begun.tmp";

/// The name of the point that `incarnation` began with, here and in the archive.
pub(super) fn begun_name(incarnation: u32) -> String {
    format!("{incarnation:010}{BEGUN}")
}

/// Of names those of incarnations with that ending, ascending.
pub(super) fn numbers(names: &[String], ending: &str) -> Vec<u32> {
    let number = |name: &String| name.strip_suffix(ending).and_then(|n| n.parse().ok());
    let mut numbers: Vec<u32> = names.iter().filter_map(number).collect();
    numbers.sort_unstable();
    numbers
}

/// Notes that the incarnation of `manifest` began, at `wall_micros`, when `ended` had ended: if a
/// checkpoint had all of that, the manifest does not name it, and a restore needs its cuts all the
/// same. Blocks until it is durable. The logs of a backup that was started are never archived.
/// `DiskFull`, `Io`.
pub fn note_begun(
    disk: &dyn Disk,
    manifest: &Manifest,
    ended: Option<Incarnation>,
    wall_micros: i64,
) -> Result<()> {
    if disk.exists(BACKUP_NAME)? {
        return Ok(());
    }
    remove(disk, UNFINISHED)?;
    let mut manifest = manifest.clone();
    let is_named = |it: &Incarnation| manifest.incarnations.iter().any(|i| i.number == it.number);
    if let Some(ended) = ended.filter(|it| !is_named(it)) {
        manifest.incarnations.insert(manifest.incarnations.len() - 1, ended);
    }
    let point =
        Point { cts: Cts::ZERO, from_micros: wall_micros, wall_micros, ends: Vec::new(), manifest };
    point.write(disk, "", &begun_name(point.incarnation()))
}

/// Forgets what the archive does not have: logs are used again unarchived. `Io`.
pub fn forget_begun(disk: &dyn Disk) -> Result<()> {
    remove(disk, UNFINISHED)?;
    remove(disk, BEGUN)
}

fn remove(disk: &dyn Disk, ending: &str) -> Result<()> {
    disk.list("")?.iter().filter(|name| name.ends_with(ending)).try_for_each(|it| disk.remove(it))
}

/// Whether anything of this database was ever archived. `Io`.
pub fn was_archived(disk: &dyn Disk) -> Result<bool> {
    disk.exists(ARCHIVED_NAME)
}

/// The archive has the point that `incarnation` began with. `Io`.
pub(super) fn settle(disk: &dyn Disk, incarnation: u32) -> Result<()> {
    disk.rename(&begun_name(incarnation), ARCHIVED_NAME)?;
    disk.sync_dir("")
}

/// Gives a backup what `source` knows of how the backed-up `incarnation` began. `Corrupt`, `DiskFull`, `Io`.
pub fn copy_begun(source: &dyn Disk, target: &dyn Disk, incarnation: u32) -> Result<()> {
    match Beginnings::read(source)?.of(incarnation) {
        Some(point) => point.write(target, "", &begun_name(incarnation)),
        None => Ok(()),
    }
}

/// How incarnations began, as the data directory knows it.
pub(super) struct Beginnings {
    /// The newest that the archive has.
    pub archived: Option<Point>,
    /// Those that it may not have, ascending.
    pub pending: Vec<Point>,
}

impl Beginnings {
    /// Of the directory `disk`; while another settles them, too. `Corrupt`, `Unusable`, `Io`.
    pub fn read(disk: &dyn Disk) -> Result<Beginnings> {
        let mut pending = Vec::new();
        for number in numbers(&disk.list("")?, BEGUN) {
            match Point::read(disk, &begun_name(number)) {
                // It was just settled, and is read below.
                Err(Error::NotFound { .. }) => {}
                point => pending.extend(point?),
            }
        }
        Ok(Beginnings { archived: Point::read(disk, ARCHIVED_NAME)?, pending })
    }

    /// How `incarnation` began, if that is known.
    pub fn of(&self, incarnation: u32) -> Option<&Point> {
        self.pending.iter().chain(&self.archived).find(|it| it.incarnation() == incarnation)
    }
}
