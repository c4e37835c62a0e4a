//! Descent and structure changes shared by table trees and index trees (rule 5.1).
//!
//! A [`Trunk`] is everything of a tree above its leaves: inner nodes ([`crate::page::keynode`])
//! under a root that keeps its frame and PID. What a leaf looks like is its owner's business: the
//! trunk finds leaves, latches them, and splits them through [`SplitLeaf`].
//!
//! Invariants: the root is an inner node always (an empty tree is a root and one leaf), so leaves
//! never change places with inner nodes; each page but the root has one parent; a node's fences
//! are its key in the parent and the next key there, or the parent's own upper fence. Every
//! function returns with nothing held but what it returns.
//!
//! Optimistic descent, and why it arrives at the right leaf: read the parent's version, find the
//! child's swip, validate the parent (so the swip is one), read the child's version, validate the
//! parent again. The parent still names the child at a moment when the child had the version that
//! was read; and since a page changes its fences or place only with its parent held exclusively,
//! what is read of the child under that version is what the parent says it is. A writer takes the
//! leaf's latch instead of its version, and validates the parent after that.
//!
//! After some failed attempts a reader couples shared latches from the root down.

#[cfg(all(test, loom))]
mod loom_loads;
#[cfg(all(test, loom))]
mod loom_merge;
#[cfg(all(test, loom))]
mod loom_nodes;
mod merge;
mod split;
#[cfg(all(test, not(loom)))]
mod tests;
mod walk;

use std::sync::Arc;

use crate::base::{Error, HomeId, NeededPage, Outcome, Place, Result, Stop, TreeId};
use crate::buffer::{BufferPool, FrameRef, PageRead, PageShared, PageWrite, Swip};
use crate::page::keynode::{self, KeyNode, Probe, UpperFence};
use crate::page::{PageKind, header};
use crate::sync::{ledger, mutant, point};

pub use merge::{AloneNode, MergeKeys, MergeLeaf, Merged};
pub use split::{SplitLeaf, SplitPlan};
pub use walk::{
    CheckLeaf, FreedLeaves, MeetLeaf, MetLeaf, Onward, Walked, fence_problems, page_name,
    page_problem, place_name, unread_page,
};

/// Optimistic attempts before shared latches are taken (rule 4.2).
const OPTIMISTIC_TRIES: u32 = 12;
/// Attempts with shared latches before the shell is asked to call again.
const SHARED_TRIES: u32 = 4;

/// Another was in the way, and the descent begins again at once.
#[inline(always)]
#[cfg_attr(feature = "ledger", track_caller)]
pub(super) fn retried() {
    ledger::add(ledger::What::Retry, 0);
}

/// Whether a planted fault is on; then other threads run first, so that it shows soon.
#[inline(always)]
pub(super) fn fault(name: &'static str) -> bool {
    let is_on = mutant(name);
    if is_on {
        std::thread::yield_now();
    }
    is_on
}

/// Which leaf of the one or two that touch a place between keys.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Side {
    /// The leaf that covers the place: lower fence ≤ place < upper fence.
    At,
    /// The leaf that ends there or covers it: lower fence < place ≤ upper fence (scans backward).
    Before,
}

/// The inner nodes of one tree and the way to its leaves.
pub struct Trunk {
    pool: Arc<BufferPool>,
    home: HomeId,
    tree: TreeId,
    leaf_kind: PageKind,
    root: FrameRef,
    alone: merge::AloneNodes,
}

/// Whether somebody reads a leaf only because it comes next.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Passing {
    Yes,
    No,
}

/// What a parent says of a leaf.
pub struct LeafPlace {
    /// Its lower fence.
    pub lower: Vec<u8>,
    /// Its upper fence, if there is one.
    pub upper: Option<Vec<u8>>,
    /// Where it lies on disk as it is, if it has no twin, whether or not it is in memory, too, and if
    /// that was wanted.
    pub on_disk: Option<Place>,
}

/// What is to be done with inner nodes; see [`Trunk::leave_places`].
pub struct LeavePlaces<'a> {
    /// Whether a node is to leave its place.
    pub must_leave: &'a dyn Fn(Place) -> bool,
    /// Gets the nodes that are not in memory of the next ones of level 1, whatever the answer.
    pub missing: &'a mut Vec<NeededPage>,
    /// So many are looked at.
    pub most: usize,
}

/// Asked by [`Trunk::leaf_place`] whether the leaf with these fences is wanted where it lies, before
/// that is known to be so still. May do something about the place.
pub type KeepLeaf<'a> = &'a dyn Fn(&[u8], Option<&[u8]>, Place) -> Outcome<bool>;

