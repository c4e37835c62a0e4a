//! Twin tables: for the rows of one leaf, the newest undo record of each.
//!
//! Invariants:
//! - A twin table hangs from its leaf's frame and is written only under that frame's exclusive
//!   latch. Optimistic readers follow it before they validate: tables are type-stable, never
//!   unmapped while the database is open, and their size is part of the memory itself.
//! - A row without an entry, or with a record that is reclaimed, has one version: the page's. Except
//!   for the table's *run* (rule 6.2): rows of a range of ids that one insert record stands for. A
//!   row of the range without an entry of its own has that record as its newest; an entry comes
//!   with a later change, whose record leads on to it.
//! - Entries follow their rows when a leaf is split ([`VersionSpace`] is the tree's side tables);
//!   then both tables have the run. A range may be larger than what is left of its rows: ids are
//!   never used again, and nobody asks for rows that are not in the leaf.
//! - A table drops a row's entry when its record is reclaimed, and the run may be alive still: its
//!   insert was committed before that record's change, below the horizon, so it is seen by
//!   everybody, as the page's version is.
//!
//! A table is a small open-addressing hash of row ids, not an array over the leaf's slots: a page
//! with one changed row needs 200 bytes, not kilobytes, and entries need not move when rows do.
//! Row ids of a leaf are nearly consecutive, so `row id mod size` hardly collides.

use std::sync::{Arc, MutexGuard, PoisonError};

use crossbeam_utils::CachePadded;

use super::imaging::Imaging;
use super::parked::Parked;
use super::space::{UndoRef, UndoSpace};
use crate::base::{InstanceId, RowId};
use crate::buffer::{FrameRef, PageWrite, SideSlot};
use crate::latch::prefetch_line;
use crate::page::rowleaf;
use crate::sync::{AtomicU64, AtomicUsize, Ordering, PlainMutex as Mutex, mutant};
use crate::tree::table::SideTables;

/// The size class, and above [`CLASS_BITS`] the instance whose free tables it belongs to: for ever.
const CLASS: usize = 0;
const CLASS_BITS: u32 = 16;
const USED: usize = 1;
/// The run's record, its first row, and the row behind its last.
const RUN: usize = 2;
const RUN_FIRST: usize = 3;
const RUN_END: usize = 4;
const ENTRIES: usize = 5;
const ENTRY_WORDS: usize = 3;
/// The smallest table holds `1 << CLASS_FIRST` entries.
const CLASS_FIRST: u32 = 3;
const CLASSES: usize = 11;

/// Bytes of the smallest table.
const SMALLEST_BYTES: usize = 8 * (ENTRIES + entries_of(0) * ENTRY_WORDS);

/// Twin tables by which size class: entries = 8 << class.
const fn entries_of(class: usize) -> usize {
    1 << (CLASS_FIRST as usize + class)
}

/// A twin table's memory, for whoever may look at it.
#[derive(Clone, Copy)]
struct Table<'a> {
    words: &'a [AtomicU64],
}

impl<'a> Table<'a> {
    /// The table that hangs from `side`.
    #[inline]
    fn of(side: &'a SideSlot) -> Option<Table<'a>> {
        let first = side.load().cast::<AtomicU64>();
        if first.is_null() {
            return None;
        }
        // SAFETY: what hangs from a side slot is a table of `VersionSpace`, whose first word is its
        // class for ever and whose memory is never unmapped while trees exist.
        let class = unsafe { &*first }.load(Ordering::Relaxed) as usize % (1 << CLASS_BITS);
        let len = ENTRIES + entries_of(class) * ENTRY_WORDS;
        // SAFETY: a table of this class was allocated with this many words.
        Some(Table { words: unsafe { std::slice::from_raw_parts(first, len) } })
    }

    fn capacity(self) -> usize {
        (self.words.len() - ENTRIES) / ENTRY_WORDS
    }

    fn owner(self) -> InstanceId {
        InstanceId((self.words[CLASS].load(Ordering::Relaxed) >> CLASS_BITS) as u16)
    }

    fn class(self) -> usize {
        self.words[CLASS].load(Ordering::Relaxed) as usize % (1 << CLASS_BITS)
    }

    fn entry(self, index: usize) -> &'a [AtomicU64] {
        &self.words[ENTRIES + index * ENTRY_WORDS..][..ENTRY_WORDS]
    }

