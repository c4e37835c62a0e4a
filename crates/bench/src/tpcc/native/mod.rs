//! The five transactions as native procedures over the kernel's interface.
//!
//! Invariants: what SQL statements would do, command by command: every row is found by an index,
//! read in the transaction's snapshot, and what clauses 2.4 to 2.8 want retrieved is retrieved.
//! A row that another transaction has changed meanwhile is read again and recomputed under READ
//! COMMITTED; under REPEATABLE READ it is a serialization failure, which the caller retries.

mod delivery;
mod new_order;
mod order_status;
mod payment;
mod stock_level;

use std::ops::Bound;
use std::rc::Rc;

use atoll_kernel::api::{
    ColumnId, Context, Error, IndexCursor, IndexEntry, KeyBytes, KeyRange, PointAhead, Result,
    RowBuffer, RowId, Session, Statement, TableEntry, TableLockMode, Transaction, WriteOutcome,
};

use super::inputs::{Input, Who};
use super::schema::{Tables, customer};
use super::stored::{Stored, bytes, int};

pub(super) use atoll_kernel::api::ScanDirection;

/// How a transaction came to its end.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Ended {
    /// It is to be committed. A New-Order says which order it entered.
    Commit(Option<OrderKey>),
    /// It is to be rolled back, as 1 of 100 New-Orders are: an item does not exist.
    Rollback,
}

/// (o_w_id, o_d_id, o_id).
pub type OrderKey = (i32, i32, i32);

/// A transaction's way to its next command.
pub struct Commands<'a> {
    /// The transaction.
    pub transaction: &'a mut Transaction,
    /// Its session.
    pub session: &'a mut Session,
    /// The task.
    pub context: &'a Context,
}

impl Commands<'_> {
    /// Begins the next command: it sees what earlier ones of the transaction did.
    fn next(&mut self) -> Result<Statement<'_>> {
        self.transaction.statement(self.session, self.context)
    }
}

/// A terminal: its tables and the memory it works with.
pub struct Terminal {
    tables: Rc<Tables>,
    key: KeyBytes,
    /// Of look-ups that are to come.
    keys: Vec<KeyBytes>,
    row: RowBuffer,
    stored: Stored,
    /// What the terminal would show: the texts that transactions retrieve.
    shown: Vec<u8>,
    /// Scratch for lists of numbers.
    numbers: Vec<i32>,
    rows: Vec<RowId>,
    taken: Vec<delivery::Taken>,
}

impl Terminal {
    /// A terminal on these tables.
    pub fn new(tables: Rc<Tables>) -> Terminal {
        Terminal {
            tables,
            key: KeyBytes::default(),
            keys: Vec::new(),
            row: RowBuffer::new(),
            stored: Stored::default(),
            shown: Vec::new(),
            numbers: Vec::new(),
            rows: Vec::new(),
            taken: Vec::new(),
        }
    }

    /// Does what `input` says, up to the commit.
    pub fn run(&mut self, commands: &mut Commands<'_>, input: &Input) -> Result<Ended> {
        self.shown.clear();
        match input {
            Input::NewOrder(input) => self.new_order(commands, input),
            Input::Payment(input) => self.payment(commands, input),
            Input::OrderStatus(input) => self.order_status(commands, input),
            Input::Delivery(input) => self.delivery(commands, input),
            Input::StockLevel(input) => self.stock_level(commands, input),
        }
    }

    /// Finds a row by its whole primary key and reads `columns` into `self.row`.
    fn find(
        &mut self,
        statement: &mut Statement<'_>,
        table: &TableEntry,
        key: &[i32],
        columns: &[ColumnId],
    ) -> Result<Option<RowId>> {
        let index = &table.indexes[0];
        set_key(&mut self.key, index, key);
        statement.index_point(table, index, &self.key, columns, &mut self.row)
    }

    /// As `find`; a row that is not there is an error.
    fn get(
        &mut self,
        statement: &mut Statement<'_>,
        table: &TableEntry,
        key: &[i32],
        columns: &[ColumnId],
    ) -> Result<RowId> {
        let found = self.find(statement, table, key, columns)?;
        found.ok_or_else(|| missing(table, key))
    }

    /// Fetches what look-ups of these keys will read from memory, for all at once: the rows may be
    /// anywhere.
    fn prefetch<const N: usize>(
        &mut self,
        statement: &Statement<'_>,
        table: &TableEntry,
        keys: impl ExactSizeIterator<Item = [i32; N]>,
        columns: &[ColumnId],
    ) {
        let count = keys.len();
        if self.keys.len() < count {
            self.keys.resize_with(count, KeyBytes::default);
        }
        for (bytes, key) in self.keys.iter_mut().zip(keys) {
            set_key(bytes, &table.indexes[0], &key);
        }
        let points: Vec<_> =
            self.keys[..count].iter().map(|key| point(table, key, columns)).collect();
        statement.prefetch_points(&points);
    }