fn kept(
    place: Option<Place>,
    (lower, upper): (&[u8], Option<&[u8]>),
    keep: KeepLeaf<'_>,
) -> Outcome<Option<Place>> {
    let Some(place) = place else { return Ok(None) };
    Ok(keep(lower, upper, place)?.then_some(place))
}

/// Where an optimistic descent arrived.
struct Found {
    parent: PageRead,
    node: PageRead,
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
        let mut reserved = pool.reserve(home, 2)?;
        let mut leaf = pool.allocate(&mut reserved, leaf_kind, tree);
        format(&mut leaf);
        let mut root = pool.allocate(&mut reserved, PageKind::Inner, tree);
        keynode::format_node(root.bytes_mut(), 1, &[], None);
        keynode::insert(root.bytes_mut(), 0, &[], Swip::hot(leaf.frame()).raw())
            .expect("an empty node has room for a child");
        leaf.frame().set_parent_hint(root.frame());
        let root = root.frame();
        Ok(Trunk::adopt(pool, home, tree, leaf_kind, root))
    }

    /// The trunk of a tree that was built from below: `root` is an inner node without fences.
    pub(super) fn adopt(
        pool: Arc<BufferPool>,
        home: HomeId,
        tree: TreeId,
        leaf_kind: PageKind,
        root: FrameRef,
    ) -> Trunk {
        let alone = merge::AloneNodes::default();
        Trunk { pool, home, tree, leaf_kind, root, alone }
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

    /// The root's level, read racily. Error: `CatalogChanged` if the tree was freed.
    #[inline]
    fn root_level(&self, root: &PageRead) -> Outcome<u16> {
        let page = root.racy();
        if header::tree(page) != self.tree || header::kind(page) != Some(PageKind::Inner) {
            root.validate()?;
            return Err(Stop::Error(Error::CatalogChanged));
        }
        Ok(KeyNode::new(page).level())
    }

    #[inline]
    fn child(node: &PageRead, place: Probe<'_>, side: Side) -> Outcome<FrameRef> {
        let view = KeyNode::new(node.racy());
        let slot = match side {
            Side::At => view.child_at(place),
            Side::Before => view.child_before(place),
        };
        node.child(view.swip_position(slot)).inspect_err(|stop| {
            // That is when an inner node is used (buffer/inner.rs).
            if matches!(stop, Stop::NeedPage(_)) {
                node.frame().spare();
            }
        })
    }

    /// Descends optimistically to the node of `level` at the place, which is below the root's.
    #[inline]
    fn descend(&self, place: Probe<'_>, side: Side, level: u16) -> Outcome<Found> {
        let mut parent = PageRead::begin_cold(self.root)?;
        let mut above = self.root_level(&parent)?;
        loop {
            let child = Trunk::child(&parent, place, side)?;
            point("descent.child");
            let is_faulty = fault("descent_child_unvalidated");
            let node = PageRead::begin_cold(child)?;
            if !is_faulty {
                parent.validate()?;
            }
            // The root's level was validated with its first child.
            above = above.saturating_sub(1);
            if above <= level {
                return Ok(Found { parent, node });
            }
            parent = node;
        }
    }

    /// Runs `read` on the leaf at `place` until what it read validates. `read` may run several
    /// times, on garbage too (it is to bound its loops); its last result, `Ok` or `Err`, is
    /// returned if and only if the leaf validated afterwards. After some failures the leaf is held
    /// shared. Answers `Retry` only if that fails too.
    #[inline]
    pub fn read_leaf<R>(
        &self,
        place: Probe<'_>,
        side: Side,
        mut read: impl FnMut(&PageRead) -> Outcome<R>,
    ) -> Outcome<R> {
        match self.try_read_leaf(place, side, Passing::No, &mut read) {
            Err(Stop::Retry) => self.read_leaf_again(place, side, Passing::No, &mut read),
            done => done,
        }
    }

    /// As [`Trunk::read_leaf`], by somebody who goes through all leaves: it does not count as a use
    /// (rule 4.4).
    pub fn pass_leaf<R>(
        &self,
        place: Probe<'_>,
        side: Side,
        mut read: impl FnMut(&PageRead) -> Outcome<R>,
    ) -> Outcome<R> {
        match self.try_read_leaf(place, side, Passing::Yes, &mut read) {
            Err(Stop::Retry) => self.read_leaf_again(place, side, Passing::Yes, &mut read),
            done => done,
        }
    }

    #[inline]
    fn try_read_leaf<R>(
        &self,
        place: Probe<'_>,
        side: Side,
        passing: Passing,
        read: &mut impl FnMut(&PageRead) -> Outcome<R>,
    ) -> Outcome<R> {
        let leaf = self.descend(place, side, 0)?.node;
        if passing == Passing::No {
            leaf.frame().heat();
        }
        let is_faulty = fault("descent_leaf_unvalidated");
        let result = read(&leaf);
        point("descent.read");
        if !is_faulty {
            leaf.validate()?;
        }
        result
    }

    #[cold]
    fn read_leaf_again<R>(
        &self,
        place: Probe<'_>,
        side: Side,
        passing: Passing,
        read: &mut impl FnMut(&PageRead) -> Outcome<R>,
    ) -> Outcome<R> {
        retried();
        for _ in 1..OPTIMISTIC_TRIES {
            match self.try_read_leaf(place, side, passing, read) {
                Err(Stop::Retry) => retried(),
                done => return done,
            }
        }
        for _ in 0..SHARED_TRIES {
            match self.couple(place, side, 0) {
                Ok(leaf) => match read(&leaf.read()) {
                    Err(Stop::Retry) => retried(),
                    done => return done,
                },
                Err(Stop::Retry) => retried(),
                Err(stop) => return Err(stop),
            }
        }
        Err(Stop::Retry)
    }

    /// The parent of the leaf at `place`, to be read: found by a descent to level 1, or the root.
    fn leaf_parent(&self, place: Probe<'_>) -> Outcome<PageRead> {
        let root = PageRead::begin_cold(self.root)?;
        let parent = match self.root_level(&root)? {
            1 => root,
            _ => {
                root.validate()?;
                self.descend(place, Side::At, 1)?.node
            }
        };
        match KeyNode::new(parent.racy()).level() {
            1 => Ok(parent),
            _ => Err(Stop::Retry),
        }
    }

    /// Where the leaf at `place` is, without touching it: for who is about to fetch it. None if it is
    /// not in memory, or somebody is in the way.
    #[inline]
    pub fn leaf_ahead(&self, place: Probe<'_>) -> Option<FrameRef> {
        Trunk::child(&self.leaf_parent(place).ok()?, place, Side::At).ok()
    }

    /// Where the keys below the parent of the leaf at `place` end; none if they are the last.
    /// Reads no leaf. Stops: `Retry`, `NeedPage`.
    pub fn parent_end(&self, place: Probe<'_>) -> Outcome<Option<Vec<u8>>> {
        let parent = self.leaf_parent(place)?;
        let mut upper = Vec::new();
        let fence = KeyNode::new(parent.racy()).upper(&mut upper);
        parent.validate()?;
        Ok((fence == UpperFence::Some).then_some(upper))
    }

    /// Those that are not in memory of the leaf at `place` and of the next ones below the same parent,
    /// `most` in all; answers where they end, none if they are the last. Reads no leaf. Stops:
    /// `Retry`, `NeedPage` of an inner node, and `missing` is as it was.
    pub fn missing_leaves(
        &self,
        place: Probe<'_>,
        most: usize,
        missing: &mut Vec<NeededPage>,
    ) -> Outcome<Option<Vec<u8>>> {
        let before = missing.len();
        let looked = self.look_for_missing(place, most, missing);
        if looked.is_err() {
            missing.truncate(before);
        }
        looked
    }

    fn look_for_missing(
        &self,
        place: Probe<'_>,
        most: usize,
        missing: &mut Vec<NeededPage>,
    ) -> Outcome<Option<Vec<u8>>> {
        let parent = self.leaf_parent(place)?;
        let node = KeyNode::new(parent.racy());
        let (first, count) = (node.child_at(place), node.count());
        let end = first.saturating_add(most).min(count);
        for at in first..end {
            match parent.child(node.swip_position(at)) {
                Ok(_) => {}
                Err(Stop::NeedPage(page)) => missing.push(page),
                Err(stop) => return Err(stop),
            }
        }
        let mut key = Vec::new();
        let goes_on = if end < count {
            node.key(end, &mut key);
            true
        } else {
            node.upper(&mut key) == UpperFence::Some
        };
        parent.validate()?;
        Ok(goes_on.then_some(key))
    }

    /// What the parent of the leaf at `place` says of it: its fences, and where it lies as it is, if
    /// `keep` wants that. Reads no leaf. Stops: `Retry`, `NeedPage` of an inner node, and those of `keep`.
    pub fn leaf_place(&self, place: Probe<'_>, keep: KeepLeaf<'_>) -> Outcome<LeafPlace> {
        let parent = self.leaf_parent(place)?;
        let node = KeyNode::new(parent.racy());
        let at = node.child_at(place);
        let (mut lower, mut upper) = (Vec::new(), Vec::new());
        let has_upper = node.child_fences(at, &mut lower, &mut upper) == UpperFence::Some;
        let fences = (lower.as_slice(), has_upper.then_some(upper.as_slice()));
        let on_disk = match parent.child(node.swip_position(at)) {
            Ok(leaf) => {
                let leaf = PageRead::begin_cold(leaf)?;
                let has_twin = !leaf.frame().side().load().is_null();
                let place = leaf.clean_place().filter(|_| !has_twin);
                let kept = kept(place, fences, keep)?;
                kept.map_or(Ok(()), |place| leaf.still_lies_at(place))?;
                parent.validate()?;
                leaf.validate()?;
                kept
            }
            Err(Stop::NeedPage(needed)) => {
                let has_twin = self.pool.sides().is_some_and(|it| it.is_parked(needed.place));
                kept((!has_twin).then_some(needed.place), fences, keep)?
            }
            Err(stop) => return Err(stop),
        };
        parent.validate()?;
        Ok(LeafPlace { lower, upper: has_upper.then_some(upper), on_disk })
    }

    /// Has the inner nodes above the leaf at `place`, but the root, leave the places where `how` says so:
    /// they are written elsewhere when they leave memory. Answers where the keys below the leaf's parent
    /// end; none if they are the last. Reads no leaf. Stops: `Retry`, `NeedPage`.
    pub fn leave_places(&self, place: Probe<'_>, how: LeavePlaces<'_>) -> Outcome<Option<Vec<u8>>> {
        let mut node = PageRead::begin_cold(self.root)?;
        let mut level = self.root_level(&node)?;
        while level > 1 {
            if level == 2 {
                Trunk::missing_behind(&node, place, how.most, how.missing)?;
            }
            let child = PageRead::begin_cold(Trunk::child(&node, place, Side::At)?)?;
            node.validate()?;
            (node, level) = (child, level - 1);
            let at = node.frame().place();
            if at.is_none() || !(how.must_leave)(at) || mutant("compaction-leaves-evicted-nodes") {
                continue;
            }
            let left = node.leave_place()?;
            if let Some(store) = self.pool.store()
                && !left.is_none()
            {
                store.replaced(left);
            }
        }
        let mut upper = Vec::new();
        let fence = KeyNode::new(node.racy()).upper(&mut upper);
        node.validate()?;
        Ok((fence == UpperFence::Some).then_some(upper))
    }

    /// The children of a node behind the one at `place` that are not in memory, of the next `most`.
    fn missing_behind(
        node: &PageRead,
        place: Probe<'_>,
        most: usize,
        missing: &mut Vec<NeededPage>,
    ) -> Outcome<()> {
        let view = KeyNode::new(node.racy());
        let next = view.child_at(place) + 1;
        for at in next..next.saturating_add(most).min(view.count()) {
            match node.child(view.swip_position(at)) {
                Err(Stop::NeedPage(page)) => missing.push(page),
                other => drop(other?),
            }
        }
        node.validate()
    }

    /// Descends with shared latches, parent held until the child is, to the node of `level`.
    fn couple(&self, place: Probe<'_>, side: Side, level: u16) -> Outcome<PageShared> {
        let mut held = PageShared::lock(self.root)?;
        let mut above = self.root_level(&held.read())?;
        while above > level {
            let child = Trunk::child(&held.read(), place, side)?;
            held = PageShared::lock(child)?;
            above -= 1;
        }
        Ok(held)
    }

    /// The leaf that covers `place`, held exclusively; nothing else is held on return. May be
    /// called with a leaf further left held.
    #[inline]
    pub fn write_leaf(&self, place: Probe<'_>) -> Outcome<PageWrite> {
        for _ in 0..OPTIMISTIC_TRIES {
            match self.try_write_leaf(place) {
                Err(Stop::Retry) => retried(),
                done => return done,
            }
        }
        for _ in 0..SHARED_TRIES {
            match self.couple(place, Side::At, 1) {
                Ok(parent) => {
                    let leaf = Trunk::child(&parent.read(), place, Side::At)?;
                    match PageWrite::lock(leaf) {
                        Err(Stop::Retry) => retried(),
                        done => return done,
                    }
                }
                Err(Stop::Retry) => retried(),
                Err(stop) => return Err(stop),
            }
        }
        Err(Stop::Retry)
    }

    #[inline]
    fn try_write_leaf(&self, place: Probe<'_>) -> Outcome<PageWrite> {
        let found = self.descend(place, Side::At, 0)?;
        let is_faulty = fault("descent_latch_unvalidated");
        let leaf = PageWrite::lock(found.node.frame())?;
        leaf.frame().heat();
        point("descent.latched");
        if found.parent.validate().is_err() && !is_faulty {
            leaf.unchanged();
            return Err(Stop::Retry);
        }
        Ok(leaf)
    }
}
