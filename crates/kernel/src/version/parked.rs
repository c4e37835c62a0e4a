//! Twin tables of leaves that were evicted (rule 4.4): kept by the leaf's place until it is loaded.
//!
//! A leaf with older versions leaves memory like any other; its twin table does not. It is *parked*
//! here when the leaf is evicted, and hangs from the new frame when the leaf is loaded. Meanwhile
//! collection sweeps it where it is: when no entry counts any more the table is dropped, and the leaf
//! is one without a twin, though nobody has read it.
//!
//! Invariants:
//! - A table is parked under a place exactly while a live tree's swip says that its leaf is evicted
//!   to that place. Parking and taking back come with the leaf's frame and its parent held
//!   exclusively, before the parent shows the swip, so whoever has seen the swip and finds the parent
//!   unchanged afterwards knows whether there is a table.
//! - A parked table is written by its sweep only, under the shard's mutex; nobody reads it.
//! - Heap bytes that a sweep finds to be reserved for nothing are *owed*: they are given back in the
//!   page when it is loaded. A loaded leaf without a table has nothing reserved.
//!
//! One mutex a shard, places of one home in one; taken by evictions and loads of leaves, nothing is
//! waited for or latched under it.

use std::collections::VecDeque;

use crossbeam_utils::CachePadded;
use rustc_hash::FxHashMap;

use super::twin::{Swept, VersionSpace};
use crate::base::{Cts, InstanceId, Place};
use crate::buffer::{FrameRef, SideSlot, SideStore};
use crate::sync::{AtomicU64, AtomicUsize, Ordering, PlainMutex as Mutex};

/// The parked tables of one database.
pub(super) struct Parked {
    shards: Box<[CachePadded<Shard>]>,
    /// How often a table was parked: for who must know that none was meanwhile (imaging.rs). Written under
    /// a shard's mutex, before its count.
    parkings: AtomicU64,
}

#[derive(Default)]
struct Shard {
    tables: Mutex<Tables>,
    /// How many there are, for who need not look then. Written under the mutex.
    count: AtomicUsize,
}

#[derive(Default)]
struct Tables {
    by_place: FxHashMap<Place, Table>,
    /// Those of trees that were dropped.
    dropped: Vec<Table>,
    /// The order in which they are swept: places, and how often anything was parked before. What was
    /// taken back since has no table, or a newer one.
    order: VecDeque<(Place, u64)>,
    parked: u64,
}

#[derive(Default)]
struct Table {
    side: SideSlot,
    /// Heap bytes that the page reserves for nothing.
    owed: u32,
    /// The horizon at its last sweep.
    swept: Cts,
    /// How often anything was parked before.
    number: u64,
}

impl Parked {
    /// With this many shards.
    pub fn new(shards: usize) -> Parked {
        let shards = (0..shards.max(1)).map(|_| CachePadded::default()).collect();
        Parked { shards, parkings: AtomicU64::new(0) }
    }

    fn shard(&self, place: Place) -> &Shard {
        &self.shards[usize::from(place.home().0) % self.shards.len()]
    }
}

impl Shard {
    fn with<R>(&self, change: impl FnOnce(&mut Tables) -> R) -> R {
        let mut tables = self.tables.lock().expect("no holder panics");
        let result = change(&mut tables);
        // Who must know at once has seen the parent's swip, which comes later; partner of release is
        // `has_any_parked`.
        self.count.store(tables.by_place.len() + tables.dropped.len(), Ordering::Release);
        result
    }
}

impl VersionSpace {
    /// Whether an instance's collection has parked tables to sweep.
    pub(super) fn has_parked(&self, instance: InstanceId) -> bool {
        let shard = &self.parked.shards[usize::from(instance.0) % self.parked.shards.len()];
        shard.count.load(Ordering::Relaxed) != 0
    }

    /// Whether any table is parked, and how often any was.
    pub(super) fn parked_now(&self) -> (bool, u64) {
        let count = |shard: &CachePadded<Shard>| shard.count.load(Ordering::Acquire);
        let is_any = self.parked.shards.iter().any(|shard| count(shard) != 0);
        (is_any, self.parked.parkings.load(Ordering::SeqCst))
    }

    /// Sweeps up to `tables_max` parked tables of the instance's shard that were not swept below this
    /// horizon; answers how many were dropped.
    pub(super) fn sweep_parked(
        &self,
        instance: InstanceId,
        horizon: Cts,
        tables_max: usize,
    ) -> usize {
        if !self.has_parked(instance) {
            return 0;
        }
        let shard = &self.parked.shards[usize::from(instance.0) % self.parked.shards.len()];
        shard.with(|tables| {
            let before = tables.by_place.len() + tables.dropped.len();
            tables.dropped.retain(|table| self.sweep_table(&table.side).0 == Swept::Needed);
            for _ in 0..tables_max {
                let Some((place, number)) = tables.order.pop_front() else { break };
                let table = tables.by_place.get_mut(&place);
                let Some(table) = table.filter(|table| table.number == number) else { continue };
                if table.swept >= horizon {
                    tables.order.push_front((place, number));
                    break;
                }
                table.swept = horizon;
                let (swept, given_back) = self.sweep_table(&table.side);
                table.owed += given_back;
                if swept == Swept::Gone {
                    tables.by_place.remove(&place);
                } else {
                    tables.order.push_back((place, number));
                }
            }
            before - tables.by_place.len() - tables.dropped.len()
        })
    }
}

