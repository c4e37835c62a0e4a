//! Trees that shrink: random inserts and deletes with scans and appends at the same time; after
//! everything is gone next to nothing is left, and a queue does not grow.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::*;
use crate::base::{Cts, HomeId, Outcome, PAGE_BYTES, RowId, Stop, TreeId};
use crate::buffer::BufferPool;
use crate::page::{ColumnType, Layout};
use crate::sync::{AtomicBool, Ordering};
use crate::tree::descent::Merged;
use crate::tree::hints::LeafHints;

fn shell<T>(mut operation: impl FnMut() -> Outcome<T>) -> T {
    loop {
        match operation() {
            Ok(done) => return done,
            Err(Stop::Retry) => std::thread::yield_now(),
            Err(stop) => panic!("{stop:?}"),
        }
    }
}

fn make() -> (Arc<BufferPool>, TableTree) {
    let pool = BufferPool::new(2, 4000 * (PAGE_BYTES + 64)).expect("memory");
    let layout = Layout::new(1, vec![ColumnType::Int8, ColumnType::Bytes]).expect("two columns");
    let sides = Arc::new(NoSideTables);
    let tree = TableTree::create(&pool, HomeId(0), TreeId(5), layout, sides).expect("room");
    (pool, tree)
}

fn append(tree: &TableTree, cursor: &mut AppendCursor, len: usize) -> RowId {
    let (row, mut leaf) = shell(|| tree.append(cursor, len));
    leaf.insert(row, &[Some(&row.0.to_le_bytes()), Some(&vec![row.0 as u8; len])]);
    row
}

/// As collection does it: takes the row out, and merges its leaf if little is left.
fn remove(tree: &TableTree, row: RowId) {
    let mut leaf = shell(|| tree.write(row));
    let slot = leaf.find(row).expect("the row is there");
    leaf.remove(slot);
    let is_underfull = crate::page::rowleaf::is_underfull(leaf.page_mut().bytes());
    drop(leaf);
    while is_underfull && shell(|| tree.merge_leaf(row)) == Merged::Yes {}
}

fn rows(tree: &TableTree) -> Vec<RowId> {
    let mut rows = Vec::new();
    let mut from = Some(RowId(0));
    while let Some(start) = from {
        let (found, next) = shell(|| {
            tree.scan_leaf(start, &mut |leaf: &LeafView<'_>| {
                let slots = leaf.lower_bound(start).index()..leaf.count();
                Ok(slots.map(|slot| leaf.row_id(SlotIndex(slot as u16))).collect::<Vec<_>>())
            })
        });
        rows.extend(found);
        from = next;
    }
    rows
}

fn check(tree: &TableTree) {
    assert_eq!(shell(|| tree.check()), Vec::<String>::new());
}

/// A leaf that a checkpoint has imaged gets rows that it may not have.
#[test]
fn a_merged_leaf_does_not_count_as_imaged() {
    let (_pool, tree) = make();
    let mut cursor = AppendCursor::new(HomeId(0));
    let all: Vec<RowId> = (0..200).map(|_| append(&tree, &mut cursor, 500)).collect();
    assert!(tree.leaves() > 3);
    for row in &all {
        shell(|| tree.write(*row)).frame().set_imaged_as_of(Cts(7));
    }
    let before = tree.leaves();
    let mut gone = 0;
    while tree.leaves() == before {
        remove(&tree, all[gone]);
        gone += 1;
    }
    let merged = shell(|| tree.write(all[gone])).frame();
    assert_eq!(merged.imaged_as_of(), Cts::ZERO, "after {gone} rows");
    let other = shell(|| tree.write(*all.last().expect("rows"))).frame();
    assert_eq!(other.imaged_as_of(), Cts(7));
}

#[test]
fn a_tree_shrinks_as_its_rows_go() {
    let (pool, tree) = make();
    let mut random = fastrand::Rng::with_seed(1);
    let mut cursor = AppendCursor::new(HomeId(0));
    let mut all = BTreeSet::new();
    for _ in 0..3 {
        while all.len() < 20_000 {
            all.insert(append(&tree, &mut cursor, random.usize(0..600)));
        }
        let full = tree.leaves();
        assert!(full > 300, "{full} leaves");
        let mut order: Vec<RowId> = all.iter().copied().collect();
        random.shuffle(&mut order);
        for (count, row) in order.into_iter().enumerate() {
            all.remove(&row);
            remove(&tree, row);
            if count % 4000 == 0 {
                assert!(rows(&tree).into_iter().eq(all.iter().copied()));
                check(&tree);
            }
        }
        check(&tree);
        assert!(tree.leaves() <= 2, "{} leaves without a row", tree.leaves());
        assert!(pool.stats().used <= 4, "{} pages", pool.stats().used);
    }
}

