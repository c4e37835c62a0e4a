//! An archive: logs that are about to be used again, and what their cuts are.
//!
//! In `ARCHIVE/<database>/`: segments, named by home, incarnation and position; for each incarnation
//! that ran `<incarnation>.begun`, the manifest that began it, with the cuts of those before; and
//! `<incarnation>.reached`, the newest checkpoint up to whose S all logs are in the archive. The
//! last segment of a log is copied as far as it is durable, and again when it has grown.
//!
//! Invariants: `begun` is written when all that earlier incarnations left is archived, `reached`
//! when everything below its cts is: so a name promises that all before it is there. What has a
//! name is whole and durable; a segment's copy is only replaced by a longer one. Another history (a
//! copy of the directory that was started, too, or an earlier one) is refused, and so is an archive
//! that was set back (history.rs). One thread of one process writes: it holds the folder's lock.

use std::ops::Range;
use std::sync::Arc;

use super::begun::{self, BEGUN, Beginnings, begun_name, numbers};
use super::choice::{Source, difference};
use super::copy::{SegmentPiece, copy_segment};
use super::reached::Reached;
use super::{Point, Watch};
use crate::base::{Error, HomeId, LogPosition, Result};
use crate::io::{Direct, Disk, IoBuffer, LOCK_NAME, OpenHow};
use crate::log::manifest::Manifest;
use crate::log::{
    HeaderFault, SEGMENT_HEADER_BYTES, SegmentHeader, segment_folder, segment_name, segments,
};
use crate::sync::mutant;

pub(super) const REACHED: &str = ".reached";
const SEGMENT: &str = ".seg";

/// One database's part of an archive.
pub struct Archive {
    disk: Arc<dyn Disk>,
    database: u128,
    folder: String,
}

/// What archiving has done.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ArchivedUpTo {
    /// Segments copied, the last one of a log whenever it has grown.
    pub segments: u64,
    /// For each home: all segments of the running incarnation that end here or before are archived
    /// as a whole.
    pub whole: Vec<LogPosition>,
}

/// Whose a segment is that the archive has already.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Found {
    /// This process, or one before it that archived the same incarnation, copied it.
    Own,
    /// Nothing says that.
    Doubtful,
}

/// Where a segment belongs: its log, who wrote it, and where it begins.
pub(super) type SegmentKey = (HomeId, u32, LogPosition);

/// A segment in an archive.
pub(super) struct Archived {
    pub name: String,
    pub header: SegmentHeader,
    pub bytes: u64,
}

/// A segment in an archive of which nothing can be used.
pub(super) struct Damaged {
    pub name: String,
    /// Where it belongs, as its name says; none if that says nothing.
    pub key: Option<SegmentKey>,
    pub why: String,
}

impl Damaged {
    /// For people.
    pub fn line(&self) -> String {
        format!("the archive's \"{}\": {}", self.name, self.why)
    }
}

fn segment_file((home, incarnation, start): SegmentKey) -> String {
    format!("{:04}-{incarnation:010}-{:016x}{SEGMENT}", home.0, start.0)
}

/// Where a segment belongs, as its name says.
pub(super) fn key_of(name: &str) -> Option<SegmentKey> {
    let mut parts = name.strip_suffix(SEGMENT)?.split('-');
    let (home, incarnation) = (parts.next()?.parse().ok()?, parts.next()?.parse().ok()?);
    let start = u64::from_str_radix(parts.next()?, 16).ok()?;
    Some((HomeId(home), incarnation, LogPosition(start)))
}

fn folder_of(database: u128) -> String {
    format!("{database:032x}")
}

/// The database whose folder in an archive has this name.
pub(super) fn database_of(folder: &str) -> Option<u128> {
    let database = u128::from_str_radix(folder, 16).ok()?;
    (folder_of(database) == folder).then_some(database)
}

impl Archive {
    /// The part of `database` in the archive that `disk` holds; nothing is made yet.
    pub fn new(disk: Arc<dyn Disk>, database: u128) -> Archive {
        Archive { disk, database, folder: folder_of(database) }
    }

    pub(super) fn disk(&self) -> &dyn Disk {
        &*self.disk
    }

    /// The name of its folder.
    pub fn folder(&self) -> &str {
        &self.folder
    }

    pub(super) fn path(&self, name: &str) -> String {
        format!("{}/{name}", self.folder)
    }

    pub(super) fn reached_name(incarnation: u32) -> String {
        format!("{incarnation:010}{REACHED}")
    }

