//! Real threads over shared trees: transfers, moved rows, snapshots that must add up, collection
//! beside them. The slots are a small honest implementation of rules 3.4, 3.5 and 6.8.

use std::time::{Duration, Instant};

use super::*;
use crate::sync::{AtomicU64, Ordering::SeqCst};
use crate::txn::rows::{PointAhead, PointRows, prefetch_points};

const THREADS: usize = 3;
const ACCOUNTS: i32 = 48;
const TOTAL: i64 = ACCOUNTS as i64 * 1000;

const ACTIVE: u64 = 0;
const PREPARING: u64 = 1;
const COMMITTED: u64 = 2;

/// One slot per instance.
#[derive(Default)]
struct SharedSlots {
    words: [AtomicU64; THREADS],
    cts: [AtomicU64; THREADS],
    /// The oldest snapshot of each instance, or MAX.
    floors: [AtomicU64; THREADS],
    clock: AtomicU64,
}

fn word(sequence: u64, state: u64) -> u64 {
    sequence << 2 | state
}

impl TransactionStates for SharedSlots {
    fn judge(&self, xid: Xid, snapshot: &SnapshotView) -> Judgement {
        let slot = xid.instance().0 as usize;
        let seen = self.words[slot].load(SeqCst);
        let cts = Cts(self.cts[slot].load(SeqCst));
        if self.words[slot].load(SeqCst) != seen {
            return Judgement::Wait(WaitFor::Decision(xid));
        }
        match seen & 3 {
            _ if seen >> 2 != xid.sequence() => Judgement::Reread,
            ACTIVE => Judgement::NotVisible,
            PREPARING if cts == Cts::ZERO => Judgement::Wait(WaitFor::Decision(xid)),
            _ if cts >= snapshot.timestamp => Judgement::NotVisible,
            PREPARING => Judgement::Wait(WaitFor::Decision(xid)),
            _ => Judgement::Visible(cts),
        }
    }

    fn fate(&self, xid: Xid) -> Fate {
        let slot = xid.instance().0 as usize;
        // The state first: a timestamp read before it may be older than the state.
        let seen = self.words[slot].load(SeqCst);
        let cts = Cts(self.cts[slot].load(SeqCst));
        if self.words[slot].load(SeqCst) != seen {
            return Fate::Reread;
        }
        match seen {
            seen if seen >> 2 != xid.sequence() => Fate::Reread,
            seen if seen & 3 == COMMITTED => Fate::Committed(cts),
            _ => Fate::InFlight,
        }
    }
}

struct Shared {
    slots: SharedSlots,
    table: Arc<TableAccess>,
    space: Arc<VersionSpace>,
}

impl Tables for Shared {
    fn table(&self, _: TreeId) -> Option<Arc<TableAccess>> {
        Some(Arc::clone(&self.table))
    }
}

/// What one thread does its transactions with.
struct Worker<'s> {
    shared: &'s Shared,
    me: usize,
    versions: Rc<InstanceVersions>,
    changes: SlotChanges,
    sequence: u64,
    observed: Vec<Observed>,
    random: fastrand::Rng,
    counts: [u64; 4],
    /// When something is wrong: a thread that failed may have left others waiting.
    deadline: Instant,
}

type Find = (RowId, i64, usize);

