//! Two neighbouring nodes become one.
//!
//! Invariants: all or nothing; the left node then has the keys of both, its own lower fence and
//! the right one's upper fence, and is *exact* or *keyed* if both were. It keeps an eighth of a page free, so
//! that the next insertion does not split it again.

use crate::base::PAGE_BYTES;
use crate::latch::{OwnedPage, PageBytes};
use crate::page::header;

use super::change::{append, finish, format_node, lower_slice, room, upper_slice};
use super::{KeyNode, SPACE_BYTES};

/// Whether so little is in a node that it should be merged with a neighbour.
pub fn is_underfull(page: &[u8; PAGE_BYTES]) -> bool {
    room(page) > SPACE_BYTES / 4 * 3
}

/// Moves the keys of `right`, which begins where `left` ends, into `left`; false, and nothing is
/// changed, if they do not fit.
pub fn merge(left: &mut [u8; PAGE_BYTES], right: &[u8; PAGE_BYTES]) -> bool {
    let mut merged = Box::new(*left);
    let level = KeyNode::new(OwnedPage(left)).level();
    merged[header::AT_FLAGS] = left[header::AT_FLAGS] & right[header::AT_FLAGS];
    format_node(&mut merged, level, lower_slice(left), upper_slice(right));
    let mut key = Vec::new();
    for source in [&*left, right] {
        let node = KeyNode::new(OwnedPage(source));
        for at in 0..node.count() {
            key.clear();
            node.key(at, &mut key);
            let swip =
                if node.is_inner() { OwnedPage(source).u64(node.swip_position(at)) } else { 0 };
            if append(&mut merged, &key, swip).is_err() {
                return false;
            }
        }
    }
    finish(&mut merged);
    if room(&merged) < SPACE_BYTES / 8 {
        return false;
    }
    *left = *merged;
    true
}
