//! Guards of pages: optimistic, shared, exclusive.
//!
//! Invariants: a guard that holds a latch counts itself in the thread's held latches and is
//! neither `Send` nor kept across a wait (rule 1.2). An exclusive guard gives the version a push
//! when it is dropped, unless it was told that nothing changed.

use std::marker::PhantomData;

use super::{FrameRef, Swip};
use crate::base::{Outcome, PAGE_BYTES, Pid, Place, Stop};
use crate::latch::{
    OwnedPage, PageBytes, RacyPage, Release, Version, note_acquired, note_released,
};
use crate::page::keynode::KeyNode;
use crate::page::{PageKind, header};
use crate::sync::mutant;

/// An optimistic read of whatever page is in a frame. Holds nothing.
#[derive(Clone, Copy, Debug)]
pub struct PageRead {
    frame: FrameRef,
    version: Version,
}

impl PageRead {
    /// Begins a read; waits a bounded while for a writer, then `Retry`. The page counts as used.
    #[inline]
    #[cfg_attr(feature = "ledger", track_caller)]
    pub fn begin(frame: FrameRef) -> Outcome<PageRead> {
        frame.heat();
        PageRead::begin_cold(frame)
    }

    /// As [`PageRead::begin`], by somebody whose reading says nothing about who will read it again.
    #[inline]
    #[cfg_attr(feature = "ledger", track_caller)]
    pub fn begin_cold(frame: FrameRef) -> Outcome<PageRead> {
        Ok(PageRead { frame, version: frame.latch().read()? })
    }

    /// Begins a read as of a version that was seen before; it validates only if nothing changed.
    #[inline]
    pub fn resume(frame: FrameRef, version: Version) -> PageRead {
        PageRead { frame, version }
    }

    /// The frame.
    #[inline]
    pub fn frame(&self) -> FrameRef {
        self.frame
    }

    /// The version under which everything is read.
    #[inline]
    pub fn version(&self) -> Version {
        self.version
    }

    /// The page's bytes; nothing to be believed before [`PageRead::validate`].
    #[inline]
    pub fn racy(&self) -> RacyPage {
        self.frame.racy()
    }

    /// `Retry` unless nothing changed since the read began.
    #[inline]
    pub fn validate(&self) -> Outcome<()> {
        if self.frame.latch().validate(self.version) { Ok(()) } else { Err(Stop::Retry) }
    }

    /// The frame of the child whose swip is at byte `at` of this inner node: `at` comes from a
    /// search of the node under this read. `Retry` if the node changed, `NeedPage` if the child is
    /// out. What is in the frame is right only if this read validates again after the child's
    /// own read began.
    #[inline]
    pub(crate) fn child(&self, at: usize) -> Outcome<FrameRef> {
        let word = self.racy().u64(at);
        self.validate()?;
        // SAFETY: the read has validated, so search and word are those of one state of an inner
        // node, where a slot's word is what `Swip::raw` gave; trees keep the pool while they read.
        unsafe { Swip::from_raw(word) }.child_of(self.frame)
    }

    /// Where the page lies as it is read here, if it was written and has not changed since; to be
    /// believed if the read validates.
    pub fn clean_place(&self) -> Option<Place> {
        self.frame.clean_place(self.version)
    }

    /// Asked when `place`, which [`PageRead::clean_place`] has answered, was held for a checkpoint: `Retry` unless the page lies
    /// there still. What is read does not change when the page is written elsewhere, and then the
    /// place may have been another page's when it was held.
    pub fn still_lies_at(&self, place: Place) -> Outcome<()> {
        if self.clean_place() == Some(place) || mutant("held-place-unchecked") {
            Ok(())
        } else {
            Err(Stop::Retry)
        }
    }

    /// Notes that the page lies at `place` as it was read here; answers where it lay before, or
    /// `Retry` if it has changed or is held by another, and then nothing is noted.
    pub fn set_clean(self, place: Place) -> Outcome<Place> {
        let page = self.upgrade()?;
        let before = self.frame.place();
        self.frame.set_clean(place, self.version);
        page.unchanged();
        Ok(before)
    }

    /// As [`PageRead::set_clean`], if `place` is where the page lay before; `Retry` if it is elsewhere.
    pub fn set_clean_anew(self, place: Place) -> Outcome<()> {
        let page = self.upgrade()?;
        let is_there = self.frame.place() == place;
        if is_there {
            self.frame.set_clean(place, self.version);
        }
        page.unchanged();
        if is_there { Ok(()) } else { Err(Stop::Retry) }
    }

    /// If the page has changed since it was written, forgets where; answers that place, or none.
    /// `Retry` if it has changed since it was read here or is held by another: nothing is forgotten.
    pub fn give_up_place(self) -> Outcome<Place> {
        let page = self.upgrade()?;
        let before = match self.clean_place() {
            Some(_) => Place::NONE,
            None => self.frame.take_place(),
        };
        page.unchanged();
        Ok(before)
    }

    /// Forgets where the page lies, whether it is clean there or not: it is to be written elsewhere before it
    /// leaves memory. Answers that place, or none. `Retry` if it has changed since it was read here or is
    /// held by another: nothing is forgotten.
    pub fn leave_place(self) -> Outcome<Place> {
        let page = self.upgrade()?;
        let before = self.frame.place();
        self.frame.set_dirty(Place::NONE);
        page.unchanged();
        Ok(before)
    }

