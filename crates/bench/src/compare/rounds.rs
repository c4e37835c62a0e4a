//! The comparison itself: for every workload fresh servers, loaded alike, then rounds in which they
//! take turns.
//!
//! Invariants: a round runs every number of clients against every server; who begins changes from
//! round to round. Only the server whose turn it is runs, the others are paused; a turn is a whole run, or a slice of
//! runs that are all under way (`slices`). The first error ends everything, servers included.

use std::path::PathBuf;
use std::rc::Rc;

use serde_json::{Value, json};

use super::Result;
use super::clients::{Clients, Sample, Tools};
use super::contender::Contender;
use super::engine::Tuning;
use super::machine;
use super::process::Watch;
use super::runs::Runs;
use super::server::{Folder, Server};
use super::slices::Sliced;
use super::workload::{Sizes, Workload};
use crate::arrivals::Rate;

/// What is compared, and how.
pub struct Plan {
    /// Who takes part; the first is the subject, which is set beside each of the others.
    pub contenders: Vec<Rc<Contender>>,
    /// What is run, how long and how often.
    pub runs: Runs,
    /// How large tables are.
    pub sizes: Sizes,
    /// What servers are given.
    pub tuning: Tuning,
    /// Who runs the clients.
    pub tools: Tools,
    /// Everything is under this folder, which is new for each workload.
    pub folder: PathBuf,
}

/// All rounds of one server in one workload with so many clients.
#[derive(Clone, Debug)]
pub struct Series {
    /// Its place in [`Plan::contenders`].
    pub contender: usize,
    /// So many clients.
    pub clients: u64,
    /// One a round.
    pub samples: Vec<Sample>,
}

/// What came of one workload.
#[derive(Clone, Debug)]
pub struct Measured {
    /// Which.
    pub workload: Workload,
    /// When, as 2026-11-22.
    pub date: String,
    /// By clients, then by contender.
    pub series: Vec<Series>,
}

impl Plan {
    /// Who takes part in a workload, by place.
    fn takes_part(&self, workload: &Workload) -> Vec<usize> {
        let speaks = |at: &usize| workload.speaks(self.contenders[*at].engine.language());
        (0..self.contenders.len()).filter(speaks).collect()
    }

    /// Seconds that clients run a workload, loading left out.
    pub fn seconds(&self, workload: &Workload) -> u64 {
        let Runs { clients, length, rounds, .. } = &self.runs;
        let run = length.seconds + length.warmup_seconds;
        self.takes_part(workload).len() as u64 * clients.len() as u64 * rounds * run
    }

    /// All that figures depend on besides the machine and the workload, as JSON.
    pub fn conditions(&self) -> Value {
        let servers = self.contenders.iter().map(|it| {
            let settings = it.engine.settings(&self.tuning);
            json!({"server": it.version, "build": it.build, "settings": settings})
        });
        let Runs { pace, length, rounds, .. } = &self.runs;
        json!({
            "seconds": length.seconds,
            "warmup_seconds": length.warmup_seconds,
            "rounds": rounds,
            "rate": pace.rate().map(Rate::per_second),
            "slice_ms": pace.slice().map(|it| it.as_millis() as u64),
            "scale": self.sizes.scale,
            "tables": self.sizes.tables,
            "table_rows": self.sizes.table_rows,
            "warehouses": self.sizes.warehouses,
            "servers": servers.collect::<Vec<_>>(),
        })
    }

    /// What a workload's rounds are put into: by clients, then by contender.
    pub fn series(&self, workload: &Workload) -> Vec<Series> {
        let takes_part = self.takes_part(workload);
        let of = |clients: &u64| {
            let clients = *clients;
            let series = move |contender| Series { contender, clients, samples: Vec::new() };
            takes_part.clone().into_iter().map(series)
        };
        self.runs.clients.iter().flat_map(of).collect()
    }

