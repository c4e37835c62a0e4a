//! The bytes of log records and segment headers (docs/format/log.md).
//!
//! Invariants: pure functions over bytes; little-endian; nothing is believed before its checksum;
//! what `encode` writes, `decode` reads back or refuses. Every record carries incarnation, home
//! and its own position (rule 7.2), so that stale bytes of a recycled segment, of an earlier life
//! or of another log are never taken for records.

use super::ChunkRef;
use super::manifest::FORMAT_VERSION;
use crate::base::{Cts, HomeId, LogPosition, Observed};
use crate::sync::mutant;

/// A flush begins at a multiple of this and is padded to one (rule 7.2).
pub const BLOCK_BYTES: usize = 4096;
/// Bytes of a segment before its first flush.
pub const SEGMENT_HEADER_BYTES: usize = BLOCK_BYTES;
/// Bytes that every record begins with.
pub const RECORD_HEADER_BYTES: usize = 32;
/// Bytes of a commit record before its dependencies.
pub const COMMIT_HEADER_BYTES: usize = 40;
/// Bytes of a flush record before its marks.
pub const FLUSH_HEADER_BYTES: usize = 48;
/// Bytes of one dependency or mark: home, cts.
pub const OBSERVED_BYTES: usize = 10;
/// Bytes at a flush record's end: when it started.
const FLUSH_TIME_BYTES: usize = 8;
/// In a flush record: it ends with when it started.
const FLUSH_HAS_TIME: u16 = 1;
/// Marks that one flush carries at most; the others have their turn with the next.
pub const FLUSH_MARKS_MAX: usize = 64;

const KIND_FLUSH: u8 = 1;
const KIND_COMMIT: u8 = 2;
const KIND_CHUNK: u8 = 3;
const SEGMENT_MAGIC: &[u8; 8] = b"ATOLLSEG";
const SEGMENT_CHECKED_BYTES: usize = 60;

/// Where a record is, as its header states it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// The life of the database that wrote it.
    pub incarnation: u32,
    /// The log.
    pub home: HomeId,
    /// The position of its first byte.
    pub position: LogPosition,
}

/// A decoded record.
#[derive(Clone, Copy, Debug)]
pub enum Record<'a> {
    /// The head of a flush (rule 7.9).
    Flush(FlushHead<'a>),
    /// A commit.
    Commit {
        /// Its timestamp.
        cts: Cts,
        /// What it depends on in other logs.
        dependencies: Dependencies<'a>,
        /// Parts of chunks that come before the payload.
        chunks: Chunks<'a>,
        /// Its redo.
        payload: &'a [u8],
    },
    /// Redo of a transaction that had not committed (rule 7.3).
    Chunk {
        /// The redo.
        payload: &'a [u8],
    },
}

/// What the head of a flush says.
#[derive(Clone, Copy, Debug)]
pub struct FlushHead<'a> {
    /// The end of the log's durable prefix when the flush started.
    pub durable: LogPosition,
    /// The padded end of the flush before it, or 0 for an incarnation's first.
    pub previous_end: LogPosition,
    /// Bytes of the flush, this record included, padding not.
    pub bytes: u32,
    /// When it started, in microseconds since 1970: everything in it was committed before. None in
    /// logs that were written before this was noted.
    pub wall_micros: Option<i64>,
    /// Stable marks of other logs that had moved.
    pub marks: Dependencies<'a>,
}

/// The dependencies of a commit record, or the marks of a flush: an iterator of [`Observed`].
#[derive(Clone, Copy, Debug)]
pub struct Dependencies<'a> {
    bytes: &'a [u8],
}

impl Dependencies<'_> {
    /// None at all.
    pub const NONE: Dependencies<'static> = Dependencies { bytes: &[] };

    /// How many are left.
    pub fn count_left(&self) -> usize {
        self.bytes.len() / OBSERVED_BYTES
    }
}

impl Iterator for Dependencies<'_> {
    type Item = Observed;
    fn next(&mut self) -> Option<Observed> {
        let (entry, rest) = self.bytes.split_at_checked(OBSERVED_BYTES)?;
        self.bytes = rest;
        Some(Observed { home: HomeId(u16_at(entry, 0)), cts: Cts(u64_at(entry, 2)) })
    }
}

