//! One version of the catalog, in memory: immutable, sharing what did not change with others.
//!
//! Invariants: every index entry in a table's list is also found by oid and by name; names are
//! unique per namespace among tables and indexes together, as in pg_class. Maps are split into
//! shards behind `Arc`s, so that one change copies one shard of each map, not the catalog.

use rustc_hash::FxHashMap as HashMap;
use std::hash::{BuildHasher, Hash};
use std::sync::Arc;

use super::{ColumnId, IndexDef, NamespaceDef, Oid, SequenceDef, TableDef};
use crate::base::{Cts, Error, Observed, Result, RowId, TreeId};
use crate::sync::{AtomicU64, Ordering};
use crate::tree::index::IndexTree;
use crate::tree::key::KeyPart;
use crate::tree::table::TableTree;
use crate::txn::Sequence;
use crate::version::{IndexAccess, TableAccess, Unique, VersionSpace};

const SHARDS: usize = 64;

/// A table as statements use it: definition, access paths, and its indexes.
pub struct TableEntry {
    /// What it is.
    pub def: TableDef,
    /// Its rows and index entries, as changes, rollback and collection need them; its indexes are
    /// those of `indexes`, in the same order.
    pub access: Arc<TableAccess>,
    /// Every index on it, in order of creation.
    pub indexes: Vec<Arc<IndexEntry>>,
}

impl TableEntry {
    /// A table with its rows in `rows`.
    pub fn new(
        def: TableDef,
        rows: Arc<TableTree>,
        indexes: Vec<Arc<IndexEntry>>,
        versions: &Arc<VersionSpace>,
    ) -> TableEntry {
        let paths = indexes.iter().map(|index| IndexAccess {
            tree: index.tree.clone(),
            parts: index.key.clone(),
            columns: index.def.columns.iter().map(|column| column.column.0).collect(),
            unique: if index.def.kind.is_unique() { Unique::Yes } else { Unique::No },
        });
        let access = Arc::new(TableAccess::new(rows, paths.collect(), versions.clone()));
        TableEntry { def, access, indexes }
    }

    /// The same table with another definition or other indexes.
    pub fn with(&self, def: TableDef, indexes: Vec<Arc<IndexEntry>>) -> TableEntry {
        let rows = self.access.tree.clone();
        TableEntry::new(def, rows, indexes, &self.access.versions)
    }

    /// About how many rows it has, for planning.
    pub fn approximate_rows(&self) -> u64 {
        self.access.tree.approximate_rows()
    }
}

/// An index as statements use it.
pub struct IndexEntry {
    /// What it is.
    pub def: IndexDef,
    /// How its keys are made from its table's columns.
    pub key: Vec<KeyPart>,
    /// Where its entries are.
    pub tree: Arc<IndexTree>,
    // The cts of the commit that made it, `Cts::MAX` before; written once, by that commit.
    made: AtomicU64,
}

impl IndexEntry {
    /// An index made by the commit at `made`; `Cts::MAX` while that has not happened.
    pub fn new(def: IndexDef, key: Vec<KeyPart>, tree: Arc<IndexTree>, made: Cts) -> IndexEntry {
        IndexEntry { def, key, tree, made: AtomicU64::new(made.0) }
    }

    /// When it was made: a snapshot taken earlier must not read it (rule 6.10).
    pub fn made(&self) -> Cts {
        // Acquire: pairs with the release in `set_made`.
        Cts(self.made.load(Ordering::Acquire))
    }

    /// Whether a row's values of all these columns can be told from its key, so that a scan need
    /// not look at the rows of leaves that are exact (rule 5.7).
    pub fn covers(&self, columns: &[ColumnId]) -> bool {
        columns.iter().all(|column| self.key_place(*column).is_some())
    }

    /// Which part of the key tells the column's value.
    pub fn key_place(&self, column: ColumnId) -> Option<usize> {
        let mut parts = self.def.columns.iter().zip(&self.key);
        parts.position(|(own, part)| own.column == column && part.is_reversible())
    }

    /// Its commit has this timestamp.
    pub fn set_made(&self, cts: Cts) {
        // Release: pairs with the acquire in `made`.
        self.made.store(cts.0, Ordering::Release);
    }
}

/// A sequence as statements use it.
pub struct SequenceEntry {
    /// What it is.
    pub def: SequenceDef,
    /// Where it stands.
    pub values: Arc<Sequence>,
}

