//! Tests of the report: what stands in which row, and that everything is written or nothing.
#![allow(clippy::unwrap_used, reason = "tests")]

use std::path::Path;
use std::rc::Rc;

use super::*;
use crate::arrivals::Rate;
use crate::compare::clients::{Length, Sample, Tools};
use crate::compare::contender::{Contender, tests::places};
use crate::compare::engine::{Atoll, Checkpoints, Postgres, Tuning};
use crate::compare::figures::tests::sample;
use crate::compare::output::{Document, Marks};
use crate::compare::runs::{Pace, Runs};
use crate::compare::workload::{ALL, Sizes};
use crate::compare::{Targets, write};

/// Two servers, one workload, 8 and 32 clients, two rounds.
pub fn comparison() -> Comparison {
    let contender = |version: &str, engine: Box<dyn crate::compare::engine::Engine>| {
        Rc::new(Contender { version: version.to_owned(), build: None, engine })
    };
    let series = |contender, clients, samples: [Sample; 2]| Series {
        contender,
        clients,
        samples: samples.to_vec(),
    };
    let measured = Measured {
        workload: ALL[0],
        date: "2026-11-21".to_owned(),
        series: vec![
            series(0, 8, [sample(10_000, 500, 1000, 1500), sample(12_000, 600, 1200, 1800)]),
            series(1, 8, [sample(5_000, 400, 1400, 1900), sample(3_000, 100, 800, 1000)]),
            series(0, 32, [sample(20_000, 500, 1000, 1500), sample(20_000, 500, 1000, 1500)]),
            series(1, 32, [sample(20_000, 500, 1000, 1500), sample(20_000, 500, 1000, 1500)]),
        ],
    };
    let plan = Plan {
        contenders: vec![
            contender("Atoll 1", Box::new(Atoll { program: "/a".into() })),
            contender("PostgreSQL 99", Box::new(Postgres { bin: "/p".into() })),
        ],
        runs: Runs {
            workloads: vec![ALL[0]],
            clients: vec![8, 32],
            pace: Pace::Closed,
            length: Length { seconds: 60, warmup_seconds: 10 },
            rounds: 2,
        },
        sizes: Sizes { scale: 100, tables: 8, table_rows: 100_000, warehouses: 4 },
        tuning: Tuning { memory_bytes: 4 << 30, clients_max: 32, checkpoints: Checkpoints::Rare },
        tools: Tools::find(&places(Path::new("/nonexistent")), &[], Path::new("/a")).unwrap(),
        folder: "/nonexistent/work".into(),
    };
    let (command, machine) = ("atoll bench compare".to_owned(), "a machine".to_owned());
    Comparison { plan, measured: vec![measured], command, machine, date: "2026-11-22".to_owned() }
}

#[test]
fn figures_stand_in_their_rows() {
    let text = comparison().markdown(Pictures::In("plots"));
    let rows: Vec<&str> =
        text.lines().filter(|it| it.starts_with("| 8") || it.starts_with("| 32")).collect();
    assert_eq!(rows.len(), 4, "{text}");
    assert_eq!(
        rows[0],
        "| 8 | Atoll 1 | 11,000 (10,000 to 12,000) |  |  | 92, 183, 275 | 50.0 | 100.0 | 100.0 |  | 82 % |"
    );
    assert_eq!(
        rows[1],
        "| 8 | PostgreSQL 99 | 4,000 (3,000 to 5,000) | 2.75 (2.00 to 4.00) | 7.0 | 267, 533, 800 \
         | 56.7 | 273.3 | 300.0 | 0.33 (0.33 to 0.33) | 72 % |"
    );
    assert!(rows[3].contains("| 1.00 (1.00 to 1.00) | 3.0 |"), "{}", rows[3]);
    for part in [
        "## Atoll 1 beside PostgreSQL 99",
        "`atoll bench compare`, 2026-11-22, on a machine.",
        "Runs of 60 s after 10 s of warm-up, over unix sockets, closed loop; rounds: 2.",
        "newly loaded tables: pgbench's scale 100. Medians",
        "| PostgreSQL 99 | `shared_buffers=4096MB, max_wal_size=16GB",
        "synchronous_commit=on",
        "--buffer-pool 4096MB",
        "Measured 2026-11-21. Tries that failed: Atoll 1 with 8 clients 2; PostgreSQL 99 with 8 clients 2; Atoll 1 with",
        "Processors taken away by the host: Atoll 1 with 8 clients 20 %; PostgreSQL 99 with",
        "![pgbench-select-only](plots/compare-pgbench-select-only.svg)",
    ] {
        assert!(text.replace('\n', " ").contains(part), "no {part} in {text}");
    }
    assert!(!comparison().markdown(Pictures::None).contains("!["));
    let prose = text.lines().filter(|it| !it.starts_with('|'));
    assert!(prose.clone().all(|it| it.chars().count() <= 120), "{text}");
}

/// Which rate was too much must be told: the transactions that were done look as with a lower one.
#[test]
fn arrivals_that_were_not_served_are_told() {
    let mut comparison = comparison();
    for round in &mut comparison.measured[0].series[1].samples {
        round.told.unserved = 600;
    }
    let text = comparison.markdown(Pictures::None).replace('\n', " ");
    let told = "Arrivals not served, more than can be done: PostgreSQL 99 with 8 clients 1,200.";
    assert!(text.contains(told), "{text}");
    let series = &comparison.json()["results"][0]["series"];
    assert_eq!((&series[0]["unserved"], &series[1]["unserved"]), (&0.into(), &1200.into()));
}

