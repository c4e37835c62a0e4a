//! Changes of index entries that wait to be made: noted by who has the rows, made by who has the keys.
//!
//! Invariants: a worker notes what becomes of the entries of its rows; at the end of a pass the keys of each
//! index are cut into ranges, and each range is one worker's: it makes what all have noted there, in
//! order of the keys. So each leaf is found, latched and read from disk once a pass and by one worker
//! (but where ranges meet), and nobody waits for another. Every entry belongs to one row, a row to one
//! worker: so what becomes of an entry is in one list, whose last word counts, and lists may be merged in any
//! order. A worker that has noted more than its part of the memory ([`Notes::new`]) makes all of its own at once, in
//! whatever range they are: what it notes later is made later.

use std::cmp::{Ordering, Reverse};

use rustc_hash::FxHashMap;

use super::ahead::{load_missing, note_missing};
use super::replay::Workers;
use crate::base::{NeededPage, Result, RowId, TreeId};
use crate::buffer::until_done;
use crate::page::keynode::KEY_BYTES_MAX;
use crate::sync::{in_turns, mutant};
use crate::tree::hints::LeafHints;
use crate::tree::index::{IndexTree, Keep, Keys, Near, Others};

/// Bytes that a worker may note whatever is said: places in them have 32 bits.
const NOTED_MOST: usize = 1 << 30;
/// Changes of one index that are worth a worker of their own.
const PART_MIN: usize = 1 << 9;
/// Changes of one index that are looked at for each range that its keys are cut into.
const SAMPLES: usize = 32;
/// Places in indexes that a worker remembers, as a power of two.
const HINTS_LOG2: u32 = 12;

/// What is to become of an entry.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Becomes {
    Present,
    Absent,
}

/// A change of an entry; its key is in [`Noted::bytes`].
#[derive(Clone, Copy)]
struct Change {
    /// The key's first bytes, which decide most comparisons.
    head: u128,
    row: RowId,
    start: u32,
    len: u16,
    becomes: Becomes,
}

const _: () = {
    assert!(size_of::<Change>() == 32);
    assert!(KEY_BYTES_MAX <= u16::MAX as usize);
};

/// The same, wherever its key is.
#[derive(Clone, Copy)]
struct Placed<'k> {
    head: u128,
    key: &'k [u8],
    row: RowId,
    becomes: Becomes,
}

impl Placed<'_> {
    /// In order of the entries.
    fn order(&self, other: &Placed<'_>) -> Ordering {
        let by_key = self.head.cmp(&other.head).then_with(|| self.key.cmp(other.key));
        by_key.then(self.row.cmp(&other.row))
    }
}

/// The first bytes, big-endian, with zeros behind them if there are fewer: keys of one index are prefix-free,
/// so the order of heads that differ is the keys' order.
fn head_of(key: &[u8]) -> u128 {
    let mut head = [0; size_of::<u128>()];
    let shared = key.len().min(head.len());
    head[..shared].copy_from_slice(&key[..shared]);
    u128::from_be_bytes(head)
}

/// What one worker has noted of one index.
pub(super) struct Noted<'d> {
    tree: &'d IndexTree,
    bytes: Vec<u8>,
    changes: Vec<Change>,
}

impl Noted<'_> {
    /// Answers how many bytes that takes.
    pub fn push(&mut self, key: &[u8], row: RowId, becomes: Becomes) -> usize {
        let (start, len) = (self.bytes.len() as u32, key.len() as u16);
        self.bytes.extend_from_slice(key);
        let head = head_of(key);
        self.changes.push(Change { head, row, start, len, becomes });
        key.len() + size_of::<Change>()
    }

    /// Brings the changes into the order of the entries; of several of one entry only the last counts.
    fn settle(&mut self) {
        let Noted { bytes, changes, .. } = self;
        changes.sort_unstable_by(|a, b| {
            placed(a, bytes).order(&placed(b, bytes)).then(b.start.cmp(&a.start))
        });
        changes.dedup_by(|next, first| {
            let is_same = placed(next, bytes).order(&placed(first, bytes)) == Ordering::Equal;
            if is_same && mutant("replay-first-change-of-entry-counts") {
                *first = *next;
            }
            is_same
        });
    }

    fn at(&self, at: usize) -> Placed<'_> {
        placed(&self.changes[at], &self.bytes)
    }

    /// How many settled changes come before that one.
    fn before(&self, bound: &Placed<'_>) -> usize {
        self.changes.partition_point(|it| placed(it, &self.bytes).order(bound) == Ordering::Less)
    }
}

