//! Savepoints and statement rollback through the front door: rows, entries, locks, definitions,
//! redo.

use super::*;

/// A transaction on instance 0 that `work` runs as it likes.
fn open_transaction<T: Send>(
    database: &Database,
    work: impl FnOnce(&Context, &mut Session, &mut Transaction) -> T + Send,
) -> (T, Committed) {
    let ran = database.run(Target::Instance(InstanceId(0)), move |context| {
        let mut session = Session::new(context.instance());
        let mut transaction =
            session.begin(context, Isolation::ReadCommitted, Access::ReadWrite).expect("a slot");
        let answer = work(context, &mut session, &mut transaction);
        let committed = transaction.commit(&mut session, context).expect("room in the log");
        session.settle(context).expect("the log does not fail");
        (answer, committed)
    });
    ran.expect("the work does not panic")
}

fn reopened(directory: &Path, database: Database) -> Database {
    database.close().expect("it closes once");
    drop(database);
    Database::open(directory, options(1)).expect("what was written can be read")
}

#[test]
fn nested_savepoints_restore_rows_entries_and_redo() {
    let directory = tempfile::tempdir().unwrap();
    let database = Database::open(directory.path(), options(1)).unwrap();
    let table = make_accounts(&database);
    open_transaction(&database, |context, session, transaction| {
        let mut run = |transaction: &mut Transaction, id, balance| {
            let mut statement = transaction.statement(session, context).unwrap();
            insert(&mut statement, table, id, balance).unwrap();
        };
        run(transaction, 1, 10);
        let outer = transaction.savepoint().unwrap();
        run(transaction, 2, 20);
        let inner = transaction.savepoint().unwrap();
        run(transaction, 3, 30);
        transaction.roll_back_to(inner, context).unwrap();
        // The key is free again, for whoever wants it.
        run(transaction, 3, 31);
        transaction.roll_back_to(inner, context).unwrap();
        run(transaction, 4, 40);
        transaction.release(inner).unwrap();
        assert!(matches!(transaction.roll_back_to(inner, context), Err(Error::NotFound { .. })));
        let last = transaction.savepoint().unwrap();
        run(transaction, 5, 50);
        transaction.roll_back_to(last, context).unwrap();
        transaction.roll_back_to(outer, context).unwrap();
        assert!(matches!(transaction.release(last), Err(Error::NotFound { .. })));
        run(transaction, 6, 60);
    });
    assert_eq!(all(&database, table), [(1, 10), (6, 60)]);
    check(&database);
    let database = reopened(directory.path(), database);
    assert_eq!(all(&database, table), [(1, 10), (6, 60)]);
    check(&database);
}

#[test]
fn spilled_redo_is_discarded_by_a_rollback_into_it() {
    let directory = tempfile::tempdir().unwrap();
    let database = Database::open(directory.path(), options(1)).unwrap();
    let table = make_accounts(&database);
    let rows = 120_000;
    open_transaction(&database, |context, session, transaction| {
        let mut fill = |transaction: &mut Transaction, ids: std::ops::Range<i64>| {
            let mut statement = transaction.statement(session, context).unwrap();
            for id in ids {
                insert(&mut statement, table, id, id).unwrap();
            }
        };
        fill(transaction, 0..rows);
        let savepoint = transaction.savepoint().unwrap();
        fill(transaction, rows..3 * rows);
        transaction.roll_back_to(savepoint, context).unwrap();
        fill(transaction, 3 * rows..3 * rows + 7);
    });
    let chunks: u64 = database.metrics().unwrap().transactions.iter().map(|it| it.chunks).sum();
    assert!(chunks >= 2, "the redo was spilled");
    let expected: Vec<(i64, i64)> =
        (0..rows).chain(3 * rows..3 * rows + 7).map(|id| (id, id)).collect();
    assert!(all(&database, table) == expected);
    let database = reopened(directory.path(), database);
    assert!(all(&database, table) == expected, "after recovery");
    check(&database);
}

