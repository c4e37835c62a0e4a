//! TPC-C: nine ordinary SQL tables, the five transactions as native procedures on the kernel's
//! interface, the standard's mix or a part of it, and its twelve consistency conditions at the end.
//!
//! Invariants: what is said of a figure is so: no think times, the isolation and durability asked
//! for, conflicts counted and retried, conditions checked after every run. A transaction runs on
//! the instance of its home warehouse. Nothing here knows the wire; `wire::tpcc` runs the same
//! inputs through any server's SQL.

mod check;
mod facts;
mod inputs;
mod native;
mod random;
mod rows;
mod schema;
#[cfg(test)]
mod tests;

use std::time::Duration;

use atoll_kernel::api::{Access, AffinityKey, Catalog, Database, Result};
use serde_json::json;

use crate::native::{Commands, Native};
use crate::setting::Setting;
use crate::space::{Each, Need, instance_seconds};
use crate::sql::Ask;
use crate::stored;
use crate::workload::{Acknowledge, Checked, Counts, Ended, Fields, Loaded, Sink, Workload};
use native::Terminal;
use schema::{NAMES, Tables};

pub use check::check;
pub use facts::{Breach, Facts, Verdict};
pub use inputs::{
    DISTRICTS, Delivery, Input, Kind, Mix, NewOrder, OrderStatus, Payment, StockLevel, Who,
};
pub use native::OrderKey;
pub use random::{Random, now};

/// Said with every figure.
pub const NOTE: &str = "no keying and no think times; snapshot isolation where REPEATABLE READ \
is said, under which TPC-C's transactions are serializable (SERIALIZABLE is not there yet)";

/// Transactions that an instance may do in a second.
const RATE: u64 = 60_000;

/// Memory for pages for so many warehouses and what some runs add.
pub(crate) fn pool_bytes(warehouses: u64) -> u64 {
    warehouses.saturating_mul(256 << 20).saturating_add(2 << 30)
}

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

/// On which instance a terminal's transactions run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Affinity {
    /// Natively: on that of its home warehouse.
    Home,
    /// On any: natively a warehouse's terminals are spread over all instances, over the wire sessions are
    /// where they were accepted.
    None,
    /// Over the wire: tables say what is near to a warehouse, and sessions go there.
    Table,
    /// Over the wire: clients say which warehouse they are near to, and their sessions go there.
    Hint,
}

impl Affinity {
    /// Those of native runs, the usual one first.
    pub const NATIVE: [Affinity; 2] = [Affinity::Home, Affinity::None];
    /// Those over the wire, the usual one first.
    pub const WIRE: [Affinity; 3] = [Affinity::None, Affinity::Table, Affinity::Hint];

    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Affinity::Home => "home",
            Affinity::None => "none",
            Affinity::Table => "table",
            Affinity::Hint => "hint",
        }
    }
}

/// The workload. A client's home warehouse goes by its number.
#[derive(Clone, Copy, Debug)]
pub struct Tpcc {
    /// Warehouses.
    pub warehouses: i32,
    /// Rows of each.
    pub size: Size,
    /// Which transactions run.
    pub mix: Mix,
    /// Where they run.
    pub affinity: Affinity,
}

impl Tpcc {
    pub(crate) fn home(&self, client: u64) -> i32 {
        (client % self.warehouses as u64) as i32 + 1
    }

    /// What a verdict that is good has to say.
    pub fn checked(&self, verdict: &Verdict) -> std::result::Result<Checked, String> {
        judge(verdict)?;
        let what = "all twelve consistency conditions hold".to_owned();
        Ok(Checked { what, rows: verdict.rows })
    }
}

