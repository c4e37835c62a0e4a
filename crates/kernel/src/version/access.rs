//! A table and its indexes as trees, as far as changes, rollback and collection must know them.
//!
//! Invariants: immutable once made; the catalog makes a new one when an index is added or dropped.
//! Rollback and collection always ask for the newest one ([`Tables`]), so an index that came later
//! is maintained too.

use std::sync::Arc;

use crate::base::TreeId;

/// A table tree with the index trees over it.
pub struct TableAccess {
    /// The table tree's number.
    pub id: TreeId,
    // tree: Arc<TableTree>, indexes: Vec<IndexAccess { tree: Arc<IndexTree>, columns, parts, unique }>
}

/// Finds the newest access paths of a table tree: committed, or made by the transaction that asks.
pub trait Tables {
    /// None if the tree was dropped: then nobody needs its versions or entries any more.
    fn table(&self, id: TreeId) -> Option<Arc<TableAccess>>;
}
