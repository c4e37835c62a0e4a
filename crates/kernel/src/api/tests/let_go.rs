//! A checkpoint lets go of undo before its end, and has the state of its S all the same, rows and index entries: while
//! rows change everywhere, leaves are split, thinned out and merged.

#![expect(clippy::unwrap_used, reason = "clippy sees helpers here as no tests under cfg(all)")]

use super::queues::{Ends, counted};
use super::read_checkpoint::reading;
use super::*;
use crate::sync::{AtomicBool, Ordering};

/// Rows of the table whose leaves stay, by [`SPREAD`]: every transfer is between two far from each other.
const ROWS: i64 = 40_000;
const SPREAD: i64 = 7_919;
/// Rows that come together, and how many of them stay.
const BATCH: i64 = 400;
const KEPT: i64 = 4;
/// Batches until one is thinned out, and until what stayed of it changes no more.
const THINNED_AFTER: i64 = 3;
const QUIET_AFTER: i64 = 60;
/// Where batches of the table that only grows may come; more than there will be.
const PLACES: i64 = 1_000_003;
const CHECKPOINTS: usize = 12;
const CHECKPOINTS_MAX: usize = 200;

struct Tables {
    accounts: Oid,
    batches: Oid,
}

/// Each transaction of the worker keeps the sum over both tables, and what stays of a batch has zero.
fn turn(database: &Database, tables: &Tables, number: i64) {
    let transfer = |statement: &mut Statement<'_>| {
        for at in 0..10 {
            let (from, to) = (number * SPREAD + at * 31, (number + at) * SPREAD + ROWS / 2);
            add(statement, tables.accounts, from % ROWS, -1)?;
            add(statement, tables.accounts, to % ROWS, 1)?;
        }
        Ok(())
    };
    transact(database, Isolation::ReadCommitted, transfer).unwrap();
    let come_and_go = |statement: &mut Statement<'_>| {
        for id in number * BATCH..(number + 1) * BATCH {
            insert(statement, tables.batches, id, 0)?;
        }
        let thinned = (number - THINNED_AFTER) * BATCH;
        if thinned >= 0 {
            // Those at its beginning stay: leaves between become empty, and are merged.
            for id in thinned + KEPT..thinned + BATCH {
                remove(statement, tables.batches, id)?;
            }
        }
        Ok(())
    };
    transact(database, Isolation::ReadCommitted, come_and_go).unwrap();
    let change_what_stayed = |statement: &mut Statement<'_>| {
        let oldest = (number - QUIET_AFTER + 1).max(0);
        for batch in oldest..number - THINNED_AFTER {
            add(statement, tables.batches, batch * BATCH, 1)?;
            add(statement, tables.batches, batch * BATCH + KEPT - 1, -1)?;
        }
        Ok(())
    };
    transact(database, Isolation::ReadCommitted, change_what_stayed).unwrap();
}

/// Rows and sum of a table.
fn sum(statement: &mut Statement<'_>, table: Oid) -> Result<(i64, i64)> {
    statement.lock_table(table, TableLockMode::AccessShare)?;
    let entry = statement.table(table)?;
    let (mut row, mut found) = (RowBuffer::new(), (0, 0));
    let mut cursor = statement.scan(&entry, &[ColumnId(1)]);
    while cursor.next(statement, &mut row)?.is_some() {
        found = (found.0 + 1, found.1 + number(&row, 0));
    }
    Ok(found)
}

fn judge(statement: &mut Statement<'_>, tables: &Tables) -> Result<()> {
    assert_eq!(sum(statement, tables.accounts)?, (ROWS, 0));
    let (rows, sum) = sum(statement, tables.batches)?;
    assert_eq!(sum, 0);
    // Entries of rows that were deleted since are there as long as the checkpoint needs them.
    assert_eq!(rows_by_index(statement, tables.batches, 0, ColumnId(1))?, rows);
    // Whole batches, and a few of each that was thinned out.
    let whole = rows.min(THINNED_AFTER * BATCH);
    assert_eq!((whole % BATCH, (rows - whole) % KEPT), (0, 0), "{rows} rows");
    Ok(())
}

fn undo_let_go(database: &Database) -> u64 {
    counted(database, |counters| counters.undo_let_go)
}

#[test]
fn a_checkpoint_that_lets_go_of_undo_is_of_its_moment() {
    let_go_while_indexes_wait(0);
}

#[test]
fn a_checkpoint_that_lets_go_of_undo_before_its_small_indexes_are_copied_is_of_its_moment() {
    let_go_while_indexes_wait(options(2).checkpoint_at_once_bytes);
}

