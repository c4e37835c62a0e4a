//! What is run for which aim, what is made of it, and what is refused; the program is a script that answers with
//! figures.

use std::path::Path;

use serde_json::json;

use super::*;
use crate::compare::process::Wish;
use crate::testing::script;

/// Answers a benchmark as its words say, and keeps them.
const SCRIPT: &str = r#"#!/bin/sh
echo "$*" >> "$0.log"
case "$*" in
  *"--warehouses 1"*) tps=600 p99=2000 ;;
  *"--warehouses 2"*) tps=1200 p99=3000 ;;
  *--rate*) tps=500 p99=700 ;;
  *) tps=1001 p99=400 ;;
esac
case "$2" in
  insert) echo '{"rows_per_second": 1500000, "cpu_us_per_row": 0.9}' ;;
  sync) case "$*" in *--writers*) p99=480 ;; *) p99=260 ;; esac; echo "{\"fdatasync_us\": {\"p99\": $p99}}" ;;
  ycsb) echo 'no JSON' ;;
  tpcc|tpcb) echo "{\"tps\": $tps, \"cpu_us_per_txn\": 20.5, \"latency_us\": {\"p99\": $p99}}" ;;
  *) exit 3 ;;
esac
"#;

/// A folder with the script in it.
fn program() -> (tempfile::TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("atoll");
    script(&path, SCRIPT);
    (folder, path)
}

fn plan(folder: &Path, program: &Path, aims: &[Aim]) -> Plan {
    Plan {
        program: program.to_owned(),
        aims: aims.to_vec(),
        rounds: 2,
        seconds: 7,
        warmup_seconds: 3,
        folder: folder.join("here"),
    }
}

fn measured(plan: Plan, targets: &Targets) -> Result<String> {
    let ask = || Wish::GoOn;
    super::run(plan, "atoll bench aims".to_owned(), targets, &Watch::new(&ask), &mut |_| ())
}

#[test]
fn aims_are_judged_by_what_their_ways_did_in_the_same_rounds() {
    let (folder, program) = program();
    let json = folder.path().join("all.json");
    let targets = Targets { document: None, json: Some(json.clone()) };
    let plan = plan(folder.path(), &program, &[Aim::One, Aim::Insert, Aim::Half]);
    let report = measured(plan, &targets).unwrap();
    let row = |of: &str| report.lines().find(|line| line.starts_with(of)).unwrap().to_owned();
    assert!(
        row("| one: TPC-C").ends_with("| 0.6 times | 0.50 (0.50 to 0.50) | missed |"),
        "{report}"
    );
    let rows = "| 1,000,000 rows a second | 1,500,000 (1,500,000 to 1,500,000) | met |";
    assert!(row("| insert: rows").ends_with(rows), "{report}");
    // Twice 260, and 200.
    let half = "| at most 720 us | 700 (700 to 700) | met |";
    assert!(row("| half-load: TPC-B").ends_with(half), "{report}");
    assert!(row("| half load: `atoll bench tpcb").contains("--rate HALF"), "{report}");
    let alone = "| 700 (700 to 700); the disk alone, with the same arrivals: 480 (480 to 480) |";
    assert!(row("| half load: `atoll bench tpcb").ends_with(alone), "{report}");
    assert!(row("| two: `").contains("| 1,200 (1,200 to 1,200) | 20.5 | 3,000 (3,000 to 3,000) |"));
    let all: Value = serde_json::from_str(&std::fs::read_to_string(json).unwrap()).unwrap();
    assert_eq!(all["aims"][0]["met"], false);
    assert_eq!(all["runs"][0]["rounds"][1][0]["tps"], 1200);
    assert_eq!(all["read_ns"].as_array().unwrap().len(), 2 * 4, "before each of four ways' two");

    let log = std::fs::read_to_string(folder.path().join("atoll.log")).unwrap();
    let told: Vec<&str> = log.lines().map(|line| line.split(" --data ").next().unwrap()).collect();
    let two = "bench tpcc --warehouses 2 --instances 2 --clients 128 --prefault --warmup 3 --checkpoint-interval 1h --checkpoint-wal 0 --seconds 7 --json";
    assert_eq!(told[0], two);
    // Two rounds of one step for three ways, of four for the last.
    assert_eq!(told.len(), 2 * (3 + 4), "{log}");
    assert!(told.iter().any(|it| it.contains("bench tpcb") && it.contains("--rate 500 ")), "{log}");
    assert!(told.iter().any(|it| it.starts_with("bench sync --bytes 4096 --seconds 7")), "{log}");
    let commits = "bench sync --bytes 4096 --writers 2 --rate 500 --seconds 7";
    assert!(told.iter().any(|it| it.starts_with(commits)), "{log}");
    assert!(!folder.path().join("here").exists(), "its folder was left behind");
}

