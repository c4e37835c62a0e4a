//! Rows by their keys: found, read, changed, inserted, as the statements of a procedure do.
//!
//! Invariants: a row that another transaction has changed meanwhile is read again and computed
//! anew under READ COMMITTED; under REPEATABLE READ it is a serialization failure, which the
//! driver retries. The primary key is a table's first index.

use atoll_kernel::api::{
    ColumnId, Error, IndexCursor, IndexEntry, KeyBytes, KeyRange, Result, RowBuffer, RowId,
    ScanDirection, Statement, TableEntry, WriteOutcome,
};

use crate::stored::Stored;

/// Columns that a change has at most.
const CHANGES_MAX: usize = 4;
/// Columns that a key has at most.
const PARTS_MAX: usize = 4;

/// The first columns of an index, as values to look for.
pub trait Key {
    /// `key` becomes that of these values.
    fn set(&self, key: &mut KeyBytes, index: &IndexEntry);
    /// For messages.
    fn show(&self) -> String;
}

/// A value of a key of several types.
#[derive(Clone, Copy, Debug)]
pub enum Part<'a> {
    /// A smallint.
    Small(i16),
    /// An int.
    Int(i32),
    /// A bigint.
    Long(i64),
    /// A varchar.
    Text(&'a str),
}

impl Key for [i32] {
    #[inline]
    fn set(&self, key: &mut KeyBytes, index: &IndexEntry) {
        set_key(key, index, self);
    }

    fn show(&self) -> String {
        format!("{self:?}")
    }
}

impl<const N: usize> Key for [i32; N] {
    #[inline]
    fn set(&self, key: &mut KeyBytes, index: &IndexEntry) {
        set_key(key, index, self);
    }

    fn show(&self) -> String {
        format!("{self:?}")
    }
}

impl<const N: usize> Key for [Part<'_>; N] {
    #[inline]
    fn set(&self, key: &mut KeyBytes, index: &IndexEntry) {
        let mut numbers = [[0; 8]; N];
        for (bytes, part) in numbers.iter_mut().zip(self) {
            match part {
                Part::Small(value) => bytes[..2].copy_from_slice(&value.to_le_bytes()),
                Part::Int(value) => bytes[..4].copy_from_slice(&value.to_le_bytes()),
                Part::Long(value) => *bytes = value.to_le_bytes(),
                Part::Text(_) => {}
            }
        }
        let mut values = [None; N];
        for ((value, part), bytes) in values.iter_mut().zip(self).zip(&numbers) {
            *value = Some(match part {
                Part::Small(_) => &bytes[..2],
                Part::Int(_) => &bytes[..4],
                Part::Long(_) => &bytes[..],
                Part::Text(text) => text.as_bytes(),
            });
        }
        key.set(index, &values);
    }

    fn show(&self) -> String {
        format!("{self:?}")
    }
}

/// `key` becomes that of these integers, the first columns of the index.
pub fn set_key(key: &mut KeyBytes, index: &IndexEntry, values: &[i32]) {
    let mut bytes = [[0; 4]; PARTS_MAX];
    for (bytes, value) in bytes.iter_mut().zip(values) {
        *bytes = value.to_le_bytes();
    }
    let parts = bytes.each_ref().map(|bytes| Some(&bytes[..]));
    key.set(index, &parts[..values.len()]);
}

/// The memory that a client finds, reads and writes rows with.
#[derive(Default)]
pub struct RowAccess {
    /// The key that is looked for.
    pub key: KeyBytes,
    /// What was read.
    pub row: RowBuffer,
    /// What is to be written.
    pub stored: Stored,
}

impl RowAccess {
    /// Finds a row by its whole primary key and reads `columns` into `self.row`.
    pub fn find<K: Key + ?Sized>(
        &mut self,
        statement: &mut Statement<'_>,
        table: &TableEntry,
        key: &K,
        columns: &[ColumnId],
    ) -> Result<Option<RowId>> {
        let index = &table.indexes[0];
        key.set(&mut self.key, index);
        statement.index_point(table, index, &self.key, columns, &mut self.row)
    }

