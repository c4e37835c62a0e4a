//! Sixty-four transactions that want one row, or one key (rules 5.6 and 6.5): who wakes whom is
//! counted, not timed. Each that has it ends only when all who are still to come sleep, so waking
//! all of them at each end would cost some two thousand wake-ups.

use super::*;
use crate::sync::{AtomicUsize, Ordering};

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
    database
        .metrics()
        .expect("nothing is in the way")
        .transactions
        .iter()
        .map(|it| it.end_wakes)
        .sum()
}

/// How many transactions wait for another.
fn waiting(context: &Context) -> usize {
    let open = context.instance().state().inner.shared.txn.describe();
    open.iter().filter(|line| line.contains("waits for Some")).count()
}

/// Until so many wait for another and sleep: who was woken has looked, and waits again. The one
/// instance runs who was woken before who yields.
fn until_all_wait(context: &Context, others: usize) {
    let waits = || context.instance().state().inner.txn.counters().end_waits;
    let (mut quiet, mut seen) = (0, waits());
    while waiting(context) < others || quiet < 8 {
        context.yield_now();
        quiet = if waits() == seen { quiet + 1 } else { 0 };
        seen = waits();
    }
}

/// Everybody does `work` at once; who has come through it ends when all others that have not ended
/// wait.
fn crowd(
    database: &Database,
    end: End,
    work: impl Fn(&mut Statement<'_>) -> Result<()> + Sync,
) -> Counted {
    let before = wakes(database);
    let (ended, got_it, violated) = (AtomicUsize::new(0), AtomicUsize::new(0), AtomicUsize::new(0));
    let one = |context: &Context| {
        let mut session = Session::new(context.instance());
        let mut transaction = session
            .begin(context, Isolation::ReadCommitted, Access::ReadWrite)
            .expect("nothing is in the way");
        let mut statement =
            transaction.statement(&mut session, context).expect("nothing is in the way");
        let result = work(&mut statement);
        drop(statement);
        match result {
            Ok(()) => {
                until_all_wait(context, CROWD - 1 - ended.load(Ordering::SeqCst));
                got_it.fetch_add(1, Ordering::SeqCst);
                // Before the end: the next one counts on it.
                ended.fetch_add(1, Ordering::SeqCst);
                match end {
                    End::Commit => drop(
                        transaction.commit(&mut session, context).expect("nothing is in the way"),
                    ),
                    End::RollBack => transaction.rollback(&mut session, context),
                }
            }
            Err(error) => {
                assert!(matches!(error, Error::UniqueViolation { .. }), "{error:?}");
                violated.fetch_add(1, Ordering::SeqCst);
                ended.fetch_add(1, Ordering::SeqCst);
                transaction.rollback(&mut session, context);
            }
        }
    };
    std::thread::scope(|scope| {
        for _ in 0..CROWD {
            let one = &one;
            scope.spawn(move || database.run(Target::Any, one).expect("nothing is in the way"));
        }
    });
    let counted = Counted {
        wakes: wakes(database) - before,
        got_it: got_it.load(Ordering::SeqCst),
        violated: violated.load(Ordering::SeqCst),
    };
    println!("{counted:?}");
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
    Options { deadlock_timeout_ms: 600_000, ..options(1) }
}

fn opened() -> (Database, Oid) {
    let database = Database::open_in_memory(patient()).expect("nothing is in the way");
    let table = make_accounts(&database);
    transact(&database, Isolation::ReadCommitted, |it| insert(it, table, 1, 0))
        .expect("nothing is in the way");
    (database, table)
}

const ALL: i64 = CROWD as i64;
/// Who waits, once each.
const OTHERS: u64 = CROWD as u64 - 1;

#[test]
fn a_hot_row_wakes_one_at_each_end() {
    let (database, table) = opened();
    let counted = crowd(&database, End::Commit, |it| add(it, table, 1, 1));
    assert!(counted.wakes <= OTHERS, "{counted:?}");
    assert_eq!((counted.got_it, counted.violated), (CROWD, 0));
    assert_eq!(all(&database, table), [(1, ALL)]);
}

#[test]
fn a_key_that_is_given_back_goes_to_one_at_each_end() {
    let (database, table) = opened();
    let counted = crowd(&database, End::RollBack, |it| insert(it, table, 2, 0).map(drop));
    assert!(counted.wakes <= OTHERS, "{counted:?}");
    assert_eq!((counted.got_it, counted.violated), (CROWD, 0));
    assert_eq!(all(&database, table), [(1, 0)]);
    check(&database);
}

#[test]
fn a_key_that_is_taken_for_good_fails_all_at_once() {
    let (database, table) = opened();
    let counted = crowd(&database, End::Commit, |it| insert(it, table, 2, 7).map(drop));
    assert!(counted.wakes <= OTHERS, "{counted:?}");
    assert_eq!((counted.got_it, counted.violated), (1, CROWD - 1));
    assert_eq!(all(&database, table), [(1, 0), (2, 7)]);
    check(&database);
}

#[test]
fn upserts_of_a_hot_row_wake_one_at_each_end() {
    let (database, table) = opened();
    let counted = crowd(&database, End::Commit, |it| upsert(it, table, 1));
    assert!(counted.wakes <= OTHERS, "{counted:?}");
    assert_eq!((counted.got_it, counted.violated), (CROWD, 0));
    assert_eq!(all(&database, table), [(1, ALL)]);
}

#[test]
fn upserts_of_a_new_key_wake_all_once_and_then_one_at_each_end() {
    let (database, table) = opened();
    let counted = crowd(&database, End::Commit, |it| upsert(it, table, 2));
    assert!(counted.wakes <= 2 * OTHERS, "{counted:?}");
    assert_eq!((counted.got_it, counted.violated), (CROWD, 0));
    assert_eq!(all(&database, table), [(1, 0), (2, ALL)]);
    check(&database);
}

#[test]
fn upserts_that_are_given_back_wake_one_at_each_end() {
    let (database, table) = opened();
    let counted = crowd(&database, End::RollBack, |it| upsert(it, table, 2));
    assert!(counted.wakes <= OTHERS, "{counted:?}");
    assert_eq!((counted.got_it, counted.violated), (CROWD, 0));
    assert_eq!(all(&database, table), [(1, 0)]);
    check(&database);
}

/// Runs `body` as a task of its own, in a transaction; answers what `body` said.
fn in_transaction<T: Send>(
    database: &Database,
    body: impl FnOnce(&Context, &mut Session, &mut Transaction) -> T + Send,
) -> T {
    let ran = database.run(Target::Any, move |context| {
        let mut session = Session::new(context.instance());
        let mut transaction = session
            .begin(context, Isolation::ReadCommitted, Access::ReadWrite)
            .expect("nothing is in the way");
        let said = body(context, &mut session, &mut transaction);
        transaction.commit(&mut session, context).expect("nothing is in the way");
        said
    });
    ran.expect("nothing is in the way")
}

fn delete(statement: &mut Statement<'_>, table: Oid, id: i64) {
    let (row, _) = find(statement, table, id).expect("nothing is in the way").expect("it is there");
    statement.lock_table(table, TableLockMode::RowExclusive).expect("nothing is in the way");
    let entry = statement.table(table).expect("nothing is in the way");
    assert_eq!(statement.delete(&entry, row).expect("nothing is in the way"), WriteOutcome::Done);
}

/// Three wait for a key whose row was deleted; who deleted it takes the key again itself: it waits
/// for nobody that waits for it.
#[test]
fn who_gave_a_key_up_may_have_it_back_though_others_wait_for_it() {
    // A deadlock that should not be is to be found.
    let database = Database::open_in_memory(options(1)).unwrap();
    let table = make_accounts(&database);
    transact(&database, Isolation::ReadCommitted, |it| insert(it, table, 1, 0)).unwrap();
    std::thread::scope(|scope| {
        in_transaction(&database, |context, session, transaction| {
            let mut statement = transaction.statement(session, context).unwrap();
            delete(&mut statement, table, 1);
            drop(statement);
            for _ in 0..3 {
                let database = &database;
                scope.spawn(move || {
                    let failed = transact(database, Isolation::ReadCommitted, |it| {
                        insert(it, table, 1, 5).map(drop)
                    });
                    assert!(matches!(failed, Err(Error::UniqueViolation { .. })), "{failed:?}");
                });
            }
            until_all_wait(context, 3);
            let mut statement = transaction.statement(session, context).unwrap();
            insert(&mut statement, table, 1, 9).unwrap();
            drop(statement);
            let mut statement = transaction.statement(session, context).unwrap();
            delete(&mut statement, table, 1);
            drop(statement);
            let mut statement = transaction.statement(session, context).unwrap();
            insert_rows(&mut statement, table, &[7, 1, 8]);
        });
    });
    assert_eq!(all(&database, table), [(1, 0), (7, 0), (8, 0)]);
    check(&database);
}

fn insert_rows(statement: &mut Statement<'_>, table: Oid, ids: &[i64]) {
    let entry = statement.table(table).expect("nothing is in the way");
    let bytes: Vec<[u8; 8]> = ids.iter().flat_map(|id| [bytes(*id), bytes(0)]).collect();
    let values: Vec<Option<&[u8]>> = bytes.iter().map(|it| Some(&it[..])).collect();
    let rows = (RowValues::new(&values, ids.len()), Frozen::No);
    statement.insert_rows(&entry, rows, &mut Vec::new()).expect("nothing is in the way");
}

/// Three wait for a key; the head, the middle one or the last is cancelled. The others get it,
/// in order of arrival, and a newcomer comes last although the key was free when it came.
#[test]
fn who_gives_up_waiting_for_a_key_leaves_it_to_the_others() {
    for gives_up in 0..3 {
        let (database, table) = opened();
        let order = std::sync::Mutex::new(Vec::new());
        let interrupts = std::sync::Mutex::new(Vec::new());
        let one = |number: usize, context: &Context| {
            let mut session = Session::new(context.instance());
            interrupts.lock().unwrap().push(Arc::clone(session.interrupt()));
            let mut transaction =
                session.begin(context, Isolation::ReadCommitted, Access::ReadWrite).unwrap();
            let mut statement = transaction.statement(&mut session, context).unwrap();
            match insert(&mut statement, table, 2, 0) {
                Ok(_) => order.lock().unwrap().push(number),
                Err(error) => assert_eq!((error, number), (Error::Cancelled, gives_up)),
            }
            drop(statement);
            transaction.rollback(&mut session, context);
        };
        std::thread::scope(|scope| {
            in_transaction(&database, |context, session, transaction| {
                let savepoint = transaction.savepoint().unwrap();
                let mut statement = transaction.statement(session, context).unwrap();
                insert(&mut statement, table, 2, 0).unwrap();
                drop(statement);
                for number in 0..3 {
                    let (database, one) = (&database, &one);
                    scope.spawn(move || {
                        database.run(Target::Any, |context| one(number, context)).unwrap()
                    });
                    until_all_wait(context, number + 1);
                }
                interrupts.lock().unwrap()[gives_up].interrupt(crate::txn::Reason::Cancel);
                while waiting(context) > 2 {
                    context.yield_now();
                }
                // The transaction goes on; the key is free, and three want it.
                transaction.roll_back_to(savepoint, context).unwrap();
                let mut statement = transaction.statement(session, context).unwrap();
                insert(&mut statement, table, 2, 4).unwrap();
                order.lock().unwrap().push(3);
            });
        });
        let mut expected: Vec<usize> = (0..3).filter(|it| *it != gives_up).collect();
        expected.push(3);
        assert_eq!(*order.lock().unwrap(), expected);
        assert_eq!(all(&database, table), [(1, 0), (2, 4)]);
        check(&database);
    }
}

/// Whether a key is there does not depend on a transaction that changes other columns of its row:
/// nobody waits for it, and who wants the row itself stands at the row.
#[test]
fn a_row_that_only_happens_to_be_in_flight_is_no_reason_to_wait_for_its_key() {
    let (database, table) = opened();
    in_transaction(&database, |context, session, transaction| {
        let mut statement = transaction.statement(session, context).unwrap();
        add(&mut statement, table, 1, 1).unwrap();
        drop(statement);
        let mut other = Session::new(context.instance());
        // Should it wait all the same, it is not to hang.
        other.deadline_ns = Some(context.now_ns() + 2_000_000_000);
        let mut second = other.begin(context, Isolation::ReadCommitted, Access::ReadWrite).unwrap();
        let mut statement = second.statement(&mut other, context).unwrap();
        let failed = insert(&mut statement, table, 1, 5);
        assert!(matches!(failed, Err(Error::UniqueViolation { .. })), "{failed:?}");
        drop(statement);
        second.rollback(&mut other, context);
    });
    assert_eq!(all(&database, table), [(1, 1)]);
}

/// Clients on two instances add to few keys, take them away and roll back: what committed adds up.
#[test]
fn upserts_and_deletes_of_few_keys_add_up() {
    let database = Database::open_in_memory(options(2)).unwrap();
    let table = make_accounts(&database);
    let client = |number: u64, context: &Context| {
        let mut random = fastrand::Rng::with_seed(number);
        let mut session = Session::new(context.instance());
        let mut added = 0;
        for _ in 0..150 {
            let (id, ends) = (random.i64(0..3), random.u8(..4));
            let mut transaction =
                session.begin(context, Isolation::ReadCommitted, Access::ReadWrite).unwrap();
            let mut statement = transaction.statement(&mut session, context).unwrap();
            upsert(&mut statement, table, id).unwrap();
            drop(statement);
            if random.bool() {
                context.yield_now();
            }
            let mut change = 1;
            if ends < 2 {
                let mut statement = transaction.statement(&mut session, context).unwrap();
                change -= find(&mut statement, table, id).unwrap().expect("the own row").1;
                delete(&mut statement, table, id);
            }
            if ends == 0 {
                transaction.rollback(&mut session, context);
            } else {
                transaction.commit(&mut session, context).unwrap();
                added += change;
            }
        }
        added
    };
    let added: i64 = std::thread::scope(|scope| {
        let (database, client) = (&database, &client);
        let start = |number: u64| {
            let on = Target::Instance(InstanceId((number % 2) as u16));
            scope.spawn(move || database.run(on, |context| client(number, context)).unwrap())
        };
        let clients: Vec<_> = (0..8).map(start).collect();
        clients.into_iter().map(|client| client.join().unwrap()).sum()
    });
    let sum: i64 = all(&database, table).iter().map(|(_, balance)| balance).sum();
    assert_eq!(sum, added);
    check(&database);
}
