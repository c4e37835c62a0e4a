//! One instance's undo, and its collection below the horizon (rule 6.8).
//!
//! Invariants:
//! - Undo goes in the order in which the instance's transactions finished; their cts grow, so the
//!   front of the queue decides. A slot's reclaimed mark moves only after every record below it
//!   that needs a visit had one: deleted rows and their index entries are gone, entries of
//!   changed keys too.
//! - Most records need no visit: a twin entry that names a reclaimed record reads as none. Leaves
//!   that got a twin table are remembered; a sweep gives back the heap bytes that are reserved for
//!   rows without live records, and drops the table when no entry is alive.
//! - Pages of long values that nobody refers to any more are freed in portions (`longs`).
//! - Collection never waits: what it cannot latch now it tries again at the next call. A long value that cannot be
//!   read is in nobody's way: the entries of its record's keys stay (`longs` has why they may), which is told. Nor is
//!   a page of a tree (`visit`).
//! - A page that is not in memory is asked for ([`Collected::needs`]): who collects loads it, while others run, and calls
//!   again. A record's pages may drive each other out, where hardly any frame is free; and who calls may not be able
//!   to wait, or find no frame. So after [`ASKED_MAX`] pages for one record, or when one could not be loaded, the rest of
//!   its visit loads with the thread blocked, into frames that others do not get (`buffer/surely.rs`): it always ends.
//!
//! **What others do in between.** A call ends with nothing held: no latch, no borrow; what it has done is in the queue
//! (a transaction goes back to the front, with the record that is next), and the next call begins with what it finds
//! there. So it is as good as any call that a quota or a busy latch ended, and whoever calls next, the collector or
//! VACUUM, goes on with the same record. A `Stop` in the middle of a transaction is harmless, for every step may be done
//! twice: an entry or a row that is gone is not found, and what is noted once (long values) is noted in the step
//! that takes the row or in that which passes the record, at its end. The order is the queue's: nothing behind a
//! record is passed before it. What was below the horizon once stays so: nobody takes a snapshot there any more.
//! Transactions of the own instance run in between, as those of others always could: none of them counts on a
//! record being visited in one go. If nobody calls again (the database closes) the undo is there still.

mod merges;
mod missing;
mod passed;
mod postponed;
mod twins;
mod visit;

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::rc::Rc;
use std::sync::Arc;

use rustc_hash::FxHashMap;

use super::access::{TableAccess, Tables};
use super::arena::{Arena, ChunkPool};
use super::entries::Scratch;
use super::exact::Unswept;
use super::imaging::Listed;
use super::longs::{Garbage, unless_unread};
use super::record::{Flags, Header, ImageReader};
use super::space::UndoRef;
use super::twin::{Made, VersionSpace};
use crate::base::{
    Cts, Error, HomeId, InstanceId, NeededPage, Outcome, Result, SlotId, Stop, TreeId,
};
use crate::buffer::{FrameRef, StepLoads};
use crate::sync::{mutant, point};
use crate::tree::hints::LeafHints;
use crate::tree::table::AppendCursor;

use self::merges::Merges;
use self::passed::Ahead;
pub use self::passed::{Passed, Reaped};
pub(crate) use self::postponed::Postponed;
use self::twins::Twin;
use self::visit::{Unreadable, visit};

/// Loads with the thread blocked for one visit at most.
const LOADS_MAX: usize = 64;
/// Pages that are asked for for one record: some more than the leaves of a row with a dozen indexes.
const ASKED_MAX: u32 = 32;
/// What a page that is asked for takes of a portion, in records.
const ASKED_COST: usize = 16;

/// Parts of an instance's share of undo memory, in sixteenths: above the first, old snapshots are
/// ended until it takes no more than the second, if that gives back at least the third.
const END_ABOVE: u64 = 12;
const END_TO: u64 = 8;
const END_FOR: u64 = 1;
/// ... and above this a checkpoint that holds undo back is given up.
const LET_GO_ABOVE: u64 = 14;

fn part(share: u64, sixteenths: u64) -> u64 {
    share / 16 * sixteenths
}

