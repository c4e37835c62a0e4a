//! What the simulated clients did, saw and were told.
//!
//! Invariants: every event has a step, and steps grow in the order in which things happened (one
//! thread). A write's step orders it among the writes to its key, because a second writer can
//! write only after the first has ended. A transaction's end is recorded when the client knows it;
//! at a crash some are `Open` or `Asked`: they may survive or not, but never by half.

use std::collections::{BTreeMap, BTreeSet};

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
    /// What it was when the writer had it for itself.
    pub replaced: Option<Row>,
    /// What it is from then on; none is a delete.
    pub row: Option<Row>,
    /// Set if its transaction rolled back to a point before it and went on.
    pub undone: Option<Undone>,
}

/// When a change was undone by its own transaction.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Undone {
    /// The step.
    pub step: u64,
    /// How many reads the transaction had made by then.
    pub reads: usize,
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
    /// Whose rows it met otherwise: the newest version of a row that it had waited for.
    pub seen: BTreeSet<TransactionId>,
    /// Values that it was given: which sequence's, and the value.
    pub values: Vec<(usize, i64)>,
    /// Of how many of its reads the client was told.
    pub told: usize,
    /// Of how many of its values the client was told.
    pub values_told: usize,
    /// How it ended.
    pub end: End,
}

impl Transaction {
    /// The changes that it has not undone.
    pub fn kept(&self) -> impl DoubleEndedIterator<Item = &Write> {
        self.writes.iter().filter(|write| write.undone.is_none())
    }

    /// The own changes that its read number `at` has to see.
    pub fn own_at(&self, at: usize) -> impl Iterator<Item = &Write> {
        let before = &self.writes[..self.reads[at].own_writes];
        before.iter().filter(move |write| write.undone.is_none_or(|undone| undone.reads > at))
    }
}

/// All transactions since the last start.
#[derive(Default, Debug)]
pub struct History {
    /// What was there at the start.
    pub base: BTreeMap<i64, Row>,
    /// The transactions.
    pub transactions: BTreeMap<TransactionId, Transaction>,
    steps: u64,
    digest: Digest,
}

/// A number that tells two histories apart (FNV-1a).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Digest(pub u64);

impl Default for Digest {
    fn default() -> Digest {
        Digest(0xcbf2_9ce4_8422_2325)
    }
}

impl Digest {
    /// Takes a word in.
    pub fn word(&mut self, word: u64) {
        for byte in word.to_le_bytes() {
            self.0 = (self.0 ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3);
        }
    }

    /// Takes a text in.
    pub fn text(&mut self, text: &str) {
        for byte in text.bytes() {
            self.0 = (self.0 ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3);
        }
    }

    fn row(&mut self, row: Option<&Row>) {
        match row {
            None => self.word(1),
            Some(row) => {
                self.word(row.balance as u64);
                self.word(row.group as u64);
                self.word(row.writer.0);
            }
        }
    }
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

    /// What tells this history from any other.
    pub fn digest(&self) -> Digest {
        self.digest
    }

    /// A transaction begins.
    pub fn begin(&mut self, id: TransactionId) {
        let new = Transaction {
            writes: Vec::new(),
            reads: Vec::new(),
            seen: BTreeSet::new(),
            values: Vec::new(),
            told: 0,
            values_told: 0,
            end: End::Open,
        };
        let before = self.transactions.insert(id, new);
        assert!(before.is_none(), "transactions have different names");
        self.digest.word(id.0);
    }

    /// The transaction called `id`.
    pub fn of(&mut self, id: TransactionId) -> &mut Transaction {
        self.transactions.get_mut(&id).expect("it has begun")
    }

    /// A change was made.
    pub fn wrote(&mut self, id: TransactionId, key: i64, replaced: Option<Row>, row: Option<Row>) {
        let step = self.step();
        self.digest.word(key as u64);
        self.digest.row(row.as_ref());
        if let Some(writer) = replaced.as_ref().map(|row| row.writer).filter(|it| *it != id) {
            self.of(id).seen.insert(writer);
        }
        self.of(id).writes.push(Write { step, key, replaced, row, undone: None });
    }

    /// The transaction undoes all its changes but the first `writes`, and goes on.
    pub fn undo(&mut self, id: TransactionId, writes: usize) {
        let step = self.step();
        self.digest.word(step ^ (writes as u64) << 32);
        let transaction = self.of(id);
        let undone = Undone { step, reads: transaction.reads.len() };
        for write in &mut transaction.writes[writes..] {
            write.undone.get_or_insert(undone);
        }
    }

    /// The transactions whose clients have not come to an end, a line each.
    pub fn unfinished(&self) -> Vec<String> {
        let open = |it: &Transaction| !matches!(it.end, End::Acknowledged(_) | End::RolledBack);
        let all = self.transactions.iter().filter(|(_, transaction)| open(transaction));
        all.map(|(id, it)| {
            let (writes, reads, values) = (it.writes.len(), it.reads.len(), it.values.len());
            let end = it.end;
            format!(
                "transaction {}: {end:?}, {writes} writes, {reads} reads, {values} values",
                id.0
            )
        })
        .collect()
    }

    /// A sequence gave a value.
    pub fn given(&mut self, id: TransactionId, sequence: usize, value: i64) {
        self.digest.word(value as u64 ^ (sequence as u64) << 56);
        self.of(id).values.push((sequence, value));
    }

    /// The values that nobody may be given again after a crash that `survivors` survived: theirs,
    /// and those that clients were told of, whatever became of their transactions.
    pub fn used<'h>(
        &'h self,
        survivors: &'h BTreeSet<TransactionId>,
    ) -> impl Iterator<Item = (usize, i64)> + 'h {
        self.transactions.iter().flat_map(|(id, transaction)| {
            let counts = survivors.contains(id) || matches!(transaction.end, End::Acknowledged(_));
            let told = if counts { transaction.values.len() } else { transaction.values_told };
            transaction.values[..told].iter().copied()
        })
    }

    /// A read was answered.
    pub fn read(&mut self, id: TransactionId, read: Read) {
        self.digest.word(read.snapshot.0);
        for (key, row) in &read.found {
            self.digest.word(*key as u64);
            self.digest.row(Some(row));
        }
        self.of(id).reads.push(read);
    }

    /// It came to this with `id`.
    pub fn ends(&mut self, id: TransactionId, end: End) {
        let word = match end {
            End::Open => 1,
            End::Asked => 2,
            End::Committed(cts) => 3 + (cts.map_or(0, |cts| cts.0) << 3),
            End::Acknowledged(cts) => 4 + (cts.map_or(0, |cts| cts.0) << 3),
            End::RolledBack => 5,
        };
        self.digest.word(word);
        self.of(id).end = end;
    }

    /// The client has been told of all reads of `id` so far.
    pub fn tell(&mut self, id: TransactionId) {
        let transaction = self.of(id);
        transaction.told = transaction.reads.len();
        transaction.values_told = transaction.values.len();
    }
}
