//! Workloads natively: in this process, as procedures over the kernel's interface.
//!
//! Invariants: a procedure does what SQL statements would do, command by command, on ordinary
//! tables; it is not told how it is driven, and the driver not what it does. Nothing here knows
//! the wire.

mod access;
mod client;
mod columns;
mod drive;
mod inside;
mod load;
mod looks;
mod outside;
mod run;
mod space_used;
pub(crate) mod traced;
#[cfg(test)]
mod tests;

use atoll_kernel::api::{
    Access, AffinityKey, Catalog, Context, Database, PUBLIC_NAMESPACE, Result, Session, Statement,
    TableEntry, TableLockMode, Transaction,
};
use std::sync::Arc;

use crate::setting::Setting;
use crate::space::Need;
use crate::workload::{Checked, Ended, Loaded, Workload};

pub use access::{Key, Part, RowAccess, missing, set_key};
pub use client::Told;
pub(crate) use columns::{columns, tables};
pub use drive::{Course, drive};
pub use looks::Looks;
pub use run::{checkpoint_loaded, prepare, run};

/// A workload that runs natively.
pub trait Native: Workload<Input: Send + Sync> {
    /// The tables, as transactions use them.
    type Tables: Clone + Send + 'static;
    /// One client's: the tables and the memory it works with.
    type Terminal: Send;

    /// Looks the tables up; an error names what is not there.
    fn tables(catalog: &Catalog) -> std::result::Result<Self::Tables, String>;
    /// A client's terminal.
    fn terminal(&self, tables: Self::Tables) -> Self::Terminal;
    /// What a run may need, at most.
    fn need(&self, setting: &Setting, instances: u16) -> Need;
    /// Whether an input only reads.
    fn access(input: &Self::Input) -> Access;
    /// What tells an input's data apart: the first argument of a routed procedure.
    fn key(input: &Self::Input) -> AffinityKey;
    /// Does what an input asks, up to the commit.
    fn run(
        terminal: &mut Self::Terminal,
        commands: &mut Commands<'_>,
        input: &Self::Input,
    ) -> Result<Ended<Self::Mark>>;
    /// The instance on which a client runs that is a task.
    fn home(&self, client: u64, instances: usize) -> usize {
        (client % instances as u64) as usize
    }
    /// Looks at the tables before clients run; by SQL, if there is no better way.
    fn look(
        &self,
        database: &Database,
        loaded: &Loaded,
    ) -> std::result::Result<Self::Before, String> {
        let _ = loaded;
        self.before(&mut &*database)
    }
    /// Judges the tables at the end; by SQL, if there is no better way.
    fn verify(
        &self,
        database: &Database,
        before: &Self::Before,
        tally: &Self::Tally,
    ) -> std::result::Result<Checked, String> {
        self.judge(&mut &*database, before, tally)
    }
}

/// A transaction's way to its next command.
pub struct Commands<'a> {
    /// The transaction.
    pub transaction: &'a mut Transaction,
    /// Its session.
    pub session: &'a mut Session,
    /// The task.
    pub context: &'a Context,
}

impl Commands<'_> {
    /// Begins the next command: it sees what earlier ones of the transaction did.
    pub(crate) fn next(&mut self) -> Result<Statement<'_>> {
        self.transaction.statement(self.session, self.context)
    }

    /// The next command, which reads a table.
    pub fn read(&mut self, table: &TableEntry) -> Result<Statement<'_>> {
        let mut statement = self.next()?;
        statement.lock_table(table.def.oid, TableLockMode::AccessShare)?;
        Ok(statement)
    }

    /// The next command, which changes a table's rows.
    pub fn write(&mut self, table: &TableEntry) -> Result<Statement<'_>> {
        let mut statement = self.next()?;
        statement.lock_table(table.def.oid, TableLockMode::RowExclusive)?;
        Ok(statement)
    }
}

/// Locks tables until the transaction ends.
pub fn lock(
    statement: &mut Statement<'_>,
    reads: &[&TableEntry],
    writes: &[&TableEntry],
) -> Result<()> {
    for table in reads {
        statement.lock_table(table.def.oid, TableLockMode::AccessShare)?;
    }
    for table in writes {
        statement.lock_table(table.def.oid, TableLockMode::RowExclusive)?;
    }
    Ok(())
}

/// A table by its name.
pub fn table(catalog: &Catalog, name: &str) -> std::result::Result<Arc<TableEntry>, String> {
    let found = catalog.table(PUBLIC_NAMESPACE, name).cloned();
    found.ok_or_else(|| format!("there is no table {name}"))
}
