//! Pages on disk: one file a home, written out of place (rules 4.7 and 8.5).
//!
//! A page's image never overwrites what anything refers to: it goes to a free place, and the place
//! it had before is free when neither memory nor a checkpoint refers to it. So there are no torn
//! pages and no double writes. A file grows by extents; free places are used again, and if few are
//! used its pages move down with checkpoints and its end is given back to the file system.
//!
//! Invariants: places are given out and taken back under the home's own mutex, which an image
//! writer takes once for a run of pages; writing and reading are the callers', on their own rings.
//! A page on disk says in its header which place it is at, and has its checksum.

mod bits;
mod buffers;
mod compact;
#[cfg(all(test, loom))]
mod loom_holds;
mod longs;
mod set;
mod space;

use std::ops::DerefMut;
use std::sync::Arc;

use crate::base::{Error, HomeId, PAGE_BYTES, Place, Result};
use crate::io::{Direct, Disk, FileRef, IoBuffer, OpenHow};
use crate::page::PageKind;
use crate::page::header;
use crate::sync::{AtomicBool, Mutex, Ordering, mutant};
use buffers::Buffers;
use space::{Space, Wanted};

pub use buffers::RUN_PAGES;
pub use longs::LongPlaces;
pub use set::PlaceSet;
pub use space::{Found, PinId, SpaceStats, Term};

/// Extents that are given back at once: the file system is busy with them for a moment.
const CUT_EXTENTS: u64 = 16;
const MAGIC: &[u8; 8] = b"ATOLLPGS";
const FORMAT_VERSION: u32 = 1;
/// Where the header page's checksum is.
const AT_SUM: usize = 32;

/// Places that follow each other in one file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Run {
    /// The first.
    pub first: Place,
    /// How many; at least one.
    pub count: u64,
}

/// The page files of a database.
pub struct PageStore {
    disk: Arc<dyn Disk>,
    database: u128,
    /// Pages by which a file grows and shrinks.
    extent: u64,
    homes: Vec<Mutex<Home>>,
    buffers: Buffers,
    /// Whether places are being found: none is given out. Written by recovery, before others run; read by who
    /// wants a place.
    is_finding: AtomicBool,
}

/// One home's file and what is in it.
#[derive(Default)]
struct Home {
    file: Option<FileRef>,
    space: Space,
}

/// The name of a home's page file.
pub fn file_name(home: HomeId) -> String {
    format!("pages/{:04}.pages", home.0)
}

fn locked<T>(mutex: &Mutex<T>) -> impl DerefMut<Target = T> {
    mutex.lock().expect("no holder panics")
}

impl PageStore {
    /// The files of a database with so many homes, which grow and shrink by `extent` pages; nothing
    /// is opened or made yet.
    pub fn new(disk: Arc<dyn Disk>, database: u128, homes: u16, extent: u64) -> Arc<PageStore> {
        let buffers = Buffers::new(homes);
        let homes = (0..homes).map(|_| Mutex::default()).collect();
        let (extent, is_finding) = (extent.max(1), AtomicBool::new(false));
        Arc::new(PageStore { disk, database, extent, homes, buffers, is_finding })
    }

    /// How many homes there are.
    pub fn homes(&self) -> usize {
        self.homes.len()
    }

    /// A buffer for so many pages of the home, [`RUN_PAGES`] at most, with whatever was in it.
    pub fn buffer(&self, home: HomeId, pages: usize) -> IoBuffer {
        self.buffers.take(home, pages)
    }

    /// Takes a buffer for pages of the home back, to be used again.
    pub fn give_back(&self, home: HomeId, buffer: IoBuffer) {
        self.buffers.give_back(home, buffer);
    }

    fn home(&self, home: HomeId) -> &Mutex<Home> {
        &self.homes[usize::from(home.0)]
    }

    /// The home's file, made if there is none. Blocks. `DiskFull`, `Io`; `Corrupt`, `Unusable` if
    /// it is another database's, or damaged.
    pub fn file(&self, home: HomeId) -> Result<FileRef> {
        self.file_of(home, &mut locked(self.home(home)))
    }

