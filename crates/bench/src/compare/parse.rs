//! What clients print, read as figures.
//!
//! Invariants: a figure that is not where it is expected is an error that names it, never a
//! default. Latencies are microseconds.

use std::time::Duration;

use serde_json::Value;

use super::Result;
use crate::cpu::Machine;
use crate::latency::Latencies;

/// Latencies of a run, in microseconds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Latency {
    /// Their mean.
    pub mean: f64,
    /// Half are below.
    pub p50: f64,
    /// 95 of 100 are below.
    pub p95: f64,
    /// 99 of 100 are below.
    pub p99: f64,
}

/// What a client says of its run.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Told {
    /// Transactions.
    pub transactions: u64,
    /// Of them in a second, without the time to connect.
    pub per_second: f64,
    /// Tries that failed, whether tried again (sysbench, ours) or not (pgbench).
    pub failed: u64,
    /// Arrivals of an open loop that nobody has taken by its end; only our own client tells.
    pub unserved: u64,
    /// How long they took.
    pub latency: Latency,
    /// TPC-C's tpmC, New-Orders a minute; none of other workloads, or from a report that did not tell.
    pub new_orders_per_minute: Option<f64>,
}

/// The text after `before` in the first line that has it.
fn after<'a>(text: &'a str, before: &str) -> Result<&'a str> {
    let found = text.lines().find_map(|line| line.split_once(before).map(|(_, rest)| rest.trim()));
    found.ok_or_else(|| format!("the client did not say \"{}\"", before.trim()))
}

/// The number at the beginning of what follows `before`.
fn number<T: std::str::FromStr>(text: &str, before: &str) -> Result<T> {
    let rest = after(text, before)?;
    let end = rest.find(|it: char| !it.is_ascii_digit() && it != '.').unwrap_or(rest.len());
    let parsed = rest[..end].parse();
    parsed.map_err(|_| format!("the client said \"{}{rest}\", which is no number", before.trim()))
}

/// pgbench's summary, with the latencies of its log.
pub fn pgbench(text: &str, log: &Latencies) -> Result<Told> {
    if log.count() == 0 {
        return Err("pgbench logged no transaction: run for longer".to_owned());
    }
    let at = |percent| log.percentile_us(percent) as f64;
    Ok(Told {
        transactions: number(text, "number of transactions actually processed: ")?,
        per_second: number(text, "tps = ")?,
        failed: number(text, "number of failed transactions: ")?,
        unserved: 0,
        latency: Latency {
            mean: number::<f64>(text, "latency average = ")? * 1000.0,
            p50: at(50.0),
            p95: at(95.0),
            p99: at(99.0),
        },
        new_orders_per_minute: None,
    })
}

/// How many transactions pgbench has done, and in which seconds: every one was acknowledged.
pub fn pgbench_done(text: &str) -> Result<(u64, f64)> {
    let done = number(text, "number of transactions actually processed: ")?;
    Ok((done, done as f64 / number::<f64>(text, "tps = ")?.max(f64::MIN_POSITIVE)))
}

/// A file of pgbench's log: client, number, microseconds, and more. Failed ones have a word
/// instead of a time, and are left out.
pub fn pgbench_log(text: &str, latencies: &mut Latencies) {
    let micros = |line: &str| line.split(' ').nth(2)?.parse().ok();
    for time in text.lines().filter_map(micros) {
        latencies.record(Duration::from_micros(time));
    }
}

/// sysbench's summary, with its histogram.
pub fn sysbench(text: &str) -> Result<Told> {
    let buckets = histogram(text)?;
    let at = |percent: f64| percentile(&buckets, percent) * 1000.0;
    let rate = after(text, "transactions:")?;
    let per_second = rate.split_once('(').map(|(_, rest)| rest).unwrap_or_default();
    Ok(Told {
        transactions: number(text, "transactions:")?,
        per_second: number(per_second, "")?,
        failed: number(text, "ignored errors:")?,
        unserved: 0,
        latency: Latency {
            mean: number::<f64>(text, "avg:")? * 1000.0,
            p50: at(50.0),
            p95: at(95.0),
            p99: at(99.0),
        },
        new_orders_per_minute: None,
    })
}

