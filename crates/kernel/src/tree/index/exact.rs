//! The *exact* and *keyed* bits of leaves: cleared by changes, set by sweeps (rule 5.7).
//!
//! A leaf is exact if the row of each of its entries has no undo, is not deleted and has the
//! entry's key: then who reads bit and entries under one version need not look at the rows. An
//! empty leaf is exact.
//!
//! A leaf is keyed if each of its entries' rows has the entry's key in all its versions: then who
//! comes from an entry need not compare the key of the version that he sees (rule 5.4). A row that
//! is inserted or deleted leaves it so (ids are not used twice), and so does the building of an index
//! (`bulk`): most leaves are keyed always.
//!
//! Invariants: the bits are set only with the leaf held exclusively while every entry is judged, and
//! cleared under the same latch. Who changes a row changes the row first and comes here second,
//! before it commits. So a judge sees the change (its undo), or the change clears the bit after the
//! sweep; and a reader who finds the bit has a snapshot from before that change's commit. Who gives
//! a row another key clears both bits, in the leaf of the old entry and in that of the new one. What
//! is exact is keyed.
//!
//! A leaf without the bit answers as well, only slower: so nobody need sweep it before a scan has met
//! it that the bit would have spared something (`version/exact.rs`).

use crate::base::{Outcome, RowId};
use crate::buffer::PageWrite;
use crate::page::keynode::{self, KeyNode, Probe, UpperFence};
use crate::sync::mutant;
use crate::tree::descent::Side;

use super::batch::Continue;
use super::change::Held;
use super::{Entry, IndexTree};

/// Whether an entry's row is settled and has the entry's key (rule 5.7).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Exact {
    /// The row has no undo, is not deleted and has this key.
    Yes,
    /// Not so, or not known.
    No,
}

impl Exact {
    /// What a leaf's bit says of its entries.
    #[inline]
    pub fn by_bit(is_set: bool) -> Exact {
        if is_set { Exact::Yes } else { Exact::No }
    }
}

/// Whether all versions of an entry's row have the entry's key (rule 5.7).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Keyed {
    /// They have, as far as anybody can see them who has just read the leaf.
    Yes,
    /// One may not.
    No,
}

impl Keyed {
    /// What a leaf's bit says of its entries.
    #[inline]
    pub fn by_bit(is_set: bool) -> Keyed {
        if is_set { Keyed::Yes } else { Keyed::No }
    }
}

/// What a change does to the key of a row.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Keys {
    /// The row has one key in all its versions: it was inserted or is being deleted.
    One,
    /// The row had another key before, or will have.
    Several,
}

/// Clears the bits of a leaf that is held, as far as they are set.
pub(super) fn clear(leaf: &mut PageWrite, keys: Keys) {
    let node = KeyNode::new(leaf.owned());
    let (is_exact, is_keyed) = (node.is_exact(), node.is_keyed());
    if is_exact {
        keynode::clear_exact(leaf.bytes_mut());
    }
    if is_keyed && keys == Keys::Several && !mutant("index_key_change_keeps_keyed") {
        keynode::clear_keyed(leaf.bytes_mut());
    }
}

/// What an entry's row says of the entry.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Judged {
    /// The row is settled and has the entry's key (rule 5.7).
    Exact,
    /// Not so, or not known.
    NotReady,
    /// The row is gone, or settled with another key: nothing needs the entry any more.
    LeftOver,
}

/// Judges an entry under its leaf's exclusive latch: its key, unless the leaf is keyed (then the
/// row has it), and its row. May read table leaves, must not wait, and must not come back to the
/// index; its `Stop` is passed on with nothing held or changed.
pub type Judge<'j> = dyn FnMut(Option<&[u8]>, RowId) -> Outcome<Judged> + 'j;

/// What came of one leaf.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LeafSwept {
    /// Whether it is exact now.
    pub exact: Exact,
    /// Entries that nothing needs, because of which it is not: key and row.
    pub left_over: Vec<(Box<[u8]>, RowId)>,
    /// Entries that were judged.
    pub judged: usize,
    /// Where the next leaf begins.
    pub next: Option<Continue>,
}

impl IndexTree {
    /// Clears the *exact* bit of the leaf that covers the entry, and *keyed* if the row gets
    /// another key (rule 5.7: after the row changed, before the transaction commits).
    pub fn clear_exact(&self, key: &[u8], row: RowId, keys: Keys) -> Outcome<()> {
        let entry = Entry::new(self.tree(), key, row)?;
        let mut leaf = self.trunk.write_leaf(Probe::before(entry.bytes()))?;
        let node = KeyNode::new(leaf.owned());
        if node.is_exact() || node.is_keyed() && keys == Keys::Several {
            clear(&mut leaf, keys);
        } else {
            leaf.unchanged();
        }
        Ok(())
    }

    /// Sets the *exact* bit of the leaf that covers `from` if `judge` says yes to each of its
    /// entries (key, row) under its exclusive latch (rule 5.7); a leaf that has it is not latched.
    /// Start with the empty string.
    pub fn sweep_exact(&self, from: &[u8], judge: &mut Judge<'_>) -> Outcome<LeafSwept> {
        let mut fence = Vec::new();
        let (is_exact, has_next) = self.trunk.read_leaf(Probe::before(from), Side::At, |leaf| {
            let node = KeyNode::new(leaf.racy());
            fence.clear();
            Ok((node.is_exact(), node.upper(&mut fence) == UpperFence::Some))
        })?;
        let mut swept =
            LeafSwept { exact: Exact::Yes, left_over: Vec::new(), judged: 0, next: None };
        if is_exact {
            swept.next = has_next.then_some(Continue { key: fence });
            return Ok(swept);
        }
        let mut leaf = Held(Some(self.trunk.write_leaf(Probe::before(from))?));
        let held = leaf.0.as_mut().expect("just made");
        let node = KeyNode::new(held.owned());
        let is_keyed = node.is_keyed();
        let mut key = Vec::new();
        let key_of = |at: usize, key: &mut Vec<u8>| {
            key.clear();
            node.key(at, key);
            key.truncate(key.len() - keynode::ROW_BYTES);
        };
        // From the end: where keys ascend, the entries that are not ready are the last ones.
        for at in (0..node.count()).rev() {
            swept.judged += 1;
            let judged = if is_keyed {
                judge(None, node.row(at))?
            } else {
                key_of(at, &mut key);
                judge(Some(&key), node.row(at))?
            };
            match judged {
                Judged::Exact => continue,
                // Others may be, too.
                Judged::LeftOver => {
                    key_of(at, &mut key);
                    swept.left_over.push((key.as_slice().into(), node.row(at)));
                    swept.exact = Exact::No;
                }
                Judged::NotReady => {
                    swept.exact = Exact::No;
                    break;
                }
            }
        }
        fence.clear();
        let has_next = node.upper(&mut fence) == UpperFence::Some;
        if swept.exact == Exact::Yes && !node.is_exact() {
            keynode::set_exact(held.bytes_mut());
            leaf.0.take();
        }
        swept.next = has_next.then_some(Continue { key: fence });
        Ok(swept)
    }
}
