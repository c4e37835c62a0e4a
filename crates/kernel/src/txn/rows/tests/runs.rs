//! Rows of one command that share one undo record (rule 6.2): seen, changed, split and rolled back
//! as if each had its own.

use super::*;
use crate::version::undo::record_words;

fn row(key: i32) -> Row {
    Row::new(key, key % 5, b"run", 1)
}

/// Inserts rows with these keys by one command; answers their ids and the words of undo.
fn bulk(world: &World, txn: &mut Txn, keys: std::ops::Range<i32>) -> (Vec<RowId>, u64) {
    let before = txn.changes.arena.position();
    let rows = keys.map(|key| txn.insert(world, &row(key))).collect();
    (rows, txn.changes.arena.position() - before)
}

fn keys(found: &[(RowId, Row)]) -> Vec<i32> {
    found.iter().filter_map(|(_, row)| row.key).collect()
}

fn all(keys: std::ops::Range<i32>) -> Vec<i32> {
    keys.collect()
}

#[test]
fn rows_of_one_command_share_a_record_for_each_leaf() {
    let mut world = World::new(1);
    let mut old = world.rr();
    let mut writer = world.rc();
    let (_, words) = bulk(&world, &mut writer, 0..1000);
    let leaves = world.table.tree.leaves();
    assert!(leaves > 2, "{leaves}");
    assert_eq!(words, record_words(0) as u64 * leaves, "a record for each of {leaves} leaves");
    assert_eq!(writer.scan(&world), [], "inserted by this very command");
    writer.next_command(&world);
    assert_eq!(keys(&writer.scan(&world)), all(0..1000));
    let mut other = world.rc();
    assert_eq!(other.scan(&world), [], "in flight");
    let taken = other.try_insert(&world, &row(500), &mut Progress::default());
    assert!(waits_for(&taken, writer.xid), "{taken:?}");
    world.abort(other);
    let cts = world.commit(writer);
    assert_eq!(old.scan(&world), [], "an older snapshot");
    let mut new = world.rr();
    assert_eq!(keys(&new.scan(&world)), all(0..1000));
    assert_eq!(new.observed, [Observed { home: HomeId(0), cts }]);
    world.collect(old.snapshot.timestamp);
    assert_eq!(old.scan(&world), [], "its undo is kept");
    world.commit(old);
    world.commit(new);
    world.collect(Cts(world.clock));
    let mut late = world.rr();
    assert_eq!(keys(&late.scan(&world)), all(0..1000));
    assert_eq!(late.observed, [], "without undo everything is stable");
    world.commit(late);
    world.assert_clean("a run that is collected");
}

#[test]
fn a_run_ends_with_its_command() {
    let mut world = World::new(1);
    let mut writer = world.rr();
    bulk(&world, &mut writer, 0..10);
    writer.next_command(&world);
    let (_, words) = bulk(&world, &mut writer, 10..20);
    assert_eq!(words, record_words(0) as u64, "the leaf has a run; these share a record beside it");
    assert_eq!(keys(&writer.scan(&world)), all(0..10), "the command's own rows are not seen");
    // Another transaction's rows between: ids are not consecutive any more.
    let mut other = world.rr();
    bulk(&world, &mut other, 100..103);
    world.commit(other);
    bulk(&world, &mut writer, 20..25);
    world.abort(writer);
    let mut reader = world.rr();
    assert_eq!(keys(&reader.scan(&world)), all(100..103));
    world.commit(reader);
    world.collect(Cts(world.clock));
    world.assert_clean("runs of two commands");
}

#[test]
fn chains_of_later_changes_go_on_in_the_run() {
    for second_commits in [true, false] {
        let mut world = World::new(2);
        let mut old = world.rr();
        let mut writer = world.rc();
        let (rows, _) = bulk(&world, &mut writer, 0..100);
        writer.next_command(&world);
        writer.set_balance(&world, rows[50], 5).expect("own row");
        world.commit(writer);
        let mut middle = world.rr();
        let expected = middle.scan(&world);
        assert_eq!(expected.len(), 100);
        let mut second = world.begin(1, Isolation::ReadCommitted);
        let moved = [(KEY, Some(1000_i32.to_le_bytes().to_vec()))];
        second.update(&world, rows[3], &moved);
        second.set_balance(&world, rows[4], 7).expect("free");
        assert_eq!(second.delete(&world, rows[5]).expect("free"), WriteOutcome::Done);
        assert_eq!(second.lock(&world, rows[6]).expect("free"), WriteOutcome::Done);
        assert_eq!(second.delete(&world, rows[50]).expect("free"), WriteOutcome::Done);
        let check = |world: &World, old: &mut Txn, middle: &mut Txn| {
            assert_eq!(old.scan(world), []);
            assert_eq!(middle.scan(world), expected);
            for key in [3, 1000, 5, 50] {
                let key = row(key).index_key(0);
                assert_eq!(old.find(world, 0, &key), []);
                let found = middle.find(world, 0, &key);
                let there = expected.iter().filter(|(_, it)| it.index_key(0) == key).count();
                assert_eq!(found.len(), there);
            }
        };
        check(&world, &mut old, &mut middle);
        if second_commits {
            world.commit(second);
        } else {
            world.abort(second);
        }
        check(&world, &mut old, &mut middle);
        // Only what the older snapshot does not need goes; the collector of one instance is ahead.
        let limit = CollectLimit { horizon: old.snapshot.timestamp, stable: Cts::MAX };
        world.instances[1].collect(limit, &world, usize::MAX);
        check(&world, &mut old, &mut middle);
        world.commit(old);
        let limit = CollectLimit { horizon: middle.snapshot.timestamp, stable: Cts::MAX };
        world.instances[1].collect(limit, &world, usize::MAX);
        assert_eq!(middle.scan(&world), expected);
        world.commit(middle);
        // The second's undo goes while the run's is still there.
        let limit = CollectLimit { horizon: Cts(world.clock), stable: Cts::MAX };
        world.instances[1].collect(limit, &world, usize::MAX);
        let mut late = world.rr();
        let left = if second_commits { 98 } else { 100 };
        assert_eq!(late.scan(&world).len(), left);
        let changed = late.set_balance(&world, rows[3], 8);
        assert_eq!(
            changed.expect("free"),
            WriteOutcome::Done,
            "what is below the horizon is nobody's"
        );
        world.commit(late);
        world.collect(Cts(world.clock));
        world.assert_clean("changes after a run");
    }
}