#[test]
fn a_row_given_back_lets_its_waiter_go_on_before_the_end() {
    let database = Database::open_in_memory(options(2)).unwrap();
    let table = make_accounts(&database);
    transact(&database, Isolation::ReadCommitted, |it| insert(it, table, 1, 1)).unwrap();
    let other = database.clone();
    let (locked, wait_locked) = mpsc::channel::<()>();
    let (done, wait_done) = mpsc::channel::<()>();
    let waiter = std::thread::spawn(move || {
        wait_locked.recv().unwrap();
        transact(&other, Isolation::ReadCommitted, |it| add(it, table, 1, 10)).unwrap();
        done.send(()).unwrap();
    });
    open_transaction(&database, move |context, session, transaction| {
        let savepoint = transaction.savepoint().unwrap();
        let mut statement = transaction.statement(session, context).unwrap();
        let (row, _) = find(&mut statement, table, 1).unwrap().unwrap();
        statement.lock_table(table, TableLockMode::RowExclusive).unwrap();
        let entry = statement.table(table).unwrap();
        assert_eq!(statement.lock_row(&entry, row), Ok(WriteOutcome::Done));
        drop(statement);
        locked.send(()).unwrap();
        // Until the other is on the list.
        let waits = || context.instance().state().inner.shared.txn.waiters_of(transaction.xid());
        while waits() == 0 {
            context.yield_now();
        }
        assert!(wait_done.try_recv().is_err(), "the row is locked");
        transaction.roll_back_to(savepoint, context).unwrap();
        let until = context.now_ns() + 20_000_000_000;
        while wait_done.try_recv().is_err() {
            assert!(context.now_ns() < until, "the waiter was not woken");
            context.yield_now();
        }
    });
    waiter.join().unwrap();
    assert_eq!(all(&database, table), [(1, 11)]);
}

#[test]
fn a_lock_taken_before_the_savepoint_stays() {
    let database = Database::open_in_memory(options(1)).unwrap();
    let table = make_accounts(&database);
    transact(&database, Isolation::ReadCommitted, |it| insert(it, table, 1, 1)).unwrap();
    open_transaction(&database, |context, session, transaction| {
        let mut statement = transaction.statement(session, context).unwrap();
        add(&mut statement, table, 1, 1).unwrap();
        drop(statement);
        let savepoint = transaction.savepoint().unwrap();
        let mut statement = transaction.statement(session, context).unwrap();
        add(&mut statement, table, 1, 5).unwrap();
        drop(statement);
        transaction.roll_back_to(savepoint, context).unwrap();
        let mut hasty = Session::new(context.instance());
        hasty.deadline_ns = Some(context.now_ns() + 30_000_000);
        let mut second = hasty.begin(context, Isolation::ReadCommitted, Access::ReadWrite).unwrap();
        let mut statement = second.statement(&mut hasty, context).unwrap();
        assert_eq!(add(&mut statement, table, 1, 100), Err(Error::Cancelled));
        drop(statement);
        hasty.deadline_ns = None;
        second.rollback(&mut hasty, context);
    });
    assert_eq!(all(&database, table), [(1, 2)]);
}

pub(super) fn new_table(name: &str) -> NewTable {
    NewTable {
        namespace: PUBLIC_NAMESPACE,
        name: name.to_owned(),
        columns: vec![int8("x"), int8("y")],
        options: Vec::new(),
    }
}

#[test]
fn definitions_since_a_savepoint_are_undone_and_their_locks_given_back() {
    let directory = tempfile::tempdir().unwrap();
    let database = Database::open(directory.path(), options(1)).unwrap();
    let table = make_accounts(&database);
    transact(&database, Isolation::ReadCommitted, |it| insert(it, table, 1, 1)).unwrap();
    let before = database.catalog().version();
    let (kept, committed) = open_transaction(&database, |context, session, transaction| {
        let savepoint = transaction.savepoint().unwrap();
        let mut it = transaction.statement(session, context).unwrap();
        add(&mut it, table, 1, 5).unwrap();
        let by_balance = it.table(table).unwrap().indexes[1].def.oid;
        it.drop_index(by_balance).unwrap();
        it.create_table(new_table("made")).unwrap();
        drop(it);
        let mut it = transaction.statement(session, context).unwrap();
        add(&mut it, table, 1, 6).unwrap();
        it.truncate(&[table]).unwrap();
        insert(&mut it, table, 2, 2).unwrap();
        drop(it);
        transaction.roll_back_to(savepoint, context).unwrap();
        assert!(transaction.catalog(session).table(PUBLIC_NAMESPACE, "made").is_none());
        // Another session may define things now: the catalog's lock went with the savepoint.
        let mut other = Session::new(context.instance());
        other.deadline_ns = Some(context.now_ns() + 5_000_000_000);
        let mut second = other.begin(context, Isolation::ReadCommitted, Access::ReadWrite).unwrap();
        let mut it = second.statement(&mut other, context).unwrap();
        it.create_table(new_table("others")).unwrap();
        drop(it);
        second.commit(&mut other, context).unwrap();
        let mut it = transaction.statement(session, context).unwrap();
        let kept = it.create_table(new_table("kept")).unwrap();
        drop(it);
        let savepoint = transaction.savepoint().unwrap();
        let mut it = transaction.statement(session, context).unwrap();
        insert(&mut it, kept, 7, 7).unwrap();
        it.drop_table(kept).unwrap();
        drop(it);
        transaction.roll_back_to(savepoint, context).unwrap();
        let mut it = transaction.statement(session, context).unwrap();
        insert(&mut it, kept, 8, 8).unwrap();
        kept
    });
    assert!(matches!(committed, Committed::At(_)));
    assert_eq!(database.catalog().version(), before + 2);
    let judge = |database: &Database| {
        let catalog = database.catalog();
        let mut names: Vec<String> = catalog.tables().map(|it| it.def.name.clone()).collect();
        names.sort_unstable();
        assert_eq!(names, ["accounts", "kept", "others"]);
        assert_eq!(all(database, table), [(1, 1)]);
        assert_eq!(all(database, kept), [(8, 8)]);
        check(database);
    };
    judge(&database);
    judge(&reopened(directory.path(), database));
}

