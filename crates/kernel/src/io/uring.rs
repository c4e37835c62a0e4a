//! The io_uring form of a ring (rule 2.7).
//!
//! Invariants: an operation's buffer and file live in `flying` from submission until its
//! completion has been taken, wherever the ring itself goes: dropping the ring cancels what can
//! be cancelled and waits for the rest. One `io_uring_enter` a reap at most, none when there is
//! nothing to hand over and nothing to collect. Short writes go on until the write is whole.
//! The wake-up is an eventfd, watched by a poll operation that is always posted.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::os::fd::RawFd;
use std::sync::Arc;
use std::time::{Duration, Instant};

use io_uring::{IoUring, Probe, cqueue, opcode, squeue, types};

use super::blocking::{file_of, run};
use super::event::Event;
use super::{Completion, Durability, IO_ALIGN, Op, Returned, Ring, Token, Wake, enter_in_ledger};
use crate::base::{Error, Result};
use crate::sync::prefetch_value;

const SUBMISSIONS: u32 = 256;
/// More than an instance's sessions: what does not fit, the system keeps in lists.
const COMPLETIONS: u32 = 16_384;
/// Completions whose operations are looked up together.
const COLLECT_TOGETHER: usize = 32;
/// The user data of the poll on the eventfd, and of cancels, whose completions mean nothing.
const WAKE: u64 = u64::MAX;
const CANCEL: u64 = u64::MAX - 1;

/// One thread's io_uring.
pub struct UringRing {
    inner: RefCell<Inner>,
    event: Arc<Event>,
}

struct Inner {
    ring: IoUring,
    /// Entries not yet in the submission queue.
    queued: VecDeque<squeue::Entry>,
    /// Operations handed over or queued; the index is their user data.
    flying: Vec<Option<Flying>>,
    free: Vec<usize>,
    /// Operations that ended at once.
    ready: Vec<Completion>,
    wake_posted: bool,
    /// Completions on their way from the queue to `ready`.
    taken: Vec<cqueue::Entry>,
    receive: Receive,
}

/// How a receive begins.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Receive {
    /// By an attempt.
    AtOnce,
    /// By waiting for input: sessions ask for it when they have answered, before their clients have
    /// read that, so that an attempt would fail. From Linux 5.19 on.
    WhenReady,
}

/// The system's IORING_RECVSEND_POLL_FIRST.
const POLL_FIRST: u16 = 1;

struct Flying {
    op: Op,
    token: Token,
    /// Bytes moved so far by a write or read that goes on.
    moved: usize,
    step: Step,
    durable: Durable,
}

/// How a write becomes durable.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Durable {
    /// It need not.
    No,
    /// By RWF_DSYNC.
    Flag,
    /// By a sync after it: the file system does not know the flag.
    Sync,
}

/// What the kernel is doing for an operation.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Step {
    /// The operation itself.
    Itself,
    /// Waiting until a non-blocking socket is ready; then the operation is posted again.
    Readiness,
    /// The operation again. The system never waits for a non-blocking socket: told to, it would
    /// answer EAGAIN for ever.
    Ready,
    /// Syncing after a write whose file system knows no durable writes.
    SyncAfter,
}

impl UringRing {
    /// A ring for this thread; `Unusable` where the operating system forbids or lacks it.
    pub fn new() -> Result<UringRing> {
        let (ring, receive) = build().map_err(|e| unusable(&e))?;
        let mut probe = Probe::new();
        ring.submitter().register_probe(&mut probe).map_err(|e| unusable(&e))?;
        let needed = [
            opcode::Read::CODE,
            opcode::Write::CODE,
            opcode::Fsync::CODE,
            opcode::Accept::CODE,
            opcode::Recv::CODE,
            opcode::Send::CODE,
            opcode::AsyncCancel::CODE,
            opcode::PollAdd::CODE,
        ];
        let whole = needed.iter().all(|&code| probe.is_supported(code))
            && ring.params().is_feature_ext_arg()
            && ring.params().is_feature_nodrop();
        if !whole {
            return Err(Error::Unusable { detail: "io_uring lacks an operation".to_owned() });
        }
        let event = Arc::new(Event::new()?);
        let inner = Inner {
            ring,
            queued: VecDeque::new(),
            flying: Vec::new(),
            free: Vec::new(),
            ready: Vec::new(),
            wake_posted: false,
            taken: Vec::new(),
            receive,
        };
        Ok(UringRing { inner: RefCell::new(inner), event })
    }
}