impl SequenceEntry {
    /// A sequence whose values begin where the definition says.
    pub fn new(def: SequenceDef) -> SequenceEntry {
        let values = Arc::new(Sequence::new(def.values, def.first));
        SequenceEntry { def, values }
    }
}

/// What a name in a namespace stands for.
#[derive(Clone)]
pub enum Relation {
    /// A table.
    Table(Arc<TableEntry>),
    /// An index.
    Index(Arc<IndexEntry>),
    /// A sequence.
    Sequence(Arc<SequenceEntry>),
}

/// One version of the catalog.
#[derive(Clone)]
pub struct Catalog {
    version: u64,
    committed: Option<Observed>,
    namespaces: Arc<Vec<Arc<NamespaceDef>>>,
    relations: Sharded<Oid, Relation>,
    names: Sharded<(Oid, String), Oid>,
    // Which row of the catalog tree holds each object.
    rows: Sharded<Oid, RowId>,
    // The catalog tree itself; none in a catalog that no database has.
    own: Option<Arc<TableAccess>>,
    // Tree numbers that were used by what is no object any more.
    tree_seen: TreeId,
}

impl Catalog {
    /// A catalog without any object.
    pub fn empty() -> Catalog {
        Catalog {
            version: 0,
            committed: None,
            namespaces: Arc::new(Vec::new()),
            relations: Sharded::new(),
            names: Sharded::new(),
            rows: Sharded::new(),
            own: None,
            tree_seen: TreeId::default(),
        }
    }

    /// The catalog tree's own access paths.
    pub fn own_access(&self) -> Option<&Arc<TableAccess>> {
        self.own.as_ref()
    }

    /// Says where the catalog's own rows are.
    pub fn set_own_access(&mut self, access: Arc<TableAccess>) {
        self.own = Some(access);
    }

    /// The row of the catalog tree that holds the object.
    pub fn row_of(&self, oid: Oid) -> Option<RowId> {
        self.rows.get(&oid).copied()
    }

    /// Notes which row of the catalog tree holds the object.
    pub fn set_row(&mut self, oid: Oid, row: RowId) {
        self.rows.insert(oid, row);
    }

    /// The largest tree number in use.
    pub fn tree_max(&self) -> TreeId {
        let trees = self.relations.values().map(|relation| match relation {
            Relation::Table(table) => table.def.tree,
            Relation::Index(index) => index.def.tree,
            Relation::Sequence(sequence) => sequence.def.values,
        });
        trees.max().unwrap_or_default().max(super::CATALOG_TREE).max(self.tree_seen)
    }

    /// Grows with every change; equal versions of one database are the same catalog.
    pub fn version(&self) -> u64 {
        self.version
    }

    /// The commit that made this version, which its users observe (rule 7.4); none after start.
    pub fn committed(&self) -> Option<Observed> {
        self.committed
    }

    /// All namespaces.
    pub fn namespaces(&self) -> impl Iterator<Item = &NamespaceDef> {
        self.namespaces.iter().map(AsRef::as_ref)
    }

    /// The namespace called `name`.
    pub fn namespace(&self, name: &str) -> Option<&NamespaceDef> {
        self.namespaces().find(|it| it.name == name)
    }

    /// All tables, in no order.
    pub fn tables(&self) -> impl Iterator<Item = &Arc<TableEntry>> {
        self.relations.values().filter_map(|relation| match relation {
            Relation::Table(table) => Some(table),
            Relation::Index(_) | Relation::Sequence(_) => None,
        })
    }

    /// All sequences, in no order.
    pub fn sequences(&self) -> impl Iterator<Item = &Arc<SequenceEntry>> {
        self.relations.values().filter_map(|relation| match relation {
            Relation::Sequence(sequence) => Some(sequence),
            Relation::Table(_) | Relation::Index(_) => None,
        })
    }

    /// The sequences that go with a table, in the order in which they were made.
    pub fn sequences_of(&self, table: Oid) -> Vec<Arc<SequenceEntry>> {
        let owned = |it: &&Arc<SequenceEntry>| it.def.owner.is_some_and(|(own, _)| own == table);
        let mut owned: Vec<_> = self.sequences().filter(owned).cloned().collect();
        owned.sort_by_key(|sequence| sequence.def.oid);
        owned
    }

    /// The relation `name` of `namespace`.
    pub fn relation(&self, namespace: Oid, name: &str) -> Option<&Relation> {
        let oid = self.names.get(&(namespace, name.to_owned()))?;
        self.relations.get(oid)
    }

