//! An index against its table: every live row has its entry, every entry is one that may be there, and no two rows
//! have one key of a unique index.
//!
//! Invariants: entries are weighed against rows ([`Balance`]) in one walk of each tree. Only where they do not agree
//! is anything looked up: first the entries there, each of which is no row's (an old key's or a deleted row's, which may be
//! there until it is collected: rules 5.4 and 5.5) or a row's; what is left then are rows without an entry.
//! What an entry that is no row's may not be: in a leaf that says that all its entries have rows (*exact*,
//! rule 5.7); in one that says that none has a row with another key (*keyed*), if its row lives; or, there, of a
//! row that never was, whose id may be given to one with another key. So what is reported is wrong whatever
//! collection does meanwhile.
//! Look-ups are made between two parts of a walk, with nothing latched, in order of what is looked up; a
//! part ends when it has [`BATCH_BYTES`] of them. They need all of the table and the index to be readable.

use std::ops::Bound;

use super::rows::{KeyMaker, live_rows};
use super::tallies::{Balance, Lines};
use super::{Check, ended};
use crate::base::{Result, RowId};
use crate::buffer::until_done;
use crate::latch::OwnedPage;
use crate::page::keynode::{KeyNode, ROW_BYTES};
use crate::page::rowleaf::{Leaf, RowState};
use crate::tree::descent::Onward;
use crate::tree::index::{IndexBatch, ScanDirection};
use crate::tree::key::KeyPart;
use crate::tree::table::LeafView;
use crate::version::{IndexAccess, TableAccess, Unique};

/// Bytes of keys, with what there is besides, after which look-ups are made.
const BATCH_BYTES: usize = 16 << 20;

/// Checks the structure of the index at `at` of a table, and its entries against the `balance` of the rows, of which
/// `unread` pages or values could not be read; tells what is wrong.
pub(super) fn check_entries(
    (table, at): (&TableAccess, usize),
    (balance, unread): (Balance, u64),
    label: &str,
    check: &mut Check,
) -> Result<()> {
    let mut entries = Entries {
        table,
        index: &table.indexes[at],
        rows: if unread == 0 { RowsAre::Known } else { RowsAre::Unknown },
        balance,
        count: 0,
        lines: Lines::default(),
        keys: KeyMaker::default(),
        twins: Twins::default(),
    };
    let passed_over = entries.weigh()?;
    if unread + passed_over > 0 {
        let not = "it was not compared with its table: not all pages of both can be read";
        check.findings.unchecked.push(format!("{label}: {not}"));
    } else if !entries.balance.is_even() {
        entries.judge_entries()?;
        entries.find_missing()?;
    }
    check.unread += passed_over;
    check.findings.entries += entries.count;
    check.findings.tell(label, entries.lines);
    Ok(())
}

/// Whether all rows of a table could be read.
#[derive(Clone, Copy, PartialEq, Eq)]
enum RowsAre {
    Known,
    Unknown,
}

/// Which key a row has, for an entry.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Has {
    /// It lives and has the entry's key.
    It,
    /// It lives and has another one.
    Another,
    /// It does not live.
    Nothing,
}

/// What an entry's leaf says of it.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Claim {
    /// Its row lives and has its key.
    Exact,
    /// Its row has no other key.
    Keyed,
    /// Nothing.
    None,
}

/// Keys with their rows, for look-ups that are still to be made.
struct Batch<T> {
    items: Vec<(Vec<u8>, RowId, T)>,
    bytes: usize,
}

impl<T> Default for Batch<T> {
    fn default() -> Batch<T> {
        Batch { items: Vec::new(), bytes: 0 }
    }
}

impl<T> Batch<T> {
    fn push(&mut self, key: &[u8], row: RowId, more: T) {
        self.bytes += key.len() + size_of::<(Vec<u8>, RowId, T)>();
        self.items.push((key.to_vec(), row, more));
    }

    /// Whether there is room for another leaf's.
    fn onward(&self) -> Onward {
        if self.bytes < BATCH_BYTES { Onward::Go } else { Onward::Pause }
    }
}

/// Neighbours with one key in an index that allows it once.
#[derive(Default)]
struct Twins {
    /// The entry before.
    key: Vec<u8>,
    row: RowId,
    /// Whether that is in the batch.
    is_noted: bool,
    /// Entries that have the key of a neighbour, in order.
    noted: Batch<()>,
    /// The last one looked up of which the row has the key.
    holder: Option<(Vec<u8>, RowId)>,
}

