//! Databases whose inner nodes do not fit the buffer pool: they leave memory and come back.

use std::collections::BTreeMap;

use super::super::checkpoints::make_checkpoint;
use super::super::*;
use crate::base::PAGE_BYTES;

/// A pool of some 120 pages.
pub(super) fn small(instances: u16) -> Options {
    Options { buffer_pool_bytes: 2 << 20, checkpoint_interval_ms: 50, ..options(instances) }
}

pub(super) fn by_hand() -> Options {
    let page_extent_bytes = 16 * PAGE_BYTES as u64;
    Options { checkpoint_interval_ms: 0, checkpoint_wal_bytes: 0, page_extent_bytes, ..small(1) }
}

/// Names that are neighbours in order differ late, so that an inner node of their index has some ten
/// children.
fn name(id: i64) -> Vec<u8> {
    let mix = id as u64 * 2_654_435_761 % 4096;
    (0..6).flat_map(|digit| vec![(mix >> (2 * digit) & 3) as u8 + 1; 310]).collect()
}

/// A table (id, balance, name) with a primary key, and an index on names.
pub(super) fn make_named(database: &Database) -> Oid {
    let made = transact(database, Isolation::ReadCommitted, |statement| {
        let table = statement.create_table(NewTable {
            namespace: PUBLIC_NAMESPACE,
            name: "named".to_owned(),
            columns: vec![int8("id"), int8("balance"), ColumnDef::plain("name", ColumnType::Bytes)],
            options: Vec::new(),
        })?;
        let column = |at| IndexColumn {
            column: ColumnId(at),
            direction: Direction::Ascending,
            nulls: Nulls::Last,
        };
        let index = |name: &str, at, kind| NewIndex {
            table,
            name: name.to_owned(),
            columns: vec![column(at)],
            kind,
        };
        statement.create_index(index("named_pkey", 0, IndexKind::Primary))?;
        statement.create_index(index("named_name", 2, IndexKind::Plain))?;
        Ok(table)
    });
    made.expect("an empty database has room for a table")
}

fn put(statement: &mut Statement<'_>, table: Oid, id: i64, balance: i64) -> Result<()> {
    statement.lock_table(table, TableLockMode::RowExclusive)?;
    let table = statement.table(table)?;
    let values = [bytes(id), bytes(balance)];
    statement.insert(&table, &[Some(&values[0]), Some(&values[1]), Some(&name(id))]).map(drop)
}

pub(super) fn fill(database: &Database, table: Oid, from: i64, to: i64) {
    for first in (from..to).step_by(100) {
        transact(database, Isolation::ReadCommitted, |statement| {
            (first..(first + 100).min(to)).try_for_each(|id| put(statement, table, id, 0))
        })
        .expect("the rows fit");
    }
}

/// The row that has the name of `id`, and its balance.
fn by_name(statement: &mut Statement<'_>, table: Oid, id: i64) -> Result<Option<(RowId, i64)>> {
    statement.lock_table(table, TableLockMode::RowExclusive)?;
    let table = statement.table(table)?;
    let key = KeyBytes::encode(&table.indexes[1], &[Some(&name(id))]);
    let (index, columns) = (&table.indexes[1], [ColumnId(0), ColumnId(1)]);
    let range = KeyRange::prefix(key);
    let mut cursor = statement.index_scan(&table, index, range, ScanDirection::Forward, &columns);
    let (mut row, mut found) = (RowBuffer::new(), None);
    while let Some(at) = cursor.next(statement, &mut row)? {
        if number(&row, 0) == id {
            assert!(found.replace((at, number(&row, 1))).is_none(), "row {id} twice");
        }
    }
    Ok(found)
}

/// Changes the balance, or takes the row away, or puts it there.
pub(super) fn change(
    statement: &mut Statement<'_>,
    table: Oid,
    id: i64,
    to: Option<i64>,
) -> Result<()> {
    let Some((at, _)) = by_name(statement, table, id)? else {
        return to.map_or(Ok(()), |balance| put(statement, table, id, balance));
    };
    let table = statement.table(table)?;
    let done = match to {
        None => statement.delete(&table, at)?,
        Some(balance) => statement.update(&table, at, &[(ColumnId(1), Some(&bytes(balance)))])?,
    };
    assert_eq!(done, WriteOutcome::Done);
    Ok(())
}

pub(super) fn balances(database: &Database, table: Oid) -> BTreeMap<i64, i64> {
    let found = transact(database, Isolation::RepeatableRead, |statement| {
        statement.lock_table(table, TableLockMode::AccessShare)?;
        let table = statement.table(table)?;
        let mut found = BTreeMap::new();
        let (columns, all) = ([ColumnId(0), ColumnId(1), ColumnId(2)], KeyRange::all());
        let index = &table.indexes[1];
        let mut cursor = statement.index_scan(&table, index, all, ScanDirection::Forward, &columns);
        let mut row = RowBuffer::new();
        while cursor.next(statement, &mut row)?.is_some() {
            let id = number(&row, 0);
            assert_eq!(row.column(2), Some(name(id).as_slice()), "row {id}");
            assert!(found.insert(id, number(&row, 1)).is_none(), "row {id} twice");
        }
        Ok(found)
    });
    found.expect("a scan finds no obstacle")
}

