//! A history that is made up, commit by commit, and the rows that it comes to.
//!
//! Tables have columns (id, name, group, filler) and perhaps one more, keys over all of the first
//! three, values that are null, empty, long. A row's key often changes and comes back within one commit.

use std::collections::BTreeMap;

use super::Commit;
use crate::base::{RowId, TreeId};
use crate::catalog::{
    CATALOG_TREE, ColumnDef, ColumnId, IndexColumn, IndexDef, IndexKind, NamespaceDef, Object, Oid,
    PUBLIC_NAMESPACE, TableDef, encode_object,
};
use crate::page::{ColumnType, overflow};
use crate::tree::key::{Direction, Nulls};
use crate::tree::table::RANGE_ROWS;
use crate::txn::redo::RedoBuffer;

/// A row's values; missing ones at the end are null.
pub type Row = Vec<Option<Vec<u8>>>;

const ID: usize = 0;
const NAME: usize = 1;
const GROUP: usize = 2;
const FILLER: usize = 3;

/// A table as it stands.
pub struct Table {
    pub at: RowId,
    pub def: TableDef,
    pub rows: BTreeMap<u64, Row>,
    next: [u64; 2],
}

/// The history so far, and what it has come to.
pub struct World {
    pub rng: fastrand::Rng,
    pub tables: Vec<Table>,
    /// By the catalog row that holds it.
    pub indexes: BTreeMap<RowId, IndexDef>,
    commits: Vec<Commit>,
    redo: RedoBuffer,
    cts: u64,
    catalog_row: u64,
    number: u32,
    id: i64,
}

impl World {
    /// Nothing but the namespace.
    pub fn new(rng: fastrand::Rng) -> World {
        let mut world = World {
            rng,
            tables: Vec::new(),
            indexes: BTreeMap::new(),
            commits: Vec::new(),
            redo: RedoBuffer::default(),
            cts: 10,
            catalog_row: 0,
            number: 20_000,
            id: 0,
        };
        let name = "public".to_owned();
        world.add_object(&Object::Namespace(NamespaceDef { oid: PUBLIC_NAMESPACE, name }));
        world.commit();
        world
    }

    /// The commits since the last call.
    pub fn take_commits(&mut self) -> Vec<Commit> {
        std::mem::take(&mut self.commits)
    }

    /// Ends a commit.
    pub fn commit(&mut self) {
        self.cts += self.rng.u64(1..4);
        let payload = self.redo.bytes().to_vec();
        let home = self.rng.u16(0..super::HOMES);
        self.commits.push(Commit { home, cts: self.cts, payload });
        self.redo.clear();
    }

    fn new_number(&mut self) -> u32 {
        self.number += 1;
        self.number
    }

    fn add_object(&mut self, object: &Object) -> RowId {
        self.catalog_row += 1;
        let (row, definition) = (RowId(self.catalog_row), encode_object(object));
        let oid = object.oid().0.to_le_bytes();
        self.redo.insert(CATALOG_TREE, row, &[Some(&oid), Some(&definition)]);
        row
    }

    fn change_object(&mut self, row: RowId, object: &Object) {
        let definition = encode_object(object);
        self.redo.update(CATALOG_TREE, row, &[(1, Some(&definition))]);
    }

    /// A table without rows and its usual indexes.
    pub fn create_table(&mut self) {
        let types =
            [ColumnType::Int8, ColumnType::Bytes, ColumnType::Int4, ColumnType::Bytes].into_iter();
        let names = ["id", "name", "group", "filler"];
        let def = TableDef {
            oid: Oid(self.new_number()),
            namespace: PUBLIC_NAMESPACE,
            name: format!("table{}", self.tables.len()),
            tree: TreeId(self.new_number()),
            columns: names.into_iter().zip(types).map(|(n, ty)| ColumnDef::plain(n, ty)).collect(),
            options: Vec::new(),
        };
        let at = self.add_object(&Object::Table(def.clone()));
        self.tables.push(Table { at, def, rows: BTreeMap::new(), next: [1, RANGE_ROWS] });
        let table = self.tables.len() - 1;
        self.create_index(table, &[ID], IndexKind::Primary);
        self.create_index(table, &[GROUP, NAME], IndexKind::Plain);
        self.create_index(table, &[NAME], IndexKind::Plain);
    }

