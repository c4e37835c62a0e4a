//! Walks the records that one incarnation wrote to one log, a whole segment in memory at a time.
//!
//! Invariants: a record is met only if its checksum, incarnation, home and position hold, and if
//! everything from the log's start to it did (rule 9.2: the contiguous valid prefix). Flushes are
//! chained by the end of the one before, so a lost flush is never jumped over, nor the end of a
//! segment mistaken.

use super::format::{
    BLOCK_BYTES, Place, RECORD_HEADER_BYTES, Record, SEGMENT_HEADER_BYTES, decode, decode_anywhere,
    parse, place_of,
};
use super::segment::{Segment, name};
use crate::base::{Cts, Error, HomeId, LogPosition, Result};
use crate::io::IoBuffer;
use crate::sync::mutant;

/// A walk through one incarnation's part of a log.
pub struct Walk {
    home: HomeId,
    incarnation: u32,
    segments: Vec<Segment>,
    /// The segment being read; its bytes are in `buffer`.
    index: usize,
    buffer: IoBuffer,
    /// Where the next record is.
    offset: usize,
    /// Where the records of the present flush end; at or before `offset` between flushes.
    flush_end: usize,
    /// Where the record that was met last lies.
    met: (usize, usize),
    start: LogPosition,
    previous_end: LogPosition,
    whole_end: LogPosition,
    end: LogPosition,
    limit: LogPosition,
    last_cts: Cts,
}

/// What a step met.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// The head of a flush.
    Flush,
    /// A commit.
    Commit,
    /// A spilled chunk.
    Chunk,
    /// The walk's limit.
    Limit,
    /// No further valid record.
    Invalid,
}

impl Walk {
    /// A walk over `segments` (in order, following each other) up to `limit`. `start` is the
    /// part's beginning, `base` the largest cts before it.
    pub fn new(
        home: HomeId,
        incarnation: u32,
        segments: Vec<Segment>,
        start: LogPosition,
        base: Cts,
        limit: LogPosition,
    ) -> Result<Walk> {
        let first = LogPosition(start.0 + SEGMENT_HEADER_BYTES as u64);
        // Without its beginning the part has no valid prefix at all.
        let begins = segments.first().is_some_and(|segment| segment.header.start == start);
        let segments = if begins { segments } else { Vec::new() };
        let mut walk = Walk {
            home,
            incarnation,
            segments,
            index: 0,
            buffer: IoBuffer::zeroed(0),
            offset: SEGMENT_HEADER_BYTES,
            flush_end: 0,
            met: (0, 0),
            start,
            previous_end: LogPosition(0),
            whole_end: first,
            end: start,
            limit,
            last_cts: base,
        };
        walk.load(0)?;
        Ok(walk)
    }

    /// Reads a whole segment.
    fn load(&mut self, index: usize) -> Result<()> {
        (self.index, self.offset, self.flush_end) = (index, SEGMENT_HEADER_BYTES, 0);
        let Some(segment) = self.segments.get(index) else { return Ok(()) };
        let bytes = usize::try_from(segment.header.bytes).unwrap_or(usize::MAX);
        let bytes = bytes.min(usize::try_from(segment.file.len()?).unwrap_or(usize::MAX));
        if self.buffer.capacity() < bytes {
            self.buffer = IoBuffer::zeroed(bytes);
        }
        self.buffer.set_len(bytes);
        let n = segment.file.read_at(0, &mut self.buffer)?;
        self.buffer.set_len(n);
        Ok(())
    }

    fn position_of(&self, offset: usize) -> LogPosition {
        let start = self.segments.get(self.index).map_or(self.end.0, |s| s.header.start.0);
        LogPosition(start + offset as u64)
    }

    fn place(&self, position: LogPosition) -> Place {
        Place { incarnation: self.incarnation, home: self.home, position }
    }

    /// Goes to the next record. `Corrupt` if valid records contradict each other.
    #[inline]
    pub fn step(&mut self) -> Result<Step> {
        if self.offset >= self.flush_end {
            return self.step_to_flush();
        }
        let position = self.position_of(self.offset);
        if position >= self.limit {
            return Ok(Step::Limit);
        }
        let rest = &self.buffer[self.offset..self.flush_end.min(self.buffer.len())];
        let (step, length) = match decode(rest, self.place(position)) {
            Some((Record::Commit { cts, .. }, length)) => {
                if cts <= self.last_cts {
                    let detail = format!("commit {cts} follows {}", self.last_cts);
                    return Err(self.corrupt(&detail));
                }
                self.last_cts = cts;
                (Step::Commit, length)
            }
            Some((Record::Chunk { .. }, length)) => (Step::Chunk, length),
            Some((Record::Flush(_), _)) | None => return Ok(Step::Invalid),
        };
        self.meet(length);
        Ok(step)
    }

    fn meet(&mut self, length: usize) {
        self.met = (self.offset, length);
        self.offset += length;
        self.end = self.position_of(self.offset);
    }

    /// Between flushes: goes to the head of the next one, here or in the next segment.
    fn step_to_flush(&mut self) -> Result<Step> {
        if self.segments.is_empty() {
            return Ok(if self.end >= self.limit { Step::Limit } else { Step::Invalid });
        }
        if self.flush_end > 0 {
            self.offset = self.flush_end.next_multiple_of(BLOCK_BYTES);
            self.flush_end = 0;
            self.previous_end = self.position_of(self.offset);
            self.whole_end = self.previous_end;
        }
        if self.end >= self.limit || self.position_of(self.offset) >= self.limit {
            return Ok(Step::Limit);
        }
        let rest = self.buffer.get(self.offset..).unwrap_or(&[]);
        if let Some((bytes, length)) = self.head_in(rest, self.position_of(self.offset)) {
            self.flush_end = self.offset + bytes;
            self.meet(length);
            return Ok(Step::Flush);
        }
        if !self.next_segment_continues()? {
            return Ok(Step::Invalid);
        }
        self.load(self.index + 1)?;
        self.step_to_flush()
    }

