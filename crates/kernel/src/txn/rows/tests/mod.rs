//! Row operations, versions and collection together, over real trees and a fake of the slots.
//!
//! [`World`] is a database's worth of trees and instances on one thread; transactions are
//! interleaved by the test at the grain of operations. The fake answers rule 3.5's questions from
//! a table; the real handshakes have models of their own in `txn::slot`.

mod ahead;
mod conflicts;
mod exact;
mod model;
mod passed;
mod postponed;
mod rules;
mod runs;
mod stress;
mod together;

use std::cell::RefCell;
use std::collections::HashMap;
use std::ops::Bound;
use std::rc::Rc;
use std::sync::Arc;

use super::{
    Frozen, GivenBack, KeyCheck, Longs, Mark, Progress, RowBatch, RowReader, RowValues, RowWriter,
    RowsProgress, SlotChanges, Stamping, UpdatesProgress,
};
use super::{WriteOutcome, read_newest};
use crate::base::{
    CommandId, Cts, Error, HomeId, InstanceId, Observed, Outcome, RowId, SlotId, Stop, TreeId,
    WaitFor, Xid,
};
use crate::buffer::BufferPool;
use crate::page::{ColumnType, Layout};
use crate::tree::hints::LeafHints;
use crate::tree::index::{IndexBatch, IndexTree, Keyed, Near, ScanDirection};
use crate::tree::key::{KeyPart, encode_key};
use crate::tree::table::TableTree;
use crate::txn::Isolation;
use crate::version::undo::newest_of;
use crate::version::{
    CollectLimit, Collected, Fate, IndexAccess, InstanceVersions, Judgement, Presence, RowBuffer,
    SnapshotView, TableAccess, Tables, TransactionStates, Unique, VersionSpace,
};

const TABLE: TreeId = TreeId(1);
const BY_KEY: TreeId = TreeId(2);
const BY_GROUP: TreeId = TreeId(3);

/// Columns: key (int4, unique index, null allowed), group (int4) and text (bytes) in a second
/// index, balance (int8) and note (bytes, may be long) in none.
const KEY: u16 = 0;
const GROUP: u16 = 1;
const TEXT: u16 = 2;
const BALANCE: u16 = 3;
const NOTE: u16 = 4;
const ALL: [u16; 5] = [KEY, GROUP, TEXT, BALANCE, NOTE];

/// The columns of an update with their new values.
type Changed = Vec<(u16, Option<Vec<u8>>)>;

/// What a slot says.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum State {
    Active,
    Preparing(Cts),
    Committed(Cts),
    Ended,
}

/// The fake of all slots: one state per xid.
#[derive(Default)]
struct Slots {
    states: RefCell<HashMap<u64, State>>,
}

impl Slots {
    fn set(&self, xid: Xid, state: State) {
        self.states.borrow_mut().insert(xid.raw(), state);
    }

    fn get(&self, xid: Xid) -> State {
        *self.states.borrow().get(&xid.raw()).expect("a known transaction")
    }
}

impl TransactionStates for Slots {
    fn judge(&self, xid: Xid, snapshot: &SnapshotView) -> Judgement {
        assert_ne!(Some(xid), snapshot.own, "own changes are judged by their command");
        match self.get(xid) {
            State::Active => Judgement::NotVisible,
            State::Preparing(cts) | State::Committed(cts) if cts >= snapshot.timestamp => {
                Judgement::NotVisible
            }
            State::Preparing(_) => Judgement::Wait(WaitFor::Decision(xid)),
            State::Committed(cts) => Judgement::Visible(cts),
            State::Ended => Judgement::Reread,
        }
    }

    fn fate(&self, xid: Xid) -> Fate {
        match self.get(xid) {
            State::Active | State::Preparing(_) => Fate::InFlight,
            State::Committed(cts) => Fate::Committed(cts),
            State::Ended => Fate::Reread,
        }
    }
}

struct World {
    table: Arc<TableAccess>,
    instances: Vec<Rc<InstanceVersions>>,
    slots: Slots,
    clock: u64,
    sequence: u64,
    /// Slots that ended transactions used, by instance.
    free: Vec<Vec<(SlotId, SlotChanges)>>,
    slots_made: u16,
}

impl Tables for World {
    fn table(&self, id: TreeId) -> Option<Arc<TableAccess>> {
        (id == TABLE).then(|| Arc::clone(&self.table))
    }
}

