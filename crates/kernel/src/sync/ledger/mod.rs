//! The ledger of what is shared (kernel.md section 12): which words transactions write, by site,
//! and what each write costs on a machine with many cores. Counted with feature `ledger` only;
//! without it everything here is empty and the atomics are those of `std`.
//!
//! **What is counted**, per type of transaction ([`Label`]) and by site (file, function and
//! expression of the caller, [`std::panic::Location`]): every atomic read-modify-write, failed
//! ones included; every atomic store; every mutex taken (its lock and its unlock are two
//! read-modify-writes); every counted clone of an [`std::sync::Arc`] ([`share`]: it and its drop
//! are two); every latch taken; waits for latches and mutexes, row claims, table locks and the waits for them, with
//! their time; optimistic attempts that are made again, with the time of the pause between them;
//! write calls, their bytes, and syncs.
//!
//! **What is *shared* is measured, not declared.** For each cache line (64 bytes) the ledger keeps
//! who wrote it last and whether anybody else has touched it since, by load, store or
//! read-modify-write. A write *moves* its line if another thread wrote it last or has read it since
//! the writer's own last write: then the processor must fetch the line or take it from others, and
//! that is what does not scale. A write whose line does not move stays in its core's cache. So
//! words that share a line by accident count as shared, as they do for the processor. An instance
//! is a thread with a core of its own; a thread counts as a core.
//!
//! **What is not seen.** Bytes of pages, and whatever else a latch or mutex protects, are plain
//! memory: their latch stands for them (who writes a page writes its latch, who reads it reads the
//! latch). Clones of `Arc` that do not go through [`share`]: a disassembly says where they are
//! (docs/scaling.md). Fences: they write nothing. The line table keeps four million lines, and
//! forgets one when another takes its place; its own words are written without a lock, so two
//! threads that touch a line in the same nanoseconds may count one move too few.
//!
//! Invariants: counting changes no value and no order that the kernel sees. A label belongs to a
//! task, not to a thread: the executor exchanges it with the coroutine ([`switch`]). Any module may
//! use this; only benchmarks read it.

#[cfg(all(not(loom), feature = "ledger"))]
mod atomics;
#[cfg(all(not(loom), feature = "ledger"))]
mod lines;
#[cfg(all(not(loom), feature = "ledger"))]
mod mutex;
#[cfg(all(not(loom), any(test, feature = "ledger")))]
mod names;
#[cfg(any(loom, not(feature = "ledger")))]
mod off;
#[cfg(all(not(loom), feature = "ledger"))]
mod tally;

#[cfg(all(not(loom), feature = "ledger"))]
pub use atomics::{AtomicBool, AtomicPtr, AtomicU16, AtomicU32, AtomicU64, AtomicUsize};
#[cfg(all(not(loom), feature = "ledger"))]
pub use mutex::Mutex;
#[cfg(any(loom, not(feature = "ledger")))]
pub use off::{Label, Timed, add, begin, read, share, switch, timed};
#[cfg(all(not(loom), feature = "ledger"))]
pub use tally::{Label, Timed, add, begin, read, share, switch, timed};

/// What is counted at a site.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum What {
    /// An atomic read-modify-write.
    Change,
    /// An atomic store.
    Store,
    /// A mutex, locked and unlocked: two read-modify-writes of one line.
    Mutex,
    /// A reference counted up and, later, down: two read-modify-writes of one line.
    Share,
    /// A latch taken, exclusively or shared, of a page or of a few instructions (spin locks). Its
    /// read-modify-write is counted beside it, as that of an attempt that fails.
    Latch,
    /// A wait for a latch, with its nanoseconds.
    LatchWait,
    /// A wait for a mutex, with its nanoseconds.
    MutexWait,
    /// An attempt that is made again because another's change or latch was in its way, with the
    /// nanoseconds of the pause before it, if there is one. What the attempts wait for latches is
    /// theirs.
    Retry,
    /// An attempt to make a row the transaction's own (a row lock), with its nanoseconds.
    RowClaim,
    /// A wait for another transaction's row, end or commit timestamp, with its nanoseconds.
    RowWait,
    /// A table lock, with its nanoseconds, its wait included.
    TableLock,
    /// A write handed to the operating system, with its bytes.
    Write,
    /// A sync, or a write that is durable when it completes.
    Sync,
}

