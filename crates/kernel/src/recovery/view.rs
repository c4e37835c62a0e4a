//! A checkpoint to be read: its catalog, over trees that come from disk as they are needed (rule 8.9).
//!
//! Invariants: the checkpoint is pinned while the view lives, so its pages stay what they are. A
//! view's trees never change. They have numbers of their own, in frames and in hints, so that nobody
//! takes their pages for those of the tables as they are now; on disk their pages, and in memory
//! those of their long values, have the tables' numbers. Only roots are read here, blocking.

use rustc_hash::FxHashMap as HashMap;
use std::sync::Arc;

use super::definitions::{Definitions, Loaded, catalog_objects};
use super::indexes::build_catalog;
use super::load::{Kind, Places, no_tree, sequences_of};
use crate::base::{Error, HomeId, PAGE_BYTES, Result, TreeId};
use crate::catalog::{CATALOG_TREE, Catalog, Object, catalog_layout};
use crate::io::IoBuffer;
use crate::log::manifest::{Checkpoint, TreeImage};
use crate::page::PageKind;
use crate::store::file_name;
use crate::tree::frames::trunk_on_disk;
use crate::tree::index::IndexTree;
use crate::tree::table::TableTree;
use crate::version::VersionSpace;

/// A checkpoint's catalog, and the frames of its trees. Whoever has it keeps the checkpoint pinned.
pub struct CheckpointView {
    catalog: Arc<Catalog>,
    trees: Vec<AnyTree>,
}

#[derive(Clone)]
enum AnyTree {
    Table(Arc<TableTree>),
    Index(Arc<IndexTree>),
}

impl CheckpointView {
    /// The catalog as of the checkpoint.
    pub fn catalog(&self) -> &Arc<Catalog> {
        &self.catalog
    }

    fn add(&mut self, tree: AnyTree) -> AnyTree {
        self.trees.push(tree.clone());
        tree
    }
}

/// Gives the frames back.
impl Drop for CheckpointView {
    fn drop(&mut self) {
        for tree in &self.trees {
            match tree {
                AnyTree::Table(table) => table.forget(),
                AnyTree::Index(index) => index.forget(),
            }
        }
    }
}

/// Opens `checkpoint`, which is pinned: its trees get numbers of `new_tree`, its catalog is of
/// `version`. Blocks for the catalog
/// and one page of each tree. `Corrupt`, `Io`, `OutOfMemory`.
pub fn view(
    checkpoint: &Checkpoint,
    places: Places<'_>,
    (versions, version): (&Arc<VersionSpace>, u64),
    new_tree: &mut dyn FnMut() -> TreeId,
) -> Result<CheckpointView> {
    let images: HashMap<TreeId, &TreeImage> =
        checkpoint.trees.iter().map(|image| (image.tree, image)).collect();
    let image_of =
        |tree: TreeId| images.get(&tree).copied().ok_or_else(|| no_tree(checkpoint, tree));
    // Frames are given back if anything fails.
    let mut view = CheckpointView { catalog: Arc::new(Catalog::empty()), trees: Vec::new() };
    let own = Kind::Table(catalog_layout());
    let own = view.add(open_tree(places, image_of(CATALOG_TREE)?, new_tree(), own)?);
    let AnyTree::Table(catalog) = own else { unreachable!("it was opened as a table") };
    let (mut tables, mut indexes) = (HashMap::default(), HashMap::default());
    for (_, object) in catalog_objects(&catalog)? {
        let (tree, kind) = match object {
            Object::Table(table) => (table.tree, Kind::Table(table.layout()?)),
            Object::Index(index) => (index.tree, Kind::Index),
            Object::Namespace(_) | Object::Sequence(_) => continue,
        };
        match view.add(open_tree(places, image_of(tree)?, new_tree(), kind)?) {
            AnyTree::Table(table) => drop(tables.insert(tree, table)),
            AnyTree::Index(index) => drop(indexes.insert(tree, index)),
        }
    }
    let sequences = sequences_of(checkpoint);
    let (pool, sides) = (places.pool.clone(), places.sides.clone());
    let loaded = Loaded { catalog, tables, indexes, sequences };
    let definitions = Definitions::adopt(pool, sides, places.homes, loaded)?;
    let mut catalog = build_catalog(&definitions, versions, 1)?;
    catalog.commit_as(None, version);
    view.catalog = Arc::new(catalog);
    Ok(view)
}

/// The tree of `image` under another number, with its root in a frame.
fn open_tree(places: Places<'_>, image: &TreeImage, number: TreeId, kind: Kind) -> Result<AnyTree> {
    let mut buffer = IoBuffer::zeroed(PAGE_BYTES);
    if places.store.read(image.root, &mut buffer)? != PageKind::Inner {
        let (file, page) = (file_name(image.root.home()), image.root.number());
        let detail = format!("\"{file}\", page {page}: it is not the root of a tree");
        return Err(Error::Corrupt { page: None, detail });
    }
    let root = buffer.first_chunk().expect("a buffer of a page");
    let leaf_kind = match kind {
        Kind::Table(_) => PageKind::TableLeaf,
        Kind::Index => PageKind::IndexLeaf,
    };
    let home = HomeId((image.tree.0 % u32::from(places.homes)) as u16);
    let trunk = trunk_on_disk(places.pool, (home, number), leaf_kind, root)?;
    Ok(match kind {
        Kind::Table(layout) => {
            let (leaves, rows_next) = (image.leaves, image.rows_next);
            let table = TableTree::adopt(trunk, layout, places.sides.clone(), leaves, rows_next);
            AnyTree::Table(Arc::new(table.with_longs_of(image.tree)))
        }
        Kind::Index => AnyTree::Index(Arc::new(IndexTree::adopt(trunk))),
    })
}