/// What a collection may take.
#[derive(Clone, Copy, Debug)]
pub struct CollectLimit {
    /// Records with a cts below go (rule 6.8: clock first, then all floors).
    pub horizon: Cts,
    /// ... if the own instance's stable mark has reached theirs.
    pub stable: Cts,
}

impl CollectLimit {
    pub(super) fn has_passed(&self, cts: Cts) -> bool {
        cts < self.horizon && (cts <= self.stable || mutant("collect-unstable"))
    }
}

/// What a collection did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Collected {
    /// Transactions whose undo is gone.
    pub transactions: usize,
    /// Twin tables dropped.
    pub twins: usize,
    /// Pages of long values freed.
    pub pages: usize,
    /// Leaves merged with a neighbour.
    pub merged: usize,
    /// Records passed, of transactions whose undo may be here still.
    pub records: usize,
    /// Whether the quota (or a latch that was busy) ended it, not the limit: call again soon.
    pub more: bool,
    /// A page without which it does not go on: load it and call again. Who cannot wait, or finds no frame, calls
    /// again without it.
    pub needs: Option<NeededPage>,
}

impl Collected {
    /// Whether it got on at all. If not, what is in the way are pages: in use, or without room in the
    /// buffer pool beside each other.
    pub(crate) fn got_on(&self) -> bool {
        self.transactions + self.twins + self.pages + self.merged + self.records > 0
    }
}

/// Undo of a transaction that has ended.
pub(crate) struct Finished {
    pub(crate) arena: Rc<Arena>,
    /// The newest record not yet looked at; 0 when all were.
    pub(crate) next: u64,
    /// Where its undo ends.
    pub(crate) end: u64,
    /// How long it is.
    pub(crate) bytes: u64,
    /// Its commit; zero if it rolled back (its records are in no chain).
    pub(crate) cts: Cts,
    /// Whether any record needs a visit.
    pub(crate) visits: Visits,
}

/// Whether records need visits.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Visits {
    Some,
    None,
}

/// One instance's share: its undo chunks, its arenas, its collection queue. Not `Sync`.
pub struct InstanceVersions {
    space: Arc<VersionSpace>,
    instance: InstanceId,
    /// Limit of all instances' twin tables, as far as this instance enforces it.
    twin_bytes_max: u64,
    pool: Rc<ChunkPool>,
    /// Where this instance appends to each tree.
    cursors: RefCell<FxHashMap<TreeId, AppendCursor>>,
    /// Where this instance found rows and keys.
    pub(crate) hints: LeafHints,
    queue: RefCell<VecDeque<Finished>>,
    /// Leaves whose twin table somebody has to look after.
    twins: RefCell<VecDeque<Twin>>,
    /// Transactions that were ever queued, and of those, collected.
    queued: Cell<u64>,
    collected: Cell<u64>,
    pub(super) scratch: RefCell<Scratch>,
    /// Long values to be freed.
    garbage: Garbage,
    /// Nodes with little in them, to be merged with a neighbour.
    merges: Merges,
    asked: Cell<Asked>,
    /// What a page that was asked for has left of the portion; 0: none was.
    portion_left: Cell<usize>,
    /// Index leaves that are to be made exact.
    unswept: Unswept,
    /// Index entries that are to go when a checkpoint has copied their index.
    postponed: Postponed,
    /// How far deletes were visited ahead of their time.
    ahead: Cell<Ahead>,
    /// Leaves that the checkpoint that is being made is to image soon.
    pub(super) listed: RefCell<Listed>,
}

