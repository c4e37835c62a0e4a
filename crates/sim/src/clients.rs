//! Simulated clients: tasks that run random transactions and write down what they did and saw.
//!
//! Invariants: a client writes down a change when the kernel says that it is done and before its
//! transaction ends; nothing of `Clients` is borrowed while the kernel runs, because the kernel may
//! suspend the whole instance there and let other clients run.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};

use atoll_kernel::api::{
    Access, CheckpointWatch, Committed, Context, Database, Durability, Error, Isolation, Parker,
    PinnedCheckpoint, Result, RowId, Savepoint, Session, Transaction, WhichCheckpoint,
};
use atoll_kernel::base::Cts;
use atoll_kernel::io::{Seeded, SimDisk};

use crate::counters::Counters;
use crate::history::{End, History, Read, Row, TransactionId};
use crate::operations::{self, Op};
use crate::tables::{self, Contents};

/// What all clients of one life share.
pub struct Clients {
    /// What happened.
    pub history: RefCell<History>,
    /// What was met.
    pub counters: RefCell<Counters>,
    /// Checkpoints that were read as a whole.
    pub images: RefCell<Vec<(Cts, Contents)>>,
    /// What is wrong already.
    pub complaints: RefCell<Vec<String>>,
    /// Clients end after their present transaction.
    pub stop: Cell<bool>,
    /// Clients that have not ended.
    pub running: Cell<u64>,
    /// Tells whether the machine is on.
    pub disk: SimDisk,
    /// The next transaction's name; goes on from life to life.
    pub next: Cell<u64>,
    /// Who holds which row, by tree and row, as far as clients know.
    locks: RefCell<BTreeMap<(u32, RowId), TransactionId>>,
    /// Values that sequences gave in earlier lives and must not give again.
    used: BTreeSet<(usize, i64)>,
    /// Values that sequences gave in this life, and to whom.
    given: RefCell<BTreeMap<(usize, i64), TransactionId>>,
    /// The rows of each, in the order in which it got them.
    held: RefCell<BTreeMap<TransactionId, Vec<(u32, RowId)>>>,
}

impl Clients {
    /// Nobody has done anything.
    pub fn new(
        base: BTreeMap<i64, Row>,
        used: BTreeSet<(usize, i64)>,
        next: u64,
        disk: SimDisk,
    ) -> Clients {
        Clients {
            used,
            given: RefCell::default(),
            history: RefCell::new(History::starting_with(base)),
            counters: RefCell::default(),
            images: RefCell::default(),
            complaints: RefCell::default(),
            stop: Cell::new(false),
            running: Cell::new(0),
            disk,
            next: Cell::new(next),
            locks: RefCell::default(),
            held: RefCell::default(),
        }
    }

    /// Counts something rare.
    pub fn count(&self, name: &'static str) {
        self.counters.borrow_mut().add(name, 1);
    }

    /// Something is wrong.
    pub fn complain(&self, what: String) {
        self.complaints.borrow_mut().push(what);
    }

    /// A read was answered.
    pub fn read(&self, id: TransactionId, read: Read) {
        self.history.borrow_mut().read(id, read);
    }

    /// A sequence gave `id` a value; nobody else may ever have it.
    pub fn given(&self, id: TransactionId, sequence: usize, value: i64) {
        self.count("sequence value");
        if self.used.contains(&(sequence, value)) {
            self.complain(format!("sequence {sequence} gave {value} again after a crash"));
        }
        if let Some(other) = self.given.borrow_mut().insert((sequence, value), id) {
            let text = format!("sequence {sequence} gave {value} to {} and to {}", other.0, id.0);
            self.complain(text);
        }
        self.history.borrow_mut().given(id, sequence, value);
    }

    /// The kernel gave `id` a row; nobody else may have it.
    pub fn locked(&self, tree: u32, row: RowId, id: TransactionId) {
        let before = self.locks.borrow_mut().insert((tree, row), id);
        if let Some(other) = before.filter(|other| *other != id) {
            let text = format!("transactions {} and {} both have row {row}", other.0, id.0);
            self.complain(text);
        }
        if before != Some(id) {
            self.held.borrow_mut().entry(id).or_default().push((tree, row));
        }
    }

    fn held(&self, id: TransactionId) -> usize {
        self.held.borrow().get(&id).map_or(0, Vec::len)
    }

