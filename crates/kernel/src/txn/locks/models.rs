//! Models of the stripe and flag handshake, over the code that runs (rule 6.6):
//! `RUSTFLAGS="--cfg loom" cargo test -p atoll-kernel --lib loom_table_lock`.
//!
//! Conflicting holders meet in `inside`; a lost wake-up shows as a deadlock.

use super::*;
use crate::base::SlotId;
use loom::sync::Notify;
use loom::thread;

struct Bell(Arc<Notify>);
impl Wake for Bell {
    fn wake(&self) {
        self.0.notify();
    }
}

struct World {
    lock: TableLock<Bell>,
    /// Weak holders count by one, a strong one by 100. Relaxed: it must order nothing.
    inside: AtomicU32,
}

fn xid(instance: u16) -> Xid {
    Xid::new(InstanceId(instance), SlotId(0), 1)
}

impl World {
    fn new(instances: usize) -> Arc<World> {
        Arc::new(World { lock: TableLock::new(instances), inside: AtomicU32::new(0) })
    }

    fn take(&self, owner: Xid, mode: LockMode) {
        if mode.is_weak() && self.lock.try_weak(owner, mode) {
            return;
        }
        let bell = Arc::new(Notify::new());
        let asker = Asker { owner, held: ModeSet::NONE };
        if let Asked::Queued(request) = self.lock.request(asker, mode, Bell(bell.clone())) {
            while !request.is_granted() {
                bell.wait();
            }
        }
    }

    fn hold_and_release(&self, owner: Xid, mode: LockMode) {
        self.take(owner, mode);
        let weight = if mode.is_weak() { 1 } else { 100 };
        let before = self.inside.fetch_add(weight, Ordering::Relaxed);
        let alone = if mode.is_weak() { before < 100 } else { before == 0 };
        assert!(alone, "conflicting holders: {before} with {mode}");
        self.inside.fetch_sub(weight, Ordering::Relaxed);
        self.lock.release(owner, mode, None);
    }
}

fn model(body: impl Fn() + Sync + Send + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(3);
    builder.check(body);
}

#[test]
fn loom_table_lock_weak_against_strong() {
    model(|| {
        let world = World::new(1);
        let weak = {
            let world = world.clone();
            thread::spawn(move || world.hold_and_release(xid(0), LockMode::RowExclusive))
        };
        world.hold_and_release(Xid::new(InstanceId(0), SlotId(1), 1), LockMode::Share);
        weak.join().unwrap();
        assert!(world.lock.is_idle());
    });
}

#[test]
fn loom_table_lock_two_weak_against_strong() {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(2);
    builder.check(|| {
        let world = World::new(2);
        let weak = |instance| {
            let world = world.clone();
            thread::spawn(move || world.hold_and_release(xid(instance), LockMode::AccessShare))
        };
        let (one, other) = (weak(0), weak(1));
        let strong = Xid::new(InstanceId(0), SlotId(1), 1);
        world.hold_and_release(strong, LockMode::AccessExclusive);
        one.join().unwrap();
        other.join().unwrap();
        assert!(world.lock.is_idle());
    });
}