impl Twins {
    fn note(&mut self, key: &[u8], row: RowId, parts: &[KeyPart]) {
        let is_twin = self.key == key && !has_null(parts, key);
        if is_twin {
            if !self.is_noted {
                self.noted.push(&self.key, self.row, ());
            }
            self.noted.push(key, row, ());
        }
        self.key.clear();
        self.key.extend_from_slice(key);
        (self.row, self.is_noted) = (row, is_twin);
    }
}

struct Entries<'a> {
    table: &'a TableAccess,
    index: &'a IndexAccess,
    rows: RowsAre,
    balance: Balance,
    count: u64,
    lines: Lines,
    keys: KeyMaker,
    twins: Twins,
}

impl Entries<'_> {
    /// Checks the tree's structure and takes every entry from the balance; looks for keys that several rows
    /// have. Answers how many pages could not be read.
    fn weigh(&mut self) -> Result<u64> {
        let (index, mut passed_over) = (self.index, 0);
        let mut from: Option<Vec<u8>> = Some(Vec::new());
        while let Some(start) = from {
            let part =
                index.tree.check_from(&start, &mut |node, _| self.weigh_leaf(node, &start))?;
            passed_over += part.passed_over;
            self.lines.add(part.problems);
            self.judge_twins()?;
            from = part.next;
        }
        Ok(passed_over)
    }

    fn weigh_leaf(&mut self, node: &KeyNode<OwnedPage<'_>>, from: &[u8]) -> Onward {
        let index = self.index;
        let are_twins_wrong = index.unique == Unique::Yes && self.rows == RowsAre::Known;
        each_entry(node, from, |key, row| {
            self.count += 1;
            self.balance.take(row, key);
            if are_twins_wrong {
                self.twins.note(key, row, &index.parts);
            }
        });
        self.twins.noted.onward()
    }

    /// Looks up the rows of neighbours with one key: one of them may have it.
    fn judge_twins(&mut self) -> Result<()> {
        for (key, row, ()) in std::mem::take(&mut self.twins.noted).items {
            if self.look_up(row, &key)? != Has::It {
                continue;
            }
            let before = self.twins.holder.take().filter(|(held, _)| *held == key);
            if let Some((_, other)) = before {
                self.lines.add([format!("rows {other} and {row} have the same key {key:02x?}")]);
            }
            self.twins.holder = Some((key, row));
        }
        Ok(())
    }

    /// Looks at all entries where the balance is not even, and takes those out of it that are no row's.
    fn judge_entries(&mut self) -> Result<()> {
        let index = self.index;
        let mut from: Option<Vec<u8>> = Some(Vec::new());
        while let Some(start) = from {
            let mut batch = Batch::default();
            let balance = &self.balance;
            let part = index.tree.check_from(&start, &mut |node, _| {
                let claim = claim_of(node);
                each_entry(node, &start, |key, row| {
                    if !balance.is_even_at(row) {
                        batch.push(key, row, claim);
                    }
                });
                batch.onward()
            })?;
            // Rows lie in order of their ids.
            batch.items.sort_unstable_by_key(|(_, row, _)| *row);
            for (key, row, claim) in &batch.items {
                self.judge(key, *row, *claim)?;
            }
            from = part.next;
        }
        Ok(())
    }

    fn judge(&mut self, key: &[u8], row: RowId, claim: Claim) -> Result<()> {
        let has = self.look_up(row, key)?;
        if has == Has::It {
            return Ok(());
        }
        self.balance.add(row, key);
        let never_was = row.0 >= self.table.tree.rows_next();
        let wrong = match (claim, has) {
            (Claim::Exact, _) => "leads to no row that has it, in a leaf that is marked exact",
            (Claim::Keyed, Has::Another) => {
                "leads to a row with another key, in a leaf that is marked as having none such"
            }
            (Claim::Keyed, _) if never_was => "leads to a row that never was",
            // Collection has yet to take it.
            _ => return Ok(()),
        };
        self.lines.add([format!("the entry {key:02x?} of row {row} {wrong}")]);
        Ok(())
    }

    /// Looks for the entries of all rows where the balance is not even though entries that are no row's are out of it.
    fn find_missing(&mut self) -> Result<()> {
        if self.balance.is_even() {
            return Ok(());
        }
        let (tree, index) = (&*self.table.tree, self.index);
        let mut from = Some(RowId(0));
        while let Some(start) = from {
            let mut batch = Batch::default();
            let visited = tree.check_from(start, &mut |leaf, _| {
                self.note_rows(leaf, start, &mut batch);
                batch.onward()
            });
            let part = ended(visited)?;
            // Entries lie in order of their keys.
            batch.items.sort_unstable();
            for (key, row, ()) in &batch.items {
                if !has_entry(index, key, *row)? {
                    self.lines.add([format!("row {row} has no entry")]);
                }
            }
            from = part.next;
        }
        Ok(())
    }

    fn note_rows(&mut self, leaf: &Leaf<'_, OwnedPage<'_>>, from: RowId, batch: &mut Batch<()>) {
        for (row, slot) in live_rows(leaf, from) {
            if self.balance.is_even_at(row) {
                continue;
            }
            // All keys could be made before.
            if let Ok(key) = self.keys.make(&self.table.tree, self.index, leaf, slot) {
                batch.push(key, row, ());
            }
        }
    }

    fn look_up(&mut self, row: RowId, key: &[u8]) -> Result<Has> {
        let (tree, index, keys) = (&*self.table.tree, self.index, &mut self.keys);
        until_done(tree.pool(), || {
            tree.read(row, &mut |leaf: &LeafView<'_>| {
                let found = leaf.find(row);
                let Some(slot) = found.filter(|slot| leaf.state(*slot) == RowState::Live) else {
                    return Ok(Has::Nothing);
                };
                let own = keys.make(tree, index, leaf, slot)?;
                Ok(if own == key { Has::It } else { Has::Another })
            })
        })
    }
}

