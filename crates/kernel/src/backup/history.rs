//! Whether an archive has the history of a data directory, and all that it had (backup rule 9).
//!
//! Invariants: only reads the archive; asked before anything is written to it, while nobody else does.

use super::archive::{Archive, REACHED};
use super::begun::{BEGUN, Beginnings, begun_name, numbers};
use super::reached::{Known, Reached};
use super::{Point, reached};
use crate::base::{Error, Result};
use crate::io::Disk;

impl Archive {
    /// Refuses an archive that has another history than `known`, or lacks what it had; answers the newest
    /// point up to which it has everything. Two copies of a directory begin their next incarnation
    /// alike, but not at one moment; one that was set back lacks what was archived since. An archive without
    /// any points is a new one, whatever an earlier one had. `Unusable`, `Corrupt`, `Io`.
    pub(super) fn check(&self, source: &dyn Disk, known: &Beginnings) -> Result<Option<Point>> {
        let names = self.disk().list(self.folder())?;
        let (begun, reached) = (numbers(&names, BEGUN), numbers(&names, REACHED));
        let noted = Reached::read(source)?;
        let Some(newest) = begun.last().max(reached.last()) else {
            noted.forget(source)?;
            return Ok(None);
        };
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
                None => Ok(None),
            };
        };
        let Some(point) = self.reached(last)? else { return Ok(None) };
        match noted.knows(&point)? {
            Known::Own => Ok(Some(point)),
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
