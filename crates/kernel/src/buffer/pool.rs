//! The pool: partitions of frames per home, PID extents, reservations.
//!
//! Invariants: the number of frames in use and reserved never exceeds the limit; a reservation
//! that is dropped gives everything back. A home takes frames from its own partition and, when that is used up,
//! from the others': the pool's size is the limit, not the partition's.
//!
//! Sharing: the partition's lock is taken by its own instance for each page it allocates or
//! frees (tens of nanoseconds, once per split), by others only when they free a page of this
//! home or their own partition is full.

use std::ops::DerefMut;
use std::sync::{Arc, OnceLock};

use crossbeam_utils::CachePadded;

use super::FrameRef;
use super::directory::Named;
use super::evict::Loads;
use super::frame::FRAME_BYTES;
use super::guard::PageWrite;
use super::memory::Fresh;
use super::partition::{Partition, kept_of};
use super::side::SideStore;
use super::surely::Surely;
use super::trace::{Noted, note};
use crate::base::{Error, HomeId, INSTANCES_MAX, PAGE_BYTES, Pid, Place, Result, TreeId, Unread};
use crate::latch::SpinLock;
use crate::page::overflow::OverflowPage;
use crate::page::{PageKind, header};
use crate::runtime::numa_node;
use crate::store::PageStore;
use crate::sync::{AtomicBool, Ordering, PlainMutex as Mutex, ledger};

/// Attempts to find frames, when others take those that were made free.
const RESERVE_TRIES: usize = 8;

/// How full the pool is, in frames.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PoolStats {
    /// Frames that hold a page or are reserved for one.
    pub used: usize,
    /// Frames that may still be allocated.
    pub free: usize,
}

/// All frames of a database. Trees hold it by `Arc`, so it outlives every frame reference.
pub struct BufferPool {
    partitions: Vec<Partition>,
    /// Next PID number of each home that no extent has. Touched once per extent (rule 4.7).
    extents: Vec<SpinLock<u64>>,
    /// Where pages lie on disk; none if they never do.
    store: Option<Arc<PageStore>>,
    /// Who keeps the side tables of pages that are evicted; without, such pages stay.
    sides: OnceLock<Arc<dyn SideStore>>,
    /// Whether a page was ever evicted. Written once, read where look-ups are fetched ahead.
    has_evicted: CachePadded<AtomicBool>,
    /// What was loaded surely, and whether it is worth looking for frames otherwise.
    surely: Surely,
    /// What of trees and long values could not be read when they were freed. Written by who frees, read by who
    /// tells people.
    pub(super) unread: Mutex<Unread>,
}

impl BufferPool {
    /// A pool of `pool_bytes` (frames with their headers) in equal partitions for `homes` homes,
    /// whose pages are in memory only.
    pub fn new(homes: usize, pool_bytes: usize) -> Result<Arc<BufferPool>> {
        BufferPool::over(homes, pool_bytes, None)
    }

    /// As [`BufferPool::new`], over pages on disk if there is a `store`.
    pub fn over(
        homes: usize,
        pool_bytes: usize,
        store: Option<Arc<PageStore>>,
    ) -> Result<Arc<BufferPool>> {
        let named = if store.is_some() { Named::ByPlace } else { Named::ByNumber };
        if homes == 0 || homes > INSTANCES_MAX {
            return Err(Error::Limit { what: "homes" });
        }
        let frames = (pool_bytes / FRAME_BYTES / homes).min(u32::MAX as usize);
        if frames == 0 {
            return Err(Error::OutOfMemory { what: "buffer pool" });
        }
        let partition = |_| Partition::new(frames as u32, named);
        Ok(Arc::new(BufferPool {
            partitions: (0..homes).map(partition).collect::<Result<_>>()?,
            // Number 0 is left out, so that a zero word is no PID of home 0.
            extents: (0..homes).map(|_| SpinLock::new(1)).collect(),
            store,
            sides: OnceLock::new(),
            has_evicted: CachePadded::default(),
            surely: Surely::default(),
            unread: Mutex::default(),
        }))
    }

    /// Has the system give the partition of `home` its memory now, near the calling thread; takes some
    /// tenths of a second a GB. Error: `OutOfMemory`.
    pub fn prefault(&self, home: HomeId) -> Result<()> {
        self.partition_of(home).arena.prefault()
    }

    /// Memory that the system gives the partition of `home` from now on is to be near where the calling thread runs now (NUMA, rule
    /// 2.1). Where the system does not let it be said, nobody asks for memory ahead: who touches it first has it near.
    pub fn stay_near(&self, home: HomeId) {
        let partition = self.partition_of(home);
        if let Some(node) = numa_node()
            && partition.arena.prefer_node(node).is_err()
        {
            partition.with_fresh(Fresh::leave_alone);
        }
    }

