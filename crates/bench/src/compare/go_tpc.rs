//! go-tpc's TPC-C: how it is called, and what it prints.
//!
//! It is a program in Go over lib/pq, by other people, with prepared statements, a connection for each
//! terminal and no think times. Its percentiles are by kind of transaction, so those that are reported are
//! New-Order's, in steps of half a millisecond from one on; transactions are all kinds together. It ends well whatever
//! happens, even if it does not know an option; so what it prints is looked at.

use std::path::Path;
use std::process::{Command, Stdio};

use serde_json::Value;

use super::Result;
use super::parse::{Latency, Told};

/// The release that is installed.
pub const VERSION: &str = "v1.0.12";
/// What `go install` is asked for, without its version.
pub const PACKAGE: &str = "github.com/pingcap/go-tpc/cmd/go-tpc";
/// Terminals that load.
const LOADERS_MAX: u64 = 4;

/// Whether this program speaks PostgreSQL's language: older ones speak MySQL's alone.
pub fn speaks_postgres(program: &Path) -> bool {
    let help = Command::new(program).arg("--help").stdin(Stdio::null()).output();
    help.is_ok_and(|help| String::from_utf8_lossy(&help.stdout).contains("--conn-params"))
}

/// It, for a server of PostgreSQL's language whose socket is in `folder`.
pub fn command(program: &Path, (folder, port): (&Path, u16), warehouses: u64) -> Command {
    let mut command = Command::new(program);
    // A host of its own would go before the folder; this is a list of one that is empty.
    command.args(["tpcc", "-d", "postgres", "-H", "\"\"", "-P", &port.to_string()]);
    command.args(["-U", "postgres", "-D", "postgres", "--conn-params"]);
    command.arg(format!("sslmode=disable&host={}", escaped(folder)));
    command.args(["--warehouses", &warehouses.to_string()]);
    command
}

/// What it takes to load. Its own check is left out: its condition 3.3.2.10 joins history with itself by customer,
/// for which there is no index on any server.
pub fn load(command: &mut Command, warehouses: u64) {
    let loaders = warehouses.min(LOADERS_MAX);
    command.args(["prepare", "--no-check", "-T", &loaders.to_string()]);
}

/// Whether all was loaded. The error says what went wrong.
pub fn loaded(text: &str) -> Result<()> {
    let failed = || super::process::last_words(text).unwrap_or_else(|| "nothing".to_owned());
    let is_whole = text.lines().any(|line| line.trim() == "Finished");
    if is_whole { Ok(()) } else { Err(format!("go-tpc did not finish loading: {}", failed())) }
}

/// What it takes to run for so long. A terminal whose transaction fails goes on: such are counted.
pub fn run(command: &mut Command, terminals: u64, seconds: u64) {
    command.args(["run", "-T", &terminals.to_string(), "--time", &format!("{seconds}s")]);
    command.args(["--ignore-error", "--silence", "--output", "json"]);
}

/// A folder as a value within a URL.
fn escaped(folder: &Path) -> String {
    let escape = |byte: &u8| match byte {
        b'/' | b'-' | b'_' | b'.' => char::from(*byte).to_string(),
        byte if byte.is_ascii_alphanumeric() => char::from(*byte).to_string(),
        byte => format!("%{byte:02X}"),
    };
    folder.as_os_str().as_encoded_bytes().iter().map(escape).collect()
}

