//! All table locks, and one instance's cache of them.
//!
//! Invariants: a lock object exists from its table's first lock on, for as long as the database is
//! open (tree numbers are never used again, rule 9.5; an object is small); an instance finds it
//! through its own cache, so a weak lock writes nothing shared but its own stripe, not even a
//! reference count. The registry's mutexes are taken once per (instance, table).

use std::cell::RefCell;
use std::collections::HashMap;
use std::sync::Arc;

use rustc_hash::FxHashMap;

use super::table::TableLock;
use crate::base::TreeId;
use crate::sync::Mutex;
use crate::txn::slot::Wake;

const SHARDS: usize = 16;

/// The registry, shared by all instances.
pub(in crate::txn) struct TableLocks<W> {
    instances: usize,
    shards: [Mutex<HashMap<TreeId, Arc<TableLock<W>>>>; SHARDS],
}

impl<W: Wake> TableLocks<W> {
    /// No lock exists yet.
    pub fn new(instances: usize) -> TableLocks<W> {
        TableLocks { instances, shards: std::array::from_fn(|_| Mutex::new(HashMap::new())) }
    }

    /// The lock of `tree`, made if this is its first use.
    pub fn get(&self, tree: TreeId) -> Arc<TableLock<W>> {
        let shard = &self.shards[tree.0 as usize % SHARDS];
        let mut shard = shard.lock().expect("no panic while it is held");
        let lock = shard.entry(tree).or_insert_with(|| Arc::new(TableLock::new(self.instances)));
        Arc::clone(lock)
    }
}

/// One instance's references to the locks that it has used. Not shared.
pub(in crate::txn) struct LockCache<W> {
    known: RefCell<FxHashMap<TreeId, Arc<TableLock<W>>>>,
}

impl<W: Wake> LockCache<W> {
    /// Knows none.
    pub fn new() -> LockCache<W> {
        LockCache { known: RefCell::default() }
    }

    /// Calls `body` with the lock of `tree`. `body` must not come back here.
    pub fn with<R>(
        &self,
        locks: &TableLocks<W>,
        tree: TreeId,
        body: impl FnOnce(&TableLock<W>) -> R,
    ) -> R {
        if let Some(lock) = self.known.borrow().get(&tree) {
            return body(lock);
        }
        let lock = locks.get(tree);
        let result = body(&lock);
        self.known.borrow_mut().insert(tree, lock);
        result
    }
}
