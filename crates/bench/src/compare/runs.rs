//! What a comparison runs, how long and how often, and at which pace.
//!
//! Invariants: no [`Runs`] says anything that no comparison takes, whatever is installed: it is refused before a
//! program is looked for.

use std::time::Duration;

use super::Result;
use super::clients::Length;
use super::workload::{Tool, Workload};
use crate::arrivals::Rate;

/// How transactions follow each other, and servers.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Pace {
    /// A client's next transaction begins when its last has ended; a server runs while all others are stopped, to its
    /// run's end.
    Closed,
    /// Transactions arrive at this rate; servers take turns likewise.
    Open(Rate),
    /// A closed loop, of all servers at once, each in slices of about so long in which all others are stopped.
    Slices(Duration),
}

impl Pace {
    /// Transactions that arrive a second; none in a closed loop.
    pub fn rate(self) -> Option<Rate> {
        match self {
            Pace::Open(rate) => Some(rate),
            Pace::Closed | Pace::Slices(_) => None,
        }
    }

    /// How long a slice is, about; none where whole runs take turns.
    pub fn slice(self) -> Option<Duration> {
        match self {
            Pace::Slices(slice) => Some(slice),
            Pace::Closed | Pace::Open(_) => None,
        }
    }

    /// Whether this program can run at this pace, and what it measures holds.
    fn fits(self, tool: &Tool) -> bool {
        match self {
            Pace::Closed => true,
            // sysbench does not say from when its latencies count, go-tpc has no rate.
            Pace::Open(_) => matches!(tool, Tool::Pgbench(_) | Tool::Own(_)),
            // Our own measure the machine themselves, the slices of others with theirs.
            Pace::Slices(_) => !matches!(tool, Tool::Own(_)),
        }
    }
}

/// What is run, how long and how often.
#[derive(Clone, Debug)]
pub struct Runs {
    /// What is run.
    pub(super) workloads: Vec<Workload>,
    /// With how many clients, from few to many.
    pub(super) clients: Vec<u64>,
    /// How transactions, and servers, follow each other.
    pub(super) pace: Pace,
    /// How long a run is.
    pub(super) length: Length,
    /// How often all is run.
    pub(super) rounds: u64,
}

impl Runs {
    /// These; one line for what no comparison takes.
    pub fn new(
        (workloads, mut clients): (Vec<Workload>, Vec<u64>),
        pace: Pace,
        (length, rounds): (Length, u64),
    ) -> Result<Runs> {
        if has_twice(&clients) {
            return Err("a number of clients is named twice".to_owned());
        }
        clients.sort_unstable();
        match workloads.iter().find(|it| !pace.fits(&it.tool)) {
            Some(it) if pace.slice().is_some() => Err(format!("slices are not for {}", it.name)),
            Some(it) => Err(format!("a rate is not for {}", it.name)),
            None => Ok(Runs { workloads, clients, pace, length, rounds }),
        }
    }

    /// What is run.
    pub fn workloads(&self) -> &[Workload] {
        &self.workloads
    }

    /// The most clients.
    pub fn clients_max(&self) -> u64 {
        self.clients.last().copied().unwrap_or(1)
    }
}

/// Whether one of the values is named again.
pub fn has_twice<T: Ord + Clone>(values: &[T]) -> bool {
    let mut seen = values.to_vec();
    seen.sort_unstable();
    seen.windows(2).any(|two| two[0] == two[1])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compare::workload::ALL;

    const LENGTH: Length = Length { seconds: 1, warmup_seconds: 0 };

    /// The workload that is refused at this pace first; those before it are taken.
    fn refused(pace: Pace) -> Option<&'static str> {
        let runs = |it: &Workload| Runs::new((vec![*it], vec![8]), pace, (LENGTH, 1));
        let (first, told) = ALL.iter().find_map(|it| Some((it.name, runs(it).err()?)))?;
        assert!(told.ends_with(first), "{told}");
        Some(first)
    }

    #[test]
    fn a_pace_is_not_for_every_program() {
        assert_eq!(refused(Pace::Closed), None);
        assert_eq!(refused(Pace::Slices(Duration::from_millis(200))), Some("tpcc"));
        let open = Rate::new(100.0).map(Pace::Open);
        assert_eq!(open.map(refused), Ok(Some("sysbench-point-select")));
    }

    #[test]
    fn clients_are_put_in_order_and_named_once() {
        let of =
            |clients: &[u64]| Runs::new((Vec::new(), clients.to_vec()), Pace::Closed, (LENGTH, 1));
        assert_eq!(of(&[32, 8]).map(|it| (it.clients_max(), it.clients)), Ok((32, vec![8, 32])));
        assert!(of(&[8, 32, 8]).is_err_and(|told| told.contains("twice")));
    }
}