impl InstanceVersions {
    /// Creates the instance's share; its undo takes at most `undo_bytes_max` (at least one chunk
    /// of 16 KiB per transaction that writes at a time), and `hints` are where it finds rows and keys.
    pub fn new(
        space: Arc<VersionSpace>,
        instance: InstanceId,
        undo_bytes_max: u64,
        hints: LeafHints,
    ) -> Rc<Self> {
        Rc::new(InstanceVersions {
            pool: Rc::new(ChunkPool::new(Arc::clone(&space), instance, undo_bytes_max)),
            twin_bytes_max: (undo_bytes_max * space.instances() as u64).max(1 << 20),
            postponed: Postponed::new(Arc::clone(&space)),
            space,
            instance,
            cursors: RefCell::default(),
            hints,
            queue: RefCell::default(),
            twins: RefCell::default(),
            queued: Cell::new(0),
            collected: Cell::new(0),
            scratch: RefCell::default(),
            garbage: Garbage::default(),
            merges: Merges::default(),
            asked: Cell::default(),
            portion_left: Cell::new(0),
            unswept: Unswept::default(),
            ahead: Cell::default(),
            listed: RefCell::default(),
        })
    }

    /// What all instances share.
    pub fn space(&self) -> &Arc<VersionSpace> {
        &self.space
    }

    /// Bytes of undo in use now.
    pub fn undo_bytes(&self) -> u64 {
        self.pool.used_bytes()
    }

    /// Whether undo takes nearly all of the share: who holds it back and can let go should.
    pub fn is_nearly_full(&self) -> bool {
        self.pool.used_bytes() > part(self.pool.bytes_max(), LET_GO_ABOVE)
    }

    /// Ended transactions whose undo is still here.
    pub fn finished(&self) -> usize {
        self.queue.borrow().len()
    }

    /// How many transactions were collected: the number of the oldest that was not.
    pub(super) fn collected(&self) -> u64 {
        self.collected.get()
    }

    /// The commit of an ended transaction, by its number, and whether its records need visits.
    pub(super) fn ended(&self, number: u64) -> Option<(Cts, Visits)> {
        let index = number.checked_sub(self.collected.get())?;
        self.queue.borrow().get(index as usize).map(|it| (it.cts, it.visits))
    }

    /// An ended transaction's undo, and the newest of its records that was not looked at; none if
    /// it rolled back.
    pub(super) fn records_of(&self, number: u64) -> Option<(Rc<Arena>, u64)> {
        let index = number.checked_sub(self.collected.get())?;
        let queue = self.queue.borrow();
        let finished = queue.get(index as usize).filter(|it| it.cts > Cts::ZERO)?;
        Some((Rc::clone(&finished.arena), finished.next))
    }

    /// All records of an ended transaction that need it were visited.
    pub(super) fn needs_no_visits(&self, number: u64) {
        let index = number.wrapping_sub(self.collected.get());
        if let Some(finished) = self.queue.borrow_mut().get_mut(index as usize) {
            finished.visits = Visits::None;
        }
    }

    /// Whether there is nothing to collect, now or later: no undo, no long values, no leaf whose
    /// twin is to be dropped, none to be merged and none to be made exact. (The last three outlive
    /// the undo they came from, on an instance where no other transaction ends.)
    pub fn is_clean(&self) -> bool {
        self.queue.borrow().is_empty()
            && self.garbage.is_empty()
            && self.twins.borrow().is_empty()
            && !self.space.has_parked(self.instance)
            && self.merges.is_empty()
            && self.postponed.is_empty()
            && self.unswept.is_empty()
    }

    /// Frees pages of long values that nobody refers to, about `pages_max`; answers how many.
    pub fn free_garbage(&self, pages_max: usize) -> usize {
        self.garbage.free(pages_max)
    }

    /// Why some pages of long values could not be freed, if so.
    pub fn lost_pages(&self) -> Option<Error> {
        self.garbage.failure()
    }

    pub(super) fn unswept(&self) -> &Unswept {
        &self.unswept
    }

    pub(crate) fn postponed(&self) -> &Postponed {
        &self.postponed
    }

    pub(crate) fn garbage(&self) -> &Garbage {
        &self.garbage
    }

    /// Forgets where rows were appended to a tree that was dropped.
    pub fn forget_tree(&self, tree: TreeId) {
        self.cursors.borrow_mut().remove(&tree);
    }

    pub(crate) fn arena(&self, slot: SlotId) -> Rc<Arena> {
        Rc::new(Arena::new(&self.pool, slot))
    }

