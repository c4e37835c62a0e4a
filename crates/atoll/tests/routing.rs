//! Affinity over the wire: sessions go where their transactions hash to, with all that they have.
#![allow(clippy::unwrap_used, reason = "tests")]

mod common;

use atoll_kernel::api::AffinityKey;
use atoll_kernel::sync::{AtomicBool, Ordering};
use common::raw::{Raw, query};
use common::{Scratch, atoll};
use postgres::error::SqlState;
use postgres::{Client, Config, NoTls, Statement};

/// Instances of a test's server.
const INSTANCES: usize = 2;

/// Where a key hashes to.
fn home(key: i32) -> i32 {
    i32::from(AffinityKey::from(i64::from(key)).instance(INSTANCES).0)
}

/// A key that hashes there.
fn key_of(instance: i32) -> i32 {
    (1..).find(|key| home(*key) == instance).unwrap()
}

fn place(client: &mut Client) -> i32 {
    client.query_one("select atoll_instance()", &[]).unwrap().get(0)
}

fn with_options(scratch: &Scratch, options: &str) -> Client {
    let mut config = Config::new();
    config.host("127.0.0.1").port(scratch.port()).user("postgres").dbname("postgres");
    config.options(options).connect(NoTls).unwrap()
}

/// Warehouses with districts, near their warehouse's number.
fn tables(scratch: &Scratch) -> Client {
    let mut client = scratch.connect();
    client
        .batch_execute(
            "create table district (w int, d int, v bigint, primary key (w, d)) \
             with (affinity = w); \
             insert into district select w, d, 0 from generate_series(1, 20) w, \
             generate_series(1, 10) d",
        )
        .unwrap();
    client
}

/// Runs a keyed statement often enough to make a session move.
fn settle_near(client: &mut Client, statement: &Statement, key: i32) {
    for _ in 0..40 {
        client.execute(statement, &[&key]).unwrap();
    }
}

fn moves(client: &mut Client) -> (i64, i64, i64) {
    let text = "select sum(sessions_arrived)::int8, sum(sessions_departed)::int8, \
                sum(sessions_kept)::int8 from atoll_routing";
    let row = client.query_one(text, &[]).unwrap();
    (row.get(0), row.get(1), row.get(2))
}

#[test]
fn a_hint_at_the_start_decides_where_a_session_is() {
    let scratch = Scratch::new();
    for key in 1..20 {
        let mut client = with_options(&scratch, &format!("-c atoll.affinity={key}"));
        assert_eq!(place(&mut client), home(key), "key {key}");
    }
    // Any text is a hint; the same one is the same instance.
    let at = |hint: &str| place(&mut with_options(&scratch, &format!("-c atoll.affinity={hint}")));
    for hint in ["tenant-a", "tenant-b", "Ελλάδα"] {
        let first = at(hint);
        assert!((0..4).all(|_| at(hint) == first), "{hint}");
    }
}

#[test]
fn a_session_moves_with_all_that_it_has() {
    let scratch = Scratch::new();
    let mut client = tables(&scratch);
    client
        .batch_execute(
            "create schema other; create table other.here (a int); create sequence s start 5; \
             set application_name = 'mover'; set search_path = other, public; \
             set my.own = 'kept'; set extra_float_digits = 0; set synchronous_commit = off; \
             prepare by_sql (int) as select $1 + 1; select nextval('s'); select setseed(0.25)",
        )
        .unwrap();
    let read = client.prepare("select v from district where w = $1 and d = 1").unwrap();
    let unplanned = client.prepare("select count(*) from here where a > $1").unwrap();
    let (pid, here): (i32, i32) = {
        let row = client.query_one("select pg_backend_pid(), atoll_instance()", &[]).unwrap();
        (row.get(0), row.get(1))
    };
    for (round, near) in [1 - here, here].into_iter().enumerate() {
        // Not stable when the session goes, and seen by it all the same.
        let write = format!("update district set v = {round} + 7 where w = {}", key_of(near));
        client.batch_execute(&write).unwrap();
        settle_near(&mut client, &read, key_of(near));
        assert_eq!(place(&mut client), near, "round {round}");
        let seen: i64 = client.query_one(&read, &[&key_of(near)]).unwrap().get(0);
        assert_eq!(seen, round as i64 + 7);
        let mut one = |text: &str| match &client.simple_query(text).unwrap()[..] {
            [.., postgres::SimpleQueryMessage::Row(row), _] => row.get(0).unwrap().to_owned(),
            other => panic!("{text}: {} messages", other.len()),
        };
        assert_eq!(one("show application_name"), "mover");
        assert_eq!(one("show search_path"), "other, public");
        assert_eq!(one("select current_setting('my.own')"), "kept");
        assert_eq!(one("show synchronous_commit"), "off");
        assert_eq!(one("execute by_sql (41)"), "42");
        assert_eq!(one("select currval('public.s')"), "5");
        assert_eq!(one("select lastval()"), "5");
        assert_eq!(one("select pg_backend_pid()"), pid.to_string());
        let count: i64 = client.query_one(&unplanned, &[&0]).unwrap().get(0);
        assert_eq!(count, 0);
    }
    // random() goes on where it was, as of a session that never moved.
    let next: f64 = client.query_one("select random()", &[]).unwrap().get(0);
    let mut other = scratch.connect();
    other.batch_execute("select setseed(0.25)").unwrap();
    let expected: f64 = other.query_one("select random()", &[]).unwrap().get(0);
    assert_eq!(next.to_bits(), expected.to_bits());
    let (arrived, departed, kept) = moves(&mut other);
    assert_eq!((arrived, departed, kept), (2, 2, 0));
}