    pub(super) fn partitions(&self) -> &[Partition] {
        &self.partitions
    }

    /// The pages on disk, if there are any.
    pub fn store(&self) -> Option<&Arc<PageStore>> {
        self.store.as_ref()
    }

    /// Says who keeps the side tables of pages that are evicted. Once, before the first page.
    pub fn know_sides(&self, sides: Arc<dyn SideStore>) {
        let _ = self.sides.set(sides);
    }

    /// Who keeps the side tables of pages that are evicted.
    pub(crate) fn sides(&self) -> Option<&dyn SideStore> {
        self.sides.get().map(AsRef::as_ref)
    }

    /// Homes, each with a partition.
    pub fn homes(&self) -> usize {
        self.partitions.len()
    }

    /// Sets `count` frames aside for pages of `home`, all or none. Call it before the first latch
    /// of the change that needs them (rule 4.6). Error: `OutOfMemory` when the pool is full.
    pub fn reserve(self: &Arc<Self>, home: HomeId, count: usize) -> Result<PageReservation> {
        let mut reservation = self.reserve_shared(home, count)?;
        reservation.pool = Some(ledger::share(self));
        Ok(reservation)
    }

    /// Frames of each partition that only loads get for which a thread is blocked (surely.rs).
    pub(crate) fn kept(&self) -> usize {
        if self.store.is_some() { kept_of(self.partitions[0].frames as usize) } else { 0 }
    }

    /// How many of those are in use.
    fn kept_missing(&self) -> usize {
        let kept = self.kept();
        self.partitions.iter().map(|it| kept.saturating_sub(it.free_frames())).sum()
    }

    /// A free frame, if more than `kept` of a partition are; none if there is none.
    pub(crate) fn reserve_free(&self, home: HomeId, kept: usize) -> Option<PageReservation> {
        let mut reservation = PageReservation { pool: None, home, frames: Vec::new() };
        for partition in &self.partitions {
            partition.take(1, kept, &mut reservation.frames);
        }
        (!reservation.is_empty()).then_some(reservation)
    }

    /// As [`BufferPool::reserve`]; what is not used is to be put back by the caller.
    pub(super) fn reserve_shared(&self, home: HomeId, count: usize) -> Result<PageReservation> {
        let kept = self.kept();
        let own = home.0 as usize % self.partitions.len();
        let mut reservation =
            PageReservation { pool: None, home, frames: Vec::with_capacity(count) };
        let mut tries = None;
        loop {
            for turn in 0..self.partitions.len() {
                let partition = &self.partitions[(own + turn) % self.partitions.len()];
                partition.take(count, kept, &mut reservation.frames);
                if reservation.frames.len() == count {
                    return Ok(reservation);
                }
            }
            // Of what comes free those get theirs first for whom frames are kept.
            let left = tries.get_or_insert_with(|| RESERVE_TRIES + self.kept_missing());
            if *left == 0 || !self.make_room(home, count - reservation.frames.len()) {
                break;
            }
            *left -= 1;
        }
        self.put_back_all(reservation);
        Err(Error::OutOfMemory { what: "buffer pool" })
    }

    /// Gives back a reservation that no pool has been noted in.
    pub(super) fn put_back_all(&self, mut reservation: PageReservation) {
        self.put_back(&std::mem::take(&mut reservation.frames));
    }

    /// A frame of the home's partition that was used before.
    pub(super) fn random_frame(&self, home: HomeId) -> Option<FrameRef> {
        self.partition_of(home).random_frame()
    }

    /// The frame at an address that may be any number.
    pub(super) fn frame_at(&self, address: u64) -> Option<FrameRef> {
        self.partitions.iter().find_map(|partition| partition.arena.at(address))
    }

    /// What is being loaded of the home that `place` belongs to.
    pub(super) fn loads(&self, place: Place) -> impl DerefMut<Target = Loads> {
        self.partition_of(place.home()).loads.lock().expect("no holder panics")
    }

    pub(super) fn surely(&self) -> &Surely {
        &self.surely
    }

    /// Frames of the home's partition, and how many of them are free.
    pub fn frames_of(&self, home: HomeId) -> (usize, usize) {
        let partition = self.partition_of(home);
        (partition.frames as usize, partition.free_frames())
    }

