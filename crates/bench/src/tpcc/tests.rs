//! Whole runs at a tiny size, and that the check finds a corrupted row for every condition.
#![allow(clippy::unwrap_used, reason = "tests")]

use atoll_kernel::api::{
    Access, ColumnId, Context, Instances, Isolation as KernelIsolation, KeyBytes, Options, Result,
    RowBuffer, Session, Statement, TableEntry, TableLockMode, Target, WriteOutcome,
};

use super::*;
use crate::native::{prepare, run};
use crate::setting::{Calls, Isolation, Place, Way};
use crate::sql::run_sql;
use crate::testing::{are_columns_of, open, place, run_tiny, setting};
use crate::tpcc::schema::{customer, district, history, new_order, order_line, orders, warehouse};
use crate::tpcc::stored::Stored;

fn tiny(warehouses: i32) -> Tpcc {
    Tpcc { warehouses, size: Size::TINY, mix: Mix::Standard, affinity: Affinity::Home }
}

#[test]
fn tables_are_what_their_sql_says() {
    let database = open(1);
    run_sql(&database, &tiny(1).definitions()).unwrap();
    let tables = Tables::find(&database.catalog()).unwrap();
    let all: [(&TableEntry, &[(&str, ColumnId)]); 9] = [
        (&tables.warehouse, warehouse::ALL),
        (&tables.district, district::ALL),
        (&tables.customer, customer::ALL),
        (&tables.history, history::ALL),
        (&tables.new_order, new_order::ALL),
        (&tables.orders, orders::ALL),
        (&tables.order_line, order_line::ALL),
        (&tables.item, schema::item::ALL),
        (&tables.stock, schema::stock::ALL),
    ];
    for (table, columns) in all {
        are_columns_of(table, columns);
    }
    database.close().unwrap();
}

#[test]
fn tiny_runs_keep_all_conditions() {
    for (warehouses, instances, isolation, affinity) in [
        (1, 1, Isolation::RepeatableRead, Affinity::Home),
        (3, 2, Isolation::RepeatableRead, Affinity::None),
        (2, 2, Isolation::ReadCommitted, Affinity::Home),
        (2, 2, Isolation::ReadCommitted, Affinity::None),
    ] {
        let place = Place { instances: Instances::Count(instances), ..place() };
        let workload = Tpcc { affinity, ..tiny(warehouses) };
        let report = run(&workload, &setting(isolation), &place, &mut |_| ()).unwrap();
        let counts = report.driven.counts;
        for (kind, latencies) in Kind::NAMES.iter().zip(&report.driven.by_kind) {
            assert!(latencies.count() > 0, "no {kind} was done");
        }
        assert_eq!(report.driven.latencies.count(), counts.transactions());
        let json = report.json();
        assert!(json["log_bytes_per_txn"]["payload"].as_f64().unwrap() > 100.0, "{json}");
        assert!(json["new_orders"].as_u64().unwrap() > 0, "{json}");
        assert_eq!(json["affinity"], affinity.name());
        assert!(report.to_string().contains("no think times"));
        assert!(report.to_string().contains("all twelve consistency conditions hold"));
    }
}

#[test]
fn what_was_loaded_is_in_a_checkpoint_when_a_run_begins() {
    for (checkpoint_interval_ms, made) in [(60_000, true), (0, false)] {
        let folder = tempfile::tempdir().unwrap();
        let data = Some(folder.path().to_owned());
        let place = Place { data, checkpoint_interval_ms, checkpoint_wal_bytes: 0, ..place() };
        let mut said = Vec::new();
        let mut say = |line: &str| said.push(line.to_owned());
        let report = run(&tiny(1), &setting(Isolation::RepeatableRead), &place, &mut say).unwrap();
        assert_eq!(report.json()["checkpoints"], 0, "none is made while it is measured");
        let at = |begin: &str| said.iter().position(|line| line.starts_with(begin));
        assert_eq!(at("making a checkpoint").is_some(), made, "{said:?}");
        assert!(at("making a checkpoint") < at("running for"), "{said:?}");
        let database = Database::open(folder.path(), Options::default()).unwrap();
        assert_eq!(database.recovery().pages > 0, made);
        database.close().unwrap();
    }
}

