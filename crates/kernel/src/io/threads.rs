//! The fallback form of a ring: a pool of threads for files, epoll for sockets (rule 2.7).
//!
//! Invariants: behaves as the io_uring form does, and is tested by the same tests. A buffer and
//! its file belong to the job until its completion is in the ring's list. Socket operations are
//! tried at once and otherwise when epoll says so, in order for each socket and direction.

use std::cell::RefCell;
use std::collections::{HashMap, VecDeque};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::time::Duration;

use super::blocking::{error_of, file_of, run};
use super::event::Event;
use super::{Completion, Op, Returned, Ring, Token, Wake, enter_in_ledger};
use crate::base::{Error, Result};

/// Threads of one pool; enough for the flushes in flight of a few logs.
const THREADS: usize = 6;

/// Threads that do file operations for all rings of a disk; started by the first ring.
pub(super) struct Pool {
    shared: Mutex<Option<Arc<Shared>>>,
}

struct Shared {
    queue: Mutex<Queue>,
    filled: Condvar,
}

#[derive(Default)]
struct Queue {
    jobs: VecDeque<Job>,
    stopped: bool,
}

struct Job {
    op: Op,
    token: Token,
    done: Arc<Done>,
}

/// Where a ring's finished jobs go.
struct Done {
    list: Mutex<Vec<Completion>>,
    event: Event,
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // A poisoned list is whole: nothing panics between its changes.
    mutex.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}

impl Pool {
    pub(super) fn new() -> Pool {
        Pool { shared: Mutex::new(None) }
    }

    fn shared(&self) -> Result<Arc<Shared>> {
        let mut place = locked(&self.shared);
        if let Some(shared) = place.as_ref() {
            return Ok(shared.clone());
        }
        let shared = Arc::new(Shared { queue: Mutex::default(), filled: Condvar::new() });
        for number in 0..THREADS {
            let worker = shared.clone();
            let thread = std::thread::Builder::new().name(format!("atoll-io-{number}"));
            if let Err(e) = thread.spawn(move || worker.work()) {
                shared.stop();
                let errno = e.raw_os_error().unwrap_or(libc::EAGAIN);
                return Err(error_of("start", "I/O thread", errno));
            }
        }
        *place = Some(shared.clone());
        Ok(shared)
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        if let Some(shared) = locked(&self.shared).as_ref() {
            shared.stop();
        }
    }
}

impl Shared {
    /// Lets the threads end when the queue is empty.
    fn stop(&self) {
        locked(&self.queue).stopped = true;
        self.filled.notify_all();
    }

    fn work(&self) {
        loop {
            let mut queue = locked(&self.queue);
            let job = loop {
                if let Some(job) = queue.jobs.pop_front() {
                    break job;
                }
                if queue.stopped {
                    return;
                }
                queue = self.filled.wait(queue).unwrap_or_else(std::sync::PoisonError::into_inner);
            };
            drop(queue);
            let Job { op, token, done } = job;
            let completion = run(op, token);
            locked(&done.list).push(completion);
            done.event.wake();
        }
    }
}

/// One thread's ring over the pool and an epoll instance.
pub(super) struct ThreadRing {
    pool: Arc<Shared>,
    done: Arc<Done>,
    epoll: OwnedFd,
    inner: RefCell<Inner>,
}

#[derive(Default)]
struct Inner {
    /// Jobs not yet given to the pool.
    queued: Vec<Job>,
    sockets: HashMap<RawFd, Socket>,
    ready: Vec<Completion>,
}

/// Socket operations that wait, in order.
#[derive(Default)]
struct Socket {
    incoming: VecDeque<(Op, Token)>,
    outgoing: VecDeque<(Op, Token)>,
    /// What epoll watches for now.
    watched: u32,
}

struct WakeDone(Arc<Done>);

impl Wake for WakeDone {
    fn wake(&self) {
        self.0.event.wake();
    }
}

impl ThreadRing {
    pub(super) fn new(pool: &Pool) -> Result<ThreadRing> {
        // SAFETY: no pointers; the result is checked.
        let epoll = unsafe { libc::epoll_create1(libc::EPOLL_CLOEXEC) };
        if epoll < 0 {
            return Err(last_error("make", "epoll"));
        }
        // SAFETY: a descriptor that epoll_create1(2) returned is ours.
        let epoll = unsafe { OwnedFd::from_raw_fd(epoll) };
        let done = Arc::new(Done { list: Mutex::default(), event: Event::new()? });
        let ring = ThreadRing { pool: pool.shared()?, done, epoll, inner: RefCell::default() };
        let event = ring.done.event.raw_fd();
        match ring.control(libc::EPOLL_CTL_ADD, event, libc::EPOLLIN as u32) {
            0 => Ok(ring),
            errno => Err(error_of("watch", "eventfd", errno)),
        }
    }

