//! Prints what changes of versioned rows cost, in one thread: inserts, updates of one column,
//! snapshot reads, with stamping and collection, without slots and log. Run with
//! `cargo run --profile quick -p atoll-kernel --example row_changes [rows]`.
//! Figures only; nothing is asserted about time.

use std::cell::Cell;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Instant;

use atoll_kernel::base::{
    CommandId, Cts, HomeId, InstanceId, Observed, RowId, SlotId, TreeId, Xid,
};
use atoll_kernel::buffer::BufferPool;
use atoll_kernel::page::{ColumnType, Layout};
use atoll_kernel::tree::hints::LeafHints;
use atoll_kernel::tree::table::TableTree;
use atoll_kernel::txn::Isolation;
use atoll_kernel::txn::rows::{
    Frozen, Longs, Progress, RowReader, RowWriter, SlotChanges, Stamping,
};
use atoll_kernel::version::{
    CollectLimit, Fate, InstanceVersions, Judgement, RowBuffer, SnapshotView, TableAccess, Tables,
    TransactionStates, VersionSpace,
};

/// One transaction at a time: whoever has not stamped is the present one.
struct Alone;

impl TransactionStates for Alone {
    fn judge(&self, _: Xid, _: &SnapshotView) -> Judgement {
        Judgement::NotVisible
    }

    fn fate(&self, _: Xid) -> Fate {
        Fate::InFlight
    }
}

struct Database {
    table: Arc<TableAccess>,
    versions: Rc<InstanceVersions>,
    clock: Cell<u64>,
}

impl Tables for Database {
    fn table(&self, _: TreeId) -> Option<Arc<TableAccess>> {
        Some(self.table.clone())
    }
}

impl Database {
    fn snapshot(&self, changes: &mut SlotChanges) -> SnapshotView {
        self.clock.set(self.clock.get() + 1);
        let xid = Xid::new(InstanceId(0), SlotId(0), self.clock.get());
        changes.begin(xid);
        let timestamp = Cts(self.clock.get());
        SnapshotView { timestamp, own: Some(xid), command: CommandId(1) }
    }

    fn commit(&self, changes: &mut SlotChanges) {
        self.clock.set(self.clock.get() + 1);
        let cts = Cts(self.clock.get());
        while changes.stamp(cts, 1000) == Stamping::More {}
        changes.finish(cts);
    }

    fn collect(&self, records: usize) -> usize {
        let limit = CollectLimit { horizon: Cts(self.clock.get()), stable: Cts::MAX };
        self.versions.collect(limit, self, records).transactions
    }

