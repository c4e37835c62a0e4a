//! What holds undo: snapshots of transactions that run, idle, or read a part at a time.
#![allow(clippy::unwrap_used, reason = "a failed test says so by panicking")]

use super::*;

/// Undo of ended transactions that the instance still has, after all that may go has gone.
fn kept(context: &Context, session: &Session) -> usize {
    session.collect(context).unwrap();
    context.instance().state().inner.txn.environment().versions.finished()
}

/// Changes account 1 ten times, each in a transaction of its own.
fn change(context: &Context, table: Oid) -> Session {
    let mut session = Session::new(context.instance());
    for _ in 0..10 {
        let mut transaction =
            session.begin(context, Isolation::ReadCommitted, Access::ReadWrite).unwrap();
        let mut statement = transaction.statement(&mut session, context).unwrap();
        add(&mut statement, table, 1, 1).unwrap();
        drop(statement);
        transaction.commit(&mut session, context).unwrap();
    }
    session.settle(context).unwrap();
    session
}

fn one_account() -> (Database, Oid) {
    let database = Database::open_in_memory(options(1)).unwrap();
    let table = make_accounts(&database);
    transact(&database, Isolation::ReadCommitted, |it| insert(it, table, 1, 0)).unwrap();
    (database, table)
}

#[test]
fn an_idle_transaction_holds_undo_back_only_if_it_reads_repeatably() {
    let (database, table) = one_account();
    for (isolation, held) in [(Isolation::ReadCommitted, 0), (Isolation::RepeatableRead, 10)] {
        let run = move |context: &Context| {
            let mut session = Session::new(context.instance());
            let mut idle = session.begin(context, isolation, Access::ReadWrite).unwrap();
            let mut statement = idle.statement(&mut session, context).unwrap();
            let before = find(&mut statement, table, 1).unwrap();
            drop(statement);
            idle.end_command();
            let other = change(context, table);
            assert_eq!(kept(context, &other), held, "{isolation:?}");
            let mut statement = idle.statement(&mut session, context).unwrap();
            let after = find(&mut statement, table, 1).unwrap();
            assert_eq!(after == before, isolation == Isolation::RepeatableRead);
            drop(statement);
            idle.commit(&mut session, context).unwrap();
            assert_eq!(kept(context, &other), 0);
        };
        database.run(Target::Any, run).unwrap();
    }
    database.close().unwrap();
}

#[test]
fn a_portal_holds_its_commands_snapshot_and_no_other() {
    let (database, table) = one_account();
    let run = move |context: &Context| {
        let mut session = Session::new(context.instance());
        let begun = session.begin(context, Isolation::ReadCommitted, Access::ReadWrite);
        let mut transaction = begun.unwrap();
        let mut statement = transaction.statement(&mut session, context).unwrap();
        let before = find(&mut statement, table, 1).unwrap();
        drop(statement);
        let mut portal = transaction.hold_snapshot().unwrap();
        let other = change(context, table);
        assert_eq!(kept(context, &other), 10);
        // Between two fetches another command has run.
        let mut statement = transaction.statement(&mut session, context).unwrap();
        assert_ne!(find(&mut statement, table, 1).unwrap(), before);
        drop(statement);
        transaction.end_command();
        for _ in 0..2 {
            transaction.exchange_snapshot(&mut portal).unwrap();
            let mut statement = transaction.resume(&mut session, context).unwrap();
            assert_eq!(find(&mut statement, table, 1).unwrap(), before);
            drop(statement);
            transaction.exchange_snapshot(&mut portal).unwrap();
            assert_eq!(kept(context, &other), 10, "a fetch does not end the portal");
        }
        drop(portal);
        assert_eq!(kept(context, &other), 0);
        // Going on without a portal takes what is there now, and holds nothing afterwards.
        let mut statement = transaction.resume(&mut session, context).unwrap();
        assert_ne!(find(&mut statement, table, 1).unwrap(), before);
        drop(statement);
        transaction.end_command();
        let other = change(context, table);
        assert_eq!(kept(context, &other), 0);
        transaction.rollback(&mut session, context);
    };
    database.run(Target::Any, run).unwrap();
    database.close().unwrap();
}

const ACCOUNTS: i64 = 400;

/// A database with little undo memory, and accounts that have 1000 each.
fn little_undo() -> (Database, Oid) {
    let little = Options { undo_bytes: 1 << 20, ..options(1) };
    let database = Database::open_in_memory(little).unwrap();
    let table = make_accounts(&database);
    let fill = |it: &mut Statement<'_>| {
        (0..ACCOUNTS).try_for_each(|id| insert(it, table, id, 1000).map(drop))
    };
    transact(&database, Isolation::ReadCommitted, fill).unwrap();
    (database, table)
}

/// Adds 1 to every account, forty to a transaction; nothing may be in its way.
fn add_to_all(context: &Context, table: Oid, session: &mut Session) {
    for first in (0..ACCOUNTS).step_by(40) {
        let mut transaction =
            session.begin(context, Isolation::ReadCommitted, Access::ReadWrite).unwrap();
        let mut statement = transaction.statement(session, context).unwrap();
        (first..first + 40).for_each(|id| add(&mut statement, table, id, 1).unwrap());
        drop(statement);
        transaction.commit(session, context).unwrap();
        session.settle(context).unwrap();
    }
}

/// Rounds of writing after which every old snapshot must have been ended: several times the undo
/// that there is.
const ROUNDS: usize = 200;

