//! The workloads of `atoll bench` over the wire, tiny, against the real server; and what the
//! program says when it cannot run one.
#![allow(clippy::unwrap_used, reason = "tests")]

mod common;

use std::process::{Command, Output};

use atoll_bench::arrivals::Rate;
use atoll_bench::choice::Choice;
use atoll_bench::orders::Orders;
use atoll_bench::report::Report;
use atoll_bench::setting::{Durability, Isolation, Server, Setting};
use atoll_bench::smallbank::SmallBank;
use atoll_bench::tatp::{self, Tatp};
use atoll_bench::wire::{Wire, connect_to, run};
use atoll_bench::workload::Workload;
use atoll_bench::ycsb::{KeyForm, Kind, Mix, Settings, Ycsb};
use common::{Scratch, atoll_with_pool};

fn setting(isolation: Isolation, durability: Durability) -> Setting {
    let (clients, seconds, warmup_seconds) = (4, 1, 0);
    Setting { clients, seconds, warmup_seconds, isolation, durability, rate: None, seed: 5 }
}

fn server(scratch: &Scratch) -> Server {
    let url = format!("postgres://postgres@127.0.0.1:{}/postgres", scratch.port());
    Server { url, pid: Some(scratch.server.as_ref().unwrap().child.id()) }
}

/// One run, closed loop: everything that was counted has a latency.
fn tried<W: Wire>(scratch: &Scratch, workload: &W, isolation: Isolation) -> Report {
    let setting = setting(isolation, Durability::Commit);
    let report = run(workload, &setting, &server(scratch), &mut |_| ()).unwrap();
    let counts = report.driven.counts;
    assert!(counts.transactions() > 0, "{report}");
    assert_eq!(report.driven.latencies.count(), counts.transactions(), "{report}");
    let json = report.json();
    assert_eq!(json["loop"], "closed");
    assert!(json["server_cpu_us_per_txn"].is_number() && json["tps"].is_number(), "{json}");
    report
}

fn ycsb(mix: Mix, choice: Choice, key: KeyForm, operations: u32) -> Ycsb {
    Ycsb::new(Settings { records: 500, key, mix, choice, operations }).unwrap()
}

fn of_letter(letter: char) -> Mix {
    Mix::of_letter(letter).unwrap()
}

#[test]
fn ycsb_runs_over_the_wire() {
    let scratch = Scratch::new();
    let number = KeyForm::Number;
    let first = ycsb(of_letter('a'), Choice::Zipfian, number, 1);
    let report = tried(&scratch, &first, Isolation::ReadCommitted);
    assert_eq!(report.loaded.rows, 500);
    let (mut rows, latest) = (500, ycsb(of_letter('d'), Choice::Latest, number, 1));
    for workload in [
        latest,
        ycsb(of_letter('e'), Choice::Uniform, number, 1),
        ycsb(of_letter('f'), Choice::Hotspot { keys: 0.01, operations: 0.99 }, number, 1),
        ycsb("20/80".parse().unwrap(), Choice::Zipfian, number, 4),
    ] {
        let report = tried(&scratch, &workload, Isolation::RepeatableRead);
        rows += report.driven.counts.done[Kind::Insert as usize];
        assert_eq!((report.loaded.rows, report.checked.0.rows), (0, rows), "{report}");
    }
    // Any client sees the same table.
    let mut client = connect_to(&server(&scratch).url).unwrap();
    let count: i64 = client.query_one("select count(*) from usertable", &[]).unwrap().get(0);
    assert_eq!(count.cast_unsigned(), rows);
    let refused = run(
        &ycsb(of_letter('c'), Choice::Uniform, KeyForm::Text, 1),
        &setting(Isolation::ReadCommitted, Durability::Commit),
        &server(&scratch),
        &mut |_| (),
    );
    assert!(refused.err().unwrap().contains("another --key"));
    client.batch_execute("drop table usertable").unwrap();
    let text = ycsb(of_letter('e'), Choice::Zipfian, KeyForm::Text, 1);
    assert_eq!(tried(&scratch, &text, Isolation::ReadCommitted).loaded.rows, 500);
}

