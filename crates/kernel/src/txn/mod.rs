//! Transactions: slots, commit, snapshots and the horizon, waits and deadlocks, table locks, and
//! the shell that runs core operations to their end. README.md has the rules.

mod commit;
mod deadlock;
mod environment;
mod handle;
mod horizon;
mod imaged;
mod interrupt;
mod local;
mod locks;
mod observe;
pub mod redo;
mod row_queue;
pub mod rows;
mod sequence;
mod shared;
mod shell;
mod slot;
mod stability;

pub use commit::Committed;
pub use environment::{Changes, Environment};
pub use handle::{HeldSnapshot, Reads, TxnHandle};
pub use imaged::CheckpointSnapshot;
pub use interrupt::{Interrupt, Reason};
pub use local::{TxnCounters, TxnLocal};
pub use locks::{LockMode, ModeSet};
pub use observe::{Observations, Session, Settling, Synchronous, Unsettled};
pub use sequence::{
    Counting, Cycle, Sequence, SequenceState, Taken, decode_note as decode_sequence_note,
};
pub use shared::{OutsideSnapshot, TxnOptions, TxnShared};
pub use shell::{Waited, Waiter};
pub use slot::{State, Wake};

/// How much a transaction sees of others (rule 6.4).
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub enum Isolation {
    /// A snapshot per statement.
    #[default]
    ReadCommitted,
    /// One snapshot; the first updater wins.
    RepeatableRead,
}

#[cfg(all(test, not(loom)))]
mod tests;