#[test]
fn tiny_runs_called_from_outside_keep_all_conditions() {
    for calls in [Calls::Outside(Way::Routed), Calls::Outside(Way::Anywhere)] {
        for isolation in [Isolation::RepeatableRead, Isolation::ReadCommitted] {
            let report = run_tiny(&tiny(3), &Setting { calls, ..setting(isolation) });
            for (kind, latencies) in Kind::NAMES.iter().zip(&report.driven.by_kind) {
                assert!(latencies.count() > 0, "no {kind} was done: {report}");
            }
            let (counts, json) = (report.driven.counts, report.json());
            assert_eq!(report.driven.latencies.count(), counts.transactions());
            assert_eq!(json["calls"], calls.name());
            assert_eq!(json["ran_elsewhere"].is_null(), calls == Calls::Outside(Way::Anywhere));
            let text = report.to_string();
            assert!(text.contains(&format!("calls {}", calls.name())), "{text}");
            assert!(text.contains("all twelve consistency conditions hold"), "{text}");
        }
    }
}

/// Without Deliveries, or with more of them than there are orders, the conditions are judged, too.
#[test]
fn partial_mixes_keep_all_conditions() {
    for (mix, expect) in [
        (Mix::Payment, &[Kind::Payment][..]),
        (Mix::NewOrder, &[Kind::NewOrder]),
        (Mix::NewOrderDelivery, &[Kind::NewOrder, Kind::Delivery]),
    ] {
        let workload = Tpcc { mix, ..tiny(2) };
        let report = run_tiny(&workload, &setting(Isolation::RepeatableRead));
        for kind in Kind::ALL {
            let count = report.driven.counts.done[kind as usize];
            assert_eq!(count > 0, expect.contains(&kind), "{mix:?}: {count} {kind:?}");
        }
        assert_eq!(report.json()["mix"], mix.name());
    }
}

/// A warehouse's terminals are on one instance, or on both.
#[test]
fn terminals_are_at_home_or_everywhere() {
    let places = |affinity, warehouse: u64| {
        let workload = Tpcc { affinity, ..tiny(4) };
        let own = (0..64).filter(|client| client % 4 == warehouse);
        let places: Vec<usize> = own.map(|client| Native::home(&workload, client, 2)).collect();
        places.iter().filter(|place| **place == 1).count()
    };
    for warehouse in 0..4 {
        let expected = if warehouse % 2 == 1 { 16 } else { 0 };
        assert_eq!(places(Affinity::Home, warehouse), expected);
        assert_eq!(places(Affinity::None, warehouse), 8);
    }
}

#[test]
fn tables_that_were_not_loaded_whole_are_refused() {
    let database = open(2);
    let first = prepare(&database, &tiny(2), 42, &mut |_| ()).unwrap();
    assert!(first.0.rows > 0);
    assert_eq!(prepare(&database, &tiny(2), 42, &mut |_| ()).unwrap().0.rows, 0);
    // As after an interrupted load: the third warehouse never came.
    let error = prepare(&database, &tiny(3), 42, &mut |_| ()).unwrap_err();
    assert!(error.contains("not whole") && error.contains("district (3, 1) is missing"), "{error}");
    database.close().unwrap();
}

/// What breaks a condition: a row by its primary key, and a column's new value.
enum Corruption {
    Int(ColumnId, i32),
    Cents(ColumnId, i64),
    Null(ColumnId),
    Time(ColumnId),
    Delete,
}

fn corrupt(
    context: &Context,
    table: &TableEntry,
    key: &[i32],
    corruption: &Corruption,
) -> Result<()> {
    let mut session = Session::new(context.instance());
    let mut transaction =
        session.begin(context, KernelIsolation::ReadCommitted, Access::ReadWrite)?;
    let mut statement = transaction.statement(&mut session, context)?;
    statement.lock_table(table.def.oid, TableLockMode::RowExclusive)?;
    let row = if table.indexes.is_empty() {
        let mut cursor = statement.scan(table, &[]);
        cursor.next(&mut statement, &mut RowBuffer::new())?.unwrap()
    } else {
        let key: Vec<[u8; 4]> = key.iter().map(|it| it.to_le_bytes()).collect();
        let key: Vec<Option<&[u8]>> = key.iter().map(|it| Some(&it[..])).collect();
        let key = KeyBytes::encode(&table.indexes[0], &key);
        let index = &table.indexes[0];
        statement.index_point(table, index, &key, &[], &mut RowBuffer::new())?.unwrap()
    };
    change(&mut statement, table, row, corruption)?;
    drop(statement);
    transaction.commit(&mut session, context)?;
    session.settle(context)
}

