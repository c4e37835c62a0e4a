//! Queues while checkpoints are made: rows that were taken out go when the checkpoint has passed
//! their table, and it has them all the same.

#![expect(clippy::unwrap_used, reason = "clippy sees helpers here as no tests under cfg(all)")]

use super::checkpoints::make_checkpoint;
use super::read_checkpoint::reading;
use super::*;
use crate::sync::{AtomicBool, AtomicU64, Ordering};
use crate::txn::TxnCounters;

/// Rows that wait in the queue: so many that it takes a while to copy them.
const WAITING: i64 = 10_000;
/// Rows of a table that is changed besides, and copied behind the queue.
const BALLAST: i64 = 100_000;
/// How many of them are changed whenever a row leaves the queue.
const CHANGES: i64 = 10;
const CHECKPOINTS_MAX: u32 = 400;

struct Tables {
    waiting: Oid,
    done: Oid,
    ballast: Oid,
}

fn first(statement: &mut Statement<'_>, table: Oid) -> Result<Option<(RowId, i64)>> {
    let entry = statement.table(table)?;
    let (range, columns) = (KeyRange::all(), [ColumnId(0)]);
    let index = &entry.indexes[0];
    let mut cursor = statement.index_scan(&entry, index, range, ScanDirection::Forward, &columns);
    let mut row = RowBuffer::new();
    let found = cursor.next(statement, &mut row)?;
    Ok(found.map(|at| (at, number(&row, 0))))
}

/// Takes the first row out of the queue and writes down that it is done; another one comes.
fn take(statement: &mut Statement<'_>, tables: &Tables, new: i64) -> Result<()> {
    statement.lock_table(tables.waiting, TableLockMode::RowExclusive)?;
    let (row, id) = first(statement, tables.waiting)?.expect("somebody waits");
    let entry = statement.table(tables.waiting)?;
    assert_eq!(statement.delete(&entry, row)?, WriteOutcome::Done);
    insert(statement, tables.done, id, id % 7)?;
    insert(statement, tables.waiting, new, new % 5)?;
    // Each once, all over the table.
    let from = fastrand::i64(0..BALLAST / CHANGES);
    (0..CHANGES)
        .try_for_each(|at| add(statement, tables.ballast, from + at * (BALLAST / CHANGES), 1))
}

/// All ids of a table, as its rows say, and as each of its indexes does.
fn ids(statement: &mut Statement<'_>, table: Oid) -> Result<Vec<i64>> {
    statement.lock_table(table, TableLockMode::AccessShare)?;
    let entry = statement.table(table)?;
    let (mut row, mut rows) = (RowBuffer::new(), Vec::new());
    let mut cursor = statement.scan(&entry, &[ColumnId(0)]);
    while cursor.next(statement, &mut row)?.is_some() {
        rows.push(number(&row, 0));
    }
    rows.sort_unstable();
    for index in &entry.indexes {
        let (range, columns) = (KeyRange::all(), [ColumnId(0), ColumnId(1)]);
        let forward = ScanDirection::Forward;
        let mut cursor = statement.index_scan(&entry, index, range, forward, &columns);
        let mut by_index = Vec::new();
        while cursor.next(statement, &mut row)?.is_some() {
            by_index.push(number(&row, 0));
        }
        by_index.sort_unstable();
        assert_eq!(by_index, rows, "by index {}", index.def.name);
    }
    Ok(rows)
}

/// Whoever came is waiting or done, and nobody is both; answers how many came.
fn judge(statement: &mut Statement<'_>, tables: &Tables) -> Result<i64> {
    let mut all = ids(statement, tables.done)?;
    let done = all.len();
    all.extend(ids(statement, tables.waiting)?);
    assert_eq!(all.len() - done, WAITING as usize);
    let (is, should): (Vec<_>, Vec<_>) = (all, (0..done as i64 + WAITING).collect());
    assert!(is == should, "{} of {} are there", is.len(), should.len());
    Ok(is.len() as i64)
}

/// One of the counters of transactions, over all instances.
pub(super) fn counted(database: &Database, of: fn(&TxnCounters) -> u64) -> u64 {
    database.metrics().unwrap().transactions.iter().map(of).sum()
}

fn rows_reaped(database: &Database) -> u64 {
    counted(database, |counters| counters.rows_reaped)
}

