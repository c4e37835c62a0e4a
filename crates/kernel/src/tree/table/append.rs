//! Appending rows: row-id ranges and the cursor of one instance (rule 5.2).
#![expect(clippy::todo)]
use super::{LeafWrite, TableTree};
use crate::base::{HomeId, Outcome, RowId};

/// Where one instance appends to one tree: its row-id range and its own leaf. One per (instance,
/// tree), owned by the instance; dropping it leaves the rest of its range unused.
pub struct AppendCursor {
    home: HomeId,
}

impl AppendCursor {
    /// A cursor without a range; its leaves will be pages of `home`.
    pub fn new(home: HomeId) -> AppendCursor {
        AppendCursor { home }
    }
}

impl TableTree {
    /// The next row id and a leaf, held exclusively, that has room for a row with that id and
    /// `heap` bytes of variable values ([`crate::page::pax::checked_heap_bytes`]). An id that is
    /// then not used is lost, which is no harm.
    ///
    /// Stops: `Retry`; `OutOfMemory` when the buffer pool is full. Holds nothing then.
    pub fn append(
        &self,
        cursor: &mut AppendCursor,
        heap: usize,
    ) -> Outcome<(RowId, LeafWrite<'_>)> {
        let _ = (cursor.home, heap);
        todo!()
    }
}
