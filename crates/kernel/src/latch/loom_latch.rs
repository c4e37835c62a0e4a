//! Loom models of the hybrid latch (run with `--cfg loom`, filter `loom_latch`).
//!
//! They check the latch that runs, not a copy. Mutants caught here: `latch_no_version_bump`,
//! `latch_validate_without_fence`, `latch_lock_without_fence`.

use loom::sync::Arc;
use loom::thread;

use super::{HybridLatch, Release};
use crate::sync::{AtomicU64, Ordering};

struct Pair {
    latch: HybridLatch,
    a: AtomicU64,
    b: AtomicU64,
}

fn pair() -> Arc<Pair> {
    Arc::new(Pair { latch: HybridLatch::new(), a: AtomicU64::new(0), b: AtomicU64::new(0) })
}

fn add_one(pair: &Pair) -> bool {
    if pair.latch.lock_exclusive().is_err() {
        return false;
    }
    let a = pair.a.load(Ordering::Relaxed);
    pair.a.store(a + 1, Ordering::Relaxed);
    let b = pair.b.load(Ordering::Relaxed);
    pair.b.store(b + 1, Ordering::Relaxed);
    pair.latch.unlock_exclusive(Release::Changed);
    true
}

#[test]
fn loom_latch_optimistic_reader_sees_no_torn_pair() {
    loom::model(|| {
        let shared = pair();
        let writer = {
            let shared = shared.clone();
            thread::spawn(move || assert!(add_one(&shared)))
        };
        let reader = {
            let shared = shared.clone();
            thread::spawn(move || {
                if let Ok(version) = shared.latch.read() {
                    let a = shared.a.load(Ordering::Relaxed);
                    let b = shared.b.load(Ordering::Relaxed);
                    if shared.latch.validate(version) {
                        assert_eq!(a, b, "a validated read is of one moment");
                    }
                }
            })
        };
        reader.join().unwrap();
        writer.join().unwrap();
    });
}

#[test]
fn loom_latch_two_writers_lose_nothing() {
    loom::model(|| {
        let shared = pair();
        let other = {
            let shared = shared.clone();
            thread::spawn(move || u64::from(add_one(&shared)))
        };
        let mine = u64::from(add_one(&shared));
        let done = mine + other.join().unwrap();
        assert_eq!(shared.a.load(Ordering::Relaxed), done);
        assert_eq!(shared.b.load(Ordering::Relaxed), done);
    });
}

#[test]
fn loom_latch_upgrade_fails_after_a_change() {
    loom::model(|| {
        let shared = pair();
        let writer = {
            let shared = shared.clone();
            thread::spawn(move || u64::from(add_one(&shared)))
        };
        let mut mine = 0;
        if let Ok(version) = shared.latch.read() {
            let a = shared.a.load(Ordering::Relaxed);
            if shared.latch.upgrade(version) {
                // What was read before the upgrade is still so: an update may be based on it.
                shared.a.store(a + 1, Ordering::Relaxed);
                shared.b.store(a + 1, Ordering::Relaxed);
                shared.latch.unlock_exclusive(Release::Changed);
                mine = 1;
            }
        }
        let done = mine + writer.join().unwrap();
        assert_eq!(shared.a.load(Ordering::Relaxed), done);
        assert_eq!(shared.b.load(Ordering::Relaxed), done);
    });
}

#[test]
fn loom_latch_shared_holder_keeps_writers_out() {
    loom::model(|| {
        let shared = pair();
        let writer = {
            let shared = shared.clone();
            thread::spawn(move || add_one(&shared))
        };
        if shared.latch.try_shared().is_some() {
            let a = shared.a.load(Ordering::Relaxed);
            let b = shared.b.load(Ordering::Relaxed);
            assert_eq!(a, b, "no writer is inside");
            shared.latch.unlock_shared();
        }
        writer.join().unwrap();
    });
}