    /// Tells epoll what to watch a descriptor for; returns the error number or 0.
    fn control(&self, how: i32, fd: RawFd, events: u32) -> i32 {
        let mut event = libc::epoll_event { events, u64: fd.unsigned_abs().into() };
        // SAFETY: `event` is readable; wrong descriptors are answered with an error.
        let done = unsafe { libc::epoll_ctl(self.epoll.as_raw_fd(), how, fd, &raw mut event) };
        if done == 0 { 0 } else { last_errno() }
    }

    /// Waits for events and handles them.
    fn poll(&self, inner: &mut Inner, timeout_ms: i32) {
        let mut events = [libc::epoll_event { events: 0, u64: 0 }; 256];
        let n = loop {
            // SAFETY: `events` is writable for its length.
            let n = unsafe {
                libc::epoll_wait(self.epoll.as_raw_fd(), events.as_mut_ptr(), 256, timeout_ms)
            };
            if n >= 0 || last_errno() != libc::EINTR {
                break n;
            }
        };
        for event in events.iter().take(usize::try_from(n).unwrap_or(0)) {
            let fd = RawFd::try_from(event.u64).expect("descriptors were put in");
            if fd == self.done.event.raw_fd() {
                self.done.event.drain();
            } else {
                inner.advance(fd);
                self.watch(inner, fd);
            }
        }
        inner.ready.append(&mut locked(&self.done.list));
    }

    /// Makes epoll watch a socket for what its waiting operations need.
    fn watch(&self, inner: &mut Inner, fd: RawFd) {
        let Some(socket) = inner.sockets.get_mut(&fd) else { return };
        let mut wanted = 0;
        if !socket.incoming.is_empty() {
            wanted |= libc::EPOLLIN as u32 | libc::EPOLLRDHUP as u32;
        }
        if !socket.outgoing.is_empty() {
            wanted |= libc::EPOLLOUT as u32;
        }
        if wanted == 0 {
            inner.sockets.remove(&fd);
            // The socket may be closed already; then epoll has forgotten it.
            let _ = self.control(libc::EPOLL_CTL_DEL, fd, 0);
            return;
        }
        if wanted == socket.watched {
            return;
        }
        socket.watched = wanted;
        let mut errno = self.control(libc::EPOLL_CTL_MOD, fd, wanted);
        if errno == libc::ENOENT {
            errno = self.control(libc::EPOLL_CTL_ADD, fd, wanted);
        }
        if errno != 0 {
            let socket = inner.sockets.remove(&fd).unwrap_or_default();
            for (op, token) in socket.incoming.into_iter().chain(socket.outgoing) {
                inner.ready.push(ended(op, token, Err(errno)));
            }
        }
    }

    fn hand_over(&self, inner: &mut Inner) {
        if inner.queued.is_empty() {
            return;
        }
        locked(&self.pool.queue).jobs.extend(inner.queued.drain(..));
        self.pool.filled.notify_all();
    }
}

impl Ring for ThreadRing {
    fn submit(&self, op: Op, token: Token) {
        enter_in_ledger(&op);
        let mut inner = self.inner.borrow_mut();
        match file_of(&op).map(|file| file.raw_fd().is_some()) {
            Some(true) => {
                let job = Job { op, token, done: self.done.clone() };
                inner.queued.push(job);
            }
            Some(false) => {
                let done = run(op, token);
                inner.ready.push(done);
            }
            None => {
                if let Some(fd) = inner.submit_socket(op, token) {
                    self.watch(&mut inner, fd);
                }
            }
        }
    }

    fn reap(&self, out: &mut Vec<Completion>) {
        let mut inner = self.inner.borrow_mut();
        self.hand_over(&mut inner);
        let sockets = !inner.sockets.is_empty();
        if sockets {
            self.poll(&mut inner, 0);
        } else {
            inner.ready.append(&mut locked(&self.done.list));
        }
        out.append(&mut inner.ready);
    }

    fn wait(&self, timeout: Option<Duration>) {
        let mut inner = self.inner.borrow_mut();
        self.hand_over(&mut inner);
        let timeout_ms = match timeout {
            _ if !inner.ready.is_empty() => 0,
            None => -1,
            // Rounded up: waking early would make the caller spin.
            Some(time) => i32::try_from(time.as_nanos().div_ceil(1_000_000)).unwrap_or(i32::MAX),
        };
        self.poll(&mut inner, timeout_ms);
    }