fn unusable(error: &std::io::Error) -> Error {
    Error::Unusable { detail: format!("io_uring cannot be used: {error}") }
}

/// The fastest set-up that this kernel takes, and how it receives. The fastest is younger than
/// [`POLL_FIRST`].
fn build() -> std::io::Result<(IoUring, Receive)> {
    let fastest = IoUring::builder()
        .setup_cqsize(COMPLETIONS)
        .setup_clamp()
        .setup_single_issuer()
        .setup_defer_taskrun()
        .setup_taskrun_flag()
        .setup_submit_all()
        .build(SUBMISSIONS);
    fastest.map(|ring| (ring, Receive::WhenReady)).or_else(|_| {
        let plain = IoUring::builder().setup_cqsize(COMPLETIONS).setup_clamp().build(SUBMISSIONS);
        plain.map(|ring| (ring, Receive::AtOnce))
    })
}

impl Ring for UringRing {
    fn submit(&self, op: Op, token: Token) {
        enter_in_ledger(&op);
        let mut inner = self.inner.borrow_mut();
        if let Op::Cancel { token } = op {
            return inner.cancel(token);
        }
        if file_of(&op).is_some_and(|file| file.raw_fd().is_none()) {
            let done = run(op, token);
            return inner.ready.push(done);
        }
        let durable = match &op {
            Op::Write { durability: Durability::Durable, .. } => Durable::Flag,
            _ => Durable::No,
        };
        let flying = Flying { op, token, moved: 0, step: Step::Itself, durable };
        let index = inner.free.pop().unwrap_or_else(|| {
            inner.flying.push(None);
            inner.flying.len() - 1
        });
        inner.flying[index] = Some(flying);
        inner.post(index);
    }

    fn reap(&self, out: &mut Vec<Completion>) {
        let mut inner = self.inner.borrow_mut();
        inner.post_wake(self.event.raw_fd());
        inner.enter(None);
        inner.collect(&self.event);
        out.append(&mut inner.ready);
    }

    fn wait(&self, timeout: Option<Duration>) {
        let mut inner = self.inner.borrow_mut();
        inner.post_wake(self.event.raw_fd());
        let zero = !inner.ready.is_empty() || !inner.ring.completion().is_empty();
        let timeout = if zero { Duration::ZERO } else { timeout.unwrap_or(Duration::MAX) };
        inner.enter(Some(timeout));
        inner.collect(&self.event);
    }

    fn waker(&self) -> Arc<dyn Wake> {
        self.event.clone()
    }
}

impl Inner {
    fn cancel(&mut self, token: Token) {
        let found = self
            .flying
            .iter()
            .enumerate()
            .filter(|(_, flying)| flying.as_ref().is_some_and(|f| f.token == token));
        for (index, _) in found {
            let entry = opcode::AsyncCancel::new(index as u64).build().user_data(CANCEL);
            self.queued.push_back(entry);
        }
    }

    /// Queues what operation `index` needs next.
    fn post(&mut self, index: usize) {
        let flying = self.flying[index].as_mut().expect("the caller posts what flies");
        let entry = flying.entry(self.receive).user_data(index as u64);
        self.queued.push_back(entry);
    }

    fn post_wake(&mut self, fd: RawFd) {
        if !self.wake_posted {
            let poll = opcode::PollAdd::new(types::Fd(fd), libc::POLLIN as u32);
            self.queued.push_front(poll.build().user_data(WAKE));
            self.wake_posted = true;
        }
    }

    /// Hands over what is queued; with a timeout, waits for one completion.
    fn enter(&mut self, wait: Option<Duration>) {
        loop {
            self.fill();
            if self.queued.is_empty() {
                break;
            }
            // More is queued than the submission queue holds.
            match self.ring.submit() {
                Ok(_) => {}
                Err(_) => return,
            }
        }
        if wait.is_none() {
            let submission = self.ring.submission();
            if submission.is_empty() && !submission.taskrun() && !submission.cq_overflow() {
                return;
            }
        }
        loop {
            let done = match wait {
                None => self.ring.submit(),
                Some(Duration::MAX) => self.ring.submit_and_wait(1),
                Some(timeout) => {
                    let time = types::Timespec::from(timeout);
                    let args = types::SubmitArgs::new().timespec(&time);
                    self.ring.submitter().submit_with_args(1, &args)
                }
            };
            match done.map_err(|e| e.raw_os_error()) {
                Err(Some(libc::EINTR)) => {}
                // A timeout or a full completion queue: what is left goes with the next.
                Ok(_) | Err(Some(libc::ETIME | libc::EBUSY | libc::EAGAIN)) => return,
                Err(errno) => panic!("io_uring_enter failed: {errno:?}"),
            }
        }
    }