    /// The bytes of the flush and of its head, if `bytes` begin with the head that comes next.
    fn head_in(&self, bytes: &[u8], position: LogPosition) -> Option<(usize, usize)> {
        match decode(bytes, self.place(position)) {
            // What lay before the part's beginning may have been recycled (rule 8.7).
            Some((Record::Flush(head), length))
                if head.previous_end == self.previous_end
                    || position == LogPosition(self.start.0 + SEGMENT_HEADER_BYTES as u64)
                    || mutant("log-lost-flush-jumped-over") =>
            {
                Some((head.bytes as usize, length))
            }
            _ => None,
        }
    }

    fn next_segment_continues(&self) -> Result<bool> {
        let Some(next) = self.segments.get(self.index + 1) else { return Ok(false) };
        let mut block = IoBuffer::zeroed(BLOCK_BYTES);
        let n = next.file.read_at(SEGMENT_HEADER_BYTES as u64, &mut block)?;
        let position = LogPosition(next.header.start.0 + SEGMENT_HEADER_BYTES as u64);
        Ok(self.head_in(&block[..n], position).is_some())
    }

    /// The record that was met last, and where it begins.
    #[inline]
    pub fn record(&self) -> (Record<'_>, LogPosition) {
        let (offset, length) = self.met;
        let record = parse(&self.buffer[offset..offset + length]);
        (record.expect("it was decoded when it was met"), self.position_of(offset))
    }

    /// One past the last valid record.
    pub fn end(&self) -> LogPosition {
        self.end
    }

    /// The padded end of the last flush of which every record is valid.
    pub fn whole_end(&self) -> LogPosition {
        self.whole_end
    }

    /// The largest cts met, or the base.
    pub fn last_cts(&self) -> Cts {
        self.last_cts
    }

    /// Appends a part of a chunk's payload to `out`. `Corrupt` if it is not there.
    pub fn chunk(
        &self,
        position: LogPosition,
        from: u32,
        to: u32,
        out: &mut Vec<u8>,
    ) -> Result<()> {
        let missing = || self.corrupt(&format!("the chunk at {position} is not there"));
        let index = self.segments.partition_point(|s| s.header.end() <= position);
        let segment = self.segments.get(index).ok_or_else(missing)?;
        let at = position.0.checked_sub(segment.header.start.0).ok_or_else(missing)?;
        let mut head = [0; RECORD_HEADER_BYTES];
        let mut record;
        let bytes = if index == self.index {
            let at = usize::try_from(at).unwrap_or(usize::MAX);
            self.buffer.get(at..).ok_or_else(missing)?
        } else {
            segment.file.read_at(at, &mut head)?;
            let length = u32::from_le_bytes([head[4], head[5], head[6], head[7]]);
            if u64::from(length) > segment.header.bytes {
                return Err(missing());
            }
            record = vec![0; length as usize];
            let n = segment.file.read_at(at, &mut record)?;
            &record[..n]
        };
        let Some((Record::Chunk { payload, .. }, _)) = decode(bytes, self.place(position)) else {
            return Err(missing());
        };
        let part = payload.get(from as usize..to as usize).ok_or_else(missing)?;
        out.extend_from_slice(part);
        Ok(())
    }

    /// Whether flushes of this log lie behind the walk's present place in the same segment: then
    /// it has met damage, not the end.
    pub fn goes_on(&self) -> bool {
        let from = self.offset.next_multiple_of(BLOCK_BYTES);
        let mut blocks = (from..self.buffer.len()).step_by(BLOCK_BYTES);
        blocks.any(|at| {
            let block = &self.buffer[at..];
            if block.len() < BLOCK_BYTES {
                return false;
            }
            let place = place_of(block);
            // One with another position is of an earlier use of the segment.
            (place.incarnation, place.home) == (self.incarnation, self.home)
                && place.position == self.position_of(at)
                && matches!(decode_anywhere(block), Some((Record::Flush(_), _)))
        })
    }

    /// Where the segments begin in one of which the next record is, if there is one: between two flushes it may be
    /// in the present one or in that which follows.
    pub fn next_segments(&self) -> impl Iterator<Item = LogPosition> {
        let present = self.segments.get(self.index).map(|segment| segment.header);
        let next = present.filter(|_| self.flush_end == 0).map(|header| header.end());
        [present.map_or(self.start, |header| header.start)].into_iter().chain(next)
    }

    /// Damage at the walk's present place.
    pub fn corrupt(&self, what: &str) -> Error {
        Error::Corrupt { page: None, detail: format!("{}: {what}", self.here()) }
    }

    /// The walk's present place, for people: between two flushes the next one may be looked for here or at
    /// the beginning of the next segment.
    pub fn here(&self) -> String {
        let place = |segment: &Segment, offset: usize| {
            format!("\"{}\", byte {offset}", name(self.home, segment.header.number))
        };
        let next = self.segments.get(self.index + 1).filter(|_| self.flush_end == 0);
        match (self.segments.get(self.index), next) {
            (Some(segment), Some(next)) => {
                format!("{}, or {}", place(segment, self.offset), place(next, SEGMENT_HEADER_BYTES))
            }
            (Some(segment), None) => place(segment, self.offset),
            (None, _) => format!("the log of home {}, which has no segments", self.home),
        }
    }
}
