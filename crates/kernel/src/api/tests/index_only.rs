//! Scans that read columns from index entries (rule 5.7), through the front door.

#![expect(clippy::unwrap_used, reason = "clippy sees helpers here as no tests under cfg(all)")]

use std::ops::Bound;
use std::time::{Duration, Instant};

use super::*;
use crate::tree::index::{IndexBatch, IndexTree, Keyed};

/// Ids from an entry-only scan, and how many rows it had to look at.
fn ids(statement: &mut Statement<'_>, table: Oid, direction: ScanDirection) -> (Vec<i64>, u64) {
    statement.lock_table(table, TableLockMode::AccessShare).unwrap();
    let table = statement.table(table).unwrap();
    let range = KeyRange { from: Bound::Unbounded, to: Bound::Unbounded };
    let index = &table.indexes[0];
    assert!(index.covers(&[ColumnId(0)]) && !index.covers(&[ColumnId(0), ColumnId(1)]));
    let mut cursor = statement.index_scan(&table, index, range, direction, &[ColumnId(0)]);
    let (mut row, mut found) = (RowBuffer::new(), Vec::new());
    while cursor.next(statement, &mut row).unwrap().is_some() {
        found.push(number(&row, 0));
    }
    (found, cursor.fetched())
}

fn scan(database: &Database, table: Oid) -> (Vec<i64>, u64) {
    transact(database, Isolation::ReadCommitted, move |statement| {
        let mut forward = ids(statement, table, ScanDirection::Forward);
        let (mut backward, _) = ids(statement, table, ScanDirection::Backward);
        backward.reverse();
        assert_eq!(forward.0, backward);
        forward.0.sort_unstable();
        Ok(forward)
    })
    .unwrap()
}

/// The instances' own collectors make the leaves exact, in a while.
fn until_no_row_is_fetched(database: &Database, table: Oid, expected: &[i64]) {
    let until = Instant::now() + Duration::from_secs(60);
    loop {
        let (found, fetched) = scan(database, table);
        assert_eq!(found, expected);
        if fetched == 0 {
            return;
        }
        assert!(Instant::now() < until, "{fetched} rows are still fetched");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Whether all leaves of the table's indexes are keyed, one by one.
fn are_keyed(database: &Database, table: Oid) -> Vec<bool> {
    let look = |statement: &mut Statement<'_>| {
        let entry = statement.table(table)?;
        Ok(entry.indexes.iter().map(|index| is_keyed(&index.tree)).collect())
    };
    transact(database, Isolation::ReadCommitted, look).unwrap()
}

fn is_keyed(tree: &IndexTree) -> bool {
    let (mut batch, mut from) = (IndexBatch::new(), Some(Vec::new()));
    while let Some(key) = from {
        let (begin, end) = (Bound::Included(&key[..]), Bound::Unbounded);
        match tree.scan(begin, end, ScanDirection::Forward, &mut batch) {
            Ok(next) => from = next.map(|next| next.key),
            Err(_) => return false,
        }
        if batch.keyed() == Keyed::No {
            return false;
        }
    }
    true
}

/// The first version of the bit was set by sweeps alone, so that leaves had it only once a scan had
/// asked for them to be exact.
#[test]
fn leaves_are_keyed_from_the_beginning_until_a_row_gets_another_key() {
    let database = Database::open_in_memory(options(2)).unwrap();
    let table = make_accounts(&database);
    let come = |statement: &mut Statement<'_>| {
        (0..1000).try_for_each(|id| insert(statement, table, id, id % 10).map(drop))
    };
    transact(&database, Isolation::ReadCommitted, come).unwrap();
    assert_eq!(are_keyed(&database, table), [true, true], "made with the table, which was empty");
    let column =
        IndexColumn { column: ColumnId(1), direction: Direction::Descending, nulls: Nulls::Last };
    transact(&database, Isolation::ReadCommitted, |statement| {
        let (name, columns) = ("later".to_owned(), vec![column]);
        statement.create_index(NewIndex { table, name, columns, kind: IndexKind::Plain })
    })
    .unwrap();
    assert_eq!(are_keyed(&database, table), [true, true, true], "built of rows");
    transact(&database, Isolation::ReadCommitted, |it| remove(it, table, 5)).unwrap();
    assert_eq!(are_keyed(&database, table), [true, true, true], "a row went");
    transact(&database, Isolation::ReadCommitted, |it| add(it, table, 6, 1)).unwrap();
    assert_eq!(are_keyed(&database, table), [true, false, false], "another balance");
    database.close().unwrap();
}

