//! Named situations, each stepped to the state that it is about.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;

use super::harness::{Context, Harness};
use super::world::{Txn, observed_of};
use crate::base::{Cts, Error, HomeId, Observed, TreeId};
use crate::txn::{
    Committed, Interrupt, Isolation, LockMode, Reason, Session, Settling, Synchronous, Waited,
    Waiter,
};

const TABLE: TreeId = TreeId(5);

/// Runs `body` as a task with a session and a waiter.
pub(super) fn client(
    harness: &Harness,
    instance: usize,
    body: impl FnOnce(&Context, &mut Session, &Waiter<'_>) + 'static,
) -> Arc<Interrupt> {
    let interrupt = Arc::new(Interrupt::new());
    let theirs = Arc::clone(&interrupt);
    harness.spawn(instance, move |context| {
        let waiter = Waiter { parker: context, interrupt: &theirs, deadline_ns: None };
        body(context, &mut Session::new(Synchronous::On), &waiter);
    });
    interrupt
}

pub(super) fn begin(context: &Context, session: &Session, isolation: Isolation) -> Txn {
    let txn = &context.instance().state().txn;
    let mut handle = txn.begin(session, isolation).unwrap();
    txn.begin_command(&mut handle);
    handle
}

pub(super) fn add(
    context: &Context,
    waiter: &Waiter<'_>,
    txn: &mut Txn,
    row: usize,
    delta: i64,
) -> Result<(), Error> {
    let state = context.instance().state();
    state.txn.run(txn, waiter, |txn| state.world.add(state.txn.shared(), txn, row, delta))
}

fn read(context: &Context, waiter: &Waiter<'_>, txn: &mut Txn, row: usize) -> i64 {
    let state = context.instance().state();
    let shared = state.txn.shared();
    state.txn.run(txn, waiter, |txn| state.world.read(shared, txn, row)).unwrap()
}

pub(super) fn commit(
    context: &Context,
    session: &mut Session,
    waiter: &Waiter<'_>,
    txn: Txn,
) -> Committed {
    context.instance().state().txn.commit(txn, session, waiter, &()).unwrap()
}

/// Yields until `flag` is set.
pub(super) fn until(context: &Context, flag: &Cell<bool>) {
    use crate::runtime::Parker;
    while !flag.get() {
        context.yield_now();
    }
}

/// What the client that `begin` begins acknowledges, it does when its log is stable, and not before.
fn acknowledged_when_stable(begin: impl FnOnce(&Harness, Rc<Cell<bool>>)) {
    let mut harness = Harness::new(1, 1, 2, 10);
    harness.flushing = false;
    let acknowledged = Rc::new(Cell::new(false));
    begin(&harness, Rc::clone(&acknowledged));
    harness.steps(300);
    assert_eq!(harness.world.unflushed(0), 1);
    assert!(!acknowledged.get());
    harness.world.flush(0, 1);
    harness.run(1000);
    assert!(acknowledged.get());
}

#[test]
fn nothing_is_acknowledged_before_its_log_is_stable() {
    acknowledged_when_stable(|harness, told| {
        client(harness, 0, move |context, session, waiter| {
            let mut txn = begin(context, session, Isolation::ReadCommitted);
            add(context, waiter, &mut txn, 0, 1).unwrap();
            assert!(matches!(commit(context, session, waiter, txn), Committed::At(_)));
            assert!(!context.instance().state().txn.is_settled(session));
            context.instance().state().txn.settle(session, context);
            told.set(true);
        });
    });
}

/// Rests until everything is stable.
fn rests_until_settled(context: &Context, mut session: Session, told: Rc<Cell<bool>>) {
    match context.instance().state().txn.settle_soon(&mut session, context) {
        Settling::Later => context.rest(|context| rests_until_settled(context, session, told)),
        Settling::Done => told.set(true),
    }
}

#[test]
fn who_rests_until_it_has_settled_is_woken_then() {
    acknowledged_when_stable(|harness, told| {
        harness.spawn(0, move |context| {
            let (mut session, interrupt) = (Session::new(Synchronous::On), Interrupt::new());
            let waiter = Waiter { parker: context, interrupt: &interrupt, deadline_ns: None };
            let mut txn = begin(context, &session, Isolation::ReadCommitted);
            add(context, &waiter, &mut txn, 0, 1).unwrap();
            commit(context, &mut session, &waiter, txn);
            rests_until_settled(context, session, told);
        });
    });
}

#[test]
fn a_readers_answer_waits_for_what_it_read_and_its_next_commit_depends_on_it() {
    let mut harness = Harness::new(2, 2, 2, 10);
    harness.flushing = false;
    let (written, told) = (Rc::new(Cell::new(false)), Rc::new(Cell::new(false)));
    let (flag, answer) = (Rc::clone(&written), Rc::clone(&told));
    client(&harness, 0, move |context, session, waiter| {
        let mut txn = begin(context, session, Isolation::ReadCommitted);
        add(context, waiter, &mut txn, 0, 1).unwrap();
        commit(context, session, waiter, txn);
        flag.set(true);
    });
    client(&harness, 1, move |context, session, waiter| {
        until(context, &written);
        let local = &context.instance().state().txn;
        // A read-only transaction: no record, no cts; what it saw goes on with the session.
        let mut txn = begin(context, session, Isolation::ReadCommitted);
        assert_eq!(read(context, waiter, &mut txn, 0), 11);
        assert_eq!(commit(context, session, waiter, txn), Committed::Nothing);
        assert!(!local.is_settled(session));
        // The next one writes elsewhere, and depends on it all the same.
        let mut txn = begin(context, session, Isolation::ReadCommitted);
        assert_ne!(observed_of(&txn).of(HomeId(0)), Cts::ZERO);
        add(context, waiter, &mut txn, 1, 1).unwrap();
        commit(context, session, waiter, txn);
        assert_eq!(local.counters().dependencies, 1);
        local.settle(session, context);
        answer.set(true);
    });
    harness.steps(500);
    harness.world.flush(1, 9);
    harness.steps(500);
    assert!(!told.get(), "log 1 is durable, log 0 is not");
    let rows = harness.world.recover(|_| 0).rows;
    assert_eq!(rows, [10, 10], "the second commit is cut off with the first");
    harness.world.flush(0, 9);
    harness.run(1000);
    assert!(told.get());
}

#[test]
fn a_statement_that_finds_no_memory_ends_where_collection_cannot_go_on() {
    let mut harness = Harness::new(1, 1, 1, 10);
    harness.world.collection_stuck.set(true);
    let told = Rc::new(Cell::new(0));
    let calls = Rc::clone(&told);
    client(&harness, 0, move |context, session, waiter| {
        let local = &context.instance().state().txn;
        let mut txn = begin(context, session, Isolation::ReadCommitted);
        let short = Error::OutOfMemory { what: "undo" };
        let failed = local.run(&mut txn, waiter, |_| {
            calls.set(calls.get() + 1);
            Err::<(), _>(short.clone().into())
        });
        assert_eq!(failed, Err(short));
        local.abort(&mut txn, session, &());
    });
    harness.run(1000);
    assert_eq!(told.get(), 1, "nothing was reclaimed: it is not tried again");
}

#[test]
fn a_relaxed_session_does_not_wait_but_others_do() {
    let mut harness = Harness::new(3, 1, 2, 10);
    harness.flushing = false;
    let done = Rc::new(Cell::new(false));
    let flag = Rc::clone(&done);
    client(&harness, 0, move |context, session, waiter| {
        session.synchronous = Synchronous::Off;
        let mut txn = begin(context, session, Isolation::ReadCommitted);
        add(context, waiter, &mut txn, 0, 1).unwrap();
        commit(context, session, waiter, txn);
        context.instance().state().txn.settle(session, context);
        assert!(context.instance().state().txn.is_settled(session));
        let carried = session.carried().clone();
        assert!(!carried.is_empty(), "it may wait again later for what it depends on");
        flag.set(true);
    });
    harness.run(1000);
    assert!(done.get());
    client(&harness, 0, |context, session, waiter| {
        let mut txn = begin(context, session, Isolation::ReadCommitted);
        read(context, waiter, &mut txn, 0);
        commit(context, session, waiter, txn);
        assert!(!context.instance().state().txn.is_settled(session));
    });
    harness.run(1000);
}

#[test]
fn a_waiter_is_woken_when_the_holder_ends_and_observes_its_commit() {
    let mut harness = Harness::new(4, 2, 2, 10);
    // No time passes: only a wake-up at the end can end the wait.
    harness.step_ns = 0;
    let (locked, go) = (Rc::new(Cell::new(false)), Rc::new(Cell::new(false)));
    let (flag, gate) = (Rc::clone(&locked), Rc::clone(&go));
    client(&harness, 0, move |context, session, waiter| {
        let mut txn = begin(context, session, Isolation::ReadCommitted);
        add(context, waiter, &mut txn, 0, 1).unwrap();
        flag.set(true);
        until(context, &gate);
        commit(context, session, waiter, txn);
    });
    client(&harness, 1, move |context, session, waiter| {
        until(context, &locked);
        let mut txn = begin(context, session, Isolation::ReadCommitted);
        add(context, waiter, &mut txn, 0, 1).unwrap();
        assert_ne!(observed_of(&txn).of(HomeId(0)), Cts::ZERO, "having waited is observing");
        commit(context, session, waiter, txn);
    });
    harness.steps(200);
    assert_eq!(harness.instance(1).state().txn.counters().end_waits, 1);
    go.set(true);
    harness.run(5000);
}

#[test]
fn waiters_get_the_row_in_order_of_arrival() {
    let mut harness = Harness::new(13, 1, 2, 10);
    harness.step_ns = 0;
    let (turn, order) = (Rc::new(Cell::new(0)), Rc::new(RefCell::new(Vec::new())));
    for who in 0..5 {
        let (turn, order) = (Rc::clone(&turn), Rc::clone(&order));
        client(&harness, 0, move |context, session, waiter| {
            use crate::runtime::Parker;
            while turn.get() != who {
                context.yield_now();
            }
            let mut txn = begin(context, session, Isolation::ReadCommitted);
            turn.set(who + 1);
            add(context, waiter, &mut txn, 0, 1).unwrap();
            order.borrow_mut().push(who);
            while turn.get() < 5 {
                context.yield_now();
            }
            commit(context, session, waiter, txn);
        });
    }
    harness.run(20_000);
    assert_eq!(*order.borrow(), [0, 1, 2, 3, 4]);
}

#[test]
fn a_deadlock_ends_its_youngest_member_with_all_named() {
    let mut harness = Harness::new(5, 2, 3, 10);
    type Outcomes = RefCell<Vec<(usize, Result<(), Error>)>>;
    let outcomes: Rc<Outcomes> = Rc::default();
    let ready = Rc::new(Cell::new(0));
    let xids: Rc<RefCell<Vec<String>>> = Rc::default();
    for who in 0..3 {
        let (outcomes, ready) = (Rc::clone(&outcomes), Rc::clone(&ready));
        let xids = Rc::clone(&xids);
        client(&harness, who % 2, move |context, session, waiter| {
            use crate::runtime::Parker;
            // Begin one after another: the third is the youngest.
            while ready.get() != who {
                context.yield_now();
            }
            let mut txn = begin(context, session, Isolation::ReadCommitted);
            // The shared counter moves at commits only.
            context.instance().clock().commit_reading();
            add(context, waiter, &mut txn, who, 1).unwrap();
            xids.borrow_mut().push(txn.xid().to_string());
            ready.set(who + 1);
            while ready.get() < 3 {
                context.yield_now();
            }
            let outcome = add(context, waiter, &mut txn, (who + 1) % 3, 1);
            let local = &context.instance().state().txn;
            match &outcome {
                Ok(()) => {
                    commit(context, session, waiter, txn);
                }
                Err(_) => local.abort(&mut txn, session, &()),
            }
            outcomes.borrow_mut().push((who, outcome));
        });
    }
    harness.run(20_000);
    let outcomes = outcomes.borrow();
    let failed: Vec<_> = outcomes.iter().filter(|(_, outcome)| outcome.is_err()).collect();
    assert_eq!(failed.len(), 1, "{outcomes:?}");
    let (who, Err(Error::Deadlock { detail, .. })) = failed[0] else { panic!("{outcomes:?}") };
    assert_eq!(*who, 2, "the youngest");
    for xid in xids.borrow().iter() {
        assert!(detail.contains(xid), "{detail}");
    }
}

#[test]
fn waits_can_be_cancelled_and_time_out_and_leave_nothing_behind() {
    let mut harness = Harness::new(6, 2, 2, 10);
    let (locked, go) = (Rc::new(Cell::new(false)), Rc::new(Cell::new(false)));
    let (flag, gate) = (Rc::clone(&locked), Rc::clone(&go));
    client(&harness, 0, move |context, session, waiter| {
        let local = &context.instance().state().txn;
        let mut txn = begin(context, session, Isolation::ReadCommitted);
        let mode = LockMode::AccessExclusive;
        assert_eq!(local.lock_table(&mut txn, TABLE, mode, waiter), Ok(Waited::No));
        add(context, waiter, &mut txn, 0, 1).unwrap();
        flag.set(true);
        until(context, &gate);
        commit(context, session, waiter, txn);
    });
    let ended = Rc::new(Cell::new(0));
    let mut interrupts = Vec::new();
    for what in 0..3 {
        let (locked, ended) = (Rc::clone(&locked), Rc::clone(&ended));
        interrupts.push(client(&harness, 1, move |context, session, waiter| {
            use crate::runtime::Parker;
            until(context, &locked);
            let local = &context.instance().state().txn;
            let mut txn = begin(context, session, Isolation::ReadCommitted);
            let outcome = match what {
                0 => add(context, waiter, &mut txn, 0, 1),
                1 => local.lock_table(&mut txn, TABLE, LockMode::AccessShare, waiter).map(drop),
                _ => {
                    let deadline = context.now_ns() + 3_000_000;
                    let waiter = Waiter { deadline_ns: Some(deadline), ..*waiter };
                    local.lock_table(&mut txn, TABLE, LockMode::Share, &waiter).map(drop)
                }
            };
            assert_eq!(outcome, Err(Error::Cancelled));
            local.abort(&mut txn, session, &());
            ended.set(ended.get() + 1);
        }));
    }
    let ends = Rc::clone(&ended);
    harness.until(move || ends.get() == 1);
    interrupts[0].interrupt(Reason::Cancel);
    interrupts[1].interrupt(Reason::Cancel);
    let ends = Rc::clone(&ended);
    harness.until(move || ends.get() == 3);
    go.set(true);
    harness.run(10_000);
    assert!(harness.shared.locks.get(TABLE).is_idle());
    assert!(harness.shared.rows.is_idle());
}

#[test]
fn a_full_disk_fails_the_commit_before_anything_is_visible_and_work_goes_on_after() {
    let mut harness = Harness::new(7, 1, 2, 10);
    harness.world.disk_full.set(true);
    let world = Rc::clone(&harness.world);
    client(&harness, 0, move |context, session, waiter| {
        let local = &context.instance().state().txn;
        let mut txn = begin(context, session, Isolation::ReadCommitted);
        add(context, waiter, &mut txn, 0, 5).unwrap();
        let outcome = local.commit(txn, session, waiter, &());
        assert!(matches!(outcome, Err(Error::DiskFull { .. })));
        let mut txn = begin(context, session, Isolation::ReadCommitted);
        assert_eq!(read(context, waiter, &mut txn, 0), 10);
        world.disk_full.set(false);
        add(context, waiter, &mut txn, 0, 5).unwrap();
        assert!(matches!(commit(context, session, waiter, txn), Committed::At(_)));
    });
    harness.run(10_000);
}

/// Room can come back without the log's durable end having moved: a segment became ready.
#[test]
fn a_waiter_for_room_goes_on_when_the_log_says_so_though_nothing_became_durable() {
    let mut harness = Harness::new(14, 1, 2, 10);
    harness.flushing = false;
    harness.world.room.set(0);
    let done = Rc::new(Cell::new(false));
    let flag = Rc::clone(&done);
    client(&harness, 0, move |context, session, waiter| {
        let mut txn = begin(context, session, Isolation::ReadCommitted);
        add(context, waiter, &mut txn, 0, 1).unwrap();
        commit(context, session, waiter, txn);
        flag.set(true);
    });
    harness.steps(200);
    assert_eq!(harness.instance(0).state().txn.counters().room_waits, 1);
    harness.world.room.set(1);
    harness.steps(200);
    assert!(!done.get(), "nothing told it");
    harness.instance(0).state().txn.log_has_room();
    harness.run(1000);
    assert!(done.get());
}

/// A savepoint before what was spilled: the chunks are cut, and later redo takes their place.
#[test]
fn what_a_savepoint_discards_is_in_no_chunk_of_the_commit() {
    let mut harness = Harness::new(15, 1, 4, 10);
    client(&harness, 0, |context, session, waiter| {
        let local = &context.instance().state().txn;
        let mut txn = begin(context, session, Isolation::ReadCommitted);
        add(context, waiter, &mut txn, 0, 1).unwrap();
        let mark = txn.changes().mark();
        for row in [1, 2, 3, 1, 2, 3] {
            add(context, waiter, &mut txn, row, 100).unwrap();
            local.run(&mut txn, waiter, |txn| local.spill_if_large(txn)).unwrap();
        }
        assert!(local.counters().chunks > 1, "some chunks lie wholly behind the mark");
        txn.changes_mut().roll_back(mark);
        local.discard_chunks(&mut txn);
        add(context, waiter, &mut txn, 3, 5).unwrap();
        commit(context, session, waiter, txn);
    });
    harness.run(10_000);
    harness.world.flush(0, 9);
    assert_eq!(harness.world.recover(|_| 0).rows, [11, 10, 10, 15]);
}

/// Rule 3.3: instance 0's last cts is ahead of the clock, so its next commit is too. It waits
/// before it is finished, and whoever overwrites it meanwhile comes after it all the same.
#[test]
fn a_commit_ahead_of_the_clock_waits_and_its_overwriter_comes_after_it() {
    let mut harness = Harness::new(8, 2, 2, 10);
    harness.instance(0).state().txn.last_cts.set(Cts(500));
    let ahead = Rc::new(Cell::new(Cts::ZERO));
    let theirs = Rc::clone(&ahead);
    client(&harness, 0, move |context, session, waiter| {
        let local = &context.instance().state().txn;
        let mut txn = begin(context, session, Isolation::ReadCommitted);
        add(context, waiter, &mut txn, 0, 1).unwrap();
        let Committed::At(cts) = commit(context, session, waiter, txn) else { panic!() };
        assert_eq!(cts, Cts(501));
        let txn = begin(context, session, Isolation::ReadCommitted);
        assert!(txn.snapshot().timestamp > cts, "the session sees its own commit");
        commit(context, session, waiter, txn);
        let _ = local;
        theirs.set(cts);
    });
    client(&harness, 1, move |context, session, waiter| {
        use crate::runtime::Parker;
        let state = context.instance().state();
        // Wait for the commit, not for its end.
        while state.world.records() == 0 {
            context.yield_now();
        }
        let mut txn = begin(context, session, Isolation::ReadCommitted);
        add(context, waiter, &mut txn, 0, 1).unwrap();
        assert_eq!(ahead.get(), Cts::ZERO, "the first is not finished");
        let mut next = begin(context, session, Isolation::ReadCommitted);
        let outcome = state.txn.commit_step(&mut txn, session);
        assert!(outcome.is_err(), "it must wait for the clock too");
        assert_eq!(state.txn.last_cts.get(), Cts(502));
        state.txn.abort(&mut next, session, &());
        for _ in 0..1000 {
            context.instance().clock().commit_reading();
        }
        commit(context, session, waiter, txn);
    });
    harness.run(20_000);
}

#[test]
fn read_committed_sees_each_statements_commits_and_repeatable_read_the_firsts() {
    let mut harness = Harness::new(9, 1, 2, 10);
    client(&harness, 0, |context, session, waiter| {
        let local = &context.instance().state().txn;
        let mut committed = begin(context, session, Isolation::ReadCommitted);
        let mut repeatable = begin(context, session, Isolation::RepeatableRead);
        let mut own = Session::new(Synchronous::On);
        let mut writer = begin(context, &own, Isolation::ReadCommitted);
        add(context, waiter, &mut writer, 0, 7).unwrap();
        assert_eq!(read(context, waiter, &mut writer, 0), 10, "not of its own command");
        local.begin_command(&mut writer);
        assert_eq!(read(context, waiter, &mut writer, 0), 17, "of an earlier command");
        commit(context, &mut own, waiter, writer);
        assert_eq!(read(context, waiter, &mut committed, 0), 10, "the statement's snapshot");
        local.begin_command(&mut committed);
        local.begin_command(&mut repeatable);
        assert_eq!(read(context, waiter, &mut committed, 0), 17);
        assert_eq!(read(context, waiter, &mut repeatable, 0), 10);
        let outcome = add(context, waiter, &mut repeatable, 0, 1);
        assert!(matches!(outcome, Err(Error::SerializationFailure { .. })), "first updater wins");
        local.abort(&mut repeatable, session, &());
        commit(context, session, waiter, committed);
    });
    harness.run(10_000);
}

#[test]
fn the_horizon_follows_the_oldest_snapshot_and_idle_transactions_do_not_hold_it() {
    let mut harness = Harness::new(10, 2, 2, 10);
    let horizon = |harness: &mut Harness| {
        harness.steps(40);
        for _ in 0..50 {
            harness.instance(0).clock().commit_reading();
        }
        harness.steps(40);
        harness.shared.horizon()
    };
    let (stage, old) = (Rc::new(Cell::new(0)), Rc::new(Cell::new(Cts::ZERO)));
    let (at, snapshot) = (Rc::clone(&stage), Rc::clone(&old));
    client(&harness, 0, move |context, session, waiter| {
        use crate::runtime::Parker;
        let local = &context.instance().state().txn;
        let mut repeatable = begin(context, session, Isolation::RepeatableRead);
        let mut committed = begin(context, session, Isolation::ReadCommitted);
        local.end_command(&mut committed);
        local.end_command(&mut repeatable);
        snapshot.set(repeatable.snapshot().timestamp);
        while at.get() == 0 {
            context.yield_now();
        }
        commit(context, session, waiter, repeatable);
        while at.get() == 1 {
            context.yield_now();
        }
        commit(context, session, waiter, committed);
    });
    assert_eq!(horizon(&mut harness), old.get(), "REPEATABLE READ holds it");
    stage.set(1);
    assert!(horizon(&mut harness) > old.get(), "READ COMMITTED between statements does not");
    let outside = harness.shared.outside_snapshot();
    assert!(horizon(&mut harness) <= outside.view().timestamp, "a thread outside holds it");
    let held = outside.view().timestamp;
    drop(outside);
    assert!(horizon(&mut harness) > held);
    stage.set(2);
    harness.run(1000);
}

#[test]
fn whoever_waited_for_a_table_lock_depends_on_the_holders_commit() {
    let mut harness = Harness::new(11, 2, 2, 10);
    let locked = Rc::new(Cell::new(false));
    let flag = Rc::clone(&locked);
    client(&harness, 0, move |context, session, waiter| {
        use crate::runtime::Parker;
        let local = &context.instance().state().txn;
        let mut txn = begin(context, session, Isolation::ReadCommitted);
        local.lock_table(&mut txn, TABLE, LockMode::AccessExclusive, waiter).unwrap();
        add(context, waiter, &mut txn, 0, 1).unwrap();
        flag.set(true);
        for _ in 0..20 {
            context.yield_now();
        }
        commit(context, session, waiter, txn);
    });
    client(&harness, 1, move |context, session, waiter| {
        until(context, &locked);
        let local = &context.instance().state().txn;
        let mut txn = begin(context, session, Isolation::ReadCommitted);
        let waited = local.lock_table(&mut txn, TABLE, LockMode::AccessShare, waiter);
        assert_eq!(waited, Ok(Waited::Yes));
        assert_ne!(observed_of(&txn).of(HomeId(0)), Cts::ZERO);
        commit(context, session, waiter, txn);
    });
    harness.run(10_000);
}

#[test]
fn a_log_that_depends_on_another_is_polled_when_that_is_stable() {
    let mut harness = Harness::new(12, 2, 2, 10);
    harness.flushing = false;
    client(&harness, 0, |context, session, waiter| {
        let mut txn = begin(context, session, Isolation::ReadCommitted);
        add(context, waiter, &mut txn, 0, 1).unwrap();
        commit(context, session, waiter, txn);
    });
    harness.run(1000);
    let woken = Arc::new(crate::sync::AtomicBool::new(false));
    let flag = Arc::clone(&woken);
    let cts = harness.instance(0).state().txn.last_cts.get();
    let seen = Observed { home: HomeId(0), cts };
    let wake = move || flag.store(true, crate::sync::Ordering::Relaxed);
    assert!(harness.instance(1).state().txn.wake_when_stable(seen, Arc::new(wake)));
    harness.world.flush(0, 1);
    harness.steps(20);
    assert!(woken.load(crate::sync::Ordering::Relaxed));
    assert!(!harness.instance(1).state().txn.wake_when_stable(seen, Arc::new(|| ())));
}
