//! Undoing one own change (rule 6.7).
//!
//! Invariants: the own record is the newest of its row, because nobody changes or locks a row in
//! flight by another. First the row goes back under its leaf's latch, then the entry that the
//! change added goes, unless a version that stays has the key (rule 5.5), or a checkpoint is still to copy its index
//! (version/collect/postponed.rs), or there is no frame for its
//! leaf, or its key cannot be read. Nothing here can fail: `Retry` is tried again at once, with no latch held. A page that is on disk
//! is waited for with no latch held, too: by the task if there is one ([`Waits`]), else with the thread
//! blocked. Whatever others do to the row meanwhile they could do at any time: for them it is
//! in flight before it goes back, and theirs afterwards.

use std::cell::Cell;

use super::changes::SlotChanges;
use super::set_columns;
use crate::base::{Error, NeededPage, Outcome, RowId, Stop, TreeId};
use crate::buffer::{BufferPool, StepLoads};
use crate::page::overflow::Form;
use crate::page::rowleaf::{RowState, SlotIndex};
use crate::runtime::Parker;
use crate::sync::{mutant, spin_to_retry};
use crate::tree::table::{LeafView, LeafWrite};
use crate::version::undo::{
    Flags, Header, ImageReader, Kind, Postponed, Scratch, UndoRef, copy_held, newest_of,
    remove_entry, reserved_of, resolve_own_keys,
};
use crate::version::{IndexAccess, TableAccess, Tables};

/// What is done while a page is read that a rollback needs.
#[derive(Clone, Copy)]
pub enum Waits<'a> {
    /// Nothing: the thread is blocked.
    Thread,
    /// Others run.
    Task {
        /// Who waits.
        parker: &'a dyn Parker,
        /// Counts what was loaded.
        loads: &'a Cell<u64>,
    },
}

/// Loads for one step while others run. Then it gets frames that others do not, with the thread blocked.
const LOADS_BESIDE: u32 = 16;

impl Waits<'_> {
    /// Loads a page while others run; false if that cannot be, or comes to nothing. `before`: loads for
    /// the same step.
    fn has_loaded(self, pool: &BufferPool, page: NeededPage, before: u32) -> bool {
        match self {
            Waits::Task { parker, loads } if before < LOADS_BESIDE && pool.has_free_frames() => {
                loads.set(loads.get() + 1);
                pool.load(page, parker).is_ok()
            }
            _ => false,
        }
    }
}

