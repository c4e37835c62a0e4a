//! Replacement: pages leave memory when nobody has used them for a while, and come back when they
//! are needed (rules 4.4 and 4.5): leaves, and inner nodes after them (module `inner`).
//!
//! A page counts as used when a read of it begins (`FrameRef::heat`: one store a look of the page
//! provider, to the line of the latch). Whoever looks for frames picks random ones: a page that was
//! used since the last four looks is spared, one that was not is evicted if it lies on disk as it
//! is, and is a candidate for writing if it does not
//! (docs/adr/2026-11-23-pages-cool-by-degrees.md). So the mark of rule 4.4 is in the frame rather
//! than in the swip: leaves are found by hints, too, without a look at their parents.
//!
//! Invariants: twin tables of leaves stay in memory ([`SideStore`]), and nothing
//! else refers to the frame of a page but its parent, hints, and who looks after twins. The parent's
//! swip is changed with parent and page held exclusively (parent before child, both tried, not waited
//! for), and both get a new version: whoever read the one or the other begins again. Roots
//! stay in memory. Pages of long values have no parent: module `long`.

use std::collections::HashMap;

use super::guard::{PageRead, PageWrite};
use super::inner::{assert_writable, check_child, place_of};
use super::long::is_long;
use super::pool::{BufferPool, PageReservation};
use super::trace::{Noted, note};
use super::writer::note_written;
use super::{FrameRef, Pace, Swip};
use crate::base::{Error, HomeId, NeededPage, Outcome, PAGE_BYTES, Place, Result, Stop};
use crate::latch::{OwnedPage, PageBytes, held_latches};
use crate::page::keynode::KeyNode;
use crate::page::{PageKind, header, rowleaf};
use crate::store::{PageStore, Run, file_name, offset};
use crate::sync::{Ordering, mutant, point, spin_to_retry};

/// Frames looked at for one that is wanted now, before a page is written for it, and at most. In a small
/// pool the first are as many as it has: what was just loaded may be the only page that need not be written, and
/// who needs it and a frame besides would load it for ever.
const LOOKS_CLEAN: usize = 2_000;
const LOOKS_MAX: usize = 20_000;

/// What a look at a frame found.
pub enum Looked {
    /// Nothing to be evicted: free, in use, or of a kind that stays.
    Stays,
    /// It is free now.
    Evicted,
    /// It would be, if it were written: the page as it was read.
    Dirty(PageRead),
}

/// Names one load, so that who began one that was taken over does not end the next.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LoadId(u64);

/// A page that is being loaded.
pub(super) struct Load {
    id: LoadId,
    /// Tasks that wait for it.
    waiting: Vec<WakeLoader>,
    /// Whose load it is.
    by: LoadedBy,
}

/// All pages that are being loaded, by their places.
#[derive(Default)]
pub(super) struct Loads {
    under_way: HashMap<Place, Load>,
    begun: u64,
}

impl Loads {
    fn begin(&mut self, place: Place, by: LoadedBy) -> LoadId {
        self.begun += 1;
        let id = LoadId(self.begun);
        self.under_way.insert(place, Load { id, waiting: Vec::new(), by });
        id
    }

    /// The load that a task has begun, if no thread has taken it over.
    fn of_task(&mut self, place: Place, id: LoadId) -> Option<&mut Load> {
        let load = self.under_way.get_mut(&place);
        load.filter(|load| load.by != LoadedBy::Thread && load.id == id)
    }
}

/// Whose load it is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum LoadedBy {
    /// A task's, which waits for its read.
    Task,
    /// That of a task that has read the page and is about to put it into its parent.
    Installing,
    /// That of a thread, which is blocked meanwhile: what a task has read is not believed.
    Thread,
}

/// Whether somebody else loads a page.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum LoadTurn {
    /// Nobody: the caller is to load it, and to say when it has ended.
    Yours(LoadId),
    /// Somebody does; the caller will be woken.
    Another,
}

/// Called when a page has been loaded.
pub type WakeLoader = Box<dyn FnOnce() + Send>;

