//! Making a database from a backup and, if there is one, an archive, as it was at one moment.
//!
//! The result is a database of its own, with its own number: it can be archived beside the one it
//! comes from. Its logs are the copied ones, cut at a cts, and the manifest records the cuts as
//! those of incarnations that have ended (rule 9.4), so nothing behind them is ever read again.
//!
//! Invariants: pages, records and points are verified; what is missing is named; what is damaged and not
//! needed is told of; the manifest is made last. The target is empty at the beginning.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::archive::{Archive, Archived, Damaged, SegmentKey};
use super::choice::{Source, better};
use super::copy::{SegmentPiece, copy_segment, is_blank, new_page_file};
use super::line::{Line, check_own};
use super::points::Points;
use super::{BACKUP_NAME, Point, Watch};
use crate::base::{Cts, Error, HomeId, PAGE_BYTES, Place, Result};
use crate::buffer::Swip;
use crate::io::{Direct, Disk, IoBuffer, OpenHow};
use crate::latch::{OwnedPage, PageBytes};
use crate::log::manifest::{Checkpoint, Manifest};
use crate::log::{
    CopiedLogs, Leftovers, SegmentHeader, committed_by, examine_below, segment_folder,
    segment_name, segments,
};
use crate::page::keynode::KeyNode;
use crate::page::{PageKind, header};
use crate::store::{self, PlaceSet};

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
#[derive(Clone, Debug, PartialEq, Eq)]
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
    /// Files of the archive that are damaged, a line for people each. Nothing that was restored needed
    /// them.
    pub damaged: Vec<String>,
}

/// Copies of log segments, and what was copied.
struct Copies<'a> {
    sources: BTreeMap<SegmentKey, Source<'a>>,
    damaged: Vec<Damaged>,
    bytes: u64,
}

impl Copies<'_> {
    /// Where a segment comes from, or why it does not.
    fn origin(&self, key: SegmentKey) -> Option<String> {
        let copied = self.sources.get(&key).map(Source::file);
        let damaged = self.damaged.iter().filter(|it| it.key == Some(key)).map(Damaged::line);
        let found: Vec<_> = copied.into_iter().chain(damaged).collect();
        (!found.is_empty()).then(|| found.join(", and "))
    }
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
    let points = match &archive {
        Some(archive) => {
            check_own(how.backup, &base, archive)?;
            Points::behind(&base, archive, how.until)?
        }
        None => Points::default(),
    };
    let line = Line::behind(&base, &points)?;
    line.check(how.until, &base, checkpoint.timestamp)?;
    let page_bytes = copy_pages(how, &base.manifest, checkpoint, watch)?;
    let copies = copy_segments(how, &present, (archive.as_ref(), &line), watch)?;
    let manifest = Manifest {
        number: 1,
        database: how.database,
        homes: line.homes,
        incarnations: line.incarnations,
        ..base.manifest.clone()
    };
    let origin = |home, incarnation, start| copies.origin((home, incarnation, start));
    let (disk, parts) = (&how.target, &line.parts[..]);
    let logs = CopiedLogs { disk, manifest: &manifest, parts, origin: &origin };
    let (below, wall_micros) = match how.until {
        Until::End => (line.reach, line.wall_micros),
        Until::Cts(cts) => (Cts(cts.0 + 1), line.wall_micros),
        Until::Micros(wall_micros) => (committed_by(logs, wall_micros)?.next(), wall_micros),
    };
    let below = below.min(line.reach).max(checkpoint.timestamp);
    let examined = examine_below(logs, below)?;
    let below = below.min(examined.cts_max.next());
    let (homes, offset) = (line.homes, base.manifest.clock_offset);
    examined.begin(&how.target, homes, offset, Leftovers::All)?;
    let (checkpoint, commits) = (checkpoint.number, examined.commits);
    let bytes = page_bytes + copies.bytes;
    let damaged = copies.damaged.iter().map(Damaged::line).chain(points.damaged).collect();
    Ok(Restored { checkpoint, below, wall_micros, commits, bytes, damaged })
}