/// Open loop: what arrives is done, however slowly, and waits count from the arrival.
#[test]
fn arrivals_are_not_omitted() {
    let scratch = Scratch::new();
    let workload = ycsb(of_letter('b'), Choice::Uniform, KeyForm::Number, 1);
    let setting = Setting { clients: 1, ..setting(Isolation::ReadCommitted, Durability::Relaxed) };
    let at = |rate| {
        let setting = Setting { rate: Some(Rate::new(rate).unwrap()), ..setting.clone() };
        run(&workload, &setting, &server(&scratch), &mut |_| ()).unwrap()
    };
    let report = at(40.0);
    assert_eq!(report.driven.counts.transactions(), 40, "{report}");
    assert_eq!((&report.json()["loop"], report.driven.unserved), (&"open".into(), 0));
    // Far more than one connection can do: the queue grows all the time, so half of those that
    // were served have waited for half of the run, though the server was as quick as before.
    let report = at(5_000_000.0);
    let counts = report.driven.counts.transactions();
    assert!(report.driven.latencies.percentile_us(50.0) > 500_000, "{report}");
    assert_eq!(report.driven.unserved, 5_000_000 - counts, "{report}");
}

/// A server that goes away in the middle of a load, or of a run, ends it with a line.
#[test]
fn a_server_that_goes_away_ends_the_run() {
    for (customers, until) in [(50_000_000, "loading about"), (100, "transactions a second")] {
        let mut scratch = Scratch::new();
        let server = server(&scratch);
        let setting =
            Setting { seconds: 600, ..setting(Isolation::ReadCommitted, Durability::Commit) };
        let (sender, receiver) = std::sync::mpsc::channel();
        let running = std::thread::spawn(move || {
            let bank = SmallBank::new(customers, Choice::Uniform).unwrap();
            run(&bank, &setting, &server, &mut |line| {
                // Nobody listens any more after the line that is waited for.
                let _ = sender.send(line.to_owned());
            })
        });
        let has_come = receiver.iter().any(|line| line.contains(until));
        scratch.kill();
        let error = running.join().unwrap().err().unwrap();
        assert!(has_come, "it ended before: {error}");
        assert!(!error.is_empty() && error.lines().count() == 1, "{error}");
    }
}

fn bench(arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_atoll"));
    command.arg("bench").args(arguments).output().unwrap()
}

/// Fails with one line that says what the matter is.
fn fails(arguments: &[&str], expect: &str) {
    let output = bench(arguments);
    let text = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success() && output.stdout.is_empty(), "{arguments:?}: {text}");
    let said: Vec<&str> = text.lines().filter(|line| !line.starts_with('*')).collect();
    assert!(said.first().is_some_and(|line| line.contains(expect)), "{arguments:?}: {text}");
}

#[test]
fn what_cannot_run_is_said_in_a_line() {
    fails(&["ycsb", "--workload", "g"], "a letter from a to f");
    fails(&["ycsb", "--mix", "95/6"], "sum to 100");
    fails(&["ycsb", "--access", "hotspot:2/1"], "shares between 0");
    fails(&["ycsb", "--records", "0"], "0 is not in 1..");
    fails(&["ycsb", "--clients", "0"], "0 is not in 1..");
    fails(&["tpcc", "--mix", "delivery"], "invalid value");
    let nobody = "postgres://postgres@127.0.0.1:1/postgres";
    fails(&["ycsb", "--url", nobody], "cannot connect");
    for rate in ["0", "-5", "nan", "inf", "1e-9", "1e12", "many"] {
        let expect = "the rate must be from 0.001 to 10000000 a second";
        fails(&["ycsb", "--url", nobody, &format!("--rate={rate}")], expect);
        fails(&["orders", &format!("--rate={rate}")], expect);
        fails(&["tpcb", &format!("--rate={rate}")], expect);
    }
    fails(&["ycsb", "--buffer-pool", "1"], "a larger --buffer-pool");
    let used = tempfile::tempdir().unwrap();
    std::fs::write(used.path().join("a file"), "").unwrap();
    fails(&["ycsb", "--data", used.path().to_str().unwrap()], "is not empty");
}

