//! The workloads of `atoll bench` over the wire, tiny, against the real server; and what the
//! program says when it cannot run one, or is interrupted.
#![allow(clippy::unwrap_used, reason = "tests")]

mod common;

use std::io::{BufRead, BufReader, Lines};
use std::path::Path;
use std::process::{Child, ChildStderr, Command, Stdio};

use atoll_bench::arrivals::Rate;
use atoll_bench::choice::Choice;
use atoll_bench::orders::Orders;
use atoll_bench::report::Report;
use atoll_bench::setting::{Calls, Durability, Isolation, Server, Setting};
use atoll_bench::smallbank::SmallBank;
use atoll_bench::tatp::{self, Tatp};
use atoll_bench::wire::{Wire, connect_to, run};
use atoll_bench::workload::Workload;
use atoll_bench::ycsb::{KeyForm, Kind, Mix, Settings, Ycsb};
use common::bench::{bench, fails};
use common::stranger::Stranger;
use common::{Scratch, atoll_with_pool};
use rustix::process::{Pid, Signal, kill_process};

/// A server that is never reached.
const NOBODY: &str = "postgres://postgres@127.0.0.1:1/postgres";

fn setting(isolation: Isolation, durability: Durability) -> Setting {
    Setting {
        clients: 4,
        seconds: 1,
        warmup_seconds: 0,
        isolation,
        durability,
        calls: Calls::Inside,
        rate: None,
        seed: 5,
    }
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
        ycsb("read-modify-write".parse().unwrap(), Choice::Zipfian, number, 2),
        ycsb("insert".parse().unwrap(), Choice::Uniform, number, 1),
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

#[test]
fn what_cannot_run_is_said_in_a_line() {
    fails(&["ycsb", "--workload", "g"], "a letter from a to f");
    fails(&["ycsb", "--mix", "95/6"], "sum to 100");
    fails(&["ycsb", "--access", "hotspot:2/1"], "shares between 0");
    fails(&["ycsb", "--records", "0"], "0 is not in 1..");
    fails(&["ycsb", "--clients", "0"], "0 is not in 1..");
    fails(&["tpcc", "--mix", "delivery"], "invalid value");
    fails(&["ycsb", "--url", NOBODY], "cannot connect");
    for rate in ["0", "-5", "nan", "inf", "1e-9", "1e12", "many"] {
        let expect = "the rate must be from 0.001 to 10000000 a second";
        fails(&["ycsb", "--url", NOBODY, &format!("--rate={rate}")], expect);
        fails(&["orders", &format!("--rate={rate}")], expect);
        fails(&["tpcb", &format!("--rate={rate}")], expect);
    }
    fails(&["ycsb", "--buffer-pool", "1"], "a larger --buffer-pool");
    let used = tempfile::tempdir().unwrap();
    std::fs::write(used.path().join("a file"), "").unwrap();
    fails(&["ycsb", "--data", used.path().to_str().unwrap()], "is not empty");
}

#[test]
fn options_out_of_range_are_said_in_a_line() {
    let huge = "18446744073709551615";
    for (benchmark, option, most) in [
        ("tpcb", "--scale", "21474"),
        ("tpcb", "--clients", "100000"),
        ("tpcb", "--seconds", "1000000"),
        ("insert", "--clients", "10000"),
        ("insert", "--seconds", "1000000"),
        ("insert", "--commit-every", "1000000"),
        ("insert", "--rows-max", "1000000000000"),
    ] {
        for value in ["0", huge] {
            let expect = format!("{value} is not in 1..={most}");
            fails(&[benchmark, &format!("{option}={value}")], &expect);
        }
    }
    fails(&["tpcb", "--scale", "21475"], "21475 is not in 1..=21474");
    fails(&["tpcb", "--warmup", huge], "is not in 0..=1000000");
    fails(&["recovery", "--data", "/nowhere", "--scale", huge], "is not in 1..=21474");
    fails(&["insert", "--rows-max", "100"], "fewer --clients");
    // More than any machine has.
    fails(&["tpcb", "--scale", "21474", "--seconds", "1000000"], "GiB");
    let rows = ["insert", "--seconds", "1000000", "--rows-max", "1000000000000"];
    fails(&rows, "a smaller --rows-max");
    let folder = tempfile::tempdir().unwrap();
    for option in ["--bench-seconds", "--bench-clients"] {
        for value in ["0", huge] {
            let mut command = Command::new(env!("CARGO_BIN_EXE_atoll"));
            command.args(["serve", "--bench", "tpcc", &format!("{option}={value}"), "--data"]);
            let output = command.arg(folder.path().join("data")).output().unwrap();
            let said = String::from_utf8_lossy(&output.stderr);
            let is_said = said.contains(&format!("{value} is not in 1..="));
            assert!(!output.status.success() && is_said, "{option}: {said}");
        }
    }
    assert_eq!(folder.path().read_dir().unwrap().count(), 0);
}

/// A server that has no instances is told so, and asked for nothing else.
#[test]
fn a_server_without_affinity_is_refused() {
    for told in ["table", "hint"] {
        let stranger = Stranger::start();
        let url = format!("postgres://postgres@127.0.0.1:{}/postgres", stranger.port);
        fails(&["tpcc", "--url", &url, "--affinity", told], "it is not Atoll");
        let asked = stranger.asked();
        assert!(asked.iter().all(|text| text.contains("pg_settings")), "{asked:?}");
    }
}

/// What would change nothing is not accepted.
#[test]
fn options_of_another_way_to_run_are_said_in_a_line() {
    for workload in ["tpcc", "ycsb", "smallbank", "tatp", "orders"] {
        fails(&[workload, "--url", NOBODY, "--ledger"], "cannot be used with");
    }
    fails(&["connections", "--url", NOBODY, "--ledger"], "unexpected argument '--ledger'");
    fails(&["sync", "--ledger"], "unexpected argument '--ledger'");
    fails(&["tpcc", "--url", NOBODY, "--affinity", "home"], "is of native runs");
    for told in ["table", "hint"] {
        fails(&["tpcc", "--affinity", told], "is of runs over the wire");
    }
    for calls in ["routed", "anywhere"] {
        fails(&["tpcc", "--calls", calls, "--affinity", "home"], "leave --affinity out");
        fails(&["ycsb", "--url", NOBODY, "--calls", calls], "cannot be used with");
    }
    fails(&["tpcc", "--acknowledged", "file"], "required arguments");
    fails(&["tpcc", "--verify", "file"], "required arguments");
    fails(&["ycsb", "--url", NOBODY, "--acknowledged", "file"], "unexpected argument");
    for [option, value] in [["--seconds", "1"], ["--acknowledged", "other"], ["--seed", "2"]] {
        let verify = ["tpcc", "--url", NOBODY, "--verify", "file", option, value];
        fails(&verify, "cannot be used with");
    }
    let relaxed = ["tpcc", "--url", NOBODY, "--acknowledged", "file", "--durability", "relaxed"];
    fails(&relaxed, "a relaxed commit promises nothing");
    fails(&["tpcc", "--url", NOBODY, "--verify", "file"], "cannot connect");
    fails(&["ycsb", "--mix", "insert", "--access", "uniform"], "leave --access out");
    let nobody = ["ycsb", "--url", NOBODY, "--server-pid", "4294967295"];
    fails(&nobody, "no processor time of process 4294967295");
}

/// What is of one run is not asked of several, and pictures are refused before anything runs.
#[test]
fn sweeps_and_pictures_that_cannot_be_are_said_in_a_line() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    fails(&["ycsb", "--clients", "8,0"], "0 is not in 1..");
    fails(&["ycsb", "--clients", "8,"], "invalid value");
    fails(&["ycsb", "--clients", "8,16,8"], "named twice");
    fails(&["tpcb", "--clients", "8,8"], "named twice");
    fails(&["ycsb", "--rounds", "0"], "0 is not in 1..");
    fails(&["insert", "--clients", "8,16"], "invalid value");
    for several in [["--clients", "8,16"], ["--rounds", "2"]] {
        for benchmark in ["ycsb", "tpcb"] {
            let (name, data) = ([benchmark], path("data"));
            let data = [&name, &several[..], &["--data", &data]].concat();
            fails(&data, "--data is of one run");
        }
        let recorded = ["tpcc", "--url", NOBODY, "--acknowledged", &path("record")];
        fails(&[&recorded, &several[..]].concat(), "--acknowledged is of one run");
        let picture = ["ycsb", "--output", &path("a.svg")];
        fails(&[&picture, &several[..]].concat(), "--output is of one run");
    }
    fails(&["ycsb", "--output", &path("benchmarks.md")], "name ends in .svg");
    fails(&["ycsb", "--output", &path("no/such.svg")], "its folder is not there");
    fails(&["ycsb", "--seconds", "2", "--output", &path("a.svg")], "--seconds 3 or more");
    fails(&["ycsb", "--url", NOBODY, "--output", &path("a.svg")], "--server-pid, too");
    let connections = ["connections", "--url", NOBODY, "--counts"];
    fails(&[&connections[..], &["16,64,16"]].concat(), "named twice");
    assert_eq!(folder.path().read_dir().unwrap().count(), 0);
}