    /// Whether it has anything of the database. `Io`.
    pub fn is_there(&self) -> Result<bool> {
        self.disk.exists(&self.folder)
    }

    /// What `look` finds in the folder. Where its disk has just gone away everything seems to be missing, so it must be
    /// there before and behind it: whoever writes to it has locked it, and so a file in it. `Unusable` if it is not.
    pub(super) fn looked<T>(&self, look: impl FnOnce() -> Result<T>) -> Result<T> {
        let must_be_there = || match self.disk.exists(&self.path(LOCK_NAME))? {
            false if !mutant("archive-that-went-is-new") => Err(self.nothing()),
            _ => Ok(()),
        };
        must_be_there()?;
        let found = look();
        must_be_there()?;
        found
    }

    /// The error of an archive that has nothing.
    pub fn nothing(&self) -> Error {
        let detail = format!(
            "the archive has nothing of this database, which would be in \"{}\": is its disk \
             mounted?",
            self.folder
        );
        Error::Unusable { detail }
    }

    /// Archives what earlier incarnations than the running one, `incarnation`, have left on `source`,
    /// and how each began of which the archive does not know. Its folder is locked. Blocks; may be called
    /// again. `Unusable` if the archive has another history of it, or was set back; `Corrupt` if
    /// `source` does not know how it began, or lacks a segment; `DiskFull`, `Io`, `Cancelled`.
    pub fn begin(&self, source: &dyn Disk, incarnation: u32, watch: &Watch) -> Result<u64> {
        let known = Beginnings::read(source)?;
        let Some(running) = known.of(incarnation) else {
            let detail = format!("\"{}\" is missing", begun_name(incarnation));
            return Err(Error::Corrupt { page: None, detail });
        };
        self.check(source, &known)?;
        self.disk.sync_dir("")?;
        // Before the archive gets another, which may be the next one that is forgotten.
        if let Some(forgotten) = &known.forgotten {
            let found = self.looked(|| self.begun(forgotten.incarnation()))?;
            begun::settle_forgotten(source, found.is_some())?;
        }
        let mut copied = 0;
        for point in &known.pending {
            copied += self.begin_one(source, (point, &known), &running.manifest, watch)?;
            begun::settle(source, point.incarnation())?;
        }
        Ok(copied)
    }

    /// Archives how one incarnation began, after what is left of those before it.
    fn begin_one(
        &self,
        source: &dyn Disk,
        (point, known): (&Point, &Beginnings),
        running: &Manifest,
        watch: &Watch,
    ) -> Result<u64> {
        let number = point.incarnation();
        match self.looked(|| self.begun(number))? {
            Some(found) if found == *point => return Ok(0),
            Some(_) => return Err(self.another_copy(number)),
            None => {}
        }
        let mut copied = 0;
        for home in (0..running.homes).map(HomeId) {
            let found = segments(source, running, home)?;
            if let Some(left) = self.left(point, known, home)? {
                self.check_whole(home, &found, (number - 1, left))?;
            }
            for header in found.into_iter().filter(|it| it.incarnation < number) {
                let name = segment_name(home, header.number);
                let file = source.open(&name, OpenHow::Existing, Direct::No)?;
                let bytes = header.bytes.min(file.len()?);
                let piece = SegmentPiece { header, bytes };
                copied += self.segment(source, piece, Found::Doubtful, watch)?;
            }
        }
        self.disk.sync_dir(&self.folder)?;
        point.write(&*self.disk, &self.folder, &begun_name(number))?;
        Ok(copied)
    }

    /// What the incarnation before that of `point` must have left of a log: behind what the archive has of it, which
    /// alone was let go of. None if that is not known: another one was between, or the archive is a new one. `Unusable`
    /// if its folder went away.
    pub(super) fn left(
        &self,
        point: &Point,
        known: &Beginnings,
        home: HomeId,
    ) -> Result<Option<Range<LogPosition>>> {
        let (number, home) = (point.incarnation() - 1, usize::from(home.0));
        let ended = point.manifest.incarnations.iter().find(|it| it.number == number);
        let cut = ended.and_then(|it| it.logs.get(home)?.cut);
        let from = match self.looked(|| Ok((self.reached(number)?, self.begun(number)?)))? {
            (Some(reached), _) => reached.ends.get(home).copied(),
            (None, Some(begun)) => begun.manifest.current().logs.get(home).map(|it| it.start),
            (None, None) => None,
        };
        let is_known = known.of(number).is_some();
        Ok(from.zip(cut).filter(|_| is_known).map(|(from, cut)| from..cut.position))
    }