impl BufferPool {
    /// Looks at a random frame of the home's partition.
    pub fn look(&self, home: HomeId, pace: Pace) -> Looked {
        match self.random_frame(home) {
            Some(frame) => self.look_at(frame, pace).unwrap_or(Looked::Stays),
            None => Looked::Stays,
        }
    }

    pub(crate) fn look_at(&self, frame: FrameRef, pace: Pace) -> Outcome<Looked> {
        if frame.cool(pace) {
            return Ok(Looked::Stays);
        }
        let read = PageRead::begin_cold(frame)?;
        // A root, a page in the making, or a long value's that is not complete.
        if frame.parent_hint() == 0 {
            return Ok(Looked::Stays);
        }
        let may_leave = match header::kind(read.racy()) {
            Some(PageKind::TableLeaf) => frame.side().load().is_null() || self.sides().is_some(),
            Some(PageKind::IndexLeaf) => true,
            Some(PageKind::Inner) => self.may_node_leave(&read),
            Some(PageKind::Overflow) => frame.is_complete(),
            _ => false,
        };
        if !may_leave {
            return Ok(Looked::Stays);
        }
        let clean = place_of(&read);
        read.validate()?;
        let Some(place) = clean else { return Ok(Looked::Dirty(read)) };
        self.evict(read, place)?;
        Ok(Looked::Evicted)
    }

    /// Evicts the leaf or inner node that lies at `place` as it was read, or the page of a long value.
    /// `Retry` if anybody is in the way.
    pub fn evict(&self, read: PageRead, place: Place) -> Outcome<()> {
        if is_long(&read) {
            return self.evict_long(read, place);
        }
        let frame = read.frame();
        let parent = self.frame_at(frame.parent_hint()).ok_or(Stop::Retry)?;
        let mut parent = PageWrite::try_lock(parent)?;
        let Some(at) = swip_of(&parent, Swip::hot(frame)) else {
            parent.unchanged();
            return Err(Stop::Retry);
        };
        point("evict.parent");
        let Ok(page) = read.upgrade() else {
            parent.unchanged();
            return Err(Stop::Retry);
        };
        // It may have been written again, elsewhere, without a change. Or somebody loads it who does not
        // know that it is here: what he has read of the place may be older.
        if place_of(&read) != Some(place) || self.is_loaded_by_any(place) {
            page.unchanged();
            parent.unchanged();
            return Err(Stop::Retry);
        }
        if let Some(sides) = self.sides().filter(|_| !frame.side().load().is_null()) {
            if mutant("evict-with-twin") {
                frame.side().store(std::ptr::null_mut());
            } else {
                sides.park(place, frame);
            }
        }
        let kind = header::kind(page.owned());
        if kind == Some(PageKind::Inner) && !header::tree(page.owned()).is_view() {
            assert_writable(page.bytes());
        }
        header::put_u64(parent.bytes_mut(), at, Swip::evicted(place).raw());
        parent.frame().spare();
        note(frame, Noted::Left(place));
        self.forget(page);
        self.note_evicted(place.home(), kind);
        Ok(())
    }

    /// Registers a wish to load the page at `place`. The caller to whom it is `Yours` ends it with
    /// [`BufferPool::end_load`], whatever came of it; the others are woken by that.
    pub fn begin_load(&self, place: Place, wake: WakeLoader) -> LoadTurn {
        let mut loads = self.loads(place);
        match loads.under_way.get_mut(&place) {
            Some(load) => {
                load.waiting.push(wake);
                LoadTurn::Another
            }
            None => LoadTurn::Yours(loads.begin(place, LoadedBy::Task)),
        }
    }

    /// Whether anybody loads the page at `place`.
    fn is_loaded_by_any(&self, place: Place) -> bool {
        self.loads(place).under_way.contains_key(&place) && !mutant("evicted-while-it-is-loaded")
    }

    /// Whether the task that began to load `place` still has the right to: else the page may have
    /// come, changed, and gone elsewhere or to the same place again, and the place may be another page's
    /// by now.
    pub(super) fn is_still_loading(&self, place: Place, id: LoadId) -> bool {
        self.loads(place).of_task(place, id).is_some()
    }

