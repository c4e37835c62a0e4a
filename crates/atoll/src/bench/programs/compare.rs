//! `atoll bench compare`: Atoll beside PostgreSQL and MariaDB, on this machine.

use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::time::Duration;

use atoll_bench::arrivals::Rate;
use atoll_bench::compare::clients::{Length, Tools};
use atoll_bench::compare::contender::{Contender, Wanted, program_at};
use atoll_bench::compare::engine::{Atoll, Checkpoints, Tuning};
use atoll_bench::compare::rounds::Plan;
use atoll_bench::compare::runs::{Pace, Runs};
use atoll_bench::compare::workload::{Chosen, Sizes};
use atoll_bench::compare::{self, Targets};

use super::{command_line, memory_bytes, places, watched};
use crate::bench::shared::Reported;

/// What a comparison must be at least to stand in the repository's own document.
const DOCUMENTED: (u64, u64, u64) = (60, 3, 100);

#[derive(clap::Args, Debug)]
#[command(
    after_help = "Without --output, within the repository, docs/benchmarks.md gets the report of runs of at \
    least 60 seconds, 3 rounds and scale 100 in a closed loop and whole runs, of all of pgbench's workloads beside \
    PostgreSQL. JSON is written after each workload, of what has been measured so far."
)]
pub struct Arguments {
    /// Servers to compare with: `postgres` (the newest installed), `postgres-17`, `postgres-17.5`,
    /// `mariadb` (by sysbench alone); `postgres=FOLDER` of its programs, `mariadb=PROGRAM`, or
    /// `atoll=PROGRAM` for another build.
    #[arg(long, value_name = "LIST", value_delimiter = ',', required = true)]
    against: Vec<Wanted>,
    /// The Atoll that is compared [default: this program]
    #[arg(long, value_name = "PROGRAM", value_parser = program_at)]
    atoll: Option<PathBuf>,
    /// Workloads: `pgbench`, `sysbench`, `go-tpc`, `own` (tpcc, ycsb, smallbank, tatp, orders over the
    /// wire), `all`, or single ones as `pgbench-select-only`, `sysbench-read-write`, `tpcc`.
    #[arg(long, value_name = "LIST", default_value = "pgbench,sysbench")]
    workloads: Chosen,
    /// Numbers of clients.
    #[arg(long, value_name = "LIST", value_delimiter = ',', default_value = "8,32,64",
        value_parser = clap::value_parser!(u64).range(1..=10_000))]
    clients: Vec<u64>,
    /// Seconds of a run that are measured.
    #[arg(long, default_value_t = 60, value_parser = clap::value_parser!(u64).range(1..=86_400))]
    seconds: u64,
    /// Seconds before that, with the same clients.
    #[arg(long, default_value_t = 10, value_parser = clap::value_parser!(u64).range(0..=86_400))]
    warmup: u64,
    /// Transactions that arrive a second, whatever the server (open loop: latency counts from the
    /// arrival); for pgbench's workloads and our own [default: closed loop]
    #[arg(long)]
    rate: Option<Rate>,
    /// Runs all servers at once, in slices of about so many milliseconds in which all but one are stopped with their
    /// clients, so that they meet the same moods of the machine; for pgbench, sysbench and go-tpc, in a closed loop
    /// [default: whole runs take turns]
    #[arg(long, value_name = "MS", conflicts_with = "rate",
        value_parser = clap::value_parser!(u64).range(10..=60_000))]
    slice: Option<u64>,
    /// How often everything is run; the servers take turns.
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u64).range(1..=1000))]
    rounds: u64,
    /// pgbench's scale: 100,000 accounts each.
    #[arg(long, default_value_t = 100, value_parser = clap::value_parser!(u64).range(1..=100_000))]
    scale: u64,
    /// sysbench's tables.
    #[arg(long, default_value_t = 8, value_parser = clap::value_parser!(u64).range(1..=10_000))]
    tables: u64,
    /// Rows of each of them.
    #[arg(long, default_value_t = 100_000,
        value_parser = clap::value_parser!(u64).range(1..=1_000_000_000))]
    table_rows: u64,
    /// TPC-C's warehouses.
    #[arg(long, default_value_t = 4, value_parser = clap::value_parser!(u64).range(1..=100_000))]
    warehouses: u64,
    /// Memory for pages of every server, in MiB [default: a quarter of the machine's]
    #[arg(long, value_name = "MIB", value_parser = clap::value_parser!(u64).range(32..=1 << 24))]
    memory: Option<u64>,
    #[command(flatten)]
    reported: Reported,
    /// JSON of earlier comparisons under the same conditions: the workloads in it are taken from there, not
    /// run again.
    #[arg(long, value_name = "FILES", value_delimiter = ',')]
    from: Vec<PathBuf>,
    /// Install what is missing: Debian's packages by apt-get, newer PostgreSQL by Maven.
    #[arg(long)]
    install: bool,
}

