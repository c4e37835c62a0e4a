//! Which of two copies of a log segment a restore takes.
//!
//! No block of a log is written twice in one history, so copies of a segment are the same as far as both go.
//! Where they are not, one is damaged, and its records are valid up to there at most; or each is of
//! another history, and the records of both go on.
//!
//! Invariants: only reads. Whether what is taken goes far enough is seen when all logs are examined.

use crate::base::{Error, LogPosition, Result};
use crate::io::{Direct, Disk, IoBuffer, OpenHow};
use crate::log::{SEGMENT_HEADER_BYTES, SegmentHeader, Validity, validity};

const PIECE_BYTES: usize = 1 << 20;
/// Flushes begin at multiples.
const BLOCK_BYTES: u64 = SEGMENT_HEADER_BYTES as u64;

/// A copy of a segment.
pub(super) struct Source<'a> {
    pub disk: &'a dyn Disk,
    /// What `disk` is, for people.
    pub of: &'static str,
    pub name: String,
    pub header: SegmentHeader,
    pub bytes: u64,
}

impl Source<'_> {
    /// For people.
    pub fn file(&self) -> String {
        format!("the {}'s \"{}\"", self.of, self.name)
    }

    /// What its records are, and whether one is at the offset `at`.
    fn validity(&self, at: u64) -> Result<Validity> {
        let file = self.disk.open(&self.name, OpenHow::Existing, Direct::No)?;
        validity(file, self.header, LogPosition(self.header.start.0 + at))
    }
}

/// The longer of two copies that are the same as far as both go, but for what lies between flushes; of others that
/// whose records are valid for longer. `Corrupt` if those of both are where they differ. `Io`.
pub(super) fn better<'a>(backup: Source<'a>, archive: Source<'a>) -> Result<Source<'a>> {
    // Headers are written anew with each copy.
    let mut from = SEGMENT_HEADER_BYTES as u64;
    while let Some(at) = difference(&backup, &archive, from)? {
        let (one, other) = (backup.validity(at)?, archive.validity(at)?);
        let place = LogPosition(backup.header.start.0 + at);
        match one.end.min(other.end) > place {
            true if one.is_record || other.is_record => {
                let detail = format!(
                    "{} and {} differ at byte {at}, where the records of both are valid: the archive is of \
                     another history of this database",
                    backup.file(),
                    archive.file()
                );
                return Err(Error::Corrupt { page: None, detail });
            }
            true => from = (at + 1).next_multiple_of(BLOCK_BYTES),
            false if one.end == other.end => break,
            false => return Ok(if one.end < other.end { archive } else { backup }),
        }
    }
    Ok(if backup.bytes < archive.bytes { archive } else { backup })
}

/// The first byte from `from` on, where a block begins, in which two copies differ, as far as both go.
pub(super) fn difference(one: &Source<'_>, other: &Source<'_>, from: u64) -> Result<Option<u64>> {
    let open = |it: &Source<'_>| it.disk.open(&it.name, OpenHow::Existing, Direct::Yes);
    let files = [open(one)?, open(other)?];
    let mut pieces = [IoBuffer::zeroed(PIECE_BYTES), IoBuffer::zeroed(PIECE_BYTES)];
    let end = one.bytes.min(other.bytes);
    let mut at = from;
    while at < end {
        let wanted = (end - at).min(PIECE_BYTES as u64) as usize;
        for (file, piece) in files.iter().zip(&mut pieces) {
            piece.set_len(wanted);
            file.read_at(at, piece)?;
        }
        let mut pairs = pieces[0].iter().zip(pieces[1].iter());
        if let Some(byte) = pairs.position(|(one, other)| one != other) {
            return Ok(Some(at + byte as u64));
        }
        at += wanted as u64;
    }
    Ok(None)
}
