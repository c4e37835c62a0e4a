//! Freeing a chain of overflow pages, all of it or in portions.
//!
//! Invariants: the caller has the only right to free the chain (its version went, or it was never
//! adopted). A page is taken out of the directory and freed under its latch, its successor read
//! before; so freeing may stop after any page and go on later. Cannot fail: a latch is tried until
//! it is free, and those who hold one for a page that was in the frame before let go at once.

use crate::base::Pid;
use crate::buffer::{BufferPool, PageWrite};
use crate::latch::OwnedPage;
use crate::page::overflow::OverflowPage;
use crate::page::{PageKind, header};
use crate::sync::spin;

/// A chain being freed.
#[derive(Clone, Copy, Debug)]
pub struct FreeChain {
    owner: Pid,
    next: Pid,
}

impl FreeChain {
    /// The chain that begins with page `first`.
    pub fn new(first: Pid) -> FreeChain {
        FreeChain { owner: first, next: first }
    }

    /// Frees up to `pages_max` pages and answers how many it freed: fewer mean that the chain is
    /// gone.
    pub fn free(&mut self, pool: &BufferPool, pages_max: usize) -> usize {
        let mut freed = 0;
        while freed < pages_max && self.next != Pid(0) {
            let Some(frame) = pool.find_overflow(self.next) else { break };
            let Ok(page) = PageWrite::lock(frame) else {
                spin();
                continue;
            };
            let view = OwnedPage(page.bytes());
            let own = OverflowPage::read(view);
            let is_it = page.pid() == self.next
                && header::kind(view) == Some(PageKind::Overflow)
                && own.owner == self.owner;
            debug_assert!(is_it, "page {} belongs to the chain of {}", self.next, self.owner);
            if !is_it {
                page.unchanged();
                break;
            }
            self.next = own.next;
            pool.free(page);
            freed += 1;
        }
        if freed < pages_max {
            self.next = Pid(0);
        }
        freed
    }
}

/// Frees the whole chain that begins with page `first`.
pub fn free_chain(pool: &BufferPool, first: Pid) {
    FreeChain::new(first).free(pool, usize::MAX);
}
