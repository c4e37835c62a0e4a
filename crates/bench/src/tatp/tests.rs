//! Whole runs at a tiny size, and that the check finds rows that refer to nothing.
#![allow(clippy::unwrap_used, reason = "tests")]

use atoll_kernel::api::{ColumnId, TableEntry};

use super::*;
use crate::native::{Native, prepare};
use crate::setting::{Durability, Isolation, Setting};
use crate::sql::run_sql;
use crate::testing::{are_columns_of, open, run_tiny, setting, shares_hold};

#[test]
fn tiny_runs_fail_as_often_as_expected_and_keep_all_references() {
    for (isolation, choice) in
        [(Isolation::RepeatableRead, Choice::Uneven), (Isolation::ReadCommitted, Choice::Uniform)]
    {
        let setting = Setting { seconds: 2, durability: Durability::Relaxed, ..setting(isolation) };
        let tatp = Tatp::new(5000, choice).unwrap();
        let report = run_tiny(&tatp, &setting);
        shares_hold(&report, &Kind::SHARES.map(f64::from));
        let counts = report.driven.counts;
        for (at, kind) in Kind::ALL.into_iter().enumerate() {
            // Draws deviate; more so where some of few subscribers are popular.
            let done = counts.done[at].max(1) as f64;
            let failed = counts.failed[at] as f64 * 100.0 / done;
            let may = if kind.fails() == 0.0 { 0.0 } else { 6.0 + 200.0 / done.sqrt() };
            let (least, most) = kind.fails_between();
            let fits = (least - may..=most + may).contains(&failed);
            assert!(fits, "{kind:?}: {failed}: {report}");
        }
        let json = report.json();
        assert!(json["successful_per_second"].as_f64() < json["tps"].as_f64(), "{json}");
        assert_eq!(json["failed_percent"]["update_location"], 0.0, "{json}");
        assert!((40_000..60_000).contains(&report.loaded.rows), "{report}");
    }
}

/// Whether a subscriber is named by s_id or by sub_nbr, transactions go to one instance.
#[test]
fn a_subscriber_has_one_key() {
    let mut sub_nbr = String::new();
    inputs::sub_nbr(4711, &mut sub_nbr);
    let by_number = Input::GetSubscriberData { s_id: 4711 };
    let by_text = Input::UpdateLocation { sub_nbr, vlr_location: 1 };
    assert_eq!(Tatp::key(&by_number), Tatp::key(&by_text));
}

#[test]
fn columns_are_what_their_sql_says() {
    let database = open(2);
    let tatp = Tatp::new(1, Choice::Uniform).unwrap();
    run_sql(&database, &tatp.definitions()).unwrap();
    let tables = Tatp::tables(&database.catalog()).unwrap();
    let all: [(&TableEntry, &[(&str, ColumnId)]); 4] = [
        (&tables.subscriber, native::subscriber::ALL),
        (&tables.access_info, native::access_info::ALL),
        (&tables.special_facility, native::special_facility::ALL),
        (&tables.call_forwarding, native::call_forwarding::ALL),
    ];
    for (table, columns) in all {
        are_columns_of(table, columns);
    }
    database.close().unwrap();
}

#[test]
fn rows_that_refer_to_nothing_are_found() {
    let tatp = Tatp::new(300, Choice::Uniform).unwrap();
    for (corruption, expect) in [
        ("delete from subscriber where s_id = 7", "have no subscriber"),
        ("delete from special_facility where s_id < 100", "have no special_facility"),
        ("update access_info set s_id = 301 where s_id = 9", "have no subscriber"),
        (
            "insert into call_forwarding select s_id, sf_type, 1, 2, '' from special_facility \
          limit 1",
            "rows, not",
        ),
        ("delete from access_info where s_id = 9", "rows, not"),
    ] {
        let database = open(2);
        let (_, before) = prepare(&database, &tatp, 1, &mut |_| ()).unwrap();
        assert!(tatp.judge(&mut &database, &before, &0).is_ok());
        run_sql(&database, corruption).unwrap();
        let found = tatp.judge(&mut &database, &before, &0).unwrap_err();
        assert!(found.contains(expect), "{corruption}: {found}");
        database.close().unwrap();
    }
}

#[test]
fn a_load_that_was_interrupted_is_refused() {
    let database = open(2);
    let tatp = Tatp::new(300, Choice::Uniform).unwrap();
    prepare(&database, &tatp, 1, &mut |_| ()).unwrap();
    let refused = |tatp: &Tatp| prepare(&database, tatp, 1, &mut |_| ()).unwrap_err();
    let more = Tatp::new(301, Choice::Uniform).unwrap();
    assert!(refused(&more).contains("subscriber has 300 rows, not 301"));
    run_sql(&database, "delete from access_info where s_id > 298").unwrap();
    assert!(refused(&tatp).contains("access_info has rows of 298 of 300 subscribers"));
    database.close().unwrap();
    assert!(Tatp::new(0, Choice::Uniform).is_err());
}