    /// The task is about to put what it has read into the parent, at once: no thread takes the load over
    /// until it has, or [`BufferPool::pause_install`]. False if one has.
    pub fn begin_install(&self, place: Place, id: LoadId) -> bool {
        self.say_who_loads((place, id), LoadedBy::Installing)
    }

    /// The task could not, and tries again.
    pub fn pause_install(&self, place: Place, id: LoadId) {
        self.say_who_loads((place, id), LoadedBy::Task);
    }

    fn say_who_loads(&self, (place, id): (Place, LoadId), by: LoadedBy) -> bool {
        let is_own = self.loads(place).of_task(place, id).map(|load| load.by = by).is_some();
        is_own || mutant("load-installed-though-taken-over")
    }

    /// A thread takes the load of `place` over, or begins it; waits while another thread has it, or a
    /// task installs it, either of which is running.
    pub(crate) fn load_as_thread(&self, place: Place) {
        loop {
            let mut loads = self.loads(place);
            match loads.under_way.get_mut(&place) {
                None => {
                    loads.begin(place, LoadedBy::Thread);
                    return;
                }
                Some(load) if load.by == LoadedBy::Task => {
                    load.by = LoadedBy::Thread;
                    return;
                }
                Some(_) => {}
            }
            drop(loads);
            spin_to_retry();
        }
    }

    /// Begins the load of `place` for a thread, unless somebody loads it: a thread that has several loads under
    /// way waits for no other.
    pub(crate) fn load_as_thread_if_nobody(&self, place: Place) -> bool {
        let mut loads = self.loads(place);
        let is_loaded = loads.under_way.contains_key(&place);
        let is_free = !is_loaded || mutant("loaded-ahead-while-another-loads");
        if is_free {
            loads.begin(place, LoadedBy::Thread);
        }
        is_free
    }

    /// The task's load of `place` has ended; if a thread has taken it over, that ends it.
    pub fn end_load(&self, place: Place, id: LoadId) {
        if self.is_still_loading(place, id) {
            self.forget_load(place);
        }
    }

    /// The thread's load of `place` has ended.
    pub(crate) fn end_load_as_thread(&self, place: Place) {
        self.forget_load(place);
    }

    fn forget_load(&self, place: Place) {
        let load = self.loads(place).under_way.remove(&place);
        load.into_iter().flat_map(|load| load.waiting).for_each(|wake| wake());
    }

    /// Puts the page that was read from disk into a frame of the reservation, where its parent refers
    /// to it; does nothing if the parent does not, or no more. `Retry` if the parent is in use; `Corrupt`
    /// if it is no page that the parent may have there.
    pub fn install(
        &self,
        needed: NeededPage,
        contents: &[u8; PAGE_BYTES],
        reserved: &mut PageReservation,
    ) -> Outcome<()> {
        let Some(mut parent) = self.lock_parent(needed)? else { return Ok(()) };
        let Some(at) = swip_of(&parent, Swip::evicted(needed.place)) else {
            parent.unchanged();
            return Ok(());
        };
        if let Err(error) = check_child(&parent, at, contents) {
            parent.unchanged();
            return Err(error.into());
        }
        let view = OwnedPage(contents);
        let kind = header::kind(view).unwrap_or(PageKind::Free);
        // A checkpoint that is read has trees with numbers of their own.
        let tree = header::tree(parent.owned());
        let mut page = self.allocate_with(contents, needed.place, reserved);
        header::set_tree(page.bytes_mut(), tree);
        page.frame().set_parent_hint(parent.frame());
        page.frame().warm();
        let owed = match self.sides() {
            Some(sides) if kind == PageKind::TableLeaf && !tree.is_view() => {
                let owed = sides.take_back(needed.place, page.frame());
                owed.unwrap_or_else(|| rowleaf::reserved(page.bytes()))
            }
            _ => 0,
        };
        // From here on it may be found by a hint, and changed.
        let frame = if owed == 0 {
            page.release_clean(needed.place)
        } else {
            rowleaf::reserve(page.bytes_mut(), -(owed as isize));
            page.release_changed_from(needed.place)
        };
        point("install.parent");
        header::put_u64(parent.bytes_mut(), at, Swip::hot(frame).raw());
        self.note_loaded(needed.place.home(), kind);
        Ok(())
    }

