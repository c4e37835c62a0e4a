//! A tiny run, and that a table which is not as it should be is found.
#![allow(clippy::unwrap_used, reason = "tests")]

use super::*;

#[test]
fn a_tiny_run_inserts_what_it_counts() {
    let setting = Setting {
        clients: 3,
        instances: Instances::Count(2),
        seconds: 1,
        commit_every: 100,
        rows_max: 30_000,
        data: None,
    };
    let report = run(&setting, &mut |_| ()).unwrap();
    assert!(report.rows >= 300 && report.rows.is_multiple_of(100), "{report}");
    assert!(report.json()["log_bytes_per_row"]["payload"].as_f64().unwrap() > 100.0);
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