impl Workload for Tpcc {
    const NAME: &'static str = "tpcc";
    const KINDS: &'static [&'static str] = &Kind::NAMES;
    const TABLES: &'static [&'static str] = &NAMES;
    const ACKNOWLEDGE: Acknowledge = Acknowledge::Nothing;

    type Input = Input;
    type Source = (Random, i32);
    type Mark = OrderKey;
    type Tally = ();
    type Before = ();

    fn validate(&self) -> std::result::Result<(), String> {
        if self.warehouses < 1 {
            return Err("warehouses must be at least 1".to_owned());
        }
        Ok(())
    }

    fn about(&self) -> Fields {
        vec![
            ("warehouses", json!(self.warehouses)),
            ("mix", json!(self.mix.name())),
            ("affinity", json!(self.affinity.name())),
            ("note", json!(NOTE)),
        ]
    }

    fn results(&self, counts: &Counts, elapsed: Duration) -> Fields {
        let new_orders = counts.done[Kind::NewOrder as usize];
        let a_minute = new_orders as f64 * 60.0 / elapsed.as_secs_f64();
        vec![("new_orders_per_minute", json!(a_minute)), ("new_orders", json!(new_orders))]
    }

    fn definitions(&self) -> String {
        let near = if self.affinity == Affinity::Table { schema::AFFINITY } else { "" };
        format!("{}{}{near}", schema::TABLES, schema::INDEXES)
    }

    fn parts(&self) -> u64 {
        // The items, and each warehouse.
        1 + self.warehouses as u64
    }

    fn rows(&self) -> u64 {
        rows::expected(&self.size, self.warehouses)
    }

    fn fill<S: Sink>(
        &self,
        seed: u64,
        part: u64,
        sink: &mut S,
    ) -> std::result::Result<(), S::Error> {
        match part {
            0 => rows::items(&self.size, seed, sink),
            warehouse => rows::warehouse(&self.size, seed, warehouse as i32, sink),
        }
    }

    fn loader(&self, part: u64, instances: usize) -> usize {
        (part.saturating_sub(1) % instances as u64) as usize
    }

    fn source(&self, client: u64, seed: u64) -> (Random, i32) {
        (Random::of_client(seed, client), self.home(client))
    }

    fn draw(&self, (random, home): &mut (Random, i32)) -> Input {
        Input::draw(random, self, *home)
    }

    fn kind(input: &Input) -> usize {
        input.kind() as usize
    }

    fn add(_: &mut (), _: OrderKey) {}

    // The conditions are read by scans and by COPY instead: `look`, `verify`.
    fn before(&self, _: &mut dyn Ask) -> std::result::Result<(), String> {
        Ok(())
    }

    fn judge(&self, _: &mut dyn Ask, (): &(), (): &()) -> std::result::Result<Checked, String> {
        Err("the conditions are not judged by questions".to_owned())
    }
}

impl Native for Tpcc {
    type Tables = Tables;
    type Terminal = (Tables, Terminal);

    fn tables(catalog: &Catalog) -> std::result::Result<Tables, String> {
        Tables::find(catalog)
    }

    fn terminal(&self, tables: Tables) -> (Tables, Terminal) {
        (tables, Terminal::default())
    }

    fn need(&self, setting: &Setting, instances: u16) -> Need {
        let standard = u64::from(Size::STANDARD.items.cast_unsigned());
        let share = |mib: u64| (mib << 20) * u64::from(self.size.items.cast_unsigned()) / standard;
        // A warehouse takes 160 MiB of either, the items 16 of pages, once.
        let warehouse = Each { pages: share(160) + share(16), log: share(160) };
        let transaction = match self.mix {
            Mix::Standard | Mix::Payment => Each { pages: 700, log: 1300 },
            Mix::NewOrder | Mix::NewOrderDelivery => Each { pages: 1600, log: 2900 },
        };
        let warehouses = (u64::from(self.warehouses.cast_unsigned()), warehouse);
        Need::of(warehouses, (instance_seconds(setting, instances), RATE), transaction)
    }

    fn access(input: &Input) -> Access {
        match input.kind() {
            Kind::OrderStatus | Kind::StockLevel => Access::ReadOnly,
            _ => Access::ReadWrite,
        }
    }

    fn key(input: &Input) -> AffinityKey {
        i64::from(input.warehouse()).into()
    }

    fn run(
        (tables, terminal): &mut (Tables, Terminal),
        commands: &mut Commands<'_>,
        input: &Input,
    ) -> Result<Ended<OrderKey>> {
        terminal.run(tables, commands, input)
    }

    fn home(&self, client: u64, instances: usize) -> usize {
        match self.affinity {
            // A warehouse's terminals one after the other.
            Affinity::None => (client / self.warehouses as u64) as usize % instances,
            _ => (self.home(client) - 1) as usize % instances,
        }
    }

    fn look(&self, database: &Database, loaded: &Loaded) -> std::result::Result<(), String> {
        // What was loaded just now is judged at the end.
        if loaded.rows > 0 { Ok(()) } else { self.verify(database, &(), &()).map(drop) }
    }

    fn verify(
        &self,
        database: &Database,
        (): &(),
        (): &(),
    ) -> std::result::Result<Checked, String> {
        self.checked(&check(database, self.size, self.warehouses)?)
    }
}

/// A verdict that is not good, as an error of one line.
pub fn judge(verdict: &Verdict) -> std::result::Result<(), String> {
    if verdict.is_good() {
        return Ok(());
    }
    let breaches: Vec<String> = verdict.breaches.iter().map(ToString::to_string).collect();
    Err(breaches.join("; "))
}