/// A transaction that runs.
struct Txn {
    instance: usize,
    slot: SlotId,
    xid: Xid,
    snapshot: SnapshotView,
    isolation: Isolation,
    changes: SlotChanges,
    observed: Vec<Observed>,
}

fn columns() -> Vec<ColumnType> {
    let bytes = ColumnType::Bytes;
    vec![ColumnType::Int4, ColumnType::Int4, bytes, ColumnType::Int8, bytes]
}

fn part(column: u16) -> KeyPart {
    KeyPart::ascending(columns()[column as usize])
}

/// The trees of a test.
fn access(pool: &Arc<BufferPool>, space: &Arc<VersionSpace>) -> Arc<TableAccess> {
    let layout = Layout::new(1, columns()).expect("fits");
    let side = Arc::clone(space);
    let tree = TableTree::create(pool, HomeId(0), TABLE, layout, side).expect("the pool has room");
    let index = |id, columns: &[u16], unique| IndexAccess {
        tree: Arc::new(IndexTree::create(Arc::clone(pool), HomeId(0), id).expect("room")),
        parts: columns.iter().map(|column| part(*column)).collect(),
        columns: columns.to_vec(),
        unique,
    };
    let indexes =
        vec![index(BY_KEY, &[KEY], Unique::Yes), index(BY_GROUP, &[GROUP, TEXT], Unique::No)];
    Arc::new(TableAccess::new(Arc::new(tree), indexes, Arc::clone(space)))
}

impl World {
    fn new(instances: usize) -> World {
        World::with_undo(instances, 64 << 20)
    }

    fn with_undo(instances: usize, undo_bytes: u64) -> World {
        let space = VersionSpace::new(instances);
        let pool = BufferPool::new(instances, 64 << 20).expect("memory");
        let table = access(&pool, &space);
        let make = |i| {
            let hints = LeafHints::of_pool(pool.frames(), instances);
            InstanceVersions::new(Arc::clone(&space), InstanceId(i as u16), undo_bytes, hints)
        };
        World {
            table,
            instances: (0..instances).map(make).collect(),
            slots: Slots::default(),
            clock: 100,
            sequence: 0,
            free: (0..instances).map(|_| Vec::new()).collect(),
            slots_made: 0,
        }
    }

    fn begin(&mut self, instance: usize, isolation: Isolation) -> Txn {
        self.sequence += 1;
        let (slot, mut changes) = self.free[instance].pop().unwrap_or_else(|| {
            self.slots_made += 1;
            let slot = SlotId(self.slots_made - 1);
            (slot, SlotChanges::new(&self.instances[instance], slot))
        });
        let xid = Xid::new(InstanceId(instance as u16), slot, self.sequence);
        changes.begin(xid);
        self.slots.set(xid, State::Active);
        let timestamp = Cts(self.clock);
        let snapshot = SnapshotView { timestamp, own: Some(xid), command: CommandId(1) };
        Txn { instance, slot, xid, snapshot, isolation, changes, observed: Vec::new() }
    }

    /// A READ COMMITTED transaction on instance 0.
    fn rc(&mut self) -> Txn {
        self.begin(0, Isolation::ReadCommitted)
    }

    /// A REPEATABLE READ transaction on instance 0.
    fn rr(&mut self) -> Txn {
        self.begin(0, Isolation::RepeatableRead)
    }

    fn commit(&mut self, mut txn: Txn) -> Cts {
        self.clock += 1;
        let cts = Cts(self.clock);
        self.clock += 1;
        self.slots.set(txn.xid, State::Committed(cts));
        while txn.changes.stamp(cts, 2) == Stamping::More {}
        txn.changes.finish(cts);
        self.slots.set(txn.xid, State::Ended);
        self.free[txn.instance].push((txn.slot, txn.changes));
        cts
    }

    fn abort(&mut self, mut txn: Txn) {
        txn.changes.abort(self);
        self.slots.set(txn.xid, State::Ended);
        self.free[txn.instance].push((txn.slot, txn.changes));
    }

    /// Collects on all instances whatever `horizon` lets go; twice, for the twin tables.
    fn collect(&self, horizon: Cts) -> Collected {
        let limit = CollectLimit { horizon, stable: Cts::MAX };
        let mut last = Collected::default();
        for round in 0..2 {
            for instance in &self.instances {
                let limit = CollectLimit { horizon: Cts(limit.horizon.0 + round), ..limit };
                last = instance.collect(limit, self, usize::MAX);
            }
        }
        last
    }

