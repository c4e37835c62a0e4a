//! What ends sessions, and what it leaves alone: SIGTERM, messages that are none, panics.
#![allow(clippy::unwrap_used, reason = "tests")]

mod common;

use std::sync::Arc;
use std::time::{Duration, Instant};

use atoll_kernel::io::MemoryDisk;
use common::Scratch;
use common::embedded::{Embedded, Fragile};
use common::raw::{Raw, framed, query};

fn tag_of(scratch: &Scratch, text: &str) -> String {
    let mut client = scratch.connect();
    client.query_one(text, &[]).unwrap().get::<_, i64>(0).to_string()
}

#[test]
fn sigterm_tells_every_session_and_stops_cleanly() {
    let mut scratch = Scratch::new();
    let port = scratch.port();
    let mut idle = Raw::start(port);
    assert_eq!(idle.says("create table t (id int primary key, v int)").1, "");
    assert_eq!(idle.says("insert into t values (1, 1)").1, "");
    let mut open = Raw::start(port);
    assert_eq!(open.says("begin; update t set v = 2").1, "");
    let mut waits = Raw::start(port);
    waits.send(&query("update t set v = 3 where id = 1"));
    let mut busy = Raw::start(port);
    busy.send(&query("select count(*) from generate_series(1, 100000000000) g"));
    std::thread::sleep(Duration::from_millis(200));
    let began = Instant::now();
    let server = scratch.server.take().unwrap();
    let ending = std::thread::spawn(move || server.terminate());
    for (name, session) in [("idle", &mut idle), ("open", &mut open), ("busy", &mut busy)] {
        // The head of an answer may have come before; rows have not.
        let rest = session.rest();
        assert_eq!(rest.last().map(String::as_str), Some("57P01"), "{name}: {rest:?}");
        assert!(rest.len() <= 2 && rest[..rest.len() - 1].iter().all(String::is_empty), "{rest:?}");
    }
    // It may have got its lock from the session that was ended before it; then it says so first.
    let waited = waits.rest();
    assert_eq!(waited.last().map(String::as_str), Some("57P01"), "{waited:?}");
    let expected = if waited.len() == 1 { "1" } else { "3" };
    drop((idle, open, waits, busy));
    // It ended with exit code 0.
    ending.join().unwrap();
    assert!(began.elapsed() < Duration::from_secs(60), "{:?}", began.elapsed());
    scratch.start();
    assert_eq!(tag_of(&scratch, "select v::int8 from t"), expected, "{waited:?}");
}

#[test]
fn a_message_that_is_none_ends_its_session_only() {
    let scratch = Scratch::new();
    let port = scratch.port();
    let mut other = Raw::start(port);
    assert_eq!(other.says("create table t (id int primary key)").1, "");
    for (number, wrong) in [
        b"\xff\xff\xff\xff\xff\xff\xff\xff".to_vec(),
        framed(b'S', b"a Sync has no body"),
        b"Q\xff\xff\xff\xff".to_vec(),
        b"Q\0\0\0\x03".to_vec(),
        framed(b'H', b"nor has a Flush"),
        b"P\xff\xff\xff\xff".to_vec(),
        framed(b'p', b"a password that nobody asked for\0"),
    ]
    .into_iter()
    .enumerate()
    {
        let mut client = Raw::start(port);
        assert_eq!(client.says(&format!("begin; insert into t values ({number})")).1, "");
        client.send(&wrong);
        let rest = client.rest();
        assert_eq!(rest.last().map(String::as_str), Some("08P01"), "{number}: {rest:?}");
        // Others go on; the open transaction's row is gone, and its lock with it.
        assert_eq!(other.says(&format!("insert into t values ({number})")).1, "", "{number}");
    }
    assert_eq!(tag_of(&scratch, "select count(*) from t"), "7");
}

#[test]
fn what_was_asked_before_a_half_close_is_answered_and_committed() {
    let scratch = Scratch::new();
    let mut client = Raw::start(scratch.port());
    client.send(&query("create table t (id int); insert into t values (1)"));
    client.send(&query("select * from generate_series(1, 50000) g"));
    client.send(&query("insert into t values (2)"));
    client.stream.shutdown(std::net::Shutdown::Write).unwrap();
    assert_eq!(client.until_ready().0, "CCZ");
    assert_eq!(client.until_ready().0.len(), 50_003);
    assert_eq!(client.until_ready().0, "CZ");
    assert!(client.message().is_none());
    assert_eq!(tag_of(&scratch, "select count(*) from t"), "2");
}

/// A panic in the middle of a scan, with rows changed and locked before it.
#[test]
fn a_panic_ends_its_session_and_its_transaction_only() {
    let disk = Arc::new(MemoryDisk::new(Default::default()));
    let server = Embedded::serve::<Fragile>(disk);
    let mut other = Raw::start(server.port);
    assert_eq!(other.says("create table t (id int primary key, v int)").1, "");
    assert_eq!(other.says("insert into t select g, 0 from generate_series(1, 1000) g").1, "");
    let mut open = Raw::start(server.port);
    assert_eq!(open.says("begin; update t set v = 7 where id = 1000").1, "");
    for round in 0..20 {
        let mut client = Raw::start(server.port);
        assert_eq!(client.says("begin; update t set v = v + 1 where id <= 500").1, "");
        assert_eq!(client.says("insert into t values (2000, 0)").1, "");
        let text = match round % 3 {
            0 => "select * from t where v = 1 /* panic at row 10 */",
            1 => {
                "update t set v = 9 where id between 501 and 600 returning id /* panic at row 3 */"
            }
            _ => "select a.id from t a join t b on a.id = b.id order by 1 /* panic at row 1 */",
        };
        client.send(&query(text));
        let rest = client.rest();
        assert_eq!(rest.last().map(String::as_str), Some("XX000"), "{round}: {rest:?}");
        // What it had changed and locked is free, as if it had never been.
        assert_eq!(other.says("begin; update t set v = v where id < 1000").1, "", "{round}");
        assert_eq!(other.says("insert into t values (2000, 1); delete from t where v = 1").1, "");
        assert_eq!(other.says("commit").1, "");
    }
    // The other open transaction was not touched.
    assert_eq!(open.says("commit").1, "");
    let mut rows = server.connect();
    let row = rows.query_one("select sum(v)::int8, count(*) from t", &[]).unwrap();
    assert_eq!((row.get::<_, i64>(0), row.get::<_, i64>(1)), (7, 1000));
    drop(rows);
    server.close();
}
