//! Splits: one level at a time, each latching exactly the pages that it changes (rule 5.1).
//!
//! How: to split a node, descend to it again, take its parent and then the node (parent before
//! child, left before right: the order of README.md), let the owner of the node choose the
//! separator. If the parent has room for it, split: three pages change, the parent, the node and
//! the new one to its right. If not, let go of everything, split the parent in the same way, and
//! begin again. If the parent is the root and full, its contents move down into a new child of
//! it: the root has one child then, one level higher, and room.
//!
//! Tried on paper and dropped: splitting full ancestors eagerly on the way down. With keys of up
//! to 2008 bytes "full" would mean a seventh of a page always empty.
//!
//! Invariants: each step leaves a valid tree; frames are reserved before the first latch of each
//! step (rule 4.6); a step that meets somebody else's change does nothing and is tried again.

use crate::base::{HomeId, Outcome, Stop};
use crate::buffer::{PageReservation, PageWrite, Swip};
use crate::page::PageKind;
use crate::page::keynode::{self, KeyNode, Probe};
use crate::sync::{ledger, point, spin};

use super::{Side, Trunk, retried};

/// Steps, most of them attempts that meet others' changes, before the shell is asked to call
/// again. A split of all ancestors takes two for each level.
const STEPS_MAX: u32 = 128;
/// Spins for a child's latch while its parent is held.
const CHILD_SPINS: u32 = 200;

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
    /// Decides where: writes the separator (it comes empty), at most `keynode::ENTRY_BYTES_MAX`
    /// bytes, strictly above the leaf's lower fence and strictly below its upper fence. The part
    /// with keys ≥ separator moves right; either part may be empty.
    fn plan(&mut self, leaf: &PageWrite, separator: &mut Vec<u8>) -> SplitPlan;
    /// Moves the rows from `separator` up into `right`, which is freshly formatted with the
    /// trunk's leaf kind (its common header only), and sets both pages' fences and side slots.
    fn split(&mut self, left: &mut PageWrite, right: &mut PageWrite, separator: &[u8]);
}

enum Step {
    /// The node of the level was split, or needed no split.
    Done,
    /// The parent has no room for the separator and must be split first.
    ParentFull,
    /// The root's contents moved down; try again.
    RootGrew,
}

impl Trunk {
    /// Splits the leaf that covers `place` as `how` says, first its ancestors where they are
    /// full. Reserves frames before the first latch. Error: `OutOfMemory`; the leaf is as it was
    /// (inner nodes may have been split). Returns with nothing held; look again: others may have
    /// used the room. New pages belong to `home`: the splitting instance's own.
    pub fn split_leaf(
        &self,
        home: HomeId,
        place: Probe<'_>,
        how: &mut dyn SplitLeaf,
    ) -> Outcome<()> {
        let mut level = 0;
        // The separator of the level below, while ancestors are being split for it.
        let mut wanted = Vec::new();
        for _ in 0..STEPS_MAX {
            let mut reserved = self.pool.reserve(home, 1)?;
            reserved.touch();
            match self.split_step(place, level, how, &mut wanted, &mut reserved) {
                Ok(Step::Done) if level == 0 => return Ok(()),
                Ok(Step::Done) => level -= 1,
                Ok(Step::ParentFull) => level += 1,
                Ok(Step::RootGrew) => {}
                Err(Stop::Retry) => retried(),
                Err(stop) => return Err(stop),
            }
        }
        Err(Stop::Retry)
    }

    fn split_step(
        &self,
        place: Probe<'_>,
        level: u16,
        how: &mut dyn SplitLeaf,
        wanted: &mut Vec<u8>,
        reserved: &mut PageReservation,
    ) -> Outcome<Step> {
        let found = self.descend(place, Side::At, level)?;
        let parent = found.parent.upgrade()?;
        point("split.parent");
        if KeyNode::new(parent.owned()).level() != level + 1 {
            // The tree has shrunk below this level meanwhile: begin again below.
            parent.unchanged();
            return if level == 0 { Err(Stop::Retry) } else { Ok(Step::Done) };
        }
        let Some(node) = lock_child(found.node.frame()) else {
            parent.unchanged();
            return Err(Stop::Retry);
        };
        let mut separator = Vec::new();
        let plan = if level == 0 {
            how.plan(&node, &mut separator)
        } else {
            plan_inner(&node, wanted, &mut separator)
        };
        if plan == SplitPlan::Leave {
            parent.unchanged();
            node.unchanged();
            return Ok(Step::Done);
        }
        if !keynode::has_room(parent.bytes(), &separator) {
            node.unchanged();
            *wanted = separator;
            if parent.frame() == self.root {
                self.grow_root(parent, reserved);
                return Ok(Step::RootGrew);
            }
            parent.unchanged();
            return Ok(Step::ParentFull);
        }
        self.split_below(parent, node, how, &separator, reserved);
        Ok(Step::Done)
    }

    /// Splits `node` at `separator`, for which `parent` has room.
    fn split_below(
        &self,
        mut parent: PageWrite,
        mut node: PageWrite,
        how: &mut dyn SplitLeaf,
        separator: &[u8],
        reserved: &mut PageReservation,
    ) {
        let is_leaf = KeyNode::new(parent.owned()).level() == 1;
        let kind = if is_leaf { self.leaf_kind } else { PageKind::Inner };
        let mut right = self.pool.allocate(reserved, kind, self.tree);
        right.frame().set_parent_hint(parent.frame());
        if is_leaf {
            how.split(&mut node, &mut right, separator);
        } else {
            let at = KeyNode::new(node.owned()).find(separator);
            let at = keynode::SplitPoint(at.expect("an inner node splits at one of its keys"));
            keynode::split(node.bytes_mut(), right.bytes_mut(), at, separator);
            right.note_children();
        }
        let swip = Swip::hot(right.frame()).raw();
        let at = KeyNode::new(parent.owned()).find(separator);
        let at = at.expect_err("a separator lies strictly between the fences of its child");
        keynode::insert(parent.bytes_mut(), at, separator, swip).expect("room was checked");
    }

    /// Moves the root's contents into a new child, its only one.
    fn grow_root(&self, mut root: PageWrite, reserved: &mut PageReservation) {
        let mut child = self.pool.allocate(reserved, PageKind::Inner, self.tree);
        keynode::replace_contents(child.bytes_mut(), root.bytes());
        child.note_children();
        child.frame().set_parent_hint(root.frame());
        let level = KeyNode::new(root.owned()).level() + 1;
        keynode::format_node(root.bytes_mut(), level, &[], None);
        keynode::insert(root.bytes_mut(), 0, &[], Swip::hot(child.frame()).raw())
            .expect("an empty node has room for a child");
    }
}

/// Takes a child whose parent is held. Only a short wait: whoever holds the child may want the
/// parent (an insertion into a unique index that looks for its next leaf).
pub(super) fn lock_child(frame: crate::buffer::FrameRef) -> Option<PageWrite> {
    let mut waits = None;
    for _ in 0..CHILD_SPINS {
        if let Ok(page) = PageWrite::try_lock(frame) {
            return Some(page);
        }
        waits.get_or_insert_with(|| ledger::timed(ledger::What::LatchWait));
        spin();
    }
    None
}

fn plan_inner(node: &PageWrite, wanted: &[u8], separator: &mut Vec<u8>) -> SplitPlan {
    if keynode::has_room(node.bytes(), wanted)
        || keynode::choose_split(node.bytes(), wanted, separator).is_none()
    {
        return SplitPlan::Leave;
    }
    SplitPlan::Split
}
