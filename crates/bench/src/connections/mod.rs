//! Connections: what a transaction costs with few and with thousands of active ones, and what an
//! idle session keeps.
//!
//! One statement a transaction, prepared: a look-up by key, or an update of one row. All
//! connections of a run are active in a closed loop; numbers of connections take turns in rounds,
//! so that a machine's moods fall on all. One thread holds all connections (`client`, `drive`): a
//! client costs little, and as much with ten thousand as with sixteen.
//!
//! Invariants: every answer is checked to be of one row; at the end the sum of all values is the
//! number of acknowledged updates. Nothing asserts a time.

mod client;
mod drive;
mod report;
#[cfg(test)]
mod tests;

use std::time::Duration;

use client::{Connection, Target};
use drive::{Driven, drive};

use crate::compare::rounds::turns;
use crate::memory;
use crate::sql::{Ask, numbers};
use crate::wire::{allow_connections, connect_to};

pub use report::{Idle, Point, Report};

/// What a server gets to give memory back before it is asked how much it holds.
const REST: Duration = Duration::from_secs(2);
/// Rows that one INSERT of the loader has.
const LOAD_ROWS: u64 = 1000;

/// What active connections do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Work {
    /// Look one row up by its key.
    Select,
    /// Add one to a row found by its key; durable when it is answered.
    Update,
}

impl Work {
    /// Its name, also that of its prepared statement.
    pub fn name(self) -> &'static str {
        match self {
            Work::Select => "select",
            Work::Update => "update",
        }
    }

    fn statement(self) -> &'static str {
        match self {
            Work::Select => "select value from connections_rows where id = $1",
            Work::Update => "update connections_rows set value = value + 1 where id = $1",
        }
    }

    fn tag(self) -> &'static [u8; 8] {
        match self {
            Work::Select => b"SELECT 1",
            Work::Update => b"UPDATE 1",
        }
    }
}

/// What to run.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The server, as libpq's connection strings and URLs say it.
    pub url: String,
    /// The server's process, to count its processor time and memory.
    pub server_pid: Option<u32>,
    /// Numbers of active connections.
    pub counts: Vec<usize>,
    /// What they do.
    pub works: Vec<Work>,
    /// How long is measured, each.
    pub seconds: u64,
    /// How long runs before that.
    pub warmup_seconds: u64,
    /// How often everything is run.
    pub rounds: usize,
    /// Rows of the table.
    pub rows: u64,
    /// Threads that hold the connections.
    pub threads: usize,
    /// The seed of all keys.
    pub seed: u64,
}

impl Settings {
    fn validate(&self) -> Result<(), String> {
        if self.counts.is_empty() || self.counts.contains(&0) {
            return Err("counts must be at least 1".to_owned());
        }
        if self.works.is_empty() || self.rows == 0 || self.threads == 0 {
            return Err("there must be work, rows and threads".to_owned());
        }
        let is_twice = |at: usize| self.counts[..at].contains(&self.counts[at]);
        if (1..self.counts.len()).any(is_twice) {
            return Err("a number of connections is named twice".to_owned());
        }
        if self.works.len() > 1 && self.works[1..].contains(&self.works[0]) {
            return Err("a work is named twice".to_owned());
        }
        if self.seconds == 0 || self.rounds == 0 {
            return Err("seconds and rounds must be at least 1".to_owned());
        }
        // A socket each.
        allow_connections(self.counts.iter().max().copied().unwrap_or(0) as u64, 1)
    }
}

