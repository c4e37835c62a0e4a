//! The ledger counts what happens, and docs/scaling.md knows every site of the hot paths of
//! TPC-C, of its Payments alone and of TPC-B.
//!
//! For builds with feature `ledger`: `cargo xtask ci --only ledger`. With `ATOLL_LEDGER_WRITE=1`
//! (`cargo xtask ledger`) the figures of the run are written into docs/scaling.md; a new site then
//! has neither class nor reason there, and fails the next run until a person has said them.
#![allow(clippy::unwrap_used, reason = "tests")]

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::mpsc;
use std::time::Duration;

use atoll_bench::ledger::{Class, Costs, Counting, Known, Unknown};
use atoll_bench::native::run;
use atoll_bench::setting::{Calls, Durability, Isolation, Place, Setting};
use atoll_bench::tpcb;
use atoll_bench::tpcc::{Affinity, Mix, Size, Tpcc};
use atoll_kernel::api::{Database, InstanceId, Instances, Options, Parker, Prefault, Target};
use atoll_kernel::latch::{HybridLatch, Release};
use atoll_kernel::sync::ledger::{self, Entry, Label, What, share};
use atoll_kernel::sync::{AtomicU64, Mutex, Ordering, spin_to_retry};

/// A site that a transaction of some type meets this often must be known. Ten times what the table
/// shows, so that a site on the border does not come and go.
const HOT: f64 = 0.01;
/// Read-modify-writes of words that several instances write although their transactions do not
/// meet: the aim is none, and docs/scaling.md says what is left. Some are written from time to time:
/// where others have the processor, more of them come to a transaction.
const COMMON_MAX: f64 = 0.5;
/// Where others have the processor, instances sleep and wake more often, and for once share what is
/// their own. What the code shares is shared in each of so many runs.
const RUNS: usize = 3;

fn scaling_md() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../docs/scaling.md")
}

/// TPC-C on two home warehouses, two instances, on disk.
fn count_tpcc(mix: Mix) -> Costs {
    let affinity = Affinity::Home;
    let workload = Tpcc { warehouses: 2, size: Size::STANDARD, mix, affinity };
    let setting = Setting {
        clients: 8,
        seconds: 4,
        warmup_seconds: 1,
        isolation: Isolation::RepeatableRead,
        durability: Durability::Commit,
        calls: Calls::Inside,
        rate: None,
        seed: 1,
    };
    let directory = Directory::new();
    let place = Place {
        data: Some(directory.0.clone()),
        instances: Instances::Count(2),
        ..Place::default()
    };
    let report = run(&workload, &setting, &place, &mut |_| ()).unwrap();
    println!("{}", report.ledger().unwrap());
    report.ledger().unwrap().clone()
}

/// TPC-B's transaction on a branch of each of two instances, on disk.
fn count_tpcb() -> Costs {
    let directory = Directory::new();
    let setting = tpcb::Setting {
        scale: 2,
        clients: 8,
        instances: Instances::Count(2),
        prefault: Prefault::OnUse,
        seconds: 2,
        warmup_seconds: 1,
        rate: None,
        affinity: tpcb::Affinity::Home,
        durability: Durability::Commit,
        data: Some(directory.0.clone()),
        seed: 1,
    };
    let report = tpcb::run(&setting, &mut |_| ()).unwrap();
    println!("{}", report.ledger.as_ref().unwrap());
    report.ledger.unwrap()
}

/// What the table does not account for, of a run of `count` or of several.
fn unknown(known: &Known, costs: &Costs, count: impl Fn() -> Costs) -> Vec<String> {
    let mut unknown = known.unknown(costs, HOT);
    for _ in 1..RUNS {
        if unknown.iter().any(Unknown::is_shared) {
            let again = known.unknown(&count(), HOT);
            let is_there = |it: &Unknown| again.iter().any(|other| other.site() == it.site());
            unknown.retain(|it| !it.is_shared() || is_there(it));
        }
    }
    unknown.iter().map(Unknown::to_string).collect()
}

/// A folder that goes with the test.
struct Directory(PathBuf);

