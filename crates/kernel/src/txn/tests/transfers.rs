//! Random transfers between accounts on several instances, against what must always hold: sums in
//! any snapshot, sums after any crash, everything acknowledged still there, nobody stuck.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use super::harness::{Context, Harness, seed};
use crate::base::{Cts, Error, TreeId};
use crate::txn::{Committed, Interrupt, Isolation, LockMode, Session, Synchronous, Waiter};

const ROWS: usize = 8;
const VALUE: i64 = 100;
const TABLE: TreeId = TreeId(1);

/// What the clients have been told.
#[derive(Default)]
struct Told {
    /// Acknowledged commits.
    commits: RefCell<Vec<(Cts, usize)>>,
    /// Snapshots in use by anybody.
    snapshots: RefCell<Vec<(u64, Cts)>>,
    next: Cell<u64>,
    deadlocks: Cell<u64>,
    serialization_failures: Cell<u64>,
    audits: Cell<u64>,
}

impl Told {
    fn hold(&self, snapshot: Cts) -> u64 {
        self.next.set(self.next.get() + 1);
        self.snapshots.borrow_mut().push((self.next.get(), snapshot));
        self.next.get()
    }

    fn release(&self, held: u64) {
        self.snapshots.borrow_mut().retain(|(number, _)| *number != held);
    }
}

fn pick_mode(random: &mut fastrand::Rng) -> LockMode {
    match random.u8(..20) {
        0 => LockMode::AccessExclusive,
        1 => LockMode::Share,
        2 => LockMode::ShareUpdateExclusive,
        _ => LockMode::RowExclusive,
    }
}

/// One client: transfers, audits, savepoints, rollbacks, in both isolation levels.
fn client(context: &Context, mut random: fastrand::Rng, told: &Told, transactions: usize) {
    let state = context.instance().state();
    let interrupt = Interrupt::new();
    let waiter = Waiter { parker: context, interrupt: &interrupt, deadline_ns: None };
    let relaxed = random.u8(..8) == 0;
    let mut session = Session::new(if relaxed { Synchronous::Off } else { Synchronous::On });
    for _ in 0..transactions {
        let isolation =
            if random.bool() { Isolation::ReadCommitted } else { Isolation::RepeatableRead };
        let mut txn = state.txn.begin(&session, isolation).unwrap();
        let outcome = if random.u8(..4) == 0 {
            audit(context, &mut txn, &waiter, told, &mut random)
        } else {
            transfer(context, &mut txn, &waiter, told, &mut random)
        };
        match outcome {
            Ok(true) => {
                let committed = state.txn.commit(txn, &mut session, &waiter, &()).unwrap();
                state.txn.settle(&mut session, context);
                if let (Committed::At(cts), false) = (committed, relaxed) {
                    let home = state.txn.instance().0 as usize;
                    told.commits.borrow_mut().push((cts, home));
                }
                if let Committed::At(cts) = committed {
                    assert!(state.txn.shared().clock().snapshot() > cts, "rule 3.3");
                }
            }
            Ok(false) => {
                state.txn.abort(&mut txn, &mut session, &());
                state.txn.settle(&mut session, context);
            }
            Err(error) => {
                match error {
                    Error::Deadlock { detail, .. } => {
                        assert!(detail.contains(&txn.xid().to_string()), "{detail}");
                        told.deadlocks.set(told.deadlocks.get() + 1);
                    }
                    Error::SerializationFailure { .. } => {
                        told.serialization_failures.set(told.serialization_failures.get() + 1);
                    }
                    other => panic!("{other}"),
                }
                state.txn.abort(&mut txn, &mut session, &());
                state.txn.settle(&mut session, context);
            }
        }
    }
}

type Txn = super::world::Txn;

fn begin_command(context: &Context, txn: &mut Txn, told: &Told, held: &mut Option<u64>) {
    context.instance().state().txn.begin_command(txn);
    if let Some(held) = held.take() {
        told.release(held);
    }
    *held = Some(told.hold(txn.snapshot().timestamp));
}

fn audit(
    context: &Context,
    txn: &mut Txn,
    waiter: &Waiter<'_>,
    told: &Told,
    random: &mut fastrand::Rng,
) -> Result<bool, Error> {
    let state = context.instance().state();
    let world = &state.world;
    state.txn.lock_table(txn, TABLE, LockMode::AccessShare, waiter)?;
    let mut held = None;
    begin_command(context, txn, told, &mut held);
    let mut sum = 0;
    for row in 0..world.rows() {
        sum += state.txn.run(txn, waiter, |txn| world.read(state.txn.shared(), txn, row))?;
        if random.u8(..3) == 0 {
            waiter.parker.yield_now();
        }
    }
    assert_eq!(sum, ROWS as i64 * VALUE, "snapshot {}", txn.snapshot().timestamp);
    told.release(held.expect("the command has one"));
    told.audits.set(told.audits.get() + 1);
    Ok(true)
}