    /// All entries of an index.
    fn entries(&self, index: usize) -> Vec<(Vec<u8>, RowId)> {
        self.entries_of(index, &[]).into_iter().map(|(key, row, _)| (key, row)).collect()
    }

    /// The entries of an index whose keys begin with `prefix`, and what their leaves' bits say.
    fn entries_of(&self, index: usize, prefix: &[u8]) -> Vec<(Vec<u8>, RowId, Keyed)> {
        let tree = &self.table.indexes[index].tree;
        let mut batch = IndexBatch::new();
        let mut found = Vec::new();
        let mut from = prefix.to_vec();
        loop {
            let bounds = (Bound::Included(&from[..]), Bound::Included(prefix));
            let to = if prefix.is_empty() { Bound::Unbounded } else { bounds.1 };
            let next = tree.scan(bounds.0, to, ScanDirection::Forward, &mut batch);
            let entry = |at| (batch.key(at).to_vec(), batch.row(at), batch.keyed());
            found.extend((0..batch.len()).map(entry));
            match next.expect("nobody writes") {
                Some(next) => from = next.key,
                None => return found,
            }
        }
    }

    /// The leaves of an index, in its order.
    fn leaves(&self, index: usize) -> Vec<IndexBatch> {
        let tree = &self.table.indexes[index].tree;
        let (mut leaves, mut from) = (Vec::new(), Vec::new());
        loop {
            let mut batch = IndexBatch::new();
            let bounds = (Bound::Included(&from[..]), Bound::Unbounded);
            let next = tree.scan(bounds.0, bounds.1, ScanDirection::Forward, &mut batch);
            leaves.push(batch);
            match next.expect("nobody writes") {
                Some(next) => from = next.key,
                None => return leaves,
            }
        }
    }

    /// The newest rows as the pages have them, deleted ones too (as none).
    fn page_rows(&self) -> Vec<(RowId, Option<Row>)> {
        let mut found = Vec::new();
        let mut from = Some(RowId(0));
        while let Some(at) = from {
            let (rows, next) = self
                .table
                .tree
                .scan_leaf(at, &mut |leaf: &crate::tree::table::LeafView<'_>| {
                    Ok((0..leaf.count())
                        .map(|slot| leaf.row_id(crate::page::rowleaf::SlotIndex(slot as u16)))
                        .collect::<Vec<_>>())
                })
                .expect("nobody writes");
            for row in rows {
                let mut out = RowBuffer::new();
                let present = read_newest(&self.table, row, &ALL, &mut out).expect("nobody writes");
                found.push((row, (present == Presence::Present).then(|| Row::of(&out))));
            }
            from = next;
        }
        found
    }

    /// After all transactions have ended and everything is collected, nothing of versions is left
    /// and the indexes agree with the rows.
    fn assert_clean(&self, context: &str) {
        let mut by_key = Vec::new();
        let mut by_group = Vec::new();
        for (row, found) in self.page_rows() {
            let found = found.unwrap_or_else(|| panic!("{context}: {row} is deleted but there"));
            by_key.push((found.index_key(0), row));
            by_group.push((found.index_key(1), row));
            self.table
                .tree
                .read(row, &mut |leaf| {
                    assert_eq!(leaf.reserved(), 0, "{context}: bytes reserved beside {row}");
                    let none = newest_of(leaf.side(), row).is_none();
                    assert!(none && leaf.side().load().is_null(), "{context}: twin of {row}");
                    Ok(())
                })
                .expect("nobody writes");
        }
        by_key.sort();
        by_group.sort();
        for (index, expected) in [by_key, by_group].iter().enumerate() {
            let found = self.entries(index);
            let more: Vec<_> = found.iter().filter(|it| !expected.contains(it)).collect();
            let fewer: Vec<_> = expected.iter().filter(|it| !found.contains(it)).collect();
            let none: Vec<&(Vec<u8>, RowId)> = Vec::new();
            assert_eq!((more, fewer), (none.clone(), none), "{context}: index {index}");
        }
        assert_eq!(self.table.tree.check().expect("readable"), Vec::<String>::new(), "{context}");
        for instance in &self.instances {
            assert_eq!(instance.undo_bytes(), 0, "{context}: undo is left");
            assert_eq!(instance.finished(), 0, "{context}: a transaction is left");
        }
    }
}