fn change(
    statement: &mut Statement<'_>,
    table: &TableEntry,
    row: atoll_kernel::api::RowId,
    corruption: &Corruption,
) -> Result<()> {
    let mut stored = Stored::default();
    let column = match *corruption {
        Corruption::Delete => {
            assert_eq!(statement.delete(table, row)?, WriteOutcome::Done);
            return Ok(());
        }
        Corruption::Int(column, value) => {
            stored.int(value);
            column
        }
        Corruption::Cents(column, value) => {
            stored.decimal(value, 2);
            column
        }
        Corruption::Null(column) => {
            stored.null();
            column
        }
        Corruption::Time(column) => {
            stored.time(now());
            column
        }
    };
    let outcome = stored.values(|values| statement.update(table, row, &[(column, values[0])]))?;
    assert_eq!(outcome, WriteOutcome::Done);
    Ok(())
}

#[test]
fn every_condition_finds_its_corrupted_row() {
    let workload = Tpcc { size: Size { items: 100, customers: 20 }, ..tiny(1) };
    // Orders 15 to 20 of each district are new; order 1 is delivered.
    let cases: [(u8, &str, &[i32], Corruption); 15] = [
        (1, "warehouse", &[1], Corruption::Cents(warehouse::W_YTD, 1)),
        (2, "district", &[1, 4], Corruption::Int(district::D_NEXT_O_ID, 20)),
        (2, "new_order", &[1, 4, 20], Corruption::Delete),
        (3, "new_order", &[1, 5, 17], Corruption::Delete),
        (4, "order_line", &[1, 6, 3, 1], Corruption::Delete),
        (5, "orders", &[1, 7, 2], Corruption::Null(orders::O_CARRIER_ID)),
        (5, "orders", &[1, 7, 16], Corruption::Int(orders::O_CARRIER_ID, 3)),
        (6, "orders", &[1, 8, 9], Corruption::Int(orders::O_OL_CNT, 4)),
        (7, "order_line", &[1, 9, 1, 2], Corruption::Null(order_line::OL_DELIVERY_D)),
        (7, "order_line", &[1, 9, 18, 2], Corruption::Time(order_line::OL_DELIVERY_D)),
        (8, "history", &[], Corruption::Cents(history::H_AMOUNT, 77)),
        (9, "district", &[1, 2], Corruption::Cents(district::D_YTD, 3)),
        (10, "customer", &[1, 3, 11], Corruption::Cents(customer::C_BALANCE, 5)),
        (11, "customer", &[1, 1, 7], Corruption::Int(customer::C_DELIVERY_CNT, 1)),
        (12, "customer", &[1, 2, 6], Corruption::Cents(customer::C_YTD_PAYMENT, 5)),
    ];
    for (condition, name, key, corruption) in cases {
        let database = open(1);
        prepare(&database, &workload, 42, &mut |_| ()).unwrap();
        let verdict = check(&database, workload.size, 1).unwrap();
        assert!(verdict.is_good(), "{:?}", verdict.breaches);
        let catalog = database.catalog();
        let table = catalog.table(atoll_kernel::api::PUBLIC_NAMESPACE, name).unwrap().clone();
        database
            .run(Target::Any, |context| corrupt(context, &table, key, &corruption))
            .unwrap()
            .unwrap();
        let verdict = check(&database, workload.size, 1).unwrap();
        let found = verdict.counts[usize::from(condition)];
        assert!(found > 0, "{name} {key:?}: {condition} found nothing: {:?}", verdict.breaches);
        assert!(judge(&verdict).is_err());
        database.close().unwrap();
    }
}
