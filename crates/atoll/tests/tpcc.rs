//! TPC-C over the wire and inside a serving process, tiny.
#![allow(clippy::unwrap_used, reason = "tests")]

mod common;

use std::process::{Command, Stdio};

use atoll_bench::tpcc::{Isolation, Size};
use atoll_bench::wire::tpcc::{Report, Setting, check, connect, run};
use common::Scratch;

fn setting(scratch: &Scratch, rate: Option<f64>) -> Setting {
    Setting {
        url: format!("postgres://postgres@127.0.0.1:{}/postgres", scratch.port()),
        warehouses: 2,
        size: Size::TINY,
        clients: 4,
        seconds: 2,
        warmup_seconds: 0,
        isolation: Isolation::RepeatableRead,
        rate,
        server_pid: Some(scratch.server.as_ref().unwrap().child.id()),
        seed: 3,
    }
}

fn tried(report: &Report) {
    let counts = report.counts;
    assert!(counts.transactions > 0 && counts.new_orders > 0, "{report}");
    assert_eq!(report.latencies.count(), counts.transactions);
    assert!(report.json()["server_cpu_us_per_txn"].is_number(), "{report}");
}

#[test]
fn a_tiny_run_over_the_wire_keeps_all_conditions() {
    let scratch = Scratch::new();
    tried(&run(&setting(&scratch, None), &mut |_| ()).unwrap());
    // Few enough to be kept up with: as many arrive as the rate says.
    let report = run(&setting(&scratch, Some(50.0)), &mut |_| ()).unwrap();
    tried(&report);
    assert_eq!(report.counts.transactions, 100, "{report}");
    let committed = Isolation::ReadCommitted;
    let committed = Setting { isolation: committed, ..setting(&scratch, None) };
    tried(&run(&committed, &mut |_| ()).unwrap());
    // What the check is worth: it finds a cent that is too much.
    let mut client = connect(&committed.url).unwrap();
    client.batch_execute("update warehouse set w_ytd = w_ytd + 0.01 where w_id = 2").unwrap();
    let verdict = check(&mut client, Size::TINY, 2).unwrap();
    assert_eq!((verdict.counts[1], verdict.counts[8]), (1, 1), "{:?}", verdict.breaches);
}

/// Loads, runs inside the server, kills, recovers, checks, runs over the wire.
#[test]
fn the_demonstration_keeps_its_promise() {
    let folder = tempfile::tempdir().unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_atoll"));
    command.args(["demo", "--warehouses", "1", "--clients", "4", "--seconds", "1", "--data"]);
    let output = command.arg(folder.path().join("demo")).stdin(Stdio::null()).output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    let problem = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}\n{problem}");
    for promise in ["acknowledged orders are there", "twelve consistency conditions hold", "psql"] {
        assert!(said.contains(promise), "no \"{promise}\" in\n{said}\n{problem}");
    }
}