    fn file_of(&self, home: HomeId, held: &mut Home) -> Result<FileRef> {
        if let Some(file) = &held.file {
            return Ok(file.clone());
        }
        let name = file_name(home);
        if self.disk.exists(&name)? {
            // Who made it may not have come to that.
            self.sync_name()?;
        } else {
            self.create(home, &name)?;
        }
        self.open(home, &name, held)
    }

    /// The home's file, to be read; `Corrupt` if there is none. Makes nothing.
    fn existing_file(&self, home: HomeId) -> Result<FileRef> {
        let mut held = locked(self.home(home));
        if let Some(file) = &held.file {
            return Ok(file.clone());
        }
        let name = file_name(home);
        if !self.disk.exists(&name)? {
            let detail = format!("\"{name}\" is missing");
            return Err(Error::Corrupt { page: None, detail });
        }
        self.open(home, &name, &mut held)
    }

    fn open(&self, home: HomeId, name: &str, held: &mut Home) -> Result<FileRef> {
        let file = self.disk.open(name, OpenHow::Existing, Direct::Yes)?;
        self.check(&*file, home)?;
        held.space.pages = (file.len()? / PAGE_BYTES as u64).max(1);
        held.file = Some(file.clone());
        Ok(file)
    }

    /// Makes the home's file; it has its name only when its header is durable.
    fn create(&self, home: HomeId, name: &str) -> Result<()> {
        let unfinished = format!("{name}.new");
        self.disk.create_dir("pages")?;
        if self.disk.exists(&unfinished)? {
            self.disk.remove(&unfinished)?;
        }
        let file = self.disk.open(&unfinished, OpenHow::CreateNew, Direct::Yes)?;
        file.allocate(PAGE_BYTES as u64)?;
        file.write_at(0, &self.header(home))?;
        file.sync()?;
        self.disk.rename(&unfinished, name)?;
        self.sync_name()
    }

    /// Makes names of page files durable.
    fn sync_name(&self) -> Result<()> {
        self.disk.sync_dir("pages")?;
        self.disk.sync_dir("")
    }

    fn header(&self, home: HomeId) -> IoBuffer {
        header_page(self.database, home)
    }

    fn check(&self, file: &dyn crate::io::File, home: HomeId) -> Result<()> {
        check_header(file, self.database, home)
    }

    /// Takes up to `wanted` places that follow each other; the file grows if none is free. They are
    /// given back when [`PageStore::written`] says that the write has ended, and no checkpoint is
    /// being made, unless they are adopted or held. Blocks when it grows. `DiskFull`, `Io`.
    pub fn take(&self, home: HomeId, wanted: u64) -> Result<Run> {
        self.take_of(home, Wanted::Run(wanted))
    }

    /// As [`PageStore::take`]; on a full disk of any home that has free places.
    pub fn take_anywhere(&self, home: HomeId, wanted: u64) -> Result<Run> {
        let full = match self.take(home, wanted) {
            Err(full @ Error::DiskFull { .. }) => full,
            taken => return taken,
        };
        let free = |home| self.take_free_run(HomeId(home as u16), wanted);
        (0..self.homes()).find_map(free).ok_or(full)
    }

    /// As [`PageStore::take`], of one place; none if the file would have to grow for it.
    pub fn take_free(&self, home: HomeId) -> Option<Run> {
        self.take_free_run(home, 1)
    }

    fn take_free_run(&self, home: HomeId, wanted: u64) -> Option<Run> {
        if self.is_finding() {
            return None;
        }
        let mut held = locked(self.home(home));
        let (first, count) = held.space.take(Wanted::Run(wanted))?;
        Some(Run { first: Place::new(home, first), count })
    }

    /// Takes the place of a page that is in memory and has changed, to write the page there anew; none
    /// if a checkpoint has it, or a write to it is under way. From now on nobody else gets it and no
    /// checkpoint takes it, until [`PageStore::written`]. The caller looks afterwards whether it is the
    /// page's place still.
    pub fn retake(&self, place: Place) -> Option<Run> {
        if self.is_finding() {
            return None;
        }
        let mut held = locked(self.home(place.home()));
        held.space.retake(place.number()).then_some(Run { first: place, count: 1 })
    }

    /// Whether nothing but its page in memory refers to a place.
    pub fn may_retake(&self, place: Place) -> bool {
        locked(self.home(place.home())).space.may_retake(place.number())
    }

