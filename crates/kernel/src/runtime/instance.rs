//! One instance: its turn, its tasks, its ring, its services.
//!
//! A turn: reap completions, read mail, end waits whose deadline passed, run ready tasks for a
//! bounded time, poll the services and the state. Invariants: everything here happens on the
//! instance's own thread (in the simulator: the one thread); no `RefCell` of this file is borrowed
//! while a task, a service, the state or a letter runs; what they submit reaches the kernel at the
//! next turn's reap, or at the wait.

use std::any::Any;
use std::cell::{Cell, OnceCell, RefCell};
use std::rc::{Rc, Weak};
use std::sync::Arc;
use std::time::Duration;

use crate::base::{InstanceId, Result};
use crate::io::{Completion, Ring, TimeSource, Token};

use super::clock::Clock;
use super::hub::Hub;
use super::intake::Intake;
use super::io_wait::IoWait;
use super::park::{Parked, UnparkClass};
use super::processor::Processor;
use super::schedule::{Admission, Ready, TaskKey, Timers};
use super::sleep::Sleep;
use super::stack::{StackPool, left_above, thread_stack_limit};
use super::table::{OnEnd, Stage, Tasks};
use super::task::{Class, LocalWork, TaskContext, TaskEnd, dismantle};

/// What a poll found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Poll {
    /// Nothing to do until somebody comes.
    Idle,
    /// Work is left (unflushed bytes, say): the instance must not sleep (rule 2.6).
    Busy,
    /// Nothing to do until this moment of the database's clock, in nanoseconds.
    Until(u64),
}

impl Poll {
    /// The more urgent of both.
    pub fn and(self, other: Poll) -> Poll {
        match (self, other) {
            (Poll::Busy, _) | (_, Poll::Busy) => Poll::Busy,
            (Poll::Idle, x) | (x, Poll::Idle) => x,
            (Poll::Until(a), Poll::Until(b)) => Poll::Until(a.min(b)),
        }
    }
}

/// What a turn did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Turn {
    /// Something; take another turn.
    Busy,
    /// Nothing, and nothing will happen before this moment unless somebody sends or completes.
    Idle {
        /// Nanoseconds of the database's clock, if any moment is known.
        until: Option<u64>,
    },
}

/// What the layers above keep on each instance; [`crate::api`] composes it.
pub trait InstanceState: Sized + 'static {
    /// Once a turn, after the tasks: reap log progress, start flushes, publish marks and the
    /// floor (rules 2.6, 6.8). Must not wait.
    fn poll(&self, instance: &Instance<Self>) -> Poll;
    /// A completion whose token names service 0.
    fn completed(&self, instance: &Instance<Self>, completion: Completion);
    /// Whether the kernel has a durable write of this instance to finish. It does so in threads of
    /// its own, which need this processor for some microseconds.
    fn durable_write_in_flight(&self, _instance: &Instance<Self>) -> bool {
        false
    }
    /// About to sleep (rule 6.8: say so in the floor). May be followed by `woke` at once.
    fn sleeps(&self, _instance: &Instance<Self>) {}
    /// Awake again, before anything else runs (rule 6.8: publish a floor first).
    fn woke(&self, _instance: &Instance<Self>) {}
    /// The database closes: whether the instance may end now (log flushed, nothing in flight).
    fn may_end(&self, _instance: &Instance<Self>) -> bool {
        true
    }
}

/// Something that lives on an instance and gets completions of its own: sessions, listeners.
pub trait Service<S: InstanceState> {
    /// A completion whose token names this service.
    fn completed(&self, instance: &Instance<S>, completion: Completion);
    /// These completions, others' among them, follow at once: ask for the memory that they need.
    fn expects(&self, _completions: &[Completion]) {}
    /// Once a turn, after the tasks and the state's poll.
    fn poll(&self, instance: &Instance<S>) -> Poll;
    /// The database closes: end sessions, submit no more. Called once.
    fn stop(&self, instance: &Instance<S>);
    /// After `stop`: whether the instance may end now.
    fn may_end(&self, _instance: &Instance<S>) -> bool {
        true
    }
    /// Itself, for [`Instance::service`]; `None` if nobody looks it up.
    fn as_any(self: Rc<Self>) -> Option<Rc<dyn Any>> {
        None
    }
}

