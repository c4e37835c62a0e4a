//! Merges: an underfull node and a neighbour become one; a root with one child takes its place
//! (rules 5.1 and 5.3).
//!
//! How: descend to the node, take its parent, then the two children left before right (the order of
//! README.md), let the owner of the leaves move the right one's contents into the left one. Three
//! pages change: the parent, which loses the right child's key, the left child, and the right one,
//! which is freed. Both neighbours have the same parent, so no other page knows the fence that
//! goes. A parent that is underfull then is merged the same way, one level at a time. At last, a
//! root above inner nodes that has one child left takes that child's contents: it keeps frame and
//! PID.
//!
//! Invariants: nothing is allocated and nothing loaded, so a merge cannot fail for want of memory; it may be
//! given up at any step and leaves a valid tree. Latches of children are tried, not waited for, while the
//! parent is held. Whoever has read the freed page or its parent finds their versions changed;
//! whoever remembers the page by frame and PID finds another or none, and descends. A scan goes on
//! by its fence: the rows behind it are in the left node now, where it begins at its place.
//!
//! A node that has one child left is merged even if its neighbour is not in memory, for no later merge below
//! it comes by. But nobody waits for that here: it is noted ([`AloneNode`]), for who can wait (collection) to
//! load what it needs and go on. Meanwhile the tree is valid, and others may change the node: going on is a
//! merge like any other of what is at that place and level by then, so it may come late, twice or never. Notes are
//! few and forgotten with the process: what is lost is a page for each.
//!
//! Trees shrink here, so a split that climbs may meet a root below the level it was at
//! (`split.rs` looks at the parent's level).

use std::collections::VecDeque;

use crate::base::{NeededPage, Outcome, Stop};
use crate::buffer::{PageRead, PageWrite};
use crate::page::keynode::{self, Edge, KeyNode, Probe};
use crate::sync::{AtomicBool, Ordering, PlainMutex, mutant, point};

use super::split::lock_child;
use super::{Side, Trunk, retried};

/// Attempts that may meet others' changes.
const TRIES: u32 = 16;
/// So many nodes are noted at most; of more the first are forgotten.
const ALONE_MAX: usize = 1024;

/// What came of a merge.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Merged {
    /// Two leaves are one.
    Yes,
    /// The neighbours are too full, or there are none.
    No,
    /// Something is in the way that will go: try again later.
    Later,
}

/// How a tree's owner merges two of its leaves.
pub trait MergeLeaf {
    /// Moves everything from `right`, which begins where `left` ends, into `left`, sets its upper
    /// fence, and empties the side slot of `right`; or does nothing. Both are held exclusively,
    /// and their parent. Must not wait, latch trees, or fail.
    fn merge(&mut self, left: &mut PageWrite, right: &mut PageWrite) -> Merged;
}

/// Merges key nodes: index leaves and inner nodes.
pub struct MergeKeys;

impl MergeLeaf for MergeKeys {
    fn merge(&mut self, left: &mut PageWrite, right: &mut PageWrite) -> Merged {
        if keynode::merge(left.bytes_mut(), right.bytes()) { Merged::Yes } else { Merged::No }
    }
}

/// An inner node that had one child left when its neighbour was not in memory.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct AloneNode {
    /// A place below it.
    place: Vec<u8>,
    edge: Edge,
    level: u16,
}

/// Nodes of a tree that are alone, on their way to whoever can wait for their neighbours.
#[derive(Default)]
pub(super) struct AloneNodes {
    nodes: PlainMutex<VecDeque<AloneNode>>,
    /// Whether there may be any. Written under the mutex; read without. A reader who misses one leaves it to
    /// the next: `Relaxed` is enough.
    any: AtomicBool,
}

impl AloneNodes {
    fn note(&self, node: AloneNode) {
        let mut nodes = self.nodes.lock().expect("no holder panics");
        if nodes.len() == ALONE_MAX {
            nodes.pop_front();
        }
        nodes.push_back(node);
        self.any.store(true, Ordering::Relaxed);
    }

    fn take(&self) -> VecDeque<AloneNode> {
        if !self.any.load(Ordering::Relaxed) {
            return VecDeque::new();
        }
        let mut nodes = self.nodes.lock().expect("no holder panics");
        self.any.store(false, Ordering::Relaxed);
        std::mem::take(&mut *nodes)
    }
}

/// Where a merge of inner nodes needs a page.
struct Needs {
    page: NeededPage,
    level: u16,
}

/// How much the parent of two merged nodes has left.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Parent {
    /// One child: no later merge below it comes by.
    Alone,
    /// Little.
    Underfull,
    /// Enough.
    Fine,
}

impl Trunk {
    /// Merges the leaf that covers `place` with a neighbour under the same parent, if `how` can,
    /// and then its ancestors as far as they need it. Returns with nothing held. `Later` also if
    /// others were in the way all the time, or the neighbour is not in memory.
    pub fn merge_leaf(&self, place: Probe<'_>, how: &mut dyn MergeLeaf) -> Outcome<Merged> {
        let (merged, parent) = self.try_merge(place, 0, how)?;
        // The leaves are one, whatever comes of the rest: nothing of it is told.
        if merged == Merged::Yes
            && let Err(needs) = self.merge_above(place, 1, parent)
        {
            let (bytes, edge) = (place.bytes.to_vec(), place.edge);
            self.alone.note(AloneNode { place: bytes, edge, level: needs.level });
        }
        Ok(merged)
    }

    /// The nodes that were noted since the last call; cheap if there are none.
    pub fn take_alone(&self) -> VecDeque<AloneNode> {
        self.alone.take()
    }

