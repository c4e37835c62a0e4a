//! What the simulated clients did, saw and were told.
//!
//! Invariants: every event has a step, and steps grow in the order in which things happened (one
//! thread). A write's step orders it among the writes to its key, because a second writer can
//! write only after the first has ended. A transaction's end is recorded when the client knows it;
//! at a crash some are `Open` or `Asked`: they may survive or not, but never by half.

use std::collections::BTreeMap;

use atoll_kernel::base::Cts;

/// Names one transaction of one simulation.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct TransactionId(pub u64);

/// The columns of a row of the model's table, besides its key.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Row {
    /// Money; transfers keep the sum.
    pub balance: i64,
    /// The indexed, not unique column.
    pub group: i64,
    /// The transaction that wrote this version.
    pub writer: TransactionId,
}

/// One change of one key.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Write {
    /// When.
    pub step: u64,
    /// Which key.
    pub key: i64,
    /// What it is from then on; none is a delete.
    pub row: Option<Row>,
}

/// One read and what came of it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Read {
    /// How many own writes came before it.
    pub own_writes: usize,
    /// The statement's snapshot.
    pub snapshot: Cts,
    /// The keys that were asked for, both included.
    pub keys: std::ops::RangeInclusive<i64>,
    /// If set, only rows of this group were asked for, through its index.
    pub group: Option<i64>,
    /// What was found.
    pub found: BTreeMap<i64, Row>,
}

/// How a transaction ended, as far as its client knows.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum End {
    /// It is running.
    Open,
    /// COMMIT was asked for; no answer yet.
    Asked,
    /// It is visible at this timestamp (none if it wrote nothing), not yet acknowledged.
    Committed(Option<Cts>),
    /// The client was told that it is committed.
    Acknowledged(Option<Cts>),
    /// It was rolled back.
    RolledBack,
}

/// One transaction.
#[derive(Clone, Debug)]
pub struct Transaction {
    /// Its changes, in order.
    pub writes: Vec<Write>,
    /// Its reads, in order.
    pub reads: Vec<Read>,
    /// How it ended.
    pub end: End,
}

/// All transactions since the last start.
#[derive(Default, Debug)]
pub struct History {
    /// What was there at the start.
    pub base: BTreeMap<i64, Row>,
    /// The transactions.
    pub transactions: BTreeMap<TransactionId, Transaction>,
    steps: u64,
}

impl History {
    /// A history that begins with `base`.
    pub fn starting_with(base: BTreeMap<i64, Row>) -> History {
        History { base, ..History::default() }
    }

    /// The next step.
    pub fn step(&mut self) -> u64 {
        self.steps += 1;
        self.steps
    }

    /// A transaction begins.
    pub fn begin(&mut self, id: TransactionId) {
        let new = Transaction { writes: Vec::new(), reads: Vec::new(), end: End::Open };
        let before = self.transactions.insert(id, new);
        assert!(before.is_none(), "transactions have different names");
    }

    /// The transaction called `id`.
    pub fn of(&mut self, id: TransactionId) -> &mut Transaction {
        self.transactions.get_mut(&id).expect("it has begun")
    }

    /// A change was made.
    pub fn wrote(&mut self, id: TransactionId, key: i64, row: Option<Row>) {
        let step = self.step();
        self.of(id).writes.push(Write { step, key, row });
    }
}