    fn fill(&mut self) {
        let mut submission = self.ring.submission();
        while let Some(entry) = self.queued.front() {
            // SAFETY: the buffers, files and addresses that the entry names are owned by
            // `flying[user data]` (or the ring's event) until the completion is taken.
            if unsafe { submission.push(entry) }.is_err() {
                break;
            }
            self.queued.pop_front();
        }
    }

    /// Takes all completions from the completion queue into `ready`. With thousands of sockets an
    /// operation's entry was not touched for long: those of some completions are asked for together.
    fn collect(&mut self, event: &Event) {
        loop {
            let mut taken = std::mem::take(&mut self.taken);
            taken.extend(self.ring.completion().take(COLLECT_TOGETHER));
            if taken.is_empty() {
                self.taken = taken;
                return;
            }
            for entry in &taken {
                if let Some(flying) = self.flying.get(entry.user_data() as usize) {
                    prefetch_value(flying);
                }
            }
            for entry in taken.drain(..) {
                match entry.user_data() {
                    CANCEL => {}
                    WAKE => {
                        event.drain();
                        self.wake_posted = false;
                    }
                    index => self.finish(index as usize, &entry),
                }
            }
            self.taken = taken;
        }
    }

    fn finish(&mut self, index: usize, entry: &cqueue::Entry) {
        let flying = self.flying[index].as_mut().expect("a completion names what flies");
        match flying.advance(entry.result()) {
            Advance::Again => self.post(index),
            Advance::Done(result) => {
                let Flying { op, token, .. } =
                    self.flying[index].take().expect("looked at it just now");
                self.free.push(index);
                self.ready.push(Completion { token, result, buffer: returned(op) });
            }
        }
    }
}

/// What follows a completion of the kernel's.
enum Advance {
    /// Post the operation's next step.
    Again,
    /// It has ended.
    Done(std::result::Result<u32, i32>),
}

impl Flying {
    fn entry(&mut self, receive: Receive) -> squeue::Entry {
        let moved = self.moved;
        match (&mut self.op, self.step) {
            (Op::Write { file, .. }, Step::SyncAfter) => {
                opcode::Fsync::new(fd(file.raw_fd())).flags(types::FsyncFlags::DATASYNC).build()
            }
            (Op::Write { file, offset, buffer, .. }, _) => {
                let flags = if self.durable == Durable::Flag { libc::RWF_DSYNC } else { 0 };
                let rest = &buffer[moved..];
                opcode::Write::new(fd(file.raw_fd()), rest.as_ptr(), length(rest.len()))
                    .offset(*offset + moved as u64)
                    .rw_flags(flags)
                    .build()
            }
            (Op::Read { file, offset, buffer }, _) => {
                let rest = &mut buffer[moved..];
                opcode::Read::new(fd(file.raw_fd()), rest.as_mut_ptr(), length(rest.len()))
                    .offset(*offset + moved as u64)
                    .build()
            }
            (Op::Sync { file }, _) => {
                opcode::Fsync::new(fd(file.raw_fd())).flags(types::FsyncFlags::DATASYNC).build()
            }
            (Op::Accept { listener: socket } | Op::Recv { socket, .. }, Step::Readiness) => {
                opcode::PollAdd::new(types::Fd(*socket), libc::POLLIN as u32).build()
            }
            (Op::Send { socket, .. }, Step::Readiness) => {
                opcode::PollAdd::new(types::Fd(*socket), libc::POLLOUT as u32).build()
            }
            (Op::Accept { listener }, _) => {
                let null = std::ptr::null_mut();
                opcode::Accept::new(types::Fd(*listener), null, null.cast())
                    .flags(libc::SOCK_CLOEXEC)
                    .build()
            }
            (Op::Recv { socket, buffer }, _) => {
                let waits = receive == Receive::WhenReady && self.step == Step::Itself;
                let first = if waits { POLL_FIRST } else { 0 };
                opcode::Recv::new(types::Fd(*socket), buffer.as_mut_ptr(), length(buffer.len()))
                    .ioprio(first)
                    .build()
            }
            (Op::Send { socket, buffer, from }, _) => {
                let rest = &buffer[*from..];
                opcode::Send::new(types::Fd(*socket), rest.as_ptr(), length(rest.len()))
                    .flags(libc::MSG_NOSIGNAL)
                    .build()
            }
            (Op::Cancel { .. }, _) => panic!("cancels do not fly"),
        }
    }