    pub fn create_index(&mut self, table: usize, columns: &[usize], kind: IndexKind) {
        let place = |column: &usize| IndexColumn {
            column: ColumnId(*column as u16),
            direction: if *column == NAME { Direction::Descending } else { Direction::Ascending },
            nulls: if *column == GROUP { Nulls::First } else { Nulls::Last },
        };
        let oid = Oid(self.new_number());
        let def = IndexDef {
            oid,
            table: self.tables[table].def.oid,
            name: format!("index{oid}"),
            tree: TreeId(self.new_number()),
            columns: columns.iter().map(place).collect(),
            kind,
        };
        let row = self.add_object(&Object::Index(def.clone()));
        self.indexes.insert(row, def);
    }

    /// The indexes of a table, with their catalog rows.
    pub fn indexes_of(&self, table: usize) -> Vec<(RowId, IndexDef)> {
        let oid = self.tables[table].def.oid;
        let own = self.indexes.iter().filter(|(_, def)| def.table == oid);
        own.map(|(row, def)| (*row, def.clone())).collect()
    }

    pub fn drop_index(&mut self, row: RowId) {
        self.redo.delete(CATALOG_TREE, row);
        self.indexes.remove(&row);
    }

    pub fn rename_index(&mut self, row: RowId) {
        let def = self.indexes.get_mut(&row).expect("the caller has it from here");
        def.name.push_str("renamed");
        let object = Object::Index(def.clone());
        self.change_object(row, &object);
    }

    /// Gives a table, and its indexes, new trees without rows.
    pub fn truncate(&mut self, table: usize) {
        for (row, mut def) in self.indexes_of(table) {
            def.tree = TreeId(self.new_number());
            self.indexes.insert(row, def.clone());
            self.change_object(row, &Object::Index(def));
        }
        self.replace_tree(table);
        self.tables[table].rows.clear();
    }

    /// Writes a table's rows into a new tree; its indexes keep their numbers.
    pub fn rewrite(&mut self, table: usize) {
        self.replace_tree(table);
        let rows = std::mem::take(&mut self.tables[table].rows);
        for row in rows.into_values() {
            self.put(table, row);
        }
    }

    fn replace_tree(&mut self, table: usize) {
        let tree = TreeId(self.new_number());
        let table = &mut self.tables[table];
        table.def.tree = tree;
        let (at, object) = (table.at, Object::Table(table.def.clone()));
        self.change_object(at, &object);
    }

    pub fn add_column(&mut self, table: usize, column: ColumnType) {
        let table = &mut self.tables[table];
        table.def.columns.push(ColumnDef::plain("added", column));
        let (at, object) = (table.at, Object::Table(table.def.clone()));
        self.change_object(at, &object);
    }

    pub fn drop_table(&mut self, table: usize) {
        self.redo.delete(CATALOG_TREE, self.tables[table].at);
        for (row, _) in self.indexes_of(table) {
            self.drop_index(row);
        }
        self.tables.remove(table);
    }

    fn bytes(&mut self, len_max: usize) -> Vec<u8> {
        let len = self.rng.usize(0..=len_max);
        (0..len).map(|_| self.rng.u8(..)).collect()
    }

    fn value(&mut self, table: usize, column: usize) -> Option<Vec<u8>> {
        if column == ID {
            self.id += 1;
            return Some(self.id.to_le_bytes().to_vec());
        }
        if self.rng.u8(0..6) == 0 {
            return None;
        }
        match (self.tables[table].def.columns[column].physical, column) {
            (ColumnType::Int4, _) => Some(self.rng.i32(-3..4).to_le_bytes().to_vec()),
            // Twice as long as a key, with zeros in it, still is one.
            (_, NAME) if self.rng.u8(0..8) == 0 => Some(self.bytes(900)),
            (_, NAME) => Some(format!("name{}", self.rng.u8(0..40)).into_bytes()),
            _ => {
                let len_max = if self.rng.u8(0..20) == 0 { 6000 } else { 60 };
                Some(self.bytes(len_max))
            }
        }
    }

