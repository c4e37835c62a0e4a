//! The real server on a file system that is really small and fills up: while transactions are
//! logged, while checkpoints are made, while much is loaded, while logs are archived and while it
//! is backed up (rules 7.8 and 8.6). Then space returns, and everything goes on in the same process
//! and the same sessions.
//!
//! In each case everything acknowledged, and nothing else, is there then, and again after SIGKILL,
//! `atoll check` and a start.
#![allow(clippy::unwrap_used, reason = "tests")]

#[path = "../common/mod.rs"]
mod common;
mod mount;
mod served;

use std::collections::BTreeSet;
use std::io::Write;
use std::process::{Command, Output};
use std::time::{Duration, Instant};

use mount::on_small_disk;
use postgres::Client;
use postgres::error::SqlState;
use served::{Served, Writers, eventually, ids};

/// Checkpoints published and abandoned, and why the last of these was.
fn checkpoints(client: &mut Client) -> (i64, i64, Option<String>) {
    let asked = "select published, abandoned, abandoned_because from atoll_checkpoints";
    let row = client.query_one(asked, &[]).unwrap();
    (row.get(0), row.get(1), row.get(2))
}

fn is_full(error: &postgres::Error) -> bool {
    error.code() == Some(&SqlState::DISK_FULL)
}

#[test]
fn transactions_fail_whole_while_the_disk_is_full_and_go_on_then() {
    on_small_disk("transactions_fail_whole_while_the_disk_is_full_and_go_on_then", |disk| {
        let settings = ["--checkpoint-interval", "0", "--checkpoint-wal", "0"];
        let mut served = Served::start(&disk.path.join("data"), &settings);
        let mut reader = served.connect();
        reader.batch_execute("create table t (id int primary key, v text)").unwrap();
        let mut writers = Writers::connect(&served, 4);
        // Long values want room of page files, all want room of logs.
        for bytes in [20_000, 2000] {
            writers.write_until_full(&mut reader, bytes);
        }
        // In a block: it fails as a whole, whether its log was written early or at its end.
        let client = writers.client();
        for rows in [10, 3000] {
            let mut block = client.transaction().unwrap();
            let insert = format!(
                "insert into t select g, repeat(md5(g::text), 160) \
                 from generate_series(10000000, 10000000 + {rows}) g"
            );
            let done = block.batch_execute(&insert).and_then(|()| block.commit());
            let error = done.expect_err("there is no room");
            assert!(is_full(&error), "{error:?}");
        }
        assert_eq!(ids(&mut reader), writers.acknowledged);
        disk.give_back();
        writers.go_on(100);
        assert_eq!(ids(&mut reader), writers.acknowledged);
        checkpoint(&mut reader);
        writers.go_on(100);
        served.kill_and_check(&writers);
    });
}

/// A checkpoint is made, now or when one before it has given logs back.
fn checkpoint(client: &mut Client) {
    eventually("a checkpoint is made", || client.batch_execute("checkpoint").is_ok());
}