    fn advance(&mut self, result: i32) -> Advance {
        let moved = match u32::try_from(result) {
            Err(_) => return self.failed(-result),
            Ok(moved) => moved,
        };
        match self.step {
            Step::Readiness => {
                self.step = Step::Ready;
                return Advance::Again;
            }
            Step::SyncAfter => return Advance::Done(Ok(length(self.moved))),
            Step::Itself | Step::Ready => {}
        }
        match &self.op {
            Op::Write { buffer, .. } => {
                self.moved += moved as usize;
                if self.moved == buffer.len() {
                    return self.written();
                }
                if moved == 0 { Advance::Done(Err(libc::EIO)) } else { Advance::Again }
            }
            Op::Read { buffer, .. } => {
                self.moved += moved as usize;
                let at_end = moved == 0 || !(moved as usize).is_multiple_of(IO_ALIGN);
                let whole = at_end || self.moved == buffer.len();
                if whole { Advance::Done(Ok(length(self.moved))) } else { Advance::Again }
            }
            _ => Advance::Done(Ok(moved)),
        }
    }

    fn failed(&mut self, errno: i32) -> Advance {
        match errno {
            libc::EINTR => Advance::Again,
            libc::EAGAIN => {
                // The socket is non-blocking, or the operating system short of something.
                if file_of(&self.op).is_none() {
                    self.step = Step::Readiness;
                }
                Advance::Again
            }
            libc::EOPNOTSUPP if self.durable == Durable::Flag => {
                self.durable = Durable::Sync;
                Advance::Again
            }
            errno => Advance::Done(Err(errno)),
        }
    }

    /// The write is whole: what makes it durable, if it must be.
    fn written(&mut self) -> Advance {
        if self.durable != Durable::Sync {
            return Advance::Done(Ok(length(self.moved)));
        }
        self.step = Step::SyncAfter;
        Advance::Again
    }
}

impl Drop for UringRing {
    /// Cancels what can be cancelled and waits for the rest: the operating system may write into
    /// the buffers until then.
    fn drop(&mut self) {
        let inner = self.inner.get_mut();
        for index in 0..inner.flying.len() {
            if inner.flying[index].is_some() {
                let entry = opcode::AsyncCancel::new(index as u64).build().user_data(CANCEL);
                inner.queued.push_back(entry);
            }
        }
        let deadline = Instant::now() + Duration::from_secs(10);
        while inner.flying.iter().any(Option::is_some) && Instant::now() < deadline {
            inner.enter(Some(Duration::from_millis(100)));
            inner.collect(&self.event);
            for done in inner.ready.drain(..) {
                close_accepted(&done);
            }
        }
        // What a stuck device still holds is given up to it, never freed.
        std::mem::forget(std::mem::take(&mut inner.flying));
    }
}

/// A connection that was accepted for nobody.
fn close_accepted(done: &Completion) {
    if let (Returned::Nothing, Ok(fd)) = (&done.buffer, done.result)
        && fd > 2
    {
        // SAFETY: only accepts return a positive number without a buffer; nobody else has it.
        unsafe { libc::close(i32::try_from(fd).unwrap_or(-1)) };
    }
}

fn fd(raw: Option<RawFd>) -> types::Fd {
    types::Fd(raw.expect("files without a descriptor are run at once"))
}

fn length(bytes: usize) -> u32 {
    u32::try_from(bytes).expect("an operation moves less than 4 GiB")
}

fn returned(op: Op) -> Returned {
    match op {
        Op::Write { buffer, .. } | Op::Read { buffer, .. } => Returned::Io(buffer),
        Op::Recv { buffer, .. } | Op::Send { buffer, .. } => Returned::Bytes(buffer),
        Op::Sync { .. } | Op::Accept { .. } | Op::Cancel { .. } => Returned::Nothing,
    }
}
