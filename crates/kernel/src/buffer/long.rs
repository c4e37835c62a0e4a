//! Pages of long values leave memory, and come back.
//!
//! Such a page is named by its PID, which is its place on disk, and is found through the directory; it
//! changes no more once it is complete ([`FrameRef::set_complete`]). So it is written to its place once,
//! and leaving memory means to be taken out of the directory.
//!
//! Invariants: nothing but its page is ever written to a place whose page is alive, and one write at a time
//! (`PageStore::lease_fixed`, which also keeps the place from being given to another page while an older
//! write to it is under way). Pages are made, brought in and freed by who has the right to load their
//! place, so the directory and what is alive agree for whoever has it: a page that is alive and not in the
//! directory lies on disk. Only leaving memory needs no such right: it changes where the page is, under
//! the latch of its frame, when it lies on disk. With the right held no latch is waited for but that of a
//! free frame; so who holds a page may wait for it.

use super::FrameRef;
use super::guard::PageRead;
use super::pool::BufferPool;
use super::trace::{Noted, note};
use super::writer::ImageWriter;
use crate::base::{Error, HomeId, Outcome, PAGE_BYTES, Pid, Place, Result, Stop, Unread};
use crate::io::IoBuffer;
use crate::latch::{OwnedPage, PageBytes};
use crate::page::overflow::OverflowPage;
use crate::page::{PageKind, header};
use crate::runtime::InstanceState;
use crate::store::{PageStore, offset};
use crate::sync::{Ordering, mutant};

/// A page of a long value that was not in memory.
pub enum LongPage {
    /// It is now.
    Here(FrameRef),
    /// There is no frame for it: what was read, verified.
    Apart(IoBuffer),
}

/// What came of freeing a page that was not in memory.
pub enum FreedLong {
    /// It is free; its successor, 0 if there is none.
    Next(Pid),
    /// It has come into memory.
    Here,
    /// There is no such page.
    Gone,
}

/// Whether it is the page of a long value. Racy.
pub(super) fn is_long(read: &PageRead) -> bool {
    header::kind(read.racy()) == Some(PageKind::Overflow)
}

impl BufferPool {
    /// Runs with the right to load `place`. Waits while another thread has it.
    pub(super) fn as_loader<T>(&self, place: Place, run: impl FnOnce() -> T) -> T {
        self.load_as_thread(place);
        let done = run();
        self.end_load_as_thread(place);
        done
    }

    /// Brings a page of a long value into memory, with the thread blocked; none if it is not alive.
    /// `Corrupt`, `Io`.
    pub fn load_long(&self, pid: Pid) -> Result<Option<LongPage>> {
        let (Some(place), Some(store)) = (pid.place(), self.store()) else { return Ok(None) };
        self.as_loader(place, || {
            if let Some(frame) = self.find_overflow(pid) {
                return Ok(Some(LongPage::Here(frame)));
            }
            let Some(buffer) = read_alive(store, pid, place)? else { return Ok(None) };
            let Ok(mut reserved) = self.reserve_shared(place.home(), 1) else {
                return Ok(Some(LongPage::Apart(buffer)));
            };
            let contents = page_of(&buffer);
            let tree = header::tree(OwnedPage(contents));
            let mut page = self.allocate_as(&mut reserved, PageKind::Overflow, tree, pid);
            *page.bytes_mut() = *contents;
            header::unseal(page.bytes_mut(), pid);
            page.frame().set_complete();
            page.frame().warm();
            note(page.frame(), Noted::Came(place));
            let frame = page.release_clean(place);
            store.give_back(place.home(), buffer);
            let traffic = self.traffic(place.home());
            traffic.loads.fetch_add(1, Ordering::Relaxed);
            traffic.blocking.fetch_add(1, Ordering::Relaxed);
            Ok(Some(LongPage::Here(frame)))
        })
    }

    /// What could not be read when it was to be freed, since the start: pages behind it may stay in use, though
    /// nobody needs them.
    pub fn unread(&self) -> Unread {
        self.unread.lock().expect("no holder panics").clone()
    }

    /// Something that is to be freed cannot be read, for this reason: it is done without it.
    pub fn note_unread(&self, why: Error) {
        self.unread.lock().expect("no holder panics").add(why);
    }

    /// Adds what somebody else could not read.
    pub fn take_unread(&self, unread: Unread) {
        self.unread.lock().expect("no holder panics").take(unread);
    }

    /// As [`Unread::note`], in the pool's list.
    pub fn or_unread<T>(&self, read: Result<T>) -> Result<Option<T>> {
        self.unread.lock().expect("no holder panics").note(read)
    }

    /// Frees a page of the value whose first page is `owner`, which was not in memory. Blocks the thread
    /// while it reads who comes after it. `Io`: nothing is freed. `Corrupt`: the page is free all the same, for it is
    /// nobody's else; those behind it are not known any more, and stay in use.
    pub fn free_long(&self, pid: Pid, owner: Pid) -> Result<FreedLong> {
        let (Some(place), Some(store)) = (pid.place(), self.store()) else {
            return Ok(FreedLong::Gone);
        };
        self.as_loader(place, || {
            if self.find_overflow(pid).is_some() {
                return Ok(FreedLong::Here);
            }
            let read = read_alive(store, pid, place).inspect_err(|error| {
                if matches!(error, Error::Corrupt { .. }) && !mutant("damaged-page-kept") {
                    store.beheaded(place, None);
                }
            });
            let Some(buffer) = read? else { return Ok(FreedLong::Gone) };
            let page = OverflowPage::read(OwnedPage(page_of(&buffer)));
            store.give_back(place.home(), buffer);
            if page.owner != owner {
                return Ok(FreedLong::Gone);
            }
            store.beheaded(place, page.next.place());
            Ok(FreedLong::Next(page.next))
        })
    }

