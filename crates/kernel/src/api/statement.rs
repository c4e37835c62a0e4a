//! One command of a transaction: reads and changes of rows.
//!
//! Invariants: borrows its transaction, session and task, so nothing else of the transaction runs
//! meanwhile; every change either happens or leaves the transaction as it was (a failed one is
//! rolled back to where it began). May wait in any call; no latch is held then.

use std::rc::Rc;

use super::catalog_changes::CatalogChanges;
use super::core::{Context, CoreInner};
use super::cursor::{IndexCursor, KeyRange, TableCursor};
use super::environment::KernelEnvironment;
use super::long_values::is_too_long;
use super::savepoint::Position;
use super::session::Session;
use crate::base::{Cts, Error, NeededPage, Outcome, Result, RowId, TreeId};
use crate::catalog::{CatalogRef, ColumnId, IndexEntry, Oid, Relation, TableEntry};
use crate::tree::index::ScanDirection;
use crate::tree::table::TableTree;
use crate::txn::rows::{
    self, Frozen, GivenBack, KeyCheck, Progress, RowReader, RowValues, RowWriter, RowsProgress,
    UpdatesProgress, WriteOutcome,
};
use crate::txn::{Isolation, LockMode, Reads, TxnHandle, Waited, Waiter};
use crate::version::{Presence, RowBuffer};

/// A command being executed.
pub struct Statement<'t> {
    pub(super) core: &'t Rc<CoreInner>,
    pub(super) handle: &'t mut TxnHandle<KernelEnvironment>,
    pub(super) changes: &'t mut CatalogChanges,
    pub(super) session: &'t mut Session,
    pub(super) context: &'t Context,
    pub(super) catalog: CatalogRef,
    // Where it began.
    pub(super) started: Position,
    // Buffers.
    pub(super) check: KeyCheck,
    pub(super) rows: Vec<RowId>,
}

/// Up to so many changed columns of an update need no allocation.
const FEW: usize = 8;