/// Indexes of no more bytes are copied as soon as no leaf holds undo back, larger ones when they are due.
fn let_go_while_indexes_wait(checkpoint_at_once_bytes: u64) {
    let directory = tempfile::tempdir().unwrap();
    let options =
        || Options { checkpoint_interval_ms: 200, checkpoint_at_once_bytes, ..options(2) };
    let database = Database::open(directory.path(), options()).unwrap();
    let [accounts, batches] = ["accounts", "batches"].map(|name| make_table(&database, name));
    let tables = Tables { accounts, batches };
    for from in (0..ROWS).step_by(1000) {
        transact(&database, Isolation::ReadCommitted, |statement| {
            (from..from + 1000).try_for_each(|id| insert(statement, accounts, id, 0).map(drop))
        })
        .unwrap();
    }
    let ends = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let running = Ends(&ends);
        let worker = scope.spawn(|| {
            for number in (0..).take_while(|_| !ends.load(Ordering::Relaxed)) {
                turn(&database, &tables, number);
            }
        });
        let (mut seen, mut last) = (0, 0);
        while seen < CHECKPOINTS || undo_let_go(&database) < 10 {
            assert!(seen < CHECKPOINTS_MAX, "no checkpoint let go of undo");
            let newest = database.checkpoint_counters().expect("it is on disk").newest;
            if newest == last {
                assert!(!worker.is_finished(), "the worker has failed");
                std::thread::sleep(std::time::Duration::from_millis(5));
                continue;
            }
            (last, seen) = (newest, seen + 1);
            let pin = database.pin_checkpoint(WhichCheckpoint::Newest).unwrap();
            // The first may be of the time before all rows were there.
            if seen > 2 {
                reading(&database, &pin, |statement| judge(statement, &tables)).unwrap();
            }
        }
        drop(running);
        worker.join().unwrap();
    });
    check(&database);
    database.close().unwrap();
    drop(database);
    let database = Database::open(directory.path(), options()).unwrap();
    transact(&database, Isolation::RepeatableRead, |it| judge(it, &tables)).unwrap();
    check(&database);
    database.close().unwrap();
}

/// Leaves of an index are copied when rows have come that the checkpoint does not see. Whole leaves of them were exact by
/// then, so that index-only scans of the checkpoint answered with rows that it does not have.
#[test]
fn an_index_only_scan_of_a_checkpoint_finds_the_rows_that_it_has() {
    let directory = tempfile::tempdir().unwrap();
    let options =
        Options { checkpoint_interval_ms: 400, checkpoint_at_once_bytes: 0, ..options(2) };
    let database = Database::open(directory.path(), options).unwrap();
    let table = make_table(&database, "events");
    // Where others have come and will come no more, so that leaves become exact soon.
    let come = |number: i64| {
        let first = number * SPREAD % PLACES * BATCH;
        transact(&database, Isolation::ReadCommitted, |statement| {
            (first..first + BATCH).try_for_each(|id| insert(statement, table, id, 0).map(drop))
        })
        .unwrap();
        std::thread::sleep(std::time::Duration::from_millis(2));
    };
    (0..200).for_each(come);
    let ends = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let running = Ends(&ends);
        let worker = scope.spawn(|| {
            for number in (200..).take_while(|_| !ends.load(Ordering::Relaxed)) {
                come(number);
                // Leaves become exact where scans ask for it.
                if number % 8 == 0 {
                    let rows = |it: &mut Statement<'_>| rows_by_index(it, table, 0, ColumnId(0));
                    transact(&database, Isolation::ReadCommitted, rows).unwrap();
                }
            }
        });
        let (mut seen, mut last) = (0, 0);
        while seen < 6 {
            let newest = database.checkpoint_counters().expect("it is on disk").newest;
            if newest == last {
                assert!(!worker.is_finished(), "the worker has failed");
                std::thread::sleep(std::time::Duration::from_millis(5));
                continue;
            }
            (last, seen) = (newest, seen + 1);
            let pin = database.pin_checkpoint(WhichCheckpoint::Newest).unwrap();
            let compare = |statement: &mut Statement<'_>| {
                let (rows, _) = sum(statement, table)?;
                assert_eq!(rows_by_index(statement, table, 0, ColumnId(0))?, rows);
                Ok(())
            };
            reading(&database, &pin, compare).unwrap();
        }
        drop(running);
        worker.join().unwrap();
    });
    database.close().unwrap();
}