    /// The relation with this identifier.
    pub fn relation_by_oid(&self, oid: Oid) -> Option<&Relation> {
        self.relations.get(&oid)
    }

    /// The table `name` of `namespace`.
    pub fn table(&self, namespace: Oid, name: &str) -> Option<&Arc<TableEntry>> {
        match self.relation(namespace, name)? {
            Relation::Table(table) => Some(table),
            Relation::Index(_) | Relation::Sequence(_) => None,
        }
    }

    /// The table with this identifier.
    pub fn table_by_oid(&self, oid: Oid) -> Option<&Arc<TableEntry>> {
        match self.relations.get(&oid)? {
            Relation::Table(table) => Some(table),
            Relation::Index(_) | Relation::Sequence(_) => None,
        }
    }

    /// The index with this identifier.
    pub fn index_by_oid(&self, oid: Oid) -> Option<&Arc<IndexEntry>> {
        match self.relations.get(&oid)? {
            Relation::Index(index) => Some(index),
            Relation::Table(_) | Relation::Sequence(_) => None,
        }
    }

    /// The sequence with this identifier.
    pub fn sequence_by_oid(&self, oid: Oid) -> Option<&Arc<SequenceEntry>> {
        match self.relations.get(&oid)? {
            Relation::Sequence(sequence) => Some(sequence),
            Relation::Table(_) | Relation::Index(_) => None,
        }
    }

    /// Numbers of trees up to `tree` were used, whatever the objects say.
    pub fn note_tree(&mut self, tree: TreeId) {
        self.tree_seen = self.tree_seen.max(tree);
    }

    /// Adds a sequence.
    pub fn add_sequence(&mut self, sequence: SequenceEntry) -> Result<()> {
        self.claim(sequence.def.namespace, &sequence.def.name, sequence.def.oid)?;
        self.relations.insert(sequence.def.oid, Relation::Sequence(Arc::new(sequence)));
        Ok(())
    }

    /// Puts another version of a sequence in the place of the one with its oid; the name may
    /// differ.
    pub fn replace_sequence(&mut self, sequence: SequenceEntry) -> Result<()> {
        let Some(before) = self.sequence_by_oid(sequence.def.oid).cloned() else {
            return Err(missing(sequence.def.oid));
        };
        let name = |def: &SequenceDef| (def.namespace, def.name.clone());
        if name(&before.def) != name(&sequence.def) {
            self.claim(sequence.def.namespace, &sequence.def.name, sequence.def.oid)?;
            self.names.remove(&name(&before.def));
        }
        self.relations.insert(sequence.def.oid, Relation::Sequence(Arc::new(sequence)));
        Ok(())
    }

    /// Takes a sequence out.
    pub fn remove_sequence(&mut self, oid: Oid) -> Result<()> {
        let Some(sequence) = self.sequence_by_oid(oid).cloned() else { return Err(missing(oid)) };
        self.names.remove(&(sequence.def.namespace, sequence.def.name.clone()));
        self.relations.remove(&oid);
        self.rows.remove(&oid);
        Ok(())
    }

    /// The largest identifier in use, or 0.
    pub fn oid_max(&self) -> Oid {
        let namespaces = self.namespaces().map(|it| it.oid);
        let relations = self.relations.keys().copied();
        namespaces.chain(relations).max().unwrap_or_default()
    }

    /// Marks this version as the work of the commit `at`, ready to be published.
    pub fn commit_as(&mut self, at: Option<Observed>, version: u64) {
        self.committed = at;
        self.version = version;
    }

    /// Adds a namespace.
    pub fn add_namespace(&mut self, def: NamespaceDef) -> Result<()> {
        if self.namespace(&def.name).is_some() {
            return Err(Error::AlreadyExists { name: def.name });
        }
        Arc::make_mut(&mut self.namespaces).push(Arc::new(def));
        Ok(())
    }

    /// Takes a namespace out; its tables must be gone.
    pub fn remove_namespace(&mut self, oid: Oid) {
        Arc::make_mut(&mut self.namespaces).retain(|it| it.oid != oid);
    }

    /// Adds a table without indexes, or with those of a rewritten table.
    pub fn add_table(&mut self, table: TableEntry) -> Result<()> {
        self.claim(table.def.namespace, &table.def.name, table.def.oid)?;
        self.relations.insert(table.def.oid, Relation::Table(Arc::new(table)));
        Ok(())
    }

