//! Which rows of each table a checkpoint has imaged: tiles of row ids, made by any instance in any order.
//!
//! Invariants: the tiles of a table never overlap, and cover all its rows in the end. An image is made
//! first and its tile *claimed* then, all of it or nothing; only then is it written and gets its place: of
//! two who have imaged the same rows one writes. A leaf whose tile is claimed needs its older versions no
//! more (`version/imaging.rs`).
//!
//! One mutex a table, held for a look; nothing is waited for or latched under it.

use rustc_hash::FxHashMap as HashMap;
use std::collections::BTreeMap;
use std::sync::Arc;

use super::pieces::Pieces;
use crate::base::{Place, RowId, TreeId};
use crate::sync::{AtomicBool, AtomicUsize, Ordering, PlainMutex as Mutex};
use crate::version::TableAccess;

/// What instances know of each other while they image one checkpoint.
pub struct Common {
    tables: HashMap<TreeId, (Arc<TableAccess>, Tiles)>,
    indexes: HashMap<TreeId, Pieces>,
    /// Instances that have not gone through all their trees.
    left: AtomicUsize,
    has_failed: AtomicBool,
}

impl Common {
    /// Of so many instances, and these tables and indexes.
    pub fn new(
        instances: usize,
        tables: impl Iterator<Item = Arc<TableAccess>>,
        indexes: impl Iterator<Item = TreeId>,
    ) -> Common {
        let tables = tables.map(|table| (table.id(), (table, Tiles::default()))).collect();
        Common {
            tables,
            indexes: indexes.map(|index| (index, Pieces::default())).collect(),
            left: AtomicUsize::new(instances),
            has_failed: AtomicBool::new(false),
        }
    }

    /// A table and its tiles; none if it is not in the checkpoint.
    pub(super) fn table(&self, tree: TreeId) -> Option<&(Arc<TableAccess>, Tiles)> {
        self.tables.get(&tree)
    }

    /// The pieces of an index; none if it is not in the checkpoint.
    pub(super) fn index(&self, tree: TreeId) -> Option<&Pieces> {
        self.indexes.get(&tree)
    }

    /// Whether an instance still goes through its trees.
    pub(super) fn goes_on(&self) -> bool {
        self.left.load(Ordering::Acquire) > 0 && !self.has_failed()
    }

    /// Whether an instance could not image its share.
    pub(super) fn has_failed(&self) -> bool {
        self.has_failed.load(Ordering::Acquire)
    }

    /// This instance has gone through all its trees.
    pub(super) fn end_share(&self) {
        self.left.fetch_sub(1, Ordering::AcqRel);
    }

    /// Tells the others when it is dropped before the end.
    pub(super) fn watched(&self) -> Watched<'_> {
        Watched(Some(self))
    }
}

/// A share that may fail.
pub(super) struct Watched<'a>(Option<&'a Common>);

impl Watched<'_> {
    pub(super) fn succeeded(mut self) {
        self.0 = None;
    }
}

impl Drop for Watched<'_> {
    fn drop(&mut self) {
        if let Some(common) = self.0 {
            common.has_failed.store(true, Ordering::Release);
        }
    }
}

/// The tiles of one table.
#[derive(Default)]
pub(super) struct Tiles {
    /// By their first row.
    tiles: Mutex<BTreeMap<RowId, Tile>>,
}

/// An image.
#[derive(Clone, Copy)]
struct Tile {
    /// The row behind its last; none if it is the table's last tile.
    upper: Option<RowId>,
    /// None until it has got one.
    place: Option<Place>,
    /// Whether the published checkpoint has it there, too.
    is_held: bool,
}

/// What there is at a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum At {
    /// A tile, which ends there, or does not end.
    Tile(Option<RowId>),
    /// Nothing, up to that row, or to the end.
    Gap(Option<RowId>),
}

fn is_below(row: RowId, bound: Option<RowId>) -> bool {
    bound.is_none_or(|bound| row < bound)
}

impl Tiles {
    /// What there is at `row`.
    pub(super) fn at(&self, row: RowId) -> At {
        let tiles = self.tiles.lock().expect("no holder panics");
        let before = tiles.range(..=row).next_back();
        if let Some((_, tile)) = before.filter(|(_, tile)| is_below(row, tile.upper)) {
            return At::Tile(tile.upper);
        }
        At::Gap(tiles.range(row..).next().map(|(first, _)| *first))
    }

    /// Claims the rows from `first` to below `upper`, if nobody has any of them.
    pub(super) fn claim(&self, first: RowId, upper: Option<RowId>) -> bool {
        let mut tiles = self.tiles.lock().expect("no holder panics");
        let before = tiles.range(..=first).next_back();
        let overlaps = before.is_some_and(|(_, tile)| is_below(first, tile.upper))
            || tiles.range(first..).next().is_some_and(|(next, _)| is_below(*next, upper));
        if !overlaps {
            tiles.insert(first, Tile { upper, place: None, is_held: false });
        }
        !overlaps
    }

    /// The tile that begins with `first`, which the caller has claimed, lies there.
    pub(super) fn put(&self, first: RowId, place: Place, is_held: bool) {
        let mut tiles = self.tiles.lock().expect("no holder panics");
        let tile = tiles.get_mut(&first).expect("who claimed it puts it");
        (tile.place, tile.is_held) = (Some(place), is_held);
    }

    /// The first rows and places of all tiles, and whether the published checkpoint has every one; none
    /// while one has no place yet. The tiles cover the table.
    pub(super) fn take(&self) -> Option<(Vec<(RowId, Place)>, bool)> {
        let mut tiles = self.tiles.lock().expect("no holder panics");
        let placed = tiles.iter().map(|(first, tile)| Some((*first, tile.place?)));
        let leaves = placed.collect::<Option<_>>()?;
        let all_held = tiles.values().all(|tile| tile.is_held);
        // Who is told of a leaf later finds all of it covered.
        tiles.clear();
        tiles.insert(RowId(0), Tile { upper: None, place: None, is_held: false });
        Some((leaves, all_held))
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn tiles_do_not_overlap() {
        let tiles = Tiles::default();
        let row = RowId;
        assert_eq!(tiles.at(row(0)), At::Gap(None));
        assert!(tiles.claim(row(10), Some(row(20))));
        assert!(!tiles.claim(row(0), Some(row(11))));
        assert!(!tiles.claim(row(19), None));
        assert!(!tiles.claim(row(12), Some(row(13))));
        assert!(!tiles.claim(row(0), None));
        assert!(tiles.claim(row(0), Some(row(10))));
        assert_eq!(tiles.at(row(9)), At::Tile(Some(row(10))));
        assert_eq!(tiles.at(row(10)), At::Tile(Some(row(20))));
        assert_eq!(tiles.at(row(20)), At::Gap(None));
        assert!(tiles.claim(row(30), None));
        assert_eq!(tiles.at(row(20)), At::Gap(Some(row(30))));
        assert_eq!(tiles.at(row(1 << 40)), At::Tile(None));
        assert!(tiles.claim(row(20), Some(row(30))));
        assert_eq!(tiles.take(), None, "nobody knows where they lie");
        for (at, first) in [0, 10, 20, 30].into_iter().enumerate() {
            tiles.put(row(first), Place(at as u64 + 1), at != 2);
        }
        let (leaves, all_held) = tiles.take().expect("all have places");
        let firsts: Vec<u64> = leaves.iter().map(|(first, _)| first.0).collect();
        assert_eq!((firsts, all_held), (vec![0, 10, 20, 30], false));
        assert_eq!(tiles.at(row(5)), At::Tile(None), "all is imaged");
    }
}
