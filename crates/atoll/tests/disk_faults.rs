//! The real server on a disk that is full for a while, and on one that breaks (rules 7.8, 9.7).
#![allow(clippy::unwrap_used, reason = "tests")]

mod common;

use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use atoll_kernel::io::{IoChoice, RealDisk};
use atoll_kernel::sync::{AtomicBool, Ordering};
use atoll_server::SqlBackend;
use common::Scratch;
use common::embedded::Embedded;
use common::faulty::{Fault, FaultyDisk};
use postgres::error::SqlState;

fn eventually(what: &str, mut holds: impl FnMut() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(90);
    while !holds() {
        assert!(Instant::now() < deadline, "{what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

fn numbers(client: &mut postgres::Client) -> Vec<i32> {
    let rows = client.query("select id from t order by id", &[]).unwrap();
    rows.iter().map(|row| row.get(0)).collect()
}

#[test]
fn a_full_disk_fails_the_transaction_before_anything_is_visible_and_passes() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("data");
    let real = Arc::new(RealDisk::open(&data, IoChoice::Auto).unwrap());
    let (disk, switch) = FaultyDisk::new(real);
    let server = Embedded::serve::<SqlBackend>(disk);
    let mut writer = server.connect();
    let mut reader = server.connect();
    writer.batch_execute("create table t (id int primary key, v text)").unwrap();
    let mut committed = Vec::new();
    let mut next = 0;
    for round in 0..3 {
        switch.set(Fault::Full);
        // What the disk has room for already still goes; then each transaction fails alike.
        let mut refused = 0;
        while refused < 5 {
            next += 1;
            let insert = format!("insert into t values ({next}, repeat('x', 5000))");
            match writer.batch_execute(&insert) {
                Ok(()) => committed.push(next),
                Err(error) => {
                    assert_eq!(error.code(), Some(&SqlState::DISK_FULL), "{error}");
                    refused += 1;
                    // Before anything was visible: nobody sees it, nothing is locked.
                    assert_eq!(numbers(&mut reader), committed, "round {round}");
                }
            }
            assert!(committed.len() < 5000, "the disk is full at some time");
        }
        // In a block: the block fails, earlier commits stay, and reading goes on.
        let mut block = writer.transaction().unwrap();
        let error = block
            .batch_execute("insert into t select g, repeat('y', 5000) from generate_series(1000000, 1000400) g")
            .and_then(|()| block.commit())
            .unwrap_err();
        assert_eq!(error.code(), Some(&SqlState::DISK_FULL), "{error}");
        assert_eq!(numbers(&mut reader), committed);
        // Space returns: work goes on, in the same sessions.
        switch.set(Fault::Nothing);
        eventually("work goes on", || {
            next += 1;
            let insert = format!("insert into t values ({next}, 'back')");
            let done = writer.batch_execute(&insert);
            if done.is_ok() {
                committed.push(next);
            }
            done.is_ok()
        });
        assert_eq!(numbers(&mut reader), committed);
    }
    drop((writer, reader));
    server.close();
    // And what was committed is there after a start of the real program.
    let mut scratch = Scratch::without_server();
    scratch.folder = folder;
    scratch.start();
    assert_eq!(numbers(&mut scratch.connect()), committed);
}

/// Checkpoints published and abandoned, and why the last of these was.
fn checkpoints(client: &mut postgres::Client) -> (i64, i64, Option<String>) {
    let asked = "select published, abandoned, abandoned_because from atoll_checkpoints";
    let row = client.query_one(asked, &[]).unwrap();
    (row.get(0), row.get(1), row.get(2))
}

#[test]
fn a_checkpoint_that_finds_no_space_is_abandoned_and_the_next_one_is_published() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("data");
    let real = Arc::new(RealDisk::open(&data, IoChoice::Auto).unwrap());
    let (disk, switch) = FaultyDisk::new(real);
    let server = Embedded::serve_changed::<SqlBackend>(disk, |options| {
        options.checkpoint_interval_ms = 0;
        options.checkpoint_wal_bytes = 0;
    });
    let mut client = server.connect();
    let create = "create table t (id int primary key, v text, round int)";
    client.batch_execute(create).unwrap();
    // Page files have two extents and more from here on.
    let fill =
        "insert into t select g, repeat(md5(g::text), 60), 0 from generate_series(1, 6000) g";
    client.batch_execute(fill).unwrap();
    client.batch_execute("checkpoint").unwrap();
    let mut next = 6000;
    for (round, (fault, culprit)) in [
        (Fault::PagesFull, "pages/"),
        (Fault::PageWritesFull, "pages/"),
        (Fault::ManifestFull, "MANIFEST"),
    ]
    .into_iter()
    .enumerate()
    {
        let before = checkpoints(&mut client);
        // Every page changes, so at first, when no place is free, the file has to grow.
        let change = format!("update t set round = {}", round + 1);
        client.batch_execute(&change).unwrap();
        switch.set(fault);
        for _ in 0..3 {
            let error = client.batch_execute("checkpoint").expect_err(culprit);
            assert_eq!(error.code(), Some(&SqlState::DISK_FULL), "{error:?}");
            let message = error.as_db_error().unwrap().message().to_owned();
            assert!(message.contains(culprit), "{fault:?}: {message}");
        }
        let after = checkpoints(&mut client);
        assert_eq!((after.0, after.1), (before.0, before.1 + 3));
        assert!(after.2.as_ref().is_some_and(|reason| reason.contains(culprit)), "{after:?}");
        // Work goes on.
        for _ in 0..20 {
            next += 1;
            client.execute("insert into t values ($1, 'meanwhile', 0)", &[&next]).unwrap();
        }
        let count = client.query_one("select count(*) from t", &[]).unwrap();
        assert_eq!(count.get::<_, i64>(0), i64::from(next));
        // Space returns.
        switch.set(Fault::Nothing);
        client.batch_execute("checkpoint").unwrap();
        assert_eq!(checkpoints(&mut client).0, before.0 + 1);
    }
    drop(client);
    server.close();
    let mut scratch = Scratch::without_server();
    scratch.folder = folder;
    scratch.start();
    let mut client = scratch.connect();
    assert_eq!(numbers(&mut client), (1..=next).collect::<Vec<_>>());
    let row = client
        .query_one("select count(*) from t where round = 3 and v = repeat(md5(id::text), 60)", &[])
        .unwrap();
    assert_eq!(row.get::<_, i64>(0), 6000);
    let row = client.query_one("select newest from atoll_checkpoints", &[]).unwrap();
    assert_eq!(row.get::<_, i64>(0), 4);
}

#[test]
fn checkpoints_by_themselves_outlast_a_full_disk_under_load() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("data");
    let real = Arc::new(RealDisk::open(&data, IoChoice::Auto).unwrap());
    let (disk, switch) = FaultyDisk::new(real);
    let server = Embedded::serve_changed::<SqlBackend>(disk, |options| {
        options.buffer_pool_bytes = 512 << 20;
        options.checkpoint_interval_ms = 30;
        options.checkpoint_wal_bytes = 1 << 20;
    });
    let mut client = server.connect();
    client.batch_execute("create table t (id int primary key, v text)").unwrap();
    let ends = AtomicBool::new(false);
    let mut committed: Vec<i32> = std::thread::scope(|scope| {
        let writers: Vec<_> = (0..3)
            .map(|writer| {
                let (mut client, ends) = (server.connect(), &ends);
                scope.spawn(move || {
                    let mut committed = Vec::new();
                    for id in (writer..).step_by(3) {
                        if ends.load(Ordering::Relaxed) {
                            break;
                        }
                        let insert = format!("insert into t select {id}, repeat(md5('{id}'), 40)");
                        std::thread::sleep(Duration::from_millis(1));
                        match client.batch_execute(&insert) {
                            Ok(()) => committed.push(id),
                            Err(error) => {
                                assert_eq!(error.code(), Some(&SqlState::DISK_FULL), "{error}");
                            }
                        }
                    }
                    committed
                })
            })
            .collect();
        for fault in [Fault::PagesFull, Fault::Full, Fault::PageWritesFull, Fault::ManifestFull] {
            let before = checkpoints(&mut client);
            eventually("checkpoints are made", || checkpoints(&mut client).0 > before.0 + 1);
            switch.set(fault);
            eventually("a checkpoint is abandoned", || checkpoints(&mut client).1 > before.1);
            switch.set(Fault::Nothing);
            let before = checkpoints(&mut client);
            eventually("the next one is published", || checkpoints(&mut client).0 > before.0);
        }
        ends.store(true, Ordering::Relaxed);
        writers.into_iter().flat_map(|writer| writer.join().unwrap()).collect()
    });
    committed.sort_unstable();
    assert_eq!(numbers(&mut client), committed);
    drop(client);
    server.close();
    let mut scratch = Scratch::without_server();
    scratch.folder = folder;
    scratch.start();
    let mut client = scratch.connect();
    assert_eq!(numbers(&mut client), committed);
    let odd = "select count(*) from t where v <> repeat(md5(id::text), 40)";
    assert_eq!(client.query_one(odd, &[]).unwrap().get::<_, i64>(0), 0);
}

