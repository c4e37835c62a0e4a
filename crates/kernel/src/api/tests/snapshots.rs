//! What holds undo: snapshots of transactions that run, idle, or read a part at a time.
#![allow(clippy::unwrap_used, reason = "a failed test says so by panicking")]

use super::*;

/// Undo of ended transactions that the instance still has, after all that may go has gone.
fn kept(context: &Context, session: &Session) -> usize {
    session.collect(context).unwrap();
    context.instance().state().inner.txn.environment().versions.finished()
}

/// Changes account 1 ten times, each in a transaction of its own.
fn change(context: &Context, table: Oid) -> Session {
    let mut session = Session::new(context.instance());
    for _ in 0..10 {
        let mut transaction =
            session.begin(context, Isolation::ReadCommitted, Access::ReadWrite).unwrap();
        let mut statement = transaction.statement(&mut session, context).unwrap();
        add(&mut statement, table, 1, 1).unwrap();
        drop(statement);
        transaction.commit(&mut session, context).unwrap();
    }
    session.settle(context).unwrap();
    session
}

fn one_account() -> (Database, Oid) {
    let database = Database::open_in_memory(options(1)).unwrap();
    let table = make_accounts(&database);
    transact(&database, Isolation::ReadCommitted, |it| insert(it, table, 1, 0)).unwrap();
    (database, table)
}

#[test]
fn an_idle_transaction_holds_undo_back_only_if_it_reads_repeatably() {
    let (database, table) = one_account();
    for (isolation, held) in [(Isolation::ReadCommitted, 0), (Isolation::RepeatableRead, 10)] {
        let run = move |context: &Context| {
            let mut session = Session::new(context.instance());
            let mut idle = session.begin(context, isolation, Access::ReadWrite).unwrap();
            let mut statement = idle.statement(&mut session, context).unwrap();
            let before = find(&mut statement, table, 1).unwrap();
            drop(statement);
            idle.end_command();
            let other = change(context, table);
            assert_eq!(kept(context, &other), held, "{isolation:?}");
            let mut statement = idle.statement(&mut session, context).unwrap();
            let after = find(&mut statement, table, 1).unwrap();
            assert_eq!(after == before, isolation == Isolation::RepeatableRead);
            drop(statement);
            idle.commit(&mut session, context).unwrap();
            assert_eq!(kept(context, &other), 0);
        };
        database.run(Target::Any, run).unwrap();
    }
    database.close().unwrap();
}

#[test]
fn a_portal_holds_its_commands_snapshot_and_no_other() {
    let (database, table) = one_account();
    let run = move |context: &Context| {
        let mut session = Session::new(context.instance());
        let begun = session.begin(context, Isolation::ReadCommitted, Access::ReadWrite);
        let mut transaction = begun.unwrap();
        let mut statement = transaction.statement(&mut session, context).unwrap();
        let before = find(&mut statement, table, 1).unwrap();
        drop(statement);
        let mut portal = transaction.hold_snapshot().unwrap();
        let other = change(context, table);
        assert_eq!(kept(context, &other), 10);
        // Between two fetches another command has run.
        let mut statement = transaction.statement(&mut session, context).unwrap();
        assert_ne!(find(&mut statement, table, 1).unwrap(), before);
        drop(statement);
        transaction.end_command();
        for _ in 0..2 {
            transaction.exchange_snapshot(&mut portal).unwrap();
            let mut statement = transaction.resume(&mut session, context).unwrap();
            assert_eq!(find(&mut statement, table, 1).unwrap(), before);
            drop(statement);
            transaction.exchange_snapshot(&mut portal).unwrap();
            assert_eq!(kept(context, &other), 10, "a fetch does not end the portal");
        }
        drop(portal);
        assert_eq!(kept(context, &other), 0);
        // Going on without a portal takes what is there now, and holds nothing afterwards.
        let mut statement = transaction.resume(&mut session, context).unwrap();
        assert_ne!(find(&mut statement, table, 1).unwrap(), before);
        drop(statement);
        transaction.end_command();
        let other = change(context, table);
        assert_eq!(kept(context, &other), 0);
        transaction.rollback(&mut session);
    };
    database.run(Target::Any, run).unwrap();
    database.close().unwrap();
}
