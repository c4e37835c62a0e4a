//! Definitions (DDL): transactional, ordered with statements by table locks (rule 6.10).
//!
//! Invariants: the catalog lock (ACCESS EXCLUSIVE on the catalog tree) is taken first and held to
//! the end, so one transaction at a time changes definitions; a table whose definition or rows are
//! replaced is locked ACCESS EXCLUSIVE. Every change is a change of catalog rows, so it commits,
//! rolls back and recovers with its transaction; the private catalog follows the rows. A failed
//! operation may leave catalog rows changed: roll the statement back then, or more.

use std::sync::Arc;

use super::catalog_changes::AnyTree;
use super::statement::Statement;
use crate::base::{Cts, Error, Result, RowId};
use crate::catalog::{
    CATALOG_TREE, Catalog, ColumnDef, ColumnId, IndexColumn, IndexDef, IndexEntry, IndexKind,
    IndexPlan, NamespaceDef, Object, Oid, TableDef, TableEntry, build_index, encode_object,
};
use crate::tree::index::Exact;
use crate::tree::table::TableTree;
use crate::txn::LockMode;
use crate::txn::rows::{Frozen, Longs, Progress, WriteOutcome};
use crate::version::{TableAccess, Unique};

/// A table to be made.
#[derive(Clone, Debug)]
pub struct NewTable {
    /// Where.
    pub namespace: Oid,
    /// Its name.
    pub name: String,
    /// Its columns.
    pub columns: Vec<ColumnDef>,
    /// Storage options, kept for clients.
    pub options: Vec<String>,
}

/// An index to be made.
#[derive(Clone, Debug)]
pub struct NewIndex {
    /// On which table.
    pub table: Oid,
    /// Its name, in the table's namespace.
    pub name: String,
    /// Its key.
    pub columns: Vec<IndexColumn>,
    /// What it promises.
    pub kind: IndexKind,
}

