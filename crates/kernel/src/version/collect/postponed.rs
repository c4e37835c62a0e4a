//! Index entries that go when the checkpoint that is being made has copied their index (rules 5.5, 8.3).
//!
//! A checkpoint needs of an index every entry of a row that its S sees. An index is copied as it is, a leaf at a
//! time, for minutes if it is large; undo is not to be held back so long. So an entry that no version of its row
//! needs any more is removed at once only if no checkpoint is still to copy its index; else it is *postponed*: it
//! stays, and whoever wanted to remove it goes on, be it a collection, which gives up the row or the old
//! version, or a rollback. Until it is removed it leads to no row, or to one with another key, as
//! those that a crash has left: who reads an entry looks at its row.
//!
//! **Why that is right.** Take an entry of a row as S sees it. It is removed only when no version of the row that
//! is retained has its key. While S's floor is S, the version that S sees is retained. The floor rises after
//! [`VersionSpace::begin_imaging`] only, and whoever collects by the higher floor has read it, so that it sees the
//! checkpoint here, and postpones until the index says that it is copied (release, acquire). Who has read a
//! lower horizon gives up nothing that S sees. A rollback gives up what S does not see, but what S sees may be reclaimed by then,
//! and have the same key: so a rollback postpones, too. Rows that were deleted below S it does not have.
//!
//! Invariants: a postponed entry is removed as any other, if no retained version has its key then; one whose version
//! is retained then is tried again when that version goes. An instance that holds [`ENTRIES_MAX`] visits no more
//! records: undo is held back again. Before that the checkpoint goes as fast as it can ([`HURRY_AT`]): who takes the
//! first row of a queue meets every entry that is postponed. What is left when the database closes stays until a sweep meets it
//! (`exact.rs`), which notes it here as well.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::sync::Arc;

use super::super::access::{IndexAccess, TableAccess, Tables};
use super::super::entries::{Scratch, remove_entry};
use super::super::imaging::Imaging;
use super::super::space::UndoRef;
use super::super::twin::VersionSpace;
use super::{ASKED_MAX, Collected, InstanceVersions};
use crate::base::{Cts, Outcome, RowId, Stop, TreeId};
use crate::buffer::StepLoads;
use crate::sync::mutant;

/// Entries that an instance postpones at most, but for those of rollbacks.
const ENTRIES_MAX: usize = 1 << 16;
/// With an instance's part of so many the checkpoint is to hurry.
const HURRY_AT: usize = 1 << 12;
/// Loads for one entry at most, with the thread blocked.
const LOADS_MAX: usize = 16;

/// An entry.
type Entry = (Box<[u8]>, RowId);

/// Postponed entries of one index, the oldest first.
struct OfIndex {
    table: TreeId,
    index: TreeId,
    entries: VecDeque<Entry>,
}

/// What one instance has postponed.
pub(crate) struct Postponed {
    space: Arc<VersionSpace>,
    indexes: RefCell<Vec<OfIndex>>,
    /// Entries of all.
    count: Cell<usize>,
    /// Pages that were asked for for the next entry.
    asked: Cell<u32>,
}

impl Postponed {
    pub(super) fn new(space: Arc<VersionSpace>) -> Postponed {
        Postponed { space, indexes: RefCell::default(), count: Cell::new(0), asked: Cell::new(0) }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.count.get() == 0
    }

    /// Whether no more is to be postponed.
    pub(super) fn is_full(&self) -> bool {
        self.count.get() >= ENTRIES_MAX
    }

    /// Postpones the removal of an entry if a checkpoint is still to copy its index; answers whether.
    pub(crate) fn takes(
        &self,
        table: &TableAccess,
        index: &IndexAccess,
        (key, row): (&[u8], RowId),
    ) -> bool {
        if !self.space.is_to_be_copied(index) {
            return false;
        }
        self.note(table, index, (key, row));
        if self.count.get() >= (HURRY_AT / self.space.instances()).max(1) {
            self.space.hurry_imaging();
        }
        true
    }

    /// An entry is left over: it is to be removed with the next collection, if there is room for it here. Whoever meets
    /// it again notes it again.
    pub(crate) fn note_left_over(
        &self,
        table: &TableAccess,
        index: &IndexAccess,
        entry: (&[u8], RowId),
    ) {
        if self.count.get() < HURRY_AT {
            self.note(table, index, entry);
        }
    }

