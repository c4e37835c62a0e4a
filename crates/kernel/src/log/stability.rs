//! Which commits are stable (rule 7.5).
//!
//! Invariants: commits leave the queue in log order, so a commit is stable only when everything
//! before it in its log is; it leaves when its bytes are durable and every dependency is at or
//! below the stable mark of its home. Pure bookkeeping: the writer feeds it and publishes.

use std::collections::VecDeque;

use super::StableMarks;
use crate::base::{Cts, LogPosition, Observed};
use crate::sync::mutant;

/// Commits that are not yet known to be stable, in log order.
pub struct Stability {
    commits: VecDeque<Pending>,
    /// The dependencies of `commits`, in the same order; dropped as they are met.
    dependencies: VecDeque<Observed>,
    stable: Cts,
}

struct Pending {
    cts: Cts,
    end: LogPosition,
    dependencies: usize,
}

impl Stability {
    /// A log whose commits up to `stable` are stable.
    pub fn new(stable: Cts) -> Stability {
        Stability { commits: VecDeque::new(), dependencies: VecDeque::new(), stable }
    }

    /// The largest stable cts.
    pub fn stable(&self) -> Cts {
        self.stable
    }

    /// A commit was written whose record ends at `end`.
    pub fn push(&mut self, cts: Cts, end: LogPosition, dependencies: &[Observed]) {
        self.dependencies.extend(dependencies);
        self.commits.push_back(Pending { cts, end, dependencies: dependencies.len() });
    }

    /// Moves the stable mark as far as it goes. Returns the dependency that holds it up, if one
    /// does.
    pub fn advance(&mut self, durable: LogPosition, marks: &StableMarks) -> Option<Observed> {
        while let Some(first) = self.commits.front_mut() {
            if first.end > durable {
                return None;
            }
            while first.dependencies > 0 {
                let needed = *self.dependencies.front().expect("counted when pushed");
                if marks.get(needed.home) < needed.cts && !mutant("log-stable-ignores-dependencies")
                {
                    return Some(needed);
                }
                self.dependencies.pop_front();
                first.dependencies -= 1;
            }
            self.stable = first.cts;
            self.commits.pop_front();
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::HomeId;

    #[test]
    fn a_commit_waits_for_its_bytes_its_log_and_its_dependencies() {
        let marks = StableMarks::new(&[(Cts(0), LogPosition(0)); 3]);
        let mut log = Stability::new(Cts(0));
        let on = |home, cts| Observed { home: HomeId(home), cts: Cts(cts) };
        log.push(Cts(10), LogPosition(100), &[]);
        log.push(Cts(20), LogPosition(200), &[on(1, 5), on(2, 6)]);
        log.push(Cts(30), LogPosition(300), &[]);
        assert_eq!(log.advance(LogPosition(99), &marks), None);
        assert_eq!(log.stable(), Cts(0));
        assert_eq!(log.advance(LogPosition(300), &marks), Some(on(1, 5)));
        assert_eq!(log.stable(), Cts(10), "30 has no dependency, but 20 is before it");
        marks.publish_stable(HomeId(1), Cts(5));
        assert_eq!(log.advance(LogPosition(300), &marks), Some(on(2, 6)));
        marks.publish_stable(HomeId(2), Cts(7));
        assert_eq!(log.advance(LogPosition(250), &marks), None);
        assert_eq!(log.stable(), Cts(20), "30 is not durable");
        log.advance(LogPosition(300), &marks);
        assert_eq!(log.stable(), Cts(30));
    }
}
