//! Sessions over the wire with the whole database behind them.
#![allow(clippy::unwrap_used, reason = "tests")]

mod common;

use std::time::{Duration, Instant};

use common::Scratch;
use postgres::error::SqlState;
use postgres::fallible_iterator::FallibleIterator;
use postgres::{Client, Config, NoTls};

fn table(client: &mut Client) {
    client.batch_execute("create table t (id int primary key, v int)").unwrap();
    client.batch_execute("insert into t select g, 0 from generate_series(1, 1000) g").unwrap();
}

fn count(client: &mut Client) -> i64 {
    client.query_one("select count(*) from t", &[]).unwrap().get(0)
}

fn code(error: &postgres::Error) -> &SqlState {
    error.code().unwrap_or_else(|| panic!("no answer of the server: {error}"))
}

#[test]
fn portals_are_fetched_piece_by_piece() {
    let scratch = Scratch::new();
    let mut client = scratch.connect();
    table(&mut client);
    let mut transaction = client.transaction().unwrap();
    let portal = transaction.bind("select id from t where id > $1 order by id", &[&10]).unwrap();
    let mut seen = Vec::new();
    loop {
        let rows = transaction.query_portal(&portal, 300).unwrap();
        if rows.is_empty() {
            break;
        }
        assert!(rows.len() <= 300);
        seen.extend(rows.iter().map(|row| row.get::<_, i32>(0)));
        // Other statements in between do not disturb it.
        transaction.execute("update t set v = v + 1 where id = 1", &[]).unwrap();
    }
    assert_eq!(seen, (11..=1000).collect::<Vec<_>>());
    transaction.commit().unwrap();
}

/// Temporary files of the server.
fn temporary(scratch: &Scratch) -> usize {
    std::fs::read_dir(scratch.data().join("temp")).map_or(0, |folder| folder.count())
}

