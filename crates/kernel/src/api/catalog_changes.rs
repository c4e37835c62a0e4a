//! A transaction's own definitions: a private catalog, and what to do when it ends.
//!
//! Invariants: one transaction at a time changes definitions (it holds the catalog lock), so its
//! private catalog differs from the newest committed one by its own changes only. At *committed*,
//! before any lock is released, the private catalog becomes the newest one and dropped trees leave
//! the registry (rule 6.10). Pages of dropped trees are freed when every instance has passed the
//! end of a turn since, so that nobody is inside them.

use std::rc::Rc;
use std::sync::Arc;

use super::core::{CoreInner, Shared};
use super::environment::KernelEnvironment;
use crate::base::{Cts, Error, HomeId, InstanceId, Observed, Result, TreeId};
use crate::buffer::BufferPool;
use crate::catalog::{Catalog, CatalogRef, IndexEntry};
use crate::sync::mutant;
use crate::tree::index::IndexTree;
use crate::tree::table::TableTree;
use crate::txn::TxnHandle;
use crate::txn::rows::Mark;
use crate::version::{TableAccess, Tables};

/// Which of a change's two states.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Side {
    /// What was there before.
    Old,
    /// What the transaction made.
    New,
}

/// A tree that only one of the two states has.
#[derive(Clone)]
pub(super) enum AnyTree {
    Table(Arc<TableTree>),
    Index(Arc<IndexTree>),
}

/// The definitions that a transaction has changed.
#[derive(Default)]
pub(super) struct CatalogChanges {
    private: Option<CatalogRef>,
    // That of a checkpoint, if the transaction reads one: then it changes nothing.
    read: Option<CatalogRef>,
    before: Vec<Before>,
    made: Vec<AnyTree>,
    dropped: Vec<AnyTree>,
    new_indexes: Vec<Arc<IndexEntry>>,
    // How many trees had been made at the newest savepoint.
    made_before: usize,
}

/// What the registry held before a change, and how far the rows were then.
struct Before {
    tree: TreeId,
    access: Option<Arc<TableAccess>>,
    rows: Mark,
}

/// How far a transaction's definitions have come.
#[derive(Default)]
pub(super) struct CatalogPosition {
    private: Option<CatalogRef>,
    before: usize,
    made: usize,
    dropped: usize,
    new_indexes: usize,
}

/// What is left to do when the transaction has ended, one way or the other.
#[derive(Default)]
pub(super) struct Abandoned {
    before: Vec<Before>,
    made: Vec<AnyTree>,
    dropped: Vec<AnyTree>,
}

impl CatalogChanges {
    /// The private catalog, if there are changes; that of the checkpoint, if one is read.
    pub fn own(&self) -> Option<CatalogRef> {
        self.private.clone().or_else(|| self.read.clone())
    }

    /// The transaction reads a checkpoint, whose catalog this is.
    pub fn read(&mut self, catalog: CatalogRef) {
        self.read = Some(catalog);
    }

    /// Changes the private catalog, which begins as `base`. `ReadOnly` if a checkpoint is read.
    pub fn change<R>(
        &mut self,
        shared: &Shared,
        base: &CatalogRef,
        change: impl FnOnce(&mut Catalog) -> Result<R>,
    ) -> Result<R> {
        if self.read.is_some() {
            return Err(Error::ReadOnly);
        }
        let mut catalog = Catalog::clone(self.private.as_ref().unwrap_or(base));
        let result = change(&mut catalog)?;
        let committed = catalog.committed();
        catalog.commit_as(committed, shared.new_private_version());
        self.private = Some(Rc::new(Arc::new(catalog)));
        Ok(result)
    }

    /// The registry shows `access` from now on; `rows` is how far the rows are.
    pub fn set_access(&mut self, shared: &Shared, access: Arc<TableAccess>, rows: Mark) {
        let tree = access.id();
        let access = shared.registry.set(access);
        self.before.push(Before { tree, access, rows });
    }

    /// Where the definitions are now.
    pub fn position(&self) -> CatalogPosition {
        CatalogPosition {
            private: self.private.clone(),
            before: self.before.len(),
            made: self.made.len(),
            dropped: self.dropped.len(),
            new_indexes: self.new_indexes.len(),
        }
    }

    /// How far the rows were when a definition was changed last, if any was since `to`.
    pub fn rows_at_last_change(&self, to: &CatalogPosition) -> Option<Mark> {
        self.before.get(to.before..)?.last().map(|before| before.rows)
    }

