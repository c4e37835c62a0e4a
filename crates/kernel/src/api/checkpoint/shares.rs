//! Which instance images which trees, in what order, and how fast.
//!
//! Invariants: every tree of the catalog as of S is gone through once, by one instance; leaves of tables
//! may be imaged by any, into the page file that it writes. A table counts as passed when the last of
//! its trees was copied. Long values come first, then small tables with their indexes. Behind these, leaves that
//! hold undo back go before all else: then come the indexes of other tables, as soon as they can if all of them are
//! small, then these tables, a leaf when it is due. S lets go of undo that no leaf needs any more that is not imaged
//! (txn/imaged.rs); as long as it does leaves are waited for. Entries of indexes wait until these are imaged
//! (version/collect/postponed.rs).

use rustc_hash::FxHashMap as HashMap;
use std::cell::Cell;
use std::sync::Arc;

use super::super::core::{Context, Shared};
use super::ask::ask_all_tasks;
use super::{Checkpoints, Pace};
use crate::base::{Cts, Error, HomeId, PAGE_BYTES, Result, TreeId};
use crate::catalog::Catalog;
use crate::checkpoint::{
    AnyTree, Common, ImagedTree, LongShares, Share, TreeOfTable, TreesLeft, Turn, Written,
    image_share, write_long_values,
};
use crate::runtime::Parker;
use crate::store::LongPlaces;
use crate::sync::{AtomicUsize, mutant};
use crate::txn::CheckpointSnapshot;
use crate::version::{InstanceVersions, TableAccess, VersionSpace};

/// Tables of at most so many leaves, and no more than such a part of all, come before the indexes of
/// others: their rows are changed most often, and the deleted ones of queues are let go of when their
/// table is passed.
const SMALL_LEAVES: u64 = 256;
const SMALL_PART: u64 = 16;

/// Undo counts as held back if the floor has not risen for so long.
const LAGS_NS: u64 = 50_000_000;

/// What one instance goes through, as [`Share`] has it.
#[derive(Default)]
struct Trees {
    first: Vec<TreeOfTable>,
    soon: Vec<TreeOfTable>,
    others: Vec<TreeOfTable>,
    /// Leaves of the other trees that are left to it, about.
    leaves: u64,
}

/// What was imaged.
pub(super) struct Imaged {
    pub trees: HashMap<TreeId, ImagedTree>,
    /// Of each home.
    pub longs: Vec<LongPlaces>,
    pub written: Written,
}

/// Leaves are listed no more when it is dropped.
pub(super) struct EndImaging<'a>(&'a VersionSpace, Cts);

impl EndImaging<'_> {
    /// A checkpoint of this S begins: leaves are listed, and entries of indexes stay.
    pub(super) fn begin(versions: &VersionSpace, checkpoint: Cts) -> EndImaging<'_> {
        versions.begin_imaging(checkpoint);
        EndImaging(versions, checkpoint)
    }
}

impl Drop for EndImaging<'_> {
    fn drop(&mut self) {
        self.0.end_imaging(self.1);
    }
}

/// Writes long values, and lets every instance image the trees whose home it serves. Errors as `image_share`.
pub(super) fn image_all(
    context: &Context,
    shared: &Arc<Shared>,
    (turn, pace): (&Turn, Pace),
    seen: (&Catalog, &Arc<CheckpointSnapshot>),
    before: &Arc<HashMap<TreeId, ImagedTree>>,
) -> Result<Imaged> {
    let checkpoints = shared.checkpoints.as_ref().expect("a checkpoint is being made");
    // First: what S sees of them may be freed as soon as undo of later changes may go.
    let write_longs = || write_longs(context, shared, checkpoints, turn);
    let (mut longs, mut written) = write_longs()?;
    let answers = image_trees(context, shared, (turn, pace), seen, before)?;
    if mutant("checkpoint-takes-longs-late") {
        longs = write_longs()?.0;
    }
    let mut trees = HashMap::default();
    for (imaged, more) in answers {
        trees.extend(imaged.into_iter().map(|tree| (tree.image.tree, tree)));
        written.pages += more.pages;
        written.writes += more.writes;
        written.moved += more.moved;
    }
    Ok(Imaged { trees, longs, written })
}

/// Takes the long values that are complete into the checkpoint, those that S does not see, too, and has every instance write
/// those of its homes. Answers which the checkpoint has, by home.
fn write_longs(
    context: &Context,
    shared: &Arc<Shared>,
    checkpoints: &Checkpoints,
    turn: &Turn,
) -> Result<(Vec<LongPlaces>, Written)> {
    // First: one that is completed while pages are written is none of them.
    checkpoints.store.hold_longs(turn.term);
    let (term, turn, asked) = (turn.term, turn.clone(), shared.clone());
    let instances = context.instance().hub().instances();
    let together = LongShares::new(instances);
    let answers = ask_all_tasks(context, shared, move |context| {
        let versions = &context.instance().state().inner.txn.environment().versions;
        let store = &asked.checkpoints.as_ref().expect("a checkpoint is being made").store;
        // More homes than instances, if it had more of these once.
        let homes = (usize::from(context.instance().id().0)..store.homes()).step_by(instances);
        let homes = homes.map(|home| HomeId(home as u16));
        let pages = (&*asked.pool, store);
        write_long_values(context, pages, &turn, (&together, homes), &|| may_go_on(versions))
    })?;
    context.linger("longs written");
    let mut written = Written::default();
    for more in why_first(answers)? {
        written.pages += more.pages;
        written.writes += more.writes;
    }
    Ok((checkpoints.store.longs_held(term), written))
}