#[test]
fn numbers_of_clients_are_set_beside_each_other() {
    let temporary = tempfile::tempdir().unwrap();
    for benchmark in [&["tpcb"][..], &["smallbank", "--customers", "1000"]] {
        let mut command = Command::new(env!("CARGO_BIN_EXE_atoll"));
        command.arg("bench").args(benchmark).env("TMPDIR", temporary.path());
        command.args(["--clients", "2,4", "--rounds", "2", "--seconds", "1", "--instances", "2"]);
        let output = command.output().unwrap();
        let text = String::from_utf8(output.stdout).unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        assert!(text.contains("\n| 2 | ") && text.contains("\n| 4 | "), "{text}");
        assert!(text.contains("| processor (us) | conflicts |"), "{text}");
        assert!(text.contains("The least by the most of these numbers of clients: "), "{text}");
        assert_eq!(temporary.path().read_dir().unwrap().count(), 0);
    }

    // Over the wire a client is a connection; more than there are places for run, too.
    let scratch = Scratch::new();
    let server = server(&scratch);
    let pid = server.pid.unwrap().to_string();
    let arguments =
        ["smallbank", "--customers", "1000", "--url", &server.url, "--server-pid", &pid];
    let sizes = ["--clients", "4,400", "--rounds", "1", "--seconds", "1", "--json"];
    let output = bench(&[&arguments[..], &sizes].concat());
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let json: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(json["benchmark"], "smallbank over the wire by clients");
    for (at, clients) in [4, 400].into_iter().enumerate() {
        let result = &json["results"][at];
        assert_eq!(
            (&result["clients"], &result["runs"][0]["clients"]),
            (&clients.into(), &clients.into())
        );
        for figure in ["/tps/median", "/latency_us/p99", "/server_cpu_us_per_txn/median"] {
            assert!(result.pointer(figure).unwrap().as_f64() > Some(0.0), "{figure}: {result}");
        }
    }
    assert!(json["least_by_most"]["median"].as_f64() <= Some(1.0), "{json}");
}

