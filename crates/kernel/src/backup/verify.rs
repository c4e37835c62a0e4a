//! Whether an archive has what it promises: its points, and every record between them (backup rule 10).
//!
//! Invariants: only reads; points first, so that all that they promise is in the listing behind them, while a
//! server goes on. What was removed of the oldest is no damage, and is told of; everything else that is missing
//! is. A file that is damaged is one problem, and the others are verified all the same.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::archive::{Archive, Archived, Damaged, SegmentKey, key_of};
use super::begun::{BEGUN, numbers};
use super::line::Line;
use super::points::Points;
use super::restore::Until;
use super::{Point, archive};
use crate::base::{Error, HomeId, LogPosition, Result};
use crate::io::{Direct, Disk, OpenHow};
use crate::log::manifest::LogSpan;
use crate::log::{CopiedLog, verify_copied};

/// What was found of one database's part of an archive.
#[derive(Clone, Debug, Default)]
pub struct ArchiveFindings {
    /// Its folder in the archive.
    pub folder: String,
    /// Log segments, without those of which nothing can be used.
    pub segments: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Commits in them.
    pub commits: u64,
    /// A time by which everything that was committed is in the archive, in microseconds since 1970; none if
    /// nothing says that.
    pub complete_to_micros: Option<i64>,
    /// What is wrong, one line each.
    pub problems: Vec<String>,
    /// What somebody should know besides, one line each.
    pub notes: Vec<String>,
}

/// The databases whose folders in an archive have some of these names.
pub fn databases<'a>(names: impl Iterator<Item = &'a str>) -> Vec<u128> {
    names.filter_map(archive::database_of).collect()
}

/// Verifies what the archive has of `database`. `progress` hears of each log. Blocks. Damage is a problem, not
/// an error; `Io` is one if the folder cannot be listed.
pub fn verify_archive(
    disk: &Arc<dyn Disk>,
    database: u128,
    progress: &mut dyn FnMut(&str),
) -> Result<ArchiveFindings> {
    let archive = Archive::new(disk.clone(), database);
    let folder = archive.folder().to_owned();
    let mut check = Check {
        history: History::default(),
        segments: BTreeMap::new(),
        damaged: Vec::new(),
        findings: ArchiveFindings { folder, ..ArchiveFindings::default() },
    };
    check.read_points(&archive)?;
    let (segments, damaged) = match archive.segments() {
        Ok(found) => found,
        Err(Error::Unusable { detail }) => {
            check.findings.problems.push(detail);
            return Ok(check.findings);
        }
        Err(error) => return Err(error),
    };
    check.damaged = damaged;
    segments.into_iter().for_each(|segment| check.take(&archive, segment));
    for log in check.logs() {
        match check.verify(&archive, log, progress) {
            Ok(commits) => check.findings.commits += commits,
            // One that cannot be read is no reason not to look at the others.
            Err(error) => check.problem(error),
        }
    }
    Ok(check.finish())
}

/// What the points say of each incarnation.
#[derive(Default)]
struct History {
    /// The one from which on everything is there; those before are there in part, perhaps.
    oldest: u32,
    newest: u32,
    /// Of each incarnation's logs the spans, and how far they reach at least.
    known: BTreeMap<u32, (Vec<LogSpan>, Vec<LogPosition>)>,
}

struct Check {
    history: History,
    segments: BTreeMap<SegmentKey, Archived>,
    damaged: Vec<Damaged>,
    findings: ArchiveFindings,
}

impl Check {
    /// Reads every point, and puts those together that are whole.
    fn read_points(&mut self, archive: &Archive) -> Result<()> {
        let names = archive.disk().list(archive.folder())?;
        let begun = numbers(&names, BEGUN).into_iter().map(|number| archive.begun(number));
        let reached = numbers(&names, archive::REACHED);
        let reached = reached.into_iter().map(|number| archive.reached(number));
        let mut points = Vec::new();
        for point in begun.chain(reached) {
            match point {
                Ok(point) => points.extend(point),
                Err(error) => self.problem(error),
            }
        }
        // Of one incarnation the beginning comes first.
        let Some(base) = points.into_iter().min_by_key(Point::incarnation) else { return Ok(()) };
        let line = Points::behind(&base, archive, Until::End);
        match line.and_then(|points| Line::behind(&base, &points)) {
            Ok(line) => {
                self.findings.complete_to_micros = Some(line.wall_micros);
                self.history = History::of(&base, line);
            }
            Err(error) => {
                self.problem(error);
                let alone = "logs were verified one by one, without what points say of them";
                self.findings.notes.push(alone.to_owned());
            }
        }
        Ok(())
    }

    fn problem(&mut self, error: Error) {
        let line = match error {
            Error::Corrupt { detail, .. } | Error::Unusable { detail } => detail,
            other => other.to_string(),
        };
        // A damaged point is met twice.
        if !self.findings.problems.contains(&line) {
            self.findings.problems.push(line);
        }
    }