    fn note(&self, table: &TableAccess, index: &IndexAccess, (key, row): (&[u8], RowId)) {
        let (table, tree) = (table.id(), index.tree.tree());
        let mut indexes = self.indexes.borrow_mut();
        let at = indexes.iter().position(|it| it.index == tree).unwrap_or_else(|| {
            indexes.push(OfIndex { table, index: tree, entries: VecDeque::new() });
            indexes.len() - 1
        });
        let entries = &mut indexes[at].entries;
        // A visit that met a busy latch begins again.
        if entries.back().is_none_or(|last| (&*last.0, last.1) != (key, row)) {
            entries.push_back((key.into(), row));
            self.count.set(self.count.get() + 1);
        }
    }

    /// The next entry of an index that need not wait any more, with its table; of tables and indexes that
    /// are gone all are forgotten.
    fn next(&self, tables: &dyn Tables) -> Option<(Arc<TableAccess>, TreeId, Entry)> {
        let mut indexes = self.indexes.borrow_mut();
        let mut found = None;
        indexes.retain_mut(|of| {
            if found.is_some() {
                return true;
            }
            let table = tables.table(of.table);
            let index = table.as_ref().and_then(|table| index_of(table, of.index));
            let (Some(table), Some(index)) = (&table, index) else {
                self.count.set(self.count.get() - of.entries.len());
                return false;
            };
            if self.space.is_to_be_copied(index) {
                return true;
            }
            let Some(entry) = of.entries.pop_front() else { return false };
            self.count.set(self.count.get() - 1);
            found = Some((table.clone(), of.index, entry));
            true
        });
        found
    }

    /// Whether who collects is to load one page more for the next entry. Counts it.
    fn may_ask(&self) -> bool {
        let times = self.asked.get();
        self.asked.set(times.saturating_add(1));
        times < ASKED_MAX && !mutant("collection-blocks")
    }

    /// A page that was asked for could not be loaded.
    pub(super) fn could_not_load(&self) {
        self.asked.set(ASKED_MAX);
    }

    /// The entry could not be removed now.
    fn give_back(&self, table: TreeId, index: TreeId, entry: Entry) {
        let mut indexes = self.indexes.borrow_mut();
        self.count.set(self.count.get() + 1);
        match indexes.iter_mut().find(|it| it.index == index) {
            Some(of) => of.entries.push_front(entry),
            None => indexes.push(OfIndex { table, index, entries: VecDeque::from([entry]) }),
        }
    }
}

fn index_of(table: &TableAccess, index: TreeId) -> Option<&IndexAccess> {
    table.indexes.iter().find(|it| it.tree.tree() == index)
}

impl VersionSpace {
    /// Whether a checkpoint is being made, and its S is above `cts`.
    pub(super) fn is_before_checkpoint(&self, cts: Cts) -> bool {
        self.imaging.checkpoint().is_some_and(|checkpoint| cts < checkpoint)
    }

    /// Whether a checkpoint is being made that has not copied the whole index yet.
    pub(in crate::version) fn is_to_be_copied(&self, index: &IndexAccess) -> bool {
        must_stay(&self.imaging, || index.tree.copied_as_of())
            && !mutant("checkpoint-forgets-entries")
    }
}

/// Whether the checkpoint that is being made is another than the last that has copied the index.
fn must_stay<L>(imaging: &Imaging<L>, copied_as_of: impl FnOnce() -> Cts) -> bool {
    imaging.checkpoint().is_some_and(|checkpoint| copied_as_of() != checkpoint)
}

impl InstanceVersions {
    /// Removes an entry that no version above `stop` needs (`remove_entry`), or postpones that. Its key is
    /// `scratch.key`. Stops: `Retry`, `NeedPage`.
    pub(super) fn remove_or_postpone(
        &self,
        table: &TableAccess,
        index: &IndexAccess,
        (row, stop): (RowId, UndoRef),
        scratch: &mut Scratch,
    ) -> Outcome<()> {
        if self.postponed().takes(table, index, (&scratch.key, row)) {
            return Ok(());
        }
        remove_entry(table, index, row, stop, scratch)
    }

    /// Entries that wait until a checkpoint has copied their index.
    pub fn postponed_entries(&self) -> usize {
        self.postponed().count.get()
    }

