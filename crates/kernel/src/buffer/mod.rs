//! The buffer pool: frames, swips, PIDs, reservations (rules 4.3 to 4.7).
//!
//! Invariants (README.md numbers them): frames are never unmapped while the pool exists, so a
//! stale reader touches old bytes at worst; a frame's latch word and side slot survive its reuse;
//! no two pages have one PID at a time; what a change needs is reserved before its first
//! latch; the pool's size is a hard limit. This module knows trees only as page bytes.

mod arena;
mod directory;
mod frame;
mod guard;
mod pool;
mod swip;
#[cfg(all(test, not(loom)))]
mod tests;

pub use frame::{FrameRef, SideSlot};
pub use guard::{PageRead, PageShared, PageWrite};
pub use pool::{BufferPool, PageReservation, PoolStats};
pub use swip::{Swip, SwipState};
