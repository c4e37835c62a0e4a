//! What a record needs before it goes: a deleted row's entries and the row itself, the entry of a key
//! that a row had before (rules 5.5 and 6.8).
//!
//! Invariants: every step may be done twice, for a visit that met a busy latch begins again. A row
//! goes after its last entry, so that an entry leads to its row as long as it is there; but entries that a checkpoint
//! still needs go later (`postponed`), and one whose key cannot be made, because a long value of it cannot be read,
//! stays (`longs` has why it may).

use super::access::{IndexAccess, TableAccess};
use super::collect::InstanceVersions;
use super::entries::{Scratch, remove_entry};
use super::longs::{resolve_own_keys, resolve_passed_image, unless_unread};
use super::record::{Flags, Header, ImageReader, Kind};
use super::space::UndoRef;
use crate::base::{Outcome, Stamp, Stop};
use crate::page::pax::RowState;
use crate::sync::mutant;

/// Does what a record needs before it goes. Stops: `Retry`; then it is visited again.
pub(super) fn visit(
    versions: &InstanceVersions,
    table: &TableAccess,
    (at, record): (UndoRef, &Header),
    scratch: &mut Scratch,
) -> Outcome<()> {
    if record.kind == Kind::Delete {
        return reap(versions, table, (at, record), scratch);
    }
    if record.flags.has(Flags::KEY) {
        let image = ImageReader::new(&scratch.image, record.columns);
        let is_key = |column| table.is_indexed(column);
        let (longs, unknown) = resolve_passed_image(&table.tree, image, is_key)?;
        let is_known = |column: &u16| !unknown.contains(column);
        for index in table.indexes.iter().filter(|index| index.columns.iter().all(is_known)) {
            if old_key(index, record, (&scratch.image, &longs), &mut scratch.key) {
                versions.remove_or_postpone(table, index, (record.row, at), scratch)?;
            }
        }
    }
    Ok(())
}

/// Takes a deleted row out for good, its entries first.
fn reap(
    versions: &InstanceVersions,
    table: &TableAccess,
    (at, record): (UndoRef, &Header),
    scratch: &mut Scratch,
) -> Outcome<()> {
    let (row, garbage) = (record.row, versions.garbage());
    // Entries of such a row no checkpoint needs, and those that it copied would be left for good by a crash.
    let is_before = |cts| versions.space().is_before_checkpoint(cts);
    let may_go_now = matches!(record.writer, Stamp::Committed(cts) if is_before(cts));
    for index in &table.indexes {
        if mutant("entry-left-by-delete") {
            continue;
        }
        let buffer = &mut scratch.row;
        let found = table.tree.read(row, &mut |leaf| {
            buffer.clear();
            let Some(slot) = leaf.find(row) else { return Ok(false) };
            table.row_at(leaf, row, slot).copy_page(&index.columns, buffer);
            Ok(true)
        })?;
        // Nobody else changes a row whose delete has passed.
        let resolved = resolve_own_keys(&table.tree, buffer).map_err(Stop::Error);
        let is_known = unless_unread(&table.tree, resolved)?.is_some();
        if found && is_known {
            let (buffer, key) = (&scratch.row, &mut scratch.key);
            index.encode(key, |column| buffer.column(column));
            match may_go_now {
                true => remove_entry(table, index, row, at, scratch)?,
                false => versions.remove_or_postpone(table, index, (row, at), scratch)?,
            }
        }
    }
    let mut leaf = table.tree.write(row)?;
    let Some(slot) = leaf.find(row) else {
        leaf.unchanged();
        return Ok(());
    };
    assert_eq!(leaf.view().state(slot), RowState::Deleted, "a committed delete is final");
    let reserved = table.versions.forget(leaf.side(), row);
    leaf.reserve(-(reserved as isize));
    if !mutant("long-value-left-by-delete") {
        leaf.view().each_long(slot, |_, reference| {
            garbage.know(table.tree.pool());
            garbage.add(reference);
        });
    }
    leaf.remove(slot);
    Ok(())
}

/// The key that the row had in `index` before the change, if the change touched it. `longs` are
/// the image's long values.
fn old_key(
    index: &IndexAccess,
    record: &Header,
    (image, longs): (&[u8], &[(u16, Vec<u8>)]),
    key: &mut Vec<u8>,
) -> bool {
    let old = |column: u16| ImageReader::new(image, record.columns).find(|c| c.column == column);
    let mut changed = false;
    for column in &index.columns {
        // An index that is younger than the change and has other columns never had the old key.
        let Some(old) = old(*column) else { return false };
        changed |= old.changed;
    }
    if changed {
        let long = |column: u16| longs.iter().find(|(known, _)| *known == column);
        index.encode(key, |i| match long(index.columns[i]) {
            Some((_, value)) => Some(value),
            None => old(index.columns[i]).and_then(|old| old.value),
        });
    }
    changed
}
