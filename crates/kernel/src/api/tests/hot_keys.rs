//! Sixty-four transactions that want one row, or one key (rules 5.6 and 6.5): who wakes whom is
//! counted, not timed. Each that has it ends only when all who are still to come wait for it, so
//! waking all of them at each end would cost some two thousand wake-ups.

use std::sync::atomic::{AtomicUsize, Ordering};

use super::*;

const CROWD: usize = 64;

/// How who has got what it wanted ends.
#[derive(Clone, Copy, PartialEq, Eq)]
enum End {
    Commit,
    RollBack,
}

/// What came of a crowd.
#[derive(Debug)]
struct Counted {
    wakes: u64,
    got_it: usize,
    violated: usize,
}

fn wakes(database: &Database) -> u64 {
    database.metrics().unwrap().transactions.iter().map(|it| it.end_wakes).sum()
}

/// How many transactions wait for another.
fn waiting(context: &Context) -> usize {
    let open = context.instance().state().inner.shared.txn.describe();
    open.iter().filter(|line| line.contains("waits for Some")).count()
}

/// Everybody does `work` at once; who has come through it ends when all others that have not ended
/// wait.
fn crowd(
    database: &Database,
    end: End,
    work: impl Fn(&mut Statement<'_>) -> Result<()> + Sync,
) -> Counted {
    let before = wakes(database);
    let (ended, got_it, violated) =
        (AtomicUsize::new(0), AtomicUsize::new(0), AtomicUsize::new(0));
    let one = |context: &Context| {
        let mut session = Session::new(context.instance());
        let mut transaction =
            session.begin(context, Isolation::ReadCommitted, Access::ReadWrite).unwrap();
        let mut statement = transaction.statement(&mut session, context).unwrap();
        let result = work(&mut statement);
        drop(statement);
        match result {
            Ok(()) => {
                while waiting(context) + ended.load(Ordering::SeqCst) < CROWD - 1 {
                    context.yield_now();
                }
                got_it.fetch_add(1, Ordering::SeqCst);
                // Before the end: the next one counts on it.
                ended.fetch_add(1, Ordering::SeqCst);
                match end {
                    End::Commit => drop(transaction.commit(&mut session, context).unwrap()),
                    End::RollBack => transaction.rollback(&mut session),
                }
            }
            Err(error) => {
                assert!(matches!(error, Error::UniqueViolation { .. }), "{error:?}");
                violated.fetch_add(1, Ordering::SeqCst);
                ended.fetch_add(1, Ordering::SeqCst);
                transaction.rollback(&mut session);
            }
        }
    };
    std::thread::scope(|scope| {
        for number in 0..CROWD {
            let on = Target::Instance(InstanceId((number % 2) as u16));
            let one = &one;
            scope.spawn(move || database.run(on, one).unwrap());
        }
    });
    let counted = Counted {
        wakes: wakes(database) - before,
        got_it: got_it.into_inner(),
        violated: violated.into_inner(),
    };
    println!("{counted:?}");
    assert!(counted.wakes <= 2 * CROWD as u64, "{counted:?}");
    counted
}

/// What a statement of SQL does on conflict: changes the row that has the key, or inserts one.
fn upsert(statement: &mut Statement<'_>, table: Oid, id: i64) -> Result<()> {
    statement.lock_table(table, TableLockMode::RowExclusive)?;
    let entry = statement.table(table)?;
    let index = &entry.indexes[0];
    let key = KeyBytes::encode(index, &[Some(&bytes(id))]);
    let mut newest = RowBuffer::new();
    loop {
        let Some(row) = statement.unique_holder(&entry, index, &key)? else {
            match insert(statement, table, id, 1) {
                Err(Error::UniqueViolation { .. }) => continue,
                other => return other.map(drop),
            }
        };
        match statement.lock_row(&entry, row)? {
            WriteOutcome::Done => {}
            WriteOutcome::Changed => {
                if statement.unique_holder(&entry, index, &key)? != Some(row) {
                    continue;
                }
            }
            _ => continue,
        }
        statement.get_newest(&entry, row, &[ColumnId(1)], &mut newest)?;
        let balance = number(&newest, 0) + 1;
        let changes = [(ColumnId(1), Some(&bytes(balance)[..]))];
        assert_eq!(statement.update(&entry, row, &changes)?, WriteOutcome::Done);
        return Ok(());
    }
}

fn patient() -> Options {
    // No search for deadlocks helps a lost turn.
    Options { deadlock_timeout_ms: 600_000, ..options(2) }
}

fn opened() -> (Database, Oid) {
    let database = Database::open_in_memory(patient()).unwrap();
    let table = make_accounts(&database);
    transact(&database, Isolation::ReadCommitted, |it| insert(it, table, 1, 0)).unwrap();
    (database, table)
}

const ALL: i64 = CROWD as i64;

#[test]
fn a_hot_row_wakes_one_at_each_end() {
    let (database, table) = opened();
    let counted = crowd(&database, End::Commit, |it| add(it, table, 1, 1));
    assert_eq!((counted.got_it, counted.violated), (CROWD, 0));
    assert_eq!(all(&database, table), [(1, ALL)]);
}

#[test]
fn a_key_that_is_given_back_goes_to_one_at_each_end() {
    let (database, table) = opened();
    let counted = crowd(&database, End::RollBack, |it| insert(it, table, 2, 0).map(drop));
    assert_eq!((counted.got_it, counted.violated), (CROWD, 0));
    assert_eq!(all(&database, table), [(1, 0)]);
    check(&database);
}

#[test]
fn a_key_that_is_taken_for_good_fails_all_at_once() {
    let (database, table) = opened();
    let counted = crowd(&database, End::Commit, |it| insert(it, table, 2, 7).map(drop));
    assert_eq!((counted.got_it, counted.violated), (1, CROWD - 1));
    assert_eq!(all(&database, table), [(1, 0), (2, 7)]);
    check(&database);
}

#[test]
fn upserts_of_a_hot_row_wake_one_at_each_end() {
    let (database, table) = opened();
    let counted = crowd(&database, End::Commit, |it| upsert(it, table, 1));
    assert_eq!((counted.got_it, counted.violated), (CROWD, 0));
    assert_eq!(all(&database, table), [(1, ALL)]);
}

#[test]
fn upserts_of_a_new_key_wake_all_once_and_then_one_at_each_end() {
    let (database, table) = opened();
    let counted = crowd(&database, End::Commit, |it| upsert(it, table, 2));
    assert_eq!((counted.got_it, counted.violated), (CROWD, 0));
    assert_eq!(all(&database, table), [(1, 0), (2, ALL)]);
    check(&database);
}

#[test]
fn upserts_that_are_given_back_wake_one_at_each_end() {
    let (database, table) = opened();
    let counted = crowd(&database, End::RollBack, |it| upsert(it, table, 2));
    assert_eq!((counted.got_it, counted.violated), (CROWD, 0));
    assert_eq!(all(&database, table), [(1, 0)]);
    check(&database);
}
