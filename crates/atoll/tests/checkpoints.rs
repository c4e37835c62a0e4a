//! Checkpoints of a server: asked for, by themselves, their settings, what is said of them.
#![allow(clippy::unwrap_used, reason = "tests")]

mod common;

use std::io::Read;
use std::path::Path;
use std::process::Command;

use common::{Scratch, atoll};

fn serve(data: &Path, interval: &str) -> Command {
    let mut command = atoll(data);
    command.args(["--listen", "127.0.0.1:0", "--checkpoint-wal", "0", "--log-segment", "4MB"]);
    command.args(["--checkpoint-interval", interval]);
    command
}

/// Ends the server; what it said on standard error.
fn ended(scratch: &mut Scratch) -> String {
    let mut server = scratch.server.take().unwrap();
    let mut stderr = server.child.stderr.take().unwrap();
    server.terminate();
    let mut told = String::new();
    stderr.read_to_string(&mut told).unwrap();
    told
}

/// The commits that the line about replay tells of.
fn replayed(told: &str) -> u64 {
    let line = told.lines().find_map(|line| line.strip_prefix("atoll: replayed "));
    line.and_then(|rest| rest.split_once(" commits")?.0.parse().ok())
        .unwrap_or_else(|| panic!("nothing about replay in: {told}"))
}

#[test]
fn a_restart_after_checkpoint_replays_what_came_later() {
    let mut scratch = Scratch::without_server();
    scratch.start_with(serve(&scratch.data(), "0"));
    let mut client = scratch.connect();
    client.batch_execute("create table t (a int primary key, b text)").unwrap();
    for at in 0..200 {
        client.execute("insert into t values ($1, repeat('x', 50))", &[&at]).unwrap();
    }
    client.batch_execute("begin; delete from t where a < 100; checkpoint; rollback").unwrap();
    let row = client.query_one("select newest, by_request from atoll_checkpoints", &[]).unwrap();
    assert_eq!((row.get::<_, i64>(0), row.get::<_, i64>(1)), (1, 1));
    for at in 200..205 {
        client.execute("insert into t values ($1, 'later')", &[&at]).unwrap();
    }
    drop(client);
    scratch.kill();
    assert!(scratch.data().join("pages/0000.pages").is_file());

    // Offline.
    let mut check = Command::new(env!("CARGO_BIN_EXE_atoll"));
    let checked = check.arg("check").arg(scratch.data()).output().unwrap();
    let told = String::from_utf8_lossy(&checked.stdout).into_owned();
    assert!(checked.status.success(), "{told}");
    assert!(told.contains("loaded checkpoint 1: ") && told.contains("nothing is wrong"), "{told}");

    scratch.start_with(serve(&scratch.data(), "0"));
    let mut client = scratch.connect();
    let row = client.query_one("select count(*), max(b) from t", &[]).unwrap();
    assert_eq!(row.get::<_, i64>(0), 205);
    assert!(row.get::<_, String>(1).starts_with("xxx"));
    assert_eq!(scratch.succeeds("psql", &["-Atc", "checkpoint"]).trim(), "CHECKPOINT");
    drop(client);
    let told = ended(&mut scratch);
    assert!(told.contains("atoll: loaded checkpoint 1: "), "{told}");
    assert!((5..50).contains(&replayed(&told)), "{told}");
    let line = told.lines().find(|line| line.starts_with("atoll: checkpoint 2 published: "));
    let line = line.unwrap_or_else(|| panic!("no line about checkpoint 2: {told}"));
    assert!(line.contains(" pages written in ") && line.ends_with(" ms (asked for)"), "{line}");
}

#[test]
fn one_is_made_when_the_interval_has_passed() {
    let mut scratch = Scratch::without_server();
    scratch.start_with(serve(&scratch.data(), "100ms"));
    let mut client = scratch.connect();
    client.batch_execute("create table t (a int primary key)").unwrap();
    let shown: String = client.query_one("show checkpoint_interval", &[]).unwrap().get(0);
    assert_eq!(shown, "100ms");
    // It comes by itself; the harness ends a test that waits for ever.
    for at in 0.. {
        client.execute("insert into t values ($1)", &[&at]).unwrap();
        let row = client.query_one("select by_interval from atoll_checkpoints", &[]).unwrap();
        if row.get::<_, i64>(0) >= 2 {
            break;
        }
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
    let row = client
        .query_one("select checkpoints_timed >= 2, checkpoints_req from pg_stat_bgwriter", &[])
        .unwrap();
    assert_eq!((row.get::<_, bool>(0), row.get::<_, i64>(1)), (true, 0));
    drop(client);
    let told = ended(&mut scratch);
    assert!(told.contains("atoll: checkpoint 1 published: "), "{told}");
    assert!(told.contains(" ms (checkpoint_interval)"), "{told}");
}

#[test]
fn wrong_settings_of_checkpoints_are_named() {
    let folder = tempfile::tempdir().unwrap();
    let fails = |mut command: Command| {
        let output = command.output().unwrap();
        assert!(!output.status.success());
        String::from_utf8(output.stderr).unwrap()
    };
    let mut flag = atoll(folder.path());
    flag.args(["--checkpoint-interval", "60"]);
    let told = fails(flag);
    assert!(told.contains("--checkpoint-interval: checkpoint_interval = \"60\": a time"), "{told}");
    let mut variable = atoll(folder.path());
    variable.env("ATOLL_CHECKPOINT_WAL", "1kB");
    let told = fails(variable);
    assert!(told.contains("ATOLL_CHECKPOINT_WAL: checkpoint_wal = \"1kB\": a size"), "{told}");
    let file = "checkpoint_interval = \"soon\"\n";
    std::fs::write(folder.path().join("atoll.toml"), file).unwrap();
    let told = fails(atoll(folder.path()));
    assert!(told.contains("atoll.toml: checkpoint_interval = \"soon\""), "{told}");
}