    /// The row's entry, or the free place where it would go; none if the table is full of others.
    #[inline]
    fn find(self, row: RowId) -> Result<&'a [AtomicU64], Option<&'a [AtomicU64]>> {
        let mask = self.capacity() - 1;
        let key = row.0.wrapping_add(1);
        let mut index = row.0 as usize & mask;
        for _ in 0..=mask {
            let entry = self.entry(index);
            match entry[0].load(Ordering::Relaxed) {
                0 => return Err(Some(entry)),
                found if found == key => return Ok(entry),
                _ => index = (index + 1) & mask,
            }
        }
        Err(None)
    }

    /// The record of the run that the row is in.
    #[inline]
    fn run_of(self, row: RowId) -> UndoRef {
        // Acquire: partner is the release store in `begin_run`.
        let run = UndoRef(self.words[RUN].load(Ordering::Acquire));
        let load = |word: usize| self.words[word].load(Ordering::Relaxed);
        let is_in = !run.is_none() && load(RUN_FIRST) <= row.0 && row.0 < load(RUN_END);
        if is_in { run } else { UndoRef::NONE }
    }

    fn run(self) -> UndoRef {
        UndoRef(self.words[RUN].load(Ordering::Relaxed))
    }

    fn set_run(self, record: UndoRef, first: u64, end: u64) {
        self.words[RUN_FIRST].store(first, Ordering::Relaxed);
        self.words[RUN_END].store(end, Ordering::Relaxed);
        // Release: partner is `run_of`; the record's words are there for who sees the reference.
        self.words[RUN].store(record.0, Ordering::Release);
    }

    /// Takes the run of another table over.
    fn copy_run(self, from: Table<'_>) {
        let load = |word: usize| from.words[word].load(Ordering::Relaxed);
        self.set_run(from.run(), load(RUN_FIRST), load(RUN_END));
    }

    fn used(self) -> usize {
        self.words[USED].load(Ordering::Relaxed) as usize
    }

    fn pointer(self) -> *mut u8 {
        self.words.as_ptr().cast_mut().cast()
    }

    fn rows(self) -> impl Iterator<Item = (RowId, &'a [AtomicU64])> {
        (0..self.capacity()).filter_map(move |index| {
            let entry = self.entry(index);
            let key = entry[0].load(Ordering::Relaxed);
            (key != 0).then(|| (RowId(key.wrapping_sub(1)), entry))
        })
    }
}

/// The newest undo record of a row of the leaf whose side slot this is, dead or alive. Racy: to be
/// believed once the frame's version validates.
#[inline]
pub(crate) fn newest(side: &SideSlot, row: RowId) -> UndoRef {
    let Some(table) = Table::of(side) else { return UndoRef::NONE };
    if let Ok(entry) = table.find(row) {
        // Acquire: partner is the release store in `set_newest`.
        let record = UndoRef(entry[1].load(Ordering::Acquire));
        if !record.is_none() {
            return record;
        }
    }
    table.run_of(row)
}

/// As [`newest`], and what is [`reserved`] for the row. The frame is held exclusively.
#[inline]
pub(crate) fn newest_and_reserved(side: &SideSlot, row: RowId) -> (UndoRef, u32) {
    let Some(table) = Table::of(side) else { return (UndoRef::NONE, 0) };
    let Ok(entry) = table.find(row) else { return (table.run_of(row), 0) };
    let record = UndoRef(entry[1].load(Ordering::Relaxed));
    let reserved = entry[2].load(Ordering::Relaxed) as u32;
    (if record.is_none() { table.run_of(row) } else { record }, reserved)
}

/// Asks for the leaf's twin table, if it has one; of a larger one, for the beginning.
#[inline]
pub(crate) fn prefetch(side: &SideSlot) {
    let table = side.load();
    if !table.is_null() {
        for line in 0..SMALLEST_BYTES.div_ceil(64) {
            prefetch_line(table.wrapping_add(64 * line));
        }
    }
}

/// Asks for the row's entry in the leaf's twin table, if it has one.
#[inline]
pub(crate) fn prefetch_entry(side: &SideSlot, row: RowId) {
    if let Some(table) = Table::of(side) {
        prefetch_line(table.entry(row.0 as usize & (table.capacity() - 1)).as_ptr());
    }
}

/// Whether the leaf has a twin table at all.
#[inline]
pub(crate) fn has_table(side: &SideSlot) -> bool {
    !side.load().is_null()
}