    fn take_of(&self, home: HomeId, wanted: Wanted) -> Result<Run> {
        if self.is_finding() {
            let detail = "a place is wanted before all that are in use are known";
            return Err(Error::Internal { detail: detail.to_owned() });
        }
        let mut held = locked(self.home(home));
        let file = self.file_of(home, &mut held)?;
        loop {
            if let Some((first, count)) = held.space.take(wanted) {
                return Ok(Run { first: Place::new(home, first), count });
            }
            let pages = held.space.pages + self.extent;
            file.allocate(pages * PAGE_BYTES as u64)?;
            held.space.pages = pages;
        }
    }

    /// Takes a place for a page that never moves, which has it from [`PageStore::fix`] on. As
    /// [`PageStore::take`].
    pub fn take_own(&self, home: HomeId) -> Result<Place> {
        Ok(self.take_of(home, Wanted::Fixed)?.first)
    }

    /// The page to which the place was given is there now, and never moves.
    pub fn fix(&self, place: Place) {
        self.with(place, Space::fix);
    }

    /// Takes the place of a page that never moves, to write the page there, until
    /// [`PageStore::written`]: nobody else writes there and nobody else gets it before, also if the page
    /// goes meanwhile. None if the page is not alive, or a write to it is under way.
    pub fn lease_fixed(&self, place: Place) -> Option<Run> {
        let is_leased = locked(self.home(place.home())).space.lease_fixed(place.number());
        is_leased.then_some(Run { first: place, count: 1 })
    }

    /// Whether a page that never moves has this place, and is alive.
    pub fn is_alive_fixed(&self, place: Place) -> bool {
        locked(self.home(place.home())).space.is_alive_fixed(place.number())
    }

    /// The places of all pages that never move and are alive.
    pub fn alive_fixed(&self) -> Vec<Place> {
        let places = self.homes.iter().enumerate().map(|(home, held)| {
            let numbers = locked(held).space.alive_fixed().into_iter();
            numbers.map(move |number| Place::new(HomeId(home as u16), number))
        });
        places.flatten().collect()
    }

    /// Whether the checkpoint of `term` is being made still.
    pub fn is_making(&self, term: Term) -> bool {
        self.homes.first().is_some_and(|home| locked(home).space.is_making(term))
    }

    fn with(&self, place: Place, change: impl FnOnce(&mut Space, u64)) {
        change(&mut locked(self.home(place.home())).space, place.number());
    }

    /// The place has a page's current contents.
    pub fn adopt(&self, place: Place) {
        self.with(place, Space::adopt);
    }

    /// The place has no page's current contents any more.
    pub fn replaced(&self, place: Place) {
        self.with(place, Space::replaced);
    }

    /// The write for which places were taken has ended, well or not.
    pub fn written(&self, run: Run) {
        self.with(run.first, |space, first| space.written(first, run.count));
    }

    /// The checkpoint of `term` has this page.
    pub fn hold(&self, place: Place, term: Term) {
        self.with(place, |space, number| space.hold(number, term));
    }

    /// As [`PageStore::hold`], of a page that was read to lie there. Nothing is rewritten there from now
    /// on; the caller looks once more whether the page lies there, and only then believes what it read.
    /// False if no page does, or a write to the place is under way: then it is to look again.
    pub fn hold_as_it_lies(&self, place: Place, term: Term) -> bool {
        locked(self.home(place.home())).space.hold_as_it_lies(place.number(), term)
    }

    /// Whether the published checkpoint has this page.
    pub fn is_held(&self, place: Place) -> bool {
        locked(self.home(place.home())).space.is_held(place.number())
    }

    /// Recovery: runs `find`, which tells all places that the published checkpoint has
    /// ([`PageStore::found`]). Until it has, without an error, no place is given out: it could be one of those.
    pub fn find<T>(&self, find: impl FnOnce() -> Result<T>) -> Result<T> {
        // Release, and acquire in `is_finding`: who is given a place knows all that were found.
        self.is_finding.store(true, Ordering::Release);
        let found = find()?;
        self.is_finding.store(false, Ordering::Release);
        Ok(found)
    }

    fn is_finding(&self) -> bool {
        self.is_finding.load(Ordering::Acquire) && !mutant("places-given-before-found")
    }

