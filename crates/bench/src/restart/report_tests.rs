//! Tests of the report, and of plans that are refused.
#![allow(clippy::unwrap_used, reason = "tests")]

use std::path::Path;
use std::rc::Rc;

use super::*;
use crate::compare::clients::Tools;
use crate::compare::contender::{Contender, tests::places};
use crate::compare::engine::{Atoll, Checkpoints, Engine, MariaDb, Postgres, Tuning};

fn start(seconds: f64, replay: Option<f64>) -> Start {
    let told = replay.iter().map(|it| format!("replayed in {it} s")).collect();
    Start { seconds, cpu: seconds * 2.0, replay, told }
}

/// Two servers, three rounds.
fn report() -> Report {
    let contender = |version: &str, engine: Box<dyn Engine>| {
        Rc::new(Contender { version: version.to_owned(), build: None, engine })
    };
    let measured = |log_bytes, starts: [Start; 3]| Measured {
        transactions: 1_000_000,
        seconds: 61.0,
        log_bytes,
        starts: starts.to_vec(),
    };
    let plan = Plan {
        contenders: vec![
            contender("Atoll 1", Box::new(Atoll { program: "/a".into() })),
            contender("PostgreSQL 99", Box::new(Postgres { bin: "/p".into() })),
        ],
        transactions: 1_000_000,
        clients: 16,
        scale: 100,
        rounds: 3,
        touch_bytes: 2 << 30,
        tuning: Tuning { memory_bytes: 4 << 30, clients_max: 16, checkpoints: Checkpoints::Off },
        tools: Tools::find(&places(Path::new("/nonexistent")), &[], Path::new("/a")).unwrap(),
        folder: "/nonexistent/work".into(),
    };
    let (command, machine) = ("atoll bench restart".to_owned(), "a machine".to_owned());
    let measured = vec![
        measured(2_500_000_000, [1.0, 2.0, 3.0].map(|it| start(it, Some(it / 2.0)))),
        measured(1_900_000_000, [start(8.0, Some(7.0)), start(8.0, None), start(6.0, Some(5.0))]),
    ];
    Report { plan, measured, command, machine, date: "2026-11-22".to_owned() }
}

#[test]
fn figures_stand_in_their_rows() {
    let text = report().markdown();
    let rows: Vec<&str> = text.lines().filter(|it| it.contains("00 | ")).collect();
    assert_eq!(
        rows,
        [
            "| Atoll 1 | 2,500 | 2.00 (1.00 to 3.00) |  | 1.00, 2.00, 3.00 | 1.00 (0.50 to 1.50) | 4.00 (2.00 to \
             6.00) | 61 |",
            "| PostgreSQL 99 | 1,900 | 8.00 (6.00 to 8.00) | 0.25 (0.12 to 0.50) | 8.00, 8.00, 6.00 |  | 16.00 (12.00 \
             to 16.00) | 61 |",
        ],
        "{text}"
    );
    for part in [
        "### Restart after SIGKILL: Atoll 1 beside PostgreSQL 99",
        "`atoll bench restart`, 2026-11-22, on a machine.",
        "1,000,000 transactions of pgbench's TPC-B-like (`pgbench -n -M prepared -c 16 -j 2 -t 62500`)",
        "after `pgbench -i -s 100` and CHECKPOINT",
        "In each of 3 rounds",
        "2048 MiB of memory are touched and freed, and 3 seconds pass",
        "`--buffer-pool 4096MB, --listen none, --supervise off, --checkpoint-interval 0, --checkpoint-wal 0`",
        "max_wal_size=200GB, checkpoint_timeout=1d,",
        "Atoll 1 in the last round: `replayed in 1.5 s`.",
        "PostgreSQL 99 in the last round: `replayed in 5 s`.",
    ] {
        assert!(text.replace('\n', " ").contains(part), "no {part} in {text}");
    }
    let prose = text.lines().filter(|it| !it.starts_with('|'));
    assert!(prose.clone().all(|it| it.chars().count() <= 120), "{text}");
}

#[test]
fn the_same_is_in_json() {
    let json = report().json();
    let [own, its] = [&json["servers"][0], &json["servers"][1]];
    assert_eq!((&json["scale"], &json["rounds"]), (&100.into(), &3.into()));
    assert_eq!(own["subject_against_this"], Value::Null);
    assert_eq!(its["subject_against_this"]["median"], 0.25);
    assert_eq!(its["first_answer_seconds"]["least"], 6.0);
    assert_eq!(
        (&own["replay_seconds"]["median"], &its["replay_seconds"]),
        (&1.0.into(), &Value::Null)
    );
    assert_eq!(own["rounds"][2]["first_answer_seconds"], 3.0);
    assert_eq!(its["log_bytes"], 1_900_000_000_u64);
    assert_eq!(own["settings"][3], "--checkpoint-interval 0");
}

#[test]
fn every_client_does_the_same_number() {
    let mut plan = report().plan;
    let each = |plan: &Plan| (plan.each(), plan.each() * plan.clients);
    assert_eq!(each(&plan), (62_500, 1_000_000));
    plan.clients = 3;
    assert_eq!(each(&plan), (333_334, 1_000_002));
}

#[test]
fn what_cannot_be_measured_is_refused() {
    let plan = || {
        let mut plan = report().plan;
        (plan.scale, plan.transactions, plan.touch_bytes) = (1, 1, 1);
        plan.folder = std::env::temp_dir().join("no-such-folder");
        plan
    };
    assert_eq!(plan().validate(), Ok(()));
    let refused = |change: &dyn Fn(&mut Plan)| {
        let mut plan = plan();
        change(&mut plan);
        plan.validate().unwrap_err()
    };
    let too_much = refused(&|it| it.touch_bytes = u64::MAX);
    assert!(too_much.contains("a smaller --touch"), "{too_much}");
    let too_large = refused(&|it| it.scale = u64::MAX);
    assert!(too_large.contains("a smaller --scale"), "{too_large}");
    let engine = || Box::new(MariaDb { server: "/m".into(), install: "/i".into() });
    let mariadb = || Contender { version: "MariaDB 99".to_owned(), build: None, engine: engine() };
    let unspoken = refused(&|it| it.contenders.push(Rc::new(mariadb())));
    assert_eq!(unspoken, "MariaDB 99 is not measured: pgbench does not speak to it");
}
