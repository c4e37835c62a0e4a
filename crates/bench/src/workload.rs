//! What a workload is: its tables and rows, the inputs its clients draw, and what must hold at the
//! end. Natively or over the wire, the same.
//!
//! Invariants: inputs are drawn once and kept through retries, so that a conflict does not change
//! the mix. `judge` asks by SQL alone, not by the procedures that it judges. Rows of one part
//! depend on the seed and the part only, not on who loads it. How the procedures run is said by
//! `native::Native` and `wire::Wire`.

use std::time::Duration;

use serde_json::Value;

use crate::sql::Ask;

/// Kinds of transactions that a workload has at most.
pub const KINDS_MAX: usize = 8;

/// Named values of a report, in order.
pub type Fields = Vec<(&'static str, Value)>;

/// A workload. A clone is another handle on the same: what its clients share, it shares.
pub trait Workload: Clone + Send + Sync + 'static {
    /// Its name, as `atoll bench` knows it.
    const NAME: &'static str;
    /// The names of its kinds of transactions, at most [`KINDS_MAX`].
    const KINDS: &'static [&'static str];
    /// Its tables, in the order in which they are loaded.
    const TABLES: &'static [&'static str];
    /// Whether clients tell what they committed one by one, because the check needs it.
    const ACKNOWLEDGE: Acknowledge = Acknowledge::Each;

    /// What one transaction is asked to do.
    type Input;
    /// What one client draws inputs from.
    type Source: Send;
    /// What a committed transaction leaves to be checked.
    type Mark: Send + 'static;
    /// What the marks come to.
    type Tally: Default;
    /// What the tables held before.
    type Before;

    /// One line for what cannot be run.
    fn validate(&self) -> Result<(), String>;
    /// What is run, for reports.
    fn about(&self) -> Fields;
    /// What came of it besides latencies and counts, for reports.
    fn results(&self, counts: &Counts, elapsed: Duration) -> Fields {
        let _ = (counts, elapsed);
        Vec::new()
    }

    /// SQL that makes the tables with their indexes, for Atoll and for PostgreSQL alike.
    fn definitions(&self) -> String;
    /// Into how many parts the rows are divided, to be loaded at the same time.
    fn parts(&self) -> u64;
    /// How many rows there are, about.
    fn rows(&self) -> u64;
    /// Writes the rows of one part.
    fn fill<S: Sink>(&self, seed: u64, part: u64, sink: &mut S) -> Result<(), S::Error>;
    /// The instance that loads a part.
    fn loader(&self, part: u64, instances: usize) -> usize {
        (part % instances as u64) as usize
    }

    /// What the client with this number draws from.
    fn source(&self, client: u64, seed: u64) -> Self::Source;
    /// The next input.
    fn draw(&self, source: &mut Self::Source) -> Self::Input;
    /// Its kind: a place in [`Workload::KINDS`].
    fn kind(input: &Self::Input) -> usize;
    /// Told after the transaction has settled.
    fn settled(&self, input: &Self::Input) {
        let _ = input;
    }
    /// Adds a mark up.
    fn add(tally: &mut Self::Tally, mark: Self::Mark);

    /// Looks at the tables before clients run; an error if they are not whole.
    fn before(&self, ask: &mut dyn Ask) -> Result<Self::Before, String>;
    /// Compares the tables with what they held before and what was committed since. Answers what
    /// holds, or says what does not.
    fn judge(
        &self,
        ask: &mut dyn Ask,
        before: &Self::Before,
        tally: &Self::Tally,
    ) -> Result<Checked, String>;
}

/// What a check that found nothing wrong has to say.
#[derive(Clone, Debug)]
pub struct Checked {
    /// What holds.
    pub what: String,
    /// Rows that were looked at.
    pub rows: u64,
}

/// Gets the columns of a row in the table's order, then its end.
pub trait Sink {
    /// What can go wrong.
    type Error;
    /// An int.
    fn int(&mut self, value: i32);
    /// A smallint.
    fn small(&mut self, value: i16);
    /// A bigint.
    fn long(&mut self, value: i64);
    /// A decimal number: mantissa / 10^scale.
    fn decimal(&mut self, mantissa: i64, scale: u16);
    /// A varchar.
    fn text(&mut self, value: &str);
    /// A char(width).
    fn padded(&mut self, value: &str, width: usize);
    /// A timestamp: microseconds since 2000.
    fn time(&mut self, micros: i64);
    /// NULL.
    fn null(&mut self);
    /// The row is complete: it goes to that of [`Workload::TABLES`].
    fn end<T: Into<usize>>(&mut self, table: T) -> Result<(), Self::Error>;
}

/// The numbers of a part's rows: of `all` from 0 on, `size` to a part.
pub fn part_of(part: u64, size: u64, all: u64) -> std::ops::Range<u64> {
    part * size..((part + 1) * size).min(all)
}

/// How a transaction came to its end.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Ended<M> {
    /// It is to be committed, and leaves this to be checked.
    Commit(Option<M>),
    /// It is to be rolled back, as the workload's definition has it.
    Rollback,
}

/// What clients count, by kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Transactions that came to their end, those rolled back on purpose included.
    pub done: [u64; KINDS_MAX],
    /// Those rolled back on purpose.
    pub failed: [u64; KINDS_MAX],
    /// Tries that ended with a conflict and were tried again.
    pub aborts: u64,
    /// Routed transactions that another instance than their key's has run.
    pub elsewhere: u64,
}

impl Counts {
    /// All transactions that came to their end.
    pub fn transactions(&self) -> u64 {
        self.done.iter().sum()
    }

    /// All that were rolled back on purpose.
    pub fn rollbacks(&self) -> u64 {
        self.failed.iter().sum()
    }

    /// One more came to its end.
    pub fn count<M>(&mut self, kind: usize, ended: &Ended<M>) {
        self.done[kind] += 1;
        self.failed[kind] += u64::from(matches!(ended, Ended::Rollback));
    }

    /// Adds another's.
    pub fn add(&mut self, other: &Counts) {
        for kind in 0..KINDS_MAX {
            self.done[kind] += other.done[kind];
            self.failed[kind] += other.failed[kind];
        }
        self.aborts += other.aborts;
        self.elsewhere += other.elsewhere;
    }
}

/// Whether what was committed is told one by one.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Acknowledge {
    /// It is.
    Each,
    /// It is only counted.
    Nothing,
}

/// What loading did.
#[derive(Clone, Copy, Debug, Default)]
pub struct Loaded {
    /// Rows written; none if the tables were there.
    pub rows: u64,
    /// How long it took.
    pub elapsed: Duration,
}
