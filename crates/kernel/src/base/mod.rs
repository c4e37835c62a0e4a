//! Newtypes, errors and limits that the whole kernel speaks in.
//!
//! Invariants: no type here holds state or does I/O; every identifier has exactly one in-memory
//! and one on-disk width. Every module may use this one; it uses none.

mod error;
mod id;
mod limits;
mod stop;
mod unread;

pub use error::{Error, Result};
pub use id::{
    CommandId, Cts, HomeId, InstanceId, KeyHash, LogPosition, Observed, Pid, Place, RowId, SlotId,
    Stamp, TreeId, Xid,
};
pub use limits::{
    EXIT_CLOCK_RAN_BACK, INSTANCES_MAX, PAGE_BYTES, SLOT_SEQUENCE_MAX, SLOTS_PER_INSTANCE_MAX,
};
pub use stop::{NeededPage, Outcome, Stop, WaitFor};
pub use unread::Unread;