    /// Changes `changed` of a row whose `read` columns are in `self.row`, to what `compute` makes
    /// of these; `Gone` if it was deleted meanwhile.
    fn change(
        &mut self,
        statement: &mut Statement<'_>,
        (table, row): (&TableEntry, RowId),
        read: &[ColumnId],
        changed: &[ColumnId],
        mut compute: impl FnMut(&RowBuffer, &mut Stored) -> Result<()>,
    ) -> Result<WriteOutcome> {
        loop {
            self.stored.clear();
            compute(&self.row, &mut self.stored)?;
            let outcome = self.stored.values(|values| {
                let mut changes = [(ColumnId(0), None); 4];
                for (change, pair) in changes.iter_mut().zip(changed.iter().zip(values)) {
                    *change = (*pair.0, *pair.1);
                }
                statement.update(table, row, &changes[..changed.len()])
            })?;
            match outcome {
                WriteOutcome::Changed => {
                    statement.get_newest(table, row, read, &mut self.row)?;
                }
                other => return Ok(other),
            }
        }
    }

    /// As `change`; a row that is gone, or was changed by this very command, is an error.
    fn must_change(
        &mut self,
        statement: &mut Statement<'_>,
        at: (&TableEntry, RowId),
        read: &[ColumnId],
        changed: &[ColumnId],
        compute: impl FnMut(&RowBuffer, &mut Stored) -> Result<()>,
    ) -> Result<()> {
        match self.change(statement, at, read, changed, compute)? {
            WriteOutcome::Done => Ok(()),
            other => {
                let detail = format!("a row of {} answered {other:?}", at.0.def.name);
                Err(Error::Internal { detail })
            }
        }
    }

    /// Inserts what is in `self.stored`.
    fn insert(&mut self, statement: &mut Statement<'_>, table: &TableEntry) -> Result<RowId> {
        self.stored.values(|values| statement.insert(table, values))
    }

    /// The rows whose key in `index` begins with `key`.
    fn prefix(
        &mut self,
        statement: &Statement<'_>,
        (table, index): (&TableEntry, &IndexEntry),
        key: &[i32],
        direction: ScanDirection,
        columns: &[ColumnId],
    ) -> IndexCursor {
        set_key(&mut self.key, index, key);
        let range = KeyRange::prefix(self.key.clone());
        statement.index_scan(table, index, range, direction, columns)
    }

    /// Finds a customer by number or last name (clause 2.5.2.2): reads `columns` into `self.row`.
    fn customer(
        &mut self,
        statement: &mut Statement<'_>,
        (warehouse, district): (i32, i32),
        who: &Who,
        columns: &[ColumnId],
    ) -> Result<RowId> {
        let tables = self.tables.clone();
        let name = match who {
            Who::Number(number) => {
                let key = [warehouse, district, *number];
                return self.get(statement, &tables.customer, &key, columns);
            }
            Who::LastName(name) => name,
        };
        let index = tables.customer_by_name();
        let (w, d) = (warehouse.to_le_bytes(), district.to_le_bytes());
        let values = [Some(&w[..]), Some(&d[..]), Some(name.as_bytes())];
        self.key.set(index, &values);
        let range = KeyRange::prefix(self.key.clone());
        let (table, direction) = (&tables.customer, ScanDirection::Forward);
        let mut cursor = statement.index_scan(table, index, range, direction, &[customer::C_ID]);
        self.rows.clear();
        while let Some(row) = cursor.next(statement, &mut self.row)? {
            self.rows.push(row);
        }
        if self.rows.is_empty() {
            let detail = format!("no customer {name} in {warehouse}/{district}");
            return Err(Error::Internal { detail });
        }
        // Position n/2, rounded up, counted from 1.
        let row = self.rows[self.rows.len().div_ceil(2) - 1];
        statement.get(table, row, columns, &mut self.row)?;
        Ok(row)
    }

    /// Takes the texts in columns `from..` of `self.row` down, as what the terminal shows.
    fn show(&mut self, from: usize) {
        for column in from..self.row.len() {
            self.shown.extend_from_slice(self.row.column(column).unwrap_or_default());
        }
    }
}

/// The range of keys from the prefix `from` to the prefix `to`, both included.
fn between(index: &IndexEntry, from: &[i32], to: &[i32]) -> KeyRange {
    let key = |values: &[i32]| {
        let mut key = KeyBytes::default();
        set_key(&mut key, index, values);
        Bound::Included(key)
    };
    KeyRange { from: key(from), to: key(to) }
}

/// `key` becomes that of these integers, the first columns of the index.
fn set_key(key: &mut KeyBytes, index: &IndexEntry, values: &[i32]) {
    let mut bytes = [[0; 4]; 4];
    for (bytes, value) in bytes.iter_mut().zip(values) {
        *bytes = value.to_le_bytes();
    }
    let parts = bytes.each_ref().map(|bytes| Some(&bytes[..]));
    key.set(index, &parts[..values.len()]);
}

/// A look-up by a table's primary key.
fn point<'a>(table: &'a TableEntry, key: &'a KeyBytes, columns: &'a [ColumnId]) -> PointAhead<'a> {
    PointAhead::new(table, &table.indexes[0], key, columns)
}

/// Locks tables until the transaction ends.
fn lock(
    statement: &mut Statement<'_>,
    reads: &[&TableEntry],
    writes: &[&TableEntry],
) -> Result<()> {
    for table in reads {
        statement.lock_table(table.def.oid, TableLockMode::AccessShare)?;
    }
    for table in writes {
        statement.lock_table(table.def.oid, TableLockMode::RowExclusive)?;
    }
    Ok(())
}

#[cold]
fn missing(table: &TableEntry, key: &[i32]) -> Error {
    Error::Internal { detail: format!("no row {key:?} in {}", table.def.name) }
}
