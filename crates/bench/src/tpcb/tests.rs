//! Whole runs at a tiny size, closed and open loop; and what is refused.
#![allow(clippy::unwrap_used, reason = "tests")]

use super::*;
use crate::recovery::{Left, recover};

fn setting(clients: u64, rate: Option<f64>) -> Setting {
    Setting {
        scale: 1,
        clients,
        instances: Instances::Count(2),
        prefault: Prefault::OnUse,
        seconds: 1,
        warmup_seconds: 0,
        rate: rate.map(|rate| Rate::new(rate).unwrap()),
        affinity: Affinity::None,
        durability: Durability::Commit,
        data: None,
        seed: 7,
    }
}

fn tiny(clients: u64, rate: Option<f64>) -> Report {
    run(&setting(clients, rate), &mut |_| ()).unwrap()
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

#[test]
fn what_cannot_be_run_is_one_line() {
    #[track_caller]
    fn refused(setting: &Setting, why: &str) {
        let error = run(setting, &mut |_| ()).err().unwrap();
        assert!(error.contains(why) && !error.contains('\n'), "{error}");
    }
    let setting = setting(1, None);
    refused(&Setting { scale: 0, ..setting.clone() }, "from 1 to 21474");
    // Account 2,147,500,000 would have a negative number.
    refused(&Setting { scale: 21_475, ..setting.clone() }, "from 1 to 21474");
    refused(&Setting { clients: 0, ..setting.clone() }, "at least 1");
    refused(&Setting { seconds: 0, ..setting.clone() }, "at least 1");
    refused(&Setting { seconds: u64::MAX, ..setting.clone() }, "a smaller --scale");
    assert!(pool_bytes(u64::MAX) == u64::MAX, "what wraps would be small");
}

/// Each is left as it is.
#[test]
fn what_no_run_has_left_is_not_recovered() {
    let folder = tempfile::tempdir().unwrap();
    let names = || -> Vec<String> {
        let entries = folder.path().read_dir().unwrap();
        entries.map(|it| it.unwrap().file_name().into_string().unwrap()).collect()
    };
    let refused = |name: &str, scale: u64| {
        recover(&folder.path().join(name), Left::Tpcb { scale }, None).unwrap_err()
    };
    assert!(refused("", 0).contains("from 1 to 21474"));
    assert!(refused("", 1).contains("there is no database here"));
    assert!(refused("not there", 1).contains("not there: there is no such directory"));
    assert!(names().is_empty());
    std::fs::write(folder.path().join("a file"), "").unwrap();
    assert!(refused("", 1).contains("this is not an Atoll data directory"));
    assert!(refused("a file", 1).contains("a file: there is no such directory"));
    assert_eq!(names(), ["a file"]);
}

#[test]
fn what_a_run_has_left_is_recovered_at_its_scale() {
    let folder = tempfile::tempdir().unwrap();
    let setting = Setting { data: Some(folder.path().to_owned()), ..setting(2, None) };
    let left = run(&setting, &mut |_| ()).unwrap();
    let error = recover(folder.path(), Left::Tpcb { scale: 2 }, None).unwrap_err();
    assert!(error.contains("loaded at scale 1, not 2"), "{error}");
    let recovered = recover(folder.path(), Left::Tpcb { scale: 1 }, None).unwrap();
    let commits = recovered.report.commits;
    assert!(commits >= left.transactions, "{commits} {left}");
}
