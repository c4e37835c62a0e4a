//! Cursors: rows of a table, or of a range of an index, a leaf at a time.
//!
//! Invariants: a cursor keeps a private copy of one leaf's rows (or entries, and some rows of one leaf
//! that the next of them lead to) and no latch between calls; it belongs to the command that made it (its snapshot decides what is seen). Changes that
//! the same command makes are not seen. Columns that the index has are read from its entries where
//! the leaf is exact (rule 5.7): bit and entries are those of one version of the leaf.

use std::cell::RefCell;
use std::mem::take;
use std::ops::Bound;
use std::rc::Rc;
use std::sync::Arc;

use super::core::CoreInner;
use super::read_ahead::ReadAhead;
use super::statement::Statement;
use crate::base::{Result, RowId};
use crate::catalog::{ColumnId, IndexEntry, TableEntry};
use crate::page::overflow::Form;
use crate::tree::index::{IndexBatch, Keyed, KeysWanted, Near, ScanDirection};
use crate::tree::key::{KeyPart, decode_part, encode_key};
use crate::txn::Reads;
use crate::txn::rows::{AHEAD_ROWS, KeyCheck, PointAhead, RowBatch};
use crate::version::{Presence, RowBuffer, RowView, TableAccess};

/// Entries that an index cursor copies at first, as many as an order has lines; each further batch may
/// be so many times as large, so that a LIMIT 1 costs little and a long scan few batches.
const ENTRIES_FIRST: usize = 16;
const ENTRIES_GROW: usize = 4;
const ENTRIES_MAX: usize = 1024;

/// Cursors whose memory an instance keeps, and how many bytes of rows each may have: more goes back to
/// the allocator.
const MEMORIES_MAX: usize = 8;
const MEMORY_ROW_BYTES_MAX: usize = 64 << 10;

/// Rows of neighbouring entries whose ids are no farther apart are in the same leaf, most likely.
const NEIGHBOURS_MAX: u64 = 64;

/// All rows of a table.
pub struct TableCursor {
    access: Arc<TableAccess>,
    columns: Vec<u16>,
    batch: RowBatch,
    at: usize,
    // Where to go on; none at the end.
    next: Option<RowId>,
    ahead: ReadAhead,
}

impl TableCursor {
    pub(super) fn new(access: Arc<TableAccess>, columns: &[ColumnId]) -> TableCursor {
        TableCursor {
            access,
            columns: ColumnId::numbers(columns).to_vec(),
            batch: RowBatch::new(),
            at: 0,
            next: Some(RowId(0)),
            ahead: ReadAhead::new(),
        }
    }

    /// The next row, read into `out`; none at the end.
    pub fn next(
        &mut self,
        statement: &mut Statement<'_>,
        out: &mut RowBuffer,
    ) -> Result<Option<RowId>> {
        let Some(at) = self.advance(statement)? else { return Ok(None) };
        self.batch.copy_to(at, out);
        statement.fetch_longs(&self.access.tree, out)?;
        Ok(Some(self.batch.row(at)))
    }

    /// As [`TableCursor::next`], but the row stays where the cursor has it, if it can; `out` is used
    /// if it cannot.
    pub fn next_view<'r>(
        &'r mut self,
        statement: &mut Statement<'_>,
        out: &'r mut RowBuffer,
    ) -> Result<Option<(RowId, RowView<'r>)>> {
        let Some(at) = self.advance(statement)? else { return Ok(None) };
        let row = self.batch.row(at);
        if self.batch.is_whole(at) {
            return Ok(Some((row, self.batch.view(at))));
        }
        self.batch.copy_to(at, out);
        statement.fetch_longs(&self.access.tree, out)?;
        Ok(Some((row, out.view())))
    }

    /// Where in the batch the next row is; none at the end.
    fn advance(&mut self, statement: &mut Statement<'_>) -> Result<Option<usize>> {
        while self.at >= self.batch.len() {
            let Some(from) = self.next else { return Ok(None) };
            self.at = 0;
            let TableCursor { access, columns, batch, ahead, .. } = self;
            ahead.pass(statement, &access.tree, from);
            self.next = statement.read(|reader| reader.scan(access, from, columns, batch))?;
        }
        self.at += 1;
        Ok(Some(self.at - 1))
    }
}

/// An encoded key, or its first columns.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct KeyBytes(Vec<u8>);

impl KeyBytes {
    /// The key of `values`, the first columns of the index's key in their physical form.
    pub fn encode(index: &IndexEntry, values: &[Option<&[u8]>]) -> KeyBytes {
        let mut key = KeyBytes::default();
        key.set(index, values);
        key
    }

    /// Becomes the key of `values`; keeps its memory.
    pub fn set(&mut self, index: &IndexEntry, values: &[Option<&[u8]>]) {
        let parts: &[KeyPart] = &index.key[..values.len()];
        self.0.clear();
        encode_key(parts, values, &mut self.0);
    }

