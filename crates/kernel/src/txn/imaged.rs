//! The S of a checkpoint as what holds undo back: what leaves of tables need that are not imaged yet (rules 6.8, 8.3).
//! Entries of indexes wait by themselves (version/collect/postponed.rs).
//!
//! S is registered as a floor (`horizon.rs`). What each instance has *reached* (`version/imaging.rs`)
//! bounds from below the commits whose undo the checkpoint still needs; the least of all takes the place of
//! S as the floor. The floor only rises; S itself, by which images are made, does not change.
//!
//! Invariants: the floor is raised only when no leaf is listed for all and none parked: `may_let_go` says so. Long
//! values were taken before all else. What is reached is read before it is asked whether anything is listed for all.
//!
//! Words: `reached` of an instance is written by it alone and read by whoever raises the floor; the
//! floor is raised by any instance, under its mutex.

use std::sync::Mutex;

use super::shared::{OutsideSnapshot, TxnShared};
use crate::base::{Cts, InstanceId, TreeId};
use crate::sync::{AtomicU64, Ordering};
use crate::version::SnapshotView;

/// The registered snapshot of a checkpoint: its S.
pub struct CheckpointSnapshot {
    snapshot: OutsideSnapshot,
    reached: Box<[AtomicU64]>,
    floor: Mutex<Cts>,
}

impl CheckpointSnapshot {
    pub(super) fn new(snapshot: OutsideSnapshot, instances: usize) -> CheckpointSnapshot {
        let floor = Mutex::new(snapshot.view().timestamp);
        let reached = (0..instances).map(|_| AtomicU64::new(0)).collect();
        CheckpointSnapshot { snapshot, reached, floor }
    }

    /// What it sees.
    pub fn view(&self) -> SnapshotView {
        self.snapshot.view()
    }

    /// The last leaf of the table and of its indexes was copied: nothing of it is read with this
    /// snapshot any more, and rows deleted since may go.
    pub fn pass(&self, table: TreeId) {
        self.shared().floors.pass(self.snapshot.floor(), table);
    }

    fn shared(&self) -> &TxnShared {
        self.snapshot.shared()
    }

    /// The instance looks whether its list is empty, and if so has reached the time at which it
    /// began to look.
    pub fn reach(&self, instance: InstanceId, has_imaged_all: impl FnOnce() -> bool) {
        let now = self.shared().clock.snapshot();
        if has_imaged_all() {
            // Release: partner is the acquire in `let_go`; what was listed by then is imaged.
            self.reached[usize::from(instance.0)].store(now.0, Ordering::Release);
        }
    }

    /// Lets go of what all instances have reached, if `may_let_go` says so; answers the floor.
    pub fn let_go(&self, may_let_go: impl FnOnce() -> bool) -> Cts {
        let mut floor = self.floor.lock().expect("no holder panics");
        let reached = self.reached.iter().map(|it| it.load(Ordering::Acquire)).min();
        let reached = Cts(reached.unwrap_or(0));
        if reached > *floor && may_let_go() {
            *floor = reached;
            self.snapshot.floor().publish(reached);
        }
        *floor
    }
}
