//! Table locks (rule 6.6): modes, one table's lock, the registry of all.
//!
//! Invariants: nothing here waits or knows a transaction beyond its xid; the shell waits.

mod mode;
mod registry;
mod table;

pub use mode::{LockMode, ModeSet};
pub(in crate::txn) use registry::{LockCache, TableLocks};
pub(in crate::txn) use table::{Asked, Asker, Request};
