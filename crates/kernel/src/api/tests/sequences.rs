//! Sequences through the front door: values are never undone and never come twice.

use super::*;
use std::collections::BTreeSet;

fn counting() -> Counting {
    Counting { increment: 1, min: 1, max: i64::MAX, cycle: Cycle::No }
}

fn new(name: &str, cache: u64) -> NewSequence {
    NewSequence {
        namespace: PUBLIC_NAMESPACE,
        name: name.to_owned(),
        type_oid: 20,
        start: 1,
        counting: counting(),
        cache,
        owner: None,
    }
}

fn make(database: &Database, cache: u64) -> Oid {
    transact(database, Isolation::ReadCommitted, |it| it.create_sequence(new("s", cache)))
        .expect("the name is free")
}

fn next(database: &Database, oid: Oid) -> i64 {
    transact(database, Isolation::ReadCommitted, |it| it.next_value(oid))
        .expect("there is room in the log")
        .expect("it is far from its end")
}

#[test]
fn values_outlive_rollbacks_and_restarts_do_not_repeat_them() {
    let directory = tempfile::tempdir().unwrap();
    let open = || Database::open(directory.path(), options(1)).unwrap();
    let database = open();
    let sequence = make(&database, 1);
    assert_eq!(next(&database, sequence), 1);
    let failed: Result<()> = transact(&database, Isolation::ReadCommitted, |it| {
        assert_eq!(it.next_value(sequence)?, Some(2));
        Err(Error::Cancelled)
    });
    assert_eq!(failed, Err(Error::Cancelled));
    assert_eq!(next(&database, sequence), 3);
    database.close().unwrap();
    drop(database);
    let database = open();
    let after = next(&database, sequence);
    assert!(after > 3 && after <= 40, "{after}");
    transact(&database, Isolation::ReadCommitted, |it| {
        it.set_sequence(sequence, SequenceState { last: 7, called: false })
    })
    .unwrap();
    assert_eq!(next(&database, sequence), 7);
    transact(&database, Isolation::ReadCommitted, |it| {
        it.set_sequence(sequence, SequenceState { last: 5, called: true })
    })
    .unwrap();
    database.close().unwrap();
    drop(database);
    let database = open();
    assert_eq!(next(&database, sequence), 6);
    transact(&database, Isolation::ReadCommitted, |it| it.drop_sequence(sequence)).unwrap();
    // Numbers of dropped values are not used again, although no object has them.
    database.close().unwrap();
    drop(database);
    let database = open();
    let sequence = make(&database, 1);
    database.close().unwrap();
    drop(database);
    assert_eq!(next(&open(), sequence), 1);
}

#[test]
fn instances_share_a_sequence_and_nobody_gets_a_value_twice() {
    for cache in [1, 10] {
        let database = Database::open_in_memory(options(2)).unwrap();
        let sequence = make(&database, cache);
        let threads: Vec<_> = (0..2)
            .map(|instance| {
                let database = database.clone();
                std::thread::spawn(move || {
                    let target = Target::Instance(InstanceId(instance));
                    let ran = database.run(target, move |context| {
                        let mut session = Session::new(context.instance());
                        let mut values = Vec::new();
                        for _ in 0..300 {
                            let mut transaction = session
                                .begin(context, Isolation::ReadCommitted, Access::ReadWrite)
                                .unwrap();
                            let mut it = transaction.statement(&mut session, context).unwrap();
                            values.push(it.next_value(sequence).unwrap().unwrap());
                            drop(it);
                            transaction.commit(&mut session, context).unwrap();
                            context.yield_now();
                        }
                        session.settle(context).unwrap();
                        values
                    });
                    ran.unwrap()
                })
            })
            .collect();
        let values: Vec<Vec<i64>> = threads.into_iter().map(|it| it.join().unwrap()).collect();
        let distinct: BTreeSet<i64> = values.iter().flatten().copied().collect();
        assert_eq!(distinct.len(), 600);
        assert!(*distinct.last().unwrap() < 600 + 20, "no gaps beyond what instances keep");
        assert!(values.iter().all(|own| own.is_sorted()));
    }
}

#[test]
fn definitions_roll_back_and_values_go_on() {
    let directory = tempfile::tempdir().unwrap();
    let database = Database::open(directory.path(), options(1)).unwrap();
    let sequence = make(&database, 1);
    assert_eq!(next(&database, sequence), 1);
    let failed: Result<()> = transact(&database, Isolation::ReadCommitted, |it| {
        let mut def = it.sequence(sequence)?.def.clone();
        def.counting.increment = 10;
        "t".clone_into(&mut def.name);
        it.alter_sequence(def, None)?;
        assert_eq!(it.next_value(sequence)?, Some(11));
        let restart = SequenceState { last: 500, called: false };
        it.alter_sequence(it.sequence(sequence)?.def.clone(), Some(restart))?;
        assert_eq!(it.next_value(sequence)?, Some(500));
        Err(Error::Cancelled)
    });
    assert_eq!(failed, Err(Error::Cancelled));
    assert_eq!(next(&database, sequence), 2);
    transact(&database, Isolation::ReadCommitted, |it| {
        let restart = SequenceState { last: 100, called: false };
        it.alter_sequence(it.sequence(sequence)?.def.clone(), Some(restart))
    })
    .unwrap();
    assert_eq!(next(&database, sequence), 100);
    let table = make_accounts(&database);
    transact(&database, Isolation::ReadCommitted, |it| {
        let owned = NewSequence { owner: Some((table, ColumnId(0))), ..new("owned", 1) };
        it.create_sequence(owned)?;
        it.create_sequence(new("accounts_pkey", 1)).unwrap_err();
        Ok(())
    })
    .unwrap();
    transact(&database, Isolation::ReadCommitted, |it| it.drop_table(table)).unwrap();
    let judge = |database: &Database| {
        let catalog = database.catalog();
        let names: Vec<String> = catalog.sequences().map(|it| it.def.name.clone()).collect();
        assert_eq!(names, ["s"]);
    };
    judge(&database);
    database.close().unwrap();
    drop(database);
    let database = Database::open(directory.path(), options(1)).unwrap();
    judge(&database);
    assert!(next(&database, sequence) > 100);
}