    /// The parent of a page that is needed, or whatever inner node is in its frame now; none if no inner
    /// node is. That is asked first, unlatched: who holds the page of a long value may wait for the right
    /// to load its place, which the caller may have, if page and place are what frame and place are now.
    fn lock_parent(&self, needed: NeededPage) -> Outcome<Option<PageWrite>> {
        let frame = self.frame_at(needed.parent);
        let node = frame.filter(|frame| header::kind(frame.racy()) == Some(PageKind::Inner));
        node.map(PageWrite::lock).transpose()
    }

    pub(super) fn load_blocking(
        &self,
        needed: NeededPage,
        reserve: impl FnOnce(HomeId) -> Result<PageReservation>,
    ) -> Result<()> {
        if cfg!(any(feature = "invariants", feature = "interleave")) {
            assert_eq!(held_latches(), 0, "a thread is blocked with a latch held");
        }
        self.load_as_thread(needed.place);
        let loaded = self.load_as_owner(needed, reserve);
        self.end_load_as_thread(needed.place);
        self.traffic(needed.place.home()).blocking.fetch_add(1, Ordering::Relaxed);
        loaded
    }

    fn load_as_owner(
        &self,
        needed: NeededPage,
        reserve: impl FnOnce(HomeId) -> Result<PageReservation>,
    ) -> Result<()> {
        let store = self.store().ok_or_else(|| nowhere(needed))?;
        let home = needed.place.home();
        let mut reserved = reserve(home)?;
        let mut buffer = store.buffer(home, 1);
        let read = store.read(needed.place, &mut buffer);
        let contents = buffer.first_chunk().expect("a buffer of a page");
        let installed = read.and_then(|_| self.install_now(needed, contents, &mut reserved));
        store.give_back(home, buffer);
        self.put_back_all(reserved);
        // What was read may be of a page that is there no more; else it is damage.
        match installed {
            Err(error) if self.is_needed(needed) => Err(error),
            _ => Ok(()),
        }
    }

    /// As [`BufferPool::install`], waiting for who uses the parent.
    pub(super) fn install_now(
        &self,
        needed: NeededPage,
        contents: &[u8; PAGE_BYTES],
        reserved: &mut PageReservation,
    ) -> Result<()> {
        loop {
            match self.install(needed, contents, reserved) {
                Ok(()) => return Ok(()),
                Err(Stop::Error(error)) => return Err(error),
                Err(_) => spin_to_retry(),
            }
        }
    }

    /// Whether the parent still refers to the place.
    pub(super) fn is_needed(&self, needed: NeededPage) -> bool {
        loop {
            match self.lock_parent(needed) {
                Ok(Some(parent)) => {
                    let found = swip_of(&parent, Swip::evicted(needed.place)).is_some();
                    parent.unchanged();
                    return found;
                }
                Ok(None) => return false,
                Err(_) => spin_to_retry(),
            }
        }
    }

    /// Makes `wanted` frames free, of any partition, writing pages if it must; answers whether it
    /// did. Blocks the thread when it writes: the page provider is to see to it that it need not.
    pub(super) fn make_room(&self, home: HomeId, wanted: usize) -> bool {
        if self.store().is_none() {
            return false;
        }
        let (mut freed, mut looked, mut full) = (0, 0, Vec::new());
        let looks_clean = LOOKS_CLEAN.min(self.frames());
        while freed < wanted && looked < LOOKS_MAX {
            let at = HomeId(home.0.wrapping_add((looked / 64) as u16) % self.homes() as u16);
            looked += 1;
            match self.look(at, Pace::Fast) {
                Looked::Evicted => freed += 1,
                Looked::Dirty(read) if looked > looks_clean => {
                    freed += usize::from(self.write_and_evict(read, &mut full).is_ok());
                }
                Looked::Stays | Looked::Dirty(_) => {}
            }
        }
        self.traffic(home).inline.fetch_add(1, Ordering::Relaxed);
        freed >= wanted
    }

