//! Checkpoints: the database as of one timestamp S, as pages (section 8).
//!
//! A checkpoint is a snapshot scan that writes leaves: S is registered as a snapshot, every tree of
//! the catalog as of S is walked in order of its keys, each leaf that has changed since it was last
//! written is copied as S sees it, and inner nodes are built above the images. Transactions go on
//! meanwhile and are asked for nothing: neither pages nor changes know that a checkpoint runs.
//! (docs/adr has why this replaces the epochs and pre-images of rules 8.1 and 8.2.)
//!
//! Invariants: rules 8.3 to 8.6, as README.md says them. This module makes images and writes them;
//! `api` picks S, collects the trees, and publishes.

mod image;
mod tree;

use rustc_hash::FxHashMap as HashMap;
use std::sync::Arc;

use crate::base::{HomeId, PAGE_BYTES, Result, TreeId};
use crate::buffer::{BufferPool, ImageWriter, PageRead, WrittenLong, sync_all};
use crate::runtime::{InstanceState, Parker, TaskContext};
use crate::store::PageStore;
use crate::sync::{AtomicUsize, Ordering};
use crate::tree::index::IndexTree;
use crate::version::{SnapshotView, TableAccess, TransactionStates};

pub use crate::buffer::{Turn, Written};
pub use tree::ImagedTree;

/// A tree to be imaged.
#[derive(Clone)]
pub enum AnyTree {
    /// A table's, or the catalog's own.
    Table(Arc<TableAccess>),
    /// An index's.
    Index(Arc<IndexTree>),
}

impl AnyTree {
    /// Its number.
    pub fn id(&self) -> TreeId {
        match self {
            AnyTree::Table(table) => table.id(),
            AnyTree::Index(index) => index.tree(),
        }
    }
}

/// A table's trees that are not imaged yet, its own and those of its indexes. Instances count down.
pub struct TreesLeft {
    /// The table.
    pub table: TreeId,
    /// How many there are.
    pub left: AtomicUsize,
}

/// What one instance images.
pub struct Share<'a> {
    /// Trees, each by one instance, with what else there is of its table.
    pub trees: &'a [(AnyTree, Arc<TreesLeft>)],
    /// The home to whose page file the images go.
    pub home: HomeId,
    /// Whose checkpoint it is.
    pub turn: &'a Turn,
    /// S.
    pub snapshot: SnapshotView,
    /// The trees of the published checkpoint.
    pub before: &'a HashMap<TreeId, ImagedTree>,
    /// Why it is to be given up, asked before each leaf.
    pub may_go_on: &'a dyn Fn() -> Result<()>,
    /// Told when the last leaf of a table and of its indexes was copied.
    pub pass: &'a dyn Fn(TreeId),
}

/// Images and writes the trees of a share. Waits for writes and yields in between; nothing is
/// latched then. `DiskFull`, `Io`, `Corrupt`: the checkpoint comes to nothing.
pub fn image_share<S: InstanceState>(
    context: &TaskContext<S>,
    store: &Arc<PageStore>,
    states: &dyn TransactionStates,
    share: &Share<'_>,
) -> Result<(Vec<ImagedTree>, Written)> {
    let mut writer = ImageWriter::new(context, store.clone(), share.turn.clone(), share.home);
    let mut imaged = Vec::new();
    for (any, table) in share.trees {
        context.linger("share");
        let before = share.before.get(&any.id());
        imaged.push(match any {
            AnyTree::Table(table) => {
                tree::image_table(&mut writer, table, (share, states), before)?
            }
            AnyTree::Index(index) => tree::image_index(&mut writer, index, share, before)?,
        });
        // The last one sees that the others have been copied.
        if table.left.fetch_sub(1, Ordering::AcqRel) == 1 {
            (share.pass)(table.table);
        }
    }
    writer.finish()?;
    context.linger("share");
    Ok((imaged, writer.written))
}

/// Writes the pages of long values that are complete and were not written yet, and takes all that are alive into the
/// checkpoint: those that S does not see, too, which the next checkpoint finds out. Errors as
/// [`image_share`].
pub fn write_long_values<S: InstanceState>(
    context: &TaskContext<S>,
    pool: &BufferPool,
    store: &Arc<PageStore>,
    turn: &Turn,
) -> Result<Written> {
    let mut writer = ImageWriter::new(context, store.clone(), turn.clone(), HomeId(0));
    let mut page = Box::new([0; PAGE_BYTES]);
    let pids: Vec<_> = pool.overflow_pages_here().collect();
    for pid in pids {
        loop {
            writer.breathe();
            // Without a frame it has been freed meanwhile, or lies on disk.
            let Some(frame) = pool.find_overflow(pid) else { break };
            let Ok(read) = PageRead::begin_cold(frame) else {
                context.yield_now();
                continue;
            };
            match writer.write_long(read, &mut page)? {
                WrittenLong::Busy if store.is_making(turn.term) => context.yield_now(),
                _ => break,
            }
        }
    }
    store.hold_fixed(turn.term);
    Ok(writer.written)
}

/// Makes what was written durable. `Io`.
pub fn sync<S: InstanceState>(context: &TaskContext<S>, store: &PageStore) -> Result<()> {
    sync_all(context, store)
}
