//! Index trees: entries of key bytes and row id, without versions (rules 5.4 to 5.7).
//!
//! An entry is the key's bytes and then the row id, eight bytes, big-endian; entries are the keys
//! of the tree, so there are no duplicates. What a key means is the callers' business, but keys of
//! one index are prefix-free (`tree::key` sees to it): no key is the beginning of another.
//!
//! Invariants: an entry is present from the return of the operation that added it until the
//! beginning of the one that removed it, for every reader; of two insertions of one key into a
//! unique index one sees the other's entry; adding an entry clears its leaf's *exact* bit. This
//! module knows no rows and no transactions: what must be decided about rows is asked of closures
//! while the leaf is held.

mod ahead;
mod batch;
mod bulk;
mod change;
mod exact;
#[cfg(all(test, not(loom)))]
mod evict_tests;
#[cfg(all(test, not(loom)))]
mod merge_tests;
mod near;
#[cfg(all(test, not(loom)))]
mod node_tests;
mod read;
#[cfg(all(test, not(loom)))]
mod scan_tests;
#[cfg(all(test, not(loom)))]
mod stress_tests;
#[cfg(all(test, not(loom)))]
mod tests;
mod together;

use std::sync::Arc;

use crate::base::{Cts, Error, HomeId, Outcome, Result, RowId, Stop, TreeId};
use crate::buffer::{BufferPool, PageRead};
use crate::latch::OwnedPage;
use crate::page::PageKind;
use crate::page::keynode::{self, KEY_BYTES_MAX, KeyNode, Probe};
use crate::sync::{AtomicU64, Ordering};

use super::descent::{
    FreedLeaves, KeepLeaf, LeafPlace, LeavePlaces, Onward, Side, Trunk, Walked, fence_problems,
    page_problem,
};

pub use ahead::{FoundKey, KeyPlace};
pub use batch::{Continue, IndexBatch, KeysWanted, LeafStamp, ScanDirection};
pub use bulk::IndexBuilder;
pub use change::{Added, Judgement, Keep, Removed, UniqueAnswer};
pub use exact::{Exact, Judged, Keyed, Keys, LeafSwept};
pub use near::Near;
pub use together::Others;

