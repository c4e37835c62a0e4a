//! What a task is and what it gets: its context, its class of service, how it ended.
//!
//! Invariants: a task runs on one instance from start to end, on one pooled stack; between two
//! waits it runs alone there (rule 1.2). Its context lives in its coroutine's first frame and is
//! lent to it, so it cannot outlive the coroutine.

use std::cell::Cell;
use std::marker::PhantomData;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::rc::Rc;
use std::sync::Arc;

use corosensei::stack::DefaultStack;
use corosensei::{Coroutine, Yielder};

use crate::base::Error;
use crate::io::{Completion, Op};
use crate::latch::held_latches;
use crate::sync::ledger::share;
use crate::sync::stays;

use super::instance::{Instance, InstanceState};
use super::park::{ParkCell, Parked, Parker, Unparker};
use super::schedule::TaskKey;
use super::stack::StackRange;
use super::table::Body;

/// Classes of service, first served first (rule 2.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Class {
    /// Woken by a lock or a transaction's end; oldest task first.
    Lock,
    /// Woken by I/O.
    Io,
    /// Runnable: continues an open transaction or used up its slice. Always admitted.
    Run,
    /// A new transaction: admitted while fewer than `admission_max` tasks have a stack, system work not counted.
    New,
    /// System work: a quota while others are ready, anything when the instance is idle.
    System,
}

/// Work that any instance may be given.
pub type Work<S> = Box<dyn FnOnce(&TaskContext<S>) + Send>;

/// Work that stays on its instance.
pub(super) type LocalWork<S> = Box<dyn FnOnce(&TaskContext<S>)>;

/// How a task ended; its owner is told (rule 2.8).
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TaskEnd {
    /// It returned.
    Done,
    /// It panicked, outside every critical section and with no latch held; the panic's text.
    Panicked(String),
    /// It never ran: there was no stack for it.
    NotStarted(Error),
    /// The instance ended first; its frames were unwound.
    Abandoned,
}

/// What a coroutine tells the executor when it gives up the processor.
pub(super) enum Suspend {
    Yield,
    Park { deadline_ns: Option<u64> },
}

/// What a running task is given; see [`Parker`] for its waits.
pub struct TaskContext<S: InstanceState> {
    pub(super) yielder: *const Yielder<Parked, Suspend>,
    pub(super) instance: Rc<Instance<S>>,
    pub(super) cell: Arc<ParkCell>,
    pub(super) stack: StackRange,
    /// Whether admission does not count this task now.
    is_uncounted: Cell<bool>,
}

impl<S: InstanceState> TaskContext<S> {
    /// Puts `work` on `stack`, ready to be resumed for the first time.
    pub(super) fn start(
        instance: Rc<Instance<S>>,
        cell: Arc<ParkCell>,
        stack: DefaultStack,
        work: LocalWork<S>,
    ) -> Body {
        let range = StackRange::of(&stack);
        Coroutine::with_stack(stack, move |yielder: &Yielder<Parked, Suspend>, _| {
            let is_uncounted = Cell::new(false);
            let context = TaskContext { yielder, instance, cell, stack: range, is_uncounted };
            let ran = catch_unwind(AssertUnwindSafe(|| work(&context)));
            match ran {
                Ok(()) => TaskEnd::Done,
                Err(_) if is_dismantling() => TaskEnd::Abandoned,
                Err(_) if held_latches() > 0 => end_process("a latch is held"),
                Err(payload) => TaskEnd::Panicked(panic_text(&*payload)),
            }
        })
    }

    /// The instance that runs this task.
    pub fn instance(&self) -> &Instance<S> {
        &self.instance
    }

    /// Runs `body` on the instance thread's own, large stack: for C code that recurses (rule 2.2).
    /// `body` must not wait.
    pub fn on_thread_stack<R>(&self, body: impl FnOnce() -> R + Send) -> R {
        self.yielder().on_parent_stack(body)
    }

    /// Submits `op` to the instance's ring and waits for its completion. Holds no latch.
    pub fn io(&self, op: Op) -> Completion {
        self.instance.io_wait(op, self)
    }

    /// Runs `body`, which waits while no transaction is open here (for a flush, say), without
    /// counting this task among those that bound new transactions (rule 2.4): what has committed
    /// keeps nobody out.
    pub fn uncounted<R>(&self, body: impl FnOnce() -> R) -> R {
        let _outside = Uncounted::enter(&self.instance.uncounted, &self.is_uncounted);
        body()
    }

    /// A place where work in the background may be left standing for long, while everything else goes
    /// on: the simulator has it so, anybody else goes on at once. Holds no latch.
    pub fn linger(&self, name: &'static str) {
        while stays(name) && !self.instance.is_stopping() {
            self.park(Some(self.now_ns() + LINGER_NS));
        }
    }

