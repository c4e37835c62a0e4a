//! Databases larger than the buffer pool: leaves leave memory and come back, and inner nodes after them.

mod collecting;
mod nodes;
mod starts;

use std::ops::Bound;

use super::*;
use crate::io::{Disk, Fault, FaultOn, SimDisk, SimOptions};

const PAD: usize = 400;

pub(super) fn small(instances: u16) -> Options {
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

pub(super) fn put(statement: &mut Statement<'_>, table: Oid, id: i64) -> Result<RowId> {
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

pub(super) fn raise(statement: &mut Statement<'_>, table: Oid, id: i64) -> Result<()> {
    let (at, balance) = look(statement, table, id)?;
    let table = statement.table(table)?;
    let (balance, pad) = (bytes(balance + 1), pad(id, balance + 1));
    let changes: [(ColumnId, Option<&[u8]>); 2] =
        [(ColumnId(1), Some(&balance)), (ColumnId(2), Some(&pad))];
    assert_eq!(statement.update(&table, at, &changes)?, WriteOutcome::Done);
    Ok(())
}

pub(super) fn balances(database: &Database, table: Oid) -> Vec<i64> {
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

/// A disk whose page files do not grow any more, or do again.
fn is_full(disk: &SimDisk, is_full: bool) {
    let (on, errno) = (FaultOn::Grow, libc::ENOSPC);
    match is_full {
        true => {
            disk.inject(Fault { on, name_contains: "pages", after: 0, times: u64::MAX, errno });
        }
        false => disk.heal(),
    }
}

fn by_hand() -> Options {
    Options { checkpoint_interval_ms: 0, checkpoint_wal_bytes: 0, ..small(1) }
}

/// Inserts rows until the pool is full of leaves that cannot leave it.
fn fill_pool(statement: &mut Statement<'_>, table: Oid) -> Error {
    (1_000_000..2_000_000)
        .find_map(|id| put(statement, table, id).err())
        .expect("the pool is full some time")
}

/// A regression: what the rollback loaded and changed could not leave again, for the disk had no room for
/// it elsewhere, and the process ended.
#[test]
fn rows_are_put_back_when_the_pool_is_full_and_the_disk_too() {
    const ROWS: i64 = 12_000;
    let disk = SimDisk::new(SimOptions::seeded(7));
    let database =
        Database::open_on(Arc::new(disk.clone()), by_hand(), &mut |_| ()).expect("it opens");
    let table = make_padded(&database);
    for from in (0..ROWS).step_by(500) {
        transact(&database, Isolation::ReadCommitted, |statement| {
            (from..from + 500).try_for_each(|id| put(statement, table, id).map(drop))
        })
        .unwrap();
    }
    // Before the change, in the middle of it, or never: where checkpoints have the leaves.
    for round in 0..3 {
        let before = database.traffic();
        let failed = transact(&database, Isolation::ReadCommitted, |statement| {
            if round == 0 {
                Database::checkpoint(statement.context())?;
            }
            for id in 0..ROWS {
                raise(statement, table, id)?;
                if round == 1 && id == ROWS / 2 {
                    Database::checkpoint(statement.context())?;
                }
            }
            is_full(&disk, true);
            Err::<(), _>(fill_pool(statement, table))
        });
        let full = matches!(failed, Err(Error::OutOfMemory { .. } | Error::DiskFull { .. }));
        assert!(full, "round {round}: {failed:?}");
        let after = database.traffic();
        assert!(after.loads > before.loads + 100, "leaves are loaded to be put back");
        is_full(&disk, false);
        assert_eq!(balances(&database, table), vec![0; ROWS as usize]);
        transact(&database, Isolation::ReadCommitted, |it| {
            Database::checkpoint(it.context()).map(drop)
        })
        .unwrap();
        check(&database);
    }
    database.close().unwrap();
    drop(database);
    let disk = Arc::new(disk);
    let database = Database::open_on(disk, by_hand(), &mut |_| ()).expect("it opens");
    assert_eq!(balances(&database, table), vec![0; ROWS as usize]);
    check(&database);
}

/// What stands in row `id` after so many changes: more than a page.
fn long_text(id: i64, changes: i64) -> Vec<u8> {
    let mut random = fastrand::Rng::with_seed((id * 8 + changes) as u64);
    (0..random.usize(8_000..100_000)).map(|_| random.u8(..)).collect()
}

/// The row and its text.
fn look_long(database: &Database, table: Oid, id: i64) -> Option<(RowId, Vec<u8>)> {
    let found = transact(database, Isolation::ReadCommitted, |statement| {
        statement.lock_table(table, TableLockMode::RowExclusive)?;
        let table = statement.table(table)?;
        let key = KeyBytes::encode(&table.indexes[0], &[Some(&bytes(id))]);
        let mut row = RowBuffer::new();
        let at =
            statement.index_point(&table, &table.indexes[0], &key, &[ColumnId(2)], &mut row)?;
        Ok(at.map(|at| (at, row.column(0).expect("it is not null").to_vec())))
    });
    found.expect("nothing is in the way")
}

/// Whether each row has been changed so often, or is gone.
fn check_longs(database: &Database, table: Oid, rows: i64, changes: impl Fn(i64) -> Option<i64>) {
    for id in 0..rows {
        let text = look_long(database, table, id).map(|(_, text)| text);
        assert!(text == changes(id).map(|changes| long_text(id, changes)), "row {id}");
    }
    check(database);
}

/// Long values of several times the pool, of which some are replaced and some deleted. And a regression:
/// replay put a long value into pages, for which the one leaf there was had to leave, loaded the leaf, for
/// which the value was given up, and so on for ever.
#[test]
fn long_values_larger_than_the_pool_are_read_changed_and_recovered() {
    const ROWS: i64 = 400;
    let disk: Arc<dyn Disk> = Arc::new(SimDisk::new(SimOptions::seeded(8)));
    let database = Database::open_on(disk.clone(), by_hand(), &mut |_| ()).expect("it opens");
    let table = make_padded(&database);
    let texts: usize = (0..ROWS).map(|id| long_text(id, 0).len()).sum();
    assert!(texts > 5 * small(1).buffer_pool_bytes as usize, "{texts}");
    for id in 0..ROWS {
        let text = long_text(id, 0);
        let put = transact(&database, Isolation::ReadCommitted, |statement| {
            statement.lock_table(table, TableLockMode::RowExclusive)?;
            let table = statement.table(table)?;
            let values = [Some(&bytes(id)[..]), Some(&bytes(0)), Some(&text)];
            statement.insert(&table, &values).map(drop)
        });
        put.unwrap();
    }
    check_longs(&database, table, ROWS, |_| Some(0));
    for id in (0..ROWS).filter(|id| id % 5 < 2) {
        let (at, _) = look_long(&database, table, id).expect("it is there");
        let changed = transact(&database, Isolation::ReadCommitted, |statement| {
            if id == ROWS / 2 {
                Database::checkpoint(statement.context())?;
            }
            statement.lock_table(table, TableLockMode::RowExclusive)?;
            let table = statement.table(table)?;
            match id % 5 {
                0 => statement.delete(&table, at),
                _ => statement.update(&table, at, &[(ColumnId(2), Some(&long_text(id, 1)))]),
            }
        });
        assert_eq!(changed, Ok(WriteOutcome::Done));
    }
    let after = |id: i64| [None, Some(1), Some(0), Some(0), Some(0)][id as usize % 5];
    check_longs(&database, table, ROWS, after);
    database.close().unwrap();
    drop(database);
    // Two instances keep more frames for themselves.
    for instances in [1, 2] {
        let again =
            Options { checkpoint_interval_ms: 0, checkpoint_wal_bytes: 0, ..small(instances) };
        let database = Database::open_on(disk.clone(), again, &mut |_| ()).expect("it opens");
        check_longs(&database, table, ROWS, after);
        let left = database.check().unwrap();
        assert_eq!((left.rows, left.overflow_pages_in_undo), (ROWS as u64 * 4 / 5, 0));
        database.close().unwrap();
    }
}

/// What is indexed of a row, in no order.
fn word(id: i64, turn: i64) -> Vec<u8> {
    let first = (id * 2 + turn).wrapping_mul(0x5851_f42d_4c95_7f2d).to_be_bytes();
    first.iter().cycle().take(200).copied().collect()
}

fn make_words(database: &Database, rows: i64) -> Oid {
    let made = transact(database, Isolation::ReadCommitted, |statement| {
        let table = statement.create_table(NewTable {
            namespace: PUBLIC_NAMESPACE,
            name: "words".to_owned(),
            columns: vec![int8("id"), ColumnDef::plain("word", ColumnType::Bytes)],
            options: Vec::new(),
        })?;
        let column = IndexColumn {
            column: ColumnId(1),
            direction: Direction::Ascending,
            nulls: Nulls::Last,
        };
        let (name, columns) = ("words_word".to_owned(), vec![column]);
        statement.create_index(NewIndex { table, name, columns, kind: IndexKind::Plain })?;
        let target = statement.table(table)?;
        (0..rows).try_for_each(|id| {
            let values: [Option<&[u8]>; 2] = [Some(&bytes(id)), Some(&word(id, 0))];
            statement.insert(&target, &values).map(drop)
        })?;
        Ok(table)
    });
    made.expect("an empty database has room for a table")
}

/// All rows by their index: each is there once, with the word of `turn`.
fn look_at_words(database: &Database, table: Oid, (rows, turn): (i64, i64)) {
    let found = transact(database, Isolation::RepeatableRead, |statement| {
        statement.lock_table(table, TableLockMode::AccessShare)?;
        let table = statement.table(table)?;
        let range = KeyRange { from: Bound::Unbounded, to: Bound::Unbounded };
        let columns = [ColumnId(0), ColumnId(1)];
        let forward = ScanDirection::Forward;
        let mut cursor = statement.index_scan(&table, &table.indexes[0], range, forward, &columns);
        let (mut row, mut found) = (RowBuffer::new(), Vec::new());
        while cursor.next(statement, &mut row)?.is_some() {
            let id = number(&row, 0);
            assert_eq!(row.column(1), Some(word(id, turn).as_slice()), "row {id}");
            found.push(id);
        }
        found.sort_unstable();
        Ok(found)
    });
    let found = found.expect("a scan finds no obstacle");
    assert!(found.into_iter().eq(0..rows), "each once");
}

/// A regression, too: an index leaf that a checkpoint has cannot be written where it lies, so the
/// entries of more leaves than there are frames were in the way of the rollback.
#[test]
fn entries_are_left_where_they_are_when_pool_and_disk_are_full() {
    const ROWS: i64 = 6000;
    let disk = SimDisk::new(SimOptions::seeded(8));
    let database =
        Database::open_on(Arc::new(disk.clone()), by_hand(), &mut |_| ()).expect("it opens");
    let table = make_words(&database, ROWS);
    let other = make_padded(&database);
    let change = |statement: &mut Statement<'_>| {
        let table = statement.table(table)?;
        let (mut rows, mut row) = (Vec::new(), RowBuffer::new());
        let mut cursor = statement.scan(&table, &[ColumnId(0)]);
        while let Some(at) = cursor.next(statement, &mut row)? {
            rows.push((at, number(&row, 0)));
        }
        rows.into_iter().try_for_each(|(at, id)| {
            let changes: [(ColumnId, Option<&[u8]>); 1] = [(ColumnId(1), Some(&word(id, 1)))];
            assert_eq!(statement.update(&table, at, &changes)?, WriteOutcome::Done);
            Ok(())
        })
    };
    let failed = transact(&database, Isolation::ReadCommitted, |statement| {
        statement.lock_table(table, TableLockMode::RowExclusive)?;
        change(statement)?;
        Database::checkpoint(statement.context())?;
        is_full(&disk, true);
        Err::<(), _>(fill_pool(statement, other))
    });
    let full = matches!(failed, Err(Error::OutOfMemory { .. } | Error::DiskFull { .. }));
    assert!(full, "{failed:?}");
    is_full(&disk, false);
    look_at_words(&database, table, (ROWS, 0));
    let found = database.check().unwrap();
    assert_eq!(found.problems, Vec::<String>::new());
    assert!(found.entries > found.rows + 100, "of {} entries none was left", found.entries);
    // The same again, which finds some of its entries.
    transact(&database, Isolation::ReadCommitted, |statement| {
        statement.lock_table(table, TableLockMode::RowExclusive)?;
        change(statement)
    })
    .unwrap();
    look_at_words(&database, table, (ROWS, 1));
    check(&database);
    database.close().unwrap();
    drop(database);
    let disk = Arc::new(disk);
    let database = Database::open_on(disk, by_hand(), &mut |_| ()).expect("it opens");
    look_at_words(&database, table, (ROWS, 1));
    check(&database);
}