    /// As `find`; a row that is not there is an error.
    pub fn get<K: Key + ?Sized>(
        &mut self,
        statement: &mut Statement<'_>,
        table: &TableEntry,
        key: &K,
        columns: &[ColumnId],
    ) -> Result<RowId> {
        let found = self.find(statement, table, key, columns)?;
        found.ok_or_else(|| missing(table, key))
    }

    /// Changes `changed` of a row whose `read` columns are in `self.row`, to what `compute` makes
    /// of these; `Gone` if it was deleted meanwhile.
    pub fn change(
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
                let mut changes = [(ColumnId(0), None); CHANGES_MAX];
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
    pub fn must_change(
        &mut self,
        statement: &mut Statement<'_>,
        at: (&TableEntry, RowId),
        read: &[ColumnId],
        changed: &[ColumnId],
        compute: impl FnMut(&RowBuffer, &mut Stored) -> Result<()>,
    ) -> Result<()> {
        match self.change(statement, at, read, changed, compute)? {
            WriteOutcome::Done => Ok(()),
            other => Err(not_changed(at.0, other)),
        }
    }

    /// Changes `changed` of rows to what is in `self.stored`, row after row. A row that others have
    /// changed meanwhile is read again, and computed anew by `compute`, which is given its number.
    pub fn must_change_rows(
        &mut self,
        statement: &mut Statement<'_>,
        (table, rows): (&TableEntry, &[RowId]),
        read: &[ColumnId],
        changed: &[ColumnId],
        mut compute: impl FnMut(usize, &RowBuffer, &mut Stored) -> Result<()>,
    ) -> Result<()> {
        let mut stored = std::mem::take(&mut self.stored);
        stored.rows(changed.len(), |values| {
            let mut first = 0;
            while first < rows.len() {
                let rest = (&rows[first..], values.from(first));
                let (done, outcome) = statement.update_rows(table, changed, rest)?;
                first += done;
                if outcome == WriteOutcome::Changed {
                    let row = rows[first];
                    statement.get_newest(table, row, read, &mut self.row)?;
                    self.must_change(statement, (table, row), read, changed, |row, stored| {
                        compute(first, row, stored)
                    })?;
                    first += 1;
                } else if outcome != WriteOutcome::Done {
                    return Err(not_changed(table, outcome));
                }
            }
            Ok(())
        })?;
        stored.clear();
        self.stored = stored;
        Ok(())
    }

    /// Inserts what is in `self.stored`.
    pub fn insert(&mut self, statement: &mut Statement<'_>, table: &TableEntry) -> Result<RowId> {
        self.stored.values(|values| statement.insert(table, values))
    }

    /// Takes what was read from column `from` on down, as what a client is shown.
    pub fn show(&self, from: usize, shown: &mut Vec<u8>) {
        for column in from..self.row.len() {
            shown.extend_from_slice(self.row.column(column).unwrap_or_default());
        }
    }

    /// The rows whose key in `index` begins with `key`.
    pub fn prefix<K: Key + ?Sized>(
        &mut self,
        statement: &Statement<'_>,
        (table, index): (&TableEntry, &IndexEntry),
        key: &K,
        direction: ScanDirection,
        columns: &[ColumnId],
    ) -> IndexCursor {
        key.set(&mut self.key, index);
        let range = KeyRange::prefix(self.key.clone());
        statement.index_scan(table, index, range, direction, columns)
    }
}

/// A row that should have been changed.
#[cold]
fn not_changed(table: &TableEntry, outcome: WriteOutcome) -> Error {
    Error::Internal { detail: format!("a row of {} answered {outcome:?}", table.def.name) }
}

/// A row that should be there.
#[cold]
pub fn missing<K: Key + ?Sized>(table: &TableEntry, key: &K) -> Error {
    Error::Internal { detail: format!("no row {} in {}", key.show(), table.def.name) }
}
