//! The logs at start: scan, cut, and the beginning of a new incarnation (rules 9.1 to 9.4).
//!
//! Invariants: examining changes nothing on disk; `begin` makes the logs durable up to their
//! cuts, then the manifest, before any log record of the new incarnation can be written (the
//! manifest it returns is what `LogWriter::open` needs). Both may crash and run again.

use std::sync::Arc;

use super::StableMarks;
use super::cut::{LogSummary, cut};
use super::files::SegmentFiles;
use super::format::{SEGMENT_HEADER_BYTES, SegmentHeader};
use super::manifest::{Cut, Incarnation, LogSpan, Manifest};
use super::reader::LogReader;
use super::scan::{ScannedLog, check_marks, scan};
use super::segment::{folder, name};
use super::walk::{Step, Walk};
use crate::base::{Cts, Error, HomeId, INSTANCES_MAX, LogPosition, Result};
use crate::io::Disk;
use crate::sync::mutant;

/// What the logs of a directory hold.
pub struct Examined {
    /// The manifest they were read by.
    pub manifest: Manifest,
    /// One for every home: the largest consistent state.
    pub cuts: Vec<Cut>,
    /// The largest cts found, inside a cut or not: new ones must be above it.
    pub cts_max: Cts,
    /// Valid commit records of the last incarnation.
    pub commits: u64,
    /// Those of them that the cut leaves out.
    pub commits_cut: u64,
}

/// What the cut is made from: the valid prefix of every log of the running incarnation, with its
/// dependencies. For those who want to judge the cut.
pub fn summaries(disk: &Arc<dyn Disk>, manifest: &Manifest) -> Result<Vec<LogSummary>> {
    Ok(scan_all(disk, manifest)?.into_iter().map(|log| log.summary).collect())
}

/// Scans all logs, a few threads at a time, and cuts them. Changes nothing. `Corrupt` names the
/// file and place of damage.
pub fn examine(disk: &Arc<dyn Disk>, manifest: Manifest) -> Result<Examined> {
    let logs = scan_all(disk, &manifest)?;
    check_marks(&logs)?;
    let summaries: Vec<_> = logs.iter().map(|log| log.summary.clone()).collect();
    let cuts = cut(&summaries);
    let bases = (0..manifest.homes).map(|home| manifest.base(HomeId(home)));
    let found = logs.iter().map(|log| log.summary.last_cts);
    let cts_max = bases.chain(found).max().unwrap_or(Cts::ZERO);
    let mut commits_cut = 0;
    for (log, cut) in summaries.iter().zip(&cuts) {
        if cut.position < log.end {
            commits_cut += commits_after(disk.as_ref(), &manifest, *cut)?;
        }
    }
    let commits = logs.iter().map(|log| log.commits).sum();
    Ok(Examined { manifest, cuts, cts_max, commits, commits_cut })
}

fn scan_all(disk: &Arc<dyn Disk>, manifest: &Manifest) -> Result<Vec<ScannedLog>> {
    let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    let homes: Vec<HomeId> = (0..manifest.homes).map(HomeId).collect();
    let mut logs = Vec::new();
    for group in homes.chunks(cores) {
        std::thread::scope(|scope| {
            let scans: Vec<_> = group
                .iter()
                .map(|&home| scope.spawn(move || scan(disk.as_ref(), manifest, home)))
                .collect();
            for scan in scans {
                let done = scan.join().unwrap_or_else(|_| {
                    Err(Error::Internal { detail: "a log scan panicked".to_owned() })
                });
                logs.push(done?);
            }
            Ok::<(), Error>(())
        })?;
    }
    Ok(logs)
}

/// Valid commits of the running incarnation at or after its cut.
fn commits_after(disk: &dyn Disk, manifest: &Manifest, cut: Cut) -> Result<u64> {
    let files = SegmentFiles::open(disk, manifest, cut.home)?;
    let current = manifest.current();
    let start = current.logs[usize::from(cut.home.0)].start;
    let segments = files.of(current.number, start);
    let base = manifest.cut_base(cut.home);
    let limit = LogPosition(u64::MAX);
    let mut walk = Walk::new(cut.home, current.number, segments, start, base, limit)?;
    let mut commits = 0;
    loop {
        match walk.step()? {
            Step::Commit => commits += u64::from(walk.record().1 >= cut.position),
            Step::Flush | Step::Chunk => {}
            Step::Limit | Step::Invalid => return Ok(commits),
        }
    }
}

