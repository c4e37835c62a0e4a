//! Making a database from a backup and, if there is one, an archive, as it was at one moment.
//!
//! The result is a database of its own, with its own number: it can be archived beside the one it
//! comes from. Its logs are the copied ones, cut at a cts, and the manifest records the cuts as
//! those of incarnations that have ended (rule 9.4), so nothing behind them is ever read again.
//!
//! Invariants: pages, records and points are verified; what is missing is named; the manifest is
//! made last. The target is empty at the beginning.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::archive::Archive;
use super::begun::begun_name;
use super::choice::{Source, better};
use super::copy::{SegmentPiece, copy_segment, is_blank, new_page_file};
use super::time::utc;
use super::{BACKUP_NAME, Point, Watch};
use crate::base::{Cts, Error, HomeId, LogPosition, PAGE_BYTES, Place, Result};
use crate::io::{Direct, Disk, IoBuffer, OpenHow};
use crate::log::manifest::{Incarnation, LogSpan, Manifest};
use crate::log::{Leftovers, SegmentHeader, committed_by, examine_below, segment_name, segments};
use crate::store;

/// Up to where.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Until {
    /// Everything that the logs are known to hold completely.
    End,
    /// What was committed by this time, in microseconds since 1970.
    Micros(i64),
    /// What was committed with this cts or a smaller one.
    Cts(Cts),
}

/// From what to what.
pub struct Restore<'a> {
    /// The backup.
    pub backup: &'a dyn Disk,
    /// An archive's directory.
    pub archive: Option<Arc<dyn Disk>>,
    /// An empty directory.
    pub target: Arc<dyn Disk>,
    /// Up to where.
    pub until: Until,
    /// The new database's number, chosen at random.
    pub database: u128,
}

/// What was restored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Restored {
    /// The checkpoint that it begins with.
    pub checkpoint: u64,
    /// It holds exactly the commits below.
    pub below: Cts,
    /// A time by which all these were committed; all that were durable by then are among them.
    pub wall_micros: i64,
    /// Commits in the logs behind the checkpoint.
    pub commits: u64,
    /// Bytes copied.
    pub bytes: u64,
}

/// What logs there are behind the backup's checkpoint.
struct Line {
    incarnations: Vec<Incarnation>,
    /// For each of them how far its logs must reach at least; empty if its cuts say that.
    ends: Vec<Vec<LogPosition>>,
    homes: u16,
    /// All commits below are there, and were committed by then.
    reach: Cts,
    wall_micros: i64,
}

/// Makes the database. Blocks. `Unusable` if this is no backup, or the time is before it or beyond
/// what the logs are known to hold; `Corrupt` names what is damaged or missing; `DiskFull`, `Io`,
/// `Cancelled`.
pub fn restore(how: &Restore<'_>, watch: &Watch) -> Result<Restored> {
    let unusable = |detail: &str| Err(Error::Unusable { detail: detail.to_owned() });
    let Some(base) = Point::read(how.backup, BACKUP_NAME)? else {
        return unusable("this is no backup: it has no file \"BACKUP\"");
    };
    let Some(present) = Manifest::read(how.backup)? else {
        return unusable("the backup was not finished: it has no manifest");
    };
    let began = base.manifest.current().number;
    if present.database != base.manifest.database || present.current().number != began + 1 {
        return unusable("the backup was started as a database; it cannot be restored any more");
    }
    let Some(checkpoint) = &base.manifest.checkpoint else {
        return unusable("the backup has no checkpoint");
    };
    if base.manifest.page_bytes as usize != PAGE_BYTES {
        return unusable("the backup's pages have another size than this program's");
    }
    let archive = how.archive.clone().map(|disk| Archive::new(disk, base.manifest.database));
    if let Some(archive) = &archive {
        check_own(how.backup, &base, archive)?;
    }
    let line = Line::behind(&base, archive.as_ref())?;
    line.check(how.until, &base, checkpoint.timestamp)?;
    let mut bytes = copy_pages(how, &base, watch)?;
    bytes += copy_segments(how, &present, (archive.as_ref(), &line), watch)?;
    let manifest = Manifest {
        number: 1,
        database: how.database,
        homes: line.homes,
        incarnations: line.incarnations,
        ..base.manifest.clone()
    };
    let (below, wall_micros) = match how.until {
        Until::End => (line.reach, line.wall_micros),
        Until::Cts(cts) => (Cts(cts.0 + 1), line.wall_micros),
        Until::Micros(wall_micros) => {
            let found = committed_by(&*how.target, &manifest, wall_micros)?;
            (Cts(found.0.saturating_add(1)), wall_micros)
        }
    };
    let below = below.min(line.reach).max(checkpoint.timestamp);
    let examined = examine_below(&how.target, manifest, &line.ends, below)?;
    let below = below.min(Cts(examined.cts_max.0.saturating_add(1)));
    let (homes, offset) = (line.homes, base.manifest.clock_offset);
    examined.begin(&how.target, homes, offset, Leftovers::All)?;
    let (checkpoint, commits) = (checkpoint.number, examined.commits);
    Ok(Restored { checkpoint, below, wall_micros, commits, bytes })
}

