//! Giving the ends of page files back to the file system, when a checkpoint has been published.
//!
//! Invariants: what is given back is what nothing refers to (store/space.rs argues it), so it may be done
//! at any time, and given up at any time. Whoever wants places meanwhile waits for one step at most.

use super::super::core::Context;
use crate::base::HomeId;
use crate::runtime::Parker;
use crate::store::PageStore;
use crate::sync::within;

/// Makes page files shorter that have become too long; answers by how many pages. Others run between
/// the steps. A file system that refuses is asked again after the next checkpoint.
pub(super) fn shrink(context: &Context, store: &PageStore) -> u64 {
    let mut pages = 0;
    context.linger("role: published");
    for home in (0..store.homes() as u16).map(HomeId) {
        while let Ok(given @ 1..) = store.shrink(home) {
            pages += given;
            let _shrinking = within("compaction");
            context.linger("compaction");
            context.yield_now();
        }
    }
    pages
}
