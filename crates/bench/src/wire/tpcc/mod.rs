//! TPC-C over the wire, against any PostgreSQL-compatible server: the inputs of `tpcc`, sent as
//! single prepared statements.
//!
//! Invariants: each client is a thread with its connection and a home warehouse. Closed loop: the
//! next transaction begins when the last has ended. Open loop: transactions arrive at a fixed
//! rate, whoever is free takes the next, and latency counts from the arrival, so a server that
//! falls behind cannot hide it. Conflicts (40001, 40P01) are counted and retried with the same
//! input. The check reads the tables in one snapshot and judges as the native one does.

mod check;
mod load;
mod procedures;
mod statements;

use std::sync::{Mutex, mpsc};
use std::time::{Duration, Instant};

use postgres::Client;

use super::{Result, message};
use crate::cpu;
use crate::latency::Latencies;
use crate::tpcc::{Counts, Input, Isolation, Kind, Random, Size, Ticker, latency_json};
use procedures::{Ended, Terminal};

pub use check::{check, orders};
pub use load::load;

/// What to run.
#[derive(Clone, Debug)]
pub struct Setting {
    /// Where the server is, as libpq's connection strings and URLs say it.
    pub url: String,
    /// Warehouses that the tables have, or are to be loaded with.
    pub warehouses: i32,
    /// Rows of each.
    pub size: Size,
    /// Connections.
    pub clients: u64,
    /// How long is measured.
    pub seconds: u64,
    /// How long runs before that.
    pub warmup_seconds: u64,
    /// How much transactions see of others.
    pub isolation: Isolation,
    /// Transactions that arrive a second; none: closed loop.
    pub rate: Option<f64>,
    /// The server's process, to count its processor time.
    pub server_pid: Option<u32>,
    /// The seed of all random choices.
    pub seed: u64,
}

/// What came of a run.
pub struct Report {
    /// What was run.
    pub setting: Setting,
    /// Of all transactions.
    pub latencies: Latencies,
    /// Of each kind.
    pub by_kind: [Latencies; 5],
    /// What was counted.
    pub counts: Counts,
    /// How long was measured.
    pub elapsed: Duration,
    /// Processor time of the server meanwhile, where its process was named.
    pub server_cpu: Option<Duration>,
}

impl Report {
    /// Transactions a second.
    pub fn per_second(&self) -> f64 {
        self.counts.transactions as f64 / self.elapsed.as_secs_f64()
    }

    /// New-Orders a minute.
    pub fn new_orders_per_minute(&self) -> f64 {
        self.counts.new_orders as f64 * 60.0 / self.elapsed.as_secs_f64()
    }

    fn server_cpu_us(&self) -> Option<f64> {
        let count = self.counts.transactions.max(1) as f64;
        self.server_cpu.map(|cpu| cpu.as_secs_f64() * 1e6 / count)
    }

    /// As one JSON object.
    pub fn json(&self) -> serde_json::Value {
        let kinds = Kind::ALL.iter().zip(&self.by_kind);
        let kinds: serde_json::Map<String, serde_json::Value> =
            kinds.map(|(kind, its)| (kind.name().to_owned(), latency_json(its))).collect();
        serde_json::json!({
            "benchmark": "tpcc over the wire",
            "note": "no keying and no think times",
            "tps": self.per_second(),
            "new_orders_per_minute": self.new_orders_per_minute(),
            "transactions": self.counts.transactions,
            "rollbacks": self.counts.rollbacks,
            "aborts": self.counts.aborts,
            "seconds": self.elapsed.as_secs_f64(),
            "latency_us": latency_json(&self.latencies),
            "latency_us_by_transaction": kinds,
            "loop": if self.setting.rate.is_some() { "open" } else { "closed" },
            "rate": self.setting.rate,
            "server_cpu_us_per_txn": self.server_cpu_us(),
            "isolation": self.setting.isolation.name(),
            "warehouses": self.setting.warehouses,
            "clients": self.setting.clients,
            "seed": self.setting.seed,
        })
    }
}

impl std::fmt::Display for Report {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let setting = &self.setting;
        let course = match setting.rate {
            Some(rate) => format!("open loop, {rate} arrivals a second"),
            None => "closed loop".to_owned(),
        };
        writeln!(
            f,
            "tpcc over the wire: {} warehouses, {} clients, {}, {course}, seed {}",
            setting.warehouses,
            setting.clients,
            setting.isolation.name(),
            setting.seed
        )?;
        writeln!(
            f,
            "  {:.0} transactions a second, {:.0} New-Orders a minute (no think times)",
            self.per_second(),
            self.new_orders_per_minute()
        )?;
        writeln!(
            f,
            "  {} rolled back as the standard asks, {} conflicts retried",
            self.counts.rollbacks, self.counts.aborts
        )?;
        if let Some(cpu) = self.server_cpu_us() {
            writeln!(f, "  processor of the server: {cpu:.1} us a transaction")?;
        }
        for (kind, latencies) in Kind::ALL.iter().zip(&self.by_kind) {
            writeln!(f, "    {:<12} {:>9}: {latencies}", kind.name(), latencies.count())?;
        }
        write!(f, "  latency: {}", self.latencies)
    }
}

/// Connects as the URL says.
pub fn connect(url: &str) -> Result<Client> {
    let mut config: postgres::Config =
        url.parse().map_err(|error| format!("{url}: {}", message(&error)))?;
    if config.get_application_name().is_none() {
        config.application_name("atoll bench");
    }
    let client = config.connect(postgres::NoTls);
    client.map_err(|error| format!("cannot connect: {}", message(&error)))
}

