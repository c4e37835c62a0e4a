//! PostgreSQL, by the folder of its programs.
//!
//! Settings are its own defaults (`synchronous_commit`, `fsync` and `full_page_writes` on,
//! autovacuum) but for memory and for checkpoints, which are kept rare as its manual advises for
//! bulk work: so no figure is lowered by a checkpoint that a larger `max_wal_size` would put off.
//! `checkpoint_timeout` counts also while a server is paused; an hour of which it runs a third is
//! twenty minutes of its own.

use std::path::PathBuf;
use std::process::Command;

use rustix::process::Signal;

use super::{Account, Checkpoints, Crash, Door, Engine, Language, PORT, Room, Tuning, version_of};
use crate::compare::Result;
use crate::wire::Address;

/// A PostgreSQL.
pub struct Postgres {
    /// The folder with `initdb` and `postgres`.
    pub bin: PathBuf,
}

impl Engine for Postgres {
    fn language(&self) -> Language {
        Language::Postgres
    }

    /// "postgres (PostgreSQL) 15.18 (Debian 15.18-0+deb12u1)"
    fn version(&self) -> Result<String> {
        let line = version_of(&self.bin.join("postgres"))?;
        let version = line.split_whitespace().nth(2).unwrap_or(&line);
        Ok(format!("PostgreSQL {version}"))
    }

    /// It refuses to run as root.
    fn account(&self) -> Result<Option<Account>> {
        Account::instead_of_root(&["postgres", "nobody"])
    }

    fn prepare(&self, room: &Room) -> Option<Command> {
        let mut command = Command::new(self.bin.join("initdb"));
        command.arg("-D").arg(room.data());
        command.args(["-U", "postgres", "-A", "trust", "-E", "UTF8", "--locale=C"]);
        Some(command)
    }

    fn serve(&self, room: &Room, tuning: &Tuning) -> Command {
        let mut command = Command::new(self.bin.join("postgres"));
        command.arg("-D").arg(room.data()).arg("-k").arg(room.sockets());
        command.args(["-p", &PORT.to_string(), "-c", "listen_addresses="]);
        for setting in self.settings(tuning) {
            command.args(["-c", &setting]);
        }
        command
    }

    fn settings(&self, tuning: &Tuning) -> Vec<String> {
        let (log, time) = match tuning.checkpoints {
            Checkpoints::Rare => ("16GB", "1h"),
            Checkpoints::Off => ("200GB", "1d"),
        };
        vec![
            format!("shared_buffers={}", tuning.memory_mib()),
            format!("max_wal_size={log}"),
            format!("checkpoint_timeout={time}"),
            "synchronous_commit=on".to_owned(),
            format!("max_connections={}", tuning.connections()),
        ]
    }

    fn door(&self, room: &Room) -> Door {
        Door::Postgres(Address::Socket(room.sockets(), PORT))
    }

    /// Immediate shutdown: the postmaster takes its children with it.
    fn end(&self) -> Signal {
        Signal::QUIT
    }

    fn after_load(&self) -> &'static [&'static str] {
        &["vacuum analyze", "checkpoint"]
    }

    fn crash(&self) -> Option<Crash> {
        Some(Crash {
            checkpoint: "select checkpoint_lsn from pg_control_checkpoint()",
            log: "pg_wal",
            told: &["redo starts at ", "redo done at "],
            replay: " elapsed: ",
        })
    }
}
