//! Latches and optimistic reads (rules 4.1 and 4.2): what protects memory for nanoseconds.
//!
//! Invariants (README.md numbers them): a latch is held by one thread and never across a wait;
//! the version of a [`HybridLatch`] never goes back; bytes read racily are believed only after
//! the version validates. Every module below may use this one; it knows nothing of pages but
//! their size. It must not: allocate, wait without a bound, or name a transaction.

mod held;
mod hybrid;
#[cfg(all(test, loom))]
mod loom_latch;
mod racy;
mod spinlock;

pub use crate::sync::prefetch_line;
pub use held::{exchange_held, held_latches};
pub(crate) use held::{note_acquired, note_released};
pub use hybrid::{HybridLatch, Release, Version};
pub use racy::{OwnedPage, PageBytes, RacyPage};
pub use spinlock::SpinLock;
