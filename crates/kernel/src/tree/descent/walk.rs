//! Walks over all pages of a tree: the structural check, and giving the pages back.
//!
//! Invariants: the check holds shared latches from the root down to the page that it looks at, or to the
//! last one above it that is in memory, so it changes nothing; it waits for each latch as long as it takes,
//! for others wait for one that it has for a while only. Freeing is for a tree that nobody uses any more. What is
//! below an inner node that is not in memory is not either, as long as the page above is held: it is read where
//! it lies.
//! A page that cannot be read, or is not what its parent says, is one problem, which names it: the check passes
//! over what is in and below it, counts it, and goes on behind it.

use std::collections::HashSet;

use crate::base::{Error, HomeId, Outcome, PAGE_BYTES, Pid, Place, Result, Stop};
use crate::buffer::{FrameRef, PageRead, PageShared, PageWrite, Swip};
use crate::io::IoBuffer;
use crate::latch::{OwnedPage, PageBytes};
use crate::page::keynode::{self, KeyNode, UpperFence};
use crate::page::{PageKind, header};
use crate::store::file_name;
use crate::sync::{mutant, spin_to_retry};

use super::Trunk;

type Page = [u8; PAGE_BYTES];

/// Problems after which a walk pauses, so that they do not pile up: a file that is cut short is millions.
const PROBLEMS_AT_ONCE: usize = 1000;
/// Faults of one page that are told.
const FAULTS_TOLD: usize = 4;

/// What the check calls on each leaf: the leaf, its lower fence, its upper fence if there is one,
/// and the list of problems to add to.
pub type CheckLeaf<'a> = &'a mut dyn FnMut(&Page, &[u8], Option<&[u8]>, &mut Vec<String>);

/// What a walk calls on each leaf, with the list of problems to add to.
pub type MeetLeaf<'a> = &'a mut dyn FnMut(&MetLeaf<'_>, &mut Vec<String>) -> Onward;

/// A leaf as a walk meets it.
pub struct MetLeaf<'p> {
    /// Its bytes, held shared or as they lie on disk.
    pub page: &'p [u8; PAGE_BYTES],
    /// Its lower fence, as its parent has it.
    pub lower: &'p [u8],
    /// Its upper fence, if there is one.
    pub upper: Option<&'p [u8]>,
}

/// Whether a walk goes on to the next leaf.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Onward {
    /// It does.
    Go,
    /// It lets all latches go first: whoever walks has something to do that wants none held.
    Pause,
}

/// What a walk found.
#[derive(Debug, Default)]
pub struct Walked {
    /// What is wrong, a sentence each.
    pub problems: Vec<String>,
    /// Pages that could not be read or followed: what is in and below them was not met.
    pub passed_over: u64,
    /// Where the next leaf begins, if the walk paused before it.
    pub next: Option<Vec<u8>>,
}

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

/// A page's lower fence, and its upper one if there is one.
type Fences<'f> = (&'f [u8], Option<&'f [u8]>);

struct Walk<'f, 'l> {
    /// Leaves that end at or before it are left out.
    from: &'f [u8],
    leaf: MeetLeaf<'l>,
    seen: HashSet<Pid>,
    /// Homes of whose files was said that nothing can be read.
    unreadable: Vec<HomeId>,
    walked: Walked,
    onward: Onward,
}

impl Walk<'_, '_> {
    fn is_paused(&self) -> bool {
        self.onward == Onward::Pause || self.walked.problems.len() >= PROBLEMS_AT_ONCE
    }

    /// A page of `level` is passed over, and what is below it.
    fn pass_over(&mut self, level: u16, wrong: &str) {
        self.walked.passed_over += 1;
        self.walked.problems.push(match level {
            0 => wrong.to_owned(),
            _ => format!("{wrong}; what is below this inner node of level {level} was passed over"),
        });
    }

    /// The page at `place` cannot be read. An error that says nothing of the page is passed on.
    fn unread(&mut self, place: Place, level: u16, error: Error) -> Result<()> {
        let wrong = unread_page(place, error)?;
        if wrong.starts_with(&place_name(place)) {
            self.pass_over(level, &wrong);
            return Ok(());
        }
        // It is the whole file's fault, which is said once.
        self.walked.passed_over += 1;
        if !self.unreadable.contains(&place.home()) {
            self.unreadable.push(place.home());
            self.walked.problems.push(format!("{wrong}: its pages were passed over"));
        }
        Ok(())
    }
}