#[test]
fn leaves_become_exact_by_themselves_and_after_a_restart_at_once() {
    let directory = tempfile::tempdir().unwrap();
    let database = Database::open(directory.path(), options(2)).unwrap();
    let table = make_accounts(&database);
    for from in 0..4 {
        transact(&database, Isolation::ReadCommitted, |statement| {
            (0..500).try_for_each(|n| insert(statement, table, n * 4 + from, n).map(drop))
        })
        .unwrap();
    }
    let all: Vec<i64> = (0..2000).collect();
    until_no_row_is_fetched(&database, table, &all);

    // Changes of others columns leave the bit; a delete clears it at once.
    let (found, fetched) = transact(&database, Isolation::ReadCommitted, |statement| {
        add(statement, table, 7, 1)?;
        Ok(ids(statement, table, ScanDirection::Forward))
    })
    .unwrap();
    assert_eq!((found.len(), fetched), (2000, 0));
    transact(&database, Isolation::ReadCommitted, |statement| {
        let (row, _) = find(statement, table, 1000)?.unwrap();
        let entry = statement.table(table)?;
        statement.lock_table(table, TableLockMode::RowExclusive)?;
        assert_eq!(statement.delete(&entry, row)?, WriteOutcome::Done);
        // The snapshot of this very command has the row still.
        let (found, fetched) = ids(statement, table, ScanDirection::Forward);
        assert!(found.len() == 2000 && fetched > 0, "{} {fetched}", found.len());
        Ok(())
    })
    .unwrap();
    let left: Vec<i64> = (0..2000).filter(|id| *id != 1000).collect();
    until_no_row_is_fetched(&database, table, &left);
    check(&database);
    drop(database);

    let database = Database::open(directory.path(), options(1)).unwrap();
    assert_eq!(scan(&database, table), (left, 0), "recovery builds exact leaves");
}

#[test]
fn an_index_made_later_is_swept_and_an_old_snapshot_still_sees_its_rows() {
    let database = Database::open_in_memory(options(1)).unwrap();
    let table = make_accounts(&database);
    transact(&database, Isolation::ReadCommitted, |statement| {
        (0..3000).try_for_each(|id| insert(statement, table, id, id % 7).map(drop))
    })
    .unwrap();
    transact(&database, Isolation::ReadCommitted, |statement| {
        let key = |column| IndexColumn {
            column: ColumnId(column),
            direction: Direction::Descending,
            nulls: Nulls::First,
        };
        let (name, columns) = ("both".to_owned(), vec![key(1), key(0)]);
        statement.create_index(NewIndex { table, name, columns, kind: IndexKind::Plain })
    })
    .unwrap();
    let both = |database: &Database| {
        transact(database, Isolation::ReadCommitted, move |statement| {
            statement.lock_table(table, TableLockMode::AccessShare)?;
            let entry = statement.table(table)?;
            let (index, columns) = (&entry.indexes[2], [ColumnId(0), ColumnId(1)]);
            let range = KeyRange::prefix(KeyBytes::encode(index, &[Some(&bytes(3))]));
            let forward = ScanDirection::Forward;
            let mut cursor = statement.index_scan(&entry, index, range, forward, &columns);
            let (mut row, mut found) = (RowBuffer::new(), Vec::new());
            while cursor.next(statement, &mut row)?.is_some() {
                assert_eq!(number(&row, 1), 3);
                found.push(number(&row, 0));
            }
            assert!(found.is_sorted_by(|a, b| a > b), "descending: {found:?}");
            Ok((found.len(), cursor.fetched()))
        })
        .unwrap()
    };
    let collect = |database: &Database| {
        let collected =
            database.run(Target::Any, |context| Session::new(context.instance()).collect(context));
        collected.unwrap().unwrap();
    };
    let until = Instant::now() + Duration::from_secs(60);
    while both(&database).1 > 0 {
        assert!(Instant::now() < until, "the new index is not swept");
        collect(&database);
    }
    assert_eq!(both(&database), ((0..3000).filter(|id| id % 7 == 3).count(), 0));

    assert_eq!(seen_by_an_old_snapshot(&database, table), (0..3000).collect::<Vec<i64>>());
    let mut now: Vec<i64> = (0..3000).filter(|id| *id != 5).collect();
    now.push(9000);
    until_no_row_is_fetched(&database, table, &now);
    check(&database);
}

