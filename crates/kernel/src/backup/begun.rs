//! What a data directory knows of the archive of its logs.
//!
//! `<incarnation>.begun`, a point, is there from the start of an incarnation whose logs are to be
//! archived: its manifest has the cuts of those before, which the next checkpoint's has no more.
//! When the archive has it, it is `ARCHIVED`. So an archive may be away for many lives of the
//! database; it gets to know of all of them; and one that others wrote, or that is not mounted, is told
//! from the one that was there (backup rules 8 and 9). `FORGOTTEN` is what a start without an archive leaves of
//! that (`forget_begun`). `REACHED` is beside it (reached.rs).
//!
//! Invariants: points are made before the manifest of their incarnation, and settled by the one thread that
//! archives; each is verified when it is read.

use super::Point;
use super::point::BACKUP_NAME;
use super::reached::Reached;
use crate::base::{Cts, Error, Result};
use crate::io::Disk;
use crate::log::manifest::{Incarnation, Manifest};

/// The newest beginning that the archive has.
const ARCHIVED_NAME: &str = "ARCHIVED";
/// The beginning that was forgotten first: alone of those the archive may have it.
const FORGOTTEN_NAME: &str = "FORGOTTEN";

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

/// Notes that the incarnation of `manifest` begins, at `wall_micros`, when `ended` had ended: if a
/// checkpoint had all of that, the manifest does not name it, and a restore needs its cuts all the
/// same. Called before the manifest is there: a start that ended between the two would be one of which
/// nobody knows how it began. Blocks until it is durable. `DiskFull`, `Io`.
pub fn note_begun(
    disk: &dyn Disk,
    manifest: &Manifest,
    ended: Option<Incarnation>,
    wall_micros: i64,
) -> Result<()> {
    remove(disk, ends_with(disk, UNFINISHED)?)?;
    Reached::make(disk)?;
    let mut manifest = manifest.clone();
    let is_named = |it: &Incarnation| manifest.incarnations.iter().any(|i| i.number == it.number);
    if let Some(ended) = ended.filter(|it| !is_named(it)) {
        manifest.incarnations.insert(manifest.incarnations.len() - 1, ended);
    }
    let point =
        Point { cts: Cts::ZERO, from_micros: wall_micros, wall_micros, ends: Vec::new(), manifest };
    point.write(disk, "", &begun_name(point.incarnation()))
}

/// Forgets what the archive does not have: logs are used again unarchived. Called when a manifest is durable
/// behind which nobody needs them, and before the first of them is used again or removed: a later start
/// would promise the archive what is not there any more. Blocks until it is durable. `Io`.
///
/// The first of them goes another way: the archive got it, perhaps, from a process that ended before it was
/// `ARCHIVED`, and a later start must know it for its own. It got none behind it. One that is damaged was
/// archived by nobody who could tell.
pub fn forget_begun(disk: &dyn Disk) -> Result<()> {
    let unfinished = remove(disk, ends_with(disk, UNFINISHED)?)?;
    let mut begun = ends_with(disk, BEGUN)?;
    let first = match disk.exists(FORGOTTEN_NAME)? || begun.is_empty() {
        true => None,
        false => Some(begun.remove(0)),
    };
    let forgotten = unfinished + remove(disk, begun)? + usize::from(first.is_some());
    if let Some(first) = first {
        match Point::read(disk, &first) {
            Err(Error::Corrupt { .. } | Error::Unusable { .. }) => disk.remove(&first)?,
            read => read.and_then(|_| disk.rename(&first, FORGOTTEN_NAME))?,
        }
    }
    if forgotten > 0 { disk.sync_dir("") } else { Ok(()) }
}

/// The names that end so, ascending.
fn ends_with(disk: &dyn Disk, ending: &str) -> Result<Vec<String>> {
    Ok(disk.list("")?.into_iter().filter(|name| name.ends_with(ending)).collect())
}

