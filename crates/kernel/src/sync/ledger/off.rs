//! The ledger that counts nothing: what every build has but those with feature `ledger`.
//!
//! Invariants: every function here is empty or the identity, every type has no bytes.

use std::sync::Arc;

use super::{Ledger, What};

/// The type of the transaction that a task runs; nothing in this build.
#[derive(Clone, Copy, Default, Debug)]
pub struct Label(());

impl Label {
    /// Of kind `kind` of a workload.
    #[inline(always)]
    pub const fn of(_kind: usize) -> Label {
        Label(())
    }
}

/// Counts how long it lives; nothing in this build.
#[must_use = "it lasts as long as the guard"]
pub struct Timed(());

/// The task goes on as `to`; answers what it was.
#[inline(always)]
pub fn switch(_to: Label) -> Label {
    Label(())
}

/// A transaction of this type begins; until the next [`switch`] the task works for it.
#[inline(always)]
pub fn begin(_label: Label) {}

/// Times the caller's `what` until it is dropped.
#[inline(always)]
pub fn timed(_what: What) -> Timed {
    Timed(())
}

/// Counts one `what` of so many bytes.
#[inline(always)]
pub fn add(_what: What, _amount: u64) {}

/// Another reference to the same, counted.
#[inline(always)]
pub fn share<T: ?Sized>(of: &Arc<T>) -> Arc<T> {
    Arc::clone(of)
}

/// Everything counted since the process began; nothing in this build, which does not count.
pub fn read() -> Option<Ledger> {
    None
}
