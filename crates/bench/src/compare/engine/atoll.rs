//! Atoll itself, or another build of it.

use std::path::PathBuf;
use std::process::Command;

use super::{Checkpoints, Crash, Door, Engine, Language, PORT, Room, Tuning, version_of};
use crate::compare::Result;
use crate::wire::Address;

/// A build of Atoll.
pub struct Atoll {
    /// The program.
    pub program: PathBuf,
}

impl Engine for Atoll {
    fn language(&self) -> Language {
        Language::Postgres
    }

    fn version(&self) -> Result<String> {
        Ok(version_of(&self.program)?.replacen("atoll", "Atoll", 1))
    }

    /// The checksum of the program.
    fn build(&self) -> Result<Option<String>> {
        let failed = |error| format!("cannot read {}: {error}", self.program.display());
        let bytes = std::fs::read(&self.program).map_err(failed)?;
        Ok(Some(format!("{:08x}", crc32c::crc32c(&bytes))))
    }

    fn prepare(&self, _: &Room) -> Option<Command> {
        None
    }

    fn serve(&self, room: &Room, tuning: &Tuning) -> Command {
        let mut command = Command::new(&self.program);
        command.arg("serve").arg("--data").arg(room.data());
        command.arg("--socket-dir").arg(room.sockets());
        for setting in self.settings(tuning) {
            command.args(setting.split(' '));
        }
        command
    }

    fn settings(&self, tuning: &Tuning) -> Vec<String> {
        let mut settings = vec![
            format!("--buffer-pool {}", tuning.memory_mib()),
            "--listen none".to_owned(),
            // A server that crashes must not come back in the middle of a measurement.
            "--supervise off".to_owned(),
        ];
        // As PostgreSQL's: its figures are of runs without checkpoints.
        let checkpoints = match tuning.checkpoints {
            Checkpoints::Rare => ["--checkpoint-interval 1h", "--checkpoint-wal 16GB"],
            Checkpoints::Off => ["--checkpoint-interval 0", "--checkpoint-wal 0"],
        };
        settings.extend(checkpoints.map(str::to_owned));
        settings
    }

    fn door(&self, room: &Room) -> Door {
        // Without an address of its own, its socket has PostgreSQL's port in its name.
        Door::Postgres(Address::Socket(room.sockets(), PORT))
    }

    fn after_load(&self) -> &'static [&'static str] {
        &["vacuum", "analyze", "checkpoint"]
    }

    fn crash(&self) -> Option<Crash> {
        Some(Crash {
            checkpoint: "select newest from atoll_checkpoints",
            log: "log",
            told: &["loaded checkpoint ", " row changes in "],
            replay: " row changes in ",
        })
    }
}
