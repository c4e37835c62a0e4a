//! The table of known sites, on made-up counts: what it accounts for, and what it does not.
#![allow(clippy::unwrap_used, reason = "tests")]

use atoll_kernel::sync::ledger::Entry;

use super::*;

const KINDS: &[&str] = &["payment", "order_status"];

fn entry(label: usize, what: What, site: &str, [times, moved, amount]: [u64; 3]) -> Entry {
    Entry { label, what, site: site.to_owned(), times, moved, amount }
}

/// 100 Payments and 10 Order-Statuses.
fn counted() -> Costs {
    let entries = vec![
        entry(0, What::Write, "io.rs submit: write", [11, 0, 45_056]),
        entry(1, What::Change, "latch.rs take: self.word.swap", [300, 50, 0]),
        entry(1, What::Store, "slot.rs begin: self.word.store", [100, 2, 0]),
        entry(1, What::Mutex, "pile.rs pop: lock", [100, 100, 0]),
        entry(1, What::TableLock, "shell.rs lock: timed", [200, 0, 20_000]),
        entry(2, What::Change, "latch.rs take: self.word.swap", [20, 0, 0]),
        entry(2, What::LatchWait, "latch.rs wait: spin", [9, 0, 900]),
        entry(2, What::Change, "slot.rs rare: self.word.swap", [1, 1, 0]),
    ];
    Costs::new(KINDS, &Ledger { transactions: vec![0, 100, 10], entries }).unwrap()
}

fn document(rows: &str) -> String {
    format!(
        "# Scaling\n\n<!-- totals -->\n<!-- end of totals -->\n\n<!-- sites -->\n| site | class | often | shared | why |\n\
         | --- | --- | --- | --- | --- |\n{rows}<!-- end of sites -->\n\nMore.\n"
    )
}

const ALL: &str = "\
| `rmw latch.rs take: self.word.swap` | latch | 2 | 0 | pages |
| `rmw slot.rs rare: self.word.swap` | row | 2 | 0 | a wait |
| `store slot.rs begin: self.word.store` | own | 2 | 0 | the slot |
| `mutex pile.rs pop: lock` | common | 2 | 0 | one pile |
| `table lock shell.rs lock: timed` | own | 2 | 0 | locks |
| `write io.rs submit: write` | own | 2 | 0 | the log |
";

fn unknown(rows: &str) -> Vec<String> {
    let known = Known::parse(&document(rows)).unwrap();
    known.unknown(&counted(), 0.01).iter().map(Unknown::to_string).collect()
}

#[test]
fn figures_are_per_transaction_of_the_type() {
    let costs = counted();
    let site = Site { what: What::Change, place: "latch.rs take: self.word.swap".to_owned() };
    let times: Vec<f64> = costs.by_label(&site).iter().map(|cost| cost.times).collect();
    assert_eq!(times, [0.0, 3.0, 2.0]);
    assert!((costs.all(&site).times - 320.0 / 110.0).abs() < 1e-9);
    assert!((costs.all(&site).shared - 50.0 / 110.0).abs() < 1e-9);
    let json = costs.json();
    // A mutex is two read-modify-writes.
    assert_eq!(json["totals"]["read-modify-writes"]["payment"]["times"], 5.0);
    assert_eq!(json["totals"]["write calls"]["none"]["amount"], 45_056.0 / 110.0);
    assert_eq!(json["totals"]["table locks"]["payment"]["amount"], 200.0);
    assert_eq!(json["transactions"]["order_status"], 10);
    let text = costs.to_string();
    for expect in ["order status", "  ns each", "3.00/0.500", "store slot.rs begin"] {
        assert!(text.contains(expect), "{expect} in\n{text}");
    }
}