fn transfer(
    context: &Context,
    txn: &mut Txn,
    waiter: &Waiter<'_>,
    told: &Told,
    random: &mut fastrand::Rng,
) -> Result<bool, Error> {
    let state = context.instance().state();
    let world = &state.world;
    let mut held = None;
    let result = (|| {
        for _ in 0..random.usize(1..4) {
            state.txn.lock_table(txn, TABLE, pick_mode(random), waiter)?;
            begin_command(context, txn, told, &mut held);
            let mark = txn.changes().mark();
            let (from, to) = (random.usize(..ROWS), random.usize(..ROWS));
            let amount = random.i64(1..50);
            for (row, delta) in [(from, -amount), (to, amount)] {
                state.txn.run(txn, waiter, |txn| world.add(state.txn.shared(), txn, row, delta))?;
                state.txn.run(txn, waiter, |txn| state.txn.spill_if_large(txn))?;
                if random.u8(..3) == 0 {
                    waiter.parker.yield_now();
                }
            }
            if random.u8(..6) == 0 {
                txn.changes_mut().roll_back(mark);
                state.txn.discard_chunks(txn);
            }
            if txn.isolation() == Isolation::ReadCommitted {
                told.release(held.take().expect("the command has one"));
            }
            state.txn.end_command(txn);
            if random.u8(..3) == 0 {
                waiter.parker.yield_now();
            }
        }
        Ok(random.u8(..8) != 0)
    })();
    held.into_iter().for_each(|held| told.release(held));
    result
}

fn check_crash(harness: &Harness, told: &Told) {
    let random = Rc::clone(&harness.random);
    let recovered = harness.world.recover(|beyond| {
        let mut random = random.borrow_mut();
        if beyond == 0 { 0 } else { random.usize(..=beyond) }
    });
    let sum: i64 = recovered.rows.iter().sum();
    assert_eq!(sum, ROWS as i64 * VALUE, "half a transaction, or one without what it saw");
    for told in told.commits.borrow().iter() {
        assert!(recovered.commits.contains(told), "acknowledged {told:?} is lost");
    }
}

fn check_horizon(harness: &Harness, told: &Told) {
    let horizon = harness.shared.horizon();
    for (_, snapshot) in told.snapshots.borrow().iter() {
        assert!(horizon <= *snapshot, "horizon {horizon} above the snapshot {snapshot}");
    }
}

fn run(seed: u64, instances: usize, clients: usize, transactions: usize) -> (Rc<Told>, Harness) {
    let mut harness = Harness::new(seed, instances, ROWS, VALUE);
    harness.world.room.set(1 + seed as usize % 4);
    let told = Rc::new(Told::default());
    for index in 0..clients {
        let (told, random) = (Rc::clone(&told), harness.random.borrow_mut().fork());
        harness.spawn(index % instances, move |context| {
            client(context, random, &told, transactions);
        });
    }
    let mut steps = 0;
    harness.run_with(2_000_000, |harness| {
        steps += 1;
        if steps % 5 == 0 {
            check_horizon(harness, &told);
        }
        if steps % 40 == 0 {
            check_crash(harness, &told);
        }
        if steps % 11 == 0 {
            let txn = &harness.instance(steps % instances).state().txn;
            txn.collect().unwrap();
        }
    });
    check_crash(&harness, &told);
    (told, harness)
}

#[test]
fn random_transfers_keep_their_promises() {
    let seed = seed();
    let (mut deadlocks, mut failures, mut audits) = (0, 0, 0);
    let mut counters = crate::txn::TxnCounters::default();
    for round in 0..40 {
        let instances = 2 + round as usize % 3;
        let (told, harness) = run(seed.wrapping_add(round), instances, 6, 25);
        deadlocks += told.deadlocks.get();
        failures += told.serialization_failures.get();
        audits += told.audits.get();
        for index in 0..instances {
            let seen = harness.instance(index).state().txn.counters();
            counters.end_waits += seen.end_waits;
            counters.row_turns += seen.row_turns;
            counters.table_lock_waits += seen.table_lock_waits;
            counters.dependencies += seen.dependencies;
            counters.chunks += seen.chunks;
            counters.slots_reused += seen.slots_reused;
            counters.stable_waits += seen.stable_waits;
            counters.room_waits += seen.room_waits;
            counters.read_only += seen.read_only;
            counters.preparing_met += seen.preparing_met;
            let id = harness.instance(index).id();
            assert_eq!(harness.shared.open_transactions(id), [], "every slot is free again");
        }
        assert!(harness.world.records() > 0);
        assert!(harness.shared.locks.get(TABLE).is_idle(), "every lock was given back");
        assert!(harness.shared.rows.is_idle(), "nobody stands in a queue");
    }
    println!("{deadlocks} deadlocks, {failures} serialization failures, {audits} audits");
    println!("{counters:?}");
    assert!(deadlocks > 0 && failures > 0 && audits > 0, "rare states were met");
    assert!(counters.row_turns > 0);
    assert!(counters.end_waits > 0 && counters.table_lock_waits > 0 && counters.chunks > 0);
    assert!(counters.dependencies > 0 && counters.stable_waits > 0 && counters.room_waits > 0);
    assert!(counters.slots_reused > 0 && counters.read_only > 0);
    #[cfg(feature = "interleave")]
    assert!(counters.preparing_met > 0);
}
