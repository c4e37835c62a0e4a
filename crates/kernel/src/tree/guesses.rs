//! Which row has a key, guessed from its neighbours: rows that came in the order of their keys have ids that
//! ascend as the keys do. A guess that is right saves the search of the index, whose leaves then
//! stay out of the processor's caches.
//!
//! Invariants: a guess is never more than that. Whoever takes it reads the row and compares the whole
//! key of the version that it sees: in a unique index no other row has the key in the same
//! snapshot. No guess is made before three keys in a row have agreed, so that rows in another order
//! cost next to nothing. Guesses are an instance's own: neither shared nor waited for.
//!
//! (A learned index, Kraska et al., SIGMOD 2018, of the simplest kind: slope one, a number a group.
//! What a hash over keys would be, InnoDB's adaptive hash index, but of 16 bytes for 256 keys.)

use std::cell::Cell;

use super::hints;
use crate::base::{RowId, TreeId};

/// Keys that must have agreed with the one before them.
const AGREED_MIN: u8 = 2;

/// What is known of keys that differ in their last byte only: 256 consecutive numbers.
#[derive(Clone, Copy, Default, bytemuck::Zeroable)]
struct Guess {
    // The row of the key whose last byte is 0, if there is one: ids ascend from there.
    from: u64,
    group: u32,
    last: u8,
    agreed: u8,
}

/// An instance's guesses in all its indexes: of groups that share a place in here, the one that was
/// used last.
pub struct RowGuesses {
    guesses: Box<[Cell<Guess>]>,
    log2: u32,
}

impl RowGuesses {
    /// What one of them takes.
    pub(super) const BYTES_EACH: usize = size_of::<Guess>();

    /// `1 << log2` guesses, at least four. Memory is taken from the system when it is used.
    pub(super) fn new(log2: u32) -> RowGuesses {
        RowGuesses { guesses: bytemuck::zeroed_slice_box(1 << log2), log2 }
    }

    /// The row that has this key in the unique index `tree`, most likely; none if nothing says so.
    #[inline]
    pub fn row(&self, tree: TreeId, key: &[u8]) -> Option<RowId> {
        let (&last, group) = key.split_last()?;
        let (place, group) = self.place(tree, group);
        let guess = place.get();
        (guess.group == group && guess.agreed >= AGREED_MIN)
            .then(|| RowId(guess.from.wrapping_add(u64::from(last))))
    }

    /// Notes the row that was found to have the key.
    #[inline]
    pub fn note(&self, tree: TreeId, key: &[u8], row: RowId) {
        let Some((&last, group)) = key.split_last() else { return };
        let (place, group) = self.place(tree, group);
        let from = row.0.wrapping_sub(u64::from(last));
        let before = place.get();
        let agrees = before.group == group && before.from == from;
        // The same key once more says nothing.
        let agreed = match agrees {
            true if before.last == last => before.agreed,
            true => (before.agreed + 1).min(AGREED_MIN),
            false => 0,
        };
        place.set(Guess { from, group, last, agreed });
    }

    /// Groups that follow each other are neighbours, mostly: a cache line has the guesses of 1,024 keys.
    #[inline]
    fn place(&self, tree: TreeId, group: &[u8]) -> (&Cell<Guess>, u32) {
        let (place, hash) = hints::place_of(hints::numbered(tree, group), self.log2);
        (&self.guesses[place], (hash >> 16) as u32)
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use std::collections::HashSet;

    use super::*;

    const TREE: TreeId = TreeId(7);

    fn key(number: u32) -> [u8; 4] {
        number.to_be_bytes()
    }

    fn note(guesses: &RowGuesses, keys: &[u32], row: impl Fn(u32) -> u64) {
        keys.iter().for_each(|number| guesses.note(TREE, &key(*number), RowId(row(*number))));
    }

    #[test]
    fn three_keys_in_order_tell_of_all_their_group() {
        let guesses = RowGuesses::new(10);
        let row = |number| u64::from(number) + 1_000_000;
        note(&guesses, &[0x1203, 0x12f0], row);
        assert_eq!(guesses.row(TREE, &key(0x1250)), None, "two may be chance");
        note(&guesses, &[0x1207], row);
        for number in 0x1200..0x1300 {
            assert_eq!(guesses.row(TREE, &key(number)), Some(RowId(row(number))));
        }
        assert_eq!(guesses.row(TREE, &key(0x1300)), None, "of another group");
        assert_eq!(guesses.row(TreeId(8), &key(0x1250)), None, "of another index");
        assert_eq!(guesses.row(TREE, &[]), None);
        // One that does not agree, and all begins anew.
        note(&guesses, &[0x1208], |_| 5);
        assert_eq!(guesses.row(TREE, &key(0x1250)), None);
    }

    #[test]
    fn groups_that_follow_each_other_have_a_place_each() {
        let guesses = RowGuesses::new(16);
        let without_one = |trees: &[u32], rows: u32| {
            let of = |tree| {
                let keys = (0..rows).step_by(256).map(|number| key(0x8000_0000 | number));
                keys.map(|key| guesses.place(TreeId(tree), &key[..3]).0.as_ptr())
                    .collect::<Vec<_>>()
            };
            let groups: Vec<_> = trees.iter().flat_map(|tree| of(*tree)).collect();
            let places: HashSet<_> = groups.iter().collect();
            (groups.len() - places.len(), groups.len())
        };
        let (shared, groups) = without_one(&[5], 10_000_000);
        assert_eq!((shared, groups), (0, 39_063), "of one table");
        let (shared, groups) = without_one(&[20, 21, 22, 23, 24, 25, 26, 27], 1_000_000);
        // By chance a fifth would be.
        assert!(shared < groups / 3, "{shared} of {groups} of eight tables");
    }

    #[test]
    fn the_same_key_and_rows_in_another_order_tell_nothing() {
        let guesses = RowGuesses::new(10);
        note(&guesses, &[0x1203; 9], u64::from);
        assert_eq!(guesses.row(TREE, &key(0x1204)), None);
        note(&guesses, &[1, 2, 3, 4, 5, 6], |number| 100 - u64::from(number));
        assert_eq!(guesses.row(TREE, &key(7)), None, "descending");
        let mut random = fastrand::Rng::with_seed(3);
        for _ in 0..10_000 {
            let number = random.u32(..1 << 12);
            let row = u64::from(number).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40;
            guesses.note(TREE, &key(number), RowId(row));
            assert_eq!(guesses.row(TREE, &key(random.u32(..1 << 12))), None);
        }
    }

    #[test]
    fn rows_before_the_first_id_are_no_trouble() {
        let guesses = RowGuesses::new(2);
        note(&guesses, &[0xf0, 0xf1, 0xf2], |number| u64::from(number) - 0xf0);
        assert_eq!(guesses.row(TREE, &key(0xf9)), Some(RowId(9)));
        assert_eq!(guesses.row(TREE, &key(0)), Some(RowId(0_u64.wrapping_sub(0xf0))), "no row's");
    }
}