/// A row's values.
#[derive(Clone, PartialEq, Eq, Debug)]
struct Row {
    key: Option<i32>,
    group: i32,
    text: Option<Vec<u8>>,
    balance: i64,
    note: Option<Vec<u8>>,
}

impl Row {
    fn new(key: i32, group: i32, text: &[u8], balance: i64) -> Row {
        Row { key: Some(key), group, text: Some(text.to_vec()), balance, note: None }
    }

    fn with_note(self, note: &[u8]) -> Row {
        Row { note: Some(note.to_vec()), ..self }
    }

    fn of(buffer: &RowBuffer) -> Row {
        let int4 = |at| {
            buffer.column(at).map(|b: &[u8]| i32::from_le_bytes(b.try_into().expect("4 bytes")))
        };
        Row {
            key: int4(0),
            group: int4(1).expect("not null"),
            text: buffer.column(2).map(<[u8]>::to_vec),
            balance: i64::from_le_bytes(
                buffer.column(3).expect("not null").try_into().expect("8 bytes"),
            ),
            note: buffer.column(4).map(<[u8]>::to_vec),
        }
    }

    /// The columns' bytes.
    fn bytes(&self) -> [Option<Vec<u8>>; 5] {
        [
            self.key.map(|key| key.to_le_bytes().to_vec()),
            Some(self.group.to_le_bytes().to_vec()),
            self.text.clone(),
            Some(self.balance.to_le_bytes().to_vec()),
            self.note.clone(),
        ]
    }

    fn index_key(&self, index: usize) -> Vec<u8> {
        let bytes = self.bytes();
        let columns: &[u16] = if index == 0 { &[KEY] } else { &[GROUP, TEXT] };
        let parts: Vec<KeyPart> = columns.iter().map(|column| part(*column)).collect();
        let values: Vec<_> = columns.iter().map(|c| bytes[*c as usize].as_deref()).collect();
        let mut key = Vec::new();
        encode_key(&parts, &values, &mut key);
        key
    }
}

impl Txn {
    fn writer<'a>(&'a mut self, world: &'a World) -> RowWriter<'a> {
        RowWriter {
            snapshot: self.snapshot,
            isolation: self.isolation,
            states: &world.slots,
            observed: &mut self.observed,
            changes: &mut self.changes,
        }
    }

    fn reader<'a>(&'a mut self, world: &'a World) -> RowReader<'a> {
        let SlotChanges { versions, .. } = &self.changes;
        let (states, observed) = (&world.slots, &mut self.observed);
        RowReader { snapshot: self.snapshot, states, observed, hints: &versions.hints }
    }

    /// A new command; in READ COMMITTED with a new snapshot.
    fn next_command(&mut self, world: &World) {
        self.snapshot.command.0 += 1;
        if self.isolation == Isolation::ReadCommitted {
            self.snapshot.timestamp = Cts(world.clock);
        }
    }

    fn mark(&self) -> Mark {
        self.changes.mark()
    }

    fn try_insert(&mut self, world: &World, row: &Row, progress: &mut Progress) -> Outcome<RowId> {
        let bytes = row.bytes();
        let values: Vec<_> = bytes.iter().map(Option::as_deref).collect();
        let how = (Frozen::No, &mut Longs::new());
        self.writer(world).insert(&world.table, &values, how, progress)
    }

    fn try_insert_rows(
        &mut self,
        world: &World,
        rows: &[Row],
        ids: &mut Vec<RowId>,
        progress: &mut RowsProgress,
    ) -> Outcome<()> {
        let bytes: Vec<_> = rows.iter().flat_map(Row::bytes).collect();
        let values: Vec<_> = bytes.iter().map(Option::as_deref).collect();
        let how = (RowValues::new(&values, rows.len()), Frozen::No);
        self.writer(world).insert_rows(&world.table, how, ids, progress)
    }

    /// The row that holds a key of the unique index.
    fn holder(&mut self, world: &World, key: i32) -> Outcome<Option<RowId>> {
        let key = Row::new(key, 0, b"", 0).index_key(0);
        let index = &world.table.indexes[0];
        self.writer(world).unique_holder(&world.table, (index, &key), &mut Vec::new())
    }

    fn insert(&mut self, world: &World, row: &Row) -> RowId {
        self.try_insert(world, row, &mut Progress::default()).expect("nothing is in the way")
    }