/// The child of the test below: the same server on a disk that breaks when a file appears.
#[test]
fn child_serves_on_a_disk_that_will_break() {
    let Some(folder) = std::env::var_os("ATOLL_TEST_BREAKING_DISK").map(PathBuf::from) else {
        return;
    };
    let real = Arc::new(RealDisk::open(&folder.join("data"), IoChoice::Auto).unwrap());
    let (disk, switch) = FaultyDisk::new(real);
    let server = Embedded::serve::<SqlBackend>(disk);
    println!("\nport {}", server.port);
    let deadline = Instant::now() + Duration::from_secs(60);
    while !folder.join("break").exists() {
        assert!(Instant::now() < deadline, "nobody broke the disk");
        std::thread::sleep(Duration::from_millis(2));
    }
    switch.set(Fault::WritesFail);
    std::thread::sleep(Duration::from_secs(30));
    panic!("the process goes on though its log has failed");
}

fn child(folder: &Path) -> (std::process::Child, u16) {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", "child_serves_on_a_disk_that_will_break", "--nocapture"]);
    command.env("ATOLL_TEST_BREAKING_DISK", folder);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let port = lines.find_map(|line| line.unwrap().strip_prefix("port ").map(str::to_owned));
    (child, port.unwrap().parse().unwrap())
}

