//! Changing rows that are there: update, delete, lock (rules 5.5, 5.6, 6.1, 6.4).
//!
//! Invariants: a row is changed in place under its leaf's exclusive latch, after its before-image
//! was written and before the latch goes; the twin entry names the record under the same latch.
//! Undo room is there before the latch (rule 4.6): what turns out to be too little is asked for
//! with the latch let go, and then everything is looked at again. A row in flight by another
//! transaction is waited for with nothing held. Entries come second, each step repeatable.

use std::cell::Cell;
use std::rc::Rc;

use super::changes::SlotChanges;
use super::{Longs, Progress, RowWriter, WriteOutcome, set_columns};
use crate::base::{Cts, Error, Observed, Outcome, RowId, Stop, TreeId, WaitFor, Xid};
use crate::page::overflow::Form;
use crate::page::rowleaf::{self, RowState, SlotIndex};
use crate::sync::{ledger, mutant, point};
use crate::tree::hints::LeafHint;
use crate::tree::table::LeafWrite;
use crate::txn::Isolation;
use crate::version::TableAccess;
use crate::version::undo::{
    Flags, Kind, NewRecord, Newest, RowAt, UndoRef, newest_of, record_words, reserved_of,
    resolve_image,
};

/// Whether the row may be changed now.
enum Claim {
    /// It may, or the transaction has it already (then its newest record is the own one).
    Granted(Held),
    /// It may not be changed by this command as it is.
    Refused(WriteOutcome),
}

/// A row that is to be changed.
pub(super) enum Claimed<'t> {
    /// It may be changed: its leaf, held, and its slot.
    Row(LeafWrite<'t>, SlotIndex),
    /// It may not be changed by this command as it is. Nothing is held.
    Refused(WriteOutcome),
}

/// Whether the transaction held the row before.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Held {
    Before,
    Not,
}

