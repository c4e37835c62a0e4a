//! What a scan gives: batches of entries, the leaf that they came from, where to go on.
//!
//! Invariants: a batch holds entries of one leaf as of one version of it, in the scan's order;
//! its buffers are reused from call to call.

use super::Keyed;
use crate::base::{Pid, RowId};
use crate::buffer::FrameRef;
use crate::latch::{PageBytes, Version};
use crate::page::keynode::{KeyNode, ROW_BYTES};

/// Bytes of an entry that few are longer than.
const KEY_BYTES_USUAL: usize = 32;

/// Which way a scan goes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ScanDirection {
    /// Ascending in key bytes.
    Forward,
    /// Descending in key bytes.
    Backward,
}

/// Where a scan goes on. Forward: call again with `from = Included(key)`. Backward: with
/// `to = Excluded(key)`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Continue {
    /// A fence or an entry's place, not always a whole key.
    pub key: Vec<u8>,
}

/// Which leaf, in which state, a batch came from (rule 6.4; section 11, phantomlets).
#[derive(Clone, Copy, Debug)]
pub struct LeafStamp<'a> {
    /// The leaf's PID.
    pub pid: Pid,
    /// Its frame.
    pub frame: FrameRef,
    /// Its version: the entries are exactly those of this version.
    pub version: Version,
    /// Its lower fence, inclusive; empty: none.
    pub lower: &'a [u8],
    /// Its upper fence, exclusive; `None`: none.
    pub upper: Option<&'a [u8]>,
}

/// Whose keys a batch takes besides the rows. Those of a leaf that is not keyed are always taken:
/// who reads a row by such an entry has to compare them (rule 5.7).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum KeysWanted {
    /// Every entry's.
    All,
    /// Those of exact leaves: columns are read from them.
    OfExactLeaves,
    /// No others.
    Fewest,
}

#[derive(Clone, Copy)]
pub(super) struct Source {
    pub pid: Pid,
    pub frame: FrameRef,
    pub version: Version,
    pub has_upper: bool,
}

/// Entries of one leaf, copied out and validated; reusable.
pub struct IndexBatch {
    pub(super) entries_max: usize,
    keys_wanted: KeysWanted,
    bytes: Vec<u8>,
    // None if the keys were not taken.
    ends: Vec<u32>,
    rows: Vec<RowId>,
    pub(super) source: Option<Source>,
    pub(super) lower: Vec<u8>,
    pub(super) upper: Vec<u8>,
    /// The whole last entry, if the scan goes on behind it.
    pub(super) last: Vec<u8>,
    pub(super) is_exact: bool,
    pub(super) keyed: Keyed,
}

impl Default for IndexBatch {
    fn default() -> IndexBatch {
        IndexBatch::new()
    }
}

impl IndexBatch {
    /// An empty batch that takes a whole leaf at a time.
    pub fn new() -> IndexBatch {
        IndexBatch::with_limit(usize::MAX)
    }

    /// An empty batch that takes at most `entries_max` at a time (at least one).
    pub fn with_limit(entries_max: usize) -> IndexBatch {
        IndexBatch {
            entries_max: entries_max.max(1),
            keys_wanted: KeysWanted::All,
            bytes: Vec::new(),
            ends: Vec::new(),
            rows: Vec::new(),
            source: None,
            lower: Vec::new(),
            upper: Vec::new(),
            last: Vec::new(),
            is_exact: false,
            keyed: Keyed::No,
        }
    }

    /// Empty, for another scan, which takes at most `entries_max` at a time and these keys; its
    /// memory is kept.
    pub fn begin_anew(&mut self, entries_max: usize, keys_wanted: KeysWanted) {
        self.clear();
        self.set_limit(entries_max);
        self.keys_wanted = keys_wanted;
    }

    /// Changes how many entries the next call takes at most (at least one).
    pub fn set_limit(&mut self, entries_max: usize) {
        self.entries_max = entries_max.max(1);
    }

    /// Takes the entries of these slots of the leaf that it was begun with.
    #[inline]
    pub(super) fn take<P: PageBytes>(
        &mut self,
        node: &KeyNode<P>,
        slots: impl ExactSizeIterator<Item = usize>,
    ) {
        self.rows.reserve(slots.len());
        let takes_keys = match self.keys_wanted {
            KeysWanted::All => true,
            KeysWanted::OfExactLeaves => self.is_exact || self.keyed == Keyed::No,
            KeysWanted::Fewest => self.keyed == Keyed::No,
        };
        if !takes_keys {
            self.rows.extend(slots.map(|at| node.row(at)));
            return;
        }
        self.bytes.reserve(slots.len() * KEY_BYTES_USUAL);
        self.ends.reserve(slots.len());
        slots.for_each(|at| self.push(node, at));
    }

    /// Entries in it.
    #[inline]
    pub fn len(&self) -> usize {
        self.rows.len()
    }

    /// Whether it has none.
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// The key bytes of entry `at`, in the order of the scan, without the row id; none if its key
    /// was not wanted.
    #[inline]
    pub fn key(&self, at: usize) -> &[u8] {
        if self.ends.is_empty() {
            return &[];
        }
        let from = if at == 0 { 0 } else { self.ends[at - 1] as usize };
        &self.bytes[from..self.ends[at] as usize]
    }

    /// The row of entry `at`.
    #[inline]
    pub fn row(&self, at: usize) -> RowId {
        self.rows[at]
    }

    /// The rows of all entries, in the order of the scan.
    pub fn rows(&self) -> &[RowId] {
        &self.rows
    }

    /// The leaf that they came from; `None` if the range was empty from the start.
    pub fn stamp(&self) -> Option<LeafStamp<'_>> {
        self.source.map(|source| LeafStamp {
            pid: source.pid,
            frame: source.frame,
            version: source.version,
            lower: &self.lower,
            upper: source.has_upper.then_some(self.upper.as_slice()),
        })
    }

    /// Whether the leaf had its *exact* bit under the same version (rule 5.7).
    pub fn is_exact(&self) -> bool {
        self.is_exact
    }

    /// Whether the rows have their entries' keys in all versions (rule 5.7).
    pub fn keyed(&self) -> Keyed {
        self.keyed
    }

    pub(super) fn clear(&mut self) {
        self.bytes.clear();
        self.ends.clear();
        self.rows.clear();
        self.source = None;
        self.is_exact = false;
        self.keyed = Keyed::No;
    }

    /// Adds the entry of a slot, with its key.
    #[inline]
    fn push<P: PageBytes>(&mut self, node: &KeyNode<P>, at: usize) {
        node.key(at, &mut self.bytes);
        // A racily read entry may be shorter than a row id; it will not be believed.
        let key_end = self.bytes.len().saturating_sub(ROW_BYTES);
        let row = self.bytes[key_end..].first_chunk().copied().unwrap_or_default();
        self.bytes.truncate(key_end);
        self.ends.push(key_end as u32);
        self.rows.push(RowId(u64::from_be_bytes(row)));
    }
}
