//! How fast what `tpcb --data` or `tpcc --data` has left is recovered.
//!
//! Invariants: what holds no database is left as it is, and nothing is made; a figure is of what a
//! run of this size has left, and of nothing else. Whether a database is a run's is known by its
//! catalog only, so once it has been recovered.

use std::path::Path;
use std::time::{Duration, Instant};

use atoll_kernel::api::{
    Access, ColumnId, Database, Isolation, Options, Parker, RecoveryReport, Result, RowBuffer,
    Session, TableEntry, TableLockMode, Target,
};
use atoll_kernel::io::{IoChoice, RealDisk};
use atoll_kernel::log::manifest::Manifest;

use crate::native::table;
use crate::{tpcb, tpcc};

/// What has left the directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Left {
    /// `tpcb` at this scale.
    Tpcb {
        /// Branches.
        scale: u64,
    },
    /// `tpcc` with so many warehouses.
    Tpcc {
        /// Warehouses.
        warehouses: u64,
    },
}

/// What came of it.
#[derive(Clone, Copy, Debug)]
pub struct Recovered {
    /// The kernel's own report.
    pub report: RecoveryReport,
    /// From before the directory was opened to the answer of a first, small query.
    pub first_answer: Duration,
}

/// Opens `data`, which a run of this size has left, with so much memory for pages, or what such a run takes.
/// Errors are one line.
pub fn recover(
    data: &Path,
    left: Left,
    pool_bytes: Option<u64>,
) -> std::result::Result<Recovered, String> {
    let own = match left {
        Left::Tpcb { scale } => {
            tpcb::validate_scale(scale)?;
            tpcb::pool_bytes(scale)
        }
        Left::Tpcc { warehouses } => tpcc::pool_bytes(warehouses),
    };
    let told = |what: String| format!("{}: {what}", data.display());
    find(data).map_err(told)?;
    let options = Options {
        buffer_pool_bytes: pool_bytes.unwrap_or(own),
        lock_note: "atoll bench recovery".to_owned(),
        ..Options::default()
    };
    let began = Instant::now();
    let database = Database::open(data, options).map_err(|error| told(error.to_string()))?;
    let judged = judge(&database, left);
    let first_answer = began.elapsed();
    let report = database.recovery();
    database.close().map_err(|error| error.to_string())?;
    judged.map_err(told)?;
    Ok(Recovered { report, first_answer })
}

/// There must be a database: opening would make one.
fn find(data: &Path) -> std::result::Result<(), String> {
    if !data.is_dir() {
        return Err("there is no such directory".to_owned());
    }
    let disk = RealDisk::open(data, IoChoice::Auto).map_err(|error| error.to_string())?;
    match Manifest::read(&disk).map_err(|error| error.to_string())? {
        Some(_) => Ok(()),
        None => Err("there is no database here".to_owned()),
    }
}

/// It must be a run's, and of this size: the pool went by it.
fn judge(database: &Database, left: Left) -> std::result::Result<(), String> {
    let catalog = database.catalog();
    let (found, told, wanted) = match left {
        Left::Tpcb { scale } => {
            let tables = tpcb::Tables::find(&catalog);
            let what = |what| format!("`bench tpcb --data` has not left this: {what}");
            (tables.map_err(what)?.branches, "at scale", ("--scale", scale))
        }
        Left::Tpcc { warehouses } => {
            let what = |what| format!("`bench tpcc --data` has not left this: {what}");
            let found = table(&catalog, "warehouse").map_err(what)?;
            (found, "with --warehouses", ("--warehouses", warehouses))
        }
    };
    let (option, wanted) = wanted;
    let count = count(database, &found).map_err(|error| error.to_string())?;
    if count == wanted {
        return Ok(());
    }
    Err(format!("it was loaded {told} {count}, not {wanted}: another {option}"))
}

fn count(database: &Database, table: &TableEntry) -> Result<u64> {
    database.run(Target::Any, |context| -> Result<u64> {
        let mut session = Session::new(context.instance());
        let mut transaction =
            session.begin(context, Isolation::RepeatableRead, Access::ReadOnly)?;
        let mut statement = transaction.statement(&mut session, context)?;
        statement.lock_table(table.def.oid, TableLockMode::AccessShare)?;
        let mut cursor = statement.scan(table, &[ColumnId(0)]);
        let (mut row, mut count) = (RowBuffer::new(), 0);
        while cursor.next(&mut statement, &mut row)?.is_some() {
            count += 1;
            if context.should_yield() {
                context.yield_now();
            }
        }
        Ok(count)
    })?
}
