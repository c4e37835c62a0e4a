//! Definitions during replay: the catalog's rows as they stand, and the trees that they own.
//!
//! Invariants: a table's tree exists exactly while a catalog row names it, so changes to trees
//! that nobody owns (dropped, truncated) are passed over (rule 9.6); catalog rows are replayed in
//! order on one thread, between the rounds that the workers do.

use std::collections::HashMap;
use std::sync::Arc;

use super::replay::until_done;
use crate::base::{Cts, Error, HomeId, Result, RowId, TreeId};
use crate::buffer::BufferPool;
use crate::catalog::{CATALOG_TREE, Object, TableDef, catalog_layout, decode_object};
use crate::tree::table::{SideTables, TableTree};
use crate::txn::redo::{Change, RedoValue};
use crate::txn::{SequenceState, decode_sequence_note};

/// The catalog's rows and the table trees, during replay.
pub struct Definitions {
    pub(super) pool: Arc<BufferPool>,
    pub(super) sides: Arc<dyn SideTables>,
    pub(super) homes: u16,
    objects: HashMap<RowId, Object>,
    trees: HashMap<TreeId, Arc<TableTree>>,
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
        let trees = HashMap::from([(CATALOG_TREE, Arc::new(catalog))]);
        let (objects, sequences) = (HashMap::new(), HashMap::new());
        Ok(Definitions { pool, sides, homes, objects, trees, sequences })
    }

    /// The tree `id`, if something owns it now.
    pub fn tree(&self, id: TreeId) -> Option<&Arc<TableTree>> {
        self.trees.get(&id)
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
            Change::Delete { row, .. } => {
                if let Some(Object::Table(table)) = self.objects.remove(row) {
                    self.drop_tree(table.tree)?;
                }
                Ok(())
            }
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
        if let Object::Table(table) = &object {
            let old = match before {
                Some(Object::Table(before)) if before.tree != table.tree => Some(before.tree),
                _ => None,
            };
            self.own_tree(table)?;
            if let Some(old) = old {
                self.drop_tree(old)?;
            }
        }
        Ok(())
    }

    fn own_tree(&mut self, table: &TableDef) -> Result<()> {
        if !self.trees.contains_key(&table.tree) {
            let home = self.home_of(table.tree);
            let layout = table.layout()?;
            let tree = TableTree::create(&self.pool, home, table.tree, layout, self.sides.clone())?;
            self.trees.insert(table.tree, Arc::new(tree));
        }
        Ok(())
    }

    fn drop_tree(&mut self, id: TreeId) -> Result<()> {
        match self.trees.remove(&id) {
            Some(tree) => until_done(|| tree.free_pages()),
            None => Ok(()),
        }
    }
}
