//! Databases larger than the buffer pool: leaves leave memory and come back.

use super::*;

const PAD: usize = 400;

fn small(instances: u16) -> Options {
    Options { buffer_pool_bytes: 3 << 20, checkpoint_interval_ms: 50, ..options(instances) }
}

/// A table (id, balance, pad) with a primary key.
pub(super) fn make_padded(database: &Database) -> Oid {
    let made = transact(database, Isolation::ReadCommitted, |statement| {
        let table = statement.create_table(NewTable {
            namespace: PUBLIC_NAMESPACE,
            name: "padded".to_owned(),
            columns: vec![int8("id"), int8("balance"), ColumnDef::plain("pad", ColumnType::Bytes)],
            options: Vec::new(),
        })?;
        let column = IndexColumn {
            column: ColumnId(0),
            direction: Direction::Ascending,
            nulls: Nulls::Last,
        };
        let (name, columns) = ("padded_pkey".to_owned(), vec![column]);
        statement.create_index(NewIndex { table, name, columns, kind: IndexKind::Primary })?;
        Ok(table)
    });
    made.expect("an empty database has room for a table")
}

/// What stands beside a balance, and follows from it.
fn pad(id: i64, balance: i64) -> Vec<u8> {
    let byte = (id ^ balance) as u8;
    vec![byte; PAD + (balance as usize % 5) * 20]
}

fn put(statement: &mut Statement<'_>, table: Oid, id: i64) -> Result<RowId> {
    statement.lock_table(table, TableLockMode::RowExclusive)?;
    let table = statement.table(table)?;
    statement.insert(&table, &[Some(&bytes(id)), Some(&bytes(0)), Some(&pad(id, 0))])
}

fn look(statement: &mut Statement<'_>, table: Oid, id: i64) -> Result<(RowId, i64)> {
    statement.lock_table(table, TableLockMode::RowExclusive)?;
    let table = statement.table(table)?;
    let key = KeyBytes::encode(&table.indexes[0], &[Some(&bytes(id))]);
    let mut row = RowBuffer::new();
    let columns = [ColumnId(1), ColumnId(2)];
    let at = statement.index_point(&table, &table.indexes[0], &key, &columns, &mut row)?;
    let balance = number(&row, 0);
    assert_eq!(row.column(1), Some(pad(id, balance).as_slice()), "row {id}");
    Ok((at.expect("it is there"), balance))
}

fn raise(statement: &mut Statement<'_>, table: Oid, id: i64) -> Result<()> {
    let (at, balance) = look(statement, table, id)?;
    let table = statement.table(table)?;
    let (balance, pad) = (bytes(balance + 1), pad(id, balance + 1));
    let changes: [(ColumnId, Option<&[u8]>); 2] =
        [(ColumnId(1), Some(&balance)), (ColumnId(2), Some(&pad))];
    assert_eq!(statement.update(&table, at, &changes)?, WriteOutcome::Done);
    Ok(())
}

fn balances(database: &Database, table: Oid) -> Vec<i64> {
    let found = transact(database, Isolation::RepeatableRead, |statement| {
        statement.lock_table(table, TableLockMode::AccessShare)?;
        let table = statement.table(table)?;
        let mut cursor = statement.scan(&table, &[ColumnId(0), ColumnId(1), ColumnId(2)]);
        let (mut row, mut found) = (RowBuffer::new(), Vec::new());
        while cursor.next(statement, &mut row)?.is_some() {
            let (id, balance) = (number(&row, 0), number(&row, 1));
            assert_eq!(row.column(2), Some(pad(id, balance).as_slice()), "row {id}");
            found.push((id, balance));
        }
        found.sort_unstable();
        Ok(found)
    });
    let found = found.expect("a scan finds no obstacle");
    assert!(found.iter().enumerate().all(|(at, (id, _))| at as i64 == *id), "each once");
    found.into_iter().map(|(_, balance)| balance).collect()
}

