//! The model that stands in for trees, undo and logs: rows with version lists, logs as lists of
//! records of which a prefix is durable. Simple enough to be believed by reading it.
//!
//! Invariants: one thread. No `RefCell` is borrowed while a slot is judged, because that is where
//! another instance may run; a row's change counter stands for its page's version.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;

use crate::base::{
    CommandId, Cts, Error, HomeId, KeyHash, LogPosition, Observed, Outcome, Result, RowId, SlotId,
    Stop, TreeId, WaitFor, Xid,
};
use crate::txn::rows::Stamping;
use crate::txn::{Changes, Environment, Isolation, Observations, TxnHandle, TxnShared};
use crate::version::{CollectLimit, Collected, Fate, Judgement, TransactionStates};

pub(super) type Txn = TxnHandle<TestEnvironment>;

#[derive(Clone, Debug)]
struct Version {
    id: u64,
    value: i64,
    writer: std::result::Result<Cts, Xid>,
    home: HomeId,
    command: CommandId,
}

#[derive(Debug)]
struct Row {
    changes: u64,
    // Newest first; the last one was always there.
    versions: Vec<Version>,
}

struct Record {
    cts: Cts,
    dependencies: Vec<Observed>,
    payload: Vec<u8>,
}

#[derive(Default)]
struct Log {
    records: Vec<Record>,
    chunks: Vec<Vec<u8>>,
    durable: usize,
    stable: usize,
}

#[derive(Default)]
pub(super) struct World {
    rows: RefCell<Vec<Row>>,
    logs: RefCell<Vec<Log>>,
    next_version: Cell<u64>,
    pub disk_full: Cell<bool>,
    /// Unflushed records that a log has room for.
    pub room: Cell<usize>,
    /// The largest horizon that any collection used.
    pub collected_below: Cell<Cts>,
    /// Whether collections find something to do, and cannot do it.
    pub collection_stuck: Cell<bool>,
}

impl World {
    pub fn new(homes: usize, rows: usize, value: i64) -> Rc<World> {
        let world = World::default();
        world.room.set(6);
        world.logs.borrow_mut().resize_with(homes, Log::default);
        for _ in 0..rows {
            let base = Version {
                id: 0,
                value,
                writer: Ok(Cts::ZERO),
                home: HomeId(0),
                command: CommandId(0),
            };
            world.rows.borrow_mut().push(Row { changes: 0, versions: vec![base] });
        }
        Rc::new(world)
    }

    pub fn rows(&self) -> usize {
        self.rows.borrow().len()
    }

    fn copy(&self, row: usize) -> (u64, Vec<Version>) {
        let rows = self.rows.borrow();
        (rows[row].changes, rows[row].versions.clone())
    }

    fn validate(&self, row: usize, changes: u64) -> Outcome<()> {
        if self.rows.borrow()[row].changes == changes { Ok(()) } else { Err(Stop::Retry) }
    }

    /// A row's value in the transaction's snapshot.
    pub fn read(&self, states: &TxnShared, txn: &mut Txn, row: usize) -> Outcome<i64> {
        let snapshot = txn.snapshot();
        let (changes, versions) = self.copy(row);
        for version in versions {
            match version.writer {
                Err(xid) if Some(xid) == snapshot.own => {
                    if version.command < snapshot.command {
                        return Ok(version.value);
                    }
                }
                Err(xid) => match states.judge(xid, &snapshot) {
                    Judgement::Visible(cts) => {
                        self.validate(row, changes)?;
                        txn.observe(Observed { home: version.home, cts });
                        return Ok(version.value);
                    }
                    Judgement::NotVisible => {}
                    Judgement::Wait(what) => return Err(Stop::WaitFor(what)),
                    Judgement::Reread => return Err(Stop::Retry),
                },
                Ok(cts) if cts < snapshot.timestamp => {
                    self.validate(row, changes)?;
                    txn.observe(Observed { home: version.home, cts });
                    return Ok(version.value);
                }
                Ok(_) => {}
            }
        }
        panic!("row {row} has no version for {snapshot:?}: it was collected too early");
    }