    /// `id` gives back all rows but the first `keep`.
    fn unlock_since(&self, id: TransactionId, keep: usize) {
        let mut held = self.held.borrow_mut();
        let Some(rows) = held.get_mut(&id) else { return };
        for row in rows.drain(keep..) {
            self.locks.borrow_mut().remove(&row);
        }
    }

    /// `id` goes back to `to`: said before it happens, because others may have its rows as soon as
    /// each is given back.
    fn undone(&self, id: TransactionId, to: Here) {
        self.history.borrow_mut().undo(id, to.writes);
        self.unlock_since(id, to.held);
    }

    fn unlock(&self, id: TransactionId) {
        self.unlock_since(id, 0);
        self.held.borrow_mut().remove(&id);
    }

    fn begin(&self) -> TransactionId {
        let id = TransactionId(self.next.get());
        self.next.set(id.0 + 1);
        self.history.borrow_mut().begin(id);
        id
    }

    fn ends(&self, id: TransactionId, end: End) {
        self.history.borrow_mut().ends(id, end);
    }

    /// An error that a client may meet; anything else is a complaint.
    fn met(&self, error: &Error) {
        let name = match error {
            Error::SerializationFailure { .. } => "serialization failure",
            Error::SnapshotTooOld => "snapshot too old",
            Error::Deadlock { .. } => "deadlock",
            Error::UniqueViolation { .. } => "unique conflict",
            Error::DiskFull { .. } => "disk full",
            Error::OutOfMemory { .. } => "out of memory",
            Error::CatalogChanged => "catalog changed",
            Error::AlreadyExists { .. } | Error::NotFound { .. } => "object made or gone meanwhile",
            Error::Limit { .. } => "no slot left",
            Error::Cancelled => "cancelled in a wait",
            Error::Io { .. } => "disk failed under a statement",
            other => return self.complain(format!("a statement failed with: {other:?}")),
        };
        self.count(name);
    }
}

/// Runs transactions until told to stop.
pub fn client(context: &Context, clients: &Clients, seed: u64) {
    let mut random = Seeded::new(seed);
    let mut session = Session::new(context.instance());
    let relaxed = random.one_in(8);
    if relaxed {
        session.set_durability(Durability::Relaxed);
    }
    let mut client = Client { context, clients, random, session, relaxed, pinned: None };
    while !clients.stop.get() {
        if client.random.one_in(12) {
            client.read_checkpoint();
        } else {
            client.transaction();
        }
        client.pause();
    }
    clients.running.set(clients.running.get() - 1);
}

/// Makes checkpoints now and then until the clients stop.
pub fn checkpoints(context: &Context, clients: &Clients, seed: u64) {
    let mut random = Seeded::new(seed);
    let pause_ns = [20_000, 200_000, 2_000_000][random.below(3) as usize];
    while !clients.stop.get() {
        match Database::checkpoint(context) {
            Ok(Some(_)) => clients.count("checkpoint published"),
            Ok(None) => clients.complain("the database is not on disk".to_owned()),
            Err(_) => clients.count("checkpoint abandoned"),
        }
        let until = context.now_ns() + random.below(pause_ns);
        context.park(Some(until));
    }
    clients.running.set(clients.running.get() - 1);
}

struct Client<'c> {
    context: &'c Context,
    clients: &'c Clients,
    random: Seeded,
    session: Session,
    // Its commits are told before they are stable.
    relaxed: bool,
    // The checkpoint that it read last.
    pinned: Option<PinnedCheckpoint>,
}

/// A position of a transaction in the model.
#[derive(Clone, Copy)]
struct Here {
    writes: usize,
    held: usize,
}