#[test]
fn five_times_the_pool_is_filled_changed_scanned_and_recovered() {
    const ROWS: i64 = 30_000;
    let directory = tempfile::tempdir().unwrap();
    let open = |instances| Database::open(directory.path(), small(instances)).unwrap();
    let database = open(2);
    let table = make_padded(&database);
    for from in (0..ROWS).step_by(500) {
        transact(&database, Isolation::ReadCommitted, |statement| {
            (from..from + 500).try_for_each(|id| put(statement, table, id).map(drop))
        })
        .unwrap();
    }
    let mut expected = vec![0; ROWS as usize];
    let mut random = fastrand::Rng::with_seed(7);
    for _ in 0..300 {
        let mut ids: Vec<i64> = (0..20).map(|_| random.i64(0..ROWS)).collect();
        ids.sort_unstable();
        ids.dedup();
        let change = |statement: &mut Statement<'_>| {
            ids.iter().try_for_each(|id| raise(statement, table, *id))
        };
        if random.u8(..) < 50 {
            // Rolled back: what was evicted meanwhile comes back for it.
            let failed: Result<()> = transact(&database, Isolation::ReadCommitted, |statement| {
                change(statement)?;
                Err(Error::Cancelled)
            });
            assert_eq!(failed, Err(Error::Cancelled));
            continue;
        }
        transact(&database, Isolation::ReadCommitted, change).unwrap();
        ids.iter().for_each(|id| expected[*id as usize] += 1);
    }
    assert_eq!(balances(&database, table), expected);
    let metrics = database.metrics().unwrap();
    assert!(metrics.traffic.loads > 1000, "{metrics:?}");
    assert!(metrics.traffic.evictions > 2000, "{metrics:?}");
    assert_eq!(metrics.checkpoints.unwrap().failure, None);
    database.close().unwrap();
    drop(database);
    for instances in [1, 3] {
        let found = Database::inspect(directory.path(), small(1), &mut |_| ()).unwrap();
        assert_eq!(found.problems, Vec::<String>::new());
        let database = open(instances);
        assert_eq!(balances(&database, table), expected);
        transact(&database, Isolation::ReadCommitted, |it| raise(it, table, 77)).unwrap();
        expected[77] += 1;
        database.close().unwrap();
    }
}

#[test]
fn many_at_once_find_every_row_while_leaves_come_and_go() {
    const ROWS: i64 = 12_000;
    let directory = tempfile::tempdir().unwrap();
    let database = Database::open(directory.path(), small(2)).unwrap();
    let table = make_padded(&database);
    for from in (0..ROWS).step_by(500) {
        transact(&database, Isolation::ReadCommitted, |statement| {
            (from..from + 500).try_for_each(|id| put(statement, table, id).map(drop))
        })
        .unwrap();
    }
    let made: i64 = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..4)
            .map(|seed| {
                let database = &database;
                scope.spawn(move || {
                    let mut random = fastrand::Rng::with_seed(seed);
                    let mut made = 0;
                    for _ in 0..200 {
                        // Each thread has rows of its own to change, and reads all.
                        let own = random.i64(0..ROWS / 4) * 4 + seed as i64;
                        let others: Vec<i64> = (0..10).map(|_| random.i64(0..ROWS)).collect();
                        transact(database, Isolation::ReadCommitted, |statement| {
                            raise(statement, table, own)?;
                            others.iter().try_for_each(|id| look(statement, table, *id).map(drop))
                        })
                        .unwrap();
                        made += 1;
                    }
                    made
                })
            })
            .collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).sum()
    });
    assert_eq!(balances(&database, table).iter().sum::<i64>(), made);
    let traffic = database.metrics().unwrap().traffic;
    assert!(traffic.loads > 1000, "{traffic:?}");
    database.close().unwrap();
}

#[test]
fn a_transaction_changes_more_than_the_pool_holds() {
    const ROWS: i64 = 40_000;
    let directory = tempfile::tempdir().unwrap();
    let options = Options { undo_bytes: 256 << 20, ..small(2) };
    let database = Database::open(directory.path(), options).unwrap();
    let table = make_padded(&database);
    let fill = |from: i64, to: i64, fails: bool| {
        super::long::steps(&database, |statement, step| match step {
            0 => Some((from..to).try_for_each(|id| put(statement, table, id).map(drop))),
            // It sees its own rows, wherever they are by now.
            1 => Some((from..to).step_by(997).try_for_each(|id| {
                assert_eq!(look(statement, table, id)?.1, 0);
                Ok(())
            })),
            2 => fails.then_some(Err(Error::Cancelled)),
            _ => None,
        })
    };
    assert_eq!(fill(0, ROWS, true), Err(Error::Cancelled));
    assert_eq!(balances(&database, table), Vec::<i64>::new());
    assert_eq!(fill(0, ROWS, false), Ok(()));
    let changed = transact(&database, Isolation::ReadCommitted, |statement| {
        (0..ROWS).step_by(2).try_for_each(|id| raise(statement, table, id))
    });
    assert_eq!(changed, Ok(()));
    let failed: Result<()> = transact(&database, Isolation::ReadCommitted, |statement| {
        (0..ROWS).try_for_each(|id| raise(statement, table, id))?;
        Err(Error::Cancelled)
    });
    assert_eq!(failed, Err(Error::Cancelled));
    let expected: Vec<i64> = (0..ROWS).map(|id| (id + 1) % 2).collect();
    assert_eq!(balances(&database, table), expected);
    let metrics = database.metrics().unwrap();
    assert!(metrics.traffic.evictions > 3000, "{metrics:?}");
    database.close().unwrap();
    drop(database);
    let found = Database::inspect(directory.path(), small(1), &mut |_| ()).unwrap();
    assert_eq!(found.problems, Vec::<String>::new());
}

