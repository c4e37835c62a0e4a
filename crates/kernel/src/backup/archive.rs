//! An archive: logs that are about to be used again, and what their cuts are.
//!
//! In `ARCHIVE/<database>/`: segments, named by home, incarnation and position; for each incarnation
//! that ran `<incarnation>.begun`, the manifest that began it, with the cuts of those before; and
//! `<incarnation>.reached`, the newest checkpoint up to whose S all logs are in the archive. The
//! last segment of a log is copied as far as it is durable, and again when it has grown.
//!
//! Invariants: `begun` is written when all that earlier incarnations left is archived, `reached`
//! when everything below its cts is: so a name promises that all before it is there. What has a
//! name is whole and durable; a segment's copy is only replaced by a longer one. Another history of
//! the same incarnation (a copy of the directory that was started, too) is refused, and so is a
//! backup that was started as it is. One thread writes.

use std::sync::Arc;

use super::copy::{SegmentPiece, copy_segment};
use super::{BACKUP_NAME, Point, Watch};
use crate::base::{Cts, Error, HomeId, LogPosition, Result};
use crate::io::{Direct, Disk, IoBuffer, OpenHow};
use crate::log::manifest::Manifest;
use crate::log::{SEGMENT_HEADER_BYTES, SegmentHeader, segment_name, segments};

/// One database's part of an archive.
pub struct Archive {
    disk: Arc<dyn Disk>,
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

/// A segment in an archive.
pub(super) struct Archived {
    pub name: String,
    pub header: SegmentHeader,
    pub bytes: u64,
}

impl Archive {
    /// The part of `database` in the archive that `disk` holds; nothing is made yet.
    pub fn new(disk: Arc<dyn Disk>, database: u128) -> Archive {
        Archive { disk, folder: format!("{database:032x}") }
    }

    pub(super) fn disk(&self) -> &dyn Disk {
        &*self.disk
    }

    fn path(&self, name: &str) -> String {
        format!("{}/{name}", self.folder)
    }

    fn begun_name(incarnation: u32) -> String {
        format!("{incarnation:010}.begun")
    }

    fn reached_name(incarnation: u32) -> String {
        format!("{incarnation:010}.reached")
    }

    /// Archives what earlier incarnations than that which `manifest` began have left on `source`,
    /// then the manifest, as of `wall_micros`. Blocks; may be called again with the same. `Unusable` if the archive has another
    /// history of it, or this is a backup; `DiskFull`, `Io`, `Cancelled`.
    pub fn begin(
        &self,
        source: &dyn Disk,
        manifest: &Manifest,
        wall_micros: i64,
        watch: &Watch,
    ) -> Result<u64> {
        if source.exists(BACKUP_NAME)? {
            let detail = "this database is a backup that was started as it is, so its logs are of \
                          another history than those in the archive; `atoll restore` makes a \
                          database of a backup whose logs can be archived";
            return Err(Error::Unusable { detail: detail.to_owned() });
        }
        self.disk.create_dir(&self.folder)?;
        self.disk.sync_dir("")?;
        let current = manifest.current().number;
        if let Some(known) = self.begun(current)? {
            // Two copies of a directory begin their next incarnation alike, but not at one moment.
            if known.manifest == *manifest && known.wall_micros == wall_micros {
                return Ok(0);
            }
            let detail = format!(
                "the archive's \"{}/{}\" is of another copy of this database; give each an \
                 archive directory of its own",
                self.folder,
                Archive::begun_name(current)
            );
            return Err(Error::Unusable { detail });
        }
        let mut copied = 0;
        for home in (0..manifest.homes).map(HomeId) {
            for header in segments(source, manifest, home)? {
                if header.incarnation < current {
                    let file = source.open(
                        &segment_name(home, header.number),
                        OpenHow::Existing,
                        Direct::No,
                    )?;
                    let bytes = header.bytes.min(file.len()?);
                    copied += self.segment(source, SegmentPiece { header, bytes }, watch)?;
                }
            }
        }
        self.disk.sync_dir(&self.folder)?;
        let point = Point {
            cts: Cts::ZERO,
            from_micros: wall_micros,
            wall_micros,
            ends: Vec::new(),
            manifest: manifest.clone(),
        };
        point.write(&*self.disk, &self.folder, &Archive::begun_name(current))?;
        Ok(copied)
    }