    /// The page, which the caller holds exclusively, is freed: its place is, and it is not found any more.
    /// `next` comes after it in its value.
    pub(super) fn forget_long(&self, pid: Pid, next: Pid) {
        let forget = || self.partition(pid).overflow.clear(pid);
        let (Some(place), Some(store)) = (pid.place(), self.store()) else { return forget() };
        if mutant("long-page-freed-unasked") {
            store.beheaded(place, next.place());
            return forget();
        }
        self.as_loader(place, || {
            store.beheaded(place, next.place());
            forget();
        });
    }

    /// A long value is complete: its pages, in their order and of `home`. From now on checkpoints have it.
    pub fn complete_long(&self, home: HomeId, pages: &[Pid]) {
        if let Some(store) = self.store() {
            let places: Vec<Place> = pages.iter().filter_map(|page| page.place()).collect();
            store.complete(home, &places);
        }
    }

    /// The page, which lies at `place` as it was read, leaves memory.
    pub(super) fn evict_long(&self, read: PageRead, place: Place) -> Outcome<()> {
        let page = read.upgrade()?;
        let (frame, pid) = (page.frame(), page.pid());
        if pid.place() != Some(place) || read.clean_place() != Some(place) {
            page.unchanged();
            return Err(Stop::Retry);
        }
        self.partition(pid).overflow.clear(pid);
        note(frame, Noted::Left(place));
        self.forget(page);
        self.traffic(place.home()).evictions.fetch_add(1, Ordering::Relaxed);
        Ok(())
    }

    /// Writes the page as it was read, with the thread blocked, and evicts it.
    pub(super) fn write_and_evict_long(&self, read: PageRead) -> Result<()> {
        let detail = "a page to be evicted has changed";
        let changed = |_| Error::Internal { detail: detail.to_owned() };
        let store = self.store().ok_or(Error::OutOfMemory { what: "buffer pool" })?;
        let place = read.frame().pid().place().ok_or(Stop::Retry).map_err(changed)?;
        let run = store.lease_fixed(place).ok_or(Stop::Retry).map_err(changed)?;
        if read.clean_place() == Some(place) {
            // A checkpoint has written it since this was looked at, and may be pinned by now.
            store.written(run);
            return self.evict(read, place).map_err(changed);
        }
        let mut buffer = store.buffer(place.home(), 1);
        let page = buffer.first_chunk_mut().expect("a buffer of a page");
        read.racy().copy(0, page);
        // Only now: while the place is leased nobody else writes there.
        let is_as_read = read.validate().map_err(changed);
        header::seal(page, place);
        let written =
            is_as_read.and_then(|()| store.file(place.home())?.write_at(offset(place), &buffer));
        store.give_back(place.home(), buffer);
        let clean = written.is_ok().then(|| read.set_clean(place));
        store.written(run);
        written?;
        self.traffic(place.home()).written.fetch_add(1, Ordering::Relaxed);
        clean.expect("it was written").map_err(changed)?;
        self.evict(read, place).map_err(changed)
    }
}

/// What came of writing a page of a long value.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum WrittenLong {
    /// It lies at this place, as it was read.
    At(Place),
    /// It is being written by another, or was in use: to be tried again.
    Busy,
    /// It is another page, or not complete, or lies there already.
    Needless,
}

impl<S: InstanceState> ImageWriter<'_, S> {
    /// Writes the page of a long value to its place, unless it lies there; waits for that. `Io`.
    pub fn write_long(
        &mut self,
        read: PageRead,
        image: &mut [u8; PAGE_BYTES],
    ) -> Result<WrittenLong> {
        let (frame, store) = (read.frame(), self.store().clone());
        let is_meant = is_long(&read) && frame.is_complete() && read.clean_place().is_none();
        let place = frame.pid().place();
        if read.validate().is_err() {
            return Ok(WrittenLong::Busy);
        }
        let Some(place) = place.filter(|_| is_meant) else { return Ok(WrittenLong::Needless) };
        let Some(run) = store.lease_fixed(place) else { return Ok(WrittenLong::Busy) };
        read.racy().copy(0, image);
        if read.validate().is_err() {
            store.written(run);
            return Ok(WrittenLong::Busy);
        }
        let written = self.write_own(image, place);
        // It may have been freed meanwhile: then it lies nowhere, and is looked for again.
        let clean = written.is_ok() && read.set_clean(place).is_ok();
        store.written(run);
        written?;
        Ok(if clean { WrittenLong::At(place) } else { WrittenLong::Busy })
    }
}

/// Reads a page of a long value that is alive; none if it is not. The caller has the right to load it.
fn read_alive(store: &PageStore, pid: Pid, place: Place) -> Result<Option<IoBuffer>> {
    if !store.is_alive_fixed(place) && !mutant("long-page-loaded-dead") {
        return Ok(None);
    }
    let mut buffer = store.buffer(place.home(), 1);
    let kind = store.read(place, &mut buffer)?;
    let found = header::pid(OwnedPage(page_of(&buffer)));
    if kind == PageKind::Overflow && found == pid {
        return Ok(Some(buffer));
    }
    let detail = format!("where page {pid} of a long value is to be lies a {kind:?}, page {found}");
    Err(Error::Corrupt { page: None, detail })
}

fn page_of(buffer: &IoBuffer) -> &[u8; PAGE_BYTES] {
    buffer.first_chunk().expect("a buffer of a page")
}
