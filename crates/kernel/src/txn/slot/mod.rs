//! Slots: the word and its two handshakes, the array of all slots, what detectors see of waits.
//!
//! Invariants: a slot's transaction is the only one that writes its word; memory is type-stable.
//! `handshake` is modelled, and argues why it is right.

mod edges;
mod handshake;
mod table;
mod word;

pub(in crate::txn) use edges::Edge;
pub(in crate::txn) use edges::Wait;
pub use handshake::Wake;
pub(in crate::txn) use handshake::{Enlisted, Seen, Slot};
pub(in crate::txn) use table::{FreeSlots, SlotEntry, SlotTable};
pub use word::State;