#[test]
fn settings_made_in_a_transaction_hint_too() {
    let scratch = Scratch::new();
    let mut client = scratch.connect();
    let here = place(&mut client);
    let (near, far) = (key_of(1 - here), key_of(here));
    // Of the transaction only, by SET LOCAL and by set_config().
    for number in 0..20 {
        let text = match number % 2 {
            0 => format!("begin; set local atoll.affinity = '{near}'; select 1; commit"),
            _ => format!(
                "begin; select set_config('atoll.affinity', '{near}', true); select 1; commit"
            ),
        };
        client.batch_execute(&text).unwrap();
    }
    assert_eq!(place(&mut client), 1 - here);
    // An empty hint is none: the session stays where it is.
    client.batch_execute(&format!("set atoll.affinity = '{far}'; reset atoll.affinity")).unwrap();
    client.batch_execute("set atoll.affinity = ''").unwrap();
    for _ in 0..100 {
        client.batch_execute("select 1").unwrap();
    }
    assert_eq!(place(&mut client), 1 - here);
}

#[test]
fn a_held_cursor_keeps_a_session_until_it_is_closed() {
    let scratch = Scratch::new();
    let mut client = tables(&scratch);
    let here = place(&mut client);
    let read = client.prepare("select v from district where w = $1 and d = 1").unwrap();
    client.batch_execute("declare c cursor with hold for select d from district").unwrap();
    settle_near(&mut client, &read, key_of(1 - here));
    assert_eq!(place(&mut client), here);
    assert!(moves(&mut client).2 > 0, "it was counted");
    let first: i32 = client.query_one("fetch c", &[]).unwrap().get(0);
    assert_eq!(first, 1);
    client.batch_execute("close c").unwrap();
    settle_near(&mut client, &read, key_of(1 - here));
    assert_eq!(place(&mut client), 1 - here);
}

#[test]
fn a_table_says_what_it_is_near_to() {
    let scratch = Scratch::new();
    let mut client = tables(&scratch);
    let shown = scratch.succeeds("psql", &["-c", "\\d+ district"]);
    assert!(shown.contains("Options: affinity=w"), "{shown}");
    let wrong = client.batch_execute("create table x (a int) with (affinity = b)").unwrap_err();
    assert_eq!(wrong.code(), Some(&SqlState::UNDEFINED_COLUMN));
    client.batch_execute("alter table district rename column w to warehouse").unwrap();
    let mut scratch = scratch;
    drop(client);
    scratch.kill();
    scratch.start();
    let shown = scratch.succeeds("psql", &["-c", "\\d+ district"]);
    assert!(shown.contains("Options: affinity=warehouse"), "{shown}");
    let mut client = scratch.connect();
    let here = place(&mut client);
    let read = client.prepare("select v from district where warehouse = $1 and d = 1").unwrap();
    settle_near(&mut client, &read, key_of(1 - here));
    assert_eq!(place(&mut client), 1 - here);
}

