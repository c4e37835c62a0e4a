//! The pages of a checkpoint from which the database cannot be recovered: which are damaged, and whose they are.
//!
//! Invariants: nothing is written: no place is given out while this looks at pages (`PageStore::find`), and no page comes
//! into memory but the root of the tree that is looked at. Trees are found through the catalog as of the
//! checkpoint, as far as it can be read; each is walked from its root (tree/descent/walk.rs), and long values
//! from their rows. What a checkpoint's indexes have too much or too little is not judged: only with
//! what the logs say do they agree with their tables (recovery/kept.rs).

use rustc_hash::FxHashMap as HashMap;
use std::sync::Arc;

use super::super::options::Options;
use super::rows::{check_rows, live_rows};
use super::tallies::Lines;
use super::{Check, ended, index_label, table_label};
use crate::base::{HomeId, PAGE_BYTES, Result, RowId, TreeId};
use crate::buffer::BufferPool;
use crate::catalog::{
    CATALOG_TREE, IndexDef, Object, Oid, TableDef, catalog_layout, decode_object,
};
use crate::io::{Disk, IoBuffer};
use crate::latch::OwnedPage;
use crate::log::manifest::{Manifest, TreeImage};
use crate::page::keynode::KeyNode;
use crate::page::rowleaf::Leaf;
use crate::page::{Layout, PageKind, header};
use crate::store::PageStore;
use crate::tree::descent::{Onward, Trunk, page_name, unread_page};
use crate::tree::frames::trunk_on_disk;
use crate::tree::index::IndexTree;
use crate::tree::table::{NoSideTables, TableTree};

/// Tells what is damaged of the newest checkpoint, if there is one. Errors: what keeps it from its end and is no
/// damaged page.
pub(super) fn survey(disk: &Arc<dyn Disk>, options: &Options, check: &mut Check) -> Result<()> {
    let Some(manifest) = Manifest::read(&**disk)? else { return Ok(()) };
    let Some(checkpoint) = &manifest.checkpoint else { return Ok(()) };
    let homes = manifest.homes;
    let extent = options.page_extent_bytes / PAGE_BYTES as u64;
    let store = PageStore::new(disk.clone(), manifest.database, homes, extent);
    let pool_bytes = options.buffer_pool_bytes as usize;
    let pool = BufferPool::over(usize::from(homes), pool_bytes, Some(store.clone()))?;
    let images: HashMap<TreeId, TreeImage> =
        checkpoint.trees.iter().map(|image| (image.tree, *image)).collect();
    store.find(|| {
        let (store, pool, number) = (&store, &pool, checkpoint.number);
        Survey { number, images, homes, store, pool, check }.run()
    })
}

struct Survey<'a> {
    /// The checkpoint's.
    number: u64,
    /// Its trees that nobody has looked at.
    images: HashMap<TreeId, TreeImage>,
    homes: u16,
    store: &'a Arc<PageStore>,
    pool: &'a Arc<BufferPool>,
    check: &'a mut Check,
}

