//! Indexes that are there when replay begins, and are kept in step with their rows (rule 9.5: index
//! entries follow from the old and the new row).
//!
//! Invariants:
//! - After the last change of a row that is replayed, the index has the entry of the row's key, and
//!   none of any key that a replayed change took from the row. Every entry belongs to one row, a row
//!   to one worker, and a worker's changes of one entry keep their order; so workers need no
//!   agreement, and entries of different rows may come in any order.
//! - Keys are those that a whole build makes (`catalog::build_index`): of the row in place, deleted
//!   rows left out, nulls and long values alike.
//! - An index that was loaded may have entries that no row has (of transactions that were in flight
//!   or later when its leaf was copied, of old keys that nobody had collected), and may lack some
//!   that rows have (collected since, because a later change took the key away: then that change is
//!   replayed). So "there already" and "not there" are no errors, and nothing judges uniqueness:
//!   whoever committed was judged.
//! - A long value that a change takes out of a key may be damaged: then nobody knows which entry is to go. The row is
//!   noted, and at the end of replay the index is searched for its entries ([`KeptIndexes::remove_unread`]), so that
//!   the first invariant holds. If the row keeps the value, and the index needs another entry, it cannot be made: the
//!   start ends.
//! - Under the row's leaf only keys are copied; the index is latched later, with nothing held (tree
//!   rule 20; module `entries`). That an entry is only noted nobody sees: nobody reads during replay, and what
//!   was noted is made at the end of each pass, before definitions change.
//!
//! The *exact* and *keyed* bits (rule 5.7) may stay set while entries go. A bit says of a leaf that
//! each of its entries leads to a row with that key, in the state at the end of replay, for nobody
//! reads before. Take an entry of a leaf that has a bit then. If it was added in replay, the bit
//! *exact* went with it, and by the first invariant its row has its key (so *keyed* is true: it has
//! no other version). Else it was in the leaf when that was copied, and so was the bit: its row had
//! the key then. A change that took the key away afterwards was logged, and is replayed because a leaf is
//! copied at or after S: it took the entry out, and so the entry is not there, unless a later change
//! brought it back (then it was added in replay, if only as "there already"). So removing makes row
//! and entry agree, and a bit that was true stays true; it is leaving the entry that would make it
//! false. Adding clears *exact* as everywhere.

use std::sync::{Arc, Mutex};

use rustc_hash::FxHashSet;

use super::entries::{Becomes, Noted, Notes};
use crate::base::{Error, Outcome, Result, RowId, TreeId};
use crate::buffer::until_done;
use crate::catalog::{IndexDef, TableDef};
use crate::page::keynode::{KEY_BYTES_MAX, ROW_BYTES};
use crate::page::overflow::Form;
use crate::page::rowleaf::{RowState, SlotIndex, Took};
use crate::sync::mutant;
use crate::tree::descent::Onward;
use crate::tree::index::{IndexTree, Keep, Near};
use crate::tree::table::{LeafView, LeafWrite, TableTree, Watch};
use crate::version::undo::{copy_held, copy_newest, resolve_own_keys};
use crate::version::{IndexAccess, Presence, RowBuffer, Unique};

/// Entries of rows whose keys could not be read that are taken out at a time.
const FOUND_MAX: usize = 1 << 12;

/// One index that replay keeps.
struct KeptIndex {
    /// The number that the catalog gives it.
    id: TreeId,
    access: IndexAccess,
    /// Where its key columns are among [`KeptIndexes::columns`].
    places: Vec<usize>,
    /// Rows that may have entries under keys that could not be read. Written by workers, read when they are done.
    unread: Mutex<FxHashSet<RowId>>,
}

impl KeptIndex {
    /// Takes all entries out that rows in `unread` have under other keys than their present ones. `rows` is their table.
    fn remove_unread(&mut self, rows: &TableTree) -> Result<()> {
        let unread = std::mem::take(self.unread.get_mut().expect("no worker panics"));
        if unread.is_empty() || mutant("replay-unread-entry-left") {
            return Ok(());
        }
        let tree = &self.access.tree;
        let mut from = Some(Vec::new());
        while let Some(start) = from {
            let mut found: Vec<(Vec<u8>, RowId)> = Vec::new();
            // What is wrong with a leaf is for who reads it: nobody comes to a row from there.
            let part = tree.check_from(&start, &mut |node, _| {
                for at in (0..node.count()).filter(|at| unread.contains(&node.row(*at))) {
                    let mut key = Vec::new();
                    node.key(at, &mut key);
                    key.truncate(key.len() - ROW_BYTES);
                    found.push((key, node.row(at)));
                }
                if found.len() < FOUND_MAX { Onward::Go } else { Onward::Pause }
            })?;
            for (key, row) in found {
                if self.key_of(rows, row)?.as_ref() != Some(&key) {
                    let entry = (key.as_slice(), row);
                    until_done(tree.pool(), || {
                        tree.remove_near(Near::Nowhere, entry, &mut || Ok(Keep::No))
                    })?;
                }
            }
            from = part.next;
        }
        Ok(())
    }