impl Line {
    fn behind(base: &Point, archive: Option<&Archive>) -> Result<Line> {
        let own = base.manifest.current();
        let alone = Line {
            incarnations: vec![own.clone()],
            ends: vec![base.ends.clone()],
            homes: base.manifest.homes,
            reach: base.cts,
            wall_micros: base.wall_micros,
        };
        let Some(archive) = archive else { return Ok(alone) };
        let mut begun = BTreeMap::new();
        for number in archive.incarnations()?.into_iter().filter(|it| *it > own.number) {
            begun.insert(number, named(archive.begun(number)?, number)?);
        }
        check_order(base, &begun, archive)?;
        let newer = |point: &Point| point.cts > base.cts;
        let own_reached = archive.reached(own.number)?.filter(newer);
        let Some((&last, last_begun)) = begun.last_key_value() else {
            return Ok(match own_reached {
                Some(point) => Line {
                    ends: vec![point.ends],
                    reach: point.cts,
                    wall_micros: point.wall_micros,
                    ..alone
                },
                None => alone,
            });
        };
        check_chain(own.number, &begun)?;
        let (mut incarnations, mut ends) = (Vec::new(), Vec::new());
        for number in own.number..last {
            let reached = match number == own.number {
                true => Some(own_reached.clone().unwrap_or_else(|| base.clone())),
                false => archive.reached(number)?,
            };
            let Some(logs) = ended(number, own, &begun, reached.as_ref())? else { continue };
            incarnations.push(Incarnation { number, logs });
            ends.push(reached.map_or(Vec::new(), |point| point.ends));
        }
        let running = |span: &LogSpan| LogSpan { start: span.start, cut: None };
        let logs = last_begun.manifest.current().logs.iter().map(running).collect();
        incarnations.push(Incarnation { number: last, logs });
        let reached = archive.reached(last)?;
        // What was copied of it before all of its logs were does not count: a log alone is consistent
        // wherever it ends, several are where a copy says that all have what came before.
        let reach = match (&reached, last_begun.manifest.homes) {
            (Some(point), _) => point.cts,
            (None, 1) => Cts::MAX,
            (None, _) => Cts(before(&last_begun.manifest).0.saturating_add(1)),
        };
        ends.push(reached.as_ref().map_or(Vec::new(), |point| point.ends.clone()));
        Ok(Line {
            incarnations,
            ends,
            homes: last_begun.manifest.homes,
            reach,
            wall_micros: reached.map_or(last_begun.wall_micros, |point| point.wall_micros),
        })
    }

    /// Refuses what lies before the backup, or beyond what the logs hold.
    fn check(&self, until: Until, base: &Point, checkpoint: Cts) -> Result<()> {
        let (early, late, from, to) = match until {
            Until::End => return Ok(()),
            Until::Micros(wall) => (
                wall < base.from_micros,
                wall > self.wall_micros,
                utc(base.from_micros),
                utc(self.wall_micros),
            ),
            Until::Cts(cts) => (
                cts.0.saturating_add(1) < checkpoint.0,
                cts.0 >= self.reach.0,
                format!("cts {}", checkpoint.0 - 1),
                format!("cts {}", self.reach.0.saturating_sub(1)),
            ),
        };
        let detail = match (early, late) {
            (true, _) => format!("the backup cannot go back before {from}; take an older one"),
            (_, true) => format!("the logs are known to be complete up to {to} only"),
            _ => return Ok(()),
        };
        Err(Error::Unusable { detail })
    }
}

fn another_history(what: &str) -> Error {
    let detail = format!(
        "the archive is of another history of this database than the backup: {what}; a copy of it \
         was started elsewhere, or it was set back to an earlier copy"
    );
    Error::Unusable { detail }
}