#[test]
fn a_rollback_to_a_mark_within_a_run_takes_the_rest_out() {
    let mut world = World::new(1);
    let mut writer = world.rc();
    let start = writer.mark();
    bulk(&world, &mut writer, 0..10);
    let ten = writer.mark();
    bulk(&world, &mut writer, 10..15);
    let fifteen = writer.mark();
    writer.changes.roll_back(fifteen, &world);
    assert_eq!(world.page_rows().len(), 15, "nothing came after");
    // A failed row in the middle of a statement: taken out alone, and the run goes on behind it.
    let failed = writer.try_insert(&world, &row(3), &mut Progress::default());
    assert!(violates(&failed), "{failed:?}");
    assert_eq!(writer.changes.roll_back(fifteen, &world), GivenBack::Rows);
    let (_, words) = bulk(&world, &mut writer, 20..25);
    assert_eq!(words, 0, "the run goes on");
    assert_eq!(world.page_rows().len(), 20);
    let page = |world: &World| -> Vec<i32> {
        world.page_rows().into_iter().filter_map(|(_, row)| row?.key).collect()
    };
    assert_eq!(writer.changes.roll_back(ten, &world), GivenBack::Rows);
    assert_eq!(page(&world), all(0..10));
    assert_eq!(world.entries(0).len(), 10);
    writer.next_command(&world);
    assert_eq!(keys(&writer.scan(&world)), all(0..10));
    // The keys are free again, other records are newer than the run.
    bulk(&world, &mut writer, 12..14);
    writer.changes.roll_back(ten, &world);
    assert_eq!(page(&world), all(0..10));
    let (rows, _) = bulk(&world, &mut writer, 30..33);
    writer.next_command(&world);
    assert_eq!(writer.delete(&world, rows[1]).expect("free"), WriteOutcome::Done);
    assert_eq!(writer.delete(&world, RowId(2)).expect("free"), WriteOutcome::Done);
    writer.changes.roll_back(start, &world);
    assert_eq!(world.page_rows(), []);
    assert_eq!(world.entries(0), []);
    // The leaf is empty, and a run may begin there again.
    let (_, words) = bulk(&world, &mut writer, 0..5);
    assert_eq!(words, record_words(0) as u64);
    world.commit(writer);
    let mut reader = world.rr();
    assert_eq!(keys(&reader.scan(&world)), all(0..5));
    world.commit(reader);
    world.collect(Cts(world.clock));
    world.assert_clean("runs rolled back in parts");
}

#[test]
fn a_split_leaf_has_its_run_on_both_sides() {
    for commits in [true, false] {
        let mut world = World::new(1);
        let mut old = world.rr();
        let mut writer = world.rc();
        let (rows, _) = bulk(&world, &mut writer, 0..60);
        let leaves = world.table.tree.leaves();
        writer.next_command(&world);
        for row in rows.iter().step_by(4) {
            writer.update(&world, *row, &[(NOTE, Some(vec![b'n'; 1500]))]);
        }
        assert!(world.table.tree.leaves() > leaves, "rows grew, the leaf was split");
        assert_eq!(old.scan(&world), []);
        for row in &rows {
            assert_eq!(old.read(&world, *row), None, "{row} was inserted after the snapshot");
        }
        let mut other = world.rc();
        let met = other.set_balance(&world, rows[59], 1);
        assert!(waits_for(&met, writer.xid), "{met:?}");
        world.abort(other);
        // Appending goes on in the last leaf, by the same command of nobody's run.
        writer.next_command(&world);
        bulk(&world, &mut writer, 60..200);
        if commits {
            world.commit(writer);
        } else {
            world.abort(writer);
        }
        assert_eq!(old.scan(&world), []);
        world.commit(old);
        let mut reader = world.rr();
        let left = if commits { all(0..200) } else { Vec::new() };
        assert_eq!(keys(&reader.scan(&world)), left);
        world.commit(reader);
        world.collect(Cts(world.clock));
        // Everything goes, and leaves are merged.
        let mut deleter = world.rc();
        for (row, _) in deleter.scan(&world) {
            assert_eq!(deleter.delete(&world, row).expect("free"), WriteOutcome::Done);
        }
        world.commit(deleter);
        world.collect(Cts(world.clock));
        world.assert_clean("a run that was split");
        assert_eq!(world.page_rows(), []);
    }
}