    /// Runs `append` with this instance's cursor of the tree.
    pub(crate) fn with_cursor<R>(
        &self,
        tree: TreeId,
        append: impl FnOnce(&mut AppendCursor) -> R,
    ) -> R {
        let mut cursors = self.cursors.borrow_mut();
        let new = || AppendCursor::new(HomeId(self.instance.0));
        append(cursors.entry(tree).or_insert_with(new))
    }

    /// Room for a record of `words` in an own arena, and for what its twin entry may need; asked
    /// for before any latch (rule 4.6). Error: `OutOfMemory`.
    #[inline]
    pub(crate) fn reserve(&self, arena: &Arena, words: usize) -> Result<()> {
        // Tables are made under a latch, so their limit is looked at here: it may be overrun by
        // one table per operation that runs.
        if self.space.twin_bytes() > self.twin_bytes_max {
            return Err(Error::OutOfMemory { what: "undo" });
        }
        arena.reserve(words)
    }

    /// Notes a leaf whose twin table somebody made.
    pub(crate) fn note_twin(&self, made: Made, leaf: FrameRef) {
        if made == Made::Table {
            // Not one more, though its maker is still running: if that one takes long on an
            // otherwise idle instance, those behind it in the queue would wait for its end.
            let after = self.queued.get();
            self.twins.borrow_mut().push_back(Twin { leaf, after, horizon: Cts::ZERO });
            self.list(leaf);
        }
    }

    /// Queues the undo of an ended transaction.
    pub(crate) fn queue(&self, finished: Finished) {
        self.queued.set(self.queued.get() + 1);
        self.queue.borrow_mut().push_back(finished);
    }

    /// If undo takes more than [`END_ABOVE`] of the share: below which timestamp no snapshot may be
    /// if it is to shrink to [`END_TO`], the oldest undo first (rule 6.9). None if no snapshot is in
    /// its way (what is not stable, or of a running transaction, no snapshot's end lets go of), or
    /// if all together hold back less than [`END_FOR`]. Ask after a collection within `limit`.
    pub fn snapshots_to_end(&self, limit: CollectLimit) -> Option<Cts> {
        let (used, share) = (self.pool.used_bytes(), self.pool.bytes_max());
        if used <= part(share, END_ABOVE) {
            return None;
        }
        let wanted = used - part(share, END_TO);
        let (mut bytes, mut below) = (0, Cts::ZERO);
        for finished in self.queue.borrow().iter() {
            if finished.cts > limit.stable || bytes >= wanted {
                break;
            }
            bytes += finished.bytes;
            below = below.max(finished.cts.next());
        }
        (below > limit.horizon && bytes >= part(share, END_FOR)).then_some(below)
    }

    /// Reclaims up to about `records_max` records of finished transactions, oldest first, then
    /// looks after twin tables. Takes leaf latches one at a time; blocks the thread only for a record whose pages
    /// were asked for in vain. Called by the instance as a system task.
    pub fn collect(
        &self,
        limit: CollectLimit,
        tables: &dyn Tables,
        records_max: usize,
    ) -> Collected {
        let mut done = Collected::default();
        // Leaves are looked after once a portion, not once for each page.
        let mut left = match self.portion_left.take() {
            0 => records_max,
            left => left.min(records_max),
        };
        let mut scratch = self.scratch.take();
        while !done.more {
            let Some(mut finished) = self.queue.borrow_mut().pop_front() else { break };
            let waits = finished.visits == Visits::Some && self.postponed.is_full();
            if waits || !limit.has_passed(finished.cts) {
                self.queue.borrow_mut().push_front(finished);
                break;
            }
            let left_before = left;
            let visited = self.visit_all(&mut finished, tables, &mut left, &mut scratch);
            done.records += left_before - left;
            done.more = !matches!(visited, Ok(Visited::All));
            if done.more {
                self.queue.borrow_mut().push_front(finished);
                if let Err(Stop::NeedPage(page)) = visited {
                    done.needs = Some(page);
                }
                break;
            }
            point("undo reclaim");
            finished.arena.reclaim(finished.end);
            self.collected.set(self.collected.get() + 1);
            done.transactions += 1;
            left = left.saturating_sub(1);
            done.more = left == 0 && !self.queue.borrow().is_empty();
        }
        self.scratch.replace(scratch);
        if done.needs.is_some() && left > ASKED_COST {
            self.portion_left.set(left - ASKED_COST);
            return done;
        }
        if done.needs.is_none() {
            self.remove_postponed(tables, records_max, &mut done);
        }
        done.pages = self.garbage.free(records_max);
        done.more |= !self.garbage.is_empty();
        self.sweep_twins(limit, records_max, &mut done);
        if done.needs.is_none() {
            self.merge_underfull(tables, &mut done);
            done.more |= done.needs.is_some();
        }
        done
    }

