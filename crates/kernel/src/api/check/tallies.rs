//! What a check counts while it goes through trees of any size.
//!
//! Invariants: bounded. [`Lines`] keeps the first ones; a [`PageSet`] takes a bit for each page, and 512
//! bytes where few lie together; a [`Balance`] takes half a megabyte, however many rows there are.
//!
//! Why sums find what differs: each row adds the hash of its key and id to its range of row ids, each entry
//! takes that of its own away. The order does not matter, so rows and entries are read as they lie. Where both
//! are the same set the sum is zero; where they are not it is zero by chance once in 2^64. A range that is not
//! even is looked at row by row (`entries.rs`): a sum proves nothing but that nothing is to be looked for.

use rustc_hash::FxHashMap as HashMap;
use std::hash::{DefaultHasher, Hasher};

use crate::base::{Pid, RowId};

/// Problems that are kept as lines.
pub(super) const LINES_MAX: usize = 10_000;

/// Pages that share one piece of a set.
const PIECE_PAGES: u64 = 4096;

/// Ranges of row ids, each with a sum of its own: the more, the fewer rows are looked at for one entry that
/// nobody has collected.
const RANGES_MAX: u64 = 1 << 16;

/// Sentences on what is wrong, the first ones; of the others their number.
#[derive(Debug, Default)]
pub(super) struct Lines {
    pub first: Vec<String>,
    pub more: u64,
}

impl Lines {
    pub fn add(&mut self, lines: impl IntoIterator<Item = String>) {
        for line in lines {
            if self.first.len() < LINES_MAX {
                self.first.push(line);
            } else {
                self.more += 1;
            }
        }
    }
}

/// A set of pages.
#[derive(Debug, Default)]
pub(super) struct PageSet {
    pieces: HashMap<u64, Box<Piece>>,
    count: u64,
}

type Piece = [u64; (PIECE_PAGES / 64) as usize];

/// A page's piece, and its word and bit in that.
fn place_in_set(page: Pid) -> (u64, usize, u64) {
    let within = page.0 % PIECE_PAGES;
    (page.0 / PIECE_PAGES, (within / 64) as usize, 1 << (within % 64))
}

fn empty_piece() -> Box<Piece> {
    Box::new([0; (PIECE_PAGES / 64) as usize])
}

impl PageSet {
    /// Puts a page in; answers whether it is new.
    pub fn insert(&mut self, page: Pid) -> bool {
        let (piece, word, bit) = place_in_set(page);
        let word = &mut self.pieces.entry(piece).or_insert_with(empty_piece)[word];
        let is_new = *word & bit == 0;
        *word |= bit;
        self.count += u64::from(is_new);
        is_new
    }

    pub fn has(&self, page: Pid) -> bool {
        let (piece, word, bit) = place_in_set(page);
        self.pieces.get(&piece).is_some_and(|words| words[word] & bit != 0)
    }

    pub fn count(&self) -> u64 {
        self.count
    }

    /// Takes the pages of another set in; answers how many it had already.
    pub fn take_in(&mut self, other: PageSet) -> u64 {
        let mut both = 0;
        for (piece, words) in other.pieces {
            let own = self.pieces.entry(piece).or_insert_with(empty_piece);
            for (own, word) in own.iter_mut().zip(words.iter()) {
                both += u64::from((*own & word).count_ones());
                *own |= word;
            }
        }
        self.count += other.count - both;
        both
    }
}

/// What rows say that the entries of an index should be, less what the entries are.
pub(super) struct Balance {
    /// Row ids of one range.
    width: u64,
    /// One sum for each range; the last one has all that lies behind, too.
    sums: Vec<u64>,
}

impl Balance {
    /// Even, for rows with ids below `rows_next`.
    pub fn new(rows_next: u64) -> Balance {
        let width = rows_next.div_ceil(RANGES_MAX).max(1);
        let ranges = rows_next.div_ceil(width).max(1);
        Balance { width, sums: vec![0; ranges as usize] }
    }

    fn sum_of(&mut self, row: RowId) -> &mut u64 {
        let at = self.range_of(row);
        &mut self.sums[at]
    }

    fn range_of(&self, row: RowId) -> usize {
        usize::try_from(row.0 / self.width).unwrap_or(usize::MAX).min(self.sums.len() - 1)
    }

    /// A row has this key; or an entry is none that a row should have.
    pub fn add(&mut self, row: RowId, key: &[u8]) {
        let sum = self.sum_of(row);
        *sum = sum.wrapping_add(weight(row, key));
    }

    /// There is an entry with this key.
    pub fn take(&mut self, row: RowId, key: &[u8]) {
        let sum = self.sum_of(row);
        *sum = sum.wrapping_sub(weight(row, key));
    }

    /// Whether rows and entries agree.
    pub fn is_even(&self) -> bool {
        self.sums.iter().all(|sum| *sum == 0)
    }

    /// Whether they do about this row.
    pub fn is_even_at(&self, row: RowId) -> bool {
        self.sums[self.range_of(row)] == 0
    }
}

/// Of key and row together: two rows that have got each other's key must not weigh the same.
fn weight(row: RowId, key: &[u8]) -> u64 {
    let mut hasher = DefaultHasher::new();
    hasher.write(key);
    hasher.write_u64(row.0);
    hasher.finish()
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::base::{HomeId, Place};

    fn page(home: u16, number: u64) -> Pid {
        Pid::of_place(Place::new(HomeId(home), number))
    }

    #[test]
    fn pages_are_in_a_set_once() {
        let numbers = [1, 63, 64, 4095, 4096, 1 << 40];
        let (mut set, mut other) = (PageSet::default(), PageSet::default());
        for number in numbers {
            assert!(!set.has(page(1, number)));
            assert!(set.insert(page(1, number)) && !set.insert(page(1, number)));
            assert!(set.has(page(1, number)) && !set.has(page(0, number)));
        }
        assert_eq!(set.count(), 6);
        assert!(other.insert(page(1, 64)) && other.insert(page(0, 64)) && other.insert(page(1, 2)));
        assert_eq!((set.take_in(other), set.count()), (1, 8));
        assert!(set.has(page(0, 64)) && set.has(page(1, 2)));
    }

    #[test]
    fn a_balance_is_even_only_where_rows_and_entries_agree() {
        // With rows beyond the last id, too.
        for rows_next in [0, 1, 1000, 1 << 20, 5 << 40] {
            let mut balance = Balance::new(rows_next);
            assert!(balance.sums.len() as u64 <= RANGES_MAX);
            let rows: Vec<RowId> = (0..100).map(|n| RowId(n * n * n * 7)).collect();
            let key = |row: RowId| (row.0 % 10).to_be_bytes();
            rows.iter().for_each(|row| balance.add(*row, &key(*row)));
            assert!(!balance.is_even());
            rows.iter().rev().for_each(|row| balance.take(*row, &key(*row)));
            assert!(balance.is_even());
            // Two rows have got each other's key.
            balance.take(rows[1], &key(rows[2]));
            balance.take(rows[2], &key(rows[1]));
            balance.add(rows[1], &key(rows[1]));
            balance.add(rows[2], &key(rows[2]));
            assert!(!balance.is_even() && !balance.is_even_at(rows[2]));
        }
    }

    #[test]
    fn lines_beyond_the_first_are_counted() {
        let mut lines = Lines::default();
        lines.add((0..LINES_MAX + 7).map(|n| n.to_string()));
        assert_eq!((lines.first.len(), lines.more), (LINES_MAX, 7));
    }
}
