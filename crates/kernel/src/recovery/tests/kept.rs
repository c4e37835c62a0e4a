//! Indexes that replay keeps come to what whole builds make, but for entries that no row ever needed.
//!
//! One random history is replayed in two ways: (a) from the beginning, all indexes built at the end;
//! (b) up to some commit, then what came of it is handed over as a checkpoint's state would be, with
//! entries planted and taken that a running database leaves in copies of leaves, and the rest is
//! replayed on it.

use std::collections::{BTreeMap, BTreeSet, HashSet};

use rustc_hash::FxHashMap as HashMap;
use std::ops::Bound;
use std::sync::Arc;

use super::world::{Row, World};
use super::{Commit, HOMES, logs_of, seeded, workers};
use crate::base::{Cts, Error, PAGE_BYTES, Result, RowId, Stop, TreeId};
use crate::buffer::{BufferPool, until_done};
use crate::catalog::{Catalog, IndexDef, IndexKind, Oid};
use crate::latch::held_latches;
use crate::page::ColumnType;
use crate::page::overflow::{Form, LongRef};
use crate::page::rowleaf::SlotIndex;
use crate::recovery::{Definitions, Loaded, ReplayOptions, build_catalog, catalog_objects, replay};
use crate::tree::index::{IndexBatch, IndexTree, Keep, Keyed, Keys, Near, ScanDirection};
use crate::tree::overflow::read_whole;
use crate::tree::table::{LeafView, TableTree};
use crate::txn::SequenceState;
use crate::version::VersionSpace;

/// An index's entries.
pub(super) type Entries = BTreeSet<(Vec<u8>, u64)>;

/// A database that is being recovered.
struct Recovering {
    pool: Arc<BufferPool>,
    versions: Arc<VersionSpace>,
    definitions: Definitions,
}

impl Recovering {
    fn new() -> Recovering {
        let pool = BufferPool::new(usize::from(HOMES), 8000 * (PAGE_BYTES + 64)).unwrap();
        let versions = VersionSpace::new(1);
        let definitions = Definitions::new(pool.clone(), versions.clone(), HOMES).unwrap();
        Recovering { pool, versions, definitions }
    }

    fn replay(&mut self, commits: &[Commit], options: ReplayOptions) -> Result<()> {
        replay(logs_of(commits), &mut self.definitions, options, &mut |_| ()).map(drop)
    }

    fn catalog(&self) -> Catalog {
        build_catalog(&self.definitions, &self.versions, 2).unwrap()
    }

    /// Goes on from what was built, as from a state that was loaded. The indexes of `left_out` are
    /// not handed over.
    fn go_on(
        self,
        catalog: &Catalog,
        left_out: &[TreeId],
        stray: Vec<Arc<IndexTree>>,
    ) -> Recovering {
        let Recovering { pool, versions, definitions } = self;
        let tree = |id| definitions.tree(id).expect("every table has its tree").clone();
        let indexes = catalog.tables().flat_map(|table| &table.indexes);
        let indexes = indexes.filter(|index| !left_out.contains(&index.def.tree));
        let loaded = Loaded {
            catalog: tree(crate::catalog::CATALOG_TREE),
            tables: catalog.tables().map(|table| (table.def.tree, tree(table.def.tree))).collect(),
            indexes: indexes
                .map(|index| index.tree.clone())
                .chain(stray)
                .map(|tree| (tree.tree(), tree))
                .collect(),
            sequences: vec![(TreeId(9), Cts(4), SequenceState { last: 77, called: true })],
        };
        let definitions =
            Definitions::adopt(pool.clone(), versions.clone(), HOMES, loaded).unwrap();
        Recovering { pool, versions, definitions }
    }
}

/// All entries, each with whether its leaf is exact and keyed.
fn entries_and_bits(tree: &IndexTree) -> BTreeMap<(Vec<u8>, u64), (bool, Keyed)> {
    let mut entries = BTreeMap::new();
    let mut batch = IndexBatch::new();
    let mut from = Some(Vec::new());
    while let Some(start) = from {
        let range = (Bound::Included(start.as_slice()), Bound::Unbounded);
        let next = until_done(tree.pool(), || {
            tree.scan(range.0, range.1, ScanDirection::Forward, &mut batch)
        });
        for at in 0..batch.len() {
            let bits = (batch.is_exact(), batch.keyed());
            entries.insert((batch.key(at).to_vec(), batch.row(at).0), bits);
        }
        from = next.unwrap().map(|place| place.key);
    }
    entries
}

