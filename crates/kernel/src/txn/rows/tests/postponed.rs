//! Index entries that stay until a checkpoint has copied their index (version/collect/postponed.rs).

use super::*;

/// A table with three rows that everybody sees, and the timestamp of a checkpoint that begins then.
fn begun() -> (World, Vec<RowId>, Cts) {
    let mut world = World::new(1);
    let mut maker = world.rc();
    let ids = (0..3).map(|key| maker.insert(&world, &Row::new(key, 1, b"text", 0)));
    let ids: Vec<_> = ids.collect();
    world.commit(maker);
    world.collect(Cts(world.clock));
    let checkpoint = Cts(world.clock);
    world.clock += 1;
    world.table.versions.begin_imaging(checkpoint);
    (world, ids, checkpoint)
}

fn set_key(world: &World, txn: &mut Txn, row: RowId, key: i32) {
    txn.update(world, row, &[(KEY, Some(key.to_le_bytes().to_vec()))]);
}

/// Whether the index by key has the entry.
fn has(world: &World, key: i32, row: RowId) -> bool {
    world.entries(0).contains(&(Row::new(key, 0, b"", 0).index_key(0), row))
}

#[test]
fn a_deleted_row_and_its_undo_go_and_its_entries_wait() {
    let (mut world, ids, checkpoint) = begun();
    let mut txn = world.rc();
    txn.delete(&world, ids[1]).expect("free");
    world.commit(txn);
    world.collect(Cts(world.clock));
    assert_eq!((world.page_rows().len(), world.instances[0].undo_bytes()), (2, 0));
    assert_eq!((world.entries(0).len(), world.entries(1).len()), (3, 3));
    // Nobody is kept from the key, and nobody finds the row.
    let mut other = world.rc();
    assert_eq!(other.find(&world, 1, &[]).len(), 2);
    let again = other.insert(&world, &Row::new(1, 1, b"text", 0));
    world.commit(other);
    world.table.indexes[0].tree.set_copied_as_of(checkpoint);
    world.collect(Cts(world.clock));
    assert_eq!((world.entries(0).len(), world.entries(1).len()), (3, 4));
    assert!(has(&world, 1, again) && !has(&world, 1, ids[1]));
    world.table.versions.end_imaging(checkpoint);
    world.collect(Cts(world.clock));
    world.assert_clean("the checkpoint has ended");
}

#[test]
fn the_entries_of_a_row_that_the_checkpoint_does_not_have_go_at_once() {
    let mut world = World::new(1);
    let mut txn = world.rc();
    let row = txn.insert(&world, &Row::new(1, 1, b"text", 0));
    world.commit(txn);
    let mut txn = world.rc();
    txn.delete(&world, row).expect("free");
    world.commit(txn);
    let checkpoint = Cts(world.clock);
    world.clock += 1;
    world.table.versions.begin_imaging(checkpoint);
    world.collect(Cts(world.clock));
    assert_eq!((world.entries(0).len(), world.entries(1).len()), (0, 0));
    world.table.versions.end_imaging(checkpoint);
    world.assert_clean("the checkpoint has ended");
}

#[test]
fn the_entry_of_a_key_that_was_changed_waits_and_stays_if_the_key_comes_back() {
    let (mut world, ids, checkpoint) = begun();
    let mut txn = world.rc();
    set_key(&world, &mut txn, ids[0], 10);
    set_key(&world, &mut txn, ids[1], 11);
    world.commit(txn);
    world.collect(Cts(world.clock));
    assert!(has(&world, 0, ids[0]) && has(&world, 1, ids[1]));
    let mut back = world.rc();
    set_key(&world, &mut back, ids[0], 0);
    world.commit(back);
    world.table.versions.end_imaging(checkpoint);
    world.collect(Cts(world.clock));
    assert!(has(&world, 0, ids[0]) && !has(&world, 1, ids[1]));
    world.assert_clean("the checkpoint has ended");
}

#[test]
fn a_rollback_leaves_the_entry_that_only_the_checkpoint_needs() {
    let (mut world, ids, checkpoint) = begun();
    let mut txn = world.rc();
    set_key(&world, &mut txn, ids[0], 10);
    world.commit(txn);
    world.collect(Cts(world.clock));
    // The version that the checkpoint has is gone; another gives its key back, and does not.
    let mut back = world.rc();
    set_key(&world, &mut back, ids[0], 0);
    world.abort(back);
    assert!(has(&world, 0, ids[0]));
    // What was inserted goes at once: the checkpoint does not have it.
    let mut insert = world.rc();
    let new = insert.insert(&world, &Row::new(7, 1, b"text", 0));
    world.abort(insert);
    assert!(!has(&world, 7, new));
    world.table.indexes[0].tree.set_copied_as_of(checkpoint);
    world.collect(Cts(world.clock));
    assert!(!has(&world, 0, ids[0]));
    world.table.versions.end_imaging(checkpoint);
    world.collect(Cts(world.clock));
    world.assert_clean("the checkpoint has ended");
}

