//! `atoll bench restart`: how soon Atoll and other servers answer again after SIGKILL, on this machine.

use std::path::{Path, PathBuf};
use std::rc::Rc;

use atoll_bench::compare::clients::Tools;
use atoll_bench::compare::contender::{Contender, Wanted, program_at};
use atoll_bench::compare::engine::{Atoll, Checkpoints, Tuning};
use atoll_bench::compare::workload::Chosen;
use atoll_bench::restart::{self, Plan};

use super::{command_line, memory_bytes, places, watched};
use crate::bench::shared::Reported;

/// What a measurement must be at least to stand in the repository's own document: transactions, rounds, scale.
const DOCUMENTED: (u64, u64, u64) = (1_000_000, 3, 100);

#[derive(clap::Args, Debug)]
#[command(
    after_help = "The repository's docs/benchmarks.md takes only measurements of 1,000,000 transactions, \
    3 rounds and scale 100, or more."
)]
pub struct Arguments {
    /// Servers to set Atoll beside, as for `compare`: `postgres`, `postgres-17`, `postgres-17.5`,
    /// `postgres=FOLDER` of its programs, `atoll=PROGRAM` for another build.
    #[arg(long, value_name = "LIST", value_delimiter = ',', required = true)]
    against: Vec<Wanted>,
    /// The Atoll that is measured [default: this program]
    #[arg(long, value_name = "PROGRAM", value_parser = program_at)]
    atoll: Option<PathBuf>,
    /// Transactions of pgbench's TPC-B-like since the checkpoint.
    #[arg(long, default_value_t = 1_000_000,
        value_parser = clap::value_parser!(u64).range(1..=1_000_000_000))]
    transactions: u64,
    /// pgbench's scale: 100,000 accounts each.
    #[arg(long, default_value_t = 100, value_parser = clap::value_parser!(u64).range(1..=100_000))]
    scale: u64,
    /// How often every server is started; they take turns.
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u64).range(1..=1000))]
    rounds: u64,
    /// Clients that do the transactions.
    #[arg(long, default_value_t = 16, value_parser = clap::value_parser!(u64).range(1..=10_000))]
    clients: u64,
    /// Memory for pages of every server, in MiB [default: a quarter of the machine's]
    #[arg(long, value_name = "MIB", value_parser = clap::value_parser!(u64).range(32..=1 << 24))]
    memory: Option<u64>,
    /// Memory that is touched and freed before each start, in MiB, so that none pays for what the host of a
    /// virtual machine takes to back it.
    #[arg(long, value_name = "MIB", default_value_t = 2048,
        value_parser = clap::value_parser!(u64).range(0..=1 << 24))]
    touch: u64,
    #[command(flatten)]
    reported: Reported,
    /// Install what is missing: Debian's packages by apt-get, newer PostgreSQL by Maven.
    #[arg(long)]
    install: bool,
}

/// Measures, prints the report, and writes it where it belongs.
pub fn run(arguments: &Arguments) -> Result<(), String> {
    arguments.check_document()?;
    let targets = arguments.reported.targets();
    let plan = arguments.plan()?;
    let report = watched(|watch, say| restart::run(plan, command_line(), &targets, watch, say))?;
    println!("{report}");
    Ok(())
}

impl Arguments {
    fn plan(&self) -> Result<Plan, String> {
        let this = std::env::current_exe().map_err(|error| error.to_string())?;
        let places = places(self.install);
        let subject = Atoll { program: self.atoll.clone().unwrap_or_else(|| this.clone()) };
        let mut contenders = vec![Rc::new(Contender::new(Box::new(subject))?)];
        for wanted in &self.against {
            contenders.push(Rc::new(places.contender(wanted)?));
        }
        let Chosen(workloads) = "pgbench-tpcb-like".parse()?;
        Ok(Plan {
            contenders,
            transactions: self.transactions,
            clients: self.clients,
            scale: self.scale,
            rounds: self.rounds,
            touch_bytes: self.touch << 20,
            tuning: Tuning {
                memory_bytes: memory_bytes(self.memory)?,
                clients_max: self.clients,
                checkpoints: Checkpoints::Off,
            },
            tools: Tools::find(&places, &workloads, &this)?,
            folder: self.reported.folder("restart")?,
        })
    }

    /// An error if a measurement that is too short is to stand in the repository's own document.
    fn check_document(&self) -> Result<(), String> {
        let (transactions, rounds, scale) = DOCUMENTED;
        let is_whole =
            self.transactions >= transactions && self.rounds >= rounds && self.scale >= scale;
        match self.reported.document().filter(|it| !is_whole && is_repositorys(it)) {
            None => Ok(()),
            Some(document) => Err(format!(
                "{} takes no figures of less than {transactions} transactions, {rounds} rounds, scale {scale}: \
                 another --output",
                document.display()
            )),
        }
    }
}

/// Whether this is docs/benchmarks.md of a repository of Atoll's, whatever way leads to it.
fn is_repositorys(document: &Path) -> bool {
    let Ok(document) = document.canonicalize() else { return false };
    let root = document.parent().and_then(Path::parent);
    document.ends_with("docs/benchmarks.md")
        && root.is_some_and(|it| it.join("ARCHITECTURE.md").is_file())
}
