//! `atoll bench connections`: few and thousands of active connections, and idle sessions' memory.

use atoll_bench::connections::{self, Settings, Work};

use super::interrupt;
use super::output::Format;

#[derive(clap::Args, Debug)]
pub struct Arguments {
    /// The server, as a URL or a connection string; it must not ask for a password.
    #[arg(long)]
    url: String,
    /// The server's process id, to count its processor time and memory.
    #[arg(long)]
    server_pid: Option<u32>,
    /// Numbers of active connections.
    #[arg(long, value_name = "LIST", value_delimiter = ',', default_value = "16,64,256,1024,4096,10000",
        value_parser = clap::value_parser!(u32).range(1..=100_000))]
    counts: Vec<u32>,
    /// What they do: `select` one row by its key, `update` one row, durably.
    #[arg(long, value_name = "LIST", value_delimiter = ',', default_value = "select,update",
        value_parser = ["select", "update"])]
    work: Vec<String>,
    /// Seconds that are measured, each.
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u64).range(1..=1_000_000))]
    seconds: u64,
    /// Seconds before that.
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u64).range(0..=1_000_000))]
    warmup: u64,
    /// How often everything is run; the numbers of connections take turns.
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u64).range(1..=1000))]
    rounds: u64,
    /// Rows of the table, which is made unless it is there.
    #[arg(long, default_value_t = 100_000,
        value_parser = clap::value_parser!(u64).range(1..=1_000_000_000))]
    rows: u64,
    /// Threads of the client; each holds its share of the connections.
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..=64))]
    threads: u64,
    /// The seed of all keys.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    #[command(flatten)]
    format: Format,
}

/// Runs and prints what was measured; progress goes to standard error.
pub fn run(arguments: &Arguments) -> Result<(), String> {
    interrupt::watch(None)?;
    let work = |name: &String| if name == "update" { Work::Update } else { Work::Select };
    let settings = Settings {
        url: arguments.url.clone(),
        server_pid: arguments.server_pid,
        counts: arguments.counts.iter().map(|count| *count as usize).collect(),
        works: arguments.work.iter().map(work).collect(),
        seconds: arguments.seconds,
        warmup_seconds: arguments.warmup,
        rounds: arguments.rounds as usize,
        rows: arguments.rows,
        threads: arguments.threads as usize,
        seed: arguments.seed,
    };
    let report = connections::run(&settings, &mut |line| eprintln!("* {line}"))?;
    arguments.format.print(&report, &report.json());
    Ok(())
}
