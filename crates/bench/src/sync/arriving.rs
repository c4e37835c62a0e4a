//! Commits that arrive at one of several writers, evenly, and wait for its next write.
//!
//! Invariants: of all commits, number n arrives n intervals after the beginning, whatever became of those before; a
//! writer gets every k-th, where there are k writers. Each is handed out once, in its order, and none that arrives
//! at the end or later.

use std::time::Duration;

use crate::arrivals::Rate;

/// One writer's.
pub struct Arriving {
    rate: Rate,
    /// The next one's number.
    next: u64,
    /// How many writers there are.
    writers: u64,
    end: Duration,
}

impl Arriving {
    /// Those of the writer of this number, of so many, until `end` after the beginning.
    pub fn at(writer: usize, writers: usize, rate: Rate, end: Duration) -> Arriving {
        Arriving { rate, next: writer as u64, writers: writers as u64, end }
    }

    /// When the next one arrives, counted from the beginning; none after the last.
    pub fn next_at(&self) -> Option<Duration> {
        let at = Duration::from_secs_f64(self.next as f64 / self.rate.per_second());
        (at < self.end).then_some(at)
    }

    /// Adds when they arrived of all that have by `now`.
    pub fn take(&mut self, now: Duration, arrived: &mut Vec<Duration>) {
        while let Some(at) = self.next_at().filter(|at| *at <= now) {
            arrived.push(at);
            self.next += self.writers;
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    #[test]
    fn writers_share_what_arrives_and_each_is_handed_out_once() {
        let rate = Rate::new(1000.0).unwrap();
        let mut both = [0, 1].map(|writer| Arriving::at(writer, 2, rate, 10 * MS));
        assert_eq!(both[1].next_at(), Some(MS));
        let mut arrived = Vec::new();
        both[0].take(Duration::ZERO, &mut arrived);
        both[0].take(5 * MS, &mut arrived);
        assert_eq!(arrived, [0, 2, 4].map(|at| at * MS));
        both[0].take(5 * MS, &mut arrived);
        assert_eq!(arrived.len(), 3, "nothing more has arrived");
        // Late, all that came before the end.
        both[0].take(20 * MS, &mut arrived);
        assert_eq!((arrived.last(), both[0].next_at()), (Some(&(8 * MS)), None));
        both[1].take(20 * MS, &mut arrived);
        arrived.sort();
        assert_eq!(arrived, (0..10).map(|at| at * MS).collect::<Vec<_>>());
    }
}
