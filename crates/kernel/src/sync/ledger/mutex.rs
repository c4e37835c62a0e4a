//! A mutex that counts: `std`'s, each lock and each wait for it entered in the ledger.
//!
//! Invariants: same interface as `std`'s as far as the kernel uses it; the guard is `std`'s.

use std::sync::{LockResult, MutexGuard, TryLockError};

use super::What;
use super::tally::{enter, timed};

/// `std`'s, counted.
#[derive(Default, Debug)]
pub struct Mutex<T>(std::sync::Mutex<T>);

impl<T> Mutex<T> {
    /// Holds `value`.
    pub const fn new(value: T) -> Mutex<T> {
        Mutex(std::sync::Mutex::new(value))
    }

    /// Locks, waiting for whoever has it.
    #[track_caller]
    pub fn lock(&self) -> LockResult<MutexGuard<'_, T>> {
        enter(What::Mutex, std::ptr::from_ref(self).addr());
        match self.0.try_lock() {
            Ok(guard) => Ok(guard),
            Err(TryLockError::Poisoned(poisoned)) => Err(poisoned),
            Err(TryLockError::WouldBlock) => {
                let _waits = timed(What::MutexWait);
                self.0.lock()
            }
        }
    }

    /// The value: whoever has the mutex mutably is alone.
    pub fn get_mut(&mut self) -> LockResult<&mut T> {
        self.0.get_mut()
    }

    /// The value alone.
    pub fn into_inner(self) -> LockResult<T> {
        self.0.into_inner()
    }
}
