//! Walks over all pages of a tree: the structural check, and giving the pages back.
//!
//! Invariants: the check holds shared latches from the root down to the page that it looks at, or to the
//! last one above it that is in memory, so
//! it changes nothing; freeing is for a tree that nobody uses any more. What is below an inner node that is
//! not in memory is not either, as long as the page above is held: it is read where it lies.

use std::collections::HashSet;

use crate::base::{Error, Outcome, PAGE_BYTES, Pid, Place, Result, Stop};
use crate::buffer::{FrameRef, PageRead, PageShared, PageWrite, Swip};
use crate::io::IoBuffer;
use crate::latch::{OwnedPage, PageBytes};
use crate::page::keynode::{self, KeyNode, UpperFence};
use crate::page::{PageKind, header};
use crate::sync::{mutant, spin};

use super::Trunk;

type Page = [u8; PAGE_BYTES];

/// What the check calls on each leaf: the leaf, its lower fence, its upper fence if there is one,
/// and the list of problems to add to.
pub type CheckLeaf<'a> = &'a mut dyn FnMut(&Page, &[u8], Option<&[u8]>, &mut Vec<String>);

/// Whether whoever frees a tree must see its leaves that are not in memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum FreedLeaves {
    /// They are read.
    Seen,
    /// Their places are given back, and that is all.
    Unseen,
}

/// Told of each leaf that is given back.
type LeafFreed<'a> = &'a mut dyn FnMut(&Page, Option<FrameRef>);

struct Walk<'a> {
    leaf: CheckLeaf<'a>,
    seen: HashSet<Pid>,
    problems: Vec<String>,
}

