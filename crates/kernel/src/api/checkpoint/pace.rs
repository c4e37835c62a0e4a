//! How fast a checkpoint goes: one that nobody waits for takes nine tenths of the time until the next (rule
//! 8.8), as PostgreSQL's do (`checkpoint_completion_target`).
//!
//! Invariants: leaves are waited for only while undo is let go of as they are imaged (shares.rs): who
//! went slowly while S holds all undo back would cost others more. Whoever waits for a checkpoint,
//! or for the role, hurries the one that is being made; so do trees that are dropped, which keep their
//! pages until it ends, logs that have grown as much again, and many index entries that are to go
//! (version/collect/postponed.rs).

use super::{CheckpointCause, Checkpoints};
use crate::sync::{AtomicBool, AtomicU64, AtomicUsize, Ordering};

/// By when which part of a checkpoint's leaves is due.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pace {
    began_ns: u64,
    takes_ns: u64,
}

impl Pace {
    /// When the leaf behind the first `passed` of about `leaves` is due.
    pub(super) fn due_ns(self, passed: u64, leaves: u64) -> u64 {
        let part = passed.min(leaves) as f64 / leaves.max(1) as f64;
        self.began_ns + (self.takes_ns as f64 * part) as u64
    }
}

/// What paces are made of.
#[derive(Default)]
pub(super) struct Paces {
    /// When the checkpoint before began, in nanoseconds of the database's clock; 0 before the first.
    began_ns: AtomicU64,
    /// How many wait for a checkpoint.
    awaited: AtomicUsize,
    /// Whether the one that is being made is to go as fast as it can.
    is_hurried: AtomicBool,
}

/// Somebody waits for a checkpoint.
pub(super) struct Awaiting<'a>(&'a Paces);

impl Drop for Awaiting<'_> {
    fn drop(&mut self) {
        self.0.awaited.fetch_sub(1, Ordering::Relaxed);
    }
}

/// How much of the time from one checkpoint's begin to the next's is taken.
fn part_of(time_ns: u64) -> u64 {
    time_ns / 10 * 9
}

impl Paces {
    /// The caller waits until it drops the answer.
    pub(super) fn awaiting(&self) -> Awaiting<'_> {
        self.awaited.fetch_add(1, Ordering::Relaxed);
        Awaiting(self)
    }

    /// A checkpoint begins; under the role's mutex.
    pub(super) fn begin(&self) {
        self.is_hurried.store(false, Ordering::Relaxed);
    }

    /// The checkpoint that is being made keeps what somebody has given up.
    pub(super) fn hurry(&self) {
        self.is_hurried.store(true, Ordering::Relaxed);
    }

    fn is_awaited(&self) -> bool {
        self.awaited.load(Ordering::Relaxed) > 0 || self.is_hurried.load(Ordering::Relaxed)
    }

    /// That of a checkpoint that begins now: its part of the interval, or if it is the log's growth that asks
    /// for it, of the time since the one before began if that is less.
    pub(super) fn of(&self, cause: CheckpointCause, now_ns: u64, interval_ns: u64) -> Pace {
        let before_ns = self.began_ns.swap(now_ns, Ordering::Relaxed);
        // Nobody knows yet how fast the log grows: it hurries the first one when it has grown as much again.
        let since_ns = if before_ns == 0 { interval_ns } else { now_ns.saturating_sub(before_ns) };
        let takes_ns = match cause {
            CheckpointCause::Request => 0,
            CheckpointCause::Interval => part_of(interval_ns),
            CheckpointCause::Log if interval_ns == 0 => part_of(since_ns),
            CheckpointCause::Log => part_of(since_ns.min(interval_ns)),
        };
        Pace { began_ns: now_ns, takes_ns }
    }
}

impl Checkpoints {
    /// Whether the checkpoint that is being made is to go as fast as it can.
    pub(super) fn is_awaited(&self) -> bool {
        self.paces.is_awaited()
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn leaves_are_due_one_after_the_other() {
        let pace = Pace { began_ns: 1000, takes_ns: 500 };
        assert_eq!([0, 1, 5, 10, 11].map(|it| pace.due_ns(it, 10)), [1000, 1050, 1250, 1500, 1500]);
        assert_eq!(pace.due_ns(0, 0), 1000);
    }

    #[test]
    fn a_checkpoint_takes_most_of_the_time_to_the_next() {
        let paces = Paces::default();
        let takes = |cause, now_ns, interval_ns| paces.of(cause, now_ns, interval_ns).takes_ns;
        assert_eq!(takes(CheckpointCause::Log, 100, 0), 0, "nobody knows how long the log takes");
        assert_eq!(takes(CheckpointCause::Log, 500, 0), 360);
        assert_eq!(takes(CheckpointCause::Log, 900, 300), 270);
        assert_eq!(takes(CheckpointCause::Interval, 1000, 300), 270);
        assert_eq!(takes(CheckpointCause::Request, 2000, 300), 0);
        let first = Paces::default().of(CheckpointCause::Log, 100, 300);
        assert_eq!(first.takes_ns, 270, "until the log hurries it");
    }
}