#[test]
fn a_native_run_prints_one_json_object() {
    let arguments = ["ycsb", "--records", "1000", "--clients", "4", "--seconds", "1", "--json"];
    let output = bench(&arguments);
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let json: serde_json::Value = serde_json::from_str(&text).unwrap();
    for field in [
        "tps",
        "aborts",
        "log_bytes_per_txn",
        "flushes_per_second",
        "txns_per_flush",
        "instances",
        "durability",
    ] {
        assert!(!json[field].is_null(), "no {field} in {json}");
    }
    for percentile in ["p50", "p95", "p99", "p999", "max"] {
        assert!(json["latency_us"][percentile].as_u64().unwrap() > 0, "{json}");
    }
}

#[test]
fn smallbank_runs_over_the_wire() {
    let scratch = Scratch::new();
    let bank = SmallBank::new(100, Choice::Hotspot { keys: 0.1, operations: 0.9 }).unwrap();
    for isolation in [Isolation::ReadCommitted, Isolation::RepeatableRead] {
        let report = tried(&scratch, &bank, isolation);
        assert!(report.checked.0.what.contains("the sum of all money is right"), "{report}");
        assert!(report.driven.counts.done[..5].iter().all(|count| *count > 0), "{report}");
    }
    // What the check is worth: the sum is asked again after another client has paid.
    let mut client = connect_to(&server(&scratch).url).unwrap();
    let before = bank.before(&mut client).unwrap();
    client.batch_execute("update savings set balance = balance + 1 where custid = 9").unwrap();
    assert!(bank.judge(&mut client, &before, &0).is_err());
    assert!(bank.judge(&mut client, &before, &1).is_ok());
}

#[test]
fn tatp_runs_over_the_wire() {
    let scratch = Scratch::new();
    let tatp = Tatp::new(1000, tatp::Choice::Uniform).unwrap();
    let report = tried(&scratch, &tatp, Isolation::ReadCommitted);
    assert!(report.checked.0.what.contains("every row's subscriber"), "{report}");
    let (counts, kinds) = (report.driven.counts, tatp::Kind::ALL);
    for kind in kinds {
        let (done, failed) = (counts.done[kind as usize], counts.failed[kind as usize]);
        assert!(done > 0, "no {}: {report}", kind.name());
        let share = failed as f64 * 100.0 / done as f64;
        let may = if kind.fails() == 0.0 { 0.0 } else { 6.0 + 300.0 / (done as f64).sqrt() };
        let (least, most) = kind.fails_between();
        let fits = (least - may..=most + may).contains(&share);
        assert!(fits, "{}: {share}: {report}", kind.name());
    }
    // A second run finds the tables as the first has left them.
    assert_eq!(tried(&scratch, &tatp, Isolation::RepeatableRead).loaded.rows, 0);
}

#[test]
fn orders_run_over_the_wire() {
    let mut scratch = Scratch::without_server();
    // Rows of 2 KB come as fast as they can.
    let mut command = atoll_with_pool(&scratch.data(), "1GB");
    command.args(["--listen", "127.0.0.1:0"]);
    scratch.start_with(command);
    let hot = Choice::Hotspot { keys: 0.1, operations: 0.9 };
    let mut rows = 10;
    for batch in [10, 1] {
        let orders = Orders::new(10, hot, batch).unwrap();
        let report = tried(&scratch, &orders, Isolation::ReadCommitted);
        rows += report.driven.counts.transactions() * u64::from(batch);
        assert_eq!(report.checked.0.rows, rows, "{report}");
    }
}
