//! Inner nodes leave memory after their children, and come back (rule 4.4).
//!
//! A child that is out is named by its place, so an inner node with no child in memory says nothing but
//! places: its page can be written as it is and read again by anybody. It leaves like a leaf: through its
//! parent's swip, written out of place if it has changed. A root stays: its tree names its frame.
//!
//! Invariants:
//! - What is written of an inner node has places for children and nothing else; what is loaded is looked
//!   at for that, and for its tree, level and fences, before anybody follows it. Both are checked in every build: a
//!   frame's address that came back from disk would be followed blindly, and an older node of the same tree would
//!   lead to places that are others' now.
//! - So an inner node that is clean has no child in memory: a child that comes changes the swip, and with
//!   it the version. (Inner nodes of checkpoints that are read are never written; without a child they are
//!   as they were.) And while a page is in memory so is every node above it: a descent misses from some
//!   level on downwards, and what has been loaded of a path keeps what is above it.
//! - A node stays while a leaf below it is out whose twin table is parked. A rollback needs leaves with
//!   own changes, which have twins: the nodes above them have been in memory since the change, so it needs
//!   the leaf and nothing else, and frames for one page at a time are enough for it (`surely.rs`). Rows that
//!   were frozen as they were put have no twin: their rollback may need a whole path, one page after the
//!   other, as other steps do.
//! - Who needs a page names its parent by a frame, which may hold another page when the page comes. The
//!   swip is looked for in whatever page is there then, and that is right: a swip that names a place
//!   is in one node of one living tree (and in a checkpoint's, whose places stay what they are), and whoever
//!   has it is the parent of what lies there. What was read is what lies there: nothing is evicted to a
//!   place while anybody loads from it, so a swip that names the place is older than the load, or came
//!   back since in a node that was evicted with it; all that time the page was out, and nobody wrote there.
//!   (What a task reads while a thread takes its load over is not believed: rule 9.) If the node has left
//!   as well, the page comes to nowhere, and whoever needs it descends again.
//!
//! Heat: a look-up that finds its leaf does not touch the nodes above it, and they could not leave anyway.
//! A node is used when a child of it is missing; it is spared then, and when a child leaves. One node leads
//! to some hundred leaves, so it is needed again sooner than any of these.

use super::guard::{PageRead, PageWrite};
use super::pool::BufferPool;
use super::swip::Swip;
use crate::base::{Error, PAGE_BYTES, Place, Result, RowId};
use crate::latch::{OwnedPage, PageBytes};
use crate::page::keynode::{KeyNode, UpperFence};
use crate::page::{PageKind, header, rowleaf};
use crate::sync::mutant;

/// Whether an inner node has no child in memory. To be believed if what was read validates.
fn has_places_only(page: impl PageBytes) -> bool {
    let node = KeyNode::new(page);
    let is_out = |at| Swip::place_on_disk(page.u64(node.swip_position(at))).is_some();
    (0..node.count()).all(is_out)
}

/// Panics if the page is an inner node that must not be written: with a child in memory.
pub(super) fn assert_writable(page: &[u8; PAGE_BYTES]) {
    let view = OwnedPage(page);
    if header::kind(view) == Some(PageKind::Inner) {
        let tree = header::tree(view);
        assert!(has_places_only(view), "a node of tree {tree} is written with children in memory");
        assert!(!tree.is_view(), "a node of a checkpoint is written");
    }
}

/// Where a page that may leave memory lies as it is. To be believed if the read validates.
pub(super) fn place_of(read: &PageRead) -> Option<Place> {
    let page = read.racy();
    if header::kind(page) == Some(PageKind::Inner) && header::tree(page).is_view() {
        return has_places_only(page).then(|| read.frame().place());
    }
    read.clean_place()
}

/// Whether what was read of the child whose swip is at byte `at` of `parent` is what that says: a page of its
/// tree, a level below, with the fences that it has for it. `Corrupt`.
pub(super) fn check_child(
    parent: &PageWrite,
    at: usize,
    contents: &[u8; PAGE_BYTES],
) -> Result<()> {
    let (above, view) = (parent.owned(), OwnedPage(contents));
    let (node, kind) = (KeyNode::new(above), header::kind(view));
    let (level, tree) = (node.level(), header::tree(above));
    let is_of_tree = tree.is_view() || header::tree(view) == tree;
    let is_of_level = match kind {
        Some(PageKind::Inner) => {
            let child = KeyNode::new(view);
            child.level() + 1 == level && child.count() > 0 && has_places_only(view)
        }
        Some(PageKind::TableLeaf | PageKind::IndexLeaf) => level == 1,
        _ => false,
    };
    let is_right = is_of_tree && is_of_level && fences(view, kind) == fences_of_child(&node, at);
    if is_right || mutant("loaded-page-unchecked") {
        return Ok(());
    }
    let found = header::tree(view);
    let detail = format!(
        "a {kind:?} of tree {found} lies where a page below level {level} of tree {tree} should be, or one with \
         other keys"
    );
    Err(Error::Corrupt { page: None, detail })
}

/// A lower fence, empty before every key, and an upper one if there is one.
type Fences = (Vec<u8>, Option<Vec<u8>>);

/// Those of a page, as its parent has them.
fn fences(page: OwnedPage<'_>, kind: Option<PageKind>) -> Fences {
    if kind == Some(PageKind::TableLeaf) {
        let key = |row: RowId| row.0.to_be_bytes().to_vec();
        let (first, upper) = rowleaf::fences(page);
        let lower = if first == RowId(0) { Vec::new() } else { key(first) };
        return (lower, upper.map(key));
    }
    let (node, mut lower, mut upper) = (KeyNode::new(page), Vec::new(), Vec::new());
    node.lower(&mut lower);
    let has_upper = node.upper(&mut upper) == UpperFence::Some;
    (lower, has_upper.then_some(upper))
}

/// Those of the child whose swip is at byte `swip`.
fn fences_of_child(node: &KeyNode<OwnedPage<'_>>, swip: usize) -> Fences {
    let at = (0..node.count()).find(|at| node.swip_position(*at) == swip).unwrap_or(0);
    let (mut lower, mut upper) = (Vec::new(), Vec::new());
    let has_upper = node.child_fences(at, &mut lower, &mut upper) == UpperFence::Some;
    (lower, has_upper.then_some(upper))
}

impl BufferPool {
    /// Whether an inner node, which is no root, may leave memory. To be believed if the read validates.
    pub(super) fn may_node_leave(&self, read: &PageRead) -> bool {
        let page = read.racy();
        if !has_places_only(page) && !mutant("node-evicted-with-children") {
            return false;
        }
        if header::tree(page).is_view() {
            return true;
        }
        let node = KeyNode::new(page);
        let Some(sides) = self.sides().filter(|_| node.level() == 1) else { return true };
        let mut places = (0..node.count())
            .filter_map(|at| Swip::place_on_disk(page.u64(node.swip_position(at))));
        let has_twin = places.any(|place| sides.is_parked(place));
        if has_twin {
            // It takes a look at many places to see that.
            read.frame().spare();
        }
        !has_twin || mutant("node-leaves-with-twins-below")
    }
}