impl Directory {
    fn new() -> Directory {
        let name = format!("atoll-ledger-{}", std::process::id());
        Directory(std::env::temp_dir().join(name))
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

#[test]
fn scaling_md_knows_every_site_of_tpcc_and_tpcb() {
    let costs = count_tpcc(Mix::Standard);
    let text = std::fs::read_to_string(scaling_md()).unwrap();
    let known = Known::parse(&text).unwrap();
    if std::env::var_os("ATOLL_LEDGER_WRITE").is_some() {
        return std::fs::write(scaling_md(), known.written(&text, &costs).unwrap()).unwrap();
    }
    let mut unknown = self::unknown(&known, &costs, || count_tpcc(Mix::Standard));
    // One after another: the ledger is the process's.
    let payments = || count_tpcc(Mix::Payment);
    unknown.extend(self::unknown(&known, &payments(), payments));
    // Both instances' branches lie on one leaf: what they share says nothing of what is their own.
    let of_tpcb = known.unknown(&count_tpcb(), HOT);
    unknown.extend(of_tpcb.iter().filter(|it| !it.is_shared()).map(Unknown::to_string));
    assert!(
        unknown.is_empty(),
        "docs/scaling.md does not account for these sites (`cargo xtask ledger` adds lines for \
         them; say their class and reason there):\n{}",
        unknown.join("\n")
    );
    let common = known.shared_changes(&costs, Class::Common);
    assert!(common <= COMMON_MAX, "{common:.3} common read-modify-writes a transaction");
    a_new_site_is_found(&known, costs.transactions());
}

/// The same judge on the same counts, and one word more in every tenth transaction.
fn a_new_site_is_found(known: &Known, transactions: u64) {
    let word = AtomicU64::new(0);
    let counting = Counting::begin();
    for number in 0..transactions.min(1000) {
        ledger::begin(Label::of(0));
        if number % 10 == 0 {
            word.fetch_add(1, Ordering::Relaxed);
        }
    }
    ledger::switch(Label::default());
    let costs = counting.end(&["new_order"]).unwrap().unwrap();
    let unknown = known.unknown(&costs, HOT);
    let is_here = |it: &Unknown| it.to_string().contains("tests/ledger.rs");
    assert!(unknown.iter().any(is_here), "{unknown:?}");
}

/// What was counted in this file while `body` ran; tests run side by side, so `body` says which
/// kinds are its own.
fn counted(own: &[usize], body: impl FnOnce()) -> Vec<Entry> {
    let before = ledger::read().unwrap();
    body();
    let after = ledger::read().unwrap().since(&before);
    let is_own = |entry: &Entry| own.iter().any(|kind| kind + 1 == entry.label);
    after.entries.into_iter().filter(|entry| is_own(entry) && entry.times > 0).collect()
}

fn sum(entries: &[Entry], what: What) -> (u64, u64) {
    let of = entries.iter().filter(|entry| entry.what == what && entry.site.contains("ledger.rs"));
    of.fold((0, 0), |(times, moved), entry| (times + entry.times, moved + entry.moved))
}

/// Runs `body` on a thread of its own under a kind, to its end.
fn on_another(kind: usize, body: impl FnOnce() + Send) {
    std::thread::scope(|scope| {
        scope.spawn(|| {
            ledger::switch(Label::of(kind));
            body();
        });
    });
}

#[repr(align(64))]
struct OwnLine(AtomicU64);

#[test]
fn a_line_moves_when_another_thread_wrote_or_read_it() {
    let (first, second) = (OwnLine(AtomicU64::new(0)), OwnLine(AtomicU64::new(0)));
    let entries = counted(&[20], || {
        on_another(20, || {
            for _ in 0..10 {
                first.0.fetch_add(1, Ordering::Relaxed);
                second.0.store(1, Ordering::Relaxed);
            }
        });
    });
    assert_eq!(sum(&entries, What::Change), (10, 0), "{entries:?}");
    assert_eq!(sum(&entries, What::Store), (10, 0), "{entries:?}");
    let entries = counted(&[21, 22], || {
        for _ in 0..5 {
            on_another(21, || {
                first.0.swap(1, Ordering::Relaxed);
            });
            on_another(22, || {
                first.0.load(Ordering::Relaxed);
                second.0.load(Ordering::Relaxed);
            });
        }
    });
    assert_eq!(sum(&entries, What::Change), (5, 5), "written by others: {entries:?}");
    let entries = counted(&[23], || {
        on_another(23, || {
            for _ in 0..3 {
                second.0.store(2, Ordering::Relaxed);
            }
        });
    });
    assert_eq!(sum(&entries, What::Store), (3, 1), "read by others, once: {entries:?}");
}

#[test]
fn a_label_goes_with_its_task() {
    let options = Options { instances: Instances::Count(1), ..Options::default() };
    let database = Database::open_in_memory(options).unwrap();
    let (sender, receiver) = mpsc::channel();
    let entries = counted(&[30, 31], || {
        for kind in [30, 31] {
            let sender = sender.clone();
            database.spawn(Target::Instance(InstanceId(0)), move |context| {
                let word = AtomicU64::new(0);
                for _ in 0..50 * (kind - 29) {
                    ledger::begin(Label::of(kind));
                    word.fetch_add(1, Ordering::Relaxed);
                    context.yield_now();
                    word.fetch_add(1, Ordering::Relaxed);
                }
                ledger::switch(Label::default());
                sender.send(kind).unwrap();
            });
        }
        for _ in 0..2 {
            receiver.recv_timeout(Duration::from_secs(90)).unwrap();
        }
    });
    let of = |kind: usize| {
        let own: Vec<Entry> =
            entries.iter().filter(|entry| entry.label == kind + 1).cloned().collect();
        sum(&own, What::Change).0
    };
    assert_eq!((of(30), of(31)), (100, 200), "{entries:?}");
    let transactions = ledger::read().unwrap().transactions;
    assert_eq!((transactions[31], transactions[32]), (50, 100));
    database.close().unwrap();
}

#[test]
fn waits_are_counted_with_their_time() {
    let (mutex, latch) = (Mutex::new(0), HybridLatch::new());
    let entries = counted(&[40], || {
        let held = mutex.lock().unwrap();
        latch.lock_exclusive().unwrap();
        std::thread::scope(|scope| {
            let waiter = scope.spawn(|| {
                ledger::switch(Label::of(40));
                while latch.lock_exclusive().is_err() {}
                latch.unlock_exclusive(Release::Unchanged);
                *mutex.lock().unwrap() += 1;
            });
            std::thread::sleep(Duration::from_millis(20));
            latch.unlock_exclusive(Release::Unchanged);
            std::thread::sleep(Duration::from_millis(20));
            drop(held);
            waiter.join().unwrap();
        });
    });
    for what in [What::LatchWait, What::MutexWait] {
        let ns: u64 =
            entries.iter().filter(|entry| entry.what == what).map(|entry| entry.amount).sum();
        assert!((5_000_000..5_000_000_000).contains(&ns), "{what:?}: {ns} ns in {entries:?}");
    }
    assert_eq!(sum(&entries, What::Mutex), (1, 1), "{entries:?}");
}

/// Regression: all optimistic readers waited at one site, the latch's own.
#[test]
fn a_reader_waits_at_its_own_site() {
    let latch = HybridLatch::new();
    let entries = counted(&[45], || {
        latch.lock_exclusive().unwrap();
        on_another(45, || {
            let _ = latch.read();
        });
        latch.unlock_exclusive(Release::Unchanged);
    });
    assert_eq!(sum(&entries, What::LatchWait), (1, 0), "{entries:?}");
}

/// Regression: who spun before an optimistic attempt was made again was in no account.
#[test]
fn a_pause_before_a_retry_is_counted_with_its_time() {
    let entries = counted(&[46], || {
        on_another(46, || {
            for _ in 0..3 {
                spin_to_retry();
            }
        });
    });
    assert_eq!(sum(&entries, What::Retry), (3, 0), "{entries:?}");
    let here = entries.iter().filter(|entry| entry.what == What::Retry);
    assert!(here.map(|entry| entry.amount).sum::<u64>() > 0, "{entries:?}");
}

#[test]
fn shared_references_are_counted_on_their_line() {
    let one: Arc<dyn std::fmt::Debug + Send + Sync> = Arc::new(7);
    let entries = counted(&[50, 51], || {
        on_another(50, || drop(share(&one)));
        on_another(51, || drop(share(&one)));
    });
    assert_eq!(sum(&entries, What::Share), (2, 1), "{entries:?}");
    assert_eq!(Arc::strong_count(&one), 1);
}
