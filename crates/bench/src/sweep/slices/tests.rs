//! Who runs when, what is made of two reports, and what is refused; the programs are scripts.

use std::path::Path;

use super::*;
use crate::compare::process::{Wish, read};
use crate::testing;

/// A program that looks now and then how the other one stands, and says what a transaction cost.
fn script(cost: &str, other: &str) -> String {
    format!(
        "#!/bin/sh\necho $$ > \"$0.pid\"\nfor at in 1 2 3 4 5 6 7 8; do\n  sleep 0.05\n  \
         pid=$(cat \"${{0%/*}}/{other}.pid\")\n  grep -s State: \"/proc/$pid/status\" >> \"$0.saw\"\ndone\n\
         echo \"$*\" >> \"$0.log\"\necho '{{\"cpu_us_per_txn\": {cost}}}'\n"
    )
}

fn written(folder: &Path, name: &str, text: &str) -> PathBuf {
    let path = folder.join(name);
    testing::script(&path, text);
    path
}

fn plan(folder: &Path, programs: [PathBuf; 2]) -> Plan {
    Plan {
        programs,
        words: ["tpcb", "--scale", "2"].map(str::to_owned).to_vec(),
        core: None,
        rounds: 2,
        slice: Duration::from_millis(40),
        folder: folder.join("here"),
    }
}

fn sliced(plan: Plan, wish: Wish) -> Result<Sliced> {
    let ask = || wish;
    run(plan, &Watch::new(&ask), &mut |_| ())
}

#[test]
fn two_programs_take_turns_and_are_set_beside_each_other() {
    let folder = tempfile::tempdir().unwrap();
    let programs = [("own", "18.0", "other"), ("other", "20.0", "own")]
        .map(|(name, cost, other)| written(folder.path(), name, &script(cost, other)));
    let both = sliced(plan(folder.path(), programs.clone()), Wish::GoOn).unwrap();
    let text = both.to_string();
    assert!(text.contains("own: 18.00 us of processor each (18.00 to 18.00)"), "{text}");
    assert!(text.ends_with("the first by the second: 0.900 (0.900 to 0.900)"), "{text}");
    let json = both.json();
    assert_eq!(
        (&json["ratio"]["median"], &json["rounds"][1][0]["cpu_us_per_txn"]),
        (&json!(0.9), &json!(18.0))
    );
    for (which, program) in programs.iter().enumerate() {
        let log = read(&program.with_extension("log"));
        let told: Vec<&str> = log.lines().collect();
        assert_eq!(told.len(), 2, "{log}");
        assert!(told[0].starts_with("bench tpcb --scale 2 --json --data "), "{log}");
        assert!(told[0].ends_with(&format!("data-{which}")), "{log}");
    }
    // Whoever runs sees the other one stopped, but for how it begins and ends.
    let saw = programs.map(|program| read(&program.with_extension("saw"))).concat();
    let stopped = saw.lines().filter(|line| line.contains("T (stopped)")).count();
    assert!(stopped > saw.lines().count() / 2, "{saw}");
    assert!(!folder.path().join("here").exists(), "its folder was left behind");
}

#[test]
fn what_cannot_be_sliced_is_refused_and_leaves_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let own = written(folder.path(), "own", &script("1.0", "own"));
    let fails =
        written(folder.path(), "fails", "#!/bin/sh\necho 'atoll: no such benchmark' >&2\nexit 1\n");
    let silent = written(folder.path(), "silent", "#!/bin/sh\necho '{}'\n");
    let refused = |programs: [&PathBuf; 2], wish| {
        sliced(plan(folder.path(), programs.map(PathBuf::clone)), wish).unwrap_err()
    };
    let told = refused([&own, &fails], Wish::GoOn);
    assert!(told.ends_with("fails failed: atoll: no such benchmark"), "{told}");
    assert!(refused([&silent, &silent], Wish::GoOn).contains("does not say what"));
    let nobody = PathBuf::from("/nonexistent/atoll");
    assert!(refused([&own, &nobody], Wish::GoOn).contains("cannot start /nonexistent/atoll"));
    assert!(refused([&own, &own], Wish::End).contains("interrupted"));
    let wire = Plan {
        words: ["tpcc", "--url", "x"].map(str::to_owned).to_vec(),
        ..plan(folder.path(), [own.clone(), own.clone()])
    };
    assert!(sliced(wire, Wish::GoOn).unwrap_err().contains("leave --url out"));
    assert!(!folder.path().join("here").exists());
}
