//! Freeing a chain of overflow pages, all of it or in portions.
//!
//! Invariants: the caller has the only right to free the chain (its version went, or it was never
//! adopted). A page in memory is taken out of the directory and freed under its latch, one on disk with
//! the right to load it, its successor read before; so freeing may stop after any page and go on later. A
//! latch is tried until it is free, and those who hold one for a page that was in the frame before let go
//! at once.

use crate::base::{Pid, Result};
use crate::buffer::{BufferPool, FrameRef, FreedLong, PageWrite};
use crate::latch::OwnedPage;
use crate::page::overflow::OverflowPage;
use crate::page::{PageKind, header};
use crate::sync::spin_to_retry;

/// A chain being freed.
#[derive(Clone, Copy, Debug)]
pub struct FreeChain {
    owner: Pid,
    next: Pid,
}

/// What may still be freed at once.
#[derive(Clone, Copy, Debug)]
pub struct FreeLeft {
    /// Pages.
    pub pages: usize,
    /// Those of them that are read for it, with the thread blocked.
    pub reads: usize,
}

impl FreeChain {
    /// The chain that begins with page `first`.
    pub fn new(first: Pid) -> FreeChain {
        FreeChain { owner: first, next: first }
    }

    /// Frees up to `pages_max` pages and answers how many it freed: fewer mean that the chain is
    /// gone. Blocks and fails as [`FreeChain::free_some`].
    pub fn free(&mut self, pool: &BufferPool, pages_max: usize) -> Result<usize> {
        let mut left = FreeLeft { pages: pages_max, reads: usize::MAX };
        self.free_some(pool, &mut left)?;
        Ok(pages_max - left.pages)
    }

    /// Whether nothing is left of it.
    pub fn is_gone(&self) -> bool {
        self.next == Pid(0)
    }

    /// Frees pages, as many as are left to be. Blocks the thread for pages that are on disk. `Corrupt`, `Io`: of such a page;
    /// those after it stay where they are, and so does it unless it is damaged: nobody's, in use until a start finds
    /// them, if it can.
    pub fn free_some(&mut self, pool: &BufferPool, left: &mut FreeLeft) -> Result<()> {
        while left.pages > 0 && !self.is_gone() {
            let next = match pool.find_overflow(self.next) {
                Some(frame) => self.free_here(pool, frame),
                None if left.reads == 0 => break,
                None => {
                    left.reads -= 1;
                    match pool.free_long(self.next, self.owner)? {
                        FreedLong::Next(next) => Some(next),
                        FreedLong::Here => None,
                        FreedLong::Gone => {
                            let (page, owner) = (self.next, self.owner);
                            debug_assert!(false, "page {page} is the chain's of {owner}");
                            self.next = Pid(0);
                            break;
                        }
                    }
                }
            };
            match next {
                Some(next) => (self.next, left.pages) = (next, left.pages - 1),
                None => spin_to_retry(),
            }
        }
        Ok(())
    }

    /// Frees the next page if it is in the frame; answers the one after it. None: it left just now, or
    /// somebody looks at it.
    fn free_here(&self, pool: &BufferPool, frame: FrameRef) -> Option<Pid> {
        let page = PageWrite::lock(frame).ok()?;
        let view = OwnedPage(page.bytes());
        if page.pid() != self.next || header::kind(view) != Some(PageKind::Overflow) {
            page.unchanged();
            return None;
        }
        let own = OverflowPage::read(view);
        debug_assert_eq!(own.owner, self.owner, "page {} is another chain's", self.next);
        pool.free(page);
        Some(own.next)
    }
}

/// Frees the whole chain that begins with page `first`, as far as it can be read; what cannot is told to the pool.
pub fn free_chain(pool: &BufferPool, first: Pid) {
    if let Err(error) = FreeChain::new(first).free(pool, usize::MAX) {
        pool.note_unread(error);
    }
}