#[test]
fn an_old_snapshot_is_ended_for_the_undo_that_it_holds_back_and_never_reads_a_wrong_row() {
    let (database, table) = little_undo();
    let run = move |context: &Context| {
        let (mut session, mut other) =
            (Session::new(context.instance()), Session::new(context.instance()));
        let begun = session.begin(context, Isolation::RepeatableRead, Access::ReadWrite);
        let mut old = begun.unwrap();
        let mut statement = old.statement(&mut session, context).unwrap();
        let (row, _) = find(&mut statement, table, 1).unwrap().unwrap();
        drop(statement);
        let (mut right, mut ended) = (0, 0);
        for round in 0..ROUNDS {
            let mut statement = old.statement(&mut session, context).unwrap();
            match find(&mut statement, table, round as i64 % ACCOUNTS) {
                Ok(found) => {
                    assert_eq!(found.map(|(_, balance)| balance), Some(1000));
                    assert_eq!(ended, 0, "what is ended stays so");
                    right += 1;
                }
                Err(error) => {
                    assert_eq!(error, Error::SnapshotTooOld);
                    ended += 1;
                }
            }
            drop(statement);
            add_to_all(context, table, &mut other);
        }
        assert!(right > 0 && ended > 0, "{right} reads were right, {ended} were refused");
        // Nothing newer than the snapshot is known of this row any more: the change must not be
        // taken for one of the newest version that the snapshot sees.
        let mut statement = old.statement(&mut session, context).unwrap();
        let entry = statement.table(table).unwrap();
        let changes = [(ColumnId(1), Some(&[0; 8][..]))];
        let changed = statement.update(&entry, row, &changes);
        assert_eq!(changed, Err(Error::SnapshotTooOld));
        drop(statement);
        old.rollback(&mut session, context);
        let counters = context.instance().state().counters().0;
        assert!(counters.snapshots_ended > 0);
        // The next one lives.
        let begun = session.begin(context, Isolation::RepeatableRead, Access::ReadWrite);
        let mut young = begun.unwrap();
        let mut statement = young.statement(&mut session, context).unwrap();
        let balance = find(&mut statement, table, 1).unwrap().map(|(_, balance)| balance);
        assert_eq!(balance, Some(1000 + ROUNDS as i64));
        drop(statement);
        young.commit(&mut session, context).unwrap();
    };
    database.run(Target::Any, run).unwrap();
    check(&database);
    database.close().unwrap();
}

#[test]
fn a_long_statement_is_ended_and_the_next_one_of_its_transaction_goes_on() {
    let (database, table) = little_undo();
    let run = move |context: &Context| {
        let (mut session, mut other) =
            (Session::new(context.instance()), Session::new(context.instance()));
        let begun = session.begin(context, Isolation::ReadCommitted, Access::ReadWrite);
        let mut transaction = begun.unwrap();
        let mut statement = transaction.statement(&mut session, context).unwrap();
        statement.lock_table(table, TableLockMode::AccessShare).unwrap();
        let entry = statement.table(table).unwrap();
        let index = &entry.indexes[0];
        let forward = ScanDirection::Forward;
        let columns = [ColumnId(0), ColumnId(1)];
        let mut cursor = statement.index_scan(&entry, index, KeyRange::all(), forward, &columns);
        let mut row = RowBuffer::new();
        let mut rows = 0;
        let outcome = loop {
            match cursor.next(&mut statement, &mut row) {
                Ok(Some(_)) => assert_eq!((number(&row, 0), number(&row, 1)), (rows, 1000)),
                other => break other,
            }
            rows += 1;
            add_to_all(context, table, &mut other);
        };
        assert_eq!(outcome, Err(Error::SnapshotTooOld), "after {rows} rows");
        assert!(rows > 1);
        drop((cursor, statement));
        let mut statement = transaction.statement(&mut session, context).unwrap();
        let balance = find(&mut statement, table, 0).unwrap().map(|(_, balance)| balance);
        assert_eq!(balance, Some(1000 + rows));
        drop(statement);
        transaction.commit(&mut session, context).unwrap();
    };
    database.run(Target::Any, run).unwrap();
    database.close().unwrap();
}

/// A writer that itself takes all the undo there is fails with 53200; ending others would not help.
#[test]
fn nobodys_snapshot_is_ended_for_a_transaction_that_takes_too_much() {
    let (database, table) = little_undo();
    let run = move |context: &Context| {
        let (mut session, mut other) =
            (Session::new(context.instance()), Session::new(context.instance()));
        let begun = session.begin(context, Isolation::RepeatableRead, Access::ReadWrite);
        let mut old = begun.unwrap();
        let mut statement = old.statement(&mut session, context).unwrap();
        find(&mut statement, table, 1).unwrap();
        drop(statement);
        let begun = other.begin(context, Isolation::ReadCommitted, Access::ReadWrite);
        let mut greedy = begun.unwrap();
        let failed = (0..100_000).find_map(|at| {
            let mut statement = greedy.statement(&mut other, context).unwrap();
            add(&mut statement, table, at % ACCOUNTS, 1).err()
        });
        assert_eq!(failed, Some(Error::OutOfMemory { what: "undo" }));
        let mut statement = old.statement(&mut session, context).unwrap();
        let balance = find(&mut statement, table, 1).unwrap().map(|(_, balance)| balance);
        assert_eq!(balance, Some(1000));
        drop(statement);
        greedy.rollback(&mut other, context);
        old.commit(&mut session, context).unwrap();
    };
    database.run(Target::Any, run).unwrap();
    check(&database);
    database.close().unwrap();
}
