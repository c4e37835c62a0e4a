//! Reports of made-up runs; and what is refused.

use super::*;
use crate::compare::process::Wish;
use crate::testing::script;
use serde_json::json;

/// A run of as many transactions in each of four seconds, in two of which a checkpoint was made.
fn run(by_second: [u64; 4], made: bool) -> Run {
    let beside = |at: usize| if made && at < 2 { 0.9 } else { 0.0 };
    let seconds = by_second.iter().enumerate().map(|(at, it)| json!([it, beside(at)]));
    let ran = json!({
        "tps": by_second.iter().sum::<u64>() / 4,
        "beside_checkpoints": { "by_second": seconds.collect::<Vec<_>>() },
        "checkpoints": u64::from(made),
        "checkpoint_pages": 1234 * u64::from(made),
        "bytes_written": 8_000_000,
        "latency_us": { "p99": 3500, "p999": 9000, "max": 42_000 },
        "cpu_us_per_txn": 44.4,
    });
    Run::of(ran, json!({ "bytes": 5_000_000, "first_answer_seconds": 1.25 })).unwrap()
}

fn plan() -> Plan {
    Plan {
        program: PathBuf::from("/nonexistent/atoll"),
        intervals_ms: vec![0, 2000],
        rounds: 3,
        seconds: 4,
        warmup_seconds: 1,
        warehouses: 2,
        clients: 8,
        pool_mib: 100,
        folder: PathBuf::from("/nonexistent/folder"),
    }
}

fn sweep() -> Sweep {
    let without = [1000, 1000, 1000, 1000];
    let with = [[900, 800, 1000, 1000], [800, 800, 1000, 1000], [950, 950, 1000, 1000]];
    let runs = vec![
        vec![run(without, false), run(without, false), run(without, false)],
        with.map(|it| run(it, true)).to_vec(),
    ];
    let text = |text: &str| text.to_owned();
    Sweep { plan: plan(), command: text("atoll"), machine: text("m"), date: text("d"), runs }
}

#[test]
fn ratios_are_made_within_a_round_and_by_the_same_seconds() {
    let report = sweep().markdown(Some("there.svg"));
    let row = |of: &str| report.lines().find(|line| line.starts_with(of)).unwrap().to_owned();
    assert!(row("| none |").starts_with("| none | 1,000 (1,000 to 1,000) |  |  | 0, 0 | 2 |"));
    let made = "| 2 s | 925 (900 to 975) | 0.925 (0.900 to 0.975) | 0.850 (0.800 to 0.950) | 1, 1,234 | 2 |";
    assert!(row("| 2 s |").starts_with(made), "{report}");
    assert!(row("| 2 s |").ends_with("| 44.4 | 3.5, 9.0, 42 | 5 | 1.25 s |"), "{report}");
    assert!(report.contains("(there.svg)"));
}

#[test]
fn a_picture_has_a_point_for_every_interval() {
    let text = sweep().svg();
    assert_eq!((text.matches("<polyline").count(), text.matches("<circle").count()), (2, 4));
    assert!(text.contains(">none</text>") && text.contains(">2 s</text>"));
    assert!(text.ends_with("</svg>\n") && !text.contains("NaN"));
}

#[test]
fn everything_is_written_or_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    std::fs::write(path("doc.md"), "# Head\n").unwrap();
    let document = || Some(Document::read(&path("doc.md"), Marks::CHECKPOINTS).unwrap());
    let targets = |json: &str| Targets { document: Some(path("doc.md")), json: Some(path(json)) };
    assert!(write(&sweep(), document(), &targets("no/such.json")).is_err());
    assert_eq!(std::fs::read_to_string(path("doc.md")).unwrap(), "# Head\n");
    assert!(!path("plots").exists());
    write(&sweep(), document(), &targets("all.json")).unwrap();
    let text = std::fs::read_to_string(path("doc.md")).unwrap();
    assert!(text.starts_with("# Head\n") && text.contains("| 2 s |"));
    assert!(path("plots").join(PICTURE).is_file());
    let all: Value =
        serde_json::from_str(&std::fs::read_to_string(path("all.json")).unwrap()).unwrap();
    assert_eq!(all["intervals"][1]["runs"][0]["start"]["bytes"], 5_000_000);
}

#[test]
fn what_cannot_be_measured_is_refused_and_leaves_nothing() {
    let refused = |plan: Plan, wish: Wish| {
        let ask = || wish;
        let done =
            super::run(plan, String::new(), &Targets::default(), &Watch::new(&ask), &mut |_| ());
        done.unwrap_err()
    };
    let twice = Plan { intervals_ms: vec![0, 0], ..plan() };
    assert!(refused(twice, Wish::GoOn).contains("named twice"));
    let long = Plan { intervals_ms: vec![5000], ..plan() };
    assert!(refused(long, Wish::GoOn).contains("longer --seconds"));
    assert!(refused(plan(), Wish::GoOn).contains("/nonexistent/folder"));
    let within = tempfile::tempdir().unwrap();
    let there = || Plan { folder: within.path().join("sweep"), ..plan() };
    assert!(refused(there(), Wish::GoOn).contains("cannot start /nonexistent/atoll"));
    let programs = tempfile::tempdir().unwrap();
    let sleeps = programs.path().join("sleeps");
    script(&sleeps, "#!/bin/sh\nsleep 60\n");
    let slow = Plan { program: sleeps, ..there() };
    assert!(refused(slow, Wish::End).contains("interrupted"));
    assert_eq!(within.path().read_dir().unwrap().count(), 0);
    assert!(Run::of(json!({}), json!({})).unwrap_err().contains("by second"));
}