    fn try_update(
        &mut self,
        world: &World,
        row: RowId,
        changes: &[(u16, Option<Vec<u8>>)],
        progress: &mut Progress,
    ) -> Outcome<WriteOutcome> {
        let changes: Vec<_> = changes.iter().map(|(c, value)| (*c, value.as_deref())).collect();
        self.writer(world).update(&world.table, row, &changes, progress)
    }

    fn update(&mut self, world: &World, row: RowId, changes: &[(u16, Option<Vec<u8>>)]) {
        let done = self.try_update(world, row, changes, &mut Progress::default());
        assert_eq!(done.expect("nothing is in the way"), WriteOutcome::Done);
    }

    /// Changes balances of several rows by one call.
    fn try_update_rows(
        &mut self,
        world: &World,
        (rows, balances): (&[RowId], &[i64]),
        progress: &mut UpdatesProgress,
    ) -> Outcome<WriteOutcome> {
        let bytes: Vec<_> = balances.iter().map(|balance| balance.to_le_bytes()).collect();
        let values: Vec<_> = bytes.iter().map(|bytes| Some(&bytes[..])).collect();
        let what = (rows, RowValues::new(&values, rows.len()));
        self.writer(world).update_rows(&world.table, &[BALANCE], what, progress)
    }

    fn set_balance(&mut self, world: &World, row: RowId, balance: i64) -> Outcome<WriteOutcome> {
        let changes = [(BALANCE, Some(balance.to_le_bytes().to_vec()))];
        self.try_update(world, row, &changes, &mut Progress::default())
    }

    fn delete(&mut self, world: &World, row: RowId) -> Outcome<WriteOutcome> {
        self.writer(world).delete(&world.table, row, &mut Progress::default())
    }

    fn lock(&mut self, world: &World, row: RowId) -> Outcome<WriteOutcome> {
        self.writer(world).lock_row(&world.table, row)
    }

    fn try_read(&mut self, world: &World, row: RowId) -> Outcome<Option<Row>> {
        let mut out = RowBuffer::new();
        let present = self.reader(world).read(&world.table, row, &ALL, &mut out)?;
        Ok((present == Presence::Present).then(|| Row::of(&out)))
    }

    fn read(&mut self, world: &World, row: RowId) -> Option<Row> {
        self.try_read(world, row).expect("nobody is deciding")
    }

    /// The rows that the whole table has for this snapshot.
    fn scan(&mut self, world: &World) -> Vec<(RowId, Row)> {
        let mut batch = RowBatch::new();
        let mut out = RowBuffer::new();
        let mut found = Vec::new();
        let mut from = Some(RowId(0));
        while let Some(at) = from {
            from = self.reader(world).scan(&world.table, at, &ALL, &mut batch).expect("no wait");
            for row in 0..batch.len() {
                batch.copy_to(row, &mut out);
                found.push((batch.row(row), Row::of(&out)));
            }
        }
        found
    }

    /// The rows that the index of number `index` leads this snapshot to, by entries whose keys
    /// begin with `prefix`.
    fn find(&mut self, world: &World, index: usize, prefix: &[u8]) -> Vec<(RowId, Row)> {
        let access = &world.table.indexes[index];
        let (mut out, mut check) = (RowBuffer::new(), KeyCheck::new());
        let mut found = Vec::new();
        for (key, row, keyed) in world.entries_of(index, prefix) {
            let place = (access, &key[..], keyed);
            let present = self
                .reader(world)
                .read_by_key(&world.table, place, row, &ALL, (&mut out, &mut check))
                .expect("nobody is deciding");
            if present == Presence::Present {
                found.push((row, Row::of(&out)));
            }
        }
        found
    }
}

/// Whether the outcome is a wait for the end of `xid`.
fn waits_for<T: std::fmt::Debug>(outcome: &Outcome<T>, xid: Xid) -> bool {
    match outcome {
        Err(Stop::WaitFor(WaitFor::Key { holder, index: BY_KEY, .. })) => *holder == xid,
        Err(Stop::WaitFor(WaitFor::Row { holder, tree: TABLE, .. })) => *holder == xid,
        _ => false,
    }
}

fn violates<T>(outcome: &Outcome<T>) -> bool {
    matches!(outcome, Err(Stop::Error(Error::UniqueViolation { index })) if *index == BY_KEY)
}

fn seed(default: u64) -> u64 {
    let seed = std::env::var("ATOLL_SEED").ok().and_then(|seed| seed.parse().ok());
    let seed = seed.unwrap_or(default);
    println!("ATOLL_SEED={seed}");
    seed
}
