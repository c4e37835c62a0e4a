//! Building an index from sorted entries, from the leaves up (CREATE INDEX, recovery).
//!
//! How: each level stages the keys of the node that it is building. When the next key would fill
//! the node beyond 90 percent, the separator between the last key and that one becomes the node's
//! upper fence; now its prefix is known and it is written out at once, and handed to the level
//! above as (lower fence, child). The last node of each level has no upper fence, hence no prefix;
//! what does not fit without it becomes several nodes.
//!
//! Invariants: nobody sees a page before the tree is returned; if anything fails, all pages are
//! given back.

use std::ops::Range;
use std::sync::Arc;

use crate::base::{Error, HomeId, Result, RowId, TreeId};
use crate::buffer::{BufferPool, FrameRef, PageReservation, PageWrite, Swip};
use crate::page::PageKind;
use crate::page::keynode::{self, SPACE_BYTES};
use crate::tree::descent::Trunk;

use super::exact::{Cleared, Exact, KeySpan};
use super::{IndexTree, KEY_BYTES_MAX};

/// How full nodes are made.
const TARGET_BYTES: usize = SPACE_BYTES * 9 / 10;
/// Frames reserved at once.
const RESERVED: usize = 32;
/// Bytes of a slot, and of a swip, beside each key.
const SLOT_BYTES: usize = 8;
const SWIP_BYTES: usize = 8;

/// The node that one level is building.
#[derive(Default)]
struct Level {
    /// Lower fence of the node.
    lower: Vec<u8>,
    /// Its keys, one behind the other, and where each ends.
    bytes: Vec<u8>,
    ends: Vec<u32>,
    /// Its children; zeros in a leaf.
    swips: Vec<u64>,
    /// Nodes of this level that were written out.
    written: usize,
}

impl Level {
    fn key(&self, at: usize) -> &[u8] {
        let from = if at == 0 { 0 } else { self.ends[at - 1] as usize };
        &self.bytes[from..self.ends[at] as usize]
    }

    fn count(&self) -> usize {
        self.ends.len()
    }

    /// Bytes of slots and heap of a node of the keys in `keys`, without their first `prefix` bytes.
    fn node_bytes(&self, level: usize, keys: Range<usize>, prefix: usize, fences: usize) -> usize {
        let beside = if level == 0 { SLOT_BYTES } else { SLOT_BYTES + SWIP_BYTES };
        let end = |count: usize| if count == 0 { 0 } else { self.ends[count - 1] as usize };
        end(keys.end) - end(keys.start) + keys.len() * beside - keys.len() * prefix + fences
    }

    /// Whether the node is full enough that `next`, the key behind its last, begins another.
    fn is_full(&self, level: usize, next: &[u8]) -> bool {
        let (all, fences) = (0..self.count(), self.lower.len() + next.len());
        if self.node_bytes(level, all.clone(), 0, fences) <= TARGET_BYTES {
            return false;
        }
        // The upper fence will be a beginning of `next` that is longer than this.
        let prefix = keynode::common_prefix(&self.lower, next);
        !all.is_empty() && self.node_bytes(level, all, prefix, fences) > TARGET_BYTES
    }

    /// Up to where the keys from `from` on fit one node between `lower` and `upper`; if not to the
    /// end, the separator behind them. They may not, though `is_full` said no before: the prefix
    /// shrinks at the end of a group of keys that share much, and there is none without an upper
    /// fence.
    fn node_from(
        &self,
        level: usize,
        from: usize,
        lower: &[u8],
        upper: Option<&[u8]>,
    ) -> (usize, Option<Vec<u8>>) {
        let fits = |to: usize, upper: Option<&[u8]>| {
            let prefix = upper.map_or(0, |upper| keynode::common_prefix(lower, upper));
            let fences = lower.len() + upper.map_or(0, <[u8]>::len);
            self.node_bytes(level, from..to, prefix, fences) <= SPACE_BYTES
        };
        if fits(self.count(), upper) {
            return (self.count(), upper.map(<[u8]>::to_vec));
        }
        let mut to = self.count() - 1;
        loop {
            let separator = self.separator(level, to);
            // One key always fits.
            if to == from + 1 || fits(to, Some(&separator)) {
                return (to, Some(separator));
            }
            to -= 1;
        }
    }

