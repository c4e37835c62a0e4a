//! Putting rows back in recovery.
#![expect(clippy::todo)]
use super::TableTree;
use crate::base::{HomeId, Outcome, RowId};

/// Remembers the leaf of the last row restored, so that ascending rows need no descent.
pub struct RestoreCursor {
    home: HomeId,
}

impl RestoreCursor {
    /// A cursor whose new leaves will be pages of `home`.
    pub fn new(home: HomeId) -> RestoreCursor {
        RestoreCursor { home }
    }
}

impl TableTree {
    /// Stores a row as it was inserted, or replaces the row that is there; raises the mark.
    pub fn restore(
        &self,
        cursor: &mut RestoreCursor,
        row: RowId,
        columns: &[Option<&[u8]>],
    ) -> Outcome<()> {
        let _ = (cursor.home, row, columns);
        todo!()
    }

    /// Changes some columns of a row that is there; answers whether it is.
    pub fn restore_columns(
        &self,
        cursor: &mut RestoreCursor,
        row: RowId,
        changes: &[(usize, Option<&[u8]>)],
    ) -> Outcome<bool> {
        let _ = (cursor.home, row, changes);
        todo!()
    }

    /// Takes a row out if it is there; answers whether it was.
    pub fn remove(&self, cursor: &mut RestoreCursor, row: RowId) -> Outcome<bool> {
        let _ = (cursor.home, row);
        todo!()
    }
}
