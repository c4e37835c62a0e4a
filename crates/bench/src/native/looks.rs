//! Looks at the database while a workload runs: the space that its page files take, its memory, and how much is
//! done while a checkpoint is being made beside how much is done while none is.
//!
//! Invariants: what clients tell between two looks counts for what the first of them saw: clients
//! tell often (drive.rs), and a checkpoint takes long beside that. Both figures are of one run, so what
//! else the machine does falls into either alike.

use std::time::{Duration, Instant};

use atoll_kernel::api::{Database, MemoryWatch};
use atoll_kernel::base::PAGE_BYTES;
use serde_json::{Value, json};

use super::space_used::SpaceUsed;
use crate::memory::{Series, Taken};
use crate::workload::Counts;

/// What was done in one of the two kinds of time.
#[derive(Clone, Copy, Debug, Default)]
struct Part {
    time: Duration,
    transactions: u64,
}

impl Part {
    fn per_second(&self) -> Option<f64> {
        let seconds = self.time.as_secs_f64();
        (seconds > 0.0).then(|| self.transactions as f64 / seconds)
    }
}

/// What the looks found.
#[derive(Clone, Debug, Default)]
pub struct Looks {
    /// The space that page files took, a look a second.
    pub space: SpaceUsed,
    /// Memory, a look a second.
    pub memory: Series,
    last: Option<(Instant, Seen)>,
    /// Transactions told since the last look.
    untold: u64,
    beside: Part,
    between: Part,
    begin: Option<Instant>,
    /// What was done in each second since the begin.
    seconds: Vec<Second>,
}

/// One second of a run. What was done between two looks counts for the second of the later.
#[derive(Clone, Copy, Debug, Default)]
struct Second {
    transactions: u64,
    /// How much of it a checkpoint was being made.
    beside: Duration,
}

/// Whether a checkpoint was being made.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Seen {
    Checkpoint,
    None,
}

impl Looks {
    /// Clients have told so much.
    pub fn add(&mut self, counts: &Counts) {
        self.untold += counts.transactions();
    }

    /// Looks whether a checkpoint is being made; and, once a second, at the memory of this process.
    pub fn look(&mut self, database: &Database, memory: &MemoryWatch) {
        self.memory.look(std::process::id(), || Some(taken(memory)));
        let seen = if database.is_making_checkpoint() { Seen::Checkpoint } else { Seen::None };
        self.note(Instant::now(), seen);
    }

    fn note(&mut self, now: Instant, seen: Seen) {
        let transactions = std::mem::take(&mut self.untold);
        if let Some((since, before)) = self.last.replace((now, seen)) {
            let part = match before {
                Seen::Checkpoint => &mut self.beside,
                Seen::None => &mut self.between,
            };
            part.time += now - since;
            part.transactions += transactions;
            let begin = *self.begin.get_or_insert(since);
            let at = (now - begin).as_secs() as usize;
            self.seconds.resize(self.seconds.len().max(at + 1), Second::default());
            self.seconds[at].transactions += transactions;
            if before == Seen::Checkpoint {
                self.seconds[at].beside += now - since;
            }
        }
    }

    /// Transactions a second while checkpoints were made by those while none was, if there was
    /// either.
    fn ratio(&self) -> Option<f64> {
        Some(self.beside.per_second()? / self.between.per_second().filter(|rate| *rate > 0.0)?)
    }

    /// The line for people; none if no checkpoint was made.
    pub fn line(&self) -> Option<String> {
        let ratio = self.ratio()?;
        Some(format!(
            "while checkpoints were made ({:.1} s): {:.0} transactions a second, else {:.0}: {ratio:.3} \
             times as many",
            self.beside.time.as_secs_f64(),
            self.beside.per_second()?,
            self.between.per_second()?
        ))
    }

    /// The same for programs; and for each second how many transactions were done, and for how long of it a
    /// checkpoint was being made, in seconds.
    pub fn json(&self) -> Value {
        let second = |it: &Second| json!([it.transactions, it.beside.as_secs_f64()]);
        json!({
            "by_second": self.seconds.iter().map(second).collect::<Vec<_>>(),
            "seconds": self.beside.time.as_secs_f64(),
            "tps": self.beside.per_second(),
            "tps_between": self.between.per_second(),
            "ratio": self.ratio(),
        })
    }
}

/// What the database has taken of the process's memory.
fn taken(memory: &MemoryWatch) -> Taken {
    let undo = memory.parts().iter().map(|part| part.undo_bytes).sum();
    Taken { pages: pages_in(memory) * PAGE_BYTES as u64, undo }
}

/// Pages in memory.
pub fn pages_in(memory: &MemoryWatch) -> u64 {
    memory.parts().iter().map(|part| part.frames - part.free).sum::<usize>() as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_told_counts_for_the_time_before_it() {
        let (mut looks, begin) = (Looks::default(), Instant::now());
        assert_eq!(looks.line(), None);
        let mut step = |at_ms: u64, told: u64, seen: Seen| {
            looks.untold += told;
            looks.note(begin + Duration::from_millis(at_ms), seen);
        };
        step(0, 7, Seen::None);
        step(100, 100, Seen::Checkpoint);
        step(300, 100, Seen::Checkpoint);
        step(400, 50, Seen::None);
        step(500, 100, Seen::None);
        assert_eq!(looks.json()["tps"], 500.0);
        assert_eq!(looks.json()["tps_between"], 1000.0);
        assert_eq!(looks.ratio(), Some(0.5));
        assert_eq!(looks.json()["by_second"], json!([[350, 0.3]]));
        assert_eq!(looks.seconds.len(), 1);
        assert!(looks.line().is_some_and(|line| line.contains("0.500 times")));
    }
}
