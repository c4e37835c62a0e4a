//! The keys of a table, or of part of it, and their order.
//!
//! What most keys begin with says nothing of their order: markers, high bytes of small numbers, a
//! warehouse. So an entry's head is made of the bytes in which the keys of a table differ at all
//! ([`Differing`]): eight of them decide nearly every comparison, without a look at the keys.
//!
//! Invariants: heads compare as their keys do wherever they differ, if all were made by one
//! `Differing` that has seen every key. Within an entry's run its key is `len` bytes from `start`.

use std::cmp::Ordering;

use crate::base::RowId;

/// Bytes of a key that are looked at for differences.
const LOOKED_AT: usize = 32;
/// Bytes of a head.
const HEAD: usize = 8;

/// Keys and their rows, as they were read; after [`Run::sort`] ascending.
#[derive(Default)]
pub struct Run {
    bytes: Vec<u8>,
    entries: Vec<Entry>,
}

#[derive(Clone, Copy)]
struct Entry {
    head: u64,
    start: usize,
    len: u32,
    has_null: bool,
    row: RowId,
}

/// An entry of a sorted run.
#[derive(Clone, Copy)]
pub struct Keyed<'a> {
    head: u64,
    /// Its key.
    pub key: &'a [u8],
    /// Whether a column of it is null: then it is nobody's duplicate.
    pub has_null: bool,
    /// Its row.
    pub row: RowId,
}

impl Keyed<'_> {
    /// In which order the index has them.
    pub fn order(&self, other: &Keyed<'_>) -> Ordering {
        let heads = self.head.cmp(&other.head);
        heads.then_with(|| self.key.cmp(other.key)).then_with(|| self.row.cmp(&other.row))
    }
}

impl Run {
    /// How much there is, for [`Run::go_back`].
    pub fn mark(&self) -> (usize, usize) {
        (self.bytes.len(), self.entries.len())
    }

    /// Forgets what came after a mark: a leaf that did not validate.
    pub fn go_back(&mut self, (bytes, entries): (usize, usize)) {
        self.bytes.truncate(bytes);
        self.entries.truncate(entries);
    }

    /// Adds a row, with the key that `encode` appends.
    pub fn push(&mut self, row: RowId, has_null: bool, encode: impl FnOnce(&mut Vec<u8>)) {
        let start = self.bytes.len();
        encode(&mut self.bytes);
        let len = (self.bytes.len() - start) as u32;
        self.entries.push(Entry { head: 0, start, len, has_null, row });
    }

    fn key(&self, entry: &Entry) -> &[u8] {
        &self.bytes[entry.start..entry.start + entry.len as usize]
    }

    fn keyed(&self, entry: &Entry) -> Keyed<'_> {
        let Entry { head, has_null, row, .. } = *entry;
        Keyed { head, key: self.key(entry), has_null, row }
    }

    /// Where its keys differ.
    pub fn differing(&self) -> Differing {
        let mut differing = Differing::default();
        self.entries.iter().for_each(|entry| differing.look(self.key(entry)));
        differing
    }

    /// Brings it into order. `differing` has seen all keys that it will be merged with, too.
    pub fn sort(&mut self, differing: &Differing) {
        let places = differing.places();
        let mut entries = std::mem::take(&mut self.entries);
        for entry in &mut entries {
            entry.head = head(self.key(entry), &places);
        }
        let order = |a: &Entry, b: &Entry| self.keyed(a).order(&self.keyed(b));
        if !entries.is_sorted_by(|a, b| order(a, b) == Ordering::Less) {
            entries.sort_unstable_by(order);
        }
        self.entries = entries;
    }

    /// Its entries.
    pub fn iter(&self) -> impl Iterator<Item = Keyed<'_>> {
        self.entries.iter().map(|entry| self.keyed(entry))
    }
}

/// In which places keys differ from each other.
#[derive(Clone, Default)]
pub struct Differing {
    /// The first key, as far as it is looked at; none if there was no key.
    first: Option<Vec<u8>>,
    /// Per place, bits that are not the same in all keys.
    bits: [u8; LOOKED_AT],
    /// The length of the shortest key, as far as it is looked at.
    shortest: usize,
}

impl Differing {
    fn look(&mut self, key: &[u8]) {
        let key = &key[..key.len().min(LOOKED_AT)];
        let Some(first) = &self.first else {
            (self.first, self.shortest) = (Some(key.to_vec()), key.len());
            return;
        };
        self.shortest = self.shortest.min(key.len());
        for ((bits, first), byte) in self.bits.iter_mut().zip(first).zip(key) {
            *bits |= first ^ byte;
        }
    }

    /// As if it had seen what another has seen.
    pub fn and(mut self, other: &Differing) -> Differing {
        let Some(key) = &other.first else { return self };
        self.look(key);
        self.shortest = self.shortest.min(other.shortest);
        for (bits, theirs) in self.bits.iter_mut().zip(&other.bits) {
            *bits |= theirs;
        }
        self
    }

    /// The first places where keys differ, of those that all have.
    fn places(&self) -> Vec<usize> {
        (0..self.shortest).filter(|at| self.bits[*at] != 0).take(HEAD).collect()
    }
}

fn head(key: &[u8], places: &[usize]) -> u64 {
    let mut head = [0; HEAD];
    for (byte, at) in head.iter_mut().zip(places) {
        *byte = key[*at];
    }
    u64::from_be_bytes(head)
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn runs_are_sorted_as_their_keys_compare_whatever_they_share() {
        let mut random = fastrand::Rng::with_seed(11);
        for round in 0..300 {
            // Shared beginnings, few different bytes, different lengths: ties and fallbacks.
            let (shared, letters) = (random.usize(..50), random.u8(1..4));
            let lengths = if round % 2 == 0 { 1 } else { random.usize(1..20) };
            let mut runs = [Run::default(), Run::default()];
            let mut keys = Vec::new();
            for row in 0..random.u64(..200) {
                let mut key = vec![7; shared];
                let length = 12 + random.usize(..lengths);
                key.extend((0..length).map(|_| random.u8(..letters)));
                runs[random.usize(..2)].push(RowId(row), false, |out| out.extend(&key));
                keys.push((key, RowId(row)));
            }
            keys.sort();
            let differing = runs[0].differing().and(&runs[1].differing());
            runs.iter_mut().for_each(|run| run.sort(&differing));
            for run in &runs {
                let mut rest = keys.iter();
                let has = |it: Keyed<'_>| rest.any(|(key, row)| key == it.key && *row == it.row);
                assert!(run.iter().all(has), "ascending, and every key its row");
            }
            let both = runs[0].iter().flat_map(|a| runs[1].iter().map(move |b| (a, b)));
            for (a, b) in both {
                assert_eq!(a.order(&b), (a.key, a.row).cmp(&(b.key, b.row)));
            }
        }
    }

    #[test]
    fn a_head_holds_the_bytes_that_differ() {
        let mut run = Run::default();
        for (row, key) in [b"aXbb1", b"aXbc1", b"aXcb2"].into_iter().enumerate() {
            run.push(RowId(row as u64), false, |out| out.extend(key));
        }
        assert_eq!(run.differing().places(), [2, 3, 4]);
    }
}
