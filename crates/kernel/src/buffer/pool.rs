//! The pool: partitions of frames per home, free lists, PID extents, reservations.
//!
//! Invariants: the number of frames in use and reserved never exceeds the limit; a reservation
//! that is dropped gives everything back; a frame is in exactly one of: fresh, a free list, a
//! reservation, a tree. A home takes frames from its own partition and, when that is used up,
//! from the others': the pool's size is the limit, not the partition's.
//!
//! Sharing: the partition's lock is taken by its own instance for each page it allocates or
//! frees (tens of nanoseconds, once per split), by others only when they free a page of this
//! home or their own partition is full.

use std::sync::Arc;

use crossbeam_utils::CachePadded;

use super::FrameRef;
use super::arena::Arena;
use super::directory::Directory;
use super::frame::FRAME_BYTES;
use super::guard::PageWrite;
use crate::base::{Error, HomeId, INSTANCES_MAX, PAGE_BYTES, Pid, Result, TreeId};
use crate::latch::SpinLock;
use crate::page::{PageKind, header};
use crate::sync::ledger;

/// PIDs that a home takes from the shared allocator at once.
const EXTENT_PIDS: u64 = 256;

/// How full the pool is, in frames.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PoolStats {
    /// Frames that hold a page or are reserved for one.
    pub used: usize,
    /// Frames that may still be allocated.
    pub free: usize,
}

struct Free {
    /// Indices of frames that were used and freed; the last freed is warm and goes out first.
    list: Vec<u32>,
    /// Frames from here on were never used.
    fresh: u32,
    /// The rest of the current PID extent.
    pid_next: u64,
    pid_end: u64,
    /// PID numbers of freed pages, to be given again.
    pids: Vec<u64>,
}

struct Partition {
    arena: Arena,
    frames: u32,
    free: CachePadded<SpinLock<Free>>,
    /// This home's overflow pages, wherever their frames are.
    overflow: Directory,
}

impl Partition {
    fn take(&self, wanted: usize, out: &mut Vec<FrameRef>) {
        self.free.with(|free| {
            while out.len() < wanted {
                let index = match free.list.pop() {
                    Some(index) => index,
                    None if free.fresh < self.frames => {
                        free.fresh += 1;
                        free.fresh - 1
                    }
                    None => return,
                };
                out.push(self.arena.frame(index as usize));
            }
        });
    }

    fn free_frames(&self) -> usize {
        self.free.with(|free| free.list.len() + (self.frames - free.fresh) as usize)
    }
}

/// All frames of a database. Trees hold it by `Arc`, so it outlives every frame reference.
pub struct BufferPool {
    partitions: Vec<Partition>,
    /// Next PID number of each home that no extent has. Touched once per extent (rule 4.7).
    extents: Vec<SpinLock<u64>>,
}

impl BufferPool {
    /// A pool of `pool_bytes` (frames with their headers) in equal partitions for `homes` homes.
    pub fn new(homes: usize, pool_bytes: usize) -> Result<Arc<BufferPool>> {
        if homes == 0 || homes > INSTANCES_MAX {
            return Err(Error::Limit { what: "homes" });
        }
        let frames = (pool_bytes / FRAME_BYTES / homes).min(u32::MAX as usize);
        if frames == 0 {
            return Err(Error::OutOfMemory { what: "buffer pool" });
        }
        let partition = |_| {
            Ok(Partition {
                arena: Arena::map(frames)?,
                frames: frames as u32,
                free: CachePadded::new(SpinLock::new(Free {
                    list: Vec::new(),
                    fresh: 0,
                    pid_next: 0,
                    pid_end: 0,
                    pids: Vec::new(),
                })),
                overflow: Directory::new(),
            })
        };
        Ok(Arc::new(BufferPool {
            partitions: (0..homes).map(partition).collect::<Result<_>>()?,
            // Number 0 is left out, so that a zero word is no PID of home 0.
            extents: (0..homes).map(|_| SpinLock::new(1)).collect(),
        }))
    }

    /// Homes, each with a partition.
    pub fn homes(&self) -> usize {
        self.partitions.len()
    }

