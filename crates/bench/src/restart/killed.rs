//! A server that was loaded, worked, and killed: what it left is copied for every start.
//!
//! Invariants: all that it was killed with since its checkpoint are the transactions that pgbench says were
//! acknowledged; a checkpoint between is an error. None of its processes runs when `make` answers, and what
//! they shared in memory is gone: no start on a copy finds it.

use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::time::SystemTime;

use postgres::SimpleQueryMessage;

use super::Plan;
use super::memory::Shared;
use super::report::Measured;
use crate::compare::Result;
use crate::compare::clients::Clients;
use crate::compare::contender::Contender;
use crate::compare::engine::{Crash, Door};
use crate::compare::server::Server;
use crate::compare::workload::{ALL, Tool, Workload};
use crate::wire;

/// What a killed server left, and how it came to that.
pub struct Killed {
    /// It has ended; its data goes with it.
    pub server: Server,
    /// How it is started again.
    pub crash: Crash,
    /// Transactions that were acknowledged since its checkpoint.
    pub transactions: u64,
    /// Seconds that they took.
    seconds: f64,
    /// Bytes of the files of its log that were written to since.
    log_bytes: u64,
}

impl Killed {
    /// Loads a new server, makes a checkpoint, runs the transactions, and kills it.
    pub fn make(
        plan: &Plan,
        contender: &Rc<Contender>,
        folder: PathBuf,
        clients: &Clients<'_>,
        say: &mut dyn FnMut(&str),
    ) -> Result<Killed> {
        let name = &contender.version;
        let crash = contender.engine.crash().ok_or_else(|| format!("{name} is not measured"))?;
        say(&format!("loading {name}"));
        let mut server = Server::start(contender, folder, &plan.tuning, clients.watch)?;
        clients.load(&tpcb(), &server)?;
        ask(&server, "checkpoint")?;
        let (checkpoint, since) = (ask(&server, crash.checkpoint)?, SystemTime::now());
        say(&format!("{} transactions of {name}", plan.each() * plan.clients));
        let done = clients.transact(&server, (plan.clients, plan.each()));
        // A server that has ended says why better than its client.
        server.check()?;
        let (transactions, seconds) = done?;
        if transactions != plan.each() * plan.clients {
            return Err(format!("{name}: only {transactions} transactions were acknowledged"));
        }
        if ask(&server, crash.checkpoint)? != checkpoint {
            return Err(format!("{name} made a checkpoint that nobody asked for"));
        }
        let shared = Shared::of(server.id());
        server.kill()?;
        shared.remove();
        let log = server.room().data().join(crash.log);
        let log_bytes = written_since(&log, since)?;
        say(&format!(
            "{name} was killed {seconds:.0} s later, with {} MB of log",
            log_bytes / 1_000_000
        ));
        Ok(Killed { server, crash, transactions, seconds, log_bytes })
    }

    /// What a report says of it, without starts.
    pub fn measured(&self) -> Measured {
        let (transactions, seconds) = (self.transactions, self.seconds);
        Measured { transactions, seconds, log_bytes: self.log_bytes, starts: Vec::new() }
    }
}

/// pgbench's TPC-B-like, which all are loaded for.
fn tpcb() -> Workload {
    let is_it = |it: &Workload| it.tool == Tool::Pgbench("tpcb-like");
    ALL.into_iter().find(is_it).unwrap_or(ALL[0])
}

/// One value as text, nothing for NULL or no row.
fn ask(server: &Server, sql: &str) -> Result<Option<String>> {
    let name = &server.contender.version;
    let Door::Postgres(address) = &server.door else {
        return Err(format!("{name} has no socket for pgbench"));
    };
    let mut client = wire::connect(address)?;
    let answer = client.simple_query(sql);
    let answer = answer.map_err(|error| format!("{name}: {sql}: {}", wire::message(&error)))?;
    Ok(answer.iter().find_map(|it| match it {
        SimpleQueryMessage::Row(row) => row.get(0).map(str::to_owned),
        _ => None,
    }))
}

/// Bytes of the files under a folder that were written to since then, each whole: logs are made of files of
/// a size that are used again, so bytes that are only kept ready are not among them.
fn written_since(folder: &Path, since: SystemTime) -> Result<u64> {
    let failed = |error: std::io::Error| format!("{}: {error}", folder.display());
    let mut bytes = 0;
    for entry in folder.read_dir().map_err(failed)? {
        let entry = entry.map_err(failed)?;
        let metadata = entry.metadata().map_err(failed)?;
        if metadata.is_dir() {
            bytes += written_since(&entry.path(), since)?;
        } else if metadata.modified().map_err(failed)? >= since {
            bytes += metadata.len();
        }
    }
    Ok(bytes)
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn only_files_that_were_written_since_count() {
        let folder = tempfile::tempdir().unwrap();
        let since = SystemTime::now();
        std::fs::create_dir(folder.path().join("0")).unwrap();
        let write = |name: &str, bytes: usize, at: SystemTime| {
            let path = folder.path().join(name);
            std::fs::write(&path, vec![0; bytes]).unwrap();
            std::fs::File::options().write(true).open(path).unwrap().set_modified(at).unwrap();
        };
        write("0/1.seg", 1000, since - Duration::from_secs(1));
        write("0/2.seg", 200, since + Duration::from_secs(1));
        write("3.seg", 30, since);
        assert_eq!(written_since(folder.path(), since), Ok(230));
        let missing = written_since(&folder.path().join("no"), since).unwrap_err();
        assert!(missing.contains("/no: "), "{missing}");
    }

    #[test]
    fn the_workload_is_tpcb() {
        assert_eq!(tpcb().name, "pgbench-tpcb-like");
    }
}
