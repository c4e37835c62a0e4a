//! Whole runs at a tiny size, and that the check finds money that came or went.
#![allow(clippy::unwrap_used, reason = "tests")]

use super::*;
use crate::native::{Native, prepare};
use crate::setting::{Isolation, Setting};
use crate::sql::run_sql;
use crate::testing::{are_columns_of, open, run_tiny, setting, shares_hold};

#[test]
fn tiny_runs_keep_the_sum() {
    for isolation in [Isolation::RepeatableRead, Isolation::ReadCommitted] {
        let setting = Setting { warmup_seconds: 1, ..setting(isolation) };
        // Few and hot, so that clients meet, and accounts run empty.
        let hot = Choice::Hotspot { keys: 0.1, operations: 0.9 };
        let report = run_tiny(&SmallBank::new(50, hot).unwrap(), &setting);
        shares_hold(&report, &[20.0; 5]);
        let counts = report.driven.counts;
        // Savings that an Amalgamate has emptied have not enough.
        assert!(counts.failed[2] > 0 && counts.rollbacks() == counts.failed[2], "{report}");
        assert!(report.checked.0.what.contains("the sum of all money is right"), "{report}");
        assert_eq!((report.loaded.rows, report.json()["customers"].as_u64()), (150, Some(50)));
    }
}

#[test]
fn columns_are_what_their_sql_says() {
    let database = open(2);
    let bank = SmallBank::new(2, Choice::Uniform).unwrap();
    run_sql(&database, &bank.definitions()).unwrap();
    let tables = SmallBank::tables(&database.catalog()).unwrap();
    for (table, columns) in [
        (&tables.account, native::account::ALL),
        (&tables.savings, native::balances::ALL),
        (&tables.checking, native::balances::ALL),
    ] {
        are_columns_of(table, columns);
    }
    database.close().unwrap();
}

#[test]
fn the_papers_hot_spot_has_its_share() {
    let bank = SmallBank::new(CUSTOMERS, HOTSPOT).unwrap();
    let mut random = Random::new(1);
    let hot = |customer: u64| customer.is_multiple_of(18) && customer < 18_000;
    let drawn = (0..100_000).filter(|_| hot(bank.customer(&mut random))).count();
    assert!(drawn.abs_diff(90_000) < 700, "{drawn}");
    for _ in 0..1000 {
        if let Input::Amalgamate(from, to) = bank.draw(&mut random) {
            assert_ne!(from, to);
        }
    }
}

#[test]
fn money_that_came_or_went_is_found() {
    let database = open(2);
    let bank = SmallBank::new(6000, Choice::Uniform).unwrap();
    let (_, before) = prepare(&database, &bank, 1, &mut |_| ()).unwrap();
    assert!((6000 * 20_000..6000 * 100_000).contains(&before), "{before}");
    let judge = |added| bank.judge(&mut &database, &before, &added).map(|it| it.rows);
    assert_eq!(judge(0), Ok(12_000));
    run_sql(&database, "update checking set balance = balance - 1 where custid = 5999").unwrap();
    assert_eq!(judge(-1), Ok(12_000));
    assert!(judge(0).unwrap_err().contains("0 came"));
    run_sql(&database, "update savings set balance = -1 where custid = 3").unwrap();
    let after = money(&mut &database).unwrap();
    assert!(judge(after - before).unwrap_err().contains("1 savings accounts have less"));
    // As an interrupted load leaves it.
    run_sql(&database, "delete from checking where custid > 4000").unwrap();
    let refused = prepare(&database, &bank, 1, &mut |_| ()).map(|it| it.1).unwrap_err();
    assert!(refused.contains("checking has 4001 rows, not 6000"), "{refused}");
    database.close().unwrap();
}

#[test]
fn settings_out_of_range_are_refused() {
    assert!(SmallBank::new(1, Choice::Uniform).is_err());
    assert!(SmallBank::new(2, Choice::Latest).is_err());
}