    /// The row's key, if there is the row.
    fn key_of(&self, rows: &TableTree, row: RowId) -> Result<Option<Vec<u8>>> {
        let (mut seen, mut key) = (RowBuffer::new(), Vec::new());
        let is_there = until_done(rows.pool(), || {
            rows.read(row, &mut |leaf: &LeafView<'_>| {
                seen.clear();
                let Some(slot) = leaf.find(row) else { return Ok(false) };
                Ok(copy_newest(leaf, slot, &self.access.columns, &mut seen) == Presence::Present)
            })
        })?;
        if !is_there {
            return Ok(None);
        }
        resolve_own_keys(rows, &mut seen)?;
        self.access.encode(&mut key, |column| seen.column(column));
        Ok(Some(key))
    }
}

/// The indexes of one table that replay keeps.
#[derive(Default)]
pub(super) struct KeptIndexes {
    indexes: Vec<KeptIndex>,
    /// Every column that a key has, once.
    columns: Vec<u16>,
}

impl KeptIndexes {
    pub fn add(&mut self, def: &IndexDef, table: &TableDef, tree: Arc<IndexTree>) {
        let unique = if def.kind.is_unique() { Unique::Yes } else { Unique::No };
        let columns: Vec<u16> = def.columns.iter().map(|column| column.column.0).collect();
        let access = IndexAccess { tree, parts: def.key_parts(table), columns, unique };
        let (places, unread) = (Vec::new(), Mutex::default());
        self.indexes.push(KeptIndex { id: def.tree, access, places, unread });
        self.place();
    }

    /// Takes an index out.
    pub fn remove(&mut self, index: TreeId) -> Option<Arc<IndexTree>> {
        let at = self.indexes.iter().position(|kept| kept.id == index)?;
        let gone = self.indexes.remove(at);
        self.place();
        Some(gone.access.tree)
    }

    pub fn get(&self, index: TreeId) -> Option<&Arc<IndexTree>> {
        self.indexes.iter().find(|kept| kept.id == index).map(|kept| &kept.access.tree)
    }

    pub fn trees(&self) -> impl Iterator<Item = &Arc<IndexTree>> {
        self.indexes.iter().map(|kept| &kept.access.tree)
    }

    pub fn is_empty(&self) -> bool {
        self.indexes.is_empty()
    }

    /// At the end of replay: takes entries out whose keys could not be read when they were to go. `rows` is the table.
    pub fn remove_unread(&mut self, rows: &TableTree) -> Result<()> {
        self.indexes.iter_mut().try_for_each(|kept| kept.remove_unread(rows))
    }

    /// Whether some key has the column.
    pub fn is_key(&self, column: u16) -> bool {
        self.columns.contains(&column)
    }

    fn place(&mut self) {
        self.columns = self.indexes.iter().flat_map(|kept| &kept.access.columns).copied().collect();
        self.columns.sort_unstable();
        self.columns.dedup();
        for kept in &mut self.indexes {
            let place = |column| self.columns.binary_search(column).unwrap_or_else(|place| place);
            kept.places = kept.access.columns.iter().map(place).collect();
        }
    }
}

/// A row's key columns as they were or are.
#[derive(Default)]
struct Seen {
    row: RowBuffer,
    is_there: bool,
}

impl Seen {
    fn forget(&mut self) {
        self.row.clear();
        self.is_there = false;
    }

    fn see(&mut self, leaf: &LeafWrite<'_>, slot: SlotIndex, columns: &[u16]) {
        self.forget();
        if leaf.view().state(slot) == RowState::Live {
            copy_held(leaf, slot, columns, &mut self.row);
            self.is_there = true;
        }
    }

    /// Puts long values in the place of their references, as far as they can be read; the others are told of.
    fn resolve(&mut self, tree: &TableTree) {
        if let Err(why) = resolve_own_keys(tree, &mut self.row) {
            tree.pool().note_unread(why);
        }
    }

    /// Leaves the row's key in `key`; answers whether there is a row.
    fn key(&self, index: &KeptIndex, key: &mut Vec<u8>) -> Has {
        if !self.is_there {
            return Has::Nothing;
        }
        if index.places.iter().any(|at| self.row.form(*at) == Form::Long) {
            return Has::Unread;
        }
        index.access.encode(key, |column| self.row.column(index.places[column]));
        Has::It
    }

    /// Whether both have the same values, or references, in the index's columns.
    fn is_alike(&self, other: &Seen, index: &KeptIndex) -> bool {
        let cell =
            |seen: &Seen, at: usize| (seen.row.form(at), seen.row.column(at).map(<[u8]>::to_vec));
        index.places.iter().all(|at| cell(self, *at) == cell(other, *at))
    }
}

/// Which key a row has.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Has {
    It,
    /// There is no row.
    Nothing,
    /// One with a long value that cannot be read.
    Unread,
}

