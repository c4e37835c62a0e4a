//! Clients: how tables are loaded, and how a run of so many clients for so long is made a sample.
//!
//! Invariants: the same program with the same arguments runs against every server, but for where
//! the server is and which protocol it speaks. Processor times are those of the measured run alone.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use super::Result;
use super::contender::Places;
use super::engine::{DATABASE, Door};
use super::go_tpc;
use super::parse::{self, Told};
use super::process::{self, Finished, Watch};
use super::server::Server;
use super::workload::{Sizes, Tool, Workload};
use crate::arrivals::Rate;
use crate::cpu::{Machine, Watching};
use crate::latency::Latencies;
use crate::wire::Address;

/// Threads of pgbench.
const PGBENCH_THREADS: &str = "2";
/// The share of transactions whose latency pgbench writes down in a closed loop; all of them would
/// cost it much. In an open loop it writes all down: there it has time.
const PGBENCH_LOGGED: &str = "0.05";
/// The most connections that load tables.
const LOADERS_MAX: u64 = 4;
/// What loading may take.
const LOAD_LIMIT: Duration = Duration::from_secs(3600);
/// What a run may take beyond its seconds: connecting, checking, ending.
const RUN_GRACE: Duration = Duration::from_secs(600);

/// What a number of transactions may take.
const TRANSACT_LIMIT: Duration = Duration::from_secs(24 * 3600);

/// How long a run is.
#[derive(Clone, Copy, Debug)]
pub struct Length {
    /// Seconds that are measured.
    pub seconds: u64,
    /// Seconds before that, with the same clients.
    pub warmup_seconds: u64,
}

impl Length {
    /// What a run may take.
    pub fn limit(self) -> Duration {
        Duration::from_secs(self.seconds + self.warmup_seconds) + RUN_GRACE
    }
}

/// Programs that clients are run with.
#[derive(Clone, Debug)]
pub struct Tools {
    pgbench: Option<PathBuf>,
    sysbench: Option<PathBuf>,
    go_tpc: Option<PathBuf>,
    /// A program with `bench NAME --url`.
    own: PathBuf,
}

impl Tools {
    /// What these workloads need; `own` is this program.
    pub fn find(places: &Places, workloads: &[Workload], own: &Path) -> Result<Tools> {
        let mut tools = Tools { pgbench: None, sysbench: None, go_tpc: None, own: own.to_owned() };
        for workload in workloads {
            match workload.tool {
                Tool::Pgbench(_) => {
                    tools.pgbench = Some(places.tool("pgbench", "postgresql-contrib")?);
                }
                Tool::Sysbench(_) => tools.sysbench = Some(places.tool("sysbench", "sysbench")?),
                Tool::GoTpc => tools.go_tpc = Some(places.go_tpc()?),
                Tool::Own(_) => {}
            }
        }
        Ok(tools)
    }
}

/// One measured run.
#[derive(Clone, Copy, Debug)]
pub struct Sample {
    /// What the client says.
    pub told: Told,
    /// Processor time of the client.
    pub client: Duration,
    /// Processor time of the server's processes.
    pub server: Duration,
    /// What the whole machine did meanwhile.
    pub machine: Machine,
}

/// Runs clients.
pub struct Clients<'a> {
    /// With these programs.
    pub tools: &'a Tools,
    /// On tables of these sizes.
    pub sizes: Sizes,
    /// Transactions that arrive a second (open loop); none: closed loop.
    pub rate: Option<Rate>,
    /// Output goes here.
    pub folder: &'a Path,
    /// Until this says to end.
    pub watch: &'a Watch<'a>,
}

