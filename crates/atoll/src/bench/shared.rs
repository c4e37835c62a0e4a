//! Options that several benchmarks have, each declared once. (`--output` and `--json` are two each: what runs in this
//! process prints JSON and draws a picture, what starts others writes a report and a file.)

use std::path::{Path, PathBuf};

use atoll_bench::arrivals::Rate;
use atoll_bench::compare::Targets;
use atoll_bench::setting::Durability;
use atoll_bench::sweep::clients::Plan;
use atoll_kernel::api::{Instances, Prefault};

/// How many clients; several numbers, or rounds, are a sweep.
#[derive(clap::Args, Debug)]
pub struct Clients {
    /// Clients: natively each a task of an instance, or a thread, over the wire each a connection. Several numbers, as
    /// 8,32,128, are run in turns and set beside each other in a table.
    #[arg(long, value_name = "LIST", value_delimiter = ',', default_value = "64",
        value_parser = clap::value_parser!(u64).range(1..=100_000))]
    clients: Vec<u64>,
    /// How often each number of clients is run.
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..=1000))]
    rounds: u64,
}

impl Clients {
    /// What is run how often.
    pub fn plan(&self) -> Plan {
        Plan { clients: self.clients.clone(), rounds: self.rounds }
    }
}

/// For how long, and where a database of the benchmark's own runs.
#[derive(clap::Args, Debug)]
pub struct Run {
    /// Instances: `auto` (one per core) or a number.
    #[arg(long, default_value = "auto", value_parser = parse_instances)]
    pub instances: Instances,
    /// Seconds that are measured.
    #[arg(long, default_value_t = 10, value_parser = clap::value_parser!(u64).range(1..=1_000_000))]
    pub seconds: u64,
    /// A new directory for the data; a temporary one without this.
    #[arg(long)]
    pub data: Option<PathBuf>,
}

/// `auto` or a number from 1 on.
fn parse_instances(text: &str) -> Result<Instances, String> {
    if text == "auto" {
        return Ok(Instances::Auto);
    }
    match text.parse() {
        Ok(count) if (1..=512).contains(&count) => Ok(Instances::Count(count)),
        _ => Err("`auto` or a number from 1 to 512".to_owned()),
    }
}

/// How transactions follow each other.
#[derive(clap::Args, Debug)]
pub struct Course {
    /// Seconds before those that are measured, with the same clients.
    #[arg(long, default_value_t = 0, value_parser = clap::value_parser!(u64).range(0..=1_000_000))]
    pub warmup: u64,
    /// `commit`: wait until a commit survives a crash; `relaxed`: do not (over the wire:
    /// synchronous_commit is off).
    #[arg(long, default_value = "commit", value_parser = ["commit", "relaxed"])]
    durability: String,
    /// Transactions that arrive a second, evenly (open loop: latency counts from the arrival);
    /// without this a client's next begins when its last has ended.
    #[arg(long)]
    pub rate: Option<Rate>,
    /// The seed of all random choices.
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
}

impl Course {
    /// What `--durability` says.
    pub fn durability(&self) -> Durability {
        match self.durability.as_str() {
            "relaxed" => Durability::Relaxed,
            _ => Durability::Commit,
        }
    }
}

/// When a database of the benchmark's own takes its memory.
#[derive(clap::Args, Debug)]
pub struct Memory {
    /// When the system is asked for memory for pages, as by a server's --prefault: ahead of its use, when it is used (off), or all of
    /// it at the start (on, or nothing behind it): the run is then as one that has gone on for long, which takes no new memory
    #[arg(long, value_name = "on|ahead|off", num_args = 0..=1, default_value = "ahead", default_missing_value = "on")]
    prefault: Prefault,
}

impl Memory {
    /// What `--prefault` says.
    pub fn prefault(&self) -> Prefault {
        self.prefault
    }
}

/// The disk that is measured.
#[derive(clap::Args, Debug)]
pub struct Disk {
    /// A folder on the disk that is to be measured; what is put there is removed in the end
    /// [default: the system's for temporary files]
    #[arg(long, value_name = "DIR")]
    folder: Option<PathBuf>,
}

impl Disk {
    /// The folder on it.
    pub fn folder(&self) -> PathBuf {
        self.folder.clone().unwrap_or_else(std::env::temp_dir)
    }

    /// A folder on it of this process's own, not made yet.
    pub fn own(&self, name: &str) -> Result<PathBuf, String> {
        let folder = std::path::absolute(self.folder()).map_err(|error| error.to_string())?;
        Ok(folder.join(format!("atoll-{name}-{}", std::process::id())))
    }
}

/// Where a measurement of other processes goes on, and where its report is written.
#[derive(clap::Args, Debug)]
pub struct Reported {
    #[command(flatten)]
    disk: Disk,
    /// A document that gets the report, between lines `<!-- NAME:begin -->` and `<!-- NAME:end -->` with this
    /// benchmark's name, and pictures in `plots` beside it.
    #[arg(long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// A file that gets everything as JSON, every single run included.
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

impl Reported {
    /// The document that was named.
    pub fn document(&self) -> Option<&Path> {
        self.output.as_deref()
    }

    /// Where the report is written.
    pub fn targets(&self) -> Targets {
        Targets { document: self.output.clone(), json: self.json.clone() }
    }

    /// A folder of this process's own, not made yet, on the disk that is measured.
    pub fn folder(&self, name: &str) -> Result<PathBuf, String> {
        self.disk.own(name)
    }
}
