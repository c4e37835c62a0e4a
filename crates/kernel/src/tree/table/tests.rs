//! Table trees against a model, in one thread and in several.
#![expect(clippy::unwrap_used, reason = "clippy sees helpers here as no tests under cfg(all)")]

use std::cell::Cell;
use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex};

use super::*;
use crate::base::{Error, HomeId, Outcome, PAGE_BYTES, RowId, Stop, TreeId};
use crate::buffer::{BufferPool, FrameRef};
use crate::latch::held_latches;
use crate::page::{ColumnType, Layout};
use crate::tree::hints::{LeafHint, LeafHints};

type Row = Vec<Option<Vec<u8>>>;

fn seeded(name: &str) -> fastrand::Rng {
    let given = std::env::var("ATOLL_SEED").ok().and_then(|seed| seed.parse().ok());
    let seed = given.unwrap_or_else(|| fastrand::u64(..));
    println!("{name}: ATOLL_SEED={seed}");
    fastrand::Rng::with_seed(seed)
}

fn pool(frames: usize) -> Arc<BufferPool> {
    BufferPool::new(2, frames * (PAGE_BYTES + 64)).unwrap()
}

fn layout() -> Layout {
    Layout::new(0, vec![ColumnType::Int8, ColumnType::Bytes, ColumnType::Int4]).unwrap()
}

fn tree(pool: &Arc<BufferPool>) -> TableTree {
    TableTree::create(pool, HomeId(0), TreeId(9), layout(), Arc::new(NoSideTables)).unwrap()
}

fn shell<T>(mut operation: impl FnMut() -> Outcome<T>) -> Result<T, Error> {
    loop {
        match operation() {
            Ok(done) => return Ok(done),
            Err(Stop::Retry) => assert_eq!(held_latches(), 0, "nothing is held at a stop"),
            Err(Stop::Error(error)) => return Err(error),
            Err(stop) => panic!("{stop:?}"),
        }
    }
}

fn borrowed(row: &Row) -> Vec<Option<&[u8]>> {
    row.iter().map(Option::as_deref).collect()
}

fn restored(row: &[Option<Vec<u8>>]) -> Vec<Restored<'_>> {
    row.iter().map(|value| value.as_deref().into()).collect()
}

fn random_row(rng: &mut fastrand::Rng, long: usize) -> Row {
    let bytes = (0..rng.usize(0..=long)).map(|_| rng.u8(..)).collect();
    vec![
        Some(rng.u64(..).to_le_bytes().to_vec()),
        (rng.u8(..) > 30).then_some(bytes),
        (rng.u8(..) > 30).then_some(rng.u32(..).to_le_bytes().to_vec()),
    ]
}

fn append(tree: &TableTree, cursor: &mut AppendCursor, row: &Row) -> Result<RowId, Error> {
    let heap = row[1].as_ref().map_or(0, Vec::len);
    let (id, mut leaf) = shell(|| tree.append(cursor, heap))?;
    leaf.insert(id, &borrowed(row));
    Ok(id)
}

fn get(tree: &TableTree, id: RowId) -> Option<(Row, RowState)> {
    let read = shell(|| {
        tree.read(id, &mut |leaf| {
            Ok(leaf.find(id).map(|slot| {
                let columns = 0..leaf.layout().columns().len();
                (columns.map(|i| leaf.column(slot, i)).collect(), leaf.state(slot))
            }))
        })
    });
    read.unwrap()
}

fn scan(tree: &TableTree) -> Vec<(RowId, Row)> {
    let mut all = Vec::new();
    let mut from = Some(RowId(0));
    while let Some(row) = from {
        let mut rows = Vec::new();
        let ((), next) = shell(|| {
            tree.scan_leaf(row, &mut |leaf| {
                rows.clear();
                for slot in 0..leaf.count() {
                    let slot = SlotIndex(slot as u16);
                    rows.push((leaf.row_id(slot), (0..3).map(|i| leaf.column(slot, i)).collect()));
                }
                Ok(())
            })
        })
        .unwrap();
        assert!(next.is_none_or(|next| next > row));
        all.append(&mut rows);
        from = next;
    }
    all
}

fn sound(tree: &TableTree) {
    assert_eq!(tree.check().unwrap(), Vec::<String>::new());
    assert_eq!(held_latches(), 0);
}