/// Compares, prints the report, and writes it where it belongs.
pub fn run(arguments: &Arguments) -> Result<(), String> {
    let report = watched(|watch, say| {
        let targets = Targets { document: arguments.document(say), ..arguments.reported.targets() };
        let plan = arguments.plan()?;
        compare::run(plan, command_line(), (&arguments.from, &targets), watch, say)
    })?;
    println!("{report}");
    Ok(())
}

impl Arguments {
    fn plan(&self) -> Result<Plan, String> {
        // Before anything is looked for, or installed.
        let runs = self.runs()?;
        let this = std::env::current_exe().map_err(|error| error.to_string())?;
        let places = places(self.install);
        let subject = Atoll { program: self.atoll.clone().unwrap_or_else(|| this.clone()) };
        let mut contenders = vec![Rc::new(Contender::new(Box::new(subject))?)];
        for wanted in &self.against {
            contenders.push(Rc::new(places.contender(wanted)?));
        }
        Ok(Plan {
            contenders,
            sizes: Sizes {
                scale: self.scale,
                tables: self.tables,
                table_rows: self.table_rows,
                warehouses: self.warehouses,
            },
            tuning: Tuning {
                memory_bytes: memory_bytes(self.memory)?,
                clients_max: runs.clients_max(),
                checkpoints: Checkpoints::Rare,
            },
            tools: Tools::find(&places, runs.workloads(), &this)?,
            runs,
            folder: self.reported.folder("compare")?,
        })
    }

    fn runs(&self) -> Result<Runs, String> {
        let slice = self.slice.map(|it| Pace::Slices(Duration::from_millis(it)));
        let pace = self.rate.map(Pace::Open).or(slice).unwrap_or(Pace::Closed);
        let length = Length { seconds: self.seconds, warmup_seconds: self.warmup };
        let what = (self.workloads.0.clone(), self.clients.clone());
        Runs::new(what, pace, (length, self.rounds))
    }

    /// The document that gets the report. Runs shorter than documented do not go into the
    /// repository's own unless it is named.
    fn document(&self, say: &mut dyn FnMut(&str)) -> Option<PathBuf> {
        if let Some(named) = self.reported.document() {
            return Some(named.to_owned());
        }
        let here = std::env::current_dir().ok()?;
        let is_root = |it: &&Path| it.join("ARCHITECTURE.md").is_file();
        let document = here.ancestors().find(is_root)?.join("docs/benchmarks.md");
        let (seconds, rounds, scale) = DOCUMENTED;
        let is_whole = self.rate.is_none()
            && self.slice.is_none()
            && self.seconds >= seconds
            && self.rounds >= rounds
            && self.scale >= scale;
        let is_documented = self.is_of_postgres() && self.has_pgbench();
        if !(is_whole && is_documented) {
            say(&format!(
                "shorter than {seconds} s, {rounds} rounds, scale {scale}, with a rate or in slices, without all of pgbench's \
                 workloads, or not of PostgreSQL and MariaDB alone: {} stays as it is unless --output names it",
                document.display()
            ));
        }
        (is_whole && is_documented && document.is_file()).then_some(document)
    }

    /// Whether it compares with PostgreSQL, and not with other builds of Atoll.
    fn is_of_postgres(&self) -> bool {
        let is_other = |it: &Wanted| matches!(it, Wanted::Atoll(_));
        let is_postgres = |it: &Wanted| matches!(it, Wanted::Postgres(_));
        self.against.iter().any(is_postgres) && !self.against.iter().any(is_other)
    }

    /// Whether all workloads of pgbench are among its own: the document's report has them.
    fn has_pgbench(&self) -> bool {
        let Ok(Chosen(pgbench)) = "pgbench".parse() else { return false };
        pgbench.iter().all(|it| self.workloads.0.contains(it))
    }
}
