//! One home's frames: a range of memory reserved at start and never unmapped before the end.
//!
//! Invariants: the whole range is reserved when the pool is made but touched frame by frame, first
//! by the thread that allocates (NUMA, rule 2.1); huge pages are advised, not demanded.

use super::FrameRef;
use super::frame::FRAME_BYTES;
use crate::base::{Error, Result};

const HUGE_PAGE_BYTES: usize = 2 << 20;

/// An anonymous mapping that holds `frames` frames.
pub(super) struct Arena {
    base: *mut u8,
    mapped_bytes: usize,
    frames: usize,
}

// SAFETY: the mapping is plain shared memory; access to what is in it is governed by `Frame`.
unsafe impl Send for Arena {}
// SAFETY: as above.
unsafe impl Sync for Arena {}

impl Arena {
    /// Reserves room for `frames` frames. Error: `OutOfMemory` if the system refuses.
    pub fn map(frames: usize) -> Result<Arena> {
        let bytes = (frames * FRAME_BYTES).next_multiple_of(4096).max(4096);
        // SAFETY: an anonymous private mapping at an address of the system's choice touches no
        // memory that exists.
        let base = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                bytes,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE,
                -1,
                0,
            )
        };
        if base == libc::MAP_FAILED {
            return Err(Error::OutOfMemory { what: "buffer pool" });
        }
        if bytes >= HUGE_PAGE_BYTES {
            // SAFETY: the range is the mapping just made. A refusal costs only speed.
            unsafe { libc::madvise(base, bytes, libc::MADV_HUGEPAGE) };
        }
        #[cfg(loom)]
        for index in 0..frames {
            let frame = base.cast::<super::frame::Frame>();
            // SAFETY: the frame is within the mapping just made, which nobody knows yet.
            unsafe { frame.add(index).write(super::frame::Frame::default()) };
        }
        Ok(Arena { base: base.cast(), mapped_bytes: bytes, frames })
    }

    /// The frame number `index`.
    pub fn frame(&self, index: usize) -> FrameRef {
        assert!(index < self.frames, "frame index within the arena");
        // SAFETY: the index is in range; the arena lives as long as its pool, which outlives every
        // use of a `FrameRef` (its invariant). Zero bytes are a valid free frame.
        unsafe { FrameRef::from_address(self.base as u64 + (index * FRAME_BYTES) as u64) }
    }

    /// The frame that begins at `address`, if there is one.
    pub fn at(&self, address: u64) -> Option<FrameRef> {
        let offset = address.checked_sub(self.base as u64)? as usize;
        let is_frame = offset < self.frames * FRAME_BYTES && offset.is_multiple_of(FRAME_BYTES);
        is_frame.then(|| self.frame(offset / FRAME_BYTES))
    }

    /// The number of `frame` if it belongs to this arena.
    pub fn index(&self, frame: FrameRef) -> Option<usize> {
        let offset = frame.address().checked_sub(self.base as u64)? as usize;
        (offset < self.frames * FRAME_BYTES).then_some(offset / FRAME_BYTES)
    }
}

impl Drop for Arena {
    fn drop(&mut self) {
        // SAFETY: the mapping is ours, and the pool that owns it is going: by the invariant of
        // `FrameRef` nobody uses a frame any more.
        unsafe { libc::munmap(self.base.cast(), self.mapped_bytes) };
    }
}