/// Sets a value as an update would: makes room first if need be.
fn update(tree: &TableTree, id: RowId, column: usize, value: Option<&[u8]>) {
    let done = shell(|| {
        let mut leaf = tree.write(id)?;
        let slot = leaf.find(id).expect("the row is there");
        let old = leaf.view().column_bytes(slot, column).unwrap_or(0);
        let growth = if column == 1 { value.map_or(0, <[u8]>::len).saturating_sub(old) } else { 0 };
        if !leaf.can_grow(growth) {
            drop(leaf);
            tree.make_room(id, growth)?;
            return Err(Stop::Retry);
        }
        leaf.set_column(slot, column, value);
        Ok(())
    });
    done.unwrap();
}

#[test]
fn random_changes_agree_with_a_model() {
    let mut rng = seeded("table tree");
    for long in [10, 200, 3000] {
        let pool = pool(4000);
        let tree = tree(&pool);
        let mut cursors = [0, 1].map(|home| AppendCursor::new(HomeId(home)));
        let mut restorer = RestoreCursor::new(HomeId(1));
        let mut model: BTreeMap<RowId, Row> = BTreeMap::new();
        for _ in 0..4000 {
            let row = random_row(&mut rng, long);
            let some = model.keys().copied().nth(rng.usize(0..model.len().max(1)));
            match rng.u8(0..100) {
                0..60 => {
                    let id = append(&tree, rng.choice(&mut cursors).unwrap(), &row).unwrap();
                    assert!(model.insert(id, row).is_none(), "row ids are never reused");
                }
                60..75 => {
                    let Some(id) = some else { continue };
                    let column = rng.usize(0..3);
                    update(&tree, id, column, row[column].as_deref());
                    model.get_mut(&id).unwrap()[column] = row[column].clone();
                }
                75..80 => {
                    let Some(id) = some else { continue };
                    shell(|| tree.restore(&mut restorer, id, &restored(&row), &mut Unwatched))
                        .unwrap();
                    model.insert(id, row);
                }
                80..85 => {
                    let Some(id) = some else { continue };
                    let changes = [(1, row[1].as_deref().into()), (0, row[0].as_deref().into())];
                    let there =
                        shell(|| tree.restore_columns(&mut restorer, id, &changes, &mut Unwatched));
                    assert!(there.unwrap());
                    model.get_mut(&id).unwrap()[..2].clone_from_slice(&row[..2]);
                }
                85..95 => {
                    let Some(id) = some else { continue };
                    assert!(shell(|| tree.remove(&mut restorer, id, &mut Unwatched)).unwrap());
                    assert!(!shell(|| tree.remove(&mut restorer, id, &mut Unwatched)).unwrap());
                    model.remove(&id);
                }
                _ => {
                    let Some(id) = some else { continue };
                    assert_eq!(get(&tree, id), Some((model[&id].clone(), RowState::Live)));
                    assert_eq!(get(&tree, RowId(1 << 50)), None);
                }
            }
        }
        sound(&tree);
        let rows: Vec<(RowId, Row)> = model.into_iter().collect();
        assert_eq!(scan(&tree), rows);
        let about = tree.approximate_rows();
        assert!((rows.len() as u64).abs_diff(about) * 2 < rows.len() as u64, "{about} rows");
        assert!(tree.leaves() > 2);
        tree.free_pages().unwrap();
        assert_eq!(pool.stats().used, 0);
    }
}

#[test]
fn recovery_restores_rows_in_any_order() {
    let mut rng = seeded("restore");
    for shuffled in [0, 10, 100_000] {
        let pool = pool(4000);
        let tree = tree(&pool);
        let mut ids: Vec<u64> = (1..3000).chain(RANGE_ROWS + 5..RANGE_ROWS + 3000).collect();
        for i in 0..ids.len() {
            let other = (i + rng.usize(0..=shuffled)).min(ids.len() - 1);
            ids.swap(i, other);
        }
        let mut cursor = RestoreCursor::new(HomeId(0));
        let mut model = BTreeMap::new();
        for id in ids {
            let row = random_row(&mut rng, 100);
            shell(|| tree.restore(&mut cursor, RowId(id), &restored(&row), &mut Unwatched))
                .unwrap();
            model.insert(RowId(id), row);
        }
        sound(&tree);
        assert_eq!(scan(&tree), model.into_iter().collect::<Vec<_>>());
        assert!(tree.row_id_mark() >= RowId(RANGE_ROWS + 2999));
        let row = random_row(&mut rng, 10);
        let next = append(&tree, &mut AppendCursor::new(HomeId(0)), &row).unwrap();
        assert!(next > RowId(RANGE_ROWS + 2999), "an id that was seen is not handed out again");
        if shuffled == 0 {
            let pages = (5994_usize * (8 + 16 + 50)).div_ceil(PAGE_BYTES);
            assert!(tree.leaves() < 2 * pages as u64, "ascending rows fill their leaves");
        }
        sound(&tree);
    }
}