/// Sessions that move, come and go, are cancelled, and change the same rows: what each was told to
/// have committed is there, once, also after the server was ended in the middle of it.
#[test]
fn nothing_that_was_acknowledged_is_lost_by_moving() {
    let mut scratch = Scratch::new();
    drop(tables(&scratch));
    let port = scratch.port();
    let workers: Vec<_> = (0..8)
        .map(|number| {
            std::thread::spawn(move || {
                let mut random = fastrand::Rng::with_seed(number);
                let (mut told, mut perhaps) = (0_i64, 0_i64);
                'sessions: loop {
                    let mut config = Config::new();
                    config.host("127.0.0.1").port(port).user("postgres").dbname("postgres");
                    if random.bool() {
                        config.options(&format!("-c atoll.affinity={}", random.i32(1..20)));
                    }
                    let Ok(mut client) = config.connect(NoTls) else { break };
                    let change = "update district set v = v + 1 where w = $1 and d = $2";
                    let Ok(change) = client.prepare(change) else { break };
                    let mut warehouse = random.i32(1..=20);
                    for round in 0..200 {
                        if round % 20 == 0 {
                            warehouse = random.i32(1..=20);
                        }
                        if random.u8(0..10) == 0 {
                            let _ = client.cancel_token().cancel_query(NoTls);
                        }
                        match client.execute(&change, &[&warehouse, &random.i32(1..=10)]) {
                            Ok(rows) => {
                                assert_eq!(rows, 1);
                                told += 1;
                            }
                            Err(error) if error.code() == Some(&SqlState::QUERY_CANCELED) => {}
                            Err(error) => {
                                let ended = error.is_closed()
                                    || error.code() == Some(&SqlState::ADMIN_SHUTDOWN)
                                    || error.code().is_none();
                                assert!(ended, "{error}");
                                perhaps += 1;
                                break 'sessions;
                            }
                        }
                    }
                }
                (told, perhaps)
            })
        })
        .collect();
    let mut watcher = scratch.connect();
    while moves(&mut watcher).0 < 100 {
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
    drop(watcher);
    scratch.server.take().unwrap().terminate();
    let (mut told, mut perhaps) = (0, 0);
    for worker in workers {
        let (own, open) = worker.join().unwrap();
        told += own;
        perhaps += open;
    }
    scratch.start();
    let mut client = scratch.connect();
    let sum: i64 = client.query_one("select sum(v)::int8 from district", &[]).unwrap().get(0);
    assert!((told..=told + perhaps).contains(&sum), "{told} + {perhaps}: {sum}");
}

/// A stream of simple queries written without waiting: the session moves in the middle of it.
#[test]
fn a_pipelined_stream_is_answered_whole() {
    let scratch = Scratch::new();
    drop(tables(&scratch));
    let mut raw = Raw::start(scratch.port());
    let mut writer = raw.stream.try_clone().unwrap();
    let count = 3000;
    let writing = std::thread::spawn(move || {
        for number in 0..count {
            let key = 1 + number / 100 % 20;
            let text = format!("update district set v = v + 1 where w = {key} and d = 1");
            std::io::Write::write_all(&mut writer, &query(&text)).unwrap();
        }
    });
    for number in 0..count {
        assert_eq!(raw.until_ready(), ("CZ".to_owned(), String::new()), "answer {number}");
    }
    writing.join().unwrap();
    let mut client = scratch.connect();
    let sum: i64 = client.query_one("select sum(v)::int8 from district", &[]).unwrap().get(0);
    assert_eq!(sum, i64::from(count));
    assert!(moves(&mut client).0 > 0);
}

/// Sessions without affinity change places without end, and nobody notices.
#[test]
fn sessions_that_change_places_keep_what_they_have() {
    let mut scratch = Scratch::without_server();
    let mut command = atoll(&scratch.data());
    command.args(["--listen", "127.0.0.1:0", "--exchange-sessions", "always"]);
    scratch.start_with(command);
    let mut watcher = tables(&scratch);
    watcher.batch_execute("alter table district reset (affinity)").unwrap();
    let ended = AtomicBool::new(false);
    let told: i64 = std::thread::scope(|scope| {
        let workers: Vec<_> = (1..=8)
            .map(|number: i32| {
                let (mut client, ended) = (scratch.connect(), &ended);
                scope.spawn(move || {
                    client.batch_execute(&format!("set my.number = {number}")).unwrap();
                    let change = "update district set v = v + 1 where w = $1 and d = 1 returning v";
                    let change = client.prepare(change).unwrap();
                    let own = client.prepare("select current_setting('my.number')::int").unwrap();
                    let mut told = 0_i64;
                    while !ended.load(Ordering::Relaxed) {
                        let mut block = client.transaction().unwrap();
                        let kept: i32 = block.query_one(&own, &[]).unwrap().get(0);
                        let v: i64 = block.query_one(&change, &[&number]).unwrap().get(0);
                        block.commit().unwrap();
                        told += 1;
                        assert_eq!((kept, v), (number, told));
                    }
                    told
                })
            })
            .collect();
        let deadline = std::time::Instant::now() + std::time::Duration::from_secs(90);
        while moves(&mut watcher).0 < 40 && std::time::Instant::now() < deadline {
            std::thread::sleep(std::time::Duration::from_millis(20));
        }
        ended.store(true, Ordering::Relaxed);
        workers.into_iter().map(|worker| worker.join().unwrap()).sum()
    });
    assert!(moves(&mut watcher).0 >= 40, "they have changed places");
    let sum: i64 = watcher.query_one("select sum(v)::int8 from district", &[]).unwrap().get(0);
    assert_eq!(sum, told);
}
