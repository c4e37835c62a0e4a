//! Waiting: the one place where code above the shell gives up its stack or its thread (rule 1.1).
//!
//! Invariants: an unpark before the park is not lost (one permit is remembered); an unpark after
//! the wait, or after the task's end, is harmless (a wake-up may be spurious, every caller loops);
//! a cell is queued at most once, by whoever turned `PARKED` into a permit; only its owner takes
//! the permit. No latch is held across a park (rule 1.2): it is asserted.

use std::sync::Arc;
use std::thread::Thread;
use std::time::{Duration, Instant};

use crate::io::{Completion, Op};
use crate::sync::ledger::share;
use crate::sync::{AtomicPtr, AtomicU32, Ordering, mutant};

use super::inbox::{Linked, Parcel};
use super::sleep::Door;

/// How a wait ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Parked {
    /// Somebody unparked it, now or before the wait; may be spurious.
    Woken,
    /// The deadline passed first.
    TimedOut,
}

/// Why a task is woken: its class of service until it waits again (rule 2.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UnparkClass {
    /// Its I/O is done.
    Io,
    /// A lock or another transaction's end; it may hold locks that others wait for.
    Lock,
}

/// What can wait: a task on its coroutine ([`super::TaskContext`]) or a plain thread
/// ([`ThreadParker`]). The kernel's shell and everything above it wait through this alone.
pub trait Parker {
    /// Waits until unparked or until `deadline_ns` of [`Parker::now_ns`]. Holds no latch.
    fn park(&self, deadline_ns: Option<u64>) -> Parked;
    /// As [`Parker::park`], for what may take as long as somebody outside likes: a client's next byte,
    /// another transaction's end. Meanwhile the caller is not among those that bound new transactions
    /// (rule 2.4), or as many as are admitted would close the instance to all others.
    fn park_aside(&self, deadline_ns: Option<u64>) -> Parked {
        self.park(deadline_ns)
    }
    /// A handle by which others end this caller's waits, valid for ever.
    fn unparker(&self) -> Unparker;
    /// Lets others on this instance run first. Holds no latch.
    fn yield_now(&self);
    /// Whether the caller's slice (about 100 microseconds) is used up; loops ask it (rule 2.6).
    fn should_yield(&self) -> bool;
    /// Nanoseconds of the database's monotonic clock.
    fn now_ns(&self) -> u64;
    /// Does an operation on a file and waits for its end: others of the instance run meanwhile, a
    /// plain thread is blocked. Holds no latch.
    fn wait_io(&self, op: Op) -> Completion {
        crate::io::run_blocking(op)
    }
    /// Bytes left on the caller's stack; recursions answer 54001 when it gets small (rule 2.2).
    fn stack_left_bytes(&self) -> usize;
}

const EMPTY: u32 = 0;
const PARKED: u32 = 1;
const PERMIT_IO: u32 = 2;
const PERMIT_LOCK: u32 = 3;

enum Owner {
    Task { door: Arc<Door>, task: u64 },
    Thread(Thread),
}

/// The word through which one task or thread waits.
pub(super) struct ParkCell {
    // Owner: EMPTY -> PARKED, PERMIT -> EMPTY, PARKED -> EMPTY (time-out). Others: any -> PERMIT.
    state: AtomicU32,
    next: AtomicPtr<ParkCell>,
    owner: Owner,
}

// SAFETY: `next` is that field.
unsafe impl Linked for ParkCell {
    fn next(&self) -> &AtomicPtr<Self> {
        &self.next
    }
}

// SAFETY: `Arc::into_raw` and `Arc::from_raw` are inverses and the content does not move.
unsafe impl Parcel for Arc<ParkCell> {
    type Node = ParkCell;

    fn into_raw(self) -> *mut ParkCell {
        Arc::into_raw(self).cast_mut()
    }

    unsafe fn from_raw(node: *mut ParkCell) -> Self {
        // SAFETY: the caller says that `node` came from `into_raw`.
        unsafe { Arc::from_raw(node) }
    }
}

impl ParkCell {
    fn new(owner: Owner) -> ParkCell {
        ParkCell { state: AtomicU32::new(EMPTY), next: AtomicPtr::new(std::ptr::null_mut()), owner }
    }

    /// A cell for the task `task` of the instance behind `door`.
    pub(super) fn for_task(door: Arc<Door>, task: u64) -> ParkCell {
        ParkCell::new(Owner::Task { door, task })
    }

    /// The task that waits here.
    pub(super) fn task(&self) -> u64 {
        match self.owner {
            Owner::Task { task, .. } => task,
            Owner::Thread(_) => unreachable!("only tasks' cells are queued at an instance"),
        }
    }

