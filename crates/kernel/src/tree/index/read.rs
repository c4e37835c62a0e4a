//! Point look-ups and scans.
//!
//! Invariants: nothing is written to shared memory; what is returned comes from leaves that
//! validated. A scan moves from leaf to leaf by the fence key (rule 5.1): an entry that is there
//! all the while is in the range of exactly one of the leaves that are read, however they split
//! in between, so it is met exactly once.

use std::ops::Bound;

use crate::base::{Outcome, RowId};
use crate::buffer::PageRead;
use crate::page::header;
use crate::page::keynode::{Edge, KeyNode, Probe, UpperFence};
use crate::sync::mutant;

use super::batch::{Continue, IndexBatch, ScanDirection, Source};
use super::{IndexTree, Keyed, Near};
use crate::tree::descent::Side;

/// The place where a range begins.
fn low_place(from: Bound<&[u8]>) -> Probe<'_> {
    match from {
        Bound::Included(key) => Probe::before(key),
        Bound::Excluded(key) => Probe::after(key),
        Bound::Unbounded => Probe::MIN,
    }
}

/// The place where a range ends.
fn high_place(to: Bound<&[u8]>) -> Probe<'_> {
    match to {
        Bound::Included(key) => Probe::after(key),
        Bound::Excluded(key) => Probe::before(key),
        Bound::Unbounded => Probe::MAX,
    }
}

/// Whether place `a` comes before place `b`.
fn is_before(a: Probe<'_>, b: Probe<'_>) -> bool {
    if a.bytes == b.bytes {
        a.edge == Edge::Before && b.edge == Edge::After
    } else if b.bytes.starts_with(a.bytes) {
        a.edge == Edge::Before
    } else if a.bytes.starts_with(b.bytes) {
        b.edge == Edge::After
    } else {
        a.bytes < b.bytes
    }
}

impl IndexTree {
    /// Appends the rows of all entries whose key begins with `key` (a whole key, or its first
    /// columns) in entry order. On `Err` nothing was appended. Answers whether all of them are in
    /// keyed leaves (rule 5.7); no, if they may be in several.
    #[inline]
    pub fn point(&self, near: Near<'_>, key: &[u8], out: &mut Vec<RowId>) -> Outcome<Keyed> {
        let start = out.len();
        let mut keyed = Keyed::No;
        let read = self.read_leaf_of(near, key, |leaf| {
            out.truncate(start);
            keyed = Keyed::by_bit(KeyNode::new(leaf.racy()).is_keyed());
            Ok(rows_with(leaf, Probe::before(key), key, out))
        });
        match read {
            Ok(None) => Ok(keyed),
            Ok(Some(fence)) => {
                self.point_on(key, fence, start, out)?;
                Ok(Keyed::No)
            }
            Err(stop) => {
                out.truncate(start);
                Err(stop)
            }
        }
    }

    /// The row of the first entry whose key is `key`, or begins with it, if that is in the leaf where
    /// such entries begin: for what is fetched ahead.
    pub fn first(&self, near: Near<'_>, key: &[u8]) -> Outcome<Option<RowId>> {
        self.read_leaf_of(near, key, |leaf| {
            let node = KeyNode::new(leaf.racy());
            let at = node.place(Probe::before(key));
            Ok((at < node.count() && node.begins_with(at, key)).then(|| node.row(at)))
        })
    }

    /// The key's entries may go on in the leaf that begins at `fence`.
    #[cold]
    fn point_on(
        &self,
        key: &[u8],
        mut fence: Vec<u8>,
        start: usize,
        out: &mut Vec<RowId>,
    ) -> Outcome<()> {
        loop {
            let before = out.len();
            let place = Probe::before(&fence);
            let read = self.trunk.read_leaf(place, Side::At, |leaf| {
                out.truncate(before);
                Ok(rows_with(leaf, place, key, out))
            });
            match read {
                Ok(None) => return Ok(()),
                Ok(Some(next)) => fence = next,
                Err(stop) => {
                    out.truncate(start);
                    return Err(stop);
                }
            }
        }
    }

    /// Replaces `batch` by the next entries within the bounds and says where to go on, or `None`
    /// at the end. A batch may be empty though the scan goes on. Bounds are keys or prefixes of
    /// keys: `Included(p)` takes in all that begin with p, `Excluded(p)` leaves them all out.
    pub fn scan(
        &self,
        from: Bound<&[u8]>,
        to: Bound<&[u8]>,
        direction: ScanDirection,
        batch: &mut IndexBatch,
    ) -> Outcome<Option<Continue>> {
        self.scan_near(Near::Nowhere, (from, to), direction, batch)
    }

