//! Taking index entries out when no version needs them (rule 5.5).
//!
//! Invariants: an entry goes only if, under its leaf's exclusive latch, no retained version of the
//! row has the key. Table leaves are read, never latched exclusively, while an index leaf is held.
//! Whoever makes a version unretained (collection, rollback) tries to remove the entry of its
//! key; who changes a row does that first and adds the entry second. So an entry that was kept
//! here for another version's sake is tried again when that version goes, and an entry that was
//! removed while somebody was about to need it is added again by them.
//!
//! A transaction's records may be visited long before they are reclaimed together, and each is
//! visited once. So what was before a record counts as retained only until its transaction's visits
//! begin: a rollback after that removes what such a visit kept for the sake of the undone version.

use super::access::{IndexAccess, TableAccess};
use super::longs::unless_unread;
use super::read::HasKey;
use super::row_buffer::RowBuffer;
use super::space::UndoRef;
use crate::base::{Error, Outcome, RowId, Stop};
use crate::tree::index::Keep;

/// Buffers that rollback and collection reuse.
#[derive(Default)]
pub(crate) struct Scratch {
    /// A before-image.
    pub(crate) image: Vec<u8>,
    /// Columns of the row that is worked on.
    pub(crate) row: RowBuffer,
    /// The key that is to go.
    pub(crate) key: Vec<u8>,
    /// The row as a check sees it.
    pub(crate) check_row: RowBuffer,
    /// Its key.
    pub(crate) check_key: Vec<u8>,
}

/// Removes the entry (`scratch.key`, `row`) unless a version above `stop` retains it, or has a key that cannot be read;
/// with `UndoRef::NONE`, unless any version does. Stops: `Retry`.
pub(crate) fn remove_entry(
    table: &TableAccess,
    index: &IndexAccess,
    row: RowId,
    stop: UndoRef,
    scratch: &mut Scratch,
) -> Outcome<()> {
    let Scratch { key, check_row, check_key, .. } = scratch;
    let mut may = || {
        table.tree.read(row, &mut |leaf| {
            let Some(slot) = leaf.find(row) else { return Ok(Keep::No) };
            let at = table.row_at(leaf, row, slot);
            let has = at.retained_has_key(stop, &index.columns, check_row, &mut |version| {
                index.encode(check_key, |column| version.column(column));
                check_key == key
            });
            // One whose key cannot be read may have it.
            let has = unless_unread(&table.tree, has)?.unwrap_or(HasKey::Yes);
            Ok(if has == HasKey::Yes { Keep::Yes } else { Keep::No })
        })
    };
    match index.tree.remove(key, row, &mut may) {
        Ok(_) => Ok(()),
        // Such a key was refused when it was to be added.
        Err(Stop::Error(Error::KeyTooLong { .. })) => Ok(()),
        Err(stop) => Err(stop),
    }
}
