//! One test per rule: what a reader sees, what it observes, what collection takes.

use super::*;
use crate::version::undo::UndoRef;

fn note(len: usize) -> [(u16, Option<Vec<u8>>); 1] {
    [(NOTE, Some(vec![b'x'; len]))]
}

#[test]
fn own_changes_of_earlier_commands_are_seen_and_of_this_one_not() {
    let mut world = World::new(1);
    let mut txn = world.rr();
    let row = txn.insert(&world, &Row::new(1, 1, b"a", 10));
    assert_eq!(txn.read(&world, row), None, "inserted by this very command");
    txn.next_command(&world);
    assert_eq!(txn.read(&world, row), Some(Row::new(1, 1, b"a", 10)));
    txn.set_balance(&world, row, 20).expect("own row");
    assert_eq!(txn.read(&world, row), Some(Row::new(1, 1, b"a", 10)));
    assert_eq!(txn.set_balance(&world, row, 30).ok(), Some(WriteOutcome::DoneByThisCommand));
    txn.next_command(&world);
    assert_eq!(txn.read(&world, row), Some(Row::new(1, 1, b"a", 20)));
    txn.delete(&world, row).expect("own row");
    assert_eq!(txn.read(&world, row), Some(Row::new(1, 1, b"a", 20)));
    txn.next_command(&world);
    assert_eq!(txn.read(&world, row), None);
    assert_eq!(txn.set_balance(&world, row, 1).ok(), Some(WriteOutcome::Gone));
    let other = world.rr();
    world.commit(txn);
    world.abort(other);
    world.collect(Cts(1000));
    assert_eq!(world.page_rows(), []);
    world.assert_clean("inserted and deleted by one transaction");
}

#[test]
fn a_deciding_writer_is_waited_for_and_then_judged_anew() {
    let mut world = World::new(1);
    let mut writer = world.rc();
    let row = writer.insert(&world, &Row::new(1, 1, b"a", 10));
    let cts = Cts(world.clock + 1);
    let mut before = world.rr();
    world.clock += 2;
    let mut after = world.rr();
    world.slots.set(writer.xid, State::Preparing(cts));
    assert_eq!(before.read(&world, row), None, "its cts is not below the snapshot");
    let wait = after.try_read(&world, row);
    assert!(matches!(wait, Err(Stop::WaitFor(WaitFor::Decision(x))) if x == writer.xid));
    // Back to active (rule 6.4), then with a later cts: the earlier one counts no more.
    world.slots.set(writer.xid, State::Active);
    assert_eq!(after.read(&world, row), None);
    world.clock += 10;
    let xid = writer.xid;
    let cts = world.commit(writer);
    assert!(cts > after.snapshot.timestamp);
    assert_eq!(world.slots.get(xid), State::Ended);
    assert_eq!(after.read(&world, row), None);
    let mut late = world.rr();
    assert_eq!(late.read(&world, row), Some(Row::new(1, 1, b"a", 10)));
}

#[test]
fn records_are_stamped_to_the_last_before_the_slot_moves_on() {
    let mut world = World::new(1);
    let mut writer = world.rc();
    let rows: Vec<RowId> =
        (0..9).map(|key| writer.insert(&world, &Row::new(key, 1, b"a", 1))).collect();
    world.commit(writer);
    let mut reader = world.rr();
    for row in rows {
        assert!(reader.try_read(&world, row).expect("stamped: no slot is asked").is_some());
    }
}