pub(super) fn entries(tree: &IndexTree) -> Entries {
    entries_and_bits(tree).into_keys().collect()
}

fn rows(tree: &TableTree, columns: usize) -> BTreeMap<u64, Row> {
    let mut rows = BTreeMap::new();
    let mut from = Some(RowId(0));
    while let Some(start) = from {
        let (found, next): (Vec<(u64, Row)>, _) = until_done(tree.pool(), || {
            tree.scan_leaf(start, &mut |leaf: &LeafView<'_>| {
                let slots = (0..leaf.count()).map(|slot| SlotIndex(slot as u16));
                Ok(slots
                    .map(|slot| (leaf.row_id(slot).0, row(tree, leaf, slot, columns)))
                    .collect())
            })
        })
        .unwrap();
        rows.extend(found);
        from = next;
    }
    rows
}

fn row(tree: &TableTree, leaf: &LeafView<'_>, slot: SlotIndex, columns: usize) -> Row {
    let value = |column| {
        let mut bytes = Vec::new();
        if leaf.append_column(slot, column, &mut bytes)? == Form::Long {
            let reference = LongRef::decode(&bytes).unwrap();
            bytes.clear();
            read_whole(tree.pool(), tree.long_owner(), reference, &mut bytes).unwrap();
        }
        Some(bytes)
    };
    (0..columns).map(value).collect()
}

fn indexes(catalog: &Catalog) -> HashMap<Oid, (IndexDef, Arc<IndexTree>)> {
    let all = catalog.tables().flat_map(|table| &table.indexes);
    all.map(|index| (index.def.oid, (index.def.clone(), index.tree.clone()))).collect()
}

/// The trees are whole, and tables have the rows of the model.
fn check_rows(world: &World, recovering: &Recovering, catalog: &Catalog) {
    let mut pages = HashSet::new();
    assert_eq!(catalog.tables().count(), world.tables.len());
    for table in &world.tables {
        let entry = catalog.table_by_oid(table.def.oid).expect("the table is there");
        assert_eq!(entry.def, table.def);
        let tree = &entry.access.tree;
        let columns = table.def.columns.len();
        let mut expected = table.rows.clone();
        expected.values_mut().for_each(|row| row.resize(columns, None));
        let found = rows(tree, columns);
        assert!(found == expected, "table {} has other rows", table.def.name);
        assert_eq!(tree.check().unwrap(), Vec::<String>::new());
        assert_eq!(tree.check_longs(&mut pages).unwrap(), Vec::<String>::new());
        for index in &entry.indexes {
            assert_eq!(index.tree.check().unwrap(), Vec::<String>::new());
        }
    }
    assert_eq!(recovering.pool.overflow_pages().len(), pages.len(), "no long value is left over");
    assert_eq!(held_latches(), 0);
}

/// What a running database leaves in an index that is copied while it goes on: entries of changes
/// in flight and of old keys, some of which happen in the logs, too; and none of keys that were
/// taken from their rows and collected since. Answers what was planted.
fn plant(rng: &mut fastrand::Rng, tree: &IndexTree, last: &Entries) -> Entries {
    let before: Vec<(Vec<u8>, u64)> = entries(tree).into_iter().collect();
    let mut planted = Entries::new();
    let mut add = |key: &[u8], row: u64, keys| {
        until_done(tree.pool(), || tree.insert(Near::Nowhere, (key, RowId(row)), keys)).unwrap();
        planted.insert((key.to_vec(), row));
    };
    for number in 0..30 {
        let mut any = || &before[rng.usize(0..before.len())];
        let (key, row) = (&any().0, any().1);
        // An update in flight, or rolled back, or the key before one.
        add(key, row, Keys::Several);
        // An insertion that was lost; row ids go on above it.
        add(key, (1 << 40) + number, Keys::One);
        // A row that some commit in the logs inserts, with another key.
        add(key, row + 900, Keys::Several);
    }
    let mut later: Vec<&(Vec<u8>, u64)> = last.iter().filter(|it| !before.contains(it)).collect();
    rng.shuffle(&mut later);
    for (key, row) in later.into_iter().take(30) {
        // One that commits.
        let is_new = before.iter().all(|it| it.1 != *row);
        add(key, *row, if is_new { Keys::One } else { Keys::Several });
    }
    let mut gone: Vec<_> = before.iter().filter(|it| !last.contains(it)).collect();
    rng.shuffle(&mut gone);
    for (key, row) in gone.into_iter().take(30).filter(|it| !planted.contains(it)) {
        until_done(tree.pool(), || tree.remove(key, RowId(*row), &mut || Ok(Keep::No))).unwrap();
    }
    planted
}

