//! Adding and removing entries (rules 5.5 and 5.6).
//!
//! Invariants: an entry is added or removed under the exclusive latch of the leaf that covers it;
//! what the closures decide is decided under that latch. A closure's `Stop`, like every other, is
//! passed on with all latches released and nothing changed.
//!
//! Uniqueness: the *first leaf that can hold a key* is the one that covers the key without a row
//! id. All insertions of one key hold it exclusively while they judge and add, so of two one sees
//! the other's entry: a split between them needs the same latch, and afterwards there is again
//! exactly one leaf that covers the key. Entries of the key may go on in leaves to the right;
//! those are latched one by one, left to right, while the first is held.

use std::collections::VecDeque;

use crate::base::{Outcome, RowId, Stop};
use crate::buffer::PageWrite;
use crate::latch::PageBytes;
use crate::page::keynode::{self, KeyNode, Probe, SplitPoint};
use crate::sync::mutant;
use crate::tree::descent::{AloneNode, MergeKeys, SplitLeaf, SplitPlan, fault};

use super::exact::{self, Keys};
use super::{Entry, FULL_TRIES, IndexTree, Near};

/// An underfull leaf is tried to be merged when its entries are a multiple of this many.
const MERGE_EVERY: usize = 8;

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

/// Splits a leaf that has no room for an entry.
struct SplitFor<'a> {
    entry: &'a [u8],
    at: Option<SplitPoint>,
}

impl SplitLeaf for SplitFor<'_> {
    fn plan(&mut self, leaf: &PageWrite, separator: &mut Vec<u8>) -> SplitPlan {
        self.at = if keynode::has_room(leaf.bytes(), self.entry) {
            None
        } else {
            keynode::choose_split(leaf.bytes(), self.entry, separator)
        };
        if self.at.is_some() { SplitPlan::Split } else { SplitPlan::Leave }
    }

    fn split(&mut self, left: &mut PageWrite, right: &mut PageWrite, separator: &[u8]) {
        let at = self.at.expect("a leaf is split where it was planned");
        keynode::split(left.bytes_mut(), right.bytes_mut(), at, separator);
    }
}

/// What came of adding to one held leaf.
enum Put {
    Added,
    Already,
    Full,
}

/// Adds `entry` to the leaf that covers it, and clears its *exact* bit, or both bits: also if the
/// entry is there already, for its row has just changed.
fn put(leaf: &mut PageWrite, entry: &[u8], keys: Keys) -> Put {
    let found = KeyNode::new(leaf.owned()).find(entry);
    put_at(leaf, found, entry, keys)
}

/// As [`put`], of an entry that was looked for already.
fn put_at(leaf: &mut PageWrite, found: Result<usize, usize>, entry: &[u8], keys: Keys) -> Put {
    let put = match found {
        Ok(_) => Put::Already,
        Err(at) => match keynode::insert(leaf.bytes_mut(), at, entry, 0) {
            Ok(()) if mutant("index_insert_keeps_exact") => return Put::Added,
            Ok(()) => Put::Added,
            Err(keynode::NoRoom) => return Put::Full,
        },
    };
    exact::clear(leaf, keys);
    put
}

impl IndexTree {
    fn make_room(&self, entry: &[u8]) -> Outcome<()> {
        let how = &mut SplitFor { entry, at: None };
        self.trunk.split_leaf(self.trunk.home(), Probe::before(entry), how)
    }

    /// Adds an entry unless it is there (rule 5.5) and clears the leaf's *exact* bit; *keyed* too,
    /// if the row has several keys. Errors: `KeyTooLong` (over 2000 bytes), `OutOfMemory`; nothing
    /// was added.
    pub fn insert(&self, near: Near<'_>, (key, row): (&[u8], RowId), keys: Keys) -> Outcome<Added> {
        let entry = Entry::new(self.tree(), key, row)?;
        for _ in 0..FULL_TRIES {
            let mut leaf = self.write_leaf_of(near, key, Probe::before(entry.bytes()))?;
            match put(&mut leaf, entry.bytes(), keys) {
                Put::Added => return Ok(Added::Yes),
                Put::Already => return Ok(Added::Already),
                Put::Full => leaf.unchanged(),
            }
            self.make_room(entry.bytes())?;
        }
        Err(Stop::Retry)
    }

