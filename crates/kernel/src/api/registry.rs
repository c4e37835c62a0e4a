//! From tree numbers to access paths, for rollback and collection ([`Tables`]).
//!
//! Invariants: holds every tree that any transaction may still need to find by number: committed
//! tables, and those that a running transaction has made; a dropped tree is taken out at its
//! transaction's *committed*. The map is replaced, never changed; each instance keeps a copy with
//! reference counts of its own, so that finding a tree writes nothing that others read.

use std::cell::RefCell;
use std::collections::HashMap;
use std::sync::Arc;

use rustc_hash::FxHashMap;

use crate::base::TreeId;
use crate::sync::ledger::share;
use crate::sync::{AtomicU64, Mutex, Ordering};
use crate::version::{IndexAccess, TableAccess, Tables};

type Map = HashMap<TreeId, Arc<TableAccess>>;

/// The access paths of one database's trees.
pub struct Registry {
    // Raised with every change (release), read by every look-up (acquire).
    version: AtomicU64,
    map: Mutex<Arc<Map>>,
}

impl Registry {
    /// With these trees.
    pub fn new(tables: impl Iterator<Item = Arc<TableAccess>>) -> Registry {
        let map = tables.map(|table| (table.id(), table)).collect();
        Registry { version: AtomicU64::new(1), map: Mutex::new(Arc::new(map)) }
    }

    /// Puts `table` in the place of whatever has its number; answers what that was.
    pub fn set(&self, table: Arc<TableAccess>) -> Option<Arc<TableAccess>> {
        self.change(|map| map.insert(table.id(), table))
    }

    /// Takes a tree out.
    pub fn remove(&self, tree: TreeId) -> Option<Arc<TableAccess>> {
        self.change(|map| map.remove(&tree))
    }

    fn change<R>(&self, change: impl FnOnce(&mut Map) -> R) -> R {
        let mut map = self.map.lock().expect("no holder panics");
        let result = change(Arc::make_mut(&mut map));
        // Release: pairs with the acquire in `LocalTables::refresh`.
        self.version.fetch_add(1, Ordering::Release);
        result
    }
}

/// One instance's copy of the registry.
pub struct LocalTables {
    registry: Arc<Registry>,
    copy: RefCell<(u64, FxHashMap<TreeId, Copied>)>,
}

/// A tree's access path as everybody has it, and behind a count of this instance's own.
struct Copied {
    shared: Arc<TableAccess>,
    own: Arc<TableAccess>,
}

impl LocalTables {
    /// An empty copy; the first look-up fills it.
    pub fn new(registry: Arc<Registry>) -> LocalTables {
        LocalTables { registry, copy: RefCell::default() }
    }

    /// Takes changes of the registry over, if there are any.
    pub fn refresh(&self) {
        // Acquire: pairs with the release in `Registry::change`.
        let version = self.registry.version.load(Ordering::Acquire);
        if self.copy.borrow().0 == version {
            return;
        }
        let newest = self.registry.map.lock().expect("no holder panics").clone();
        let mut copy = self.copy.borrow_mut();
        let copied =
            |table: &Arc<TableAccess>| Copied { shared: table.clone(), own: own_count(table) };
        copy.1 = newest.iter().map(|(tree, table)| (*tree, copied(table))).collect();
        copy.0 = version;
    }

    /// `access` behind a count of this instance's own, if it is what the registry has for its tree:
    /// for cursors, which each take a reference. Else (an older or a private catalog's) itself.
    pub fn own(&self, access: &Arc<TableAccess>) -> Arc<TableAccess> {
        self.refresh();
        match self.copy.borrow().1.get(&access.id()) {
            Some(copied) if Arc::ptr_eq(&copied.shared, access) => share(&copied.own),
            _ => share(access),
        }
    }
}

/// The same access paths behind a reference count of this instance's own.
fn own_count(table: &TableAccess) -> Arc<TableAccess> {
    let indexes = table.indexes.iter().map(|index| IndexAccess {
        tree: index.tree.clone(),
        parts: index.parts.clone(),
        columns: index.columns.clone(),
        unique: index.unique,
    });
    Arc::new(TableAccess::new(table.tree.clone(), indexes.collect(), table.versions.clone()))
}

impl Tables for LocalTables {
    fn table(&self, id: TreeId) -> Option<Arc<TableAccess>> {
        self.refresh();
        self.copy.borrow().1.get(&id).map(|copied| share(&copied.own))
    }
}
