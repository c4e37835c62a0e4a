//! Counts of what a simulation met: the rare states that a long enough run must all have seen.
//!
//! Invariants: names are fixed; counting changes nothing.

use std::collections::BTreeMap;

use atoll_kernel::log::LogCounters;
use atoll_kernel::txn::TxnCounters;

/// States that every run of some minutes must have met, or it did not test what it should.
pub const RARE: [&str; 59] = [
    "preparing met",
    "read retried",
    "slot reused",
    "waited for another's end",
    "waited for a table lock",
    "waited for stability",
    "dependency logged",
    "chunk spilled",
    "deadlock",
    "serialization failure",
    "row handed over",
    "unique conflict",
    "newer version locked",
    "log shortened by the cut",
    "damaged log refused",
    "damaged end of a log taken for a torn one",
    "crash during recovery",
    "power cut",
    "process killed",
    "out of memory",
    "old snapshots ended",
    "row gone before its checkpoint ended",
    "undo let go before its checkpoint ended",
    "disk full",
    "disk failed",
    "instances changed",
    "cancelled in a wait",
    "transaction left behind",
    "rolled back to a savepoint",
    "statement rolled back",
    "savepoint released",
    "definitions rolled back to a savepoint",
    "sequence value",
    "rows told by an index alone",
    "checkpoint published",
    "checkpoint abandoned",
    "recovered from a checkpoint",
    "checkpoint read",
    "page moved down",
    "page file made shorter",
    "crash behind a cut",
    "leaf loaded",
    "leaf evicted",
    "inner node loaded",
    "inner node evicted",
    "crash during the recovery of a recovery",
    "newest checkpoint judged after a crash",
    "checkpoint judged as a whole",
    "crash during eviction",
    "crash during compaction",
    "checkpoint role stalled",
    "checkpoint role went on after a stall",
    "checkpoint role taken over",
    "crash while the checkpoint role was stalled",
    "checkpoint share went on after a stall",
    "crash while a checkpoint share was stalled",
    "page provider went on after a stall",
    "crash while the page provider was stalled",
    "compaction went on after a stall",
];

/// Those of [`RARE`] that only show when instances stop inside protocols.
pub const INTERLEAVED_ONLY: [&str; 13] = [
    "preparing met",
    "read retried",
    "crash during eviction",
    "crash during compaction",
    "checkpoint role stalled",
    "checkpoint role went on after a stall",
    "checkpoint role taken over",
    "crash while the checkpoint role was stalled",
    "checkpoint share went on after a stall",
    "crash while a checkpoint share was stalled",
    "page provider went on after a stall",
    "crash while the page provider was stalled",
    "compaction went on after a stall",
];

/// Numbers by name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    counts: BTreeMap<&'static str, u64>,
}

impl Counters {
    /// Adds to a count.
    pub fn add(&mut self, name: &'static str, more: u64) {
        *self.counts.entry(name).or_default() += more;
    }

    /// A count.
    pub fn get(&self, name: &str) -> u64 {
        self.counts.get(name).copied().unwrap_or(0)
    }

    /// All counts, by name.
    pub fn iter(&self) -> impl Iterator<Item = (&'static str, u64)> {
        self.counts.iter().map(|(name, count)| (*name, *count))
    }

    /// Adds all counts of another run.
    pub fn merge(&mut self, other: &Counters) {
        other.iter().for_each(|(name, count)| self.add(name, count));
    }

    /// Adds what one instance did in one life.
    pub fn instance(&mut self, txn: &TxnCounters, log: &LogCounters) {
        self.add("transactions begun", txn.begun);
        self.add("transactions committed", txn.committed);
        self.add("transactions rolled back", txn.aborted);
        self.add("slot reused", txn.slots_reused);
        self.add("preparing met", txn.preparing_met);
        self.add("read retried", txn.retries);
        self.add("waited for another's end", txn.end_waits);
        self.add("stood in a row's queue", txn.rows_awaited);
        self.add("row handed over", txn.row_turns);
        self.add("old snapshots ended", txn.snapshots_ended);
        self.add("row gone before its checkpoint ended", txn.rows_reaped);
        self.add("undo let go before its checkpoint ended", txn.undo_let_go);
        self.add("page loaded for a collection", txn.collect_loads);
        self.add("waited for a table lock", txn.table_lock_waits);
        self.add("waited for stability", txn.stable_waits);
        self.add("waited for log room", txn.room_waits + log.waits);
        self.add("waited for the clock", txn.clock_waits);
        self.add("dependency logged", txn.dependencies);
        self.add("chunk spilled", txn.chunks);
        self.add("log flushed", log.flushes_done);
        self.add("log segment begun", log.segments);
    }

    /// Which rare states were never met.
    pub fn missing(&self) -> Vec<&'static str> {
        let interleaved = cfg!(feature = "interleave");
        let expected = RARE.iter().filter(|it| interleaved || !INTERLEAVED_ONLY.contains(it));
        expected.filter(|name| self.get(name) == 0).copied().collect()
    }
}