/// The kept index has all that it must, nothing else but what was planted, and bits that are true.
fn compare(name: &str, kept: &IndexTree, built: &IndexTree, planted: &Entries) {
    let (kept, built) = (entries_and_bits(kept), entries(built));
    let lost = built.iter().find(|entry| !kept.contains_key(entry));
    assert_eq!(lost, None, "{name} lacks an entry");
    let rows: HashSet<u64> = built.iter().map(|(_, row)| *row).collect();
    for (entry, (is_exact, keyed)) in kept.iter().filter(|(entry, _)| !built.contains(entry)) {
        assert!(planted.contains(entry), "{name} has an entry too many: {entry:?}");
        assert!(!is_exact, "{name}: an exact leaf has the entry {entry:?}");
        let misleads = *keyed == Keyed::Yes && rows.contains(&entry.1);
        assert!(!misleads, "{name}: a keyed leaf has the entry {entry:?} of a row that is there");
    }
}

/// Everything that definitions can do to indexes, each with changes before and after.
fn define(world: &mut World) {
    let [dropped, gone, renamed] = [0, 0, 1].map(|table| world.indexes_of(table));
    world.drop_index(dropped[2].0);
    world.commit();
    world.run(20);
    world.create_index(0, &[2], IndexKind::Plain);
    world.change(0);
    world.commit();
    world.rename_index(renamed[1].0);
    world.add_column(1, ColumnType::Bytes);
    (0..10).for_each(|_| world.change(1));
    world.commit();
    world.run(20);
    world.add_column(1, ColumnType::Int4);
    world.create_index(1, &[5, 1], IndexKind::Plain);
    world.commit();
    // In one commit that is larger than a round.
    (0..50).for_each(|_| world.change(2));
    world.truncate(2);
    world.drop_index(gone[1].0);
    (0..300).for_each(|at| world.change([2, 0][at % 2]));
    world.commit();
    world.run(20);
    world.rewrite(3);
    world.commit();
    world.run(20);
    // What was table 5 is table 4 then.
    world.drop_table(4);
    world.commit();
    world.run(20);
}

fn history(rng: fastrand::Rng) -> (World, Vec<Commit>, Vec<Commit>) {
    let mut world = World::new(rng);
    (0..6).for_each(|_| world.create_table());
    world.commit();
    for _ in 0..12 {
        (0..6).for_each(|table| (0..100).for_each(|_| world.insert(table)));
        world.commit();
    }
    world.run(100);
    let first = world.take_commits();
    world.run(60);
    define(&mut world);
    // Ascending rows and keys.
    for _ in 0..10 {
        (0..500).for_each(|_| world.insert(4));
        world.commit();
    }
    world.run(60);
    let rest = world.take_commits();
    (world, first, rest)
}