#[test]
fn an_index_that_an_earlier_checkpoint_has_copied_is_still_to_be_copied() {
    let (mut world, ids, checkpoint) = begun();
    world.table.indexes.iter().for_each(|index| index.tree.set_copied_as_of(checkpoint));
    // It has lost its role, and another begins.
    let next = Cts(world.clock);
    world.clock += 1;
    world.table.versions.begin_imaging(next);
    world.table.versions.end_imaging(checkpoint);
    let mut txn = world.rc();
    txn.delete(&world, ids[1]).expect("free");
    world.commit(txn);
    world.collect(Cts(world.clock));
    assert_eq!(world.entries(0).len(), 3);
    world.table.versions.end_imaging(next);
    world.collect(Cts(world.clock));
    world.assert_clean("the checkpoint has ended");
}

#[test]
fn an_earlier_checkpoint_that_comes_late_takes_nothing_from_the_later_one() {
    let (mut world, ids, earlier) = begun();
    let versions = world.table.versions.clone();
    versions.end_imaging(earlier);
    let later = Cts(world.clock);
    world.clock += 1;
    versions.begin_imaging(later);
    // Its S was picked before, by who stood still then and has lost the role.
    versions.begin_imaging(earlier);
    versions.end_imaging(earlier);
    let mut txn = world.rc();
    txn.delete(&world, ids[1]).expect("free");
    world.commit(txn);
    world.collect(Cts(world.clock));
    assert_eq!(world.entries(0).len(), 3);
    versions.end_imaging(later);
    world.collect(Cts(world.clock));
    world.assert_clean("the checkpoint has ended");
}

/// Whether the leaf of the index by key answers for its rows, after a sweep.
fn is_exact(world: &World) -> bool {
    let versions = &world.instances[0];
    let scan = || {
        let leaves = world.leaves(0);
        assert_eq!(leaves.len(), 1);
        if !leaves[0].is_exact() {
            super::exact::want_exact(world, (0, 0), &leaves[0]);
        }
        leaves[0].is_exact()
    };
    scan();
    versions.hurry_sweep();
    versions.sweep_indexes(world, usize::MAX);
    scan()
}

/// The bit was set as soon as undo was gone, and so stood in the image of a leaf with entries of rows that the checkpoint
/// does not have: index-only scans of it answered with them.
#[test]
fn no_leaf_answers_for_rows_that_a_checkpoint_sees_otherwise() {
    let (mut world, _, checkpoint) = begun();
    let mut txn = world.rc();
    txn.insert(&world, &Row::new(7, 1, b"text", 0));
    world.commit(txn);
    world.collect(Cts(world.clock));
    assert_eq!(world.instances[0].undo_bytes(), 0);
    assert!(!is_exact(&world));
    world.table.indexes[0].tree.set_copied_as_of(checkpoint);
    world.collect(Cts(world.clock));
    assert!(is_exact(&world));
    world.table.versions.end_imaging(checkpoint);
    world.collect(Cts(world.clock));
    world.assert_clean("the checkpoint has ended");
}

#[test]
fn many_that_wait_hurry_the_checkpoint_and_at_last_hold_undo_back() {
    const ROWS: i32 = 70_000;
    let mut world = World::new(1);
    let mut maker = world.rc();
    let ids = (0..ROWS).map(|key| maker.insert(&world, &Row::new(key, 1, b"", 0)));
    let ids: Vec<_> = ids.collect();
    world.commit(maker);
    world.collect(Cts(world.clock));
    let checkpoint = Cts(world.clock);
    world.clock += 1;
    world.table.versions.begin_imaging(checkpoint);
    let versions = world.table.versions.clone();
    for rows in ids.chunks(1000) {
        let mut txn = world.rc();
        rows.iter().for_each(|row| assert!(txn.delete(&world, *row).is_ok()));
        world.commit(txn);
        world.collect(Cts(world.clock));
        let many = world.instances[0].postponed_entries() >= 4096;
        assert_eq!(versions.is_imaging_hurried(), many);
    }
    assert!(world.instances[0].finished() > 0, "undo is held back");
    assert!(world.instances[0].postponed_entries() < 70_000);
    versions.end_imaging(checkpoint);
    for _ in 0..100 {
        world.collect(Cts(world.clock));
    }
    world.assert_clean("the checkpoint has ended");
}
