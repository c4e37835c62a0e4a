//! What all threads see of the instances: their mailboxes, the shared injector, the clock.
//!
//! Invariants: sending never blocks on the receiver and is never refused; what is sent to an
//! instance that has ended is dropped, by the sender or by the instance, never left behind.
//! Unrouted work goes to the injector, which idle instances pull from; routed work may be taken
//! by an idle instance once it has waited `steal_after_ns` (rule 2.5); letters stay where they
//! are sent. After every push the sender knocks (`sleep`).

use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::{Arc, Condvar, MutexGuard, OnceLock};
use std::thread::ThreadId;

use crossbeam_utils::CachePadded;

use crate::base::{Error, InstanceId, Result};
use crate::io::{TimeSource, Wake};
use crate::sync::{AtomicBool, AtomicUsize, Ordering, PlainMutex as Mutex, mutant};

use super::affinity::AffinityKey;
use super::clock::Clock;
use super::inbox::{Inbox, Letter};
use super::instance::{Instance, InstanceState};
use super::options::RuntimeOptions;
use super::promise::{Promise, Promises};
use super::sleep::{Door, Heard};
use super::task::{Class, TaskContext, Work, panic_text};

/// Where work is to run (rule 2.10).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Target {
    /// Wherever there is time.
    Any,
    /// There and nowhere else.
    Instance(InstanceId),
    /// Where this affinity key hashes to; elsewhere if that instance is overloaded.
    Key(AffinityKey),
}

/// Something to do on an instance, outside any task.
pub type Message<S> = Box<dyn FnOnce(&Instance<S>) + Send>;

/// A queue of unstarted work that several instances take from.
struct Pile<S: InstanceState> {
    queue: Mutex<PileState<S>>,
    // Written under the mutex; read without it by those who look whether to lock.
    length: AtomicUsize,
}

struct PileState<S: InstanceState> {
    work: VecDeque<(u64, Work<S>)>,
    closed: bool,
}

impl<S: InstanceState> Pile<S> {
    fn new() -> Pile<S> {
        let state = PileState { work: VecDeque::new(), closed: false };
        Pile { queue: Mutex::new(state), length: AtomicUsize::new(0) }
    }

    fn lock(&self) -> MutexGuard<'_, PileState<S>> {
        self.queue.lock().expect("nothing panics while it holds the pile")
    }

    /// Adds work; drops it if the pile is closed.
    fn push(&self, now_ns: u64, work: Work<S>) {
        let mut state = self.lock();
        if state.closed {
            drop(state);
            return;
        }
        state.work.push_back((now_ns, work));
        self.length.store(state.work.len(), Ordering::Relaxed);
    }

    /// The oldest work, if it was pushed at or before `pushed_max_ns`.
    fn pop(&self, pushed_max_ns: u64) -> Option<Work<S>> {
        if self.is_empty() {
            return None;
        }
        let mut state = self.lock();
        if state.work.front()?.0 > pushed_max_ns {
            return None;
        }
        let (_, work) = state.work.pop_front()?;
        self.length.store(state.work.len(), Ordering::Relaxed);
        Some(work)
    }

    /// When the oldest work was pushed; the end of all time if there is none.
    fn oldest_ns(&self) -> u64 {
        if self.is_empty() {
            return u64::MAX;
        }
        self.lock().work.front().map_or(u64::MAX, |(pushed_ns, _)| *pushed_ns)
    }

    fn is_empty(&self) -> bool {
        self.length.load(Ordering::Relaxed) == 0
    }

    fn close(&self) {
        let mut state = self.lock();
        state.closed = true;
        let left = std::mem::take(&mut state.work);
        self.length.store(0, Ordering::Relaxed);
        drop(state);
        drop(left);
    }
}

