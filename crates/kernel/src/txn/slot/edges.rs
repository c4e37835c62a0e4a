//! What a slot shows of its transaction's waits and table locks, for deadlock detectors.
//!
//! Invariants: written only by the transaction's own thread, and only when it waits or takes a
//! table lock (so a transaction that never waits writes one word per table it locks, on its own
//! slot's lines); `doomed` alone is written by others. A wait has a number that never repeats
//! within a slot, so an edge read twice with the same number is the same wait, and a doom meant
//! for an earlier wait is never taken for this one.

use super::handshake::Wake;
use crate::base::{RowId, TreeId};
use crate::sync::{AtomicU64, AtomicUsize, Mutex, Ordering};
use crate::txn::locks::{LockMode, ModeSet};

/// What a transaction waits for, as a detector sees it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(in crate::txn) enum Edge {
    /// The turn to take a row, or a key of an index; its queue knows whom that is to be waited for.
    Row(TreeId, RowId),
    /// A table lock in a mode, while holding others on the same table.
    Table(TreeId, LockMode, ModeSet),
}

const TABLE_MARK: u64 = 1 << 62;
const ROW_MARK: u64 = 1 << 61;

impl Edge {
    // A table edge has the one mark, a row's the other; 0 is "waits for nothing".
    fn raw(self) -> u64 {
        match self {
            Edge::Row(tree, _) => ROW_MARK | tree.0 as u64,
            Edge::Table(tree, mode, held) => {
                TABLE_MARK | (held.bits() as u64) << 40 | (mode as u64) << 32 | tree.0 as u64
            }
        }
    }

    fn from_raw(raw: u64, row: u64) -> Option<Edge> {
        if raw == 0 {
            return None;
        }
        if raw & ROW_MARK != 0 {
            return Some(Edge::Row(TreeId(raw as u32), RowId(row)));
        }
        let mode = LockMode::ALL[(raw >> 32 & 0xff) as usize - 1];
        let held = ModeSet::from_bits((raw >> 40 & 0xff) as u8);
        Some(Edge::Table(TreeId(raw as u32), mode, held))
    }
}

/// One wait as a detector read it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(in crate::txn) struct Wait {
    /// Which of the slot's waits.
    pub number: u64,
    /// What for.
    pub edge: Edge,
}

struct Doom<W> {
    waker: Option<W>,
    number: u64,
    detail: String,
}

/// A slot's present wait.
#[repr(align(128))]
pub(in crate::txn) struct WaitEdge<W> {
    // The number of the present or last wait. Owner writes; detectors read before and after
    // `edge` (Acquire pairs with the Release of `edge`).
    number: AtomicU64,
    // The row of an edge that is one. Owner writes before `edge`, detectors read.
    row: AtomicU64,
    // The edge, 0 = none. Owner writes (Release), detectors read (Acquire).
    edge: AtomicU64,
    // Who was doomed, why, and how to wake it. Owner and detectors, under the mutex.
    doom: Mutex<Doom<W>>,
}

impl<W: Wake> Default for WaitEdge<W> {
    fn default() -> Self {
        WaitEdge {
            number: AtomicU64::new(0),
            row: AtomicU64::new(0),
            edge: AtomicU64::new(0),
            doom: Mutex::new(Doom { waker: None, number: 0, detail: String::new() }),
        }
    }
}

impl<W: Wake> WaitEdge<W> {
    /// The owner begins to wait; `waker` ends its wait early if it is doomed.
    pub fn begin(&self, edge: Edge, waker: W) {
        let number = self.number.load(Ordering::Relaxed) + 1;
        {
            let mut doom = self.doom.lock().expect("no panic while it is held");
            doom.waker = Some(waker);
            doom.detail.clear();
            self.number.store(number, Ordering::Relaxed);
        }
        if let Edge::Row(_, row) = edge {
            self.row.store(row.0, Ordering::Relaxed);
        }
        self.edge.store(edge.raw(), Ordering::Release);
    }

    /// The owner no longer waits.
    pub fn end(&self) {
        self.edge.store(0, Ordering::Release);
        let mut doom = self.doom.lock().expect("no panic while it is held");
        doom.waker = None;
    }

    /// The owner asks whether a detector chose it; the cycle's text.
    pub fn doomed(&self) -> Option<String> {
        let doom = self.doom.lock().expect("no panic while it is held");
        let mine = doom.number == self.number.load(Ordering::Relaxed) && !doom.detail.is_empty();
        mine.then(|| doom.detail.clone())
    }

    /// The present wait, if any.
    pub fn read(&self) -> Option<Wait> {
        let raw = self.edge.load(Ordering::Acquire);
        let number = self.number.load(Ordering::Acquire);
        let edge = Edge::from_raw(raw, self.row.load(Ordering::Acquire))?;
        // Still the same wait: `number` changes only while `edge` is 0.
        let again = self.edge.load(Ordering::Acquire);
        (again == raw).then_some(Wait { number, edge })
    }

