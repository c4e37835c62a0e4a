//! A leaf that is written elsewhere, unchanged, while a checkpoint is about to take it as it lies: its place is
//! another page's by then (store rule 2).
#![expect(clippy::unwrap_used, reason = "clippy sees helpers here as no tests under cfg(all)")]

use std::cell::Cell;
use std::rc::Rc;
use std::sync::Arc;

use super::image::{Leaf, index_leaf};
use super::tree::Moves;
use crate::base::{HomeId, Outcome, PAGE_BYTES, Place, RowId, Stop, TreeId};
use crate::buffer::{BufferPool, PageRead};
use crate::io::{SimDisk, SimOptions};
use crate::store::{PageStore, Term};
use crate::tree::index::{IndexTree, Keys, Near};

const HOME: HomeId = HomeId(0);
const TERM: Term = Term(1);

/// An index of one leaf, which is in memory and lies on disk as it is; a checkpoint is being made.
struct World {
    tree: IndexTree,
    store: Arc<PageStore>,
    moves: Rc<Moves>,
    /// Whether the leaf has moved.
    has_moved: Cell<bool>,
}

impl World {
    fn new() -> World {
        let disk = SimDisk::new(SimOptions::seeded(5));
        let store = PageStore::new(Arc::new(disk), 7, 1, 1);
        let pool = BufferPool::over(1, 40 * (PAGE_BYTES + 64), Some(store.clone())).unwrap();
        let tree = IndexTree::create(pool, HOME, TreeId(9)).unwrap();
        tree.insert(Near::Nowhere, (b"key", RowId(1)), Keys::One).unwrap();
        let pool = tree.pool();
        (1..pool.frames()).rev().for_each(|count| drop(pool.reserve(HOME, count)));
        let Err(Stop::NeedPage(page)) = tree.copy_leaf(b"", |_| Ok(())) else { panic!("evicted") };
        pool.load_now(page).unwrap();
        // What is free is taken, so that the leaf's place is the next that is given out.
        while store.take_free(HOME).is_some() {}
        store.begin(TERM);
        let moves = Moves::new(store.clone(), TERM);
        World { tree, store, moves, has_moved: Cell::new(false) }
    }

    fn leaf(&self) -> PageRead {
        self.tree.copy_leaf(b"", |read| Ok(*read)).unwrap()
    }

    /// As `Moves::keep`; the first time the leaf has just been written elsewhere, and another page is where it was.
    fn keep(&self, place: Place) -> Outcome<bool> {
        if !self.has_moved.replace(true) {
            let to = self.store.take(HOME, 1).unwrap();
            self.store.adopt(to.first);
            self.store.replaced(self.leaf().set_clean(to.first).unwrap());
            self.store.written(to);
            let other = loop {
                let run = self.store.take_free(HOME).expect("its place is free");
                if run.first == place {
                    break run;
                }
            };
            self.store.adopt(place);
            self.store.written(other);
        }
        self.moves.keep(place)
    }
}

#[test]
fn who_reads_no_leaf_looks_again_where_it_lies() {
    let world = World::new();
    let before = world.leaf().clean_place().unwrap();
    let keep = |_: &[u8], _: Option<&[u8]>, place: Place| world.keep(place);
    assert!(matches!(world.tree.leaf_place(b"", &keep), Err(Stop::Retry)));
    let after = world.tree.leaf_place(b"", &keep).unwrap().on_disk;
    assert!(after.is_some() && after != Some(before), "{after:?}");
}

#[test]
fn who_copies_a_leaf_looks_again_where_it_lies() {
    let world = World::new();
    let before = world.leaf().clean_place().unwrap();
    let keep = |place: Place| world.keep(place);
    let mut page = Box::new([0; PAGE_BYTES]);
    let looked = index_leaf(&world.tree, ((b"", None), &keep), &mut page, &mut Vec::new());
    let Ok((Leaf::Clean(after), _)) = looked else { panic!("it lies there as it is") };
    assert!(world.has_moved.get() && after != before, "{after:?}");
}