impl Survey<'_> {
    fn run(mut self) -> Result<()> {
        let objects = self.catalog()?;
        let is_catalog_whole = self.check.unread == 0;
        let (mut tables, mut indexes) = (Vec::new(), Vec::new());
        for object in objects {
            match object {
                Object::Table(table) => tables.push(table),
                Object::Index(index) => indexes.push(index),
                Object::Namespace(_) | Object::Sequence(_) => {}
            }
        }
        // As `Check::of` tells of them.
        tables.sort_by_key(|table| table.oid);
        indexes.sort_by_key(|index| index.oid);
        for table in &tables {
            self.table(table)?;
        }
        let names: HashMap<Oid, &str> =
            tables.iter().map(|table| (table.oid, table.name.as_str())).collect();
        for index in &indexes {
            self.index(index, names.get(&index.table).copied().unwrap_or("?"))?;
        }
        if !is_catalog_whole && !self.images.is_empty() {
            let (left, number) = (self.images.len(), self.number);
            let what = "trees of which the catalog says nothing that can be read";
            self.check.findings.unchecked.push(format!("{left} of checkpoint {number}'s {what}"));
        }
        Ok(())
    }

    /// Checks the catalog's own tree; answers what of it can be read.
    fn catalog(&mut self) -> Result<Vec<Object>> {
        let label = "the catalog";
        let Some(tree) = self.table_tree((CATALOG_TREE, catalog_layout()), label)? else {
            return Ok(Vec::new());
        };
        check_rows(&tree, &[], label, self.check)?;
        let (mut objects, mut damaged) = (Vec::new(), Lines::default());
        let mut from = Some(RowId(0));
        while let Some(start) = from {
            // What is wrong with pages has been told.
            let visited = tree.check_from(start, &mut |leaf, _| {
                take_objects(leaf, start, &mut objects, &mut damaged);
                Onward::Go
            });
            from = ended(visited)?.next;
        }
        tree.forget();
        self.check.unread += damaged.first.len() as u64;
        self.check.findings.tell(label, damaged);
        Ok(objects)
    }

    fn table(&mut self, def: &TableDef) -> Result<()> {
        let label = table_label(&def.name);
        let Some(tree) = self.table_tree((def.tree, def.layout()?), &label)? else {
            return Ok(());
        };
        let rows = check_rows(&tree, &[], &label, self.check)?;
        self.check.findings.tables += 1;
        self.check.findings.rows += rows.count;
        tree.forget();
        Ok(())
    }

    fn index(&mut self, def: &IndexDef, table: &str) -> Result<()> {
        let label = index_label(&def.name, table);
        let Some((trunk, _)) = self.trunk(def.tree, PageKind::IndexLeaf, &label)? else {
            return Ok(());
        };
        let tree = IndexTree::adopt(trunk);
        let (mut entries, mut unread, mut lines) = (0, 0, Lines::default());
        let mut from: Option<Vec<u8>> = Some(Vec::new());
        while let Some(start) = from {
            let part = tree.check_from(&start, &mut |node, _| {
                entries += node.count() as u64;
                Onward::Go
            })?;
            unread += part.passed_over;
            lines.add(part.problems);
            from = part.next;
        }
        tree.forget();
        self.check.unread += unread;
        self.check.findings.entries += entries;
        self.check.findings.tell(&label, lines);
        Ok(())
    }

    /// A table's tree; none if its root is damaged, which is told.
    fn table_tree(
        &mut self,
        (tree, layout): (TreeId, Layout),
        label: &str,
    ) -> Result<Option<TableTree>> {
        let Some((trunk, image)) = self.trunk(tree, PageKind::TableLeaf, label)? else {
            return Ok(None);
        };
        let (leaves, rows_next) = (image.leaves, image.rows_next);
        let adopted = TableTree::adopt(trunk, layout, Arc::new(NoSideTables), leaves, rows_next);
        // So they are read where they lie.
        Ok(Some(adopted.with_longs_of(tree)))
    }

    /// A tree with its root in memory; none if that is damaged, or not in the checkpoint, which is told.
    fn trunk(
        &mut self,
        tree: TreeId,
        leaf_kind: PageKind,
        label: &str,
    ) -> Result<Option<(Trunk, TreeImage)>> {
        let mut buffer = IoBuffer::zeroed(PAGE_BYTES);
        let wrong = match self.images.remove(&tree) {
            None => format!("checkpoint {} has no tree {tree}", self.number),
            Some(image) => {
                let read = self.store.read(image.root, &mut buffer);
                let root = buffer.first_chunk().expect("a buffer of a page");
                let fault = match read {
                    Ok(_) => root_fault(root, tree),
                    Err(error) => Some(unread_page(image.root, error)?),
                };
                let Some(fault) = fault else {
                    let home = HomeId((tree.0 % u32::from(self.homes)) as u16);
                    let trunk = trunk_on_disk(self.pool, (home, tree), leaf_kind, root)?;
                    return Ok(Some((trunk, image)));
                };
                format!("{fault}; what is below this root of the tree was passed over")
            }
        };
        let mut lines = Lines::default();
        lines.add([wrong]);
        self.check.unread += 1;
        self.check.findings.tell(label, lines);
        Ok(None)
    }
}

/// What is wrong with a page that is to be the root of a tree.
fn root_fault(root: &[u8; PAGE_BYTES], tree: TreeId) -> Option<String> {
    let view = OwnedPage(root);
    let is_root = header::kind(view) == Some(PageKind::Inner)
        && header::tree(view) == tree
        && KeyNode::new(view).level() > 0;
    (!is_root).then(|| format!("{}: it is no root of tree {tree}", page_name(view)))
}

/// Adds the catalog objects of a leaf, and what is wrong with those that are none.
fn take_objects(
    leaf: &Leaf<'_, OwnedPage<'_>>,
    from: RowId,
    objects: &mut Vec<Object>,
    damaged: &mut Lines,
) {
    for (row, slot) in live_rows(leaf, from) {
        match decode_object(&leaf.column(slot, 1).unwrap_or_default()) {
            Ok(object) => objects.push(object),
            Err(error) => damaged.add([format!("row {row}: {error}")]),
        }
    }
}
