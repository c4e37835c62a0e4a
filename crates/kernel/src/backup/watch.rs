//! How far a copy is, and whether it is still wanted.
//!
//! Invariants: the copying thread counts, anybody looks; a cancelled copy stops at the next piece.

use crate::base::{Error, Result};
use crate::sync::{AtomicBool, AtomicU64, Ordering};

/// Seen by who copies and by who waits.
#[derive(Debug, Default)]
pub struct Watch {
    /// Bytes to be copied, as far as is known. Written by the copying thread.
    total: AtomicU64,
    /// Bytes copied. Written by the copying thread.
    done: AtomicU64,
    /// Written by who waits; read by the copying thread. Nothing depends on the order.
    is_cancelled: AtomicBool,
}

impl Watch {
    /// `bytes` more are to be copied.
    pub fn expect(&self, bytes: u64) {
        self.total.fetch_add(bytes, Ordering::Relaxed);
    }

    /// `bytes` more are copied. `Cancelled` if nobody wants them.
    pub fn copied(&self, bytes: u64) -> Result<()> {
        self.done.fetch_add(bytes, Ordering::Relaxed);
        self.check()
    }

    /// `Cancelled` if nobody wants the copy any more.
    pub fn check(&self) -> Result<()> {
        match self.is_cancelled.load(Ordering::Relaxed) {
            true => Err(Error::Cancelled),
            false => Ok(()),
        }
    }

    /// Nobody wants it any more.
    pub fn cancel(&self) {
        self.is_cancelled.store(true, Ordering::Relaxed);
    }

    /// Bytes copied, and bytes to be copied as far as is known.
    pub fn progress(&self) -> (u64, u64) {
        (self.done.load(Ordering::Relaxed), self.total.load(Ordering::Relaxed))
    }
}