/// Loads the tables if they are not there, runs, checks the twelve conditions.
pub fn run(setting: &Setting, say: &mut dyn FnMut(&str)) -> Result<Report> {
    let mut client = connect(&setting.url)?;
    let there = client
        .query("select count(*) from pg_class where relname = 'warehouse'", &[])
        .map_err(|error| message(&error))?;
    if there.first().is_none_or(|row| row.get::<_, i64>(0) == 0) {
        say(&format!("loading {} warehouses", setting.warehouses));
        load(&mut client, setting.size, setting.warehouses, setting.seed, say)?;
    }
    if setting.warmup_seconds > 0 {
        say("warming up");
        drive(&Setting { seconds: setting.warmup_seconds, ..setting.clone() }, say)?;
    }
    say(&format!("running for {} s", setting.seconds));
    let report = drive(setting, say)?;
    say("checking the twelve consistency conditions");
    crate::tpcc::judge(&check(&mut client, setting.size, setting.warehouses)?)?;
    say("all twelve hold");
    Ok(report)
}

struct Done {
    latencies: [Latencies; 5],
    error: Option<String>,
}

/// When transactions begin.
struct Arrivals {
    began: Instant,
    end: Instant,
    // The seconds between two arrivals, and the number of the next; closed loop without.
    schedule: Option<(f64, Mutex<u64>)>,
}

impl Arrivals {
    /// Waits for the next arrival and answers when it was; none at the end.
    fn next(&self) -> Option<Instant> {
        let at = match &self.schedule {
            None => Instant::now(),
            Some((seconds, number)) => {
                let mut next = number.lock().expect("no holder panics");
                let at = self.began + Duration::from_secs_f64(*seconds * *next as f64);
                *next += 1;
                at
            }
        };
        if at >= self.end {
            return None;
        }
        if let Some(early) = at.checked_duration_since(Instant::now()) {
            std::thread::sleep(early);
        }
        Some(at)
    }
}

fn drive(setting: &Setting, say: &mut dyn FnMut(&str)) -> Result<Report> {
    let mut terminals = Vec::new();
    for _ in 0..setting.clients {
        let client = connect(&setting.url)?;
        terminals.push(Terminal::new(client, setting.isolation)?);
    }
    let cpu = || setting.server_pid.and_then(cpu::of_tree);
    let (cpu_before, began) = (cpu(), Instant::now());
    let arrivals = Arrivals {
        began,
        end: began + Duration::from_secs(setting.seconds),
        schedule: setting.rate.map(|rate| (1.0 / rate, Mutex::new(0))),
    };
    let (sender, receiver) = mpsc::channel();
    let mut counts = Counts::default();
    let done: Vec<Done> = std::thread::scope(|scope| {
        let mut threads = Vec::new();
        for (number, terminal) in terminals.into_iter().enumerate() {
            let (sender, arrivals) = (sender.clone(), &arrivals);
            threads
                .push(scope.spawn(move || {
                    one_client(setting, number as u64, terminal, arrivals, &sender)
                }));
        }
        drop(sender);
        let mut ticker = Ticker::new();
        while let Ok(more) = receiver.recv() {
            counts.add(&more);
            ticker.add(&more);
            if let Some(line) = ticker.line() {
                say(&line);
            }
        }
        threads.into_iter().map(|it| it.join().expect("a client does not panic")).collect()
    });
    let elapsed = began.elapsed();
    let server_cpu = cpu().zip(cpu_before).map(|(after, before)| after.saturating_sub(before));
    let mut report = Report {
        setting: setting.clone(),
        latencies: Latencies::default(),
        by_kind: Default::default(),
        counts,
        elapsed,
        server_cpu,
    };
    for done in done {
        if let Some(error) = done.error {
            return Err(error);
        }
        for (all, own) in report.by_kind.iter_mut().zip(&done.latencies) {
            all.add(own);
            report.latencies.add(own);
        }
    }
    Ok(report)
}

fn one_client(
    setting: &Setting,
    number: u64,
    mut terminal: Terminal,
    arrivals: &Arrivals,
    sender: &mpsc::Sender<Counts>,
) -> Done {
    let home = (number % setting.warehouses as u64) as i32 + 1;
    let mut random = Random::new(setting.seed ^ (number + 1) << 40);
    let mut done = Done { latencies: Default::default(), error: None };
    let (mut untold, mut told) = (Counts::default(), Instant::now());
    while let Some(arrived) = arrivals.next() {
        let input = Input::draw(&mut random, &setting.size, setting.warehouses, home);
        match until_done(&mut terminal, &input, &mut untold) {
            Ok(ended) => {
                done.latencies[input.kind() as usize].record(arrived.elapsed());
                untold.transactions += 1;
                untold.new_orders += u64::from(input.kind() == Kind::NewOrder);
                untold.rollbacks += u64::from(ended == Ended::Rollback);
            }
            Err(error) => {
                done.error = Some(format!("{}: {}", input.kind().name(), message(&error)));
                break;
            }
        }
        if told.elapsed() > Duration::from_millis(100) {
            told = Instant::now();
            // The receiver lives until all clients have ended.
            let _ = sender.send(std::mem::take(&mut untold));
        }
    }
    let _ = sender.send(untold);
    done
}

/// Tries until there is no conflict.
fn until_done(
    terminal: &mut Terminal,
    input: &Input,
    counts: &mut Counts,
) -> std::result::Result<Ended, postgres::Error> {
    loop {
        match terminal.run(input) {
            Err(error) if is_conflict(&error) => {
                counts.aborts += 1;
                terminal.roll_back()?;
            }
            other => return other,
        }
    }
}

fn is_conflict(error: &postgres::Error) -> bool {
    error.code().is_some_and(|code| matches!(code.code(), "40001" | "40P01"))
}
