//! `atoll bench NAME`: benchmarks that print figures, never verdicts (but `aims`, which says what is met; its exit code
//! does not).
//!
//! Invariants: an option that a benchmark, or its way of running, has no use for is refused; what
//! cannot be run, or is interrupted, is said in one line, and leaves no temporary directory.

mod common;
mod connections;
mod folder;
mod insert;
mod interrupt;
mod orders;
mod output;
mod programs;
mod recovery;
mod shared;
mod smallbank;
mod sync;
mod tatp;
mod tpcb;
mod tpcc;
mod ycsb;

use programs::{aims, checkpoints, compare, restart, slices};

/// What `atoll bench` is told.
#[derive(clap::Args, Debug)]
pub struct Arguments {
    #[command(subcommand)]
    benchmark: Benchmark,
}

#[derive(clap::Subcommand, Debug)]
enum Benchmark {
    /// TPC-B-like transactions against the kernel, in this process.
    Tpcb(tpcb::Arguments),
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
    /// Bare durable writes of the log's kind, which a commit's latency is set beside.
    Sync(sync::Arguments),
    /// Atoll beside PostgreSQL and MariaDB: the same clients on the same machine, in turns.
    Compare(compare::Arguments),
    /// What Atoll has set itself, natively: each aim in rounds, and whether it is met on this machine.
    Aims(aims::Arguments),
    /// What intervals between checkpoints cost, and what a start takes on what they leave.
    Checkpoints(checkpoints::Arguments),
    /// Another build beside this one, natively: both at once, one of them always stopped.
    Slices(slices::Arguments),
    /// How soon Atoll and PostgreSQL answer again after SIGKILL, with the same work since a checkpoint.
    Restart(restart::Arguments),
    /// How fast a directory that `tpcb --data` or `tpcc --data` left is recovered.
    Recovery(recovery::Arguments),
}

/// Runs the benchmark and prints what it measured.
pub fn run(arguments: &Arguments) -> Result<(), String> {
    match &arguments.benchmark {
        Benchmark::Tpcb(arguments) => tpcb::run(arguments),
        Benchmark::Insert(arguments) => insert::run(arguments),
        Benchmark::Tpcc(arguments) => tpcc::run(arguments),
        Benchmark::Ycsb(arguments) => ycsb::run(arguments),
        Benchmark::Orders(arguments) => orders::run(arguments),
        Benchmark::Smallbank(arguments) => smallbank::run(arguments),
        Benchmark::Tatp(arguments) => tatp::run(arguments),
        Benchmark::Connections(arguments) => connections::run(arguments),
        Benchmark::Sync(arguments) => sync::run(arguments),
        Benchmark::Compare(arguments) => compare::run(arguments),
        Benchmark::Aims(arguments) => aims::run(arguments),
        Benchmark::Checkpoints(arguments) => checkpoints::run(arguments),
        Benchmark::Slices(arguments) => slices::run(arguments),
        Benchmark::Restart(arguments) => restart::run(arguments),
        Benchmark::Recovery(arguments) => recovery::run(arguments),
    }
}