/// The chunks of a commit record: an iterator of [`ChunkRef`].
#[derive(Clone, Copy, Debug)]
pub struct Chunks<'a> {
    bytes: &'a [u8],
}

impl<'a> Chunks<'a> {
    /// The ranges that a list's bytes are.
    pub fn of_list(bytes: &'a [u8]) -> Chunks<'a> {
        Chunks { bytes }
    }
}

impl Iterator for Chunks<'_> {
    type Item = ChunkRef;
    fn next(&mut self) -> Option<ChunkRef> {
        let (entry, rest) = self.bytes.split_at_checked(ChunkRef::ENCODED_BYTES)?;
        self.bytes = rest;
        let position = LogPosition(u64_at(entry, 0));
        Some(ChunkRef { position, from: u32_at(entry, 8), to: u32_at(entry, 12) })
    }
}

fn u16_at(bytes: &[u8], at: usize) -> u16 {
    u16::from_le_bytes([bytes[at], bytes[at + 1]])
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(bytes[at..at + 4].try_into().expect("a slice of four"))
}

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(bytes[at..at + 8].try_into().expect("a slice of eight"))
}

fn put(out: &mut [u8], at: &mut usize, bytes: &[u8]) {
    out[*at..*at + bytes.len()].copy_from_slice(bytes);
    *at += bytes.len();
}

fn length_word(bytes: usize) -> [u8; 4] {
    u32::try_from(bytes).expect("a record is smaller than a log buffer").to_le_bytes()
}

fn header(out: &mut [u8], bytes: usize, kind: u8, place: Place, stamp: u64) {
    out[4..8].copy_from_slice(&length_word(bytes));
    out[8] = kind;
    out[9] = 0;
    out[10..12].copy_from_slice(&place.home.0.to_le_bytes());
    out[12..16].copy_from_slice(&place.incarnation.to_le_bytes());
    out[16..24].copy_from_slice(&place.position.0.to_le_bytes());
    out[24..32].copy_from_slice(&stamp.to_le_bytes());
}

fn seal(record: &mut [u8]) {
    let sum = crc32c::crc32c(&record[4..]);
    record[..4].copy_from_slice(&sum.to_le_bytes());
}

/// Bytes of a commit record.
pub fn commit_bytes(dependencies: usize, chunks: usize, payload: usize) -> usize {
    COMMIT_HEADER_BYTES + dependencies * OBSERVED_BYTES + chunks * ChunkRef::ENCODED_BYTES + payload
}

/// Writes a commit record to the start of `out`; returns its bytes.
pub fn encode_commit(
    out: &mut [u8],
    place: Place,
    cts: Cts,
    dependencies: &[Observed],
    chunks: &[ChunkRef],
    payload: &[u8],
) -> usize {
    let bytes = commit_bytes(dependencies.len(), chunks.len(), payload.len());
    let out = &mut out[..bytes];
    header(out, bytes, KIND_COMMIT, place, cts.0);
    let mut at = RECORD_HEADER_BYTES;
    put(out, &mut at, &length_word(chunks.len()));
    let count = u16::try_from(dependencies.len()).expect("a log depends on each other log once");
    put(out, &mut at, &count.to_le_bytes());
    put(out, &mut at, &[0, 0]);
    for observed in dependencies {
        put(out, &mut at, &observed.home.0.to_le_bytes());
        put(out, &mut at, &observed.cts.0.to_le_bytes());
    }
    for chunk in chunks {
        put(out, &mut at, &chunk.encode());
    }
    put(out, &mut at, payload);
    seal(out);
    bytes
}

/// Writes a chunk record to the start of `out`; returns its bytes.
pub fn encode_chunk(out: &mut [u8], place: Place, xid: u64, payload: &[u8]) -> usize {
    let bytes = RECORD_HEADER_BYTES + payload.len();
    let out = &mut out[..bytes];
    header(out, bytes, KIND_CHUNK, place, xid);
    out[RECORD_HEADER_BYTES..].copy_from_slice(payload);
    seal(out);
    bytes
}

