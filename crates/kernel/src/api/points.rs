//! Rows looked up by whole keys of unique indexes, one or many, and what is fetched for that ahead.
//!
//! Invariants: what is answered is of the command's snapshot, long values are whole (`txn::rows::points`
//! reads). May wait in any call; no latch is held then.

use super::cursor::KeyBytes;
use super::statement::{Statement, read};
use crate::base::{Error, NeededPage, Result, RowId};
use crate::catalog::{ColumnId, IndexEntry, TableEntry};
use crate::txn::rows::{self, PointAhead, PointRows, RowWriter};
use crate::version::{RowBuffer, TableAccess};

/// Looks for pages that rows need and that are not in memory: one finds what the next level is missing.
const LOOKS_AHEAD: u32 = 6;

impl Statement<'_> {
    /// The row of a unique index with exactly this whole key, read into `out`. The short way for
    /// what transactions do most.
    pub fn index_point(
        &mut self,
        table: &TableEntry,
        index: &IndexEntry,
        key: &KeyBytes,
        columns: &[ColumnId],
        out: &mut RowBuffer,
    ) -> Result<Option<RowId>> {
        let at = table.indexes.iter().position(|it| it.def.oid == index.def.oid);
        let path = &table.access.indexes[at.ok_or(Error::CatalogChanged)?];
        let columns = ColumnId::numbers(columns);
        self.index_point_ahead(&PointAhead::at((&table.access, path), key.bytes(), columns), out)
    }

    /// As [`Statement::index_point`]; after [`Statement::prefetch_points`] mostly without a search
    /// of the index. Ask for every point itself, even if it was fetched with others.
    #[inline]
    pub fn index_point_ahead(
        &mut self,
        point: &PointAhead<'_>,
        out: &mut RowBuffer,
    ) -> Result<Option<RowId>> {
        let Statement { core, handle, session, context, check, rows, .. } = self;
        let found = read(core, handle, &session.waiter(context), |reader| {
            out.clear();
            reader.read_point(point, rows, (&mut *out, &mut *check))
        })?;
        if found.is_some() {
            self.fetch_longs(&point.table.tree, out)?;
        }
        Ok(found)
    }

    /// Reads the rows of look-ups into `out` (cleared first) as [`Statement::index_point_ahead`] does
    /// one after the other, and cheaper.
    pub fn index_points(&mut self, points: &[PointAhead<'_>], out: &mut PointRows) -> Result<()> {
        out.clear();
        let Statement { core, handle, session, context, check, rows, .. } = self;
        read(core, handle, &session.waiter(context), |reader| {
            reader.read_points(points, rows, (&mut *out, &mut *check))
        })?;
        if out.cells.has_long() {
            for (at, point) in points.iter().enumerate() {
                let cells = out.cells_of(at);
                self.fetch_longs_of(&point.table.tree, &mut out.cells, cells)?;
            }
        }
        Ok(())
    }

    /// Fetches from memory what look-ups of these keys will read, for all of them at once, and
    /// notes in each its guessed row, or where its key was found: worth it before some four or more
    /// [`Statement::index_point_ahead`] of rows that were not read lately; of a key's first columns,
    /// what an index scan of their rows will read first. Pages that are on disk are read all at once,
    /// and waited for.
    pub fn prefetch_points(&self, points: &[PointAhead<'_>]) {
        let hints = &self.core.txn.environment().versions.hints;
        for some in points.chunks(rows::AHEAD_ROWS) {
            self.load_ahead(|missing| rows::missing_pages(some, hints, missing));
        }
        rows::prefetch_points(points, hints);
    }

    /// Reads the pages of these rows that are on disk all at once, and waits for them.
    pub(super) fn load_rows_ahead(&self, table: &TableAccess, some: &[RowId]) {
        let hints = &self.core.txn.environment().versions.hints;
        self.load_ahead(|missing| rows::missing_leaves(table, some, hints, missing));
    }

    fn load_ahead(&self, look: impl Fn(&mut Vec<NeededPage>)) {
        let (pool, mut missing) = (&self.core.shared.pool, Vec::new());
        // An index's pages from above, then the table's; another look if one of them had gone.
        for _ in 0..LOOKS_AHEAD {
            if pool.has_evicted() {
                look(&mut missing);
            }
            if missing.is_empty() {
                return;
            }
            pool.load_together(self.context, &missing);
            missing.clear();
        }
    }

    /// The row that has this whole key (without NULLs) of a unique index in the newest state of
    /// the table, whether this command sees it or not; waits for transactions whose end decides who
    /// has it. The answer may be outdated at once: insert, or lock the row and ask again. If it
    /// waited and there is none, others wait behind this transaction until its next operation has
    /// ended, or its command. Errors:
    /// `SerializationFailure` (REPEATABLE READ, a row that others inserted since the snapshot),
    /// `Deadlock`, `Cancelled`.
    pub fn unique_holder(
        &mut self,
        table: &TableEntry,
        index: &IndexEntry,
        key: &KeyBytes,
    ) -> Result<Option<RowId>> {
        let at = table.indexes.iter().position(|it| it.def.oid == index.def.oid);
        let path = &table.access.indexes[at.ok_or(Error::CatalogChanged)?];
        let mut found = std::mem::take(&mut self.rows);
        let waiter = self.session.waiter(self.context);
        let states = &*self.core.shared.txn;
        let holder = self.core.txn.run_look(self.handle, &waiter, |txn| {
            let (snapshot, isolation) = (txn.snapshot(), txn.isolation());
            let (changes, observed) = txn.parts_mut();
            let mut writer = RowWriter { snapshot, isolation, states, observed, changes };
            writer.unique_holder(&table.access, (path, key.bytes()), &mut found)
        });
        self.rows = found;
        holder
    }
}