#[test]
fn a_database_whose_inner_nodes_do_not_fit_the_pool_is_changed_recovered_and_dropped() {
    const ROWS: i64 = 6_000;
    let directory = tempfile::tempdir().unwrap();
    let open = |instances| Database::open(directory.path(), small(instances)).unwrap();
    let database = open(2);
    let table = make_named(&database);
    fill(&database, table, 0, ROWS);
    let mut expected: BTreeMap<i64, i64> = (0..ROWS).map(|id| (id, 0)).collect();
    let mut random = fastrand::Rng::with_seed(7);
    for _ in 0..200 {
        let mut changes = BTreeMap::new();
        for _ in 0..10 {
            let to = if random.u8(..) < 60 { None } else { Some(1 + random.i64(..1000)) };
            changes.insert(random.i64(0..ROWS), to);
        }
        let all = |statement: &mut Statement<'_>| {
            changes.iter().try_for_each(|(id, to)| change(statement, table, *id, *to))
        };
        if random.u8(..) < 50 {
            let failed: Result<()> = transact(&database, Isolation::ReadCommitted, |statement| {
                all(statement)?;
                Err(Error::Cancelled)
            });
            assert_eq!(failed, Err(Error::Cancelled));
            continue;
        }
        transact(&database, Isolation::ReadCommitted, all).unwrap();
        for (id, to) in changes {
            match to {
                None => drop(expected.remove(&id)),
                Some(balance) => drop(expected.insert(id, balance)),
            }
        }
    }
    assert_eq!(balances(&database, table), expected);
    let metrics = database.metrics().unwrap();
    let traffic = metrics.traffic;
    assert!(traffic.nodes_loaded > 500 && traffic.nodes_evicted > 500, "{traffic:?}");
    assert_eq!(metrics.checkpoints.unwrap().failure, None);
    drop(database);
    for instances in [1, 3, 2] {
        let found = Database::inspect(directory.path(), small(1), &mut |_| ()).unwrap();
        assert_eq!(found.problems, Vec::<String>::new());
        let database = open(instances);
        let free = database.metrics().unwrap().pool.free;
        assert!(free > 40, "a start loads no inner nodes: {free} frames are free");
        assert_eq!(balances(&database, table), expected);
        transact(&database, Isolation::ReadCommitted, |it| change(it, table, 77, Some(5))).unwrap();
        expected.insert(77, 5);
        database.close().unwrap();
    }
    let database = open(1);
    let full = database.space().unwrap();
    transact(&database, Isolation::ReadCommitted, |it| it.drop_table(table)).unwrap();
    let mut left = full;
    for _ in 0..200 {
        make_checkpoint(&database);
        left = database.space().unwrap();
        if left.used < 40 {
            break;
        }
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
    assert!(left.used < 40, "{left:?} of {full:?}");
    database.close().unwrap();
}

#[test]
fn inner_nodes_that_are_out_leave_the_end_of_a_file() {
    let directory = tempfile::tempdir().unwrap();
    let database = Database::open(directory.path(), by_hand()).unwrap();
    let bulk = make_accounts(&database);
    let pad = make_named(&database);
    fill(&database, pad, 0, 4000);
    make_checkpoint(&database);
    // What is changed now lies behind that.
    transact(&database, Isolation::ReadCommitted, |statement| {
        statement.lock_table(bulk, TableLockMode::RowExclusive)?;
        let table = statement.table(bulk)?;
        statement.insert(&table, &[Some(&bytes(1)), Some(&bytes(2))]).map(drop)
    })
    .unwrap();
    for id in (0..4000).step_by(50) {
        transact(&database, Isolation::ReadCommitted, |it| change(it, pad, id, Some(1))).unwrap();
    }
    make_checkpoint(&database);
    for first in (0..4000).step_by(100) {
        transact(&database, Isolation::ReadCommitted, |it| {
            (first..first + 100)
                .filter(|id| id % 10 != 0)
                .try_for_each(|id| change(it, pad, id, None))
        })
        .unwrap();
    }
    let mut short = database.space().unwrap();
    let full = short;
    for _ in 0..100 {
        make_checkpoint(&database);
        short = database.space().unwrap();
        if short.pages <= 2 * short.live() + 64 {
            break;
        }
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
    assert!(short.pages <= 2 * short.live() + 64, "{short:?} after {full:?}");
    let expected = (0..4000).step_by(10).map(|id| (id, i64::from(id % 50 == 0)));
    assert_eq!(balances(&database, pad), expected.collect());
    check(&database);
    database.close().unwrap();
    drop(database);
    let found = Database::inspect(directory.path(), by_hand(), &mut |_| ()).unwrap();
    assert_eq!(found.problems, Vec::<String>::new());
}