/// The service's number in its tokens (the high 16 bits).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ServiceId(pub u16);

impl ServiceId {
    /// The state's own tokens.
    pub const STATE: ServiceId = ServiceId(0);
    /// Tokens of [`TaskContext::io`].
    pub(super) const TASKS: ServiceId = ServiceId(u16::MAX);

    /// A token of this service; `own` has 48 bits.
    pub fn token(self, own: u64) -> Token {
        assert!(own < 1 << 48, "the service number takes the high 16 bits");
        Token(u64::from(self.0) << 48 | own)
    }

    /// The service that a token names, and the service's own part.
    pub fn split(token: Token) -> (ServiceId, u64) {
        (ServiceId((token.0 >> 48) as u16), token.0 & ((1 << 48) - 1))
    }
}

/// One instance. Not `Send`: it is made on, and never leaves, its thread.
pub struct Instance<S: InstanceState> {
    pub(super) me: Weak<Instance<S>>,
    id: InstanceId,
    pub(super) hub: Arc<Hub<S>>,
    ring: Box<dyn Ring>,
    state: OnceCell<S>,
    pub(super) services: RefCell<Vec<Rc<dyn Service<S>>>>,
    pub(super) tasks: RefCell<Tasks<S>>,
    pub(super) ready: RefCell<Ready>,
    pub(super) timers: RefCell<Timers>,
    pub(super) stacks: StackPool,
    pub(super) intake: RefCell<Intake>,
    pub(super) io_waits: RefCell<Vec<Option<IoWait>>>,
    thread_stack_limit: usize,
    pub(super) slice_end: Cell<u64>,
    pub(super) slice_calls: Cell<u32>,
    pub(super) turns: Cell<u64>,
    stopping: Cell<bool>,
    // Tasks with a stack that admission does not count.
    pub(super) uncounted: Cell<usize>,
    // Written by its thread, which looks now and then.
    pub(super) processor: Cell<Processor>,
}

impl<S: InstanceState> Instance<S> {
    /// Opens instance `id` of `hub` on the calling thread; `state` may already use everything but
    /// [`Instance::state`].
    pub fn open(
        hub: Arc<Hub<S>>,
        id: InstanceId,
        ring: Box<dyn Ring>,
        state: impl FnOnce(&Instance<S>) -> Result<S>,
    ) -> Result<Rc<Instance<S>>> {
        let options = hub.options();
        let stacks = StackPool::new(options.stack_bytes, options.stacks_kept_max);
        let processor = options.processor;
        hub.mailbox(id).open(ring.waker());
        let instance = Rc::new_cyclic(|me| Instance {
            me: me.clone(),
            id,
            hub,
            ring,
            state: OnceCell::new(),
            services: RefCell::default(),
            tasks: RefCell::new(Tasks::new()),
            ready: RefCell::default(),
            timers: RefCell::default(),
            stacks,
            intake: RefCell::default(),
            io_waits: RefCell::default(),
            thread_stack_limit: thread_stack_limit(),
            slice_end: Cell::new(u64::MAX),
            slice_calls: Cell::new(0),
            turns: Cell::new(0),
            stopping: Cell::new(false),
            uncounted: Cell::new(0),
            processor: Cell::new(processor),
        });
        let state = state(&instance)?;
        assert!(instance.state.set(state).is_ok(), "the state is set once");
        Ok(instance)
    }

    /// Which instance this is.
    pub fn id(&self) -> InstanceId {
        self.id
    }

    /// The state of the layers above.
    pub fn state(&self) -> &S {
        self.state.get().expect("the state is set when the instance is open")
    }