fn both_ways(name: &str, options: ReplayOptions) {
    let mut rng = seeded(name);
    let (world, first, rest) = history(rng.fork());
    let mut whole = Recovering::new();
    whole.replay(&first, options).unwrap();
    whole.replay(&rest, options).unwrap();
    let built = whole.catalog();
    check_rows(&world, &whole, &built);
    let built = indexes(&built);

    let mut half = Recovering::new();
    half.replay(&first, options).unwrap();
    let catalog = half.catalog();
    let before = indexes(&catalog);
    let table = |at: usize| world.tables[at].def.oid;
    // Nothing is planted here: its leaves are exact, and the first ones only lose entries.
    let is_plain = |def: &IndexDef| def.table == table(1) && def.kind == IndexKind::Primary;
    let mut planted = HashMap::default();
    for (oid, (_, tree)) in before.iter().filter(|(_, (def, _))| !is_plain(def)) {
        let last = built.get(oid).map_or_else(Entries::new, |(_, tree)| entries(tree));
        planted.insert(*oid, plant(&mut rng, tree, &last));
    }
    // It is built at the end, as if it had not been loaded.
    let left_out = before.values().find(|(def, _)| def.table == table(4)).expect("it has three");
    let left_out = left_out.0.tree;
    let stray = IndexTree::create(half.pool.clone(), crate::base::HomeId(0), TreeId(8)).unwrap();
    let stray = Arc::new(stray);
    let mut half = half.go_on(&catalog, &[left_out], vec![stray.clone()]);
    drop(catalog);
    assert!(is_freed(&stray), "no object owned it");
    half.replay(&rest, options).unwrap();
    let gone = gone(&before, &half, left_out);
    let after = half.catalog();
    check_rows(&world, &half, &after);
    assert_eq!(half.definitions.sequence_state(TreeId(9)).map(|it| it.last), Some(77));
    let objects = catalog_objects(&after.own_access().unwrap().tree).unwrap();
    assert_eq!(objects.len(), half.definitions.objects().count());
    let after = indexes(&after);

    assert_eq!(after.len(), built.len());
    let (mut kept, mut superfluous) = (0, 0);
    for (oid, (def, tree)) in &after {
        let name = &def.name;
        let other = &built[oid].1;
        let was_there = before.get(oid).is_some_and(|(_, old)| Arc::ptr_eq(old, tree));
        // Tables 2 and 3 were truncated and rewritten.
        let is_new = [table(2), table(3)].contains(&def.table) || !before.contains_key(oid);
        assert_eq!(was_there, !is_new && def.tree != left_out, "{name} is kept or built");
        if was_there {
            compare(name, tree, other, planted.get(oid).unwrap_or(&Entries::new()));
            let mut bits = entries_and_bits(tree).into_values();
            assert!(
                !is_plain(def) || bits.any(|(is_exact, _)| is_exact),
                "{name} is exact nowhere"
            );
            kept += 1;
            superfluous += entries(tree).difference(&entries(other)).count();
        } else {
            assert!(entries(tree) == entries(other), "{name} is not what was built");
        }
    }
    // Of table 0 one of three, of table 1 all, of the last one two.
    assert_eq!(kept, 6);
    assert!(superfluous >= 5 * 30, "nobody took what was planted: {superfluous}");
    for (oid, (_, tree)) in &before {
        let is_there = after.get(oid).is_some_and(|(_, new)| Arc::ptr_eq(new, tree));
        assert_eq!(is_there, !gone.contains(oid));
    }
}

/// Indexes that replay has not kept, whose pages are free: asked before others are built, which may have their numbers,
/// and their roots' frames.
fn gone(
    before: &HashMap<Oid, (IndexDef, Arc<IndexTree>)>,
    half: &Recovering,
    left_out: TreeId,
) -> HashSet<Oid> {
    let mut gone = HashSet::new();
    for (oid, (def, tree)) in before {
        if !half.definitions.kept_index(def.tree).is_some_and(|kept| Arc::ptr_eq(kept, tree)) {
            assert!(def.tree == left_out || is_freed(tree), "{} keeps its pages", def.name);
            gone.insert(*oid);
        }
    }
    gone
}

fn is_freed(tree: &IndexTree) -> bool {
    let found = tree.point(Near::Nowhere, b"", &mut Vec::new());
    matches!(found, Err(Stop::Error(Error::CatalogChanged)))
}

#[test]
fn what_replay_keeps_is_what_a_whole_build_makes() {
    // All between two definitions at once.
    both_ways("one worker", ReplayOptions { workers: workers(1), round_bytes: 16 << 20 });
}

#[test]
fn several_workers_keep_one_index() {
    // Larger commits come alone, in pieces.
    both_ways("four workers", ReplayOptions { workers: workers(4), round_bytes: 32 << 10 });
    both_ways("all in one round", ReplayOptions { workers: workers(7), round_bytes: 16 << 20 });
}

#[test]
fn a_table_without_its_tree_is_damage() {
    let mut world = World::new(fastrand::Rng::with_seed(1));
    world.create_table();
    world.commit();
    let mut half = Recovering::new();
    let options = ReplayOptions { workers: workers(1), round_bytes: 1 << 20 };
    half.replay(&world.take_commits(), options).unwrap();
    let catalog = half.definitions.tree(crate::catalog::CATALOG_TREE).unwrap().clone();
    let loaded = Loaded {
        catalog,
        tables: HashMap::default(),
        indexes: HashMap::default(),
        sequences: Vec::new(),
    };
    let adopted = Definitions::adopt(half.pool, half.versions, HOMES, loaded);
    assert!(matches!(adopted.err(), Some(Error::Corrupt { .. })));
}
