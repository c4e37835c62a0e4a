//! Whether an archive has the history of a data directory, and all that it had (backup rule 9).
//!
//! Invariants: only reads the archive; asked before anything is written to it, under its folder's lock. Nothing is
//! concluded from what is missing in a folder that may have gone away meanwhile.

use super::archive::{Archive, REACHED};
use super::begun::{BEGUN, Beginnings, begun_name, numbers};
use super::reached::{Known, Reached};
use super::{Point, reached};
use crate::base::{Error, Result};
use crate::io::Disk;

/// What an archive has that is not refused.
enum History {
    /// No points: it is a new one.
    New,
    /// The directory's own, and the newest point up to which it has everything.
    Own(Option<Box<Point>>),
}

impl Archive {
    /// Refuses an archive that has another history than `known`, or lacks what it had; answers the newest
    /// point up to which it has everything. Two copies of a directory begin their next incarnation
    /// alike, but not at one moment; one that was set back lacks what was archived since. An archive without
    /// any points is a new one, whatever an earlier one had. `Unusable`, `Corrupt`, `Io`.
    pub(super) fn check(&self, source: &dyn Disk, known: &Beginnings) -> Result<Option<Point>> {
        let noted = Reached::read(source)?;
        match self.looked(|| self.judge(known, &noted))? {
            History::New => noted.forget(source).map(|()| None),
            History::Own(point) => Ok(point.map(|point| *point)),
        }
    }

    fn judge(&self, known: &Beginnings, noted: &Reached) -> Result<History> {
        let names = self.disk().list(self.folder())?;
        let (begun, reached) = (numbers(&names, BEGUN), numbers(&names, REACHED));
        let Some(newest) = begun.last().max(reached.last()) else { return Ok(History::New) };
        let archived = known.archived.as_ref().map(Point::incarnation);
        if let Some(archived) = archived.filter(|it| it > newest) {
            return Err(self.set_back(&begun_name(archived)));
        }
        for &number in &begun {
            let is_own = match known.of(number) {
                Some(own) => self.begun(number)?.as_ref() == Some(own),
                // What was archived before is not remembered one by one. Who never archived has no part
                // in what is there.
                None => archived.is_some_and(|archived| number < archived),
            };
            if !is_own {
                return Err(self.another_copy(number));
            }
        }
        let Some(&last) = reached.last() else {
            return match archived.filter(|archived| noted.had(*archived)) {
                Some(archived) => Err(self.set_back(&Archive::reached_name(archived))),
                None => Ok(History::Own(None)),
            };
        };
        let Some(point) = self.reached(last)? else { return Ok(History::Own(None)) };
        match noted.knows(&point)? {
            Known::Own => Ok(History::Own(Some(Box::new(point)))),
            Known::Older => Err(self.set_back(&Archive::reached_name(last))),
            Known::No => Err(self.unknown(&Archive::reached_name(last))),
        }
    }

    /// The error of an archive that is of another copy.
    pub(super) fn another_copy(&self, incarnation: u32) -> Error {
        let name = self.path(&begun_name(incarnation));
        let detail = format!(
            "the archive's \"{name}\" is of another copy of this database; give each an archive \
             directory of its own"
        );
        Error::Unusable { detail }
    }

    fn unknown(&self, name: &str) -> Error {
        let detail = format!(
            "the archive's \"{}\" has a checkpoint that this database has not archived: it is an earlier copy, \
             whose logs are of another history since, or another copy archives here, too; give each an \
             archive directory of its own",
            self.path(name)
        );
        Error::Unusable { detail }
    }

    fn set_back(&self, name: &str) -> Error {
        let detail = format!(
            "the archive was set back to an earlier state: its \"{}\" is missing, or older than \"{}\" in the \
             data directory says, and logs that it had may be lost; bring it back as it was, or \
             put an empty folder in the place of \"{}\" and take a backup",
            self.path(name),
            reached::REACHED_NAME,
            self.folder()
        );
        Error::Unusable { detail }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use std::sync::Arc;

    use super::super::reached::tests::point;
    use super::*;
    use crate::base::{Cts, HomeId, LogPosition};
    use crate::io::{Direct, IoChoice, LOCK_NAME, MemoryDisk, OpenHow};
    use crate::log::manifest::Cut;

    /// What was noted of it was forgotten, and when it was back it seemed to be another copy's.
    #[test]
    fn an_archive_that_has_just_gone_away_is_not_taken_for_a_new_one() {
        let source = MemoryDisk::new(IoChoice::Threads);
        Reached::note(&source, None, &point(1, 1)).unwrap();
        Reached::settle(&source, &point(1, 1)).unwrap();
        let (known, had) =
            (Beginnings::read(&source).unwrap(), || Reached::read(&source).unwrap().had(1));
        let disk = Arc::new(MemoryDisk::new(IoChoice::Threads));
        let archive = Archive::new(disk.clone(), 9);
        let told = archive.check(&source, &known).unwrap_err().to_string();
        assert!(told.contains("has nothing of this database"), "{told}");
        assert!(had());
        // An empty folder that somebody has put there, and the lock of who asks.
        disk.create_dir(archive.folder()).unwrap();
        disk.open(&archive.path(LOCK_NAME), OpenHow::CreateNew, Direct::No).unwrap();
        assert!(matches!(archive.check(&source, &known), Ok(None)));
        assert!(!had());
    }

    /// What the incarnation before has left was not looked for then, though the archive knew of it.
    #[test]
    fn of_an_archive_that_has_just_gone_away_nothing_is_told_about_what_is_left() {
        let source = MemoryDisk::new(IoChoice::Threads);
        point(1, 1).write(&source, "", &begun_name(1)).unwrap();
        let known = Beginnings::read(&source).unwrap();
        let mut before = point(1, 1).manifest.incarnations.remove(0);
        let cut = Cut { home: HomeId(0), position: LogPosition(50), cts: Cts(20) };
        before.logs[0].cut = Some(cut);
        let mut next = point(2, 1);
        next.manifest.incarnations.insert(0, before);
        let disk = Arc::new(MemoryDisk::new(IoChoice::Threads));
        let archive = Archive::new(disk.clone(), 9);
        let left = || archive.left(&next, &known, HomeId(0));
        let told = left().unwrap_err().to_string();
        assert!(told.contains("has nothing of this database"), "{told}");
        disk.create_dir(archive.folder()).unwrap();
        disk.open(&archive.path(LOCK_NAME), OpenHow::CreateNew, Direct::No).unwrap();
        assert_eq!(left().unwrap(), None);
        point(1, 1).write(&*disk, archive.folder(), &begun_name(1)).unwrap();
        assert_eq!(left().unwrap(), Some(LogPosition(0)..LogPosition(50)));
    }
}
