//! `atoll serve --bench tpcc`: TPC-C inside a serving process, while clients look in.
//!
//! Invariants: begins when the server accepts connections; loads the tables unless they are there;
//! ends by itself after its seconds, or with the server. It then checks the twelve conditions and
//! says what it did on standard error; whatever goes wrong is said there, too, and the server goes
//! on. An order is written to the file of orders after its commit is stable, never before.

use std::io::Write;
use std::path::PathBuf;
use std::sync::{Arc, OnceLock};
use std::thread::JoinHandle;
use std::time::Duration;

use atoll_bench::native::{Course, Native, Told, drive, prepare};
use atoll_bench::report::Driven;
use atoll_bench::setting::{Calls, Durability, Isolation, Setting};
use atoll_bench::ticker::Ticker;
use atoll_bench::tpcc::{self, Affinity, Kind, Mix, NOTE, OrderKey, Size, Tpcc};
use atoll_bench::workload::Acknowledge;
use atoll_kernel::api::Database;

/// A hundred years: until the server ends.
const FOR_EVER: Duration = Duration::from_secs(100 * 365 * 86_400);

/// What `atoll serve` is told about a benchmark.
#[derive(clap::Args, Debug)]
#[group(skip)]
pub struct Arguments {
    /// Run this benchmark inside the server [default: none]
    #[arg(long, value_name = "NAME", value_parser = ["tpcc"])]
    bench: Option<String>,
    /// Warehouses that the tables have, or are loaded with
    #[arg(long, value_name = "N", default_value_t = 1, requires = "bench",
        value_parser = clap::value_parser!(i32).range(1..=100_000))]
    bench_warehouses: i32,
    /// The benchmark's clients
    #[arg(long, value_name = "N", default_value_t = 64, requires = "bench",
        value_parser = clap::value_parser!(u64).range(1..=100_000))]
    bench_clients: u64,
    /// How long it runs [default: until the server ends]
    #[arg(long, value_name = "SECONDS", requires = "bench",
        value_parser = clap::value_parser!(u64).range(1..=1_000_000))]
    bench_seconds: Option<u64>,
    /// A file to which every entered order is written (warehouse, district, number) once it is
    /// durable [default: none]
    #[arg(long, value_name = "FILE", requires = "bench")]
    bench_orders: Option<PathBuf>,
}

/// A benchmark that runs beside the server.
pub struct Running {
    stop: Arc<OnceLock<()>>,
    thread: JoinHandle<()>,
}

impl Running {
    /// Begins what `arguments` ask for, if they ask.
    pub fn start(arguments: &Arguments, database: &Database) -> Option<Running> {
        arguments.bench.as_ref()?;
        let workload = Tpcc {
            warehouses: arguments.bench_warehouses,
            size: Size::STANDARD,
            mix: Mix::Standard,
            affinity: Affinity::Home,
        };
        let setting = Setting {
            clients: arguments.bench_clients,
            seconds: arguments.bench_seconds.unwrap_or_default(),
            warmup_seconds: 0,
            isolation: Isolation::RepeatableRead,
            durability: Durability::Commit,
            calls: Calls::Inside,
            rate: None,
            seed: u64::from(std::process::id()),
        };
        let stop = Arc::new(OnceLock::new());
        let course = Course {
            duration: arguments.bench_seconds.map_or(FOR_EVER, Duration::from_secs),
            stop: stop.clone(),
            acknowledge: match arguments.bench_orders {
                Some(_) => Acknowledge::Each,
                None => Acknowledge::Nothing,
            },
        };
        let (database, orders) = (database.clone(), arguments.bench_orders.clone());
        let thread = std::thread::spawn(move || {
            if let Err(error) = run(&database, (&workload, &setting), &course, orders) {
                say(&error);
            }
        });
        Some(Running { stop, thread })
    }

    /// Ends it.
    pub fn end(self) {
        // It may have been told already.
        let _ = self.stop.set(());
        if self.thread.join().is_err() {
            say("the benchmark panicked");
        }
    }
}

fn say(line: &str) {
    eprintln!("atoll: tpcc: {line}");
}

fn run(
    database: &Database,
    (workload, setting): (&Tpcc, &Setting),
    course: &Course,
    orders: Option<PathBuf>,
) -> Result<(), String> {
    let mut file = match orders {
        None => None,
        Some(path) => {
            let file = std::fs::File::options().create(true).append(true).open(&path);
            Some(file.map_err(|error| format!("{}: {error}", path.display()))?)
        }
    };
    prepare(database, workload, setting.seed, &mut say)?;
    say(&format!("running {} clients: {NOTE}", setting.clients));
    let (mut ticker, mut failed) = (Ticker::new(), None);
    let tables = Tpcc::tables(&database.catalog())?;
    let driven = drive(database, (workload, &tables), setting, course, &mut |told| {
        match told {
            Some(Told::Progress(counts)) => ticker.add(&counts),
            Some(Told::Committed(entered)) => {
                let written = file.as_mut().map_or(Ok(()), |file| write(file, &entered));
                failed = failed.take().or(written.err());
            }
            None => {}
        }
        if let Some(line) = ticker.line() {
            say(&line);
        }
    })?;
    if let Some(error) = failed {
        return Err(format!("the file of orders: {error}"));
    }
    conclude(database, workload, &driven)
}

/// One write a batch: what is in the file, is there whole but perhaps for its last line.
fn write(file: &mut std::fs::File, entered: &[OrderKey]) -> std::io::Result<()> {
    let mut text = String::with_capacity(entered.len() * 16);
    for (w, d, o) in entered {
        text.push_str(&format!("{w} {d} {o}\n"));
    }
    file.write_all(text.as_bytes())
}

fn conclude(database: &Database, workload: &Tpcc, driven: &Driven) -> Result<(), String> {
    let seconds = driven.elapsed.as_secs_f64();
    say(&format!(
        "{:.0} transactions a second, {:.0} New-Orders a minute; {}",
        driven.per_second(),
        driven.counts.done[Kind::NewOrder as usize] as f64 * 60.0 / seconds,
        driven.latencies
    ));
    let verdict = tpcc::check(database, workload.size, workload.warehouses)?;
    tpcc::judge(&verdict)?;
    say(&format!("all twelve consistency conditions hold ({} rows)", verdict.rows));
    Ok(())
}
