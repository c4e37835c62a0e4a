//! What every workload of `atoll bench` is asked, natively and over the wire, and how it runs.

use std::path::{Path, PathBuf};

use atoll_bench::compare::output::Staged;
use atoll_bench::cpu;
use atoll_bench::native::{self, Native};
use atoll_bench::report::Report;
use atoll_bench::setting::{Calls, Isolation, Place, Server, Setting};
use atoll_bench::sweep::clients::{self, Plan};
use atoll_bench::wire::{self, Wire};
use atoll_server::config::{interval_ms, wal_bytes};

use super::folder::Folder;
use super::interrupt;
use super::output::Output;
use super::shared::{Clients, Course, Memory, Run};

/// In less there is hardly a line to draw.
const PICTURE_SECONDS_MIN: u64 = 3;

#[derive(clap::Args, Debug)]
pub struct Common {
    #[command(flatten)]
    clients: Clients,
    #[command(flatten)]
    run: Run,
    #[command(flatten)]
    course: Course,
    /// `repeatable-read` (snapshot isolation) or `read-committed`; SERIALIZABLE is not there yet
    /// [default: repeatable-read, over the wire read-committed]
    #[arg(long, value_parser = ["repeatable-read", "read-committed"])]
    isolation: Option<String>,
    /// Natively, whence transactions are called: `inside`, a client is a task of an instance; from outside, each
    /// client a thread as of a program that embeds the library: `routed`, a transaction runs on the instance
    /// that its key hashes to (of tpcc the home warehouse), on another one if that is overloaded; `anywhere`, on
    /// whichever has time.
    #[arg(long, default_value = "inside", value_parser = ["inside", "routed", "anywhere"])]
    calls: String,
    /// Memory for pages in MiB; what is expected to be needed without this.
    #[arg(long, value_name = "MIB", value_parser = clap::value_parser!(u64).range(1..=1 << 24))]
    buffer_pool: Option<u64>,
    #[command(flatten)]
    memory: Memory,
    /// Time from a checkpoint to the next, as 60s or 5min; 0: never for that reason.
    #[arg(long, value_name = "TIME", default_value = "60s", value_parser = interval_ms)]
    checkpoint_interval: u64,
    /// Growth of the logs, as 1GB, after which a checkpoint is made; 0: never for that reason.
    #[arg(long, value_name = "SIZE", default_value = "1GB", value_parser = wal_bytes)]
    checkpoint_wal: u64,
    /// Run over the wire against the server at this URL, as single prepared statements; loads the
    /// tables unless they are there.
    #[arg(long, conflicts_with_all = ["data", "instances", "calls", "buffer_pool", "prefault", "checkpoint_interval",
        "checkpoint_wal", "ledger"])]
    url: Option<String>,
    /// The server's process id, to count its processor time.
    #[arg(long, requires = "url")]
    server_pid: Option<u32>,
    /// A picture (SVG) of memory by second: what this process has resident, and its pages and old versions; over the
    /// wire what the server of --server-pid has resident.
    #[arg(long, value_name = "FILE.svg")]
    output: Option<PathBuf>,
    #[command(flatten)]
    printed: Output,
}

impl Common {
    fn setting(&self, clients: u64) -> Setting {
        Setting {
            clients,
            seconds: self.run.seconds,
            warmup_seconds: self.course.warmup,
            isolation: match (self.isolation.as_deref(), &self.url) {
                (Some("read-committed"), _) | (None, Some(_)) => Isolation::ReadCommitted,
                _ => Isolation::RepeatableRead,
            },
            durability: self.course.durability(),
            calls: self.calls(),
            rate: self.course.rate,
            seed: self.course.seed,
        }
    }

    /// What `--calls` says.
    pub fn calls(&self) -> Calls {
        let named = |calls: &Calls| calls.name() == self.calls;
        Calls::ALL.into_iter().find(named).unwrap_or(Calls::Inside)
    }

