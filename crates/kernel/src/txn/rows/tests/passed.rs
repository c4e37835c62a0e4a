//! Deleted rows that a checkpoint lets go of when it has passed their table (version/collect/passed.rs).

use super::*;
use crate::version::{Passed, Reaped};

/// A table with `rows` rows that everybody sees, and the timestamp of a checkpoint that begins then.
fn with_rows(rows: i32) -> (World, Vec<RowId>, Cts) {
    let mut world = World::new(1);
    let mut maker = world.rc();
    let ids = (0..rows).map(|key| maker.insert(&world, &Row::new(key, key % 3, b"text", 0)));
    let ids: Vec<_> = ids.collect();
    world.commit(maker);
    world.collect(Cts(world.clock));
    let checkpoint = Cts(world.clock);
    world.clock += 1;
    (world, ids, checkpoint)
}

/// What the checkpoint lets go of, of what is stable up to `stable`.
fn passed(world: &World, checkpoint: Cts, stable: Cts, tables: &[TreeId]) -> Passed {
    let limit = CollectLimit { horizon: Cts(world.clock), stable };
    Passed { limit, checkpoint, tables: Arc::new(tables.iter().copied().collect()) }
}

fn delete(world: &mut World, rows: &[RowId]) -> Cts {
    let mut txn = world.rc();
    for row in rows {
        txn.delete(world, *row).expect("free");
    }
    world.commit(txn)
}

/// Collects what the checkpoint does not hold back, and counts the table's rows that are left.
fn rows_left(world: &World, ids: &[RowId]) -> usize {
    let is_there = |row: &&RowId| {
        let read = world.table.tree.read(**row, &mut |leaf| Ok(leaf.find(**row).is_some()));
        read.expect("nobody writes")
    };
    ids.iter().filter(is_there).count()
}

#[test]
fn deleted_rows_of_a_table_that_was_passed_go_before_their_undo() {
    let (mut world, ids, checkpoint) = with_rows(10);
    delete(&mut world, &ids[..4]);
    world.collect(checkpoint);
    let none = passed(&world, checkpoint, Cts::MAX, &[]);
    assert_eq!(world.instances[0].reap(&none, &world, usize::MAX), Reaped::default());
    let other = passed(&world, checkpoint, Cts::MAX, &[TreeId(TABLE.0 + 77)]);
    assert_eq!(world.instances[0].reap(&other, &world, usize::MAX).rows, 0);
    assert_eq!((rows_left(&world, &ids), world.entries(0).len()), (10, 10));
    let it = passed(&world, checkpoint, Cts::MAX, &[TreeId(TABLE.0 + 77), TABLE]);
    assert_eq!(
        world.instances[0].reap(&it, &world, usize::MAX),
        Reaped { rows: 4, ..Reaped::default() }
    );
    assert_eq!((rows_left(&world, &ids), world.entries(0).len()), (6, 6));
    assert_eq!(world.entries(1).len(), 6);
    assert_eq!(world.instances[0].finished(), 1, "undo goes in its order");
    // Nothing is done twice.
    assert_eq!(world.instances[0].reap(&it, &world, usize::MAX).rows, 0);
    delete(&mut world, &ids[4..5]);
    let it = passed(&world, checkpoint, Cts::MAX, &[TreeId(TABLE.0 + 77), TABLE]);
    assert_eq!(world.instances[0].reap(&it, &world, usize::MAX).rows, 1);
    world.collect(Cts(world.clock));
    assert_eq!(world.instances[0].finished(), 0);
    world.assert_clean("rows that went early");
}

#[test]
fn what_a_snapshot_sees_and_what_is_not_stable_stays() {
    let (mut world, ids, checkpoint) = with_rows(10);
    let first = delete(&mut world, &ids[..1]);
    let reader = Cts(world.clock);
    world.clock += 1;
    let second = delete(&mut world, &ids[1..2]);
    let mut it = passed(&world, checkpoint, Cts::MAX, &[TABLE]);
    it.limit.horizon = reader;
    assert_eq!(world.instances[0].reap(&it, &world, usize::MAX).rows, 1);
    assert_eq!(rows_left(&world, &ids), 9);
    it.limit = CollectLimit { horizon: Cts(world.clock), stable: first };
    assert_eq!(world.instances[0].reap(&it, &world, usize::MAX).rows, 0);
    it.limit.stable = second;
    assert_eq!(world.instances[0].reap(&it, &world, usize::MAX).rows, 1);
    assert_eq!(rows_left(&world, &ids), 8);
    world.collect(Cts(world.clock));
    world.assert_clean("rows that went early");
}

/// Transactions that change keys, too, and those that are looked at in part.
#[test]
fn entries_of_changed_keys_stay_until_their_undo_goes() {
    let (mut world, ids, checkpoint) = with_rows(30);
    let mut txn = world.rc();
    for (number, row) in ids[..20].iter().enumerate() {
        if number % 2 == 0 {
            txn.delete(&world, *row).expect("free");
        } else {
            let key = 100 + number as i32;
            txn.update(&world, *row, &[(KEY, Some(key.to_le_bytes().to_vec()))]);
        }
    }
    world.commit(txn);
    delete(&mut world, &ids[20..25]);
    let it = passed(&world, checkpoint, Cts::MAX, &[TABLE]);
    let mut rows = 0;
    for turn in 0.. {
        let reaped = world.instances[0].reap(&it, &world, 3);
        rows += reaped.rows;
        if !reaped.more {
            break;
        }
        assert!(turn < 100, "it comes to an end");
    }
    assert_eq!((rows, rows_left(&world, &ids)), (15, 15));
    assert_eq!(world.entries(0).len(), 15 + 10, "the old keys of ten rows are there");
    world.collect(Cts(world.clock));
    assert_eq!(world.entries(0).len(), 15);
    world.assert_clean("rows that went early, and others");
}
