//! Fetching ahead: its guesses are right where nothing moved, and it may be asked anything.

use std::cell::Cell;

use super::*;
use crate::tree::hints::LeafHints;
use crate::tree::index::FoundKey;
use crate::txn::rows::{PointAhead, prefetch_points};

const ROWS: i32 = 3_000;

fn filled() -> (World, Vec<RowId>) {
    let mut world = World::new(1);
    let mut txn = world.rc();
    let row = |key| Row::new(key, key % 7, b"text", 1).with_note(&[b'n'; 90]);
    let rows = (0..ROWS).map(|key| txn.insert(&world, &row(key))).collect();
    world.commit(txn);
    (world, rows)
}

fn key_of(key: i32) -> Vec<u8> {
    Row::new(key, 0, b"", 0).index_key(0)
}

#[test]
fn a_hinted_key_leads_to_its_row_and_slot() {
    let (world, rows) = filled();
    let (index, table) = (&world.table.indexes[0].tree, &world.table.tree);
    let hints = &world.instances[0].hints;
    let mut missed = 0;
    for (key, row) in rows.iter().enumerate() {
        let key = key_of(key as i32);
        // Where it was found last.
        let mut found = Vec::new();
        index.point(Near::Hints(hints), &key, &mut found).expect("nobody is in the way");
        table.read_near(hints, *row, &mut |_| Ok(())).expect("nobody is in the way");

        let hint = hints.prefetch_key(index.tree(), &key).get();
        let leaf = index.prefetch_leaf(hint).expect("it was found there");
        index.prefetch_search(leaf, &key);
        let FoundKey::Here(place) = index.find_ahead(leaf, &key) else {
            panic!("it is there, once")
        };
        assert_eq!(place.row(), Some((*row, Keyed::Yes)));
        let hint = hints.prefetch_row(table.id(), *row).get();
        let leaf = table.prefetch_leaf(hint).expect("it was read there");
        let slot = table.prefetch_row(leaf, *row, (&ALL, &[])).expect("a leaf of the table");
        table.prefetch_values(leaf, slot, &ALL);
        let there = table.read(*row, &mut |view| Ok((view.frame(), view.find(*row))));
        missed += usize::from(there.ok() != Some((leaf, Some(slot))));
        let found = index.find_ahead(leaf, &key);
        assert!(matches!(found, FoundKey::Elsewhere), "a leaf of another tree");
    }
    assert_eq!(missed, 0, "rows are where nothing was taken out before them");
}

#[test]
fn what_no_hint_or_a_wrong_one_leads_to_is_found_by_a_descent() {
    let (world, rows) = filled();
    let access = &*world.table;
    let (index, table) = (&access.indexes[0], &access.tree);
    // Of two hints nearly all are another leaf's.
    for hints in [LeafHints::new(16), LeafHints::new(2)] {
        let mut random = fastrand::Rng::with_seed(seed(12));
        for _ in 0..200 {
            let asked: Vec<usize> = (0..40).map(|_| random.usize(..rows.len())).collect();
            let keys: Vec<Vec<u8>> = asked.iter().map(|at| key_of(*at as i32)).collect();
            let points: Vec<PointAhead<'_>> =
                keys.iter().map(|key| PointAhead::at((access, index), key, &ALL)).collect();
            prefetch_points(&points, &hints);
            for (point, at) in points.iter().zip(&asked) {
                let row = point.place.get().entry();
                assert_eq!(row, Some((rows[*at], Keyed::Yes)));
            }
        }
    }
    for row in rows {
        let hint = Cell::default();
        let leaf = table.prefetch_leaf_anew(&hint, row);
        assert_eq!(leaf, table.read(row, &mut |view| Ok(view.frame())).ok());
        assert_eq!(leaf, table.prefetch_leaf(hint.get()));
    }
}

#[test]
fn anything_may_be_fetched_ahead_and_nothing_changes() {
    let (mut world, rows) = filled();
    let mut random = fastrand::Rng::with_seed(seed(11));
    let keys: Vec<Vec<u8>> = (-5..ROWS + 5)
        .map(|key| match random.u8(..) {
            0..20 => Vec::new(),
            20..40 => key_of(key)[..3].to_vec(),
            40..60 => (0..random.usize(..300)).map(|_| random.u8(..)).collect(),
            _ => key_of(key),
        })
        .collect();
    let columns: [u16; 7] = [0, 1, 2, 3, 4, 5, 999];
    for round in 0..20 {
        let mut txn = world.rc();
        let before = txn.scan(&world);
        let access = &*world.table;
        let points: Vec<PointAhead<'_>> = keys
            .iter()
            .map(|key| {
                let index = &access.indexes[usize::from(random.bool())];
                PointAhead::at((access, index), key, &columns[..random.usize(..=columns.len())])
            })
            .collect();
        prefetch_points(&points, &world.instances[0].hints);
        let mut id = |row: &RowId| RowId(row.0.wrapping_mul(random.u64(0..3)));
        let ids: Vec<RowId> = rows.iter().map(&mut id).collect();
        txn.reader(&world).prefetch(access, &ids, &columns);
        assert_eq!(txn.scan(&world), before);
        // Rows go, leaves are merged and their frames given again: hints lead astray.
        for _ in 0..200 {
            let row = rows[random.usize(..rows.len())];
            if txn.read(&world, row).is_some() {
                txn.delete(&world, row).expect("nobody is in the way");
            }
            txn.next_command(&world);
        }
        world.commit(txn);
        world.collect(Cts(world.clock + 1_000 * round));
    }
}