/// Heap bytes that are reserved for going back to older versions of the row.
pub(crate) fn reserved(side: &SideSlot, row: RowId) -> u32 {
    match Table::of(side).map(|table| table.find(row)) {
        Some(Ok(entry)) => entry[2].load(Ordering::Relaxed) as u32,
        _ => 0,
    }
}

/// Whether an operation gave the leaf its twin table.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Made {
    /// It did: somebody must look later whether it can go.
    Table,
    /// There was one.
    Nothing,
}

type Free = [Vec<TablePtr>; CLASSES];

struct TablePtr(*mut u8);
// SAFETY: points to memory owned by the `VersionSpace` whose free list it is in.
unsafe impl Send for TablePtr {}

/// What all instances share of versions: undo and twin tables. One per database; outlives trees.
pub struct VersionSpace {
    undo: UndoSpace,
    /// Free tables by class, of each instance: who makes tables takes its own, and who looks after
    /// a leaf until its table can go is who made it, so instances do not meet here.
    free: Box<[CachePadded<Mutex<Free>>]>,
    /// Every table ever allocated.
    tables: Mutex<Vec<Box<[AtomicU64]>>>,
    /// Bytes of all tables, in use or free. Written by who allocates, read by `reserve`.
    bytes: AtomicU64,
    /// Leaves that got a twin table by a split: any instance's collection looks after them.
    split: Mutex<Vec<FrameRef>>,
    /// How many these are. Written under the mutex; read by collections, which take it only if
    /// there are any: who has split a leaf sees its own at its next collection.
    splits: AtomicUsize,
    /// Tables of leaves that are not in memory.
    pub(super) parked: Parked,
    /// What a checkpoint is to image before its S lets go.
    pub(super) imaging: Imaging,
}