#[test]
fn what_is_read_overwritten_or_missed_is_observed_unless_it_is_collected() {
    let mut world = World::new(3);
    let mut maker = world.begin(2, Isolation::ReadCommitted);
    let kept = maker.insert(&world, &Row::new(1, 1, b"a", 10));
    let doomed = maker.insert(&world, &Row::new(2, 1, b"a", 10));
    let made = world.commit(maker);
    let mut deleter = world.begin(1, Isolation::ReadCommitted);
    deleter.delete(&world, doomed).expect("free");
    assert_eq!(deleter.observed, [Observed { home: HomeId(2), cts: made }], "overwritten");
    let deleted = world.commit(deleter);

    let mut reader = world.rr();
    assert!(reader.read(&world, kept).is_some());
    assert_eq!(reader.observed, [Observed { home: HomeId(2), cts: made }], "read");
    reader.observed.clear();
    assert_eq!(reader.read(&world, doomed), None);
    assert_eq!(reader.observed, [Observed { home: HomeId(1), cts: deleted }], "absence");
    reader.observed.clear();
    reader.lock(&world, kept).expect("free");
    assert_eq!(reader.observed, [Observed { home: HomeId(2), cts: made }], "locked");
    reader.observed.clear();
    reader.next_command(&world);
    reader.set_balance(&world, kept, 11).expect("own lock");
    assert_eq!(reader.read(&world, kept).map(|row| row.balance), Some(10));
    world.abort(reader);

    // A check for uniqueness tells of the row it met.
    let mut checker = world.rr();
    assert!(violates(&checker.try_insert(
        &world,
        &Row::new(1, 7, b"b", 0),
        &mut Progress::default()
    )));
    assert_eq!(checker.observed, [Observed { home: HomeId(2), cts: made }], "unique check");
    checker.observed.clear();
    let free = checker.try_insert(&world, &Row::new(2, 7, b"b", 0), &mut Progress::default());
    free.expect("its owner is deleted");
    assert_eq!(checker.observed, [Observed { home: HomeId(1), cts: deleted }], "freed key");
    world.abort(checker);

    world.collect(Cts(world.clock));
    let mut late = world.rr();
    assert!(late.read(&world, kept).is_some());
    assert_eq!(late.read(&world, doomed), None);
    assert_eq!(late.observed, [], "without undo everything is stable");
    world.abort(late);
    world.collect(Cts(world.clock + 10));
    world.assert_clean("after all");
}

#[test]
fn undo_goes_below_the_horizon_and_when_stable_only() {
    let mut world = World::new(1);
    let mut maker = world.rc();
    let row = maker.insert(&world, &Row::new(1, 1, b"a", 10));
    let first = world.commit(maker);
    let mut old = world.rr();
    let mut writer = world.rc();
    writer.set_balance(&world, row, 20).expect("free");
    let second = world.commit(writer);
    let limit = |horizon, stable| CollectLimit { horizon, stable };
    let instance = Rc::clone(&world.instances[0]);
    let collect = |world: &World, limit| instance.collect(limit, world, 100).transactions;
    assert_eq!(collect(&world, limit(first, Cts::MAX)), 0);
    assert_eq!(collect(&world, limit(Cts::MAX, Cts(first.0 - 1))), 0, "not stable");
    assert_eq!(collect(&world, limit(old.snapshot.timestamp, Cts::MAX)), 1);
    assert_eq!(old.read(&world, row).map(|row| row.balance), Some(10));
    world.abort(old);
    assert_eq!(collect(&world, limit(Cts(second.0 + 1), first)), 0, "not stable");
    assert_eq!(collect(&world, limit(Cts(second.0 + 1), second)), 1);
    world.collect(Cts(world.clock));
    world.assert_clean("all stable");
}

#[test]
fn reserved_bytes_let_every_version_come_back() {
    let mut world = World::new(1);
    let mut maker = world.rc();
    let rows: Vec<RowId> = (0..40)
        .map(|key| maker.insert(&world, &Row::new(key, 1, b"", 0).with_note(&[b'a'; 300])))
        .collect();
    world.commit(maker);
    world.collect(Cts(world.clock));
    let mut shrinker = world.rc();
    for row in &rows {
        shrinker.update(&world, *row, &note(10));
    }
    // Others may not take what was put aside: they get leaves of their own.
    let mut filler = world.rc();
    for key in 100..200 {
        filler.insert(&world, &Row::new(key, 2, b"", 0).with_note(&[b'b'; 290]));
    }
    world.commit(filler);
    shrinker.next_command(&world);
    for row in &rows {
        shrinker.update(&world, *row, &note(700));
    }
    world.abort(shrinker);
    let mut reader = world.rr();
    for row in &rows {
        assert_eq!(reader.read(&world, *row).and_then(|row| row.note), Some(vec![b'a'; 300]));
    }
    world.abort(reader);
    world.collect(Cts(world.clock));
    world.assert_clean("after the rollback");
}