    /// Waits without a stack: `continuation` begins when this task is woken next (by its
    /// [`Parker::unparker`]), on whatever stack is free then; the present part returns now and gives its
    /// own back. A wake-up that came before is not lost, and one may be spurious. How the task
    /// ended is told of its last part. For waits that may take long and need nothing of the stack
    /// (stack discarding: Draves et al., "Using Continuations", SOSP 1991). The continuation is admitted
    /// as a new transaction is (rule 2.4): rest with none open. Holds no latch.
    pub fn rest(&self, continuation: impl FnOnce(&TaskContext<S>) + 'static) {
        assert_may_wait();
        self.instance.rests_with(TaskKey(self.cell.task()), Box::new(continuation));
    }

    fn yielder(&self) -> &Yielder<Parked, Suspend> {
        // SAFETY: the yielder lives at the base of the coroutine's stack, below the frame that
        // holds this context, and the context is neither cloned nor given away.
        unsafe { &*self.yielder }
    }
}

/// How often who lingers asks whether it is to go on.
const LINGER_NS: u64 = 20_000;

/// One task more that admission does not count, until dropped.
struct Uncounted<'a> {
    count: &'a Cell<usize>,
    is_uncounted: &'a Cell<bool>,
}

impl<'a> Uncounted<'a> {
    /// None if the task is not counted anyway.
    fn enter(count: &'a Cell<usize>, is_uncounted: &'a Cell<bool>) -> Option<Uncounted<'a>> {
        if is_uncounted.replace(true) {
            return None;
        }
        count.set(count.get() + 1);
        Some(Uncounted { count, is_uncounted })
    }
}

impl Drop for Uncounted<'_> {
    fn drop(&mut self) {
        self.count.set(self.count.get() - 1);
        self.is_uncounted.set(false);
    }
}

impl<S: InstanceState> Parker for TaskContext<S> {
    fn wait_io(&self, op: Op) -> Completion {
        self.io(op)
    }

    fn park(&self, deadline_ns: Option<u64>) -> Parked {
        assert_may_wait();
        if !self.cell.begin_park() {
            return Parked::Woken;
        }
        self.yielder().suspend(Suspend::Park { deadline_ns })
    }

    fn park_aside(&self, deadline_ns: Option<u64>) -> Parked {
        self.uncounted(|| self.park(deadline_ns))
    }

    fn unparker(&self) -> Unparker {
        Unparker(share(&self.cell))
    }

    fn yield_now(&self) {
        assert_may_wait();
        self.yielder().suspend(Suspend::Yield);
    }

    fn should_yield(&self) -> bool {
        self.instance.slice_used_up()
    }

    fn now_ns(&self) -> u64 {
        self.instance.time().now_ns()
    }

    fn stack_left_bytes(&self) -> usize {
        self.stack.left().unwrap_or_else(|| self.instance.thread_stack_left_bytes())
    }
}

/// Asserts what every wait promises (rule 1.2).
pub(super) fn assert_may_wait() {
    assert_eq!(held_latches(), 0, "no latch is held across a wait (rule 1.2)");
    assert!(!std::thread::panicking(), "destructors do not wait while a panic unwinds");
}

thread_local! {
    // Whether this thread unwinds coroutines because their instance ends.
    static DISMANTLING: Cell<bool> = const { Cell::new(false) };
}

/// Runs `body`, which drops suspended coroutines.
pub(super) fn dismantle<R>(body: impl FnOnce() -> R) -> R {
    let before = DISMANTLING.replace(true);
    let result = body();
    DISMANTLING.set(before);
    result
}

/// Whether frames are unwound because their instance ends, not because of a panic.
pub(super) fn is_dismantling() -> bool {
    DISMANTLING.get()
}

/// A section in which a panic must end the process: between *preparing* and *finished*, in
/// rollback, wherever memory would be left half changed (rule 2.8). Put it in a local variable.
#[must_use = "the section lasts as long as the guard"]
pub struct Critical {
    what: &'static str,
    not_send: PhantomData<*const ()>,
}

impl Critical {
    /// Enters the section; `what` names it in the last message.
    pub fn enter(what: &'static str) -> Critical {
        Critical { what, not_send: PhantomData }
    }
}

impl Drop for Critical {
    fn drop(&mut self) {
        if std::thread::panicking() && !is_dismantling() {
            end_process(self.what);
        }
    }
}

/// Ends the process without unwinding: a supervising parent restarts it into recovery (rule 2.8).
pub(super) fn end_process(what: &str) -> ! {
    eprintln!("atoll: panic in a critical section ({what}); ending the process");
    std::process::abort()
}

/// The text of a panic's payload.
pub(super) fn panic_text(payload: &(dyn std::any::Any + Send)) -> String {
    payload
        .downcast_ref::<&str>()
        .map(|text| (*text).to_owned())
        .or_else(|| payload.downcast_ref::<String>().cloned())
        .unwrap_or_else(|| "panic without a text".to_owned())
}
