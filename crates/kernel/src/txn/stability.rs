//! Waiting for logs (rules 7.5, 7.6): who waits until a home is stable up to a timestamp, and who
//! waits for room in the own log's buffer.
//!
//! A waiter enlists at the home it waits for, fences, and reads the mark again. The home's
//! instance, after its mark has risen, fences and looks whether anyone is enlisted. One of both
//! sees the other. Waiters are woken by class I/O, in order of timestamp.
//!
//! Invariants: entries of one home are in order of timestamp; an entry is removed only by the
//! home's instance (a waiter that gives up leaves its entry: a late wake-up is harmless). Who
//! writes: the list by any thread under its mutex; `waiting` is a hint written under the mutex and
//! read by the home's instance after its fence.

use std::collections::VecDeque;

use super::slot::Wake;
use crate::base::{Cts, HomeId, Observed};
use crate::sync::{AtomicU64, Mutex, Ordering, fence, mutant, point};

#[repr(align(128))]
struct HomeWaiters<W> {
    // How many are enlisted; written under the mutex, read by the home's instance.
    waiting: AtomicU64,
    // In order of timestamp.
    list: Mutex<VecDeque<(Cts, W)>>,
}

/// All waits for stability, per home.
pub(super) struct StableWaiters<W> {
    homes: Box<[HomeWaiters<W>]>,
}

impl<W: Wake> StableWaiters<W> {
    /// Nobody waits.
    pub fn new(homes: usize) -> StableWaiters<W> {
        let home = || HomeWaiters { waiting: AtomicU64::new(0), list: Mutex::new(VecDeque::new()) };
        StableWaiters { homes: (0..homes).map(|_| home()).collect() }
    }

    /// Enlists `waker` until the mark of `seen`'s home has reached `seen`; `mark` reads it again
    /// after the fence. False: it has, and nothing was enlisted for longer.
    pub fn enlist(&self, seen: Observed, waker: W, mark: impl FnOnce() -> Cts) -> bool {
        let home = &self.homes[seen.home.0 as usize];
        {
            let mut list = home.list.lock().expect("no panic while it is held");
            // Most come in order: look from the back.
            let after = list.iter().rposition(|(cts, _)| *cts <= seen.cts).map_or(0, |at| at + 1);
            list.insert(after, (seen.cts, waker));
            home.waiting.store(list.len() as u64, Ordering::Relaxed);
        }
        point("txn-stable-enlisted");
        // Partner: the fence in `advanced`.
        fence(Ordering::SeqCst);
        mutant("txn-stable-without-second-look") || mark() < seen.cts
    }

    /// The mark of `home` has risen to `mark`: wakes all that waited for no more. Called by the
    /// home's instance after each rise. Returns how many.
    pub fn advanced(&self, home: HomeId, mark: Cts) -> usize {
        let home = &self.homes[home.0 as usize];
        // Partner: the fence in `enlist`.
        fence(Ordering::SeqCst);
        if home.waiting.load(Ordering::Relaxed) == 0 || mutant("txn-stable-wakes-nobody") {
            return 0;
        }
        let due: Vec<(Cts, W)> = {
            let mut list = home.list.lock().expect("no panic while it is held");
            let due = list.iter().take_while(|(cts, _)| *cts <= mark).count();
            let due = list.drain(..due).collect();
            home.waiting.store(list.len() as u64, Ordering::Relaxed);
            due
        };
        for (_, waker) in &due {
            waker.wake();
        }
        due.len()
    }

    /// How many wait for `home`.
    #[cfg(all(test, not(loom)))]
    pub fn waiting(&self, home: HomeId) -> usize {
        self.homes[home.0 as usize].waiting.load(Ordering::Relaxed) as usize
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use std::cell::RefCell;
    use std::rc::Rc;

    struct Note(u32, Rc<RefCell<Vec<u32>>>);
    impl Wake for Note {
        fn wake(&self) {
            self.1.borrow_mut().push(self.0);
        }
    }

    #[test]
    fn waiters_are_woken_in_order_of_timestamp_and_not_early() {
        let woken = Rc::new(RefCell::new(Vec::new()));
        let waiters = StableWaiters::new(2);
        for cts in [30, 10, 20, 40] {
            let seen = Observed { home: HomeId(1), cts: Cts(cts) };
            assert!(waiters.enlist(seen, Note(cts as u32, woken.clone()), || Cts(5)));
        }
        assert_eq!(waiters.advanced(HomeId(1), Cts(9)), 0);
        assert_eq!(waiters.advanced(HomeId(0), Cts(99)), 0);
        assert_eq!(waiters.advanced(HomeId(1), Cts(30)), 3);
        assert_eq!(*woken.borrow(), [10, 20, 30]);
        assert_eq!(waiters.waiting(HomeId(1)), 1);
        let seen = Observed { home: HomeId(1), cts: Cts(50) };
        assert!(!waiters.enlist(seen, Note(50, woken.clone()), || Cts(50)), "stable meanwhile");
    }
}

#[cfg(all(test, loom))]
mod loom_stable {
    //! `RUSTFLAGS="--cfg loom" cargo test -p atoll-kernel --lib loom_stable`

    use super::*;
    use loom::sync::Notify;
    use std::sync::Arc;

    struct Bell(Arc<Notify>);
    impl Wake for Bell {
        fn wake(&self) {
            self.0.notify();
        }
    }

    /// The mark rises while one enlists: a lost wake-up shows as a deadlock.
    #[test]
    fn loom_stable_wait() {
        loom::model(|| {
            let waiters = Arc::new(StableWaiters::new(1));
            let mark = Arc::new(AtomicU64::new(0));
            let home = {
                let (waiters, mark) = (waiters.clone(), mark.clone());
                loom::thread::spawn(move || {
                    mark.store(7, Ordering::Release);
                    waiters.advanced(HomeId(0), Cts(7));
                })
            };
            let bell = Arc::new(Notify::new());
            let seen = Observed { home: HomeId(0), cts: Cts(7) };
            let read = || Cts(mark.load(Ordering::Acquire));
            if waiters.enlist(seen, Bell(bell.clone()), read) {
                loop {
                    bell.wait();
                    if mark.load(Ordering::Acquire) >= 7 {
                        break;
                    }
                }
            }
            home.join().unwrap();
        });
    }
}
