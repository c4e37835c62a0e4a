//! The structural check of one node (rule 9.7), also used by tests and `invariants`.
//!
//! Invariants checked: those of the module's header. Runs on owned pages only; never panics on
//! damage but reports it.

use crate::base::PAGE_BYTES;
use crate::latch::{OwnedPage, PageBytes};
use crate::page::header::{self, PageKind};

use super::{
    AT_COUNT, AT_DEAD, AT_HEAP, AT_HINTS, AT_LOWER, AT_PREFIX, AT_SLOTS, AT_UPPER, COUNT_MAX,
    HINTED_COUNT_MIN, HINTS, KeyNode, NO_UPPER, ROW_BYTES, SLOT_BYTES, common_prefix, head_of,
};

/// Says what is wrong with a key node; empty if nothing.
pub fn check(page: &[u8; PAGE_BYTES]) -> Vec<String> {
    let mut problems = Vec::new();
    let view = OwnedPage(page);
    if !matches!(header::kind(view), Some(PageKind::Inner | PageKind::IndexLeaf)) {
        return vec![format!("page kind {} is no key node", page[header::AT_KIND])];
    }
    let node = KeyNode::new(view);
    if (node.level() == 0) == node.is_inner() {
        problems.push(format!("level {} does not go with its kind", node.level()));
    }
    let count = view.u16(AT_COUNT) as usize;
    let heap = view.u16(AT_HEAP) as usize;
    if count > COUNT_MAX || AT_SLOTS + count * SLOT_BYTES > heap || heap > PAGE_BYTES {
        problems.push(format!("{count} slots and a heap from {heap} do not fit"));
        return problems;
    }
    if !extents_are_sound(view, count, heap, &mut problems) {
        return problems;
    }
    check_keys(&node, count, &mut problems);
    check_hints(view, count, &mut problems);
    problems
}

/// Whether fences and keys lie in the heap, apart, and fill it with the dead bytes.
fn extents_are_sound(
    view: OwnedPage<'_>,
    count: usize,
    heap: usize,
    problems: &mut Vec<String>,
) -> bool {
    let node = KeyNode::new(view);
    let mut extents = vec![(view.u16(AT_LOWER) as usize, view.u16(AT_LOWER + 2) as usize)];
    if view.u16(AT_UPPER + 2) != NO_UPPER {
        extents.push((view.u16(AT_UPPER) as usize, view.u16(AT_UPPER + 2) as usize));
    }
    extents.extend((0..count).map(|at| (node.slot(at).offset, node.heap_bytes(at))));
    let before = problems.len();
    let mut used = 0;
    extents.retain(|(_, len)| *len > 0);
    extents.sort_unstable();
    let mut end = heap;
    for (at, len) in extents {
        if at < end || at + len > PAGE_BYTES {
            problems.push(format!("{len} bytes at {at} are not in the heap or overlap"));
        }
        end = at + len;
        used += len;
    }
    let dead = view.u16(AT_DEAD) as usize;
    if used + dead != PAGE_BYTES - heap {
        problems.push(format!("{used} bytes used and {dead} dead do not make the heap"));
    }
    problems.len() == before
}

fn check_keys(node: &KeyNode<OwnedPage<'_>>, count: usize, problems: &mut Vec<String>) {
    let view = node.page;
    let (mut lower, mut upper) = (Vec::new(), Vec::new());
    node.lower(&mut lower);
    let has_upper = node.upper(&mut upper) == super::UpperFence::Some;
    if has_upper && lower >= upper {
        problems.push(format!("fences {lower:02x?} and {upper:02x?} are out of order"));
    }
    let prefix = if has_upper { common_prefix(&lower, &upper) } else { 0 };
    if view.u16(AT_PREFIX) as usize != prefix {
        problems.push(format!("prefix of {} instead of {prefix}", view.u16(AT_PREFIX)));
        return;
    }
    let mut previous: Option<Vec<u8>> = None;
    for at in 0..count {
        let mut key = Vec::new();
        node.key(at, &mut key);
        if node.slot_head(at) != head_of(&key[prefix..], 0) {
            problems.push(format!("slot {at} has another head than its key {key:02x?}"));
        }
        if key < lower || has_upper && key >= upper {
            problems.push(format!("key {key:02x?} in slot {at} is outside the fences"));
        }
        if previous.as_ref().is_some_and(|previous| *previous >= key) {
            problems.push(format!("slot {at} is not above the one before"));
        }
        if node.is_inner() && at == 0 && key != lower {
            problems.push("the first child does not begin at the lower fence".to_owned());
        }
        if !node.is_inner() && key.len() < ROW_BYTES {
            problems.push(format!("slot {at} has no row id"));
        }
        previous = Some(key);
    }
    if node.is_inner() && count == 0 {
        problems.push("an inner node without children".to_owned());
    }
}

fn check_hints(view: OwnedPage<'_>, count: usize, problems: &mut Vec<String>) {
    for hint in 1..=HINTS {
        let stored = view.u32(AT_HINTS + 4 * (hint - 1));
        let distance = count / (HINTS + 1);
        let expected = if count < HINTED_COUNT_MIN {
            0
        } else {
            view.u32(AT_SLOTS + hint * distance * SLOT_BYTES)
        };
        if stored != expected {
            problems.push(format!("hint {hint} is {stored:#x} instead of {expected:#x}"));
        }
    }
}
