//! What a worker of a pass does in one share of a tree's rows: applies their changes, row by row.
//!
//! Invariants: the order of a row's changes is kept (`order`), that of different rows is not: nothing
//! that a change does depends on another row. A row is inserted, changed or removed by its number;
//! entries of kept indexes are each of one row (`kept`), and only noted here; a long value belongs to the change
//! that names it. So the state after a pass is the same in every order that keeps each row's. Rows of one leaf
//! follow each other: the leaf is found, latched and fetched from memory once for all its changes of
//! a round, and while it is held nothing is waited for. What a held leaf does not take is made by
//! itself, with nothing held before.

use super::definitions::Rows;
use super::entries::Notes;
use super::kept::KeptEntries;
use super::parsed::{Item, Longs, Parsed, What};
use crate::base::{Error, HomeId, Result};
use crate::buffer::until_done;
use crate::page::rowleaf::Took;
use crate::tree::overflow::{NewLong, write_stored};
use crate::tree::table::{HeldLeaf, RestoreCursor, Restored, TableTree, Unwatched, Watch};
use crate::txn::redo::RedoValue;

/// Changes whose bytes are asked for before they are needed.
const AHEAD: usize = 12;

/// A worker that is at one tree.
pub(super) struct Worker<'d, 'n> {
    parsed: &'d [Parsed<'d>],
    tree: &'d TableTree,
    cursor: RestoreCursor,
    /// If it has indexes that are kept.
    entries: Option<KeptEntries<'d>>,
    notes: &'n mut Notes<'d>,
}

impl<'d, 'n> Worker<'d, 'n> {
    pub fn new(
        parsed: &'d [Parsed<'d>],
        rows: &'d Rows,
        home: HomeId,
        notes: &'n mut Notes<'d>,
    ) -> Worker<'d, 'n> {
        let entries =
            (!rows.kept.is_empty()).then(|| KeptEntries::new(&rows.kept, &rows.tree, notes));
        let cursor = RestoreCursor::new(home);
        Worker { parsed, tree: &rows.tree, cursor, entries, notes }
    }

    /// Applies `items`, in that order.
    pub fn run(&mut self, items: &[Item]) -> Result<()> {
        let mut held: Option<HeldLeaf<'d>> = None;
        let mut columns = Vec::new();
        for (at, item) in items.iter().enumerate() {
            if let Some(ahead) = items.get(at + AHEAD) {
                self.parsed[ahead.source()].prefetch(*ahead);
            }
            if item.names_longs() || self.changes_keys(*item) {
                held = None;
                self.apply(*item)?;
            } else {
                if held.as_ref().is_none_or(|leaf| !leaf.covers(item.row)) {
                    // Before the next one is taken.
                    drop(held.take());
                    let hold = || self.tree.hold(&mut self.cursor, item.row);
                    held = until_done(self.tree.pool(), hold)?;
                }
                let took = match &mut held {
                    Some(leaf) => self.take(leaf, *item, &mut columns)?,
                    None => Took::No,
                };
                if took == Took::No {
                    held = None;
                    self.apply(*item)?;
                }
            }
            if self.notes.are_many()
                && let Some(entries) = &mut self.entries
            {
                held = None;
                entries.make_all(self.notes)?;
            }
        }
        drop(held);
        if let Some(entries) = &mut self.entries {
            entries.put_back(self.notes);
        }
        Ok(())
    }

    /// Whether it is an update by which entries of kept indexes may have to change: some of its values may be
    /// made in a held leaf and others not, so that nobody knew what the row's key was.
    fn changes_keys(&self, item: Item) -> bool {
        let Some(entries) = &self.entries else { return false };
        item.what() == What::Update
            && self.parsed[item.source()].columns(item).any(|it| entries.is_key(it.0))
    }

    /// Makes a change in a leaf that is held, if it is one that the leaf takes.
    #[inline]
    fn take(
        &mut self,
        leaf: &mut HeldLeaf<'_>,
        item: Item,
        columns: &mut Vec<Option<&'d [u8]>>,
    ) -> Result<Took> {
        let Worker { parsed, entries, notes, .. } = self;
        let part = &parsed[item.source()];
        let took = match item.what() {
            What::Insert => {
                columns.clear();
                columns.extend(part.values(item).map(inline));
                let took = leaf.row(item.row, columns);
                if let (Took::Yes, Some(entries)) = (took, entries) {
                    notes.add(entries.inserted(item.row, columns)?);
                }
                took
            }
            What::Update => {
                let changes = part.columns(item).map(|(column, value)| (column, inline(value)));
                leaf.columns(item.row, changes)
            }
            What::Delete => {
                let Some(entries) = entries else { return Ok(leaf.remove(item.row)) };
                let watched = leaf.slot(item.row).map(|slot| entries.watch_held(leaf.leaf(), slot));
                if watched != Some(Took::Yes) || leaf.remove(item.row) == Took::No {
                    return Ok(Took::No);
                }
                notes.add(entries.changed(item.row)?);
                Took::Yes
            }
        };
        Ok(took)
    }

    /// Makes a change by itself, whatever it needs.
    fn apply(&mut self, item: Item) -> Result<()> {
        let Worker { parsed, tree, cursor, entries, notes } = self;
        let part = &parsed[item.source()];
        let mut watched = match item.what() {
            What::Update => entries
                .as_mut()
                .and_then(|it| it.watch(part.columns(item).map(|(column, _)| column))),
            What::Insert | What::Delete => entries.as_mut().map(KeptEntries::watch_all),
        };
        match &mut watched {
            Some(watch) => store(tree, cursor, part, item, *watch)?,
            None => store(tree, cursor, part, item, &mut Unwatched)?,
        }
        if let Some(entries) = watched {
            notes.add(entries.changed(item.row)?);
        }
        Ok(())
    }
}