    /// A detector ends the wait `number` with a deadlock error; false if it is over already.
    pub fn doom(&self, number: u64, detail: &str) -> bool {
        let mut doom = self.doom.lock().expect("no panic while it is held");
        if self.number.load(Ordering::Relaxed) != number || doom.waker.is_none() {
            return false;
        }
        doom.number = number;
        doom.detail = detail.to_owned();
        if let Some(waker) = &doom.waker {
            waker.wake();
        }
        true
    }
}

const INLINE: usize = 15;

/// The table locks that a slot's transaction holds: tree and modes, one word each.
#[repr(align(128))]
pub(in crate::txn) struct HeldTables {
    // Owner writes (Release), detectors read (Acquire). 0 = none; else tree << 8 | modes.
    words: [AtomicU64; INLINE],
    // How many are in use, those of `more` included. Owner writes, detectors read.
    len: AtomicUsize,
    // The rest, of transactions that lock very many tables.
    more: Mutex<Vec<u64>>,
}

impl Default for HeldTables {
    fn default() -> Self {
        HeldTables {
            words: std::array::from_fn(|_| AtomicU64::new(0)),
            len: AtomicUsize::new(0),
            more: Mutex::new(Vec::new()),
        }
    }
}

impl HeldTables {
    /// The owner holds `modes` on its `index`-th locked table now.
    pub fn set(&self, index: usize, tree: TreeId, modes: ModeSet) {
        let word = (tree.0 as u64) << 8 | modes.bits() as u64;
        if index < INLINE {
            self.words[index].store(word, Ordering::Release);
        } else {
            let mut more = self.more.lock().expect("no panic while it is held");
            let len = more.len().max(index - INLINE + 1);
            more.resize(len, 0);
            more[index - INLINE] = word;
        }
        if index >= self.len.load(Ordering::Relaxed) {
            self.len.store(index + 1, Ordering::Release);
        }
    }

    /// The owner holds locks on its first `len` tables only.
    pub fn truncate(&self, len: usize) {
        if self.len.load(Ordering::Relaxed) > INLINE {
            self.more
                .lock()
                .expect("no panic while it is held")
                .truncate(len.saturating_sub(INLINE));
        }
        self.len.store(len, Ordering::Release);
    }

    /// The owner holds nothing any more.
    pub fn clear(&self) {
        if self.len.load(Ordering::Relaxed) > INLINE {
            self.more.lock().expect("no panic while it is held").clear();
        }
        self.len.store(0, Ordering::Release);
    }

    /// The modes held on `tree`, as a detector sees them.
    pub fn on(&self, tree: TreeId) -> ModeSet {
        let len = self.len.load(Ordering::Acquire);
        let matches = |word: u64| {
            (word >> 8 == tree.0 as u64).then(|| ModeSet::from_bits((word & 0xff) as u8))
        };
        for word in &self.words[..len.min(INLINE)] {
            if let Some(modes) = matches(word.load(Ordering::Acquire)) {
                return modes;
            }
        }
        if len > INLINE {
            let more = self.more.lock().expect("no panic while it is held");
            return more.iter().find_map(|word| matches(*word)).unwrap_or(ModeSet::NONE);
        }
        ModeSet::NONE
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    struct Nobody;
    impl Wake for Nobody {
        fn wake(&self) {}
    }

    #[test]
    fn edges_survive_packing() {
        let held = ModeSet::NONE.with(LockMode::RowExclusive);
        let table = Edge::Table(TreeId(u32::MAX), LockMode::AccessExclusive, held);
        let row = Edge::Row(TreeId(u32::MAX), RowId(u64::MAX - 1));
        for edge in [table, row] {
            assert_eq!(Edge::from_raw(edge.raw(), u64::MAX - 1), Some(edge));
        }
        assert_eq!(Edge::from_raw(0, 7), None);
    }

    #[test]
    fn a_doom_for_an_earlier_wait_is_not_taken_for_this_one() {
        let wait = WaitEdge::default();
        let edge = Edge::Row(TreeId(1), RowId(1));
        wait.begin(edge, Nobody);
        let first = wait.read().unwrap();
        wait.end();
        assert!(!wait.doom(first.number, "cycle"), "the wait is over");
        wait.begin(edge, Nobody);
        assert!(!wait.doom(first.number, "cycle"), "another wait");
        assert_eq!(wait.doomed(), None);
        assert!(wait.doom(first.number + 1, "cycle"));
        assert_eq!(wait.doomed().as_deref(), Some("cycle"));
    }

    #[test]
    fn many_held_tables_are_all_seen() {
        let held = HeldTables::default();
        let modes = ModeSet::NONE.with(LockMode::AccessShare);
        for table in 0..40 {
            held.set(table, TreeId(table as u32), modes);
        }
        assert!((0..40).all(|table| held.on(TreeId(table)) == modes));
        assert_eq!(held.on(TreeId(40)), ModeSet::NONE);
        held.set(0, TreeId(0), modes.with(LockMode::Share));
        assert!(held.on(TreeId(0)).has(LockMode::Share));
        held.truncate(20);
        assert_eq!(held.on(TreeId(19)), modes);
        assert_eq!(held.on(TreeId(20)), ModeSet::NONE);
        held.truncate(3);
        assert_eq!(held.on(TreeId(3)), ModeSet::NONE);
        held.clear();
        assert_eq!(held.on(TreeId(3)), ModeSet::NONE);
    }
}