#[cfg_attr(feature = "ledger", track_caller)]
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl VersionSpace {
    /// For a database with this many instances.
    pub fn new(instances: usize) -> Arc<VersionSpace> {
        Arc::new(VersionSpace {
            undo: UndoSpace::new(instances),
            free: (0..instances.max(1))
                .map(|_| CachePadded::new(Mutex::new(Free::default())))
                .collect(),
            tables: Mutex::new(Vec::new()),
            bytes: AtomicU64::new(0),
            split: Mutex::new(Vec::new()),
            splits: AtomicUsize::new(0),
            parked: Parked::new(instances),
            imaging: Imaging::default(),
        })
    }

    pub(super) fn undo(&self) -> &UndoSpace {
        &self.undo
    }

    /// Bytes of memory that an instance's undo has taken, to be used again and again; 0 if there is
    /// no such instance. For people.
    pub fn undo_allocated_bytes(&self, instance: InstanceId) -> u64 {
        self.undo.allocated_bytes(instance)
    }

    /// How many instances it is for.
    pub(super) fn instances(&self) -> usize {
        self.free.len()
    }

    /// Whether a record counts for nobody any more: none, or reclaimed.
    pub(crate) fn is_dead(&self, record: UndoRef) -> bool {
        record.is_none() || self.undo.is_reclaimed(record)
    }

    /// Whether nobody needs what was before the record any more (there is none, or collection has
    /// begun to visit its transaction's).
    pub(super) fn has_passed(&self, record: UndoRef) -> bool {
        record.is_none() || self.undo.has_passed(record)
    }

    /// Bytes of all twin tables.
    pub fn twin_bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }

    /// Leaves whose table came by a split, to be looked after by the caller.
    pub(super) fn take_split(&self) -> Vec<FrameRef> {
        if self.splits.load(Ordering::Relaxed) == 0 {
            return Vec::new();
        }
        let mut split = lock(&self.split);
        self.splits.store(0, Ordering::Relaxed);
        std::mem::take(&mut *split)
    }

    pub(super) fn note_split(&self, leaf: FrameRef) {
        self.list_for_all(leaf);
        let mut split = lock(&self.split);
        split.push(leaf);
        self.splits.store(split.len(), Ordering::Relaxed);
    }

    fn free(&self, owner: InstanceId) -> &Mutex<Free> {
        &self.free[usize::from(owner.0) % self.free.len()]
    }

    fn allocate(&self, owner: InstanceId, class: usize) -> Table<'_> {
        assert!(class < CLASSES, "a leaf has fewer rows than the largest twin table");
        let words = ENTRIES + entries_of(class) * ENTRY_WORDS;
        let free = lock(self.free(owner))[class].pop();
        let first = match free {
            Some(table) => table.0.cast::<AtomicU64>(),
            None => {
                let table: Box<[AtomicU64]> = (0..words).map(|_| AtomicU64::new(0)).collect();
                table[CLASS]
                    .store(u64::from(owner.0) << CLASS_BITS | class as u64, Ordering::Relaxed);
                let first = table.as_ptr().cast_mut();
                self.bytes.fetch_add(8 * words as u64, Ordering::Relaxed);
                lock(&self.tables).push(table);
                first
            }
        };
        // SAFETY: from the list of this class, or just allocated with this many words; owned by
        // `self.tables`.
        let table = Table { words: unsafe { std::slice::from_raw_parts(first, words) } };
        for word in &table.words[USED..] {
            word.store(0, Ordering::Relaxed);
        }
        table
    }

    fn release(&self, table: Table<'_>) {
        lock(self.free(table.owner()))[table.class()].push(TablePtr(table.pointer()));
    }

    /// Names `record` as the row's newest. The frame is held exclusively.
    pub(crate) fn set_newest(&self, side: &SideSlot, row: RowId, record: UndoRef) -> Made {
        let (entry, made) = self.entry(side, row, record.instance());
        // Release: partner is `newest`; the record's words are there for who sees the reference.
        entry[1].store(record.0, Ordering::Release);
        made
    }

    /// Names `record` as the insert of a run of rows that begins with `row`. None, and nothing is
    /// done, if the leaf has a run whose record is alive. The frame is held exclusively.
    pub(crate) fn begin_run(&self, side: &SideSlot, row: RowId, record: UndoRef) -> Option<Made> {
        let (table, made) = self.table(side, record.instance());
        if !self.is_dead(table.run()) {
            return None;
        }
        table.set_run(record, row.0, row.0 + 1);
        Some(made)
    }

    /// The run of `record` has `row`, too. None, and nothing is done, if it is not the leaf's, or
    /// does not end before the row. The frame is held exclusively.
    pub(crate) fn extend_run(&self, side: &SideSlot, row: RowId, record: UndoRef) -> Option<Made> {
        let table = Table::of(side)?;
        let end = &table.words[RUN_END];
        let is_next = table.run().0 == record.0 && end.load(Ordering::Relaxed) == row.0;
        is_next.then(|| {
            end.store(row.0 + 1, Ordering::Relaxed);
            Made::Nothing
        })
    }

    /// All rows of the run of `record` are gone, rolled back. The frame is held exclusively.
    pub(crate) fn end_run(&self, side: &SideSlot, record: UndoRef) {
        if let Some(table) = Table::of(side).filter(|table| table.run().0 == record.0) {
            table.words[RUN].store(0, Ordering::Release);
        }
    }

    /// Adds to the row's reserved bytes. The frame is held exclusively and the row has an entry.
    pub(crate) fn add_reserved(&self, side: &SideSlot, row: RowId, bytes: i32) {
        let owner = Table::of(side).map_or(InstanceId(0), Table::owner);
        let (entry, _) = self.entry(side, row, owner);
        let sum = entry[2].load(Ordering::Relaxed) as i64 + bytes as i64;
        entry[2]
            .store(u64::try_from(sum).expect("no more is given back than was"), Ordering::Relaxed);
    }

    /// Forgets a row that leaves the page; answers what it had reserved. The frame is held
    /// exclusively.
    pub(crate) fn forget(&self, side: &SideSlot, row: RowId) -> u32 {
        let Some(Ok(entry)) = Table::of(side).map(|table| table.find(row)) else { return 0 };
        entry[1].store(0, Ordering::Release);
        entry[2].swap(0, Ordering::Relaxed) as u32
    }

    /// The leaf's table, made of the owner's memory if need be.
    fn table<'a>(&'a self, side: &'a SideSlot, owner: InstanceId) -> (Table<'a>, Made) {
        match Table::of(side) {
            Some(table) => (table, Made::Nothing),
            None => {
                let table = self.allocate(owner, 0);
                side.store(table.pointer());
                (table, Made::Table)
            }
        }
    }

    fn entry<'a>(
        &'a self,
        side: &'a SideSlot,
        row: RowId,
        owner: InstanceId,
    ) -> (&'a [AtomicU64], Made) {
        let (table, made) = self.table(side, owner);
        match table.find(row) {
            Ok(entry) => (entry, made),
            // A quarter stays free, so that searches end early.
            Err(Some(entry)) if table.used() < table.capacity() / 4 * 3 => {
                take(table, entry, row);
                (entry, made)
            }
            Err(_) => {
                let larger = self.rebuild(side, table, 1);
                let Err(Some(entry)) = larger.find(row) else {
                    unreachable!("the rebuilt table has room and lacks the row");
                };
                take(larger, entry, row);
                (entry, made)
            }
        }
    }

    /// Moves what still counts into a table that has room for `more` beyond it.
    fn rebuild<'a>(&'a self, side: &'a SideSlot, old: Table<'a>, more: usize) -> Table<'a> {
        let live = old.rows().filter(|(_, entry)| self.counts(entry)).count() + more;
        // Twice the room that is needed now, so that a growing table is rebuilt seldom.
        let class = (0..CLASSES).find(|class| entries_of(*class) / 4 * 3 >= live * 3 / 2);
        let table = self.allocate(old.owner(), class.unwrap_or(CLASSES - 1));
        table.copy_run(old);
        for (row, entry) in old.rows().filter(|(_, entry)| self.counts(entry)) {
            put(table, row, entry);
        }
        side.store(table.pointer());
        self.release(old);
        table
    }

    /// Whether anybody may still need the entry.
    fn counts(&self, entry: &[AtomicU64]) -> bool {
        let record = UndoRef(entry[1].load(Ordering::Relaxed));
        !self.is_dead(record) || entry[2].load(Ordering::Relaxed) != 0
    }

    /// Gives back what is reserved for rows that have no older version any more, and drops the
    /// leaf's table if no entry counts. Answers whether the leaf still has one, and whether its page
    /// was changed.
    pub(crate) fn sweep(&self, page: &mut PageWrite) -> (Swept, PageIs) {
        let leaf = page.frame();
        let (swept, given_back) = self.sweep_table(leaf.side());
        if given_back == 0 {
            return (swept, PageIs::AsBefore);
        }
        rowleaf::reserve(page.bytes_mut(), -(given_back as isize));
        (swept, PageIs::Changed)
    }

    pub(super) fn sweep_table(&self, side: &SideSlot) -> (Swept, u32) {
        let Some(table) = Table::of(side) else { return (Swept::Gone, 0) };
        let (mut needed, mut given_back) = (false, 0);
        for (_, entry) in table.rows() {
            if self.is_dead(UndoRef(entry[1].load(Ordering::Relaxed)))
                || mutant("reserved-given-back-early")
            {
                // Under the latch: a load and, seldom, a store do what a swap does.
                let reserved = entry[2].load(Ordering::Relaxed);
                if reserved != 0 {
                    entry[2].store(0, Ordering::Relaxed);
                }
                given_back += reserved as u32;
            }
            needed |= self.counts(entry);
        }
        needed |= !self.is_dead(table.run());
        if needed {
            return (Swept::Needed, given_back);
        }
        side.store(std::ptr::null_mut());
        self.release(table);
        (Swept::Gone, given_back)
    }

    /// Moves the entries of rows from `first_moved` on from one leaf's table to another's. Both
    /// frames are held exclusively; the rows move in the same latched section. Answers the bytes
    /// reserved by the moved rows.
    pub(crate) fn split_tables(&self, from: FrameRef, to: FrameRef, first_moved: RowId) -> u32 {
        let Some(table) = Table::of(from.side()) else { return 0 };
        let mut reserved = 0;
        let run_moves = table.words[RUN_END].load(Ordering::Relaxed) > first_moved.0;
        if run_moves && !self.is_dead(table.run()) && !mutant("run-forgotten-on-split") {
            let (place, made) = self.table(to.side(), table.owner());
            place.copy_run(table);
            if made == Made::Table {
                self.note_split(to);
            }
        }
        let moved = table.rows().filter(|(row, entry)| *row >= first_moved && self.counts(entry));
        for (row, entry) in moved {
            if mutant("twin-forgotten-on-split") {
                continue;
            }
            let (place, made) = self.entry(to.side(), row, table.owner());
            place[1].store(entry[1].load(Ordering::Relaxed), Ordering::Release);
            place[2].store(entry[2].load(Ordering::Relaxed), Ordering::Relaxed);
            reserved += entry[2].load(Ordering::Relaxed) as u32;
            if made == Made::Table {
                self.note_split(to);
            }
        }
        for (row, entry) in table.rows().filter(|(row, _)| *row >= first_moved) {
            debug_assert!(row >= first_moved);
            // The key stays: taking it out would break the search for others.
            entry[1].store(0, Ordering::Release);
            entry[2].store(0, Ordering::Relaxed);
        }
        reserved
    }
}

