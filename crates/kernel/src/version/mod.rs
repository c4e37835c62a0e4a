//! Versions of rows: undo, twin tables, visibility, and the collection of what nobody needs.
//!
//! Rows are updated in place; what a change overwrote goes to the changing transaction's undo, and
//! a page's twin table names each row's newest undo record. README.md has the rules. `txn::rows`
//! makes changes through this module; readers use [`read_row`].

mod access;
mod arena;
mod collect;
mod ended;
mod entries;
mod exact;
mod imaging;
mod longs;
mod parked;
mod read;
mod record;
mod row_buffer;
mod snapshot;
mod space;
mod twin;

pub use access::{IndexAccess, TableAccess, Tables, Unique};
pub use collect::{CollectLimit, Collected, InstanceVersions, Passed, Reaped};
pub use ended::EndedMark;
pub use exact::SweptLeaves;
pub use imaging::ToImage;
pub use longs::append_key_column;
pub use row_buffer::{RowBuffer, RowView};
pub use snapshot::{Fate, Judgement, Observe, SnapshotView, TransactionStates};
pub use twin::VersionSpace;

/// Undo and versions as `txn::rows` works with them; nobody else does.
pub(crate) mod undo {
    pub(crate) use super::access::HasNull;
    pub(crate) use super::arena::{Arena, NewRecord};
    pub(crate) use super::collect::{Finished, Postponed, Visits};
    pub(crate) use super::entries::{Scratch, remove_entry};
    pub(crate) use super::longs::{resolve_image, resolve_keys, resolve_own_keys};
    pub(crate) use super::read::{
        HasKey, Newest, Reader, RowAt, Seen, UniqueKey, copy_held, copy_newest,
    };
    pub(crate) use super::record::{
        Flags, Header, ImageBuilder, ImageReader, Kind, needs_visit, record_words,
    };
    pub(crate) use super::space::UndoRef;
    pub(crate) use super::twin::{
        newest as newest_of, newest_and_reserved, prefetch as prefetch_twin,
        prefetch_entry as prefetch_twin_entry, reserved as reserved_of,
    };
}

/// Whether a row exists in a snapshot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Presence {
    /// It does; the buffer holds it.
    Present,
    /// It does not (not yet, or not any more).
    Absent,
}