    /// As [`IndexTree::scan`]; a forward scan from a key on begins where that was found last.
    pub fn scan_near(
        &self,
        near: Near<'_>,
        (from, to): (Bound<&[u8]>, Bound<&[u8]>),
        direction: ScanDirection,
        batch: &mut IndexBatch,
    ) -> Outcome<Option<Continue>> {
        let (low, high) = (low_place(from), high_place(to));
        batch.clear();
        if !is_before(low, high) {
            return Ok(None);
        }
        let goes_on = match (direction, from) {
            (ScanDirection::Forward, Bound::Included(key)) => {
                self.read_leaf_of(near, key, |leaf| Ok(copy_forward(leaf, low, high, batch)))
            }
            (ScanDirection::Forward, _) => {
                self.trunk.read_leaf(low, Side::At, |leaf| Ok(copy_forward(leaf, low, high, batch)))
            }
            (ScanDirection::Backward, _) => self
                .trunk
                .read_leaf(high, Side::Before, |leaf| Ok(copy_backward(leaf, low, high, batch))),
        }?;
        Ok(match goes_on {
            GoesOn::No => None,
            GoesOn::BehindLast => Some(Continue { key: behind_last(direction, batch) }),
            GoesOn::NextLeaf => Some(Continue {
                key: match direction {
                    ScanDirection::Forward => batch.upper.clone(),
                    ScanDirection::Backward => batch.lower.clone(),
                },
            }),
        })
    }
}

/// Appends the rows with `key` from the place on; the fence if they may go on behind it.
#[inline]
fn rows_with(
    leaf: &PageRead,
    place: Probe<'_>,
    key: &[u8],
    out: &mut Vec<RowId>,
) -> Option<Vec<u8>> {
    let node = KeyNode::new(leaf.racy());
    let count = node.count();
    let mut at = node.place(place);
    while at < count && node.begins_with(at, key) {
        out.push(node.row(at));
        at += 1;
    }
    if at < count || !node.upper_begins_with(key) || mutant("index_point_ignores_fence") {
        return None;
    }
    let mut fence = Vec::new();
    node.upper(&mut fence);
    Some(fence)
}

#[derive(Clone, Copy)]
enum GoesOn {
    No,
    /// The batch is full.
    BehindLast,
    /// The range goes on behind this leaf.
    NextLeaf,
}

fn behind_last(direction: ScanDirection, batch: &IndexBatch) -> Vec<u8> {
    let mut entry = Vec::with_capacity(batch.last.len() + 1);
    entry.extend_from_slice(&batch.last);
    if direction == ScanDirection::Forward {
        // The next string: entries behind the last one are at or above it.
        entry.push(0);
    }
    entry
}

fn begin(leaf: &PageRead, batch: &mut IndexBatch) {
    let page = leaf.racy();
    let node = KeyNode::new(page);
    batch.clear();
    batch.lower.clear();
    batch.upper.clear();
    batch.last.clear();
    node.lower(&mut batch.lower);
    let has_upper = node.upper(&mut batch.upper) == UpperFence::Some;
    batch.is_exact = node.is_exact();
    batch.keyed = Keyed::by_bit(node.is_keyed());
    batch.source = Some(Source {
        pid: header::pid(page),
        frame: leaf.frame(),
        version: leaf.version(),
        has_upper,
    });
}

fn copy_forward(
    leaf: &PageRead,
    low: Probe<'_>,
    high: Probe<'_>,
    batch: &mut IndexBatch,
) -> GoesOn {
    begin(leaf, batch);
    let node = KeyNode::new(leaf.racy());
    let count = node.count();
    let ends_here = batch.source.is_none_or(|source| !source.has_upper);
    let more_behind = !ends_here && high.is_above(&batch.upper);
    let first = node.place(low).min(count);
    let last = if more_behind { count } else { node.place(high).clamp(first, count) };
    let stop = first.saturating_add(batch.entries_max).min(last);
    batch.take(&node, first..stop);
    if stop < last {
        node.key(stop - 1, &mut batch.last);
        GoesOn::BehindLast
    } else if more_behind && !(mutant("index_scan_ignores_fence") && batch.is_empty()) {
        GoesOn::NextLeaf
    } else {
        GoesOn::No
    }
}

fn copy_backward(
    leaf: &PageRead,
    low: Probe<'_>,
    high: Probe<'_>,
    batch: &mut IndexBatch,
) -> GoesOn {
    begin(leaf, batch);
    let node = KeyNode::new(leaf.racy());
    let count = node.count();
    let more_before = is_before(low, Probe::before(&batch.lower));
    let last = node.place(high).min(count);
    let first = if more_before { 0 } else { node.place(low).min(last) };
    let stop = last.saturating_sub(batch.entries_max).max(first);
    batch.take(&node, (stop..last).rev());
    if stop > first {
        node.key(stop, &mut batch.last);
        GoesOn::BehindLast
    } else if more_before {
        GoesOn::NextLeaf
    } else {
        GoesOn::No
    }
}