#[test]
fn a_statement_is_undone_alone_rows_without_undo_included() {
    let directory = tempfile::tempdir().unwrap();
    let database = Database::open(directory.path(), options(1)).unwrap();
    let accounts = make_accounts(&database);
    let (fresh, _) = open_transaction(&database, |context, session, transaction| {
        let mut it = transaction.statement(session, context).unwrap();
        insert(&mut it, accounts, 1, 1).unwrap();
        it.truncate(&[accounts]).unwrap();
        let fresh = it.create_table(new_table("fresh")).unwrap();
        drop(it);
        let frozen = |it: &mut Statement<'_>, table: Oid, id: i64| {
            let table = it.table(table).unwrap();
            it.insert_frozen(&table, &[Some(&bytes(id)), Some(&bytes(id))])
        };
        let mut it = transaction.statement(session, context).unwrap();
        frozen(&mut it, accounts, 1).unwrap();
        frozen(&mut it, fresh, 1).unwrap();
        drop(it);
        let mut it = transaction.statement(session, context).unwrap();
        for id in 2..500 {
            frozen(&mut it, accounts, id).unwrap();
            frozen(&mut it, fresh, id).unwrap();
        }
        insert(&mut it, accounts, 900, 900).unwrap();
        it.create_table(new_table("never")).unwrap();
        it.roll_back();
        let mut it = transaction.statement(session, context).unwrap();
        assert!(it.catalog().table(PUBLIC_NAMESPACE, "never").is_none());
        // A row that cannot be there twice leaves nothing behind either.
        assert!(frozen(&mut it, accounts, 1).is_err());
        frozen(&mut it, accounts, 2).unwrap();
        fresh
    });
    let judge = |database: &Database| {
        assert_eq!(all(database, accounts), [(1, 1), (2, 2)]);
        assert_eq!(all(database, fresh), [(1, 1)]);
        check(database);
    };
    judge(&database);
    judge(&reopened(directory.path(), database));
}

#[test]
fn a_transaction_rolled_back_to_its_beginning_writes_nothing_and_keeps_no_undo() {
    let database = Database::open_in_memory(options(1)).unwrap();
    let table = make_accounts(&database);
    let (_, committed) = open_transaction(&database, |context, session, transaction| {
        let savepoint = transaction.savepoint().unwrap();
        let mut it = transaction.statement(session, context).unwrap();
        insert(&mut it, table, 1, 1).unwrap();
        drop(it);
        transaction.roll_back_to(savepoint, context).unwrap();
    });
    assert_eq!(committed, Committed::Nothing);
    let until = std::time::Instant::now() + std::time::Duration::from_secs(90);
    while database.metrics().unwrap().undo_bytes.iter().sum::<u64>() > 0 {
        assert!(std::time::Instant::now() < until, "the undo is never given back");
        std::thread::yield_now();
    }
}

#[test]
fn an_index_dropped_in_a_transaction_that_rolls_back_has_no_strange_entries() {
    let database = Database::open_in_memory(options(1)).unwrap();
    let table = make_accounts(&database);
    transact(&database, Isolation::ReadCommitted, |it| insert(it, table, 1, 1)).unwrap();
    let failed: Result<()> = transact(&database, Isolation::ReadCommitted, |it| {
        add(it, table, 1, 5)?;
        let by_balance = it.table(table)?.indexes[1].def.oid;
        it.drop_index(by_balance)?;
        Err(Error::Cancelled)
    });
    assert_eq!(failed, Err(Error::Cancelled));
    assert_eq!(all(&database, table), [(1, 1)]);
    check(&database);
}
