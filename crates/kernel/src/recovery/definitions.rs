//! Definitions during replay: the catalog's rows as they stand, and the trees that they own.
//!
//! Replay begins with nothing ([`Definitions::new`]) or with a loaded state ([`Definitions::adopt`]).
//!
//! Invariants: a table's tree exists exactly while a catalog row names it, so changes to trees
//! that nobody owns (dropped, truncated) are passed over (rule 9.6); catalog rows are replayed in
//! order on one thread, between the rounds that the workers do. An index is *kept* from the
//! beginning of replay until its definition goes or names another tree or key, or its table's tree
//! goes: then its pages are freed at once. Indexes that are not kept have no tree before
//! `build_catalog` builds it.

use rustc_hash::FxHashMap as HashMap;
use std::sync::Arc;

use super::kept::KeptIndexes;
use crate::base::{Cts, Error, HomeId, Result, RowId, TreeId};
use crate::buffer::{BufferPool, until_done};
use crate::catalog::{CATALOG_TREE, IndexDef, Object, TableDef, catalog_layout, decode_object};
use crate::page::rowleaf::{RowState, SlotIndex};
use crate::page::{ColumnType, Layout};
use crate::tree::index::IndexTree;
use crate::tree::table::{LeafView, SideTables, TableTree};
use crate::txn::redo::{Change, RedoValue};
use crate::txn::{SequenceState, decode_sequence_note};

/// A state that replay goes on from: everything as of one timestamp S, and the logs hold every
/// commit from S on. Trees are at rest, their rows have no undo.
pub struct Loaded {
    /// The catalog tree.
    pub catalog: Arc<TableTree>,
    /// By the numbers that the catalog gives them, the tree of every table that it has.
    pub tables: HashMap<TreeId, Arc<TableTree>>,
    /// Trees of indexes that the catalog has; those that are not here are built whole at the end.
    /// Each has the entries of all rows as of S whose keys no later commit changed, and may have
    /// others. Its *exact* and *keyed* bits are true of the state in which its leaves were copied, at
    /// S or later. No row id in a keyed leaf is above its table tree's mark, unless the logs have
    /// the row: else the id may be given again, to a row with another key.
    pub indexes: HashMap<TreeId, Arc<IndexTree>>,
    /// The newest record of each sequence's values below S, with its timestamp.
    pub sequences: Vec<(TreeId, Cts, SequenceState)>,
}

/// A table's rows, and the indexes over them that replay keeps.
pub(super) struct Rows {
    pub tree: Arc<TableTree>,
    pub kept: KeptIndexes,
}

impl Rows {
    fn new(tree: Arc<TableTree>) -> Rows {
        Rows { tree, kept: KeptIndexes::default() }
    }
}

/// The catalog's rows and the trees, during replay.
pub struct Definitions {
    pub(super) pool: Arc<BufferPool>,
    pub(super) sides: Arc<dyn SideTables>,
    pub(super) homes: u16,
    objects: HashMap<RowId, Object>,
    tables: HashMap<TreeId, Rows>,
    // The table tree of each index tree that is kept.
    kept: HashMap<TreeId, TreeId>,
    // The newest record of each sequence's values, whether or not a sequence has them now.
    sequences: HashMap<TreeId, (Cts, SequenceState)>,
}

impl Definitions {
    /// No object yet, and the empty catalog tree. `OutOfMemory` if the pool is too small for it.
    pub fn new(
        pool: Arc<BufferPool>,
        sides: Arc<dyn SideTables>,
        homes: u16,
    ) -> Result<Definitions> {
        let catalog =
            TableTree::create(&pool, HomeId(0), CATALOG_TREE, catalog_layout(), sides.clone())?;
        Ok(Definitions::with_catalog(pool, sides, homes, Arc::new(catalog)))
    }

    fn with_catalog(
        pool: Arc<BufferPool>,
        sides: Arc<dyn SideTables>,
        homes: u16,
        catalog: Arc<TableTree>,
    ) -> Definitions {
        let tables = HashMap::from_iter([(CATALOG_TREE, Rows::new(catalog))]);
        let (objects, kept, sequences) =
            (HashMap::default(), HashMap::default(), HashMap::default());
        Definitions { pool, sides, homes, objects, tables, kept, sequences }
    }

