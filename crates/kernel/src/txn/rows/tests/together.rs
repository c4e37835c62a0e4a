//! Rows that are inserted by one call: as if one by one, or not at all.

use super::*;
use crate::version::undo::record_words;

fn rows(keys: impl Iterator<Item = i32>) -> Vec<Row> {
    keys.map(|key| Row::new(key, key % 5, b"together", 1)).collect()
}

fn keys(found: &[(RowId, Row)]) -> Vec<i32> {
    found.iter().filter_map(|(_, row)| row.key).collect()
}

/// Inserts rows with nothing in the way; answers their ids and the words of undo.
fn insert(world: &World, txn: &mut Txn, rows: &[Row]) -> (Vec<RowId>, u64) {
    let (mut ids, before) = (Vec::new(), txn.changes.arena.position());
    let done = txn.try_insert_rows(world, rows, &mut ids, &mut RowsProgress::default());
    done.expect("nothing is in the way");
    (ids, txn.changes.arena.position() - before)
}

#[test]
fn rows_beside_those_of_others_share_one_record() {
    for commits in [true, false] {
        let mut world = World::new(1);
        let mut first = world.rc();
        insert(&world, &mut first, &rows(0..3));
        world.commit(first);
        let mut old = world.rr();
        let mut writer = world.rc();
        let mark = writer.mark();
        let (ids, words) = insert(&world, &mut writer, &rows(10..20));
        assert_eq!(words, record_words(0) as u64);
        assert_eq!(ids, (0..10).map(|at| RowId(ids[0].0 + at)).collect::<Vec<_>>());
        assert_eq!(keys(&old.scan(&world)), [0, 1, 2]);
        let mut other = world.rc();
        let met = other.set_balance(&world, ids[9], 1);
        assert!(waits_for(&met, writer.xid), "{met:?}");
        world.abort(other);
        if !commits {
            writer.changes.roll_back(mark, &world);
            assert_eq!(world.page_rows().len(), 3);
            assert_eq!(world.entries(0).len(), 3);
        }
        world.commit(writer);
        // A later change of one of them leads on to the shared record.
        let mut later = world.rc();
        if commits {
            later.set_balance(&world, ids[4], 7).expect("committed");
        }
        world.commit(later);
        assert_eq!(keys(&old.scan(&world)), [0, 1, 2], "an older snapshot");
        world.commit(old);
        let mut new = world.rr();
        let expected: Vec<i32> =
            if commits { (0..3).chain(10..20).collect() } else { vec![0, 1, 2] };
        assert_eq!(keys(&new.scan(&world)), expected);
        world.commit(new);
        world.collect(Cts(world.clock));
        world.assert_clean("rows that share a record");
    }
}

#[test]
fn rows_and_entries_go_over_many_leaves() {
    let mut world = World::new(1);
    let mut writer = world.rc();
    // Every other key is there; those between come in an order of their own.
    insert(&world, &mut writer, &rows((0..4000).step_by(2)));
    world.commit(writer);
    let mut writer = world.rc();
    let mut random = fastrand::Rng::with_seed(3);
    let mut odd: Vec<i32> = (0..4000).skip(1).step_by(2).collect();
    for chunk in odd.chunks_mut(250) {
        if random.bool() {
            random.shuffle(chunk);
        }
    }
    insert(&world, &mut writer, &rows(odd.into_iter()));
    world.commit(writer);
    assert!(world.table.tree.leaves() > 5);
    let mut reader = world.rr();
    let mut found = keys(&reader.scan(&world));
    found.sort();
    assert_eq!(found, (0..4000).collect::<Vec<_>>());
    world.commit(reader);
    world.collect(Cts(world.clock));
    world.assert_clean("many leaves");
}

