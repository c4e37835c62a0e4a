//! Checkpoints in random histories: undo goes, and the entries that they need of indexes stay.

use super::*;

/// A key and its row.
type Entry = (Vec<u8>, RowId);

/// A checkpoint that is being made.
pub(super) struct Making {
    timestamp: Cts,
    /// The entries of each index that is still to be copied, of the rows that the checkpoint has.
    needed: [Option<Vec<Entry>>; 2],
}

impl Model {
    /// Begins a checkpoint, copies an index for it, or ends it.
    pub(super) fn go_on_with_checkpoint(&mut self) {
        let Some(making) = &mut self.checkpoint else { return self.begin_checkpoint() };
        let index = self.random.usize(..2);
        let Some(needed) = making.needed[index].take() else {
            if making.needed.iter().all(Option::is_none) {
                self.end_checkpoint();
            }
            return;
        };
        let timestamp = making.timestamp;
        let found = self.world.entries(index);
        for entry in &needed {
            assert!(found.contains(entry), "step {}: index {index} has no {entry:?}", self.step);
        }
        self.world.table.indexes[index].tree.set_copied_as_of(timestamp);
    }

    fn begin_checkpoint(&mut self) {
        let timestamp = Cts(self.world.clock);
        self.world.clock += 1;
        self.world.table.versions.begin_imaging(timestamp);
        let mut needed = [Vec::new(), Vec::new()];
        for (row, versions) in &self.committed {
            let seen = versions.iter().rev().find(|(cts, ..)| *cts < timestamp);
            if let Some((.., Some(version))) = seen {
                (0..2).for_each(|index| needed[index].push((version.index_key(index), *row)));
            }
        }
        self.checkpoint = Some(Making { timestamp, needed: needed.map(Some) });
        self.count("checkpoint");
    }

    /// Ends it, whether it has everything or not.
    pub(super) fn end_checkpoint(&mut self) {
        let postponed: usize = self.world.instances.iter().map(|it| it.postponed_entries()).sum();
        *self.counts.entry("entry postponed").or_default() += postponed as u64;
        if let Some(making) = self.checkpoint.take() {
            self.world.table.versions.end_imaging(making.timestamp);
        }
    }
}