#[test]
fn memory_is_told_by_second_and_drawn() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let drawn = |arguments: &[&str], picture: &str| {
        let seconds = ["--customers", "1000", "--clients", "4", "--seconds", "3", "--json"];
        let place = path(picture);
        let all = [&["smallbank"], arguments, &seconds, &["--output", &place]].concat();
        let output = bench(&all);
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let text = std::fs::read_to_string(path(picture)).unwrap();
        assert!(text.ends_with("</svg>\n"), "{text}");
        let json: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
        let seconds = json["memory"]["seconds"].as_array().unwrap().len();
        assert!((2..=4).contains(&seconds), "{json}");
        (text, json["memory"].clone())
    };
    let (picture, memory) = drawn(&[], "native.svg");
    assert!(picture.contains("pages in the pool") && picture.contains("old versions"));
    for column in ["resident_bytes", "anonymous_bytes", "pool_bytes", "undo_bytes"] {
        assert!(memory[column][1].as_u64() > Some(1 << 16), "{column}: {memory}");
    }
    let scratch = Scratch::new();
    let server = server(&scratch);
    let pid = server.pid.unwrap().to_string();
    let wire = ["--url", &server.url, "--server-pid", &pid];
    let (picture, memory) = drawn(&wire, "server.svg");
    assert!(picture.contains("Memory of a server") && !picture.contains("old versions"));
    assert!(memory["resident_bytes"][1].as_u64() > Some(1 << 20), "{memory}");
    assert_eq!(folder.path().read_dir().unwrap().count(), 2);
}

#[test]
fn only_what_a_run_has_left_is_recovered() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    fails(&["recovery", "--data", &path("wrong")], "there is no such directory");
    assert!(!Path::new(&path("wrong")).exists());
    std::fs::create_dir(path("empty")).unwrap();
    fails(&["recovery", "--data", &path("empty")], "there is no database here");
    assert_eq!(Path::new(&path("empty")).read_dir().unwrap().count(), 0);
    let short = ["--clients", "2", "--seconds", "1", "--instances", "2", "--data"];
    let left = |benchmark: &[&str], data: &str| {
        let output = bench(&[benchmark, &short, &[data]].concat());
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    };
    left(&["smallbank", "--customers", "100"], &path("other"));
    fails(&["recovery", "--data", &path("other")], "there is no table accounts");
    let without = ["recovery", "--warehouses", "1", "--data", &path("other")];
    fails(&without, "there is no table warehouse");
    left(&["tpcb"], &path("data"));
    fails(&["recovery", "--data", &path("data"), "--scale", "3"], "loaded at scale 1, not 3");
    let output = bench(&["recovery", "--data", &path("data"), "--json"]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let json: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert!(json["commits"].as_u64() > Some(0), "{json}");
    assert!(json["row_changes"].as_u64() > json["commits"].as_u64(), "{json}");
}

/// A benchmark that runs, and what it says.
fn started(arguments: &[&str], temporary: &Path) -> (Child, Lines<BufReader<ChildStderr>>) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_atoll"));
    command.arg("bench").args(arguments).env("TMPDIR", temporary);
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let said = BufReader::new(child.stderr.take().unwrap()).lines();
    (child, said)
}