#[test]
fn ascending_appends_fill_leaves_and_cursors_do_not_meet() {
    let pool = pool(4000);
    let tree = tree(&pool);
    let mut cursors = [0, 1].map(|home| AppendCursor::new(HomeId(home)));
    let row = vec![Some(vec![1; 8]), Some(vec![2; 84]), Some(vec![3; 4])];
    let mut leaves: [Vec<FrameRef>; 2] = Default::default();
    for turn in 0..20_000 {
        let (id, mut leaf) = shell(|| tree.append(&mut cursors[turn % 2], 84)).unwrap();
        leaf.insert(id, &borrowed(&row));
        assert_eq!(
            leaf.pid().home(),
            HomeId(if leaf.view().lower_fence() == RowId(0) { 0 } else { (turn % 2) as u16 })
        );
        leaves[turn % 2].push(leaf.frame());
    }
    leaves.iter_mut().for_each(|frames| frames.sort_unstable_by_key(|frame| frame.pid()));
    assert!(leaves[0].iter().all(|frame| !leaves[1].contains(frame)));
    let least = 20_000 * (8 + 16 + 84) / PAGE_BYTES;
    assert!((tree.leaves() as usize) < least * 110 / 100 + 4, "{} leaves", tree.leaves());
    sound(&tree);
}

#[test]
fn a_full_pool_fails_the_insert_and_loses_nothing() {
    let pool = pool(40);
    let (tree, other) = (tree(&pool), self::tree(&pool));
    let mut cursor = AppendCursor::new(HomeId(0));
    let row = vec![Some(vec![1; 8]), Some(vec![2; 1000]), None];
    let mut rows = 0;
    let refused = loop {
        match append(&tree, &mut cursor, &row) {
            Ok(_) => rows += 1,
            Err(error) => break error,
        }
    };
    assert_eq!(refused, Error::OutOfMemory { what: "buffer pool" });
    let refused = shell(|| tree.make_room(RowId(3), 5000));
    assert_eq!(refused, Err(Error::OutOfMemory { what: "buffer pool" }));
    sound(&tree);
    assert_eq!(scan(&tree).len(), rows);
    other.free_pages().unwrap();
    assert!(append(&tree, &mut cursor, &row).is_ok(), "room came back");
    assert_eq!(scan(&tree).len(), rows + 1);
    sound(&tree);
}

#[test]
fn columns_are_added_without_rewriting() {
    let pool = pool(400);
    let tree = tree(&pool);
    let mut cursor = AppendCursor::new(HomeId(0));
    let old = vec![Some(vec![1; 8]), Some(vec![2; 300]), None];
    let before: Vec<RowId> = (0..500).map(|_| append(&tree, &mut cursor, &old).unwrap()).collect();
    let mut columns = layout().columns().to_vec();
    columns.push(ColumnType::Bytes);
    assert!(tree.add_layout(Layout::new(2, columns.clone()).unwrap()).is_err());
    assert!(tree.add_layout(Layout::new(1, columns[1..].to_vec()).unwrap()).is_err());
    tree.add_layout(Layout::new(1, columns).unwrap()).unwrap();
    let leaves = tree.leaves();
    assert_eq!(get(&tree, before[7]).unwrap().0, old);
    let mut new = old.clone();
    new.push(Some(vec![9; 50]));
    let after = shell(|| {
        let (id, mut leaf) = tree.append(&mut cursor, 350)?;
        leaf.insert(id, &borrowed(&new));
        Ok(id)
    })
    .unwrap();
    assert_eq!(get(&tree, after).unwrap().0, new);
    assert_eq!(tree.leaves(), leaves + 1, "no old leaf was touched");
    let mut restorer = RestoreCursor::new(HomeId(0));
    for id in &before {
        let value = [7; 200];
        let changes = [(3, Restored::Inline(&value[..]))];
        shell(|| tree.restore_columns(&mut restorer, *id, &changes, &mut Unwatched)).unwrap();
    }
    let (row, _) = get(&tree, before[7]).unwrap();
    assert_eq!((&row[..3], &row[3]), (&old[..], &Some(vec![7; 200])));
    sound(&tree);
}