    /// Refuses to go on if the segments of a log do not have all of a part. One cannot be told from an unfinished one
    /// if its header is damaged: those behind it would be used again as if the archive had everything.
    fn check_whole(
        &self,
        home: HomeId,
        found: &[SegmentHeader],
        (incarnation, Range { start, end }): (u32, Range<LogPosition>),
    ) -> Result<()> {
        let mut next = start;
        for header in found.iter().filter(|it| it.incarnation == incarnation) {
            if header.start <= next {
                next = next.max(header.end());
            }
        }
        if next >= end {
            return Ok(());
        }
        let detail = format!(
            "\"{}\" has no segment of incarnation {incarnation} that begins at position {next}, though that log goes up \
             to {end}: a file is damaged or missing, and the archive cannot have it any more; start once without \
             archive_directory, then with it, and take a backup",
            segment_folder(home)
        );
        Err(Error::Corrupt { page: None, detail })
    }

    /// Archives the logs of the running incarnation on `source` up to the ends of `point`, then the
    /// point. `whole`: as the call before answered. Nobody else writes to the archive. Blocks. `Unusable` if another
    /// copy archives here, too, or the archive was set back; `Corrupt` if a segment is missing, too; `DiskFull`, `Io`,
    /// `Cancelled`.
    pub fn reach(
        &self,
        source: &dyn Disk,
        point: &Point,
        whole: &[LogPosition],
        watch: &Watch,
    ) -> Result<ArchivedUpTo> {
        let number = point.incarnation();
        let known = Beginnings::read(source)?;
        let present = self.check(source, &known)?;
        let found = match present {
            Some(_) => Found::Own,
            None => Found::Doubtful,
        };
        let mut archived = ArchivedUpTo::default();
        for (at, (span, end)) in point.manifest.current().logs.iter().zip(&point.ends).enumerate() {
            // Nothing of it was let go of before this process archived anything.
            let began = known.of(number).and_then(|it| it.manifest.current().logs.get(at));
            let from = whole.get(at).copied().or(began.map(|it| it.start)).unwrap_or(span.start);
            let (home, part) = (HomeId(at as u16), from..*end);
            let (segments, whole) = self.reach_one(source, point, (home, part), found, watch)?;
            archived.segments += segments;
            archived.whole.push(whole.max(span.start));
        }
        self.disk.sync_dir(&self.folder)?;
        Reached::note(source, present.as_ref(), point)?;
        point.write(&*self.disk, &self.folder, &Archive::reached_name(number))?;
        Reached::settle(source, point)?;
        Ok(archived)
    }

    /// Archives the part of one log before which all is archived already; answers how many segments were copied, and
    /// up to where all are whole.
    fn reach_one(
        &self,
        source: &dyn Disk,
        point: &Point,
        (home, part): (HomeId, Range<LogPosition>),
        found: Found,
        watch: &Watch,
    ) -> Result<(u64, LogPosition)> {
        let (mut copied, mut whole) = (0, part.start);
        let mut headers = segments(source, &point.manifest, home)?;
        // What ends before may be used again at any moment.
        headers.retain(|it| it.incarnation == point.incarnation());
        headers.retain(|it| it.end() > part.start && it.start < part.end);
        self.check_whole(home, &headers, (point.incarnation(), part.clone()))?;
        for header in headers {
            let bytes = header.bytes.min(part.end.0 - header.start.0);
            copied += self.segment(source, SegmentPiece { header, bytes }, found, watch)?;
            if header.end() <= part.end {
                whole = whole.max(header.end());
            }
        }
        Ok((copied, whole))
    }

    /// Archives a segment unless as much of it is there; answers how many were copied. `Unusable` if what is
    /// there is doubtful, and something else.
    fn segment(
        &self,
        source: &dyn Disk,
        piece: SegmentPiece,
        found: Found,
        watch: &Watch,
    ) -> Result<u64> {
        let SegmentHeader { home, incarnation, number, start, .. } = piece.header;
        let name = self.path(&segment_file((home, incarnation, start)));
        if self.disk.exists(&name)? {
            let bytes = self.disk.open(&name, OpenHow::Existing, Direct::No)?.len()?;
            if found == Found::Doubtful {
                self.compare(source, &piece, (&name, bytes))?;
            }
            if bytes >= piece.bytes {
                return Ok(0);
            }
        }
        let unfinished = format!("{name}.tmp");
        if self.disk.exists(&unfinished)? {
            self.disk.remove(&unfinished)?;
        }
        let from = segment_name(home, number);
        copy_segment((source, &from), (&*self.disk, &unfinished), piece, watch)?;
        self.disk.rename(&unfinished, &name)?;
        Ok(1)
    }

