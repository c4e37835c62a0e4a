//! What programs may use of the kernel: databases, sessions, transactions, statements, cursors.
//!
//! ```
//! use atoll_kernel::api::{
//!     Access, ColumnDef, ColumnId, ColumnType, Database, Isolation, NewTable, Options, RowBuffer,
//!     Session, TableLockMode, Target, PUBLIC_NAMESPACE,
//! };
//!
//! # fn main() -> atoll_kernel::api::Result<()> {
//! let database = Database::open_in_memory(Options::default())?;
//! let balance = database.run(Target::Any, |context| {
//!     let mut session = Session::new(context.instance());
//!     let mut transaction =
//!         session.begin(context, Isolation::ReadCommitted, Access::ReadWrite)?;
//!     let mut statement = transaction.statement(&mut session, context)?;
//!     let column = |name: &str| ColumnDef::plain(name, ColumnType::Int8);
//!     let accounts = statement.create_table(NewTable {
//!         namespace: PUBLIC_NAMESPACE,
//!         name: "accounts".to_owned(),
//!         columns: vec![column("id"), column("balance")],
//!         options: Vec::new(),
//!     })?;
//!     let accounts = statement.table(accounts)?;
//!     let row = statement.insert(
//!         &accounts,
//!         &[Some(&1_i64.to_le_bytes()), Some(&100_i64.to_le_bytes())],
//!     )?;
//!     drop(statement);
//!     transaction.commit(&mut session, context)?;
//!     session.settle(context)?; // from here on it survives a power cut
//!
//!     let mut transaction =
//!         session.begin(context, Isolation::RepeatableRead, Access::ReadOnly)?;
//!     let mut statement = transaction.statement(&mut session, context)?;
//!     statement.lock_table(accounts.def.oid, TableLockMode::AccessShare)?;
//!     let mut found = RowBuffer::new();
//!     statement.get(&accounts, row, &[ColumnId(1)], &mut found)?;
//!     let bytes = found.column(0).expect("the balance is not null");
//!     Ok::<i64, atoll_kernel::api::Error>(i64::from_le_bytes(bytes.try_into().expect("8 bytes")))
//! })??;
//! assert_eq!(balance, 100);
//! database.close()
//! # }
//! ```
//!
//! Invariants: a transaction runs on one instance from begin to end; whatever is told to anybody
//! outside waits for [`Session::settle`] first (rule 7.6); a failed operation leaves its
//! transaction as it was before the operation. Nothing below this module may use it.

mod catalog_changes;
mod check;
mod checkpoint;
mod collect;
mod core;
mod cursor;
mod database;
mod definitions;
mod environment;
mod long_values;
mod metrics;
mod open;
mod options;
mod points;
mod read_ahead;
mod registry;
mod savepoint;
mod sequences;
mod session;
mod statement;
mod temporary;
#[cfg(all(test, not(loom)))]
mod tests;

pub use self::checkpoint::{
    ArchiveStatus, BackupReport, CheckpointCause, CheckpointCounters, CheckpointEvent,
    CheckpointReport, CheckpointStatus, CheckpointWatch, PinnedCheckpoint, WhichCheckpoint,
};
pub use self::core::{Context, Core, Instance};
pub use crate::backup::{ArchiveFindings, Restored, Until};
pub use crate::base::{Cts, EXIT_CLOCK_RAN_BACK, Error, InstanceId, Result, RowId, Unread, Xid};
pub use crate::buffer::PoolTraffic;
pub use crate::catalog::{
    Catalog, CatalogRef, ColumnDef, ColumnId, Identity, IndexColumn, IndexDef, IndexEntry,
    IndexKind, NamespaceDef, Oid, PUBLIC_NAMESPACE, Relation, SequenceDef, SequenceEntry, TableDef,
    TableEntry,
};
pub use crate::io::IoBuffer;
pub use crate::page::ColumnType;
pub use crate::runtime::{
    AffinityHasher, AffinityKey, Class, ClockChoice, Parker, Pin, Poll, Service, ServiceId, Target,
};
pub use crate::store::SpaceStats;
pub use crate::tree::index::ScanDirection;
pub use crate::tree::key::{Direction, Nulls};
pub use crate::txn::rows::{FoundAhead, Frozen, PointAhead, PointRows, RowValues, WriteOutcome};
pub use crate::txn::{
    Committed, Interrupt, Isolation, LockMode as TableLockMode, Reason, Settling, Unsettled,
};
pub use crate::txn::{Counting, Cycle, SequenceState};
pub use crate::version::{Presence, RowBuffer, RowView};
pub use check::Findings;
pub use cursor::{IndexCursor, KeyBytes, KeyRange, TableCursor};
pub use database::Database;
pub use definitions::{NewIndex, NewTable};
pub use metrics::{MemoryPart, MemoryWatch, Metrics};
pub use open::RecoveryReport;
#[cfg(not(loom))]
pub use open::open_interleaved;
pub use options::{Instances, OnFailure, Options, Prefault, UnarchivedLogs};
pub use savepoint::Savepoint;
pub use sequences::NewSequence;
pub use session::{Access, Durability, MovingSession, Session, Snapshot, Transaction};
pub use statement::Statement;
pub use temporary::TempFile;