#[test]
fn checkpoints_are_abandoned_while_the_disk_is_full_and_published_then() {
    on_small_disk("checkpoints_are_abandoned_while_the_disk_is_full_and_published_then", |disk| {
        let settings = ["--checkpoint-interval", "200ms", "--checkpoint-wal", "0"];
        let mut served = Served::start(&disk.path.join("data"), &settings);
        let mut client = served.connect();
        client.batch_execute("create table big (id int primary key, v text, round int)").unwrap();
        client.batch_execute("create table t (id int primary key, v text)").unwrap();
        let load = "insert into big select g, repeat(md5(g::text), 60), 0 \
                    from generate_series(1, 5000) g";
        client.batch_execute(load).unwrap();
        // The load's logs go with the first that is published; until then room may be short.
        checkpoint(&mut client);
        disk.fill();
        let before = checkpoints(&mut client);
        let mut writers = Writers::connect(&served, 3);
        let (mut round, mut meanwhile) = (0, 0);
        eventually("a checkpoint is abandoned", || {
            // Every page changes; of each row 4 bytes are logged.
            let change = format!("update big set round = {}", round + 1);
            match client.batch_execute(&change) {
                Ok(()) => round += 1,
                Err(error) => assert!(is_full(&error), "{error:?}"),
            }
            checkpoints(&mut client).1 > before.1
        });
        let reason = checkpoints(&mut client).2.unwrap();
        assert!(reason.contains("no space left"), "{reason}");
        assert!(reason.contains("pages/") || reason.contains("MANIFEST"), "{reason}");
        let error = client.batch_execute("checkpoint").expect_err("there is no room");
        assert!(is_full(&error), "{error:?}");
        // As far as the log has room.
        for _ in 0..100 {
            meanwhile += u32::from(writers.write_one(20));
        }
        assert!(meanwhile > 0 || round > 0, "nothing went on");
        assert_eq!(ids(&mut client), writers.acknowledged);
        let published = checkpoints(&mut client).0;
        disk.give_back();
        writers.go_on(100);
        eventually("the next one is published", || checkpoints(&mut client).0 > published);
        checkpoint(&mut client);
        println!("{round} changes of everything and {meanwhile} small ones meanwhile; {reason}");
        drop(client);
        let told = served.kill_and_check(&writers);
        assert!(told.contains("atoll: checkpoint abandoned: "), "{told}");
        let mut client = served.connect();
        let odd = "select count(*) from big where v <> repeat(md5(id::text), 60) or round <> $1";
        assert_eq!(client.query_one(odd, &[&round]).unwrap().get::<_, i64>(0), 0);
        let row = client.query_one("select count(*) from big", &[]).unwrap();
        assert_eq!(row.get::<_, i64>(0), 5000);
    });
}

/// COPY of `rows` rows of `bytes`, in one transaction.
fn copy(client: &mut Client, rows: u32, bytes: usize) -> Result<u64, postgres::Error> {
    let mut copy = client.copy_in("copy loaded from stdin")?;
    let text = "z".repeat(bytes);
    for id in 0..rows {
        let line = format!("{id}\t{text}\n");
        // The reason of a failure comes at the end.
        if copy.write_all(line.as_bytes()).is_err() {
            break;
        }
    }
    copy.finish()
}

/// Rows of a load that must fail, and of one that must not.
const TOO_MANY: u32 = 60_000;
const ENOUGH: u32 = 6000;
const LOAD: &str =
    "insert into loaded select g, repeat('z', 1500) from generate_series(1, 60000) g";

const LOAD_TABLES: &str = "create table t (id int primary key, v text); \
                           create table loaded (id int primary key, v text)";

fn loaded(client: &mut Client) -> i64 {
    client.query_one("select count(*) from loaded", &[]).unwrap().get(0)
}

fn load_that_has_room(client: &mut Client) {
    eventually("a load that has room succeeds", || match copy(client, ENOUGH, 1500) {
        Ok(rows) => rows == u64::from(ENOUGH),
        Err(error) => {
            assert!(is_full(&error), "{error:?}");
            false
        }
    });
}

#[test]
fn a_load_that_fills_the_disk_leaves_nothing_and_succeeds_later() {
    on_small_disk("a_load_that_fills_the_disk_leaves_nothing_and_succeeds_later", |disk| {
        let settings = ["--checkpoint-interval", "300ms", "--checkpoint-wal", "8MB"];
        let mut served = Served::start(&disk.path.join("data"), &settings);
        let mut client = served.connect();
        client.batch_execute(LOAD_TABLES).unwrap();
        let mut writers = Writers::connect(&served, 2);
        (0..200).for_each(|_| assert!(writers.write_one(20)));
        for round in 0..2 {
            let error = copy(&mut client, TOO_MANY, 1500).expect_err("there is no room");
            assert!(is_full(&error), "round {round}: {error:?}");
            let error = client.batch_execute(LOAD).expect_err("there is no room");
            assert!(is_full(&error), "round {round}: {error:?}");
            assert_eq!(loaded(&mut client), 0);
            assert_eq!(ids(&mut client), writers.acknowledged);
        }
        disk.give_back();
        writers.go_on(100);
        // What the failed loads have logged goes.
        checkpoint(&mut client);
        load_that_has_room(&mut client);
        writers.go_on(100);
        assert_eq!(loaded(&mut client), i64::from(ENOUGH));
        served.kill_and_check(&writers);
        assert_eq!(loaded(&mut served.connect()), i64::from(ENOUGH));
    });
}