    /// The bytes, which compare as the keys do.
    pub fn bytes(&self) -> &[u8] {
        &self.0
    }
}

impl<'a> PointAhead<'a> {
    /// A look-up of `columns` of the row with this whole key in a unique index of the table.
    ///
    /// Panics if it is not one of the table's.
    #[inline]
    pub fn new(
        table: &'a TableEntry,
        index: &'a IndexEntry,
        key: &'a KeyBytes,
        columns: &'a [ColumnId],
    ) -> PointAhead<'a> {
        let at = table.indexes.iter().position(|it| it.def.oid == index.def.oid);
        let path = &table.access.indexes[at.expect("the index is one of the table's")];
        PointAhead::at((&table.access, path), key.bytes(), ColumnId::numbers(columns))
    }
}

/// A range of keys. Bounds are keys or their first columns: `Included` takes in all keys that begin
/// so, `Excluded` leaves them all out.
#[derive(Clone, Debug)]
pub struct KeyRange {
    /// Where it begins.
    pub from: Bound<KeyBytes>,
    /// Where it ends.
    pub to: Bound<KeyBytes>,
}

impl KeyRange {
    /// Every key.
    pub fn all() -> KeyRange {
        KeyRange { from: Bound::Unbounded, to: Bound::Unbounded }
    }

    /// All keys that begin with `key`.
    pub fn prefix(key: KeyBytes) -> KeyRange {
        KeyRange { from: Bound::Included(key.clone()), to: Bound::Included(key) }
    }
}

/// The memory of index cursors that are no more, an instance's. The next cursor takes what was used
/// last: it is in the caches still, as fresh memory is not (most cursors give some ten rows).
#[derive(Default)]
pub(super) struct CursorMemories(RefCell<Vec<CursorMemory>>);

#[derive(Default)]
struct CursorMemory {
    columns: Vec<u16>,
    batch: IndexBatch,
    run: RowBatch,
    check: KeyCheck,
}

impl CursorMemories {
    fn take(&self) -> CursorMemory {
        self.0.borrow_mut().pop().unwrap_or_default()
    }

    fn keep(&self, memory: CursorMemory) {
        let mut kept = self.0.borrow_mut();
        if kept.len() < MEMORIES_MAX && memory.run.memory_bytes() <= MEMORY_ROW_BYTES_MAX {
            kept.push(memory);
        }
    }
}

/// The rows of a range of an index.
pub struct IndexCursor {
    core: Rc<CoreInner>,
    access: Arc<TableAccess>,
    // The index's place in `access`.
    path: usize,
    range: KeyRange,
    direction: ScanDirection,
    columns: Vec<u16>,
    batch: IndexBatch,
    entries_max: usize,
    at: usize,
    // Entries before this one have had their rows fetched from memory.
    ahead: usize,
    // Rows of entries before `at` that have been read and not given, from `run_at` on.
    run: RowBatch,
    run_at: usize,
    // Entries whose rows are read together next, at most.
    run_max: usize,
    finished: bool,
    check: KeyCheck,
    // How the columns are read from keys, if they all can be.
    cover: Option<Cover>,
    // Whether the instance is told what exact leaves spare, or would have spared.
    tells: bool,
    fetched: u64,
}

/// Where a cursor's next row is.
enum RowPlace {
    /// In the run, at this place, with all its values.
    Run(usize),
    /// In the caller's buffer.
    Out,
}

/// Which part of the key each column asked for is.
struct Cover {
    places: Vec<usize>,
    // Where each part of the present key ends.
    ends: Vec<usize>,
}

impl Cover {
    fn new(index: &IndexEntry, columns: &[ColumnId]) -> Option<Cover> {
        let places: Option<Vec<usize>> =
            columns.iter().map(|column| index.key_place(*column)).collect();
        Some(Cover { places: places?, ends: Vec::new() })
    }

    /// Reads the columns from an entry's key into `out`; false if that is no key.
    fn read(&mut self, parts: &[KeyPart], key: &[u8], out: &mut RowBuffer) -> bool {
        out.clear();
        self.ends.clear();
        let mut at = 0;
        for part in parts {
            let Some(bytes) = part.encoded_bytes(&key[at..]) else { return false };
            at += bytes;
            self.ends.push(at);
        }
        for place in &self.places {
            let from = if *place == 0 { 0 } else { self.ends[place - 1] };
            let (part, encoded) = (&parts[*place], &key[from..self.ends[*place]]);
            out.push_with(|bytes| decode_part(part, encoded, bytes).map(|()| Form::Inline));
        }
        true
    }
}

