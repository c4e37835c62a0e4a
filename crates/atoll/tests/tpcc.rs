//! TPC-C over the wire and inside a serving process, tiny.
#![allow(clippy::unwrap_used, reason = "tests")]

mod common;

use std::process::{Command, Stdio};

use atoll_bench::arrivals::Rate;
use atoll_bench::report::Report;
use atoll_bench::setting::{Durability, Isolation, Server, Setting};
use atoll_bench::tpcc::{Affinity, Kind, Mix, Size, Tpcc};
use atoll_bench::wire::tpcc::check;
use atoll_bench::wire::{connect_to, run};
use common::Scratch;

const TINY: Tpcc =
    Tpcc { warehouses: 2, size: Size::TINY, mix: Mix::Standard, affinity: Affinity::Home };

fn setting(isolation: Isolation) -> Setting {
    Setting {
        clients: 4,
        seconds: 2,
        warmup_seconds: 0,
        isolation,
        durability: Durability::Commit,
        rate: None,
        seed: 3,
    }
}

fn server(scratch: &Scratch) -> Server {
    let url = format!("postgres://postgres@127.0.0.1:{}/postgres", scratch.port());
    Server { url, pid: Some(scratch.server.as_ref().unwrap().child.id()) }
}

fn tried(report: &Report) {
    let counts = report.driven.counts;
    assert!(counts.done[Kind::NewOrder as usize] > 0, "{report}");
    assert_eq!(report.driven.latencies.count(), counts.transactions());
    assert!(report.json()["server_cpu_us_per_txn"].is_number(), "{report}");
}

#[test]
fn a_tiny_run_over_the_wire_keeps_all_conditions() {
    let scratch = Scratch::new();
    let setting_of = setting(Isolation::RepeatableRead);
    let report = run(&TINY, &setting_of, &server(&scratch), &mut |_| ()).unwrap();
    assert!(report.loaded.rows > 15_000, "{report}");
    tried(&report);
    // Few enough to be kept up with: as many arrive as the rate says.
    let arriving = Setting { rate: Some(Rate::new(50.0).unwrap()), ..setting_of.clone() };
    let report = run(&TINY, &arriving, &server(&scratch), &mut |_| ()).unwrap();
    tried(&report);
    assert_eq!(report.driven.counts.transactions(), 100, "{report}");
    let committed = setting(Isolation::ReadCommitted);
    let orders = Tpcc { mix: Mix::NewOrderDelivery, ..TINY };
    tried(&run(&orders, &committed, &server(&scratch), &mut |_| ()).unwrap());
    // What the check is worth: it finds a cent that is too much, and the next run does, too.
    let mut client = connect_to(&server(&scratch).url).unwrap();
    client.batch_execute("update warehouse set w_ytd = w_ytd + 0.01 where w_id = 2").unwrap();
    let verdict = check(&mut client, Size::TINY, 2).unwrap();
    assert_eq!((verdict.counts[1], verdict.counts[8]), (1, 1), "{:?}", verdict.breaches);
    let refused = run(&TINY, &committed, &server(&scratch), &mut |_| ()).err().unwrap();
    assert!(refused.contains("not whole"), "{refused}");
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