    /// Recovery: the published checkpoint has this page.
    pub fn found(&self, place: Place, page: Found) {
        self.with(place, |space, number| space.found(number, page));
    }

    /// Recovery: the published checkpoint has these pages of long values, by home. Those in `dead` are of values that
    /// nobody needs.
    pub fn found_longs(&self, named: &[LongPlaces], dead: &PlaceSet) {
        for (home, (held, named)) in self.homes.iter().zip(named).enumerate() {
            locked(held).space.found_longs(named, dead.of(home));
        }
    }

    /// A long value is complete: these are its pages, in their order and of one home.
    pub fn complete(&self, home: HomeId, pages: &[Place]) {
        debug_assert!(pages.iter().all(|page| page.home() == home));
        locked(self.home(home)).space.complete(pages.iter().map(|page| page.number()));
    }

    /// The place of the first page of what is left of a long value has none any more; `next` comes
    /// first now, in the same home.
    pub fn beheaded(&self, place: Place, next: Option<Place>) {
        self.with(place, |space, number| space.beheaded(number, next.map(Place::number)));
    }

    /// The checkpoint of `term` has all pages of long values that are complete.
    pub fn hold_longs(&self, term: Term) {
        self.homes.iter().for_each(|home| locked(home).space.hold_longs(term));
    }

    /// By home, what [`PageStore::hold_longs`] has taken into the checkpoint that is being made and was not
    /// freed since; nothing if the term is over.
    pub fn longs_held(&self, term: Term) -> Vec<LongPlaces> {
        self.homes.iter().map(|home| locked(home).space.longs_held(term)).collect()
    }

    /// A checkpoint is being made from now on; one that was, comes to nothing.
    pub fn begin(&self, term: Term) {
        self.homes.iter().for_each(|home| locked(home).space.begin(term, self.extent));
    }

    /// Whether the checkpoint that is being made is to write the page at `place` again, elsewhere, so
    /// that the file can be made shorter.
    pub fn must_move(&self, place: Place) -> bool {
        locked(self.home(place.home())).space.must_move(place.number())
    }

    /// Gives free pages at the end of the home's file back to the file system, some at a time; answers
    /// how many, and 0 when there are no more. Blocks. `Io`: all stays as it was.
    pub fn shrink(&self, home: HomeId) -> Result<u64> {
        let mut held = locked(self.home(home));
        let (Some(file), Some(end)) = (held.file.clone(), held.space.shorter(self.extent)) else {
            return Ok(0);
        };
        let before = held.space.pages;
        let end = end.max(before.saturating_sub(CUT_EXTENTS * self.extent));
        file.truncate(end * PAGE_BYTES as u64)?;
        held.space.cut(end);
        Ok(before - end)
    }

    /// The checkpoint of `term` takes the place of the published one.
    pub fn publish(&self, term: Term) {
        self.homes.iter().for_each(|home| locked(home).space.publish(term));
    }

    /// The checkpoint of `term` comes to nothing, if it is being made still.
    pub fn abandon(&self, term: Term) {
        self.homes.iter().for_each(|home| locked(home).space.abandon(term));
    }

    /// The pages of the published checkpoint stay until [`PageStore::unpin`]. The caller keeps
    /// checkpoints from being published meanwhile.
    pub fn pin(&self, pin: PinId) {
        self.homes.iter().for_each(|home| locked(home).space.pin(pin));
    }

    /// The pin is over: what only it has kept is free.
    pub fn unpin(&self, pin: PinId) {
        self.homes.iter().for_each(|home| locked(home).space.unpin(pin));
    }

    /// The first run of at most `wanted` pages of `home` from page `from` on that the pinned
    /// checkpoint has. What is pinned stays as it is on disk.
    pub fn pinned_run(&self, pin: PinId, home: HomeId, from: u64, wanted: u64) -> Option<Run> {
        let held = locked(self.home(home));
        let (first, count) = held.space.pinned_run(pin, from, wanted)?;
        Some(Run { first: Place::new(home, first), count })
    }

    /// How many pages the pinned checkpoint has.
    pub fn pinned_count(&self, pin: PinId) -> u64 {
        self.homes.iter().map(|home| locked(home).space.pinned_count(pin)).sum()
    }

