//! One tree of a checkpoint: its leaves in order of their keys, and inner nodes above them.
//!
//! A tree is walked from its first key to its last: the leaf that covers the place is imaged, and
//! the next one begins at its upper fence; of one that begins before the place (it was merged with
//! what has been imaged) only the rest is taken. So the images tile the keys without gap or overlap
//! whatever is split or merged meanwhile, and inner nodes are made anew from the images' fences: no
//! page need stand still, and no structure need be caught at one moment.
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
//! The place of a leaf that is not written again is held before what was read of the leaf is believed:
//! nobody writes it anew in between.

use std::cell::Cell;
use std::rc::Rc;
use std::sync::Arc;

use super::Share;
use super::image::{Leaf, Work, index_leaf, table_leaf};
use crate::base::{Error, Outcome, PAGE_BYTES, Pid, Place, Result, RowId, Stop, TreeId};
use crate::buffer::{BufferPool, Equals, ImageWriter, Swip};
use crate::log::manifest::{HasLongs, TreeImage};
use crate::page::keynode::UpperFence;
use crate::page::{PageKind, header};
use crate::runtime::{InstanceState, Parker};
use crate::store::{PageStore, Term};
use crate::sync::mutant;
use crate::tree::index::IndexTree;
use crate::tree::nodes::{NodeSink, Nodes};
use crate::version::{TableAccess, TransactionStates};

type Page = [u8; PAGE_BYTES];

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
struct Moves {
    store: Arc<PageStore>,
    term: Term,
    /// There was no frame for one of them: the others of this tree stay where they are.
    are_given_up: Cell<bool>,
}

impl Moves {
    fn may_stay(&self, place: Place) -> bool {
        self.are_given_up.get()
            || !self.store.must_move(place)
            || mutant("compaction-leaves-leaves")
    }

    /// Takes the leaf that was read to lie at `place` into the checkpoint, if it may stay there. `Retry`
    /// if it is being written there: what was read does not hold any more, or will be so in a moment.
    fn keep(&self, place: Place) -> Outcome<bool> {
        if !self.may_stay(place) {
            return Ok(false);
        }
        match self.store.hold_as_it_lies(place, self.term) {
            true => Ok(true),
            false => Err(Stop::Retry),
        }
    }
}

/// Walks a tree's leaves.
struct Walk<'w, 'c, S: InstanceState> {
    nodes: Nodes<InnerNodes<'w, 'c, S>>,
    page: Box<Page>,
    leaves: Vec<(Vec<u8>, Place)>,
    all_held: bool,
    moves: Rc<Moves>,
}

fn new_page() -> Box<Page> {
    vec![0; PAGE_BYTES].into_boxed_slice().try_into().expect("a page long")
}

impl<'w, 'c, S: InstanceState> Walk<'w, 'c, S> {
    fn new(writer: &'w mut ImageWriter<'c, S>, tree: TreeId) -> Self {
        let (store, term) = (writer.store().clone(), writer.term());
        let moves = Moves { store, term, are_given_up: Cell::new(false) };
        let sink = InnerNodes { writer, tree, inner: Vec::new(), page: new_page() };
        let (nodes, page) = (Nodes::above_leaves(sink), new_page());
        Walk { nodes, page, leaves: Vec::new(), all_held: true, moves: Rc::new(moves) }
    }

    /// Runs an operation until it has an answer. It holds nothing, so whatever it waits for goes on
    /// while others run.
    fn until_done<T>(
        &mut self,
        pool: &BufferPool,
        mut operation: impl FnMut(&mut Page) -> Outcome<T>,
    ) -> Result<T> {
        loop {
            match operation(&mut self.page) {
                Ok(value) => return Ok(value),
                Err(Stop::Retry | Stop::WaitFor(_)) => {
                    self.nodes.sink.writer.context().yield_now();
                }
                Err(Stop::Error(error)) => return Err(error),
                // Evicted since it was looked for; rarely its image needs less than all of it. Or it
                // is to be moved, for which no checkpoint is to fail.
                Err(Stop::NeedPage(page)) => {
                    match pool.load(page, self.nodes.sink.writer.context()) {
                        Err(Error::OutOfMemory { .. }) if !self.moves.are_given_up.get() => {
                            self.moves.are_given_up.set(true);
                        }
                        loaded => loaded?,
                    }
                }
            }
        }
    }