    fn take(&mut self, archive: &Archive, segment: Archived) {
        let header = segment.header;
        let key = (header.home, header.incarnation, header.start);
        if segment.name.strip_prefix(archive.folder()).and_then(|it| key_of(&it[1..])) != Some(key)
        {
            let (home, incarnation, start) = key;
            let line = format!(
                "\"{}\": its header says that it is of home {home}, incarnation {incarnation}, and begins at \
                 position {start}",
                segment.name
            );
            self.findings.problems.push(line);
        }
        self.findings.segments += 1;
        self.findings.bytes += segment.bytes;
        self.segments.insert(key, segment);
    }

    /// Every log of every incarnation of which anything is there, or should be.
    fn logs(&self) -> BTreeSet<(HomeId, u32)> {
        let known = self.history.known.iter().flat_map(|(&incarnation, (spans, _))| {
            (0..spans.len()).map(move |home| (HomeId(home as u16), incarnation))
        });
        self.segments
            .keys()
            .map(|&(home, incarnation, _)| (home, incarnation))
            .chain(known)
            .collect()
    }

    /// Verifies what there is of a log; answers commits.
    fn verify(
        &mut self,
        archive: &Archive,
        (home, incarnation): (HomeId, u32),
        progress: &mut dyn FnMut(&str),
    ) -> Result<u64> {
        let from = (home, incarnation, LogPosition(0));
        let to = (home, incarnation, LogPosition(u64::MAX));
        let found: Vec<&Archived> = self.segments.range(from..=to).map(|(_, it)| it).collect();
        let first = found.first().map(|it| it.header.start);
        let Some((span, end)) = self.history.part((home, incarnation), first) else {
            return Ok(0);
        };
        let bytes: u64 = found.iter().map(|it| it.bytes).sum();
        progress(&format!(
            "the log of home {home}, incarnation {incarnation}: {} segments, {:.1} MB",
            found.len(),
            bytes as f64 / 1e6
        ));
        let known = self.history.span(home, incarnation);
        if known.is_some_and(|known| known.start < span.start) {
            self.findings.notes.push(format!(
                "the log of home {home} is there from position {} of incarnation {incarnation} on; what is older was \
                 removed, or never archived",
                span.start
            ));
        }
        let origin = |home, incarnation, start| self.origin((home, incarnation, start));
        let log = CopiedLog { home, incarnation, span, end, origin: &origin };
        let open = |it: &&Archived| archive.disk().open(&it.name, OpenHow::Existing, Direct::No);
        let files = found.iter().map(open).collect::<Result<Vec<_>>>()?;
        let headers = found.iter().map(|it| it.header);
        verify_copied(&log, files.into_iter().zip(headers))
    }

    /// Where a segment is, or why nothing of it can be used.
    fn origin(&self, key: SegmentKey) -> Option<String> {
        let damaged = self.damaged.iter().filter(|it| it.key == Some(key)).map(Damaged::line);
        let found = self.segments.get(&key).map(|it| format!("\"{}\"", it.name));
        let all: Vec<_> = found.into_iter().chain(damaged).collect();
        (!all.is_empty()).then(|| all.join(", and "))
    }

    fn finish(mut self) -> ArchiveFindings {
        for line in self.damaged.iter().map(Damaged::line) {
            if !self.findings.problems.iter().any(|problem| problem.contains(&line)) {
                self.findings.problems.push(line);
            }
        }
        self.findings
    }
}

impl History {
    /// Behind the oldest point.
    fn of(base: &Point, line: Line) -> History {
        let mut history = History { oldest: base.incarnation(), ..History::default() };
        for incarnation in &base.manifest.incarnations {
            history.known.insert(incarnation.number, (incarnation.logs.clone(), Vec::new()));
        }
        for (incarnation, part) in line.incarnations.into_iter().zip(line.parts) {
            history.known.insert(incarnation.number, (incarnation.logs, part.ends));
            history.newest = incarnation.number;
        }
        history
    }

    fn span(&self, home: HomeId, incarnation: u32) -> Option<LogSpan> {
        self.known.get(&incarnation)?.0.get(usize::from(home.0)).copied()
    }

    /// What must be there of a log, of which the first segment that is begins at `first`; none if nothing needs to.
    fn part(
        &self,
        (home, incarnation): (HomeId, u32),
        first: Option<LogPosition>,
    ) -> Option<(LogSpan, Option<LogPosition>)> {
        let Some(span) = self.span(home, incarnation) else {
            // Nothing says anything of it.
            return first.map(|start| (LogSpan { start, cut: None }, None));
        };
        let end = self.known[&incarnation].1.get(usize::from(home.0)).copied();
        let start = match (incarnation <= self.oldest, first) {
            (false, _) => span.start,
            (true, Some(first)) => span.start.max(first),
            // All of it was removed, unless nothing is newer.
            (true, None) if self.oldest == self.newest && incarnation == self.newest => span.start,
            (true, None) => return None,
        };
        Some((LogSpan { start, cut: span.cut }, end))
    }
}