    /// Adds `delta` to a row's newest version, waiting for whoever has it in flight: in the row's
    /// queue, or at each third row as unique checks do in a key's.
    pub fn add(&self, states: &TxnShared, txn: &mut Txn, row: usize, delta: i64) -> Outcome<()> {
        let (changes, versions) = self.copy(row);
        let newest = &versions[0];
        let overwritten = match newest.writer {
            Err(xid) if xid == txn.xid() => None,
            Err(xid) => match states.fate(xid) {
                Fate::InFlight => return Err(in_the_way(xid, row)),
                Fate::Reread => return Err(Stop::Retry),
                Fate::Committed(cts) => Some(cts),
            },
            Ok(cts) => Some(cts),
        };
        let first = match key_of(row) {
            None => states.in_front(TREE, RowId(row as u64), txn.xid()),
            Some(key) => states.in_front_at_key(KEYS, key, txn.xid()),
        };
        if let (Some(_), Some(first)) = (overwritten, first) {
            return Err(in_the_way(first, row));
        }
        self.validate(row, changes)?;
        if let Some(cts) = overwritten {
            txn.observe(Observed { home: newest.home, cts });
            let too_new = cts >= txn.snapshot().timestamp;
            if too_new && txn.isolation() == Isolation::RepeatableRead {
                let detail = format!("row {row} was changed at {cts}");
                return Err(Error::SerializationFailure { detail }.into());
            }
        }
        let value = newest.value + delta;
        self.write(txn, row, value);
        Ok(())
    }

    fn write(&self, txn: &mut Txn, row: usize, value: i64) {
        let id = self.next_version.get() + 1;
        self.next_version.set(id);
        let xid = txn.xid();
        let command = txn.command();
        let home = HomeId(xid.instance().0);
        let version = Version { id, value, writer: Err(xid), home, command };
        let mut rows = self.rows.borrow_mut();
        rows[row].versions.insert(0, version);
        rows[row].changes += 1;
        let changes = txn.changes_mut();
        changes.own.push((row, id));
        changes.redo.extend_from_slice(&(row as u32).to_le_bytes());
        changes.redo.extend_from_slice(&value.to_le_bytes());
    }

    fn unlink(&self, row: usize, id: u64) {
        let mut rows = self.rows.borrow_mut();
        rows[row].versions.retain(|version| version.id != id);
        rows[row].changes += 1;
    }

    fn stamp(&self, row: usize, id: u64, cts: Cts) {
        let mut rows = self.rows.borrow_mut();
        let version = rows[row].versions.iter_mut().find(|version| version.id == id);
        version.expect("an own version stays until it is stamped").writer = Ok(cts);
        rows[row].changes += 1;
    }

    /// Makes up to `count` more records of a log durable.
    pub fn flush(&self, home: usize, count: usize) {
        let mut logs = self.logs.borrow_mut();
        logs[home].durable = (logs[home].durable + count).min(logs[home].records.len());
        // Rule 7.5, to its fixed point.
        loop {
            let mut moved = false;
            for home in 0..logs.len() {
                let at = logs[home].stable;
                if at == logs[home].durable {
                    continue;
                }
                let met = |seen: &Observed| stable(&logs, seen.home) >= seen.cts;
                if logs[home].records[at].dependencies.iter().all(met) {
                    logs[home].stable += 1;
                    moved = true;
                }
            }
            if !moved {
                return;
            }
        }
    }

    pub fn unflushed(&self, home: usize) -> usize {
        let logs = self.logs.borrow();
        logs[home].records.len() - logs[home].durable
    }

    pub fn records(&self) -> usize {
        self.logs.borrow().iter().map(|log| log.records.len()).sum()
    }