/// Bytes of a flush record in a database of `homes`: the same for every flush of a writer.
pub fn flush_head_bytes(homes: usize) -> usize {
    let marks = OBSERVED_BYTES * homes.saturating_sub(1).min(FLUSH_MARKS_MAX);
    FLUSH_HEADER_BYTES + marks + FLUSH_TIME_BYTES
}

/// What a flush record says.
#[derive(Clone, Copy, Debug)]
pub struct FlushSays<'a> {
    /// The end of the log's durable prefix.
    pub durable: LogPosition,
    /// The padded end of the flush before.
    pub previous_end: LogPosition,
    /// Bytes of the flush, without padding.
    pub bytes: usize,
    /// Stable marks of other logs.
    pub marks: &'a [Observed],
    /// When it starts.
    pub wall_micros: Option<i64>,
}

/// Fills the flush record at the start of `out`, whose `head_bytes` were left free for it.
pub fn encode_flush(out: &mut [u8], head_bytes: usize, place: Place, says: FlushSays<'_>) {
    let out = &mut out[..head_bytes];
    out[RECORD_HEADER_BYTES..].fill(0);
    header(out, head_bytes, KIND_FLUSH, place, says.durable.0);
    let mut at = RECORD_HEADER_BYTES;
    put(out, &mut at, &says.previous_end.0.to_le_bytes());
    put(out, &mut at, &length_word(says.bytes));
    let count = u16::try_from(says.marks.len()).expect("bounded by FLUSH_MARKS_MAX");
    put(out, &mut at, &count.to_le_bytes());
    let has_time = if says.wall_micros.is_some() { FLUSH_HAS_TIME } else { 0 };
    put(out, &mut at, &has_time.to_le_bytes());
    for observed in says.marks {
        put(out, &mut at, &observed.home.0.to_le_bytes());
        put(out, &mut at, &observed.cts.0.to_le_bytes());
    }
    if let Some(wall_micros) = says.wall_micros {
        let mut at = head_bytes - FLUSH_TIME_BYTES;
        put(out, &mut at, &wall_micros.to_le_bytes());
    }
    seal(out);
}

/// Decodes the record at the start of `bytes`, if it is whole, valid and at `place`; returns its
/// length too.
#[inline]
pub fn decode(bytes: &[u8], place: Place) -> Option<(Record<'_>, usize)> {
    if bytes.len() < RECORD_HEADER_BYTES {
        return None;
    }
    // Cheap refusals first: most bytes that are no record (zeros, another life's) end here.
    let found = place_of(bytes);
    let incarnation_holds =
        found.incarnation == place.incarnation || mutant("log-incarnation-ignored");
    if found.position != place.position || found.home != place.home || !incarnation_holds {
        return None;
    }
    decode_anywhere(bytes)
}

/// What the header at the start of `bytes` (32 of them) says of its place; not checked.
pub fn place_of(bytes: &[u8]) -> Place {
    Place {
        incarnation: u32_at(bytes, 12),
        home: HomeId(u16_at(bytes, 10)),
        position: LogPosition(u64_at(bytes, 16)),
    }
}

/// Decodes a record wherever it belongs: for the search after a log's end, and for chunks.
pub fn decode_anywhere(bytes: &[u8]) -> Option<(Record<'_>, usize)> {
    if bytes.len() < RECORD_HEADER_BYTES {
        return None;
    }
    let length = u32_at(bytes, 4) as usize;
    if length < RECORD_HEADER_BYTES || length > bytes.len() {
        return None;
    }
    let record = &bytes[..length];
    if crc32c::crc32c(&record[4..]) != u32_at(record, 0) && !mutant("log-checksum-not-checked") {
        return None;
    }
    parse(record).map(|parsed| (parsed, length))
}

/// Takes a record apart whose checksum has been verified; `record` is exactly it.
#[inline]
pub fn parse(record: &[u8]) -> Option<Record<'_>> {
    let stamp = u64_at(record, 24);
    let body = &record[RECORD_HEADER_BYTES..];
    match record[8] {
        // Its stamp, the transaction's raw xid, is for people.
        KIND_CHUNK => Some(Record::Chunk { payload: body }),
        KIND_COMMIT => decode_commit(Cts(stamp), body),
        KIND_FLUSH => decode_flush(LogPosition(stamp), body),
        _ => None,
    }
}

