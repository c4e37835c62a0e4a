//! A tiny run, and that a table which is not as it should be is found.
#![allow(clippy::unwrap_used, reason = "tests")]

use super::*;

fn tiny() -> Setting {
    Setting {
        clients: 3,
        instances: Instances::Count(2),
        seconds: 1,
        commit_every: 100,
        rows_max: 30_000,
        data: None,
    }
}

#[test]
fn a_tiny_run_inserts_what_it_counts() {
    let report = run(&tiny(), &mut |_| ()).unwrap();
    assert!(report.rows >= 300 && report.rows.is_multiple_of(100), "{report}");
    assert!(report.json()["log_bytes_per_row"]["payload"].as_f64().unwrap() > 100.0);
}

/// A client's last transaction once went beyond them, and the pool has room for no more.
#[test]
fn there_are_no_more_rows_than_were_said() {
    let setting = Setting { commit_every: 1000, rows_max: 8000, seconds: 60, ..tiny() };
    let report = run(&setting, &mut |_| ()).unwrap();
    assert_eq!(report.rows, 6000, "each of three has room for two transactions");
}

#[test]
fn what_cannot_be_run_is_one_line() {
    #[track_caller]
    fn refused(setting: &Setting, why: &str) {
        let error = run(setting, &mut |_| ()).err().unwrap();
        assert!(error.contains(why) && !error.contains('\n'), "{error}");
    }
    refused(&Setting { clients: 0, ..tiny() }, "at least 1");
    refused(&Setting { rows_max: 299, ..tiny() }, "fewer --clients");
    refused(&Setting { commit_every: u64::MAX, ..tiny() }, "a smaller --commit-every");
    let endless = Setting { seconds: u64::MAX, rows_max: u64::MAX, ..tiny() };
    refused(&endless, "a smaller --rows-max");
}

/// A client that panicked once counted as one that had inserted nothing.
#[test]
fn clients_that_do_not_come_to_their_end_are_missed() {
    let hear = |told: Vec<Told>| {
        let (sender, receiver) = mpsc::channel();
        told.into_iter().for_each(|it| sender.send(it).unwrap());
        drop(sender);
        hear(receiver, 2, &mut |_| ())
    };
    let rows = |client, rows| Told::Rows { client, rows };
    let all = vec![rows(1, 5), Told::Ended(None), rows(1, 5), Told::Ended(None)];
    assert_eq!(hear(all).unwrap(), [0, 10]);
    let one = hear(vec![rows(0, 5), Told::Ended(None)]);
    assert_eq!(one.unwrap_err(), "only 1 of 2 clients came to their end");
    let failed = hear(vec![Told::Ended(Some(Error::ShuttingDown)), Told::Ended(None)]);
    assert_eq!(failed.unwrap_err(), Error::ShuttingDown.to_string());
}

#[test]
fn missing_rows_are_found() {
    let options = Options { instances: Instances::Count(1), ..Options::default() };
    let database = Database::open_in_memory(options).unwrap();
    let text = "create table insert_0 (id int8 primary key, n int8, filler text);
                insert into insert_0 values (1, 1, ''), (2, 2, ''), (4, 4, '')";
    run_sql(&database, text).unwrap();
    assert!(check(&database, 0, 3).unwrap_err().contains("3 rows with keys that sum to 7"));
    assert!(check(&database, 0, 4).is_err());
    database.close().unwrap();
}