/// Copies and verifies the pages of the backup; answers bytes. `Corrupt` if there are too few, too.
fn copy_pages(
    how: &Restore<'_>,
    manifest: &Manifest,
    checkpoint: &Checkpoint,
    watch: &Watch,
) -> Result<u64> {
    const RUN_PAGES: usize = (1 << 20) / PAGE_BYTES;
    let (backup, target) = (how.backup, &*how.target);
    target.create_dir("pages")?;
    let (mut bytes, mut pages_met) = (0, PagesMet::of(checkpoint));
    let mut buffer = IoBuffer::zeroed(RUN_PAGES * PAGE_BYTES);
    for home in (0..manifest.homes).map(HomeId) {
        let name = store::file_name(home);
        if !backup.exists(&name)? {
            continue;
        }
        let input = backup.open(&name, OpenHow::Existing, Direct::Yes)?;
        store::check_header(&*input, manifest.database, home)?;
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
                    let place = Place::new(home, at + index as u64);
                    store::verify(place, page)?;
                    pages_met.meet(place, page);
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
    pages_met.check()?;
    target.sync_dir("pages")?;
    target.sync_dir("")?;
    Ok(bytes)
}

/// Which pages were copied, and which the checkpoint needs: its roots, what their nodes name, its long values.
struct PagesMet {
    met: PlaceSet,
    needed: PlaceSet,
}

impl PagesMet {
    fn of(checkpoint: &Checkpoint) -> PagesMet {
        let mut needed = PlaceSet::default();
        for tree in &checkpoint.trees {
            needed.insert(tree.root);
        }
        needed.add_longs(&checkpoint.longs);
        PagesMet { met: PlaceSet::default(), needed }
    }

    /// A page that was verified.
    fn meet(&mut self, place: Place, page: &[u8]) {
        self.met.insert(place);
        let Some(page) = page.first_chunk().map(OwnedPage) else { return };
        if header::kind(page) == Some(PageKind::Inner) {
            let node = KeyNode::new(page);
            let children = (0..node.count()).map(|at| page.u64(node.swip_position(at)));
            for child in children.filter_map(Swip::place_on_disk) {
                self.needed.insert(child);
            }
        }
    }

    /// `Corrupt` if a page is missing.
    fn check(&self) -> Result<()> {
        let Some(place) = self.needed.first_but(&self.met) else { return Ok(()) };
        let detail = format!(
            "the backup has no page {} of home {}, which its checkpoint needs: a page file is missing, or was made shorter",
            place.number(),
            place.home()
        );
        Err(Error::Corrupt { page: None, detail })
    }
}

/// Finds the better copy of each segment that counts.
fn choose_segments<'a>(
    how: &'a Restore<'_>,
    present: &Manifest,
    (archive, line): (Option<&'a Archive>, &Line),
) -> Result<Copies<'a>> {
    let mut sources: BTreeMap<SegmentKey, Source<'a>> = BTreeMap::new();
    for home in (0..present.homes).map(HomeId) {
        for header in segments(how.backup, present, home)? {
            let name = segment_name(home, header.number);
            let bytes = how.backup.open(&name, OpenHow::Existing, Direct::No)?.len()?;
            let source = Source { disk: how.backup, of: "backup", name, header, bytes };
            sources.insert((home, header.incarnation, header.start), source);
        }
    }
    let mut damaged = Vec::new();
    if let Some(archive) = archive {
        let found;
        (found, damaged) = archive.segments()?;
        for Archived { name, header, bytes } in found {
            let key = (header.home, header.incarnation, header.start);
            if !line.needs(key) {
                continue;
            }
            let found = Source { disk: archive.disk(), of: "archive", name, header, bytes };
            let better = match sources.remove(&key) {
                Some(known) => better(known, found)?,
                None => found,
            };
            sources.insert(key, better);
        }
    }
    sources.retain(|key, _| line.needs(*key));
    Ok(Copies { sources, damaged, bytes: 0 })
}

/// Copies the better copy of each segment that counts.
fn copy_segments<'a>(
    how: &'a Restore<'_>,
    present: &Manifest,
    (archive, line): (Option<&'a Archive>, &Line),
    watch: &Watch,
) -> Result<Copies<'a>> {
    let mut copies = choose_segments(how, present, (archive, line))?;
    how.target.create_dir("log")?;
    let mut numbers: BTreeMap<HomeId, u64> = BTreeMap::new();
    for ((home, ..), source) in &copies.sources {
        let number = numbers.entry(*home).or_insert(0);
        *number += 1;
        let name = segment_name(*home, *number);
        if *number == 1 {
            how.target.create_dir(&segment_folder(*home))?;
        }
        let header = SegmentHeader { database: how.database, number: *number, ..source.header };
        let piece = SegmentPiece { header, bytes: source.bytes };
        copies.bytes +=
            copy_segment((source.disk, &source.name), (&*how.target, &name), piece, watch)?;
    }
    for home in numbers.keys() {
        how.target.sync_dir(&segment_folder(*home))?;
    }
    how.target.sync_dir("log")?;
    how.target.sync_dir("")?;
    Ok(copies)
}