/// Twins of a sort: per frame the rows with a reservation, as `version` would keep them.
#[derive(Default)]
struct Recorded(Mutex<HashMap<FrameRef, BTreeMap<RowId, usize>>>);

impl SideTables for Recorded {
    fn split(&self, from: FrameRef, to: FrameRef, separator: RowId) -> usize {
        let mut twins = self.0.lock().unwrap();
        let moved = twins.entry(from).or_default().split_off(&separator);
        let reserved = moved.values().sum();
        assert!(twins.insert(to, moved).is_none_or(|before| before.is_empty()));
        reserved
    }
    fn dropped(&self, leaf: FrameRef) {
        self.0.lock().unwrap().remove(&leaf);
    }
}

#[test]
fn splits_move_twins_and_reservations() {
    let mut rng = seeded("table twins");
    let pool = pool(2000);
    let twins = Arc::new(Recorded::default());
    let tree = TableTree::create(&pool, HomeId(0), TreeId(9), layout(), twins.clone()).unwrap();
    let mut cursor = AppendCursor::new(HomeId(0));
    let mut old: BTreeMap<RowId, Row> = BTreeMap::new();
    for _ in 0..400 {
        let row = vec![Some(vec![1; 8]), Some(vec![rng.u8(..); rng.usize(100..900)]), None];
        old.insert(append(&tree, &mut cursor, &row).unwrap(), row);
    }
    // Shrink rows, keep what they may need again, and push the room to others until leaves split.
    let ids: Vec<RowId> = old.keys().copied().collect();
    for id in &ids {
        let mut leaf = shell(|| tree.write(*id)).unwrap();
        let slot = leaf.find(*id).unwrap();
        let freed = leaf.set_column(slot, 1, Some(&[5; 10]));
        leaf.reserve(freed);
        twins.0.lock().unwrap().entry(leaf.frame()).or_default().insert(*id, freed as usize);
    }
    let leaves = tree.leaves();
    for turn in 0..200 {
        shell(|| tree.make_room(ids[turn * 2], 5000)).unwrap();
    }
    sound(&tree);
    assert!(tree.leaves() > leaves + 10, "{leaves} leaves became {}", tree.leaves());
    // Every row can go back to what it was, in any order, without a split.
    let leaves = tree.leaves();
    for id in ids.iter().rev() {
        let mut leaf = shell(|| tree.write(*id)).unwrap();
        let reserved = twins.0.lock().unwrap().get_mut(&leaf.frame()).unwrap().remove(id);
        let slot = leaf.find(*id).unwrap();
        leaf.set_column(slot, 1, old[id][1].as_deref());
        leaf.reserve(-(reserved.expect("the twin went with its row") as isize));
    }
    assert_eq!(tree.leaves(), leaves);
    assert_eq!(scan(&tree), old.into_iter().collect::<Vec<_>>());
    sound(&tree);
    tree.free_pages().unwrap();
    assert!(twins.0.lock().unwrap().is_empty());
}