impl Trunk {
    /// Calls `leaf` on every leaf from left to right, held shared or as it lies on disk, with its
    /// fences, and returns
    /// what is wrong with the inner nodes and what `leaf` added. For tests: the
    /// tree must be at rest.
    pub fn check(&self, leaf: CheckLeaf<'_>) -> Outcome<Vec<String>> {
        let mut problems = Vec::new();
        let mut from: Option<Vec<u8>> = Some(Vec::new());
        while let Some(start) = from {
            let part = self.walk(&start, &mut |met, problems| {
                leaf(met.page, met.lower, met.upper, problems);
                Onward::Go
            })?;
            problems.extend(part.problems);
            from = part.next;
        }
        Ok(problems)
    }

    /// Calls `leaf` on every leaf from the one that covers `from` on, from left to right, until it wants a
    /// pause or there have been many problems; `from` is empty, or where an earlier walk paused. The tree must be
    /// at rest, but leaves may be merged while a walk pauses: then entries before `from` are met again. Stops:
    /// errors that are no damage.
    pub fn walk(&self, from: &[u8], leaf: MeetLeaf<'_>) -> Outcome<Walked> {
        let (seen, unreadable) = (HashSet::new(), Vec::new());
        let (walked, onward) = (Walked::default(), Onward::Go);
        let mut walk = Walk { from, leaf, seen, unreadable, walked, onward };
        let root = lock_shared(self.root);
        self.root_level(&root.read())?;
        let level = KeyNode::new(OwnedPage(root.bytes())).level();
        if level == 0 {
            walk.pass_over(level, "the root is a leaf");
            return Ok(walk.walked);
        }
        self.check_node((root.bytes(), Some(root.frame())), level, (&[], None), &mut walk)?;
        Ok(walk.walked)
    }

    fn check_node(
        &self,
        (page, frame): (&Page, Option<FrameRef>),
        level: u16,
        (lower, upper): Fences<'_>,
        walk: &mut Walk<'_, '_>,
    ) -> Outcome<()> {
        let view = OwnedPage(page);
        let kind = if level == 0 { self.leaf_kind } else { PageKind::Inner };
        if header::kind(view) != Some(kind) || header::tree(view) != self.tree {
            let wrong = format!("it is no {kind:?} of tree {}", self.tree);
            walk.pass_over(level, &page_problem(view, &[wrong]));
            return Ok(());
        }
        let pid = header::pid(view);
        // What is not in memory has no PID now.
        if frame.is_some_and(|frame| !walk.seen.insert(pid) || frame.pid() != pid) {
            let wrong = "it has two parents or two frames".to_owned();
            walk.pass_over(level, &page_problem(view, &[wrong]));
            return Ok(());
        }
        if level == 0 {
            let met = MetLeaf { page, lower, upper };
            walk.onward = (walk.leaf)(&met, &mut walk.walked.problems);
            return Ok(());
        }
        let mut faults = keynode::check(page);
        let own = KeyNode::new(view).level();
        if own != level {
            faults.push(format!("level {own} instead of {level}"));
        }
        faults.extend(fence_problems(page, lower, upper));
        if !faults.is_empty() {
            // The children of a damaged node cannot be followed.
            walk.pass_over(level, &page_problem(view, &faults));
            return Ok(());
        }
        self.check_children((page, frame), level, upper, walk)
    }