    /// The state to go on from. Trees that no object of the catalog owns are freed (rule 9.6).
    /// `Corrupt` if the catalog tree has a row that is none, or a table has no tree or one of other
    /// columns.
    pub fn adopt(
        pool: Arc<BufferPool>,
        sides: Arc<dyn SideTables>,
        homes: u16,
        loaded: Loaded,
    ) -> Result<Definitions> {
        let mut definitions = Definitions::with_catalog(pool, sides, homes, loaded.catalog);
        let objects = catalog_objects(&definitions.tables[&CATALOG_TREE].tree)?;
        let (mut trees, mut trees_of_indexes) = (loaded.tables, loaded.indexes);
        let mut of_oid = HashMap::default();
        for table in objects.iter().filter_map(|(_, object)| as_table(object)) {
            let tree = trees.remove(&table.tree).ok_or_else(|| no_tree(table))?;
            grow(&tree, table)?;
            definitions.tables.insert(table.tree, Rows::new(tree));
            of_oid.insert(table.oid, table);
        }
        for index in objects.iter().filter_map(|(_, object)| as_index(object)) {
            let Some(table) = of_oid.get(&index.table) else { continue };
            let Some(tree) = trees_of_indexes.remove(&index.tree) else { continue };
            let rows = definitions.tables.get_mut(&table.tree).expect("every table has its tree");
            rows.kept.add(index, table, tree);
            definitions.kept.insert(index.tree, table.tree);
        }
        trees.values().try_for_each(|tree| tree.free_pages())?;
        trees_of_indexes.values().try_for_each(|tree| tree.free())?;
        definitions.objects = objects.into_iter().collect();
        let sequences = loaded.sequences.into_iter();
        definitions.sequences =
            sequences.map(|(values, cts, state)| (values, (cts, state))).collect();
        Ok(definitions)
    }

    /// The tree `id`, if something owns it now.
    pub fn tree(&self, id: TreeId) -> Option<&Arc<TableTree>> {
        self.tables.get(&id).map(|rows| &rows.tree)
    }

    /// The same, with the indexes that replay keeps.
    pub(super) fn rows(&self, id: TreeId) -> Option<&Rows> {
        self.tables.get(&id)
    }

    /// The tree of an index that was there when replay began and has been kept.
    pub fn kept_index(&self, index: TreeId) -> Option<&Arc<IndexTree>> {
        self.tables.get(self.kept.get(&index)?)?.kept.get(index)
    }

    /// All objects with the catalog rows that hold them.
    pub fn objects(&self) -> impl Iterator<Item = (RowId, &Object)> {
        self.objects.iter().map(|(row, object)| (*row, object))
    }

    /// Takes a note of a commit at `cts` into account.
    pub fn note(&mut self, cts: Cts, note: &[u8]) -> Result<()> {
        let detail = || format!("the commit at {cts} has a note of {} unknown bytes", note.len());
        let (values, state) = decode_sequence_note(note)
            .ok_or_else(|| Error::Corrupt { page: None, detail: detail() })?;
        let newest = self.sequences.entry(values).or_insert((cts, state));
        if newest.0 < cts {
            *newest = (cts, state);
        }
        Ok(())
    }

    /// Where the logs say that values of a sequence stand.
    pub fn sequence_state(&self, values: TreeId) -> Option<SequenceState> {
        self.sequences.get(&values).map(|(_, state)| *state)
    }

    /// The newest record of each sequence's values, with its timestamp.
    pub fn sequences(&self) -> impl Iterator<Item = (TreeId, Cts, SequenceState)> {
        self.sequences.iter().map(|(values, (cts, state))| (*values, *cts, *state))
    }

    /// The largest number of a sequence's values in the logs.
    pub fn sequence_max(&self) -> TreeId {
        self.sequences.keys().copied().max().unwrap_or_default()
    }

    /// The home whose pages a tree gets: trees are spread over all homes.
    pub fn home_of(&self, tree: TreeId) -> HomeId {
        HomeId((tree.0 % u32::from(self.homes)) as u16)
    }

    /// Takes a change of a catalog row into account. The row itself is stored by the workers.
    pub fn apply(&mut self, change: &Change<'_>) -> Result<()> {
        match change {
            Change::Insert { row, values, .. } => self.define(*row, values.clone().nth(1)),
            Change::Update { row, changes, .. } => {
                match changes.clone().find(|(column, _)| *column == 1) {
                    Some((_, definition)) => self.define(*row, Some(definition)),
                    None => Ok(()),
                }
            }
            Change::Delete { row, .. } => match self.objects.remove(row) {
                Some(Object::Table(table)) => self.drop_tree(table.tree),
                Some(Object::Index(index)) => self.drop_index(index.tree),
                Some(Object::Namespace(_) | Object::Sequence(_)) | None => Ok(()),
            },
            Change::Note(_) => Ok(()),
        }
    }

