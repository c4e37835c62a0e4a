//! Finds the end of each log, and tells damage from a torn tail (rules 7.9, 9.2).
//!
//! Invariants: only reads. A log ends where its contiguous valid prefix does. If any flush, of
//! this log or of another, says that this log was durable or stable beyond that end, bytes that
//! were safe are gone: damage, refused with file and place. So is a segment that is missing before
//! another, even one that was only made ready. Else what follows is a tail that the crash tore, and
//! nobody was told of it.

use super::cut::{Dependent, LogSummary};
use super::files::SegmentFiles;
use super::format::{
    BLOCK_BYTES, FlushHead, Record, SEGMENT_HEADER_BYTES, decode_anywhere, place_of,
};
use super::manifest::Manifest;
use super::segment::name;
use super::walk::{Step, Walk};
use crate::base::{Cts, Error, HomeId, LogPosition, Observed, Result};
use crate::io::{Disk, FileRef, IoBuffer};
use crate::sync::mutant;

/// What the running incarnation's part of one log holds.
pub struct ScannedLog {
    /// For the cut.
    pub summary: LogSummary,
    /// Valid commits.
    pub commits: u64,
    /// The largest stable mark of each other home that any flush carries.
    pub marks: Vec<Cts>,
    /// Where the valid prefix ends, for people.
    pub here: String,
}

/// Scans the log of `home`. `Corrupt` names the place of damage.
pub fn scan(disk: &dyn Disk, manifest: &Manifest, home: HomeId) -> Result<ScannedLog> {
    let incarnation = manifest.current();
    let files = SegmentFiles::open(disk, manifest, home)?;
    let start = incarnation.logs[usize::from(home.0)].start;
    let base = manifest.base(home);
    let segments = files.of(incarnation.number, start);
    let limit = LogPosition(u64::MAX);
    // The part may begin with commits that the checkpoint has already.
    if manifest.must_begin(home)
        && segments.first().is_none_or(|segment| segment.header.start != start)
    {
        let detail = format!(
            "the log of home {home} has no segment that begins at position {start}, from where on \
             the checkpoint needs it"
        );
        return Err(Error::Corrupt { page: None, detail });
    }
    if let Some((position, next)) = files.gap(incarnation.number, start)
        && !mutant("log-damage-taken-for-a-torn-tail")
    {
        let detail = format!(
            "the segment of the log of home {home} that begins at position {position} is missing: \
             \"{}\" was made after it",
            name(home, next.header.number)
        );
        return Err(Error::Corrupt { page: None, detail });
    }
    let cut_base = manifest.cut_base(home);
    let mut walk = Walk::new(home, incarnation.number, segments, start, cut_base, limit)?;
    let mut evidence =
        Evidence { marks: vec![Cts::ZERO; usize::from(manifest.homes)], durable: start };
    let (mut dependents, mut commits) = (Vec::new(), 0);
    let mut before = base;
    loop {
        match walk.step()? {
            Step::Chunk => {}
            Step::Flush => {
                if let (Record::Flush(head), _) = walk.record() {
                    evidence.take(head);
                }
            }
            Step::Commit => {
                commits += 1;
                if let (Record::Commit { cts, dependencies, .. }, position) = walk.record() {
                    dependents.extend(dependencies.map(|on| Dependent { position, before, on }));
                    before = cts.max(base);
                }
            }
            Step::Limit | Step::Invalid => break,
        }
    }
    evidence.sweep(&files, incarnation.number, home, walk.whole_end())?;
    if evidence.durable > walk.whole_end() && !mutant("log-damage-taken-for-a-torn-tail") {
        let what = format!(
            "no valid record, but the log was durable up to position {}; this is damage, not the \
             end of the log",
            evidence.durable
        );
        return Err(walk.corrupt(&what));
    }
    let last_cts = walk.last_cts().max(base);
    let summary = LogSummary { home, end: walk.end(), last_cts, dependents };
    Ok(ScannedLog { summary, commits, marks: evidence.marks, here: walk.here() })
}

/// What flushes say of how far logs had come.
struct Evidence {
    /// The largest stable mark of each home.
    marks: Vec<Cts>,
    /// The largest durable position of the own log.
    durable: LogPosition,
}

impl Evidence {
    fn take(&mut self, head: FlushHead<'_>) {
        self.durable = self.durable.max(head.durable);
        for Observed { home, cts } in head.marks {
            if let Some(mark) = self.marks.get_mut(usize::from(home.0)) {
                *mark = cts.max(*mark);
            }
        }
    }

    /// Looks for heads of flushes after the end of the valid prefix.
    fn sweep(
        &mut self,
        files: &SegmentFiles,
        incarnation: u32,
        home: HomeId,
        end: LogPosition,
    ) -> Result<()> {
        let written = files.whole.iter().filter(|s| s.header.incarnation == incarnation);
        for segment in written.filter(|segment| segment.header.end() > end) {
            let from = end.0.saturating_sub(segment.header.start.0);
            self.sweep_file(&segment.file, from, incarnation, home)?;
        }
        for (_, file) in &files.unfinished {
            self.sweep_file(file, 0, incarnation, home)?;
        }
        Ok(())
    }

    fn sweep_file(
        &mut self,
        file: &FileRef,
        from: u64,
        incarnation: u32,
        home: HomeId,
    ) -> Result<()> {
        let from = from.next_multiple_of(BLOCK_BYTES as u64).max(SEGMENT_HEADER_BYTES as u64);
        let left = file.len()?.saturating_sub(from);
        let mut bytes = IoBuffer::zeroed(usize::try_from(left).unwrap_or(0));
        let n = file.read_at(from, &mut bytes)?;
        bytes.set_len(n);
        for block in (0..n).step_by(BLOCK_BYTES).map(|at| &bytes[at..]) {
            if block.len() < BLOCK_BYTES {
                break;
            }
            let place = place_of(block);
            if (place.incarnation, place.home) != (incarnation, home) {
                continue;
            }
            if let Some((Record::Flush(head), _)) = decode_anywhere(block) {
                self.take(head);
            }
        }
        Ok(())
    }
}

/// Compares what each log says of the others with where they end.
pub fn check_marks(logs: &[ScannedLog]) -> Result<()> {
    for by in logs {
        for (log, &mark) in logs.iter().zip(&by.marks) {
            if mark > log.summary.last_cts && !mutant("log-damage-taken-for-a-torn-tail") {
                let detail = format!(
                    "{}: the log of home {} ends at commit {}, but the log of home {} says that \
                     it was stable up to {mark}; this is damage, not the end of the log",
                    log.here, log.summary.home, log.summary.last_cts, by.summary.home
                );
                return Err(Error::Corrupt { page: None, detail });
            }
        }
    }
    Ok(())
}