/// One instance's side of the hub.
pub(super) struct Mailbox<S: InstanceState> {
    door: Arc<Door>,
    pub(super) letters: Inbox<Box<Letter<Message<S>>>>,
    routed: Pile<S>,
    pub(super) promises: Promises,
    thread: OnceLock<ThreadId>,
}

impl<S: InstanceState> Mailbox<S> {
    fn new() -> Mailbox<S> {
        Mailbox {
            door: Arc::new(Door::new()),
            letters: Inbox::new(),
            routed: Pile::new(),
            promises: Promises::new(),
            thread: OnceLock::new(),
        }
    }

    pub(super) fn door(&self) -> &Arc<Door> {
        &self.door
    }

    /// The instance opens on the calling thread.
    pub(super) fn open(&self, waker: Arc<dyn Wake>) {
        self.door.set_waker(waker);
        let _ = self.thread.set(std::thread::current().id());
    }

    /// Whether woken tasks or letters are queued.
    pub(super) fn has_news(&self) -> bool {
        !self.door.wakes.is_empty() || !self.letters.is_empty()
    }

    /// The instance has ended: drops what is queued and lets senders drop what follows.
    pub(super) fn close(&self) {
        self.door.sleep.leave();
        self.routed.close();
        drop(self.door.wakes.take());
        drop(self.letters.take());
    }
}

/// All instances of one database; `Send + Sync`, shared by everyone.
pub struct Hub<S: InstanceState> {
    options: RuntimeOptions,
    time: Arc<dyn TimeSource>,
    clock: Arc<Clock>,
    mailboxes: Box<[CachePadded<Mailbox<S>>]>,
    injector: Pile<S>,
    // Set once by whoever closes, read by all.
    closing: AtomicBool,
    // Where the next search for a sleeper starts; any value is right.
    next_sleeper: AtomicUsize,
    cycles_per_us: u64,
}

impl<S: InstanceState> Hub<S> {
    /// The hub of `options.instances` instances, none open yet.
    pub fn new(
        options: RuntimeOptions,
        time: Arc<dyn TimeSource>,
        clock: Arc<Clock>,
    ) -> Arc<Hub<S>> {
        assert!(options.instances > 0, "a database has an instance");
        let mailboxes = (0..options.instances).map(|_| CachePadded::new(Mailbox::new())).collect();
        let cycles_per_us = calibrate(&*time);
        Arc::new(Hub {
            options,
            time,
            clock,
            mailboxes,
            injector: Pile::new(),
            closing: AtomicBool::new(false),
            next_sleeper: AtomicUsize::new(0),
            cycles_per_us,
        })
    }

    /// The settings.
    pub fn options(&self) -> &RuntimeOptions {
        &self.options
    }

    /// How many instances there are.
    pub fn instances(&self) -> usize {
        self.mailboxes.len()
    }

    /// The clock for deadlines and cycles.
    pub fn time(&self) -> &Arc<dyn TimeSource> {
        &self.time
    }

    /// The clock that orders commits.
    pub fn clock(&self) -> &Clock {
        &self.clock
    }

    pub(super) fn cycles_of_ns(&self, ns: u64) -> u64 {
        ns * self.cycles_per_us / 1000
    }

    pub(super) fn mailbox(&self, id: InstanceId) -> &Mailbox<S> {
        &self.mailboxes[usize::from(id.0)]
    }

    /// The instance that an affinity key hashes to (rule 2.10).
    pub fn instance_of_key(&self, key: AffinityKey) -> InstanceId {
        key.instance(self.mailboxes.len())
    }

    /// Runs `message` on the instance, in order of sending, outside any task. Never refused;
    /// dropped if the instance has ended.
    pub fn send(&self, to: InstanceId, message: Message<S>) {
        let mailbox = self.mailbox(to);
        mailbox.letters.push(Letter::new(message));
        if mailbox.door.knock() == Heard::Gone {
            drop(mailbox.letters.take());
        }
    }

