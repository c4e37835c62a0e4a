//! What runs benchmarks as programs of their own and sets them beside each other: intervals between checkpoints, the
//! aims, and another build.
#![allow(clippy::unwrap_used, reason = "tests")]

mod common;

use std::path::Path;

use common::bench::{bench, fails};

#[test]
fn intervals_between_checkpoints_are_run_in_turns() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    fails(&["checkpoints", "--intervals", "5"], "a time from 100ms to 7d");
    fails(&["checkpoints", "--intervals", "9s", "--seconds", "2"], "longer --seconds");
    std::fs::create_dir(path("runs")).unwrap();
    let (runs, document, all) = (path("runs"), path("doc.md"), path("all.json"));
    let sizes = ["--warehouses", "1", "--clients", "4", "--buffer-pool", "600"];
    let times = ["--intervals", "0,500ms", "--rounds", "1", "--seconds", "2", "--warmup", "0"];
    let places = ["--folder", &runs, "--output", &document, "--json", &all];
    let output = bench(&[&["checkpoints"], &sizes[..], &times, &places].concat());
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert_eq!(Path::new(&runs).read_dir().unwrap().count(), 0);
    let report = std::fs::read_to_string(&document).unwrap();
    assert!(report.contains("\n| none | ") && report.contains("\n| 500 ms | "), "{report}");
    let all: serde_json::Value =
        serde_json::from_str(&std::fs::read_to_string(&all).unwrap()).unwrap();
    let of = |interval: usize, what: &str| {
        all["intervals"][interval]["runs"][0].pointer(what).unwrap().as_f64().unwrap()
    };
    assert_eq!(of(0, "/run/checkpoints"), 0.0);
    assert!(of(1, "/run/checkpoints") >= 1.0, "{all}");
    assert!(of(0, "/run/bytes_written") > 0.0 && of(0, "/start/commits") > 0.0, "{all}");
    assert!(of(0, "/start/bytes") > of(1, "/start/bytes"), "{all}");
}

#[test]
fn aims_are_measured_and_reported() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    fails(&["aims", "--aims", "fast"], "one of confined, two, ");
    fails(&["aims", "--aims", "insert,insert"], "named twice");
    fails(&["aims", "--rounds", "0"], "0 is not in 1..");
    fails(&["aims", "--output", &path("no/doc.md")], "its folder is not there");
    std::fs::create_dir(path("runs")).unwrap();
    let (runs, document, all) = (path("runs"), path("doc.md"), path("all.json"));
    std::fs::write(&document, "# Head\n").unwrap();
    let times = ["--aims", "insert,hot", "--rounds", "1", "--seconds", "1", "--warmup", "0"];
    let places = ["--folder", &runs, "--output", &document, "--json", &all];
    let output = bench(&[&["aims"], &times[..], &places].concat());
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert_eq!(Path::new(&runs).read_dir().unwrap().count(), 0);
    let report = std::fs::read_to_string(&document).unwrap();
    assert!(
        report.starts_with("# Head\n") && report.contains("\n| insert: rows of 100 "),
        "{report}"
    );
    assert!(report.contains("\n| hot: `atoll bench ycsb --mix 50/50 "), "{report}");
    let all: serde_json::Value =
        serde_json::from_str(&std::fs::read_to_string(&all).unwrap()).unwrap();
    for aim in [0, 1] {
        let aim = &all["aims"][aim];
        assert!(aim["measured"]["median"].as_f64() > Some(0.0) && aim["met"].is_boolean(), "{aim}");
    }
    assert_eq!(all["runs"].as_array().unwrap().len(), 3, "{all}");
}

#[test]
fn another_build_is_set_beside_this_one() {
    let folder = tempfile::tempdir().unwrap();
    let runs = folder.path().to_str().unwrap();
    let program = env!("CARGO_BIN_EXE_atoll");
    let slices = |more: &[&'static str]| {
        let own =
            ["slices", "--against", program, "--folder", runs, "--rounds", "1", "--slice", "50"];
        [&own[..], more].concat()
    };
    fails(&slices(&[]), "BENCHMARK");
    fails(&slices(&["--", "nothing"]), "unrecognized subcommand");
    fails(&slices(&["--", "tpcb", "--url", "x"]), "leave --url out");
    let one =
        ["--json", "--", "smallbank", "--customers", "1000", "--clients", "4", "--seconds", "1"];
    let output = bench(&slices(&one));
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let json: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert!(json["ratio"]["median"].as_f64() > Some(0.0), "{json}");
    assert_eq!(json["rounds"][0][1]["benchmark"], "smallbank");
    assert_eq!(folder.path().read_dir().unwrap().count(), 0);
}
