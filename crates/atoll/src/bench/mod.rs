//! `atoll bench NAME`: benchmarks that print figures, never verdicts.

mod common;
mod compare;
mod connections;
mod insert;
mod orders;
mod output;
mod smallbank;
mod sync;
mod tatp;
mod tpcc;
mod ycsb;

use std::path::{Path, PathBuf};

use atoll_bench::arrivals::Rate;
use atoll_bench::tpcb::{self, Affinity, Setting};
use atoll_kernel::api::Instances;
use output::Output;

/// What `atoll bench` is told.
#[derive(clap::Args, Debug)]
pub struct Arguments {
    #[command(subcommand)]
    benchmark: Benchmark,
}

#[derive(clap::Subcommand, Debug)]
enum Benchmark {
    /// TPC-B-like transactions against the kernel, in this process.
    Tpcb(Tpcb),
    /// TPC-C: all five transactions, the standard's mix, as native procedures or over the wire.
    Tpcc(tpcc::Arguments),
    /// YCSB: reads, updates, inserts and scans of records chosen by their popularity.
    Ycsb(ycsb::Arguments),
    /// SmallBank: short transactions on two accounts of hot customers.
    Smallbank(smallbank::Arguments),
    /// TATP: short transactions of a mobile network, of which a known share fails.
    Tatp(tatp::Arguments),
    /// Batches of orders: rows of 2 KB, and the balance of a hot merchant in the same transaction.
    Orders(orders::Arguments),
    /// Inserts into a table of each client's own, as Shore-MT's insert bench does.
    Insert(insert::Arguments),
    /// Few and thousands of active connections, and the memory of idle sessions, over the wire.
    Connections(connections::Arguments),
    /// Bare durable writes of the log's kind, one at a time: what a commit's latency is set beside.
    Sync(sync::Arguments),
    /// Atoll beside PostgreSQL and MariaDB: the same clients on the same machine, in turns.
    Compare(compare::Arguments),
    /// How fast a directory that `tpcb --data` left is recovered.
    Recovery {
        /// The directory.
        #[arg(long)]
        data: PathBuf,
        /// The scale it was loaded with.
        #[arg(long, default_value_t = 1)]
        scale: u64,
        /// Print one JSON object instead of lines for people.
        #[arg(long)]
        json: bool,
    },
}

#[derive(clap::Args, Debug)]
struct Tpcb {
    /// Branches; each has 100,000 accounts.
    #[arg(long, default_value_t = 1)]
    scale: u64,
    /// Clients, spread over the instances.
    #[arg(long, default_value_t = 64)]
    clients: u64,
    /// Instances: `auto` (one per core) or a number.
    #[arg(long, default_value = "auto", value_parser = parse_instances)]
    instances: Instances,
    /// Seconds that are measured.
    #[arg(long, default_value_t = 10)]
    seconds: u64,
    /// Seconds before that.
    #[arg(long, default_value_t = 0)]
    warmup: u64,
    /// `commit`: wait until a commit survives a crash; `relaxed`: do not.
    #[arg(long, default_value = "commit", value_parser = ["commit", "relaxed"])]
    durability: String,
    /// `home`: clients keep to their instance's branches; `none`: everything from everywhere.
    #[arg(long, default_value = "home", value_parser = ["home", "none"])]
    affinity: String,
    /// A new directory for the data; a temporary one without this.
    #[arg(long)]
    data: Option<PathBuf>,
    /// Transactions that arrive a second, evenly (open loop: latency counts from the arrival);
    /// without this a client's next begins when its last has ended.
    #[arg(long)]
    rate: Option<Rate>,
    /// The seed of all random choices.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    #[command(flatten)]
    output: Output,
}

/// `auto` or a number from 1 on.
pub fn parse_instances(text: &str) -> Result<Instances, String> {
    if text == "auto" {
        return Ok(Instances::Auto);
    }
    match text.parse() {
        Ok(count) if (1..=512).contains(&count) => Ok(Instances::Count(count)),
        _ => Err("`auto` or a number from 1 to 512".to_owned()),
    }
}