#[test]
fn reserved_bytes_stay_while_a_newer_version_needs_them() {
    let mut world = World::new(1);
    let mut maker = world.rc();
    let long = vec![b'a'; 6000];
    let row = maker.insert(&world, &Row::new(1, 1, b"", 0).with_note(&long));
    let other = maker.insert(&world, &Row::new(2, 1, b"", 0));
    world.commit(maker);
    world.collect(Cts(world.clock));
    let mut first = world.rc();
    first.update(&world, row, &note(5000));
    world.commit(first);
    let mut second = world.rc();
    second.update(&world, row, &note(10));
    // The first one's undo goes; the second one must still find its way back to 5000 bytes.
    world.collect(Cts(world.clock));
    let mut grower = world.rc();
    grower.update(&world, other, &note(7500));
    grower.next_command(&world);
    let mut filler = world.rc();
    for key in 100..130 {
        filler.insert(&world, &Row::new(key, 2, b"", 0).with_note(&[b'b'; 400]));
    }
    world.commit(filler);
    world.abort(second);
    world.commit(grower);
    let mut reader = world.rr();
    assert_eq!(reader.read(&world, row).and_then(|row| row.note), Some(vec![b'x'; 5000]));
    world.abort(reader);
    world.collect(Cts(world.clock));
    world.assert_clean("all given back");
}

#[test]
fn a_row_that_grows_again_and_again_stays_within_its_largest_size() {
    let mut world = World::new(1);
    let mut maker = world.rc();
    let row = maker.insert(&world, &Row::new(1, 1, b"", 0));
    for round in 0..20 {
        maker.next_command(&world);
        maker.update(&world, row, &note(if round % 2 == 0 { 7500 } else { 1 }));
    }
    let reserved = world.table.tree.read(row, &mut |leaf| Ok(leaf.reserved())).expect("idle");
    assert!(reserved <= 7500, "{reserved}");
    world.abort(maker);
    world.collect(Cts(world.clock));
    world.assert_clean("rolled back");
}

#[test]
fn full_undo_fails_the_writer_and_loses_nothing() {
    let mut world = World::with_undo(1, 48 << 10);
    let mut maker = world.rc();
    let row = maker.insert(&world, &Row::new(1, 1, b"", 0).with_note(&[b'a'; 3000]));
    world.commit(maker);
    let mut writer = world.rc();
    let mut done = 0;
    let failed = loop {
        writer.next_command(&world);
        let changes = note(3000 + done % 2);
        match writer.try_update(&world, row, &changes, &mut Progress::default()) {
            Ok(_) => done += 1,
            Err(Stop::Error(error)) => break error,
            Err(stop) => panic!("{stop:?}"),
        }
    };
    assert_eq!(failed, Error::OutOfMemory { what: "undo" });
    assert!(done >= 5, "{done}");
    world.abort(writer);
    let mut again = world.rc();
    assert_eq!(again.read(&world, row).and_then(|row| row.note), Some(vec![b'a'; 3000]));
    world.collect(Cts(world.clock));
    again.update(&world, row, &note(10));
    world.commit(again);
    world.collect(Cts(world.clock));
    world.assert_clean("full once");
}

#[test]
fn frozen_rows_need_no_undo() {
    let mut world = World::new(1);
    let mut copy = world.rc();
    for key in 0..500 {
        let bytes = Row::new(key, 1, b"frozen", 5).bytes();
        let values: Vec<_> = bytes.iter().map(Option::as_deref).collect();
        let mut progress = Progress::default();
        let mut writer = copy.writer(&world);
        let how = (Frozen::Yes, &mut Longs::new());
        writer.insert(&world.table, &values, how, &mut progress).expect("own tree");
    }
    assert!(!copy.changes.is_empty(), "there is redo");
    world.commit(copy);
    assert_eq!(world.instances[0].finished(), 0);
    let mut reader = world.rr();
    assert_eq!(reader.scan(&world).len(), 500);
    assert_eq!(reader.observed, []);
    assert_eq!(world.page_rows().len(), 500);
    let none = world.table.tree.read(RowId(1), &mut |leaf| Ok(newest_of(leaf.side(), RowId(1))));
    assert_eq!(none.expect("idle"), UndoRef::NONE);
}

