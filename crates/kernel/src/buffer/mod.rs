//! The buffer pool: frames, swips, PIDs, reservations (rules 4.3 to 4.7).
//!
//! Invariants (README.md numbers them): frames are never unmapped while the pool exists, so a
//! stale reader touches old bytes at worst; a frame's latch word and side slot survive its reuse;
//! no two pages have one PID at a time; what a change needs is reserved before its first
//! latch; the pool's size is a hard limit. This module knows trees only as page bytes.

mod again;
mod directory;
mod evict;
mod frame;
mod guard;
mod inner;
mod load;
mod long;
mod long_runs;
mod memory;
mod partition;
mod pool;
mod provide;
mod side;
mod surely;
mod swip;
#[cfg(all(test, not(loom)))]
mod tests;
pub mod trace;
mod traffic;
mod writer;

pub use again::LoadsAgain;
pub use evict::{LoadId, LoadTurn, Looked, WakeLoader};
pub use frame::{FrameRef, Pace, SideSlot};
pub use guard::{PageRead, PageShared, PageWrite};
pub use long::{FreedLong, LongPage, WrittenLong};
pub use memory::MemoryAhead;
pub use pool::{BufferPool, PageReservation, PoolStats};
pub use provide::{Watermarks, provide};
pub use side::SideStore;
pub use surely::{StepLoads, until_done};
pub use swip::{Swip, SwipState};
pub use traffic::PoolTraffic;
pub use writer::{Equals, ImageWriter, Turn, Written, sync_all};
