//! Undoing one own change (rule 6.7).
//!
//! Invariants: the own record is the newest of its row, because nobody changes or locks a row in
//! flight by another. First the row goes back under its leaf's latch, then the entry that the
//! change added goes, unless a version that stays has the key (rule 5.5). Nothing here can fail:
//! `Retry` is tried again at once, with no latch held.

use super::changes::SlotChanges;
use super::set_columns;
use crate::base::{Outcome, Stop};
use crate::page::pax::RowState;
use crate::sync::{mutant, spin};
use crate::tree::table::LeafWrite;
use crate::version::undo::{
    Flags, Header, ImageReader, Kind, Scratch, UndoRef, copy_held, newest_of, remove_entry,
    reserved_of,
};
use crate::version::{TableAccess, Tables};

/// Undoes the newest own change; answers the position of the one before it.
pub(super) fn undo_one(changes: &mut SlotChanges, tables: &dyn Tables) -> u64 {
    let mut scratch = std::mem::take(&mut changes.scratch);
    let at = changes.arena.at(changes.last);
    let record = changes.arena.read(changes.last, &mut scratch.image);
    // Without a table the tree is gone, and whoever dropped it held it alone.
    if let Some(table) = tables.table(record.tree) {
        surely(|| restore(&table, at, &record, &mut scratch));
        remove_entries(&table, &record, &mut scratch);
    }
    changes.scratch = scratch;
    record.previous
}

/// Runs `step` until it is done.
fn surely<R>(mut step: impl FnMut() -> Outcome<R>) -> R {
    loop {
        match step() {
            Ok(done) => return done,
            Err(Stop::Retry) => spin(),
            Err(stop) => panic!("rolling back cannot fail, but {stop:?}"),
        }
    }
}

/// Whether the undone version may have index entries of its own.
fn has_entries(record: &Header) -> bool {
    record.kind == Kind::Insert || record.flags.has(Flags::KEY)
}

/// Puts the row back and unlinks the record. Leaves the columns of the indexes' keys, as the
/// undone version had them, in `scratch.row`.
fn restore(
    table: &TableAccess,
    at: UndoRef,
    record: &Header,
    scratch: &mut Scratch,
) -> Outcome<()> {
    let row = record.row;
    let mut leaf = table.tree.write(row)?;
    let slot = leaf.find(row).expect("a row in flight stays in the tree");
    assert_eq!(newest_of(leaf.side(), row), at, "the own record is its row's newest");
    scratch.row.clear();
    if has_entries(record) {
        for index in &table.indexes {
            copy_held(&leaf, slot, &index.columns, &mut scratch.row);
        }
    }
    match record.kind {
        Kind::Insert => {
            let reserved = table.versions.forget(leaf.side(), row);
            leaf.reserve(-(reserved as isize));
            leaf.remove(slot);
            return Ok(());
        }
        Kind::Delete => leaf.set_state(slot, RowState::Live),
        Kind::Lock | Kind::Update => {}
    }
    unreserve(table, &mut leaf, record);
    if record.kind == Kind::Update {
        let image = ImageReader::new(&scratch.image, record.columns);
        let old = image.filter(|old| old.changed).map(|old| (old.column, old.value));
        set_columns(&mut leaf, slot, old);
    }
    unlink(table, &mut leaf, record);
    Ok(())
}

/// Frees what is reserved for the row, for its own bytes to come back to.
fn unreserve(table: &TableAccess, leaf: &mut LeafWrite<'_>, record: &Header) {
    let reserved = reserved_of(leaf.side(), record.row);
    if reserved != 0 {
        leaf.reserve(-(reserved as isize));
        table.versions.add_reserved(leaf.side(), record.row, -(reserved as i32));
    }
}

/// Makes the row's next older record its newest again, with what was reserved then.
fn unlink(table: &TableAccess, leaf: &mut LeafWrite<'_>, record: &Header) {
    let dead = table.versions.is_dead(record.next);
    if !mutant("unlink-without-clearing") {
        let next = if dead { UndoRef::NONE } else { record.next };
        table.versions.set_newest(leaf.side(), record.row, next);
    }
    // Without an older record nobody goes back further.
    let reserved = if dead { 0 } else { record.reserved };
    if reserved != 0 {
        leaf.reserve(reserved as isize);
        table.versions.add_reserved(leaf.side(), record.row, reserved as i32);
    }
}

fn remove_entries(table: &TableAccess, record: &Header, scratch: &mut Scratch) {
    if !has_entries(record) || mutant("entry-left-by-rollback") {
        return;
    }
    let mut first = 0;
    for index in &table.indexes {
        let row = &scratch.row;
        index.encode(&mut scratch.key, |column| row.column(first + column));
        first += index.columns.len();
        surely(|| remove_entry(table, index, record.row, UndoRef::NONE, scratch));
    }
}