impl SideStore for VersionSpace {
    fn park(&self, place: Place, leaf: FrameRef) {
        let side = SideSlot::default();
        side.store(leaf.side().load());
        leaf.side().store(std::ptr::null_mut());
        self.parked.shard(place).with(|tables| {
            self.parked.parkings.fetch_add(1, Ordering::SeqCst);
            let number = tables.parked;
            tables.parked += 1;
            tables.by_place.insert(place, Table { side, number, ..Table::default() });
            tables.order.push_back((place, number));
        });
    }

    fn take_back(&self, place: Place, leaf: FrameRef) -> Option<u32> {
        let shard = self.parked.shard(place);
        if shard.count.load(Ordering::Relaxed) == 0 {
            return None;
        }
        let table = shard.with(|tables| {
            let table = tables.by_place.remove(&place)?;
            leaf.side().store(table.side.load());
            // Who looked after it has lost it. Before it is parked no more: imaging.rs.
            self.note_split(leaf);
            Some(table)
        })?;
        Some(table.owed)
    }

    fn is_parked(&self, place: Place) -> bool {
        let shard = self.parked.shard(place);
        shard.count.load(Ordering::Relaxed) != 0
            && shard.with(|tables| tables.by_place.contains_key(&place))
    }

    fn dropped(&self, place: Place) {
        let shard = self.parked.shard(place);
        if shard.count.load(Ordering::Relaxed) != 0 {
            shard.with(|tables| {
                let table = tables.by_place.remove(&place);
                tables.dropped.extend(table);
            });
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::super::space::UndoRef;
    use super::*;
    use crate::base::{HomeId, RowId, SlotId, TreeId};
    use crate::buffer::BufferPool;
    use crate::page::PageKind;

    const PLACE: Place = Place::new(HomeId(0), 7);

    /// A space whose records are alive, and a frame.
    fn world() -> (std::sync::Arc<VersionSpace>, std::sync::Arc<BufferPool>, FrameRef) {
        let pool = BufferPool::new(1, 4 << 20).expect("there is memory");
        let mut reserved = pool.reserve(HomeId(0), 1).expect("the pool is empty");
        let frame = pool.allocate(&mut reserved, PageKind::TableLeaf, TreeId(9)).release();
        let space = VersionSpace::new(1);
        space.undo().arena(InstanceId(0), SlotId(0));
        (space, pool, frame)
    }

    fn record(number: u64) -> UndoRef {
        UndoRef::new(InstanceId(0), SlotId(0), number)
    }

    #[test]
    fn a_table_comes_back_with_its_leaf() {
        let (space, _pool, frame) = world();
        space.set_newest(frame.side(), RowId(3), record(5));
        assert!(!space.is_parked(PLACE) && space.take_back(PLACE, frame).is_none());
        space.park(PLACE, frame);
        assert!(space.is_parked(PLACE) && frame.side().load().is_null());
        assert!(space.has_parked(InstanceId(0)));
        assert_eq!(space.sweep_parked(InstanceId(0), Cts(10), 9), 0, "the record is alive");
        assert_eq!(space.take_back(PLACE, frame), Some(0));
        assert_eq!(super::super::twin::newest(frame.side(), RowId(3)), record(5));
        assert!(!space.is_parked(PLACE) && !space.has_parked(InstanceId(0)));
        // Again, at the same place: it is swept once for each horizon.
        space.park(PLACE, frame);
        assert_eq!(space.sweep_parked(InstanceId(0), Cts(11), 9), 0);
        space.take_back(PLACE, frame);
    }

    #[test]
    fn what_nobody_needs_goes_where_it_is_and_what_it_reserved_is_owed() {
        let (space, _pool, frame) = world();
        let reclaimed = |number| space.undo().arena(InstanceId(0), SlotId(0)).set_reclaimed(number);
        space.set_newest(frame.side(), RowId(3), record(5));
        space.add_reserved(frame.side(), RowId(3), 40);
        space.set_newest(frame.side(), RowId(4), record(50));
        reclaimed(6);
        space.park(PLACE, frame);
        assert_eq!(space.sweep_parked(InstanceId(0), Cts(10), 9), 0, "row 4 has an older version");
        assert_eq!(space.take_back(PLACE, frame), Some(40));
        reclaimed(51);
        space.park(PLACE, frame);
        assert_eq!(space.sweep_parked(InstanceId(0), Cts(11), 9), 1);
        assert!(!space.is_parked(PLACE) && space.take_back(PLACE, frame).is_none());
        // A tree's that was dropped: its place may be another page's at once.
        space.set_newest(frame.side(), RowId(4), record(60));
        space.park(PLACE, frame);
        SideStore::dropped(&*space, PLACE);
        assert!(!space.is_parked(PLACE) && space.has_parked(InstanceId(0)));
    }
}