    /// Promises the instance `to` a letter that it reads before it ends; `None` if the database
    /// closes.
    pub fn promise(self: &Arc<Self>, to: InstanceId) -> Option<Promise<S>> {
        let made = self.mailbox(to).promises.make(&self.closing);
        made.then(|| Promise::new(self.clone(), to))
    }

    /// Gives new work to whichever instance has time.
    pub fn inject(&self, work: Work<S>) {
        self.injector.push(self.time.now_ns(), work);
        self.wake_a_sleeper();
    }

    /// Starts new work where `target` says.
    pub fn start(&self, target: Target, work: Work<S>) {
        match target {
            Target::Any => self.inject(work),
            Target::Instance(id) => {
                self.send(id, Box::new(move |instance| instance.spawn(Class::New, work)));
            }
            Target::Key(key) => {
                let mailbox = self.mailbox(self.instance_of_key(key));
                let backlog = !mailbox.routed.is_empty();
                mailbox.routed.push(self.time.now_ns(), work);
                mailbox.door.knock();
                if backlog {
                    self.wake_a_sleeper();
                }
            }
        }
    }

    fn wake_a_sleeper(&self) {
        let count = self.mailboxes.len();
        let first = self.next_sleeper.fetch_add(1, Ordering::Relaxed);
        for step in 0..count {
            // Each knock fences, so a sleeper that this misses sees the work instead.
            if self.mailboxes[(first.wrapping_add(step)) % count].door.knock() == Heard::WakeIt {
                return;
            }
        }
    }

    /// New work for the instance `id`: its own or anyone's, whichever has waited longer, or (if it is idle)
    /// somebody else's that has waited too long.
    pub(super) fn pull(&self, id: InstanceId, busy: bool) -> Option<Work<S>> {
        let own = usize::from(id.0);
        let routed = &self.mailboxes[own].routed;
        let near = routed.pop(self.injector.oldest_ns());
        // Another instance may have taken that by now.
        let near = near.or_else(|| self.injector.pop(u64::MAX)).or_else(|| routed.pop(u64::MAX));
        if near.is_some() || busy {
            return near;
        }
        let count = self.mailboxes.len();
        let mut others =
            (1..count).map(|step| &self.mailboxes[(own + step) % count].routed).peekable();
        if others.clone().all(Pile::is_empty) {
            return None;
        }
        let pushed_max_ns = self.time.now_ns().checked_sub(self.options.steal_after_ns)?;
        others.find_map(|pile| pile.pop(pushed_max_ns))
    }

    /// When an idle instance `id` should look for overdue work of others: soon, if they have any.
    pub(super) fn next_steal_ns(&self, id: InstanceId) -> Option<u64> {
        let own = usize::from(id.0);
        let mut others = self.mailboxes.iter().enumerate().filter(|(index, _)| *index != own);
        others
            .any(|(_, mailbox)| !mailbox.routed.is_empty())
            .then(|| self.time.now_ns() + self.options.steal_after_ns)
    }

    /// Whether work of others came that `id`, which lies down to sleep until then, does not know of: who
    /// pushed it found `id` awake, and will not knock again.
    pub(super) fn must_steal_before(&self, id: InstanceId, until: Option<u64>) -> bool {
        !mutant("sleeper-leaves-others-work")
            && self.next_steal_ns(id).is_some_and(|due| until.is_none_or(|until| until > due))
    }

    /// Whether unstarted work waits for the instance `id`.
    pub(super) fn work_waits(&self, id: InstanceId) -> bool {
        !self.mailbox(id).routed.is_empty() || !self.injector.is_empty()
    }

    /// Begins to close: unstarted work is dropped, instances let their tasks finish and end.
    pub fn close(&self) {
        self.closing.store(true, Ordering::SeqCst);
        self.injector.close();
        for mailbox in &self.mailboxes {
            mailbox.door.knock();
        }
    }

