//! The order in which a worker applies the changes of one tree: by row, a row's by (cts, position).
//!
//! Invariants: what comes in are lists in order of (cts, position), each of one log, or of a part of
//! one that follows the list before it. Sorting by row keeps the order of equal rows; where several
//! logs changed a row, its changes are then sorted by cts, again keeping the order of those of
//! one commit, which is in one log.

use super::parsed::Item;
use crate::sync::mutant;

/// Bits of the row number that one pass looks at.
const DIGIT_BITS: u32 = 11;
/// Fewer than so many are sorted by comparison.
const DIGITS_FROM: usize = 1 << 9;

/// Memory to sort in, kept from tree to tree.
#[derive(Default)]
pub(super) struct Sorter {
    spare: Vec<Item>,
}

impl Sorter {
    /// The items of all lists in the order in which they are to be applied.
    pub fn order(&mut self, lists: &[&[Item]]) -> Vec<Item> {
        let mut items = lists.concat();
        self.by_row(&mut items);
        if !mutant("replay-log-after-log") {
            by_time(&mut items);
        }
        items
    }

    fn by_row(&mut self, items: &mut Vec<Item>) {
        let rows = items.iter().map(|item| item.row.0);
        let (least, most) = rows.fold((u64::MAX, 0), |(a, b), row| (a.min(row), b.max(row)));
        if items.is_sorted_by_key(|item| item.row) {
            return;
        }
        let bits = u64::BITS - (most - least).leading_zeros();
        if items.len() < DIGITS_FROM || bits > 4 * DIGIT_BITS {
            items.sort_by_key(|item| item.row);
            return;
        }
        for shift in (0..bits).step_by(DIGIT_BITS as usize) {
            let digit = |item: &Item| (item.row.0 - least) >> shift & ((1 << DIGIT_BITS) - 1);
            let mut starts = [0_usize; 1 << DIGIT_BITS];
            items.iter().for_each(|item| starts[digit(item) as usize] += 1);
            let mut start = 0;
            for place in &mut starts {
                start += std::mem::replace(place, start);
            }
            self.spare.resize(items.len(), items[0]);
            for item in items.iter() {
                let place = &mut starts[digit(item) as usize];
                self.spare[*place] = *item;
                *place += 1;
            }
            std::mem::swap(items, &mut self.spare);
        }
    }
}

/// Brings the changes of each row into order of time.
fn by_time(items: &mut [Item]) {
    let mut at = 1;
    while at < items.len() {
        let (last, next) = (items[at - 1], items[at]);
        if last.row != next.row || last.cts <= next.cts {
            at += 1;
            continue;
        }
        let row = last.row;
        let start = items[..at].iter().rposition(|item| item.row != row).map_or(0, |it| it + 1);
        let len = items[at..].iter().position(|item| item.row != row);
        let end = len.map_or(items.len(), |len| at + len);
        items[start..end].sort_by_key(|item| item.cts);
        at = end;
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::base::{Cts, RowId};

    #[test]
    fn a_rows_changes_are_in_order_of_time_whatever_logs_they_are_in() {
        let given = std::env::var("ATOLL_SEED").ok().and_then(|seed| seed.parse().ok());
        let seed = given.unwrap_or_else(|| fastrand::u64(..));
        println!("order: ATOLL_SEED={seed}");
        let mut rng = fastrand::Rng::with_seed(seed);
        let mut sorter = Sorter::default();
        for _ in 0..300 {
            let logs = rng.usize(1..4);
            let rows = *rng.choice(&[1, 3, 5000, 1 << 23, 1 << 34, u64::MAX]).expect("not empty");
            let first = *rng.choice(&[0, 1 << 20, u64::MAX - (rows - 1)]).expect("not empty");
            let first = first.min(u64::MAX - (rows - 1));
            let mut lists = vec![Vec::new(); logs];
            let mut cts = 0;
            for at in 0..*rng.choice(&[0, 1, 40, 3000]).expect("not empty") {
                // A commit is in one log, and may change a row several times.
                if rng.u8(..3) > 0 {
                    cts += 1;
                }
                let row = RowId(first + rng.u64(..rows));
                lists[cts as usize % logs].push(Item::numbered(row, Cts(cts), at));
            }
            let mut expected = lists.concat();
            expected.sort_by_key(|item| (item.row, item.cts, item.number()));
            // A log may come in parts.
            let parts = lists.iter().flat_map(|list| list.chunks(rng.usize(1..4000)));
            let parts: Vec<&[Item]> = parts.collect();
            let found = sorter.order(&parts);
            let numbers = |items: &[Item]| items.iter().map(|it| it.number()).collect::<Vec<_>>();
            assert_eq!(numbers(&found), numbers(&expected));
        }
    }
}