/// Undoes up to `rows_max` rows of the newest own change, the last ones first, and takes it out of the
/// list when none is left. Answers how many, at least one.
pub(super) fn undo_some(
    changes: &mut SlotChanges,
    (tables, waits): (&dyn Tables, Waits<'_>),
    rows_max: u16,
) -> u16 {
    let mut scratch = std::mem::take(&mut changes.scratch);
    let at = changes.arena.at(changes.last);
    let record = changes.arena.read(changes.last, &mut scratch.image);
    // Without a table the tree is gone, or about to go: whoever made or dropped it held it alone.
    let kept = record.kind == Kind::Lock && mutant("rollback-keeps-row-locks");
    let (mut done, mut left) = (1, 0);
    if let Some(table) = tables.table(record.tree).filter(|_| !kept) {
        let rows = changes.rows_left(changes.last, &record);
        left = rows.saturating_sub(rows_max);
        done = rows - left;
        // All rows but the first may have gone before, by a rollback to a mark within the run.
        for number in (left..rows).rev() {
            undo_row(changes, &table, at, &record.nth(number), (waits, &mut scratch));
        }
    } else if record.flags.has(Flags::LONG) {
        // What the image refers to is in no leaf that was freed with the tree.
        let image = ImageReader::new(&scratch.image, record.columns);
        changes.versions.garbage().add_image(image);
    }
    changes.scratch = scratch;
    changes.undone(&record, left);
    done
}

/// Loads that rows of the newest own changes after `to` need, up to `rows_max` rows: each page once.
pub(super) fn pages_to_undo(
    changes: &SlotChanges,
    tables: &dyn Tables,
    to: u64,
    rows_max: u16,
) -> Vec<NeededPage> {
    let (mut at, mut pages) = (changes.last, Vec::new());
    for _ in 0..rows_max {
        if at <= to {
            break;
        }
        let record = changes.arena.header(at);
        // Rows of a run lie together: what is not in the leaf of the last one is found when its turn comes.
        let last = record.nth(changes.rows_left(at, &record) - 1).row;
        if let Some(table) = tables.table(record.tree)
            && let Err(Stop::NeedPage(page)) = table.tree.read(last, &mut |_: &LeafView<'_>| Ok(()))
            && !pages.contains(&page)
        {
            pages.push(page);
        }
        at = record.previous;
    }
    pages
}

/// If the newest own record is a run with more than `rows` rows, takes the others out; answers
/// whether there were any.
pub(super) fn undo_run_from(changes: &mut SlotChanges, rows: u16, tables: &dyn Tables) -> bool {
    let record = changes.arena.header(changes.last);
    let Some(table) = tables.table(record.tree).filter(|_| record.rows > rows) else {
        return false;
    };
    if mutant("run-kept-beyond-a-savepoint") {
        return false;
    }
    let mut scratch = std::mem::take(&mut changes.scratch);
    let at = changes.arena.at(changes.last);
    for number in (rows..record.rows).rev() {
        undo_row(changes, &table, at, &record.nth(number), (Waits::Thread, &mut scratch));
    }
    changes.scratch = scratch;
    true
}

fn undo_row(
    changes: &SlotChanges,
    table: &TableAccess,
    at: UndoRef,
    record: &Header,
    (waits, scratch): (Waits<'_>, &mut Scratch),
) {
    let step = || restore(changes, table, at, record, scratch);
    if surely(table.tree.pool(), waits, step) == Restored::Yes(Keys::Known) {
        remove_entries(changes, table, record, (waits, scratch));
    }
}

/// Takes out a row that was inserted without undo; later changes of it are undone already. Does
/// nothing if its tree is gone.
pub(super) fn remove_frozen(
    changes: &mut SlotChanges,
    tables: &dyn Tables,
    tree: TreeId,
    row: RowId,
) {
    let Some(table) = tables.table(tree) else { return };
    let SlotChanges { scratch, versions, .. } = changes;
    let keys = surely(table.tree.pool(), Waits::Thread, || {
        let mut leaf = table.tree.write(row)?;
        let slot = leaf.find(row).expect("a row without undo stays in the tree");
        let keys = copy_keys(&table, &leaf, slot, scratch);
        leaf.view().each_long(slot, |_, reference| versions.garbage().add(reference));
        let reserved = table.versions.forget(leaf.side(), row);
        leaf.reserve(-(reserved as isize));
        leaf.remove(slot);
        Ok(keys)
    });
    if keys == Keys::Known {
        remove_all_entries(&table, row, None, (Waits::Thread, scratch));
    }
}

/// Runs `step`, which needs no page but leaves with own changes, until it is done. They may have been
/// evicted since they were changed.
fn surely<R>(pool: &BufferPool, waits: Waits<'_>, mut step: impl FnMut() -> Outcome<R>) -> R {
    let mut loads = 0;
    loop {
        match step() {
            Ok(done) => return done,
            Err(Stop::Retry) => spin_to_retry(),
            Err(Stop::NeedPage(page)) => {
                if !waits.has_loaded(pool, page, loads)
                    && let Err(error) = pool.load_surely(page)
                {
                    panic!("rolling back needs a page that cannot be read: {error}");
                }
                loads += 1;
            }
            Err(stop) => panic!("rolling back cannot fail, but {stop:?}"),
        }
    }
}

/// Loads for one step before it is given up.
const LOADS_MAX: u32 = 1000;

/// Removes an entry; leaves it where it is if no frame is found for its leaf. Then it leads to no row,
/// or to one with another key, for good, as do those that a checkpoint has of what a crash undid: who
/// reads it looks at the row. Unlike a row it may be left; and has to be, for its leaf may be in a
/// checkpoint, so that a full disk has no place to write it to, and as many as there are may not fit
/// the pool. Later, if `postponed` takes it.
fn remove_if_room(
    (table, index): (&TableAccess, &IndexAccess),
    at: RowId,
    postponed: Option<&Postponed>,
    (waits, scratch): (Waits<'_>, &mut Scratch),
) {
    let pool = table.tree.pool();
    let (mut loads, mut beside) = (StepLoads::default(), 0);
    loop {
        // Each time: while a page was waited for others may have given the row this key and taken it again, with a
        // checkpoint's S in between.
        if postponed.is_some_and(|it| it.takes(table, index, (&scratch.key, at))) {
            return;
        }
        match remove_entry(table, index, at, UndoRef::NONE, scratch) {
            Ok(()) => return,
            Err(Stop::Retry) => spin_to_retry(),
            Err(Stop::NeedPage(page)) if waits.has_loaded(pool, page, beside) => beside += 1,
            Err(Stop::NeedPage(page)) => match loads.load_if_room(pool, page) {
                Err(Error::OutOfMemory { .. }) => return,
                Err(error) => {
                    panic!("rolling back needs a page that cannot be read: {error}")
                }
                Ok(()) if loads.made() == LOADS_MAX => return,
                Ok(()) => {}
            },
            Err(stop) => panic!("rolling back cannot fail, but {stop:?}"),
        }
    }
}

/// Whether the undone version may have index entries of its own.
fn has_entries(record: &Header) -> bool {
    record.kind == Kind::Insert || record.flags.has(Flags::KEY)
}

/// Notes the long values that the undone change put into the row.
fn give_up_longs(
    changes: &SlotChanges,
    leaf: &LeafWrite<'_>,
    slot: SlotIndex,
    record: &Header,
    image: &[u8],
) {
    let image = ImageReader::new(image, record.columns);
    leaf.view().each_long(slot, |column, reference| {
        let is_own = record.kind == Kind::Insert
            || image.clone().any(|old| old.changed && usize::from(old.column) == column);
        if is_own && !mutant("long-value-left-by-rollback") {
            changes.versions.garbage().add(reference);
        }
    });
}

/// Puts the row back and unlinks the record. Leaves the columns of the indexes' keys, as the
/// undone version had them, in `scratch.row`.
fn restore(
    changes: &SlotChanges,
    table: &TableAccess,
    at: UndoRef,
    record: &Header,
    scratch: &mut Scratch,
) -> Outcome<Restored> {
    let row = record.row;
    let mut leaf = table.tree.write(row)?;
    let Some(slot) = leaf.find(row) else {
        assert!(record.rows > 1, "a row in flight stays in the tree");
        leaf.unchanged();
        return Ok(Restored::Before);
    };
    assert_eq!(newest_of(leaf.side(), row), at, "the own record is its row's newest");
    let keys = match has_entries(record) {
        true => copy_keys(table, &leaf, slot, scratch),
        false => Keys::Known,
    };
    if matches!(record.kind, Kind::Insert | Kind::Update) {
        give_up_longs(changes, &leaf, slot, record, &scratch.image);
    }
    match record.kind {
        Kind::Insert => {
            let reserved = table.versions.forget(leaf.side(), row);
            leaf.reserve(-(reserved as isize));
            leaf.remove(slot);
            if changes.arena.header(at.position()).row == row {
                // The first of its run, and so the last to go.
                table.versions.end_run(leaf.side(), at);
            }
            return Ok(Restored::Yes(keys));
        }
        Kind::Delete => leaf.set_state(slot, RowState::Live),
        Kind::Lock | Kind::Update => {}
    }
    unreserve(table, &mut leaf, record);
    if record.kind == Kind::Update {
        let image = ImageReader::new(&scratch.image, record.columns);
        let old = image.filter(|old| old.changed);
        set_columns(&mut leaf, slot, old.clone().map(|old| (old.column, old.value)));
        for old in old.filter(|old| old.form == Form::Long) {
            leaf.set_long(slot, usize::from(old.column));
        }
    }
    unlink(table, &mut leaf, record);
    Ok(Restored::Yes(keys))
}

/// Whether an own change was there to be undone.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Restored {
    Yes(Keys),
    /// The row was taken out before.
    Before,
}

/// Whether the keys of a version are known.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Keys {
    Known,
    /// A long value of one cannot be read: entries stay (version/longs.rs).
    Unread,
}

/// Leaves the columns of the indexes' keys in `scratch.row`, if they can be read.
fn copy_keys(
    table: &TableAccess,
    leaf: &LeafWrite<'_>,
    slot: SlotIndex,
    scratch: &mut Scratch,
) -> Keys {
    scratch.row.clear();
    for index in &table.indexes {
        copy_held(leaf, slot, &index.columns, &mut scratch.row);
    }
    match resolve_own_keys(&table.tree, &mut scratch.row) {
        Ok(()) => Keys::Known,
        Err(why) => {
            table.tree.pool().note_unread(why);
            Keys::Unread
        }
    }
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

fn remove_entries(
    changes: &SlotChanges,
    table: &TableAccess,
    record: &Header,
    (waits, scratch): (Waits<'_>, &mut Scratch),
) {
    if !has_entries(record) || mutant("entry-left-by-rollback") {
        return;
    }
    // Nobody sees the row of an insert. What a checkpoint sees of another may have the same key.
    let may_be_seen = record.kind != Kind::Insert && !mutant("rollback-forgets-checkpoint");
    let postponed = may_be_seen.then(|| changes.versions.postponed());
    remove_all_entries(table, record.row, postponed, (waits, scratch));
}

/// Removes the entries that the columns in `scratch.row` make, unless a version that stays has
/// their key; those that `postponed` takes, later.
fn remove_all_entries(
    table: &TableAccess,
    at: RowId,
    postponed: Option<&Postponed>,
    (waits, scratch): (Waits<'_>, &mut Scratch),
) {
    let mut first = 0;
    for index in &table.indexes {
        let row = &scratch.row;
        index.encode(&mut scratch.key, |column| row.column(first + column));
        first += index.columns.len();
        remove_if_room((table, index), at, postponed, (waits, scratch));
    }
}
