//! Tests of one table's lock: the queueing rule, releases, withdrawals, and a random model.

use super::*;
use crate::base::{Cts, HomeId, SlotId};
use crate::sync::Ordering as O;
use crate::txn::slot::Count;

fn xid(number: u64) -> Xid {
    Xid::new(InstanceId((number % 2) as u16), SlotId(number as u16), 1)
}

fn fresh(number: u64) -> Asker {
    Asker { owner: xid(number), held: ModeSet::NONE }
}

fn queued(asked: Asked<Count>) -> Arc<Request<Count>> {
    match asked {
        Asked::Queued(request) => request,
        Asked::Granted(_) => panic!("it must wait"),
    }
}

fn granted(asked: Asked<Count>) {
    assert!(matches!(asked, Asked::Granted(_)), "nothing is in the way");
}

fn ask(lock: &TableLock<Count>, asker: Asker, mode: LockMode) -> Asked<Count> {
    lock.request(asker, mode, Count::default())
}

use LockMode::{AccessExclusive, AccessShare, RowExclusive, Share};

#[test]
fn a_strong_request_waits_for_weak_holders_of_all_instances() {
    let lock = TableLock::new(2);
    assert!(lock.try_weak(xid(0), AccessShare));
    assert!(lock.try_weak(xid(1), RowExclusive));
    let strong = queued(ask(&lock, fresh(2), AccessExclusive));
    lock.release(xid(0), AccessShare, None);
    assert!(!strong.is_granted(), "instance 1 still holds one");
    let seen = Observed { home: HomeId(1), cts: Cts(5) };
    lock.release(xid(1), RowExclusive, Some(seen));
    assert!(strong.is_granted());
    assert_eq!(strong.waker.times(), 1);
    assert_eq!(strong.observed(), [seen], "it waited for a transaction that committed");
    lock.release(xid(2), AccessExclusive, None);
    assert!(lock.is_idle());
}

#[test]
fn weak_requests_queue_behind_a_waiting_strong_one_first_come_first_served() {
    let lock = TableLock::new(2);
    assert!(lock.try_weak(xid(0), AccessShare));
    let strong = queued(ask(&lock, fresh(1), AccessExclusive));
    assert!(!lock.try_weak(xid(2), AccessShare));
    let second = queued(ask(&lock, fresh(2), AccessShare));
    let third = queued(ask(&lock, fresh(3), AccessExclusive));
    let fourth = queued(ask(&lock, fresh(4), RowExclusive));
    lock.release(xid(0), AccessShare, None);
    assert!(strong.is_granted() && !second.is_granted());
    lock.release(xid(1), AccessExclusive, None);
    assert!(second.is_granted() && !third.is_granted() && !fourth.is_granted());
    lock.release(xid(2), AccessShare, None);
    assert!(third.is_granted() && !fourth.is_granted());
    lock.release(xid(3), AccessExclusive, None);
    assert!(fourth.is_granted());
    lock.release(xid(4), RowExclusive, None);
    assert!(lock.is_idle());
}

#[test]
fn a_request_whose_held_lock_the_waiter_waits_for_passes_it() {
    let lock = TableLock::new(2);
    assert!(lock.try_weak(xid(0), AccessShare));
    let strong = queued(ask(&lock, fresh(1), AccessExclusive));
    assert!(!lock.try_weak(xid(0), RowExclusive));
    let holder = Asker { owner: xid(0), held: ModeSet::NONE.with(AccessShare) };
    granted(ask(&lock, holder, RowExclusive));
    assert!(!strong.is_granted());
    lock.release(xid(0), AccessShare, None);
    lock.release(xid(0), RowExclusive, None);
    assert!(strong.is_granted());
}

#[test]
fn an_upgrade_does_not_wait_for_itself() {
    let lock = TableLock::new(1);
    let one = Xid::new(InstanceId(0), SlotId(0), 1);
    assert!(lock.try_weak(one, RowExclusive));
    let held = ModeSet::NONE.with(RowExclusive);
    granted(lock.request(Asker { owner: one, held }, AccessExclusive, Count::default()));
    lock.release(one, AccessExclusive, None);
    lock.release(one, RowExclusive, None);
    assert!(lock.is_idle());
}