#[test]
fn a_load_larger_than_memory_that_fills_the_disk_leaves_nothing() {
    on_small_disk("a_load_larger_than_memory_that_fills_the_disk_leaves_nothing", |disk| {
        // Pages that do not fit the pool need room as well as logs, also while they are undone.
        let settings = ["--checkpoint-interval", "300ms", "--checkpoint-wal", "8MB"];
        let settings = [&settings[..], &["--buffer-pool", "8MB"]].concat();
        let mut served = Served::start(&disk.path.join("data"), &settings);
        let mut client = served.connect();
        client.batch_execute(LOAD_TABLES).unwrap();
        let mut writers = Writers::connect(&served, 2);
        (0..200).for_each(|_| assert!(writers.write_one(20)));
        for round in 0..4 {
            // So that the load gets as far as it can: when a checkpoint has room, logs have, too.
            let deadline = Instant::now() + Duration::from_secs(2);
            while !writers.write_one(20) && Instant::now() < deadline {}
            let began = Instant::now();
            let done = match round % 2 {
                0 => copy(&mut client, TOO_MANY, 1500).map(drop),
                _ => client.batch_execute(LOAD),
            };
            let error = done.expect_err("there is no room");
            let code = error.code().map(SqlState::code);
            println!("round {round}: {code:?}, {:?}", began.elapsed());
            // The log is full, or the pool is full of what cannot be written.
            assert!(matches!(code, Some("53100" | "53200")), "{error:?}");
            assert_eq!(loaded(&mut client), 0);
            assert_eq!(ids(&mut client), writers.acknowledged);
        }
        disk.give_back();
        writers.go_on(100);
        // What the failed loads have logged goes.
        checkpoint(&mut client);
        load_that_has_room(&mut client);
        served.kill_and_check(&writers);
        assert_eq!(loaded(&mut served.connect()), i64::from(ENOUGH));
    });
}

/// How many rows of `keyed` are there, by the table and by its index, with keys of that kind.
fn keyed(client: &mut Client, kind: &str) -> (i64, i64) {
    let rows = "select count(*) from keyed where kind = $1";
    let of_table = client.query_one(rows, &[&kind]).unwrap().get(0);
    let bounds = [format!("{kind}-"), format!("{kind}.")];
    let keys = "select count(*) from keyed where k >= $1 and k < $2";
    let of_index = client.query_one(keys, &[&bounds[0], &bounds[1]]).unwrap().get(0);
    (of_table, of_index)
}