impl Trunk {
    /// Calls `leaf` on every leaf from left to right, held shared or as it lies on disk, with its
    /// fences, and returns
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
        self.check_node((root.bytes(), Some(root.frame())), level, &[], None, &mut walk)?;
        Ok(walk.problems)
    }

    fn check_node(
        &self,
        (page, frame): (&Page, Option<FrameRef>),
        level: u16,
        lower: &[u8],
        upper: Option<&[u8]>,
        walk: &mut Walk<'_>,
    ) -> Outcome<()> {
        let view = OwnedPage(page);
        let pid = header::pid(view);
        let kind = if level == 0 { self.leaf_kind } else { PageKind::Inner };
        if header::kind(view) != Some(kind) || header::tree(view) != self.tree {
            walk.problems.push(format!("page {pid} at level {level} is no {kind:?} of the tree"));
            return Ok(());
        }
        // What is not in memory has no PID now.
        if frame.is_some_and(|frame| !walk.seen.insert(pid) || frame.pid() != pid) {
            walk.problems.push(format!("page {pid} has two parents or two frames"));
            return Ok(());
        }
        if level == 0 {
            (walk.leaf)(page, lower, upper, &mut walk.problems);
            return Ok(());
        }
        let node = KeyNode::new(view);
        let mut problems = keynode::check(page);
        if node.level() != level {
            problems.push(format!("level {} instead of {level}", node.level()));
        }
        problems.extend(fence_problems(page, lower, upper));
        let is_sound = problems.is_empty();
        walk.problems.extend(problems.into_iter().map(|text| format!("page {pid}: {text}")));
        // The children of a damaged node cannot be followed.
        if is_sound { self.check_children((page, frame), level, upper, walk) } else { Ok(()) }
    }

    fn check_children(
        &self,
        (page, frame): (&Page, Option<FrameRef>),
        level: u16,
        upper: Option<&[u8]>,
        walk: &mut Walk<'_>,
    ) -> Outcome<()> {
        let view = OwnedPage(page);
        let node = KeyNode::new(view);
        // Held shared by the caller, so this is its version.
        let read = frame.map(PageRead::begin_cold).transpose()?;
        for at in 0..node.count() {
            let (mut from, mut to) = (Vec::new(), Vec::new());
            node.key(at, &mut from);
            let to = if at + 1 < node.count() {
                node.key(at + 1, &mut to);
                Some(to.as_slice())
            } else {
                upper
            };
            match self.child_of(read.as_ref(), view, node.swip_position(at))? {
                Child::Here(child) => {
                    let child = PageShared::lock(child)?;
                    let page = (child.bytes(), Some(child.frame()));
                    self.check_node(page, level - 1, &from, to, walk)?;
                }
                Child::OnDisk(place) => {
                    let copy = self.read_on_disk(place)?;
                    self.check_node((&copy, None), level - 1, &from, to, walk)?;
                }
            }
        }
        Ok(())
    }

    /// The child whose swip is at byte `at` of a sound inner node: one in memory, which is read, or one on
    /// disk, of which `view` is a copy.
    fn child_of(&self, read: Option<&PageRead>, view: OwnedPage<'_>, at: usize) -> Outcome<Child> {
        match read.map(|read| read.child(at)) {
            Some(Ok(child)) => Ok(Child::Here(child)),
            Some(Err(Stop::NeedPage(needed))) => Ok(Child::OnDisk(needed.place)),
            Some(Err(stop)) => Err(stop),
            None => match Swip::place_on_disk(view.u64(at)) {
                Some(place) => Ok(Child::OnDisk(place)),
                None => {
                    let detail = format!("a node of tree {} on disk names a frame", self.tree);
                    Err(Error::Corrupt { page: None, detail }.into())
                }
            },
        }
    }

    /// A page that is not in memory, as it lies on disk. Blocks.
    fn read_on_disk(&self, place: Place) -> Result<Box<Page>> {
        let detail = || format!("page {place} of tree {} is on no disk", self.tree);
        let store = self.pool.store().ok_or_else(|| Error::Internal { detail: detail() })?;
        let mut buffer = IoBuffer::zeroed(PAGE_BYTES);
        store.read(place, &mut buffer)?;
        let page: &Page = buffer.first_chunk().expect("a buffer of a page");
        Ok(Box::new(*page))
    }

    /// The places of the children of an inner node on disk, which is at `place` and should be at `level`.
    /// Blocks. `Corrupt`, `Io`.
    fn children_on_disk(&self, place: Place, level: u16) -> Result<Vec<Place>> {
        let page = self.read_on_disk(place)?;
        let view = OwnedPage(&page);
        let node = KeyNode::new(view);
        let is_node = header::kind(view) == Some(PageKind::Inner)
            && header::tree(view) == self.tree
            && node.level() == level;
        let children =
            (0..node.count()).map(|at| Swip::place_on_disk(view.u64(node.swip_position(at))));
        let children: Option<Vec<_>> = if is_node { children.collect() } else { None };
        children.ok_or_else(|| {
            let detail =
                format!("at {place} lies no inner node of level {level} of tree {}", self.tree);
            Error::Corrupt { page: None, detail }
        })
    }

    /// Gives all pages and places back to the pool; `leaf` is called on each leaf first, with its
    /// frame if it is in memory (else if they are to be `seen`), and must empty its side slot. Nobody
    /// uses the tree any more but the page provider. Blocks if leaves are read, or inner nodes, which are
    /// if they are not in memory.
    pub fn free(&self, seen: FreedLeaves, leaf: LeafFreed<'_>) -> Result<()> {
        self.give_back(self.root, &mut |page| match page {
            GivenBack::Frame(page, Kind::Leaf) => {
                leaf(page.bytes(), Some(page.frame()));
                self.pool.free(page);
                Ok(())
            }
            GivenBack::Frame(page, Kind::Inner) => {
                self.pool.free(page);
                Ok(())
            }
            GivenBack::Place(place, level) => self.free_on_disk(place, level, (seen, leaf)),
        })
    }

    /// Gives the place of a page that is not in memory back, and the places below it.
    fn free_on_disk(
        &self,
        place: Place,
        level: u16,
        (seen, leaf): (FreedLeaves, LeafFreed<'_>),
    ) -> Result<()> {
        if level > 0 {
            let children = self.children_on_disk(place, level)?;
            let below = if mutant("places-below-a-node-lost") { Vec::new() } else { children };
            for child in below {
                self.free_on_disk(child, level - 1, (seen, &mut *leaf))?;
            }
        } else {
            if seen == FreedLeaves::Seen {
                leaf(&*self.read_on_disk(place)?, None);
            }
            if let Some(sides) = self.pool.sides() {
                sides.dropped(place);
            }
        }
        if let Some(store) = self.pool.store() {
            store.replaced(place);
        }
        Ok(())
    }

    /// Gives the frames of a tree that never changed back to the pool; its places are others'. Nobody
    /// uses the tree any more but the page provider.
    pub fn forget(&self) {
        // Nothing here can fail.
        let _ = self.give_back(self.root, &mut |page| {
            if let GivenBack::Frame(page, _) = page {
                self.pool.forget(page);
            }
            Ok(())
        });
    }

    /// Calls `give` on each page in memory and on each place below one, children first. A node is held
    /// while its children are looked at,
    /// so that none is evicted and none loaded meanwhile.
    fn give_back(
        &self,
        frame: FrameRef,
        give: &mut dyn FnMut(GivenBack) -> Result<()>,
    ) -> Result<()> {
        let page = loop {
            match PageWrite::lock(frame) {
                Ok(page) => break page,
                Err(_) => spin(),
            }
        };
        let node = KeyNode::new(page.owned());
        if header::kind(page.owned()) != Some(PageKind::Inner) {
            return give(GivenBack::Frame(page, Kind::Leaf));
        }
        let below = node.level() - 1;
        let children = (0..node.count()).map(|at| page.child(node.swip_position(at)));
        for child in children.collect::<Vec<_>>() {
            match child {
                Ok(child) => self.give_back(child, give)?,
                Err(Stop::NeedPage(needed)) => give(GivenBack::Place(needed.place, below))?,
                Err(stop) => {
                    let detail = format!("giving tree {} back: {stop:?}", self.tree);
                    return Err(Error::Internal { detail });
                }
            }
        }
        give(GivenBack::Frame(page, Kind::Inner))
    }
}

/// Where a child is.
enum Child {
    Here(FrameRef),
    OnDisk(Place),
}

/// A page of a tree that is given back.
enum GivenBack {
    /// It is in memory, and held.
    Frame(PageWrite, Kind),
    /// It is not: where it lies, and its level.
    Place(Place, u16),
}

/// What page it is.
enum Kind {
    Inner,
    Leaf,
}

/// What is wrong with the fences of a key node whose parent says what they should be.
pub fn fence_problems(page: &[u8; PAGE_BYTES], lower: &[u8], upper: Option<&[u8]>) -> Vec<String> {
    let node = KeyNode::new(OwnedPage(page));
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