/// Makes the table if it is not there, measures, checks. Errors are one line.
pub fn run(settings: &Settings, say: &mut dyn FnMut(&str)) -> Result<Report, String> {
    settings.validate()?;
    let target = Target::parse(&settings.url)?;
    let mut sql = connect_to(&settings.url)?;
    load(&mut sql, settings.rows, say)?;
    let before = sum(&mut sql)?;
    let mut report = Report::new(settings);
    report.idle = idle(settings, &target, say)?;
    let mut updates = 0;
    for round in 0..settings.rounds {
        for (at, work) in settings.works.iter().enumerate() {
            for turn in turns(settings.counts.len(), round as u64) {
                let count = settings.counts[turn];
                let seed = settings.seed << 16 | (round * settings.works.len() + at) as u64;
                let mut connections = open(&target, count)?;
                let driven = drive(settings, *work, &mut connections, seed)?;
                drop(connections);
                if *work == Work::Update {
                    updates += driven.answered;
                }
                say(&format!(
                    "  round {}, {}, {count} connections: {:.0} a second",
                    round + 1,
                    work.name(),
                    driven.per_second()
                ));
                report.add(*work, count, driven);
            }
        }
    }
    say("checking");
    let made = sum(&mut sql)? - before;
    if made != updates as i64 {
        return Err(format!("{updates} updates were acknowledged, and {made} were made"));
    }
    report.updates_checked = updates;
    Ok(report)
}

fn open(target: &Target, count: usize) -> Result<Vec<Connection>, String> {
    (0..count).map(|_| Connection::open(target)).collect()
}

/// What the server holds for as many idle sessions as the most that will be active: first new ones
/// that have run two statements, then after all of them were active.
fn idle(
    settings: &Settings,
    target: &Target,
    say: &mut dyn FnMut(&str),
) -> Result<Option<Idle>, String> {
    let Some(pid) = settings.server_pid else { return Ok(None) };
    let sessions = settings.counts.iter().max().copied().unwrap_or(0);
    say(&format!("measuring {sessions} idle sessions"));
    let held = || {
        std::thread::sleep(REST);
        let server = memory::anonymous(pid).ok_or_else(|| format!("no memory of process {pid}"))?;
        Ok::<_, String>((server as i64, memory::slab().unwrap_or(0) as i64))
    };
    // What the first session makes for all.
    drop(open(target, 2 * settings.threads)?);
    let (without, slab_without) = held()?;
    let mut connections = open(target, sessions)?;
    let (with, slab_with) = held()?;
    let short = Settings { seconds: 1, warmup_seconds: 1, ..settings.clone() };
    drive(&short, Work::Select, &mut connections, settings.seed)?;
    let (after, _) = held()?;
    drop(connections);
    let (gone, _) = held()?;
    let each = |bytes: i64| bytes as f64 / sessions as f64;
    Ok(Some(Idle {
        sessions,
        bytes: each(with - without),
        bytes_after_work: each(after - without),
        bytes_left_behind: each(gone - without),
        slab_bytes: each(slab_with - slab_without),
    }))
}

fn load(sql: &mut postgres::Client, rows: u64, say: &mut dyn FnMut(&str)) -> Result<(), String> {
    let there =
        "select count(*) from pg_class where relkind = 'r' and relname = 'connections_rows'";
    let [there] = numbers(sql, there)?;
    if there != 0 {
        let [found] = numbers(sql, "select count(*) from connections_rows")?;
        if found != rows as i64 {
            return Err(format!("connections_rows has {found} rows, not {rows}: drop it"));
        }
        return Ok(());
    }
    say(&format!("loading {rows} rows"));
    let failed = |error: postgres::Error| crate::wire::message(&error);
    sql.batch_execute("begin").map_err(failed)?;
    sql.ask("create table connections_rows (id int8 primary key, value int8 not null)")?;
    for first in (1..=rows).step_by(LOAD_ROWS as usize) {
        let last = rows.min(first + LOAD_ROWS - 1);
        let values: Vec<String> = (first..=last).map(|id| format!("({id}, 0)")).collect();
        sql.ask(&format!("insert into connections_rows values {}", values.join(", ")))?;
    }
    sql.batch_execute("commit").map_err(failed)
}

fn sum(sql: &mut postgres::Client) -> Result<i64, String> {
    numbers(sql, "select sum(value)::int8 from connections_rows").map(|[sum]| sum)
}
