//! Loading a checkpoint: its inner nodes and long values, and what else it says (rules 9.1 and 9.7).
//!
//! Invariants: nothing is written, and no place is given out before all that the checkpoint has are known
//! (`PageStore::find`): of an inner node that is changed by its children's coming in the meantime nothing
//! can be written. Every page that is read is verified, and damage names file and
//! page. A tree's root is put into a frame; all else stays on disk until somebody needs it, inner nodes, too,
//! whose places are their current ones then: they are clean there until a child comes. All of them are read
//! here once, for the places of the leaves. Of long values the checkpoint says where they lie; those that
//! rows refer to are found in the leaves, and the others are free: only these are followed (`longs.rs`).
//! Trees are loaded by several threads, a tree by one.

use rustc_hash::FxHashMap as HashMap;
use std::cmp::Reverse;
use std::sync::Arc;

use super::definitions::{Loaded, catalog_objects};
use super::longs::{Claims, find_longs};
use crate::base::{Cts, Error, HomeId, PAGE_BYTES, Place, Result, TreeId, Unread};
use crate::buffer::{BufferPool, Swip};
use crate::catalog::{CATALOG_TREE, Object, catalog_layout};
use crate::checkpoint::ImagedTree;
use crate::io::IoBuffer;
use crate::latch::{OwnedPage, PageBytes};
use crate::log::manifest::{Checkpoint, HasLongs, SequenceImage, TreeImage};
use crate::page::keynode::KeyNode;
use crate::page::rowleaf::{Leaf, SlotIndex};
use crate::page::{Layout, PageKind, header};
use crate::store::{Found, PageStore, file_name};
use crate::sync::in_turns;
use crate::tree::frames::trunk_on_disk;
use crate::tree::index::IndexTree;
use crate::tree::table::{SideTables, TableTree};
use crate::txn::SequenceState;

/// A checkpoint in memory.
pub struct LoadedCheckpoint {
    /// What replay goes on from.
    pub loaded: Loaded,
    /// Its trees, for the next checkpoint.
    pub imaged: HashMap<TreeId, ImagedTree>,
    /// Pages read.
    pub pages: u64,
    /// What could not be read of long values that no row refers to.
    pub unread: Unread,
}

/// Where a checkpoint is loaded from and to.
#[derive(Clone, Copy)]
pub struct Places<'a> {
    /// Its pages on disk.
    pub store: &'a Arc<PageStore>,
    /// Frames.
    pub pool: &'a Arc<BufferPool>,
    /// The trees' side tables.
    pub sides: &'a Arc<dyn SideTables>,
    /// Homes, over which trees are spread.
    pub homes: u16,
}

/// What a tree is.
pub(super) enum Kind {
    Table(Layout),
    Index,
}

/// A tree that was loaded.
enum Tree {
    Table(TableTree),
    Index(IndexTree),
}

/// Loads `checkpoint` with `workers` threads. `Corrupt`; `OutOfMemory` if its roots do not fit the pool.
pub fn load(
    checkpoint: &Checkpoint,
    places: Places<'_>,
    workers: usize,
) -> Result<LoadedCheckpoint> {
    let images: HashMap<TreeId, &TreeImage> =
        checkpoint.trees.iter().map(|image| (image.tree, image)).collect();
    let image_of =
        |tree: TreeId| images.get(&tree).copied().ok_or_else(|| no_tree(checkpoint, tree));
    places.store.find(|| load_all(checkpoint, (places, workers), &image_of))
}

