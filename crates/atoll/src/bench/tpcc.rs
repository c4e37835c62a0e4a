//! `atoll bench tpcc`: TPC-C natively, in this process; over the wire with `--url`.

use std::path::PathBuf;

use atoll_bench::tpcc::{self, Durability, Isolation, Place, Setting, Size};
use atoll_bench::wire::tpcc as over_wire;
use atoll_kernel::api::Instances;

use super::{Folder, parse_instances};

#[derive(clap::Args, Debug)]
pub struct Arguments {
    /// Warehouses; each has about half a million rows.
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(i32).range(1..=100_000))]
    warehouses: i32,
    /// Clients, each with a home warehouse.
    #[arg(long, default_value_t = 64, value_parser = clap::value_parser!(u64).range(1..))]
    clients: u64,
    /// Instances: `auto` (one per core) or a number.
    #[arg(long, default_value = "auto", value_parser = parse_instances)]
    instances: Instances,
    /// Seconds that are measured.
    #[arg(long, default_value_t = 10, value_parser = clap::value_parser!(u64).range(1..))]
    seconds: u64,
    /// Seconds before that.
    #[arg(long, default_value_t = 0)]
    warmup: u64,
    /// `repeatable-read` (snapshot isolation) or `read-committed`; SERIALIZABLE is not there yet
    /// [default: repeatable-read, over the wire read-committed]
    #[arg(long, value_parser = ["repeatable-read", "read-committed"])]
    isolation: Option<String>,
    /// `commit`: wait until a commit survives a crash; `relaxed`: do not.
    #[arg(long, default_value = "commit", value_parser = ["commit", "relaxed"])]
    durability: String,
    /// A new directory for the data; a temporary one without this.
    #[arg(long)]
    data: Option<PathBuf>,
    /// Memory for pages in MiB; what is expected to be needed without this.
    #[arg(long, value_name = "MIB")]
    buffer_pool: Option<u64>,
    /// Run over the wire against the server at this URL, as single prepared statements; loads the
    /// tables unless they are there.
    #[arg(long, conflicts_with_all = ["data", "instances", "buffer_pool", "durability"])]
    url: Option<String>,
    /// Transactions that arrive a second (open loop: latency counts from the arrival); without
    /// this a client's next begins when its last has ended.
    #[arg(long, requires = "url")]
    rate: Option<f64>,
    /// The server's process id, to count its processor time.
    #[arg(long, requires = "url")]
    server_pid: Option<u32>,
    /// The seed of all random choices.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Print one JSON object instead of lines for people.
    #[arg(long)]
    json: bool,
}

impl Arguments {
    fn isolation_or(&self, default: Isolation) -> Isolation {
        match self.isolation.as_deref() {
            Some("read-committed") => Isolation::ReadCommitted,
            Some("repeatable-read") => Isolation::RepeatableRead,
            _ => default,
        }
    }

    fn wire(&self, url: &str) -> over_wire::Setting {
        over_wire::Setting {
            url: url.to_owned(),
            warehouses: self.warehouses,
            size: Size::STANDARD,
            clients: self.clients,
            seconds: self.seconds,
            warmup_seconds: self.warmup,
            isolation: self.isolation_or(Isolation::ReadCommitted),
            rate: self.rate,
            server_pid: self.server_pid,
            seed: self.seed,
        }
    }

    fn setting(&self) -> Setting {
        Setting {
            warehouses: self.warehouses,
            size: Size::STANDARD,
            clients: self.clients,
            seconds: self.seconds,
            warmup_seconds: self.warmup,
            isolation: self.isolation_or(Isolation::RepeatableRead),
            durability: durability(&self.durability),
            seed: self.seed,
        }
    }
}

/// What `--durability` says.
fn durability(text: &str) -> Durability {
    match text {
        "relaxed" => Durability::Relaxed,
        _ => Durability::Commit,
    }
}

/// Runs and prints what was measured; progress goes to standard error.
pub fn run(arguments: &Arguments) -> Result<(), String> {
    if let Some(url) = &arguments.url {
        return run_wire(arguments, url);
    }
    let folder = Folder::new(arguments.data.as_deref())?;
    let place = Place {
        data: Some(folder.path().to_owned()),
        instances: arguments.instances,
        buffer_pool_bytes: arguments.buffer_pool.map(|mib| mib << 20),
    };
    let report = tpcc::run(&arguments.setting(), &place, &mut |line| eprintln!("* {line}"))?;
    if arguments.json {
        println!("{}", report.json());
    } else {
        println!("{report}");
    }
    Ok(())
}

fn run_wire(arguments: &Arguments, url: &str) -> Result<(), String> {
    if arguments.rate.is_some_and(|rate| !rate.is_finite() || rate <= 0.0) {
        return Err("the rate must be above 0".to_owned());
    }
    let report = over_wire::run(&arguments.wire(url), &mut |line| eprintln!("* {line}"))?;
    if arguments.json {
        println!("{}", report.json());
    } else {
        println!("{report}");
    }
    Ok(())
}