impl What {
    /// All of them.
    pub const ALL: [What; 13] = [
        What::Change,
        What::Store,
        What::Mutex,
        What::Share,
        What::Latch,
        What::LatchWait,
        What::MutexWait,
        What::Retry,
        What::RowClaim,
        What::RowWait,
        What::TableLock,
        What::Write,
        What::Sync,
    ];

    /// Its name in tables and in JSON.
    pub const fn name(self) -> &'static str {
        match self {
            What::Change => "rmw",
            What::Store => "store",
            What::Mutex => "mutex",
            What::Share => "share",
            What::Latch => "latch",
            What::LatchWait => "latch wait",
            What::MutexWait => "mutex wait",
            What::Retry => "retry",
            What::RowClaim => "row claim",
            What::RowWait => "row wait",
            What::TableLock => "table lock",
            What::Write => "write",
            What::Sync => "sync",
        }
    }

    /// Atomic read-modify-writes that one of these is.
    pub const fn changes(self) -> u64 {
        match self {
            What::Change => 1,
            What::Mutex | What::Share => 2,
            _ => 0,
        }
    }

    /// Whether it is a wait, which comes and goes with the machine's load.
    pub const fn is_wait(self) -> bool {
        matches!(self, What::LatchWait | What::MutexWait | What::Retry | What::RowWait)
    }

    /// Whether it is a lock in the sense of the ledger's total: a latch, a mutex, a row or a table,
    /// taken or (a row) tried.
    pub const fn is_lock(self) -> bool {
        matches!(self, What::Latch | What::Mutex | What::RowClaim | What::TableLock)
    }

    /// Whether its nanoseconds are those of a lock: all of what row and table locks take, of
    /// latches and mutexes the waits, and the pauses of who met a latch or a change in his way.
    pub const fn is_lock_time(self) -> bool {
        self.is_wait() || matches!(self, What::RowClaim | What::TableLock)
    }

    /// Whether it writes a word, which may be shared.
    pub const fn writes_a_word(self) -> bool {
        matches!(self, What::Change | What::Store | What::Mutex | What::Share)
    }
}

/// What was counted at one site under one label.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Entry {
    /// The label: 0 is work of no transaction (flushes, collection, mail), n is kind n - 1.
    pub label: usize,
    /// What.
    pub what: What,
    /// Where: `file function: expression`; it does not change when lines move.
    pub site: String,
    /// How often.
    pub times: u64,
    /// How many of these moved their line from or out of another core.
    pub moved: u64,
    /// Nanoseconds or bytes, as [`What`] says.
    pub amount: u64,
}

/// Everything counted since the process began.
#[derive(Clone, Default, PartialEq, Eq, Debug)]
pub struct Ledger {
    /// Transactions begun, by label; [`Entry::label`] says which is which.
    pub transactions: Vec<u64>,
    /// By label, what and site, in this order.
    pub entries: Vec<Entry>,
}

impl Ledger {
    /// What was counted since `before`, an earlier reading.
    pub fn since(&self, before: &Ledger) -> Ledger {
        let old = |entry: &Entry| {
            let found = before.entries.binary_search_by(|it| it.key().cmp(&entry.key()));
            found.map_or((0, 0, 0), |at| {
                let it = &before.entries[at];
                (it.times, it.moved, it.amount)
            })
        };
        let entries = self.entries.iter().map(|entry| {
            let (times, moved, amount) = old(entry);
            Entry {
                times: entry.times - times,
                moved: entry.moved - moved,
                amount: entry.amount - amount,
                ..entry.clone()
            }
        });
        let transactions = self.transactions.iter().enumerate();
        Ledger {
            transactions: transactions
                .map(|(label, count)| count - before.transactions.get(label).unwrap_or(&0))
                .collect(),
            entries: entries.filter(|entry| entry.times > 0).collect(),
        }
    }
}

impl Entry {
    fn key(&self) -> (usize, What, &str) {
        (self.label, self.what, &self.site)
    }
}
