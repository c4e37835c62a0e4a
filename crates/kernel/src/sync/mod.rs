//! The one door to atomics: `std`, or loom when a model asks (`--cfg loom`).
//!
//! Invariants: no other kernel module names `std::sync::atomic`; every protocol that is modelled
//! is written once, over these names, so that the model checks the code that runs.
//!
//! [`point`] marks the rare windows of a protocol (between *preparing* and the clock reading,
//! inside a latch, before a fence). With feature `interleave` the simulator suspends the whole
//! instance there; otherwise it is nothing. [`ledger`] counts writes by site with feature `ledger`;
//! otherwise it is nothing, too. [`in_parallel`] and [`in_turns`] lend threads to work that blocks them.

#[cfg(all(not(loom), not(feature = "interleave"), feature = "ledger"))]
pub use ledger::Mutex;
#[cfg(all(not(loom), feature = "ledger"))]
pub use ledger::{AtomicBool, AtomicPtr, AtomicU16, AtomicU32, AtomicU64, AtomicUsize};
#[cfg(loom)]
pub use loom::sync::Mutex;
#[cfg(loom)]
pub use loom::sync::atomic::{
    AtomicBool, AtomicPtr, AtomicU32, AtomicU64, AtomicUsize, Ordering, fence,
};
#[cfg(all(not(loom), not(feature = "interleave"), not(feature = "ledger")))]
pub use std::sync::Mutex;
#[cfg(all(not(loom), not(feature = "ledger")))]
pub use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU16, AtomicU32, AtomicU64, AtomicUsize};
#[cfg(not(loom))]
pub use std::sync::atomic::{Ordering, fence};

/// A mutex that no model looks at: `std`'s under loom and in the simulator, too.
#[cfg(all(not(loom), feature = "ledger"))]
pub use ledger::Mutex as PlainMutex;
/// A mutex that no model looks at: `std`'s under loom and in the simulator, too.
#[cfg(any(loom, not(feature = "ledger")))]
pub use std::sync::Mutex as PlainMutex;

pub mod ledger;
mod mutant;
#[cfg(all(not(loom), feature = "interleave"))]
mod mutex;
#[cfg(all(not(loom), feature = "interleave"))]
pub use mutex::Mutex;
mod parallel;
mod point;
mod prefetch;
mod reuse;
#[cfg(feature = "mutants")]
pub use mutant::activate_mutant;
pub use mutant::mutant;
pub use parallel::{in_parallel, in_turns};
#[cfg(feature = "interleave")]
pub use point::with_hook;
pub use point::{Decider, PointHook, Within, point, stays, within};
pub use prefetch::{LINE_BYTES, prefetch_line, prefetch_value};
pub use reuse::Reusing;

/// Tells the processor (or the model, or the simulator) that the caller spins.
#[inline]
pub fn spin() {
    #[cfg(loom)]
    loom::thread::yield_now();
    #[cfg(not(loom))]
    {
        point("spin");
        std::hint::spin_loop();
    }
}

/// As [`spin`], before an attempt is made again because another was in its way: the ledger counts
/// and times it at the caller's site.
#[inline(always)]
#[cfg_attr(feature = "ledger", track_caller)]
pub fn spin_to_retry() {
    let _pause = ledger::timed(ledger::What::Retry);
    spin();
}
