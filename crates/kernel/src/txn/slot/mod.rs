//! Slots: the word and its two handshakes, the array of all slots, what detectors see of waits.
//!
//! Invariants: a slot's transaction is the only one that writes its word; memory is type-stable.
//! `handshake` is modelled, and argues why it is right.

#[cfg(all(test, not(loom)))]
mod counted;
mod edges;
mod handshake;
mod table;
mod word;

#[cfg(all(test, not(loom)))]
pub(in crate::txn) use counted::Count;
pub(in crate::txn) use edges::Edge;
pub(in crate::txn) use edges::Wait;
pub use handshake::Wake;
pub(in crate::txn) use handshake::{Enlisted, Seen, Slot};
pub(in crate::txn) use table::{FreeSlots, SlotEntry, SlotTable};
pub use word::State;
