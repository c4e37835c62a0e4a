//! Which instance images which trees, and in what order.
//!
//! Invariants: every tree of the catalog as of S is imaged once, by one instance, into the page file
//! that the instance writes. A table counts as passed when the last of its trees was copied.

use rustc_hash::FxHashMap as HashMap;
use std::sync::Arc;

use super::super::core::{Context, Shared};
use super::ask::ask_all_tasks;
use crate::base::{Error, HomeId, Result, TreeId};
use crate::catalog::Catalog;
use crate::checkpoint::{AnyTree, ImagedTree, Share, TreesLeft, Turn, Written, image_share};
use crate::sync::AtomicUsize;
use crate::txn::CheckpointSnapshot;
use crate::version::TableAccess;

type Trees = Vec<(AnyTree, Arc<TreesLeft>)>;

/// Lets every instance image the trees whose home it serves. Errors as `image_share`.
pub(super) fn image_all(
    context: &Context,
    shared: &Arc<Shared>,
    turn: &Turn,
    (catalog, snapshot): (&Catalog, &Arc<CheckpointSnapshot>),
    before: &Arc<HashMap<TreeId, ImagedTree>>,
) -> Result<(HashMap<TreeId, ImagedTree>, Written)> {
    let shares = Arc::new(shares(shared, catalog, context.instance().hub().instances()));
    let (turn, before, asked) = (turn.clone(), before.clone(), shared.clone());
    let snapshot = snapshot.clone();
    let answers = ask_all_tasks(context, shared, move |context| {
        let id = context.instance().id();
        let core = &context.instance().state().inner;
        let checkpoints = asked.checkpoints.as_ref().expect("a checkpoint is being made");
        let share = Share {
            trees: &shares[usize::from(id.0)],
            home: HomeId(id.0),
            turn: &turn,
            snapshot: snapshot.view(),
            before: &before,
            may_go_on: &|| match core.txn.environment().versions.is_nearly_full() {
                true => Err(Error::OutOfMemory { what: "undo, which the checkpoint held back" }),
                false => Ok(()),
            },
            pass: &|table| snapshot.pass(table),
        };
        image_share(context, &checkpoints.store, &*asked.txn, &share)
    })?;
    let (mut trees, mut written) = (HashMap::default(), Written::default());
    for answer in answers {
        let (imaged, more) = answer?;
        trees.extend(imaged.into_iter().map(|tree| (tree.image.tree, tree)));
        written.pages += more.pages;
        written.writes += more.writes;
        written.moved += more.moved;
    }
    Ok((trees, written))
}

/// The trees by instance. Those of small tables come first: their rows are changed most often, the
/// longer S is held the more versions of them there are to go back through, and the rows of queues,
/// which are small however much goes through them, are let go of when their table is passed.
fn shares(shared: &Shared, catalog: &Catalog, instances: usize) -> Vec<Trees> {
    let mut tables: Vec<(u64, Trees)> = Vec::new();
    let mut add = |access: &Arc<TableAccess>, indexes: Vec<AnyTree>| {
        let table = access.id();
        let trees: Vec<_> = indexes.into_iter().chain([AnyTree::Table(access.clone())]).collect();
        let left = Arc::new(TreesLeft { table, left: AtomicUsize::new(trees.len()) });
        let trees = trees.into_iter().map(|tree| (tree, left.clone())).collect();
        tables.push((access.tree.leaves(), trees));
    };
    catalog.own_access().into_iter().for_each(|access| add(access, Vec::new()));
    for table in catalog.tables() {
        let indexes = table.indexes.iter().map(|index| AnyTree::Index(index.tree.clone()));
        add(&table.access, indexes.collect());
    }
    tables.sort_by_key(|(leaves, trees)| (*leaves, trees[0].1.table));
    let mut shares: Vec<Trees> = Vec::new();
    shares.resize_with(instances, Vec::new);
    for (tree, left) in tables.into_iter().flat_map(|(_, trees)| trees) {
        let home = shared.home_of(tree.id());
        shares[usize::from(home.0) % instances].push((tree, left));
    }
    shares
}
