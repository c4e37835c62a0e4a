//! Two transactions and one row, or one key (rules 5.5, 5.6, 6.4).

use super::*;

fn key(key: i32) -> [(u16, Option<Vec<u8>>); 1] {
    [(KEY, Some(key.to_le_bytes().to_vec()))]
}

/// A world with one committed and collected row, key 1.
fn one_row() -> (World, RowId) {
    let mut world = World::new(2);
    let mut maker = world.rc();
    let row = maker.insert(&world, &Row::new(1, 1, b"a", 10));
    world.commit(maker);
    world.collect(Cts(world.clock));
    (world, row)
}

fn fails_to_serialize(outcome: &Outcome<WriteOutcome>) -> bool {
    matches!(outcome, Err(Stop::Error(Error::SerializationFailure { .. })))
}

#[test]
fn a_row_in_flight_by_another_is_waited_for() {
    let (mut world, row) = one_row();
    let mut first = world.rc();
    first.set_balance(&world, row, 11).expect("free");
    let mut second = world.begin(1, Isolation::RepeatableRead);
    assert!(waits_for(&second.set_balance(&world, row, 12), first.xid));
    assert!(waits_for(&second.delete(&world, row), first.xid));
    assert!(waits_for(&second.lock(&world, row), first.xid));
    assert!(second.changes.is_empty(), "waiting changed nothing");
    world.abort(first);
    assert_eq!(second.set_balance(&world, row, 12).ok(), Some(WriteOutcome::Done));
    world.commit(second);
}

#[test]
fn the_first_updater_wins_in_repeatable_read() {
    let (mut world, row) = one_row();
    let mut late = world.rr();
    let mut first = world.rc();
    first.set_balance(&world, row, 11).expect("free");
    world.commit(first);
    assert!(fails_to_serialize(&late.set_balance(&world, row, 12)));
    assert!(fails_to_serialize(&late.delete(&world, row)));
    assert!(fails_to_serialize(&late.lock(&world, row)));
    assert_eq!(late.read(&world, row).map(|row| row.balance), Some(10));
    world.abort(late);
    let mut late = world.rr();
    let mut first = world.rc();
    first.delete(&world, row).expect("free");
    world.commit(first);
    assert!(fails_to_serialize(&late.set_balance(&world, row, 12)));
}

#[test]
fn a_changed_row_is_locked_and_tried_again_in_read_committed() {
    let (mut world, row) = one_row();
    let mut late = world.rc();
    let mut first = world.rc();
    first.set_balance(&world, row, 11).expect("free");
    world.commit(first);
    assert_eq!(late.set_balance(&world, row, 12).ok(), Some(WriteOutcome::Changed));
    let mut third = world.rc();
    assert!(waits_for(&third.set_balance(&world, row, 13), late.xid), "it is locked");
    let mut out = RowBuffer::new();
    read_newest(&world.table, row, &ALL, &mut out).expect("idle");
    assert_eq!(Row::of(&out).balance, 11);
    assert_eq!(late.read(&world, row).map(|row| row.balance), Some(10), "the snapshot stays");
    assert_eq!(late.set_balance(&world, row, 12).ok(), Some(WriteOutcome::Done));
    assert_eq!(late.set_balance(&world, row, 14).ok(), Some(WriteOutcome::DoneByThisCommand));
    world.commit(late);
    assert_eq!(third.set_balance(&world, row, 13).ok(), Some(WriteOutcome::Changed));
    world.abort(third);

    let mut late = world.rc();
    let mut first = world.rc();
    first.delete(&world, row).expect("free");
    world.commit(first);
    assert_eq!(late.set_balance(&world, row, 12).ok(), Some(WriteOutcome::Gone));
    assert_eq!(late.observed.len(), 1, "its absence was observed");
    world.abort(late);
    world.collect(Cts(world.clock));
    world.assert_clean("after all");
}