    /// Runs one workload on new servers. Errors are one line, and leave nothing behind.
    pub fn run(
        &self,
        workload: &Workload,
        watch: &Watch<'_>,
        say: &mut dyn FnMut(&str),
    ) -> Result<Measured> {
        let (folder, sizes) = (Folder::new(self.folder.clone())?, self.sizes);
        let rate = self.runs.pace.rate();
        let clients = Clients { tools: &self.tools, sizes, rate, folder: folder.path(), watch };
        let mut servers = self.loaded(workload, &clients, say)?;
        let mut series = self.series(workload);
        for round in 0..self.runs.rounds {
            for count in &self.runs.clients {
                let mut told = |at: usize, sample: Sample| {
                    let its = |it: &&mut Series| it.contender == at && it.clients == *count;
                    if let Some(series) = series.iter_mut().find(its) {
                        series.samples.push(sample);
                    }
                    say(&format!(
                        "{}: round {} of {}, {count} clients, {}: {:.0} a second",
                        workload.name,
                        round + 1,
                        self.runs.rounds,
                        self.contenders[at].version,
                        sample.told.per_second
                    ));
                };
                self.round(workload, (&clients, *count), (&mut servers, round), &mut told)?;
            }
        }
        Ok(Measured { workload: *workload, date: machine::today(), series })
    }

    /// New servers with newly loaded tables, paused, by their places.
    fn loaded(
        &self,
        workload: &Workload,
        clients: &Clients<'_>,
        say: &mut dyn FnMut(&str),
    ) -> Result<Vec<(usize, Server)>> {
        let mut servers = Vec::new();
        for at in self.takes_part(workload) {
            let contender = &self.contenders[at];
            say(&format!("{}: loading {}", workload.name, contender.version));
            let folder = self.folder.join(at.to_string());
            let server = Server::start(contender, folder, &self.tuning, clients.watch)?;
            clients.load(workload, &server)?;
            server.settle()?;
            server.pause();
            servers.push((at, server));
        }
        Ok(servers)
    }

    /// So many clients against every server; `told` gets each one's sample, with its place.
    fn round(
        &self,
        workload: &Workload,
        (clients, count): (&Clients<'_>, u64),
        (servers, round): (&mut [(usize, Server)], u64),
        told: &mut dyn FnMut(usize, Sample),
    ) -> Result<()> {
        let length = self.runs.length;
        if let Some(slice) = self.runs.pace.slice() {
            let sliced = Sliced { clients, workload, count, length, slice };
            let samples = sliced.measure(servers, round)?;
            servers.iter().zip(samples).for_each(|((at, _), sample)| told(*at, sample));
            return Ok(());
        }
        for turn in turns(servers.len(), round) {
            let (at, server) = &mut servers[turn];
            server.resume()?;
            let sample = clients.measure(workload, server, count, length);
            // A server that has ended says why better than its client.
            server.check()?;
            let sample = sample?;
            server.pause();
            told(*at, sample);
        }
        Ok(())
    }
}

/// The order of servers in a round: who begins changes, and so does who follows whom.
pub fn turns(servers: usize, round: u64) -> Vec<usize> {
    let mut order: Vec<usize> = (0..servers).collect();
    order.rotate_left(round as usize / 2 % servers.max(1));
    if !round.is_multiple_of(2) {
        order.reverse();
    }
    order
}

/// Runs each of so many ways once a round, in turns; `one` is told the round and the way. What came of it is by
/// way, then by round. The first error ends everything.
pub fn in_turns<T: Clone>(
    ways: usize,
    rounds: u64,
    mut one: impl FnMut(u64, usize) -> Result<T>,
) -> Result<Vec<Vec<T>>> {
    let mut all = vec![Vec::new(); ways];
    for round in 0..rounds {
        for at in turns(ways, round) {
            all[at].push(one(round, at)?);
        }
    }
    Ok(all)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn servers_take_turns() {
        assert_eq!([0, 1, 2].map(|round| turns(2, round)), [[0, 1], [1, 0], [1, 0]]);
        assert_eq!([0, 1, 2].map(|round| turns(3, round)), [[0, 1, 2], [2, 1, 0], [1, 2, 0]]);
        for servers in 1..5 {
            let rounds = servers as u64 * 2;
            let mut first = vec![0; servers];
            (0..rounds).for_each(|round| first[turns(servers, round)[0]] += 1);
            assert!(first.iter().all(|times| *times == 2), "{first:?}");
        }
    }
}
