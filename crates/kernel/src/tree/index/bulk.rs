//! Building an index from sorted entries, from the leaves up (CREATE INDEX, recovery).
//!
//! Invariants: nobody sees a page before the tree is returned; if anything fails, all pages are
//! given back. Entries are of the newest versions of rows that nobody else changes meanwhile, and who
//! sees older ones does not read the index (rule 6.10): its leaves are keyed (rule 5.7).

use std::sync::Arc;

use crate::base::{Error, HomeId, PAGE_BYTES, Result, RowId, TreeId};
use crate::buffer::BufferPool;
use crate::page::PageKind;
use crate::page::keynode;
use crate::tree::frames::FrameSink;
use crate::tree::nodes::{NodeSink, Nodes};

use super::exact::Exact;
use super::{IndexTree, KEY_BYTES_MAX};

/// Builds one index from entries in ascending order. What was built is given back if it is
/// dropped before [`IndexBuilder::finish`].
pub struct IndexBuilder {
    nodes: Nodes<Leaves>,
    entry: Vec<u8>,
}

/// Nodes in frames; leaves are keyed, and may be exact.
struct Leaves {
    frames: FrameSink,
    exact: Exact,
}

impl NodeSink for Leaves {
    fn put(&mut self, level: usize, fill: &dyn Fn(&mut [u8; PAGE_BYTES])) -> Result<u64> {
        self.frames.put(level, &|page| {
            fill(page);
            match self.exact {
                _ if level > 0 => {}
                Exact::Yes => keynode::set_exact(page),
                Exact::No => keynode::set_keyed(page),
            }
        })
    }
}

impl IndexBuilder {
    /// Begins an index without entries. `exact`: whether every entry's row has no undo (rule 5.7).
    pub fn new(pool: Arc<BufferPool>, home: HomeId, tree: TreeId, exact: Exact) -> IndexBuilder {
        let frames = FrameSink::new(pool, home, tree, PageKind::IndexLeaf);
        IndexBuilder { nodes: Nodes::of_entries(Leaves { frames, exact }), entry: Vec::new() }
    }

    /// Adds an entry above all before it. Errors: `KeyTooLong`, `OutOfMemory`, `Internal` if it is
    /// not above the last one.
    pub fn push(&mut self, key: &[u8], row: RowId) -> Result<()> {
        if key.len() > KEY_BYTES_MAX {
            let (index, bytes, bytes_max) =
                (self.nodes.sink.frames.tree(), key.len(), KEY_BYTES_MAX);
            return Err(Error::KeyTooLong { index, bytes, bytes_max });
        }
        let mut entry = std::mem::take(&mut self.entry);
        entry.clear();
        entry.extend_from_slice(key);
        entry.extend_from_slice(&row.0.to_be_bytes());
        if self.nodes.last_entry().is_some_and(|last| *last >= *entry) {
            return Err(Error::Internal { detail: "index entries are not ascending".to_owned() });
        }
        self.nodes.push_entry(&entry)?;
        self.entry = entry;
        Ok(())
    }

    /// Ends the building. Error: `OutOfMemory`.
    pub fn finish(self) -> Result<IndexTree> {
        let (_, Leaves { frames, .. }) = self.nodes.finish()?;
        Ok(IndexTree::adopt(frames.into_trunk()))
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
