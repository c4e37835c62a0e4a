//! Splits of table leaves.
#![expect(clippy::todo)]
use super::TableTree;
use crate::base::{Outcome, RowId};

impl TableTree {
    /// Splits the leaf that covers `row` until `bytes` more fit beside it (a row of that many heap
    /// bytes, or growth of the row that is there). Twins move along.
    pub fn make_room(&self, row: RowId, bytes: usize) -> Outcome<()> {
        let _ = (row, bytes);
        todo!()
    }
}