    /// Adds an entry to a unique index (rule 5.6). `judge` runs for every entry of *another* row
    /// with this key while the first leaf that can hold the key is held exclusively; it may read
    /// table leaves but must not wait, and must not come back to this index. It may run again for
    /// the same row (after a split). Its `Stop` is passed on with nothing held and nothing added.
    pub fn insert_unique(
        &self,
        near: Near<'_>,
        (key, row): (&[u8], RowId),
        keys: Keys,
        judge: &mut dyn FnMut(RowId) -> Outcome<Judgement>,
    ) -> Outcome<UniqueAnswer> {
        let entry = Entry::new(self.tree(), key, row)?;
        for _ in 0..FULL_TRIES {
            if let Some(answer) = self.try_unique((near, key), (entry.bytes(), keys), row, judge)? {
                return Ok(answer);
            }
            self.make_room(entry.bytes())?;
        }
        Err(Stop::Retry)
    }

    /// One attempt; `None`: the entry's leaf is full.
    fn try_unique(
        &self,
        (near, key): (Near<'_>, &[u8]),
        (entry, keys): (&[u8], Keys),
        row: RowId,
        judge: &mut dyn FnMut(RowId) -> Outcome<Judgement>,
    ) -> Outcome<Option<UniqueAnswer>> {
        let mut first = Held(Some(self.write_leaf_of(near, key, Probe::before(key))?));
        // The leaf that covers the entry, if it is not the first.
        let mut target = Held(None);
        let mut next = Held(None);
        // Where the entry goes in the first leaf, if that is known.
        let mut goes_to = None;
        loop {
            let leaf = next.0.as_ref().or(first.0.as_ref()).expect("the first leaf is held");
            let fence = match judge_leaf(leaf, key, row, judge)? {
                Walked::Taken(other) => return Ok(Some(UniqueAnswer::Taken(other))),
                // Mostly so: nobody has the key.
                Walked::NotThere(at) if next.0.is_none() => {
                    goes_to = Some(at);
                    break;
                }
                Walked::NotThere(_) | Walked::End => None,
                Walked::GoesOn(fence) => Some(fence),
            };
            let covers_entry = KeyNode::new(leaf.owned()).covers(Probe::before(entry));
            if next.0.is_some() && covers_entry {
                target = Held(next.0.take());
            }
            let Some(fence) = fence else { break };
            next = Held(Some(self.trunk.write_leaf(Probe::before(&fence))?));
        }
        if mutant("index_judge_unlatched") {
            drop(first);
            fault("index_judge_unlatched");
            first = Held(Some(self.write_leaf_of(near, key, Probe::before(key))?));
            goes_to = None;
        }
        let place = if target.0.is_some() { &mut target } else { &mut first };
        let mut leaf = place.0.take().expect("the entry's leaf is held");
        let put = match goes_to {
            Some(at) => put_at(&mut leaf, Err(at), entry, keys),
            None => put(&mut leaf, entry, keys),
        };
        match put {
            Put::Added => Ok(Some(UniqueAnswer::Added)),
            Put::Already => Ok(Some(UniqueAnswer::Already)),
            Put::Full => {
                leaf.unchanged();
                Ok(None)
            }
        }
    }

    /// Removes an entry if `may` says so under the exclusive latch of its leaf (rule 5.5). `may`
    /// is not called if the entry is absent; it must not wait or come back to this index.
    pub fn remove(
        &self,
        key: &[u8],
        row: RowId,
        may: &mut dyn FnMut() -> Outcome<Keep>,
    ) -> Outcome<Removed> {
        self.remove_near(Near::Nowhere, (key, row), may)
    }

    /// As [`IndexTree::remove`], beginning where `near` says.
    pub fn remove_near(
        &self,
        near: Near<'_>,
        (key, row): (&[u8], RowId),
        may: &mut dyn FnMut() -> Outcome<Keep>,
    ) -> Outcome<Removed> {
        let entry = Entry::new(self.tree(), key, row)?;
        let leaf = self.write_leaf_of(near, key, Probe::before(entry.bytes()))?;
        let mut leaf = Held(Some(leaf));
        let held = leaf.0.as_mut().expect("just made");
        let Ok(at) = KeyNode::new(held.owned()).find(entry.bytes()) else {
            return Ok(Removed::Absent);
        };
        if may()? == Keep::Yes {
            return Ok(Removed::Kept);
        }
        keynode::remove(held.bytes_mut(), at);
        let left = KeyNode::new(held.owned()).count();
        // Every removal from a leaf whose neighbours are full would try in vain.
        let is_worth_it = left.is_multiple_of(MERGE_EVERY) && keynode::is_underfull(held.bytes());
        leaf.0.take();
        if is_worth_it {
            // Nothing depends on it; a later removal tries again.
            let _ = self.trunk.merge_leaf(Probe::before(entry.bytes()), &mut MergeKeys);
        }
        Ok(Removed::Yes)
    }

    /// Inner nodes that merges left alone; see [`AloneNode`].
    pub fn take_alone(&self) -> VecDeque<AloneNode> {
        self.trunk.take_alone()
    }

    /// Goes on with such a node. `NeedPage`: load it and call again.
    pub fn merge_alone(&self, node: &mut AloneNode) -> Outcome<()> {
        self.trunk.merge_alone(node)
    }
}

/// A held leaf that is released as unchanged unless it is taken out.
pub(super) struct Held(pub(super) Option<PageWrite>);

impl Drop for Held {
    fn drop(&mut self) {
        if let Some(leaf) = self.0.take() {
            leaf.unchanged();
        }
    }
}

enum Walked {
    Taken(RowId),
    /// No entry has the key; one that does belongs into this slot of this leaf.
    NotThere(usize),
    End,
    /// Entries with the key may go on in the leaf that begins here.
    GoesOn(Vec<u8>),
}

/// Where an entry with the key goes in the first leaf that can hold it, if that leaf shows that
/// there is none: neither in it nor further right.
pub(super) fn place_of_new<P: PageBytes>(node: &KeyNode<P>, key: &[u8]) -> Option<usize> {
    let at = node.place(Probe::before(key));
    let has_key = match at < node.count() {
        true => node.begins_with(at, key),
        false => node.upper_begins_with(key),
    };
    (!has_key).then_some(at)
}

/// Judges the entries of other rows with the key in one held leaf.
fn judge_leaf(
    leaf: &PageWrite,
    key: &[u8],
    row: RowId,
    judge: &mut dyn FnMut(RowId) -> Outcome<Judgement>,
) -> Outcome<Walked> {
    let node = KeyNode::new(leaf.owned());
    let is_first = node.covers(Probe::before(key));
    if is_first && let Some(at) = place_of_new(&node, key) {
        return Ok(Walked::NotThere(at));
    }
    // In a leaf further right all that is there lies behind the place before the key.
    let mut at = if is_first { node.place(Probe::before(key)) } else { 0 };
    while at < node.count() && node.begins_with(at, key) {
        let other = node.row(at);
        if other != row && judge(other)? == Judgement::Taken {
            return Ok(Walked::Taken(other));
        }
        at += 1;
    }
    if at < node.count() || !node.upper_begins_with(key) {
        return Ok(Walked::End);
    }
    let mut fence = Vec::new();
    node.upper(&mut fence);
    Ok(Walked::GoesOn(fence))
}