    /// Sets `count` frames aside for pages of `home`, all or none. Call it before the first latch
    /// of the change that needs them (rule 4.6). Error: `OutOfMemory` when the pool is full.
    pub fn reserve(self: &Arc<Self>, home: HomeId, count: usize) -> Result<PageReservation> {
        let own = home.0 as usize % self.partitions.len();
        let mut reservation =
            PageReservation { pool: ledger::share(self), home, frames: Vec::with_capacity(count) };
        for turn in 0..self.partitions.len() {
            let partition = &self.partitions[(own + turn) % self.partitions.len()];
            partition.take(count, &mut reservation.frames);
            if reservation.frames.len() == count {
                return Ok(reservation);
            }
        }
        // Dropping the reservation gives back what was found.
        Err(Error::OutOfMemory { what: "buffer pool" })
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
        let frame = reservation.frames.pop().expect("a change reserves all frames that it uses");
        let pid = self.next_pid(reservation.home);
        // A stale optimistic reader holds nothing; a stale writer (a cached append position) holds
        // the latch for the moment that it takes to see that the page is another.
        let mut page = loop {
            if let Ok(page) = PageWrite::lock(frame) {
                break page;
            }
        };
        frame.set_pid(pid);
        frame.clear_words();
        frame.side().store(std::ptr::null_mut());
        header::format(page.bytes_mut(), kind, pid, tree);
        if kind == PageKind::Overflow {
            let is_known = self.partition(pid).overflow.set(pid, frame);
            assert!(is_known, "a home's overflow pages are as many as its memory has room for");
        }
        page
    }

    fn partition(&self, pid: Pid) -> &Partition {
        &self.partitions[pid.home().0 as usize % self.partitions.len()]
    }

    /// The frame of an overflow page; none if there is no such page now. What is in the frame is
    /// to be checked under its latch or version.
    pub fn find_overflow(&self, pid: Pid) -> Option<FrameRef> {
        let address = self.partition(pid).overflow.find(pid);
        // SAFETY: only addresses of this pool's frames are in the directory.
        (address != 0).then(|| unsafe { FrameRef::from_address(address) })
    }

    /// All overflow pages that there are now: for checks.
    pub fn overflow_pages(&self) -> impl Iterator<Item = Pid> {
        let homes = self.partitions.iter().enumerate();
        homes.flat_map(|(home, partition)| partition.overflow.pids(HomeId(home as u16)))
    }

    fn next_pid(&self, home: HomeId) -> Pid {
        let index = home.0 as usize % self.partitions.len();
        let number = self.partitions[index].free.with(|free| {
            if let Some(number) = free.pids.pop() {
                return number;
            }
            if free.pid_next == free.pid_end {
                free.pid_next = self.extents[index].with(|next| {
                    *next += EXTENT_PIDS;
                    *next - EXTENT_PIDS
                });
                free.pid_end = free.pid_next + EXTENT_PIDS;
            }
            free.pid_next += 1;
            free.pid_next - 1
        });
        Pid::new(HomeId(index as u16), number)
    }

    /// Gives a page's frame and PID back. Both may be in use again at once (rule 8.5 will say when
    /// PIDs may be), so whoever remembers a page by them looks at what it is.
    /// The caller has taken the page out of its tree; its side slot is empty.
    pub fn free(&self, mut page: PageWrite) {
        let frame = page.frame();
        debug_assert!(frame.side().load().is_null(), "a page is freed without its twin");
        let (pid, kind) = (page.pid(), header::kind(page.owned()));
        if kind == Some(PageKind::Overflow) {
            self.partition(pid).overflow.clear(pid);
        }
        let bytes = page.bytes_mut();
        if cfg!(feature = "invariants") {
            bytes.fill(0xdb);
        }
        bytes[header::AT_KIND] = PageKind::Free as u8;
        frame.set_pid(Pid(0));
        drop(page);
        self.put_back(&[frame]);
        self.partition(pid).free.with(|free| free.pids.push(pid.number()));
    }

    fn put_back(&self, frames: &[FrameRef]) {
        for frame in frames {
            let found = self.partitions.iter().find_map(|p| Some((p, p.arena.index(*frame)?)));
            let (partition, index) = found.expect("a frame belongs to one of the arenas");
            partition.free.with(|free| free.list.push(index as u32));
        }
    }

    /// Frames in use and free, over all partitions.
    pub fn stats(&self) -> PoolStats {
        let total: usize = self.partitions.iter().map(|p| p.frames as usize).sum();
        let free = self.partitions.iter().map(Partition::free_frames).sum();
        PoolStats { used: total - free, free }
    }

    /// Bytes of all pages that fit the pool.
    pub fn page_bytes(&self) -> usize {
        self.partitions.iter().map(|p| p.frames as usize * PAGE_BYTES).sum()
    }
}

/// Frames set aside for one change. What is not used goes back when this is dropped.
pub struct PageReservation {
    pool: Arc<BufferPool>,
    home: HomeId,
    frames: Vec<FrameRef>,
}

impl PageReservation {
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
        self.pool.put_back(&self.frames);
    }
}
