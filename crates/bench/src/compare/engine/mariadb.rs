//! MariaDB, as far as sysbench compares it.
//!
//! Settings: InnoDB flushed at every commit (its default), a log large enough that flushing pages
//! can wait, pages read and written past the system's cache, READ COMMITTED as the others.

use std::path::PathBuf;
use std::process::Command;

use super::{Account, Door, Engine, Language, Room, Tuning, version_of};
use crate::compare::Result;

/// The database that sysbench's tables are in; the installation makes it.
pub const DATABASE: &str = "test";

/// A MariaDB.
pub struct MariaDb {
    /// `mariadbd`.
    pub server: PathBuf,
    /// `mariadb-install-db`.
    pub install: PathBuf,
}

impl Engine for MariaDb {
    fn language(&self) -> Language {
        Language::MySql
    }

    /// "mariadbd  Ver 10.11.19-MariaDB-0+deb12u1 for debian-linux-gnu on x86_64 (Debian 12)"
    fn version(&self) -> Result<String> {
        let line = version_of(&self.server)?;
        let version = line.split_whitespace().skip_while(|it| *it != "Ver").nth(1);
        let version = version.and_then(|it| it.split('-').next()).unwrap_or(&line);
        Ok(format!("MariaDB {version}"))
    }

    fn account(&self) -> Result<Option<Account>> {
        Account::instead_of_root(&["mysql", "nobody"])
    }

    fn prepare(&self, room: &Room) -> Option<Command> {
        let mut command = Command::new(&self.install);
        command.arg("--no-defaults").arg(format!("--datadir={}", room.data().display()));
        command.arg("--auth-root-authentication-method=normal");
        Some(command)
    }

    fn serve(&self, room: &Room, tuning: &Tuning) -> Command {
        let mut command = Command::new(&self.server);
        command.arg("--no-defaults").arg(format!("--datadir={}", room.data().display()));
        command.arg(format!("--socket={}", room.sockets().join("mysql.sock").display()));
        command.arg(format!("--tmpdir={}", room.data().display()));
        command.arg(format!("--pid-file={}", room.data().join("pid").display()));
        command.arg("--skip-networking");
        for setting in self.settings(tuning) {
            command.arg(format!("--{setting}"));
        }
        command
    }

    fn settings(&self, tuning: &Tuning) -> Vec<String> {
        vec![
            format!("innodb_buffer_pool_size={}", tuning.memory_bytes),
            "innodb_log_file_size=4G".to_owned(),
            "innodb_flush_log_at_trx_commit=1".to_owned(),
            "innodb_flush_method=O_DIRECT".to_owned(),
            "transaction_isolation=READ-COMMITTED".to_owned(),
            format!("max_connections={}", tuning.connections()),
            // sysbench prepares nine statements a table on every connection.
            "max_prepared_stmt_count=1000000".to_owned(),
        ]
    }

    fn door(&self, room: &Room) -> Door {
        Door::MySql(room.sockets().join("mysql.sock"))
    }

    fn after_load(&self) -> &'static [&'static str] {
        &[]
    }
}
