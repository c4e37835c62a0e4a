//! The benchmark's own rules; whole runs against a server are in the tests of `atoll`.
#![allow(clippy::unwrap_used, reason = "tests")]

use super::client::{Target, request};
use super::{Settings, Work, run};

fn settings() -> Settings {
    Settings {
        url: "host=/nowhere user=postgres".to_owned(),
        server_pid: None,
        counts: vec![1],
        works: vec![Work::Select],
        seconds: 1,
        warmup_seconds: 0,
        rounds: 1,
        rows: 1,
        threads: 1,
        seed: 1,
    }
}

#[test]
fn what_cannot_be_run_is_one_line() {
    #[track_caller]
    fn refused(settings: &Settings, why: &str) {
        let error = run(settings, &mut |_| ()).err().unwrap();
        assert!(error.contains(why) && !error.contains('\n'), "{error}");
    }
    refused(&settings(), "cannot connect");
    refused(&Settings { counts: vec![], ..settings() }, "counts");
    refused(&Settings { counts: vec![4, 0], ..settings() }, "counts");
    refused(&Settings { counts: vec![4, 8, 4], ..settings() }, "named twice");
    refused(&Settings { works: vec![Work::Select; 2], ..settings() }, "named twice");
    refused(&Settings { rounds: 0, ..settings() }, "rounds");
    refused(&Settings { threads: 0, ..settings() }, "threads");
    refused(&Settings { counts: vec![1 << 40], ..settings() }, "ulimit -n");
    assert!(Target::parse("nonsense").is_err());
}

#[test]
fn a_request_has_the_protocols_form() {
    let mut bytes = Vec::new();
    request(&mut bytes, Work::Select, 0x0102);
    let bind = b"B\0\0\0\x22\0select\0\0\x01\0\x01\0\x01\0\0\0\x08\0\0\0\0\0\0\x01\x02\0\x01\0\x01";
    let rest = b"E\0\0\0\x09\0\0\0\0\0S\0\0\0\x04";
    assert_eq!(bytes, [&bind[..], rest].concat());
}
