//! One tree of a checkpoint: its leaves and inner nodes above them.
//!
//! A tree is walked from its first key to its last: the leaf that covers the place is imaged, and
//! the next one begins at its upper fence; of one that begins before the place (it was merged with
//! what has been imaged) only the rest is taken. So the images tile the keys without gap or overlap
//! whatever is split or merged meanwhile, and inner nodes are made anew from the images' fences: no
//! page need stand still, and no structure need be caught at one moment. Indexes: `index.rs`; tables: `table.rs`.
//!
//! Invariants: leaves that lie on disk as they are are not written again, nor read if they are not in
//! memory: a leaf without a twin, in memory or parked, has nothing above S; if that is so for all
//! leaves of the tree, and the published checkpoint has every one of them, its inner nodes are taken
//! over too: a change of the tree's structure would have changed a leaf. Leaves and inner nodes at the
//! end of a file that is to become shorter are written again all the same (store/compact.rs): a leaf
//! that was evicted is loaded for that, and counts as clean at its new place when that is written.
//! Of a leaf that is not as it lies on disk, and whose image is not what it is now, the place is given
//! up if a checkpoint has it, or the file is to be shorter: it would keep what only a checkpoint needs, if
//! anybody. Another's is kept: on a full disk it is the one where the leaf can be written.
//! Inner nodes in memory are not imaged, so their places are no checkpoint's (but those that a
//! start has found): where a file is to be shorter they leave them, and are written elsewhere when they leave
//! memory. The walk loads each node that is not in memory.
//! The place of a leaf that is not written again is held before what was read of the leaf is believed, its place
//! too (`PageRead::still_lies_at`): nobody writes it anew in between, and it is no other page's by then.

use std::cell::Cell;
use std::rc::Rc;
use std::sync::Arc;

use super::image::Leaf;
use crate::base::{Error, Outcome, PAGE_BYTES, Pid, Place, Result, Stop, TreeId};
use crate::buffer::{BufferPool, Equals, ImageWriter, Swip};
use crate::log::manifest::{HasLongs, TreeImage};
use crate::page::{PageKind, header};
use crate::runtime::{InstanceState, Parker};
use crate::store::{PageStore, Term};
use crate::sync::{ledger, mutant};
use crate::tree::descent::LeavePlaces;
use crate::tree::nodes::{NodeSink, Nodes};

type Page = [u8; PAGE_BYTES];

/// Inner nodes that are read before the walk is there, and at most such a part of the pool.
const NODES_AHEAD: usize = 16;
const NODES_AHEAD_PART: usize = 64;

/// A tree's image and the places of its inner nodes.
#[derive(Clone, Debug)]
pub struct ImagedTree {
    /// What the manifest says of it; row ids and long values are to be filled in when all
    /// trees are imaged.
    pub image: TreeImage,
    /// Its inner nodes, the root among them.
    pub inner: Vec<Place>,
}

/// Inner nodes on their way to disk.
struct InnerNodes<'w, 'c, S: InstanceState> {
    writer: &'w mut ImageWriter<'c, S>,
    tree: TreeId,
    inner: Vec<Place>,
    page: Box<Page>,
}

impl<S: InstanceState> NodeSink for InnerNodes<'_, '_, S> {
    fn put(&mut self, _level: usize, fill: &dyn Fn(&mut Page)) -> Result<u64> {
        header::format(&mut self.page, PageKind::Inner, Pid(0), self.tree);
        fill(&mut self.page);
        let place = self.writer.add(&self.page, Equals::Nothing)?;
        self.inner.push(place);
        Ok(Swip::evicted(place).raw())
    }
}

/// Which leaves that lie on disk as they are are written again, elsewhere; the others are held.
pub(super) struct Moves {
    store: Arc<PageStore>,
    term: Term,
    /// There was no frame for one of them: the others of this share stay where they are.
    are_given_up: Cell<bool>,
}

impl Moves {
    pub(super) fn new(store: Arc<PageStore>, term: Term) -> Rc<Moves> {
        Rc::new(Moves { store, term, are_given_up: Cell::new(false) })
    }

    fn may_stay(&self, place: Place) -> bool {
        self.are_given_up.get()
            || !self.store.must_move(place)
            || mutant("compaction-leaves-leaves")
    }

    /// Takes the leaf that was read to lie at `place` into the checkpoint, if it may stay there. `Retry`
    /// if it is being written there: what was read does not hold any more, or will be so in a moment.
    pub(super) fn keep(&self, place: Place) -> Outcome<bool> {
        if !self.may_stay(place) {
            return Ok(false);
        }
        match self.store.hold_as_it_lies(place, self.term) {
            true => Ok(true),
            false => Err(Stop::Retry),
        }
    }
}

/// Makes images and gives them to a writer.
pub(super) struct Imager<'w, 'c, S: InstanceState> {
    pub(super) writer: &'w mut ImageWriter<'c, S>,
    pub(super) moves: Rc<Moves>,
    pub(super) page: Box<Page>,
}

