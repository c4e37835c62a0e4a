//! Adding several entries under one latch, where they lie in one leaf (rules 5.5 and 5.6).
//!
//! Invariants: those of `change`: an entry is added under the exclusive latch of the leaf that
//! covers it, and for a unique index that leaf is the first that can hold the key. Here an entry is
//! added only if the one held leaf decides it: no entry in it begins with the key, and none can
//! follow in another leaf. Whatever needs a judge, another leaf or a split ends the run; the long way
//! does it. So nothing is waited for and nobody is asked while the leaf is held.
//!
//! Keys that ascend mostly go each right behind the one before: that is looked at first, and costs two comparisons
//! instead of a search.

use crate::base::{Outcome, RowId};
use crate::buffer::PageWrite;
use crate::page::keynode::{self, KeyNode, Probe};
use crate::sync::mutant;

use super::change::{Held, place_of_new};
use super::{Entry, IndexTree, Keys, Near, exact};

/// Where an entry goes in a held leaf.
enum Goes {
    To(usize),
    /// It is there already.
    Already,
    /// The leaf alone does not decide.
    Elsewhere,
}

/// Whether another row may have the key.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Others {
    /// It may.
    May,
    /// The index is unique.
    MayNot,
}

impl Others {
    /// What the leaf must cover. For a unique index that is the key's beginning: who adds an entry
    /// of the same key must hold the same leaf.
    fn place<'e>(self, key: &'e [u8], entry: &'e Entry) -> Probe<'e> {
        match self {
            Others::May => Probe::before(entry.bytes()),
            Others::MayNot => Probe::before(key),
        }
    }

    /// `before`: the key that was added before to this leaf, and its slot.
    fn goes(
        self,
        leaf: &PageWrite,
        (key, entry): (&[u8], &Entry),
        before: Option<(&[u8], usize)>,
    ) -> Goes {
        let node = KeyNode::new(leaf.owned());
        if let Some((before, at)) = before
            && node.goes_behind(at, before, key)
        {
            return Goes::To(at + 1);
        }
        if !node.covers(self.place(key, entry)) {
            return Goes::Elsewhere;
        }
        if self == Others::May {
            return node.find(entry.bytes()).map_or_else(Goes::To, |_| Goes::Already);
        }
        match place_of_new(&node, key) {
            Some(at) => Goes::To(at),
            None if mutant("index_together_unjudged") => Goes::To(node.place(Probe::before(key))),
            None => Goes::Elsewhere,
        }
    }
}

impl IndexTree {
    /// Adds entries from the first on, as [`IndexTree::insert`], as far as they lie in the first
    /// one's leaf and find room there; where others may not have the key, as far as no entry, of
    /// whatever row, has one of the keys. Answers how many; none: the first needs the long way.
    pub fn insert_together<'k>(
        &self,
        near: Near<'_>,
        entries: impl Iterator<Item = (&'k [u8], RowId)>,
        keys: Keys,
        others: Others,
    ) -> Outcome<usize> {
        let mut held = Held(None);
        let (mut seen_to, mut before) = (0, None);
        for (key, row) in entries {
            let entry = match Entry::new(self.tree(), key, row) {
                Ok(entry) => entry,
                // Said when its turn comes.
                Err(_) if seen_to > 0 => break,
                Err(error) => return Err(error.into()),
            };
            if held.0.is_none() {
                held.0 = Some(self.write_leaf_of(near, key, others.place(key, &entry))?);
            }
            let leaf = held.0.as_mut().expect("just made");
            match others.goes(leaf, (key, &entry), before) {
                Goes::To(at) => {
                    if keynode::insert(leaf.bytes_mut(), at, entry.bytes(), 0).is_err() {
                        break;
                    }
                    before = Some((key, at));
                }
                Goes::Already => {}
                Goes::Elsewhere => break,
            }
            seen_to += 1;
        }
        if seen_to > 0
            && let Some(mut leaf) = held.0.take()
            && !mutant("index_insert_keeps_exact")
        {
            exact::clear(&mut leaf, keys);
        }
        Ok(seen_to)
    }
}