    /// Puts another version of a table in the place of the one with its oid; the name may differ.
    pub fn replace_table(&mut self, table: TableEntry) -> Result<()> {
        let Some(before) = self.table_by_oid(table.def.oid).cloned() else {
            return Err(missing(table.def.oid));
        };
        if before.def.name != table.def.name || before.def.namespace != table.def.namespace {
            self.claim(table.def.namespace, &table.def.name, table.def.oid)?;
            self.names.remove(&(before.def.namespace, before.def.name.clone()));
        }
        for index in &table.indexes {
            self.relations.insert(index.def.oid, Relation::Index(index.clone()));
        }
        self.relations.insert(table.def.oid, Relation::Table(Arc::new(table)));
        Ok(())
    }

    /// Takes a table and its indexes out.
    pub fn remove_table(&mut self, oid: Oid) -> Result<()> {
        let Some(table) = self.table_by_oid(oid).cloned() else { return Err(missing(oid)) };
        for index in &table.indexes {
            self.names.remove(&(table.def.namespace, index.def.name.clone()));
            self.relations.remove(&index.def.oid);
        }
        self.names.remove(&(table.def.namespace, table.def.name.clone()));
        self.relations.remove(&oid);
        self.rows.remove(&oid);
        Ok(())
    }

    /// Adds an index to its table.
    pub fn add_index(&mut self, index: IndexEntry) -> Result<()> {
        let Some(table) = self.table_by_oid(index.def.table).cloned() else {
            return Err(missing(index.def.table));
        };
        self.claim(table.def.namespace, &index.def.name, index.def.oid)?;
        let index = Arc::new(index);
        let mut indexes = table.indexes.clone();
        indexes.push(index.clone());
        self.relations.insert(index.def.oid, Relation::Index(index));
        let table = table.with(table.def.clone(), indexes);
        self.relations.insert(table.def.oid, Relation::Table(Arc::new(table)));
        Ok(())
    }

    /// Takes an index out.
    pub fn remove_index(&mut self, oid: Oid) -> Result<()> {
        let Some(index) = self.index_by_oid(oid).cloned() else { return Err(missing(oid)) };
        let Some(table) = self.table_by_oid(index.def.table).cloned() else {
            return Err(missing(index.def.table));
        };
        let indexes = table.indexes.iter().filter(|it| it.def.oid != oid).cloned().collect();
        self.names.remove(&(table.def.namespace, index.def.name.clone()));
        self.relations.remove(&oid);
        let table = table.with(table.def.clone(), indexes);
        self.relations.insert(table.def.oid, Relation::Table(Arc::new(table)));
        Ok(())
    }

    fn claim(&mut self, namespace: Oid, name: &str, oid: Oid) -> Result<()> {
        let key = (namespace, name.to_owned());
        if self.names.get(&key).is_some() {
            return Err(Error::AlreadyExists { name: name.to_owned() });
        }
        self.names.insert(key, oid);
        Ok(())
    }
}

fn missing(oid: Oid) -> Error {
    Error::NotFound { what: format!("object {oid}") }
}

/// A map in shards that clones share until one changes.
#[derive(Clone)]
struct Sharded<K, V> {
    shards: Vec<Arc<HashMap<K, V>>>,
}

impl<K: Hash + Eq + Clone, V: Clone> Sharded<K, V> {
    fn new() -> Self {
        Sharded { shards: (0..SHARDS).map(|_| Arc::new(HashMap::default())).collect() }
    }

    fn at(key: &K) -> usize {
        let hasher = std::hash::BuildHasherDefault::<std::hash::DefaultHasher>::new();
        hasher.hash_one(key) as usize % SHARDS
    }

    fn get(&self, key: &K) -> Option<&V> {
        self.shards[Self::at(key)].get(key)
    }

    fn insert(&mut self, key: K, value: V) {
        Arc::make_mut(&mut self.shards[Self::at(&key)]).insert(key, value);
    }

    fn remove(&mut self, key: &K) {
        Arc::make_mut(&mut self.shards[Self::at(key)]).remove(key);
    }

    fn keys(&self) -> impl Iterator<Item = &K> {
        self.shards.iter().flat_map(|shard| shard.keys())
    }

    fn values(&self) -> impl Iterator<Item = &V> {
        self.shards.iter().flat_map(|shard| shard.values())
    }
}