/// A ratio is of one round; a median over them says more than one of all.
#[test]
fn shares_are_made_within_a_round() {
    let run = |per_second: f64| Run {
        per_second,
        cpu_us: 1.0,
        p99_us: None,
        bare: None,
        json: vec![json!({})],
    };
    let of = |rates: [f64; 3]| rates.map(run).to_vec();
    let measured = Measured {
        plan: plan(Path::new("/"), Path::new("/"), &[Aim::Two]),
        command: String::new(),
        machine: String::new(),
        date: String::new(),
        core: 1,
        ways: vec![Way::Confined, Way::Two],
        runs: vec![of([100.0, 50.0, 80.0]), of([190.0, 100.0, 80.0])],
        paces: [(1.0, 30.0, 4.0), (2.0, 90.0, 6.0), (1.5, 50.0, 9.0)]
            .map(|(step_ns, read_ns, pass_ns)| Pace { step_ns, read_ns, pass_ns })
            .to_vec(),
    };
    let judged = measured.judged(Aim::Two).unwrap();
    assert!((judged.measured.median - 1.9).abs() < 1e-9 && judged.is_met, "{judged:?}");
    assert!((judged.measured.least - 1.0).abs() < 1e-9, "{judged:?}");
    assert_eq!(measured.judged(Aim::Hot), None, "nothing was run for it");
    let report = measured.markdown();
    assert!(
        report.contains("| confined: `taskset -c 1 atoll bench tpcc --warehouses 1 "),
        "{report}"
    );
    let pace = "before each run: 1.50 (1.00 to 2.00) ns a multiplication and an addition, 50.00 (30.00 to 90.00) ns";
    assert!(report.contains(pace), "{report}");
    assert!(report.contains(", 6.00 (4.00 to 9.00) ns until one thread sees"), "{report}");
}

#[test]
fn every_aim_has_a_name_and_ways() {
    for aim in Aim::ALL {
        assert_eq!(aim.name().parse::<Aim>(), Ok(aim));
        assert!(!aim.ways().is_empty() && !aim.what().is_empty());
    }
    let of_all = plan(Path::new("/"), Path::new("/"), &Aim::ALL);
    assert_eq!(of_all.ways(), Way::ALL, "no way is run for nothing");
    assert!("none".parse::<Aim>().unwrap_err().contains("half-load"));
}

#[test]
fn what_cannot_be_measured_is_refused_and_leaves_nothing() {
    let (folder, program) = program();
    let document = folder.path().join("doc.md");
    std::fs::write(&document, "# Head\n").unwrap();
    let targets = Targets { document: Some(document.clone()), json: None };
    let refused = |aims: &[Aim], program: &Path| {
        measured(plan(folder.path(), program, aims), &targets).unwrap_err()
    };
    assert!(refused(&[Aim::One, Aim::One], &program).contains("named twice"));
    assert!(refused(&[Aim::Hot], &program).contains("uniform (bench ycsb)"));
    let nobody = refused(&[Aim::Insert], Path::new("/nonexistent/atoll"));
    assert!(nobody.contains("cannot start /nonexistent/atoll"), "{nobody}");
    assert!(Run::of(Way::Two, vec![json!({})]).unwrap_err().contains("does not say /"));
    let ask = || Wish::End;
    let sleeps = folder.path().join("sleeps");
    script(&sleeps, "#!/bin/sh\nsleep 60\n");
    let slow = plan(folder.path(), &sleeps, &[Aim::Insert]);
    let ended = super::run(slow, String::new(), &targets, &Watch::new(&ask), &mut |_| ());
    assert!(ended.unwrap_err().contains("interrupted"));
    assert_eq!(std::fs::read_to_string(&document).unwrap(), "# Head\n");
    assert!(!folder.path().join("here").exists());
}
