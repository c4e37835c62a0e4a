//! Walks over all pages of a tree: the structural check, and giving the pages back.
//!
//! Invariants: the check holds shared latches from the root down to the page that it looks at, so
//! it changes nothing; freeing is for a tree that nobody uses any more.

use std::collections::HashSet;

use crate::base::{Outcome, Pid};
use crate::buffer::{FrameRef, PageShared, PageWrite};
use crate::latch::OwnedPage;
use crate::page::keynode::{self, KeyNode, UpperFence};
use crate::page::{PageKind, header};

use super::Trunk;

/// What the check calls on each leaf: the leaf, its lower fence, its upper fence if there is one,
/// and the list of problems to add to.
pub type CheckLeaf<'a> = &'a mut dyn FnMut(&PageShared, &[u8], Option<&[u8]>, &mut Vec<String>);

struct Walk<'a> {
    leaf: CheckLeaf<'a>,
    seen: HashSet<Pid>,
    problems: Vec<String>,
}

impl Trunk {
    /// Calls `leaf` on every leaf from left to right, held shared, with its fences, and returns
    /// what is wrong with the inner nodes and what `leaf` added. For tests and `atoll check`: the
    /// tree must be at rest.
    pub fn check(&self, leaf: CheckLeaf<'_>) -> Outcome<Vec<String>> {
        let mut walk = Walk { leaf, seen: HashSet::new(), problems: Vec::new() };
        let root = PageShared::lock(self.root)?;
        self.root_level(&root.read())?;
        let level = KeyNode::new(OwnedPage(root.bytes())).level();
        if level == 0 {
            return Ok(vec!["the root is a leaf".to_owned()]);
        }
        self.check_node(&root, level, &[], None, &mut walk)?;
        Ok(walk.problems)
    }

    fn check_node(
        &self,
        page: &PageShared,
        level: u16,
        lower: &[u8],
        upper: Option<&[u8]>,
        walk: &mut Walk<'_>,
    ) -> Outcome<()> {
        let view = OwnedPage(page.bytes());
        let pid = header::pid(view);
        let kind = if level == 0 { self.leaf_kind } else { PageKind::Inner };
        if header::kind(view) != Some(kind) || header::tree(view) != self.tree {
            walk.problems.push(format!("page {pid} at level {level} is no {kind:?} of the tree"));
            return Ok(());
        }
        if !walk.seen.insert(pid) || page.frame().pid() != pid {
            walk.problems.push(format!("page {pid} has two parents or two frames"));
            return Ok(());
        }
        if level == 0 {
            (walk.leaf)(page, lower, upper, &mut walk.problems);
            return Ok(());
        }
        let node = KeyNode::new(view);
        let mut problems = keynode::check(page.bytes());
        if node.level() != level {
            problems.push(format!("level {} instead of {level}", node.level()));
        }
        problems.extend(fence_problems(page, lower, upper));
        let is_sound = problems.is_empty();
        walk.problems.extend(problems.into_iter().map(|text| format!("page {pid}: {text}")));
        // The children of a damaged node cannot be followed.
        if is_sound { self.check_children(page, level, upper, walk) } else { Ok(()) }
    }

    fn check_children(
        &self,
        page: &PageShared,
        level: u16,
        upper: Option<&[u8]>,
        walk: &mut Walk<'_>,
    ) -> Outcome<()> {
        let node = KeyNode::new(OwnedPage(page.bytes()));
        for at in 0..node.count() {
            let (mut from, mut to) = (Vec::new(), Vec::new());
            node.key(at, &mut from);
            let to = if at + 1 < node.count() {
                node.key(at + 1, &mut to);
                Some(to.as_slice())
            } else {
                upper
            };
            let child = PageShared::lock(page.read().child(node.swip_position(at))?)?;
            self.check_node(&child, level - 1, &from, to, walk)?;
        }
        Ok(())
    }

    /// Gives all pages back to the pool; `leaf` is called on each leaf first and must empty its
    /// side slot. Nobody uses the tree any more.
    pub fn free(&self, leaf: &mut dyn FnMut(&mut PageWrite)) -> Outcome<()> {
        self.free_below(self.root, leaf)
    }

    fn free_below(&self, frame: FrameRef, leaf: &mut dyn FnMut(&mut PageWrite)) -> Outcome<()> {
        let read = crate::buffer::PageRead::begin(frame)?;
        let mut children = Vec::new();
        let node = KeyNode::new(read.racy());
        if node.is_inner() {
            for at in 0..node.count() {
                children.push(read.child(node.swip_position(at))?);
            }
        }
        for child in &children {
            self.free_below(*child, leaf)?;
        }
        let mut page = PageWrite::lock(frame)?;
        if children.is_empty() {
            leaf(&mut page);
        }
        self.pool.free(page);
        Ok(())
    }
}

/// What is wrong with the fences of a key node whose parent says what they should be.
pub fn fence_problems(page: &PageShared, lower: &[u8], upper: Option<&[u8]>) -> Vec<String> {
    let node = KeyNode::new(OwnedPage(page.bytes()));
    let mut problems = Vec::new();
    let (mut own_lower, mut own_upper) = (Vec::new(), Vec::new());
    node.lower(&mut own_lower);
    let has_upper = node.upper(&mut own_upper) == UpperFence::Some;
    if own_lower != lower {
        problems.push(format!("lower fence {own_lower:02x?}, the parent says {lower:02x?}"));
    }
    if has_upper.then_some(own_upper.as_slice()) != upper {
        problems.push(format!("upper fence {own_upper:02x?}, the parent says {upper:02x?}"));
    }
    problems
}