#[test]
fn a_withdrawn_request_lets_those_behind_it_through() {
    let lock = TableLock::new(2);
    assert!(lock.try_weak(xid(0), RowExclusive));
    let strong = queued(ask(&lock, fresh(1), Share));
    assert!(!lock.try_weak(xid(2), RowExclusive));
    let behind = queued(ask(&lock, fresh(2), RowExclusive));
    lock.withdraw(&strong);
    assert!(behind.is_granted(), "nothing strong is left");
    lock.withdraw(&behind);
    lock.release(xid(0), RowExclusive, None);
    assert!(lock.is_idle(), "a request granted before its withdrawal is given back");
}

#[test]
fn an_enlistment_taken_out_wakes_the_strong_waiter_that_counted_it() {
    // What `try_weak` does when it sees the flag, step by step: the stripe goes up, a strong
    // request comes and counts it, the stripe goes down again, the weak request follows.
    let lock = TableLock::new(2);
    lock.stripes[0].counts[0].fetch_add(1, O::Relaxed);
    let strong = queued(ask(&lock, fresh(1), AccessExclusive));
    lock.stripes[0].counts[0].fetch_sub(1, O::Release);
    let weak = queued(ask(&lock, fresh(0), AccessShare));
    assert!(strong.is_granted() && !weak.is_granted());
    lock.release(xid(1), AccessExclusive, None);
    assert!(weak.is_granted());
}

/// Random requests, releases and withdrawals: conflicting modes are never held together, and
/// when all is released everyone has been served.
#[test]
fn random_requests_never_conflict_and_none_is_forgotten() {
    let seed =
        std::env::var("ATOLL_SEED").map_or_else(|_| fastrand::u64(..), |s| s.parse().unwrap());
    println!("ATOLL_SEED={seed}");
    let mut random = fastrand::Rng::with_seed(seed);
    for _ in 0..300 {
        let lock = TableLock::new(2);
        let mut held: Vec<ModeSet> = vec![ModeSet::NONE; 6];
        let mut waiting: Vec<Option<Arc<Request<Count>>>> = (0..6).map(|_| None).collect();
        for _ in 0..200 {
            let who = random.usize(..6);
            let owner = xid(who as u64);
            if let Some(request) = &waiting[who] {
                if request.is_granted() {
                    held[who] = held[who].with(request.mode());
                    waiting[who] = None;
                } else if random.u8(..8) == 0 {
                    lock.withdraw(request);
                    waiting[who] = None;
                }
            } else if random.bool() {
                let mode = LockMode::ALL[random.usize(..8)];
                let fast = |mode: LockMode| mode.is_weak() && lock.try_weak(owner, mode);
                if !held[who].has(mode) && !fast(mode) {
                    match ask(&lock, Asker { owner, held: held[who] }, mode) {
                        Asked::Granted(_) => held[who] = held[who].with(mode),
                        Asked::Queued(request) => waiting[who] = Some(request),
                    }
                } else if !held[who].has(mode) {
                    held[who] = held[who].with(mode);
                }
            } else {
                for mode in held[who].iter() {
                    lock.release(owner, mode, None);
                }
                held[who] = ModeSet::NONE;
            }
            for (one, modes) in held.iter().enumerate() {
                for (other, others) in held.iter().enumerate().filter(|(other, _)| *other != one) {
                    let clash = modes.iter().any(|mode| mode.conflicts().meets(*others));
                    assert!(!clash, "{one} holds {modes:?}, {other} holds {others:?}");
                }
            }
        }
        // Transactions end one after another; a cycle of waiters is broken by ending all holders.
        for round in 0..20 {
            for who in 0..6 {
                for mode in held[who].iter() {
                    lock.release(xid(who as u64), mode, None);
                }
                held[who] = ModeSet::NONE;
                if waiting[who].as_ref().is_some_and(|request| request.is_granted()) {
                    held[who] = held[who].with(waiting[who].take().unwrap().mode());
                }
            }
            assert!(round < 19 || lock.is_idle(), "somebody was forgotten");
        }
        assert!(waiting.iter().all(Option::is_none), "somebody was forgotten");
    }
}