/// What became of a twin table.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Swept {
    /// The leaf has none now.
    Gone,
    /// Some entry still counts.
    Needed,
}

/// Whether a sweep changed the page.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum PageIs {
    AsBefore,
    Changed,
}

impl SideTables for VersionSpace {
    fn split(&self, from: FrameRef, to: FrameRef, separator: RowId) -> usize {
        self.split_tables(from, to, separator) as usize
    }

    fn dropped(&self, leaf: FrameRef) {
        if let Some(table) = Table::of(leaf.side()) {
            leaf.side().store(std::ptr::null_mut());
            self.release(table);
        }
    }
}

fn take(table: Table<'_>, entry: &[AtomicU64], row: RowId) {
    table.words[USED].store(table.used() as u64 + 1, Ordering::Relaxed);
    entry[1].store(0, Ordering::Relaxed);
    entry[2].store(0, Ordering::Relaxed);
    // Release: who finds the key finds an empty entry, not the memory's last use.
    entry[0].store(row.0.wrapping_add(1), Ordering::Release);
}

fn put(table: Table<'_>, row: RowId, from: &[AtomicU64]) {
    let Err(Some(entry)) = table.find(row) else {
        unreachable!("a table being built has room and lacks the row");
    };
    take(table, entry, row);
    entry[1].store(from[1].load(Ordering::Relaxed), Ordering::Release);
    entry[2].store(from[2].load(Ordering::Relaxed), Ordering::Relaxed);
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::base::{InstanceId, SlotId};

    fn reference(number: u64) -> UndoRef {
        UndoRef::new(InstanceId(0), SlotId(0), number)
    }

    /// A space in which every record from position 1 on is alive.
    fn space() -> Arc<VersionSpace> {
        let space = VersionSpace::new(1);
        space.undo().arena(InstanceId(0), SlotId(0));
        space
    }

    #[test]
    fn a_table_is_made_grows_and_goes() {
        let space = space();
        let side = SideSlot::default();
        assert_eq!(newest(&side, RowId(4)), UndoRef::NONE);
        let rows = || (0..1500_u64).map(|row| row * 3 + 1000);
        for row in rows() {
            let made = space.set_newest(&side, RowId(row), reference(row));
            assert_eq!(made == Made::Table, row == 1000);
        }
        for row in rows() {
            assert_eq!(newest(&side, RowId(row)), reference(row));
            assert_eq!(newest(&side, RowId(row + 1)), UndoRef::NONE);
        }
        assert_eq!(space.sweep_table(&side), (Swept::Needed, 0));
        for row in rows().skip(1) {
            space.forget(&side, RowId(row));
        }
        assert_eq!(space.sweep_table(&side), (Swept::Needed, 0));
        space.undo().arena(InstanceId(0), SlotId(0)).set_reclaimed(1001);
        assert_eq!(space.sweep_table(&side), (Swept::Gone, 0));
        assert!(!has_table(&side));
        let bytes = space.twin_bytes();
        space.set_newest(&side, RowId(5), reference(2000));
        assert_eq!(space.twin_bytes(), bytes, "tables are reused");
    }

    #[test]
    fn a_run_is_the_record_of_its_rows_until_they_have_others() {
        let space = space();
        let side = SideSlot::default();
        assert_eq!(space.begin_run(&side, RowId(100), reference(9)), Some(Made::Table));
        for row in 101..1000 {
            assert_eq!(space.extend_run(&side, RowId(row), reference(9)), Some(Made::Nothing));
        }
        assert_eq!(space.extend_run(&side, RowId(1001), reference(9)), None, "a gap");
        assert_eq!(space.extend_run(&side, RowId(1000), reference(8)), None, "another run");
        assert_eq!(space.begin_run(&side, RowId(1000), reference(10)), None, "one at a time");
        for row in 100..1000 {
            assert_eq!(newest(&side, RowId(row)), reference(9));
        }
        assert!(newest(&side, RowId(99)).is_none() && newest(&side, RowId(1000)).is_none());
        // Later changes have entries, which need ever larger tables; the run goes along.
        for row in (100..1000).step_by(3) {
            space.set_newest(&side, RowId(row), reference(row));
        }
        for row in 100..1000 {
            let expected = if row % 3 == 1 { row } else { 9 };
            assert_eq!(newest(&side, RowId(row)), reference(expected));
        }
        // Rolled back.
        space.set_newest(&side, RowId(100), UndoRef::NONE);
        assert_eq!(newest(&side, RowId(100)), reference(9));
        space.undo().arena(InstanceId(0), SlotId(0)).set_reclaimed(10);
        assert_eq!(space.sweep_table(&side), (Swept::Needed, 0), "entries are alive");
        assert_eq!(space.begin_run(&side, RowId(1000), reference(700)), Some(Made::Nothing));
        assert_eq!(newest(&side, RowId(1000)), reference(700));
        space.end_run(&side, reference(9));
        assert_eq!(newest(&side, RowId(1000)), reference(700));
        space.end_run(&side, reference(700));
        assert!(newest(&side, RowId(1000)).is_none());
        space.undo().arena(InstanceId(0), SlotId(0)).set_reclaimed(1000);
        assert_eq!(space.sweep_table(&side), (Swept::Gone, 0));
    }

    /// Instances that take and give back tables by turns take no table of each other.
    #[test]
    fn a_table_goes_back_to_the_instance_that_made_it() {
        let space = VersionSpace::new(2);
        let of = |instance: u16| UndoRef::new(InstanceId(instance), SlotId(0), 10);
        for instance in [0, 1] {
            space.undo().arena(InstanceId(instance), SlotId(0));
        }
        let (side, kept) = (SideSlot::default(), SideSlot::default());
        space.set_newest(&side, RowId(1), of(1));
        let made = side.load();
        space.set_newest(&side, RowId(1), of(0));
        assert_eq!(side.load(), made, "who changes the row next keeps the table");
        space.undo().arena(InstanceId(0), SlotId(0)).set_reclaimed(20);
        assert_eq!(space.sweep_table(&side), (Swept::Gone, 0));
        let bytes = space.twin_bytes();
        space.set_newest(&kept, RowId(1), UndoRef::new(InstanceId(0), SlotId(0), 30));
        assert!(kept.load() != made && space.twin_bytes() > bytes, "it is not the other's");
        space.set_newest(&side, RowId(1), of(1));
        assert_eq!(side.load(), made);
        // A larger one, too, is its maker's: made by growth, of whoever's record came last.
        for row in 2..100 {
            space.set_newest(&side, RowId(row), UndoRef::new(InstanceId(0), SlotId(0), 30));
        }
        assert_eq!(Table::of(&side).map(Table::owner), Some(InstanceId(1)));
        assert_eq!(Table::of(&kept).map(Table::owner), Some(InstanceId(0)));
    }

    #[test]
    fn a_split_is_looked_after_once() {
        let space = space();
        assert!(space.take_split().is_empty());
        let pool = crate::buffer::BufferPool::new(1, 4 << 20).unwrap();
        let home = crate::base::HomeId(0);
        let mut reservation = pool.reserve(home, 1).unwrap();
        let kind = crate::page::PageKind::TableLeaf;
        let page = pool.allocate(&mut reservation, kind, crate::base::TreeId(7));
        space.note_split(page.frame());
        assert_eq!(space.take_split(), [page.frame()]);
        assert!(space.take_split().is_empty());
    }

    #[test]
    fn dead_entries_make_room_instead_of_growth() {
        let space = space();
        let arena = space.undo().arena(InstanceId(0), SlotId(0));
        let side = SideSlot::default();
        for row in 1..5000_u64 {
            arena.set_reclaimed(row);
            space.set_newest(&side, RowId(row), reference(row));
        }
        assert!(space.twin_bytes() < 4096, "{} bytes", space.twin_bytes());
    }

    #[test]
    fn reserved_bytes_are_kept_until_their_record_is_dead() {
        let space = space();
        let side = SideSlot::default();
        space.set_newest(&side, RowId(7), reference(50));
        space.add_reserved(&side, RowId(7), 30);
        space.add_reserved(&side, RowId(7), -10);
        assert_eq!(reserved(&side, RowId(7)), 20);
        assert_eq!(space.sweep_table(&side), (Swept::Needed, 0));
        space.undo().arena(InstanceId(0), SlotId(0)).set_reclaimed(60);
        assert_eq!(space.sweep_table(&side), (Swept::Gone, 20));
    }
}