    /// Puts some of the values into the log as long ones; answers which, by column.
    fn log_longs(&mut self, values: &[(u16, Option<Vec<u8>>)]) -> Vec<Option<u64>> {
        let mut numbers = Vec::new();
        for (column, value) in values {
            let is_bytes = [NAME, FILLER].contains(&usize::from(*column));
            let value = value.as_ref().filter(|value| is_bytes && !value.is_empty());
            // What a leaf cannot hold must be long, short names may be.
            let long = value.filter(|value| value.len() > 1000 || self.rng.u8(0..30) == 0);
            numbers.push(long.map(|value| {
                let number = self.redo.begin_long(value.len() as u32);
                let mut block = Vec::new();
                overflow::encode_block(value, &mut block);
                self.redo.long_block(&block);
                self.redo.end_long(crc32c::crc32c(value));
                number
            }));
        }
        numbers
    }

    fn put(&mut self, table: usize, row: Row) {
        let range = self.rng.usize(0..2);
        let id = self.tables[table].next[range];
        // Now and then a gap, so that the rows of one tree go to several workers.
        self.tables[table].next[range] += if self.rng.u8(0..40) == 0 { 1000 } else { 1 };
        let numbered: Vec<(u16, Option<Vec<u8>>)> = (0..).zip(row.iter().cloned()).collect();
        let longs = self.log_longs(&numbered);
        let values: Vec<Option<&[u8]>> = row.iter().map(Option::as_deref).collect();
        let tree = self.tables[table].def.tree;
        self.redo.insert_with(tree, RowId(id), &values, |at| longs[at]);
        self.tables[table].rows.insert(id, row);
    }

    pub fn insert(&mut self, table: usize) {
        let columns = 0..self.tables[table].def.columns.len();
        let row = columns.map(|column| self.value(table, column)).collect();
        self.put(table, row);
    }

    fn any_row(&mut self, table: usize) -> Option<u64> {
        let rows = &self.tables[table].rows;
        let at = self.rng.u64(0..=rows.keys().next_back()? % RANGE_ROWS);
        let from = at + RANGE_ROWS * self.rng.u64(0..2);
        rows.range(from..).next().map(|(row, _)| *row)
    }

    /// Sets columns of a row.
    fn set(&mut self, table: usize, row: u64, changes: Vec<(u16, Option<Vec<u8>>)>) {
        let longs = self.log_longs(&changes);
        let tree = self.tables[table].def.tree;
        let borrowed: Vec<_> = changes.iter().map(|(at, value)| (*at, value.as_deref())).collect();
        self.redo.update_with(tree, RowId(row), &borrowed, |at| longs[at]);
        let columns = self.tables[table].def.columns.len();
        let values = self.tables[table].rows.get_mut(&row).expect("it was just found");
        values.resize(columns, None);
        for (column, value) in changes {
            values[usize::from(column)] = value;
        }
    }

    fn update(&mut self, table: usize, row: u64) {
        let columns = self.tables[table].def.columns.len();
        let mut changes = Vec::new();
        for column in 0..columns {
            if self.rng.u8(0..3) == 0 {
                changes.push((column as u16, self.value(table, column)));
            }
        }
        if !changes.is_empty() {
            self.set(table, row, changes);
        }
    }

    /// The name changes, and comes back.
    fn there_and_back(&mut self, table: usize, row: u64) {
        let before = self.tables[table].rows[&row][NAME].clone();
        let other = self.value(table, NAME);
        self.set(table, row, vec![(NAME as u16, other)]);
        self.set(table, row, vec![(NAME as u16, before)]);
    }

    /// Some random change of some row.
    pub fn change(&mut self, table: usize) {
        let what = self.rng.u8(0..10);
        let row = if what < 3 { None } else { self.any_row(table) };
        match (what, row) {
            (_, None) => self.insert(table),
            (3..5, Some(row)) => {
                self.redo.delete(self.tables[table].def.tree, RowId(row));
                self.tables[table].rows.remove(&row);
            }
            (5, Some(row)) => self.there_and_back(table, row),
            (_, Some(row)) => {
                self.update(table, row);
                if self.rng.bool() {
                    self.update(table, row);
                }
            }
        }
    }

    /// Random commits, of a few changes each.
    pub fn run(&mut self, commits: usize) {
        for _ in 0..commits {
            for _ in 0..self.rng.usize(1..12) {
                let table = self.rng.usize(0..self.tables.len());
                self.change(table);
            }
            self.commit();
        }
    }
}
