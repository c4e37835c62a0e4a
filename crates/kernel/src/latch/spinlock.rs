//! A spin lock for a few instructions on data that is nearly always used by one instance.
//!
//! Invariants: the closure runs with the lock held, must not wait, panic or take another latch;
//! the lock is released when it returns. Used by the buffer's free lists and the like; never on
//! the path of a read.

use std::cell::UnsafeCell;

use crate::sync::{AtomicBool, Ordering, ledger, spin};

const SPINS_BEFORE_YIELD: u32 = 200;

/// A value that one thread at a time may touch.
pub struct SpinLock<T> {
    // Written and read by whoever enters.
    held: AtomicBool,
    value: UnsafeCell<T>,
}

// SAFETY: `with` gives out the value to one thread at a time.
unsafe impl<T: Send> Sync for SpinLock<T> {}
// SAFETY: owning the lock is owning the value.
unsafe impl<T: Send> Send for SpinLock<T> {}

impl<T> SpinLock<T> {
    /// A free lock around `value`.
    pub fn new(value: T) -> SpinLock<T> {
        SpinLock { held: AtomicBool::new(false), value: UnsafeCell::new(value) }
    }

    /// Runs `body` alone on the value; waits for whoever is inside.
    #[inline]
    #[cfg_attr(feature = "ledger", track_caller)]
    pub fn with<R>(&self, body: impl FnOnce(&mut T) -> R) -> R {
        // Acquire: pairs with the release store below.
        if self.held.compare_exchange(false, true, Ordering::Acquire, Ordering::Relaxed).is_err() {
            self.wait();
        }
        ledger::add(ledger::What::Latch, 0);
        let _release = ReleaseOnDrop(&self.held);
        // SAFETY: `held` was false and is true now, so no one else is inside.
        body(unsafe { &mut *self.value.get() })
    }

    /// Returns with the lock held.
    #[cold]
    #[cfg_attr(feature = "ledger", track_caller)]
    fn wait(&self) {
        let _waits = ledger::timed(ledger::What::LatchWait);
        let mut spins = 0;
        // Acquire: pairs with the release store below.
        while self.held.compare_exchange(false, true, Ordering::Acquire, Ordering::Relaxed).is_err()
        {
            spins += 1;
            if spins % SPINS_BEFORE_YIELD == 0 {
                std::thread::yield_now();
            } else {
                spin();
            }
        }
    }
}

struct ReleaseOnDrop<'a>(&'a AtomicBool);

impl Drop for ReleaseOnDrop<'_> {
    fn drop(&mut self) {
        // Release: pairs with the acquire in `with`.
        self.0.store(false, Ordering::Release);
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn two_threads_never_meet_inside() {
        let lock = SpinLock::new(0_u64);
        std::thread::scope(|scope| {
            for _ in 0..2 {
                scope.spawn(|| {
                    for _ in 0..20_000 {
                        lock.with(|n| *n += 1);
                    }
                });
            }
        });
        assert_eq!(lock.with(|n| *n), 40_000);
    }
}
