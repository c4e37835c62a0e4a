//! How fast what `tpcb --data` has left is recovered.
//!
//! Invariants: what holds no database is left as it is, and nothing is made; a figure is of what a
//! run at this scale has left, and of nothing else. Whether a database is a run's is known by its
//! catalog only, so once it has been recovered.

use std::path::Path;

use atoll_kernel::api::{
    Access, ColumnId, Database, Isolation, Options, Parker, RecoveryReport, Result, RowBuffer,
    Session, TableLockMode, Target,
};
use atoll_kernel::io::{IoChoice, RealDisk};
use atoll_kernel::log::manifest::Manifest;

use super::load::Tables;
use super::{pool_bytes, text, validate_scale};

/// Opens `data`, which a run at this scale has left, and says how fast it was recovered. Errors are
/// one line.
pub fn recover(data: &Path, scale: u64) -> std::result::Result<RecoveryReport, String> {
    validate_scale(scale)?;
    let told = |what: String| format!("{}: {what}", data.display());
    find(data).map_err(told)?;
    let options = Options {
        buffer_pool_bytes: pool_bytes(scale),
        lock_note: "atoll bench recovery".to_owned(),
        ..Options::default()
    };
    let database = Database::open(data, options).map_err(|error| told(error.to_string()))?;
    let report = database.recovery();
    let judged = judge(&database, scale);
    database.close().map_err(text)?;
    judged.map_err(told)?;
    Ok(report)
}

/// There must be a database: opening would make one.
fn find(data: &Path) -> std::result::Result<(), String> {
    if !data.is_dir() {
        return Err("there is no such directory".to_owned());
    }
    let disk = RealDisk::open(data, IoChoice::Auto).map_err(text)?;
    match Manifest::read(&disk).map_err(text)? {
        Some(_) => Ok(()),
        None => Err("there is no database here".to_owned()),
    }
}

/// It must be a run's, and of this scale: the pool went by it.
fn judge(database: &Database, scale: u64) -> std::result::Result<(), String> {
    let tables = Tables::find(&database.catalog());
    let tables = tables.map_err(|what| format!("`bench tpcb --data` has not left this: {what}"))?;
    let branches = count_branches(database, &tables).map_err(text)?;
    if branches == scale {
        return Ok(());
    }
    Err(format!("it was loaded at scale {branches}, not {scale}: another --scale"))
}

fn count_branches(database: &Database, tables: &Tables) -> Result<u64> {
    let branches = &tables.branches;
    database.run(Target::Any, |context| -> Result<u64> {
        let mut session = Session::new(context.instance());
        let mut transaction =
            session.begin(context, Isolation::RepeatableRead, Access::ReadOnly)?;
        let mut statement = transaction.statement(&mut session, context)?;
        statement.lock_table(branches.def.oid, TableLockMode::AccessShare)?;
        let mut cursor = statement.scan(branches, &[ColumnId(0)]);
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