/// One worker's part in keeping the indexes of one table: watches a row while it is changed, then
/// notes what becomes of its entries.
pub(super) struct KeptEntries<'d> {
    kept: &'d KeptIndexes,
    tree: &'d TableTree,
    before: Seen,
    after: Seen,
    keys: (Vec<u8>, Vec<u8>),
    /// In the order of [`KeptIndexes::indexes`].
    noted: Vec<Noted<'d>>,
}

impl<'d> KeptEntries<'d> {
    /// Goes on with what `notes` have of these indexes.
    pub fn new(
        kept: &'d KeptIndexes,
        tree: &'d TableTree,
        notes: &mut Notes<'d>,
    ) -> KeptEntries<'d> {
        KeptEntries {
            kept,
            tree,
            before: Seen::default(),
            after: Seen::default(),
            keys: (Vec::new(), Vec::new()),
            noted: kept.trees().map(|tree| notes.take(tree)).collect(),
        }
    }

    /// Whether some key has the column.
    pub fn is_key(&self, column: u16) -> bool {
        self.kept.is_key(column)
    }

    /// A change of a row begins that changes these columns. None: no key has one, so that nobody
    /// need watch.
    pub fn watch(&mut self, mut columns: impl Iterator<Item = u16>) -> Option<&mut Self> {
        columns.any(|column| self.kept.is_key(column)).then(|| self.watch_all())
    }

    /// A row is put in or taken out.
    pub fn watch_all(&mut self) -> &mut Self {
        self.before.forget();
        self.after.forget();
        self
    }

    /// A row is to be taken out of a leaf that is held, where it is in `slot`. `Took::No`: a key has a long value,
    /// which cannot be read meanwhile.
    pub fn watch_held(&mut self, leaf: &LeafWrite<'_>, slot: SlotIndex) -> Took {
        self.watch_all();
        self.before.see(leaf, slot, &self.kept.columns);
        if self.before.row.has_long() { Took::No } else { Took::Yes }
    }

    /// A row that was not there has been put in with these values, all that its layout has and none of them long:
    /// notes its entries, as [`KeptEntries::changed`].
    pub fn inserted(&mut self, row: RowId, values: &[Option<&[u8]>]) -> Result<usize> {
        self.watch_all();
        for column in &self.kept.columns {
            self.after.row.push(values[usize::from(*column)]);
        }
        self.after.is_there = true;
        self.changed(row)
    }

    /// The change of `row` that was watched is made: notes what becomes of its entries. Answers how many
    /// bytes that takes.
    pub fn changed(&mut self, row: RowId) -> Result<usize> {
        self.after.resolve(self.tree);
        let mut bytes = 0;
        let (old, new) = (&mut self.keys.0, &mut self.keys.1);
        for (index, noted) in self.kept.indexes.iter().zip(&mut self.noted) {
            let had = self.before.key(index, old);
            let has = self.after.key(index, new);
            if had == Has::It && has == Has::It && old == new {
                continue;
            }
            if has == Has::Unread {
                if had == Has::Unread && self.before.is_alike(&self.after, index) {
                    continue;
                }
                return Err(self.wrong_key(row, index, "has a long value that cannot be read"));
            }
            if had == Has::Unread {
                index.unread.lock().expect("no worker panics").insert(row);
            }
            let (had, has) = (had == Has::It, has == Has::It);
            let is_left = has && mutant("replay-old-entry-left")
                || !has && mutant("replay-entry-left-by-delete");
            // A key that no index takes has no entry; only a row that never was has one.
            if had && old.len() <= KEY_BYTES_MAX && !is_left {
                bytes += noted.push(old, row, Becomes::Absent);
            }
            if has && new.len() > KEY_BYTES_MAX {
                return Err(self.wrong_key(row, index, "is longer than one can be"));
            }
            if has && !mutant("replay-new-entry-not-added") {
                bytes += noted.push(new, row, Becomes::Present);
            }
        }
        Ok(bytes)
    }

    #[cold]
    fn wrong_key(&self, row: RowId, index: &KeptIndex, what: &str) -> Error {
        let (tree, index) = (self.tree.id(), index.id);
        let detail = format!("the key of row {row} of tree {tree} in index {index} {what}");
        Error::Corrupt { page: None, detail }
    }

    /// Gives back what was noted.
    pub fn put_back(&mut self, notes: &mut Notes<'d>) {
        self.noted.drain(..).for_each(|noted| notes.put(noted));
    }

    /// Makes all that was noted, here and of other indexes.
    pub fn make_all(&mut self, notes: &mut Notes<'d>) -> Result<()> {
        self.put_back(notes);
        notes.make()?;
        self.noted.extend(self.kept.trees().map(|tree| notes.take(tree)));
        Ok(())
    }
}

impl Watch for KeptEntries<'_> {
    fn before(&mut self, leaf: &LeafWrite<'_>, slot: SlotIndex) -> Outcome<()> {
        self.before.see(leaf, slot, &self.kept.columns);
        // Here, for the change frees those that it replaces.
        self.before.resolve(self.tree);
        Ok(())
    }

    fn after(&mut self, leaf: &LeafWrite<'_>, slot: SlotIndex) {
        self.after.see(leaf, slot, &self.kept.columns);
    }
}
