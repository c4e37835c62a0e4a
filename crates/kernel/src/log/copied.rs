//! Logs that were copied, as a backup or from an archive: which files, and where they are cut.
//!
//! A copy of several logs ends in each of them somewhere. The dependencies of its records do not
//! tell which of them count: a writer leaves a dependency out once it is stable (rule 7.4), and the
//! copy of the log that it was in may end before it. So a copy says up to which cts every one of
//! its logs is complete, and is cut at a cts: what a commit depends on has a smaller one (rule
//! 3.3), so all commits below any cts are a consistent state.
//!
//! Invariants: only reads; what is needed and is not there is named, never passed over.

use std::sync::Arc;

use super::files::SegmentFiles;
use super::format::{Record, SegmentHeader};
use super::manifest::{Cut, LogSpan, Manifest};
use super::recover::Examined;
use super::segment::Segment;
use super::walk::{Step, Walk};
use crate::base::{Cts, Error, HomeId, LogPosition, Result};
use crate::io::{Disk, FileRef};

/// How often a listing is tried while segments get other names.
const ATTEMPTS_MAX: usize = 100;

/// The headers of all whole segments of `home`, ascending; of a running log, too. `Corrupt`,
/// `Unusable` name what belongs to another database or a later incarnation.
pub fn segments(disk: &dyn Disk, manifest: &Manifest, home: HomeId) -> Result<Vec<SegmentHeader>> {
    let mut attempts = 0;
    loop {
        match SegmentFiles::open(disk, manifest, home) {
            Ok(files) => return Ok(files.whole.into_iter().map(|it| it.header).collect()),
            // One that is used again got another name since it was listed.
            Err(Error::NotFound { .. }) if attempts < ATTEMPTS_MAX => attempts += 1,
            Err(error) => return Err(error),
        }
    }
}

/// A part of a log: what one incarnation wrote.
struct Part {
    home: HomeId,
    incarnation: u32,
    span: LogSpan,
    base: Cts,
}

impl Part {
    fn walk(&self, files: &SegmentFiles) -> Result<Walk> {
        let Part { home, incarnation, span, base } = *self;
        let segments = files.of(incarnation, span.start);
        let limit = span.cut.map_or(LogPosition(u64::MAX), |cut| cut.position);
        Walk::new(home, incarnation, segments, span.start, base, limit)
    }

    /// The cut of everything below `below`. The part must be whole up to its own cut, or else up to
    /// `end`, unless it is cut before. Counts commits.
    fn cut(
        &self,
        files: &SegmentFiles,
        below: Cts,
        end: LogPosition,
        commits: &mut u64,
    ) -> Result<Cut> {
        let mut walk = self.walk(files)?;
        let mut cut = Cut { home: self.home, position: self.span.start, cts: self.base };
        loop {
            match walk.step()? {
                Step::Commit if walk.last_cts() >= below => {
                    cut.position = walk.record().1;
                    return Ok(cut);
                }
                Step::Commit => {
                    cut.cts = walk.last_cts();
                    cut.position = walk.end();
                    *commits += 1;
                }
                Step::Flush | Step::Chunk => {}
                Step::Limit => return Ok(self.span.cut.unwrap_or(cut)),
                Step::Invalid if self.is_whole(files, &walk, end)? => return Ok(cut),
                Step::Invalid => return Err(self.gap(&walk, end)),
            }
        }
    }

    /// Whether the part was copied as far as it must be: up to its cut, or to the end of a segment
    /// where that is, and up to `end`.
    fn is_whole(&self, files: &SegmentFiles, walk: &Walk, end: LogPosition) -> Result<bool> {
        let Some(cut) = self.span.cut else { return Ok(walk.whole_end() >= end) };
        if walk.end() >= cut.position {
            return Ok(true);
        }
        // A segment's end is left free if too little fits there.
        let chain = files.of(self.incarnation, self.span.start);
        let Some(last) = chain.iter().rfind(|it| it.header.start < cut.position) else {
            return Ok(false);
        };
        let ends_there = last.header.end() == cut.position
            && last.file.len()? >= last.header.bytes
            && walk.end() > last.header.start;
        Ok(ends_there && walk.whole_end() >= end && !walk.goes_on())
    }

    fn gap(&self, walk: &Walk, end: LogPosition) -> Error {
        let Part { home, incarnation, span, .. } = self;
        let (found, needed) = match span.cut {
            Some(own) => (walk.end(), own.position.max(end)),
            None => (walk.whole_end(), end),
        };
        let detail = format!(
            "{}: the log of home {home} is damaged or missing from position {found} on; \
             incarnation {incarnation} needs it up to {needed}",
            walk.here()
        );
        Error::Corrupt { page: None, detail }
    }
}