    fn write<R>(
        &self,
        snapshot: SnapshotView,
        changes: &mut SlotChanges,
        call: impl FnOnce(&mut RowWriter<'_>) -> R,
    ) -> R {
        let mut observed: Vec<Observed> = Vec::new();
        call(&mut RowWriter {
            snapshot,
            isolation: Isolation::ReadCommitted,
            states: &Alone,
            observed: &mut observed,
            changes,
        })
    }
}

/// Nanoseconds that this thread has run (other processes may share the machine), if Linux says so.
fn processor_ns() -> Option<u64> {
    std::thread::yield_now();
    std::fs::read_to_string("/proc/thread-self/schedstat").ok()?.split(' ').next()?.parse().ok()
}

fn timed(what: &str, count: u64, body: impl FnOnce() -> u64) {
    let (start, ran) = (Instant::now(), processor_ns());
    let check = body();
    let ran = processor_ns().zip(ran).map_or(0, |(after, before)| after - before);
    let wall = start.elapsed().as_nanos() as f64 / count as f64;
    let ns = ran as f64 / count as f64;
    println!("{what:<56} {ns:>7.1} ns of processor, {wall:>7.1} ns passed  ({check})");
}

fn open(rows: u64) -> (Database, SlotChanges) {
    let pool = BufferPool::new(1, rows as usize * 160 + (64 << 20)).expect("memory for the pool");
    let space = VersionSpace::new(1);
    let columns = vec![ColumnType::Int4, ColumnType::Int4, ColumnType::Int4, ColumnType::Bytes];
    let layout = Layout::new(1, columns).expect("a small layout");
    let tree = TableTree::create(&pool, HomeId(0), TreeId(1), layout, space.clone());
    let tree = Arc::new(tree.expect("room for a tree"));
    let table = Arc::new(TableAccess::new(tree, Vec::new(), space.clone()));
    let versions = InstanceVersions::new(space, InstanceId(0), 256 << 20, LeafHints::new(16));
    let changes = SlotChanges::new(&versions, SlotId(0));
    (Database { table, versions, clock: Cell::new(10) }, changes)
}

/// Inserts all rows, 100 a transaction.
fn insert(database: &Database, changes: &mut SlotChanges, rows: u64) {
    let filler = [b' '; 84];
    timed("insert of 96 bytes, 100 a transaction, with collection", rows, || {
        for n in 0..rows / 100 {
            let snapshot = database.snapshot(changes);
            for row in 0..100 {
                let number = ((n * 100 + row) as u32).to_le_bytes();
                let values: [Option<&[u8]>; 4] =
                    [Some(&number), Some(&number), Some(&number), Some(&filler)];
                database
                    .write(snapshot, changes, |w| {
                        let how = (Frozen::No, &mut Longs::new());
                        w.insert(&database.table, &values, how, &mut Progress::default())
                    })
                    .expect("room");
            }
            database.commit(changes);
            database.collect(1000);
        }
        rows
    });
}

/// Updates `count` random rows among the first `among`, each in a transaction of its own.
fn update(
    database: &Database,
    changes: &mut SlotChanges,
    (what, count, among): (&str, u64, u64),
    collect_every: Option<u64>,
) {
    let mut random = fastrand::Rng::with_seed(1);
    timed(what, count, || {
        let mut collected = 0;
        for n in 0..count {
            let row = RowId(random.u64(1..=among));
            let value = (n as u32).to_le_bytes();
            let snapshot = database.snapshot(changes);
            database
                .write(snapshot, changes, |w| {
                    let new = [(2, Some(&value[..]))];
                    w.update(&database.table, row, &new, &mut Progress::default())
                })
                .expect("alone");
            database.commit(changes);
            if collect_every.is_some_and(|every| n % every == 0) {
                collected += database.collect(1000) as u64;
            }
        }
        collected
    });
}

fn read(database: &Database, snapshot: SnapshotView, what: &str, among: u64) {
    let mut random = fastrand::Rng::with_seed(2);
    let mut out = RowBuffer::new();
    let mut observed: Vec<Observed> = Vec::new();
    let hints = LeafHints::new(16);
    timed(what, 1_000_000, || {
        let mut columns = 0;
        for _ in 0..1_000_000 {
            let row = RowId(random.u64(1..=among));
            let observed = &mut observed;
            let mut reader = RowReader { snapshot, states: &Alone, observed, hints: &hints };
            reader.read(&database.table, row, &[0, 2], &mut out).expect("alone");
            columns += out.len() as u64;
        }
        columns
    });
}

fn main() {
    let rows: u64 = std::env::args().nth(1).and_then(|n| n.parse().ok()).unwrap_or(500_000);
    let few = rows.min(20_000);
    let (database, mut changes) = open(rows);
    insert(&database, &mut changes, rows);
    for (what, among) in [
        ("update of 1 column, own transaction, one hot row", 1),
        ("update of 1 column, own transaction, random, in cache", few),
        ("update of 1 column, own transaction, random", rows),
    ] {
        update(&database, &mut changes, (what, 1_000_000, among), Some(64));
    }
    let what = "update of 1 column without collection, in cache";
    update(&database, &mut changes, (what, 200_000, few), None);
    let snapshot = database.snapshot(&mut changes);
    let old = SnapshotView { timestamp: Cts(snapshot.timestamp.0 - 400_000), ..snapshot };
    read(&database, snapshot, "snapshot read of 2 columns, newest record visible", few);
    read(&database, old, "snapshot read of 2 columns, about 10 records undone", few);
    timed("collection of 200,000 updates", 200_000, || database.collect(usize::MAX) as u64);
    read(&database, snapshot, "snapshot read of 2 columns, nothing to undo", few);
}