fn load_all<'c>(
    checkpoint: &'c Checkpoint,
    (places, workers): (Places<'_>, usize),
    image_of: &dyn Fn(TreeId) -> Result<&'c TreeImage>,
) -> Result<LoadedCheckpoint> {
    let mut imaged = HashMap::default();
    let mut take = |image: &TreeImage, inner: Vec<Place>| {
        imaged.insert(image.tree, ImagedTree { image: *image, inner });
    };
    let (own, mut claims) = (image_of(CATALOG_TREE)?, Claims::new(checkpoint));
    let loader = Loader::new(places, own, &mut claims);
    let (tree, mut pages, inner) = loader.run(own, &Kind::Table(catalog_layout()))?;
    take(own, inner);
    let Tree::Table(catalog) = tree else { unreachable!("it was loaded as a table") };
    let catalog = Arc::new(catalog);
    let mut wanted = Vec::new();
    for (_, object) in catalog_objects(&catalog)? {
        match object {
            Object::Table(table) => {
                wanted.push((image_of(table.tree)?, Kind::Table(table.layout()?)));
            }
            Object::Index(index) => wanted.push((image_of(index.tree)?, Kind::Index)),
            Object::Namespace(_) | Object::Sequence(_) => {}
        }
    }
    // The largest first, so that threads end at about the same time.
    wanted.sort_by_key(|(image, _)| Reverse(image.leaves));
    let parts = in_turns(&wanted, workers, |wanted| {
        let (mut trees, mut claims) = (Vec::new(), Claims::new(checkpoint));
        for (image, kind) in wanted {
            let loaded = Loader::new(places, image, &mut claims).run(image, kind)?;
            trees.push((*image, loaded));
        }
        Ok((trees, claims))
    })?;
    let (mut tables, mut indexes) = (HashMap::default(), HashMap::default());
    for (trees, more) in parts {
        claims.take(&more)?;
        for (image, (tree, read, inner)) in trees {
            pages += read;
            take(image, inner);
            match tree {
                Tree::Table(table) => drop(tables.insert(image.tree, Arc::new(table))),
                Tree::Index(index) => drop(indexes.insert(image.tree, Arc::new(index))),
            }
        }
    }
    let followed = find_longs(places.store, checkpoint, &claims, workers)?;
    pages += followed.read();
    let sequences = sequences_of(checkpoint);
    let loaded = Loaded { catalog, tables, indexes, sequences };
    Ok(LoadedCheckpoint { loaded, imaged, pages, unread: followed.unread })
}

/// Where a checkpoint's sequences stand.
pub(super) fn sequences_of(checkpoint: &Checkpoint) -> Vec<(TreeId, Cts, SequenceState)> {
    let state = |it: &SequenceImage| SequenceState { last: it.last, called: it.called };
    checkpoint.sequences.iter().map(|it| (it.values, it.cts, state(it))).collect()
}

/// What to say of a tree that a checkpoint lacks.
pub(super) fn no_tree(checkpoint: &Checkpoint, tree: TreeId) -> Error {
    let detail = format!("checkpoint {} has no tree {tree}", checkpoint.number);
    Error::Corrupt { page: None, detail }
}

/// Loads one tree.
struct Loader<'a, 'c> {
    places: Places<'a>,
    tree: TreeId,
    home: HomeId,
    buffer: IoBuffer,
    inner: Vec<Place>,
    longs: HasLongs,
    /// The long values of rows.
    claims: &'a mut Claims<'c>,
    pages: u64,
}

impl<'a, 'c> Loader<'a, 'c> {
    fn new(places: Places<'a>, image: &TreeImage, claims: &'a mut Claims<'c>) -> Loader<'a, 'c> {
        let (tree, longs) = (image.tree, image.longs);
        if longs == HasLongs::Yes {
            // Of which home does not matter.
            places.pool.note_longs(HomeId(0), tree);
        }
        let home = HomeId((tree.0 % u32::from(places.homes)) as u16);
        let (buffer, inner) = (IoBuffer::zeroed(PAGE_BYTES), Vec::new());
        Loader { places, tree, home, buffer, inner, longs, claims, pages: 0 }
    }