/// Removes files, the last first: who ends meanwhile leaves the beginning of a history.
fn remove(disk: &dyn Disk, names: Vec<String>) -> Result<usize> {
    names.iter().rev().try_for_each(|it| disk.remove(it))?;
    Ok(names.len())
}

/// Whether logs of this database were archived, or were to be. `Io`.
pub fn is_archiving(disk: &dyn Disk) -> Result<bool> {
    Ok(was_archived(disk)? || disk.list("")?.iter().any(|name| name.ends_with(BEGUN)))
}

/// What is damaged of what the directory knows of how incarnations began. Archiving needs all of it.
pub fn damaged_begun(disk: &dyn Disk) -> Result<Vec<Error>> {
    let begun = numbers(&disk.list("")?, BEGUN).into_iter().map(begun_name);
    let names = begun.chain([ARCHIVED_NAME, FORGOTTEN_NAME].map(str::to_owned));
    Ok(names.filter_map(|name| Point::read(disk, &name).err()).collect())
}

/// What is damaged of what a directory knows of backups and archives, `BACKUP` and `REACHED` among it: for a check, for
/// nothing else needs all of it.
pub fn damaged_notes(disk: &dyn Disk) -> Result<Vec<Error>> {
    let mut damaged = damaged_begun(disk)?;
    damaged.extend(Point::read(disk, BACKUP_NAME).err());
    damaged.extend(Reached::read(disk).and_then(|reached| reached.check()).err());
    Ok(damaged)
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

/// The archive has the point that was forgotten, or else never got it. Blocks until it is durable. `Io`.
pub(super) fn settle_forgotten(disk: &dyn Disk, is_archived: bool) -> Result<()> {
    match is_archived {
        true => disk.rename(FORGOTTEN_NAME, ARCHIVED_NAME)?,
        false => disk.remove(FORGOTTEN_NAME)?,
    }
    disk.sync_dir("")
}

/// Gives a backup what `source` knows of how the backed-up `incarnation` began, which is to be archived; how
/// others did is of no use to it. `Corrupt`, `DiskFull`, `Io`.
pub fn copy_begun(source: &dyn Disk, target: &dyn Disk, incarnation: u32) -> Result<()> {
    let name = begun_name(incarnation);
    let point = match unless_settled(source, &name)? {
        None => Point::read(source, ARCHIVED_NAME)?.filter(|it| it.incarnation() == incarnation),
        pending => pending,
    };
    point.map_or(Ok(()), |point| point.write(target, "", &name))
}

/// A point of which the archive gets to know meanwhile, perhaps: then it is `ARCHIVED`.
fn unless_settled(disk: &dyn Disk, name: &str) -> Result<Option<Point>> {
    match Point::read(disk, name) {
        Err(Error::NotFound { .. }) => Ok(None),
        point => point,
    }
}

/// How incarnations began, as the data directory knows it.
pub(super) struct Beginnings {
    /// The newest that the archive has.
    pub archived: Option<Point>,
    /// One behind that which was forgotten, and which the archive may have.
    pub forgotten: Option<Point>,
    /// Those that it may not have, ascending.
    pub pending: Vec<Point>,
}

impl Beginnings {
    /// Of the directory `disk`; while another settles them, too. `Corrupt`, `Unusable`, `Io`.
    pub fn read(disk: &dyn Disk) -> Result<Beginnings> {
        let mut pending = Vec::new();
        for number in numbers(&disk.list("")?, BEGUN) {
            pending.extend(unless_settled(disk, &begun_name(number))?);
        }
        let [archived, forgotten] = [ARCHIVED_NAME, FORGOTTEN_NAME].map(|it| Point::read(disk, it));
        Ok(Beginnings { archived: archived?, forgotten: forgotten?, pending })
    }

    /// How `incarnation` began, if that is known.
    pub fn of(&self, incarnation: u32) -> Option<&Point> {
        let all = self.pending.iter().chain(&self.forgotten).chain(&self.archived);
        all.into_iter().find(|it| it.incarnation() == incarnation)
    }
}