    /// Pages that are kept only for some of these pins.
    pub fn kept_for(&self, pins: &[PinId]) -> u64 {
        self.homes.iter().map(|home| locked(home).space.kept_for(pins)).sum()
    }

    /// Reads the pages of a run, blocking; verifies nothing. Less than asked for if the file ends.
    /// `Corrupt` if there is no file.
    pub fn read_run(&self, run: Run, into: &mut IoBuffer) -> Result<usize> {
        let file = self.existing_file(run.first.home())?;
        into.set_len(run.count as usize * PAGE_BYTES);
        file.read_at(offset(run.first), into)
    }

    /// The files that exist and are open, to be synced.
    pub fn files(&self) -> Vec<FileRef> {
        self.homes.iter().filter_map(|home| locked(home).file.clone()).collect()
    }

    /// Reads and verifies the page at `place`, blocking; changes nothing on disk. `Corrupt` names
    /// file and page.
    pub fn read(&self, place: Place, into: &mut IoBuffer) -> Result<PageKind> {
        if usize::from(place.home().0) >= self.homes.len() || place.is_none() {
            return Err(Error::Corrupt { page: None, detail: format!("there is no page {place}") });
        }
        let file = self.existing_file(place.home())?;
        into.set_len(PAGE_BYTES);
        let n = file.read_at(offset(place), into)?;
        verify(place, &into[..n])
    }

    /// Whether nothing refers to any page of any file.
    pub fn is_empty(&self) -> bool {
        self.homes.iter().all(|home| locked(home).space.is_empty())
    }

    /// Page counts of all files together.
    pub fn stats(&self) -> SpaceStats {
        self.homes.iter().fold(SpaceStats::default(), |sum, home| {
            let one = locked(home).space.stats();
            SpaceStats {
                pages: sum.pages + one.pages,
                used: sum.used + one.used,
                dead: sum.dead + one.dead,
                pinned: sum.pinned + one.pinned,
                held: sum.held + one.held,
            }
        })
    }
}

/// Verifies what was read at `place`: a whole page that says it is there. `Corrupt` names file and
/// page.
pub fn verify(place: Place, read: &[u8]) -> Result<PageKind> {
    let damaged = |what: String| Error::Corrupt {
        page: None,
        detail: format!("\"{}\", page {}: {what}", file_name(place.home()), place.number()),
    };
    let page: Option<&[u8; PAGE_BYTES]> = read.first_chunk();
    let page = page.ok_or_else(|| damaged("the file ends before it".to_owned()))?;
    header::verify(page, place).map_err(damaged)
}

/// Where a place begins in its file.
pub fn offset(place: Place) -> u64 {
    place.number() * PAGE_BYTES as u64
}

/// The first page of a home's file.
pub fn header_page(database: u128, home: HomeId) -> IoBuffer {
    let mut page = IoBuffer::zeroed(PAGE_BYTES);
    page[..8].copy_from_slice(MAGIC);
    page[8..12].copy_from_slice(&FORMAT_VERSION.to_le_bytes());
    page[12..14].copy_from_slice(&home.0.to_le_bytes());
    page[16..32].copy_from_slice(&database.to_le_bytes());
    let sum = crc32c::crc32c(&page[..AT_SUM]);
    page[AT_SUM..AT_SUM + 4].copy_from_slice(&sum.to_le_bytes());
    page
}

/// Verifies the first page of a home's file. `Corrupt`, `Unusable`.
pub fn check_header(file: &dyn crate::io::File, database: u128, home: HomeId) -> Result<()> {
    let mut page = IoBuffer::zeroed(PAGE_BYTES);
    file.read_at(0, &mut page)?;
    let (expected, name) = (header_page(database, home), file_name(home));
    if page[..] == expected[..] {
        return Ok(());
    }
    let version = u32::from_le_bytes([page[8], page[9], page[10], page[11]]);
    if page[..8] == *MAGIC && version != FORMAT_VERSION {
        let detail = format!(
            "\"{name}\" was written by page file version {version}; this program reads \
             version {FORMAT_VERSION} only"
        );
        return Err(Error::Unusable { detail });
    }
    let detail = format!("\"{name}\": its header is damaged, or another database's");
    Err(Error::Corrupt { page: None, detail })
}

#[cfg(all(test, not(loom)))]
mod tests;