#[test]
fn a_lock_of_an_ended_transaction_is_no_change() {
    let (mut world, row) = one_row();
    let mut late = world.rr();
    let mut locker = world.rc();
    assert_eq!(locker.lock(&world, row).ok(), Some(WriteOutcome::Done));
    assert_eq!(locker.lock(&world, row).ok(), Some(WriteOutcome::Done));
    assert!(!locker.changes.is_empty(), "a lock is committed with a record");
    assert!(waits_for(&late.set_balance(&world, row, 12), locker.xid));
    world.commit(locker);
    assert_eq!(late.set_balance(&world, row, 12).ok(), Some(WriteOutcome::Done));
    world.commit(late);
}

#[test]
fn a_key_in_flight_is_waited_for_and_its_end_decides() {
    let (mut world, row) = one_row();
    // Inserted by another.
    let mut first = world.rc();
    first.insert(&world, &Row::new(2, 1, b"b", 0));
    let mut second = world.rc();
    let mut progress = Progress::default();
    let wanted = Row::new(2, 2, b"c", 0);
    assert!(waits_for(&second.try_insert(&world, &wanted, &mut progress), first.xid));
    assert!(waits_for(&second.try_insert(&world, &wanted, &mut progress), first.xid));
    world.abort(first);
    let mark = second.mark();
    second.try_insert(&world, &wanted, &mut progress).expect("the key is free now");
    assert_eq!(second.mark(), mark, "the row was there already: only the entry was missing");
    world.commit(second);
    // Changed away by another, who may come back: the newest committed version has it.
    let mut first = world.rc();
    first.update(&world, row, &key(5));
    let mut second = world.rc();
    let mut progress = Progress::default();
    let wanted = Row::new(1, 2, b"c", 0);
    let mark = second.mark();
    assert!(waits_for(&second.try_insert(&world, &wanted, &mut progress), first.xid));
    world.abort(first);
    assert!(violates(&second.try_insert(&world, &wanted, &mut progress)));
    second.changes.roll_back(mark, &world);
    // Deleted by another.
    let mut first = world.rc();
    first.delete(&world, row).expect("free");
    let mut progress = Progress::default();
    assert!(waits_for(&second.try_insert(&world, &wanted, &mut progress), first.xid));
    world.commit(first);
    second.try_insert(&world, &wanted, &mut progress).expect("its owner is deleted");
    world.commit(second);
    world.collect(Cts(world.clock));
    world.assert_clean("after all");
}

#[test]
fn an_intermediate_version_of_another_counts_too() {
    let (mut world, row) = one_row();
    let mut first = world.rc();
    first.update(&world, row, &key(7));
    first.next_command(&world);
    first.update(&world, row, &key(8));
    let mut second = world.rc();
    let outcome = second.try_insert(&world, &Row::new(7, 2, b"c", 0), &mut Progress::default());
    assert!(waits_for(&outcome, first.xid), "a rollback to a savepoint would bring 7 back");
    world.abort(second);
    world.abort(first);
    world.collect(Cts(world.clock));
    world.assert_clean("after all");
}

#[test]
fn a_locked_row_has_its_key() {
    let (mut world, row) = one_row();
    let mut first = world.rc();
    first.lock(&world, row).expect("free");
    let mut second = world.rc();
    let outcome = second.try_insert(&world, &Row::new(1, 2, b"c", 0), &mut Progress::default());
    assert!(violates(&outcome));
}

#[test]
fn own_rows_count_by_their_newest_version() {
    let (mut world, row) = one_row();
    let mut txn = world.rc();
    txn.update(&world, row, &key(2));
    txn.next_command(&world);
    txn.insert(&world, &Row::new(1, 2, b"c", 0));
    txn.next_command(&world);
    let mark = txn.mark();
    let outcome = txn.try_insert(&world, &Row::new(2, 2, b"c", 0), &mut Progress::default());
    assert!(violates(&outcome));
    txn.changes.roll_back(mark, &world);
    txn.delete(&world, row).expect("own");
    txn.next_command(&world);
    txn.insert(&world, &Row::new(2, 2, b"c", 0));
    world.commit(txn);
    world.collect(Cts(world.clock));
    world.assert_clean("after all");
}