impl Client<'_> {
    fn pause(&mut self) {
        match self.random.below(4) {
            0 => self.context.yield_now(),
            1 => {
                let until = self.context.now_ns() + self.random.below(20_000);
                self.context.park(Some(until));
            }
            _ => {}
        }
    }

    fn transaction(&mut self) {
        let definitions = self.random.one_in(50);
        let isolation = if definitions || self.random.one_in(2) {
            Isolation::ReadCommitted
        } else {
            Isolation::RepeatableRead
        };
        let id = self.clients.begin();
        // Somebody in a hurry: waits end early.
        let hurry = self.random.one_in(12).then(|| self.random.below(300_000));
        self.session.deadline_ns = hurry.map(|ns| self.context.now_ns() + ns);
        let begun = self.session.begin(self.context, isolation, Access::ReadWrite);
        let mut transaction = match begun {
            Ok(transaction) => transaction,
            Err(error) => {
                self.clients.met(&error);
                self.clients.ends(id, End::RolledBack);
                return;
            }
        };
        let outcome = if definitions {
            self.definitions(id, &mut transaction)
        } else {
            self.operations(id, &mut transaction)
        };
        let outcome = outcome.and_then(|()| self.journal(id, &mut transaction));
        if let Err(error) = &outcome {
            self.clients.met(error);
        }
        if outcome.is_err() || self.random.one_in(10) {
            self.roll_back(id, transaction);
        } else {
            self.commit(id, transaction);
        }
    }

    /// A transaction that reads a checkpoint of this life (of earlier ones the model does not know what
    /// they had): the newest, or the same as the last time.
    fn read_checkpoint(&mut self) {
        let status = CheckpointWatch::new(self.context.instance()).status();
        if status.is_none_or(|status| status.counters.published == 0) {
            return;
        }
        if self.pinned.is_none() || self.random.one_in(2) {
            self.pinned = self.session.pin_checkpoint(WhichCheckpoint::Newest).ok();
        }
        let Some(pinned) = self.pinned.clone() else { return };
        let id = self.clients.begin();
        let isolation = Isolation::ReadCommitted;
        let begun = self.session.begin(self.context, isolation, Access::ReadOnly);
        let done = begun.and_then(|mut transaction| {
            let read = transaction.read_checkpoint(pinned, self.context).and_then(|()| {
                for _ in 0..1 + self.random.below(4) {
                    let mut statement = transaction.statement(&mut self.session, self.context)?;
                    let (clients, own_writes) = (self.clients, 0);
                    if self.random.one_in(8) {
                        let timestamp = statement.snapshot_timestamp();
                        let contents = tables::read_tables(&mut statement)?;
                        clients.images.borrow_mut().push((timestamp, contents));
                        continue;
                    }
                    let mut op =
                        Op { clients, random: &mut self.random, id, own_writes, isolation };
                    operations::look(&mut op, &mut statement)?;
                    drop(statement);
                    self.clients.count("checkpoint read");
                    self.pause();
                }
                Ok(())
            });
            match read {
                Ok(()) => self.commit(id, transaction),
                Err(_) => self.roll_back(id, transaction),
            }
            read
        });
        if let Err(error) = done {
            self.clients.met(&error);
            self.clients.ends(id, End::RolledBack);
        }
        if self.random.one_in(2) {
            self.pinned = None;
        }
    }

    /// Some statements. One that failed need not end the transaction: a unique conflict leaves it
    /// as it was, anything else rolls back to a savepoint; and now and then all goes well, and is
    /// undone all the same.
    fn operations(&mut self, id: TransactionId, transaction: &mut Transaction) -> Result<()> {
        let mut points = Vec::new();
        for _ in 0..1 + self.random.below(6) {
            if self.random.one_in(5) {
                points.push((transaction.savepoint()?, self.here(id)));
            }
            let result = self.statement(id, transaction);
            let survivable = result.as_ref().err().is_none_or(|error| {
                matches!(error, Error::UniqueViolation { .. } | Error::DiskFull { .. })
            });
            match result {
                Err(error) if survivable && self.random.one_in(2) => self.clients.met(&error),
                Err(error) if points.is_empty() || matches!(error, Error::Io { .. }) => {
                    return Err(error);
                }
                Err(error) => {
                    self.clients.met(&error);
                    self.back_to_savepoint(id, transaction, &mut points)?;
                }
                Ok(()) if !points.is_empty() && self.random.one_in(8) => {
                    self.back_to_savepoint(id, transaction, &mut points)?;
                }
                Ok(()) if !points.is_empty() && self.random.one_in(8) => {
                    points.truncate(self.random.below(points.len() as u64) as usize + 1);
                    if let Some((savepoint, _)) = points.pop() {
                        transaction.release(savepoint)?;
                        self.clients.count("savepoint released");
                    }
                }
                Ok(()) => {}
            }
            if self.random.one_in(12) {
                self.tell(id, transaction);
            }
            self.pause();
        }
        Ok(())
    }

    /// One statement, which may be undone at its end.
    fn statement(&mut self, id: TransactionId, transaction: &mut Transaction) -> Result<()> {
        let isolation = transaction.isolation();
        let before = self.here(id);
        let mut statement = transaction.statement(&mut self.session, self.context)?;
        let (clients, own_writes) = (self.clients, before.writes);
        let mut op = Op { clients, random: &mut self.random, id, own_writes, isolation };
        let result = operations::random(&mut op, &mut statement);
        let undo = if result.is_ok() { 12 } else { 3 };
        if self.random.one_in(undo) {
            self.clients.undone(id, before);
            statement.roll_back();
            self.clients.count("statement rolled back");
        }
        result
    }

    /// How far the transaction is, in the model.
    fn here(&self, id: TransactionId) -> Here {
        let writes = self.clients.history.borrow_mut().of(id).writes.len();
        Here { writes, held: self.clients.held(id) }
    }

    fn back_to_savepoint(
        &mut self,
        id: TransactionId,
        transaction: &mut Transaction,
        points: &mut Vec<(Savepoint, Here)>,
    ) -> Result<()> {
        points.truncate(self.random.below(points.len() as u64) as usize + 1);
        let Some((savepoint, here)) = points.last() else { return Ok(()) };
        self.clients.undone(id, *here);
        self.clients.count("rolled back to a savepoint");
        transaction.roll_back_to(*savepoint, self.context)
    }

    /// Tells the client, in the middle of the transaction, what was read so far.
    fn tell(&mut self, id: TransactionId, transaction: &Transaction) {
        if self.relaxed {
            return;
        }
        transaction.settle(&self.session, self.context);
        if !self.clients.disk.is_off() {
            self.clients.history.borrow_mut().tell(id);
        }
    }

    fn definitions(&mut self, id: TransactionId, transaction: &mut Transaction) -> Result<()> {
        let isolation = transaction.isolation();
        for _ in 0..1 + self.random.below(2) {
            let before = self.here(id);
            let savepoint = transaction.savepoint()?;
            let mut statement = transaction.statement(&mut self.session, self.context)?;
            let (clients, own_writes) = (self.clients, before.writes);
            let mut op = Op { clients, random: &mut self.random, id, own_writes, isolation };
            let result = operations::definitions(&mut op, &mut statement);
            drop(statement);
            if self.random.one_in(if result.is_ok() { 3 } else { 2 }) {
                self.clients.undone(id, before);
                transaction.roll_back_to(savepoint, self.context)?;
                self.clients.count("definitions rolled back to a savepoint");
                result.err().iter().for_each(|error| self.clients.met(error));
            } else {
                result?;
            }
        }
        Ok(())
    }

    /// The row by which recovery shows that the transaction is there.
    fn journal(&mut self, id: TransactionId, transaction: &mut Transaction) -> Result<()> {
        if !self.wrote(id) {
            return Ok(());
        }
        let mut statement = transaction.statement(&mut self.session, self.context)?;
        operations::journal(&mut statement, id)
    }

    fn wrote(&self, id: TransactionId) -> bool {
        self.clients.history.borrow_mut().of(id).kept().next().is_some()
    }

    fn commit(&mut self, id: TransactionId, transaction: Transaction) {
        let wrote = self.wrote(id);
        self.clients.unlock(id);
        self.clients.ends(id, End::Asked);
        let cts = match transaction.commit(&mut self.session, self.context) {
            Ok(Committed::At(cts)) => Some(cts),
            Ok(Committed::Nothing) => None,
            Err(error) => {
                self.clients.met(&error);
                return self.clients.ends(id, End::RolledBack);
            }
        };
        if wrote && cts.is_none() {
            self.clients.complain(format!("transaction {} wrote and has no timestamp", id.0));
        }
        self.clients.ends(id, End::Committed(cts));
        if self.settled() {
            self.clients.ends(id, End::Acknowledged(cts));
            self.clients.count("acknowledged");
        }
    }

    fn roll_back(&mut self, id: TransactionId, transaction: Transaction) {
        self.clients.unlock(id);
        self.session.deadline_ns = None;
        if self.random.one_in(10) {
            // Its client is gone: the instance rolls it back, and nobody is told anything.
            drop(transaction);
            self.clients.count("transaction left behind");
            return self.clients.ends(id, End::RolledBack);
        }
        transaction.rollback(&mut self.session, self.context);
        self.clients.ends(id, End::RolledBack);
        if self.settled() {
            self.clients.history.borrow_mut().tell(id);
        }
    }

    /// Waits until what the client is to be told is stable; whether it is told then.
    fn settled(&mut self) -> bool {
        let settled = self.session.settle(self.context);
        settled.is_ok() && !self.relaxed && !self.clients.disk.is_off()
    }
}
