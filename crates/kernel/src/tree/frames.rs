//! Nodes that are built into frames, and leaves that come from disk: trees in the making.
//!
//! Invariants: nobody sees a page before its trunk is made; what was made is given back if the sink
//! is dropped before that. A page has no parent's hint before its parent is made, so it stays in memory as long
//! as only the nodes in the making name its frame.

use std::sync::Arc;

use crate::base::{HomeId, PAGE_BYTES, Pid, Result, TreeId};
use crate::buffer::{BufferPool, FrameRef, PageReservation, PageWrite, Swip};
use crate::page::{PageKind, header};

use super::descent::Trunk;
use super::nodes::NodeSink;

/// Frames reserved at once.
const RESERVED: usize = 32;

/// Makes pages of one tree.
pub struct FrameSink {
    pool: Arc<BufferPool>,
    home: HomeId,
    tree: TreeId,
    leaf_kind: PageKind,
    reserved: Option<PageReservation>,
    /// The pages made; one may have been evicted since, and its frame be another's.
    written: Vec<(FrameRef, Pid)>,
}

impl FrameSink {
    /// For pages of `home`.
    pub fn new(pool: Arc<BufferPool>, home: HomeId, tree: TreeId, leaf_kind: PageKind) -> Self {
        FrameSink { pool, home, tree, leaf_kind, reserved: None, written: Vec::new() }
    }

    /// The tree's number.
    pub fn tree(&self) -> TreeId {
        self.tree
    }

    /// A new page, held. Error: `OutOfMemory`.
    pub fn allocate(&mut self, kind: PageKind) -> Result<PageWrite> {
        if self.reserved.as_ref().is_none_or(PageReservation::is_empty) {
            let many = self.pool.reserve(self.home, RESERVED);
            self.reserved = Some(many.or_else(|_| self.pool.reserve(self.home, 1))?);
        }
        let reserved = self.reserved.as_mut().expect("just reserved");
        let page = self.pool.allocate(reserved, kind, self.tree);
        self.written.push((page.frame(), page.pid()));
        Ok(page)
    }

    /// The trunk over the pages made, of which the last is the root.
    pub fn into_trunk(mut self) -> Trunk {
        let (root, _) = self.written.pop().expect("a root was made");
        self.written.clear();
        Trunk::adopt(self.pool.clone(), self.home, self.tree, self.leaf_kind, root)
    }
}

/// The trunk of a tree that lies on disk: `root` is its root's page. Other pages are
/// loaded when they are needed. `OutOfMemory`.
pub fn trunk_on_disk(
    pool: &Arc<BufferPool>,
    (home, tree): (HomeId, TreeId),
    leaf_kind: PageKind,
    root: &[u8; PAGE_BYTES],
) -> Result<Trunk> {
    let mut reserved = pool.reserve(home, 1)?;
    let mut page = pool.allocate(&mut reserved, PageKind::Inner, tree);
    let pid = page.pid();
    *page.bytes_mut() = *root;
    header::unseal(page.bytes_mut(), pid);
    header::set_tree(page.bytes_mut(), tree);
    Ok(Trunk::adopt(pool.clone(), home, tree, leaf_kind, page.release()))
}

impl NodeSink for FrameSink {
    fn put(&mut self, level: usize, fill: &dyn Fn(&mut [u8; PAGE_BYTES])) -> Result<u64> {
        let kind = if level == 0 { self.leaf_kind } else { PageKind::Inner };
        let mut page = self.allocate(kind)?;
        fill(page.bytes_mut());
        page.note_children();
        Ok(Swip::hot(page.release()).raw())
    }
}

impl Drop for FrameSink {
    fn drop(&mut self) {
        for (frame, pid) in self.written.drain(..) {
            // Nobody knows the page; a stale writer holds it for a moment at most.
            let page = loop {
                if let Ok(page) = PageWrite::lock(frame) {
                    break page;
                }
            };
            if page.pid() == pid && header::tree(page.owned()) == self.tree {
                self.pool.free(page);
            } else {
                // What was evicted keeps its place until the next start.
                page.unchanged();
            }
        }
    }
}
