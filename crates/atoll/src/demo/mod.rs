//! `atoll demo`: the whole promise in two minutes, through the server's own SQL.
//!
//! Starts a server on a data directory of its own, loads pgbench's tables, runs a TPC-B-like load,
//! kills the server with SIGKILL in the middle, starts it again, and checks that balances agree and
//! that every acknowledged transaction is there. Needs neither psql nor pgbench.

mod child;

use std::io::{IsTerminal, Write};
use std::path::PathBuf;
use std::time::{Duration, Instant};

use atoll_bench::wire::{self, Address, Outcome, Run};
use child::Server;

/// What `atoll demo` is told.
#[derive(clap::Args, Debug)]
pub struct Arguments {
    /// The data directory; made anew, and kept afterwards.
    #[arg(long, default_value = "demo-data", env = "ATOLL_DEMO_DATA")]
    data: PathBuf,
    /// The scale: 100,000 accounts each.
    #[arg(long, default_value_t = 10)]
    scale: u64,
    /// How many connections.
    #[arg(long, default_value_t = 16)]
    clients: u64,
    /// How long the load runs before the server is killed, and again after it is back.
    #[arg(long, default_value_t = 8)]
    seconds: u64,
    /// The seed of the load's random choices.
    #[arg(long, default_value_t = 1)]
    seed: u64,
}

type Result<T> = std::result::Result<T, String>;

/// Runs the demonstration; an error is one line that says what was not as promised.
pub fn run(arguments: &Arguments) -> Result<()> {
    prepare(&arguments.data)?;
    say("starting the server");
    let server = Server::start(&arguments.data)?;
    println!("  {}", server.ready_line());
    load(&server, arguments.scale)?;

    let seconds = arguments.seconds;
    say(&format!(
        "TPC-B-like load, {} clients, every COMMIT synced; SIGKILL after {seconds} s",
        arguments.clients
    ));
    let before = drive_and_kill(server, arguments)?;

    say("starting the server again, on what the crash left");
    let began = Instant::now();
    let server = Server::start(&arguments.data)?;
    println!("  ready after {:.2} s: {}", began.elapsed().as_secs_f64(), server.ready_line());
    verify(&server, &before)?;

    say(&format!("the same load for {seconds} s without a crash"));
    let after = drive(server.address(), arguments, seconds, 1 << 32)?;
    if let Some(error) = &after.error {
        return Err(format!("a transaction failed: {error}"));
    }
    report(&after);
    verify(&server, &after)?;

    println!("\nEverything acknowledged is there. To look around yourself:\n");
    println!("  atoll serve --data {}", arguments.data.display());
    println!("  psql -h 127.0.0.1 -p 5432 -U postgres postgres");
    server.stop()
}

/// An earlier demonstration's directory is removed; anything else is left alone.
fn prepare(data: &std::path::Path) -> Result<()> {
    let mark = data.join("made-by-atoll-demo");
    let failed = |error: std::io::Error| format!("{}: {error}", data.display());
    if data.exists() {
        let is_empty = data.read_dir().map_err(failed)?.next().is_none();
        if !mark.exists() && !is_empty {
            return Err(format!(
                "{} exists and was not made by a demonstration; choose another with --data",
                data.display()
            ));
        }
        std::fs::remove_dir_all(data).map_err(failed)?;
    }
    std::fs::create_dir_all(data).map_err(failed)?;
    std::fs::write(mark, "Made by `atoll demo`; its next run removes this directory.\n")
        .map_err(failed)
}

fn load(server: &Server, scale: u64) -> Result<()> {
    let rows = scale * 100_000;
    say(&format!("loading pgbench's tables at scale {scale}: {rows} accounts"));
    let began = Instant::now();
    let mut client = wire::connect(server.address())?;
    wire::load(&mut client, scale, &mut |done, all| {
        live(&format!("  {:>3} %, {done} rows", done * 100 / all.max(1)));
    })?;
    let seconds = began.elapsed().as_secs_f64();
    live(&format!("  {rows} rows in {seconds:.1} s, primary keys built"));
    println!();
    Ok(())
}

fn drive(address: &Address, arguments: &Arguments, seconds: u64, first: u64) -> Result<Outcome> {
    let run = Run {
        address: address.clone(),
        clients: arguments.clients,
        scale: arguments.scale,
        seconds,
        seed: arguments.seed,
        first_number: first,
    };
    let outcome = wire::run(&run, &mut |done, elapsed| {
        let rate = done as f64 / elapsed.as_secs_f64();
        live(&format!(
            "  {:>5.1} s, {done} transactions, {rate:.0} a second",
            elapsed.as_secs_f64()
        ));
    })?;
    println!();
    Ok(outcome)
}

fn drive_and_kill(server: Server, arguments: &Arguments) -> Result<Outcome> {
    let address = server.address().clone();
    let after = Duration::from_secs(arguments.seconds);
    let killer = std::thread::spawn(move || {
        std::thread::sleep(after);
        server.kill()
    });
    let outcome = drive(&address, arguments, arguments.seconds + 30, 0)?;
    killer.join().map_err(|_| "the thread that kills the server panicked".to_owned())??;
    if outcome.disconnected != arguments.clients as usize {
        let error = outcome.error.unwrap_or_default();
        return Err(format!("not all clients saw the server go away: {error}"));
    }
    println!(
        "  killed; {} transactions had been acknowledged ({:.0} a second)",
        outcome.transactions(),
        outcome.per_second()
    );
    Ok(outcome)
}

fn verify(server: &Server, outcome: &Outcome) -> Result<()> {
    let mut client = wire::connect(server.address())?;
    let verdict = wire::check(&mut client, &outcome.acknowledged)?;
    println!(
        "  sums of accounts, tellers, branches, history: {}; {} rows in history",
        verdict.sums.join(", "),
        verdict.history_rows
    );
    if !verdict.is_good() {
        let some: Vec<&String> = verdict.missing.iter().chain(&verdict.doubled).take(5).collect();
        return Err(format!(
            "{} acknowledged transactions missing, {} doubled (such as {some:?}); see the sums",
            verdict.missing.len(),
            verdict.doubled.len()
        ));
    }
    println!("  balances agree; all {} acknowledged transactions are there", verdict.acknowledged);
    Ok(())
}

fn report(outcome: &Outcome) {
    println!(
        "  {} transactions, {:.0} a second; {}",
        outcome.transactions(),
        outcome.per_second(),
        outcome.latencies
    );
}

fn say(what: &str) {
    println!("* {what}");
}

/// A line that the next one replaces, on a terminal; elsewhere nothing but the last is shown.
fn live(line: &str) {
    let mut out = std::io::stdout();
    let shown =
        if out.is_terminal() { write!(out, "\r{line:<78}") } else { writeln!(out, "{line}") };
    // A closed output is no reason to stop in the middle.
    let _ = shown.and_then(|()| out.flush());
}
