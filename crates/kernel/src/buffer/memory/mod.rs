//! Memory of frames: where it comes from, and when.
//!
//! Invariants: a home's frames are one range of addresses ([`Arena`]) that stays as long as the pool; the system gives memory for it when
//! it is touched, all at once before, or shortly before ([`MemoryAhead`]). What is in a frame is no concern of this module.

mod ahead;
mod arena;
#[cfg(all(test, loom))]
mod loom_ahead;

pub use ahead::MemoryAhead;
pub(super) use ahead::{Asks, Fresh};
pub(super) use arena::Arena;