fn make_tables(database: &Database) -> Tables {
    let [waiting, done, ballast] =
        ["waiting", "done", "ballast"].map(|name| make_table(database, name));
    for from in (0..BALLAST).step_by(1000) {
        transact(database, Isolation::ReadCommitted, |statement| {
            (from..from + 1000).try_for_each(|id| insert(statement, ballast, id, 0).map(drop))
        })
        .unwrap();
    }
    transact(database, Isolation::ReadCommitted, |statement| {
        (0..WAITING).try_for_each(|id| insert(statement, waiting, id, id % 5).map(drop))
    })
    .unwrap();
    Tables { waiting, done, ballast }
}

/// Sets it when it is dropped.
pub(super) struct Ends<'a>(pub &'a AtomicBool);

impl Drop for Ends<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

#[test]
fn a_queue_is_let_go_of_while_a_checkpoint_is_made_which_has_it() {
    let directory = tempfile::tempdir().unwrap();
    let open = || Database::open(directory.path(), options(2)).unwrap();
    let database = open();
    let tables = make_tables(&database);
    let (ends, next) = (AtomicBool::new(false), AtomicU64::new(WAITING as u64));
    std::thread::scope(|scope| {
        let running = Ends(&ends);
        let worker = scope.spawn(|| {
            while !ends.load(Ordering::Relaxed) {
                let new = next.load(Ordering::Relaxed);
                let work = |it: &mut Statement<'_>| take(it, &tables, new as i64);
                transact(&database, Isolation::ReadCommitted, work).unwrap();
                next.store(new + 1, Ordering::Relaxed);
            }
        });
        let mut last = 0;
        // How far the worker comes meanwhile depends on what else runs on the machine.
        for turn in 0.. {
            make_checkpoint(&database);
            let pin = database.pin_checkpoint(WhichCheckpoint::Newest).unwrap();
            let now = reading(&database, &pin, |statement| judge(statement, &tables)).unwrap();
            assert!(now >= last, "{last} had come, then {now}");
            last = now;
            if turn >= 20 && rows_reaped(&database) > 50 {
                break;
            }
            assert!(turn < CHECKPOINTS_MAX, "no row went before its checkpoint ended");
        }
        drop(running);
        worker.join().unwrap();
    });
    check(&database);
    database.close().unwrap();
    drop(database);
    let database = open();
    let came = transact(&database, Isolation::RepeatableRead, |it| judge(it, &tables));
    assert_eq!(came, Ok(next.load(Ordering::Relaxed) as i64));
    check(&database);
    database.close().unwrap();
}

/// What was taken from the head has entries until collection takes them: whoever wants the next one passes
/// them, and looks at few rows behind it.
#[test]
fn who_wants_the_first_row_looks_at_few_others() {
    let database = Database::open_in_memory(options(1)).unwrap();
    let table = make_accounts(&database);
    let fill = |statement: &mut Statement<'_>| {
        (0..200).try_for_each(|id| insert(statement, table, id, id).map(drop))
    };
    transact(&database, Isolation::ReadCommitted, fill).unwrap();
    let run = move |context: &Context| {
        let mut session = Session::new(context.instance());
        let begun = session.begin(context, Isolation::RepeatableRead, Access::ReadWrite);
        let mut transaction = begun.unwrap();
        for taken in 0..120 {
            let mut statement = transaction.statement(&mut session, context).unwrap();
            statement.lock_table(table, TableLockMode::RowExclusive).unwrap();
            let entry = statement.table(table).unwrap();
            let (all, columns) = (KeyRange::all(), [ColumnId(0), ColumnId(1)]);
            let forward = ScanDirection::Forward;
            let mut cursor =
                statement.index_scan(&entry, &entry.indexes[0], all, forward, &columns);
            let mut row = RowBuffer::new();
            let (first, _) = cursor.next_view(&mut statement, &mut row).unwrap().unwrap();
            let most = 3 * taken + 1;
            assert!(cursor.fetched() <= most, "{} of {taken} and the first", cursor.fetched());
            let mut ids = Vec::new();
            while cursor.next(&mut statement, &mut row).unwrap().is_some() {
                ids.push(number(&row, 0));
            }
            assert_eq!(ids, (taken as i64 + 1..200).collect::<Vec<_>>());
            assert_eq!(statement.delete(&entry, first).unwrap(), WriteOutcome::Done);
            drop((cursor, statement));
            transaction.end_command();
        }
        transaction.commit(&mut session, context).unwrap();
    };
    database.run(Target::Any, run).unwrap();
    database.close().unwrap();
}
