//! What every workload of `atoll bench` is asked, natively and over the wire, and how it runs.

use std::path::{Path, PathBuf};

use atoll_bench::arrivals::Rate;
use atoll_bench::cpu;
use atoll_bench::native::{self, Native};
use atoll_bench::setting::{Durability, Isolation, Place, Server, Setting};
use atoll_bench::wire::{self, Wire};
use atoll_kernel::api::Instances;
use atoll_server::config::{interval_ms, wal_bytes};

use super::folder::Folder;
use super::output::Output;
use super::{interrupt, parse_instances};

#[derive(clap::Args, Debug)]
pub struct Common {
    /// Clients: natively each a task of an instance, over the wire each a connection.
    #[arg(long, default_value_t = 64, value_parser = clap::value_parser!(u64).range(1..=100_000))]
    clients: u64,
    /// Instances: `auto` (one per core) or a number.
    #[arg(long, default_value = "auto", value_parser = parse_instances)]
    instances: Instances,
    /// Seconds that are measured.
    #[arg(long, default_value_t = 10, value_parser = clap::value_parser!(u64).range(1..=1_000_000))]
    seconds: u64,
    /// Seconds before that.
    #[arg(long, default_value_t = 0, value_parser = clap::value_parser!(u64).range(0..=1_000_000))]
    warmup: u64,
    /// `repeatable-read` (snapshot isolation) or `read-committed`; SERIALIZABLE is not there yet
    /// [default: repeatable-read, over the wire read-committed]
    #[arg(long, value_parser = ["repeatable-read", "read-committed"])]
    isolation: Option<String>,
    /// `commit`: wait until a commit survives a crash; `relaxed`: do not (over the wire:
    /// synchronous_commit is off).
    #[arg(long, default_value = "commit", value_parser = ["commit", "relaxed"])]
    durability: String,
    /// A new directory for the data; a temporary one without this.
    #[arg(long)]
    data: Option<PathBuf>,
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
    /// Transactions that arrive a second, evenly (open loop: latency counts from the arrival);
    /// without this a client's next begins when its last has ended.
    #[arg(long)]
    rate: Option<Rate>,
    /// The server's process id, to count its processor time.
    #[arg(long, requires = "url")]
    server_pid: Option<u32>,
    /// The seed of all random choices.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    #[command(flatten)]
    output: Output,
}

impl Common {
    fn setting(&self) -> Setting {
        Setting {
            clients: self.clients,
            seconds: self.seconds,
            warmup_seconds: self.warmup,
            isolation: match (self.isolation.as_deref(), &self.url) {
                (Some("read-committed"), _) | (None, Some(_)) => Isolation::ReadCommitted,
                _ => Isolation::RepeatableRead,
            },
            durability: durability(&self.durability),
            rate: self.rate,
            seed: self.seed,
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
                let folder = Folder::new(self.data.as_deref())?;
                let place = Place {
                    data: Some(folder.path().to_owned()),
                    instances: self.instances,
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

/// What `--durability` says.
pub fn durability(text: &str) -> Durability {
    match text {
        "relaxed" => Durability::Relaxed,
        _ => Durability::Commit,
    }
}