    fn waker(&self) -> Arc<dyn Wake> {
        Arc::new(WakeDone(self.done.clone()))
    }
}

impl Inner {
    /// Tries a socket operation at once; returns the socket to watch if it must wait.
    fn submit_socket(&mut self, op: Op, token: Token) -> Option<RawFd> {
        match op {
            Op::Cancel { token } => self.cancel(token),
            Op::Accept { listener: fd } => {
                make_nonblocking(fd);
                self.sockets.entry(fd).or_default().incoming.push_back((op, token));
                self.advance(fd);
                Some(fd)
            }
            Op::Recv { socket: fd, .. } => {
                self.sockets.entry(fd).or_default().incoming.push_back((op, token));
                self.advance(fd);
                Some(fd)
            }
            Op::Send { socket: fd, .. } => {
                self.sockets.entry(fd).or_default().outgoing.push_back((op, token));
                self.advance(fd);
                Some(fd)
            }
            Op::Write { .. } | Op::Read { .. } | Op::Sync { .. } => {
                panic!("a file operation reached the socket path")
            }
        }
    }

    fn cancel(&mut self, token: Token) -> Option<RawFd> {
        for (&fd, socket) in &mut self.sockets {
            for queue in [&mut socket.incoming, &mut socket.outgoing] {
                if let Some(place) = queue.iter().position(|(_, t)| *t == token) {
                    let (op, token) = queue.remove(place).expect("it was found there");
                    self.ready.push(ended(op, token, Err(libc::ECANCELED)));
                    return Some(fd);
                }
            }
        }
        None
    }

    /// Does what can be done on a socket now.
    fn advance(&mut self, fd: RawFd) {
        let Some(socket) = self.sockets.get_mut(&fd) else { return };
        for queue in [&mut socket.incoming, &mut socket.outgoing] {
            while let Some((op, _)) = queue.front_mut() {
                let Some(result) = attempt(op) else { break };
                let (op, token) = queue.pop_front().expect("looked at it just now");
                self.ready.push(ended(op, token, result));
            }
        }
    }
}

/// Tries a socket operation without waiting; `None` if it would have to.
fn attempt(op: &mut Op) -> Option<std::result::Result<u32, i32>> {
    loop {
        let n = match op {
            Op::Accept { listener } => {
                let null = std::ptr::null_mut();
                // SAFETY: null addresses are allowed: the peer's address is not wanted.
                let fd = unsafe { libc::accept4(*listener, null, null.cast(), libc::SOCK_CLOEXEC) };
                fd as isize
            }
            Op::Recv { socket, buffer } => {
                // SAFETY: `buffer` is writable for its length.
                unsafe {
                    let to = buffer.as_mut_ptr().cast();
                    libc::recv(*socket, to, buffer.len(), libc::MSG_DONTWAIT)
                }
            }
            Op::Send { socket, buffer, from } => {
                let rest = &buffer[*from..];
                let flags = libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL;
                // SAFETY: `rest` is readable for its length.
                unsafe { libc::send(*socket, rest.as_ptr().cast(), rest.len(), flags) }
            }
            Op::Write { .. } | Op::Read { .. } | Op::Sync { .. } | Op::Cancel { .. } => {
                panic!("only socket operations are attempted")
            }
        };
        if let Ok(n) = u32::try_from(n) {
            return Some(Ok(n));
        }
        match last_errno() {
            libc::EINTR => {}
            libc::EAGAIN => return None,
            errno => return Some(Err(errno)),
        }
    }
}

fn ended(op: Op, token: Token, result: std::result::Result<u32, i32>) -> Completion {
    let buffer = match op {
        Op::Recv { buffer, .. } | Op::Send { buffer, .. } => Returned::Bytes(buffer),
        _ => Returned::Nothing,
    };
    Completion { token, result, buffer }
}

fn make_nonblocking(fd: RawFd) {
    // SAFETY: no pointers; a wrong descriptor shows itself in the accept that follows.
    unsafe {
        let flags = libc::fcntl(fd, libc::F_GETFL);
        if flags >= 0 && flags & libc::O_NONBLOCK == 0 {
            libc::fcntl(fd, libc::F_SETFL, flags | libc::O_NONBLOCK);
        }
    }
}

fn last_errno() -> i32 {
    std::io::Error::last_os_error().raw_os_error().unwrap_or(0)
}

fn last_error(what: &str, path: &str) -> Error {
    error_of(what, path, last_errno())
}