impl Examined {
    /// Everything within the cut of `home`, from its first record.
    pub fn reader(&self, disk: &Arc<dyn Disk>, home: HomeId) -> Result<LogReader> {
        let cut = self.cuts[usize::from(home.0)];
        LogReader::open(disk.as_ref(), &self.manifest, home, cut)
    }

    /// Begins a new incarnation with at least `homes` homes: syncs the logs up to their cuts and
    /// swaps the manifest (rule 9.4). `LogWriter::open` may follow, with the marks returned.
    /// `clock_offset` goes into the manifest; `leftovers` are removed. Blocks.
    pub fn begin(
        &self,
        disk: &Arc<dyn Disk>,
        homes: u16,
        clock_offset: u64,
        leftovers: Leftovers,
    ) -> Result<(Manifest, Arc<StableMarks>)> {
        self.begin_beside(disk, homes, clock_offset, leftovers, &mut |_, _| Ok(()))
    }

    /// As [`Examined::begin`]; `beside` writes what belongs to the new manifest, and ends the start if it
    /// fails.
    pub fn begin_beside(
        &self,
        disk: &Arc<dyn Disk>,
        homes: u16,
        clock_offset: u64,
        leftovers: Leftovers,
        beside: Beside<'_>,
    ) -> Result<(Manifest, Arc<StableMarks>)> {
        let disk = disk.as_ref();
        let homes = homes.max(self.manifest.homes);
        let number = self.manifest.current().number;
        let mut starts = Vec::new();
        for home in (0..homes).map(HomeId) {
            let files = SegmentFiles::open(disk, &self.manifest, home)?;
            let span = self.manifest.current().logs.get(usize::from(home.0));
            let earlier = span.map_or(LogPosition(0), |span| span.start);
            if let Some(cut) = self.cuts.get(usize::from(home.0)) {
                sync_up_to(disk, &files, (number, earlier), *cut)?;
            }
            let ends = files.whole.iter().map(|segment| segment.header.end());
            starts.push(ends.fold(earlier, LogPosition::max));
        }
        let manifest = Manifest {
            number: Manifest::next_number(disk)?,
            database: self.manifest.database,
            page_bytes: self.manifest.page_bytes,
            clock_offset,
            homes,
            incarnations: self.incarnations(&starts),
            checkpoint: self.manifest.checkpoint.clone(),
        };
        beside(Swap::Ahead, &manifest)?;
        manifest.swap(disk)?;
        beside(Swap::Done, &manifest)?;
        for home in (0..homes).map(HomeId) {
            // What is left there for another time is ignored by every recovery.
            let _ = remove_leftovers(disk, &manifest, home, leftovers);
        }
        let marks = starting_marks(&manifest);
        Ok((manifest, marks))
    }

    /// The incarnation that ended, with its cuts, whether or not it left anything.
    pub fn ended(&self) -> Incarnation {
        let mut ended = self.manifest.current().clone();
        for (span, cut) in ended.logs.iter_mut().zip(&self.cuts) {
            span.cut = Some(*cut);
        }
        ended
    }

    /// Earlier incarnations that left something, with their cuts, and the new one.
    fn incarnations(&self, starts: &[LogPosition]) -> Vec<Incarnation> {
        let mut incarnations = self.manifest.incarnations.clone();
        incarnations.pop();
        incarnations.push(self.ended());
        let is_empty = |span: &LogSpan| span.cut.is_some_and(|cut| cut.position <= span.start);
        incarnations.retain(|incarnation| !incarnation.logs.iter().all(is_empty));
        let logs = starts.iter().map(|&start| LogSpan { start, cut: None }).collect();
        let number = self.manifest.current().number + 1;
        incarnations.push(Incarnation { number, logs });
        incarnations
    }
}

