//! Scans ask for leaves before they need them.

use super::larger::{make_padded, put};
use super::*;

const ROWS: i64 = 12_000;

/// Everything is on disk at first, and all of it would fit the pool.
fn by_hand() -> Options {
    let (checkpoint_interval_ms, checkpoint_wal_bytes) = (0, 0);
    Options {
        buffer_pool_bytes: 32 << 20,
        checkpoint_interval_ms,
        checkpoint_wal_bytes,
        ..options(1)
    }
}

/// Waits until so many pages were loaded since, or a while: answers how many.
fn loaded(database: &Database, context: &Context, before: u64, wanted: u64) -> u64 {
    for _ in 0..500 {
        if database.traffic().loads - before >= wanted {
            break;
        }
        context.park(Some(context.now_ns() + 10_000_000));
    }
    database.traffic().loads - before
}

#[test]
fn a_long_scan_asks_for_leaves_ahead_and_a_short_one_does_not() {
    let directory = tempfile::tempdir().unwrap();
    let database = Database::open(directory.path(), by_hand()).unwrap();
    let table = make_padded(&database);
    for from in (0..ROWS).step_by(500) {
        transact(&database, Isolation::ReadCommitted, |statement| {
            (from..from + 500).try_for_each(|id| put(statement, table, id).map(drop))
        })
        .unwrap();
    }
    transact(&database, Isolation::ReadCommitted, |it| Database::checkpoint(it.context())).unwrap();
    database.close().unwrap();
    drop(database);

    let database = Database::open(directory.path(), by_hand()).unwrap();
    let seen = transact(&database, Isolation::RepeatableRead, |statement| {
        statement.lock_table(table, TableLockMode::AccessShare)?;
        let table = statement.table(table)?;
        let leaves = table.access.tree.leaves();
        let in_a_leaf = ROWS as u64 / leaves;
        let before = database.traffic().loads;
        let mut row = RowBuffer::new();
        // As a LIMIT 1 does.
        let mut cursor = statement.scan(&table, &[ColumnId(0)]);
        cursor.next(statement, &mut row)?;
        statement.context().park(Some(statement.context().now_ns() + 50_000_000));
        assert_eq!(database.traffic().loads - before, 1, "only what was needed");
        // Into the third leaf: by then the next ones are on their way.
        let mut cursor = statement.scan(&table, &[ColumnId(0)]);
        let mut ids = Vec::new();
        for _ in 0..in_a_leaf * 5 / 2 {
            cursor.next(statement, &mut row)?;
            ids.push(number(&row, 0));
        }
        let ahead = loaded(&database, statement.context(), before, 7);
        assert!((7..=15).contains(&ahead), "{ahead} leaves loaded");
        while cursor.next(statement, &mut row)?.is_some() {
            ids.push(number(&row, 0));
        }
        assert!(leaves > 200, "{leaves}");
        assert_eq!(loaded(&database, statement.context(), before, leaves), leaves, "each once");
        ids.sort_unstable();
        Ok(ids)
    });
    assert_eq!(seen.unwrap(), (0..ROWS).collect::<Vec<_>>());
    database.close().unwrap();
}

/// A scan that is given up leaves loads behind that end on their own.
#[test]
fn a_database_closes_while_leaves_are_on_their_way() {
    let directory = tempfile::tempdir().unwrap();
    let database = Database::open(directory.path(), by_hand()).unwrap();
    let table = make_padded(&database);
    transact(&database, Isolation::ReadCommitted, |statement| {
        (0..ROWS).try_for_each(|id| put(statement, table, id).map(drop))
    })
    .unwrap();
    transact(&database, Isolation::ReadCommitted, |it| Database::checkpoint(it.context())).unwrap();
    database.close().unwrap();
    drop(database);
    for rows in (0..1000).step_by(100) {
        let database = Database::open(directory.path(), by_hand()).unwrap();
        transact(&database, Isolation::ReadCommitted, |statement| {
            statement.lock_table(table, TableLockMode::AccessShare)?;
            let table = statement.table(table)?;
            let mut cursor = statement.scan(&table, &[ColumnId(0)]);
            let mut row = RowBuffer::new();
            (0..rows).try_for_each(|_| cursor.next(statement, &mut row).map(drop))
        })
        .unwrap();
        database.close().unwrap();
    }
}