#[test]
fn statement_rollback_restores_rows_entries_locks_and_redo() {
    let mut world = World::new(1);
    let mut maker = world.rc();
    let row = maker.insert(&world, &Row::new(1, 1, b"a", 0));
    let locked = maker.insert(&world, &Row::new(2, 1, b"a", 0));
    world.commit(maker);
    let mut txn = world.rc();
    txn.set_balance(&world, row, 5).expect("free");
    let (mark, redo) = (txn.mark(), txn.changes.redo().to_vec());
    txn.next_command(&world);
    txn.update(&world, row, &[(KEY, Some(9_i32.to_le_bytes().to_vec()))]);
    txn.lock(&world, locked).expect("free");
    txn.insert(&world, &Row::new(3, 3, b"c", 3));
    txn.next_command(&world);
    txn.delete(&world, row).expect("own");
    txn.changes.roll_back(mark, &world);
    assert_eq!(txn.changes.redo(), redo);
    txn.next_command(&world);
    assert_eq!(txn.read(&world, row), Some(Row::new(1, 1, b"a", 5)));
    assert_eq!(world.entries(0).len(), 2);
    let mut other = world.rc();
    assert_eq!(other.lock(&world, locked).ok(), Some(WriteOutcome::Done), "the lock is gone");
    assert!(waits_for(&other.lock(&world, row), txn.xid), "this one is not");
    world.abort(other);
    world.commit(txn);
    world.collect(Cts(world.clock));
    world.assert_clean("partly rolled back");
}

#[test]
fn a_snapshot_read_of_many_versions_finds_its_own() {
    let mut world = World::new(2);
    let mut maker = world.rc();
    let row = maker.insert(&world, &Row::new(1, 1, b"v0", 0));
    world.commit(maker);
    let mut readers = Vec::new();
    for version in 1..30_i64 {
        readers.push((world.rr(), version - 1));
        let mut writer = world.begin(version as usize % 2, Isolation::ReadCommitted);
        let text = format!("v{version}").repeat(1 + version as usize % 5).into_bytes();
        writer.update(&world, row, &[(TEXT, Some(text))]);
        writer.next_command(&world);
        writer.set_balance(&world, row, version).expect("own");
        world.commit(writer);
    }
    while !readers.is_empty() {
        for (reader, version) in &mut readers {
            let found = reader.read(&world, row).expect("there in all");
            assert_eq!(found.balance, *version);
            let text = format!("v{version}").repeat(1 + *version as usize % 5).into_bytes();
            assert_eq!(found.text, Some(if *version == 0 { b"v0".to_vec() } else { text }));
        }
        // The oldest goes, and with it what only it needed.
        let (oldest, _) = readers.remove(0);
        world.abort(oldest);
        let horizon = readers.first().map_or(Cts(world.clock), |(txn, _)| txn.snapshot.timestamp);
        world.collect(horizon);
    }
    world.collect(Cts(world.clock + 1));
    world.assert_clean("all readers gone");
}

#[test]
fn an_entry_kept_for_a_version_that_is_rolled_back_goes_with_it() {
    let mut world = World::new(2);
    let mut maker = world.rc();
    let row = maker.insert(&world, &Row::new(1, 1, b"a", 0));
    let other = maker.insert(&world, &Row::new(2, 1, b"a", 0));
    world.commit(maker);
    world.collect(Cts(world.clock));
    let key = |key: i32| [(KEY, Some(key.to_le_bytes().to_vec()))];
    let mut first = world.rc();
    first.set_balance(&world, other, 1).expect("free");
    first.update(&world, row, &key(9));
    world.commit(first);
    // Another gives the old key back; its entry is still there.
    let mut second = world.begin(1, Isolation::ReadCommitted);
    second.update(&world, row, &key(1));
    let limit = CollectLimit { horizon: Cts(world.clock), stable: Cts::MAX };
    let done = world.instances[0].collect(limit, &world, 1);
    assert!(done.more && done.transactions == 0, "the first was visited in part: {done:?}");
    world.abort(second);
    world.collect(Cts(world.clock));
    world.assert_clean("the entry of the key that two versions had");
}
