//! Whole runs at a tiny size, and that the check finds what does not agree.
#![allow(clippy::unwrap_used, reason = "tests")]

use super::*;
use crate::native::{Native, prepare};
use crate::setting::{Isolation, Setting};
use crate::sql::run_sql;
use crate::testing::{are_columns_of, open, run_tiny, setting};

const HOT: Choice = Choice::Hotspot { keys: 0.1, operations: 0.9 };

#[test]
fn tiny_runs_pay_every_merchant() {
    for (isolation, batch) in [(Isolation::RepeatableRead, 1), (Isolation::ReadCommitted, 10)] {
        let setting = Setting { warmup_seconds: 1, ..setting(isolation) };
        let orders = Orders::new(10, HOT, batch).unwrap();
        let report = run_tiny(&orders, &setting);
        let (json, done) = (report.json(), report.driven.counts.transactions());
        assert!(done > 0, "{report}");
        // Those of the warm-up are there, too.
        assert!(report.checked.0.rows > 10 + done * u64::from(batch), "{report}");
        let bytes = json["log_bytes_per_txn"]["payload"].as_f64().unwrap();
        assert!(bytes > (2000 * batch).into(), "{json}");
        let (rows, tps) = (json["rows_per_second"].as_f64(), json["tps"].as_f64());
        assert!((rows.unwrap() / tps.unwrap() - f64::from(batch)).abs() < 0.01, "{json}");
    }
}

#[test]
fn most_orders_are_the_hot_merchants() {
    let orders = Orders::new(10, HOT, 3).unwrap();
    let (mut random, mut hot) = (Random::new(1), 0);
    for number in 0..10_000 {
        let batch = orders.draw(&mut random);
        let numbers: Vec<i64> = batch.orders.iter().map(|(number, _)| *number).collect();
        assert_eq!(numbers, [number * 3, number * 3 + 1, number * 3 + 2]);
        assert_eq!(batch.text.len(), TEXT_BYTES);
        hot += u32::from(batch.merchant == 0);
    }
    assert!(hot.abs_diff(9000) < 200, "{hot}");
}

#[test]
fn columns_are_what_their_sql_says() {
    let database = open(2);
    run_sql(&database, &Orders::new(1, HOT, 1).unwrap().definitions()).unwrap();
    let tables = Orders::tables(&database.catalog()).unwrap();
    for (table, columns) in [
        (&tables.merchant, native::merchant::ALL),
        (&tables.merchant_order, native::merchant_order::ALL),
    ] {
        are_columns_of(table, columns);
    }
    database.close().unwrap();
}

#[test]
fn what_does_not_agree_is_found() {
    let database = open(2);
    let orders = Orders::new(5, Choice::Uniform, 1).unwrap();
    prepare(&database, &orders, 1, &mut |_| ()).unwrap();
    let one = "insert into merchant_order values (7, 3, 50, ''); \
               update merchant set orders = 1, balance = 50 where merchant_id = 3";
    run_sql(&database, one).unwrap();
    let judge = |came| orders.judge(&mut &database, &Sums::default(), &came).map(|it| it.rows);
    assert_eq!(judge(Sums { orders: 1, amount: 50 }), Ok(6));
    assert!(judge(Sums { orders: 1, amount: 51 }).unwrap_err().contains("clients know of"));
    // The next run goes on after what is there.
    orders.before(&mut &database).unwrap();
    assert_eq!(orders.draw(&mut Random::new(1)).orders[0].0, 8);
    run_sql(&database, "update merchant set balance = 49 where merchant_id = 3").unwrap();
    assert!(judge(Sums { orders: 1, amount: 49 }).unwrap_err().contains("1 merchants have not"));
    run_sql(&database, "delete from merchant where merchant_id = 3").unwrap();
    assert!(judge(Sums { orders: 1, amount: 50 }).unwrap_err().contains("1 orders cost 50"));
    let refused = prepare(&database, &orders, 1, &mut |_| ()).unwrap_err();
    assert!(refused.contains("merchant has 4 rows, not 5"), "{refused}");
    database.close().unwrap();
    assert!(Orders::new(0, HOT, 1).is_err() && Orders::new(1, HOT, 0).is_err());
    assert!(Orders::new(1, Choice::Latest, 1).is_err());
}