/// Refuses an archive that has nothing of the backup's database, or another beginning of the incarnation
/// that was backed up: who archives notes it in the backup, too.
fn check_own(backup: &dyn Disk, base: &Point, archive: &Archive) -> Result<()> {
    if !archive.is_there()? {
        return Err(archive.nothing());
    }
    let own = base.incarnation();
    let name = begun_name(own);
    match archive.begun(own)? {
        Some(begun) if Point::read(backup, &name)?.as_ref() != Some(&begun) => {
            Err(another_history(&format!("each has a \"{name}\" of its own, or the backup none")))
        }
        _ => Ok(()),
    }
}

/// Refuses an archive in which a later point lacks a checkpoint that an earlier one, or the backup, has.
fn check_order(base: &Point, begun: &BTreeMap<u32, Point>, archive: &Archive) -> Result<()> {
    let own = base.incarnation();
    let mut latest = base.clone();
    if let Some(reached) = archive.reached(own)?
        && !reached.may_precede(&latest)
    {
        latest = after(&latest, reached, "reached")?;
    }
    for (&number, point) in begun {
        latest = after(&latest, point.clone(), "begun")?;
        if let Some(reached) = archive.reached(number)? {
            latest = after(&latest, reached, "reached")?;
        }
    }
    Ok(())
}

/// A point that follows `latest` in one history.
fn after(latest: &Point, point: Point, what: &str) -> Result<Point> {
    match latest.may_precede(&point) {
        true => Ok(point),
        false => {
            let (number, before) = (point.incarnation(), latest.incarnation());
            let detail = format!(
                "\"{number:010}.{what}\" lacks a checkpoint that incarnation {before} has made"
            );
            Err(another_history(&detail))
        }
    }
}

/// The largest cts that the running incarnation of a manifest found when it began.
fn before(manifest: &Manifest) -> Cts {
    let bases = (0..manifest.homes).map(|home| manifest.base(HomeId(home)));
    bases.max().unwrap_or(Cts::ZERO)
}

/// The logs of an incarnation that has ended, from where they are needed, with their cuts; none if
/// it left nothing. `Corrupt` if the archive does not say how far it came.
fn ended(
    number: u32,
    own: &Incarnation,
    begun: &BTreeMap<u32, Point>,
    reached: Option<&Point>,
) -> Result<Option<Vec<LogSpan>>> {
    let is_own = number == own.number;
    let Some((_, after)) = begun.range(number + 1..).next() else { return Ok(None) };
    let listed = after.manifest.incarnations.iter().find(|it| it.number == number);
    let mut logs = match (is_own, begun.get(&number), listed) {
        (true, _, _) => own.logs.clone(),
        (false, Some(point), _) => point.manifest.current().logs.clone(),
        (false, None, Some(listed)) => listed.logs.clone(),
        (false, None, None) => return Ok(None),
    };
    if let Some(listed) = listed {
        for (span, found) in logs.iter_mut().zip(&listed.logs) {
            span.cut = found.cut;
        }
        return Ok(Some(logs));
    }
    // A checkpoint had everything of it then, so the next manifest did not name it; or there was
    // nothing.
    let last = after.manifest.checkpoint.as_ref();
    if !is_own && last.is_none_or(|last| last.incarnation != number) {
        return Ok(None);
    }
    let known = reached.and_then(|point| point.manifest.checkpoint.as_ref());
    match (known, last) {
        (Some(known), Some(last)) if known.number >= last.number => {
            logs.iter_mut().for_each(|span| span.cut = None);
            Ok(Some(logs))
        }
        _ => {
            let detail = format!(
                "the archive does not say how far incarnation {number} came: its last checkpoint \
                 was not archived"
            );
            Err(Error::Corrupt { page: None, detail })
        }
    }
}

fn named(point: Option<Point>, incarnation: u32) -> Result<Point> {
    point.ok_or_else(|| Error::NotFound { what: format!("{incarnation:010}.begun") })
}

/// Each manifest must tell of everything since the one before it.
fn check_chain(own: u32, begun: &BTreeMap<u32, Point>) -> Result<()> {
    let mut before = own;
    for (&number, point) in begun {
        let since = point.manifest.checkpoint.as_ref().map_or(0, |it| it.incarnation);
        if since > before {
            let detail = format!(
                "the archive does not say how incarnation {since} began: \
                 \"{since:010}.begun\" is missing"
            );
            return Err(Error::Corrupt { page: None, detail });
        }
        before = number;
    }
    Ok(())
}