/// Makes what the cut keeps of the running incarnation durable: a crashed process may have left
/// it in the page cache only, and others are about to depend on it.
fn sync_up_to(
    disk: &dyn Disk,
    files: &SegmentFiles,
    (incarnation, start): (u32, LogPosition),
    cut: Cut,
) -> Result<()> {
    let kept = files.of(incarnation, start);
    if mutant("log-cut-not-synced") {
        return Ok(());
    }
    for segment in kept.iter().filter(|segment| segment.header.start < cut.position) {
        segment.file.sync()?;
    }
    if kept.is_empty() { Ok(()) } else { disk.sync_dir(&folder(cut.home)) }
}

/// When a new incarnation's manifest is told of.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Swap {
    /// It is not on disk: what must be there with it can be written. The start may end here, and the next
    /// one begins an incarnation of the same number.
    Ahead,
    /// It is durable, and what it makes superfluous lies there still.
    Done,
}

/// Told of the manifest of a new incarnation.
pub type Beside<'a> = &'a mut dyn FnMut(Swap, &Manifest) -> Result<()>;

/// Segments of which no record counts.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Leftovers {
    /// All of them.
    All,
    /// Those without a header, which nobody will finish. The others may have to be archived.
    Unfinished,
    /// Those with one. A running log may be about to finish the others.
    Whole,
}

/// Removes segments of which no record counts: never finished, never used, wholly cut off, or of
/// an incarnation before the checkpoint.
pub fn remove_leftovers(
    disk: &dyn Disk,
    manifest: &Manifest,
    home: HomeId,
    which: Leftovers,
) -> Result<()> {
    let files = SegmentFiles::open(disk, manifest, home)?;
    let current = manifest.current().number;
    let counts = |header: &SegmentHeader| {
        let found = manifest.incarnations.iter().find(|i| i.number == header.incarnation);
        let span = found.and_then(|found| found.logs.get(usize::from(home.0)));
        span.is_some_and(|span| {
            let first = LogPosition(header.start.0 + SEGMENT_HEADER_BYTES as u64);
            span.start < header.end() && span.cut.is_some_and(|cut| cut.position > first)
        })
    };
    for segment in files.whole.iter().filter(|_| which != Leftovers::Unfinished) {
        let header = &segment.header;
        if header.incarnation != current && !counts(header) {
            disk.remove(&name(home, header.number))?;
        }
    }
    for (number, _) in files.unfinished.iter().filter(|_| which != Leftovers::Whole) {
        disk.remove(&name(home, *number))?;
    }
    Ok(())
}

/// Marks as a new incarnation finds them: all that earlier ones left is stable.
fn starting_marks(manifest: &Manifest) -> Arc<StableMarks> {
    let logs = manifest.current().logs.iter().enumerate();
    let ends: Vec<_> = logs
        .map(|(home, span)| {
            let home = HomeId(u16::try_from(home).expect("at most 512 homes"));
            (manifest.base(home), span.start)
        })
        .collect();
    Arc::new(StableMarks::new(&ends))
}

/// Makes a new directory a database: its first manifest, with incarnation 1. Refuses a directory
/// that holds anything else, and changes nothing then. `database` is its own number,
/// chosen at random.
pub fn create(
    disk: &Arc<dyn Disk>,
    homes: u16,
    page_bytes: u32,
    clock_offset: u64,
    database: u128,
) -> Result<(Manifest, Arc<StableMarks>)> {
    if homes == 0 || usize::from(homes) > INSTANCES_MAX {
        return Err(Error::Limit { what: "instances" });
    }
    if Manifest::read(disk.as_ref())?.is_some() {
        return Err(Error::Unusable { detail: "the directory holds a database".to_owned() });
    }
    disk.create_dir("log")?;
    disk.sync_dir("")?;
    let span = LogSpan { start: LogPosition(0), cut: None };
    let manifest = Manifest {
        number: 1,
        database,
        page_bytes,
        clock_offset,
        homes,
        incarnations: vec![Incarnation { number: 1, logs: vec![span; usize::from(homes)] }],
        checkpoint: None,
    };
    manifest.swap(disk.as_ref())?;
    let marks = starting_marks(&manifest);
    Ok((manifest, marks))
}
