//! What a record needs before it goes: a deleted row's entries and the row itself, the entry of a key
//! that a row had before (rules 5.5 and 6.8).
//!
//! Invariants: every step may be done twice, for a visit that met a busy latch begins again. A row
//! goes after its last entry, so that an entry leads to its row as long as it is there; but entries that a checkpoint
//! still needs go later (`postponed`), and one whose key cannot be made, because a long value of it cannot be read,
//! stays (`longs` has why it may).
//!
//! **Pages that cannot be read** ([`Unreadable`]) are done without, or a damaged one would keep all undo behind it for
//! ever. An entry whose leaf cannot be read stays, and so does one of which it cannot be said whether another version has its
//! key, because the row's leaf cannot be read; a row stays whose own leaf cannot. If the page is damaged nobody
//! meets what stays. If it was only not read this time (a failing device), it is harmless: an entry, for the
//! reasons in `longs`; a deleted row without undo, because its state says so to everybody: who reads it by whatever snapshot (all are above
//! its delete), who judges a key, replay, whose records of it are all from before, and sweeps, which make no leaf with an entry
//! of it *exact*. It moves with its leaf, in images too. It keeps its room, and its long values theirs. All of that is told
//! (`BufferPool::note_unread`).

use super::super::access::{IndexAccess, TableAccess};
use super::super::entries::{Scratch, remove_entry};
use super::super::longs::{resolve_own_keys, resolve_passed_image, unless_unread};
use super::super::record::{Flags, Header, ImageReader, Kind};
use super::super::space::UndoRef;
use super::InstanceVersions;
use crate::base::{NeededPage, Outcome, Place, Stamp, Stop};
use crate::page::rowleaf::RowState;
use crate::sync::mutant;

/// Places of pages that cannot be read, of those that one visit needs.
#[derive(Default)]
pub(super) struct Unreadable(Vec<Place>);

impl Unreadable {
    /// The page could not be read: what needs it is left as it is.
    pub(super) fn add(&mut self, page: NeededPage) {
        self.0.push(page.place);
    }

    /// None if the step needs one of these pages.
    fn without<T>(&self, step: Outcome<T>) -> Outcome<Option<T>> {
        match step {
            Err(Stop::NeedPage(page)) if self.0.contains(&page.place) => Ok(None),
            step => step.map(Some),
        }
    }
}

/// Does what a record needs before it goes, but for what `unreadable` pages are needed for. Stops: `Retry`, `NeedPage`; then
/// it is visited again.
pub(super) fn visit(
    versions: &InstanceVersions,
    table: &TableAccess,
    (at, record): (UndoRef, &Header),
    scratch: &mut Scratch,
    unreadable: &Unreadable,
) -> Outcome<()> {
    if record.kind == Kind::Delete {
        return reap(versions, table, (at, record), scratch, unreadable);
    }
    if record.flags.has(Flags::KEY) {
        let image = ImageReader::new(&scratch.image, record.columns);
        let is_key = |column| table.is_indexed(column);
        let (longs, unknown) = resolve_passed_image(&table.tree, image, is_key)?;
        let is_known = |column: &u16| !unknown.contains(column);
        for index in table.indexes.iter().filter(|index| index.columns.iter().all(is_known)) {
            if old_key(index, record, (&scratch.image, &longs), &mut scratch.key) {
                let row = (record.row, at);
                unreadable.without(versions.remove_or_postpone(table, index, row, scratch))?;
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
    unreadable: &Unreadable,
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
        });
        let Some(found) = unreadable.without(found)? else { return Ok(()) };
        // Nobody else changes a row whose delete has passed.
        let resolved = resolve_own_keys(&table.tree, buffer).map_err(Stop::Error);
        let is_known = unless_unread(&table.tree, resolved)?.is_some();
        if found && is_known {
            let (buffer, key) = (&scratch.row, &mut scratch.key);
            index.encode(key, |column| buffer.column(column));
            let removed = match may_go_now {
                true => remove_entry(table, index, row, at, scratch),
                false => versions.remove_or_postpone(table, index, (row, at), scratch),
            };
            unreadable.without(removed)?;
        }
    }
    let Some(mut leaf) = unreadable.without(table.tree.write(row))? else { return Ok(()) };
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
pub(super) fn old_key(
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
