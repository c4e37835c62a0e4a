//! Descent and structure changes shared by table trees and index trees (rule 5.1).
//!
//! A [`Trunk`] is everything of a tree above its leaves: inner nodes ([`crate::page::keynode`])
//! under a root that keeps its frame and PID. What a leaf looks like is its owner's business: the
//! trunk finds leaves, latches them, and splits them through [`SplitLeaf`].
#![expect(clippy::todo, unused_variables)]

use std::sync::Arc;

use crate::base::{HomeId, Outcome, Result, TreeId};
use crate::buffer::{BufferPool, FrameRef, PageRead, PageWrite};
use crate::page::PageKind;
use crate::page::keynode::Probe;

/// Which leaf of the one or two that touch a place between keys.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Side {
    /// The leaf that covers the place: lower fence ≤ place < upper fence.
    At,
    /// The leaf that ends there or covers it: lower fence < place ≤ upper fence (scans backward).
    Before,
}

/// Whether the leaf found under the latch is to be split.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SplitPlan {
    /// Split at the separator that was written.
    Split,
    /// There is room again; leave it.
    Leave,
}

/// How a tree's owner splits one of its leaves. Both functions run with the parent and the leaf
/// held exclusively; they must not wait, latch trees, or fail.
pub trait SplitLeaf {
    /// Decides where: writes the separator, at most `keynode::ENTRY_BYTES_MAX` bytes, strictly
    /// above the leaf's lower fence and strictly below its upper fence. The part with keys ≥
    /// separator moves right; either part may be empty.
    fn plan(&mut self, leaf: &PageWrite, separator: &mut Vec<u8>) -> SplitPlan;
    /// Moves the rows from `separator` up into `right`, which is freshly formatted with the
    /// trunk's leaf kind (its own header only), and sets both pages' fences and side slots.
    fn split(&mut self, left: &mut PageWrite, right: &mut PageWrite, separator: &[u8]);
}

/// The inner nodes of one tree and the way to its leaves.
pub struct Trunk {
    pool: Arc<BufferPool>,
    home: HomeId,
    tree: TreeId,
    leaf_kind: PageKind,
    root: FrameRef,
}

impl Trunk {
    /// A tree of a root and one leaf that covers everything. `format` fills the leaf, which is
    /// formatted with `leaf_kind` and zero otherwise. Error: `OutOfMemory`, the pool is full.
    pub fn create(
        pool: Arc<BufferPool>,
        home: HomeId,
        tree: TreeId,
        leaf_kind: PageKind,
        format: &mut dyn FnMut(&mut PageWrite),
    ) -> Result<Trunk> {
        todo!()
    }

    /// The pool that the tree's pages are in.
    pub fn pool(&self) -> &Arc<BufferPool> {
        &self.pool
    }

    /// The tree's number.
    pub fn tree(&self) -> TreeId {
        self.tree
    }

    /// The home that gives the tree's pages.
    pub fn home(&self) -> HomeId {
        self.home
    }

    /// The root's frame, the same for ever.
    pub fn root(&self) -> FrameRef {
        self.root
    }

    /// Runs `read` on the leaf at `place` until what it read validates. `read` may run several
    /// times, on garbage too (it is to bound its loops); its last result, `Ok` or `Err`, is
    /// returned if and only if the leaf validated afterwards. After some failures the leaf is held shared.
    /// Answers `Retry` only if that fails too.
    pub fn read_leaf<R>(
        &self,
        place: Probe<'_>,
        side: Side,
        read: impl FnMut(&PageRead) -> Outcome<R>,
    ) -> Outcome<R> {
        todo!()
    }

    /// The leaf that covers `place`, held exclusively. Holds nothing else on return. May be called
    /// with a leaf further left held.
    pub fn write_leaf(&self, place: Probe<'_>) -> Outcome<PageWrite> {
        todo!()
    }

    /// Splits the leaf that covers `place` as `how` says, first its ancestors where they are
    /// full. Reserves frames before the first latch. Error: `OutOfMemory`, nothing has changed
    /// (inner nodes may have been split). Returns with nothing held; look again: others may have
    /// used the room. New pages belong to `home`: the splitting instance's own.
    pub fn split_leaf(
        &self,
        home: HomeId,
        place: Probe<'_>,
        how: &mut dyn SplitLeaf,
    ) -> Outcome<()> {
        todo!()
    }

    /// Calls `leaf` on every leaf from left to right, held shared, with its fences (`None`: no
    /// upper one), and returns what is wrong with the inner nodes. For tests and `atoll check`: the tree must be at rest.
    pub fn check(
        &self,
        leaf: &mut dyn FnMut(&crate::buffer::PageShared, &[u8], Option<&[u8]>, &mut Vec<String>),
    ) -> Outcome<Vec<String>> {
        todo!()
    }

    /// Gives all pages back to the pool; `leaf` is called on each leaf first and must empty its
    /// side slot. Nobody uses the tree any more.
    pub fn free(&self, leaf: &mut dyn FnMut(&mut PageWrite)) -> Outcome<()> {
        todo!()
    }
}