    /// Removes entries that need not wait any more, about `entries_max`. Those that are needed again stay; one whose
    /// leaf is in use, or finds no room in memory, is tried again. As for records, a page is asked for, and after too
    /// many for one entry its leaf is loaded with the thread blocked.
    pub(super) fn remove_postponed(
        &self,
        tables: &dyn Tables,
        entries_max: usize,
        done: &mut Collected,
    ) {
        if self.postponed().is_empty() {
            return;
        }
        let mut scratch = self.scratch.take();
        for left in (0..entries_max).rev() {
            let Some((table, tree, entry)) = self.postponed().next(tables) else { break };
            let Some(index) = index_of(&table, tree) else { continue };
            scratch.key.clear();
            scratch.key.extend_from_slice(&entry.0);
            match self.remove_loading(&table, index, entry.1, &mut scratch) {
                Ok(()) => {}
                // In a leaf that cannot be read it may stay.
                Err(Stop::Error(why)) if why.is_unreadable() => table.tree.pool().note_unread(why),
                Err(stop) => {
                    self.postponed().give_back(table.id(), tree, entry);
                    done.more |= !matches!(stop, Stop::Error(_));
                    if let Stop::NeedPage(page) = stop {
                        done.needs = Some(page);
                    }
                    break;
                }
            }
            done.records += 1;
            done.more |= left == 0;
        }
        self.scratch.replace(scratch);
    }

    fn remove_loading(
        &self,
        table: &TableAccess,
        index: &IndexAccess,
        row: RowId,
        scratch: &mut Scratch,
    ) -> Outcome<()> {
        let mut loads = StepLoads::default();
        for _ in 0..LOADS_MAX {
            match remove_entry(table, index, row, UndoRef::NONE, scratch) {
                Err(Stop::NeedPage(page)) if self.postponed().may_ask() => {
                    return Err(Stop::NeedPage(page));
                }
                Err(Stop::NeedPage(page)) => loads.load(table.tree.pool(), page)?,
                done => {
                    self.postponed().asked.set(0);
                    return done;
                }
            }
        }
        Err(Stop::Retry)
    }
}

#[cfg(all(test, loom))]
mod loom_postponed {
    //! `RUSTFLAGS="--cfg loom" cargo test -p atoll-kernel --lib loom_postponed`

    use super::*;
    use crate::sync::{AtomicBool, AtomicU64, Ordering};
    use loom::sync::Arc;
    use loom::thread;

    const S: Cts = Cts(5);
    /// Of the change that makes the entry superfluous for all but the checkpoint.
    const CHANGED: Cts = Cts(7);
    const RAISED: Cts = Cts(9);

    #[derive(Clone, Copy, PartialEq, Eq)]
    enum Floor {
        /// Raised when leaves are listed, as it is.
        AfterBegin,
        /// Raised before.
        BeforeBegin,
    }

    /// The checkpoint copies the index with its entry, whatever a collector does meanwhile, which removes the entry
    /// as soon as it may.
    fn model(floor_rises: Floor) {
        loom::model(move || {
            let imaging = Arc::new(Imaging::<u8>::default());
            // Registered before S is picked.
            let floor = Arc::new(AtomicU64::new(S.0));
            let copied = Arc::new(AtomicU64::new(0));
            let entry = Arc::new(AtomicBool::new(true));
            let collector = {
                let (imaging, floor) = (imaging.clone(), floor.clone());
                let (copied, entry) = (copied.clone(), entry.clone());
                thread::spawn(move || {
                    let horizon = Cts(floor.load(Ordering::Acquire));
                    let copied_as_of = || Cts(copied.load(Ordering::Acquire));
                    if CHANGED < horizon && !must_stay(&imaging, copied_as_of) {
                        entry.store(false, Ordering::Release);
                    }
                })
            };
            if floor_rises == Floor::BeforeBegin {
                floor.store(RAISED.0, Ordering::Release);
            }
            imaging.begin(S);
            if floor_rises == Floor::AfterBegin {
                floor.store(RAISED.0, Ordering::Release);
            }
            assert!(entry.load(Ordering::Acquire), "an entry is missing that S needs");
            copied.store(S.0, Ordering::Release);
            imaging.end(S);
            collector.join().unwrap();
        });
    }

    #[test]
    fn loom_postponed_entries_are_in_the_checkpoint() {
        model(Floor::AfterBegin);
    }

    #[test]
    #[should_panic(expected = "missing")]
    fn loom_postponed_too_late_is_found() {
        model(Floor::BeforeBegin);
    }
}
