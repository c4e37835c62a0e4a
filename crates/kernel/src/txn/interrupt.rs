//! Ending a statement's waits from outside: cancel requests, time-outs, closing.
//!
//! Who writes: `reason` by any thread that interrupts, and by the owner (to clear it); the owner
//! reads it. The owner shows its unparker before it parks, fences and looks at the reason; who
//! interrupts stores the reason, fences and looks for the unparker. One of both sees the other.

use crate::base::{Error, Result};
use crate::runtime::{UnparkClass, Unparker};
use crate::sync::{AtomicU32, Mutex, Ordering, fence};

/// Why a statement is to end.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u32)]
pub enum Reason {
    /// The client asked for it.
    Cancel = 1,
    /// Its time is up.
    TimeOut = 2,
    /// The database closes.
    ShutDown = 3,
}

/// One client's interruption mark. The client's thread or task owns it, others share it.
#[derive(Default)]
pub struct Interrupt {
    reason: AtomicU32,
    sleeper: Mutex<Option<Unparker>>,
}

impl Interrupt {
    /// Not interrupted.
    pub fn new() -> Interrupt {
        Interrupt { reason: AtomicU32::new(0), sleeper: Mutex::new(None) }
    }

    /// Asks the owner to end what it does. Any thread. Closing is never taken back by a cancel.
    pub fn interrupt(&self, reason: Reason) {
        self.reason.fetch_max(reason as u32, Ordering::Release);
        // Partner: the fence in `show`.
        fence(Ordering::SeqCst);
        let sleeper = self.sleeper.lock().expect("no panic while it is held");
        if let Some(unparker) = &*sleeper {
            unparker.unpark(UnparkClass::Lock);
        }
    }

    /// The owner begins another statement: earlier cancels and time-outs are forgotten.
    pub fn clear(&self) {
        for passing in [Reason::Cancel as u32, Reason::TimeOut as u32] {
            // A reason that comes in between stays, and is meant for whatever runs then.
            let _ = self.reason.compare_exchange(passing, 0, Ordering::AcqRel, Ordering::Relaxed);
        }
    }

    /// Why the owner is to stop, if it is.
    pub fn reason(&self) -> Option<Reason> {
        match self.reason.load(Ordering::Acquire) {
            0 => None,
            1 => Some(Reason::Cancel),
            2 => Some(Reason::TimeOut),
            _ => Some(Reason::ShutDown),
        }
    }

    /// An error if the owner is to stop.
    pub fn check(&self) -> Result<()> {
        match self.reason() {
            None => Ok(()),
            Some(Reason::Cancel | Reason::TimeOut) => Err(Error::Cancelled),
            Some(Reason::ShutDown) => Err(Error::ShuttingDown),
        }
    }

    /// The owner is about to park: shows its unparker, then looks at the reason.
    pub(super) fn show(&self, unparker: Unparker) -> Result<()> {
        *self.sleeper.lock().expect("no panic while it is held") = Some(unparker);
        // Partner: the fence in `interrupt`.
        fence(Ordering::SeqCst);
        self.check()
    }

    /// The owner has parked.
    pub(super) fn hide(&self) {
        *self.sleeper.lock().expect("no panic while it is held") = None;
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn closing_outlives_the_statement_and_a_cancel_does_not() {
        let interrupt = Interrupt::new();
        assert_eq!(interrupt.check(), Ok(()));
        interrupt.interrupt(Reason::Cancel);
        assert_eq!(interrupt.check(), Err(Error::Cancelled));
        interrupt.clear();
        assert_eq!(interrupt.check(), Ok(()));
        interrupt.interrupt(Reason::TimeOut);
        interrupt.interrupt(Reason::Cancel);
        assert_eq!(interrupt.reason(), Some(Reason::TimeOut));
        interrupt.interrupt(Reason::ShutDown);
        interrupt.clear();
        assert_eq!(interrupt.check(), Err(Error::ShuttingDown));
    }
}