impl IndexCursor {
    pub(super) fn new(
        core: &Rc<CoreInner>,
        (table, index): (&TableEntry, &IndexEntry),
        range: KeyRange,
        direction: ScanDirection,
        columns: &[ColumnId],
    ) -> IndexCursor {
        let path = table.indexes.iter().position(|it| it.def.oid == index.def.oid);
        let cover = Cover::new(index, columns);
        let keys = match cover {
            Some(_) => KeysWanted::OfExactLeaves,
            None => KeysWanted::Fewest,
        };
        let CursorMemory { columns: mut numbers, mut batch, mut run, check } = core.cursors.take();
        numbers.clear();
        numbers.extend_from_slice(ColumnId::numbers(columns));
        batch.begin_anew(ENTRIES_FIRST, keys);
        run.clear(numbers.len());
        IndexCursor {
            core: core.clone(),
            access: core.tables.own(&table.access),
            path: path.expect("the index is one of the table's"),
            range,
            direction,
            columns: numbers,
            batch,
            entries_max: ENTRIES_FIRST,
            at: 0,
            ahead: 0,
            run,
            run_at: 0,
            run_max: 1,
            finished: false,
            check,
            cover,
            tells: false,
            fetched: 0,
        }
    }

    /// How many rows it has looked at in the table: not those that it could tell from entries of
    /// exact leaves (rule 5.7).
    pub fn fetched(&self) -> u64 {
        self.fetched
    }

    /// The next row that is visible and has its entry's key, read into `out`; none at the end.
    pub fn next(
        &mut self,
        statement: &mut Statement<'_>,
        out: &mut RowBuffer,
    ) -> Result<Option<RowId>> {
        let Some((row, place)) = self.advance(statement, out)? else { return Ok(None) };
        if let RowPlace::Run(at) = place {
            self.run.copy_to(at, out);
        }
        Ok(Some(row))
    }