    /// The separator in front of key `at`.
    fn separator(&self, level: usize, at: usize) -> Vec<u8> {
        let mut separator = Vec::new();
        if level == 0 {
            keynode::shortest_separator(self.key(at - 1), self.key(at), &mut separator);
        } else {
            separator.extend_from_slice(self.key(at));
        }
        separator
    }

    fn stage(&mut self, key: &[u8], swip: u64) {
        self.bytes.extend_from_slice(key);
        self.ends.push(self.bytes.len() as u32);
        self.swips.push(swip);
    }

    fn clear(&mut self) {
        self.bytes.clear();
        self.ends.clear();
        self.swips.clear();
    }
}

/// Builds one index from entries in ascending order. What was built is given back if it is
/// dropped before [`IndexBuilder::finish`].
pub struct IndexBuilder {
    pool: Arc<BufferPool>,
    home: HomeId,
    tree: TreeId,
    levels: Vec<Level>,
    reserved: Option<PageReservation>,
    written: Vec<FrameRef>,
    entry: Vec<u8>,
    exact: Exact,
}

impl IndexBuilder {
    /// Begins an index without entries. `exact`: whether every entry's row has no undo (rule 5.7).
    pub fn new(pool: Arc<BufferPool>, home: HomeId, tree: TreeId, exact: Exact) -> IndexBuilder {
        IndexBuilder {
            pool,
            home,
            tree,
            levels: vec![Level::default()],
            reserved: None,
            written: Vec::new(),
            entry: Vec::new(),
            exact,
        }
    }

    /// Adds an entry above all before it. Errors: `KeyTooLong`, `OutOfMemory`, `Internal` if it is
    /// not above the last one.
    pub fn push(&mut self, key: &[u8], row: RowId) -> Result<()> {
        if key.len() > KEY_BYTES_MAX {
            let (index, bytes, bytes_max) = (self.tree, key.len(), KEY_BYTES_MAX);
            return Err(Error::KeyTooLong { index, bytes, bytes_max });
        }
        let mut entry = std::mem::take(&mut self.entry);
        entry.clear();
        entry.extend_from_slice(key);
        entry.extend_from_slice(&row.0.to_be_bytes());
        let leaf = &self.levels[0];
        // An empty leaf is only ever the first.
        if leaf.count() > 0 && *leaf.key(leaf.count() - 1) >= *entry {
            return Err(Error::Internal { detail: "index entries are not ascending".to_owned() });
        }
        if leaf.is_full(0, &entry) {
            let mut separator = Vec::new();
            keynode::shortest_separator(leaf.key(leaf.count() - 1), &entry, &mut separator);
            self.close(0, Some(separator))?;
        }
        self.levels[0].stage(&entry, 0);
        self.entry = entry;
        Ok(())
    }

    /// Adds a child that begins at `lower` to `level`, which is above the leaves.
    fn push_child(&mut self, level: usize, lower: &[u8], child: FrameRef) -> Result<()> {
        if self.levels.len() == level {
            self.levels.push(Level::default());
        }
        if self.levels[level].is_full(level, lower) {
            self.close(level, Some(lower.to_vec()))?;
        }
        self.levels[level].stage(lower, Swip::hot(child).raw());
        Ok(())
    }

    /// Writes out what `level` has staged, up to `upper`, where its next node begins.
    fn close(&mut self, level: usize, upper: Option<Vec<u8>>) -> Result<()> {
        let mut staged = std::mem::take(&mut self.levels[level]);
        let mut lower = std::mem::take(&mut staged.lower);
        let mut from = 0;
        loop {
            let (to, fence) = staged.node_from(level, from, &lower, upper.as_deref());
            self.write(level, &staged, from..to, &lower, fence.as_deref())?;
            staged.written += 1;
            from = to;
            lower = fence.unwrap_or_default();
            if from == staged.count() {
                break;
            }
        }
        staged.clear();
        staged.lower = lower;
        self.levels[level] = staged;
        Ok(())
    }

