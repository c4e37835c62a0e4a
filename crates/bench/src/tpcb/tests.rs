//! Whole runs at a tiny size, closed and open loop.
#![allow(clippy::unwrap_used, reason = "tests")]

use super::*;

fn tiny(clients: u64, rate: Option<f64>) -> Report {
    let setting = Setting {
        scale: 1,
        clients,
        instances: Instances::Count(2),
        seconds: 1,
        warmup_seconds: 0,
        rate: rate.map(|rate| Rate::new(rate).unwrap()),
        affinity: Affinity::None,
        durability: Durability::Commit,
        data: None,
        seed: 7,
    };
    run(&setting, &mut |_| ()).unwrap()
}

#[test]
fn a_closed_loop_does_what_it_can() {
    let report = tiny(4, None);
    let json = report.json();
    assert!(report.transactions > 0, "{report}");
    assert_eq!((&json["loop"], &json["rate"]), (&"closed".into(), &serde_json::Value::Null));
    assert!(report.to_string().contains("closed loop"), "{report}");
}

#[test]
fn an_open_loop_does_what_arrives_and_tells_what_it_could_not() {
    // A client alone meets no conflict: all that arrive are committed.
    let report = tiny(1, Some(100.0));
    assert_eq!((report.transactions, report.unserved), (100, 0), "{report}");
    assert_eq!(report.json()["loop"], "open");
    let report = tiny(1, Some(10_000_000.0));
    assert_eq!(report.unserved, 10_000_000 - report.transactions, "{report}");
    assert!(report.latencies.percentile_us(50.0) > 500_000, "{report}");
    assert!(report.to_string().contains("arrivals were not served"), "{report}");
}