    /// Whether [`Hub::close`] was called.
    pub fn is_closing(&self) -> bool {
        self.closing.load(Ordering::Relaxed)
    }

    /// Runs `work` as a task where `target` says and blocks the calling thread for its answer
    /// (section 10). `Internal` if it panicked or the caller is an instance; `ShuttingDown` if it
    /// never ran.
    pub fn run<T: Send>(
        &self,
        target: Target,
        work: impl FnOnce(&TaskContext<S>) -> T + Send,
    ) -> Result<T> {
        let here = std::thread::current().id();
        if self.mailboxes.iter().any(|mailbox| mailbox.thread.get() == Some(&here)) {
            let detail = "run() blocks: an instance cannot wait for itself".to_owned();
            return Err(Error::Internal { detail });
        }
        if self.is_closing() {
            return Err(Error::ShuttingDown);
        }
        let reply = Arc::new(Reply { answer: Mutex::new(None), arrived: Condvar::new() });
        let job = Job { work: Some(work), reply: reply.clone() };
        let boxed: BorrowingWork<'_, S> = Box::new(move |context| job.run(context));
        // SAFETY: only the lifetime changes. `Job` answers exactly once, after the work (and what
        // it borrows) has been consumed or dropped, and this function does not return before the
        // answer. The task table, the piles and the inboxes drop what they do not run.
        let boxed: Work<S> = unsafe { std::mem::transmute(boxed) };
        self.start(target, boxed);
        reply.wait()
    }
}

/// [`Work`] that borrows from a caller who waits for it.
type BorrowingWork<'a, S> = Box<dyn FnOnce(&TaskContext<S>) + Send + 'a>;

struct Reply<T> {
    answer: Mutex<Option<Result<T>>>,
    arrived: Condvar,
}

impl<T> Reply<T> {
    fn give(&self, answer: Result<T>) {
        *self.answer.lock().expect("nothing panics while it holds the answer") = Some(answer);
        self.arrived.notify_all();
    }

    fn wait(&self) -> Result<T> {
        let mut answer = self.answer.lock().expect("nothing panics while it holds the answer");
        loop {
            if let Some(answer) = answer.take() {
                return answer;
            }
            answer = self.arrived.wait(answer).expect("nothing panics while it holds the answer");
        }
    }
}

struct Job<F, T> {
    work: Option<F>,
    reply: Arc<Reply<T>>,
}

impl<F, T> Job<F, T> {
    fn run<S: InstanceState>(mut self, context: &TaskContext<S>)
    where
        F: FnOnce(&TaskContext<S>) -> T,
    {
        let work = self.work.take().expect("a job runs once");
        match catch_unwind(AssertUnwindSafe(|| work(context))) {
            Ok(answer) => self.reply.give(Ok(answer)),
            Err(payload) => {
                let detail = format!("panic: {}", panic_text(&*payload));
                self.reply.give(Err(Error::Internal { detail }));
                std::mem::forget(self);
                resume_unwind(payload);
            }
        }
    }
}

impl<F, T> Drop for Job<F, T> {
    fn drop(&mut self) {
        if let Some(work) = self.work.take() {
            drop(work);
            self.reply.give(Err(Error::ShuttingDown));
        }
    }
}

/// Cycles of `time` per microsecond, measured for a tenth of a millisecond; a thousand where its
/// clock does not move by itself (the simulator).
fn calibrate(time: &dyn TimeSource) -> u64 {
    if let Some(known) = time.cycles_per_us() {
        return known;
    }
    let (start_ns, start) = (time.now_ns(), time.cycles());
    for _ in 0..1_000_000 {
        let passed_ns = time.now_ns().saturating_sub(start_ns);
        if passed_ns >= 100_000 {
            let cycles = time.cycles().wrapping_sub(start);
            return (cycles.saturating_mul(1000) / passed_ns).max(1);
        }
        if passed_ns == 0 && time.cycles() == start {
            break;
        }
    }
    1000
}