fn placed<'k>(change: &Change, bytes: &'k [u8]) -> Placed<'k> {
    let Change { head, row, start, len, becomes } = *change;
    Placed { head, key: &bytes[start as usize..][..usize::from(len)], row, becomes }
}

/// Makes changes that are in order of the entries: so those of one leaf are made together, and the
/// next leaf is mostly near.
fn make(tree: &IndexTree, changes: &[Placed<'_>], hints: &LeafHints) -> Result<()> {
    let near = Near::Hints(hints);
    let mut rest = changes;
    while let Some(first) = rest.first() {
        let entry = (first.key, first.row);
        let done = match first.becomes {
            Becomes::Absent => {
                until_done(tree.pool(), || tree.remove_near(near, entry, &mut || Ok(Keep::No)))?;
                1
            }
            Becomes::Present => {
                let run = rest.iter().take_while(|it| it.becomes == Becomes::Present);
                let run = run.map(|it| (it.key, it.row));
                let together = until_done(tree.pool(), || {
                    tree.insert_together(near, run.clone(), Keys::One, Others::May)
                })?;
                if together == 0 {
                    until_done(tree.pool(), || tree.insert(near, entry, Keys::One))?;
                }
                together.max(1)
            }
        };
        rest = &rest[done..];
    }
    Ok(())
}

/// What one worker has noted of all indexes.
pub(super) struct Notes<'d> {
    of_index: FxHashMap<TreeId, Noted<'d>>,
    bytes: usize,
    bytes_max: usize,
}

impl<'d> Notes<'d> {
    /// Nothing yet. Beyond `bytes_max` bytes, of all indexes together, they are many.
    pub fn new(bytes_max: usize) -> Notes<'d> {
        Notes { of_index: FxHashMap::default(), bytes: 0, bytes_max: bytes_max.min(NOTED_MOST) }
    }

    /// Takes out what was noted of an index, to note more.
    pub fn take(&mut self, tree: &'d IndexTree) -> Noted<'d> {
        let nothing = Noted { tree, bytes: Vec::new(), changes: Vec::new() };
        self.of_index.remove(&tree.tree()).unwrap_or(nothing)
    }

    /// Puts it back.
    pub fn put(&mut self, noted: Noted<'d>) {
        self.of_index.insert(noted.tree.tree(), noted);
    }

    /// So many bytes more were noted, of whatever index.
    pub fn add(&mut self, bytes: usize) {
        self.bytes += bytes;
    }

    /// Whether it is time to make what was noted.
    pub fn are_many(&self) -> bool {
        self.bytes > self.bytes_max
    }

    /// Makes all changes at once, in whatever range they are. Nothing is taken out.
    pub fn make(&mut self) -> Result<()> {
        let hints = LeafHints::new(HINTS_LOG2);
        for noted in std::mem::replace(self, Notes::new(self.bytes_max)).settled() {
            let changes: Vec<Placed<'_>> =
                (0..noted.changes.len()).map(|at| noted.at(at)).collect();
            make(noted.tree, &changes, &hints)?;
        }
        Ok(())
    }

    /// What was noted of each index, in the order of the entries, one change an entry.
    pub fn settled(self) -> impl Iterator<Item = Noted<'d>> {
        self.of_index.into_values().filter(|it| !it.changes.is_empty()).map(|mut noted| {
            noted.settle();
            noted
        })
    }
}

/// What all workers have noted of one index, settled, and the ranges of its keys.
struct OfIndex<'d> {
    lists: Vec<Noted<'d>>,
    /// For each list where its part of each range ends.
    ends: Vec<Vec<usize>>,
}