fn decode_commit(cts: Cts, body: &[u8]) -> Option<Record<'_>> {
    let (counts, rest) = body.split_at_checked(COMMIT_HEADER_BYTES - RECORD_HEADER_BYTES)?;
    let chunks = (u32_at(counts, 0) as usize).checked_mul(ChunkRef::ENCODED_BYTES)?;
    let dependencies = usize::from(u16_at(counts, 4)) * OBSERVED_BYTES;
    let (dependencies, rest) = rest.split_at_checked(dependencies)?;
    let (chunks, payload) = rest.split_at_checked(chunks)?;
    Some(Record::Commit {
        cts,
        dependencies: Dependencies { bytes: dependencies },
        chunks: Chunks { bytes: chunks },
        payload,
    })
}

fn decode_flush(durable: LogPosition, body: &[u8]) -> Option<Record<'_>> {
    let (fixed, rest) = body.split_at_checked(FLUSH_HEADER_BYTES - RECORD_HEADER_BYTES)?;
    let marks = usize::from(u16_at(fixed, 12)) * OBSERVED_BYTES;
    let (marks, rest) = rest.split_at_checked(marks)?;
    let wall_micros = match u16_at(fixed, 14) {
        FLUSH_HAS_TIME => Some(u64_at(rest.last_chunk::<FLUSH_TIME_BYTES>()?, 0).cast_signed()),
        _ => None,
    };
    Some(Record::Flush(FlushHead {
        durable,
        previous_end: LogPosition(u64_at(fixed, 0)),
        bytes: u32_at(fixed, 8),
        wall_micros,
        marks: Dependencies { bytes: marks },
    }))
}

/// What a segment file says of itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SegmentHeader {
    /// The database it belongs to.
    pub database: u128,
    /// Its log.
    pub home: HomeId,
    /// The life of the database that wrote it.
    pub incarnation: u32,
    /// Its number within the log; also in its name.
    pub number: u64,
    /// The log position of its first byte.
    pub start: LogPosition,
    /// Its bytes, header included.
    pub bytes: u64,
}

/// Why a segment's header was not taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HeaderFault {
    /// It is not whole: never finished, or damaged.
    Invalid,
    /// It is whole, and of another format version.
    Version(u32),
}

impl SegmentHeader {
    /// One past the last position in the segment.
    pub fn end(&self) -> LogPosition {
        LogPosition(self.start.0 + self.bytes)
    }

    /// Writes the header to the start of `out`.
    pub fn encode(&self, out: &mut [u8]) {
        let out = &mut out[..SEGMENT_CHECKED_BYTES + 4];
        let mut at = 0;
        put(out, &mut at, SEGMENT_MAGIC);
        put(out, &mut at, &FORMAT_VERSION.to_le_bytes());
        put(out, &mut at, &self.home.0.to_le_bytes());
        put(out, &mut at, &[0, 0]);
        put(out, &mut at, &self.number.to_le_bytes());
        put(out, &mut at, &self.start.0.to_le_bytes());
        put(out, &mut at, &self.bytes.to_le_bytes());
        put(out, &mut at, &self.database.to_le_bytes());
        put(out, &mut at, &self.incarnation.to_le_bytes());
        let sum = crc32c::crc32c(&out[..SEGMENT_CHECKED_BYTES]);
        put(out, &mut at, &sum.to_le_bytes());
    }