    fn allocate(&mut self, kind: PageKind) -> Result<PageWrite> {
        if self.reserved.as_ref().is_none_or(PageReservation::is_empty) {
            let many = self.pool.reserve(self.home, RESERVED);
            self.reserved = Some(many.or_else(|_| self.pool.reserve(self.home, 1))?);
        }
        let reserved = self.reserved.as_mut().expect("just reserved");
        let page = self.pool.allocate(reserved, kind, self.tree);
        self.written.push(page.frame());
        Ok(page)
    }

    fn write(
        &mut self,
        level: usize,
        staged: &Level,
        keys: Range<usize>,
        lower: &[u8],
        upper: Option<&[u8]>,
    ) -> Result<()> {
        let kind = if level == 0 { PageKind::IndexLeaf } else { PageKind::Inner };
        let mut page = self.allocate(kind)?;
        fill(&mut page, level, staged, keys, lower, upper);
        if level == 0 && self.exact == Exact::Yes {
            keynode::set_exact(page.bytes_mut());
        }
        let frame = page.release();
        self.push_child(level + 1, lower, frame)
    }

    /// Ends the building. Error: `OutOfMemory`.
    pub fn finish(mut self) -> Result<IndexTree> {
        let mut level = 0;
        loop {
            let top = &self.levels[level];
            let is_root = level > 0 && top.written == 0;
            if is_root && top.node_bytes(level, 0..top.count(), 0, 0) <= SPACE_BYTES {
                break;
            }
            self.close(level, None)?;
            level += 1;
        }
        let staged = std::mem::take(&mut self.levels[level]);
        let mut root = self.allocate(PageKind::Inner)?;
        fill(&mut root, level, &staged, 0..staged.count(), &[], None);
        let root = root.release();
        self.written.clear();
        let (pool, home) = (self.pool.clone(), self.home);
        let trunk = Trunk::adopt(pool, home, self.tree, PageKind::IndexLeaf, root);
        let cleared = Cleared::default();
        if self.exact == Exact::No {
            cleared.note(KeySpan::ALL);
        }
        Ok(IndexTree { trunk, cleared })
    }
}

fn fill(
    page: &mut PageWrite,
    level: usize,
    staged: &Level,
    keys: Range<usize>,
    lower: &[u8],
    upper: Option<&[u8]>,
) {
    keynode::format_node(page.bytes_mut(), level as u16, lower, upper);
    for at in keys {
        keynode::append(page.bytes_mut(), staged.key(at), staged.swips[at])
            .expect("a level is closed before it overflows its node");
    }
    keynode::finish(page.bytes_mut());
}

impl Drop for IndexBuilder {
    fn drop(&mut self) {
        for frame in self.written.drain(..) {
            // Nobody knows the page; a stale writer holds it for a moment at most.
            let page = loop {
                if let Ok(page) = PageWrite::lock(frame) {
                    break page;
                }
            };
            self.pool.free(page);
        }
    }
}

impl IndexTree {
    /// An index of `entries`, strictly ascending in (key, row), leaves 90 percent full. Errors:
    /// `OutOfMemory`, `KeyTooLong`, `Internal` if they are not ascending; nothing is left behind.
    pub fn bulk_load<K: AsRef<[u8]>>(
        pool: Arc<BufferPool>,
        home: HomeId,
        tree: TreeId,
        exact: Exact,
        entries: impl Iterator<Item = (K, RowId)>,
    ) -> Result<IndexTree> {
        let mut builder = IndexBuilder::new(pool, home, tree, exact);
        for (key, row) in entries {
            builder.push(key.as_ref(), row)?;
        }
        builder.finish()
    }
}