/// The signal ends it with one line and the code that shells have for it.
fn ends_by(signal: Signal, mut child: Child, said: Lines<BufReader<ChildStderr>>) {
    kill_process(Pid::from_child(&child), signal).unwrap();
    let said = said.map(Result::unwrap).filter(|line| !line.starts_with('*'));
    assert_eq!(said.collect::<Vec<String>>(), ["atoll: interrupted"]);
    let status = child.wait().unwrap();
    assert_eq!(status.code(), Some(128 + signal.as_raw()), "{status}");
}

/// In the middle of a load and of a run, while instances write.
#[test]
fn an_interrupted_run_leaves_nothing() {
    let temporary = tempfile::tempdir().unwrap();
    let long = ["--instances", "2", "--seconds", "600"];
    for (benchmark, until) in [
        ("ycsb --workload c --records 300000", "loading about"),
        ("smallbank --customers 1000", "transactions a second"),
        ("insert --clients 500 --rows-max 100000 --commit-every 1", "making 500 tables"),
        ("ycsb --records 1000 --calls routed --rate 100", "transactions a second"),
    ] {
        for signal in [Signal::INT, Signal::TERM] {
            let arguments: Vec<&str> = benchmark.split(' ').chain(long).collect();
            let (child, mut said) = started(&arguments, temporary.path());
            assert!(said.any(|line| line.unwrap().contains(until)), "{benchmark} ended before");
            assert_eq!(temporary.path().read_dir().unwrap().count(), 1);
            ends_by(signal, child, said);
            assert_eq!(temporary.path().read_dir().unwrap().count(), 0, "{benchmark}");
        }
    }
    // It has nothing to say, but its folder is seen.
    let disk = tempfile::tempdir().unwrap();
    let folder = disk.path().to_str().unwrap();
    let arguments = ["sync", "--seconds", "600", "--folder", folder];
    let (mut child, said) = started(&arguments, temporary.path());
    let is_there = |folder: &Path| folder.read_dir().unwrap().next().is_some();
    let is_used = || disk.path().read_dir().unwrap().any(|it| is_there(&it.unwrap().path()));
    while !is_used() {
        assert_eq!(child.try_wait().unwrap(), None, "it ended before");
        std::thread::sleep(std::time::Duration::from_millis(1));
    }
    ends_by(Signal::INT, child, said);
    assert_eq!(disk.path().read_dir().unwrap().count(), 0);
}

#[test]
fn what_is_not_temporary_stays_after_an_interrupt() {
    let (temporary, given) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let data = given.path().join("data");
    let arguments = ["smallbank", "--customers", "1000", "--seconds", "600", "--data"];
    let arguments = [&arguments[..], &[data.to_str().unwrap()]].concat();
    let (child, mut said) = started(&arguments, temporary.path());
    assert!(said.any(|line| line.unwrap().contains("transactions a second")));
    ends_by(Signal::TERM, child, said);
    let mut check = Command::new(env!("CARGO_BIN_EXE_atoll"));
    let checked = check.arg("check").arg(&data).output().unwrap();
    let told = String::from_utf8_lossy(&checked.stdout);
    assert!(checked.status.success() && told.contains("nothing is wrong"), "{told}");

    let scratch = Scratch::new();
    let url = server(&scratch).url;
    let arguments = ["smallbank", "--customers", "100", "--seconds", "600", "--url", &url];
    let (child, mut said) = started(&arguments, temporary.path());
    assert!(said.any(|line| line.unwrap().contains("transactions a second")));
    ends_by(Signal::INT, child, said);
    let count = "select count(*) from account";
    let count: i64 = connect_to(&url).unwrap().query_one(count, &[]).unwrap().get(0);
    assert_eq!(count, 100, "the server goes on");
    assert_eq!(temporary.path().read_dir().unwrap().count(), 0);
}

/// Clients are threads; those that were routed say how many did not run where their key hashes to.
#[test]
fn calls_from_outside_are_told() {
    for (calls, is_routed) in [("inside", false), ("routed", true), ("anywhere", false)] {
        let run = ["orders", "--merchants", "50", "--clients", "4", "--seconds", "1", "--json"];
        let output = bench(&[&run[..], &["--calls", calls]].concat());
        let text = String::from_utf8(output.stdout).unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let json: serde_json::Value = serde_json::from_str(&text).unwrap();
        assert_eq!((&json["calls"], &json["clients"]), (&calls.into(), &4.into()));
        assert!(json["transactions"].as_u64().unwrap() > 0, "{json}");
        assert_eq!(json["ran_elsewhere"].is_u64(), is_routed, "{json}");
    }
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