fn new_page() -> Box<Page> {
    vec![0; PAGE_BYTES].into_boxed_slice().try_into().expect("a page long")
}

impl<'w, 'c, S: InstanceState> Imager<'w, 'c, S> {
    pub(super) fn new(writer: &'w mut ImageWriter<'c, S>) -> Self {
        let moves = Moves::new(writer.store().clone(), writer.term());
        Imager { writer, moves, page: new_page() }
    }

    /// Runs an operation until it has an answer. It holds nothing, so whatever it waits for goes on
    /// while others run.
    pub(super) fn until_done<T>(
        &mut self,
        pool: &BufferPool,
        mut operation: impl FnMut(&mut Page) -> Outcome<T>,
    ) -> Result<T> {
        loop {
            match operation(&mut self.page) {
                Ok(value) => return Ok(value),
                Err(Stop::Retry | Stop::WaitFor(_)) => {
                    let _pause = ledger::timed(ledger::What::Retry);
                    self.writer.context().yield_now();
                }
                Err(Stop::Error(error)) => return Err(error),
                // Evicted since it was looked for; rarely its image needs less than all of it. Or it
                // is to be moved, for which no checkpoint is to fail. Or it is an inner node, which no
                // other page can stand for: at last a frame is found for it that is kept.
                Err(Stop::NeedPage(page)) => match pool.load(page, self.writer.context()) {
                    Err(Error::OutOfMemory { .. }) if !self.moves.are_given_up.get() => {
                        self.moves.are_given_up.set(true);
                    }
                    Err(Error::OutOfMemory { .. }) => pool.load_now(page)?,
                    loaded => loaded?,
                },
            }
        }
    }

    /// Has the inner nodes above a leaf leave places where the file is to be shorter, and begins to read those that
    /// the walk needs next: `leave` is a tree's, and answers where the keys below the leaf's parent end.
    pub(super) fn leave_places<K>(
        &mut self,
        pool: &Arc<BufferPool>,
        mut leave: impl FnMut(LeavePlaces<'_>) -> Outcome<Option<K>>,
    ) -> Result<Option<K>> {
        let moves = self.moves.clone();
        let must_leave = |place| moves.store.must_move(place);
        let most = NODES_AHEAD.min(pool.frames() / NODES_AHEAD_PART);
        let context = self.writer.context();
        self.until_done(pool, |_| {
            let mut missing = Vec::new();
            let left = leave(LeavePlaces { must_leave: &must_leave, missing: &mut missing, most });
            pool.load_soon(context, &missing);
            left
        })
    }

    /// Takes the leaf just imaged into the checkpoint; answers its place, and whether the published
    /// one has it there, too.
    pub(super) fn take(&mut self, leaf: Leaf) -> Result<(Place, bool)> {
        let writer = &mut *self.writer;
        // Nobody is to be evicted for a checkpoint.
        drop(writer.take_cleaned());
        let taken = match leaf {
            Leaf::Clean(place) => (place, writer.is_held(place)),
            Leaf::Whole(read) => {
                if read.clean_place().is_some() {
                    writer.note_moved();
                }
                (writer.add(&self.page, Equals::Contents(read))?, false)
            }
            Leaf::Older(read) => {
                writer.give_up_place(read);
                (writer.add(&self.page, Equals::Nothing)?, false)
            }
        };
        writer.breathe();
        Ok(taken)
    }

    /// Builds the inner nodes of `tree` above its leaves, which are given with their lower fences; or
    /// takes those of the published checkpoint over, if it has every one of the leaves where it lies.
    pub(super) fn finish(
        &mut self,
        tree: TreeId,
        leaves: impl ExactSizeIterator<Item = (Vec<u8>, Place)>,
        (all_held, before): (bool, Option<&ImagedTree>),
    ) -> Result<ImagedTree> {
        let count = leaves.len() as u64;
        let store = &self.moves.store;
        let may_stay = |before: &&ImagedTree| {
            mutant("compaction-leaves-inner-nodes")
                || !before.inner.iter().any(|place| store.must_move(*place))
        };
        let is_same = |before: &&ImagedTree| all_held && before.image.leaves == count;
        if let Some(before) = before.filter(is_same).filter(may_stay) {
            before.inner.iter().for_each(|place| self.writer.hold(*place));
            let image = TreeImage { leaves: count, ..before.image };
            return Ok(ImagedTree { image, inner: before.inner.clone() });
        }
        let writer = &mut *self.writer;
        let sink = InnerNodes { writer, tree, inner: Vec::new(), page: new_page() };
        let mut nodes = Nodes::above_leaves(sink);
        for (lower, place) in leaves {
            nodes.push_leaf(&lower, Swip::evicted(place).raw())?;
            nodes.sink.writer.breathe();
        }
        let (_, sink) = nodes.finish()?;
        let root = *sink.inner.last().expect("a tree has a root");
        let longs = HasLongs::No;
        let image = TreeImage { tree, root, longs, rows_next: 0, leaves: count };
        Ok(ImagedTree { image, inner: sink.inner })
    }
}