    /// What recovery would find after a crash now, when `survive` says how many records beyond
    /// the durable ones each log still has: the cut (rule 9.3), and the rows replayed.
    pub fn recover(&self, mut survive: impl FnMut(usize) -> usize) -> Recovered {
        let logs = self.logs.borrow();
        let mut cut: Vec<usize> =
            logs.iter().map(|log| log.durable + survive(log.records.len() - log.durable)).collect();
        loop {
            let end = |home: HomeId, cut: &[usize]| {
                let home = home.0 as usize;
                cut[home].checked_sub(1).map_or(Cts::ZERO, |last| logs[home].records[last].cts)
            };
            let mut shortened = false;
            for home in 0..logs.len() {
                let bad = logs[home].records[..cut[home]].iter().position(|record| {
                    record.dependencies.iter().any(|seen| seen.cts > end(seen.home, &cut))
                });
                if let Some(bad) = bad {
                    cut[home] = bad;
                    shortened = true;
                }
            }
            if !shortened {
                break;
            }
        }
        let mut all: BTreeMap<(Cts, usize), &[u8]> = BTreeMap::new();
        for (home, log) in logs.iter().enumerate() {
            for record in &log.records[..cut[home]] {
                all.insert((record.cts, home), &record.payload);
            }
        }
        let base = |row: &Row| row.versions.last().expect("the base stays").value;
        let mut rows: Vec<i64> = vec![base(&self.rows.borrow()[0]); self.rows()];
        for payload in all.values() {
            for change in payload.chunks(12) {
                let row = u32::from_le_bytes(change[..4].try_into().unwrap());
                rows[row as usize] = i64::from_le_bytes(change[4..].try_into().unwrap());
            }
        }
        Recovered { rows, commits: all.into_keys().collect() }
    }
}

/// The table that rows are of.
pub(super) const TREE: TreeId = TreeId(1);

/// The index whose keys some rows are waited for by.
pub(super) const KEYS: TreeId = TreeId(2);

/// The key that a row is waited for by, if it is one of those.
pub(super) fn key_of(row: usize) -> Option<KeyHash> {
    (row % 3 == 2).then(|| KeyHash::of(&row.to_be_bytes()))
}

fn in_the_way(holder: Xid, row: usize) -> Stop {
    Stop::WaitFor(match key_of(row) {
        None => WaitFor::Row { holder, tree: TREE, row: RowId(row as u64) },
        Some(key) => WaitFor::Key { holder, index: KEYS, key },
    })
}

fn stable(logs: &[Log], home: HomeId) -> Cts {
    let log = &logs[home.0 as usize];
    log.stable.checked_sub(1).map_or(Cts::ZERO, |last| log.records[last].cts)
}

/// What a crash leaves.
pub(super) struct Recovered {
    pub rows: Vec<i64>,
    pub commits: Vec<(Cts, usize)>,
}

/// A transaction's versions and redo.
pub(super) struct TestChanges {
    world: Rc<World>,
    own: Vec<(usize, u64)>,
    redo: Vec<u8>,
    spilled: u64,
    stamped: usize,
}

/// A savepoint.
#[derive(Clone, Copy)]
pub(super) struct Mark {
    own: usize,
    redo: u64,
}

impl TestChanges {
    pub fn mark(&self) -> Mark {
        Mark { own: self.own.len(), redo: self.spilled + self.redo.len() as u64 }
    }

    pub fn roll_back(&mut self, to: Mark) {
        for (row, id) in self.own.drain(to.own..).rev() {
            self.world.unlink(row, id);
        }
        self.redo.truncate(to.redo.saturating_sub(self.spilled) as usize);
        self.spilled = self.spilled.min(to.redo);
    }
}

impl Changes for TestChanges {
    type Tables = ();

    fn begin(&mut self, _: Xid) {
        assert!(self.own.is_empty(), "the slot's last user has ended");
        self.redo.clear();
        self.spilled = 0;
        self.stamped = 0;
    }

    fn is_empty(&self) -> bool {
        self.own.is_empty()
    }

    fn has_just_taken(&self, tree: TreeId, row: RowId) -> bool {
        assert_eq!(tree, TREE);
        self.own.last().is_some_and(|(own, _)| *own as u64 == row.0)
    }

    fn has_just_added(&self, index: TreeId, key: KeyHash) -> bool {
        assert_eq!(index, KEYS);
        self.own.last().is_some_and(|(own, _)| key_of(*own) == Some(key))
    }

    fn redo(&self) -> &[u8] {
        &self.redo
    }

    fn redo_spilled_bytes(&self) -> u64 {
        self.spilled
    }

    fn spilled(&mut self, bytes: usize) {
        self.redo.drain(..bytes);
        self.spilled += bytes as u64;
    }

    fn abort(&mut self, _: &()) {
        self.roll_back(Mark { own: 0, redo: 0 });
    }