    /// Takes the page exclusively as it was read; one attempt, else `Retry`. Never waits, so it
    /// may be called with any latches held.
    #[inline]
    #[cfg_attr(feature = "ledger", track_caller)]
    pub fn upgrade(self) -> Outcome<PageWrite> {
        if self.frame.latch().upgrade(self.version) {
            Ok(PageWrite::adopt(self.frame))
        } else {
            Err(Stop::Retry)
        }
    }
}

/// A page held in shared mode: the fallback of a reader whose optimistic attempts failed.
pub struct PageShared {
    frame: FrameRef,
    version: Version,
    not_send: PhantomData<*const ()>,
}

impl PageShared {
    /// Takes the page shared; waits a bounded while, then `Retry`.
    #[cfg_attr(feature = "ledger", track_caller)]
    pub fn lock(frame: FrameRef) -> Outcome<PageShared> {
        let version = frame.latch().lock_shared()?;
        note_acquired();
        Ok(PageShared { frame, version, not_send: PhantomData })
    }

    /// The page as an optimistic reader sees it; it validates as long as this guard lives.
    #[inline]
    pub fn read(&self) -> PageRead {
        PageRead { frame: self.frame, version: self.version }
    }

    /// The frame.
    pub fn frame(&self) -> FrameRef {
        self.frame
    }

    /// The page's bytes, which do not change while this guard lives.
    pub fn bytes(&self) -> &[u8; PAGE_BYTES] {
        // SAFETY: the shared latch keeps writers out while the guard lives.
        unsafe { &*self.frame.page_pointer() }
    }
}

impl Drop for PageShared {
    fn drop(&mut self) {
        self.frame.latch().unlock_shared();
        note_released();
    }
}

/// A page held exclusively.
#[derive(Debug)]
pub struct PageWrite {
    frame: FrameRef,
    release: Release,
    not_send: PhantomData<*const ()>,
}

impl PageWrite {
    /// Takes the page exclusively; waits a bounded while, then `Retry`. What page it is must be
    /// checked afterwards (kind, tree, fences, PID): the frame may have been reused.
    #[inline]
    #[cfg_attr(feature = "ledger", track_caller)]
    pub fn lock(frame: FrameRef) -> Outcome<PageWrite> {
        frame.latch().lock_exclusive()?;
        Ok(PageWrite::adopt(frame))
    }

    /// Takes the page exclusively if it is free; one attempt, else `Retry`.
    #[cfg_attr(feature = "ledger", track_caller)]
    pub fn try_lock(frame: FrameRef) -> Outcome<PageWrite> {
        frame.latch().try_exclusive().ok_or(Stop::Retry)?;
        Ok(PageWrite::adopt(frame))
    }

    /// Makes a guard of a latch that the caller has taken exclusively just now.
    #[inline]
    pub(super) fn adopt(frame: FrameRef) -> PageWrite {
        note_acquired();
        PageWrite { frame, release: Release::Changed, not_send: PhantomData }
    }

    /// The frame.
    #[inline]
    pub fn frame(&self) -> FrameRef {
        self.frame
    }

    /// The page's PID.
    #[inline]
    pub fn pid(&self) -> Pid {
        self.frame.pid()
    }

    /// The page's bytes.
    #[inline]
    pub fn bytes(&self) -> &[u8; PAGE_BYTES] {
        // SAFETY: this guard holds the page exclusively, and is borrowed.
        unsafe { &*self.frame.page_pointer() }
    }

    /// The page's bytes for search code.
    #[inline]
    pub fn owned(&self) -> OwnedPage<'_> {
        OwnedPage(self.bytes())
    }

    /// The page's bytes, to change. Racy readers may be looking; they will not validate.
    #[inline]
    pub fn bytes_mut(&mut self) -> &mut [u8; PAGE_BYTES] {
        // SAFETY: this guard holds the page exclusively, and is borrowed mutably.
        unsafe { &mut *self.frame.page_pointer() }
    }

    /// The frame of the child whose swip is at byte `at` of this inner node, where a search of the
    /// node under this guard put it. `NeedPage` if the child is out.
    pub(crate) fn child(&self, at: usize) -> Outcome<FrameRef> {
        let word = self.owned().u64(at);
        // SAFETY: an inner node's slot holds what `Swip::raw` gave, and nobody else changes it
        // while this guard holds the page; trees keep the pool.
        unsafe { Swip::from_raw(word) }.child_of(self.frame)
    }

    /// Notes in the children of this inner node that it is their parent; nothing for other pages.
    pub fn note_children(&self) {
        let node = KeyNode::new(self.owned());
        if header::kind(self.owned()) != Some(PageKind::Inner) {
            return;
        }
        for at in 0..node.count() {
            if let Ok(child) = self.child(node.swip_position(at)) {
                child.set_parent_hint(self.frame);
            }
        }
    }

    /// Says that nothing was changed, so that readers need not begin again.
    #[inline]
    pub fn unchanged(mut self) {
        self.release = Release::Unchanged;
    }

    /// Releases the latch of a page that was just read from `place`: it is clean there.
    pub fn release_clean(self, place: Place) -> FrameRef {
        let frame = self.frame;
        frame.set_clean(place, frame.latch().version_after_change());
        frame
    }

    /// Releases the latch of a page that was just read from `place` and changed since.
    pub fn release_changed_from(self, place: Place) -> FrameRef {
        self.frame.set_dirty(place);
        self.frame
    }

    /// Releases the latch and returns the new version, as a later reader would see it if no one
    /// comes in between.
    #[inline]
    pub fn release(self) -> FrameRef {
        self.frame
    }
}

impl Drop for PageWrite {
    #[inline]
    fn drop(&mut self) {
        self.frame.latch().unlock_exclusive(self.release);
        note_released();
    }
}
