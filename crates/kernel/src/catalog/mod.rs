//! The catalog: what tables, indexes and namespaces there are, as rows and as versions in memory.
//!
//! Invariants:
//! 1. Every object is one row of the catalog tree ([`CATALOG_TREE`]), written by ordinary
//!    transactions, so that DDL commits, rolls back and recovers like any other change.
//! 2. A [`Catalog`] is immutable; a change makes a new one that shares all it did not change.
//!    The newest committed one is published only at its transaction's *committed* (rule 6.10).
//! 3. A [`TreeId`] belongs to one object for ever: TRUNCATE and rewrites make new trees (rule 9.5).
//!
//! `txn` and what is above may use this module. It does no I/O and takes no locks.

mod build;
mod definition;
mod encode;
mod published;
mod version;

pub use build::{IndexPlan, build_index, build_index_by};
pub use definition::{
    CATALOG_TREE, ColumnDef, ColumnId, Identity, IndexColumn, IndexDef, IndexKind, NamespaceDef,
    Object, Oid, PUBLIC_NAMESPACE, SequenceDef, TableDef, catalog_layout,
};
pub use encode::{decode_object, encode_object};
pub use published::{CatalogCache, CatalogRef, Published};
pub use version::{Catalog, IndexEntry, Relation, SequenceEntry, TableEntry};
