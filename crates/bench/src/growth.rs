//! Records that the clients of a run add, numbered without a gap.
//!
//! Invariants: a number is taken once. What is below `settled` is there for every snapshot that
//! begins afterwards; what was taken and has not settled may be missing.

use std::collections::BTreeSet;
use std::sync::Mutex;

use atoll_kernel::sync::{AtomicU64, Ordering};

/// Records that clients add.
#[derive(Debug, Default)]
pub struct Growth {
    /// The next record's number; every client takes from it.
    next: AtomicU64,
    /// All below have settled; written under `settled`, read by every client.
    below: AtomicU64,
    // Those above `below` that have settled, too.
    settled: Mutex<BTreeSet<u64>>,
}

impl Growth {
    /// So many are there.
    pub fn start(&self, count: u64) {
        // Nobody draws yet: clients are started afterwards, which orders these for them.
        self.next.store(count, Ordering::Relaxed);
        self.below.store(count, Ordering::Relaxed);
    }

    /// A new record's number.
    pub fn take(&self) -> u64 {
        // Only the numbers must differ.
        self.next.fetch_add(1, Ordering::Relaxed)
    }

    /// How many are there for sure: all with numbers below.
    pub fn settled(&self) -> u64 {
        // Pairs with the release in `settle`: who sees the number begins its snapshot later.
        self.below.load(Ordering::Acquire)
    }

    /// This one has settled.
    pub fn settle(&self, record: u64) {
        let mut settled = self.settled.lock().expect("no holder panics");
        settled.insert(record);
        let mut below = self.below.load(Ordering::Relaxed);
        while settled.remove(&below) {
            below += 1;
        }
        self.below.store(below, Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_has_not_settled_is_not_there() {
        let growth = Growth::default();
        growth.start(10);
        assert_eq!((growth.take(), growth.take(), growth.take()), (10, 11, 12));
        growth.settle(11);
        assert_eq!(growth.settled(), 10);
        growth.settle(10);
        assert_eq!(growth.settled(), 12);
        growth.settle(12);
        assert_eq!(growth.settled(), 13);
    }
}
