//! Logs that were copied, as a backup or from an archive: which files, and where they are cut.
//!
//! A copy of several logs ends in each of them somewhere. The dependencies of its records do not
//! tell which of them count: a writer leaves a dependency out once it is stable (rule 7.4), and the
//! copy of the log that it was in may end before it. So a copy says up to which cts every one of
//! its logs is complete, and is cut at a cts: what a commit depends on has a smaller one (rule
//! 3.3), so all commits below any cts are a consistent state.
//!
//! What is not needed for that is not missed: what a log has behind a commit at or above that cts, or behind
//! the one just below, and incarnations whose commits are all above.
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

/// What is known of the logs of one incarnation besides its spans.
#[derive(Clone, Debug)]
pub struct CopiedPart {
    /// For each home how far its log reaches at least; none if its cut alone says that, or nothing does.
    pub ends: Vec<LogPosition>,
    /// When it began, in microseconds since 1970; `i64::MIN` if that is not known.
    pub began_micros: i64,
    /// All its commits are above.
    pub above: Cts,
}

impl CopiedPart {
    /// One of which nothing is known but how far its logs reach.
    pub fn up_to(ends: Vec<LogPosition>) -> CopiedPart {
        CopiedPart { ends, began_micros: i64::MIN, above: Cts::ZERO }
    }
}

/// What a segment was copied from, for people, or why it was not: by its log, its incarnation and where it
/// begins. None if there is nothing to say.
pub type Origin<'a> = &'a dyn Fn(HomeId, u32, LogPosition) -> Option<String>;

/// Logs that were copied.
#[derive(Clone, Copy)]
pub struct CopiedLogs<'a> {
    /// Where they are.
    pub disk: &'a Arc<dyn Disk>,
    /// What to read them by.
    pub manifest: &'a Manifest,
    /// One for each of the manifest's incarnations.
    pub parts: &'a [CopiedPart],
    /// Where they come from.
    pub origin: Origin<'a>,
}

/// A part of a log: what one incarnation wrote.
struct Part<'a> {
    home: HomeId,
    incarnation: u32,
    span: LogSpan,
    base: Cts,
    /// How far it reaches at least, if that is known.
    end: Option<LogPosition>,
    known: &'a CopiedPart,
    origin: Origin<'a>,
}

impl CopiedLogs<'_> {
    /// What incarnation `at` of the manifest wrote to the log of `home`; none if it had no such log.
    fn part(&self, at: usize, home: HomeId, base: Cts) -> Option<Part<'_>> {
        let (incarnation, known) = (&self.manifest.incarnations[at], &self.parts[at]);
        let span = *incarnation.logs.get(usize::from(home.0))?;
        let end = known.ends.get(usize::from(home.0)).copied();
        let (incarnation, origin) = (incarnation.number, self.origin);
        Some(Part { home, incarnation, span, base, end, known, origin })
    }
}

