//! `atoll bench WORKLOAD --ledger` as a program: the totals are there, for people and as JSON, and
//! they are what their parts say.
//!
//! For builds with feature `ledger`: `cargo xtask ci --only ledger`.
#![allow(clippy::unwrap_used, reason = "tests")]

use std::process::{Command, Stdio};

use serde_json::Value;

/// What the program prints of a run of a second on disk.
fn printed(arguments: &[&str]) -> String {
    let temporary = tempfile::tempdir().unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_atoll"));
    command.arg("bench").args(arguments).args(["--instances", "2", "--clients", "8"]);
    command.args(["--seconds", "1", "--ledger"]).env("TMPDIR", temporary.path());
    let output = command.stdin(Stdio::null()).output().unwrap();
    let told = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.success(), "{arguments:?}: {told}");
    String::from_utf8(output.stdout).unwrap()
}

fn number(json: &Value, at: &str) -> f64 {
    json.pointer(at).and_then(Value::as_f64).unwrap_or_else(|| panic!("no number {at} in {json}"))
}

/// Divided and multiplied again.
fn assert_same(one: f64, other: f64, what: &str) {
    assert!((one - other).abs() <= 1e-6 * one.abs().max(1.0), "{what}: {one} is not {other}");
}

/// The sum of a field over the totals of these names, per transaction of all types.
fn total(ledger: &Value, names: &[&str], field: &str) -> f64 {
    names.iter().map(|name| number(ledger, &format!("/totals/{name}/all/{field}"))).sum()
}

/// The same over the sites of these kinds.
fn by_site(ledger: &Value, kinds: &[&str], field: &str) -> f64 {
    let sites = ledger["sites"].as_array().unwrap().iter();
    let of_kinds = sites.filter(|site| kinds.contains(&site["what"].as_str().unwrap()));
    of_kinds.map(|site| number(site, &format!("/per_transaction/all/{field}"))).sum()
}

fn totals_are_what_their_parts_say(workload: &[&str]) {
    let json: Value = serde_json::from_str(&printed(&[workload, &["--json"]].concat())).unwrap();
    let ledger = &json["ledger"];
    let types = ledger["transactions"].as_object().unwrap();
    let transactions = types.values().map(|count| count.as_f64().unwrap()).sum::<f64>();
    assert!(transactions > 0.0, "{ledger}");
    let run = |name: &str| number(ledger, &format!("/run/{name}"));

    let lock_counts = ["latches", "mutexes", "row locks", "table locks"];
    let lock_times = ["latch waits", "retries", "row locks", "row waits", "table locks"];
    let locks = total(ledger, &["all locks"], "times");
    let lock_ns = total(ledger, &["all locks"], "amount");
    assert_same(locks, total(ledger, &lock_counts, "times"), "locks");
    assert_same(lock_ns, total(ledger, &lock_times, "amount"), "time of locks");
    let kinds = ["latch", "mutex", "row claim", "table lock"];
    assert_same(locks, by_site(ledger, &kinds, "times"), "locks by site");
    assert_same(locks * transactions, run("locks"), "locks over the run");
    assert_same(lock_ns * transactions, run("lock_ns"), "time of locks over the run");
    assert_same(run("lock_ns") / run("locks"), run("ns_per_lock"), "time of a lock");
    // Every transaction takes a table's lock at least, and that takes its time.
    assert!(locks >= 1.0 && lock_ns > 0.0, "{ledger}");

    let writes = |field| by_site(ledger, &["write"], field) * transactions;
    assert_same(writes("times"), run("write_calls"), "write calls");
    assert_same(writes("amount"), run("write_bytes"), "bytes written");
    let syncs = by_site(ledger, &["sync"], "times") * transactions;
    assert_same(syncs, run("syncs"), "syncs");
    // Commits are durable: what is synced was written.
    assert!(run("syncs") >= 1.0 && run("write_calls") >= run("syncs"), "{ledger}");
    assert!(run("write_bytes") > run("write_calls"), "{ledger}");
}

#[test]
fn tpcc_prints_what_it_counted() {
    totals_are_what_their_parts_say(&["tpcc", "--warehouses", "2"]);
}

#[test]
fn ycsb_prints_what_it_counted() {
    totals_are_what_their_parts_say(&["ycsb", "--records", "10000"]);
}

#[test]
fn tpcb_prints_what_it_counted() {
    totals_are_what_their_parts_say(&["tpcb", "--scale", "2"]);
}

#[test]
fn people_read_the_same_totals() {
    let text = printed(&["ycsb", "--records", "10000"]);
    for expect in ["ledger, per transaction", "  all locks ", "  over the run: ", "  write calls "]
    {
        assert!(text.contains(expect), "{expect} in\n{text}");
    }
}
