//! What every workload of `atoll bench` is asked, natively and over the wire, and how it runs.

use std::path::Path;

use atoll_bench::cpu;
use atoll_bench::native::{self, Native};
use atoll_bench::setting::{Isolation, Place, Server, Setting};
use atoll_bench::wire::{self, Wire};
use atoll_server::config::{interval_ms, wal_bytes};

use super::folder::Folder;
use super::interrupt;
use super::output::Output;
use super::shared::{Course, Run};

#[derive(clap::Args, Debug)]
pub struct Common {
    /// Clients: natively each a task of an instance, over the wire each a connection.
    #[arg(long, default_value_t = 64, value_parser = clap::value_parser!(u64).range(1..=100_000))]
    clients: u64,
    #[command(flatten)]
    run: Run,
    #[command(flatten)]
    course: Course,
    /// `repeatable-read` (snapshot isolation) or `read-committed`; SERIALIZABLE is not there yet
    /// [default: repeatable-read, over the wire read-committed]
    #[arg(long, value_parser = ["repeatable-read", "read-committed"])]
    isolation: Option<String>,
    /// Memory for pages in MiB; what is expected to be needed without this.
    #[arg(long, value_name = "MIB", value_parser = clap::value_parser!(u64).range(1..=1 << 24))]
    buffer_pool: Option<u64>,
    /// Time from a checkpoint to the next, as 60s or 5min; 0: never for that reason.
    #[arg(long, value_name = "TIME", default_value = "60s", value_parser = interval_ms)]
    checkpoint_interval: u64,
    /// Growth of the logs, as 1GB, after which a checkpoint is made; 0: never for that reason.
    #[arg(long, value_name = "SIZE", default_value = "1GB", value_parser = wal_bytes)]
    checkpoint_wal: u64,
    /// Run over the wire against the server at this URL, as single prepared statements; loads the
    /// tables unless they are there.
    #[arg(long, conflicts_with_all = ["data", "instances", "buffer_pool", "checkpoint_interval",
        "checkpoint_wal", "ledger"])]
    url: Option<String>,
    /// The server's process id, to count its processor time.
    #[arg(long, requires = "url")]
    server_pid: Option<u32>,
    #[command(flatten)]
    output: Output,
}

impl Common {
    fn setting(&self) -> Setting {
        Setting {
            clients: self.clients,
            seconds: self.run.seconds,
            warmup_seconds: self.course.warmup,
            isolation: match (self.isolation.as_deref(), &self.url) {
                (Some("read-committed"), _) | (None, Some(_)) => Isolation::ReadCommitted,
                _ => Isolation::RepeatableRead,
            },
            durability: self.course.durability(),
            rate: self.course.rate,
            seed: self.course.seed,
        }
    }

    /// An error if the process whose time is to be counted is not there.
    fn find_server_process(&self) -> Result<(), String> {
        match self.server_pid {
            Some(pid) if cpu::of_process(pid).is_none() => {
                Err(format!("no processor time of process {pid}: another --server-pid"))
            }
            _ => Ok(()),
        }
    }

    /// The server, if it runs over the wire.
    pub fn url(&self) -> Option<&str> {
        self.url.as_deref()
    }

    /// Runs a workload and prints what was measured; progress goes to standard error.
    pub fn run<W: Native + Wire>(&self, workload: &W) -> Result<(), String> {
        self.run_recorded(workload, None)
    }

    /// The same; over the wire, what was acknowledged is put down in a new file, if one is given.
    pub fn run_recorded<W: Native + Wire>(
        &self,
        workload: &W,
        record: Option<&Path>,
    ) -> Result<(), String> {
        self.output.validate()?;
        let mut say = |line: &str| eprintln!("* {line}");
        let report = match &self.url {
            Some(url) => {
                interrupt::watch(None)?;
                self.find_server_process()?;
                let server = Server { url: url.clone(), pid: self.server_pid };
                wire::run_recorded(workload, &self.setting(), &server, record, &mut say)?
            }
            None => {
                workload.validate()?;
                let folder = Folder::new(self.run.data.as_deref())?;
                let place = Place {
                    data: Some(folder.path().to_owned()),
                    instances: self.run.instances,
                    buffer_pool_bytes: self.buffer_pool.map(|mib| mib << 20),
                    checkpoint_interval_ms: self.checkpoint_interval,
                    checkpoint_wal_bytes: self.checkpoint_wal,
                };
                native::run(workload, &self.setting(), &place, &mut say)?
            }
        };
        self.output.print(&report, report.json(), report.ledger());
        Ok(())
    }
}