    /// Writes the page, as it was read, and evicts it. `full` has the homes whose files cannot grow, as
    /// far as is known: asking the file system again for every page takes long.
    pub(crate) fn write_and_evict(&self, read: PageRead, full: &mut Vec<HomeId>) -> Result<()> {
        if is_long(&read) {
            return self.write_and_evict_long(read);
        }
        let detail = "a page to be evicted has changed";
        let changed = |_| Error::Internal { detail: detail.to_owned() };
        let store = self.store().ok_or(Error::OutOfMemory { what: "buffer pool" })?;
        let home = HomeId(read.frame().pid().home().0 % self.homes() as u16);
        let (run, place) = place_for(store, home, &read, full)?;
        let mut buffer = store.buffer(home, 1);
        let page: &mut [u8; PAGE_BYTES] = buffer.first_chunk_mut().expect("a buffer of a page");
        // Only now: from here on nobody else writes to the place.
        read.racy().copy(0, page);
        let is_as_read = read.validate().map_err(changed);
        if is_as_read.is_ok() {
            assert_writable(page);
        }
        header::seal(page, run.first);
        let file = is_as_read.and_then(|()| store.file(run.first.home()));
        let written = file.and_then(|file| file.write_at(offset(run.first), &buffer));
        store.give_back(home, buffer);
        if let Err(error) = written {
            store.written(run);
            return Err(error);
        }
        self.traffic(home).written.fetch_add(1, Ordering::Relaxed);
        // If it has changed since, it is not evicted below.
        let _ = match place {
            Written::There => note_written(store, read, run.first),
            Written::Anew => read.set_clean_anew(run.first),
        };
        store.written(run);
        self.evict(read, run.first).map_err(changed)
    }
}

/// Where a page is written to.
enum Written {
    /// To a place that was free.
    There,
    /// To the place that it has.
    Anew,
}

/// A place for a page that is to be written: a free one, or on a full disk the one that it has
/// (rule 4). `DiskFull`, `Io`.
fn place_for(
    store: &PageStore,
    home: HomeId,
    read: &PageRead,
    full: &mut Vec<HomeId>,
) -> Result<(Run, Written)> {
    if let Some(run) = store.take_free(home) {
        return Ok((run, Written::There));
    }
    let path = match full.contains(&home) {
        true => file_name(home),
        false => match store.take(home, 1) {
            Err(Error::DiskFull { path }) => {
                full.push(home);
                path
            }
            taken => return taken.map(|run| (run, Written::There)),
        },
    };
    let run = retake(store, read).ok_or(Error::DiskFull { path })?;
    Ok((run, Written::Anew))
}

/// The place where the page was last written, to be written there anew: so what a rollback loads can
/// leave again on a full disk.
fn retake(store: &PageStore, read: &PageRead) -> Option<Run> {
    let own = read.frame().place();
    if own.is_none() {
        return None;
    }
    let run = store.retake(own)?;
    // It may have been given to another page before it was taken; or have been the page's, and it is
    // clean there by now.
    let frame = read.frame();
    let is_own = frame.place() == own && read.clean_place().is_none() && read.validate().is_ok();
    if !is_own {
        store.written(run);
    }
    is_own.then_some(run)
}

/// The error of a load where no page is on disk.
pub(super) fn nowhere(needed: NeededPage) -> Error {
    let detail = format!("page {} is needed, and no page is on disk", needed.place);
    Error::Internal { detail }
}

/// Where in a held page the swip stands, if it is an inner node that has it.
fn swip_of(parent: &PageWrite, swip: Swip) -> Option<usize> {
    let view = parent.owned();
    if header::kind(view) != Some(PageKind::Inner) {
        return None;
    }
    let node = KeyNode::new(view);
    (0..node.count()).map(|at| node.swip_position(at)).find(|at| view.u64(*at) == swip.raw())
}