impl Statement<'_> {
    /// Makes the namespace `def`, whatever its number. `AlreadyExists`.
    pub(super) fn define_namespace(&mut self, def: NamespaceDef) -> Result<()> {
        self.lock_catalog()?;
        self.change_catalog(|catalog| catalog.add_namespace(def.clone()))?;
        self.insert_object(&Object::Namespace(def))
    }

    /// Makes a namespace. `AlreadyExists`.
    pub fn create_namespace(&mut self, name: &str) -> Result<Oid> {
        let oid = self.core.shared.new_oid();
        self.define_namespace(NamespaceDef { oid, name: name.to_owned() })?;
        Ok(oid)
    }

    /// Removes an empty namespace. `NotFound`.
    pub fn drop_namespace(&mut self, oid: Oid) -> Result<()> {
        self.lock_catalog()?;
        self.delete_object(oid)?;
        self.change_catalog(|catalog| {
            catalog.remove_namespace(oid);
            Ok(())
        })
    }

    /// Makes an empty table. `AlreadyExists`, `TooLarge`, `OutOfMemory`.
    pub fn create_table(&mut self, new: NewTable) -> Result<Oid> {
        self.lock_catalog()?;
        let shared = &self.core.shared;
        let (oid, tree) = (shared.new_oid(), shared.new_tree());
        let NewTable { namespace, name, columns, options } = new;
        let def = TableDef { oid, namespace, name, tree, columns, options };
        if self.catalog.relation(namespace, &def.name).is_some() {
            return Err(Error::AlreadyExists { name: def.name });
        }
        let entry = self.make_table(def, Vec::new())?;
        self.insert_object(&Object::Table(entry.def.clone()))?;
        self.change_catalog(|catalog| catalog.add_table(entry))?;
        // Nobody else sees it before the commit, but own later locks must find it held.
        self.lock_exclusive(oid)?;
        Ok(oid)
    }

    /// Drops a table with its indexes and the sequences that it owns. `NotFound`.
    pub fn drop_table(&mut self, oid: Oid) -> Result<()> {
        self.lock_catalog()?;
        self.lock_exclusive(oid)?;
        let table = self.table(oid)?;
        for index in &table.indexes {
            self.delete_object(index.def.oid)?;
            self.changes.dropped(AnyTree::Index(index.tree.clone()));
        }
        for sequence in self.catalog.sequences_of(oid) {
            self.drop_sequence(sequence.def.oid)?;
        }
        self.delete_object(oid)?;
        self.changes.dropped(AnyTree::Table(table.access.tree.clone()));
        self.change_catalog(|catalog| catalog.remove_table(oid))
    }

    /// Empties tables: each gets a new tree and new index trees (rule 9.5). `NotFound`,
    /// `OutOfMemory`.
    pub fn truncate(&mut self, tables: &[Oid]) -> Result<()> {
        self.lock_catalog()?;
        for oid in tables {
            self.lock_exclusive(*oid)?;
            let before = self.table(*oid)?;
            let mut indexes = Vec::new();
            for index in &before.indexes {
                let mut def = index.def.clone();
                def.tree = self.core.shared.new_tree();
                self.update_object(&Object::Index(def.clone()))?;
                self.changes.dropped(AnyTree::Index(index.tree.clone()));
                indexes.push(def);
            }
            let mut def = before.def.clone();
            def.tree = self.core.shared.new_tree();
            self.update_object(&Object::Table(def.clone()))?;
            self.changes.dropped(AnyTree::Table(before.access.tree.clone()));
            let entry = self.make_table(def, indexes)?;
            self.change_catalog(|catalog| catalog.replace_table(entry))?;
        }
        Ok(())
    }

    /// Changes a table's name, namespace, options, or its columns' names, defaults and NOT NULL;
    /// tree and physical types stay. `NotFound`, `AlreadyExists`.
    pub fn alter_table(&mut self, def: TableDef) -> Result<()> {
        self.lock_catalog()?;
        self.lock_exclusive(def.oid)?;
        let before = self.table(def.oid)?;
        let physical =
            |def: &TableDef| def.columns.iter().map(|it| it.physical).collect::<Vec<_>>();
        if def.tree != before.def.tree || physical(&def) != physical(&before.def) {
            let detail = "a table's tree and physical columns do not change in place".to_owned();
            return Err(Error::Internal { detail });
        }
        self.update_object(&Object::Table(def.clone()))?;
        let entry = before.with(def, before.indexes.clone());
        self.change_catalog(|catalog| catalog.replace_table(entry))
    }

    /// Makes an index from the rows that are there; others neither read nor write the table
    /// meanwhile. `UniqueViolation` (of the index's tree), `AlreadyExists`, `NotFound`,
    /// `OutOfMemory`.
    pub fn create_index(&mut self, new: NewIndex) -> Result<Oid> {
        self.lock_catalog()?;
        self.lock_exclusive(new.table)?;
        let table = self.table(new.table)?;
        if self.catalog.relation(table.def.namespace, &new.name).is_some() {
            return Err(Error::AlreadyExists { name: new.name });
        }
        let shared = self.core.shared.clone();
        let (oid, tree) = (shared.new_oid(), shared.new_tree());
        let NewIndex { name, columns, kind, .. } = new;
        let def = IndexDef { oid, table: table.def.oid, name, tree, columns, kind };
        let key = def.key_parts(&table.def);
        let numbers: Vec<u16> = def.columns.iter().map(|column| column.column.0).collect();
        let plan = IndexPlan {
            table: &table.access.tree,
            columns: &numbers,
            parts: &key,
            unique: if kind.is_unique() { Unique::Yes } else { Unique::No },
            tree,
            home: shared.home_of(tree),
            exact: Exact::No,
        };
        let waiter = self.waiter();
        let built = build_index(&shared.pool, &plan, &mut || {
            if waiter.parker.should_yield() {
                waiter.check()?;
                waiter.parker.yield_now();
            }
            Ok(())
        })?;
        let built = Arc::new(built);
        self.changes.made(AnyTree::Index(built.clone()));
        self.insert_object(&Object::Index(def.clone()))?;
        let entry = IndexEntry::new(def, key, built, Cts::MAX);
        self.change_catalog(|catalog| catalog.add_index(entry))?;
        let table = self.table(table.def.oid)?;
        let made = table.indexes.last().expect("the index was just added").clone();
        self.changes.made_index(made);
        let rows = self.handle.changes().mark();
        self.changes.set_access(&shared, table.access.clone(), rows);
        Ok(oid)
    }

    /// Drops an index. `NotFound`.
    pub fn drop_index(&mut self, oid: Oid) -> Result<()> {
        self.lock_catalog()?;
        let index = self.catalog.index_by_oid(oid).cloned();
        let index = index.ok_or_else(|| Error::NotFound { what: format!("index {oid}") })?;
        self.lock_exclusive(index.def.table)?;
        self.delete_object(oid)?;
        self.changes.dropped(AnyTree::Index(index.tree.clone()));
        self.change_catalog(|catalog| catalog.remove_index(oid))?;
        let table = self.table(index.def.table)?;
        let rows = self.handle.changes().mark();
        self.changes.set_access(&self.core.shared, table.access.clone(), rows);
        Ok(())
    }

    /// Gives an index another name. `NotFound`, `AlreadyExists`.
    pub fn rename_index(&mut self, oid: Oid, name: &str) -> Result<()> {
        self.lock_catalog()?;
        let before = self.catalog.index_by_oid(oid).cloned();
        let before = before.ok_or_else(|| Error::NotFound { what: format!("index {oid}") })?;
        self.lock_exclusive(before.def.table)?;
        let mut def = before.def.clone();
        name.clone_into(&mut def.name);
        self.update_object(&Object::Index(def.clone()))?;
        let entry = IndexEntry::new(def, before.key.clone(), before.tree.clone(), before.made());
        self.change_catalog(|catalog| {
            catalog.remove_index(oid)?;
            catalog.add_index(entry)
        })?;
        if before.made() == Cts::MAX
            && let Some(renamed) = self.catalog.index_by_oid(oid)
        {
            // Made by this transaction: its commit has to reach the entry that stays.
            self.changes.made_index(renamed.clone());
        }
        Ok(())
    }

    /// Makes a table's tree, and empty trees for `indexes`, reachable for rollback and collection.
    fn make_table(&mut self, def: TableDef, indexes: Vec<IndexDef>) -> Result<TableEntry> {
        let shared = self.core.shared.clone();
        let (pool, home) = (&shared.pool, shared.home_of(def.tree));
        let rows = TableTree::create(pool, home, def.tree, def.layout()?, shared.versions.clone())?;
        let rows = Arc::new(rows);
        self.changes.made(AnyTree::Table(rows.clone()));
        let mut entries = Vec::new();
        for index in indexes {
            let home = shared.home_of(index.tree);
            let tree = crate::tree::index::IndexTree::create(pool.clone(), home, index.tree)?;
            let tree = Arc::new(tree);
            self.changes.made(AnyTree::Index(tree.clone()));
            let key = index.key_parts(&def);
            let entry = Arc::new(IndexEntry::new(index, key, tree, Cts::MAX));
            self.changes.made_index(entry.clone());
            entries.push(entry);
        }
        let entry = TableEntry::new(def, rows, entries, &shared.versions);
        let rows = self.handle.changes().mark();
        self.changes.set_access(&shared, entry.access.clone(), rows);
        Ok(entry)
    }

    pub(super) fn lock_catalog(&mut self) -> Result<()> {
        self.check_may_change()?;
        let waiter = self.session.waiter(self.context);
        let txn = &self.core.txn;
        txn.lock_table(self.handle, CATALOG_TREE, LockMode::AccessExclusive, &waiter)?;
        // Whatever was committed before the lock came is the base of this change.
        if self.changes.own().is_none() {
            self.catalog = self.session.catalog();
        }
        // A command of its own: it may change rows that earlier definitions of this statement did.
        self.core.txn.begin_command(self.handle);
        Ok(())
    }

    pub(super) fn lock_exclusive(&mut self, table: Oid) -> Result<()> {
        match self.lock_table(table, LockMode::AccessExclusive) {
            // The newest definition is what is wanted, whatever it was before.
            Err(Error::CatalogChanged) => Ok(()),
            other => other,
        }
    }

    pub(super) fn change_catalog(
        &mut self,
        change: impl FnOnce(&mut Catalog) -> Result<()>,
    ) -> Result<()> {
        self.changes.change(&self.core.shared, &self.catalog, change)?;
        self.catalog = self.changes.own().expect("it was just changed");
        Ok(())
    }

    fn catalog_rows(&self) -> Arc<TableAccess> {
        self.catalog.own_access().expect("a database has a catalog tree").clone()
    }

    pub(super) fn insert_object(&mut self, object: &Object) -> Result<()> {
        let (oid, bytes) = (object.oid(), encode_object(object));
        let (rows, mut progress) = (self.catalog_rows(), Progress::default());
        let values = [Some(&oid.0.to_le_bytes()[..]), Some(&bytes[..])];
        let row = self.run(|writer| {
            writer.insert(&rows, &values, (Frozen::No, &mut Longs::new()), &mut progress)
        })?;
        self.change_catalog(|catalog| {
            catalog.set_row(oid, row);
            Ok(())
        })
    }

    pub(super) fn update_object(&mut self, object: &Object) -> Result<()> {
        let row = self.row_of(object.oid())?;
        let bytes = encode_object(object);
        let (rows, mut progress) = (self.catalog_rows(), Progress::default());
        let changes = [(ColumnId(1).0, Some(&bytes[..]))];
        let outcome = self.run(|writer| writer.update(&rows, row, &changes, &mut progress))?;
        self.must_be_done(outcome, object.oid())
    }

    pub(super) fn delete_object(&mut self, oid: Oid) -> Result<()> {
        let row = self.row_of(oid)?;
        let (rows, mut progress) = (self.catalog_rows(), Progress::default());
        let outcome = self.run(|writer| writer.delete(&rows, row, &mut progress))?;
        self.must_be_done(outcome, oid)
    }

    fn row_of(&self, oid: Oid) -> Result<RowId> {
        let row = self.catalog.row_of(oid);
        row.ok_or_else(|| Error::NotFound { what: format!("object {oid}") })
    }

    /// Under the catalog lock no catalog row changes but by this transaction.
    fn must_be_done(&mut self, outcome: WriteOutcome, oid: Oid) -> Result<()> {
        match outcome {
            WriteOutcome::Done => Ok(()),
            // A row that this very command has written: begin the next command and try again.
            other => {
                let detail = format!("the catalog row of object {oid} answered {other:?}");
                Err(Error::Internal { detail })
            }
        }
    }
}