/// Its summary: a list with an entry for each kind of transaction, and for those of a kind that failed.
pub fn told(text: &str) -> Result<Told> {
    let lists = text.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    let is_summary = |it: &Value| it["Prefix"].as_str().is_some_and(|it| it.contains("Summary"));
    let summary: Vec<Value> =
        lists.filter_map(|list| list.as_array().cloned()).flatten().filter(is_summary).collect();
    let number = |entry: &Value, name: &str| {
        let found = entry[name].as_str().and_then(|text| text.parse::<f64>().ok());
        found.ok_or_else(|| format!("go-tpc's summary has no \"{name}\""))
    };
    let kind = |entry: &Value| entry["Operation"].as_str().unwrap_or_default().to_owned();
    let (mut transactions, mut failed, mut per_minute, mut took) = (0.0, 0.0, 0.0, 0.0);
    for entry in &summary {
        if kind(entry).ends_with("_ERR") {
            failed += number(entry, "Count")?;
            continue;
        }
        transactions += number(entry, "Count")?;
        per_minute += number(entry, "TPM")?;
        took += number(entry, "Sum(ms)")?;
    }
    let new_order = summary.iter().find(|it| kind(it) == "NEW_ORDER");
    let new_order = new_order.ok_or("go-tpc did not tell of any New-Order")?;
    let percentile = |name: &str| number(new_order, name).map(|millis| millis * 1000.0);
    Ok(Told {
        transactions: transactions as u64,
        per_second: per_minute / 60.0,
        failed: failed as u64,
        unserved: 0,
        latency: Latency {
            mean: took * 1000.0 / transactions,
            p50: percentile("50th(ms)")?,
            p95: percentile("95th(ms)")?,
            p99: percentile("99th(ms)")?,
        },
        // What it prints as tpmC, of which its efficiency is the share of 12.86 a warehouse, the most that the
        // standard's think times leave: without them that says nothing.
        new_orders_per_minute: Some(number(new_order, "TPM")?),
    })
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    /// Two kinds of five.
    const OUTPUT: &str = r#"
[{"50th(ms)":"9.0","90th(ms)":"9.0","95th(ms)":"9.0","99.9th(ms)":"9.0","99th(ms)":"9.0","Avg(ms)":"9.0","Count":"7","Max(ms)":"9.0","Operation":"NEW_ORDER","Prefix":"[Current] ","Sum(ms)":"9.0","TPM":"9.0","Takes(s)":"10.0"}]
Finished
[{"50th(ms)":"4.2","90th(ms)":"6.3","95th(ms)":"7.1","99.9th(ms)":"16.8","99th(ms)":"9.4","Avg(ms)":"4.5","Count":"4500","Max(ms)":"30.1","Operation":"NEW_ORDER","Prefix":"[Summary] ","Sum(ms)":"20250.0","TPM":"9000.0","Takes(s)":"30.0"},{"50th(ms)":"1.0","90th(ms)":"1.0","95th(ms)":"1.0","99.9th(ms)":"1.0","99th(ms)":"1.0","Avg(ms)":"1.0","Count":"5","Max(ms)":"1.0","Operation":"NEW_ORDER_ERR","Prefix":"[Summary] ","Sum(ms)":"5.0","TPM":"10.0","Takes(s)":"30.0"},{"50th(ms)":"2.1","90th(ms)":"2.1","95th(ms)":"2.1","99.9th(ms)":"2.1","99th(ms)":"2.1","Avg(ms)":"2.1","Count":"4000","Max(ms)":"2.1","Operation":"PAYMENT","Prefix":"[Summary] ","Sum(ms)":"8500.0","TPM":"8000.0","Takes(s)":"30.0"}]
tpmC: 9000.0, tpmTotal: 17000.0, efficiency: 17496.1%
"#;

    #[test]
    fn all_kinds_are_counted_and_latencies_are_new_order_s() {
        let latency = Latency { mean: 28_750.0 / 8.5, p50: 4200.0, p95: 7100.0, p99: 9400.0 };
        let (transactions, per_second, new_orders_per_minute) =
            (8500, 17_000.0 / 60.0, Some(9000.0));
        let wanted = Told {
            transactions,
            per_second,
            failed: 5,
            unserved: 0,
            latency,
            new_orders_per_minute,
        };
        assert!(OUTPUT.contains("tpmC: 9000.0,"), "the same");
        assert_eq!(told(OUTPUT), Ok(wanted));
        assert!(told("Finished\n").unwrap_err().contains("did not tell"));
        assert!(told(&OUTPUT.replace("99th", "x")).unwrap_err().contains("99th"));
        assert!(told(&OUTPUT.replace("4500", "many")).unwrap_err().contains("Count"));
        assert!(told(&OUTPUT.replace("9000.0\",", "much\",")).unwrap_err().contains("TPM"));
    }

    #[test]
    fn it_goes_by_the_socket() {
        let command = command(Path::new("/bin/go-tpc"), (Path::new("/tmp/a b&c/1"), 5432), 4);
        let args: Vec<_> = command.get_args().map(|it| it.to_string_lossy()).collect();
        assert!(args.iter().any(|it| it.ends_with("&host=/tmp/a%20b%26c/1")), "{args:?}");
    }
}