/// What all have answered; an error that says more than that another has failed, if there is one.
fn why_first<T>(answers: Vec<Result<T>>) -> Result<Vec<T>> {
    let says_why = |answer: &Result<T>| !matches!(answer, Ok(_) | Err(Error::Internal { .. }));
    match answers.iter().position(says_why) {
        Some(at) => answers.into_iter().skip(at).take(1).collect(),
        None => answers.into_iter().collect(),
    }
}

/// What the instances have imaged, each its share.
fn image_trees(
    context: &Context,
    shared: &Arc<Shared>,
    (turn, pace): (&Turn, Pace),
    (catalog, snapshot): (&Catalog, &Arc<CheckpointSnapshot>),
    before: &Arc<HashMap<TreeId, ImagedTree>>,
) -> Result<Vec<(Vec<ImagedTree>, Written)>> {
    let s = snapshot.view().timestamp;
    let instances = context.instance().hub().instances();
    let shares = Arc::new(shares(shared, catalog, before, instances));
    let indexes = catalog.tables().flat_map(|table| &table.indexes).map(|index| index.tree.tree());
    let common = Arc::new(Common::new(instances, tables_of(catalog).cloned(), indexes));
    let (turn, before, asked) = (turn.clone(), before.clone(), shared.clone());
    let snapshot = snapshot.clone();
    let answers = ask_all_tasks(context, shared, move |context| {
        let id = context.instance().id();
        let core = &context.instance().state().inner;
        let checkpoints = asked.checkpoints.as_ref().expect("a checkpoint is being made");
        let versions = &core.txn.environment().versions;
        let trees = &shares[usize::from(id.0)];
        // The floor, and when it was last seen to rise, or first could have.
        let raised = Cell::new((s, 0));
        let share = Share {
            first: &trees.first,
            soon: &trees.soon,
            trees: &trees.others,
            common: &common,
            home: HomeId(id.0),
            turn: &turn,
            snapshot: snapshot.view(),
            before: &before,
            may_go_on: &|| may_go_on(versions),
            pass: &|table| snapshot.pass(table),
            next_listed: &|| versions.next_to_image(s),
            give_back: &|leaf| versions.give_back(s, leaf),
            imaged: &|leaf| versions.imaged(s, leaf),
            let_go: &|| {
                snapshot.reach(id, || versions.has_imaged_all(s));
                let floor = snapshot.let_go(|| asked.versions.are_others_imaged(s));
                let (before, at_ns) = raised.get();
                if floor > before || at_ns == 0 {
                    raised.set((floor, context.now_ns()));
                }
                if floor > before {
                    core.txn.note_let_go();
                }
            },
            due_ns: &|passed| {
                let is_letting_go = context.now_ns() < raised.get().1 + LAGS_NS;
                let is_hurried = checkpoints.is_awaited() || asked.versions.is_imaging_hurried();
                let is_paced = is_letting_go && !is_hurried;
                if is_paced { pace.due_ns(passed, trees.leaves) } else { 0 }
            },
        };
        image_share(context, &checkpoints.store, &*asked.txn, &share)
    })?;
    why_first(answers)
}

/// Whether there is room for undo that the checkpoint holds back. `OutOfMemory`.
fn may_go_on(versions: &InstanceVersions) -> Result<()> {
    match versions.is_nearly_full() {
        true => Err(Error::OutOfMemory { what: "undo, which the checkpoint held back" }),
        false => Ok(()),
    }
}

fn tables_of(catalog: &Catalog) -> impl Iterator<Item = &Arc<TableAccess>> {
    catalog.own_access().into_iter().chain(catalog.tables().map(|table| &table.access))
}

/// The trees by instance: those of small tables first, and indexes if all of them are small; then other indexes,
/// which all instances copy, then own tables.
fn shares(
    shared: &Shared,
    catalog: &Catalog,
    before: &HashMap<TreeId, ImagedTree>,
    instances: usize,
) -> Vec<Trees> {
    let mut tables: Vec<(u64, Vec<TreeOfTable>)> = Vec::new();
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
    let all: u64 = tables.iter().map(|(leaves, _)| leaves).sum();
    let small = SMALL_LEAVES.min(all / SMALL_PART);
    let at_once = shared.options.checkpoint_at_once_bytes / PAGE_BYTES as u64;
    // What the last checkpoint had; before the first, too many are better than too few.
    let of_index = |tree: TreeId, leaves| before.get(&tree).map_or(leaves, |it| it.image.leaves);
    let of_indexes = tables.iter().flat_map(|(leaves, trees)| {
        let indexes = trees.iter().filter(|(tree, _)| matches!(tree, AnyTree::Index(_)));
        indexes.map(|(tree, _)| of_index(tree.id(), *leaves))
    });
    let are_indexes_small = of_indexes.sum::<u64>() <= at_once;
    let mut shares: Vec<Trees> = Vec::new();
    shares.resize_with(instances, Trees::default);
    for (leaves, trees) in tables {
        for (tree, left) in trees {
            let home = shared.home_of(tree.id());
            let at = usize::from(home.0) % instances;
            match tree {
                _ if leaves <= small => shares[at].first.push((tree, left)),
                AnyTree::Index(_) if are_indexes_small => shares[at].soon.push((tree, left)),
                AnyTree::Table(_) => {
                    shares[at].leaves += leaves;
                    shares[at].others.push((tree, left));
                }
                AnyTree::Index(_) => {
                    let leaves = of_index(tree.id(), leaves).div_ceil(instances as u64);
                    for share in &mut shares {
                        share.leaves += leaves;
                        share.others.push((tree.clone(), left.clone()));
                    }
                }
            }
        }
    }
    for share in &mut shares {
        share.others.sort_by_key(|(tree, _)| matches!(tree, AnyTree::Table(_)));
    }
    shares
}
