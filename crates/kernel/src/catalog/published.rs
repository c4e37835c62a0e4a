//! The newest committed catalog, and each instance's cached copy of it.
//!
//! Invariants: the version number only grows; it is raised after the catalog is in place
//! (release), so who reads the number (acquire) finds at least that catalog under the mutex. On
//! the hot path a statement reads one shared word that only DDL writes.

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;

use super::Catalog;
use crate::sync::{AtomicU64, Ordering, PlainMutex as Mutex};

/// The newest committed catalog of a database.
pub struct Published {
    /// Written by a committing DDL transaction, read by every statement.
    version: AtomicU64,
    /// Taken by a committing DDL transaction, and by an instance that sees a new version.
    newest: Mutex<Arc<Catalog>>,
}

impl Published {
    /// Starts with `catalog`.
    pub fn new(catalog: Catalog) -> Published {
        Published {
            version: AtomicU64::new(catalog.version()),
            newest: Mutex::new(Arc::new(catalog)),
        }
    }

    /// The newest committed catalog.
    pub fn newest(&self) -> Arc<Catalog> {
        self.newest.lock().expect("no holder panics").clone()
    }

    /// Puts `catalog` in place; its version must exceed the present one. Called by the commit of
    /// a transaction that holds the catalog lock, at *committed*.
    pub fn publish(&self, catalog: Arc<Catalog>) {
        let version = catalog.version();
        let mut newest = self.newest.lock().expect("no holder panics");
        assert!(version > newest.version(), "catalog versions grow");
        *newest = catalog;
        // Release: pairs with the acquire in `CatalogCache::get`.
        self.version.store(version, Ordering::Release);
    }
}

/// An instance's own handle on a catalog: cloning it writes nothing that others read.
pub type CatalogRef = Rc<Arc<Catalog>>;

/// One instance's copy of the newest catalog.
pub struct CatalogCache {
    cached: RefCell<CatalogRef>,
}

impl CatalogCache {
    /// A cache that starts with the newest catalog.
    pub fn new(published: &Published) -> CatalogCache {
        CatalogCache { cached: RefCell::new(Rc::new(published.newest())) }
    }

    /// The newest committed catalog; refreshed if `published` has a newer one.
    pub fn get(&self, published: &Published) -> CatalogRef {
        // Acquire: pairs with the release in `Published::publish`.
        if published.version.load(Ordering::Acquire) != self.cached.borrow().version() {
            *self.cached.borrow_mut() = Rc::new(published.newest());
        }
        self.cached.borrow().clone()
    }
}
