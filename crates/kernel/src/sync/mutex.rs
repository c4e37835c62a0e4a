//! The mutex under the simulator: several instances share one thread there, and one of them may
//! be suspended at a [`super::point`] while it holds a mutex.
//!
//! Invariants: same interface as `std`'s as far as the kernel uses it; instead of blocking the
//! thread, a contended lock lets the other instances run ([`super::spin`]).

use std::sync::{LockResult, MutexGuard, TryLockError};

/// A mutex that never blocks the thread it shares with its holder.
#[derive(Default, Debug)]
pub struct Mutex<T>(std::sync::Mutex<T>);

impl<T> Mutex<T> {
    /// Holds `value`.
    pub const fn new(value: T) -> Mutex<T> {
        Mutex(std::sync::Mutex::new(value))
    }

    /// Locks, letting others run while it is held.
    pub fn lock(&self) -> LockResult<MutexGuard<'_, T>> {
        loop {
            match self.0.try_lock() {
                Ok(guard) => return Ok(guard),
                Err(TryLockError::Poisoned(poisoned)) => return Err(poisoned),
                Err(TryLockError::WouldBlock) => super::spin(),
            }
        }
    }
}
