//! Fetching from memory what several look-ups are about to read, all at once.
//!
//! A look-up that nobody has done lately waits for memory some seven times in a row: where the index
//! leaf was, its head, its slots, where the row's leaf was, its head, its fixed part, its heap. Many
//! look-ups wait no longer than one if each goes a step before any goes the next (group
//! prefetching: Chen, Ailamaki, Gibbons and Mowry, "Improving hash join performance through
//! prefetching", ICDE 2004, section 4; AMAC: Kocberber, Falsafi and Grot, VLDB 2015).
//!
//! Look-ups whose pages are on disk wait for these, one after the other: [`missing_pages`] says which
//! they are, to be read all at once.
//!
//! Where leaves are is looked for in the hints first. Where a hint is wrong, as most are when there are
//! many more leaves than hints, a descent finds the leaf: inner nodes are few and mostly in the
//! processor's cache. Such look-ups go the steps once more, together, behind the others. Where the row
//! itself can be guessed ([`crate::tree::guesses`]) the index is left alone: only the row is fetched.
//!
//! Invariants: nothing is written but hints, no row is believed: rows are read afterwards as if this
//! had not been. Where a key's entry was found is kept for its look-up, which believes it only as long
//! as the leaf has not changed ([`KeyPlace`]). What is not in memory is left out. Nothing is waited
//! for.

use std::cell::Cell;

use crate::base::{NeededPage, Outcome, RowId, Stop};
use crate::buffer::FrameRef;
use crate::page::rowleaf::SlotIndex;
use crate::tree::hints::{LeafHint, LeafHints};
use crate::tree::index::{FoundKey, KeyPlace, Keyed, Near};
use crate::version::{IndexAccess, TableAccess, Unique, undo};

/// Look-ups that go step by step together, and rows that are fetched before the first of them is
/// read: so many fetches a processor has under way.
pub const WIDTH: usize = 32;

/// A look-up of a row by a whole key that is about to come.
#[derive(Clone)]
pub struct PointAhead<'a> {
    /// The table.
    pub table: &'a TableAccess,
    /// The unique index by which it is looked up, one of the table's.
    pub index: &'a IndexAccess,
    /// The key; its first columns, where a scan of the rows with these is about to come.
    pub key: &'a [u8],
    /// What is to be read.
    pub columns: &'a [u16],
    /// What is known of its row.
    pub(super) place: Cell<PointPlace>,
}

/// What is known of a look-up's row before it is read.
#[derive(Clone, Copy, Debug, Default)]
pub(super) enum PointPlace {
    /// Nothing.
    #[default]
    Unknown,
    /// Most likely it is this one.
    Guessed(RowId),
    /// Here is its key's entry.
    Entry(KeyPlace),
}

impl PointPlace {
    /// The row that the key's entry names, if its leaf is as it was.
    pub(super) fn entry(self) -> Option<(RowId, Keyed)> {
        match self {
            PointPlace::Entry(place) => place.row(),
            PointPlace::Unknown | PointPlace::Guessed(_) => None,
        }
    }
}

/// What was found of a look-up's row ahead, for who cannot keep the look-up itself.
#[derive(Clone, Copy, Debug, Default)]
pub struct FoundAhead(PointPlace);