#[test]
fn uniqueness_is_of_the_newest_state_not_of_the_snapshot() {
    let (mut world, row) = one_row();
    let mut late = world.rr();
    let mut first = world.rc();
    first.insert(&world, &Row::new(2, 1, b"b", 0));
    first.delete(&world, row).expect("free");
    world.commit(first);
    let mark = late.mark();
    let outcome = late.try_insert(&world, &Row::new(2, 2, b"c", 0), &mut Progress::default());
    assert!(violates(&outcome), "committed after the snapshot, but there");
    late.changes.roll_back(mark, &world);
    assert!(late.read(&world, row).is_some(), "the snapshot sees the deleted owner of 1");
    late.try_insert(&world, &Row::new(1, 2, b"c", 0), &mut Progress::default())
        .expect("but it is deleted");
}

#[test]
fn the_holder_of_a_key_is_who_has_it_now() {
    let (mut world, row) = one_row();
    let (mut old, mut early) = (world.rr(), world.rc());
    assert_eq!(old.holder(&world, 1).ok(), Some(Some(row)));
    assert_eq!(old.holder(&world, 2).ok(), Some(None));
    // The key moves: both keys are in doubt until that has ended.
    let mut mover = world.begin(1, Isolation::ReadCommitted);
    mover.update(&world, row, &key(2));
    for key in [1, 2] {
        let answer = old.holder(&world, key);
        assert!(waits_for(&answer, mover.xid));
        assert_eq!(mover.holder(&world, key).ok(), Some((key == 2).then_some(row)));
    }
    let new = mover.insert(&world, &Row::new(3, 1, b"b", 0));
    world.commit(mover);
    assert_eq!(old.holder(&world, 1).ok(), Some(None), "free now, whatever the snapshot sees");
    assert_eq!(early.holder(&world, 3).ok(), Some(Some(new)), "newer than its snapshot");
    assert!(matches!(old.holder(&world, 3), Err(Stop::Error(Error::SerializationFailure { .. }))));
    let own = old.insert(&world, &Row::new(4, 1, b"c", 0));
    assert_eq!(old.holder(&world, 4).ok(), Some(Some(own)), "own rows of this command, too");
    world.abort(old);
    world.abort(early);
}

#[test]
fn nulls_are_never_equal() {
    let mut world = World::new(1);
    let mut txn = world.rc();
    let row = Row { key: None, ..Row::new(0, 1, b"a", 1) };
    txn.insert(&world, &row);
    txn.insert(&world, &row);
    world.commit(txn);
    world.collect(Cts(world.clock));
    world.assert_clean("two nulls");
}

#[test]
fn old_entries_serve_old_snapshots_and_go_with_them() {
    let (mut world, row) = one_row();
    let mut old = world.rr();
    let mut writer = world.rc();
    writer.update(&world, row, &key(2));
    writer.next_command(&world);
    writer.update(&world, row, &[(GROUP, Some(9_i32.to_le_bytes().to_vec()))]);
    world.commit(writer);
    // Back to the first key, so that its entry is needed once more.
    let mut writer = world.rc();
    writer.update(&world, row, &key(1));
    world.commit(writer);
    let (one, two) = (Row::new(1, 0, b"", 0).index_key(0), Row::new(2, 0, b"", 0).index_key(0));
    assert_eq!(old.find(&world, 0, &one).len(), 1);
    assert_eq!(old.find(&world, 0, &two).len(), 0);
    let mut new = world.rr();
    assert_eq!(new.find(&world, 0, &one).len(), 1);
    assert_eq!(world.entries(0).len(), 2);
    world.collect(old.snapshot.timestamp);
    assert_eq!(old.find(&world, 1, &Row::new(0, 1, b"a", 0).index_key(1)).len(), 1);
    world.abort(old);
    world.collect(new.snapshot.timestamp);
    assert_eq!(world.entries(0), [(one.clone(), row)], "the key of the newest version stays");
    assert_eq!(new.find(&world, 0, &one).len(), 1);
    world.abort(new);
    world.collect(Cts(world.clock + 1));
    world.assert_clean("after all");
}