#[test]
fn a_hint_to_a_page_that_another_tree_has_now_leads_nowhere() {
    let (pool, tree) = make();
    let mut cursor = AppendCursor::new(HomeId(0));
    let all: Vec<RowId> = (0..400).map(|_| append(&tree, &mut cursor, 400)).collect();
    let hints = LeafHints::new(10);
    let is_there = |row: RowId| {
        let find = &mut |leaf: &LeafView<'_>| Ok(leaf.find(row).is_some());
        shell(|| tree.read_near(&hints, row, find))
    };
    assert!(all.iter().all(|row| is_there(*row)));
    all[1..].iter().for_each(|row| remove(&tree, *row));
    // The freed pages, under their old PIDs, become leaves of a tree with rows of the same ids.
    let layout = tree.layout().clone();
    let sides = Arc::new(NoSideTables);
    let other = TableTree::create(&pool, HomeId(0), TreeId(6), layout, sides).expect("room");
    let mut cursor = AppendCursor::new(HomeId(0));
    let theirs: Vec<RowId> = (0..400).map(|_| append(&other, &mut cursor, 400)).collect();
    assert_eq!(theirs, all);
    assert!(is_there(all[0]) && !all[1..].iter().any(|row| is_there(*row)));
}

#[test]
fn a_queue_keeps_its_size() {
    let (pool, tree) = make();
    let mut cursor = AppendCursor::new(HomeId(0));
    let mut queue = std::collections::VecDeque::new();
    for turn in 0..100_000 {
        queue.push_back(append(&tree, &mut cursor, 20));
        if queue.len() > 2000 {
            remove(&tree, queue.pop_front().expect("not empty"));
        }
        if turn % 5000 == 0 {
            assert!(pool.stats().used <= 12, "{} pages at turn {turn}", pool.stats().used);
        }
    }
    check(&tree);
}

/// Rows that stay are met by every scan, once and in order, however leaves split and merge; appends
/// of two instances and removals go on at the same time.
#[test]
fn scans_meet_all_that_stays_while_leaves_come_and_go() {
    let (_pool, tree) = make();
    let stop = AtomicBool::new(false);
    let mut setup = AppendCursor::new(HomeId(0));
    let mut staying = BTreeSet::new();
    let mut going = Vec::new();
    for turn in 0..20_000 {
        let row = append(&tree, &mut setup, 300);
        if turn % 97 == 0 {
            staying.insert(row);
        } else {
            going.push(row);
        }
    }
    std::thread::scope(|scope| {
        let (tree, stop, staying) = (&tree, &stop, &staying);
        let readers: Vec<_> = (0..2)
            .map(|_| {
                scope.spawn(move || {
                    let mut scans = 0;
                    while !stop.load(Ordering::Relaxed) || scans == 0 {
                        let seen = rows(tree);
                        assert!(seen.windows(2).all(|pair| pair[0] < pair[1]), "in order, once");
                        let seen: BTreeSet<RowId> = seen.into_iter().collect();
                        assert!(staying.is_subset(&seen), "a row that stays was missed");
                        scans += 1;
                    }
                })
            })
            .collect();
        let writers: Vec<_> = (0..2_u64)
            .map(|home| {
                let mut own: Vec<RowId> =
                    going.iter().copied().filter(|row| row.0 % 2 == home).collect();
                scope.spawn(move || {
                    let mut random = fastrand::Rng::with_seed(home);
                    let mut cursor = AppendCursor::new(HomeId(home as u16));
                    for _ in 0..12_000 {
                        if random.u8(..) < 60 {
                            own.push(append(tree, &mut cursor, random.usize(0..600)));
                        } else if !own.is_empty() {
                            let at = random.usize(..own.len());
                            remove(tree, own.swap_remove(at));
                        }
                    }
                    own.into_iter().for_each(|row| remove(tree, row));
                })
            })
            .collect();
        writers.into_iter().for_each(|writer| writer.join().unwrap());
        stop.store(true, Ordering::Relaxed);
        readers.into_iter().for_each(|reader| reader.join().unwrap());
    });
    check(&tree);
    assert!(rows(&tree).into_iter().eq(staying.iter().copied()));
    // Merges that others were in the way of are due again at the leaf's next change: make one.
    let mut from = Some(RowId(0));
    while let Some(row) = from {
        while shell(|| tree.merge_leaf(row)) == Merged::Yes {}
        from = shell(|| tree.scan_leaf(row, &mut |_: &LeafView<'_>| Ok(()))).1;
    }
    check(&tree);
    assert!(rows(&tree).into_iter().eq(staying.iter().copied()));
    assert!(tree.leaves() < 60, "{} leaves for {} rows", tree.leaves(), staying.len());
}
