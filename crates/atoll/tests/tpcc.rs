//! TPC-C over the wire and inside a serving process, tiny.
#![allow(clippy::unwrap_used, reason = "tests")]

mod common;

use std::collections::HashSet;
use std::path::Path;
use std::process::{Command, Stdio};

use atoll_bench::arrivals::Rate;
use atoll_bench::report::Report;
use atoll_bench::setting::{Calls, Durability, Isolation, Server, Setting};
use atoll_bench::tpcc::{Affinity, Kind, Mix, Size, Tpcc};
use atoll_bench::wire::tpcc::check;
use atoll_bench::wire::{connect_to, run, run_recorded};
use common::Scratch;

const TINY: Tpcc =
    Tpcc { warehouses: 2, size: Size::TINY, mix: Mix::Standard, affinity: Affinity::None };

fn setting(isolation: Isolation) -> Setting {
    Setting {
        clients: 4,
        seconds: 2,
        warmup_seconds: 0,
        isolation,
        durability: Durability::Commit,
        calls: Calls::Inside,
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

/// Sessions end on the instance that their warehouse hashes to, wherever they were accepted.
#[test]
fn sessions_go_to_their_warehouse() {
    for affinity in [Affinity::Table, Affinity::Hint] {
        let scratch = Scratch::new();
        // Connections go to both instances in turn, and three warehouses do not: some must move.
        let workload = Tpcc { warehouses: 3, affinity, ..TINY };
        let setting = Setting { clients: 6, ..setting(Isolation::ReadCommitted) };
        let run = |workload| run(&workload, &setting, &server(&scratch), &mut |_| ());
        let report = run(workload).unwrap();
        tried(&report);
        let (json, text) = (report.json(), report.to_string());
        let sessions = &json["sessions"];
        assert_eq!((&json["affinity"], &sessions["at_home"]), (&affinity.name().into(), &6.into()));
        let count = |name: &str| sessions[name].as_u64().unwrap();
        assert!(count("moved") > 0 && count("transactions_near") > 0, "{json}");
        assert!(text.contains("sessions: 6 of 6 on their data's instance"), "{text}");
        // What the tables say is what the report says.
        let (other, expect) = match affinity {
            Affinity::Table => (Affinity::None, "WITH (affinity): --affinity table"),
            _ => (Affinity::Table, "without affinity: drop them"),
        };
        let refused = run(Tpcc { affinity: other, ..workload }).err().unwrap();
        assert!(refused.contains(expect), "{refused}");
    }
}

/// The lines of a file, with their numbers, that begin with `kind`; numbers of each.
fn of_kind(text: &str, kind: &str) -> Vec<(usize, Vec<i64>)> {
    let lines = (1..).zip(text.lines()).filter(|(_, line)| line.starts_with(kind));
    let numbers = |line: &str| line.split(' ').filter_map(|word| word.parse().ok()).collect();
    lines.map(|(number, line)| (number, numbers(line))).collect()
}

/// What `--verify` answers: its exit code, and the lines that it calls lost.
fn verified(scratch: &Scratch, files: &[&Path]) -> (Option<i32>, Vec<String>, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_atoll"));
    command.args(["bench", "tpcc", "--url", &server(scratch).url]).stdin(Stdio::null());
    command.args(files.iter().flat_map(|file| [Path::new("--verify"), file]));
    let output = command.output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    let lost = text.lines().filter(|it| it.starts_with("lost: ")).map(str::to_owned).collect();
    (output.status.code(), lost, text + &String::from_utf8_lossy(&output.stderr))
}

/// Ways to lose a transaction of a record: its line, SQL that does it, and how that is named.
fn losses(text: &str) -> Vec<(usize, String, &'static str)> {
    let [orders, payments, deliveries] =
        ["new-order", "payment", "delivery"].map(|kind| of_kind(text, kind));
    // Orders that no transaction of the record has delivered, and deliveries of orders that it has
    // not entered, so that nothing is lost twice.
    let mut carried = HashSet::new();
    for (_, it) in &deliveries {
        carried.extend(it[2..].chunks(2).map(|order| [it[0], order[0], order[1]]));
    }
    let entered: HashSet<[i64; 3]> = orders.iter().map(|(_, it)| [it[0], it[1], it[2]]).collect();
    let fresh = orders.iter().map(|(line, it)| (*line, [it[0], it[1], it[2]]));
    let mut fresh = fresh.filter(|(_, key)| !carried.contains(key));
    let old = deliveries.iter().map(|(line, it)| (*line, [it[0], it[2], it[3]]));
    let mut old = old.filter(|(_, key)| !entered.contains(key));
    let mut all = Vec::new();
    for (change, rows, expect) in [
        ("delete from orders", "o_w_id, o_d_id, o_id", ": there is no such order"),
        ("delete from order_line", "ol_w_id, ol_d_id, ol_o_id", "cents 0"),
        (
            "delete from new_order",
            "no_w_id, no_d_id, no_o_id",
            ": it is neither new nor delivered, or both",
        ),
    ] {
        let (line, [w, d, o]) = fresh.next().unwrap();
        all.push((line, format!("{change} where ({rows}) = ({w}, {d}, {o})"), expect));
    }
    let key = "o_w_id, o_d_id, o_id";
    for (change, rows, expect) in [
        ("update orders set o_carrier_id = null", key, ": nobody carries it"),
        ("update orders set o_carrier_id = 77", key, ": carrier 77 has it"),
        ("delete from orders", key, ": it is not there"),
        (
            "update order_line set ol_delivery_d = null",
            "ol_number, ol_w_id, ol_d_id, ol_o_id",
            "lines are delivered",
        ),
    ] {
        let (line, [w, d, o]) = old.next().unwrap();
        let first = if rows == key { "" } else { "1, " };
        all.push((line, format!("{change} where ({rows}) = ({first}{w}, {d}, {o})"), expect));
    }
    let (line, [w, d, o]) = old.next().unwrap();
    let again = "insert into new_order (no_w_id, no_d_id, no_o_id) values";
    all.push((line, format!("{again} ({w}, {d}, {o})"), ": it is still new"));
    let (line, it) = &payments[payments.len() / 2];
    let gone = format!(
        "delete from history where (extract(epoch from h_date) * 1000000)::int8 = {} \
         and (h_c_w_id, h_c_d_id, h_c_id) = ({}, {}, {})",
        it[6], it[2], it[3], it[4]
    );
    all.push((*line, gone, ": history has no such row"));
    all
}

/// What a record of acknowledged transactions is worth: each that is lost is named, and no other.
#[test]
fn an_acknowledged_transaction_that_is_lost_is_named() {
    let scratch = Scratch::new();
    let file = scratch.folder.path().join("acknowledged");
    let setting = setting(Isolation::ReadCommitted);
    let run = || run_recorded(&TINY, &setting, &server(&scratch), Some(&file), &mut |_| ());
    let counts = run().unwrap().driven.counts;
    assert!(run().is_err_and(|error| error.contains("it is there already")));
    let text = std::fs::read_to_string(&file).unwrap();
    let committed = |kind: Kind| counts.done[kind as usize] - counts.failed[kind as usize];
    assert_eq!(of_kind(&text, "new-order").len() as u64, committed(Kind::NewOrder));
    assert_eq!(of_kind(&text, "payment").len() as u64, committed(Kind::Payment));
    assert!(of_kind(&text, "delivery").len() as u64 <= committed(Kind::Delivery));
    let (code, lost, said) = verified(&scratch, &[&file]);
    assert!(
        code == Some(0) && lost.is_empty() && said.contains("transactions are there"),
        "{said}"
    );
    let mut client = connect_to(&server(&scratch).url).unwrap();
    let losses = losses(&text);
    for ((line, change, expect), count) in losses.iter().zip(1..) {
        assert_eq!(client.execute(change, &[]).unwrap().min(1), 1, "{change}");
        let (code, lost, said) = verified(&scratch, &[&file]);
        assert_eq!((code, lost.len()), (Some(1), count), "{change}: {said}");
        let of_line = lost.iter().find(|it| it.contains(&format!("acknowledged:{line}: ")));
        assert!(of_line.is_some_and(|it| it.ends_with(expect)), "{change}: {expect}: {said}");
        assert!(said.contains(&format!("{count} of ")), "{said}");
    }
    // Nothing is acknowledged twice.
    let (code, lost, said) = verified(&scratch, &[&file, &file]);
    let all = text.lines().count() - 1;
    assert_eq!((code, lost.len()), (Some(1), all + losses.len()), "{said}");
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