#[test]
fn a_change_of_rows_and_keys_larger_than_memory_leaves_nothing() {
    on_small_disk("a_change_of_rows_and_keys_larger_than_memory_leaves_nothing", |disk| {
        // The leaves of table and index lie where a checkpoint has them, and neither fit the pool: for
        // those that are changed there is room for some elsewhere.
        let settings = ["--checkpoint-interval", "100ms", "--checkpoint-wal", "1MB"];
        let settings = [&settings[..], &["--buffer-pool", "3MB"]].concat();
        let mut served = Served::start(&disk.path.join("data"), &settings);
        let mut client = served.connect();
        client.batch_execute(KEYED).unwrap();
        let mut writers = Writers::connect(&served, 2);
        (0..50).for_each(|_| assert!(writers.write_one(20)));
        let key = |kind: &str| format!("'{kind}-' || repeat(md5(g::text), 6)");
        for from in (0..KEYS).step_by(1000) {
            let load = format!(
                "insert into keyed select {}, 'old', g from generate_series({from}, {from} + 999) g",
                key("old")
            );
            client.batch_execute(&load).unwrap();
        }
        checkpoint(&mut client);
        for (round, room) in [1 << 20, 3 << 20, 6 << 20].into_iter().enumerate() {
            disk.take_all_but(room);
            let began = Instant::now();
            let change = match round % 2 {
                0 => format!("update keyed set k = {}, kind = 'new'", key("new")),
                _ => "delete from keyed".to_owned(),
            };
            let mut block = client.transaction().unwrap();
            // In so small a pool it may go on for long before it fails.
            block.batch_execute("set local statement_timeout = '2s'").unwrap();
            let done = block.batch_execute(&change).and_then(|()| {
                block.batch_execute(&format!(
                    "insert into keyed select {}, 'more', g from generate_series(1, 100000) g",
                    key("more")
                ))
            });
            let error = done.expect_err("there is no room");
            drop(block);
            let code = error.code().map(SqlState::code);
            println!("round {round}: {code:?}, {:?}", began.elapsed());
            assert!(matches!(code, Some("53100" | "53200" | "57014")), "{error:?}");
            for kind in ["new", "more"] {
                assert_eq!(keyed(&mut client, kind), (0, 0));
            }
            assert_eq!(keyed(&mut client, "old"), (KEYS, KEYS));
            assert_eq!(ids(&mut client), writers.acknowledged);
            disk.give_back();
            writers.go_on(20);
            checkpoint(&mut client);
        }
        let change = format!("update keyed set k = {}, kind = 'new'", key("new"));
        eventually("a change that has room succeeds", || client.batch_execute(&change).is_ok());
        assert_eq!(keyed(&mut client, "old"), (0, 0));
        served.kill_and_check(&writers);
        assert_eq!(keyed(&mut served.connect(), "new"), (KEYS, KEYS));
    });
}

const KEYED: &str = "create table t (id int primary key, v text); \
                     create table keyed (k text primary key, kind text, g int)";
const KEYS: i64 = 6_000;

fn atoll(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_atoll")).args(arguments).output().unwrap()
}

#[track_caller]
fn succeeds(arguments: &[&str]) {
    let output = atoll(arguments);
    let told = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{arguments:?}: {told}");
}

/// What it says on standard error: one line.
#[track_caller]
fn fails(arguments: &[&str]) -> String {
    let output = atoll(arguments);
    let told = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(1), "{arguments:?}: {told}");
    assert!(output.stdout.is_empty());
    let lines = told.lines().filter(|line| !line.contains("NOTICE") && !line.contains('%'));
    assert_eq!(lines.count(), 1, "{told}");
    told
}

/// A database that was made elsewhere has exactly these rows.
fn holds(data: &str, acknowledged: &BTreeSet<i32>) {
    let mut served = Served::start(data.as_ref(), &[]);
    assert_eq!(ids(&mut served.connect()), *acknowledged);
    served.kill();
    served.check();
}

fn archiving(client: &mut Client) -> (bool, Option<String>) {
    let asked = "select newest = archived_checkpoint, archive_fails_because from atoll_checkpoints";
    let row = client.query_one(asked, &[]).unwrap();
    (row.get(0), row.get(1))
}