#[test]
fn an_old_snapshot_reads_what_was_evicted_with_newer_versions() {
    const ROWS: i64 = 20_000;
    let directory = tempfile::tempdir().unwrap();
    let database = Database::open(directory.path(), small(2)).unwrap();
    let table = make_padded(&database);
    for from in (0..ROWS).step_by(500) {
        transact(&database, Isolation::ReadCommitted, |statement| {
            (from..from + 500).try_for_each(|id| put(statement, table, id).map(drop))
        })
        .unwrap();
    }
    let (begun, began) = mpsc::channel();
    let (changed, change) = mpsc::channel();
    let change = std::sync::Mutex::new(change);
    std::thread::scope(|scope| {
        let reader = scope.spawn(|| {
            transact(&database, Isolation::RepeatableRead, |statement| {
                assert_eq!(look(statement, table, 3)?.1, 0);
                begun.send(()).unwrap();
                let change = change.lock().unwrap();
                while change.try_recv().is_err() {
                    statement.context().yield_now();
                }
                for id in 0..ROWS {
                    assert_eq!(look(statement, table, id)?.1, 0, "row {id}");
                }
                Ok(())
            })
        });
        began.recv().unwrap();
        for from in (0..ROWS).step_by(500) {
            transact(&database, Isolation::ReadCommitted, |statement| {
                (from..from + 500).try_for_each(|id| raise(statement, table, id))
            })
            .unwrap();
        }
        changed.send(()).unwrap();
        assert_eq!(reader.join().unwrap(), Ok(()));
    });
    assert_eq!(balances(&database, table), vec![1; ROWS as usize]);
    // With nobody who needs older versions, no twin is left behind, parked or not.
    let mut undo = u64::MAX;
    for _ in 0..200 {
        undo = database.metrics().unwrap().undo_bytes.iter().sum();
        if undo < 1 << 20 {
            break;
        }
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
    assert!(undo < 1 << 20, "{undo} bytes");
    database.close().unwrap();
}

/// What look-ups and rows of an index range need is read from disk before the first of them is read.
#[test]
fn missing_pages_are_loaded_ahead() {
    const ROWS: i64 = 30_000;
    let directory = tempfile::tempdir().unwrap();
    let database = Database::open(directory.path(), small(1)).unwrap();
    let table = make_padded(&database);
    for from in (0..ROWS).step_by(500) {
        transact(&database, Isolation::ReadCommitted, |statement| {
            (from..from + 500).try_for_each(|id| put(statement, table, id).map(drop))
        })
        .unwrap();
    }
    let mut random = fastrand::Rng::with_seed(5);
    let (mut ahead, mut behind) = (0, 0);
    for _ in 0..50 {
        let mut ids: Vec<i64> = (0..20).map(|_| random.i64(0..ROWS)).collect();
        ids.sort_unstable();
        ids.dedup();
        let loads = transact(&database, Isolation::ReadCommitted, |statement| {
            statement.lock_table(table, TableLockMode::AccessShare)?;
            let entry = statement.table(table)?;
            let loads = |it: &Statement<'_>| it.core.shared.pool.traffic_sum().loads;
            let key = |id: &i64| KeyBytes::encode(&entry.indexes[0], &[Some(&bytes(*id))]);
            let keys: Vec<_> = ids.iter().map(key).collect();
            let columns = [ColumnId(0)];
            let point = |key| PointAhead::new(&entry, &entry.indexes[0], key, &columns);
            let points: Vec<_> = keys.iter().map(point).collect();
            let before = loads(statement);
            statement.prefetch_points(&points);
            let between = loads(statement);
            let mut row = RowBuffer::new();
            for (point, id) in points.iter().zip(&ids) {
                assert!(statement.index_point_ahead(point, &mut row)?.is_some());
                assert_eq!(number(&row, 0), *id);
            }
            Ok((between - before, loads(statement) - between))
        });
        let (early, late) = loads.unwrap();
        (ahead, behind) = (ahead + early, behind + late);
    }
    // A page may be evicted again before it is read.
    assert!(ahead > 500 && behind < ahead / 20, "{ahead} ahead, {behind} not");
    database.close().unwrap();
}
