//! Reads a log's commits in order, over all incarnations, each up to its cut.
//!
//! Invariants: every record handed out has a valid checksum, incarnation, home and position;
//! records beyond their incarnation's cut are never read (rule 9.4); a record that should be
//! there and is not is `Corrupt`, with file and place (rule 9.7).

use std::collections::VecDeque;

use super::ChunkRef;
use super::files::SegmentFiles;
use super::format::{Chunks, Dependencies, Record};
use super::manifest::{Cut, Manifest};
use super::walk::{Step, Walk};
use crate::base::{Cts, HomeId, LogPosition, Result};
use crate::io::Disk;

/// A place in a log that moves from one commit record to the next.
pub struct LogReader {
    home: HomeId,
    files: SegmentFiles,
    /// Incarnations to come: number, beginning, cut, largest cts before.
    parts: VecDeque<Part>,
    walk: Option<Walk>,
    bytes_read: u64,
    /// Commits below are passed over: the checkpoint has them.
    from: Cts,
}

struct Part {
    incarnation: u32,
    start: LogPosition,
    cut: LogPosition,
    base: Cts,
}

/// A commit record.
#[derive(Clone, Copy, Debug)]
pub struct CommitRecord<'a> {
    /// Where it begins.
    pub position: LogPosition,
    /// Its timestamp; grows from record to record.
    pub cts: Cts,
    /// What it depends on in other logs.
    pub dependencies: Dependencies<'a>,
    /// The payload in the record itself.
    pub payload: &'a [u8],
    /// Parts of chunks that come before the payload; see [`LogReader::payload`].
    pub chunks: Chunks<'a>,
}

impl LogReader {
    /// Everything within the cuts of `home`; `last` is the running incarnation's.
    pub(super) fn open(
        disk: &dyn Disk,
        manifest: &Manifest,
        home: HomeId,
        last: Cut,
    ) -> Result<LogReader> {
        let files = SegmentFiles::open(disk, manifest, home)?;
        let mut base = Cts::ZERO;
        let mut parts = VecDeque::new();
        for incarnation in &manifest.incarnations {
            let Some(span) = incarnation.logs.get(usize::from(home.0)) else { continue };
            let cut = span.cut.unwrap_or(last);
            let part = Part {
                incarnation: incarnation.number,
                start: span.start,
                cut: cut.position,
                base,
            };
            if cut.position > span.start {
                parts.push_back(part);
            }
            base = cut.cts;
        }
        let from = manifest.checkpoint.as_ref().map_or(Cts::ZERO, |it| it.timestamp);
        Ok(LogReader { home, files, parts, walk: None, bytes_read: 0, from })
    }

    /// Goes to the next commit record; `false` at the end.
    #[inline]
    pub fn advance(&mut self) -> Result<bool> {
        loop {
            let Some(walk) = self.walk.as_mut() else {
                if !self.next_part()? {
                    return Ok(false);
                }
                continue;
            };
            match walk.step()? {
                Step::Commit if walk.last_cts() >= self.from => return Ok(true),
                Step::Commit | Step::Flush | Step::Chunk => {}
                Step::Limit => self.walk = None,
                Step::Invalid => {
                    return Err(walk.corrupt("no valid record before the end of the log's cut"));
                }
            }
        }
    }

    fn next_part(&mut self) -> Result<bool> {
        let Some(part) = self.parts.pop_front() else { return Ok(false) };
        let segments = self.files.of(part.incarnation, part.start);
        let walk =
            Walk::new(self.home, part.incarnation, segments, part.start, part.base, part.cut)?;
        self.bytes_read += part.cut.0 - part.start.0;
        self.walk = Some(walk);
        Ok(true)
    }

    /// The record that `advance` went to. Panics if it said that there is none.
    #[inline]
    pub fn current(&self) -> CommitRecord<'_> {
        let walk = self.walk.as_ref().expect("advance found a record");
        match walk.record() {
            (Record::Commit { cts, dependencies, chunks, payload }, position) => {
                CommitRecord { position, cts, dependencies, payload, chunks }
            }
            other => panic!("advance stops at commits only: {other:?}"),
        }
    }

    /// Appends the whole payload of the current record to `out`: its chunks' parts in their
    /// order, then its own (rule 7.3). `Corrupt` if a chunk is missing.
    pub fn payload(&self, out: &mut Vec<u8>) -> Result<()> {
        let record = self.current();
        for chunk in record.chunks {
            self.chunk(chunk, out)?;
        }
        out.extend_from_slice(record.payload);
        Ok(())
    }

    /// Appends a part of a chunk of the current record's incarnation to `out`.
    pub fn chunk(&self, chunk: ChunkRef, out: &mut Vec<u8>) -> Result<()> {
        if !chunk.is_list() {
            return self.part(chunk, out);
        }
        self.list(chunk)?.into_iter().try_for_each(|chunk| self.part(chunk, out))
    }

    /// The parts of chunks that come before the current record's own payload, none of them a
    /// list. `Corrupt` if a list is missing.
    pub fn parts(&self) -> Result<Vec<ChunkRef>> {
        let mut parts = Vec::new();
        for chunk in self.current().chunks {
            match chunk.is_list() {
                true => parts.extend(self.list(chunk)?),
                false => parts.push(chunk),
            }
        }
        Ok(parts)
    }

    fn part(&self, chunk: ChunkRef, out: &mut Vec<u8>) -> Result<()> {
        let (from, to) = chunk.bytes();
        self.present().chunk(chunk.position, from, to, out)
    }

    fn list(&self, list: ChunkRef) -> Result<Vec<ChunkRef>> {
        let mut bytes = Vec::new();
        self.part(list, &mut bytes)?;
        let chunks: Vec<ChunkRef> = Chunks::of_list(&bytes).collect();
        match chunks.iter().any(|chunk| chunk.is_list()) {
            true => Err(self.present().corrupt("a list of chunks within a list")),
            false => Ok(chunks),
        }
    }

    fn present(&self) -> &Walk {
        self.walk.as_ref().expect("advance found a record")
    }

    /// Bytes of log that the parts begun so far span.
    pub fn bytes_read(&self) -> u64 {
        self.bytes_read
    }
}