    /// Refuses what the archive has as `name` if it is not the segment that `source` has, as far as both go.
    fn compare(
        &self,
        source: &dyn Disk,
        piece: &SegmentPiece,
        (name, bytes): (&str, u64),
    ) -> Result<()> {
        let (header, own) = (piece.header, segment_name(piece.header.home, piece.header.number));
        let (disk, of) = (&*self.disk, "archive");
        let there = Source { disk, of, name: name.to_owned(), header, bytes };
        let (of, bytes) = ("data directory", piece.bytes);
        let here = Source { disk: source, of, name: own, header, bytes };
        let Some(at) = difference(&there, &here, SEGMENT_HEADER_BYTES as u64)? else {
            return Ok(());
        };
        let detail = format!(
            "{} is not what the data directory has as \"{}\", from byte {at} on: set it aside if it is \
             damaged; if another copy of this database archives here, give each an archive directory of its \
             own",
            there.file(),
            here.name
        );
        Err(Error::Unusable { detail })
    }

    /// How `incarnation` began, if that is known. `Unusable` if it is another database's.
    pub(super) fn begun(&self, incarnation: u32) -> Result<Option<Point>> {
        self.point(&begun_name(incarnation), incarnation)
    }

    /// Up to where the logs of `incarnation` are archived, if that is known. `Unusable` as above.
    pub(super) fn reached(&self, incarnation: u32) -> Result<Option<Point>> {
        self.point(&Archive::reached_name(incarnation), incarnation)
    }

    fn point(&self, name: &str, incarnation: u32) -> Result<Option<Point>> {
        let path = self.path(name);
        let Some(point) = Point::read(&*self.disk, &path)? else { return Ok(None) };
        check_owner(&path, point.manifest.database, self.database)?;
        if point.incarnation() != incarnation {
            let detail = format!("\"{path}\" is of incarnation {}", point.incarnation());
            return Err(Error::Corrupt { page: None, detail });
        }
        Ok(Some(point))
    }

    /// The incarnations of which it is known how they began, ascending.
    pub(super) fn incarnations(&self) -> Result<Vec<u32>> {
        Ok(numbers(&self.disk.list(&self.folder)?, BEGUN))
    }

    /// All segments, and those of which nothing can be used. `Unusable` names another database's; `Io`.
    pub(super) fn segments(&self) -> Result<(Vec<Archived>, Vec<Damaged>)> {
        let (mut found, mut damaged) = (Vec::new(), Vec::new());
        for file in self.disk.list(&self.folder)? {
            if !file.ends_with(SEGMENT) {
                continue;
            }
            let name = self.path(&file);
            match self.look_at(&name) {
                Ok((header, bytes)) => found.push(Archived { name, header, bytes }),
                Err(foreign @ Error::Unusable { .. }) => return Err(foreign),
                // Whoever needs it cannot do without; others can.
                Err(error) => {
                    let why = match error {
                        Error::Corrupt { detail, .. } => detail,
                        other => other.to_string(),
                    };
                    damaged.push(Damaged { name, key: key_of(&file), why });
                }
            }
        }
        Ok((found, damaged))
    }

    /// What the segment `name` is, and its bytes. `Corrupt` if its header is of no use; `Unusable` as above.
    fn look_at(&self, name: &str) -> Result<(SegmentHeader, u64)> {
        let file = self.disk.open(name, OpenHow::Existing, Direct::No)?;
        let mut block = IoBuffer::zeroed(SEGMENT_HEADER_BYTES);
        let n = file.read_at(0, &mut block)?;
        let header = SegmentHeader::decode(&block[..n]).map_err(|fault| {
            let detail = match fault {
                HeaderFault::Invalid => "its header is damaged".to_owned(),
                HeaderFault::Version(version) => format!("it has format version {version}"),
            };
            Error::Corrupt { page: None, detail }
        })?;
        check_owner(name, header.database, self.database)?;
        Ok((header, file.len()?))
    }
}

/// Refuses what belongs to another database.
fn check_owner(path: &str, found: u128, expected: u128) -> Result<()> {
    if found == expected {
        return Ok(());
    }
    let detail = format!("\"{path}\" is of another database, {found:032x}, not of {expected:032x}");
    Err(Error::Unusable { detail })
}