    /// The tree, how many pages were read, and the places of its inner nodes.
    fn run(mut self, image: &TreeImage, kind: &Kind) -> Result<(Tree, u64, Vec<Place>)> {
        let leaf_kind = match kind {
            Kind::Table(_) => PageKind::TableLeaf,
            Kind::Index => PageKind::IndexLeaf,
        };
        let Places { pool, sides, .. } = self.places;
        self.read(image.root, PageKind::Inner)?;
        // In memory from now on: it lies nowhere else.
        let root = page_of(&self.buffer);
        let trunk = trunk_on_disk(pool, (self.home, self.tree), leaf_kind, root)?;
        self.below(image.root, (None, Found::ImageOnly), (kind, leaf_kind))?;
        let tree = match kind {
            Kind::Table(layout) => {
                let (leaves, rows_next) = (image.leaves, image.rows_next);
                Tree::Table(TableTree::adopt(
                    trunk,
                    layout.clone(),
                    sides.clone(),
                    leaves,
                    rows_next,
                ))
            }
            Kind::Index => Tree::Index(IndexTree::adopt(trunk)),
        };
        Ok((tree, self.pages, self.inner))
    }

    /// Finds the inner node at `place`, which is in the buffer, and what is below it. It is at `level` if that is
    /// known.
    fn below(
        &mut self,
        place: Place,
        (level, found): (Option<u16>, Found),
        kind: (&Kind, PageKind),
    ) -> Result<()> {
        self.places.store.found(place, found);
        self.inner.push(place);
        let (level, children) = self.children(place, level)?;
        for child in children {
            if level > 1 {
                self.read(child, PageKind::Inner)?;
                self.below(child, (Some(level - 1), Found::Current), kind)?;
            } else {
                self.leaf(child, kind)?;
            }
        }
        Ok(())
    }

    /// The level of the node in the buffer, and its children.
    fn children(&self, place: Place, level: Option<u16>) -> Result<(u16, Vec<Place>)> {
        let page = OwnedPage(page_of(&self.buffer));
        let node = KeyNode::new(page);
        let is_sound = node.level() > 0 && level.is_none_or(|level| level == node.level());
        if !is_sound || node.count() == 0 {
            return Err(damaged(place, "it is no inner node of this level"));
        }
        let children = (0..node.count()).map(|at| {
            let child = Swip::place_on_disk(page.u64(node.swip_position(at)));
            child.ok_or_else(|| damaged(place, "a child has no place"))
        });
        Ok((node.level(), children.collect::<Result<_>>()?))
    }

    /// Reads a page of the tree into the buffer.
    fn read(&mut self, place: Place, expected: PageKind) -> Result<()> {
        let kind = self.places.store.read(place, &mut self.buffer)?;
        self.pages += 1;
        let tree = header::tree(OwnedPage(page_of(&self.buffer)));
        if kind != expected || tree != self.tree {
            let what = format!("a {kind:?} of tree {tree}, not a {expected:?} of {}", self.tree);
            return Err(damaged(place, &what));
        }
        Ok(())
    }

    /// A leaf stays on disk until somebody needs it. What long values its rows have is noted.
    fn leaf(&mut self, place: Place, (kind, leaf_kind): (&Kind, PageKind)) -> Result<()> {
        self.places.store.found(place, Found::Current);
        let Kind::Table(layout) = kind else { return Ok(()) };
        if self.longs == HasLongs::No {
            return Ok(());
        }
        self.read(place, leaf_kind)?;
        let leaf = Leaf::new(OwnedPage(page_of(&self.buffer)), layout);
        let mut claimed = Ok(());
        for slot in 0..leaf.count() {
            leaf.each_long(SlotIndex(slot as u16), |_, reference| {
                if claimed.is_ok() {
                    claimed = self.claims.add(self.tree, &reference);
                }
            });
        }
        claimed
    }
}

fn page_of(buffer: &IoBuffer) -> &[u8; PAGE_BYTES] {
    buffer.first_chunk().expect("a buffer of a page")
}

fn damaged(place: Place, what: &str) -> Error {
    let file = file_name(place.home());
    let detail = format!("\"{file}\", page {}: {what}", place.number());
    Error::Corrupt { page: None, detail }
}