    fn place(&self, data: PathBuf) -> Place {
        Place {
            data: Some(data),
            instances: self.run.instances,
            buffer_pool_bytes: self.buffer_pool.map(|mib| mib << 20),
            prefault: self.memory.prefault(),
            checkpoint_interval_ms: self.checkpoint_interval,
            checkpoint_wal_bytes: self.checkpoint_wal,
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

    /// An error, before hours go by, if the picture cannot be made.
    fn check_picture(&self) -> Result<(), String> {
        let Some(path) = &self.output else { return Ok(()) };
        let named = |what: &str| Err(format!("{}: {what}", path.display()));
        if path.extension().is_none_or(|it| it != "svg") {
            return named("a picture's name ends in .svg");
        }
        if path.parent().is_some_and(|it| !it.as_os_str().is_empty() && !it.is_dir()) {
            return named("its folder is not there");
        }
        if self.run.seconds < PICTURE_SECONDS_MIN {
            return named(&format!(
                "memory is seen once a second: --seconds {PICTURE_SECONDS_MIN} or more"
            ));
        }
        if self.url.is_some() && self.server_pid.is_none() {
            return named("over the wire it is of the server's memory: --server-pid, too");
        }
        Ok(())
    }

    /// Draws the picture that was asked for: whole, or not at all.
    fn draw(&self, report: &Report) -> Result<(), String> {
        let Some(path) = &self.output else { return Ok(()) };
        let whose = if self.url.is_some() { "a server" } else { "clients and kernel" };
        let title =
            format!("Memory of {whose}, {} with {} clients", report.name, report.setting.clients);
        let mut staged = Staged::default();
        staged.add(path, &report.memory().svg(&title)?)?;
        staged.publish()
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
        let plan = self.clients.plan();
        self.printed.validate()?;
        refuse_sweep(&plan, &self.run, &self.printed)?;
        let of_one = [("--acknowledged", record.is_some()), ("--output", self.output.is_some())];
        refuse_of_one(&plan, &of_one)?;
        self.check_picture()?;
        match &self.url {
            Some(url) => {
                interrupt::watch(None)?;
                self.find_server_process()?;
                let server = Server { url: url.clone(), pid: self.server_pid };
                self.print(&plan, |setting| {
                    wire::run_recorded(workload, setting, &server, record, &mut say)
                })
            }
            None => {
                workload.validate()?;
                let folder = Folder::new(self.run.data.as_deref())?;
                self.print(&plan, |setting| {
                    folder.run(&plan, |data| {
                        native::run(workload, setting, &self.place(data), &mut say)
                    })
                })
            }
        }
    }

    /// Prints the report of one run, or a table of several.
    fn print(
        &self,
        plan: &Plan,
        mut one: impl FnMut(&Setting) -> Result<Report, String>,
    ) -> Result<(), String> {
        if let Some(clients) = plan.one() {
            let report = one(&self.setting(clients))?;
            self.printed.print(&report, report.json(), report.ledger());
            return self.draw(&report);
        }
        let json = |clients| one(&self.setting(clients)).map(|report| report.json());
        let sweep = clients::run(plan, json, &mut say)?;
        self.printed.print(&sweep, sweep.json(), None);
        Ok(())
    }
}

/// Progress, for people.
fn say(line: &str) {
    eprintln!("* {line}");
}

/// An error if what is of one run alone is asked of several.
pub fn refuse_sweep(plan: &Plan, run: &Run, output: &Output) -> Result<(), String> {
    if plan.one().is_some() {
        return Ok(());
    }
    plan.validate()?;
    refuse_of_one(plan, &[("--data", run.data.is_some()), ("--ledger", output.is_ledger())])
}

/// An error if one of these options is given and there are several runs.
fn refuse_of_one(plan: &Plan, options: &[(&str, bool)]) -> Result<(), String> {
    match options.iter().find(|(_, is_given)| *is_given && plan.one().is_none()) {
        Some((option, _)) => {
            Err(format!("{option} is of one run: one number of --clients, in one round"))
        }
        None => Ok(()),
    }
}
