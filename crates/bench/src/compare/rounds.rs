//! The comparison itself: for every workload fresh servers, loaded alike, then rounds in which they
//! take turns.
//!
//! Invariants: a round runs every number of clients against every server; who begins changes from
//! round to round. Only the server whose turn it is runs, the others are paused. The first error
//! ends everything, servers included.

use std::path::PathBuf;
use std::rc::Rc;

use serde_json::{Value, json};

use super::Result;
use super::clients::{Clients, Length, Sample, Tools};
use super::contender::Contender;
use super::engine::Tuning;
use super::machine;
use super::process::Watch;
use super::server::{Folder, Server};
use super::workload::{Sizes, Tool, Workload};
use crate::arrivals::Rate;

/// What is compared, and how.
pub struct Plan {
    /// Who takes part; the first is the subject, which is set beside each of the others.
    pub contenders: Vec<Rc<Contender>>,
    /// What is run.
    pub workloads: Vec<Workload>,
    /// With how many clients, in this order.
    pub clients: Vec<u64>,
    /// How long a run is.
    pub length: Length,
    /// Transactions that arrive a second (open loop); none: closed loop.
    pub rate: Option<Rate>,
    /// How often all is run.
    pub rounds: u64,
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
        let run = self.length.seconds + self.length.warmup_seconds;
        self.takes_part(workload).len() as u64 * self.clients.len() as u64 * self.rounds * run
    }

    /// All that figures depend on besides the machine and the workload, as JSON.
    pub fn conditions(&self) -> Value {
        let servers = self.contenders.iter().map(|it| {
            let settings = it.engine.settings(&self.tuning);
            json!({"server": it.version, "build": it.build, "settings": settings})
        });
        json!({
            "seconds": self.length.seconds,
            "warmup_seconds": self.length.warmup_seconds,
            "rounds": self.rounds,
            "rate": self.rate.map(Rate::per_second),
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
        self.clients.iter().flat_map(of).collect()
    }

    /// One line for what cannot be run.
    pub fn validate(&self) -> Result<()> {
        check_options(&self.clients, self.rate, &self.workloads)
    }

    /// Runs one workload on new servers. Errors are one line, and leave nothing behind.
    pub fn run(
        &self,
        workload: &Workload,
        watch: &Watch<'_>,
        say: &mut dyn FnMut(&str),
    ) -> Result<Measured> {
        let (folder, sizes) = (Folder::new(self.folder.clone())?, self.sizes);
        let clients =
            Clients { tools: &self.tools, sizes, rate: self.rate, folder: folder.path(), watch };
        self.one(workload, &clients, say)
    }

    fn one(
        &self,
        workload: &Workload,
        clients: &Clients<'_>,
        say: &mut dyn FnMut(&str),
    ) -> Result<Measured> {
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
        let mut series = self.series(workload);
        for round in 0..self.rounds {
            for count in &self.clients {
                for turn in turns(servers.len(), round) {
                    let (at, server) = &mut servers[turn];
                    server.resume()?;
                    let sample = clients.measure(workload, server, *count, self.length);
                    // A server that has ended says why better than its client.
                    server.check()?;
                    let sample = sample?;
                    server.pause();
                    say(&format!(
                        "{}: round {} of {}, {count} clients, {}: {:.0} a second",
                        workload.name,
                        round + 1,
                        self.rounds,
                        server.contender.version,
                        sample.told.per_second
                    ));
                    let its = |it: &&mut Series| it.contender == *at && it.clients == *count;
                    if let Some(series) = series.iter_mut().find(its) {
                        series.samples.push(sample);
                    }
                }
            }
        }
        Ok(Measured { workload: *workload, date: machine::today(), series })
    }
}

/// One line for what no comparison takes, whatever is installed.
pub fn check_options(clients: &[u64], rate: Option<Rate>, workloads: &[Workload]) -> Result<()> {
    if has_twice(clients) {
        return Err("a number of clients is named twice".to_owned());
    }
    let closed = |tool: &Tool| matches!(tool, Tool::Sysbench(_) | Tool::GoTpc);
    match (rate, workloads.iter().find(|it| closed(&it.tool))) {
        // sysbench does not say from when its latencies count, go-tpc has no rate.
        (Some(_), Some(it)) => Err(format!("a rate is not for {}", it.name)),
        _ => Ok(()),
    }
}

/// Whether one of the values is named again.
pub fn has_twice<T: Ord + Clone>(values: &[T]) -> bool {
    let mut seen = values.to_vec();
    seen.sort_unstable();
    seen.windows(2).any(|two| two[0] == two[1])
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
