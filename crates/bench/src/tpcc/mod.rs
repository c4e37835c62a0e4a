//! TPC-C: nine ordinary SQL tables, the five transactions as native procedures on the kernel's
//! interface, the standard's mix, and its twelve consistency conditions at the end.
//!
//! Invariants: what is said of a figure is so: no think times, the isolation and durability asked
//! for, conflicts counted and retried, conditions checked after every run. A transaction runs on
//! the instance of its home warehouse. Nothing here knows the wire; `wire::tpcc` runs the same
//! inputs through any server's SQL.

mod check;
mod drive;
mod facts;
mod inputs;
mod load;
mod native;
mod random;
mod report;
mod rows;
mod schema;
mod space;
mod stored;
#[cfg(test)]
mod tests;

use std::path::PathBuf;
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use atoll_kernel::api::{Database, Error, InstanceId, Instances, Options, Pin};

use crate::cpu;
use schema::Tables;

pub use check::check;
pub use drive::{Acknowledge, Counts, Course, Driven, Told};
pub use facts::{Breach, Facts, Verdict};
pub use inputs::{
    DISTRICTS, Delivery, Input, Kind, NewOrder, OrderStatus, Payment, StockLevel, Who,
};
pub use load::{Loaded, run_sql};
pub use native::OrderKey;
pub use random::{Random, now};
pub use report::{NOTE, Report, latency_json};
pub use rows::{Sink, Target as RowTarget, items, warehouse};
pub use schema::{INDEXES, NAMES, TABLES};

/// How many rows a warehouse has; the standard's but in tests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Size {
    /// Items, and stock rows of a warehouse.
    pub items: i32,
    /// Customers of a district, and orders that it begins with.
    pub customers: i32,
}

impl Size {
    /// Clause 1.2.
    pub const STANDARD: Size = Size { items: 100_000, customers: 3000 };
    /// For tests that run whole.
    pub const TINY: Size = Size { items: 1000, customers: 60 };

    /// Orders of a district that are not delivered at the beginning: 900 of 3000.
    pub fn new_orders(&self) -> i32 {
        self.customers * 3 / 10
    }
}

/// How much transactions see of others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Isolation {
    /// A snapshot for every command; changed rows are read again.
    ReadCommitted,
    /// One snapshot: snapshot isolation.
    RepeatableRead,
}

impl Isolation {
    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Isolation::ReadCommitted => "read-committed",
            Isolation::RepeatableRead => "repeatable-read",
        }
    }
}

impl From<Isolation> for atoll_kernel::api::Isolation {
    fn from(isolation: Isolation) -> Self {
        match isolation {
            Isolation::ReadCommitted => atoll_kernel::api::Isolation::ReadCommitted,
            Isolation::RepeatableRead => atoll_kernel::api::Isolation::RepeatableRead,
        }
    }
}

/// When a commit is answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Durability {
    /// When it is stable.
    Commit,
    /// At once.
    Relaxed,
}

/// What to run.
#[derive(Clone, Debug)]
pub struct Setting {
    /// Warehouses.
    pub warehouses: i32,
    /// Rows of each.
    pub size: Size,
    /// Clients, each a task with a home warehouse.
    pub clients: u64,
    /// How long is measured.
    pub seconds: u64,
    /// How long runs before that.
    pub warmup_seconds: u64,
    /// How much transactions see of others.
    pub isolation: Isolation,
    /// When a commit is answered.
    pub durability: Durability,
    /// The seed of all random choices.
    pub seed: u64,
}

impl Setting {
    fn validate(&self) -> Result<(), String> {
        if self.warehouses < 1 || self.clients == 0 {
            return Err("warehouses and clients must be at least 1".to_owned());
        }
        Ok(())
    }
}

/// Where and with how much a database of its own runs.
#[derive(Clone, Debug)]
pub struct Place {
    /// Where the data goes; none: memory only, which says nothing about durability.
    pub data: Option<PathBuf>,
    /// Instances.
    pub instances: Instances,
    /// Memory for pages; none: what is expected to be needed.
    pub buffer_pool_bytes: Option<u64>,
}

/// The instance that runs a warehouse's transactions.
fn instance_of(warehouse: i32, instances: usize) -> InstanceId {
    InstanceId(((warehouse - 1) as usize % instances) as u16)
}

/// Opens a database of its own, loads, runs, checks. `say` gets progress for people. Errors are
/// one line.
pub fn run(setting: &Setting, place: &Place, say: &mut dyn FnMut(&str)) -> Result<Report, String> {
    setting.validate()?;
    if setting.seconds == 0 {
        return Err("seconds must be at least 1".to_owned());
    }
    let instances = place.instances.count();
    let need = space::Need::of(setting, instances);
    let pool = place.buffer_pool_bytes.unwrap_or(need.pool_bytes);
    space::refuse(&need, pool, place.data.as_deref())?;
    let options = Options {
        instances: place.instances,
        buffer_pool_bytes: pool,
        pin: Pin::Auto,
        lock_note: "atoll bench tpcc".to_owned(),
        ..Options::default()
    };
    let database = match &place.data {
        Some(directory) => Database::open(directory, options),
        None => Database::open_in_memory(options),
    };
    let database = database.map_err(text)?;
    let loaded = prepare(&database, setting, say)?;
    let report = measure(&database, setting, loaded, say)?;
    database.close().map_err(text)?;
    Ok(report)
}