impl Part<'_> {
    fn walk(&self, files: &SegmentFiles) -> Result<Walk> {
        let Part { home, incarnation, span, base, .. } = *self;
        let segments = files.of(incarnation, span.start);
        let limit = span.cut.map_or(LogPosition(u64::MAX), |cut| cut.position);
        Walk::new(home, incarnation, segments, span.start, base, limit)
    }

    /// The cut of everything below `below`. The part must be whole as far as that is in it. Counts commits.
    fn cut(&self, files: &SegmentFiles, below: Cts, commits: &mut u64) -> Result<Cut> {
        let mut cut = Cut { home: self.home, position: self.span.start, cts: self.base };
        if self.known.above.next() >= below {
            return Ok(cut);
        }
        let mut walk = self.walk(files)?;
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
                // Whatever follows has a larger cts (rule 3.1).
                Step::Invalid if cut.cts.next() >= below => return Ok(cut),
                Step::Invalid => return self.check_whole(files, &walk).map(|()| cut),
            }
        }
    }

    /// Refuses a part that ends at the walk's present place if it was not copied as far as it must be: up to its
    /// cut, or to the end of a segment where that is, and as far as it reaches at least. If nothing says how
    /// far, it must have nothing behind its end.
    fn check_whole(&self, files: &SegmentFiles, walk: &Walk) -> Result<()> {
        let chain = files.of(self.incarnation, self.span.start);
        let end = self.end.unwrap_or(LogPosition(0));
        let is_whole = match (self.span.cut, self.end) {
            (Some(cut), _) => self.is_whole_to(cut, walk, &chain, end)?,
            (None, Some(end)) => walk.whole_end() >= end,
            (None, None) => !self.goes_on(files, walk, &chain),
        };
        if is_whole { Ok(()) } else { Err(self.gap(walk)) }
    }

    fn is_whole_to(
        &self,
        cut: Cut,
        walk: &Walk,
        chain: &[Segment],
        end: LogPosition,
    ) -> Result<bool> {
        if walk.end() >= cut.position {
            return Ok(true);
        }
        // A segment's end is left free if too little fits there.
        let Some(last) = chain.iter().rfind(|it| it.header.start < cut.position) else {
            return Ok(false);
        };
        let ends_there = last.header.end() == cut.position
            && last.file.len()? >= last.header.bytes
            && walk.end() > last.header.start;
        Ok(ends_there && walk.whole_end() >= end && !walk.goes_on())
    }

    /// Whether anything of the part lies behind the walk's present place.
    fn goes_on(&self, files: &SegmentFiles, walk: &Walk, chain: &[Segment]) -> bool {
        let next = self.behind(chain);
        walk.goes_on()
            || files.gap(self.incarnation, self.span.start).is_some()
            || (self.origin)(self.home, self.incarnation, next).is_some()
    }

    /// Where the segment would begin that follows the last one.
    fn behind(&self, chain: &[Segment]) -> LogPosition {
        chain.last().map_or(self.span.start, |last| last.header.end())
    }

    fn gap(&self, walk: &Walk) -> Error {
        let Part { home, incarnation, span, .. } = self;
        let found = if span.cut.is_some() { walk.end() } else { walk.whole_end() };
        let needed = match span.cut.map(|cut| cut.position).max(self.end) {
            Some(needed) => format!("incarnation {incarnation} needs it up to {needed}"),
            None => format!(
                "incarnation {incarnation} wrote more; it has all commits up to cts {}",
                walk.last_cts()
            ),
        };
        let mut detail = format!(
            "{}: the log of home {home} is damaged or missing from position {found} on; {needed}",
            walk.here()
        );
        for start in walk.next_segments() {
            if let Some(origin) = (self.origin)(*home, *incarnation, start) {
                detail += &format!("; from position {start} on it is in {origin}");
            }
        }
        Error::Corrupt { page: None, detail }
    }
}

/// Cuts the logs at `below`: what remains are the commits below it. Logs must be whole as far as these are in them:
/// up to their cuts, those of an incarnation without cuts as far as they reach at least. Every record up to there is
/// verified. `Corrupt` names what is damaged or missing.
pub fn examine_below(logs: CopiedLogs<'_>, below: Cts) -> Result<Examined> {
    let mut manifest = logs.manifest.clone();
    let mut commits = 0;
    let mut cts_max = manifest.before_checkpoint();
    let mut cuts = Vec::new();
    for home in (0..manifest.homes).map(HomeId) {
        let files = SegmentFiles::open(logs.disk.as_ref(), &manifest, home)?;
        let mut base = Cts::ZERO;
        let last = manifest.incarnations.len() - 1;
        for (at, incarnation) in manifest.incarnations.iter_mut().enumerate() {
            let Some(part) = logs.part(at, home, base) else { continue };
            let cut = part.cut(&files, below, &mut commits)?;
            base = cut.cts;
            if at == last {
                cuts.push(cut);
            } else {
                incarnation.logs[usize::from(home.0)].cut = Some(cut);
            }
        }
        cts_max = cts_max.max(base);
    }
    Ok(Examined { manifest, cuts, cts_max, commits, commits_cut: 0 })
}

