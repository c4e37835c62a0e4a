//! The stable and durable marks of all logs: what an instance tells the others (rules 7.5, 7.9).
//!
//! Invariants: a home's words are written by its instance's `LogWriter` only and never go back;
//! every instance reads them. A stable mark is the cts of a commit that no crash can undo.
//! Asking: set *asked*, fence, read the mark; publishing: write the mark, fence, take *asked*; so
//! one of the two sees the other.

use crossbeam_utils::CachePadded;

use crate::base::{Cts, HomeId, LogPosition};
use crate::sync::{AtomicBool, AtomicU64, Ordering, fence, mutant};

/// The marks of all homes.
pub struct StableMarks {
    homes: Vec<CachePadded<Marks>>,
}

struct Marks {
    /// Largest stable cts. Writer: the home's log. Readers: all.
    stable: AtomicU64,
    /// End of the durable prefix. Writer: the home's log. Readers: all.
    durable: AtomicU64,
    /// Set by whoever waits for `stable` to move, taken by the home's log.
    asked: AtomicBool,
}

/// What asking found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Asked {
    /// The mark has reached the timestamp already.
    Reached,
    /// The home's instance will say when the mark moves (`LogPoll::asked`).
    Noted,
}

impl StableMarks {
    /// Marks of homes whose logs end at these commits, all stable (after recovery), and positions.
    pub fn new(ends: &[(Cts, LogPosition)]) -> StableMarks {
        let marks = |&(cts, position): &(Cts, LogPosition)| {
            CachePadded::new(Marks {
                stable: AtomicU64::new(cts.0),
                durable: AtomicU64::new(position.0),
                asked: AtomicBool::new(false),
            })
        };
        StableMarks { homes: ends.iter().map(marks).collect() }
    }

    /// How many homes there are.
    pub fn homes(&self) -> usize {
        self.homes.len()
    }

    /// The home's stable mark: every commit of it with this cts or a smaller one is stable.
    #[inline]
    pub fn get(&self, home: HomeId) -> Cts {
        // Acquire: with the release in `publish_stable`.
        Cts(self.homes[usize::from(home.0)].stable.load(Ordering::Acquire))
    }

    /// The end of the home's durable prefix.
    pub fn durable(&self, home: HomeId) -> LogPosition {
        // Acquire: with the release in `publish_durable`.
        LogPosition(self.homes[usize::from(home.0)].durable.load(Ordering::Acquire))
    }

    /// Asks the home's instance to say when its stable mark moves, unless it is at `cts` already.
    pub fn ask(&self, home: HomeId, cts: Cts) -> Asked {
        let marks = &self.homes[usize::from(home.0)];
        marks.asked.store(true, Ordering::Relaxed);
        // With the fence in `publish_stable`: one of the two sees the other's store.
        if !mutant("log-ask-without-fence") {
            fence(Ordering::SeqCst);
        }
        if self.get(home) >= cts { Asked::Reached } else { Asked::Noted }
    }

    /// Whether somebody waits for the home's stable mark to move.
    pub(super) fn is_asked(&self, home: HomeId) -> bool {
        self.homes[usize::from(home.0)].asked.load(Ordering::Relaxed)
    }

    /// Publishes a stable mark; returns whether somebody had asked. Called by the home's log.
    pub(super) fn publish_stable(&self, home: HomeId, cts: Cts) -> bool {
        let marks = &self.homes[usize::from(home.0)];
        // Release: with the acquire in `get`.
        marks.stable.store(cts.0, Ordering::Release);
        // With the fence in `ask`.
        fence(Ordering::SeqCst);
        // Only this thread takes the flag; a concurrent `ask` sees the new mark or is taken later.
        marks.asked.load(Ordering::Relaxed) && marks.asked.swap(false, Ordering::Relaxed)
    }

    /// Publishes the end of the durable prefix. Called by the home's log.
    pub(super) fn publish_durable(&self, home: HomeId, position: LogPosition) {
        // Release: with the acquire in `durable`.
        self.homes[usize::from(home.0)].durable.store(position.0, Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn asking_is_answered_once() {
        let marks = StableMarks::new(&[(Cts(5), LogPosition(0)), (Cts(0), LogPosition(0))]);
        assert_eq!(marks.ask(HomeId(0), Cts(5)), Asked::Reached);
        assert_eq!(marks.ask(HomeId(0), Cts(6)), Asked::Noted);
        assert!(marks.publish_stable(HomeId(0), Cts(7)));
        assert!(!marks.publish_stable(HomeId(0), Cts(8)));
        assert_eq!(marks.get(HomeId(0)), Cts(8));
        assert_eq!(marks.get(HomeId(1)), Cts(0));
    }
}

#[cfg(all(test, loom))]
mod loom_tests {
    use loom::sync::Arc;
    use loom::thread;

    use super::*;

    #[test]
    fn loom_asking_is_never_missed() {
        loom::model(|| {
            let marks = Arc::new(StableMarks::new(&[(Cts(1), LogPosition(0))]));
            let other = marks.clone();
            let asker = thread::spawn(move || other.ask(HomeId(0), Cts(2)));
            let other = marks.clone();
            let publisher = thread::spawn(move || other.publish_stable(HomeId(0), Cts(2)));
            let asked = asker.join().unwrap();
            let told = publisher.join().unwrap();
            assert!(asked == Asked::Reached || told, "who asked is told or has seen the mark");
        });
    }
}
