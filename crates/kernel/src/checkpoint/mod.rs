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
mod index;
#[cfg(all(test, not(loom)))]
mod keep_tests;
mod longs;
mod pieces;
mod table;
mod tiles;
mod tree;

use rustc_hash::FxHashMap as HashMap;
use std::sync::Arc;

use crate::base::{Error, HomeId, Result, TreeId};
use crate::buffer::{ImageWriter, sync_all};
use crate::runtime::{InstanceState, TaskContext};
use crate::store::PageStore;
use crate::sync::{AtomicUsize, Ordering};
use crate::tree::index::IndexTree;
use crate::version::{SnapshotView, TableAccess, ToImage, TransactionStates};

pub use crate::buffer::{Turn, Written};
pub use longs::{LongShares, write_long_values};
pub use tiles::Common;
pub use tree::ImagedTree;

use table::{ShareImager, When};
use tree::Imager;

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

/// A tree to be imaged, with what else there is of its table.
pub type TreeOfTable = (AnyTree, Arc<TreesLeft>);

/// What one instance images.
pub struct Share<'a> {
    /// Trees that come first, each by one instance, and at once: small tables and their indexes.
    pub first: &'a [TreeOfTable],
    /// Trees that come behind them, each by one instance, its leaves as soon as none is listed: indexes, if all of them
    /// are small.
    pub soon: &'a [TreeOfTable],
    /// The other trees, each leaf when it is due: all indexes, of which each instance copies pieces, and own tables.
    pub trees: &'a [TreeOfTable],
    /// What is common to all shares.
    pub common: &'a Common,
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
    /// The next leaf whose older versions are held back until it is imaged, if there is one; it is told
    /// to be imaged then, or given back.
    pub next_listed: &'a dyn Fn() -> Option<ToImage>,
    /// A listed leaf cannot be imaged now.
    pub give_back: &'a dyn Fn(ToImage),
    /// A listed leaf is imaged.
    pub imaged: &'a dyn Fn(ToImage),
    /// Lets go of undo that no leaf needs any more that is not imaged; called when none is listed.
    pub let_go: &'a dyn Fn(),
    /// When the leaf behind so many of the share's other trees is due, in nanoseconds of the database's clock.
    pub due_ns: &'a dyn Fn(u64) -> u64,
}

impl Share<'_> {
    /// Why the checkpoint comes to nothing, if it does.
    fn ask_whether_to_go_on(&self) -> Result<()> {
        if self.common.has_failed() {
            let detail = "another instance could not image its share".to_owned();
            return Err(Error::Internal { detail });
        }
        (self.may_go_on)()
    }
}

/// Images and writes the trees of a share. Waits for writes, for other shares and until leaves are due,
/// and yields in between; nothing is latched then. `DiskFull`, `Io`, `Corrupt`: the checkpoint comes to
/// nothing.
pub fn image_share<S: InstanceState>(
    context: &TaskContext<S>,
    store: &Arc<PageStore>,
    states: &dyn TransactionStates,
    share: &Share<'_>,
) -> Result<(Vec<ImagedTree>, Written)> {
    let watched = share.common.watched();
    let mut writer = ImageWriter::new(context, store.clone(), share.turn.clone(), share.home);
    let mut imager = Imager::new(&mut writer);
    let mut first = ShareImager::new(&mut imager, (share, states), When::First);
    let mut imaged = first.image_trees(context, share.first)?;
    let mut soon = ShareImager::new(&mut imager, (share, states), When::Soon);
    imaged.extend(soon.image_trees(context, share.soon)?);
    let mut when_due = ShareImager::new(&mut imager, (share, states), When::Due);
    imaged.extend(when_due.image_trees(context, share.trees)?);
    share.common.end_share();
    when_due.image_listed_to_the_end()?;
    writer.finish()?;
    watched.succeeded();
    context.linger("share");
    Ok((imaged, writer.written))
}

impl<S: InstanceState> ShareImager<'_, '_, '_, '_, S> {
    fn image_trees(
        &mut self,
        context: &TaskContext<S>,
        trees: &[TreeOfTable],
    ) -> Result<Vec<ImagedTree>> {
        let mut imaged = Vec::new();
        for (any, table) in trees {
            context.linger("share");
            let before = self.share.before.get(&any.id());
            let image = match any {
                AnyTree::Table(table) => Some(self.image_table(table.id(), before)?),
                AnyTree::Index(index) => self.image_index(index, before)?,
            };
            // Another instance copies the last piece of the index.
            let Some(image) = image else { continue };
            imaged.push(image);
            // The last one sees that the others have been copied.
            if table.left.fetch_sub(1, Ordering::AcqRel) == 1 {
                (self.share.pass)(table.table);
            }
        }
        Ok(imaged)
    }
}

/// Makes what was written durable. `Io`.
pub fn sync<S: InstanceState>(context: &TaskContext<S>, store: &PageStore) -> Result<()> {
    sync_all(context, store)
}
