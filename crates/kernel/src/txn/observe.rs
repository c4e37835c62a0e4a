//! Observations: which commits a transaction depends on (rules 7.4 to 7.6).
//!
//! Invariants: per home only the largest observed timestamp is kept, because a log is stable
//! gaplessly; observing costs one compare and at most one store to private memory. One owner, no
//! sharing, no waiting. Whether an entry is stable by now is asked only when it matters: at
//! commit (for the record's dependencies) and before an answer leaves the database.

use crate::base::{Cts, HomeId, Observed};

/// What a session's answers wait for before they may leave (rule 7.6).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unsettled {
    /// Nothing.
    Nothing,
    /// The own instance's log alone: its mark rises in the instance's own poll, so that whoever asks
    /// after each poll needs no wake-up.
    OwnLog,
    /// Logs of other instances, too.
    Others,
}

/// Whether a session has settled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use = "who has not settled tells nobody"]
pub enum Settling {
    /// Everything it was told and has committed is stable.
    Done,
    /// Not yet; whoever asked is woken when it should ask again.
    Later,
}

/// The largest observed commit per home, of one transaction or carried by one session.
#[derive(Clone, Default, Debug)]
pub struct Observations {
    // Few homes are met by most transactions: a short list beats an array of all homes.
    entries: Vec<Observed>,
}

impl Observations {
    /// Nothing observed.
    pub const fn new() -> Observations {
        Observations { entries: Vec::new() }
    }

    /// Notes that a version of, or the end of, commit (home, cts) was met.
    #[inline]
    pub fn observe(&mut self, seen: Observed) {
        for entry in &mut self.entries {
            if entry.home == seen.home {
                if seen.cts > entry.cts {
                    entry.cts = seen.cts;
                }
                return;
            }
        }
        self.entries.push(seen);
    }

    /// Notes everything that `other` holds.
    pub fn merge(&mut self, other: &Observations) {
        for seen in &other.entries {
            self.observe(*seen);
        }
    }

    /// The entries, one per home, in no order.
    pub fn entries(&self) -> &[Observed] {
        &self.entries
    }

    /// The entry of `home`, or [`Cts::ZERO`].
    pub fn of(&self, home: HomeId) -> Cts {
        self.entries.iter().find(|seen| seen.home == home).map_or(Cts::ZERO, |seen| seen.cts)
    }

    /// The largest timestamp of any home (rule 3.3), or [`Cts::ZERO`].
    pub fn newest(&self) -> Cts {
        self.entries.iter().map(|seen| seen.cts).max().unwrap_or(Cts::ZERO)
    }

    /// Whether nothing is held.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Forgets everything; keeps the memory.
    pub fn clear(&mut self) {
        self.entries.clear();
    }

    /// Drops what `is_stable` says needs no waiting for any more.
    pub fn drop_stable(&mut self, mut is_stable: impl FnMut(Observed) -> bool) {
        self.entries.retain(|seen| !is_stable(*seen));
    }
}

/// When a session's answers may leave the database (rule 7.6).
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub enum Synchronous {
    /// After everything observed, the own commit included, is stable.
    #[default]
    On,
    /// At once: the last commits may be lost in a crash, never split or reordered.
    Off,
}

/// What one client's transactions hand on to each other (rule 7.4).
///
/// Whoever represents a client (a server session, an embedding program's session) owns one and
/// passes it to begin, commit, abort and settle. It moves between instances with its client.
#[derive(Clone, Default, Debug)]
pub struct Session {
    /// The previous commit, and the observations of transactions since that wrote no record.
    pub(super) carried: Observations,
    /// Whether answers wait for stability.
    pub synchronous: Synchronous,
}

impl Session {
    /// A session that has seen nothing.
    pub fn new(synchronous: Synchronous) -> Session {
        Session { carried: Observations::new(), synchronous }
    }

    /// What an answer of this session depends on now.
    pub fn carried(&self) -> &Observations {
        &self.carried
    }

    /// Notes something that this session learnt outside any transaction (a catalog version, a
    /// sequence's bound).
    pub fn observe(&mut self, seen: Observed) {
        self.carried.observe(seen);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seen(home: u16, cts: u64) -> Observed {
        Observed { home: HomeId(home), cts: Cts(cts) }
    }

    #[test]
    fn the_largest_per_home_is_kept() {
        let mut observations = Observations::new();
        for entry in [seen(1, 5), seen(2, 9), seen(1, 3), seen(1, 8)] {
            observations.observe(entry);
        }
        assert_eq!(observations.of(HomeId(1)), Cts(8));
        assert_eq!(observations.of(HomeId(2)), Cts(9));
        assert_eq!(observations.of(HomeId(3)), Cts::ZERO);
        assert_eq!(observations.newest(), Cts(9));
        observations.drop_stable(|entry| entry.home == HomeId(2));
        assert_eq!(observations.entries(), [seen(1, 8)]);
    }

    #[test]
    fn merging_keeps_the_larger_of_both() {
        let mut one = Observations::new();
        one.observe(seen(1, 5));
        let mut other = Observations::new();
        other.observe(seen(1, 4));
        other.observe(seen(2, 6));
        one.merge(&other);
        assert_eq!((one.of(HomeId(1)), one.of(HomeId(2))), (Cts(5), Cts(6)));
    }
}