/// Loads the tables unless they are there. Those that are there must have been loaded whole, for as
/// many warehouses: a load that was interrupted is an error that says what is missing.
pub fn prepare(
    database: &Database,
    setting: &Setting,
    say: &mut dyn FnMut(&str),
) -> Result<Loaded, String> {
    setting.validate()?;
    if Tables::are_there(&database.catalog()) {
        say("the tables are there: checking them");
        let verdict = check(database, setting.size, setting.warehouses)?;
        judge(&verdict).map_err(|what| format!("the tables are there but not whole: {what}"))?;
        return Ok(Loaded::default());
    }
    say(&format!("loading {} warehouses", setting.warehouses));
    let mut said = Instant::now();
    let Setting { size, warehouses, seed, .. } = *setting;
    let loaded = load::load(database, size, warehouses, seed, &mut |rows, all| {
        if said.elapsed() >= Duration::from_secs(1) {
            said = Instant::now();
            say(&format!("  {rows} of about {all} rows"));
        }
    })?;
    say(&format!("  {} rows in {:.2} s", loaded.rows, loaded.elapsed.as_secs_f64()));
    Ok(loaded)
}

/// Warms up, measures, checks.
fn measure(
    database: &Database,
    setting: &Setting,
    loaded: Loaded,
    say: &mut dyn FnMut(&str),
) -> Result<Report, String> {
    let tables = Tables::find(&database.catalog())?;
    if setting.warmup_seconds > 0 {
        say(&format!("warming up for {} s", setting.warmup_seconds));
        run_for(database, &tables, setting, setting.warmup_seconds, say)?;
    }
    say(&format!("running for {} s", setting.seconds));
    let before = database.metrics().map_err(text)?;
    let cpu_before = cpu::own();
    let driven = run_for(database, &tables, setting, setting.seconds, say)?;
    let cpu = cpu::own().saturating_sub(cpu_before);
    let after = database.metrics().map_err(text)?;
    say("checking the twelve consistency conditions");
    let began = Instant::now();
    let verdict = check(database, setting.size, setting.warehouses)?;
    judge(&verdict)?;
    Ok(Report {
        setting: setting.clone(),
        instances: database.instances(),
        driven,
        cpu,
        metrics: (before, after),
        loaded,
        checked: (verdict.rows, began.elapsed()),
    })
}

/// A verdict that is not good, as an error of one line.
pub fn judge(verdict: &Verdict) -> Result<(), String> {
    if verdict.is_good() {
        return Ok(());
    }
    let breaches: Vec<String> = verdict.breaches.iter().map(ToString::to_string).collect();
    Err(breaches.join("; "))
}

fn run_for(
    database: &Database,
    tables: &Tables,
    setting: &Setting,
    seconds: u64,
    say: &mut dyn FnMut(&str),
) -> Result<Driven, String> {
    let course = Course {
        duration: Duration::from_secs(seconds),
        stop: Arc::new(OnceLock::new()),
        acknowledge: Acknowledge::Nothing,
    };
    let mut ticker = Ticker::new();
    drive::drive(database, tables, setting, &course, &mut |told| {
        if let Some(Told::Progress(counts)) = &told {
            ticker.add(counts);
        }
        if let Some(line) = ticker.line() {
            say(&line);
        }
    })
}

/// Runs the transactions in a database that somebody else serves; the tables are there.
pub fn run_inside(
    database: &Database,
    setting: &Setting,
    course: &Course,
    told: &mut dyn FnMut(Option<Told>),
) -> Result<Driven, String> {
    let tables = Tables::find(&database.catalog())?;
    drive::drive(database, &tables, setting, course, told)
}

/// Adds progress up and has a line to say every second.
pub struct Ticker {
    began: Instant,
    said: Instant,
    since: Counts,
}

impl Default for Ticker {
    fn default() -> Ticker {
        Ticker::new()
    }
}

impl Ticker {
    /// From now on.
    pub fn new() -> Ticker {
        Ticker { began: Instant::now(), said: Instant::now(), since: Counts::default() }
    }

    /// So much more was done.
    pub fn add(&mut self, counts: &Counts) {
        self.since.add(counts);
    }

    /// What to say, if a second has gone.
    pub fn line(&mut self) -> Option<String> {
        let seconds = self.said.elapsed().as_secs_f64();
        if seconds < 1.0 {
            return None;
        }
        self.said = Instant::now();
        let since = std::mem::take(&mut self.since);
        Some(format!(
            "  {:>4.0} s: {:.0} transactions a second, {:.0} New-Orders a minute, {} conflicts",
            self.began.elapsed().as_secs_f64(),
            since.transactions as f64 / seconds,
            since.new_orders as f64 * 60.0 / seconds,
            since.aborts
        ))
    }
}

fn text(error: Error) -> String {
    error.to_string()
}
