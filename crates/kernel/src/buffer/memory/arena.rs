//! One home's frames: a range of memory reserved at start and never unmapped before the end.
//!
//! Invariants: the whole range is reserved when the pool is made but has memory only where it was touched, or asked for: all of it
//! ([`Arena::prefault`]), or some frames ([`Arena::populate`], ahead.rs). It comes from where the thread runs that touches it, or from the
//! NUMA node that was preferred before ([`Arena::prefer_node`], rule 2.1); huge pages are advised, not demanded.

use std::ops::Range;

use crate::base::{Error, Result};
use crate::buffer::FrameRef;
use crate::buffer::frame::FRAME_BYTES;

const HUGE_PAGE_BYTES: usize = 2 << 20;
const SMALL_PAGE_BYTES: usize = 4096;
/// Words of a set of NUMA nodes, 1024 of them.
const NODES_WORDS: usize = 16;
/// What is asked for at once: a signal is not kept waiting for a whole pool.
const PREFAULT_BYTES: usize = 64 << 20;

/// An anonymous mapping that holds `frames` frames.
pub(in crate::buffer) struct Arena {
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
            let frame = base.cast::<crate::buffer::frame::Frame>();
            // SAFETY: the frame is within the mapping just made, which nobody knows yet.
            unsafe { frame.add(index).write(crate::buffer::frame::Frame::default()) };
        }
        Ok(Arena { base: base.cast(), mapped_bytes: bytes, frames })
    }

    /// Has the system give all of the range its memory now; what is in frames that are in use stays. Systems that cannot (before
    /// Linux 5.14) give it later, as without. Error: `OutOfMemory` if there is none.
    pub fn prefault(&self) -> Result<()> {
        for from in (0..self.mapped_bytes).step_by(PREFAULT_BYTES) {
            let range = from..self.mapped_bytes.min(from + PREFAULT_BYTES);
            match self.populate_bytes(range) {
                Ok(()) => {}
                Err(libc::EINVAL) => return Ok(()),
                Err(_) => return Err(Error::OutOfMemory { what: "buffer pool" }),
            }
        }
        Ok(())
    }

    /// The same of these frames, and of what shares pages of the system with them. Errors: the system's: `EINVAL` if it cannot,
    /// `ENOMEM` if it has none.
    pub fn populate(&self, frames: Range<u32>) -> std::result::Result<(), i32> {
        let from = frames.start as usize * FRAME_BYTES / SMALL_PAGE_BYTES * SMALL_PAGE_BYTES;
        let to = (frames.end as usize * FRAME_BYTES).next_multiple_of(SMALL_PAGE_BYTES);
        self.populate_bytes(from..to.min(self.mapped_bytes))
    }

    fn populate_bytes(&self, range: Range<usize>) -> std::result::Result<(), i32> {
        assert!(range.start <= range.end && range.end <= self.mapped_bytes, "within the arena");
        // SAFETY: the range is within the mapping, which stays as long as `self`; populating changes no byte of it.
        let failed = unsafe {
            let base = self.base.add(range.start).cast();
            libc::madvise(base, range.len(), libc::MADV_POPULATE_WRITE) != 0
        };
        if failed { Err(last_error()) } else { Ok(()) }
    }

    /// Has memory that comes from now on come from that NUMA node, whoever touches it first, as long as the node has any. Errors: the
    /// system's, which may not let everybody (`EPERM`).
    pub fn prefer_node(&self, node: usize) -> std::result::Result<(), i32> {
        let mut nodes = [0_u64; NODES_WORDS];
        let word = nodes.get_mut(node / 64).ok_or(libc::EINVAL)?;
        *word = 1 << (node % 64);
        let (set, bits, flags) = (nodes.as_ptr(), 64 * NODES_WORDS, 0);
        // SAFETY: the call reads the set, whose size it is told, and changes no byte of the mapping, only where its memory
        // comes from.
        let failed = unsafe {
            let (base, bytes, policy) = (self.base, self.mapped_bytes, libc::MPOL_PREFERRED);
            libc::syscall(libc::SYS_mbind, base, bytes, policy, set, bits, flags) != 0
        };
        if failed { Err(last_error()) } else { Ok(()) }
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

fn last_error() -> i32 {
    std::io::Error::last_os_error().raw_os_error().unwrap_or(0)
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

    impl Arena {
        /// Bytes of the range that have memory.
        pub(in crate::buffer) fn resident_bytes(&self) -> usize {
            let mut pages = vec![0_u8; self.mapped_bytes.div_ceil(SMALL_PAGE_BYTES)];
            // SAFETY: there is a byte for each page of the mapping.
            let result =
                unsafe { libc::mincore(self.base.cast(), self.mapped_bytes, pages.as_mut_ptr()) };
            assert_eq!(result, 0);
            pages.iter().filter(|page| **page & 1 != 0).count() * SMALL_PAGE_BYTES
        }
    }

    #[test]
    fn memory_is_there_when_it_was_asked_for_and_what_was_written_stays() {
        let arena = Arena::map(1_000).unwrap();
        let preferred = arena.prefer_node(0);
        assert!(matches!(preferred, Ok(()) | Err(libc::EPERM | libc::ENOSYS)), "{preferred:?}");
        assert_eq!(arena.prefer_node(5_000), Err(libc::EINVAL));
        assert_eq!(arena.resident_bytes(), 0);
        // SAFETY: the first byte of a mapping that nobody else knows.
        unsafe { arena.base.write(7) };
        let one = arena.resident_bytes();
        assert!(one > 0 && one <= HUGE_PAGE_BYTES, "{one}");
        arena.populate(500..510).unwrap();
        let some = arena.resident_bytes();
        assert!(some >= one + 10 * FRAME_BYTES && some <= one + 3 * HUGE_PAGE_BYTES, "{some}");
        arena.prefault().unwrap();
        assert_eq!(arena.resident_bytes(), arena.mapped_bytes);
        // SAFETY: as above.
        assert_eq!(unsafe { arena.base.read() }, 7);
    }
}