/// Lines as `1.697 |****  13`: milliseconds and how many.
fn histogram(text: &str) -> Result<Vec<(f64, u64)>> {
    let bucket = |line: &str| -> Option<(f64, u64)> {
        let (value, rest) = line.split_once(" |")?;
        Some((value.trim().parse().ok()?, rest.trim_start_matches('*').trim().parse().ok()?))
    };
    let found: Vec<(f64, u64)> = text.lines().filter_map(bucket).collect();
    if found.is_empty() { Err("sysbench printed no histogram".to_owned()) } else { Ok(found) }
}

/// The least value that so many percent are not above.
fn percentile(buckets: &[(f64, u64)], percent: f64) -> f64 {
    let all: u64 = buckets.iter().map(|it| it.1).sum();
    let (wanted, mut below) = ((all as f64 * percent / 100.0).ceil() as u64, 0);
    let found = buckets.iter().find(|it| {
        below += it.1;
        below >= wanted
    });
    found.or(buckets.last()).map_or(0.0, |it| it.0)
}

/// What `atoll bench` prints with --json, and the processor times it has measured itself: of its
/// clients, of the server's processes, and of the machine.
pub fn own(text: &str) -> Result<(Told, Duration, Duration, Machine)> {
    let json: Value = serde_json::from_str(text)
        .map_err(|error| format!("the client's report is not JSON: {error}"))?;
    let number = |pointer: &str| {
        let value = json.pointer(pointer).and_then(Value::as_f64);
        value.ok_or_else(|| format!("the client's report has no {pointer}"))
    };
    let seconds = |pointer: &str| number(pointer).map(Duration::from_secs_f64);
    let transactions = number("/transactions")?;
    let each = |pointer: &str| {
        number(pointer).map(|micros| Duration::from_secs_f64(micros * transactions / 1e6))
    };
    let told = Told {
        transactions: transactions as u64,
        per_second: number("/tps")?,
        failed: number("/aborts")? as u64,
        unserved: number("/unserved")? as u64,
        latency: Latency {
            mean: number("/latency_us/mean")?,
            p50: number("/latency_us/p50")?,
            p95: number("/latency_us/p95")?,
            p99: number("/latency_us/p99")?,
        },
        // Of tpcc alone.
        new_orders_per_minute: json["new_orders_per_minute"].as_f64(),
    };
    let machine = Machine {
        busy: seconds("/machine_seconds/busy")?,
        idle: seconds("/machine_seconds/idle")?,
        stolen: seconds("/machine_seconds/stolen")?,
    };
    Ok((told, each("/client_cpu_us_per_txn")?, each("/server_cpu_us_per_txn")?, machine))
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    const PGBENCH: &str = "\
pgbench (15.18 (Debian 15.18-0+deb12u1), server 15.0)
transaction type: <builtin: select only>
scaling factor: 1
query mode: prepared
number of clients: 8
number of threads: 2
maximum number of tries: 1
duration: 2 s
number of transactions actually processed: 285925
number of failed transactions: 3 (0.001%)
latency average = 0.056 ms
initial connection time = 0.773 ms
tps = 143003.327450 (without initial connection time)
";

    const SYSBENCH: &str = "\
sysbench 1.0.20 (using system LuaJIT 2.1.0-beta3)

Latency histogram (values are in milliseconds)
       value  ------------- distribution ------------- count
       0.424 |**********                               50
       0.440 |*********                                44
       2.389 |**                                        4
     995.508 |                                         2
\x20
SQL statistics:
    queries performed:
        read:                            65086
    transactions:                        100    (2318.95 per sec.)
    queries:                             92976  (46397.02 per sec.)
    ignored errors:                      21     (10.38 per sec.)

Latency (ms):
         min:                                    0.61
         avg:                                    1.72
         max:                                   19.72
         95th percentile:                        2.39
";

    #[test]
    fn pgbench_is_read() {
        let mut log = Latencies::default();
        pgbench_log("3 11 51 0 1795360584 287099\n3 18 42 0 1795360584 287540\n", &mut log);
        pgbench_log("0 1 failed 0 1795360584 287099\n0 1 990 0 1 2\n", &mut log);
        assert_eq!(log.count(), 3);
        let told = pgbench(PGBENCH, &log).unwrap();
        let latency = Latency { mean: 56.0, p50: 51.0, p95: 990.0, p99: 990.0 };
        let (transactions, per_second) = (285_925, 143_003.327_45);
        let new_orders_per_minute = None;
        let wanted = Told {
            transactions,
            per_second,
            failed: 3,
            unserved: 0,
            latency,
            new_orders_per_minute,
        };
        assert_eq!(told, wanted);
        for line in ["number of transactions", "number of failed", "latency average", "tps = "] {
            let without: Vec<&str> = PGBENCH.lines().filter(|it| !it.starts_with(line)).collect();
            let told = pgbench(&without.join("\n"), &log).unwrap_err();
            assert!(told.contains("did not say") && told.contains(line.trim()), "{told}");
        }
        assert!(pgbench(&PGBENCH.replace("= 143", "= x"), &log).unwrap_err().contains("no number"));
        assert!(pgbench(PGBENCH, &Latencies::default()).unwrap_err().contains("no transaction"));
    }

    #[test]
    fn transactions_that_pgbench_has_done_are_read() {
        let text = "number of transactions per client: 14\nnumber of transactions actually processed: 42/42\n\
                    tps = 21.000000 (without initial connection time)\n";
        assert_eq!(pgbench_done(text), Ok((42, 2.0)));
        assert!(pgbench_done("tps = 3.0").is_err());
    }

    #[test]
    fn sysbench_is_read() {
        let told = sysbench(SYSBENCH).unwrap();
        let latency = Latency { mean: 1720.0, p50: 424.0, p95: 2389.0, p99: 995_508.0 };
        let (transactions, per_second, new_orders_per_minute) = (100, 2318.95, None);
        let wanted = Told {
            transactions,
            per_second,
            failed: 21,
            unserved: 0,
            latency,
            new_orders_per_minute,
        };
        assert_eq!(told, wanted);
        assert!(sysbench(&SYSBENCH.replace('|', ":")).unwrap_err().contains("no histogram"));
        assert!(sysbench(&SYSBENCH.replace("avg", "x")).unwrap_err().contains("avg"));
        assert!(sysbench(&SYSBENCH.replace('(', "")).is_err());
    }

    #[test]
    fn our_own_report_is_read() {
        let mut json = serde_json::json!({
            "tps": 50.5, "transactions": 1000, "aborts": 7, "unserved": 2,
            "latency_us": {"mean": 1.5, "p50": 1, "p95": 2, "p99": 3, "p999": 4},
            "client_cpu_us_per_txn": 20.0, "server_cpu_us_per_txn": 100.0,
            "machine_seconds": {"busy": 0.5, "idle": 1.5, "stolen": 0.25},
        });
        let (told, client, server, machine) = own(&json.to_string()).unwrap();
        let latency = Latency { mean: 1.5, p50: 1.0, p95: 2.0, p99: 3.0 };
        let (transactions, per_second, new_orders_per_minute) = (1000, 50.5, None);
        let wanted = Told {
            transactions,
            per_second,
            failed: 7,
            unserved: 2,
            latency,
            new_orders_per_minute,
        };
        assert_eq!(told, wanted);
        assert_eq!((client, server), (Duration::from_millis(20), Duration::from_millis(100)));
        assert_eq!(machine.stolen, Duration::from_millis(250));
        json["new_orders_per_minute"] = 1_363.5.into();
        assert_eq!(own(&json.to_string()).unwrap().0.new_orders_per_minute, Some(1_363.5));
        let mut without = json;
        without["server_cpu_us_per_txn"] = Value::Null;
        let told = own(&without.to_string()).unwrap_err();
        assert!(told.contains("no /server_cpu_us_per_txn"), "{told}");
        assert!(own("tps: 1").unwrap_err().contains("not JSON"));
    }
}
