//! The supervising parent: a crashed server comes back on the same address with everything in it,
//! nothing outlives its parent, and what cannot start is not started again and again.
#![allow(clippy::unwrap_used, reason = "tests")]

mod common;

use std::io::{BufRead, BufReader};
use std::process::Child;
use std::time::{Duration, Instant};

use common::{Running, atoll};
use rustix::process::{Pid, Signal, kill_process, test_kill_process};

/// The one child of `parent`: the server.
fn server_of(parent: &Child) -> Pid {
    let path = format!("/proc/{0}/task/{0}/children", parent.id());
    let children = std::fs::read_to_string(path).unwrap();
    let ids: Vec<i32> = children.split_whitespace().map(|id| id.parse().unwrap()).collect();
    assert_eq!(ids.len(), 1, "{children}");
    Pid::from_raw(ids[0]).unwrap()
}

fn connect(port: u16) -> Result<postgres::Client, postgres::Error> {
    let config = format!("host=127.0.0.1 port={port} user=postgres dbname=postgres");
    postgres::Client::connect(&config, postgres::NoTls)
}

fn connect_in_time(port: u16) -> postgres::Client {
    let start = Instant::now();
    loop {
        match connect(port) {
            Ok(client) => return client,
            Err(error) => assert!(start.elapsed() < Duration::from_secs(60), "{error}"),
        }
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn a_crashed_server_comes_back_where_it_was_and_says_why() {
    let folder = tempfile::tempdir().unwrap();
    let mut command = atoll(&folder.path().join("data"));
    command.args(["--listen", "127.0.0.1:0"]);
    let mut running = Running::start(command);
    let port = running.port();
    let mut told = BufReader::new(running.child.stderr.take().unwrap()).lines();
    connect(port).unwrap().batch_execute("CREATE TABLE t (a int)").unwrap();
    let mut before = server_of(&running.child);
    for (round, signal) in [(1_i64, Signal::KILL), (2, Signal::ABORT)] {
        let mut client = connect_in_time(port);
        client.execute("INSERT INTO t VALUES (1)", &[]).unwrap();
        kill_process(before, signal).unwrap();
        let why = told.find(|line| line.as_ref().unwrap().contains("starting it again")).unwrap();
        let number = signal.as_raw();
        assert!(why.as_ref().unwrap().contains(&format!("signal {number} (SIG")), "{why:?}");
        assert!(client.execute("SELECT 1", &[]).is_err(), "a session does not outlive its server");
        let mut client = connect_in_time(port);
        let count: i64 = client.query_one("SELECT count(*) FROM t", &[]).unwrap().get(0);
        assert_eq!(count, round);
        let after = server_of(&running.child);
        assert_ne!(before, after);
        before = after;
    }
    running.terminate();
    assert!(test_kill_process(before).is_err(), "a stopped parent leaves no server");
}

#[test]
fn a_server_ends_with_its_killed_parent_and_the_directory_is_free() {
    let folder = tempfile::tempdir().unwrap();
    for _ in 0..3 {
        let mut command = atoll(&folder.path().join("data"));
        command.args(["--listen", "127.0.0.1:0"]);
        let mut running = Running::start(command);
        running.child.kill().unwrap();
        running.child.wait().unwrap();
    }
}

#[test]
fn what_cannot_start_is_told_once() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("something.txt"), "not ours").unwrap();
    let mut command = atoll(folder.path());
    command.args(["--listen", "127.0.0.1:0"]);
    let output = command.output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    let told = String::from_utf8(output.stderr).unwrap();
    assert_eq!(told.matches("something.txt").count(), 1, "{told}");
    assert!(!told.contains("again"), "{told}");
}