impl<'d> OfIndex<'d> {
    fn new(lists: Vec<Noted<'d>>, parts_max: usize) -> OfIndex<'d> {
        let total: usize = lists.iter().map(|list| list.changes.len()).sum();
        let parts = (total / PART_MIN).clamp(1, parts_max);
        let step = (total / (parts * SAMPLES)).max(1);
        let samples = lists.iter().flat_map(|list| {
            (step / 2..list.changes.len()).step_by(step).map(move |at| list.at(at))
        });
        let mut samples: Vec<Placed<'_>> = samples.collect();
        samples.sort_unstable_by(Placed::order);
        let bounds = (1..parts).filter_map(|part| samples.get(samples.len() * part / parts));
        let bounds: Vec<&Placed<'_>> = bounds.collect();
        let ends = lists.iter().map(|list| {
            let ends = bounds.iter().map(|bound| list.before(bound));
            ends.chain([list.changes.len()]).collect()
        });
        let ends = ends.collect();
        OfIndex { lists, ends }
    }

    /// The changes of one range, in the order of the entries.
    fn range(&self, part: usize) -> Vec<Placed<'_>> {
        let mut changes = Vec::new();
        if part > 0 && mutant("replay-second-range-not-made") {
            return changes;
        }
        for (list, ends) in self.lists.iter().zip(&self.ends) {
            let start = part.checked_sub(1).map_or(0, |before| ends[before]);
            changes.extend((start..ends[part]).map(|at| list.at(at)));
        }
        // A stable sort, for it makes use of what is sorted.
        changes.sort_by(Placed::order);
        changes
    }

    /// Its ranges, by their numbers.
    fn parts(&self) -> impl Iterator<Item = (&OfIndex<'d>, usize)> {
        let count = self.ends.first().map_or(0, Vec::len);
        (0..count).map(move |part| (self, part))
    }
}

/// A range of an index's keys: what is to become of entries there, in their order.
struct Range<'n> {
    tree: &'n IndexTree,
    changes: Vec<Placed<'n>>,
}

/// Puts ranges together, and notes the leaves of them that are not in memory.
fn put_together<'n>(
    parts: &mut dyn Iterator<Item = &(&'n OfIndex<'n>, usize)>,
) -> Result<(Vec<Range<'n>>, Vec<NeededPage>)> {
    let (mut ranges, mut missing) = (Vec::new(), Vec::new());
    for (index, part) in parts {
        let Some(Noted { tree, .. }) = index.lists.first() else { continue };
        let changes = index.range(*part);
        let look = |key: &_, missing: &mut _| tree.missing_leaf(key, missing);
        note_missing(tree.pool(), changes.iter().map(|it| it.key), look, &mut missing)?;
        ranges.push(Range { tree, changes });
    }
    Ok((ranges, missing))
}

/// Makes what the workers of a pass have noted (each list is settled), each a range of the keys.
pub(super) fn make_all(mut noted: Vec<Noted<'_>>, workers: Workers) -> Result<()> {
    let Some(pool) = noted.first().map(|it| it.tree.pool()) else { return Ok(()) };
    noted.sort_by_key(|it| it.tree.tree());
    let mut indexes = Vec::new();
    while let Some(last) = noted.last() {
        let tree = last.tree.tree();
        let from = noted.partition_point(|it| it.tree.tree() < tree);
        indexes.push(OfIndex::new(noted.split_off(from), workers.reading));
    }
    let parts: Vec<_> = indexes.iter().flat_map(OfIndex::parts).collect();
    let ranges = in_turns(&parts, workers.computing, |parts| put_together(parts))?;
    let (mut ranges, threads) = load_missing(pool, ranges, workers)?;
    // The large ones first, so that in the end nobody waits long for another.
    ranges.sort_unstable_by_key(|range| Reverse(range.changes.len()));
    in_turns(&ranges, threads, |ranges| {
        let hints = LeafHints::new(HINTS_LOG2);
        for range in ranges {
            make(range.tree, &range.changes, &hints)?;
        }
        Ok(())
    })?;
    Ok(())
}