    /// The instance's ring.
    pub fn ring(&self) -> &dyn Ring {
        &*self.ring
    }

    /// The database's clock for deadlines and cycles.
    pub fn time(&self) -> &Arc<dyn TimeSource> {
        self.hub.time()
    }

    /// The clock that orders commits.
    pub fn clock(&self) -> &Clock {
        self.hub.clock()
    }

    /// All instances.
    pub fn hub(&self) -> &Arc<Hub<S>> {
        &self.hub
    }

    /// Whether the database is closing: system tasks end, new transactions are refused.
    pub fn is_stopping(&self) -> bool {
        self.stopping.get()
    }

    /// Tasks that could run now, system work left out, and completions that will make some.
    pub fn ready_tasks(&self) -> usize {
        self.ready.borrow().len(self.admission()) + self.intake.borrow().waiting()
    }

    /// Whether others want the processor, too, by the last look of the instance's thread.
    pub fn processor(&self) -> Processor {
        self.processor.get()
    }

    /// Tasks that exist on this instance.
    pub fn tasks(&self) -> usize {
        self.tasks.borrow().len()
    }

    /// Adds a service; its completions carry the number that this answers.
    pub fn register(&self, service: Rc<dyn Service<S>>) -> ServiceId {
        let mut services = self.services.borrow_mut();
        services.push(service);
        let number = u16::try_from(services.len()).expect("fewer services than 2^16");
        assert!(number < ServiceId::TASKS.0, "one number is taken");
        ServiceId(number)
    }

