//! Index trees: entries of key bytes and row id, without versions (rules 5.4 to 5.7).
#![expect(clippy::todo, unused_variables)]

use std::ops::Bound;
use std::sync::Arc;

use crate::base::{HomeId, Outcome, Pid, Result, RowId, TreeId};
use crate::buffer::{BufferPool, FrameRef};
use crate::latch::Version;

use super::descent::Trunk;

/// Whether an entry was added.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Added {
    /// It was not there before.
    Yes,
    /// It was there already.
    Already,
}

/// What a judge says of another row that has an entry with the key (rule 5.6).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Judgement {
    /// The row does not have the key any more.
    Free,
    /// The row has the key.
    Taken,
}

/// What came of a unique insertion.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum UniqueAnswer {
    /// No other row has the key; the entry was added.
    Added,
    /// No other row has the key; the entry was there already.
    Already,
    /// This row has the key; nothing was added.
    Taken(RowId),
}

/// What the check under the latch says of an entry that is to go.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Keep {
    /// A retained version of the row still has the key.
    Yes,
    /// No version needs the entry.
    No,
}

/// What came of a removal.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Removed {
    /// The entry is gone.
    Yes,
    /// The check said to keep it.
    Kept,
    /// It was not there.
    Absent,
}

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
    /// A fence or entry, not always a whole key.
    pub key: Vec<u8>,
}

/// Which leaf, in which state, a batch came from (rule 6.4; section 11, phantomlets).
#[derive(Clone, Debug)]
pub struct LeafStamp {
    /// The leaf's PID.
    pub pid: Pid,
    /// Its frame.
    pub frame: FrameRef,
    /// Its version: the entries are exactly those of this version.
    pub version: Version,
    /// Its lower fence, inclusive.
    pub lower: Vec<u8>,
    /// Its upper fence, exclusive; `None`: none.
    pub upper: Option<Vec<u8>>,
}

/// Entries of one leaf, copied out and validated; reusable.
#[derive(Default)]
pub struct IndexBatch {
    bytes: Vec<u8>,
    ends: Vec<u32>,
    rows: Vec<RowId>,
    stamp: Option<LeafStamp>,
}

impl IndexBatch {
    /// An empty batch that takes a whole leaf at a time.
    pub fn new() -> IndexBatch {
        IndexBatch::default()
    }

    /// An empty batch that takes at most `entries_max` at a time.
    pub fn with_limit(entries_max: usize) -> IndexBatch {
        todo!()
    }

    /// Entries in it.
    pub fn len(&self) -> usize {
        self.rows.len()
    }

    /// Whether it has none.
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// The key bytes of entry `at`, in the order of the scan.
    pub fn key(&self, at: usize) -> &[u8] {
        todo!()
    }

    /// The row of entry `at`.
    pub fn row(&self, at: usize) -> RowId {
        self.rows[at]
    }

    /// The leaf that they came from.
    pub fn stamp(&self) -> Option<&LeafStamp> {
        self.stamp.as_ref()
    }

    /// Whether the leaf had its *exact* bit under the same version (rule 5.7).
    pub fn is_exact(&self) -> bool {
        todo!()
    }
}

/// One index. All operations may run on any thread at once; `Retry` and `NeedPage` are answered
/// with nothing held.
pub struct IndexTree {
    trunk: Trunk,
}

impl IndexTree {
    /// An empty index. Error: `OutOfMemory`.
    pub fn create(pool: Arc<BufferPool>, home: HomeId, tree: TreeId) -> Result<IndexTree> {
        todo!()
    }

    /// An index of `entries`, strictly ascending in (key, row), leaves 90 percent full.
    /// Errors: `OutOfMemory`, `TooLarge`, `Internal` if they are not ascending; all pages are
    /// given back.
    pub fn bulk_load<K: AsRef<[u8]>>(
        pool: Arc<BufferPool>,
        home: HomeId,
        tree: TreeId,
        entries: impl Iterator<Item = (K, RowId)>,
    ) -> Result<IndexTree> {
        todo!()
    }

    /// The tree's number.
    pub fn tree(&self) -> TreeId {
        self.trunk.tree()
    }

    /// Adds an entry unless it is there (rule 5.5) and clears the leaf's *exact* bit. Errors:
    /// `TooLarge` (key over 2000 bytes), `OutOfMemory`; nothing was added.
    pub fn insert(&self, key: &[u8], row: RowId) -> Outcome<Added> {
        todo!()
    }

    /// Adds an entry to a unique index (rule 5.6). `judge` runs for every entry of another row
    /// with this key while the first leaf that can hold the key is held exclusively; it may read
    /// table leaves but must not wait. It may run again for the same row (after a split). Its
    /// `Stop` is passed on with nothing held and nothing added.
    pub fn insert_unique(
        &self,
        key: &[u8],
        row: RowId,
        judge: &mut dyn FnMut(RowId) -> Outcome<Judgement>,
    ) -> Outcome<UniqueAnswer> {
        todo!()
    }

    /// Removes an entry if `may` says so under the exclusive latch of its leaf (rule 5.5). `may`
    /// is not called if the entry is absent.
    pub fn remove(
        &self,
        key: &[u8],
        row: RowId,
        may: &mut dyn FnMut() -> Outcome<Keep>,
    ) -> Outcome<Removed> {
        todo!()
    }

    /// Appends the rows of all entries whose key begins with `key` (a whole key, or its first
    /// columns) in entry order. On `Err` nothing was appended.
    pub fn point(&self, key: &[u8], out: &mut Vec<RowId>) -> Outcome<()> {
        todo!()
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
        todo!()
    }

    /// Clears the *exact* bit of the leaf that holds the entry (rule 5.7: after the row changed,
    /// before the transaction commits).
    pub fn clear_exact(&self, key: &[u8], row: RowId) -> Outcome<()> {
        todo!()
    }

    /// What is wrong with the tree's structure; empty if nothing. The tree must be at rest.
    pub fn check(&self) -> Result<Vec<String>> {
        todo!()
    }

    /// Gives all pages back to the pool. Nobody uses the tree any more.
    pub fn free(&self) -> Outcome<()> {
        todo!()
    }
}