/// Calls `met` on the entries of a leaf from `from` on: those before have been met already.
fn each_entry(node: &KeyNode<OwnedPage<'_>>, from: &[u8], mut met: impl FnMut(&[u8], RowId)) {
    let mut entry = Vec::new();
    for at in 0..node.count() {
        entry.clear();
        node.key(at, &mut entry);
        if entry.as_slice() < from {
            continue;
        }
        // A leaf that is in order has no shorter ones.
        if let Some((key, row)) = entry.split_last_chunk::<ROW_BYTES>() {
            met(key, RowId(u64::from_be_bytes(*row)));
        }
    }
}

fn claim_of(node: &KeyNode<OwnedPage<'_>>) -> Claim {
    if node.is_exact() {
        Claim::Exact
    } else if node.is_keyed() {
        Claim::Keyed
    } else {
        Claim::None
    }
}

/// Whether a part of the key is a null, which is all marker: then it is nobody's twin.
fn has_null(parts: &[KeyPart], key: &[u8]) -> bool {
    let mut rest = key;
    parts.iter().any(|part| {
        let Some(bytes) = part.encoded_bytes(rest) else { return false };
        rest = &rest[bytes..];
        bytes == 1
    })
}

/// Whether the index has the entry.
fn has_entry(index: &IndexAccess, key: &[u8], row: RowId) -> Result<bool> {
    let tree = &index.tree;
    let mut from = [key, &row.0.to_be_bytes()].concat();
    let mut batch = IndexBatch::with_limit(1);
    loop {
        let goes_on = until_done(tree.pool(), || {
            let low = Bound::Included(from.as_slice());
            tree.scan(low, Bound::Unbounded, ScanDirection::Forward, &mut batch)
        })?;
        match goes_on {
            Some(next) if batch.is_empty() => from = next.key,
            _ => {
                let is_there = !batch.is_empty() && batch.row(0) == row && batch.key(0) == key;
                return Ok(is_there);
            }
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::page::ColumnType;
    use crate::tree::key::{Direction, Nulls, encode_key};

    #[test]
    fn a_null_anywhere_in_a_key_is_seen() {
        let columns = [ColumnType::Int4, ColumnType::Bytes, ColumnType::Bool];
        for direction in [Direction::Ascending, Direction::Descending] {
            for nulls in [Nulls::First, Nulls::Last] {
                let parts = columns.map(|column| KeyPart { column, direction, nulls });
                let values: [&[u8]; 3] = [&[1, 0, 0, 0], &[1, 0, 3], &[1]];
                for null in 0..4 {
                    let value = |at: usize| (at != null).then_some(values[at]);
                    let mut key = Vec::new();
                    encode_key(&parts, &[value(0), value(1), value(2)], &mut key);
                    assert_eq!(has_null(&parts, &key), null < 3, "{parts:?} {key:?}");
                }
            }
        }
    }
}
