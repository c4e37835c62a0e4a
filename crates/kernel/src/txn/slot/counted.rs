//! A waker for tests that counts how often it is called.
//!
//! Invariants: clones count together; nothing is woken.

use std::sync::Arc;

use super::Wake;
use crate::sync::{AtomicUsize, Ordering};

/// Counts calls.
#[derive(Clone, Default)]
pub(in crate::txn) struct Count(Arc<AtomicUsize>);

impl Count {
    /// How often it was woken.
    pub fn times(&self) -> usize {
        self.0.load(Ordering::Relaxed)
    }
}

impl Wake for Count {
    fn wake(&self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}
