//! One worker of a pass: applies its changes, tree by tree, row by row.
//!
//! Invariants: the order of a row's changes is kept (`order`), that of different rows is not: nothing
//! that a change does depends on another row. A row is inserted, changed or removed by its number;
//! entries of kept indexes are each of one row (`kept`); a long value belongs to the change that names
//! it. So the state after a pass is the same in every order that keeps each row's. Rows of one leaf
//! follow each other: the leaf is found, latched and fetched from memory once for all its changes of
//! a round, and while it is held nothing is waited for. What a held leaf does not take is made by
//! itself, with nothing held before.

use std::cell::OnceCell;

use super::definitions::{Definitions, Rows};
use super::kept::KeptEntries;
use super::order::Sorter;
use super::parsed::{Item, Longs, Parsed, Span, What};
use crate::base::{Error, HomeId, Result, TreeId};
use crate::buffer::until_done;
use crate::page::pax::Took;
use crate::tree::hints::LeafHints;
use crate::tree::overflow::{NewLong, write_stored};
use crate::tree::table::{HeldLeaf, RestoreCursor, Restored, TableTree, Unwatched, Watch};
use crate::txn::redo::RedoValue;

/// Places in indexes that a worker remembers, as a power of two.
const HINTS_LOG2: u32 = 12;

/// Bytes of changed entries that a worker may note, of all indexes together, before it makes them all.
const NOTED_BYTES_MAX: usize = 8 << 20;

/// Changes whose bytes are asked for before they are needed.
const AHEAD: usize = 12;

/// Applies all that is `worker`'s in a span of time, where `trees` have changes.
pub(super) fn apply_share(
    parsed: &[Parsed<'_>],
    (span, trees): (Span, &[TreeId]),
    definitions: &Definitions,
    worker: usize,
    sorter: &mut Sorter,
) -> Result<()> {
    let home = HomeId(worker as u16 % definitions.homes);
    let hints = OnceCell::new();
    for tree in trees {
        // None: nobody owns it.
        let Some(rows) = definitions.rows(*tree) else { continue };
        let items = sorter.order(parsed.iter().map(|part| part.items(*tree, worker, span)));
        Worker::new(parsed, rows, home, &hints).run(items)?;
    }
    Ok(())
}

/// One worker's part of a pass in one tree.
struct Worker<'d> {
    parsed: &'d [Parsed<'d>],
    tree: &'d TableTree,
    cursor: RestoreCursor,
    /// If it has indexes that are kept.
    entries: Option<KeptEntries<'d>>,
    /// Where index entries were put last.
    hints: &'d OnceCell<LeafHints>,
    /// Bytes of changes of entries that were noted since all were made.
    noted: usize,
}

impl<'d> Worker<'d> {
    fn new(
        parsed: &'d [Parsed<'d>],
        rows: &'d Rows,
        home: HomeId,
        hints: &'d OnceCell<LeafHints>,
    ) -> Worker<'d> {
        let entries = (!rows.kept.is_empty()).then(|| KeptEntries::new(&rows.kept, &rows.tree));
        let cursor = RestoreCursor::new(home);
        Worker { parsed, tree: &rows.tree, cursor, entries, hints, noted: 0 }
    }

    fn run(&mut self, items: &[Item]) -> Result<()> {
        let mut held: Option<HeldLeaf<'d>> = None;
        let mut columns = Vec::new();
        for (at, item) in items.iter().enumerate() {
            if let Some(ahead) = items.get(at + AHEAD) {
                self.parsed[ahead.source()].prefetch(*ahead);
            }
            if item.names_longs() || self.is_watched(*item) {
                held = None;
                self.apply(*item)?;
                continue;
            }
            if held.as_ref().is_none_or(|leaf| !leaf.covers(item.row)) {
                // Before the next one is taken.
                drop(held.take());
                held = until_done(self.tree.pool(), || self.tree.hold(&mut self.cursor, item.row))?;
            }
            let took = held.as_mut().map(|leaf| self.take(leaf, *item, &mut columns));
            if took != Some(Took::Yes) {
                held = None;
                self.apply(*item)?;
            }
        }
        drop(held);
        self.finish()
    }

    /// Whether entries of kept indexes may follow from the change.
    fn is_watched(&self, item: Item) -> bool {
        let Some(entries) = &self.entries else { return false };
        match item.what() {
            What::Update => self.parsed[item.source()].columns(item).any(|it| entries.is_key(it.0)),
            What::Insert | What::Delete => true,
        }
    }

    /// Makes a change in a leaf that is held, if it is one that the leaf takes.
    #[inline]
    fn take(
        &self,
        leaf: &mut HeldLeaf<'_>,
        item: Item,
        columns: &mut Vec<Option<&'d [u8]>>,
    ) -> Took {
        let part = &self.parsed[item.source()];
        match item.what() {
            What::Insert => {
                columns.clear();
                columns.extend(part.values(item).map(inline));
                leaf.row(item.row, columns)
            }
            What::Update => {
                let changes = part.columns(item).map(|(column, value)| (column, inline(value)));
                leaf.columns(item.row, changes)
            }
            What::Delete => leaf.remove(item.row),
        }
    }

    /// Makes a change by itself, whatever it needs.
    fn apply(&mut self, item: Item) -> Result<()> {
        let Worker { parsed, tree, cursor, entries, .. } = self;
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
            let hints = self.hints.get_or_init(|| LeafHints::new(HINTS_LOG2));
            self.noted += entries.changed(item.row, hints)?;
        }
        if self.noted > NOTED_BYTES_MAX { self.finish() } else { Ok(()) }
    }

    /// Makes all changes of entries that were put off: at the end of a tree, or when they are many.
    fn finish(&mut self) -> Result<()> {
        self.noted = 0;
        match (&mut self.entries, self.hints.get()) {
            (Some(entries), Some(hints)) => entries.flush(hints),
            _ => Ok(()),
        }
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
