//! `atoll demo`: the whole promise in a minute or two, with TPC-C.
//!
//! Starts a server on a data directory of its own that loads TPC-C's tables and runs its
//! transactions inside, looks in by SQL meanwhile, kills the server with SIGKILL in the middle,
//! starts it again, and checks that the twelve consistency conditions hold and that every order
//! acknowledged before the crash is there. Then it runs TPC-C over the wire. Needs neither psql
//! nor any other client.

mod child;

use std::io::{IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use atoll_bench::setting::{self as bench, Calls, Durability, Isolation, Setting};
use atoll_bench::tpcc::{self, Affinity, Mix, OrderKey, Size, Tpcc};
use atoll_bench::wire::{self, tpcc as over_wire};
use child::Server;

/// What `atoll demo` is told.
#[derive(clap::Args, Debug)]
pub struct Arguments {
    /// A folder for the data directory and a list of orders; made anew, and kept afterwards.
    #[arg(long, default_value = "demo-data", env = "ATOLL_DEMO_DATA")]
    data: PathBuf,
    /// Warehouses: about half a million rows each.
    #[arg(long, default_value_t = 2, value_parser = clap::value_parser!(i32).range(1..=100))]
    warehouses: i32,
    /// How many clients inside the server, and how many connections afterwards.
    #[arg(long, default_value_t = 32, value_parser = clap::value_parser!(u64).range(1..=1000))]
    clients: u64,
    /// How long the transactions run before the server is killed, and over the wire afterwards.
    #[arg(long, default_value_t = 8, value_parser = clap::value_parser!(u64).range(1..=60))]
    seconds: u64,
    /// The seed of the random choices over the wire.
    #[arg(long, default_value_t = 1)]
    seed: u64,
}

/// How long loading may take.
const LOAD_MAX: Duration = Duration::from_secs(300);

type Result<T> = std::result::Result<T, String>;

/// Runs the demonstration; an error is one line that says what was not as promised.
pub fn run(arguments: &Arguments) -> Result<()> {
    prepare(&arguments.data)?;
    let (data, orders) = (arguments.data.join("data"), arguments.data.join("orders"));
    let server = start_loaded(arguments, &data, &orders)?;
    let entered = look_in_and_kill(server, arguments, &orders)?;

    say("starting the server again, on what the crash left");
    let began = Instant::now();
    let server = Server::start(&data, &[])?;
    println!("  ready after {:.2} s: {}", began.elapsed().as_secs_f64(), server.ready_line());
    verify(&server, arguments, &entered)?;

    let seconds = arguments.seconds;
    say(&format!("TPC-C over the wire, {} connections, for {seconds} s", arguments.clients));
    over_the_wire(&server, arguments)?;
    println!("\nEverything acknowledged is there. To look around yourself:\n");
    let atoll = std::env::current_exe().map_or("atoll".into(), |path| path.display().to_string());
    println!("  {atoll} serve --data {}", data.display());
    println!("  psql -h 127.0.0.1 -p 5432 -U postgres postgres");
    server.stop()
}

/// An earlier demonstration's directory is removed; anything else is left alone.
fn prepare(data: &Path) -> Result<()> {
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

/// A server that has loaded the tables and runs the transactions.
fn start_loaded(arguments: &Arguments, data: &Path, orders: &Path) -> Result<Server> {
    say(&format!("starting the server; it loads {} TPC-C warehouses", arguments.warehouses));
    let (warehouses, clients) = (arguments.warehouses.to_string(), arguments.clients.to_string());
    let file = orders.display().to_string();
    let more = [
        "--bench",
        "tpcc",
        "--bench-warehouses",
        &warehouses,
        "--bench-clients",
        &clients,
        "--bench-orders",
        &file,
    ];
    let server = Server::start(data, &more)?;
    println!("  {}", server.ready_line());
    println!("  look in at any time: {}", server.address().psql());
    let began = Instant::now();
    while std::fs::metadata(orders).map_or(0, |it| it.len()) == 0 {
        if began.elapsed() > LOAD_MAX {
            return Err("the server has not entered any order".to_owned());
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    Ok(server)
}

/// Asks by SQL how it goes while transactions run inside, then kills. Answers the orders that had
/// been acknowledged.
fn look_in_and_kill(server: Server, arguments: &Arguments, file: &Path) -> Result<Vec<OrderKey>> {
    say(&format!(
        "all five transactions run inside the server, every commit synced; SIGKILL after {} s",
        arguments.seconds
    ));
    let mut client = wire::connect(server.address())?;
    let began = Instant::now();
    let mut seen = 0;
    while began.elapsed() < Duration::from_secs(arguments.seconds) {
        let first = i64::from(Size::STANDARD.customers) + 1;
        let text = "select sum(d_next_o_id)::int8, count(*) from district";
        let row = client.query_one(text, &[]).map_err(|error| wire::message(&error))?;
        let entered = row.get::<_, i64>(0) - first * row.get::<_, i64>(1);
        if entered < seen {
            return Err(format!("SQL saw {seen} orders, then {entered}"));
        }
        seen = entered;
        live(&format!("  {:>4.1} s: SQL sees {seen} new orders", began.elapsed().as_secs_f64()));
        std::thread::sleep(Duration::from_millis(500));
    }
    server.kill()?;
    let entered = read_orders(file)?;
    println!("\n  killed; {} orders had been acknowledged", entered.len());
    Ok(entered)
}

/// The acknowledged orders; the last line may be torn.
fn read_orders(file: &Path) -> Result<Vec<OrderKey>> {
    let text = std::fs::read_to_string(file).map_err(|error| error.to_string())?;
    let whole = text.rfind('\n').map_or("", |end| &text[..end]);
    let order = |line: &str| {
        let mut numbers = line.split(' ').map(str::parse);
        let mut next = || numbers.next()?.ok();
        Some((next()?, next()?, next()?))
    };
    let orders: Option<Vec<OrderKey>> = whole.lines().map(order).collect();
    orders.ok_or_else(|| format!("{} holds what is no order", file.display()))
}

fn verify(server: &Server, arguments: &Arguments, entered: &[OrderKey]) -> Result<()> {
    let mut client = wire::connect(server.address())?;
    let there = over_wire::orders(&mut client)?;
    let missing: Vec<&OrderKey> = entered.iter().filter(|it| !there.contains(*it)).collect();
    if !missing.is_empty() {
        let some = &missing[..missing.len().min(5)];
        return Err(format!("{} acknowledged orders are missing: {some:?} ...", missing.len()));
    }
    println!("  all {} acknowledged orders are there", entered.len());
    let verdict = over_wire::check(&mut client, Size::STANDARD, arguments.warehouses)?;
    tpcc::judge(&verdict)?;
    println!("  TPC-C's twelve consistency conditions hold ({} rows)", verdict.rows);
    Ok(())
}

fn over_the_wire(server: &Server, arguments: &Arguments) -> Result<()> {
    let workload = Tpcc {
        warehouses: arguments.warehouses,
        size: Size::STANDARD,
        mix: Mix::Standard,
        affinity: Affinity::Home,
    };
    let setting = Setting {
        clients: arguments.clients,
        seconds: arguments.seconds,
        warmup_seconds: 0,
        isolation: Isolation::ReadCommitted,
        durability: Durability::Commit,
        calls: Calls::Inside,
        rate: None,
        seed: arguments.seed,
    };
    let server = bench::Server { url: server.address().url(), pid: None };
    let mut told = |line: &str| println!("  {}", line.trim_start());
    let report = wire::run(&workload, &setting, &server, &mut told)?;
    println!("  {}", report.driven.latencies);
    Ok(())
}

fn say(what: &str) {
    println!("* {what}");
}

/// A line that the next one replaces, on a terminal; elsewhere a line like others.
fn live(line: &str) {
    let mut out = std::io::stdout();
    let shown =
        if out.is_terminal() { write!(out, "\r{line:<78}") } else { writeln!(out, "{line}") };
    // A closed output is no reason to stop in the middle.
    let _ = shown.and_then(|()| out.flush());
}