    /// The service with this number, if it is a `T`: how letters find it.
    pub fn service<T: 'static>(&self, id: ServiceId) -> Option<Rc<T>> {
        let index = usize::from(id.0).checked_sub(1)?;
        let service = self.services.borrow().get(index)?.clone();
        service.as_any()?.downcast().ok()
    }

    /// Starts a task; it runs in its class's turn, never before this returns.
    pub fn spawn(&self, class: Class, work: impl FnOnce(&TaskContext<S>) + 'static) {
        self.enter(class, as_counted(class, work), None);
    }

    /// Starts a task whose end is reported to `on_end`, on this instance, outside any task.
    pub fn spawn_watched(
        &self,
        class: Class,
        work: impl FnOnce(&TaskContext<S>) + 'static,
        on_end: impl FnOnce(&Instance<S>, TaskEnd) + 'static,
    ) {
        self.enter(class, as_counted(class, work), Some(Box::new(on_end)));
    }

    pub(super) fn enter(&self, class: Class, work: LocalWork<S>, on_end: Option<OnEnd<S>>) {
        let door = self.hub.mailbox(self.id).door();
        let (key, birth) = self.tasks.borrow_mut().insert(door, class, work, on_end);
        self.ready.borrow_mut().push(class, birth, key);
    }

    /// One turn. [`super::Runtime`]'s threads call it in a loop, the simulator by hand.
    pub fn turn(&self) -> Turn {
        self.turns.set(self.turns.get() + 1);
        let mut active = self.take_completions();
        active |= self.take_mail();
        active |= self.end_due_waits();
        active |= self.run_tasks();
        let poll = self.poll_all();
        let more = self.ready.borrow().any(self.admission())
            || self.mail_waits()
            || self.intake.borrow().waiting() > 0;
        if active || more || poll == Poll::Busy {
            return Turn::Busy;
        }
        let poll = match poll {
            Poll::Until(moment) => Some(moment),
            _ => None,
        };
        let moments = [self.timers.borrow().next(), poll, self.hub.next_steal_ns(self.id)];
        Turn::Idle { until: moments.into_iter().flatten().min() }
    }

    fn take_mail(&self) -> bool {
        let mut active = self.take_wakes();
        for letter in self.hub.mailbox(self.id).letters.take() {
            active = true;
            (letter.content)(self);
        }
        active
    }

    /// Whoever was woken, here or by another instance, is ready from now on.
    pub(super) fn take_wakes(&self) -> bool {
        let mut active = false;
        for cell in self.hub.mailbox(self.id).door().wakes.take() {
            active = true;
            let class = match cell.finish_park() {
                UnparkClass::Io => Class::Io,
                UnparkClass::Lock => Class::Lock,
            };
            self.make_ready(TaskKey(cell.task()), class, Parked::Woken);
        }
        active
    }

    pub(super) fn thread_stack_left_bytes(&self) -> usize {
        left_above(self.thread_stack_limit)
    }

    fn poll_all(&self) -> Poll {
        // The state first: what its log has made stable leaves with the services' poll.
        let mut poll = self.state().poll(self);
        let count = self.services.borrow().len();
        for index in 0..count {
            let service = self.services.borrow()[index].clone();
            poll = poll.and(service.poll(self));
        }
        poll
    }

    fn mail_waits(&self) -> bool {
        self.hub.mailbox(self.id).has_news()
            || (self.admission() == Admission::Open && self.hub.work_waits(self.id))
    }

    /// Sleeps until `until`, a completion or a message (rule 2.5). The threads call it after an
    /// idle turn.
    pub(super) fn sleep(&self, until: Option<u64>) {
        self.state().sleeps(self);
        let door = self.hub.mailbox(self.id).door();
        let overdue = || self.hub.must_steal_before(self.id, until);
        let news = || self.mail_waits() || self.must_notice_stop() || overdue();
        if door.sleep.fall_asleep(news) == Sleep::Deep {
            let timeout =
                until.map(|until| Duration::from_nanos(until.saturating_sub(self.time().now_ns())));
            self.ring.wait(timeout);
            door.sleep.awake();
        }
        self.state().woke(self);
    }

    /// Whether the hub closes and this instance has not noticed.
    pub(super) fn must_notice_stop(&self) -> bool {
        self.hub.is_closing() && !self.stopping.get()
    }

    /// Tells services, and wakes the system tasks so that they see it.
    pub(super) fn begin_stop(&self) {
        self.stopping.set(true);
        let count = self.services.borrow().len();
        for index in 0..count {
            let service = self.services.borrow()[index].clone();
            service.stop(self);
        }
        let tasks = self.tasks.borrow();
        for key in tasks.keys() {
            if let Some(task) = tasks.get(key).filter(|task| task.class == Class::System) {
                task.cell.unpark(UnparkClass::Lock);
            }
        }
    }

    /// Whether everything on this instance has come to its end.
    pub(super) fn may_end(&self) -> bool {
        self.tasks() == 0
            && self.hub.mailbox(self.id).promises.are_kept()
            && self.services.borrow().iter().all(|service| service.may_end(self))
            && self.state().may_end(self)
    }

    /// Ends the instance: unwinds what is left, drops what was sent to it since. Its hub drops
    /// whatever is sent later.
    pub fn leave(&self) {
        let keys = self.tasks.borrow().keys();
        for key in keys {
            let taken = self
                .tasks
                .borrow_mut()
                .get_mut(key)
                .map(|task| std::mem::replace(&mut task.stage, Stage::Running));
            let had_stack = matches!(taken, Some(Stage::Ready(..) | Stage::Parked(_)));
            dismantle(|| drop(taken));
            if had_stack {
                self.stacks.lost();
            }
            self.end(key, TaskEnd::Abandoned);
        }
        self.services.borrow_mut().clear();
        self.hub.mailbox(self.id).close();
    }
}

/// Work as admission counts it: not at all if it is the system's. A checkpoint takes its time, and parks
/// meanwhile; where few are admitted it would keep everybody out.
fn as_counted<S: InstanceState>(
    class: Class,
    work: impl FnOnce(&TaskContext<S>) + 'static,
) -> LocalWork<S> {
    match class {
        Class::System => Box::new(move |context| context.uncounted(|| work(context))),
        _ => Box::new(work),
    }
}