/// One incarnation's part of one log, to be verified where it was copied to.
#[derive(Clone, Copy)]
pub struct CopiedLog<'a> {
    /// Whose log.
    pub home: HomeId,
    /// Which incarnation's.
    pub incarnation: u32,
    /// From where, and up to where if that is known.
    pub span: LogSpan,
    /// How far it reaches at least, if that is known.
    pub end: Option<LogPosition>,
    /// Where its segments come from.
    pub origin: Origin<'a>,
}

/// Verifies every record of such a part, of which `segments` are copied, ascending; answers commits. `Corrupt` names
/// what is damaged or missing up to its cut, or as far as it reaches, or, if nothing says how far, before
/// anything else of it. `Io`.
pub fn verify_copied(
    log: &CopiedLog<'_>,
    segments: impl Iterator<Item = (FileRef, SegmentHeader)>,
) -> Result<u64> {
    let CopiedLog { home, incarnation, span, end, origin } = *log;
    let whole = segments.map(|(file, header)| Segment { file, header }).collect();
    let files = SegmentFiles { whole, unfinished: Vec::new() };
    let known = &CopiedPart::up_to(Vec::new());
    let part = Part { home, incarnation, span, base: Cts::ZERO, end, known, origin };
    let mut commits = 0;
    part.cut(&files, Cts::MAX, &mut commits).map(|_| commits)
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
/// was set back from behind that time to before it; `Corrupt` names what is damaged or missing of what was
/// flushed by then.
pub fn committed_by(logs: CopiedLogs<'_>, wall_micros: i64) -> Result<Cts> {
    let mut found = Cts::ZERO;
    for home in (0..logs.manifest.homes).map(HomeId) {
        let files = SegmentFiles::open(logs.disk.as_ref(), logs.manifest, home)?;
        let mut is_behind = false;
        for at in 0..logs.manifest.incarnations.len() {
            let Some(part) = logs.part(at, home, Cts::ZERO) else { continue };
            is_behind |= part.known.began_micros > wall_micros;
            let last = part.committed_by(&files, wall_micros, &mut is_behind)?;
            found = found.max(last);
        }
    }
    Ok(found)
}

impl Part<'_> {
    /// As above, of this part. `is_behind`: a flush was met that started later, or one would be.
    fn committed_by(
        &self,
        files: &SegmentFiles,
        wall_micros: i64,
        is_behind: &mut bool,
    ) -> Result<Cts> {
        let mut found = Cts::ZERO;
        let mut walk = self.walk(files)?;
        loop {
            let step = match walk.step() {
                // What is behind the time is looked at for the clock alone; who needs more reads it again.
                Err(_) if *is_behind => return Ok(found),
                step => step?,
            };
            match step {
                Step::Commit if !*is_behind => found = found.max(walk.last_cts()),
                Step::Commit | Step::Chunk => {}
                Step::Limit => return Ok(found),
                Step::Invalid if *is_behind => return Ok(found),
                // What is not there may have been committed by then.
                Step::Invalid => return self.check_whole(files, &walk).map(|()| found),
                Step::Flush => {
                    let (Record::Flush(head), _) = walk.record() else { continue };
                    let Some(started) = head.wall_micros else {
                        if *is_behind {
                            return Ok(found);
                        }
                        let detail = format!(
                            "{}: this log does not say when its commits were made; name a cts",
                            walk.here()
                        );
                        return Err(Error::Unusable { detail });
                    };
                    if *is_behind && started <= wall_micros {
                        let detail = format!(
                            "{}: the server's clock had been set back here, from behind that time \
                             to before it, so that it does not say what was committed by \
                             then; name a cts",
                            walk.here()
                        );
                        return Err(Error::Unusable { detail });
                    }
                    *is_behind = started > wall_micros;
                }
            }
        }
    }
}
