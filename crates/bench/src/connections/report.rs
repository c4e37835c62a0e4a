//! What a run with many connections measured, for people and as JSON.
//!
//! Invariants: figures are medians of the rounds; single rounds are in the JSON. Latencies are of
//! all rounds together. `relative` is to the smallest number of connections of the same work; *least by
//! most* is throughput with the number that does least by that with the number that does most.

use std::time::Duration;

use serde_json::{Map, Value, json};

use super::{Driven, Settings, Work};
use crate::compare::figures::{Spread, least_by_most};
use crate::compare::report::spread_json;
use crate::latency::Latencies;

/// What an idle session costs, in bytes of resident memory of the server.
#[derive(Clone, Copy, Debug)]
pub struct Idle {
    /// How many sessions there were.
    pub sessions: usize,
    /// After a simple query and a prepared statement.
    pub bytes: f64,
    /// After all of them had been active at once.
    pub bytes_after_work: f64,
    /// What is still held when they are gone.
    pub bytes_left_behind: f64,
    /// The system's own memory for both ends of a connection.
    pub slab_bytes: f64,
}

/// One number of connections doing one work.
pub struct Point {
    work: Work,
    connections: usize,
    per_second: Vec<f64>,
    client_us: Vec<f64>,
    server_us: Vec<f64>,
    latencies: Latencies,
}

/// What came of all runs.
pub struct Report {
    rows: u64,
    seconds: u64,
    rounds: usize,
    seed: u64,
    points: Vec<Point>,
    /// None without the server's process.
    pub idle: Option<Idle>,
    /// Updates that were acknowledged and are there.
    pub updates_checked: u64,
}

impl Report {
    pub(super) fn new(settings: &Settings) -> Report {
        let point = |work: Work, connections: usize| Point {
            work,
            connections,
            per_second: Vec::new(),
            client_us: Vec::new(),
            server_us: Vec::new(),
            latencies: Latencies::default(),
        };
        let works = settings.works.iter();
        let points =
            works.flat_map(|work| settings.counts.iter().map(move |count| point(*work, *count)));
        Report {
            rows: settings.rows,
            seconds: settings.seconds,
            rounds: settings.rounds,
            seed: settings.seed,
            points: points.collect(),
            idle: None,
            updates_checked: 0,
        }
    }

    pub(super) fn add(&mut self, work: Work, connections: usize, driven: Driven) {
        let its = |point: &&mut Point| point.work == work && point.connections == connections;
        let Some(point) = self.points.iter_mut().find(its) else { return };
        let each = |time: Duration| driven.each_us(time);
        point.per_second.push(driven.per_second());
        point.client_us.push(each(driven.client_cpu));
        point.server_us.extend(driven.server_cpu.map(each));
        point.latencies.add(&driven.latencies);
    }

    /// Throughput in relation to the fewest connections with the same work.
    fn relative(&self, point: &Point) -> f64 {
        let same = self.points.iter().filter(|it| it.work == point.work);
        let first = same.min_by_key(|it| it.connections);
        let base = first.map_or(0.0, |first| median(&first.per_second));
        if base > 0.0 { median(&point.per_second) / base } else { 0.0 }
    }

    /// Each work, with what it does with the number of connections that does least, by what it does with the
    /// one that does most; none with one number alone.
    fn least_by_most(&self) -> Vec<(Work, Spread)> {
        let mut works: Vec<Work> = self.points.iter().map(|it| it.work).collect();
        works.dedup();
        let of = |work: Work| {
            let its = self.points.iter().filter(|it| it.work == work);
            let rates: Vec<Vec<f64>> = its.map(|it| it.per_second.clone()).collect();
            Some((work, least_by_most(&rates)?))
        };
        works.into_iter().filter_map(of).collect()
    }

    /// As one JSON object.
    pub fn json(&self) -> Value {
        let least_by_most = self.least_by_most().into_iter();
        let least_by_most: Map<String, Value> =
            least_by_most.map(|(work, it)| (work.name().to_owned(), spread_json(it))).collect();
        let point = |point: &Point| {
            json!({
                "work": point.work.name(),
                "connections": point.connections,
                "tps": median(&point.per_second),
                "tps_by_round": point.per_second,
                "relative": self.relative(point),
                "client_cpu_us_per_txn": median(&point.client_us),
                "server_cpu_us_per_txn":
                    (!point.server_us.is_empty()).then(|| median(&point.server_us)),
                "latency_us": point.latencies.json(),
            })
        };
        json!({
            "benchmark": "connections",
            "rows": self.rows,
            "seconds": self.seconds,
            "rounds": self.rounds,
            "seed": self.seed,
            "results": self.points.iter().map(point).collect::<Vec<_>>(),
            "least_by_most": least_by_most,
            "idle": self.idle.map(|idle| json!({
                "sessions": idle.sessions,
                "bytes_per_session": idle.bytes,
                "bytes_per_session_after_work": idle.bytes_after_work,
                "bytes_per_session_left_behind": idle.bytes_left_behind,
                "system_slab_bytes_per_connection": idle.slab_bytes,
            })),
            "updates_checked": self.updates_checked,
        })
    }
}

fn median(values: &[f64]) -> f64 {
    Spread::of(values.iter().copied()).median
}

impl std::fmt::Display for Report {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        writeln!(
            f,
            "connections: {} rows, {} s each, medians of {} rounds, seed {}",
            self.rows, self.seconds, self.rounds, self.seed
        )?;
        writeln!(
            f,
            "  work    connections   a second  relative  server us  client us   p50 us   p99 us"
        )?;
        for point in &self.points {
            let server = match point.server_us.is_empty() {
                true => "-".to_owned(),
                false => format!("{:.1}", median(&point.server_us)),
            };
            writeln!(
                f,
                "  {:<7} {:>11} {:>10.0} {:>9.2} {server:>10} {:>10.1} {:>8} {:>8}",
                point.work.name(),
                point.connections,
                median(&point.per_second),
                self.relative(point),
                median(&point.client_us),
                point.latencies.percentile_us(50.0),
                point.latencies.percentile_us(99.0)
            )?;
        }
        for (work, Spread { median, least, most }) in self.least_by_most() {
            writeln!(
                f,
                "  {}: the least by the most of these numbers of connections: {median:.2} ({least:.2} to {most:.2} in \
                 single rounds)",
                work.name()
            )?;
        }
        if let Some(idle) = &self.idle {
            writeln!(
                f,
                "  an idle session: {:.1} KiB, {:.1} KiB after work, {:.1} KiB left behind by one \
                 that is gone; the system's: {:.1} KiB a connection ({} sessions)",
                idle.bytes / 1024.0,
                idle.bytes_after_work / 1024.0,
                idle.bytes_left_behind / 1024.0,
                idle.slab_bytes / 1024.0,
                idle.sessions
            )?;
        }
        write!(f, "  {} acknowledged updates are there", self.updates_checked)
    }
}