#[test]
fn logs_are_kept_while_the_archive_is_full_and_archived_then() {
    on_small_disk("logs_are_kept_while_the_archive_is_full_and_archived_then", |disk| {
        let elsewhere = tempfile::tempdir().unwrap();
        let place = |name: &str| elsewhere.path().join(name).to_str().unwrap().to_owned();
        let archive = disk.path.join("archive").to_str().unwrap().to_owned();
        let settings = ["--checkpoint-interval", "200ms", "--archive-directory", &archive];
        let mut served = Served::start(place("data").as_ref(), &settings);
        let mut client = served.connect();
        client.batch_execute("create table t (id int primary key, v text)").unwrap();
        let mut writers = Writers::connect(&served, 2);
        writers.go_on(50);
        let (backup, restored) = (place("backup"), place("restored"));
        succeeds(&["backup", &backup, "--url", &served.url()]);
        disk.take_all_but(12 << 20);
        let filled = writers.fill(|| archiving(&mut client).1.is_some(), 20_000);
        let reason = archiving(&mut client).1.unwrap();
        assert!(filled && reason.contains("no space left"), "{reason}");
        // Nobody waits for it.
        (0..200).for_each(|_| assert!(writers.write_one(20_000)));
        assert!(archiving(&mut client).1.is_some());
        // A restore takes what is whole in the archive, and nothing by half.
        let until_full = place("until_full");
        succeeds(&["restore", &backup, &until_full, "--archive", &archive]);
        let mut early = Served::start(until_full.as_ref(), &[]);
        let found = ids(&mut early.connect());
        assert!(found.is_subset(&writers.acknowledged) && found.len() >= 50);
        early.kill();
        disk.give_back();
        checkpoint(&mut client);
        eventually("the archive has everything", || {
            let (is_whole, failure) = archiving(&mut client);
            is_whole && failure.is_none()
        });
        drop(client);
        let told = served.kill_and_check(&writers);
        for line in ["logs are not archived, and are kept: ", "logs are archived again"] {
            assert!(told.contains(line), "{told}");
        }
        served.kill();
        // A restore changes nothing where it reads.
        disk.only_read();
        succeeds(&["restore", &backup, &restored, "--archive", &archive]);
        holds(&restored, &writers.acknowledged);
    });
}

#[test]
fn a_backup_that_fills_the_disk_is_gone_and_the_server_goes_on() {
    on_small_disk("a_backup_that_fills_the_disk_is_gone_and_the_server_goes_on", |disk| {
        let settings = ["--checkpoint-interval", "300ms", "--checkpoint-wal", "4MB"];
        let mut served = Served::start(&disk.path.join("data"), &settings);
        let mut client = served.connect();
        client.batch_execute("create table t (id int primary key, v text)").unwrap();
        let mut writers = Writers::connect(&served, 2);
        (0..250).for_each(|_| assert!(writers.write_one(20_000)));
        checkpoint(&mut client);
        let place = |name: &str| disk.path.join(name).to_str().unwrap().to_owned();
        let (backup, restored) = (place("backup"), place("restored"));
        // The same disk: what is copied takes the server's room, too, and gives it back.
        disk.take_all_but(4 << 20);
        for _ in 0..3 {
            let told = fails(&["backup", &backup, "--url", &served.url()]);
            assert!(told.contains("(53100)"), "{told}");
            assert!(!std::fs::exists(&backup).unwrap(), "half a backup is there");
            assert_eq!(ids(&mut client), writers.acknowledged);
        }
        eventually("the server goes on", || writers.write_one(20));
        disk.give_back();
        writers.go_on(100);
        succeeds(&["backup", &backup, "--url", &served.url()]);
        let backed_up = writers.acknowledged.clone();
        writers.go_on(100);
        // Restoring finds the disk full, too.
        disk.take_all_but(4 << 20);
        let told = fails(&["restore", &backup, &restored]);
        assert!(told.contains("no space left"), "{told}");
        assert!(!std::fs::exists(&restored).unwrap(), "half a database is there");
        disk.give_back();
        let elsewhere = tempfile::tempdir().unwrap();
        let restored = elsewhere.path().join("restored").to_str().unwrap().to_owned();
        succeeds(&["restore", &backup, &restored]);
        holds(&restored, &backed_up);
        drop(client);
        served.kill_and_check(&writers);
    });
}
