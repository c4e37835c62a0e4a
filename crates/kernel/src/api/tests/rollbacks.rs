//! Rollbacks of many rows: everything is as it was, and others run meanwhile.

use std::cell::Cell;
use std::rc::Rc;

use super::larger::{balances, make_padded, put, raise, small};
use super::savepoints::new_table;
use super::*;
use crate::runtime::Class;

/// Enough that no slice of a task is long enough for it.
const MANY: i64 = 20_000;

/// What runs beside on the same instance: counts its turns.
struct Beside {
    turns: Rc<Cell<u64>>,
    ends: Rc<Cell<bool>>,
}

impl Beside {
    fn start(context: &Context) -> Beside {
        let beside = Beside { turns: Rc::default(), ends: Rc::default() };
        let (turns, ends) = (beside.turns.clone(), beside.ends.clone());
        context.instance().spawn(Class::Run, move |context| {
            while !ends.get() {
                turns.set(turns.get() + 1);
                context.yield_now();
            }
        });
        beside
    }

    /// How many turns it had while `work` was done.
    fn turns_during(&self, work: impl FnOnce()) -> u64 {
        let before = self.turns.get();
        work();
        self.turns.get() - before
    }
}

impl Drop for Beside {
    fn drop(&mut self) {
        self.ends.set(true);
    }
}

/// Runs `work` on the only instance, beside something that counts its turns.
fn beside(
    database: &Database,
    work: impl FnOnce(&Beside, &Context, &mut Session) -> Result<()> + Send,
) {
    let ran = database.run(Target::Instance(InstanceId(0)), move |context| {
        let beside = Beside::start(context);
        work(&beside, context, &mut Session::new(context.instance()))
    });
    ran.expect("the work does not panic").expect("nothing is in its way");
}

fn begin(context: &Context, session: &mut Session) -> Result<Transaction> {
    session.begin(context, Isolation::ReadCommitted, Access::ReadWrite)
}

fn fill(it: &mut Statement<'_>, table: Oid, ids: std::ops::Range<i64>) -> Result<()> {
    ids.into_iter().try_for_each(|id| insert(it, table, id, -id).map(drop))
}

#[test]
fn others_run_while_many_rows_go_back() {
    let database = Database::open_in_memory(options(1)).expect("memory is enough");
    let table = make_accounts(&database);
    transact(&database, Isolation::ReadCommitted, |it| fill(it, table, 0..MANY)).unwrap();
    let expected = all(&database, table);
    beside(&database, |beside, context, session| {
        let mut transaction = begin(context, session)?;
        let mut it = transaction.statement(session, context)?;
        (0..MANY).try_for_each(|id| add(&mut it, table, id, 1))?;
        fill(&mut it, table, MANY..2 * MANY)?;
        drop(it);
        let turns = beside.turns_during(|| transaction.rollback(session, context));
        assert!(turns >= 3, "{turns}");
        Ok(())
    });
    assert_eq!(all(&database, table), expected);
    check(&database);
}

#[test]
fn others_run_while_a_transaction_goes_that_was_left_behind() {
    let database = Database::open_in_memory(options(1)).expect("memory is enough");
    let table = make_accounts(&database);
    beside(&database, |beside, context, session| {
        let mut transaction = begin(context, session)?;
        let mut it = transaction.statement(session, context)?;
        fill(&mut it, table, 0..MANY)?;
        drop(it);
        let turns = beside.turns_during(|| drop(transaction));
        assert_eq!(turns, 0, "whoever leaves it does not wait");
        // The first row goes last, and is waited for.
        let mut second = begin(context, session)?;
        let mut it = second.statement(session, context)?;
        let mut inserted = Err(Error::Cancelled);
        let turns = beside.turns_during(|| inserted = insert(&mut it, table, 0, 7));
        inserted?;
        assert!(turns >= 3, "{turns}");
        drop(it);
        second.commit(session, context).map(drop)
    });
    assert_eq!(all(&database, table), [(0, 7)]);
    check(&database);
}

#[test]
fn others_run_while_pages_are_read_for_a_rollback() {
    const ROWS: i64 = 20_000;
    let directory = tempfile::tempdir().unwrap();
    let database = Database::open(directory.path(), small(1)).unwrap();
    let table = make_padded(&database);
    for from in (0..ROWS).step_by(500) {
        let fill = |it: &mut Statement<'_>| {
            (from..from + 500).try_for_each(|id| put(it, table, id).map(drop))
        };
        transact(&database, Isolation::ReadCommitted, fill).unwrap();
    }
    let loads = database.metrics().unwrap().traffic.loads;
    beside(&database, |beside, context, session| {
        let mut transaction = begin(context, session)?;
        let mut it = transaction.statement(session, context)?;
        (0..ROWS).step_by(7).try_for_each(|id| raise(&mut it, table, id))?;
        drop(it);
        let turns = beside.turns_during(|| transaction.rollback(session, context));
        assert!(turns >= 100, "{turns}");
        Ok(())
    });
    assert!(database.metrics().unwrap().traffic.loads > loads + 100, "pages had left");
    assert_eq!(balances(&database, table), vec![0; ROWS as usize]);
    check(&database);
}

#[test]
fn a_savepoint_takes_runs_changes_and_definitions_back() {
    let directory = tempfile::tempdir().unwrap();
    let database = Database::open(directory.path(), options(1)).unwrap();
    let table = make_accounts(&database);
    transact(&database, Isolation::ReadCommitted, |it| fill(it, table, 0..1000)).unwrap();
    beside(&database, |_, context, session| {
        let mut transaction = begin(context, session)?;
        let mut it = transaction.statement(session, context)?;
        // A run goes on behind the savepoint's mark only within a command.
        fill(&mut it, table, 1000..3000)?;
        drop(it);
        let savepoint = transaction.savepoint()?;
        for definitions in [false, true] {
            let mut it = transaction.statement(session, context)?;
            fill(&mut it, table, 3000..6000)?;
            (0..1000).try_for_each(|id| add(&mut it, table, id, 5))?;
            if definitions {
                let mut new = new_table("fresh");
                new.columns = vec![int8("id"), int8("balance")];
                let fresh = it.create_table(new)?;
                it.lock_table(fresh, TableLockMode::RowExclusive)?;
                let fresh = it.table(fresh)?;
                for id in 0..500 {
                    it.insert(&fresh, &[Some(&bytes(id)), Some(&bytes(id))])?;
                }
            }
            drop(it);
            let mut it = transaction.statement(session, context)?;
            (500..3000).try_for_each(|id| add(&mut it, table, id, 9))?;
            drop(it);
            transaction.roll_back_to(savepoint, context)?;
        }
        transaction.commit(session, context)?;
        session.settle(context)
    });
    let judge = |database: &Database| {
        let expected: Vec<_> = (0..3000).map(|id| (id, -id)).collect();
        assert_eq!(all(database, table), expected);
        check(database);
    };
    judge(&database);
    database.close().unwrap();
    drop(database);
    judge(&Database::open(directory.path(), options(1)).unwrap());
}