    /// Reads a header from the start of `bytes`.
    pub fn decode(bytes: &[u8]) -> std::result::Result<SegmentHeader, HeaderFault> {
        let whole = bytes.len() >= SEGMENT_CHECKED_BYTES + 4
            && &bytes[..8] == SEGMENT_MAGIC
            && crc32c::crc32c(&bytes[..SEGMENT_CHECKED_BYTES])
                == u32_at(bytes, SEGMENT_CHECKED_BYTES);
        if !whole {
            return Err(HeaderFault::Invalid);
        }
        let version = u32_at(bytes, 8);
        if version != FORMAT_VERSION {
            return Err(HeaderFault::Version(version));
        }
        let database = u128::from_le_bytes(bytes[40..56].try_into().expect("a slice of sixteen"));
        Ok(SegmentHeader {
            database,
            home: HomeId(u16_at(bytes, 12)),
            incarnation: u32_at(bytes, 56),
            number: u64_at(bytes, 16),
            start: LogPosition(u64_at(bytes, 24)),
            bytes: u64_at(bytes, 32),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PLACE: Place =
        Place { incarnation: 3, home: HomeId(2), position: LogPosition(4096 + 77) };

    #[test]
    fn commits_survive_encoding() {
        let dependencies = [
            Observed { home: HomeId(0), cts: Cts(7) },
            Observed { home: HomeId(511), cts: Cts::MAX },
        ];
        let chunks = [ChunkRef { position: LogPosition(99), from: 3, to: 8 }];
        let mut out = vec![0xee; 300];
        let n = encode_commit(&mut out, PLACE, Cts(42), &dependencies, &chunks, b"redo");
        assert_eq!(n, commit_bytes(2, 1, 4));
        let (record, length) = decode(&out, PLACE).expect("what was written is read");
        assert_eq!(length, n);
        let Record::Commit { cts, dependencies: d, chunks: c, payload } = record else {
            panic!("{record:?}")
        };
        assert_eq!((cts, payload), (Cts(42), &b"redo"[..]));
        assert_eq!(d.collect::<Vec<_>>(), dependencies);
        assert_eq!(c.collect::<Vec<_>>(), chunks);
    }

    #[test]
    fn every_changed_byte_is_found() {
        let mut out = vec![0; 128];
        let n = encode_commit(&mut out, PLACE, Cts(42), &[], &[], b"some redo here");
        for at in 0..n {
            for bit in 0..8 {
                out[at] ^= 1 << bit;
                assert!(decode(&out, PLACE).is_none(), "byte {at} bit {bit}");
                out[at] ^= 1 << bit;
            }
        }
        assert!(decode(&out[..n - 1], PLACE).is_none(), "a torn record is refused");
        assert!(decode(&out, PLACE).is_some());
    }

    #[test]
    fn records_of_other_places_are_refused() {
        let mut out = vec![0; 128];
        encode_chunk(&mut out, PLACE, 9, b"x");
        assert!(decode(&out, PLACE).is_some());
        assert!(decode(&out, Place { home: HomeId(3), ..PLACE }).is_none());
        assert!(decode(&out, Place { incarnation: 4, ..PLACE }).is_none());
        assert!(decode(&out, Place { position: LogPosition(0), ..PLACE }).is_none());
    }

    #[test]
    fn flush_heads_and_segment_headers_survive_encoding() {
        let marks = [Observed { home: HomeId(1), cts: Cts(5) }];
        let head = flush_head_bytes(8);
        let mut out = vec![0xee; 4096];
        for wall_micros in [None, Some(0), Some(-1), Some(i64::MAX)] {
            let (durable, previous_end) = (LogPosition(1), LogPosition(2));
            let says = FlushSays { durable, previous_end, bytes: 3000, marks: &marks, wall_micros };
            encode_flush(&mut out, head, PLACE, says);
            let Some((Record::Flush(flush), _)) = decode(&out, PLACE) else { panic!("refused") };
            assert_eq!(flush.wall_micros, wall_micros);
        }
        let Some((Record::Flush(flush), length)) = decode(&out, PLACE) else { panic!("refused") };
        assert_eq!(length, head);
        let said = (flush.durable, flush.previous_end, flush.bytes);
        assert_eq!(said, (LogPosition(1), LogPosition(2), 3000));
        assert_eq!(flush.marks.collect::<Vec<_>>(), marks);

        let header = SegmentHeader {
            database: 1 << 100 | 5,
            home: HomeId(2),
            incarnation: 3,
            number: 12,
            start: LogPosition(1 << 40),
            bytes: 1 << 20,
        };
        header.encode(&mut out);
        assert_eq!(SegmentHeader::decode(&out), Ok(header));
        out[59] ^= 1;
        assert_eq!(SegmentHeader::decode(&out), Err(HeaderFault::Invalid));
    }
}