    fn stamp(&mut self, cts: Cts, records_max: usize) -> Stamping {
        for _ in 0..records_max {
            let Some((row, id)) = self.own.get(self.stamped) else { break };
            self.world.stamp(*row, *id, cts);
            self.stamped += 1;
        }
        if self.stamped == self.own.len() { Stamping::Done } else { Stamping::More }
    }

    fn finish(&mut self, _: Cts) {
        self.own.clear();
    }
}

/// One instance's share of the world.
pub(super) struct TestEnvironment {
    pub world: Rc<World>,
    pub home: HomeId,
}

impl Environment for TestEnvironment {
    type Changes = TestChanges;
    type Room = ();
    type Chunk = (usize, u32);

    fn home(&self) -> HomeId {
        self.home
    }

    fn new_changes(&self, _: SlotId) -> TestChanges {
        let world = Rc::clone(&self.world);
        TestChanges { world, own: Vec::new(), redo: Vec::new(), spilled: 0, stamped: 0 }
    }

    fn reserve(&self, payload_bytes: usize, _: usize) -> Outcome<()> {
        assert!(payload_bytes <= self.spill_bytes(), "what is larger is spilled");
        if self.world.disk_full.get() {
            return Err(Error::DiskFull { path: "log".to_owned() }.into());
        }
        if self.world.unflushed(self.home.0 as usize) >= self.world.room.get() {
            return Err(Stop::WaitFor(WaitFor::LogRoom));
        }
        Ok(())
    }

    fn commit(
        &self,
        (): (),
        cts: Cts,
        dependencies: &[Observed],
        chunks: &[(usize, u32)],
        payload: &[u8],
    ) -> LogPosition {
        let mut logs = self.world.logs.borrow_mut();
        let log = &mut logs[self.home.0 as usize];
        assert!(log.records.last().is_none_or(|last| last.cts < cts), "cts grow along a log");
        assert!(dependencies.iter().all(|seen| seen.home != self.home));
        let mut whole = Vec::new();
        for (chunk, bytes) in chunks {
            whole.extend_from_slice(&log.chunks[*chunk][..*bytes as usize]);
        }
        whole.extend_from_slice(payload);
        log.records.push(Record { cts, dependencies: dependencies.to_vec(), payload: whole });
        LogPosition(log.records.len() as u64)
    }

    fn chunk(&self, (): (), _: Xid, payload: &[u8]) -> (usize, u32) {
        let mut logs = self.world.logs.borrow_mut();
        let chunks = &mut logs[self.home.0 as usize].chunks;
        chunks.push(payload.to_vec());
        (chunks.len() - 1, payload.len() as u32)
    }

    fn cut(&self, (chunk, _): (usize, u32), bytes: u32) -> (usize, u32) {
        (chunk, bytes)
    }

    fn spill_bytes(&self) -> usize {
        // Three changes, less one byte: chunks end within changes.
        35
    }

    fn durable(&self) -> LogPosition {
        LogPosition(self.world.logs.borrow()[self.home.0 as usize].durable as u64)
    }

    fn stable(&self, home: HomeId) -> Cts {
        stable(&self.world.logs.borrow(), home)
    }

    fn collect(&self, limit: CollectLimit, _: usize) -> Result<Collected> {
        let below = limit.horizon;
        self.world.collected_below.set(self.world.collected_below.get().max(below));
        if self.world.collection_stuck.get() {
            return Ok(Collected { more: true, ..Collected::default() });
        }
        let mut collected = Collected::default();
        for row in self.world.rows.borrow_mut().iter_mut() {
            // What comes after the first version below the horizon is seen by nobody. It goes once
            // its own writer has stamped it; the base stays for `recover`.
            let below = |version: &Version| version.writer.is_ok_and(|cts| cts < below);
            let Some(first) = row.versions.iter().position(below) else { continue };
            let (last, before) = (row.versions.len() - 1, row.versions.len());
            let mut index = 0;
            row.versions.retain(|version| {
                let keep = index <= first || index == last || version.writer.is_err();
                index += 1;
                keep
            });
            if row.versions.len() < before {
                row.changes += 1;
                collected.transactions += 1;
            }
        }
        Ok(collected)
    }
}

/// What a transaction has observed, for assertions.
pub(super) fn observed_of(txn: &Txn) -> Observations {
    txn.observed().clone()
}