#[test]
fn a_failed_log_write_ends_the_process_and_the_next_start_has_everything() {
    let folder = tempfile::tempdir().unwrap();
    let (mut child, port) = child(folder.path());
    let connect = move || {
        let config = format!("host=127.0.0.1 port={port} user=postgres dbname=postgres");
        postgres::Client::connect(&config, postgres::NoTls).unwrap()
    };
    connect().batch_execute("create table t (id int primary key)").unwrap();
    let writers: Vec<_> = (0..4)
        .map(|writer| {
            std::thread::spawn(move || {
                let mut client = connect();
                let mut acknowledged = Vec::new();
                for number in 0.. {
                    let id = writer * 1_000_000 + number;
                    match client.execute("insert into t values ($1)", &[&id]) {
                        Ok(_) => acknowledged.push(id),
                        // No answer: the session ended with its process.
                        Err(error) => {
                            assert!(
                                error.code().is_none_or(|code| code.code().starts_with("58")
                                    || code.code().starts_with("57")),
                                "{error}"
                            );
                            return acknowledged;
                        }
                    }
                }
                acknowledged
            })
        })
        .collect();
    std::thread::sleep(Duration::from_millis(400));
    std::fs::write(folder.path().join("break"), "").unwrap();
    let status = child.wait().unwrap();
    assert!(!status.success(), "{status}");
    let mut told = String::new();
    child.stderr.take().unwrap().read_to_string(&mut told).unwrap();
    assert!(told.contains("the log failed"), "{told}");
    assert!(told.contains("the next start recovers"), "{told}");
    assert!(!told.contains("goes on though"), "{told}");
    let mut acknowledged: Vec<i32> =
        writers.into_iter().flat_map(|writer| writer.join().unwrap()).collect();
    acknowledged.sort_unstable();
    assert!(acknowledged.len() > 20, "there was work: {}", acknowledged.len());
    let mut scratch = Scratch::without_server();
    scratch.folder = folder;
    scratch.start();
    let found = numbers(&mut scratch.connect());
    let lost: Vec<_> = acknowledged.iter().filter(|id| found.binary_search(id).is_err()).collect();
    assert!(lost.is_empty(), "acknowledged, and gone: {lost:?}");
    // At most what each session was waiting for is there besides.
    assert!(found.len() <= acknowledged.len() + 4, "{} {}", found.len(), acknowledged.len());
}