#[test]
fn cursors_with_hold_outlive_transactions_but_not_sessions() {
    let scratch = Scratch::new();
    let (mut client, mut other) = (scratch.connect(), scratch.connect());
    table(&mut client);
    client.batch_execute("set work_mem = '64kB'").unwrap();
    // Declared with parameters, outside of a block: the commit is Sync's.
    let declare = "declare h scroll cursor with hold for select id, repeat('x', $1) || id from t, generate_series(1, 10) where id > $2 order by id";
    client.execute(declare, &[&200, &500_i32]).unwrap();
    assert!(temporary(&scratch) > 0);
    other.batch_execute("delete from t where id > 600").unwrap();
    let fetch = client.prepare("fetch forward 2000 from h").unwrap();
    assert_eq!(fetch.columns().len(), 2);
    let mut seen = Vec::new();
    loop {
        let rows = client.query(&fetch, &[]).unwrap();
        if rows.is_empty() {
            break;
        }
        assert_eq!(rows[0].get::<_, String>(1).len(), 203);
        seen.extend(rows.iter().map(|row| row.get::<_, i32>(0)));
        // Transactions that fail in between do not disturb it.
        client.batch_execute("begin; select 1/0").unwrap_err();
        client.batch_execute("rollback").unwrap();
    }
    let expect = |ids: std::ops::RangeInclusive<i32>| ids.flat_map(|id| [id; 10]);
    assert!(seen.into_iter().eq(expect(501..=1000)));
    let row = client.query_one("fetch absolute 4321 from h", &[]).unwrap();
    assert_eq!(row.get::<_, i32>(0), 933);
    // What a client that goes away leaves is removed.
    drop(client);
    let began = Instant::now();
    while temporary(&scratch) > 0 {
        assert!(began.elapsed() < Duration::from_secs(60), "temporary files stay");
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn a_commit_that_reads_a_cursor_can_be_cancelled() {
    let scratch = Scratch::new();
    let mut client = scratch.connect();
    table(&mut client);
    let endless = "declare h cursor with hold for select g from generate_series(1, 100000000000) g where g < 0";
    for begin in ["begin; delete from t", "declare keep cursor with hold for select id from t"] {
        let cancel = client.cancel_token();
        client.batch_execute(begin).unwrap();
        let canceller = std::thread::spawn(move || {
            std::thread::sleep(Duration::from_millis(300));
            cancel.cancel_query(NoTls).unwrap();
        });
        let error = match begin.starts_with("begin") {
            true => {
                client.batch_execute(endless).unwrap();
                client.batch_execute("commit").unwrap_err()
            }
            // At the Sync of an extended statement.
            false => client.execute(endless, &[]).unwrap_err(),
        };
        canceller.join().unwrap();
        assert_eq!(code(&error), &SqlState::QUERY_CANCELED, "{begin}");
        // Nothing is committed, no transaction is open, and the cursor is gone.
        assert_eq!(count(&mut client), 1000);
        let error = client.batch_execute("fetch h").unwrap_err();
        assert_eq!(code(&error), &SqlState::INVALID_CURSOR_NAME);
    }
    assert_eq!(client.query("fetch 3 from keep", &[]).unwrap().len(), 3);
}

#[test]
fn several_statements_of_one_query_are_one_transaction() {
    let scratch = Scratch::new();
    let mut client = scratch.connect();
    table(&mut client);
    let duplicate = "delete from t where id = 1; insert into t values (2, 0); select 1";
    let error = client.batch_execute(duplicate).unwrap_err();
    assert_eq!(code(&error), &SqlState::UNIQUE_VIOLATION);
    assert_eq!(count(&mut client), 1000);
    client.batch_execute("delete from t where id = 1; commit; select 1/0").unwrap_err();
    assert_eq!(count(&mut client), 999);
}

#[test]
fn a_failed_block_refuses_until_its_end() {
    let scratch = Scratch::new();
    let mut client = scratch.connect();
    table(&mut client);
    client.batch_execute("begin; delete from t").unwrap();
    client.batch_execute("selec").unwrap_err();
    let refused = client.query("select 1", &[]).unwrap_err();
    assert_eq!(code(&refused), &SqlState::IN_FAILED_SQL_TRANSACTION);
    client.batch_execute("commit").unwrap();
    assert_eq!(count(&mut client), 1000);
}

#[test]
fn a_waiting_statement_is_cancelled_and_its_session_goes_on() {
    let scratch = Scratch::new();
    let (mut holder, mut waiter) = (scratch.connect(), scratch.connect());
    table(&mut holder);
    holder.batch_execute("begin; update t set v = 1 where id = 1").unwrap();
    let cancel = waiter.cancel_token();
    let canceller = std::thread::spawn(move || {
        std::thread::sleep(Duration::from_millis(200));
        cancel.cancel_query(NoTls).unwrap();
    });
    let error = waiter.batch_execute("update t set v = 2 where id = 1").unwrap_err();
    assert_eq!(code(&error), &SqlState::QUERY_CANCELED);
    canceller.join().unwrap();
    holder.batch_execute("commit").unwrap();
    waiter.batch_execute("update t set v = v + 1 where id = 1").unwrap();
    let row = waiter.query_one("select v from t where id = 1", &[]).unwrap();
    assert_eq!(row.get::<_, i32>(0), 2);
}

#[test]
fn a_client_that_goes_away_gives_its_locks_back() {
    let scratch = Scratch::new();
    let (mut leaver, mut other) = (scratch.connect(), scratch.connect());
    table(&mut leaver);
    leaver.batch_execute("begin; update t set v = 7").unwrap();
    drop(leaver);
    other.batch_execute("update t set v = v + 1 where id = 1").unwrap();
    let row = other.query_one("select v from t where id = 1", &[]).unwrap();
    assert_eq!(row.get::<_, i32>(0), 1);
}

#[test]
fn strangers_are_refused_with_their_codes() {
    let scratch = Scratch::new();
    let connect = |user: &str, database: &str| {
        let mut config = Config::new();
        config.host("127.0.0.1").port(scratch.port()).user(user).dbname(database);
        config.connect(NoTls)
    };
    let nobody = connect("eve", "postgres").err().unwrap();
    assert_eq!(code(&nobody), &SqlState::INVALID_AUTHORIZATION_SPECIFICATION);
    let nowhere = connect("postgres", "sales").err().unwrap();
    assert_eq!(code(&nowhere), &SqlState::INVALID_CATALOG_NAME);
    assert!(connect("postgres", "postgres").is_ok());
}

#[test]
fn large_results_stream_and_settings_are_kept() {
    let scratch = Scratch::new();
    let mut client = scratch.connect();
    let text = "select g, repeat('x', 100) from generate_series(1, 100000) g";
    let mut rows = client.query_raw(text, std::iter::empty::<i32>()).unwrap();
    let mut sum = 0;
    while let Some(row) = rows.next().unwrap() {
        sum += i64::from(row.get::<_, i32>(0));
        assert_eq!(row.get::<_, &str>(1).len(), 100);
    }
    drop(rows);
    assert_eq!(sum, 100_000 * 100_001 / 2);
    client.batch_execute("set application_name = 'wire'").unwrap();
    let row = client.query_one("select current_setting('application_name')", &[]).unwrap();
    assert_eq!(row.get::<_, &str>(0), "wire");
}

#[test]
fn stopping_ends_open_transactions_and_keeps_what_was_committed() {
    let mut scratch = Scratch::new();
    let (mut open, mut waiter) = (scratch.connect(), scratch.connect());
    table(&mut open);
    open.batch_execute("begin; delete from t").unwrap();
    let waiting =
        std::thread::spawn(move || waiter.batch_execute("select from t where id = 1 for update"));
    std::thread::sleep(Duration::from_millis(100));
    let began = Instant::now();
    scratch.server.take().unwrap().terminate();
    assert!(began.elapsed() < Duration::from_secs(60));
    // It may get the row when the holder is rolled back, just before its own end; and the driver
    // may see the connection's end before it has told of the error.
    if let Err(told) = waiting.join().unwrap() {
        assert!(told.code().is_none_or(|code| *code == SqlState::ADMIN_SHUTDOWN), "{told}");
    }
    assert!(open.batch_execute("commit").is_err());
    scratch.start();
    assert_eq!(count(&mut scratch.connect()), 1000);
}
