//! The segment files of a home, as start-up finds them.
//!
//! Invariants: only reads. A file whose header is not whole, or does not belong to its name, was
//! never finished (or is damaged: the marks of rule 7.9 tell) and counts as not there; one of
//! another version, another database or a later incarnation is refused by name.

use super::format::{HeaderFault, SEGMENT_HEADER_BYTES, SegmentHeader};
use super::manifest::{FORMAT_VERSION, Manifest};
use super::segment::{Segment, name, numbers};
use crate::base::{Error, HomeId, LogPosition, Result};
use crate::io::{Direct, Disk, FileRef, IoBuffer, OpenHow};
use crate::sync::mutant;

/// The segment files of one home.
pub struct SegmentFiles {
    /// Whole ones, ascending.
    pub whole: Vec<Segment>,
    /// Numbers and files of those without a header, ascending.
    pub unfinished: Vec<(u64, FileRef)>,
}

impl SegmentFiles {
    /// Opens the segment files of `home`.
    pub fn open(disk: &dyn Disk, manifest: &Manifest, home: HomeId) -> Result<SegmentFiles> {
        let mut files = SegmentFiles { whole: Vec::new(), unfinished: Vec::new() };
        let mut block = IoBuffer::zeroed(SEGMENT_HEADER_BYTES);
        for number in numbers(disk, home)? {
            let path = name(home, number);
            let file = disk.open(&path, OpenHow::Existing, Direct::No)?;
            let n = file.read_at(0, &mut block)?;
            match SegmentHeader::decode(&block[..n]) {
                Ok(header) if header.number == number && header.home == home => {
                    check(&header, &path, manifest)?;
                    files.whole.push(Segment { file, header });
                }
                Ok(_) | Err(HeaderFault::Invalid) => files.unfinished.push((number, file)),
                Err(HeaderFault::Version(version)) => {
                    let detail = format!(
                        "\"{path}\" was written by format version {version}; this program reads \
                         version {FORMAT_VERSION} only"
                    );
                    return Err(Error::Unusable { detail });
                }
            }
        }
        Ok(files)
    }

    /// The segments that `incarnation` wrote from position `start` on, as far as they follow each
    /// other. Those before it are about to be used again.
    pub fn of(&self, incarnation: u32, start: LogPosition) -> Vec<Segment> {
        let mut chain: Vec<Segment> = Vec::new();
        let is_of = |segment: &&Segment| {
            let is_of = segment.header.incarnation == incarnation;
            (is_of || mutant("log-incarnation-ignored")) && segment.header.start >= start
        };
        for segment in self.whole.iter().filter(is_of) {
            if chain.last().is_some_and(|last| last.header.end() != segment.header.start) {
                break;
            }
            chain.push(segment.clone());
        }
        chain
    }

    /// A segment that `incarnation` made after one that is not there: each is named durably before
    /// the next is begun (`segment.rs`), so the one before it is missing, and where it would begin.
    /// Only of use for what comes from position `start` on; before it segments are used again.
    pub fn gap(&self, incarnation: u32, start: LogPosition) -> Option<(LogPosition, &Segment)> {
        let is_of = |segment: &&Segment| {
            segment.header.incarnation == incarnation && segment.header.start >= start
        };
        let mut end = start;
        for segment in self.whole.iter().filter(is_of) {
            if segment.header.start > end {
                return Some((end, segment));
            }
            end = segment.header.end();
        }
        None
    }
}

fn check(header: &SegmentHeader, path: &str, manifest: &Manifest) -> Result<()> {
    if header.database != manifest.database {
        let detail = format!(
            "\"{path}\" belongs to database {:032x}, not to {:032x}",
            header.database, manifest.database
        );
        return Err(Error::Unusable { detail });
    }
    let newest = manifest.current().number;
    if header.incarnation > newest {
        let detail = format!(
            "\"{path}\" was written by incarnation {}, but the newest whole manifest (number {}) \
             knows of {newest} only: a newer manifest is missing",
            header.incarnation, manifest.number
        );
        return Err(Error::Corrupt { page: None, detail });
    }
    Ok(())
}
