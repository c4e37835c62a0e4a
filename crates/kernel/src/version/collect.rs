//! Reclaiming undo below the horizon (rule 6.8). Being filled in.

use std::rc::Rc;
use std::sync::Arc;

use super::{Tables, VersionSpace};
use crate::base::{Cts, InstanceId};

/// One instance's share: its undo chunks, its arenas, its collection queue. Not `Sync`.
pub struct InstanceVersions {}

/// What a collection may take.
#[derive(Clone, Copy, Debug)]
pub struct CollectLimit {
    /// Records with a cts below go (rule 6.8: clock first, then all floors).
    pub horizon: Cts,
    /// ... if the own instance's stable mark has reached theirs.
    pub stable: Cts,
}

/// What a collection did.
#[derive(Clone, Copy, Debug, Default)]
pub struct Collected {
    /// Transactions whose undo is gone.
    pub transactions: usize,
    /// Whether the quota ended it, not the limit: call again soon.
    pub more: bool,
}

impl InstanceVersions {
    /// Creates the instance's share; its undo takes at most `undo_bytes_max`.
    pub fn new(space: Arc<VersionSpace>, instance: InstanceId, undo_bytes_max: u64) -> Rc<Self> {
        let _ = (space, instance, undo_bytes_max);
        todo!()
    }

    /// Bytes of undo held now.
    pub fn undo_bytes(&self) -> u64 {
        todo!()
    }

    /// Reclaims up to about `records_max` records of finished transactions, oldest first. Never
    /// blocks; takes leaf latches one at a time. Called by the instance as a system task.
    pub fn collect(
        &self,
        limit: CollectLimit,
        tables: &dyn Tables,
        records_max: usize,
    ) -> Collected {
        let _ = (limit, tables, records_max);
        todo!()
    }
}
