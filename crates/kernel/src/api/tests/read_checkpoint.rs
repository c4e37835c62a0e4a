//! Transactions that read a checkpoint: they see it as of its timestamp, whatever happens since, and
//! hold nothing back.

use super::checkpoints::make_checkpoint;
use super::*;
use crate::base::PAGE_BYTES;
use crate::runtime::Parker;
use crate::sync::{AtomicBool, AtomicUsize, Ordering};

/// Runs `work` in a transaction that reads `pin`.
pub(super) fn reading<T: Send>(
    database: &Database,
    pin: &PinnedCheckpoint,
    work: impl Fn(&mut Statement<'_>) -> Result<T> + Send,
) -> Result<T> {
    reading_beside(database, pin, move |statement, _| work(statement))
}

/// As [`reading`], of work that lets others run.
fn reading_beside<T: Send>(
    database: &Database,
    pin: &PinnedCheckpoint,
    work: impl Fn(&mut Statement<'_>, &Context) -> Result<T> + Send,
) -> Result<T> {
    let pin = pin.clone();
    database.run(Target::Any, move |context| {
        let mut session = Session::new(context.instance());
        let isolation = Isolation::ReadCommitted;
        let mut transaction = session.begin(context, isolation, Access::ReadOnly)?;
        transaction.read_checkpoint(pin.clone(), context)?;
        let mut statement = transaction.statement(&mut session, context)?;
        let result = work(&mut statement, context);
        drop(statement);
        transaction.commit(&mut session, context)?;
        session.settle(context)?;
        result
    })?
}

/// All rows, by a scan; and each is found by its key, and by the other index.
fn read_all(statement: &mut Statement<'_>, table: Oid) -> Result<Vec<(i64, i64)>> {
    statement.lock_table(table, TableLockMode::AccessShare)?;
    let entry = statement.table(table)?;
    let mut cursor = statement.scan(&entry, &[ColumnId(0), ColumnId(1)]);
    let (mut row, mut rows) = (RowBuffer::new(), Vec::new());
    while cursor.next(statement, &mut row)?.is_some() {
        rows.push((number(&row, 0), number(&row, 1)));
    }
    rows.sort_unstable();
    for (id, balance) in &rows {
        let found = find(statement, table, *id)?;
        assert_eq!(found.map(|found| found.1), Some(*balance), "row {id}");
    }
    let (index, columns) = (&entry.indexes[1], [ColumnId(0), ColumnId(1)]);
    let range = KeyRange::all();
    let mut cursor = statement.index_scan(&entry, index, range, ScanDirection::Forward, &columns);
    let mut by_index = Vec::new();
    while cursor.next(statement, &mut row)?.is_some() {
        by_index.push((number(&row, 0), number(&row, 1)));
    }
    assert!(by_index.is_sorted_by_key(|row| row.1), "in the index's order");
    by_index.sort_unstable();
    assert_eq!(by_index, rows, "by the other index");
    Ok(rows)
}

/// Fewer frames than the rows of these tests need.
fn small(instances: u16) -> Options {
    Options { buffer_pool_bytes: 3 << 20, ..options(instances) }
}

fn fill(database: &Database, table: Oid, from: i64, to: i64) {
    for from in (from..to).step_by(1000) {
        transact(database, Isolation::ReadCommitted, |statement| {
            (from..to.min(from + 1000))
                .try_for_each(|id| insert(statement, table, id, id % 97).map(drop))
        })
        .expect("there is room");
    }
}

#[test]
fn a_checkpoint_is_read_as_it_was() {
    const ROWS: i64 = 60_000;
    let directory = tempfile::tempdir().unwrap();
    let database = Database::open(directory.path(), small(2)).unwrap();
    let table = make_accounts(&database);
    assert!(matches!(
        database.pin_checkpoint(WhichCheckpoint::Newest),
        Err(Error::NotFound { .. })
    ));
    for from in (0..ROWS).step_by(5000) {
        // What is without versions can leave memory.
        fill(&database, table, from, from + 5000);
        make_checkpoint(&database);
    }
    let before = all(&database, table);
    let pin = database.pin_checkpoint(WhichCheckpoint::Newest).unwrap();
    // Everything that can be changed is.
    for from in (0..ROWS).step_by(2000) {
        transact(&database, Isolation::ReadCommitted, |statement| {
            (from..from + 2000).step_by(7).try_for_each(|id| add(statement, table, id, 1000))?;
            (from..from + 2000).step_by(11).try_for_each(|id| {
                let (row, _) = find(statement, table, id)?.expect("it is there");
                let table = statement.table(table)?;
                statement.delete(&table, row).map(drop)
            })?;
            (from..from + 100).try_for_each(|id| insert(statement, table, ROWS + id, 5).map(drop))
        })
        .unwrap();
        make_checkpoint(&database);
    }
    let after = all(&database, table);
    assert_ne!(after, before);
    assert_eq!(reading(&database, &pin, |statement| read_all(statement, table)).unwrap(), before);
    transact(&database, Isolation::ReadCommitted, |it| it.drop_table(table)).unwrap();
    assert_eq!(reading(&database, &pin, |statement| read_all(statement, table)).unwrap(), before);
    // The newest one has neither; the pinned one is known by its number while it is pinned.
    let number = pin.number();
    let same = database.pin_checkpoint(WhichCheckpoint::Number(number)).unwrap();
    assert_eq!(same.timestamp(), pin.timestamp());
    drop(same);
    make_checkpoint(&database);
    assert!(database.metrics().unwrap().store.unwrap().pinned > 100);
    drop(pin);
    let gone = database.pin_checkpoint(WhichCheckpoint::Number(number));
    assert!(matches!(gone, Err(Error::NotFound { .. })));
    let newest = database.pin_checkpoint(WhichCheckpoint::Newest).unwrap();
    let nothing = reading(&database, &newest, |statement| read_all(statement, table));
    assert!(matches!(nothing, Err(Error::NotFound { .. })), "{nothing:?}");
    drop(newest);
    // What was dropped is freed behind the last who might be in it.
    let mut store = SpaceStats::default();
    for _ in 0..100 {
        make_checkpoint(&database);
        store = database.metrics().unwrap().store.unwrap();
        if store.used < 100 {
            break;
        }
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
    assert!(store.pinned == 0 && store.used < 100, "{store:?}");
    database.close().unwrap();
}

#[test]
fn a_checkpoint_that_keeps_too_much_is_given_up_and_a_newer_one_is_not() {
    const ROWS: i64 = 20_000;
    let directory = tempfile::tempdir().unwrap();
    let limited = Options { checkpoint_pin_bytes: 8 * PAGE_BYTES as u64, ..options(2) };
    let database = Database::open(directory.path(), limited).unwrap();
    let table = make_accounts(&database);
    fill(&database, table, 0, ROWS);
    make_checkpoint(&database);
    let pin = database.pin_checkpoint(WhichCheckpoint::Newest).unwrap();
    let change_and_publish = |from: i64| {
        transact(&database, Isolation::ReadCommitted, |statement| {
            (from..from + 4000).try_for_each(|id| add(statement, table, id, 1).map(drop))
        })
        .unwrap();
        make_checkpoint(&database);
    };
    let (reads, ended) = (AtomicUsize::new(0), AtomicBool::new(false));
    let outcome = std::thread::scope(|scope| {
        let reader = scope.spawn(|| {
            reading_beside(&database, &pin, |statement, context| {
                while !ended.load(Ordering::Relaxed) {
                    assert_eq!(find(statement, table, 5)?.expect("it is there").1, 5);
                    reads.fetch_add(1, Ordering::Relaxed);
                    context.yield_now();
                }
                Ok(())
            })
        });
        while reads.load(Ordering::Relaxed) == 0 {
            std::thread::yield_now();
        }
        // More than once: leaves with versions are written beside where they lie.
        for from in (0..4 * ROWS).step_by(4000) {
            change_and_publish(from % ROWS);
            if reader.is_finished() {
                break;
            }
        }
        // It ends within its next steps, or never.
        for _ in 0..2000 {
            if reader.is_finished() {
                break;
            }
            std::thread::sleep(std::time::Duration::from_millis(5));
        }
        ended.store(true, Ordering::Relaxed);
        reader.join().expect("it does not panic")
    });
    assert_eq!(outcome, Err(Error::CheckpointGivenUp));
    let number = WhichCheckpoint::Number(pin.number());
    assert!(matches!(database.pin_checkpoint(number), Err(Error::CheckpointGivenUp)));
    let newest = database.pin_checkpoint(WhichCheckpoint::Newest).unwrap();
    drop(pin);
    assert_eq!(database.metrics().unwrap().store.unwrap().pinned, 0, "it keeps nothing");
    let rows = reading(&database, &newest, |statement| read_all(statement, table)).unwrap();
    assert_eq!(rows.len(), ROWS as usize);
    drop(newest);
    database.close().unwrap();
}

#[test]
fn nothing_is_changed_in_a_checkpoint() {
    let directory = tempfile::tempdir().unwrap();
    let database = Database::open(directory.path(), options(1)).unwrap();
    let table = make_accounts(&database);
    fill(&database, table, 0, 10);
    make_checkpoint(&database);
    let pin = database.pin_checkpoint(WhichCheckpoint::Newest).unwrap();
    let refused = |work: fn(&mut Statement<'_>, Oid) -> Result<()>| {
        let done = reading(&database, &pin, |statement| work(statement, table));
        assert_eq!(done, Err(Error::ReadOnly));
    };
    refused(|it, table| insert(it, table, 77, 1).map(drop));
    refused(|it, table| add(it, table, 1, 1));
    refused(|it, table| {
        let (row, _) = find(it, table, 3)?.expect("it is there");
        let table = it.table(table)?;
        it.delete(&table, row).map(drop)
    });
    refused(|it, table| it.truncate(&[table]));
    refused(|it, table| it.drop_table(table));
    let rows = (0..10).map(|id| (id, id)).collect::<Vec<_>>();
    assert_eq!(reading(&database, &pin, |it| read_all(it, table)).unwrap(), rows);
    assert_eq!(all(&database, table), rows);
    drop(pin);
    database.close().unwrap();
}

#[test]
fn a_reader_of_a_checkpoint_holds_no_undo_back() {
    const ACCOUNTS: i64 = 200;
    let directory = tempfile::tempdir().unwrap();
    let database = Database::open(directory.path(), options(2)).unwrap();
    let table = make_accounts(&database);
    transact(&database, Isolation::ReadCommitted, |statement| {
        (0..ACCOUNTS).try_for_each(|id| insert(statement, table, id, 1000).map(drop))
    })
    .unwrap();
    make_checkpoint(&database);
    let pin = database.pin_checkpoint(WhichCheckpoint::Newest).unwrap();
    let ends = AtomicBool::new(false);
    let most = std::thread::scope(|scope| {
        scope.spawn(|| {
            let ends = &ends;
            reading(&database, &pin, move |statement| {
                while !ends.load(Ordering::Relaxed) {
                    let rows = read_all(statement, table)?;
                    assert_eq!(rows.iter().map(|row| row.1).sum::<i64>(), ACCOUNTS * 1000);
                    assert!(rows.iter().all(|row| row.1 == 1000));
                    statement.context().yield_now();
                }
                Ok(())
            })
            .unwrap();
        });
        let mut most = 0;
        for round in 0..400 {
            for n in 0..20 {
                transact(&database, Isolation::ReadCommitted, |statement| {
                    add(statement, table, (round * 31 + n) % ACCOUNTS, -1)
                })
                .unwrap();
            }
            if round % 50 == 49 {
                make_checkpoint(&database);
            }
            most = most.max(database.metrics().unwrap().undo_bytes.iter().sum::<u64>());
        }
        ends.store(true, Ordering::Relaxed);
        most
    });
    assert!(most < 8 << 20, "{most} bytes of undo");
    drop(pin);
    database.close().unwrap();
}

#[test]
fn long_values_of_a_checkpoint_outlive_their_rows() {
    const ROWS: i64 = 20;
    let text = |id: i64| -> Vec<u8> {
        let mut random = fastrand::Rng::with_seed(id as u64);
        (0..50_000 + id * 1000).map(|_| random.u8(..)).collect()
    };
    let directory = tempfile::tempdir().unwrap();
    let database = Database::open(directory.path(), options(2)).unwrap();
    let table = super::long::make_table(&database);
    let put = |text: &(dyn Fn(i64) -> Vec<u8> + Sync), from: i64| {
        transact(&database, Isolation::ReadCommitted, |statement| {
            statement.lock_table(table, TableLockMode::RowExclusive)?;
            let entry = statement.table(table)?;
            for id in from..from + ROWS {
                let (id, text) = (bytes(id), text(id));
                let mut row: Vec<Option<&[u8]>> = vec![None; 1 + super::long::TEXTS];
                (row[0], row[2]) = (Some(id.as_slice()), Some(text.as_slice()));
                statement.insert(&entry, &row)?;
            }
            Ok(())
        })
        .unwrap();
    };
    put(&text, 0);
    make_checkpoint(&database);
    let pin = database.pin_checkpoint(WhichCheckpoint::Newest).unwrap();
    transact(&database, Isolation::ReadCommitted, |statement| {
        statement.lock_table(table, TableLockMode::RowExclusive)?;
        let entry = statement.table(table)?;
        let mut cursor = statement.scan(&entry, &[ColumnId(0)]);
        let mut row = RowBuffer::new();
        while let Some(at) = cursor.next(statement, &mut row)? {
            statement.delete(&entry, at)?;
        }
        Ok(())
    })
    .unwrap();
    // Others get the memory, and would get the places.
    for round in 1..4 {
        make_checkpoint(&database);
        put(&|id| vec![id as u8; 60_000], round * ROWS);
        std::thread::sleep(std::time::Duration::from_millis(50));
    }
    make_checkpoint(&database);
    let read = reading(&database, &pin, |statement| {
        let entry = statement.table(table)?;
        let mut cursor = statement.scan(&entry, &[ColumnId(0), ColumnId(2)]);
        let (mut row, mut rows) = (RowBuffer::new(), 0);
        while cursor.next(statement, &mut row)?.is_some() {
            let id = number(&row, 0);
            assert!(row.column(1) == Some(text(id).as_slice()), "row {id}");
            rows += 1;
        }
        Ok(rows)
    });
    assert_eq!(read.unwrap(), ROWS);
    drop(pin);
    database.close().unwrap();
}
