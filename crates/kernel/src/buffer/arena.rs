//! One home's frames: a range of memory reserved at start and never unmapped before the end.
//!
//! Invariants: the whole range is reserved when the pool is made but touched frame by frame, first
//! by the thread that allocates (NUMA, rule 2.1), or all at once by whom [`Arena::prefault`] is called;
//! huge pages are advised, not demanded.

use super::FrameRef;
use super::frame::FRAME_BYTES;
use crate::base::{Error, Result};

const HUGE_PAGE_BYTES: usize = 2 << 20;
/// What is asked for at once: a signal is not kept waiting for a whole pool.
const PREFAULT_BYTES: usize = 64 << 20;

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

    /// Has the system give all of the range its memory now, near the calling thread; what is in frames that
    /// are in use stays. Systems that cannot (before Linux 5.14) give it later, as without. Error:
    /// `OutOfMemory` if there is none.
    pub fn prefault(&self) -> Result<()> {
        for from in (0..self.mapped_bytes).step_by(PREFAULT_BYTES) {
            let bytes = PREFAULT_BYTES.min(self.mapped_bytes - from);
            // SAFETY: the range is within the mapping, which stays as long as `self`; populating changes no
            // byte of it.
            let failed = unsafe {
                let range = self.base.add(from).cast();
                libc::madvise(range, bytes, libc::MADV_POPULATE_WRITE) != 0
            };
            if failed {
                let error = std::io::Error::last_os_error();
                return match error.raw_os_error() {
                    Some(libc::EINVAL) => Ok(()),
                    _ => Err(Error::OutOfMemory { what: "buffer pool" }),
                };
            }
        }
        Ok(())
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

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    fn resident_pages(arena: &Arena) -> usize {
        let mut pages = vec![0_u8; arena.mapped_bytes.div_ceil(4096)];
        // SAFETY: there is a byte for each page of the mapping.
        let result =
            unsafe { libc::mincore(arena.base.cast(), arena.mapped_bytes, pages.as_mut_ptr()) };
        assert_eq!(result, 0);
        pages.iter().filter(|page| **page & 1 != 0).count()
    }

    #[test]
    fn all_memory_is_there_when_it_was_asked_for_and_what_was_written_stays() {
        let arena = Arena::map(300).unwrap();
        assert_eq!(resident_pages(&arena), 0);
        // SAFETY: the first byte of a mapping that nobody else knows.
        unsafe { arena.base.write(7) };
        let one = resident_pages(&arena);
        assert!(one > 0 && one <= HUGE_PAGE_BYTES / 4096, "{one}");
        arena.prefault().unwrap();
        assert_eq!(resident_pages(&arena), arena.mapped_bytes / 4096);
        // SAFETY: as above.
        assert_eq!(unsafe { arena.base.read() }, 7);
    }
}