/// A value of a change that names no long one.
#[inline]
fn inline(value: RedoValue<'_>) -> Option<&[u8]> {
    match value {
        RedoValue::Null => None,
        RedoValue::Inline(value) => Some(value),
        RedoValue::Long(_) => unreachable!("the change was said to name none"),
    }
}

/// The long values of a change, in overflow pages, until its row has them.
struct NewLongs<'a> {
    tree: &'a TableTree,
    home: HomeId,
    part: &'a Parsed<'a>,
    item: Item,
    written: Vec<NewLong>,
}

impl NewLongs<'_> {
    fn restored<'v>(&mut self, value: RedoValue<'v>) -> Result<Restored<'v>> {
        let number = match value {
            RedoValue::Null => return Ok(Restored::Null),
            RedoValue::Inline(value) => return Ok(Restored::Inline(value)),
            RedoValue::Long(number) => number,
        };
        // The reader has seen to it that every number is that of a long value.
        let Longs { first, values, .. } = self.part.longs(self.item);
        let stored = values[(number - first) as usize];
        let long = write_stored(self.tree.pool(), self.home, self.tree.id(), &stored)?;
        let reference = long.reference().encode();
        self.written.push(long);
        Ok(Restored::Long(reference))
    }

    fn adopt(&mut self) {
        self.written.iter_mut().for_each(NewLong::adopt);
    }
}

fn store(
    tree: &TableTree,
    cursor: &mut RestoreCursor,
    part: &Parsed<'_>,
    item: Item,
    watch: &mut dyn Watch,
) -> Result<()> {
    let row = item.row;
    let mut new = NewLongs { tree, home: cursor.home(), part, item, written: Vec::new() };
    match item.what() {
        What::Insert => {
            let columns: Vec<Restored<'_>> =
                part.values(item).map(|value| new.restored(value)).collect::<Result<_>>()?;
            until_done(tree.pool(), || tree.restore(cursor, row, &columns, watch))?;
            new.adopt();
            Ok(())
        }
        What::Update => {
            let columns: Vec<(usize, Restored<'_>)> = part
                .columns(item)
                .map(|(column, value)| Ok((usize::from(column), new.restored(value)?)))
                .collect::<Result<_>>()?;
            let is_there =
                until_done(tree.pool(), || tree.restore_columns(cursor, row, &columns, watch))?;
            if is_there {
                new.adopt();
                return Ok(());
            }
            let detail =
                format!("the log changes row {row} of tree {}, which is not there", tree.id());
            Err(Error::Corrupt { page: None, detail })
        }
        What::Delete => until_done(tree.pool(), || tree.remove(cursor, row, watch)).map(drop),
    }
}