/// Whoever knows New-Orders has them in a column of their own.
#[test]
fn new_orders_a_minute_stand_beside_transactions() {
    let mut comparison = comparison();
    for (number, round) in (1..).zip(&mut comparison.measured[0].series[0].samples) {
        round.told.new_orders_per_minute = Some(f64::from(number) * 100_000.0);
    }
    let text = comparison.markdown(Pictures::None);
    let row = |of: &str| text.lines().find(|line| line.starts_with(of)).unwrap().to_owned();
    let cells = |row: &str| row.matches('|').count();
    assert!(row("| clients").contains("| per second | tpmC | ratio |"), "{text}");
    let told =
        "| 8 | Atoll 1 | 11,000 (10,000 to 12,000) | 150,000 (100,000 to 200,000) |  |  | 92,";
    assert!(row("| 8 | Atoll").starts_with(told), "{text}");
    let unknown = "| 8 | PostgreSQL 99 | 4,000 (3,000 to 5,000) |  | 2.75 (2.00 to 4.00) |";
    assert!(row("| 8 | Postgre").starts_with(unknown), "{text}");
    for of in ["| --- | --- | --- | --- | --- |", "| 8 | Atoll", "| 32 | Postgre"] {
        assert_eq!(cells(&row(of)), cells(&row("| clients")), "{text}");
    }
    let series = &comparison.json()["results"][0]["series"];
    assert_eq!(series[0]["tpmc"]["median"], 150_000.0);
    assert_eq!(
        (&series[0]["rounds"][1]["tpmc"], &series[1]["tpmc"]),
        (&200_000.0.into(), &Value::Null)
    );
}

#[test]
fn slices_are_told() {
    let mut comparison = comparison();
    assert_eq!(comparison.json()["slice_ms"], Value::Null);
    comparison.plan.runs.pace = Pace::Slices(std::time::Duration::from_millis(200));
    let text = comparison.markdown(Pictures::None).replace('\n', " ");
    assert!(
        text.contains("closed loop; rounds: 2. In a round all are under way at once"),
        "{text}"
    );
    assert!(text.contains("in slices of about 200 ms"), "{text}");
    assert!(text.contains("| 11,000 (10,000 to 12,000) |  |  |  | 50.0 |"), "{text}");
    assert_eq!(comparison.json()["results"][0]["series"][0]["latency_us"], Value::Null);
    assert_eq!(comparison.json()["slice_ms"], 200);
}

#[test]
fn an_open_loop_is_told() {
    let mut comparison = comparison();
    comparison.plan.runs.pace = Pace::Open(Rate::new(3500.0).unwrap());
    let text = comparison.markdown(Pictures::None).replace('\n', " ");
    let told = "open loop of 3500 arrivals a second (pgbench's by Poisson's law, ours even)";
    assert!(text.contains(told), "{text}");
    assert_eq!(comparison.json()["rate"], 3500.0);
}

#[test]
fn the_same_is_in_json() {
    let json = comparison().json();
    assert_eq!((&json["rounds"], &json["rate"]), (&2.into(), &Value::Null));
    let series = &json["results"][0]["series"];
    assert_eq!(series[0]["subject_against_this"], Value::Null);
    assert_eq!(series[1]["subject_against_this"]["ratio"]["median"], 2.75);
    assert_eq!(series[1]["subject_against_this"]["ceiling"], 7.0);
    assert_eq!(series[1]["tps"]["least"], 3000.0);
    assert_eq!(series[1]["rounds"][0]["transactions"], 5000);
    assert_eq!(json["servers"][0]["settings"][0], "--buffer-pool 4096MB");
}

#[test]
fn everything_is_written_or_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    let head = "# Benchmarks\n\nmeasured before\n";
    std::fs::write(path("doc.md"), head).unwrap();
    let with_json = |json: &str| Targets { document: Some(path("doc.md")), json: Some(path(json)) };
    let document = || Some(Document::read(&path("doc.md"), Marks::COMPARE).unwrap());
    let failed = write(&comparison(), document(), &with_json("not/there/figures.json"));
    assert!(failed.unwrap_err().contains("figures.json"));
    assert_eq!(std::fs::read_to_string(path("doc.md")).unwrap(), head);
    assert!(!path("plots").exists());

    let report = write(&comparison(), document(), &with_json("figures.json")).unwrap();
    let text = std::fs::read_to_string(path("doc.md")).unwrap();
    let Marks { begin, end } = Marks::COMPARE;
    assert_eq!(text, format!("{head}\n{begin}\n{report}{end}\n"));
    let json: Value =
        serde_json::from_str(&std::fs::read_to_string(path("figures.json")).unwrap()).unwrap();
    assert_eq!(json, comparison().json());
    let picture = path("plots").join("compare-pgbench-select-only.svg");
    assert!(std::fs::read_to_string(picture).unwrap().starts_with("<svg"));
    // Again: the section is replaced, not repeated.
    write(&comparison(), document(), &with_json("figures.json")).unwrap();
    assert_eq!(std::fs::read_to_string(path("doc.md")).unwrap(), text);
}
