//! The kernel through its own front door: rows, conflicts, definitions, crashes, several instances.

use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc;

use super::*;

mod backup;
mod check;
mod checkpoints;
mod compaction;
mod hot_keys;
mod images;
mod index_only;
mod large;
mod larger;
mod let_go;
mod long;
mod opening;
mod points;
mod queues;
mod read_ahead;
mod read_checkpoint;
mod rollbacks;
mod savepoints;
mod sequences;
mod shrink;
mod snapshots;
mod together;

fn options(instances: u16) -> Options {
    Options {
        instances: Instances::Count(instances),
        buffer_pool_bytes: 64 << 20,
        undo_bytes: 32 << 20,
        log_segment_bytes: 8 << 20,
        deadlock_timeout_ms: 20,
        pin: Pin::No,
        ..Options::default()
    }
}

fn int8(name: &str) -> ColumnDef {
    ColumnDef::plain(name, ColumnType::Int8)
}

fn bytes(value: i64) -> [u8; 8] {
    value.to_le_bytes()
}

fn number(row: &RowBuffer, column: usize) -> i64 {
    i64::from_le_bytes(row.column(column).expect("not null").try_into().expect("eight bytes"))
}

/// Runs `work` in a transaction of its own and waits until it is stable.
fn transact<T: Send>(
    database: &Database,
    isolation: Isolation,
    work: impl Fn(&mut Statement<'_>) -> Result<T> + Send,
) -> Result<T> {
    database.run(Target::Any, move |context| {
        let mut session = Session::new(context.instance());
        let mut transaction = session.begin(context, isolation, Access::ReadWrite)?;
        let mut statement = transaction.statement(&mut session, context)?;
        let result = work(&mut statement);
        drop(statement);
        match result {
            Ok(value) => {
                transaction.commit(&mut session, context)?;
                session.settle(context)?;
                Ok(value)
            }
            Err(error) => {
                transaction.rollback(&mut session, context);
                Err(error)
            }
        }
    })?
}

/// A table `accounts` as [`make_table`] makes it.
fn make_accounts(database: &Database) -> Oid {
    make_table(database, "accounts")
}

/// A table (id, balance) with a primary key on id and an index on balance.
fn make_table(database: &Database, name: &str) -> Oid {
    let made = transact(database, Isolation::ReadCommitted, |statement| {
        let table = statement.create_table(NewTable {
            namespace: PUBLIC_NAMESPACE,
            name: name.to_owned(),
            columns: vec![int8("id"), int8("balance")],
            options: Vec::new(),
        })?;
        for (suffix, column, kind) in
            [("pkey", 0, IndexKind::Primary), ("by_balance", 1, IndexKind::Plain)]
        {
            let column = IndexColumn {
                column: ColumnId(column),
                direction: Direction::Ascending,
                nulls: Nulls::Last,
            };
            let (name, columns) = (format!("{name}_{suffix}"), vec![column]);
            statement.create_index(NewIndex { table, name, columns, kind })?;
        }
        Ok(table)
    });
    made.expect("an empty database has room for a table")
}

fn insert(statement: &mut Statement<'_>, table: Oid, id: i64, balance: i64) -> Result<RowId> {
    statement.lock_table(table, TableLockMode::RowExclusive)?;
    let table = statement.table(table)?;
    statement.insert(&table, &[Some(&bytes(id)), Some(&bytes(balance))])
}

fn find(statement: &mut Statement<'_>, table: Oid, id: i64) -> Result<Option<(RowId, i64)>> {
    statement.lock_table(table, TableLockMode::AccessShare)?;
    let table = statement.table(table)?;
    let index = &table.indexes[0];
    let key = KeyBytes::encode(index, &[Some(&bytes(id))]);
    let mut row = RowBuffer::new();
    let found = statement.index_point(&table, index, &key, &[ColumnId(1)], &mut row)?;
    Ok(found.map(|at| (at, number(&row, 0))))
}

/// Rows of a table by one of its indexes, looking at this column of them.
fn rows_by_index(
    statement: &mut Statement<'_>,
    table: Oid,
    index: usize,
    column: ColumnId,
) -> Result<i64> {
    let entry = statement.table(table)?;
    let (mut row, mut rows) = (RowBuffer::new(), 0);
    let (index, range, forward) = (&entry.indexes[index], KeyRange::all(), ScanDirection::Forward);
    let mut cursor = statement.index_scan(&entry, index, range, forward, &[column]);
    while cursor.next(statement, &mut row)?.is_some() {
        rows += 1;
    }
    Ok(rows)
}

fn remove(statement: &mut Statement<'_>, table: Oid, id: i64) -> Result<()> {
    statement.lock_table(table, TableLockMode::RowExclusive)?;
    let (row, _) = find(statement, table, id)?.expect("it is there");
    let table = statement.table(table)?;
    assert_eq!(statement.delete(&table, row)?, WriteOutcome::Done);
    Ok(())
}

fn add(statement: &mut Statement<'_>, table: Oid, id: i64, delta: i64) -> Result<()> {
    statement.lock_table(table, TableLockMode::RowExclusive)?;
    let (row, mut balance) = find(statement, table, id)?.expect("the account is there");
    let table = statement.table(table)?;
    let mut newest = RowBuffer::new();
    loop {
        match statement.update(&table, row, &[(ColumnId(1), Some(&bytes(balance + delta)))])? {
            WriteOutcome::Done => return Ok(()),
            WriteOutcome::Changed => {
                statement.get_newest(&table, row, &[ColumnId(1)], &mut newest)?;
                balance = number(&newest, 0);
            }
            other => panic!("account {id}: {other:?}"),
        }
    }
}

fn all(database: &Database, table: Oid) -> Vec<(i64, i64)> {
    let rows = transact(database, Isolation::RepeatableRead, |statement| {
        statement.lock_table(table, TableLockMode::AccessShare)?;
        let table = statement.table(table)?;
        let mut cursor = statement.scan(&table, &[ColumnId(0), ColumnId(1)]);
        let (mut row, mut rows) = (RowBuffer::new(), Vec::new());
        while cursor.next(statement, &mut row)?.is_some() {
            rows.push((number(&row, 0), number(&row, 1)));
        }
        rows.sort_unstable();
        Ok(rows)
    });
    rows.expect("a scan finds no obstacle")
}

fn check(database: &Database) {
    let findings = database.check().expect("the check comes to its end");
    assert_eq!(findings.problems, Vec::<String>::new());
}

#[test]
fn rows_come_and_go_with_their_transactions() {
    let database = Database::open_in_memory(options(1)).expect("memory is enough");
    let table = make_accounts(&database);
    transact(&database, Isolation::ReadCommitted, |it| insert(it, table, 1, 100)).unwrap();
    let failed: Result<()> = transact(&database, Isolation::ReadCommitted, |it| {
        insert(it, table, 2, 200)?;
        add(it, table, 1, 5)?;
        Err(Error::Cancelled)
    });
    assert_eq!(failed, Err(Error::Cancelled));
    assert_eq!(all(&database, table), [(1, 100)]);
    let twice = transact(&database, Isolation::ReadCommitted, |it| insert(it, table, 1, 7));
    assert!(matches!(twice, Err(Error::UniqueViolation { .. })), "{twice:?}");
    transact(&database, Isolation::ReadCommitted, |it| add(it, table, 1, 11)).unwrap();
    assert_eq!(all(&database, table), [(1, 111)]);
    check(&database);
    database.close().unwrap();
}

#[test]
fn a_failed_insert_leaves_its_transaction_as_it_was() {
    let database = Database::open_in_memory(options(1)).expect("memory is enough");
    let table = make_accounts(&database);
    transact(&database, Isolation::ReadCommitted, |it| {
        insert(it, table, 1, 1)?;
        assert!(insert(it, table, 1, 2).is_err());
        insert(it, table, 2, 3).map(drop)
    })
    .unwrap();
    assert_eq!(all(&database, table), [(1, 1), (2, 3)]);
    check(&database);
}

#[test]
fn the_second_updater_loses_under_repeatable_read() {
    let database = Database::open_in_memory(options(2)).expect("memory is enough");
    let table = make_accounts(&database);
    transact(&database, Isolation::ReadCommitted, |it| insert(it, table, 1, 0)).unwrap();
    let (go, gone) = (mpsc::channel::<()>(), mpsc::channel::<()>());
    let other = database.clone();
    let (send_go, receive_go) = go;
    let (send_gone, receive_gone) = gone;
    let thread = std::thread::spawn(move || {
        receive_go.recv().unwrap();
        transact(&other, Isolation::ReadCommitted, |it| add(it, table, 1, 10)).unwrap();
        send_gone.send(()).unwrap();
    });
    let (send_go, receive_gone) =
        (std::sync::Mutex::new(send_go), std::sync::Mutex::new(receive_gone));
    let lost = transact(&database, Isolation::RepeatableRead, |it| {
        find(it, table, 1)?;
        send_go.lock().unwrap().send(()).unwrap();
        let gone = receive_gone.lock().unwrap();
        while gone.try_recv().is_err() {
            it.context().yield_now();
        }
        add(it, table, 1, 1)
    });
    thread.join().unwrap();
    assert!(matches!(lost, Err(Error::SerializationFailure { .. })), "{lost:?}");
    assert_eq!(all(&database, table), [(1, 10)]);
}

#[test]
fn definitions_roll_back_with_their_transaction() {
    let database = Database::open_in_memory(options(2)).expect("memory is enough");
    let table = make_accounts(&database);
    transact(&database, Isolation::ReadCommitted, |it| insert(it, table, 1, 1)).unwrap();
    let before = database.catalog().version();
    let failed: Result<()> = transact(&database, Isolation::ReadCommitted, |it| {
        it.truncate(&[table])?;
        insert(it, table, 5, 5)?;
        assert_eq!(find(it, table, 1)?, None);
        let new = NewTable {
            namespace: PUBLIC_NAMESPACE,
            name: "other".to_owned(),
            columns: vec![int8("x")],
            options: Vec::new(),
        };
        it.create_table(new)?;
        Err(Error::Cancelled)
    });
    assert_eq!(failed, Err(Error::Cancelled));
    assert_eq!(database.catalog().version(), before);
    assert_eq!(all(&database, table), [(1, 1)]);
    transact(&database, Isolation::ReadCommitted, |it| it.truncate(&[table])).unwrap();
    assert_eq!(all(&database, table), []);
    transact(&database, Isolation::ReadCommitted, |it| it.drop_table(table)).unwrap();
    assert!(database.catalog().table(PUBLIC_NAMESPACE, "accounts").is_none());
}

fn transfers(database: &Database, table: Oid, accounts: i64, rounds: u32) {
    let mut threads = Vec::new();
    for seed in 0..4 {
        let database = database.clone();
        threads.push(std::thread::spawn(move || {
            let mut random = fastrand::Rng::with_seed(seed);
            let mut done = 0;
            while done < rounds {
                let from = random.i64(0..accounts);
                // Two different rows: one command changes a row once.
                let to = (from + random.i64(1..accounts)) % accounts;
                let moved = transact(&database, Isolation::ReadCommitted, |it| {
                    add(it, table, from, -1)?;
                    add(it, table, to, 1)
                });
                match moved {
                    Ok(()) => done += 1,
                    Err(Error::Deadlock { .. }) => {}
                    Err(error) => panic!("{error:?}"),
                }
            }
        }));
    }
    threads.into_iter().for_each(|thread| thread.join().expect("no client panics"));
}

#[test]
fn transfers_on_two_instances_keep_the_sum_and_survive_a_restart() {
    let directory = tempfile::tempdir().unwrap();
    let open = |path: &Path, instances| Database::open(path, options(instances)).unwrap();
    let database = open(directory.path(), 2);
    let table = make_accounts(&database);
    transact(&database, Isolation::ReadCommitted, |it| {
        (0..10).try_for_each(|id| insert(it, table, id, 100).map(drop))
    })
    .unwrap();
    transfers(&database, table, 10, 50);
    let before = all(&database, table);
    assert_eq!(before.iter().map(|(_, balance)| balance).sum::<i64>(), 1000);
    check(&database);
    database.close().unwrap();
    drop(database);
    for instances in [1, 3] {
        let database = open(directory.path(), instances);
        assert_eq!(all(&database, table), before, "with {instances} instances");
        assert!(database.recovery().changes > 100);
        check(&database);
        transact(&database, Isolation::ReadCommitted, |it| add(it, table, 1, 0)).unwrap();
        database.close().unwrap();
    }
}

#[test]
fn a_second_opener_is_told_who_has_the_directory() {
    let directory = tempfile::tempdir().unwrap();
    let database = Database::open(directory.path(), options(1)).unwrap();
    match Database::open(directory.path(), options(1)) {
        Err(Error::Unusable { detail }) => {
            assert!(detail.contains(&std::process::id().to_string()), "{detail}");
        }
        other => panic!("opened twice: {:?}", other.err()),
    }
    database.close().unwrap();
}

#[test]
fn a_full_pool_fails_the_statement_and_loses_nothing() {
    let small = Options { buffer_pool_bytes: 2 << 20, ..options(1) };
    let database = Database::open_in_memory(small).unwrap();
    let table = make_accounts(&database);
    let mut kept = 0;
    let full = loop {
        let first = kept;
        let inserted = transact(&database, Isolation::ReadCommitted, |it| {
            (first..first + 500).try_for_each(|id| insert(it, table, id, id).map(drop))
        });
        match inserted {
            Ok(()) => kept += 500,
            Err(error) => break error,
        }
    };
    assert!(matches!(full, Error::OutOfMemory { .. }), "{full:?}");
    let rows = all(&database, table);
    assert_eq!(rows.len() as i64, kept);
    check(&database);
    transact(&database, Isolation::ReadCommitted, |it| it.drop_table(table)).unwrap();
    let table = make_accounts(&database);
    transact(&database, Isolation::ReadCommitted, |it| insert(it, table, 1, 1)).unwrap();
    check(&database);
}

#[test]
fn a_dropped_transaction_lets_go_of_its_rows() {
    let database = Database::open_in_memory(options(1)).unwrap();
    let table = make_accounts(&database);
    transact(&database, Isolation::ReadCommitted, |it| insert(it, table, 1, 1)).unwrap();
    database
        .run(Target::Any, move |context| {
            let mut session = Session::new(context.instance());
            let mut transaction =
                session.begin(context, Isolation::ReadCommitted, Access::ReadWrite).unwrap();
            let mut statement = transaction.statement(&mut session, context).unwrap();
            add(&mut statement, table, 1, 50).unwrap();
        })
        .unwrap();
    transact(&database, Isolation::ReadCommitted, |it| add(it, table, 1, 2)).unwrap();
    assert_eq!(all(&database, table), [(1, 3)]);
    let catalog: Arc<Catalog> = database.catalog();
    assert_eq!(catalog.tables().count(), 1);
}

/// Finished transactions whose undo is still there, on all instances.
fn uncollected(database: &Database) -> usize {
    let of = |number| {
        let target = Target::Instance(InstanceId(number as u16));
        let ask = |context: &Context| {
            context.instance().state().inner.txn.environment().versions.finished()
        };
        database.run(target, ask).expect("the instance answers")
    };
    (0..database.instances()).map(of).sum()
}

fn collect(database: &Database) {
    let collected = database.run(Target::Any, |context| {
        let session = Session::new(context.instance());
        session.collect(context)
    });
    collected.expect("an instance answers").expect("nothing stops a collection");
}

#[test]
fn collecting_now_takes_everything_that_no_snapshot_needs() {
    let database = Database::open_in_memory(options(2)).unwrap();
    let table = make_accounts(&database);
    transact(&database, Isolation::ReadCommitted, |it| insert(it, table, 1, 0)).unwrap();
    for round in 0..3 {
        let (begun, tell) = mpsc::channel();
        let (release, wait) = mpsc::channel::<()>();
        let old = database.clone();
        // An old snapshot keeps what came after it.
        let reader = std::thread::spawn(move || {
            old.run(Target::Instance(InstanceId(0)), move |context| {
                let mut session = Session::new(context.instance());
                let mut transaction =
                    session.begin(context, Isolation::RepeatableRead, Access::ReadOnly).unwrap();
                let mut statement = transaction.statement(&mut session, context).unwrap();
                let before = find(&mut statement, table, 1).unwrap().unwrap().1;
                drop(statement);
                begun.send(()).unwrap();
                while wait.try_recv().is_err() {
                    context.park(Some(context.now_ns() + 1_000_000));
                }
                let mut statement = transaction.statement(&mut session, context).unwrap();
                assert_eq!(find(&mut statement, table, 1).unwrap().unwrap().1, before);
                drop(statement);
                transaction.rollback(&mut session, context);
            })
        });
        tell.recv().unwrap();
        for _ in 0..50 {
            transact(&database, Isolation::ReadCommitted, |it| add(it, table, 1, 1)).unwrap();
        }
        collect(&database);
        assert!(uncollected(&database) >= 50, "round {round}: {}", uncollected(&database));
        release.send(()).unwrap();
        reader.join().unwrap().unwrap();
        // Not in a while, but now.
        collect(&database);
        assert_eq!(uncollected(&database), 0, "round {round}");
        assert_eq!(all(&database, table), [(1, 50 * (round + 1))]);
    }
    check(&database);
}