    /// Takes the leaf just imaged into the checkpoint.
    fn take(&mut self, leaf: Leaf, lower: Vec<u8>) -> Result<()> {
        let writer = &mut *self.nodes.sink.writer;
        // Nobody is to be evicted for a checkpoint.
        drop(writer.take_cleaned());
        let place = match leaf {
            Leaf::Clean(place) => {
                self.all_held &= writer.is_held(place);
                place
            }
            Leaf::Whole(read) => {
                self.all_held = false;
                if read.clean_place().is_some() {
                    writer.note_moved();
                }
                writer.add(&self.page, Equals::Contents(read))?
            }
            Leaf::Older(read) => {
                self.all_held = false;
                writer.give_up_place(read);
                writer.add(&self.page, Equals::Nothing)?
            }
        };
        self.leaves.push((lower, place));
        writer.breathe();
        Ok(())
    }

    fn finish(mut self, before: Option<&ImagedTree>) -> Result<ImagedTree> {
        let tree = self.nodes.sink.tree;
        let leaves = self.leaves.len() as u64;
        let store = &self.moves.store;
        let may_stay = |before: &&ImagedTree| {
            mutant("compaction-leaves-inner-nodes")
                || !before.inner.iter().any(|place| store.must_move(*place))
        };
        if let Some(before) = before.filter(|_| self.all_held).filter(may_stay) {
            before.inner.iter().for_each(|place| self.nodes.sink.writer.hold(*place));
            let image = TreeImage { leaves, ..before.image };
            return Ok(ImagedTree { image, inner: before.inner.clone() });
        }
        for (lower, place) in std::mem::take(&mut self.leaves) {
            self.nodes.push_leaf(&lower, Swip::evicted(place).raw())?;
            self.nodes.sink.writer.breathe();
        }
        let (_, sink) = self.nodes.finish()?;
        let root = *sink.inner.last().expect("a tree has a root");
        let longs = HasLongs::No;
        let image = TreeImage { tree, root, longs, rows_next: 0, leaves };
        Ok(ImagedTree { image, inner: sink.inner })
    }
}

/// Images a table's tree as `snapshot` sees it. `before`: the tree in the published checkpoint.
pub(super) fn image_table<S: InstanceState>(
    writer: &mut ImageWriter<'_, S>,
    table: &TableAccess,
    (share, states): (&Share<'_>, &dyn TransactionStates),
    before: Option<&ImagedTree>,
) -> Result<ImagedTree> {
    let snapshot = &share.snapshot;
    let mut walk = Walk::new(writer, table.id());
    let moves = walk.moves.clone();
    let keep = |place: Place| moves.keep(place);
    let mut work = Work::default();
    let mut from = Some(RowId(0));
    while let Some(row) = from {
        (share.may_go_on)()?;
        let (tree, pool) = (&table.tree, table.tree.pool());
        let (leaf, upper) = walk.until_done(pool, |page| {
            let keep_whole = |lower: &[u8], at: Place| Ok(row_of(lower) == row && keep(at)?);
            let place = tree.leaf_place(row, &keep_whole)?;
            if let Some(on_disk) = place.on_disk {
                return Ok((Leaf::Clean(on_disk), place.upper.as_deref().map(row_of)));
            }
            table_leaf(table, row, (snapshot, states, &keep), page, &mut work)
        })?;
        // The first child of a node that begins it all has no key.
        let lower = if row == RowId(0) { Vec::new() } else { row.0.to_be_bytes().to_vec() };
        walk.take(leaf, lower)?;
        from = upper;
    }
    walk.finish(before)
}

/// The row of a key of a table's inner node; the first child of all has none.
fn row_of(key: &[u8]) -> RowId {
    key.first_chunk().map_or(RowId(0), |row| RowId(u64::from_be_bytes(*row)))
}

/// Images an index as it is.
pub(super) fn image_index<S: InstanceState>(
    writer: &mut ImageWriter<'_, S>,
    tree: &IndexTree,
    share: &Share<'_>,
    before: Option<&ImagedTree>,
) -> Result<ImagedTree> {
    let mut walk = Walk::new(writer, tree.tree());
    let moves = walk.moves.clone();
    let keep = |place: Place| moves.keep(place);
    let (mut upper, mut key) = (Vec::new(), Vec::new());
    loop {
        (share.may_go_on)()?;
        let (leaf, fence) = walk.until_done(tree.pool(), |page| {
            let keep_whole = |lower: &[u8], at: Place| Ok(lower == key && keep(at)?);
            let place = tree.leaf_place(&key, &keep_whole)?;
            if let Some(on_disk) = place.on_disk {
                let fence = if place.upper.is_some() { UpperFence::Some } else { UpperFence::None };
                upper = place.upper.unwrap_or_default();
                return Ok((Leaf::Clean(on_disk), fence));
            }
            index_leaf(tree, (&key, &keep), page, &mut upper)
        })?;
        walk.take(leaf, key.clone())?;
        if fence == UpperFence::None {
            return walk.finish(before);
        }
        std::mem::swap(&mut key, &mut upper);
    }
}