impl Clients<'_> {
    /// Loads a workload's tables.
    pub fn load(&self, workload: &Workload, server: &Server) -> Result<()> {
        let mut command = match workload.tool {
            Tool::Pgbench(_) => {
                let mut command = self.pgbench(server)?;
                command.args(["-i", "-q", "-s", &self.sizes.scale.to_string()]);
                command
            }
            Tool::Sysbench(test) => {
                let mut command = self.sysbench(test, server)?;
                let loaders = self.sizes.tables.min(LOADERS_MAX);
                command.arg(format!("--threads={loaders}")).arg("prepare");
                command
            }
            Tool::GoTpc => {
                let mut command = self.go_tpc(server)?;
                go_tpc::load(&mut command, self.sizes.warehouses);
                command
            }
            // Ours load what is not there, with as many connections as clients; a second of running shows that it
            // was whole.
            Tool::Own(name) => {
                let shortest = Length { seconds: 1, warmup_seconds: 0 };
                self.own(name, server, LOADERS_MAX, shortest)?
            }
        };
        if let Tool::Pgbench(_) = workload.tool {
            command.arg("postgres");
        }
        let what = format!("loading {} into {}", workload.name, server.contender.version);
        let finished = process::run(&what, command, self.folder, LOAD_LIMIT, self.watch)?;
        match workload.tool {
            Tool::GoTpc => go_tpc::loaded(&finished.stdout),
            _ => Ok(()),
        }
    }

    /// So many transactions of pgbench's TPC-B-like for each of so many clients: how many were
    /// acknowledged, and the seconds that took.
    pub fn transact(&self, server: &Server, (clients, each): (u64, u64)) -> Result<(u64, f64)> {
        let mut command = self.pgbench(server)?;
        command.args(["-n", "-M", "prepared", "-j", PGBENCH_THREADS, "-c", &clients.to_string()]);
        command.args(["-t", &each.to_string(), "postgres"]);
        let what = format!("pgbench, {clients} clients, {}", server.contender.version);
        let finished = process::run(&what, command, self.folder, TRANSACT_LIMIT, self.watch)?;
        parse::pgbench_done(&finished.stdout).map_err(|told| format!("{what}: {told}"))
    }

    /// Warms up, and measures.
    pub fn measure(
        &self,
        workload: &Workload,
        server: &Server,
        clients: u64,
        length: Length,
    ) -> Result<Sample> {
        let warmup = Length { seconds: length.warmup_seconds, warmup_seconds: 0 };
        if warmup.seconds > 0 && !matches!(workload.tool, Tool::Own(_)) {
            self.run(workload, server, clients, warmup)?;
        }
        // What others have written to the system's cache is not to be paid by this one.
        rustix::fs::sync();
        let watching = Watching::now();
        let server_before = server.cpu()?;
        let finished = self.run(workload, server, clients, length)?;
        let machine = watching.elapsed(finished.cpu);
        let server_cpu = server.cpu()?.saturating_sub(server_before);
        self.sample(workload, &finished, (server_cpu, machine))
            .map_err(|told| format!("{}: {told}", self.what(workload, server, clients)))
    }

    /// A run as a sample: what its client has printed, with the server's processor time and what the machine did.
    pub fn sample(
        &self,
        workload: &Workload,
        finished: &Finished,
        (server, machine): (Duration, Machine),
    ) -> Result<Sample> {
        let told = match workload.tool {
            Tool::Pgbench(_) => parse::pgbench(&finished.stdout, &self.pgbench_latencies()?)?,
            Tool::Sysbench(_) => parse::sysbench(&finished.stdout)?,
            Tool::GoTpc => go_tpc::told(&finished.stdout)?,
            Tool::Own(_) => {
                let (told, client, server, machine) = parse::own(&finished.stdout)?;
                return Ok(Sample { told, client, server, machine });
            }
        };
        Ok(Sample { told, client: finished.cpu, server, machine })
    }

    /// A run, for a person.
    pub fn what(&self, workload: &Workload, server: &Server, clients: u64) -> String {
        format!("{}, {clients} clients, {}", workload.name, server.contender.version)
    }

    fn run(
        &self,
        workload: &Workload,
        server: &Server,
        clients: u64,
        length: Length,
    ) -> Result<Finished> {
        let command = self.command(workload, server, clients, length)?;
        let what = self.what(workload, server, clients);
        process::run(&what, command, self.folder, length.limit(), self.watch)
    }

    /// The client of a run, whose output goes to [`Clients::folder`].
    pub fn command(
        &self,
        workload: &Workload,
        server: &Server,
        clients: u64,
        length: Length,
    ) -> Result<Command> {
        let seconds = length.seconds.to_string();
        Ok(match workload.tool {
            Tool::Pgbench(script) => {
                self.forget_pgbench_log()?;
                let mut command = self.pgbench(server)?;
                command.args(["-n", "-M", "prepared", "-b", script, "-j", PGBENCH_THREADS]);
                command.args(["-c", &clients.to_string(), "-T", &seconds, "-l"]);
                command.arg(format!("--log-prefix={}", self.pgbench_log().display()));
                match self.rate {
                    // Arrivals by Poisson's law; latencies count from them.
                    Some(rate) => command.arg("--rate").arg(rate.per_second().to_string()),
                    None => command.args(["--sampling-rate", PGBENCH_LOGGED]),
                };
                command.arg("postgres");
                command
            }
            Tool::Sysbench(test) => {
                let mut command = self.sysbench(test, server)?;
                command.arg(format!("--threads={clients}")).arg(format!("--time={seconds}"));
                command.args(["--histogram=on", "run"]);
                command
            }
            Tool::GoTpc => {
                let mut command = self.go_tpc(server)?;
                go_tpc::run(&mut command, clients, length.seconds);
                command
            }
            Tool::Own(name) => {
                let mut command = self.own(name, server, clients, length)?;
                if let Some(rate) = self.rate {
                    command.arg("--rate").arg(rate.per_second().to_string());
                }
                command
            }
        })
    }

    fn pgbench(&self, server: &Server) -> Result<Command> {
        let mut command = Command::new(there(&self.tools.pgbench)?);
        let (folder, port) = socket(server)?;
        command.arg("-h").arg(folder).args(["-p", &port.to_string(), "-U", "postgres"]);
        Ok(command)
    }

    fn sysbench(&self, test: &str, server: &Server) -> Result<Command> {
        let mut command = Command::new(there(&self.tools.sysbench)?);
        let (tables, rows) = (self.sizes.tables, self.sizes.table_rows);
        command.arg(test).arg(format!("--tables={tables}")).arg(format!("--table-size={rows}"));
        match &server.door {
            Door::MySql(path) => {
                command.args(["--db-driver=mysql", "--mysql-user=root"]);
                command.arg(format!("--mysql-db={DATABASE}"));
                command.arg(format!("--mysql-socket={}", path.display()));
            }
            Door::Postgres(_) => {
                let (folder, port) = socket(server)?;
                command.args(["--db-driver=pgsql", "--pgsql-user=postgres", "--pgsql-password="]);
                command.arg("--pgsql-db=postgres").arg(format!("--pgsql-port={port}"));
                command.arg(format!("--pgsql-host={}", folder.display()));
            }
        }
        Ok(command)
    }

    fn go_tpc(&self, server: &Server) -> Result<Command> {
        let program = there(&self.tools.go_tpc)?;
        Ok(go_tpc::command(program, socket(server)?, self.sizes.warehouses))
    }

    fn own(&self, name: &str, server: &Server, clients: u64, length: Length) -> Result<Command> {
        let (folder, port) = socket(server)?;
        let mut command = Command::new(&self.tools.own);
        let url = Address::Socket(folder.to_owned(), port).url();
        command.args(["bench", name, "--json", "--url", &url]);
        command.args(["--server-pid", &server.id().to_string()]);
        command.args(["--clients", &clients.to_string(), "--seconds", &length.seconds.to_string()]);
        command.args(["--warmup", &length.warmup_seconds.to_string()]);
        if name == "tpcc" {
            command.args(["--warehouses", &self.sizes.warehouses.to_string()]);
        }
        Ok(command)
    }

    /// The beginning of the names of pgbench's logs, one a thread.
    fn pgbench_log(&self) -> PathBuf {
        self.folder.join("pgbench-log")
    }

    fn pgbench_logs(&self) -> Result<Vec<PathBuf>> {
        let failed = |error: std::io::Error| format!("{}: {error}", self.folder.display());
        let mut found = Vec::new();
        for entry in self.folder.read_dir().map_err(failed)? {
            let path = entry.map_err(failed)?.path();
            if path.file_name().is_some_and(|it| it.to_string_lossy().starts_with("pgbench-log")) {
                found.push(path);
            }
        }
        Ok(found)
    }

    fn forget_pgbench_log(&self) -> Result<()> {
        for path in self.pgbench_logs()? {
            std::fs::remove_file(&path).map_err(|error| format!("{}: {error}", path.display()))?;
        }
        Ok(())
    }

    fn pgbench_latencies(&self) -> Result<Latencies> {
        let mut latencies = Latencies::default();
        for path in self.pgbench_logs()? {
            parse::pgbench_log(&process::read(&path), &mut latencies);
        }
        Ok(latencies)
    }
}

fn there(program: &Option<PathBuf>) -> Result<&PathBuf> {
    program.as_ref().ok_or_else(|| "a client program was not looked for".to_owned())
}

fn socket(server: &Server) -> Result<(&Path, u16)> {
    match &server.door {
        Door::Postgres(Address::Socket(folder, port)) => Ok((folder, *port)),
        _ => Err(format!("{} has no socket for these clients", server.contender.version)),
    }
}