/// Cuts the logs at `below`: what remains are the commits below it. Logs must be whole up to their
/// cuts, those of an incarnation without cuts up to its `ends` (for each incarnation one a home,
/// or none), as far as `below` needs them. Every record is verified. `Corrupt` names what is
/// damaged or missing.
pub fn examine_below(
    disk: &Arc<dyn Disk>,
    mut manifest: Manifest,
    ends: &[Vec<LogPosition>],
    below: Cts,
) -> Result<Examined> {
    let mut commits = 0;
    let mut cts_max = manifest.before_checkpoint();
    let mut cuts = Vec::new();
    for home in (0..manifest.homes).map(HomeId) {
        let files = SegmentFiles::open(disk.as_ref(), &manifest, home)?;
        let mut base = Cts::ZERO;
        let last = manifest.incarnations.len() - 1;
        for (at, incarnation) in manifest.incarnations.iter_mut().enumerate() {
            let Some(span) = incarnation.logs.get_mut(usize::from(home.0)) else { continue };
            let end = ends.get(at).and_then(|ends| ends.get(usize::from(home.0)));
            let end = end.copied().unwrap_or(LogPosition(0));
            let part = Part { home, incarnation: incarnation.number, span: *span, base };
            let cut = part.cut(&files, below, end, &mut commits)?;
            base = cut.cts;
            if at == last {
                cuts.push(cut);
            } else {
                span.cut = Some(cut);
            }
        }
        cts_max = cts_max.max(base);
    }
    Ok(Examined { manifest, cuts, cts_max, commits, commits_cut: 0 })
}

/// What the records of a copy of a segment are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Validity {
    /// Up to here they are valid, from its beginning on: the end of the last whole flush.
    pub end: LogPosition,
    /// Whether the place that was asked about is in one of them. Between flushes there is nothing.
    pub is_record: bool,
}

/// What the copy `file` of a segment has, and whether it has a valid record at `place`. `Io`.
pub fn validity(file: FileRef, header: SegmentHeader, place: LogPosition) -> Result<Validity> {
    let SegmentHeader { home, incarnation, start, .. } = header;
    let (segments, limit) = (vec![Segment { file, header }], LogPosition(u64::MAX));
    let mut walk = Walk::new(home, incarnation, segments, start, Cts::ZERO, limit)?;
    let mut is_record = false;
    loop {
        match walk.step() {
            Ok(Step::Flush | Step::Commit | Step::Chunk) => {
                is_record |= (walk.record().1..walk.end()).contains(&place);
            }
            // Valid records that contradict each other count for as little.
            Ok(Step::Limit | Step::Invalid) | Err(Error::Corrupt { .. }) => {
                return Ok(Validity { end: walk.whole_end(), is_record });
            }
            Err(error) => return Err(error),
        }
    }
}

/// The largest cts that was committed by `wall_micros`, as the flushes of the logs tell it: all
/// commits up to it began to become durable by then, and all that were durable by then are among
/// them. `Cts::ZERO` if there is none; `Unusable` if flushes do not say when they were, or the clock
/// was set back from behind that time to before it.
pub fn committed_by(disk: &dyn Disk, manifest: &Manifest, wall_micros: i64) -> Result<Cts> {
    let mut found = Cts::ZERO;
    for home in (0..manifest.homes).map(HomeId) {
        let files = SegmentFiles::open(disk, manifest, home)?;
        let mut is_behind = false;
        for incarnation in &manifest.incarnations {
            let Some(span) = incarnation.logs.get(usize::from(home.0)) else { continue };
            let number = incarnation.number;
            let part = Part { home, incarnation: number, span: *span, base: Cts::ZERO };
            let mut walk = part.walk(&files)?;
            loop {
                let step = match walk.step() {
                    // What is behind the time is looked at for the clock alone; who needs more reads it again.
                    Err(_) if is_behind => break,
                    step => step?,
                };
                match step {
                    Step::Commit if !is_behind => found = found.max(walk.last_cts()),
                    Step::Commit | Step::Chunk => {}
                    Step::Limit | Step::Invalid => break,
                    Step::Flush => {
                        let (Record::Flush(head), _) = walk.record() else { continue };
                        let Some(started) = head.wall_micros else {
                            if is_behind {
                                break;
                            }
                            let detail = format!(
                                "{}: this log does not say when its commits were made; name a cts",
                                walk.here()
                            );
                            return Err(Error::Unusable { detail });
                        };
                        if is_behind && started <= wall_micros {
                            let detail = format!(
                                "{}: the server's clock had been set back here, from behind that time \
                                 to before it, so that it does not say what was committed by \
                                 then; name a cts",
                                walk.here()
                            );
                            return Err(Error::Unusable { detail });
                        }
                        is_behind = started > wall_micros;
                    }
                }
            }
        }
    }
    Ok(found)
}