impl<'a> PointAhead<'a> {
    /// Of which nothing is known yet.
    #[inline]
    pub fn at(
        (table, index): (&'a TableAccess, &'a IndexAccess),
        key: &'a [u8],
        columns: &'a [u16],
    ) -> PointAhead<'a> {
        PointAhead { table, index, key, columns, place: Cell::default() }
    }

    /// What was found of its row.
    pub fn found(&self) -> FoundAhead {
        FoundAhead(self.place.get())
    }

    /// The row that has the key, most likely; the version of it that is seen is to be asked for its
    /// key.
    #[inline]
    pub(super) fn guess(&self, hints: &LeafHints) -> Option<RowId> {
        match self.index.unique {
            Unique::Yes => hints.guesses.row(self.index.tree.tree(), self.key),
            Unique::No => None,
        }
    }

    /// Looks for its key in a leaf of its index, and keeps where the only entry is; the row, to be
    /// fetched next.
    #[inline]
    fn find<'r>(&'r self, leaf: FrameRef, hints: &'r LeafHints) -> Found<'r> {
        let row = match self.index.tree.find_ahead(leaf, self.key) {
            FoundKey::Here(place) => {
                self.place.set(PointPlace::Entry(place));
                let Some((row, _)) = place.row() else { return Found::Nothing };
                row
            }
            FoundKey::Several(row) => row,
            FoundKey::Undecided => return Found::Nothing,
            FoundKey::Elsewhere => return Found::Elsewhere,
        };
        Found::Row(RowAhead::new(self.table, row, self.columns, hints))
    }

    /// Keeps the row that is guessed; the row, with its key's columns, to be fetched.
    #[inline]
    fn guess_ahead<'r>(&'r self, hints: &'r LeafHints) -> Option<RowAhead<'r>> {
        let row = self.guess(hints)?;
        self.place.set(PointPlace::Guessed(row));
        let ahead = RowAhead::new(self.table, row, self.columns, hints);
        Some(RowAhead { key: &self.index.columns, ..ahead })
    }

    /// With what was found for the same key.
    pub fn with_found(self, found: FoundAhead) -> PointAhead<'a> {
        self.place.set(found.0);
        self
    }
}

/// What a leaf of its index says of a look-up.
enum Found<'a> {
    /// Its row, or the first of its rows.
    Row(RowAhead<'a>),
    /// That there is none, or nothing.
    Nothing,
    /// The leaf is another key's.
    Elsewhere,
}

/// A row that is about to be read.
#[derive(Clone, Copy)]
struct RowAhead<'a> {
    table: &'a TableAccess,
    row: RowId,
    columns: &'a [u16],
    /// The key's columns, if they are to be read, too.
    key: &'a [u16],
    hint: &'a Cell<LeafHint>,
    at: At,
}

/// How far a row was found.
#[derive(Clone, Copy)]
enum At {
    /// It is not looked for any more.
    Nowhere,
    /// Its leaf is here, as the hint says; its beginning is asked for.
    Leaf(FrameRef),
    /// It is here in its leaf.
    Slot(FrameRef, SlotIndex),
}