    /// Owner: `true` if it must now suspend, `false` if a permit was there (and is taken).
    pub(super) fn begin_park(&self) -> bool {
        // Partner of both Acquires: the AcqRel swap in `unpark`.
        match self.state.compare_exchange(EMPTY, PARKED, Ordering::AcqRel, Ordering::Acquire) {
            Ok(_) => true,
            Err(_) => {
                self.state.swap(EMPTY, Ordering::Acquire);
                false
            }
        }
    }

    /// Owner, after its cell came out of the queue: takes the permit.
    pub(super) fn finish_park(&self) -> UnparkClass {
        match self.state.swap(EMPTY, Ordering::Acquire) {
            PERMIT_IO => UnparkClass::Io,
            _ => UnparkClass::Lock,
        }
    }

    /// Owner, at the deadline: `true` if the wait ends by it, `false` if a wake-up is on its way.
    pub(super) fn time_out(&self) -> bool {
        self.state.compare_exchange(PARKED, EMPTY, Ordering::AcqRel, Ordering::Acquire).is_ok()
    }

    /// Anybody: leaves a permit, and queues or wakes the owner if it is parked.
    pub(super) fn unpark(self: &Arc<Self>, class: UnparkClass) {
        let permit = match class {
            UnparkClass::Io => PERMIT_IO,
            UnparkClass::Lock => PERMIT_LOCK,
        };
        if mutant("unpark-before-park-lost") && self.state.load(Ordering::Acquire) != PARKED {
            return;
        }
        if self.state.swap(permit, Ordering::AcqRel) != PARKED {
            return;
        }
        match &self.owner {
            Owner::Task { door, .. } => door.push_wake(share(self)),
            Owner::Thread(thread) => thread.unpark(),
        }
    }
}

/// Ends the waits of one task or thread. Cheap to clone, sent anywhere.
#[derive(Clone)]
pub struct Unparker(pub(super) Arc<ParkCell>);

impl Unparker {
    /// Ends the current wait, or the next one if there is none.
    pub fn unpark(&self, class: UnparkClass) {
        self.0.unpark(class);
    }

    /// Whether both wake the same task or thread.
    pub fn wakes_same(&self, other: &Unparker) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl std::fmt::Debug for Unparker {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match &self.0.owner {
            Owner::Task { task, .. } => write!(f, "Unparker(task {task:x})"),
            Owner::Thread(thread) => write!(f, "Unparker({:?})", thread.id()),
        }
    }
}

/// The plain thread's form: `park` blocks the thread. Not for instance threads.
pub struct ThreadParker {
    cell: Arc<ParkCell>,
    start: Instant,
    stack_limit: usize,
}

impl ThreadParker {
    /// A parker for the calling thread; used on this thread only.
    pub fn new() -> ThreadParker {
        ThreadParker {
            cell: Arc::new(ParkCell::new(Owner::Thread(std::thread::current()))),
            start: Instant::now(),
            stack_limit: super::stack::thread_stack_limit(),
        }
    }
}

impl Default for ThreadParker {
    fn default() -> Self {
        Self::new()
    }
}

impl Parker for ThreadParker {
    fn park(&self, deadline_ns: Option<u64>) -> Parked {
        super::task::assert_may_wait();
        if !self.cell.begin_park() {
            return Parked::Woken;
        }
        loop {
            match deadline_ns {
                None => std::thread::park(),
                Some(deadline) => {
                    let now = self.now_ns();
                    if now >= deadline {
                        if self.cell.time_out() {
                            return Parked::TimedOut;
                        }
                    } else {
                        std::thread::park_timeout(Duration::from_nanos(deadline - now));
                    }
                }
            }
            if self.cell.state.load(Ordering::Acquire) != PARKED {
                self.cell.finish_park();
                return Parked::Woken;
            }
        }
    }

    fn unparker(&self) -> Unparker {
        Unparker(self.cell.clone())
    }

    fn yield_now(&self) {
        super::task::assert_may_wait();
        std::thread::yield_now();
    }

    fn should_yield(&self) -> bool {
        false
    }

    fn now_ns(&self) -> u64 {
        self.start.elapsed().as_nanos() as u64
    }

    fn stack_left_bytes(&self) -> usize {
        super::stack::left_above(self.stack_limit)
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn a_threads_unpark_before_its_park_is_kept() {
        let parker = ThreadParker::new();
        parker.unparker().unpark(UnparkClass::Lock);
        assert_eq!(parker.park(None), Parked::Woken);
        assert_eq!(parker.park(Some(parker.now_ns() + 1_000_000)), Parked::TimedOut);
    }

    #[test]
    fn a_thread_is_woken_by_another() {
        let parker = ThreadParker::new();
        let unparker = parker.unparker();
        let other = std::thread::spawn(move || {
            std::thread::sleep(Duration::from_millis(5));
            unparker.unpark(UnparkClass::Io);
        });
        assert_eq!(parker.park(Some(parker.now_ns() + 10_000_000_000)), Parked::Woken);
        other.join().unwrap();
        assert!(parker.stack_left_bytes() > 64 * 1024);
    }
}