#[test]
fn a_key_that_is_taken_fails_all() {
    let mut world = World::new(1);
    let mut first = world.rc();
    insert(&world, &mut first, &rows([5, 500].into_iter()));
    world.commit(first);
    for taken in [[1, 2, 5, 7], [5, 6, 7, 8], [1, 2, 3, 500], [1, 2, 1, 3]] {
        let mut writer = world.rc();
        let mark = writer.mark();
        let mut ids = Vec::new();
        let rows = rows(taken.into_iter());
        let failed = writer.try_insert_rows(&world, &rows, &mut ids, &mut RowsProgress::default());
        assert!(violates(&failed), "{taken:?}: {failed:?}");
        writer.changes.roll_back(mark, &world);
        assert_eq!(writer.scan(&world).len(), 2, "{taken:?}");
        world.commit(writer);
    }
    world.collect(Cts(world.clock));
    world.assert_clean("failed together");
}

#[test]
fn a_key_in_flight_is_waited_for_in_the_middle() {
    for other_commits in [true, false] {
        let mut world = World::new(2);
        let mut other = world.begin(1, Isolation::ReadCommitted);
        insert(&world, &mut other, &rows([7].into_iter()));
        let mut writer = world.rc();
        let mark = writer.mark();
        let (mut ids, mut progress) = (Vec::new(), RowsProgress::default());
        let rows = rows(5..9);
        let met = writer.try_insert_rows(&world, &rows, &mut ids, &mut progress);
        assert!(waits_for(&met, other.xid), "{met:?}");
        let again = writer.try_insert_rows(&world, &rows, &mut ids, &mut progress);
        assert!(waits_for(&again, other.xid), "{again:?}");
        if other_commits {
            world.commit(other);
        } else {
            world.abort(other);
        }
        let done = writer.try_insert_rows(&world, &rows, &mut ids, &mut progress);
        if other_commits {
            assert!(violates(&done), "{done:?}");
            writer.changes.roll_back(mark, &world);
        } else {
            done.expect("the other has gone");
        }
        world.commit(writer);
        let mut reader = world.rr();
        let expected = if other_commits { vec![7] } else { vec![5, 6, 7, 8] };
        assert_eq!(keys(&reader.scan(&world)), expected);
        world.commit(reader);
        world.collect(Cts(world.clock));
        world.assert_clean("waited in the middle");
    }
}

#[test]
fn redo_says_each_row() {
    let mut world = World::new(1);
    let (mut one, mut all) = (world.rc(), world.rc());
    let rows = rows(0..30);
    for row in &rows[..15] {
        one.insert(&world, row);
    }
    insert(&world, &mut all, &rows[15..]);
    let texts = |txn: &Txn| -> Vec<String> {
        let reader = crate::txn::redo::RedoReader::new(txn.changes.redo());
        reader.map(|change| format!("{:?}", change.expect("own redo"))).collect()
    };
    assert_eq!(texts(&one).len(), 15);
    assert_eq!(texts(&all).len(), 15);
    assert!(texts(&all)[14].contains("30"), "{:?}", texts(&all)[14]);
    world.abort(one);
    world.abort(all);
    world.collect(Cts(world.clock));
    world.assert_clean("rolled back");
}

#[test]
fn little_undo_is_enough_or_an_error() {
    let mut world = World::with_undo(1, 16 << 10);
    let mut writer = world.rc();
    let (_, words) = insert(&world, &mut writer, &rows(0..2000));
    assert!(words < 2000, "{words}");
    let mut other = world.rc();
    let mark = other.mark();
    let mut ids = Vec::new();
    let failed =
        other.try_insert_rows(&world, &rows(9000..9010), &mut ids, &mut RowsProgress::default());
    assert!(matches!(failed, Err(Stop::Error(Error::OutOfMemory { .. }))), "{failed:?}");
    other.changes.roll_back(mark, &world);
    world.abort(other);
    world.commit(writer);
    world.collect(Cts(world.clock));
    world.assert_clean("little undo");
    assert_eq!(world.page_rows().len(), 2000);
}