    /// The tables without those that were made since `to`, whose rows nobody has to put back.
    pub fn without_made<'a>(
        &'a self,
        to: &CatalogPosition,
        tables: &'a dyn Tables,
    ) -> impl Tables + 'a {
        WithoutMade { made: &self.made[to.made..], tables }
    }

    /// Goes back to `to`; the answer says what is left to do.
    pub fn go_back(&mut self, to: &CatalogPosition) -> Abandoned {
        if !mutant("savepoint-keeps-definitions") {
            self.private.clone_from(&to.private);
        }
        self.new_indexes.truncate(to.new_indexes);
        Abandoned {
            before: self.before.split_off(to.before),
            made: self.made.split_off(to.made),
            dropped: self.dropped.split_off(to.dropped),
        }
    }

    /// The transaction made a tree.
    pub fn made(&mut self, tree: AnyTree) {
        self.made.push(tree);
    }

    /// The transaction made an index.
    pub fn made_index(&mut self, index: Arc<IndexEntry>) {
        self.new_indexes.push(index);
    }

    /// The transaction dropped a tree.
    pub fn dropped(&mut self, tree: AnyTree) {
        self.dropped.push(tree);
    }

    /// Whether this transaction made the table tree `id`.
    pub fn made_table(&self, id: TreeId) -> bool {
        self.made.iter().any(|tree| matches!(tree, AnyTree::Table(table) if table.id() == id))
    }

    /// Whether this transaction made the table tree `id` since its newest savepoint.
    pub fn made_since_savepoint(&self, id: TreeId) -> bool {
        let made = self.made.iter().skip(self.made_before);
        made.into_iter().any(|tree| matches!(tree, AnyTree::Table(table) if table.id() == id))
    }

    /// The newest savepoint is at `position` now, or there is none.
    pub fn set_savepoint(&mut self, position: Option<&CatalogPosition>) {
        self.made_before = position.map_or(0, |position| position.made);
    }

    /// Sees to it that the private catalog is published at *committed*.
    pub fn prepare_commit(
        &mut self,
        shared: &Arc<Shared>,
        handle: &mut TxnHandle<KernelEnvironment>,
    ) -> Abandoned {
        let Some(private) = self.private.take() else { return Abandoned::default() };
        let home = HomeId(handle.xid().instance().0);
        let (shared, indexes) = (shared.clone(), std::mem::take(&mut self.new_indexes));
        let dropped: Vec<AnyTree> = self.dropped.clone();
        handle.at_committed(Box::new(move |cts: Cts| {
            let mut catalog = Catalog::clone(&private);
            let version = shared.published.newest().version() + 1;
            catalog.commit_as(Some(Observed { home, cts }), version);
            indexes.iter().for_each(|index| index.set_made(cts));
            for tree in &dropped {
                if let AnyTree::Table(table) = tree {
                    shared.registry.remove(table.id());
                }
            }
            shared.published.publish(Arc::new(catalog));
        }));
        self.abandon()
    }

    /// Gives up the private catalog; what is left to do is in the answer.
    pub fn abandon(&mut self) -> Abandoned {
        self.private = None;
        self.new_indexes.clear();
        Abandoned {
            before: std::mem::take(&mut self.before),
            made: std::mem::take(&mut self.made),
            dropped: std::mem::take(&mut self.dropped),
        }
    }
}

struct WithoutMade<'a> {
    made: &'a [AnyTree],
    tables: &'a dyn Tables,
}

impl Tables for WithoutMade<'_> {
    fn table(&self, id: TreeId) -> Option<Arc<TableAccess>> {
        let is_it = |tree: &AnyTree| matches!(tree, AnyTree::Table(table) if table.id() == id);
        if self.made.iter().any(is_it) { None } else { self.tables.table(id) }
    }
}

impl Abandoned {
    /// Before a rollback: the trees that were made are on their way out, so that nobody restores
    /// rows in them.
    pub fn forget_made(&self, shared: &Shared) {
        for tree in &self.made {
            if let AnyTree::Table(table) = tree {
                drop(shared.registry.remove(table.id()));
            }
        }
    }

    /// In a rollback: the registry shows again what it did before each change, once `undo` has
    /// undone the rows that were changed since.
    pub fn restore(&self, shared: &Shared, mut undo: impl FnMut(Mark)) {
        for Before { tree, access, rows } in self.before.iter().rev() {
            undo(*rows);
            match access {
                Some(access) => drop(shared.registry.set(access.clone())),
                None => drop(shared.registry.remove(*tree)),
            }
        }
    }

    /// Frees the trees that nobody can reach any more: after a commit the dropped ones, after a
    /// rollback the made ones.
    pub fn drop_trees(self, core: &CoreInner, side: Side) {
        let trees = match side {
            Side::Old => self.dropped,
            Side::New => self.made,
        };
        if trees.is_empty() {
            return;
        }
        let grave = Arc::new(Grave { trees, shared: core.shared.clone() });
        for instance in 0..core.hub.instances() {
            let grave = grave.clone();
            let bury = move |instance: &super::core::Instance| {
                let core = &instance.state().inner;
                Tables::table(&*core.tables, TreeId(0));
                for tree in &grave.trees {
                    if let AnyTree::Table(table) = tree {
                        core.txn.environment().versions.forget_tree(table.id());
                    }
                }
                // The last one to let go frees the pages.
                drop(grave);
            };
            core.hub.send(InstanceId(instance as u16), Box::new(bury));
        }
    }
}

/// Trees to be freed when the last instance lets go of them.
struct Grave {
    trees: Vec<AnyTree>,
    shared: Arc<Shared>,
}

impl Drop for Grave {
    fn drop(&mut self) {
        let trees = std::mem::take(&mut self.trees);
        match &self.shared.checkpoints {
            // A checkpoint that is being made may have them (rule 8.5).
            Some(checkpoints) => checkpoints.bury(move || free_all(&trees)),
            None => free_all(&trees),
        }
    }
}

fn tree_pool(tree: &AnyTree) -> &BufferPool {
    match tree {
        AnyTree::Table(table) => table.pool(),
        AnyTree::Index(index) => index.pool(),
    }
}

fn free_all(trees: &[AnyTree]) {
    for tree in trees {
        // What cannot be read is in the pool's list: it stays in use until a start finds that nobody has it (the
        // rest of a long value behind a damaged page longer: recovery/longs.rs). Any other error is none of a page's,
        // and there is nobody to answer: the transaction has ended.
        let freed = match tree {
            AnyTree::Table(table) => table.free_pages(),
            AnyTree::Index(index) => index.free(),
        };
        if let Err(error) = freed {
            tree_pool(tree).note_unread(error);
        }
    }
}