/// What a check calls on each leaf that is in order, with the list of problems to add to.
pub type VisitEntries<'a> = &'a mut dyn FnMut(&KeyNode<OwnedPage<'_>>, &mut Vec<String>) -> Onward;

/// Attempts of an operation that finds its leaf full again after a split.
const FULL_TRIES: u32 = 32;

/// One index. All operations may run on any thread at once; `Retry` and `NeedPage` are answered
/// with nothing held.
pub struct IndexTree {
    trunk: Trunk,
    /// Timestamp of the last checkpoint that has copied the whole index; 0 if none has.
    copied: AtomicU64,
}

impl IndexTree {
    /// An empty index. Error: `OutOfMemory`, the buffer pool is full.
    pub fn create(pool: Arc<BufferPool>, home: HomeId, tree: TreeId) -> Result<IndexTree> {
        let trunk = Trunk::create(pool, home, tree, PageKind::IndexLeaf, &mut |leaf| {
            keynode::format_node(leaf.bytes_mut(), 0, &[], None);
            keynode::set_exact(leaf.bytes_mut());
        })?;
        Ok(IndexTree::adopt(trunk))
    }

    /// The tree's number.
    pub fn tree(&self) -> TreeId {
        self.trunk.tree()
    }

    /// An index over pages that are there.
    pub fn adopt(trunk: Trunk) -> IndexTree {
        IndexTree { trunk, copied: AtomicU64::new(0) }
    }

    /// A checkpoint has copied the last leaf: entries that only it needed may go. Written by whoever copies it
    /// (release), read by those who remove entries (acquire).
    pub fn set_copied_as_of(&self, checkpoint: Cts) {
        self.copied.store(checkpoint.0, Ordering::Release);
    }

    /// The last checkpoint that has copied the whole index, or zero.
    pub fn copied_as_of(&self) -> Cts {
        Cts(self.copied.load(Ordering::Acquire))
    }

    /// What the parent of the leaf that covers `key` says of it; see [`Trunk::leaf_place`].
    pub fn leaf_place(&self, key: &[u8], keep: KeepLeaf<'_>) -> Outcome<LeafPlace> {
        self.trunk.leaf_place(Probe::before(key), keep)
    }

    /// As [`Trunk::leave_places`], above the leaf that covers `key`.
    pub fn leave_places(&self, key: &[u8], how: LeavePlaces<'_>) -> Outcome<Option<Vec<u8>>> {
        self.trunk.leave_places(Probe::before(key), how)
    }

    /// Runs `read` on the leaf that covers `key`, as `Trunk::read_leaf`: for checkpoints.
    pub fn copy_leaf<R>(
        &self,
        key: &[u8],
        read: impl FnMut(&PageRead) -> Outcome<R>,
    ) -> Outcome<R> {
        self.trunk.pass_leaf(Probe::before(key), Side::At, read)
    }

    /// The pool that its pages are in.
    pub fn pool(&self) -> &Arc<BufferPool> {
        self.trunk.pool()
    }

    /// What is wrong with the tree's structure; empty if nothing. The tree must be at rest.
    /// Error: what stopped the walk.
    pub fn check(&self) -> Result<Vec<String>> {
        let mut problems = Vec::new();
        let mut from: Option<Vec<u8>> = Some(Vec::new());
        while let Some(start) = from {
            let part = self.check_from(&start, &mut |_, _| Onward::Go)?;
            problems.extend(part.problems);
            from = part.next;
        }
        Ok(problems)
    }

    /// Checks inner nodes and leaves from the leaf that covers `from` on, and calls `visit` on each leaf that is
    /// in order: of the others, which count as passed over, the entries are shown to nobody. After a pause leaves may have
    /// been merged: then entries before `from` are shown again. The tree must be at rest. Error: what stopped the
    /// walk and is no damage.
    pub fn check_from(&self, from: &[u8], visit: VisitEntries<'_>) -> Result<Walked> {
        let mut in_disorder = 0;
        let walked = self.trunk.walk(from, &mut |met, problems| {
            let mut faults = keynode::check(met.page);
            faults.extend(fence_problems(met.page, met.lower, met.upper));
            if faults.is_empty() {
                return visit(&KeyNode::new(OwnedPage(met.page)), problems);
            }
            in_disorder += 1;
            problems.push(page_problem(OwnedPage(met.page), &faults));
            Onward::Go
        });
        let walked = walked.map_err(|stop| match stop {
            Stop::Error(error) => error,
            stop => Error::Internal { detail: format!("the check was stopped: {stop:?}") },
        })?;
        Ok(Walked { passed_over: walked.passed_over + in_disorder, ..walked })
    }

    /// Gives the frames of an index of a checkpoint back; its places stay. Nobody uses it any more.
    pub fn forget(&self) {
        self.trunk.forget();
    }

    /// Gives all pages back to the pool. Nobody uses the tree any more; whoever does all the same
    /// is told `CatalogChanged`.
    pub fn free(&self) -> Result<()> {
        self.trunk.free(FreedLeaves::Unseen, &mut |_, _| {})
    }
}

/// Entries up to this length need no allocation.
const INLINE_BYTES: usize = 120;

/// The bytes of one entry.
struct Entry {
    inline: [u8; INLINE_BYTES],
    len: usize,
    long: Vec<u8>,
}

impl Entry {
    /// An entry of tree `index`. Error: `KeyTooLong`.
    #[inline]
    fn new(index: TreeId, key: &[u8], row: RowId) -> Result<Entry> {
        if key.len() > KEY_BYTES_MAX {
            return Err(Error::KeyTooLong { index, bytes: key.len(), bytes_max: KEY_BYTES_MAX });
        }
        let row = row.0.to_be_bytes();
        let len = key.len() + row.len();
        let mut entry = Entry { inline: [0; INLINE_BYTES], len, long: Vec::new() };
        if len <= INLINE_BYTES {
            entry.inline[..key.len()].copy_from_slice(key);
            entry.inline[key.len()..len].copy_from_slice(&row);
        } else {
            entry.long.reserve_exact(len);
            entry.long.extend_from_slice(key);
            entry.long.extend_from_slice(&row);
        }
        Ok(entry)
    }

    #[inline]
    fn bytes(&self) -> &[u8] {
        if self.long.is_empty() { &self.inline[..self.len] } else { &self.long }
    }
}