/// Runs the benchmark and prints what it measured.
pub fn run(arguments: &Arguments) -> Result<(), String> {
    match &arguments.benchmark {
        Benchmark::Tpcb(arguments) => run_tpcb(arguments),
        Benchmark::Insert(arguments) => insert::run(arguments),
        Benchmark::Tpcc(arguments) => tpcc::run(arguments),
        Benchmark::Ycsb(arguments) => ycsb::run(arguments),
        Benchmark::Orders(arguments) => orders::run(arguments),
        Benchmark::Smallbank(arguments) => smallbank::run(arguments),
        Benchmark::Tatp(arguments) => tatp::run(arguments),
        Benchmark::Connections(arguments) => connections::run(arguments),
        Benchmark::Sync(arguments) => sync::run(arguments),
        Benchmark::Compare(arguments) => compare::run(arguments),
        Benchmark::Recovery { data, scale, json } => run_recovery(data, *scale, *json),
    }
}

fn run_tpcb(arguments: &Tpcb) -> Result<(), String> {
    arguments.output.validate()?;
    let data = Folder::new(arguments.data.as_deref())?;
    let setting = Setting {
        scale: arguments.scale,
        clients: arguments.clients,
        instances: arguments.instances,
        seconds: arguments.seconds,
        warmup_seconds: arguments.warmup,
        affinity: if arguments.affinity == "home" { Affinity::Home } else { Affinity::None },
        durability: common::durability(&arguments.durability),
        rate: arguments.rate,
        data: Some(data.path().to_owned()),
        seed: arguments.seed,
    };
    let quiet = arguments.output.json;
    let report = tpcb::run(&setting, &mut |line| {
        if !quiet {
            println!("* {line}");
        }
    })?;
    arguments.output.print(&report, report.json(), report.ledger.as_ref());
    Ok(())
}

/// Where a run's data goes: a new directory that stays, or a temporary one that goes with the run.
enum Folder {
    Given(PathBuf),
    Temporary(PathBuf),
}

impl Folder {
    fn new(given: Option<&Path>) -> Result<Folder, String> {
        let Some(data) = given else {
            let name = format!("atoll-bench-{}", std::process::id());
            return Ok(Folder::Temporary(std::env::temp_dir().join(name)));
        };
        if data.exists() && data.read_dir().is_ok_and(|mut entries| entries.next().is_some()) {
            return Err(format!("{} is not empty; give a new directory", data.display()));
        }
        Ok(Folder::Given(data.to_owned()))
    }

    fn path(&self) -> &Path {
        match self {
            Folder::Given(path) | Folder::Temporary(path) => path,
        }
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        if let Folder::Temporary(path) = self {
            // A failure here hides nothing.
            let _ = std::fs::remove_dir_all(path);
        }
    }
}

fn run_recovery(data: &Path, scale: u64, json: bool) -> Result<(), String> {
    let report = tpcb::recover(data, scale)?;
    let seconds = report.replay.as_secs_f64();
    let rate = report.changes as f64 / seconds.max(1e-9);
    let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    if json {
        println!(
            "{}",
            serde_json::json!({
                "benchmark": "recovery",
                "commits": report.commits,
                "row_changes": report.changes,
                "bytes": report.bytes,
                "scan_seconds": report.scan.as_secs_f64(),
                "replay_seconds": seconds,
                "index_seconds": report.indexes.as_secs_f64(),
                "row_changes_per_second": rate,
                "cores": cores,
            })
        );
        return Ok(());
    }
    println!("recovery: {} commits, {} row changes", report.commits, report.changes);
    println!(
        "  scan {:.2} s, replay {seconds:.2} s, indexes {:.2} s",
        report.scan.as_secs_f64(),
        report.indexes.as_secs_f64()
    );
    println!(
        "  {rate:.0} row changes a second on {cores} cores, {:.0} a core",
        rate / cores as f64
    );
    Ok(())
}