    /// A page that a collection needs could not be loaded: the record's visit does it with the thread blocked.
    pub fn could_not_load(&self) {
        self.asked.set(Asked { times: ASKED_MAX, ..self.asked.get() });
        self.postponed.could_not_load();
    }

    /// Visits the records that need it.
    fn visit_all(
        &self,
        finished: &mut Finished,
        tables: &dyn Tables,
        left: &mut usize,
        scratch: &mut Scratch,
    ) -> Outcome<Visited> {
        if finished.visits == Visits::None {
            return Ok(Visited::All);
        }
        finished.arena.pass(finished.end);
        while finished.next != 0 {
            if *left == 0 {
                return Ok(Visited::Some);
            }
            let record = finished.arena.read(finished.next, &mut scratch.image);
            if record.needs_visit() {
                let at = finished.arena.at(finished.next);
                if let Some(table) = tables.table(record.tree) {
                    let visited = self.visit_loading(&table, at, &record, scratch);
                    // Where entries go, leaves are merged.
                    self.note_alone_in_indexes(&table);
                    visited?;
                }
                // Last, for it is done once. Without a table too: an image is in no leaf.
                if record.flags.has(Flags::LONG) {
                    self.garbage.add_image(ImageReader::new(&scratch.image, record.columns));
                }
            }
            finished.next = record.previous;
            *left -= 1;
        }
        Ok(Visited::All)
    }

    /// Visits a record. `NeedPage`, if it was not asked for too often; then leaves that were evicted are loaded with
    /// the thread blocked. `Retry` if they do not stay in memory even so: so few frames may be free that one page
    /// drives the other out.
    pub(super) fn visit_loading(
        &self,
        table: &TableAccess,
        at: UndoRef,
        record: &Header,
        scratch: &mut Scratch,
    ) -> Outcome<()> {
        let (mut loads, mut unreadable) = (StepLoads::default(), Unreadable::default());
        for _ in 0..LOADS_MAX {
            match visit(self, table, (at, record), scratch, &unreadable) {
                Err(Stop::NeedPage(page)) => {
                    if self.may_ask_for(at) {
                        return Err(Stop::NeedPage(page));
                    }
                    let loaded = loads.load(table.tree.pool(), page).map_err(Stop::Error);
                    if unless_unread(&table.tree, loaded)?.is_none() {
                        unreadable.add(page);
                    }
                }
                done => return done,
            }
        }
        Err(Stop::Retry)
    }

    /// Whether who collects is to load one page more for this record. Counts it.
    fn may_ask_for(&self, record: UndoRef) -> bool {
        let asked = Some(self.asked.get()).filter(|asked| asked.record == record);
        let times = asked.map_or(0, |asked| asked.times);
        self.asked.set(Asked { record, times: times.saturating_add(1) });
        times < ASKED_MAX && !mutant("collection-blocks")
    }
}

/// How much of a transaction was visited.
#[derive(Clone, Copy)]
enum Visited {
    All,
    /// The quota ended it.
    Some,
}

/// The record for which pages were asked for last, and how many.
#[derive(Clone, Copy)]
struct Asked {
    record: UndoRef,
    times: u32,
}

impl Default for Asked {
    fn default() -> Asked {
        Asked { record: UndoRef::NONE, times: 0 }
    }
}
