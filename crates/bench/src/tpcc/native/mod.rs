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

use std::ops::{Bound, Deref, DerefMut};

use atoll_kernel::api::{
    ColumnId, Error, IndexEntry, KeyBytes, KeyRange, PointAhead, PointRows, Result, RowId,
    Statement, TableEntry,
};

use super::inputs::{Input, Who};
use super::schema::{Tables, customer};
use super::stored::{bytes, int};
use crate::native::{RowAccess, set_key};
use crate::stored::Stored;

pub(super) use crate::native::{Commands, lock, missing};
pub(super) use atoll_kernel::api::ScanDirection;

/// How one of them came to its end: a New-Order says which order it entered.
pub type Ended = crate::workload::Ended<OrderKey>;

/// (o_w_id, o_d_id, o_id).
pub type OrderKey = (i32, i32, i32);

/// The memory a terminal works with; it may go from thread to thread.
#[derive(Default)]
pub struct Terminal {
    access: RowAccess,
    /// The lines of an order, which are inserted together.
    lines: Stored,
    ordered: Vec<new_order::Ordered>,
    /// What was looked up together.
    found: PointRows,
    /// Of look-ups that are to come.
    keys: Vec<KeyBytes>,
    /// What the terminal would show: the texts that transactions retrieve.
    shown: Vec<u8>,
    /// Scratch for lists of numbers.
    numbers: Vec<i32>,
    rows: Vec<RowId>,
    taken: Vec<delivery::Taken>,
}

/// A terminal finds, reads and writes rows as every workload's clients do.
impl Deref for Terminal {
    type Target = RowAccess;

    fn deref(&self) -> &RowAccess {
        &self.access
    }
}

impl DerefMut for Terminal {
    fn deref_mut(&mut self) -> &mut RowAccess {
        &mut self.access
    }
}

impl Terminal {
    /// Does what `input` says, up to the commit.
    pub fn run(
        &mut self,
        tables: &Tables,
        commands: &mut Commands<'_>,
        input: &Input,
    ) -> Result<Ended> {
        self.shown.clear();
        match input {
            Input::NewOrder(input) => self.new_order(tables, commands, input),
            Input::Payment(input) => self.payment(tables, commands, input),
            Input::OrderStatus(input) => self.order_status(tables, commands, input),
            Input::Delivery(input) => self.delivery(tables, commands, input),
            Input::StockLevel(input) => self.stock_level(tables, commands, input),
        }
    }

    /// Reads the row of a look-up that was fetched ahead with others into `self.row`.
    fn get_ahead(
        &mut self,
        statement: &mut Statement<'_>,
        table: &TableEntry,
        point: &PointAhead<'_>,
    ) -> Result<RowId> {
        let found = statement.index_point_ahead(point, &mut self.access.row)?;
        found.ok_or_else(|| no_row(point, table))
    }

    /// Finds a customer by number or last name (clause 2.5.2.2): reads `columns` into `self.row`.
    fn customer(
        &mut self,
        tables: &Tables,
        statement: &mut Statement<'_>,
        (warehouse, district): (i32, i32),
        who: &Who,
        columns: &[ColumnId],
    ) -> Result<RowId> {
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
        self.access.key.set(index, &values);
        let range = KeyRange::prefix(self.access.key.clone());
        let (table, direction) = (&tables.customer, ScanDirection::Forward);
        let mut cursor = statement.index_scan(table, index, range, direction, &[customer::C_ID]);
        self.rows.clear();
        while let Some(row) = cursor.next(statement, &mut self.access.row)? {
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
        self.access.show(from, &mut self.shown);
    }
}

#[cold]
fn no_row(point: &PointAhead<'_>, table: &TableEntry) -> Error {
    let detail = format!("no row with key {:02x?} in {}", point.key, table.def.name);
    Error::Internal { detail }
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

/// A look-up by a table's primary key.
fn point<'a>(table: &'a TableEntry, key: &'a KeyBytes, columns: &'a [ColumnId]) -> PointAhead<'a> {
    PointAhead::new(table, &table.indexes[0], key, columns)
}

/// Look-ups of rows that may be anywhere, by their primary keys: what they will read is fetched
/// from memory for all at once.
fn points_ahead<'a, const N: usize>(
    statement: &Statement<'_>,
    table: &'a TableEntry,
    keys: (&'a mut Vec<KeyBytes>, impl ExactSizeIterator<Item = [i32; N]>),
    columns: &'a [ColumnId],
) -> Vec<PointAhead<'a>> {
    let (bytes, keys) = keys;
    let count = keys.len();
    if bytes.len() < count {
        bytes.resize_with(count, KeyBytes::default);
    }
    for (bytes, key) in bytes.iter_mut().zip(keys) {
        set_key(bytes, &table.indexes[0], &key);
    }
    let points: Vec<_> = bytes[..count].iter().map(|key| point(table, key, columns)).collect();
    statement.prefetch_points(&points);
    points
}
