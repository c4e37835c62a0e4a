//! Where counts are kept: a table per thread, by label, what and site.
//!
//! Invariants: only its own thread adds to a table; reading sums all threads', those that have
//! ended included. Counting allocates at a site's first use on a thread, and takes the table's own
//! mutex, which nobody else holds but a reader.
//!
//! Two thread-locals and a global list, in builds that no user runs: an atomic knows neither its
//! database nor its task, and counts must outlive the instance's thread that made them.

use std::cell::Cell;
use std::collections::HashMap;
use std::panic::Location;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use super::names::site_name;
use super::{Entry, Ledger, What, lines};

/// The type of the transaction that a task runs.
#[derive(Clone, Copy, Default, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Label(u8);

impl Label {
    /// Of kind `kind` of a workload; of 255 kinds at most.
    pub const fn of(kind: usize) -> Label {
        assert!(kind < 255, "a workload has few kinds");
        Label(kind as u8 + 1)
    }
}

#[derive(Clone, Copy, Default)]
struct Count {
    times: u64,
    moved: u64,
    amount: u64,
}

/// A location is told by its address: two of the same place are joined when they are read.
type Key = (Label, What, usize);

#[derive(Default)]
struct Table {
    transactions: Vec<u64>,
    counts: HashMap<Key, (&'static Location<'static>, Count)>,
}

static TABLES: Mutex<Vec<Arc<Mutex<Table>>>> = Mutex::new(Vec::new());

thread_local! {
    static LABEL: Cell<Label> = const { Cell::new(Label(0)) };
    static TABLE: Arc<Mutex<Table>> = {
        let table = Arc::<Mutex<Table>>::default();
        held(&TABLES).push(Arc::clone(&table));
        table
    };
}

/// What another's panic left is whole: every change is one assignment.
fn held<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn with_table(change: impl FnOnce(&mut Table)) {
    // A thread that ends counts no more.
    let _ = TABLE.try_with(|table| change(&mut held(table)));
}

fn count(what: What, site: &'static Location<'static>, moved: bool, amount: u64) {
    let label = LABEL.get();
    with_table(|table| {
        let key = (label, what, std::ptr::from_ref(site).addr());
        let (_, count) = table.counts.entry(key).or_insert((site, Count::default()));
        count.times += 1;
        count.moved += u64::from(moved);
        count.amount += amount;
    });
}

/// Counts a write of the word at `address`, at the caller's site.
#[track_caller]
#[inline]
pub(super) fn enter(what: What, address: usize) {
    count(what, Location::caller(), lines::write(address), 0);
}

/// The task goes on as `to`; answers what it was.
pub fn switch(to: Label) -> Label {
    LABEL.replace(to)
}

/// A transaction of this type begins; until the next [`switch`] the task works for it.
pub fn begin(label: Label) {
    LABEL.set(label);
    with_table(|table| {
        let at = usize::from(label.0);
        if table.transactions.len() <= at {
            table.transactions.resize(at + 1, 0);
        }
        table.transactions[at] += 1;
    });
}

/// Counts how long it lives.
#[must_use = "it lasts as long as the guard"]
pub struct Timed {
    what: What,
    site: &'static Location<'static>,
    began: Instant,
}

/// Times the caller's `what` until it is dropped.
#[track_caller]
pub fn timed(what: What) -> Timed {
    Timed { what, site: Location::caller(), began: Instant::now() }
}

impl Drop for Timed {
    fn drop(&mut self) {
        let ns = u64::try_from(self.began.elapsed().as_nanos()).unwrap_or(u64::MAX);
        count(self.what, self.site, false, ns);
    }
}

/// Counts one `what` of so many bytes.
#[track_caller]
pub fn add(what: What, amount: u64) {
    count(what, Location::caller(), false, amount);
}

/// Another reference to the same, counted. Its drop is counted with it, now.
#[track_caller]
pub fn share<T: ?Sized>(of: &Arc<T>) -> Arc<T> {
    // The counts lie before the value: two words, or as many as its alignment asks for.
    let before = align_of_val::<T>(of).max(2 * size_of::<usize>());
    enter(What::Share, Arc::as_ptr(of).cast::<u8>().addr() - before);
    Arc::clone(of)
}

/// Everything counted since the process began.
pub fn read() -> Option<Ledger> {
    let mut sums: HashMap<(Label, What, String), Count> = HashMap::new();
    let mut transactions = Vec::new();
    for table in held(&TABLES).iter() {
        let table = held(table);
        if transactions.len() < table.transactions.len() {
            transactions.resize(table.transactions.len(), 0);
        }
        for (sum, count) in transactions.iter_mut().zip(&table.transactions) {
            *sum += count;
        }
        for ((label, what, _), (site, count)) in &table.counts {
            let sum = sums.entry((*label, *what, site_name(site))).or_default();
            sum.times += count.times;
            sum.moved += count.moved;
            sum.amount += count.amount;
        }
    }
    let entry = |((label, what, site), count): ((Label, What, String), Count)| Entry {
        label: usize::from(label.0),
        what,
        site,
        times: count.times,
        moved: count.moved,
        amount: count.amount,
    };
    let mut entries: Vec<Entry> = sums.into_iter().map(entry).collect();
    entries.sort_by(|a, b| a.key().cmp(&b.key()));
    Some(Ledger { transactions, entries })
}