    /// As [`IndexCursor::next`], but the row stays where the cursor has it, if it can; `out` is used
    /// if it cannot.
    pub fn next_view<'r>(
        &'r mut self,
        statement: &mut Statement<'_>,
        out: &'r mut RowBuffer,
    ) -> Result<Option<(RowId, RowView<'r>)>> {
        let Some((row, place)) = self.advance(statement, out)? else { return Ok(None) };
        let view = match place {
            RowPlace::Run(at) => self.run.view(at),
            RowPlace::Out => out.view(),
        };
        Ok(Some((row, view)))
    }

    fn advance(
        &mut self,
        statement: &mut Statement<'_>,
        out: &mut RowBuffer,
    ) -> Result<Option<(RowId, RowPlace)>> {
        loop {
            if self.run_at < self.run.len() {
                let at = self.run_at;
                self.run_at += 1;
                let row = self.run.row(at);
                if self.run.is_whole(at) {
                    return Ok(Some((row, RowPlace::Run(at))));
                }
                self.run.copy_to(at, out);
                return self.give(statement, row, out);
            }
            while self.at >= self.batch.len() {
                if self.finished {
                    return Ok(None);
                }
                self.fill(statement)?;
            }
            if self.is_run() {
                self.read_run(statement, out.byte_len())?;
                continue;
            }
            let (at, path) = (self.at, &self.access.indexes[self.path]);
            self.at += 1;
            let (row, key) = (self.batch.row(at), self.batch.key(at));
            // Every row of an exact leaf is visible to everybody, stable, and as its entry says.
            if self.batch.is_exact()
                && let Some(cover) = &mut self.cover
                && cover.read(&path.parts, key, out)
            {
                return Ok(Some((row, RowPlace::Out)));
            }
            self.fetched += 1;
            let keyed = self.batch.keyed();
            let window = window(&self.batch, at, AHEAD_ROWS);
            let is_due = at >= self.ahead && are_scattered(window);
            if is_due {
                self.ahead = at + window.len();
                statement.load_rows_ahead(&self.access, window);
            }
            let present = statement.read(|reader| {
                if is_due {
                    reader.prefetch(&self.access, window, &self.columns);
                }
                let buffers = (&mut *out, &mut self.check);
                let entry = (path, key, keyed);
                reader.read_by_key(&self.access, entry, row, &self.columns, buffers)
            })?;
            self.lengthen_run(present);
            if present == Presence::Present {
                return self.give(statement, row, out);
            }
        }
    }

    fn give(
        &mut self,
        statement: &mut Statement<'_>,
        row: RowId,
        out: &mut RowBuffer,
    ) -> Result<Option<(RowId, RowPlace)>> {
        statement.fetch_longs(&self.access.tree, out)?;
        Ok(Some((row, RowPlace::Out)))
    }

    /// Whether the rows of the next entries are read together. The cursor's first row is read
    /// alone: nobody may want a second one. Nor may they if it is not seen, as those are that others have
    /// just taken from the head of a queue: of such there are more at a time as they go on.
    fn is_run(&self) -> bool {
        let from_entries = self.cover.is_some() && self.batch.is_exact();
        let is_keyed = self.batch.keyed() == Keyed::Yes;
        self.run_max > 1 && is_keyed && !from_entries && self.at + 1 < self.batch.len()
    }

    /// Reads rows of the next entries together; some bytes each.
    fn read_run(&mut self, statement: &mut Statement<'_>, row_bytes: usize) -> Result<()> {
        let rows = window(&self.batch, self.at, self.run_max);
        let is_due = self.at >= self.ahead && are_scattered(rows);
        if is_due {
            self.ahead = self.at + rows.len();
            statement.load_rows_ahead(&self.access, rows);
        } else {
            // They are in the leaves of these two, most likely.
            statement.load_rows_ahead(&self.access, &[rows[0], rows[rows.len() - 1]]);
        }
        self.run_at = 0;
        self.run.clear(self.columns.len());
        self.run.reserve(rows.len(), row_bytes);
        let (access, columns) = (&self.access, &self.columns);
        let run = &mut self.run;
        let looked = statement.read(|reader| {
            if is_due {
                reader.prefetch(access, rows, columns);
            }
            reader.read_together(access, rows, columns, run)
        })?;
        self.at += looked;
        self.fetched += looked as u64;
        self.lengthen_run(match self.run.len() {
            0 => Presence::Absent,
            _ => Presence::Present,
        });
        Ok(())
    }

    /// The next run is as long as may be once a row was seen, until then twice the last.
    fn lengthen_run(&mut self, seen: Presence) {
        self.run_max = match seen {
            Presence::Present => AHEAD_ROWS,
            Presence::Absent => (self.run_max * 2).min(AHEAD_ROWS),
        };
    }

    /// Tells the instance how many rows of the batch's entries were looked at for what these say already, or
    /// were not because their leaf is exact.
    fn tell(&self) {
        if !self.tells || self.at == 0 {
            return;
        }
        let versions = &self.core.txn.environment().versions;
        let index = &self.access.indexes[self.path];
        if self.batch.is_exact() {
            versions.spared(index, self.at);
        } else if let Some(leaf) = self.batch.stamp() {
            versions.want_exact((&self.access, index), &leaf, self.at);
        }
    }

    fn fill(&mut self, statement: &mut Statement<'_>) -> Result<()> {
        self.tell();
        // Leaves of a checkpoint do not change.
        self.tells = self.cover.is_some() && statement.reads() != Reads::Checkpoint;
        (self.at, self.ahead) = (0, 0);
        self.batch.set_limit(self.entries_max);
        self.entries_max = (self.entries_max * ENTRIES_GROW).min(ENTRIES_MAX);
        let (from, to) = (bytes(&self.range.from), bytes(&self.range.to));
        let tree = &self.access.indexes[self.path].tree;
        let (direction, batch) = (self.direction, &mut self.batch);
        // The last batch's leaf has more, or is followed by the one that has.
        let last = batch.stamp().map(|leaf| leaf.frame);
        let goes_on = statement.read(|reader| {
            let near = match last {
                None => Near::Hints(reader.hints),
                Some(frame) => Near::Leaf(frame),
            };
            tree.scan_near(near, (from, to), direction, batch)
        })?;
        match goes_on {
            None => self.finished = true,
            Some(place) => match direction {
                ScanDirection::Forward => self.range.from = Bound::Included(KeyBytes(place.key)),
                ScanDirection::Backward => self.range.to = Bound::Excluded(KeyBytes(place.key)),
            },
        }
        Ok(())
    }
}

impl Drop for IndexCursor {
    fn drop(&mut self) {
        self.tell();
        let IndexCursor { columns, batch, run, check, .. } = self;
        let (columns, batch, run, check) = (take(columns), take(batch), take(run), take(check));
        self.core.cursors.keep(CursorMemory { columns, batch, run, check });
    }
}

/// The rows of the entries from `at` on, as many as are fetched from memory together and not the
/// whole batch: the first of a thousand would be out of the cache again before they are given, and a
/// LIMIT may leave them ungiven.
fn window(batch: &IndexBatch, at: usize, max: usize) -> &[RowId] {
    let rows = &batch.rows()[at..];
    &rows[..rows.len().min(max)]
}

/// Whether the first two of these rows are in different leaves, most likely: then they are worth being
/// fetched from memory together before they are read.
fn are_scattered(rows: &[RowId]) -> bool {
    match rows {
        [first, second, ..] => first.0.abs_diff(second.0) > NEIGHBOURS_MAX,
        _ => false,
    }
}

fn bytes(bound: &Bound<KeyBytes>) -> Bound<&[u8]> {
    match bound {
        Bound::Included(key) => Bound::Included(key.bytes()),
        Bound::Excluded(key) => Bound::Excluded(key.bytes()),
        Bound::Unbounded => Bound::Unbounded,
    }
}