    fn define(&mut self, row: RowId, definition: Option<RedoValue<'_>>) -> Result<()> {
        let Some(RedoValue::Inline(bytes)) = definition else {
            let detail = format!("catalog row {row} has no definition");
            return Err(Error::Corrupt { page: None, detail });
        };
        let object = decode_object(bytes)?;
        let before = self.objects.insert(row, object.clone());
        match (&object, before) {
            (Object::Table(table), before) => {
                self.own_tree(table)?;
                match before {
                    Some(Object::Table(old)) if old.tree != table.tree => self.drop_tree(old.tree),
                    _ => Ok(()),
                }
            }
            (Object::Index(index), Some(Object::Index(old))) if !is_same_index(&old, index) => {
                self.drop_index(old.tree)
            }
            _ => Ok(()),
        }
    }

    fn own_tree(&mut self, table: &TableDef) -> Result<()> {
        if let Some(rows) = self.tables.get(&table.tree) {
            return grow(&rows.tree, table);
        }
        let (home, layout) = (self.home_of(table.tree), table.layout()?);
        let tree = TableTree::create(&self.pool, home, table.tree, layout, self.sides.clone())?;
        self.tables.insert(table.tree, Rows::new(Arc::new(tree)));
        Ok(())
    }

    /// At the end of replay: takes entries of kept indexes out whose keys could not be read when they were to go.
    pub(super) fn remove_unread_entries(&mut self) -> Result<()> {
        self.tables.values_mut().try_for_each(|rows| rows.kept.remove_unread(&rows.tree))
    }

    fn drop_tree(&mut self, id: TreeId) -> Result<()> {
        let Some(rows) = self.tables.remove(&id) else { return Ok(()) };
        for index in rows.kept.trees() {
            self.kept.remove(&index.tree());
            index.free()?;
        }
        rows.tree.free_pages()
    }

    fn drop_index(&mut self, index: TreeId) -> Result<()> {
        let Some(table) = self.kept.remove(&index) else { return Ok(()) };
        let rows = self.tables.get_mut(&table).expect("a table's tree goes with its indexes");
        match rows.kept.remove(index) {
            Some(tree) => tree.free(),
            None => Ok(()),
        }
    }
}

/// All objects of a catalog tree at rest, with the rows that hold them. `Corrupt`.
pub fn catalog_objects(catalog: &TableTree) -> Result<Vec<(RowId, Object)>> {
    let mut objects = Vec::new();
    let mut from = Some(RowId(0));
    while let Some(start) = from {
        let (found, next) = until_done(catalog.pool(), || {
            catalog.scan_leaf(start, &mut |leaf: &LeafView<'_>| {
                let slots = leaf.lower_bound(start).index()..leaf.count();
                let slots = slots.map(|slot| SlotIndex(slot as u16));
                let live = slots.filter(|slot| leaf.state(*slot) == RowState::Live);
                let row = |slot| (leaf.row_id(slot), leaf.column(slot, 1).unwrap_or_default());
                Ok(live.map(row).collect::<Vec<(RowId, Vec<u8>)>>())
            })
        })?;
        for (row, definition) in found {
            objects.push((row, decode_object(&definition)?));
        }
        from = next;
    }
    Ok(objects)
}

fn as_table(object: &Object) -> Option<&TableDef> {
    if let Object::Table(table) = object { Some(table) } else { None }
}

fn as_index(object: &Object) -> Option<&IndexDef> {
    if let Object::Index(index) = object { Some(index) } else { None }
}

/// Whether an index's entries stay right: the name may differ.
fn is_same_index(old: &IndexDef, new: &IndexDef) -> bool {
    old.tree == new.tree && old.table == new.table && old.columns == new.columns
}

/// Gives a table's tree the columns of its definition that it lacks (rule 5.2).
fn grow(tree: &TableTree, table: &TableDef) -> Result<()> {
    let columns: Vec<ColumnType> = table.columns.iter().map(|it| it.physical).collect();
    let newest = tree.layout();
    // It may have more: of an ADD COLUMN that was on its way when the tree was copied.
    if newest.columns().starts_with(&columns) {
        return Ok(());
    }
    if !columns.starts_with(newest.columns()) {
        let (table, tree) = (&table.name, tree.id());
        let detail = format!("table \"{table}\" has other columns than its tree {tree}");
        return Err(Error::Corrupt { page: None, detail });
    }
    let version = newest.version().checked_add(1);
    let version = version.ok_or(Error::Limit { what: "layouts of one table" })?;
    tree.add_layout(Layout::new(version, columns)?).map(drop)
}

pub(super) fn no_tree(table: &TableDef) -> Error {
    let detail = format!("table \"{}\" has no tree {}", table.name, table.tree);
    Error::Corrupt { page: None, detail }
}
