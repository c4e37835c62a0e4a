//! Building an index whole, from the rows of its table: for CREATE INDEX and for recovery.
//!
//! Invariants: the caller keeps others from changing the table (an ACCESS EXCLUSIVE lock, or
//! recovery), so that every row in place that is not deleted is the newest version and counts; rows
//! are read leaf by leaf through the tree's own optimistic reads. Holds no latch between leaves.

use std::cmp::Ordering;
use std::sync::Arc;

use crate::base::{Error, HomeId, Outcome, Result, RowId, Stop, TreeId};
use crate::buffer::BufferPool;
use crate::page::pax::{RowState, SlotIndex};
use crate::tree::index::{Exact, IndexTree};
use crate::tree::key::{KeyPart, encode_key};
use crate::tree::table::{LeafView, TableTree};
use crate::version::{Unique, append_key_column};

/// What index to build.
pub struct IndexPlan<'a> {
    /// The table's rows.
    pub table: &'a TableTree,
    /// Its key columns, as positions in the table.
    pub columns: &'a [u16],
    /// How they are encoded.
    pub parts: &'a [KeyPart],
    /// Whether two rows may have the same key.
    pub unique: Unique,
    /// The new tree's number.
    pub tree: TreeId,
    /// Whose pages it gets.
    pub home: HomeId,
    /// Whether no row of the table has undo, so that the index answers for its rows (rule 5.7).
    pub exact: Exact,
}

/// The keys of a table, and after sorting the entries of its index.
#[derive(Default)]
struct Keys {
    bytes: Vec<u8>,
    entries: Vec<Entry>,
}

/// One key: its first eight bytes big-endian decide most comparisons.
#[derive(Clone, Copy)]
struct Entry {
    head: u64,
    start: usize,
    len: u32,
    has_null: bool,
    row: RowId,
}

impl Keys {
    fn key(&self, entry: &Entry) -> &[u8] {
        &self.bytes[entry.start..entry.start + entry.len as usize]
    }

    /// Forgets what came after so many bytes and entries: a leaf that did not validate.
    fn go_back(&mut self, (bytes, entries): (usize, usize)) {
        self.bytes.truncate(bytes);
        self.entries.truncate(entries);
    }

    fn order(&self, a: &Entry, b: &Entry) -> Ordering {
        a.head
            .cmp(&b.head)
            .then_with(|| self.key(a).cmp(self.key(b)))
            .then_with(|| a.row.cmp(&b.row))
    }

    fn sort(&mut self) {
        let mut entries = std::mem::take(&mut self.entries);
        if !entries.is_sorted_by(|a, b| self.order(a, b) == Ordering::Less) {
            entries.sort_unstable_by(|a, b| self.order(a, b));
        }
        self.entries = entries;
    }

    fn duplicate(&self) -> Option<RowId> {
        let same = |pair: &[Entry]| {
            !pair[0].has_null
                && pair[0].head == pair[1].head
                && self.key(&pair[0]) == self.key(&pair[1])
        };
        self.entries.windows(2).find(|pair| same(pair)).map(|pair| pair[1].row)
    }
}

/// Builds the index. Errors: `UniqueViolation` with the index's tree, `OutOfMemory` (no page is
/// kept), `KeyTooLong`. `breathe` is called between leaves; it may wait or fail.
pub fn build_index(
    pool: &Arc<BufferPool>,
    plan: &IndexPlan<'_>,
    breathe: &mut dyn FnMut() -> Result<()>,
) -> Result<IndexTree> {
    let mut keys = collect(plan, breathe)?;
    keys.sort();
    if plan.unique == Unique::Yes && keys.duplicate().is_some() {
        return Err(Error::UniqueViolation { index: plan.tree });
    }
    let entries = keys.entries.iter().map(|entry| (keys.key(entry), entry.row));
    IndexTree::bulk_load(pool.clone(), plan.home, plan.tree, plan.exact, entries)
}

fn collect(plan: &IndexPlan<'_>, breathe: &mut dyn FnMut() -> Result<()>) -> Result<Keys> {
    let mut keys = Keys::default();
    let mut from = Some(RowId(0));
    while let Some(start) = from {
        let before = (keys.bytes.len(), keys.entries.len());
        let read = plan.table.scan_leaf(start, &mut |leaf: &LeafView<'_>| {
            keys.go_back(before);
            leaf_keys(plan, leaf, start, &mut keys)
        });
        match read {
            Ok(((), next)) => {
                from = next;
                breathe()?;
            }
            Err(Stop::Retry) => keys.go_back(before),
            // Others run between two leaves, not while one is read.
            Err(Stop::NeedPage(page)) => {
                keys.go_back(before);
                plan.table.pool().load_now(page)?;
            }
            Err(Stop::Error(error)) => return Err(error),
            Err(other) => {
                return Err(Error::Internal { detail: format!("reading rows stopped: {other:?}") });
            }
        }
    }
    Ok(keys)
}

fn leaf_keys(
    plan: &IndexPlan<'_>,
    leaf: &LeafView<'_>,
    start: RowId,
    keys: &mut Keys,
) -> Outcome<()> {
    let (mut values, mut ends) = (Vec::new(), Vec::new());
    for at in leaf.lower_bound(start).index()..leaf.count() {
        let slot = SlotIndex(at as u16);
        if leaf.state(slot) == RowState::Deleted {
            continue;
        }
        values.clear();
        ends.clear();
        for column in plan.columns {
            let begin = values.len();
            let column = usize::from(*column);
            let value = append_key_column(plan.table, leaf, slot, column, &mut values)?;
            ends.push(value.map(|()| begin..values.len()));
        }
        let parts: Vec<Option<&[u8]>> =
            ends.iter().map(|place| place.clone().map(|place| &values[place])).collect();
        let begin = keys.bytes.len();
        encode_key(plan.parts, &parts, &mut keys.bytes);
        let key = &keys.bytes[begin..];
        let mut head = [0; 8];
        let shared = key.len().min(8);
        head[..shared].copy_from_slice(&key[..shared]);
        keys.entries.push(Entry {
            head: u64::from_be_bytes(head),
            start: begin,
            len: key.len() as u32,
            has_null: parts.iter().any(Option::is_none),
            row: leaf.row_id(slot),
        });
    }
    Ok(())
}