    fn check_children(
        &self,
        (page, frame): (&Page, Option<FrameRef>),
        level: u16,
        upper: Option<&[u8]>,
        walk: &mut Walk<'_, '_>,
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
            if to.is_some_and(|to| to <= walk.from) {
                continue;
            }
            let child = child_of(read.as_ref(), view, node.swip_position(at))?;
            self.check_child(child, view, (level - 1, (&from, to)), walk)?;
            if walk.is_paused() {
                // A node further down may have said so already, as exactly as this one.
                if walk.walked.next.is_none() {
                    walk.walked.next = to.map(<[u8]>::to_vec);
                }
                return Ok(());
            }
        }
        Ok(())
    }

    fn check_child(
        &self,
        child: Child,
        parent: OwnedPage<'_>,
        (level, fences): (u16, Fences<'_>),
        walk: &mut Walk<'_, '_>,
    ) -> Outcome<()> {
        match child {
            Child::Here(child) => {
                let child = lock_shared(child);
                self.check_node((child.bytes(), Some(child.frame())), level, fences, walk)
            }
            Child::OnDisk(place) => match self.read_on_disk(place) {
                Ok(copy) => self.check_node((&copy, None), level, fences, walk),
                Err(error) => walk.unread(place, level, error).map_err(Stop::from),
            },
            Child::Nowhere => {
                let wrong = "it lies on disk and names a child in memory".to_owned();
                walk.pass_over(level + 1, &page_problem(parent, &[wrong]));
                Ok(())
            }
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
    /// if they are not in memory. One that cannot be read is told to the pool: its own place is given back, and what it
    /// leads to stays in use until a start, which finds that no tree has it.
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
            let children = self.pool.or_unread(self.children_on_disk(place, level))?;
            let children = children.unwrap_or_default();
            let below = if mutant("places-below-a-node-lost") { Vec::new() } else { children };
            for child in below {
                self.free_on_disk(child, level - 1, (seen, &mut *leaf))?;
            }
        } else {
            if seen == FreedLeaves::Seen
                && let Some(page) = self.pool.or_unread(self.read_on_disk(place))?
            {
                leaf(&page, None);
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
                Err(_) => spin_to_retry(),
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
    /// Its parent, which is not in memory, says what only one in memory may say.
    Nowhere,
}

/// The child whose swip is at byte `at` of a sound inner node: one in memory, which is read, or one on
/// disk, of which `view` is a copy.
fn child_of(read: Option<&PageRead>, view: OwnedPage<'_>, at: usize) -> Outcome<Child> {
    match read.map(|read| read.child(at)) {
        Some(Ok(child)) => Ok(Child::Here(child)),
        Some(Err(Stop::NeedPage(needed))) => Ok(Child::OnDisk(needed.place)),
        Some(Err(stop)) => Err(stop),
        None => Ok(Swip::place_on_disk(view.u64(at)).map_or(Child::Nowhere, Child::OnDisk)),
    }
}

/// Takes a page shared, however long that takes.
fn lock_shared(frame: FrameRef) -> PageShared {
    loop {
        match PageShared::lock(frame) {
            Ok(page) => return page,
            Err(_) => spin_to_retry(),
        }
    }
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

/// A place, for people: file and page.
pub fn place_name(place: Place) -> String {
    format!("\"{}\", page {}", file_name(place.home()), place.number())
}

/// A page, for people: where it lies if it was read there, else its number in memory.
pub fn page_name(page: OwnedPage<'_>) -> String {
    let place = Place(page.u64(header::AT_PLACE));
    if !place.is_none() {
        return place_name(place);
    }
    let pid = header::pid(page);
    format!("page {} of home {}, in memory", pid.number(), pid.home())
}

/// One line for all that is wrong with a page.
pub fn page_problem(page: OwnedPage<'_>, faults: &[String]) -> String {
    let (told, others) = faults.split_at(faults.len().min(FAULTS_TOLD));
    let more = match others.len() {
        0 => String::new(),
        more => format!("; and {more} more faults"),
    };
    format!("{}: {}{more}", page_name(page), told.join("; "))
}

/// Why the page at `place` cannot be read: begins with its name, or with that of its file if that is at fault.
/// Any other error is answered as it is.
pub fn unread_page(place: Place, error: Error) -> Result<String> {
    let file = format!("\"{}\"", file_name(place.home()));
    match &error {
        Error::Corrupt { detail, .. } | Error::Unusable { detail } if detail.starts_with(&file) => {
            Ok(detail.clone())
        }
        Error::Corrupt { .. } | Error::Unusable { .. } | Error::Io { .. } => {
            Ok(format!("{}: {error}", place_name(place)))
        }
        _ => Err(error),
    }
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
