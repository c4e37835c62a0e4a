//! YCSB's operations as native procedures.
//!
//! Invariants: a record is found by the primary key; each operation is a command, a
//! read-modify-write two, as its SQL statements would be.

use std::ops::Bound;
use std::sync::Arc;

use atoll_kernel::api::{
    Access, AffinityKey, Catalog, ColumnId, KeyRange, Result, RowId, ScanDirection, Statement,
    TableEntry,
};

use super::{Change, FIELDS, KeyForm, Kind, Operation, Ycsb, fields, text_key};
use crate::native::{Commands, Key, Native, Part, RowAccess, table};
use crate::setting::Setting;
use crate::space::{Each, Need, instance_seconds};
use crate::workload::Ended;

/// The fields' columns.
const ALL: [ColumnId; FIELDS] = [
    ColumnId(1),
    ColumnId(2),
    ColumnId(3),
    ColumnId(4),
    ColumnId(5),
    ColumnId(6),
    ColumnId(7),
    ColumnId(8),
    ColumnId(9),
    ColumnId(10),
];

/// Nanoseconds that an operation of each kind takes at least, all told.
const NANOS: [u64; 5] = [800, 2000, 8000, 5000, 2500];
/// Bytes of pages and of log that a record takes, its key's entry included.
const RECORD: Each = Each { pages: 1500, log: 1500 };
/// Bytes of log of an update.
const UPDATE: u64 = 500;

/// One client's.
pub struct Terminal {
    records: Arc<TableEntry>,
    form: KeyForm,
    access: RowAccess,
    /// Scratch for text keys.
    text: String,
    /// What a client would be shown.
    shown: Vec<u8>,
}

impl Terminal {
    fn operate(&mut self, commands: &mut Commands<'_>, operation: &Operation) -> Result<()> {
        let table = self.records.clone();
        match operation {
            Operation::Read(record) => self.read(&mut commands.read(&table)?, *record),
            Operation::Update(record, change) => {
                self.update(&mut commands.write(&table)?, *record, change)
            }
            Operation::Insert(record, row) => {
                self.insert(&mut commands.write(&table)?, *record, row)
            }
            Operation::Scan(record, count) => {
                self.scan(&mut commands.read(&table)?, *record, *count)
            }
            Operation::ReadModifyWrite(record, change) => {
                self.read(&mut commands.read(&table)?, *record)?;
                self.update(&mut commands.write(&table)?, *record, change)
            }
        }
    }

    /// Finds a record and reads `columns`.
    fn get(
        &mut self,
        statement: &mut Statement<'_>,
        record: u64,
        columns: &[ColumnId],
    ) -> Result<RowId> {
        let (access, table) = (&mut self.access, &*self.records);
        match self.form {
            KeyForm::Number => {
                access.get(statement, table, &[Part::Long(record.cast_signed())], columns)
            }
            KeyForm::Text => {
                text_key(record, &mut self.text);
                access.get(statement, table, &[Part::Text(&self.text)], columns)
            }
        }
    }

    fn read(&mut self, statement: &mut Statement<'_>, record: u64) -> Result<()> {
        self.get(statement, record, &ALL)?;
        self.access.show(0, &mut self.shown);
        Ok(())
    }

    fn update(
        &mut self,
        statement: &mut Statement<'_>,
        record: u64,
        change: &Change,
    ) -> Result<()> {
        let row = self.get(statement, record, &[])?;
        let (table, changed) = (self.records.clone(), [ALL[change.field]]);
        self.access.must_change(statement, (&table, row), &[], &changed, |_, stored| {
            stored.raw(change.value.as_bytes());
            Ok(())
        })
    }

    fn insert(&mut self, statement: &mut Statement<'_>, record: u64, row: &str) -> Result<()> {
        let stored = &mut self.access.stored;
        stored.clear();
        match self.form {
            KeyForm::Number => stored.long(record.cast_signed()),
            KeyForm::Text => {
                text_key(record, &mut self.text);
                stored.raw(self.text.as_bytes());
            }
        }
        fields(row).for_each(|field| stored.raw(field.as_bytes()));
        self.access.insert(statement, &self.records).map(drop)
    }

    fn scan(&mut self, statement: &mut Statement<'_>, record: u64, count: i64) -> Result<()> {
        let (table, access) = (self.records.clone(), &mut self.access);
        let index = &table.indexes[0];
        match self.form {
            KeyForm::Number => [Part::Long(record.cast_signed())].set(&mut access.key, index),
            KeyForm::Text => {
                text_key(record, &mut self.text);
                [Part::Text(&self.text)].set(&mut access.key, index);
            }
        }
        let from = Bound::Included(access.key.clone());
        let range = KeyRange { from, to: Bound::Unbounded };
        let mut cursor = statement.index_scan(&table, index, range, ScanDirection::Forward, &ALL);
        for _ in 0..count {
            if cursor.next(statement, &mut self.access.row)?.is_none() {
                break;
            }
            self.access.show(0, &mut self.shown);
        }
        Ok(())
    }
}

impl Native for Ycsb {
    type Tables = Arc<TableEntry>;
    type Terminal = Terminal;

    fn tables(catalog: &Catalog) -> std::result::Result<Arc<TableEntry>, String> {
        table(catalog, "usertable")
    }

    fn terminal(&self, records: Arc<TableEntry>) -> Terminal {
        let form = self.settings.key;
        let (access, text, shown) = (RowAccess::default(), String::new(), Vec::new());
        Terminal { records, form, access, text, shown }
    }

    fn need(&self, setting: &Setting, instances: u16) -> Need {
        let share = |kind| u64::from(self.settings.mix.share(kind));
        let updates = share(Kind::Update) + share(Kind::ReadModifyWrite);
        let nanos: u64 = Kind::ALL.iter().map(|kind| share(*kind) * NANOS[*kind as usize]).sum();
        let rate = 100 * 1_000_000_000 / nanos.max(1);
        let operation = Each {
            pages: share(Kind::Insert) * RECORD.pages / 100,
            log: (share(Kind::Insert) * RECORD.log + updates * UPDATE) / 100,
        };
        let records = (self.settings.records, RECORD);
        Need::of(records, (instance_seconds(setting, instances), rate), operation)
    }

    fn access(input: &Vec<Operation>) -> Access {
        match input.iter().any(Operation::writes) {
            true => Access::ReadWrite,
            false => Access::ReadOnly,
        }
    }

    fn key(input: &Vec<Operation>) -> AffinityKey {
        // That of the first operation stands for all.
        input.first().map_or(0, Operation::record).into()
    }

    fn run(
        terminal: &mut Terminal,
        commands: &mut Commands<'_>,
        input: &Vec<Operation>,
    ) -> Result<Ended<u64>> {
        terminal.shown.clear();
        for operation in input {
            terminal.operate(commands, operation)?;
        }
        let added = input.iter().filter(|it| matches!(it, Operation::Insert(..))).count() as u64;
        Ok(Ended::Commit((added > 0).then_some(added)))
    }
}
