//! What checkpoints have of leaves that change while they are made.

use super::checkpoints::make_checkpoint;
use super::read_checkpoint::reading;
use super::*;
use crate::sync::{AtomicBool, Ordering};

const ROWS: i64 = 4000;

fn make_pairs(database: &Database) -> Oid {
    let pad = |name| ColumnDef::plain(name, ColumnType::Bytes);
    let made = transact(database, Isolation::ReadCommitted, |statement| {
        statement.create_table(NewTable {
            namespace: PUBLIC_NAMESPACE,
            name: "pairs".to_owned(),
            columns: vec![int8("turns"), pad("left"), pad("right")],
            options: Vec::new(),
        })
    });
    made.expect("an empty database has room for a table")
}

/// Two columns that have 400 bytes together, most of them left or right, as the turns say.
fn pads(turns: i64) -> [Vec<u8>; 2] {
    let left = if turns % 2 == 0 { 20 } else { 380 };
    [vec![turns as u8; left], vec![turns as u8; 400 - left]]
}

fn put(statement: &mut Statement<'_>, table: Oid) -> Result<RowId> {
    statement.lock_table(table, TableLockMode::RowExclusive)?;
    let table = statement.table(table)?;
    let [left, right] = pads(0);
    statement.insert(&table, &[Some(&bytes(0)), Some(&left), Some(&right)])
}

fn turn(statement: &mut Statement<'_>, table: Oid, row: RowId, turns: i64) -> Result<()> {
    statement.lock_table(table, TableLockMode::RowExclusive)?;
    let table = statement.table(table)?;
    let (number, [left, right]) = (bytes(turns), pads(turns));
    let changes: [(ColumnId, Option<&[u8]>); 3] =
        [(ColumnId(0), Some(&number)), (ColumnId(1), Some(&left)), (ColumnId(2), Some(&right))];
    assert_eq!(statement.update(&table, row, &changes)?, WriteOutcome::Done);
    Ok(())
}

/// Every row is whole; answers how many turns there were.
fn judge(statement: &mut Statement<'_>, table: Oid) -> Result<i64> {
    statement.lock_table(table, TableLockMode::AccessShare)?;
    let table = statement.table(table)?;
    let mut cursor = statement.scan(&table, &[ColumnId(0), ColumnId(1), ColumnId(2)]);
    let (mut row, mut rows, mut all) = (RowBuffer::new(), 0, 0);
    while cursor.next(statement, &mut row)?.is_some() {
        let [left, right] = pads(number(&row, 0));
        assert_eq!((row.column(1), row.column(2)), (Some(&*left), Some(&*right)));
        (rows, all) = (rows + 1, all + number(&row, 0));
    }
    assert_eq!(rows, ROWS);
    Ok(all)
}

/// Sets it when it is dropped.
struct Ends<'a>(&'a AtomicBool);

impl Drop for Ends<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// In a full leaf, columns exchange their sizes: the older ones fit again, in whatever order they
/// are put back.
#[test]
fn columns_that_exchange_sizes_while_a_checkpoint_is_made() {
    let directory = tempfile::tempdir().unwrap();
    let open = || Database::open(directory.path(), options(2)).unwrap();
    let database = open();
    let table = make_pairs(&database);
    let mut rows = Vec::new();
    while (rows.len() as i64) < ROWS {
        rows.extend(
            transact(&database, Isolation::ReadCommitted, |statement| {
                (0..500).map(|_| put(statement, table)).collect::<Result<Vec<_>>>()
            })
            .unwrap(),
        );
    }
    let (ends, halves) = (AtomicBool::new(false), rows.chunks(rows.len() / 2));
    let mut made = 0;
    std::thread::scope(|scope| {
        let turning = halves.enumerate().map(|(at, rows)| {
            let (database, ends) = (&database, &ends);
            let mut random = fastrand::Rng::with_seed(at as u64);
            scope.spawn(move || {
                let (mut turns, mut all) = (vec![0; rows.len()], 0);
                while !ends.load(Ordering::Relaxed) {
                    let at = random.usize(..rows.len());
                    (turns[at], all) = (turns[at] + 1, all + 1);
                    let turn = |it: &mut Statement<'_>| turn(it, table, rows[at], turns[at]);
                    transact(database, Isolation::ReadCommitted, turn).unwrap();
                }
                all
            })
        });
        let turning: Vec<_> = turning.collect();
        // However this ends: the others would go on for ever.
        let running = Ends(&ends);
        let (mut last, mut checkpoints) = (0, 0);
        // How often others have their turn meanwhile depends on what else runs on the machine.
        while checkpoints < 20 || last == 0 {
            make_checkpoint(&database);
            checkpoints += 1;
            let pin = database.pin_checkpoint(WhichCheckpoint::Newest).unwrap();
            let now = reading(&database, &pin, |statement| judge(statement, table)).unwrap();
            assert!(now >= last, "{last} turns, then {now}");
            last = now;
        }
        drop(running);
        made = turning.into_iter().map(|thread| thread.join().unwrap()).sum();
    });
    database.close().unwrap();
    drop(database);
    let database = open();
    let found = transact(&database, Isolation::RepeatableRead, |it| judge(it, table));
    assert_eq!(found, Ok(made));
    database.close().unwrap();
}