/// The columns that an update changes, with what the row will keep.
type Changed<'a> = &'a [(u16, Option<&'a [u8]>)];

/// How a change moves the row's heap bytes.
struct Growth {
    /// What is reserved for the row now, and after the change.
    reserved: u32,
    reserved_after: u32,
}

impl Growth {
    fn none(leaf: &LeafWrite<'_>, row: RowId) -> Growth {
        let reserved = reserved_of(leaf.side(), row);
        Growth { reserved, reserved_after: reserved }
    }
}

impl RowWriter<'_> {
    /// Changes columns of a row in place.
    pub fn update(
        &mut self,
        table: &TableAccess,
        row: RowId,
        changes: &[(u16, Option<&[u8]>)],
        progress: &mut Progress,
    ) -> Outcome<WriteOutcome> {
        self.update_long(table, row, changes, &mut Longs::new(), progress)
    }

    /// As [`RowWriter::update`], with those of the new values long that `longs` names.
    pub fn update_long(
        &mut self,
        table: &TableAccess,
        row: RowId,
        changes: &[(u16, Option<&[u8]>)],
        longs: &mut Longs,
        progress: &mut Progress,
    ) -> Outcome<WriteOutcome> {
        if progress.row.is_none() {
            let versions = Rc::clone(&self.changes.versions);
            let near = versions.hints.of_row(table.id(), row);
            if longs.is_empty() && table.in_place(changes.iter().map(|(column, _)| *column)) {
                let outcome = self.update_in_place(table, row, changes.iter().copied(), near)?;
                if outcome == WriteOutcome::Done {
                    progress.row = Some(row);
                    self.changes.work.clear_pending();
                }
                return Ok(outcome);
            }
            let outcome = if longs.is_empty() {
                self.update_row(table, row, changes, (longs, near))?
            } else {
                let pairs = changes.iter().enumerate();
                let stored: Vec<(u16, Option<&[u8]>)> = pairs
                    .map(|(at, (column, value))| (*column, longs.stored(at, *value)))
                    .collect();
                self.update_row(table, row, &stored, (longs, near))?
            };
            if outcome != WriteOutcome::Done {
                return Ok(outcome);
            }
            longs.adopt();
            progress.row = Some(row);
            progress.next = 0;
            self.pend_changed_entries(table, row, changes);
        }
        self.entries(table, &mut progress.next)?;
        Ok(WriteOutcome::Done)
    }

    fn update_row(
        &mut self,
        table: &TableAccess,
        row: RowId,
        changes: &[(u16, Option<&[u8]>)],
        (longs, near): (&Longs, &Cell<LeafHint>),
    ) -> Outcome<WriteOutcome> {
        let image_bytes = self.plan_image(table, changes);
        self.changes.reserve(record_words(image_bytes))?;
        loop {
            let (mut leaf, slot) = match self.claimed(table, row, near)? {
                Claimed::Row(leaf, slot) => (leaf, slot),
                Claimed::Refused(outcome) => return Ok(outcome),
            };
            if let Err(stop) = self.copy_image(table, &leaf, slot) {
                return Err(let_go(leaf, stop));
            }
            let words = record_words(self.changes.image.byte_len());
            if !self.changes.arena.has_room(words) {
                leaf.unchanged();
                self.changes.reserve(words)?;
                continue;
            }
            let growth = match self.room(table, &mut leaf, slot, changes) {
                Ok(Room::Enough(growth)) => growth,
                Ok(Room::Missing(bytes)) => {
                    leaf.unchanged();
                    table.tree.make_room(row, bytes)?;
                    continue;
                }
                Err(stop) => return Err(let_go(leaf, stop)),
            };
            self.change_in_place(table, leaf, slot, (changes, longs), &growth);
            self.changes.redo.update_with(table.id(), row, changes, |at| longs.in_redo(at));
            return Ok(WriteOutcome::Done);
        }
    }

    /// The latched part of an update that cannot fail any more.
    fn change_in_place(
        &mut self,
        table: &TableAccess,
        mut leaf: LeafWrite<'_>,
        slot: SlotIndex,
        (changes, longs): (Changed<'_>, &Longs),
        growth: &Growth,
    ) {
        let row = leaf.view().row_id(slot);
        let mut new = self.new_record(table, row, newest_of(leaf.side(), row), growth.reserved);
        new.kind = Kind::Update;
        new.flags = self.flags(table, changes);
        if new.flags.has(Flags::LONG) || !longs.is_empty() {
            self.changes.versions.garbage().know(table.tree.pool());
        }
        let at = self.changes.push(&new);
        point("row update");
        if mutant("long-value-freed-by-its-update") {
            self.changes.versions.garbage().add_image(self.changes.image.read());
        }
        let reserve = growth.reserved_after as isize - growth.reserved as isize;
        if reserve < 0 {
            leaf.reserve(reserve);
        }
        set_columns(&mut leaf, slot, changes.iter().copied());
        for at in longs.positions() {
            leaf.set_long(slot, usize::from(changes[at].0));
        }
        if reserve > 0 {
            leaf.reserve(reserve);
        }
        let made = table.versions.set_newest(leaf.side(), row, at);
        if reserve != 0 {
            table.versions.add_reserved(leaf.side(), row, reserve as i32);
        }
        self.changes.versions.note_twin(made, leaf.frame());
    }

    /// Deletes a row. Its bytes stay until collection.
    pub fn delete(
        &mut self,
        table: &TableAccess,
        row: RowId,
        progress: &mut Progress,
    ) -> Outcome<WriteOutcome> {
        if progress.row.is_none() {
            let outcome = self.delete_row(table, row)?;
            if outcome != WriteOutcome::Done {
                return Ok(outcome);
            }
            progress.row = Some(row);
            progress.next = 0;
        }
        self.entries(table, &mut progress.next)?;
        Ok(WriteOutcome::Done)
    }

    fn delete_row(&mut self, table: &TableAccess, row: RowId) -> Outcome<WriteOutcome> {
        self.changes.reserve(record_words(0))?;
        let versions = Rc::clone(&self.changes.versions);
        let near = versions.hints.of_row(table.id(), row);
        let (mut leaf, slot) = match self.claimed(table, row, near)? {
            Claimed::Row(leaf, slot) => (leaf, slot),
            Claimed::Refused(outcome) => return Ok(outcome),
        };
        if let Err(stop) = self.pend_old_entries(table, &leaf, (slot, row)) {
            return Err(let_go(leaf, stop));
        }
        self.push_mark(table, &mut leaf, row, Kind::Delete);
        leaf.set_state(slot, RowState::Deleted);
        drop(leaf);
        self.changes.redo.delete(table.id(), row);
        Ok(WriteOutcome::Done)
    }

    /// Locks a row exclusively (FOR UPDATE).
    pub fn lock_row(&mut self, table: &TableAccess, row: RowId) -> Outcome<WriteOutcome> {
        self.changes.reserve(record_words(0))?;
        let near = self.changes.versions.hints.of_row(table.id(), row);
        let mut leaf = table.tree.write_near(near, row)?;
        let Some(slot) = leaf.find(row) else { return Ok(gone(leaf)) };
        match self.claim(table, &mut leaf, slot, row) {
            Ok(Claim::Granted(Held::Before)) => leaf.unchanged(),
            Ok(Claim::Granted(Held::Not)) => self.push_mark(table, &mut leaf, row, Kind::Lock),
            Ok(Claim::Refused(outcome)) => return Ok(outcome),
            Err(stop) => return Err(let_go(leaf, stop)),
        }
        Ok(WriteOutcome::Done)
    }

    /// Links a record without an image as the row's newest.
    fn push_mark(&mut self, table: &TableAccess, leaf: &mut LeafWrite<'_>, row: RowId, kind: Kind) {
        let reserved = reserved_of(leaf.side(), row);
        let new = self.new_record(table, row, newest_of(leaf.side(), row), reserved);
        let at = self.changes.push_plain(new, kind);
        let made = table.versions.set_newest(leaf.side(), row, at);
        self.changes.versions.note_twin(made, leaf.frame());
    }

    /// Takes the row's leaf, if the row may be changed now. Stops as `claim`, with nothing held.
    #[inline]
    pub(super) fn claimed<'t>(
        &mut self,
        table: &'t TableAccess,
        row: RowId,
        near: &Cell<LeafHint>,
    ) -> Outcome<Claimed<'t>> {
        let mut leaf = table.tree.write_near(near, row)?;
        let Some(slot) = leaf.find(row) else { return Ok(Claimed::Refused(gone(leaf))) };
        match self.claim(table, &mut leaf, slot, row) {
            Ok(Claim::Granted(_)) => Ok(Claimed::Row(leaf, slot)),
            Ok(Claim::Refused(outcome)) => Ok(Claimed::Refused(outcome)),
            Err(stop) => Err(let_go(leaf, stop)),
        }
    }

    /// Whether the row's newest version is the transaction's to change (rule 6.4). If it is newer
    /// than a READ COMMITTED snapshot, it is locked now. Stops: `WaitFor::Row` while
    /// another has it, or is to have it first; `SerializationFailure`.
    fn claim(
        &mut self,
        table: &TableAccess,
        leaf: &mut LeafWrite<'_>,
        slot: SlotIndex,
        row: RowId,
    ) -> Outcome<Claim> {
        let _timed = ledger::timed(ledger::What::RowClaim);
        let view = leaf.view();
        let deleted = view.state(slot) == RowState::Deleted;
        let at = RowAt {
            space: &table.versions,
            leaf: &view,
            side: leaf.side(),
            tree: table.id(),
            table: &table.tree,
            row,
            slot,
        };
        let newest = at.newest(self.changes.xid(), self.states)?;
        let (home, cts) = match newest {
            Newest::InFlight(_) if mutant("write-over-in-flight") => {
                return Ok(Claim::Granted(Held::Not));
            }
            Newest::InFlight(holder) => {
                // Nobody waits in vain: what lies below may fail this transaction already.
                if self.isolation == Isolation::RepeatableRead
                    && let Some((home, cts)) = at.newest_committed(self.states)?
                    && cts >= self.snapshot.timestamp
                {
                    self.observed.observe(Observed { home, cts });
                    return Err(serialization_failure(table.id(), row, cts, false));
                }
                return Err(wait_for(holder, table, row));
            }
            Newest::Own(Some(command)) if command >= self.snapshot.command => {
                return Ok(Claim::Refused(WriteOutcome::DoneByThisCommand));
            }
            Newest::Own(_) if deleted => return Ok(Claim::Refused(WriteOutcome::Gone)),
            Newest::Own(_) => return Ok(Claim::Granted(Held::Before)),
            Newest::Settled if deleted => return Ok(Claim::Refused(WriteOutcome::Gone)),
            Newest::Settled => {
                self.check_turn(table, row)?;
                return Ok(Claim::Granted(Held::Not));
            }
            Newest::Committed(home, cts) => (home, cts),
        };
        if !mutant("write-not-observed") {
            self.observed.observe(Observed { home, cts });
        }
        if cts < self.snapshot.timestamp || mutant("first-updater-loses") {
            if deleted {
                return Ok(Claim::Refused(WriteOutcome::Gone));
            }
            self.check_turn(table, row)?;
            return Ok(Claim::Granted(Held::Not));
        }
        match self.isolation {
            Isolation::RepeatableRead => Err(serialization_failure(table.id(), row, cts, deleted)),
            Isolation::ReadCommitted if deleted => Ok(Claim::Refused(WriteOutcome::Gone)),
            Isolation::ReadCommitted => {
                self.check_turn(table, row)?;
                // The least record always fits what was reserved.
                self.push_mark(table, leaf, row, Kind::Lock);
                Ok(Claim::Refused(WriteOutcome::Changed))
            }
        }
    }

    /// The row is free: whether it is this transaction's to take (rule 6.5).
    #[inline]
    fn check_turn(&self, table: &TableAccess, row: RowId) -> Outcome<()> {
        match self.states.in_front(table.id(), row, self.changes.xid()) {
            Some(first) => Err(wait_for(first, table, row)),
            None => Ok(()),
        }
    }

    pub(super) fn new_record(
        &self,
        table: &TableAccess,
        row: RowId,
        next: UndoRef,
        reserved: u32,
    ) -> NewRecord {
        NewRecord {
            writer: self.changes.xid(),
            command: self.snapshot.command,
            tree: table.id(),
            row,
            kind: Kind::Lock,
            flags: Flags::NONE,
            next,
            reserved: reserved as u16,
            previous: self.changes.last,
        }
    }

    /// Notes which columns go into the before-image: the changed ones, and with a changed key
    /// column all columns of that key. Answers the image's least size.
    fn plan_image(&mut self, table: &TableAccess, changes: &[(u16, Option<&[u8]>)]) -> usize {
        let columns = &mut self.changes.work.columns;
        columns.clear();
        columns.extend(changes.iter().map(|(column, _)| (*column, true)));
        if changes.iter().any(|(column, _)| table.is_indexed(*column)) {
            for index in &table.indexes {
                let touched = changes.iter().any(|(column, _)| index.columns.contains(column));
                for column in index.columns.iter().filter(|_| touched) {
                    if !columns.iter().any(|(known, _)| known == column) {
                        columns.push((*column, false));
                    }
                }
            }
        }
        let layout = table.tree.layout().columns();
        let fixed = |column: &u16| layout.get(*column as usize).and_then(|ty| ty.fixed_bytes());
        columns.iter().map(|(column, _)| 4 + fixed(column).unwrap_or(0)).sum()
    }

    fn copy_image(
        &mut self,
        table: &TableAccess,
        leaf: &LeafWrite<'_>,
        slot: SlotIndex,
    ) -> Outcome<()> {
        let SlotChanges { image, work, .. } = &mut *self.changes;
        image.clear();
        let view = leaf.view();
        for (column, changed) in &work.columns {
            image.push(*column, *changed, |out| view.append_column(slot, *column as usize, out));
        }
        let is_key = |column| table.is_indexed(column);
        work.longs.clear();
        if image.has_long() {
            work.longs = resolve_image(&table.tree, image.read(), is_key)?;
        }
        Ok(())
    }

    /// Whether the changed values fit the leaf, using what is reserved for this row.
    fn room<'t>(
        &self,
        table: &'t TableAccess,
        leaf: &mut LeafWrite<'t>,
        slot: SlotIndex,
        changes: &[(u16, Option<&[u8]>)],
    ) -> Outcome<Room> {
        let known = leaf.layout().columns().len();
        if changes.iter().any(|(column, _)| *column as usize >= known) && !table.tree.relayout(leaf)
        {
            return Ok(Room::Missing(0));
        }
        let view = leaf.view();
        let columns = leaf.layout().columns();
        let (mut bytes, mut variable) = (0, false);
        for (column, value) in changes {
            let column = *column as usize;
            if columns[column].fixed_bytes().is_none() {
                let old = view.column_bytes(slot, column).unwrap_or(0);
                bytes += value.map_or(0, <[u8]>::len) as isize - old as isize;
                variable = true;
            }
        }
        let row = view.row_id(slot);
        if !variable {
            return Ok(Room::Enough(Growth::none(leaf, row)));
        }
        if bytes > 0 {
            let heap = view.row_heap_bytes(slot) + bytes as usize;
            rowleaf::check_row_bytes(leaf.layout(), heap)?;
        }
        let reserved = reserved_of(leaf.side(), row);
        let missing = bytes - reserved as isize;
        if missing > 0 && !leaf.can_grow(missing as usize) {
            return Ok(Room::Missing(missing as usize));
        }
        let mut reserved_after = (reserved as isize - bytes).max(0) as u32;
        if mutant("update-keeps-no-reserve") {
            reserved_after = 0;
        }
        Ok(Room::Enough(Growth { reserved, reserved_after }))
    }

    /// Whether a key column changes its bytes, and whether a long value is replaced, by the image
    /// just copied.
    fn flags(&self, table: &TableAccess, changes: &[(u16, Option<&[u8]>)]) -> Flags {
        let mut flags = Flags::NONE;
        if !self.changes.image.has_long() && !changes.iter().any(|it| table.is_indexed(it.0)) {
            return flags;
        }
        // The image begins with the changed columns, in order.
        for (old, (column, new)) in self.changes.image.read().zip(changes) {
            let is_long = old.form == Form::Long;
            if table.is_indexed(*column) && (is_long || old.value != *new) {
                flags = flags.and(Flags::KEY);
            }
            if is_long {
                flags = flags.and(Flags::LONG);
            }
        }
        flags
    }
}

/// Whether a changed row fits its leaf.
enum Room {
    Enough(Growth),
    /// So many bytes are missing.
    Missing(usize),
}

fn wait_for(holder: Xid, table: &TableAccess, row: RowId) -> Stop {
    Stop::WaitFor(WaitFor::Row { holder, tree: table.id(), row })
}

/// Lets go of a leaf in which nothing was changed.
fn let_go(leaf: LeafWrite<'_>, stop: Stop) -> Stop {
    leaf.unchanged();
    stop
}

fn gone(leaf: LeafWrite<'_>) -> WriteOutcome {
    leaf.unchanged();
    WriteOutcome::Gone
}

fn serialization_failure(tree: TreeId, row: RowId, cts: Cts, deleted: bool) -> Stop {
    let what = if deleted { "deleted" } else { "changed" };
    let detail = format!("row {row} of tree {tree} was {what} by the commit at {cts}");
    Error::SerializationFailure { detail }.into()
}
