//! A frame: the place in memory of one page, with its latch.
//!
//! Invariants: frames live in arenas that are never unmapped while their pool exists; all zero
//! bytes are a free frame; the latch word is never reset, so its version never goes back across
//! reuse (rule 4.1). The header is in front of the page rather than in an array of its own: the
//! page's first bytes come with the same address translation, and the 64 bytes between pages
//! spread their headers over the sets of the first-level cache.

use std::cell::UnsafeCell;
use std::ptr::NonNull;

use super::trace::{Noted, note};
use crate::base::{Cts, PAGE_BYTES, Pid, Place};
use crate::latch::{HybridLatch, PageBytes, RacyPage, Version, prefetch_line};
use crate::sync::{AtomicPtr, AtomicU64, Ordering};

/// Bytes of a frame: header and page.
#[cfg(not(loom))]
pub(super) const FRAME_BYTES: usize = 64 + PAGE_BYTES;
/// As above; a model's atomics are larger.
#[cfg(loom)]
pub(super) const FRAME_BYTES: usize = size_of::<Frame>();

/// Where a leaf's twin table hangs (rule 4.5); what it points to belongs to `version`.
///
/// Written by: holders of the frame's latch in exclusive mode. Read by: everyone; an optimistic
/// reader may follow what it read because twin tables are type-stable, and believes it once the
/// frame's version validates.
#[repr(transparent)]
pub struct SideSlot {
    pointer: AtomicPtr<u8>,
}

impl Default for SideSlot {
    fn default() -> SideSlot {
        SideSlot { pointer: AtomicPtr::new(std::ptr::null_mut()) }
    }
}

impl SideSlot {
    /// The twin table, or null.
    #[inline]
    pub fn load(&self) -> *mut u8 {
        // Acquire: pairs with the release store in `store`: the table's contents are there.
        self.pointer.load(Ordering::Acquire)
    }

    /// Hangs a twin table here, or null. The frame's latch is held exclusively.
    #[inline]
    pub fn store(&self, pointer: *mut u8) {
        // Release: pairs with the acquire in `load`.
        self.pointer.store(pointer, Ordering::Release);
    }
}

#[repr(C, align(64))]
pub(super) struct Frame {
    /// Protects the page, the PID and the side slot.
    latch: HybridLatch,
    /// The page's PID. Written under the exclusive latch; read racily.
    pid: AtomicU64,
    side: SideSlot,
    /// The address of the parent's frame, 0 for a root: a hint for whoever evicts the page. Written
    /// by holders of the parent's latch.
    parent: AtomicU64,
    /// Where the page was last written, [`Place::NONE`] if nowhere. Written under the exclusive
    /// latch.
    place: AtomicU64,
    /// One more than the number of the latch's version that the image there equals; 0 for none.
    /// Written under the exclusive latch; any later change makes it wrong without touching it.
    clean: AtomicU64,
    /// 1 if the page was used since the page provider last looked (rule 4.4). Written by its users,
    /// once a look, and by the provider.
    heat: AtomicU64,
    /// S of the checkpoint that has imaged all rows of the leaf here, which then is told no more of its
    /// older versions (version/imaging.rs). Written and read under the exclusive latch.
    imaged: AtomicU64,
    page: UnsafeCell<[u8; PAGE_BYTES]>,
}

#[cfg(not(loom))]
const _: () = {
    assert!(size_of::<Frame>() == FRAME_BYTES);
    assert!(std::mem::offset_of!(Frame, page) == 64);
};

/// A model's atomics are made one by one; elsewhere zero bytes are a free frame.
#[cfg(loom)]
impl Default for Frame {
    fn default() -> Frame {
        let word = || AtomicU64::new(0);
        Frame {
            latch: HybridLatch::new(),
            pid: word(),
            side: SideSlot::default(),
            parent: word(),
            place: word(),
            clean: word(),
            heat: word(),
            imaged: word(),
            page: UnsafeCell::new([0; PAGE_BYTES]),
        }
    }
}

/// A frame's address. Cheap to copy; valid as long as the pool that gave it (whoever keeps one
/// keeps the pool's `Arc`: trees do). Says nothing about what page is in the frame now: that is
/// for latches and versions.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
#[repr(transparent)]
pub struct FrameRef(NonNull<Frame>);

// SAFETY: it is a `NonNull` and nothing else, of which all zero bytes are `None`.
unsafe impl bytemuck::ZeroableInOption for FrameRef {}

// SAFETY: a frame is shared memory whose fields are atomics, and whose page is read racily or
// changed under its latch.
unsafe impl Send for FrameRef {}
// SAFETY: as above.
unsafe impl Sync for FrameRef {}

impl std::fmt::Debug for FrameRef {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "frame {:#x} (page {})", self.address(), self.pid())
    }
}

/// Degrees of a page that is used: so many looks of the page provider since then spare it. Looks come
/// by chance, so the more degrees, the nearer is what leaves to the least recently used, and the more
/// looks an eviction takes.
pub(super) const HOT: u64 = 4;

/// How fast a page cools down.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Pace {
    /// A degree a look: who provides frames before anybody wants them.
    Slow,
    /// At once: who wants a frame now.
    Fast,
}

impl FrameRef {
    /// # Safety
    /// `address` is that of a frame of an arena that outlives every use of the result.
    #[inline]
    pub(super) unsafe fn from_address(address: u64) -> FrameRef {
        // SAFETY: the caller's promise; frames are not at address 0.
        FrameRef(unsafe { NonNull::new_unchecked(address as *mut Frame) })
    }

    #[inline]
    pub(super) fn address(self) -> u64 {
        self.0.as_ptr() as u64
    }