impl<'t> Statement<'t> {
    pub(super) fn new(
        core: &'t Rc<CoreInner>,
        handle: &'t mut TxnHandle<KernelEnvironment>,
        changes: &'t mut CatalogChanges,
        session: &'t mut Session,
        context: &'t Context,
    ) -> Statement<'t> {
        let catalog = changes.own().unwrap_or_else(|| session.catalog());
        let started = Position::now(handle, changes);
        let mut statement = Statement {
            core,
            handle,
            changes,
            session,
            context,
            catalog,
            started,
            check: KeyCheck::new(),
            rows: Vec::new(),
        };
        statement.observe_catalog();
        statement
    }

    pub(super) fn observe_catalog(&mut self) {
        if let Some(seen) = self.catalog.committed().filter(|it| !self.core.shared.is_stable(*it)) {
            self.handle.observe(seen);
        }
    }

    /// The catalog as this command sees it: the newest committed one with own changes.
    pub fn catalog(&self) -> &CatalogRef {
        &self.catalog
    }

    /// The task that runs this command.
    pub fn context(&self) -> &'t Context {
        self.context
    }

    /// The session that runs this command.
    pub fn session(&mut self) -> &mut Session {
        self.session
    }

    /// The timestamp of its snapshot.
    pub fn snapshot_timestamp(&self) -> Cts {
        self.handle.snapshot().timestamp
    }

    /// How much it sees of others.
    pub fn isolation(&self) -> Isolation {
        self.handle.isolation()
    }

    /// The table with this identifier. `NotFound`.
    pub fn table(&self, oid: Oid) -> Result<std::sync::Arc<TableEntry>> {
        let found = self.catalog.table_by_oid(oid).cloned();
        found.ok_or_else(|| Error::NotFound { what: format!("table {oid}") })
    }

    /// Locks a table until the transaction ends. Call it for every table before its rows are
    /// touched: `AccessShare` to read, `RowExclusive` to change. In READ COMMITTED a wait takes a
    /// new snapshot. Errors: `CatalogChanged` if the table is not what the catalog of this command
    /// says any more (bind again; the lock is held), `Deadlock`, `Cancelled`, `ShuttingDown`.
    pub fn lock_table(&mut self, table: Oid, mode: LockMode) -> Result<()> {
        if self.handle.reads() == Reads::Checkpoint {
            // Nobody changes it, nobody drops it.
            return Ok(());
        }
        let waiter = self.session.waiter(self.context);
        let waited = self.core.txn.lock_table(self.handle, lock_name(table), mode, &waiter)?;
        self.look_again(table, waited)
    }

    /// After a lock: the table must still be what this command's catalog says.
    fn look_again(&mut self, table: Oid, waited: Waited) -> Result<()> {
        let newest = self.changes.own().unwrap_or_else(|| self.session.catalog());
        let changed = newest.version() != self.catalog.version();
        if waited == Waited::Yes || changed {
            self.core.txn.refresh_snapshot(self.handle);
        }
        if !changed {
            return Ok(());
        }
        let same = match (self.catalog.relation_by_oid(table), newest.relation_by_oid(table)) {
            (Some(Relation::Table(a)), Some(Relation::Table(b))) => std::sync::Arc::ptr_eq(a, b),
            (Some(Relation::Sequence(a)), Some(Relation::Sequence(b))) => {
                std::sync::Arc::ptr_eq(a, b)
            }
            (None, None) => true,
            _ => false,
        };
        self.catalog = newest;
        self.observe_catalog();
        if same { Ok(()) } else { Err(Error::CatalogChanged) }
    }

    #[cfg_attr(feature = "ledger", track_caller)]
    pub(super) fn run<T>(
        &mut self,
        mut operation: impl FnMut(&mut RowWriter<'_>) -> Outcome<T>,
    ) -> Result<T> {
        let waiter = self.session.waiter(self.context);
        let states = &*self.core.shared.txn;
        self.core.txn.run(self.handle, &waiter, |txn| {
            let (snapshot, isolation) = (txn.snapshot(), txn.isolation());
            let (changes, observed) = txn.parts_mut();
            operation(&mut RowWriter { snapshot, isolation, states, observed, changes })
        })
    }

    #[cfg_attr(feature = "ledger", track_caller)]
    pub(super) fn read<T>(
        &mut self,
        operation: impl FnMut(&mut RowReader<'_>) -> Outcome<T>,
    ) -> Result<T> {
        read(self.core, self.handle, &self.session.waiter(self.context), operation)
    }

    /// Runs a change; if it fails, the transaction is as it was before. Large redo is spilled.
    #[cfg_attr(feature = "ledger", track_caller)]
    fn change<T>(&mut self, operation: impl FnMut(&mut RowWriter<'_>) -> Outcome<T>) -> Result<T> {
        self.check_may_change()?;
        let mark = self.handle.changes().mark();
        // A change whose redo finds no room has failed, too.
        let result = self.run(operation).and_then(|done| {
            self.spill()?;
            Ok(done)
        });
        if result.is_err() {
            self.roll_back_change(mark);
        }
        result
    }

    /// `ReadOnly` if the transaction reads a checkpoint.
    #[inline]
    pub(super) fn check_may_change(&self) -> Result<()> {
        match self.handle.reads() {
            Reads::Newest => Ok(()),
            Reads::Checkpoint => Err(Error::ReadOnly),
        }
    }

    /// Spills the redo if there is much of it (rule 7.3).
    #[inline]
    pub(super) fn spill(&mut self) -> Result<()> {
        if !self.core.txn.redo_is_large(self.handle) {
            return Ok(());
        }
        let waiter = self.session.waiter(self.context);
        let txn = &self.core.txn;
        txn.run(self.handle, &waiter, |handle| txn.spill_if_large(handle))
    }

    /// Undoes what a failed change did.
    pub(super) fn roll_back_change(&mut self, mark: rows::Mark) {
        let given_back = self.handle.changes_mut().roll_back(mark, &*self.core.tables);
        self.core.txn.discard_chunks(self.handle);
        if given_back == GivenBack::Rows {
            self.core.txn.rows_given_back(self.handle);
        }
    }

    /// Inserts a row; `values` are all columns in their physical form. Errors: `UniqueViolation`,
    /// `TooLarge`, `OutOfMemory`, `Deadlock`, `Cancelled`.
    pub fn insert(&mut self, table: &TableEntry, values: &[Option<&[u8]>]) -> Result<RowId> {
        self.insert_row(table, values, Frozen::No)
    }

    /// Inserts rows as [`Statement::insert`] does one after the other, and cheaper, or, frozen, as
    /// [`Statement::insert_frozen`]: their ids are in `ids`, in order. All or none. Errors: as there;
    /// they do not say of which row (insert them singly to know). What is inserted at once should not
    /// be much more than a page or two.
    pub fn insert_rows(
        &mut self,
        table: &TableEntry,
        (rows, frozen): (RowValues<'_>, Frozen),
        ids: &mut Vec<RowId>,
    ) -> Result<()> {
        if frozen == Frozen::Yes {
            self.check_made(table)?;
        }
        let done = self.insert_short(table, (rows, frozen), ids);
        if !is_too_long(&done) {
            return done;
        }
        // Some row has a long value.
        ids.clear();
        let mark = self.handle.changes().mark();
        for number in 0..rows.len() {
            let done = self.insert_row(table, rows.row(number), frozen).map(|row| ids.push(row));
            done.inspect_err(|_| self.roll_back_change(mark))?;
        }
        Ok(())
    }

    /// Inserts a row without undo into a table that this transaction has made or truncated: seen
    /// by every snapshot once committed (COPY FREEZE). `Internal` for any other table.
    pub fn insert_frozen(&mut self, table: &TableEntry, values: &[Option<&[u8]>]) -> Result<RowId> {
        self.check_made(table)?;
        self.insert_row(table, values, Frozen::Yes)
    }

    fn check_made(&self, table: &TableEntry) -> Result<()> {
        if self.changes.made_table(table.def.tree) {
            return Ok(());
        }
        let detail = format!("table {} is not new in this transaction", table.def.oid);
        Err(Error::Internal { detail })
    }

    fn insert_row(
        &mut self,
        table: &TableEntry,
        values: &[Option<&[u8]>],
        frozen: Frozen,
    ) -> Result<RowId> {
        let mut ids = Vec::with_capacity(1);
        let done = self.insert_short(table, (RowValues::one(values), frozen), &mut ids);
        if is_too_long(&done) {
            self.insert_long(table, values, frozen)
        } else {
            done.map(|()| ids[0])
        }
    }

    /// Inserts rows that fit their leaves. One row takes the way of several: two ways have twice the
    /// code, which leaves the processor's cache in between.
    #[inline(never)]
    fn insert_short(
        &mut self,
        table: &TableEntry,
        (rows, frozen): (RowValues<'_>, Frozen),
        ids: &mut Vec<RowId>,
    ) -> Result<()> {
        ids.clear();
        let mut progress = RowsProgress::default();
        self.change(|writer| writer.insert_rows(&table.access, (rows, frozen), ids, &mut progress))
    }

    /// Whether this transaction made or truncated the table since its newest savepoint.
    pub fn is_new_table(&self, table: &TableEntry) -> bool {
        self.changes.made_since_savepoint(table.def.tree)
    }

    /// Reads the version of a row that this command sees into `out`.
    pub fn get(
        &mut self,
        table: &TableEntry,
        row: RowId,
        columns: &[ColumnId],
        out: &mut RowBuffer,
    ) -> Result<Presence> {
        let columns = ColumnId::numbers(columns);
        let presence = self.read(|reader| reader.read(&table.access, row, columns, out))?;
        self.fetch_longs(&table.access.tree, out)?;
        Ok(presence)
    }

    /// Reads the newest version of a row that this transaction has locked or changed.
    pub fn get_newest(
        &mut self,
        table: &TableEntry,
        row: RowId,
        columns: &[ColumnId],
        out: &mut RowBuffer,
    ) -> Result<Presence> {
        let columns = ColumnId::numbers(columns);
        let presence = self.run(|_| rows::read_newest(&table.access, row, columns, out))?;
        self.fetch_longs(&table.access.tree, out)?;
        Ok(presence)
    }

    /// Changes columns of a row that this command has seen. READ COMMITTED: `Changed` means that
    /// the newest version is another one; the row is locked now: read it with
    /// [`Statement::get_newest`], check it again, call again. Errors: `SerializationFailure`
    /// (REPEATABLE READ), `UniqueViolation`, `Deadlock`, `Cancelled`, `OutOfMemory`.
    pub fn update(
        &mut self,
        table: &TableEntry,
        row: RowId,
        changes: &[(ColumnId, Option<&[u8]>)],
    ) -> Result<WriteOutcome> {
        let mut few = [(0_u16, None); FEW];
        let many: Vec<(u16, Option<&[u8]>)>;
        let numbers = if changes.len() <= FEW {
            for (place, (column, value)) in few.iter_mut().zip(changes) {
                *place = (column.0, *value);
            }
            &few[..changes.len()]
        } else {
            many = changes.iter().map(|(column, value)| (column.0, *value)).collect();
            &many
        };
        let mut progress = Progress::default();
        let done = self.change(|writer| writer.update(&table.access, row, numbers, &mut progress));
        if is_too_long(&done) { self.update_long(table, row, numbers) } else { done }
    }

    /// Changes the same columns of rows that this command has seen, as [`Statement::update`] does one
    /// after the other, and cheaper if the columns have fixed width and no key has one of them. Answers
    /// how many rows are changed, and what the one behind them answered: `Done` if all are, else go on
    /// behind that one. Errors: as there; then none is changed.
    pub fn update_rows(
        &mut self,
        table: &TableEntry,
        columns: &[ColumnId],
        (rows, values): (&[RowId], RowValues<'_>),
    ) -> Result<(usize, WriteOutcome)> {
        self.check_may_change()?;
        let mark = self.handle.changes().mark();
        let mut progress = UpdatesProgress::default();
        let result = self.update_rows_from(table, columns, (rows, values), &mut progress);
        match result {
            Ok(outcome) => Ok((progress.done, outcome)),
            Err(error) => {
                self.roll_back_change(mark);
                Err(error)
            }
        }
    }

    fn update_rows_from(
        &mut self,
        table: &TableEntry,
        columns: &[ColumnId],
        (rows, values): (&[RowId], RowValues<'_>),
        progress: &mut UpdatesProgress,
    ) -> Result<WriteOutcome> {
        let numbers = ColumnId::numbers(columns);
        let in_place = table.access.in_place(numbers.iter().copied());
        while let Some(row) = rows.get(progress.done) {
            let outcome = if in_place {
                let outcome = self.run(|writer| {
                    writer.update_rows(&table.access, numbers, (rows, values), progress)
                })?;
                self.spill()?;
                outcome
            } else {
                let new = values.row(progress.done).iter();
                let changes: Vec<_> = columns.iter().copied().zip(new.copied()).collect();
                let outcome = self.update(table, *row, &changes)?;
                progress.done += usize::from(outcome == WriteOutcome::Done);
                outcome
            };
            if outcome != WriteOutcome::Done {
                return Ok(outcome);
            }
        }
        Ok(WriteOutcome::Done)
    }

    /// Deletes a row that this command has seen; answers as [`Statement::update`].
    pub fn delete(&mut self, table: &TableEntry, row: RowId) -> Result<WriteOutcome> {
        let mut progress = Progress::default();
        self.change(|writer| writer.delete(&table.access, row, &mut progress))
    }

    /// Locks a row exclusively until the transaction ends (FOR UPDATE); answers as
    /// [`Statement::update`].
    pub fn lock_row(&mut self, table: &TableEntry, row: RowId) -> Result<WriteOutcome> {
        self.change(|writer| writer.lock_row(&table.access, row))
    }

    /// All rows of a table, in no promised order.
    pub fn scan(&self, table: &TableEntry, columns: &[ColumnId]) -> TableCursor {
        TableCursor::new(self.core.tables.own(&table.access), columns)
    }

    /// The rows whose key lies in `range`, in the index's order.
    pub fn index_scan(
        &self,
        table: &TableEntry,
        index: &IndexEntry,
        range: KeyRange,
        direction: ScanDirection,
        columns: &[ColumnId],
    ) -> IndexCursor {
        IndexCursor::new(self.core, (table, index), range, direction, columns)
    }

    /// Where it reads.
    pub(super) fn reads(&self) -> Reads {
        self.handle.reads()
    }

    /// Begins to read pages of the tree that will be needed soon.
    pub(super) fn load_soon(&self, tree: &TableTree, missing: &[NeededPage]) {
        tree.pool().load_soon(self.context, missing);
    }

    /// Waits until everything that this command has seen is stable: for rows that leave before it
    /// ends (rule 7.6).
    pub fn settle(&mut self) {
        self.core.txn.settle_transaction(self.handle, &self.session.inner, self.context);
    }

    /// Whether this command may read the index of the table: not one that is younger than its
    /// snapshot (rule 6.10).
    pub fn may_read(&self, table: &TableEntry, index: &IndexEntry) -> bool {
        match index.made() {
            // Made by this transaction; others do not see it. It has all that any snapshot sees of
            // the table if that, too, was made by this transaction.
            Cts::MAX => {
                self.isolation() == Isolation::ReadCommitted
                    || self.changes.made_table(table.def.tree)
            }
            made => made < self.snapshot_timestamp(),
        }
    }

    /// Whether this command may read all indexes of these tables. Whoever chooses one without
    /// [`Statement::may_read`] asks this once the tables are locked.
    pub fn may_read_indexes(&self, tables: impl IntoIterator<Item = Oid>) -> bool {
        let newest = self.catalog.committed().map_or(Cts::ZERO, |commit| commit.cts);
        // All but a transaction's own are at most as young as its catalog.
        if self.changes.own().is_none() && newest < self.snapshot_timestamp() {
            return true;
        }
        let mut entries = tables.into_iter().filter_map(|table| self.catalog.table_by_oid(table));
        entries.all(|table| table.indexes.iter().all(|index| self.may_read(table, index)))
    }

    pub(super) fn waiter(&self) -> Waiter<'_> {
        self.session.waiter(self.context)
    }
}

/// The number under which a table is locked: its oid, which it keeps for life.
pub(super) fn lock_name(table: Oid) -> TreeId {
    TreeId(table.0)
}

/// Runs a read of a transaction to its end, with waits in between.
#[inline]
#[cfg_attr(feature = "ledger", track_caller)]
pub(super) fn read<T>(
    core: &CoreInner,
    handle: &mut TxnHandle<KernelEnvironment>,
    waiter: &Waiter<'_>,
    mut operation: impl FnMut(&mut RowReader<'_>) -> Outcome<T>,
) -> Result<T> {
    let states = &*core.shared.txn;
    let hints = &core.txn.environment().versions.hints;
    core.txn.run(handle, waiter, |txn| {
        let snapshot = txn.snapshot();
        let (_, observed) = txn.parts_mut();
        operation(&mut RowReader { snapshot, states, observed, hints })
    })
}
