//! Whole runs at a tiny size, and what is refused.
#![allow(clippy::unwrap_used, reason = "tests")]

use super::*;
use crate::native::prepare;
use crate::report::Report;
use crate::setting::{Durability, Isolation, Setting};
use crate::sql::run_sql;
use crate::testing::{open, run_tiny, setting, shares_hold};

fn settings(mix: Mix, choice: Choice, key: KeyForm) -> Settings {
    Settings { records: 2000, key, mix, choice, operations: 1 }
}

fn tried(settings: Settings, isolation: Isolation) -> Report {
    let setting = Setting { durability: Durability::Relaxed, ..setting(isolation) };
    run_tiny(&Ycsb::new(settings).unwrap(), &setting)
}

/// A letter's, or one by its shares.
fn mix(name: &str) -> Mix {
    let letter = name.chars().next().filter(|_| name.len() == 1).and_then(Mix::of_letter);
    letter.unwrap_or_else(|| name.parse().unwrap())
}

#[test]
fn workloads_do_what_they_say() {
    for (name, choice, key) in [
        ("a", Choice::Zipfian, KeyForm::Number),
        ("b", Choice::Uniform, KeyForm::Text),
        ("c", Choice::Hotspot { keys: 0.05, operations: 0.95 }, KeyForm::Number),
        ("d", Choice::Latest, KeyForm::Text),
        ("e", Choice::Zipfian, KeyForm::Number),
        ("e", Choice::Zipfian, KeyForm::Text),
        ("f", Choice::Zipfian, KeyForm::Number),
        ("80/20", Choice::Hotspot { keys: 0.01, operations: 0.99 }, KeyForm::Number),
        ("read-modify-write", Choice::Uniform, KeyForm::Number),
        ("insert", Choice::Uniform, KeyForm::Text),
    ] {
        let mix = mix(name);
        let shares = mix.shares;
        let report = tried(settings(mix, choice, key), Isolation::ReadCommitted);
        shares_hold(&report, &shares.map(f64::from));
        let json = report.json();
        assert_eq!(json["access"], choice.to_string());
        assert_eq!((&json["instances"], &json["durability"]), (&json!(2), &json!("relaxed")));
        let added = report.driven.counts.done[Kind::Insert as usize];
        assert_eq!(report.checked.0.rows, 2000 + added, "{report}");
        let logs = json["log_bytes_per_txn"]["payload"].as_f64().unwrap();
        assert_eq!(logs > 0.0, name != "c", "{name}: {logs} bytes of log");
    }
}

/// Several operations in a transaction: conflicts are retried, and what was added is counted.
#[test]
fn several_operations_are_one_transaction() {
    let mix = Mix { name: "all".to_owned(), shares: [20, 40, 20, 5, 15] };
    let choice = Choice::Hotspot { keys: 0.01, operations: 0.99 };
    for isolation in [Isolation::RepeatableRead, Isolation::ReadCommitted] {
        let settings = settings(mix.clone(), choice, KeyForm::Number);
        let report = tried(Settings { operations: 5, ..settings }, isolation);
        let (done, all) = (report.driven.counts.done, report.driven.counts.transactions());
        assert!(all > 0 && done[5] == all, "{report}");
        let added = report.checked.0.rows - 2000;
        // A fifth of the operations, as closely as so many draws come to, and of all clients' last.
        let (operations, most) = ((all * 5) as f64, (all * 5 + 8 * 5) as f64);
        let may = 6.0 * (0.2 * 0.8 * most).sqrt();
        let fifth = operations * 0.2 - may..=most * 0.2 + may;
        assert!(fifth.contains(&(added as f64)), "{added} added: {report}");
        let json = report.json();
        assert!(json["operations_per_second"].as_f64() > json["tps"].as_f64(), "{json}");
    }
}

#[test]
fn tables_that_are_not_as_they_should_be_are_refused() {
    let database = open(2);
    let of = |records, key| {
        let settings = settings("insert".parse().unwrap(), Choice::Uniform, key);
        Ycsb::new(Settings { records, ..settings }).unwrap()
    };
    let prepared = |ycsb: &Ycsb| {
        prepare(&database, ycsb, 1, &mut |_| ()).map(|(loaded, there)| (loaded.rows, there))
    };
    assert_eq!(prepared(&of(300, KeyForm::Number)), Ok((300, 300)));
    assert_eq!(prepared(&of(200, KeyForm::Number)), Ok((0, 300)));
    let refused = |ycsb: &Ycsb, expect: &str| {
        let error = prepared(ycsb).unwrap_err();
        assert!(error.contains(expect), "{error}");
    };
    // As an interrupted load leaves it, or one with another form of keys.
    refused(&of(301, KeyForm::Number), "300 of 301 records");
    refused(&of(300, KeyForm::Text), "another --key");
    run_sql(&database, "delete from usertable where ycsb_key = 7").unwrap();
    refused(&of(200, KeyForm::Number), "but not the first 299");
    database.close().unwrap();
}

#[test]
fn the_check_finds_what_is_missing_or_cut() {
    let database = open(2);
    let ycsb =
        Ycsb::new(settings("50/50".parse().unwrap(), Choice::Uniform, KeyForm::Text)).unwrap();
    prepare(&database, &ycsb, 1, &mut |_| ()).unwrap();
    let judge = |added| ycsb.judge(&mut &database, &2000, &added).map(|it| it.rows);
    assert_eq!(judge(0), Ok(2000));
    assert!(judge(1).unwrap_err().contains("1 were added, and 2000 are there"));
    let cut =
        "update usertable set field3 = 'x' where ycsb_key = (select max(ycsb_key) from usertable)";
    run_sql(&database, cut).unwrap();
    assert!(judge(0).unwrap_err().contains("1999901 characters"));
    database.close().unwrap();
}

#[test]
fn settings_out_of_range_are_refused() {
    let settings = settings(Mix::of_letter('a').unwrap(), Choice::Zipfian, KeyForm::Number);
    assert!(Ycsb::new(Settings { records: 0, ..settings.clone() }).is_err());
    assert!(Ycsb::new(Settings { operations: 0, ..settings }).is_err());
}