    /// Goes on with a node that was noted. `NeedPage`: load it and call again, or leave it; no other stop. Holds
    /// nothing when it returns.
    pub fn merge_alone(&self, node: &mut AloneNode) -> Outcome<()> {
        let place = Probe { bytes: &node.place, edge: node.edge };
        self.merge_above(place, node.level, Parent::Alone).map_err(|needs| {
            node.level = needs.level;
            Stop::NeedPage(needs.page)
        })
    }

    /// Merges the inner node of `level` at `place`, which has so much left, and its ancestors as far as they
    /// need it. What is not in memory is needed for one that is alone; else a later merge comes by.
    fn merge_above(&self, place: Probe<'_>, level: u16, left: Parent) -> Result<(), Needs> {
        let (mut level, mut left) = (level, left);
        while left != Parent::Fine {
            match self.try_merge(place, level, &mut MergeKeys) {
                Ok((_, above)) => left = above,
                Err(Stop::NeedPage(page)) if left == Parent::Alone => {
                    return Err(Needs { page, level });
                }
                Err(_) => break,
            }
            level += 1;
        }
        let _ = self.shrink_root();
        Ok(())
    }

    fn try_merge(
        &self,
        place: Probe<'_>,
        level: u16,
        how: &mut dyn MergeLeaf,
    ) -> Outcome<(Merged, Parent)> {
        for _ in 0..TRIES {
            match self.merge_step(place, level, how) {
                Err(Stop::Retry) => retried(),
                done => return done,
            }
        }
        Ok((Merged::Later, Parent::Fine))
    }

    fn merge_step(
        &self,
        place: Probe<'_>,
        level: u16,
        how: &mut dyn MergeLeaf,
    ) -> Outcome<(Merged, Parent)> {
        let root = PageRead::begin(self.root)?;
        let root_level = self.root_level(&root)?;
        root.validate()?;
        if root_level <= level {
            return Ok((Merged::No, Parent::Fine));
        }
        let found = self.descend(place, Side::At, level)?;
        let parent = found.parent.upgrade()?;
        point("merge.parent");
        let node = KeyNode::new(parent.owned());
        if node.level() != level + 1 {
            parent.unchanged();
            return Err(Stop::Retry);
        }
        let (at, count) = (node.child_at(place), node.count());
        let pairs = [at + 1, at].into_iter().filter(|right| *right > 0 && *right < count);
        let mut answer = Ok((Merged::No, Parent::Fine));
        for right in pairs {
            match self.merge_pair(&parent, right, how) {
                Ok(Merged::Yes) => {
                    let underfull = self.forget_child(parent, right);
                    return Ok((Merged::Yes, underfull));
                }
                Ok(Merged::No) => {}
                // A leaf is not loaded for this: its neighbour changes again.
                Err(Stop::NeedPage(page)) if level > 0 => answer = Err(Stop::NeedPage(page)),
                Ok(Merged::Later) | Err(_) if answer.is_ok() => {
                    answer = Ok((Merged::Later, Parent::Fine));
                }
                Ok(Merged::Later) | Err(_) => {}
            }
        }
        parent.unchanged();
        answer
    }

    /// Merges the children in slots `right - 1` and `right` of a held parent.
    fn merge_pair(
        &self,
        parent: &PageWrite,
        right: usize,
        how: &mut dyn MergeLeaf,
    ) -> Outcome<Merged> {
        let node = KeyNode::new(parent.owned());
        let child = |at: usize| parent.child(node.swip_position(at));
        // Both are looked for first: what is locked has changed, unless it is said that it has not.
        let (left, right) = (child(right - 1)?, child(right)?);
        let mut left = lock_child(left).ok_or(Stop::Retry)?;
        let Some(mut right) = lock_child(right) else {
            left.unchanged();
            return Err(Stop::Retry);
        };
        let merged = how.merge(&mut left, &mut right);
        if merged == Merged::Yes {
            point("merge.children");
            left.note_children();
            self.pool.free(right);
        } else {
            left.unchanged();
            right.unchanged();
        }
        Ok(merged)
    }

    /// Takes a freed child out of its parent.
    fn forget_child(&self, mut parent: PageWrite, right: usize) -> Parent {
        keynode::remove(parent.bytes_mut(), right);
        if mutant("merge-parent-as-it-was") {
            parent.unchanged();
            return Parent::Fine;
        }
        match () {
            () if parent.frame() == self.root => Parent::Fine,
            () if KeyNode::new(parent.owned()).count() == 1 => Parent::Alone,
            () if keynode::is_underfull(parent.bytes()) => Parent::Underfull,
            () => Parent::Fine,
        }
    }

    /// Pulls the contents of an only child that is an inner node up into the root.
    fn shrink_root(&self) -> Outcome<()> {
        loop {
            let read = PageRead::begin(self.root)?;
            let level = self.root_level(&read)?;
            let is_alone = KeyNode::new(read.racy()).count() == 1;
            read.validate()?;
            if level < 2 || !is_alone || mutant("merge_root_stays_high") {
                return Ok(());
            }
            let Ok(mut root) = read.upgrade() else { continue };
            let child = root.child(KeyNode::new(root.owned()).swip_position(0));
            let child = child.ok().and_then(lock_child);
            let Some(child) = child else {
                root.unchanged();
                return Ok(());
            };
            point("merge.root");
            keynode::replace_contents(root.bytes_mut(), child.bytes());
            root.note_children();
            self.pool.free(child);
        }
    }
}