/// Regression: the label was an index, and a type that the workload does not have was a panic;
/// its transactions alone were left out.
#[test]
fn a_type_that_the_workload_does_not_have_is_an_error() {
    let change = |label| vec![entry(label, What::Change, "a.rs b: c.swap", [1, 0, 0])];
    for (transactions, entries) in [
        (vec![0, 1, 0], change(3)),
        (vec![0, 1, 0, 1], change(1)),
        (vec![0, 1, 0, 0, 1], change(3)),
    ] {
        let error = Costs::new(KINDS, &Ledger { transactions, entries }).unwrap_err();
        assert!(error.contains("this workload has 2 types"), "{error}");
    }
    // What another workload counted before this one began is nought here.
    let counted = Ledger { transactions: vec![0, 1, 0, 0], entries: change(2) };
    assert_eq!(Costs::new(KINDS, &counted).unwrap().transactions(), 1);
}

/// One entry of every kind, each of its own number and amount: what the totals of locks leave out
/// or take twice changes their sum.
#[test]
fn all_locks_are_the_sum_of_every_kind_of_lock() {
    let number = |what: What| 1 << What::ALL.iter().position(|it| *it == what).unwrap();
    let entries = What::ALL.map(|what| {
        // Half of it in transactions, half in none.
        let counts = [number(what), 0, 1000 * number(what)];
        [entry(0, what, "a.rs b: c", counts), entry(1, what, "a.rs b: c", counts)]
    });
    let counted = Ledger { transactions: vec![0, 4, 0], entries: entries.concat() };
    let costs = Costs::new(KINDS, &counted).unwrap();
    let of = |kinds: &[What]| 2 * kinds.iter().map(|what| number(*what)).sum::<u64>();
    let locks = of(&[What::Latch, What::Mutex, What::RowClaim, What::TableLock]);
    let waits = of(&[What::LatchWait, What::MutexWait, What::Retry, What::RowWait]);
    let ns = 1000 * (waits + of(&[What::RowClaim, What::TableLock]));
    let json = costs.json();
    assert_eq!(json["run"]["locks"], locks);
    assert_eq!(json["run"]["lock_ns"], ns);
    assert_eq!(json["run"]["ns_per_lock"], ns as f64 / locks as f64);
    assert_eq!(json["run"]["write_calls"], of(&[What::Write]));
    assert_eq!(json["run"]["write_bytes"], 1000 * of(&[What::Write]));
    assert_eq!(json["run"]["syncs"], of(&[What::Sync]));
    let all = &json["totals"]["all locks"]["all"];
    assert_eq!(all["times"], locks as f64 / 4.0);
    assert_eq!(all["amount"], ns as f64 / 4.0);
    assert_eq!(all["each"], ns as f64 / locks as f64);
    assert_eq!(json["totals"]["all locks"]["payment"]["times"], locks as f64 / 8.0);
    // And it is what the lines above it say together.
    let sum = |names: &[&str], field: &str| {
        let figures = names.iter().map(|name| json["totals"][*name]["all"][field].as_f64());
        figures.map(Option::unwrap).sum::<f64>()
    };
    assert_eq!(sum(&["latches", "mutexes", "row locks", "table locks"], "times"), all["times"]);
    let timed = ["latch waits", "retries", "row locks", "row waits", "table locks"];
    assert_eq!(sum(&timed, "amount"), all["amount"]);
    let line = format!(
        "over the run: {locks} locks, {:.3} ms, {:.0} ns each",
        ns as f64 / 1e6,
        ns as f64 / locks as f64
    );
    let text = costs.to_string();
    assert!(text.contains(&line) && text.contains("  all locks "), "{line} in\n{text}");
}

#[test]
fn sites_met_rarely_are_told_together() {
    let entries = vec![entry(1, What::Change, "a.rs b: c.swap", [3, 3, 0])];
    let costs = Costs::new(KINDS, &Ledger { transactions: vec![0, 10_000, 0], entries }).unwrap();
    let text = costs.to_string();
    assert!(!text.contains("a.rs") && text.contains("and 1 sites met less than once"), "{text}");
}

#[test]
fn a_table_that_knows_every_site_is_content() {
    assert_eq!(unknown(ALL), [""; 0]);
}