impl Worker<'_> {
    fn begin(&mut self) -> SnapshotView {
        let slots = &self.shared.slots;
        self.sequence += 1;
        slots.cts[self.me].store(0, SeqCst);
        slots.words[self.me].store(word(self.sequence, ACTIVE), SeqCst);
        let xid = Xid::new(InstanceId(self.me as u16), SlotId(0), self.sequence);
        self.changes.begin(xid);
        // The floor first, then the snapshot: a collector that misses the one is below the other.
        slots.floors[self.me].store(slots.clock.load(SeqCst), SeqCst);
        let timestamp = Cts(slots.clock.load(SeqCst));
        SnapshotView { timestamp, own: Some(xid), command: CommandId(1) }
    }

    fn commit(&mut self) {
        let slots = &self.shared.slots;
        slots.words[self.me].store(word(self.sequence, PREPARING), SeqCst);
        let cts = Cts(slots.clock.fetch_add(1, SeqCst));
        slots.cts[self.me].store(cts.0, SeqCst);
        slots.words[self.me].store(word(self.sequence, COMMITTED), SeqCst);
        while self.changes.stamp(cts, 1) == Stamping::More {}
        self.changes.finish(cts);
        self.end();
    }

    fn abort(&mut self) {
        self.changes.abort(self.shared);
        self.end();
    }

    fn end(&mut self) {
        let slots = &self.shared.slots;
        slots.words[self.me].store(word(self.sequence + 1, ACTIVE), SeqCst);
        slots.floors[self.me].store(u64::MAX, SeqCst);
    }

    fn collect(&mut self) {
        let slots = &self.shared.slots;
        let clock = slots.clock.load(SeqCst);
        let floors = slots.floors.iter().map(|floor| floor.load(SeqCst));
        let horizon = Cts(floors.min().unwrap_or(clock).min(clock));
        let limit = CollectLimit { horizon, stable: Cts::MAX };
        let done = self.versions.collect(limit, self.shared, 200);
        self.counts[3] += done.transactions as u64;
    }

    /// Runs a core operation until it is done; none if it must wait for another's end or fails.
    fn run<T>(&mut self, mut call: impl FnMut(&mut Self) -> Outcome<T>) -> Option<T> {
        loop {
            assert!(Instant::now() < self.deadline, "stuck");
            match call(self) {
                Ok(done) => return Some(done),
                Err(Stop::Retry | Stop::WaitFor(WaitFor::Decision(_))) => std::thread::yield_now(),
                Err(Stop::WaitFor(WaitFor::Key { .. } | WaitFor::Row { .. })) => return None,
                Err(Stop::Error(Error::SerializationFailure { .. })) => return None,
                Err(stop) => panic!("{stop:?}"),
            }
        }
    }

    fn find(&mut self, snapshot: SnapshotView, key: i32) -> Find {
        let wanted = Row::new(key, 0, b"", 0).index_key(0);
        let (mut out, mut check) = (RowBuffer::new(), KeyCheck::new());
        let mut rows = Vec::new();
        let index = &self.shared.table.indexes[0];
        let table = &*self.shared.table;
        let point = PointAhead::at((table, index), &wanted, &ALL);
        let points = [point];
        prefetch_points(&points, &self.versions.hints);
        // Some time later.
        for _ in 0..key % 5 {
            std::thread::yield_now();
        }
        let keyed = self.run(|worker| {
            rows.clear();
            if let Some((row, keyed)) = points[0].place.get().entry() {
                rows.push(row);
                return Ok(keyed);
            }
            index.tree.point(Near::Hints(&worker.versions.hints), &wanted, &mut rows)
        });
        let keyed = keyed.expect("reads wait for nobody's end");
        let mut found = Vec::new();
        for row in rows {
            let present = self.run(|worker| {
                let mut reader = RowReader {
                    snapshot,
                    states: &worker.shared.slots,
                    observed: &mut worker.observed,
                    hints: &worker.versions.hints,
                };
                let place = (index, &wanted[..], keyed);
                let table = &worker.shared.table;
                reader.read_by_key(table, place, row, &ALL, (&mut out, &mut check))
            });
            if present == Some(Presence::Present) {
                let version = Row::of(&out);
                found.push((row, version.balance, version.note.map_or(0, |note| note.len())));
            }
        }
        assert_eq!(found.len(), 1, "every snapshot has each key once, {key}: {found:?}");
        let (mut together, mut memory) = (PointRows::new(), Vec::new());
        self.run(|worker| {
            let mut reader = RowReader {
                snapshot,
                states: &worker.shared.slots,
                observed: &mut worker.observed,
                hints: &worker.versions.hints,
            };
            reader.read_points(&points, &mut memory, (&mut together, &mut check))
        });
        let balance = Row::of(&together.cells).balance;
        assert_eq!((together.row(0), balance), (Some(found[0].0), found[0].1), "key {key}");
        found[0]
    }

    fn write(
        &mut self,
        snapshot: SnapshotView,
        call: &mut dyn FnMut(&mut RowWriter<'_>, &TableAccess) -> Outcome<()>,
    ) -> bool {
        self.run(|worker| {
            let mut writer = RowWriter {
                snapshot,
                isolation: Isolation::RepeatableRead,
                states: &worker.shared.slots,
                observed: &mut worker.observed,
                changes: &mut worker.changes,
            };
            call(&mut writer, &worker.shared.table)
        })
        .is_some()
    }

    fn set(&mut self, snapshot: SnapshotView, row: RowId, balance: i64, note: usize) -> bool {
        let (balance, note) = (balance.to_le_bytes(), vec![b'x'; note]);
        let changes = [(BALANCE, Some(&balance[..])), (NOTE, Some(&note[..]))];
        let mut progress = Progress::default();
        self.write(snapshot, &mut |writer, table| {
            assert_eq!(writer.update(table, row, &changes, &mut progress)?, WriteOutcome::Done);
            Ok(())
        })
    }

    fn transfer(&mut self) {
        let snapshot = self.begin();
        let (one, other) = (self.random.i32(0..ACCOUNTS), self.random.i32(0..ACCOUNTS));
        if one == other {
            return self.abort();
        }
        let amount = self.random.i64(1..50);
        let (from, from_balance, _) = self.find(snapshot, one);
        let (to, to_balance, len) = self.find(snapshot, other);
        let len = (len * 3 + 7) % 200;
        let done = self.set(snapshot, from, from_balance - amount, len)
            && self.set(snapshot, to, to_balance + amount, len / 2);
        if done && self.random.u8(..8) > 0 {
            self.counts[0] += 1;
            self.commit();
        } else {
            self.abort();
        }
    }

    /// Deletes an account and inserts it as a new row, or gives two accounts each other's key.
    fn replace(&mut self) {
        let snapshot = self.begin();
        let key = self.random.i32(0..ACCOUNTS);
        let (row, balance, len) = self.find(snapshot, key);
        let mut progress = Progress::default();
        let mut done = self.write(snapshot, &mut |writer, table| {
            assert_eq!(writer.delete(table, row, &mut progress)?, WriteOutcome::Done);
            Ok(())
        });
        let new = Row::new(key, key % 5, b"again", balance).with_note(&vec![b'y'; len]);
        let bytes = new.bytes();
        let values: Vec<_> = bytes.iter().map(Option::as_deref).collect();
        let mut progress = Progress::default();
        let later = SnapshotView { command: CommandId(2), ..snapshot };
        done = done
            && self.write(later, &mut |writer, table| {
                writer
                    .insert(table, &values, (Frozen::No, &mut Longs::new()), &mut progress)
                    .map(|_| ())
            });
        if done && self.random.u8(..4) > 0 {
            self.counts[1] += 1;
            self.commit();
        } else {
            self.abort();
        }
    }

    fn read<T>(
        &mut self,
        snapshot: SnapshotView,
        mut call: impl FnMut(&mut RowReader<'_>, &TableAccess) -> Outcome<T>,
    ) -> T {
        let read = self.run(|worker| {
            let mut reader = RowReader {
                snapshot,
                states: &worker.shared.slots,
                observed: &mut worker.observed,
                hints: &worker.versions.hints,
            };
            call(&mut reader, &worker.shared.table)
        });
        read.expect("reads wait for nobody's end")
    }

    /// All rows by the table or by an index.
    fn audit(&mut self) {
        let snapshot = self.begin();
        let mut found = (0, 0);
        let mut add = |row: &RowBuffer| {
            let balance = row.column(3).expect("not null");
            found.0 += i64::from_le_bytes(balance.try_into().expect("8 bytes"));
            found.1 += 1;
        };
        match self.random.u8(..2) {
            0 => self.pass_table(snapshot, &mut add),
            _ => self.pass_index(snapshot, &mut add),
        }
        assert_eq!(found, (TOTAL, ACCOUNTS), "the snapshot at {}", snapshot.timestamp);
        self.counts[2] += 1;
        self.abort();
    }

    fn pass_table(&mut self, snapshot: SnapshotView, add: &mut dyn FnMut(&RowBuffer)) {
        let (mut batch, mut out, mut from) = (RowBatch::new(), RowBuffer::new(), Some(RowId(0)));
        while let Some(at) = from {
            from = self.read(snapshot, |reader, table| reader.scan(table, at, &ALL, &mut batch));
            for row in 0..batch.len() {
                batch.copy_to(row, &mut out);
                add(&out);
            }
        }
    }

    /// Rows of keyed leaves together, others one by one.
    fn pass_index(&mut self, snapshot: SnapshotView, add: &mut dyn FnMut(&RowBuffer)) {
        let (mut batch, mut out) = (RowBatch::new(), RowBuffer::new());
        let (mut entries, mut check) = (IndexBatch::new(), KeyCheck::new());
        let mut from = Some(Vec::new());
        while let Some(key) = from {
            let next = self.read(snapshot, |_, table| {
                let bounds = (Bound::Included(&key[..]), Bound::Unbounded);
                let tree = &table.indexes[0].tree;
                tree.scan(bounds.0, bounds.1, ScanDirection::Forward, &mut entries)
            });
            from = next.map(|next| next.key);
            let mut at = 0;
            while at < entries.len() {
                let rows = &entries.rows()[at..];
                if entries.keyed() == Keyed::Yes {
                    at += self.read(snapshot, |reader, table| {
                        reader.read_together(table, rows, &ALL, &mut batch)
                    });
                    for row in 0..batch.len() {
                        batch.copy_to(row, &mut out);
                        add(&out);
                    }
                } else {
                    let present = self.read(snapshot, |reader, table| {
                        let entry = (&table.indexes[0], entries.key(at), Keyed::No);
                        let buffers = (&mut out, &mut check);
                        reader.read_by_key(table, entry, rows[0], &ALL, buffers)
                    });
                    if present == Presence::Present {
                        add(&out);
                    }
                    at += 1;
                }
            }
        }
    }
}

/// Works until then, and until at least so much of each kind was done: a busy machine takes longer.
fn work(shared: &Shared, me: usize, seed: u64, (until, least): (Instant, u64)) -> [u64; 4] {
    let (space, instance) = (Arc::clone(&shared.space), InstanceId(me as u16));
    let versions = InstanceVersions::new(space, instance, 8 << 20, LeafHints::new(12));
    let changes = SlotChanges::new(&versions, SlotId(0));
    let mut worker = Worker {
        shared,
        me,
        versions,
        changes,
        sequence: 0,
        observed: Vec::new(),
        random: fastrand::Rng::with_seed(seed + me as u64),
        counts: [0; 4],
        deadline: until + Duration::from_secs(60),
    };
    if me == 0 && shared.slots.clock.load(SeqCst) == 1 {
        let snapshot = worker.begin();
        for key in 0..ACCOUNTS {
            let bytes = Row::new(key, key % 5, b"start", 1000).bytes();
            let values: Vec<_> = bytes.iter().map(Option::as_deref).collect();
            let mut progress = Progress::default();
            assert!(worker.write(snapshot, &mut |writer, table| {
                writer
                    .insert(table, &values, (Frozen::No, &mut Longs::new()), &mut progress)
                    .map(|_| ())
            }));
        }
        worker.commit();
    }
    while Instant::now() < until || worker.counts.iter().any(|count| *count < least) {
        assert!(Instant::now() < worker.deadline, "{:?} in a minute", worker.counts);
        match worker.random.u8(..10) {
            0 => worker.audit(),
            1..3 => worker.replace(),
            _ => worker.transfer(),
        }
        worker.collect();
    }
    while worker.versions.finished() > 0 {
        assert!(Instant::now() < worker.deadline, "stuck");
        worker.collect();
        std::thread::yield_now();
    }
    worker.collect();
    worker.counts
}

#[test]
fn snapshots_add_up_while_threads_transfer_and_collect() {
    let seed = seed(5);
    let space = VersionSpace::new(THREADS);
    let pool = BufferPool::new(THREADS, 64 << 20).expect("memory");
    let slots = SharedSlots::default();
    slots.clock.store(1, SeqCst);
    slots.floors.iter().for_each(|floor| floor.store(u64::MAX, SeqCst));
    let shared = Shared { slots, table: access(&pool, &space), space };
    // Fills the table, and takes its own undo away again.
    work(&shared, 0, seed, (Instant::now(), 0));
    let until = Instant::now() + Duration::from_millis(1500);
    let counts: Vec<[u64; 4]> = std::thread::scope(|scope| {
        let start = |me| {
            let shared = &shared;
            std::thread::Builder::new()
                .spawn_scoped(scope, move || work(shared, me, seed, (until, 8)))
                .expect("threads")
        };
        let threads: Vec<_> = (0..THREADS).map(start).collect();
        threads.into_iter().map(|thread| thread.join().expect("no panic")).collect()
    });
    println!("transfers, replacements, audits, collected: {counts:?}");
    // What the threads' last collections left for each other is only twin tables.
    assert_eq!(shared.table.tree.check().expect("readable"), Vec::<String>::new());
    let entries = shared.table.indexes[0].tree.check().expect("readable");
    assert_eq!(entries, Vec::<String>::new());
}