    /// Makes a page out of a reserved frame: formatted, exclusively latched, with a PID of the
    /// reservation's home that no other page has.
    ///
    /// Panics if the reservation is used up: the caller reserved too little.
    pub fn allocate(
        &self,
        reservation: &mut PageReservation,
        kind: PageKind,
        tree: TreeId,
    ) -> PageWrite {
        let pid = self.next_pid(reservation.home);
        let page = self.allocate_as(reservation, kind, tree, pid);
        note(page.frame(), Noted::New);
        page
    }

    /// A page that was evicted to `place`, with its contents: they are no overflow page's.
    pub(super) fn allocate_with(
        &self,
        contents: &[u8; PAGE_BYTES],
        place: Place,
        reservation: &mut PageReservation,
    ) -> PageWrite {
        let mut page = self.take_frame(reservation, self.next_pid(reservation.home));
        let pid = page.pid();
        *page.bytes_mut() = *contents;
        header::unseal(page.bytes_mut(), pid);
        note(page.frame(), Noted::Came(place));
        page
    }

    /// Makes an overflow page as [`BufferPool::allocate`]; with pages on disk its PID is its place
    /// there. `DiskFull`, `Io`.
    pub fn allocate_overflow(
        &self,
        reservation: &mut PageReservation,
        tree: TreeId,
    ) -> Result<PageWrite> {
        let Some(store) = &self.store else {
            return Ok(self.allocate(reservation, PageKind::Overflow, tree));
        };
        let place = store.take_own(reservation.home)?;
        // Whoever loads the page that was there before sees either none, or this one in its frame.
        let page = self.as_loader(place, || {
            let pid = Pid::of_place(place);
            let page = self.allocate_as(reservation, PageKind::Overflow, tree, pid);
            store.fix(place);
            page
        });
        note(page.frame(), Noted::New);
        Ok(page)
    }

    /// Makes a page that has a PID already: one that comes from disk.
    pub fn allocate_as(
        &self,
        reservation: &mut PageReservation,
        kind: PageKind,
        tree: TreeId,
        pid: Pid,
    ) -> PageWrite {
        let mut page = self.take_frame(reservation, pid);
        header::format(page.bytes_mut(), kind, pid, tree);
        if kind == PageKind::Overflow {
            let is_known = self.partition(pid).overflow.set(pid, page.frame());
            assert!(is_known, "a home's overflow pages are as many as its memory has room for");
        }
        page
    }

    /// A frame of the reservation for that page, exclusively latched; in it is what was there before.
    fn take_frame(&self, reservation: &mut PageReservation, pid: Pid) -> PageWrite {
        let frame = reservation.frames.pop().expect("a change reserves all frames that it uses");
        // A stale optimistic reader holds nothing; a stale writer (a cached append position) holds
        // the latch for the moment that it takes to see that the page is another.
        let page = loop {
            if let Ok(page) = PageWrite::lock(frame) {
                break page;
            }
        };
        frame.set_pid(pid);
        frame.clear_words();
        frame.side().store(std::ptr::null_mut());
        page
    }

    pub(super) fn partition(&self, pid: Pid) -> &Partition {
        self.partition_of(pid.home())
    }

    pub(super) fn partition_of(&self, home: HomeId) -> &Partition {
        &self.partitions[usize::from(home.0) % self.partitions.len()]
    }

    /// The frame of an overflow page; none if there is no such page now. What is in the frame is
    /// to be checked under its latch or version.
    pub fn find_overflow(&self, pid: Pid) -> Option<FrameRef> {
        let address = self.partition(pid).overflow.find(pid);
        // SAFETY: only addresses of this pool's frames are in the directory.
        (address != 0).then(|| unsafe { FrameRef::from_address(address) })
    }

    /// Notes that long values of `tree` may have pages of `home`.
    pub fn note_longs(&self, home: HomeId, tree: TreeId) {
        let partition = self.partition_of(home);
        partition.longs.lock().expect("no holder panics").insert(tree);
    }

    /// Whether rows of `tree` may have long values.
    pub fn has_longs(&self, tree: TreeId) -> bool {
        let has = |it: &Partition| it.longs.lock().expect("no holder panics").contains(&tree);
        self.partitions.iter().any(has)
    }

    /// All overflow pages that there are now: for checks.
    pub fn overflow_pages(&self) -> Vec<Pid> {
        match &self.store {
            None => self.overflow_pages_here().collect(),
            Some(store) => store.alive_fixed().into_iter().map(Pid::of_place).collect(),
        }
    }

    /// All overflow pages that are in memory now.
    pub fn overflow_pages_here(&self) -> impl Iterator<Item = Pid> {
        (0..self.partitions.len()).flat_map(|home| self.overflow_pages_of(HomeId(home as u16)))
    }

    /// Those of one home, ascending.
    pub fn overflow_pages_of(&self, home: HomeId) -> impl Iterator<Item = Pid> {
        self.partitions[usize::from(home.0)].overflow.pids(home)
    }