/// A transaction that began before a change goes on seeing what was; answers that.
fn seen_by_an_old_snapshot(database: &Database, table: Oid) -> Vec<i64> {
    let seen = database.run(Target::Any, |context| {
        let mut session = Session::new(context.instance());
        let isolation = Isolation::RepeatableRead;
        let mut old = session.begin(context, isolation, Access::ReadOnly).unwrap();
        let mut see = |session: &mut Session| {
            let mut statement = old.statement(session, context).unwrap();
            ids(&mut statement, table, ScanDirection::Forward)
        };
        let before = see(&mut session);
        let mut other = Session::new(context.instance());
        let mut changer =
            other.begin(context, Isolation::ReadCommitted, Access::ReadWrite).unwrap();
        let mut statement = changer.statement(&mut other, context).unwrap();
        insert(&mut statement, table, 9000, 0).unwrap();
        let (row, _) = find(&mut statement, table, 5).unwrap().unwrap();
        let entry = statement.table(table).unwrap();
        assert_eq!(statement.delete(&entry, row), Ok(WriteOutcome::Done));
        drop(statement);
        changer.commit(&mut other, context).unwrap();
        for _ in 0..20 {
            Session::new(context.instance()).collect(context).unwrap();
            assert_eq!(see(&mut session).0, before.0);
        }
        old.rollback(&mut session, context);
        before.0
    });
    seen.unwrap()
}

/// Cursors count their references to a table's trees on a word of their instance's own.
#[test]
fn a_cursor_leaves_the_count_that_all_instances_share_alone() {
    let database = Database::open_in_memory(options(2)).unwrap();
    let table = make_accounts(&database);
    transact(&database, Isolation::ReadCommitted, |it| insert(it, table, 1, 1).map(drop)).unwrap();
    transact(&database, Isolation::ReadCommitted, |statement| {
        statement.lock_table(table, TableLockMode::AccessShare)?;
        let entry = statement.table(table)?;
        let counts = || {
            let index = &entry.indexes[0];
            (Arc::strong_count(&entry.access), Arc::strong_count(&index.tree))
        };
        // The instance's own copy is made at the first use.
        drop(statement.scan(&entry, &[]));
        let before = counts();
        let mut rows = statement.scan(&entry, &[ColumnId(0)]);
        let (index, forward) = (&entry.indexes[0], ScanDirection::Forward);
        let mut keys =
            statement.index_scan(&entry, index, KeyRange::all(), forward, &[ColumnId(0)]);
        assert_eq!(counts(), before);
        let mut row = RowBuffer::new();
        assert!(rows.next(statement, &mut row)?.is_some());
        assert!(keys.next(statement, &mut row)?.is_some());
        Ok(())
    })
    .unwrap();
    // A table that only its own transaction knows has no such copy; its cursors work all the same.
    transact(&database, Isolation::ReadCommitted, |statement| {
        let name = "late".to_owned();
        let key = IndexColumn {
            column: ColumnId(1),
            direction: Direction::Ascending,
            nulls: Nulls::Last,
        };
        let new = NewIndex { table, name, columns: vec![key], kind: IndexKind::Plain };
        statement.create_index(new)?;
        let entry = statement.table(table)?;
        let (index, forward) = (&entry.indexes[2], ScanDirection::Forward);
        let mut keys =
            statement.index_scan(&entry, index, KeyRange::all(), forward, &[ColumnId(0)]);
        assert!(keys.next(statement, &mut RowBuffer::new())?.is_some());
        Ok(())
    })
    .unwrap();
    database.close().unwrap();
}
