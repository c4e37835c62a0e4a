//! The kinds of servers that are compared: how each makes its directory, is started, is asked
//! whether it is ready, and is ended; and with which settings.
//!
//! Invariants: every server is durable at every commit, has the same memory for pages, and listens
//! on a unix socket alone. Settings are listed in reports as they are passed.

mod atoll;
mod mariadb;
mod postgres;

use std::path::{Path, PathBuf};
use std::process::Command;

use rustix::process::Signal;

use super::Result;
use crate::wire::Address;

pub use atoll::Atoll;
pub use mariadb::{DATABASE, MariaDb};
pub use postgres::Postgres;

/// The port in the name of PostgreSQL's sockets; each server has a folder of its own for it.
const PORT: u16 = 5432;

/// What all servers are given alike.
#[derive(Clone, Copy, Debug)]
pub struct Tuning {
    /// Memory for pages.
    pub memory_bytes: u64,
    /// The most clients that will come.
    pub clients_max: u64,
    /// When they make checkpoints.
    pub checkpoints: Checkpoints,
}

/// When a server makes checkpoints by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Checkpoints {
    /// As rarely as PostgreSQL's manual advises for bulk work; MariaDB as it does by default.
    Rare,
    /// Never: what it is asked for is all there is.
    Off,
}

/// What must be known of a kind of server to kill it and to start it again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Crash {
    /// SQL whose answer, one value, is another after every checkpoint.
    pub checkpoint: &'static str,
    /// The folder of the log, within its data.
    pub log: &'static str,
    /// What the lines hold in which it tells of its recovery.
    pub told: &'static [&'static str],
    /// What stands before the seconds that replay took.
    pub replay: &'static str,
}

impl Tuning {
    fn memory_mib(&self) -> String {
        format!("{}MB", (self.memory_bytes >> 20).max(1))
    }

    /// Connections, with some for whoever looks in.
    fn connections(&self) -> u64 {
        (self.clients_max + 20).max(100)
    }
}

/// Where one server has its things.
#[derive(Clone, Debug)]
pub struct Room(pub PathBuf);

impl Room {
    /// Its data.
    pub fn data(&self) -> PathBuf {
        self.0.join("data")
    }

    /// Its socket lies here.
    pub fn sockets(&self) -> PathBuf {
        self.0.join("s")
    }

    /// What it says.
    pub fn log(&self) -> PathBuf {
        self.0.join("log")
    }
}

/// How clients speak to a server.
#[derive(Clone, Debug)]
pub enum Door {
    /// PostgreSQL's protocol.
    Postgres(Address),
    /// MySQL's, at this socket.
    MySql(PathBuf),
}

/// Which protocol a server speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Language {
    /// PostgreSQL's.
    Postgres,
    /// MySQL's.
    MySql,
}

/// A kind of server, with its programs.
pub trait Engine {
    /// What it speaks.
    fn language(&self) -> Language;
    /// Its name and version, asked from the program.
    fn version(&self) -> Result<String>;
    /// What tells its builds apart that say the same version; none of released servers.
    fn build(&self) -> Result<Option<String>> {
        Ok(None)
    }
    /// Under whose account it runs, if not this program's own.
    fn account(&self) -> Result<Option<Account>> {
        Ok(None)
    }
    /// Makes its directory; none where serving does. `room` is there, with its folders.
    fn prepare(&self, room: &Room) -> Option<Command>;
    /// Serves it until it is ended.
    fn serve(&self, room: &Room, tuning: &Tuning) -> Command;
    /// What it is started with, for reports.
    fn settings(&self, tuning: &Tuning) -> Vec<String>;
    /// Where clients find it.
    fn door(&self, room: &Room) -> Door;
    /// What asks it to end at once; its data is thrown away.
    fn end(&self) -> Signal {
        Signal::KILL
    }
    /// What is done once its tables are loaded, as SQL.
    fn after_load(&self) -> &'static [&'static str];
    /// How it is killed and started again; none: that is not measured of it.
    fn crash(&self) -> Option<Crash> {
        None
    }
}

/// Asks a program for its version: one line.
fn version_of(program: &Path) -> Result<String> {
    let failed = |what: String| format!("cannot ask {} for its version: {what}", program.display());
    let output = Command::new(program)
        .arg("--version")
        .stdin(std::process::Stdio::null())
        .output()
        .map_err(|error| failed(error.to_string()))?;
    let text = String::from_utf8_lossy(&output.stdout).trim().to_owned();
    if !output.status.success() || text.is_empty() {
        return Err(failed(output.status.to_string()));
    }
    Ok(text.lines().next().unwrap_or_default().to_owned())
}

/// Somebody a server runs as.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Account {
    /// The user.
    pub user: u32,
    /// Its group.
    pub group: u32,
}

impl Account {
    /// The first of these that is there, when this program runs as root; PostgreSQL and MariaDB
    /// refuse to, or should not.
    fn instead_of_root(names: &[&str]) -> Result<Option<Account>> {
        if !rustix::process::geteuid().is_root() {
            return Ok(None);
        }
        let text = super::process::read(Path::new("/etc/passwd"));
        let found = names.iter().find_map(|name| Account::parse(&text, name));
        found.map(Some).ok_or_else(|| format!("there is no user {} to run as", names.join(" or ")))
    }

    /// A line of /etc/passwd: name:password:user:group:...
    fn parse(text: &str, name: &str) -> Option<Account> {
        let fields = text.lines().map(|line| line.split(':').collect::<Vec<_>>());
        let found = fields.into_iter().find(|it| it.first() == Some(&name))?;
        Some(Account { user: found.get(2)?.parse().ok()?, group: found.get(3)?.parse().ok()? })
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    #[test]
    fn accounts_are_found_by_whole_names() {
        let text = "root:x:0:0::/:/bin/sh\npostgresql:x:7:7::/:\npostgres:x:101:104:P,,:/v:/b\n";
        assert_eq!(Account::parse(text, "postgres"), Some(Account { user: 101, group: 104 }));
        assert_eq!(Account::parse(text, "mysql"), None);
    }

    #[test]
    fn versions_are_one_line_or_an_error() {
        assert!(version_of(Path::new("/bin/sh/none")).unwrap_err().contains("cannot ask"));
        assert!(version_of(Path::new("/bin/false")).unwrap_err().contains("exit status: 1"));
        assert!(version_of(Path::new("/bin/cat")).unwrap().contains("cat"));
    }

    #[test]
    fn builds_that_say_the_same_version_are_told_apart() {
        let folder = tempfile::tempdir().unwrap();
        let build = |name: &str, contents: &str| {
            let program = folder.path().join(name);
            std::fs::write(&program, contents).unwrap();
            Atoll { program }.build().unwrap().unwrap()
        };
        let first = build("first", "as it was");
        assert_eq!(build("copied", "as it was"), first);
        assert_ne!(build("changed", "as it is"), first);
        let gone = Atoll { program: folder.path().join("gone") };
        assert!(gone.build().unwrap_err().contains("gone: No such file"));
        assert_eq!(Postgres { bin: "/p".into() }.build(), Ok(None));
    }
}
