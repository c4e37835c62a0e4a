//! `atoll bench restart`: how soon servers answer again after SIGKILL, with the same work since their last
//! checkpoint.
//!
//! `killed` loads a server, makes a checkpoint, lets pgbench do its transactions and kills it; `start` starts
//! it again on a copy of what that left, and asks; `memory` has the host back what the next start will
//! touch, and finds what a killed server leaves in shared memory; `report` writes it down. Servers, clients,
//! settings, folders and documents are those of [`compare`](crate::compare).
//!
//! Invariants: only one server runs at a time. An answer that is not right, a checkpoint that nobody asked for,
//! or anything that fails ends all, and then nothing is written. No process that was started here outlives
//! the measurement, no other is signalled, and the data goes with it.

mod killed;
mod memory;
mod report;
mod start;

use std::path::{Path, PathBuf};
use std::rc::Rc;

use crate::compare::clients::{Clients, Tools};
use crate::compare::contender::Contender;
use crate::compare::engine::Tuning;
use crate::compare::output::Marks;
use crate::compare::process::Watch;
use crate::compare::rounds::turns;
use crate::compare::server::Folder;
use crate::compare::workload::Sizes;
use crate::compare::{Result, Targets, machine};
use crate::space;

use killed::Killed;
use report::{Measured, Report};

/// The lines of a document between which the report stands.
pub const MARKS: Marks = Marks { begin: "<!-- restart:begin -->", end: "<!-- restart:end -->" };

/// Bytes of a branch with its accounts, tables and indexes, in whichever server.
const BRANCH_BYTES: u64 = 20 << 20;
/// Bytes of log of a transaction, at most.
const TRANSACTION_BYTES: u64 = 4 << 10;
/// What a server's directory has besides.
const BASE_BYTES: u64 = 256 << 20;

/// What is measured, and how.
pub struct Plan {
    /// Who takes part; the first is the subject, which is set beside each of the others.
    pub contenders: Vec<Rc<Contender>>,
    /// Transactions since the checkpoint; each client does the same number, so it may be a few more.
    pub transactions: u64,
    /// By so many clients.
    pub clients: u64,
    /// pgbench's scale.
    pub scale: u64,
    /// How often each is started.
    pub rounds: u64,
    /// Memory that is touched and freed before each start.
    pub touch_bytes: u64,
    /// What servers are given.
    pub tuning: Tuning,
    /// Who runs pgbench.
    pub tools: Tools,
    /// Everything is under this folder, which is new.
    pub folder: PathBuf,
}

impl Plan {
    /// Transactions of a client.
    fn each(&self) -> u64 {
        self.transactions.div_ceil(self.clients.max(1))
    }

    /// Disk that the directories of all servers need, and the copy of one; an upper estimate.
    fn disk_bytes(&self) -> u64 {
        // A load writes everything to the log, too.
        let data = self.scale.saturating_mul(BRANCH_BYTES * 2);
        let log = self.transactions.saturating_mul(TRANSACTION_BYTES);
        let one = data.saturating_add(log).saturating_add(BASE_BYTES);
        one.saturating_mul(self.contenders.len() as u64 + 1)
    }

    /// One line for what cannot be run here.
    fn validate(&self) -> Result<()> {
        let cannot = self.contenders.iter().find(|it| it.engine.crash().is_none());
        if let Some(it) = cannot {
            return Err(format!("{} is not measured: pgbench does not speak to it", it.version));
        }
        if let Some(available) = space::memory_available()
            && self.touch_bytes > available / 2
        {
            let (touch, half) = (self.touch_bytes >> 20, available >> 21);
            return Err(format!(
                "{touch} MiB are to be touched, and half of the free memory is {half}: a smaller --touch"
            ));
        }
        let (need, free) = (self.disk_bytes(), space::disk_free(&self.folder)?);
        if need > free {
            let (need, free) = (need >> 20, free >> 20);
            return Err(format!(
                "{need} MiB of disk may be needed, and {free} are free: fewer transactions, a smaller --scale, \
                 or another --folder"
            ));
        }
        Ok(())
    }
}

/// Measures, and writes what came of it; nothing is written if anything fails. The report is also answered,
/// as Markdown.
pub fn run(
    plan: Plan,
    command: String,
    targets: &Targets,
    watch: &Watch<'_>,
    say: &mut dyn FnMut(&str),
) -> Result<String> {
    plan.validate()?;
    // Before minutes go by: a document that cannot take the report is refused now.
    let document = targets.check(MARKS)?;
    let machine = machine::describe(plan.folder.parent().unwrap_or(Path::new("/")))?;
    let measured = measure(&plan, watch, say)?;
    watch.check()?;
    let report = Report { plan, measured, command, machine, date: machine::today() };
    let text = report.markdown();
    targets.publish(&report.json(), document.map(|it| (it, text.as_str(), &[][..])))?;
    Ok(text)
}

/// Every server is loaded, worked and killed; then they are started in turns.
fn measure(plan: &Plan, watch: &Watch<'_>, say: &mut dyn FnMut(&str)) -> Result<Vec<Measured>> {
    let folder = Folder::new(plan.folder.clone())?;
    let sizes = Sizes { scale: plan.scale, tables: 1, table_rows: 1, warehouses: 1 };
    let clients = Clients { tools: &plan.tools, sizes, rate: None, folder: folder.path(), watch };
    let mut killed = Vec::new();
    for (at, contender) in plan.contenders.iter().enumerate() {
        let place = folder.path().join(at.to_string());
        killed.push(Killed::make(plan, contender, place, &clients, say)?);
    }
    let mut measured: Vec<Measured> = killed.iter().map(Killed::measured).collect();
    for round in 0..plan.rounds {
        for turn in turns(killed.len(), round) {
            let name = &plan.contenders[turn].version;
            let start = start::on_a_copy(plan, &killed[turn], folder.path(), watch)?;
            say(&format!(
                "round {} of {}, {name}: {:.3} s to the first answer",
                round + 1,
                plan.rounds,
                start.seconds
            ));
            measured[turn].starts.push(start);
        }
    }
    Ok(measured)
}
