//! Memory for reading and writing pages, used again: what is new from the operating system is
//! zeroed and mapped page by page, and that took two fifths of the processor when TPC-C ran with
//! five times the pool's data.
//!
//! Invariants: each home keeps a bounded number of each size; a buffer's contents are whatever was
//! there before. Two threads meet only if one reads or writes pages of another's home.

use crossbeam_utils::CachePadded;

use crate::base::{HomeId, PAGE_BYTES};
use crate::io::IoBuffer;
use crate::sync::Mutex;

/// Pages of one write at most: 1 MiB.
pub const RUN_PAGES: usize = (1 << 20) / PAGE_BYTES;
/// The sizes of buffers in pages, and how many of each a home keeps: reads that are often under way
/// at once and the shortest writes, short ones into gaps, and long ones.
const KEPT: [(usize, usize); 3] = [(1, 64), (RUN_PAGES.div_ceil(32), 32), (RUN_PAGES, 4)];

type Kept = [Vec<IoBuffer>; KEPT.len()];

/// Free buffers of all homes.
pub(super) struct Buffers {
    homes: Vec<CachePadded<Mutex<Kept>>>,
}

impl Buffers {
    pub(super) fn new(homes: u16) -> Buffers {
        Buffers { homes: (0..homes).map(|_| CachePadded::default()).collect() }
    }

    fn with<T>(&self, home: HomeId, work: impl FnOnce(&mut Kept) -> T) -> T {
        work(&mut super::locked(&self.homes[usize::from(home.0)]))
    }

    /// A buffer for so many pages, [`RUN_PAGES`] at most.
    pub(super) fn take(&self, home: HomeId, pages: usize) -> IoBuffer {
        let at = KEPT.iter().position(|(size, _)| pages <= *size).expect("no more than a run");
        let kept = self.with(home, |kept| kept[at].pop());
        let mut buffer = kept.unwrap_or_else(|| IoBuffer::zeroed(KEPT[at].0 * PAGE_BYTES));
        buffer.set_len(pages * PAGE_BYTES);
        buffer
    }

    /// Takes a buffer back that `take` gave.
    pub(super) fn give_back(&self, home: HomeId, buffer: IoBuffer) {
        let size = buffer.capacity() / PAGE_BYTES;
        let at = KEPT.iter().position(|(pages, _)| size == *pages).expect("taken here");
        let surplus = self.with(home, |kept| {
            if kept[at].len() < KEPT[at].1 {
                kept[at].push(buffer);
                return None;
            }
            Some(buffer)
        });
        drop(surplus);
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn buffers_are_used_again_and_few_are_kept() {
        let (buffers, home) = (Buffers::new(2), HomeId(1));
        let mut page = buffers.take(home, 1);
        let memory = page.as_ptr();
        page.set_len(7);
        buffers.give_back(home, page);
        let again = buffers.take(home, 1);
        assert_eq!((again.as_ptr(), again.len()), (memory, PAGE_BYTES));
        let runs: Vec<IoBuffer> = (0..9).map(|_| buffers.take(home, RUN_PAGES - 1)).collect();
        assert!(runs.iter().all(|run| run.len() == (RUN_PAGES - 1) * PAGE_BYTES));
        runs.into_iter().for_each(|run| buffers.give_back(home, run));
        let kept = |home| buffers.with(home, |kept| kept.each_ref().map(Vec::len));
        assert_eq!((kept(home), kept(HomeId(0))), ([0, 0, 4], [0; 3]));
    }
}