#[test]
fn a_site_that_is_not_in_the_table_is_found() {
    let (without, _) = ALL.split_once("| `write").unwrap();
    let found = unknown(without);
    assert_eq!(
        found,
        ["`write io.rs submit: write` is not known: 0.100 a transaction, 0.000 shared"]
    );
}

#[test]
fn a_site_without_class_or_reason_is_not_known() {
    let found = unknown(&ALL.replace("| row | 2 | 0 | a wait |", "| ? | 2 | 0 | a wait |"));
    assert!(found[0].contains("slot.rs rare: self.word.swap` is not known"), "{found:?}");
    let found = unknown(&ALL.replace("one pile", "?"));
    assert!(found[0].contains("mutex pile.rs pop: lock` is not known"), "{found:?}");
}

#[test]
fn a_shared_site_that_is_said_to_be_own_is_found() {
    let found = unknown(&ALL.replace("| common |", "| own |"));
    assert_eq!(found.len(), 1);
    assert!(found[0].contains("is said to be an instance's own: 0.909 a transaction"), "{found:?}");
}

#[test]
fn shared_changes_are_summed_by_class() {
    let known = Known::parse(&document(ALL)).unwrap();
    let sum = |class| known.shared_changes(&counted(), class);
    assert!((sum(Class::Latch) - 50.0 / 110.0).abs() < 1e-9);
    assert!((sum(Class::Row) - 1.0 / 110.0).abs() < 1e-9);
    assert_eq!(sum(Class::Own), 0.0, "stores are no read-modify-writes");
}

#[test]
fn writing_keeps_reasons_and_adds_sites_without_one() {
    let (without, _) = ALL.split_once("| `write").unwrap();
    let text = document(without);
    let written = Known::parse(&text).unwrap().written(&text, &counted()).unwrap();
    assert!(written.starts_with("# Scaling\n") && written.ends_with("\n\nMore.\n"), "{written}");
    for expect in [
        "| | none | payment | order status | all |\n| --- | --- | --- | --- | --- |\n",
        "| read-modify-writes | 0 | 5.00 | 2.10 | 4.74 |\n",
        "| table locks, ns each | 0 | 100 | 0 | 100 |\n",
        // 200 table locks and 100 mutexes, the table locks' time and a latch wait's.
        "| all locks | 0 | 3.00 | 0 | 2.73 |\n| all locks, ns | 0 | 200 | 90.0 | 190 |\n",
        "\n\nOver the run: 300 locks, 0.021 ms, 69.7 ns each; 11 write calls, 45056 bytes, 4096 bytes each; 0 syncs.\n",
        "| `rmw latch.rs take: self.word.swap` | latch | 2.91 | 0.455 | pages |\n",
        "| `table lock shell.rs lock: timed` | own | 1.82 | 100 ns | locks |\n",
        "| `write io.rs submit: write` | ? | 0.100 | 4096 bytes | ? |\n",
    ] {
        assert!(written.contains(expect), "{expect} in\n{written}");
    }
    let again = Known::parse(&written).unwrap().written(&written, &counted()).unwrap();
    assert_eq!(again, written);
}

#[test]
fn a_table_that_is_wrong_says_so() {
    assert!(Known::parse("no table").unwrap_err().contains("no table between"));
    let wrong = [
        (ALL.replace("| row |", "| mine |"), "no class is called mine"),
        (ALL.replace("| row |", ""), "not five cells"),
        (ALL.replace("slot.rs rare", "latch.rs take").replace("| row |", "| own |"), "twice"),
    ];
    for (rows, expect) in wrong {
        let error = Known::parse(&document(&rows)).unwrap_err();
        assert!(error.contains(expect), "{error}");
    }
}

/// What a build without the feature answers, and one with it does not.
#[test]
fn a_build_that_counts_nothing_refuses_in_one_line() {
    let answer = refuse();
    assert_eq!(answer.is_err(), !cfg!(feature = "ledger"));
    if let Err(line) = answer {
        assert!(line.contains("cargo build --release --features ledger") && !line.contains('\n'));
        assert!(Counting::begin().end(KINDS).unwrap().is_none());
    }
}