/// Copies and verifies the pages of the backup.
fn copy_pages(how: &Restore<'_>, base: &Point, watch: &Watch) -> Result<u64> {
    const RUN_PAGES: usize = (1 << 20) / PAGE_BYTES;
    let (backup, target) = (how.backup, &*how.target);
    target.create_dir("pages")?;
    let (mut bytes, mut buffer) = (0, IoBuffer::zeroed(RUN_PAGES * PAGE_BYTES));
    for home in (0..base.manifest.homes).map(HomeId) {
        let name = store::file_name(home);
        if !backup.exists(&name)? {
            continue;
        }
        let input = backup.open(&name, OpenHow::Existing, Direct::Yes)?;
        store::check_header(&*input, base.manifest.database, home)?;
        let output = new_page_file(target, how.database, home)?;
        let pages = input.len()? / PAGE_BYTES as u64;
        watch.expect(pages.saturating_sub(1) * PAGE_BYTES as u64);
        let mut at = 1;
        while at < pages {
            buffer.set_len((pages - at).min(RUN_PAGES as u64) as usize * PAGE_BYTES);
            let first = Place::new(home, at);
            let n = input.read_at(store::offset(first), &mut buffer)?;
            for (index, page) in buffer[..n].chunks(PAGE_BYTES).enumerate() {
                // Holes are places that the checkpoint does not have.
                if !is_blank(page) {
                    store::verify(Place::new(home, at + index as u64), page)?;
                }
            }
            if !is_blank(&buffer) {
                output.write_at(store::offset(first), &buffer)?;
                bytes += buffer.len() as u64;
            }
            at += (buffer.len() / PAGE_BYTES) as u64;
            watch.copied(buffer.len() as u64)?;
        }
        output.sync()?;
    }
    target.sync_dir("pages")?;
    target.sync_dir("")?;
    Ok(bytes)
}

/// Copies the better copy of each segment that counts.
fn copy_segments(
    how: &Restore<'_>,
    present: &Manifest,
    (archive, line): (Option<&Archive>, &Line),
    watch: &Watch,
) -> Result<u64> {
    let mut sources: BTreeMap<(HomeId, u32, LogPosition), Source<'_>> = BTreeMap::new();
    let mut bytes = 0;
    for home in (0..present.homes).map(HomeId) {
        for header in segments(how.backup, present, home)? {
            let name = segment_name(home, header.number);
            let file = how.backup.open(&name, OpenHow::Existing, Direct::No)?;
            let source = Source { disk: how.backup, name, header, bytes: file.len()? };
            sources.insert((home, header.incarnation, header.start), source);
        }
    }
    for found in archive.map_or(Ok(Vec::new()), |it| it.segments())? {
        let Some(archive) = archive else { continue };
        let header = found.header;
        let key = (header.home, header.incarnation, header.start);
        let (disk, name, bytes) = (archive.disk(), found.name, found.bytes);
        let found = Source { disk, name, header, bytes };
        if !line.needs(key.0, key.1, key.2) {
            continue;
        }
        let better = match sources.remove(&key) {
            Some(known) => better(known, found)?,
            None => found,
        };
        sources.insert(key, better);
    }
    how.target.create_dir("log")?;
    let mut numbers: BTreeMap<HomeId, u64> = BTreeMap::new();
    for ((home, incarnation, start), source) in &sources {
        if !line.needs(*home, *incarnation, *start) {
            continue;
        }
        let number = numbers.entry(*home).or_insert(0);
        *number += 1;
        let name = segment_name(*home, *number);
        if *number == 1 {
            how.target.create_dir(folder_of(&name))?;
        }
        let header = SegmentHeader { database: how.database, number: *number, ..source.header };
        let piece = SegmentPiece { header, bytes: source.bytes };
        bytes += copy_segment((source.disk, &source.name), (&*how.target, &name), piece, watch)?;
    }
    for home in numbers.keys() {
        how.target.sync_dir(folder_of(&segment_name(*home, 0)))?;
    }
    how.target.sync_dir("log")?;
    how.target.sync_dir("")?;
    Ok(bytes)
}

fn folder_of(name: &str) -> &str {
    name.rsplit_once('/').map_or("", |(folder, _)| folder)
}

impl Line {
    /// Whether a segment of that log and incarnation is behind the checkpoint.
    fn needs(&self, home: HomeId, incarnation: u32, start: LogPosition) -> bool {
        let found = self.incarnations.iter().find(|it| it.number == incarnation);
        let span = found.and_then(|it| it.logs.get(usize::from(home.0)));
        span.is_some_and(|span| start >= span.start)
    }
}