#[test]
fn hints_of_any_age_lead_to_the_row_or_nowhere() {
    let (pool, mut rng) = (pool(2000), seeded("hints"));
    let sides = Arc::new(NoSideTables);
    let other = TableTree::create(&pool, HomeId(0), TreeId(8), layout(), sides).unwrap();
    let tree = tree(&pool);
    let mut cursor = AppendCursor::new(HomeId(0));
    let mut rows = Vec::new();
    let (hints, mut nears) = (LeafHints::new(3), [LeafHint::default(); 8]);
    for round in 0..4000 {
        let row = random_row(&mut rng, 60);
        rows.push((append(&tree, &mut cursor, &row).unwrap(), row));
        if round % 50 == 0 {
            // Halves a leaf: hints to it are right for one half only.
            let id = rows[rng.usize(..rows.len())].0;
            shell(|| tree.make_room(id, 4000)).unwrap();
        }
        let (id, row) = &rows[rng.usize(..rows.len())];
        let read = &mut |leaf: &LeafView<'_>| Ok(leaf.find(*id).map(|slot| leaf.column(slot, 1)));
        let found = shell(|| tree.read_near(&hints, *id, read)).unwrap();
        assert_eq!(found.as_ref(), Some(&row[1]), "row {id}");
        let leaf =
            shell(|| tree.write_near(Cell::from_mut(&mut nears[rng.usize(..8)]), *id)).unwrap();
        assert!(leaf.find(*id).is_some(), "row {id}");
        leaf.unchanged();
        // Another tree's rows are not looked for in this one's leaves.
        let leaf =
            shell(|| other.write_near(Cell::from_mut(&mut nears[rng.usize(..8)]), *id)).unwrap();
        assert!(leaf.find(*id).is_none());
        leaf.unchanged();
        let none = shell(|| other.read_near(&hints, *id, read)).unwrap();
        assert_eq!(none, None);
    }
    sound(&tree);
}

#[test]
fn an_append_notices_that_its_leaf_was_split() {
    let pool = pool(100);
    let tree = tree(&pool);
    let mut cursor = AppendCursor::new(HomeId(0));
    let row = vec![Some(vec![1; 8]), Some(vec![2; 100]), None];
    for _ in 0..60 {
        append(&tree, &mut cursor, &row).unwrap();
    }
    assert_eq!(tree.leaves(), 1);
    shell(|| tree.make_room(RowId(50), 12_000)).unwrap();
    assert!(tree.leaves() > 1);
    for _ in 0..60 {
        append(&tree, &mut cursor, &row).unwrap();
    }
    sound(&tree);
    assert_eq!(scan(&tree).len(), 120);
}

#[test]
fn readers_and_writers_of_several_threads_agree() {
    let mut rng = seeded("table threads");
    let pool = pool(3000);
    let tree = tree(&pool);
    let seeds: [u64; 4] = std::array::from_fn(|_| rng.u64(..));
    let row =
        |n: u64| vec![Some(n.to_le_bytes().to_vec()), Some(vec![n as u8; (n % 90) as usize]), None];
    let whole = |row: &Row| {
        let n = u64::from_le_bytes(row[0].as_deref().unwrap().try_into().unwrap());
        assert_eq!(row[1], Some(vec![n as u8; (n % 90) as usize]), "a row is of one moment");
    };
    let counts: Vec<usize> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..2_u16)
            .map(|home| {
                let (tree, seed) = (&tree, seeds[usize::from(home)]);
                scope.spawn(move || {
                    let mut rng = fastrand::Rng::with_seed(seed);
                    let mut cursor = AppendCursor::new(HomeId(home));
                    let mut mine = Vec::new();
                    for _ in 0..6000 {
                        mine.push(append(tree, &mut cursor, &row(rng.u64(..))).unwrap());
                        if rng.u8(..) < 100 {
                            let id = *rng.choice(&mine).unwrap();
                            let new = row(rng.u64(..));
                            let all =
                                [(0, new[0].as_deref().into()), (1, new[1].as_deref().into())];
                            let mut cursor = RestoreCursor::new(HomeId(home));
                            let there = shell(|| {
                                tree.restore_columns(&mut cursor, id, &all, &mut Unwatched)
                            });
                            assert!(there.unwrap());
                        }
                    }
                    mine.len()
                })
            })
            .collect();
        for seed in &seeds[2..] {
            let tree = &tree;
            scope.spawn(move || {
                let mut rng = fastrand::Rng::with_seed(*seed);
                for _ in 0..8 {
                    for (_, row) in scan(tree) {
                        whole(&row);
                    }
                    for _ in 0..2000 {
                        let id = RowId(rng.u64(0..6000) + RANGE_ROWS * rng.u64(0..2));
                        if let Some((row, _)) = get(tree, id) {
                            whole(&row);
                        }
                    }
                }
            });
        }
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    sound(&tree);
    let rows = scan(&tree);
    assert_eq!(rows.len(), counts.iter().sum::<usize>());
    rows.iter().for_each(|(_, row)| whole(row));
}