    /// Archives the logs of the running incarnation on `source` up to the ends of `point`, then the
    /// point. Blocks. `DiskFull`, `Io`, `Cancelled`.
    pub fn reach(&self, source: &dyn Disk, point: &Point, watch: &Watch) -> Result<ArchivedUpTo> {
        let manifest = &point.manifest;
        let current = manifest.current();
        let mut archived = ArchivedUpTo::default();
        for (home, (span, end)) in current.logs.iter().zip(&point.ends).enumerate() {
            let home = HomeId(home as u16);
            let mut whole = LogPosition(0);
            for header in segments(source, manifest, home)? {
                if header.incarnation != current.number || header.start >= *end {
                    continue;
                }
                let bytes = header.bytes.min(end.0 - header.start.0);
                let piece = SegmentPiece { header, bytes };
                archived.segments += self.segment(source, piece, watch)?;
                if header.end() <= *end {
                    whole = whole.max(header.end());
                }
            }
            archived.whole.push(whole.max(span.start));
        }
        self.disk.sync_dir(&self.folder)?;
        point.write(&*self.disk, &self.folder, &Archive::reached_name(current.number))?;
        Ok(archived)
    }

    /// Archives a segment unless as much of it is there; answers how many were copied.
    fn segment(&self, source: &dyn Disk, piece: SegmentPiece, watch: &Watch) -> Result<u64> {
        let SegmentHeader { home, incarnation, number, start, .. } = piece.header;
        let name = self.path(&format!("{:04}-{incarnation:010}-{:016x}.seg", home.0, start.0));
        if self.disk.exists(&name)? {
            let file = self.disk.open(&name, OpenHow::Existing, Direct::No)?;
            if file.len()? >= piece.bytes {
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

    /// What the manifest was that began `incarnation`, if that is known.
    pub(super) fn begun(&self, incarnation: u32) -> Result<Option<Point>> {
        Point::read(&*self.disk, &self.path(&Archive::begun_name(incarnation)))
    }

    /// Up to where the logs of `incarnation` are archived, if that is known.
    pub(super) fn reached(&self, incarnation: u32) -> Result<Option<Point>> {
        Point::read(&*self.disk, &self.path(&Archive::reached_name(incarnation)))
    }

    /// The incarnations of which it is known how they began, ascending.
    pub(super) fn incarnations(&self) -> Result<Vec<u32>> {
        let names = self.disk.list(&self.folder)?;
        let number = |name: &String| name.strip_suffix(".begun").and_then(|n| n.parse().ok());
        let mut numbers: Vec<u32> = names.iter().filter_map(number).collect();
        numbers.sort_unstable();
        Ok(numbers)
    }

    /// All segments. `Corrupt` names one whose header is damaged.
    pub(super) fn segments(&self, database: u128) -> Result<Vec<Archived>> {
        let mut found = Vec::new();
        let mut block = IoBuffer::zeroed(SEGMENT_HEADER_BYTES);
        for name in self.disk.list(&self.folder)? {
            if !name.ends_with(".seg") {
                continue;
            }
            let path = self.path(&name);
            let file = self.disk.open(&path, OpenHow::Existing, Direct::No)?;
            let n = file.read_at(0, &mut block)?;
            match SegmentHeader::decode(&block[..n]) {
                Ok(header) if header.database == database => {
                    found.push(Archived { name: path, header, bytes: file.len()? });
                }
                _ => {
                    let detail = format!("\"{path}\": its header is damaged, or another's");
                    return Err(Error::Corrupt { page: None, detail });
                }
            }
        }
        Ok(found)
    }
}