    #[inline]
    fn frame<'a>(self) -> &'a Frame {
        // SAFETY: frames are never unmapped while their pool exists (invariant of the type), and
        // everything in one may be shared: atomics and an `UnsafeCell`.
        unsafe { self.0.as_ref() }
    }

    /// The latch of whatever page is here.
    #[inline]
    pub fn latch<'a>(self) -> &'a HybridLatch {
        &self.frame().latch
    }

    /// The PID of whatever page is here now; racy unless the latch is held.
    #[inline]
    pub fn pid(self) -> Pid {
        Pid(self.frame().pid.load(Ordering::Relaxed))
    }

    #[inline]
    pub(super) fn set_pid(self, pid: Pid) {
        self.frame().pid.store(pid.0, Ordering::Relaxed);
    }

    /// Where the page's twin table hangs.
    #[inline]
    pub fn side<'a>(self) -> &'a SideSlot {
        &self.frame().side
    }

    /// The address of the parent's frame as last noted: a hint, nothing to rely on.
    pub(super) fn parent_hint(self) -> u64 {
        self.frame().parent.load(Ordering::Relaxed)
    }

    /// Notes the parent's frame.
    pub fn set_parent_hint(self, parent: FrameRef) {
        self.frame().parent.store(parent.address(), Ordering::Relaxed);
    }

    /// The page of a long value here is complete: it changes no more, and may leave memory. It has no
    /// parent, so that word says it. The latch is held exclusively.
    pub fn set_complete(self) {
        self.set_parent_hint(self);
    }

    /// Whether the page of a long value here is complete. Racy.
    pub fn is_complete(self) -> bool {
        self.parent_hint() != 0
    }

    /// The page is used.
    #[inline]
    pub fn heat(self) {
        note(self, Noted::Use);
        let heat = &self.frame().heat;
        if heat.load(Ordering::Relaxed) != HOT {
            heat.store(HOT, Ordering::Relaxed);
        }
    }

    /// The page is there, but was not used yet: it is spared once.
    pub(super) fn warm(self) {
        self.frame().heat.store(1, Ordering::Relaxed);
    }

    /// The page is worth as many looks as one that is used.
    #[cold]
    pub(crate) fn spare(self) {
        self.frame().heat.store(HOT, Ordering::Relaxed);
    }

    /// Whether the page was used lately; it cools down by one degree, or at once. Lost if somebody uses
    /// it at this very moment, which costs a degree.
    pub(super) fn cool(self, pace: Pace) -> bool {
        let heat = &self.frame().heat;
        let degrees = heat.load(Ordering::Relaxed);
        if degrees != 0 {
            let left = if pace == Pace::Slow { degrees - 1 } else { 0 };
            heat.store(left, Ordering::Relaxed);
        }
        degrees != 0
    }

    /// Asks for the cache lines of the header and of the page's first `bytes`.
    #[inline]
    pub fn prefetch(self, bytes: usize) {
        prefetch_line(self.0.as_ptr());
        self.racy().prefetch(0, bytes);
    }

    /// The page's bytes for reading without a latch: nothing is to be believed before the
    /// latch's version validates.
    #[inline]
    pub fn racy(self) -> RacyPage {
        // SAFETY: the page is part of the frame, which is never unmapped while its pool exists.
        unsafe { RacyPage::new(self.page_pointer().cast()) }
    }

    #[inline]
    pub(super) fn page_pointer(self) -> *mut [u8; PAGE_BYTES] {
        self.frame().page.get()
    }

    /// Where the page here was last written. Racy unless the latch is held.
    pub fn place(self) -> Place {
        Place(self.frame().place.load(Ordering::Relaxed))
    }

    /// Where the page lies as it is under `version`; none if it has changed since it was written,
    /// or never was. Racy: to be believed if `version` validates.
    pub fn clean_place(self, version: Version) -> Option<Place> {
        let clean = self.frame().clean.load(Ordering::Relaxed);
        (clean == version.number() + 1).then(|| self.place())
    }

    /// The page lies at `place` as it is under `version`. The latch is held exclusively, and
    /// released as unchanged.
    pub(super) fn set_clean(self, place: Place, version: Version) {
        self.frame().place.store(place.0, Ordering::Relaxed);
        self.frame().clean.store(version.number() + 1, Ordering::Relaxed);
    }

    /// The page's contents lie nowhere; `place` has older ones. The latch is held exclusively.
    pub(super) fn set_dirty(self, place: Place) {
        self.frame().place.store(place.0, Ordering::Relaxed);
        self.frame().clean.store(0, Ordering::Relaxed);
    }

    /// The page lies nowhere any more; answers where it did. The latch is held exclusively, and the
    /// page has changed since it was written.
    pub(super) fn take_place(self) -> Place {
        let before = self.place();
        self.frame().place.store(0, Ordering::Relaxed);
        before
    }

    /// Resets what belongs to the page that was here, not the latch.
    pub(super) fn clear_words(self) {
        let frame = self.frame();
        frame.parent.store(0, Ordering::Relaxed);
        frame.place.store(0, Ordering::Relaxed);
        frame.clean.store(0, Ordering::Relaxed);
        frame.imaged.store(0, Ordering::Relaxed);
    }

    /// S of the checkpoint that has imaged all rows of the leaf here, 0 if there is none. The latch is
    /// held exclusively.
    #[inline]
    pub(crate) fn imaged_as_of(self) -> Cts {
        Cts(self.frame().imaged.load(Ordering::Relaxed))
    }

    /// The checkpoint of this S has imaged all rows of the leaf here; zero: nobody has, for it has got
    /// others. The latch is held exclusively.
    pub(crate) fn set_imaged_as_of(self, checkpoint: Cts) {
        self.frame().imaged.store(checkpoint.0, Ordering::Relaxed);
    }
}
