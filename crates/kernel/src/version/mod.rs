//! Versions of rows: undo, twin tables, visibility, and the collection of what nobody needs.
//!
//! Rows are updated in place; what a change overwrote goes to the changing transaction's undo, and
//! a page's twin table names each row's newest undo record. README.md has the rules. `txn::rows`
//! makes changes through this module; readers use [`read_row`].
#![allow(clippy::todo, dead_code)]

mod access;
mod arena;
mod collect;
mod record;
mod row_buffer;
mod snapshot;
mod space;
mod twin;

pub use access::{TableAccess, Tables};
pub use collect::{CollectLimit, Collected, InstanceVersions};
pub use row_buffer::RowBuffer;
pub use snapshot::{Fate, Judgement, Observe, SnapshotView, TransactionStates};
pub use twin::VersionSpace;

/// Whether a row exists in a snapshot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Presence {
    /// It does; the buffer holds it.
    Present,
    /// It does not (not yet, or not any more).
    Absent,
}