    fn next_pid(&self, home: HomeId) -> Pid {
        let index = home.0 as usize % self.partitions.len();
        let number = self.partitions[index].next_pid(&self.extents[index]);
        Pid::new(HomeId(index as u16), number)
    }

    /// Gives a page's frame and PID back. Both may be in use again at once (rule 8.5 will say when
    /// PIDs may be), so whoever remembers a page by them looks at what it is.
    /// The caller has taken the page out of its tree; its side slot is empty.
    pub fn free(&self, mut page: PageWrite) {
        let frame = page.frame();
        debug_assert!(frame.side().load().is_null(), "a page is freed without its twin");
        let (pid, kind, place) = (page.pid(), header::kind(page.owned()), frame.place());
        if kind == Some(PageKind::Overflow) {
            let next = OverflowPage::read(page.owned()).next;
            self.forget_long(pid, next);
        }
        let bytes = page.bytes_mut();
        if cfg!(feature = "invariants") {
            bytes.fill(0xdb);
        }
        bytes[header::AT_KIND] = PageKind::Free as u8;
        frame.set_pid(Pid(0));
        note(frame, Noted::Freed);
        drop(page);
        self.put_back(&[frame]);
        if pid.place().is_some() {
            return;
        }
        self.partition(pid).put_back_pid(pid.number());
        if let Some(store) = &self.store
            && !place.is_none()
        {
            store.replaced(place);
        }
    }

    /// Frees the frame of a page that lies on disk, not its place.
    pub fn forget(&self, mut page: PageWrite) {
        let (frame, pid) = (page.frame(), page.pid());
        let bytes = page.bytes_mut();
        if cfg!(feature = "invariants") {
            bytes.fill(0xdb);
        }
        bytes[header::AT_KIND] = PageKind::Free as u8;
        frame.set_pid(Pid(0));
        frame.clear_words();
        drop(page);
        self.put_back(&[frame]);
        if pid.place().is_none() {
            self.partition(pid).put_back_pid(pid.number());
        }
    }

    fn put_back(&self, frames: &[FrameRef]) {
        for frame in frames {
            let found = self.partitions.iter().find_map(|p| Some((p, p.arena.index(*frame)?)));
            let (partition, index) = found.expect("a frame belongs to one of the arenas");
            partition.put_back(index as u32);
        }
    }

    /// A page was evicted.
    pub(super) fn note_any_evicted(&self) {
        if !self.has_evicted() {
            self.has_evicted.store(true, Ordering::Relaxed);
        }
    }

    /// Whether pages may be on disk only.
    pub fn has_evicted(&self) -> bool {
        self.has_evicted.load(Ordering::Relaxed)
    }

    /// Frames in use and free, over all partitions.
    pub fn stats(&self) -> PoolStats {
        let total: usize = self.partitions.iter().map(|p| p.frames as usize).sum();
        let free = self.partitions.iter().map(Partition::free_frames).sum();
        PoolStats { used: total - free, free }
    }

    /// Pages that fit the pool.
    pub fn frames(&self) -> usize {
        self.partitions.iter().map(|p| p.frames as usize).sum()
    }

    /// Bytes of all pages that fit the pool.
    pub fn page_bytes(&self) -> usize {
        self.frames() * PAGE_BYTES
    }
}

/// Frames set aside for one change. What is not used goes back when this is dropped.
pub struct PageReservation {
    pool: Option<Arc<BufferPool>>,
    home: HomeId,
    frames: Vec<FrameRef>,
}

impl PageReservation {
    /// The frame that would be used next.
    pub(super) fn next(&self) -> Option<FrameRef> {
        self.frames.last().copied()
    }

    /// Writes to each frame's memory, so that the system gives it now if it has not yet, instead of under the latches
    /// of a change: it clears two megabytes for that.
    pub fn touch(&self) {
        for frame in &self.frames {
            if let Ok(mut page) = PageWrite::lock(*frame) {
                let first = &mut page.bytes_mut()[0];
                *first = std::hint::black_box(*first);
                page.unchanged();
            }
        }
    }

    /// Frames left.
    pub fn len(&self) -> usize {
        self.frames.len()
    }

    /// Whether nothing is left.
    pub fn is_empty(&self) -> bool {
        self.frames.is_empty()
    }

    /// The home that the pages will belong to.
    pub fn home(&self) -> HomeId {
        self.home
    }
}

impl Drop for PageReservation {
    fn drop(&mut self) {
        if let Some(pool) = &self.pool {
            pool.put_back(&self.frames);
        }
    }
}
