//! The open loop: what arrives is done, however slowly, and waits count from the arrival.
#![allow(clippy::unwrap_used, reason = "tests")]

use crate::arrivals::Rate;
use crate::choice::Choice;
use crate::report::Report;
use crate::setting::{Isolation, Setting};
use crate::smallbank::SmallBank;
use crate::testing::{run_tiny, setting};

fn arriving(clients: u64, rate: f64) -> Report {
    let rate = Some(Rate::new(rate).unwrap());
    let setting = Setting { clients, rate, ..setting(Isolation::ReadCommitted) };
    run_tiny(&SmallBank::new(100, Choice::Uniform).unwrap(), &setting)
}

/// Clients that wait for arrivals do each of them once, also where there are more clients than
/// transactions.
#[test]
fn as_many_are_done_as_arrive() {
    for (clients, rate) in [(8, 200.0), (32, 10.0)] {
        let report = arriving(clients, rate);
        assert_eq!(report.driven.counts.transactions(), rate as u64, "{report}");
        assert_eq!(report.driven.latencies.count(), rate as u64, "{report}");
        let json = report.json();
        assert_eq!((&json["loop"], &json["rate"]), (&"open".into(), &rate.into()), "{json}");
        assert_eq!(json["unserved"], 0, "{json}");
        assert!(report.to_string().contains("arrivals a second"), "{report}");
    }
}

/// Far more than can be done: the queue grows all the time, so half of those that were served have
/// waited for half of the run, though each took no longer than before; the others are told.
#[test]
fn arrivals_are_not_omitted() {
    let report = arriving(2, 10_000_000.0);
    let counts = report.driven.counts.transactions();
    assert!(report.driven.latencies.percentile_us(50.0) > 500_000, "{report}");
    assert_eq!(report.driven.unserved, 10_000_000 - counts, "{report}");
    assert_eq!(report.json()["unserved"], report.driven.unserved);
    assert!(report.to_string().contains("arrivals were not served"), "{report}");
}
