//! When a checkpoint is due, and who begins it: an instance that finds in its poll that the interval has passed, or
//! that its log has grown by its share, and that something was logged that no checkpoint has (rule 8.8).
//!
//! Invariants: what an attempt was to have counts as missing again when it came to nothing, so an attempt
//! that fails is made again though nothing is logged any more. An instance that sleeps wakes when one is
//! due for what it logged: nobody else may be there to look. Terms ascend, and so do both marks.

use std::cell::Cell;

use super::super::core::{CoreInner, Instance};
use super::{CheckpointCause, make};
use crate::base::LogPosition;
use crate::runtime::{Class, Poll};
use crate::store::Term;
use crate::sync::{AtomicU64, Ordering};

/// How often an instance looks whether a role that was taken is free.
const AGAIN_NS: u64 = 20_000_000;
/// ... and if it sleeps: who has the role has not moved for long then.
const ASLEEP_NS: u64 = 1_000_000_000;
/// How long a checkpoint that was abandoned is left alone before the next attempt.
const ABANDONED_NS: u64 = 1_000_000_000;

/// What became of attempts, and when the next one is due by time. Written once an attempt.
#[derive(Default)]
pub(super) struct Due {
    /// In nanoseconds of the database's clock; 0 until something was logged.
    at_ns: AtomicU64,
    /// The newest term whose checkpoint was published, and the newest whose came to nothing.
    published: AtomicU64,
    abandoned: AtomicU64,
}

impl Due {
    /// The checkpoint of `term` was published; the next is due then.
    pub(super) fn published(&self, term: Term, next_ns: u64) {
        self.at_ns.store(next_ns, Ordering::Relaxed);
        self.published.fetch_max(term.0, Ordering::Release);
    }

    /// That of `term` came to nothing.
    pub(super) fn abandoned(&self, term: Term, now_ns: u64) {
        self.at_ns.store(now_ns.saturating_add(ABANDONED_NS), Ordering::Relaxed);
        self.abandoned.fetch_max(term.0, Ordering::Release);
    }

    /// The newest term whose checkpoint was published; what was told of it before can be read then.
    pub(super) fn newest(&self) -> Term {
        Term(self.published.load(Ordering::Acquire))
    }

    /// Whether the last attempt came to nothing.
    fn has_failed(&self) -> bool {
        self.abandoned.load(Ordering::Acquire) > self.published.load(Ordering::Acquire)
    }
}

/// Up to where one instance's log is in a checkpoint; its own thread's alone.
pub(in crate::api) struct Covered {
    /// By the published one.
    published: Cell<LogPosition>,
    /// By the newest attempt, and whose that is.
    attempted: Cell<(Term, LogPosition)>,
    /// When the role was last found taken.
    taken_ns: Cell<u64>,
}

impl Covered {
    /// Of a log in which nothing is yet that recovery did not know.
    pub fn up_to(start: LogPosition) -> Covered {
        let (published, attempted) = (Cell::new(start), Cell::new((Term::default(), start)));
        Covered { published, attempted, taken_ns: Cell::new(0) }
    }

    /// The attempt of `term` has what is logged before `end`.
    pub(super) fn adopt(&self, due: &Due, term: Term, end: LogPosition) {
        let (before, position) = self.attempted.replace((term, end));
        // Every instance adopts what is published: no older one than that.
        if before == due.newest() {
            self.published.set(position);
        }
    }

    /// How many bytes were logged that neither the published checkpoint has nor one that is being made.
    fn grown(&self, due: &Due, end: LogPosition) -> u64 {
        let (term, attempted) = self.attempted.get();
        let is_lost = due.abandoned.load(Ordering::Acquire) >= term.0 && due.newest() < term;
        let covered = if is_lost { self.published.get() } else { attempted };
        end.0.saturating_sub(covered.0)
    }
}

impl CoreInner {
    /// Begins a checkpoint if one is due; answers when this instance is to look again.
    pub(in crate::api) fn checkpoint_if_due(&self, instance: &Instance, now_ns: u64) -> Poll {
        let Some(checkpoints) = &self.shared.checkpoints else { return Poll::Idle };
        let due = &checkpoints.due;
        let grown = self.covered.grown(due, self.txn.environment().log.end());
        if grown == 0 {
            return Poll::Idle;
        }
        let options = &self.shared.options;
        let share = options.checkpoint_wal_bytes / self.hub.instances() as u64;
        let interval_ns = options.checkpoint_interval_ms.saturating_mul(1_000_000);
        let mut due_ns = due.at_ns.load(Ordering::Relaxed);
        if due_ns == 0 {
            // The first interval begins now.
            due_ns = now_ns.saturating_add(interval_ns);
            due.at_ns.store(due_ns, Ordering::Relaxed);
        }
        let by_time = interval_ns > 0 && now_ns >= due_ns;
        let by_log = share > 0 && grown >= share;
        let is_left_alone = now_ns < due_ns && due.has_failed();
        if !(by_time || by_log) || is_left_alone {
            let is_timed = interval_ns > 0 || (by_log && is_left_alone);
            return if is_timed { Poll::Until(due_ns) } else { Poll::Idle };
        }
        let taken_ns = self.covered.taken_ns.get();
        if now_ns < taken_ns + AGAIN_NS {
            return Poll::Until(taken_ns + ASLEEP_NS);
        }
        let Some(turn) = checkpoints.begin(now_ns) else {
            self.covered.taken_ns.set(now_ns);
            // What the log has grown by since the one that is being made was adopted asks for another; before it
            // is adopted here, that is what asked for it.
            if by_log && grown > share + share / 2 {
                checkpoints.paces.hurry();
            }
            return Poll::Until(now_ns + ASLEEP_NS);
        };
        let cause = if by_time { CheckpointCause::Interval } else { CheckpointCause::Log };
        instance.spawn(Class::System, move |context| {
            let shared = context.instance().state().inner.shared.clone();
            let Some(checkpoints) = &shared.checkpoints else { return };
            // What came of it is in the counters.
            let _ = make(context, &shared, checkpoints, (turn, cause));
        });
        Poll::Busy
    }
}