/// Fetches what look-ups of these keys will read.
pub fn prefetch_points(points: &[PointAhead<'_>], hints: &LeafHints) {
    for some in points.chunks(WIDTH) {
        prefetch_some_points(some, hints);
    }
}

fn prefetch_some_points(points: &[PointAhead<'_>], hints: &LeafHints) {
    let (mut hinted, mut rows) = ([None; WIDTH], [None; WIDTH]);
    for ((hint, row), point) in hinted.iter_mut().zip(&mut rows).zip(points) {
        *row = point.guess_ahead(hints);
        if row.is_none() {
            *hint = Some(hints.prefetch_key(point.index.tree.tree(), point.key));
        }
    }
    let mut leaves = [None; WIDTH];
    for ((leaf, point), hint) in leaves.iter_mut().zip(points).zip(hinted) {
        *leaf = hint.and_then(|hint| point.index.tree.prefetch_leaf(hint.get()));
    }
    prefetch_searches(points, &leaves);
    let mut anew = [None; WIDTH];
    for (at, point) in points.iter().enumerate() {
        let Some(hint) = hinted[at] else { continue };
        match leaves[at].map_or(Found::Elsewhere, |leaf| point.find(leaf, hints)) {
            Found::Row(row) => rows[at] = Some(row),
            Found::Nothing => {}
            Found::Elsewhere => {
                anew[at] = point.index.tree.prefetch_leaf_anew(hint, point.key);
            }
        }
    }
    prefetch_searches(points, &anew);
    for ((row, point), leaf) in rows.iter_mut().zip(points).zip(anew) {
        if let Some(leaf) = leaf
            && let Found::Row(found) = point.find(leaf, hints)
        {
            *row = Some(found);
        }
    }
    prefetch_some_rows(&mut rows[..points.len()]);
}

fn prefetch_searches(points: &[PointAhead<'_>], leaves: &[Option<FrameRef>; WIDTH]) {
    for (leaf, point) in leaves.iter().zip(points) {
        if let Some(leaf) = leaf {
            point.index.tree.prefetch_search(*leaf, point.key);
        }
    }
}

/// Pages that look-ups of these keys will need first and that are not in memory, each once. Those
/// behind them may be missing, too: ask again when they are loaded.
pub fn missing_pages(points: &[PointAhead<'_>], hints: &LeafHints, missing: &mut Vec<NeededPage>) {
    points.iter().for_each(|point| note_missing(touch(point, hints), missing));
    once(missing);
}

/// As [`missing_pages`], of rows that are about to be read.
pub fn missing_leaves(
    table: &TableAccess,
    rows: &[RowId],
    hints: &LeafHints,
    missing: &mut Vec<NeededPage>,
) {
    rows.iter().for_each(|row| note_missing(touch_row(table, *row, hints), missing));
    once(missing);
}

fn note_missing(touched: Outcome<()>, missing: &mut Vec<NeededPage>) {
    if let Err(Stop::NeedPage(page)) = touched {
        missing.push(page);
    }
}

fn once(missing: &mut Vec<NeededPage>) {
    missing.sort_unstable_by_key(|page| page.place);
    missing.dedup_by_key(|page| page.place);
}

/// Goes where a look-up will go.
fn touch(point: &PointAhead<'_>, hints: &LeafHints) -> Outcome<()> {
    let known = point.place.get().entry().map(|(row, _)| row).or_else(|| point.guess(hints));
    let row = match known {
        Some(row) => row,
        None => match point.index.tree.first(Near::Hints(hints), point.key)? {
            Some(row) => row,
            None => return Ok(()),
        },
    };
    touch_row(point.table, row, hints)
}

fn touch_row(table: &TableAccess, row: RowId, hints: &LeafHints) -> Outcome<()> {
    table.tree.read_near(hints, row, &mut |_| Ok(()))
}

/// Fetches what reading these columns of these rows will read.
pub fn prefetch_rows(table: &TableAccess, rows: &[RowId], columns: &[u16], hints: &LeafHints) {
    for some in rows.chunks(WIDTH) {
        let mut ahead = [None; WIDTH];
        for (ahead, row) in ahead.iter_mut().zip(some) {
            *ahead = Some(RowAhead::new(table, *row, columns, hints));
        }
        prefetch_some_rows(&mut ahead[..some.len()]);
    }
}

impl<'a> RowAhead<'a> {
    #[inline]
    fn new(
        table: &'a TableAccess,
        row: RowId,
        columns: &'a [u16],
        hints: &'a LeafHints,
    ) -> RowAhead<'a> {
        let hint = hints.prefetch_row(table.id(), row);
        RowAhead { table, row, columns, key: &[], hint, at: At::Nowhere }
    }

    /// The leaf as the hint says, whose beginning is asked for.
    #[inline]
    fn hinted(&self) -> At {
        self.table.tree.prefetch_leaf(self.hint.get()).map_or(At::Nowhere, At::Leaf)
    }

    /// The leaf as a descent says.
    #[inline]
    fn descended(&self) -> At {
        let leaf = self.table.tree.prefetch_leaf_anew(self.hint, self.row);
        leaf.map_or(At::Nowhere, At::Leaf)
    }

    /// Finds the row in its leaf, whose beginning is there; none if that is another's, or the row
    /// is found or given up.
    #[inline]
    fn in_leaf(&self) -> Option<At> {
        let At::Leaf(leaf) = self.at else { return None };
        let columns = (self.columns, self.key);
        let slot = self.table.tree.prefetch_row(leaf, self.row, columns)?;
        undo::prefetch_twin(leaf.side());
        Some(At::Slot(leaf, slot))
    }
}

fn prefetch_some_rows(rows: &mut [Option<RowAhead<'_>>]) {
    for ahead in rows.iter_mut().flatten() {
        ahead.at = ahead.hinted();
    }
    for ahead in rows.iter_mut().flatten() {
        ahead.at = ahead.in_leaf().unwrap_or_else(|| ahead.descended());
    }
    for ahead in rows.iter_mut().flatten() {
        ahead.at = ahead.in_leaf().unwrap_or(ahead.at);
    }
    for ahead in rows.iter().flatten() {
        let At::Slot(leaf, slot) = ahead.at else { continue };
        undo::prefetch_twin_entry(leaf.side(), ahead.row);
        ahead.table.tree.prefetch_values(leaf, slot, ahead.columns);
    }
}
