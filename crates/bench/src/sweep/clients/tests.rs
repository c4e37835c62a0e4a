//! Sweeps of made-up runs; what is refused.
#![allow(clippy::unwrap_used, reason = "tests")]

use super::*;
use serde_json::json;

/// A run of so many transactions a second over the wire.
fn ran(per_second: f64) -> Value {
    json!({
        "benchmark": "tpcc over the wire",
        "loop": "closed",
        "rate": null,
        "isolation": "read-committed",
        "durability": "commit",
        "seconds": 10.003,
        "tps": per_second,
        "aborts": 3,
        "latency_us": {"p50": 100, "p95": 200, "p99": 3000},
        "server_cpu_us_per_txn": 40.0,
        "client_cpu_us_per_txn": 1e5 / per_second,
    })
}

fn plan(clients: &[u64], rounds: u64) -> Plan {
    Plan { clients: clients.to_vec(), rounds }
}

#[test]
fn numbers_of_clients_take_turns_and_stand_beside_each_other() {
    let mut rates = [1000.0, 2000.0, 1800.0, 900.0, 1100.0, 2200.0].into_iter();
    let mut order = Vec::new();
    let sweep = run(
        &plan(&[16, 1024], 3),
        |clients| {
            order.push(clients);
            Ok(ran(rates.next().unwrap()))
        },
        &mut |_| (),
    )
    .unwrap();
    assert_eq!(order, [16, 1024, 1024, 16, 1024, 16]);
    let text = sweep.to_string();
    let row = |of: &str| text.lines().find(|line| line.starts_with(of)).unwrap().to_owned();
    assert_eq!(
        row("| 16 |"),
        "| 16 | 1,000 (900 to 2,200) | 0.56 | 100, 200, 3,000 | 40.0 (40.0 to 40.0) | 100.0 (45.5 to 111.1) | 3 |"
    );
    assert!(row("| 1,024 |").starts_with("| 1,024 | 1,800 (1,100 to 2,000) | 1.00 |"), "{text}");
    assert!(row("| clients").ends_with("| server (us) | clients (us) | conflicts |"), "{text}");
    let cells = |row: &str| row.matches('|').count();
    assert_eq!(cells(&row("| ---")), cells(&row("| 16 |")));
    let head = "tpcc over the wire by clients: closed loop, read-committed, durability commit, 10 s a run; rounds: 3,";
    assert!(text.starts_with(head), "{text}");
    // By the medians; of single rounds 1000/2000, 900/1800, 1100/2200.
    assert!(text.ends_with("0.56 (0.50 to 0.50 in single rounds)"), "{text}");

    let json = sweep.json();
    assert_eq!(json["results"][1]["tps"]["median"], 1800.0);
    assert_eq!(json["results"][0]["runs"].as_array().unwrap().len(), 3);
    assert_eq!(json["results"][0]["server_cpu_us_per_txn"]["most"], 40.0);
    assert_eq!(json["results"][0]["cpu_us_per_txn"], Value::Null);
    assert_eq!(json["least_by_most"]["least"], 0.5);
}

/// Natively clients and kernel are one process; a server whose process nobody named has no figure.
#[test]
fn what_is_not_known_has_no_column() {
    let of = |name: &str| {
        let mut ran = ran(1000.0);
        for name in ["server_cpu_us_per_txn", "client_cpu_us_per_txn"] {
            ran[name] = Value::Null;
        }
        ran[name] = 25.5.into();
        run(&plan(&[8], 2), |_| Ok(ran.clone()), &mut |_| ()).unwrap().to_string()
    };
    assert!(of("cpu_us_per_txn").contains("| processor (us) | conflicts |"));
    assert!(of("client_cpu_us_per_txn").contains("(us) | clients (us) | conflicts |"));
    assert!(of("client_cpu_us_per_txn").contains("| 25.5 (25.5 to 25.5) | 3 |"));
}

#[test]
fn what_cannot_be_swept_is_one_line() {
    let refused = |plan: Plan| run(&plan, |_| Ok(ran(1.0)), &mut |_| ()).err().unwrap();
    assert!(refused(plan(&[8, 16, 8], 1)).contains("named twice"));
    assert!(refused(plan(&[], 1)).contains("at least 1"));
    assert!(refused(plan(&[8, 0], 1)).contains("at least 1"));
    assert!(refused(plan(&[8], 0)).contains("at least 1"));
    let failed = |one: Result<Value>| {
        let one = move |_: u64| one.clone();
        run(&plan(&[8, 16], 1), one, &mut |_| ()).err().unwrap()
    };
    assert_eq!(failed(Err("no server".to_owned())), "no server");
    assert_eq!(failed(Ok(json!({"tps": 1.0}))), "a run does not say /latency_us/p50");
    assert_eq!(
        (plan(&[8], 1).one(), plan(&[8], 2).one(), plan(&[8, 9], 1).one()),
        (Some(8), None, None)
    );
}
