//! One client's socket on its instance's ring: what came in, what goes out.
//!
//! Invariants: at most one Recv and one Send are in flight; their buffers belong to the ring until
//! completion. An idle link holds one small receive buffer and nothing else; responses are encoded
//! into buffers that the instance's links share. Bytes are handed to
//! [`Link::send`] only when they may leave the database; it never waits. The descriptor is closed
//! when the link is dropped, which happens only with nothing in flight.

use std::cell::{Cell, RefCell};
use std::io::ErrorKind;
use std::net::Shutdown;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::rc::Rc;

use atoll_kernel::io::{Op, Ring, Token};
use atoll_kernel::runtime::{UnparkClass, Unparker};

/// Bytes of an idle session's receive buffer, and the most that one Recv asks for.
const RECV_BYTES_MIN: usize = 1024;
const RECV_BYTES_MAX: usize = 64 * 1024;
/// Buffers up to this are kept for the next response, and how many of them an instance keeps.
const SPARE_BYTES_MAX: usize = 16 * 1024;
const SPARES_MAX: usize = 256;

/// Received bytes that were not consumed.
#[derive(Default)]
pub(super) struct Input {
    // Always of the length that a Recv was given: nothing is cleared for each.
    bytes: Vec<u8>,
    start: usize,
    end: usize,
    // For the next Recv while something is unread.
    spare: Vec<u8>,
}

impl Input {
    /// What has not been consumed.
    pub(super) fn unread(&self) -> &[u8] {
        &self.bytes[self.start..self.end]
    }

    /// The first `count` unread bytes are done with.
    pub(super) fn consume(&mut self, count: usize) {
        self.start += count;
        debug_assert!(self.start <= self.end, "a message is within the buffer");
        if self.start == self.end {
            (self.start, self.end) = (0, 0);
        }
    }

    /// A buffer for a Recv of `bytes`: its own, if nothing in it is unread.
    fn lend(&mut self, bytes: usize) -> Vec<u8> {
        let spare = std::mem::take(&mut self.spare);
        let mut buffer = if self.end == 0 { std::mem::take(&mut self.bytes) } else { spare };
        if buffer.len() < bytes || buffer.len() > 2 * bytes {
            buffer = vec![0; bytes];
        }
        buffer
    }

    /// Takes back a Recv's buffer with `count` bytes in it.
    fn take_back(&mut self, received: Vec<u8>, count: usize) {
        if self.end == 0 {
            (self.bytes, self.end) = (received, count);
            return;
        }
        self.bytes.truncate(self.end);
        self.bytes.drain(..self.start);
        self.bytes.extend_from_slice(&received[..count]);
        (self.start, self.end) = (0, self.bytes.len());
        self.spare = received;
    }
}

/// Cleared buffers for responses, which the sessions of an instance use one after the other: they
/// stay in the processor's caches, and an idle session keeps none.
#[derive(Default)]
pub(super) struct Buffers(RefCell<Vec<Vec<u8>>>);

impl Buffers {
    fn take(&self) -> Vec<u8> {
        self.0.borrow_mut().pop().unwrap_or_default()
    }

    fn give(&self, mut buffer: Vec<u8>) {
        let mut kept = self.0.borrow_mut();
        let fits = (1..=SPARE_BYTES_MAX).contains(&buffer.capacity());
        if fits && kept.len() < SPARES_MAX {
            buffer.clear();
            kept.push(buffer);
        }
    }
}

/// Where receiving stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Receiving {
    /// Not asked for.
    Idle,
    /// Asked for.
    InFlight,
    /// The peer sends no more, or the socket failed. It may still read.
    Ended,
}

#[derive(Default)]
struct Outgoing {
    in_flight: bool,
    // How much of the buffer in flight the socket has taken: answers of a gigabyte go in thousands
    // of pieces, and what is left is not moved for each.
    taken: usize,
    // What follows the send in flight.
    next: Vec<u8>,
}

/// A link without its ring: the socket, and what was read from it and not consumed.
pub(super) struct Parcel {
    socket: UnixStream,
    unread: Vec<u8>,
    recv_bytes: usize,
}

/// The socket with its buffers.
pub(super) struct Link {
    // Of either family: only calls that all stream sockets know are made through it.
    socket: UnixStream,
    recv_token: Token,
    send_token: Token,
    pub(super) input: RefCell<Input>,
    receiving: Cell<Receiving>,
    // A Send has failed: nothing that is sent arrives any more.
    broken: Cell<bool>,
    recv_bytes: Cell<usize>,
    buffers: Rc<Buffers>,
    outgoing: RefCell<Outgoing>,
    // The task that waits for this link.
    waiter: RefCell<Option<Unparker>>,
}

impl Link {
    pub(super) fn new(
        socket: OwnedFd,
        recv_token: Token,
        send_token: Token,
        buffers: Rc<Buffers>,
    ) -> Link {
        Link {
            socket: UnixStream::from(socket),
            recv_token,
            send_token,
            input: RefCell::default(),
            receiving: Cell::new(Receiving::Idle),
            broken: Cell::new(false),
            recv_bytes: Cell::new(RECV_BYTES_MIN),
            buffers,
            outgoing: RefCell::default(),
            waiter: RefCell::default(),
        }
    }

    /// Takes the link off its ring, which holds nothing of it (not [`Link::in_flight`]).
    pub(super) fn into_parcel(self) -> Parcel {
        debug_assert!(!self.in_flight(), "the ring holds one of the link's buffers");
        let Input { mut bytes, start, end, .. } = self.input.into_inner();
        bytes.truncate(end);
        bytes.drain(..start);
        Parcel { socket: self.socket, unread: bytes, recv_bytes: self.recv_bytes.get() }
    }

    /// Goes on on another ring.
    pub(super) fn of_parcel(
        parcel: Parcel,
        recv_token: Token,
        send_token: Token,
        buffers: Rc<Buffers>,
    ) -> Link {
        let Parcel { socket, unread, recv_bytes } = parcel;
        let mut link = Link::new(OwnedFd::from(socket), recv_token, send_token, buffers);
        let end = unread.len();
        link.input = RefCell::new(Input { bytes: unread, end, ..Input::default() });
        link.recv_bytes = Cell::new(recv_bytes);
        link
    }

    /// Where receiving stands.
    pub(super) fn receiving(&self) -> Receiving {
        self.receiving.get()
    }

    /// Asks for more input, unless that is done or pointless.
    pub(super) fn receive(&self, ring: &dyn Ring) {
        if self.receiving.get() != Receiving::Idle {
            return;
        }
        self.receiving.set(Receiving::InFlight);
        let buffer = self.input.borrow_mut().lend(self.recv_bytes.get());
        ring.submit(Op::Recv { socket: self.socket.as_raw_fd(), buffer }, self.recv_token);
    }

    /// The Recv has completed.
    pub(super) fn received(&self, result: Result<u32, i32>, buffer: Vec<u8>) {
        self.receiving.set(Receiving::Idle);
        match result {
            Ok(count) if count > 0 => {
                let count = count as usize;
                let asked = self.recv_bytes.get();
                self.recv_bytes.set(if count == asked {
                    (asked * 4).min(RECV_BYTES_MAX)
                } else if count < asked / 4 {
                    (asked / 2).max(RECV_BYTES_MIN)
                } else {
                    asked
                });
                self.input.borrow_mut().take_back(buffer, count);
            }
            Err(errno) if is_passing(errno) => {}
            _ => self.receiving.set(Receiving::Ended),
        }
        self.wake();
    }

    /// Takes back a buffer that was not sent.
    pub(super) fn give_back(&self, buffer: Vec<u8>) {
        self.buffers.give(buffer);
    }

    /// A cleared buffer to encode into.
    pub(super) fn buffer(&self) -> Vec<u8> {
        self.buffers.take()
    }

    /// Sends `bytes` after what was sent before. Does not wait.
    pub(super) fn send(&self, ring: &dyn Ring, bytes: Vec<u8>) {
        let mut outgoing = self.outgoing.borrow_mut();
        if bytes.is_empty() || self.broken.get() {
            self.buffers.give(bytes);
        } else if outgoing.in_flight {
            if outgoing.next.is_empty() {
                outgoing.next = bytes;
            } else {
                outgoing.next.extend_from_slice(&bytes);
                self.buffers.give(bytes);
            }
        } else {
            outgoing.in_flight = true;
            let socket = self.socket.as_raw_fd();
            ring.submit(Op::Send { socket, buffer: bytes, from: 0 }, self.send_token);
        }
    }

    /// The Send has completed; `buffer` and `from` are its own.
    pub(super) fn sent(&self, ring: &dyn Ring, result: Result<u32, i32>, buffer: Vec<u8>) {
        let mut outgoing = self.outgoing.borrow_mut();
        let socket = self.socket.as_raw_fd();
        match result {
            Ok(count) if count > 0 && outgoing.taken + (count as usize) < buffer.len() => {
                outgoing.taken += count as usize;
                let from = outgoing.taken;
                ring.submit(Op::Send { socket, buffer, from }, self.send_token);
                return;
            }
            Err(errno) if is_passing(errno) => {
                let from = outgoing.taken;
                ring.submit(Op::Send { socket, buffer, from }, self.send_token);
                return;
            }
            Ok(count) if outgoing.taken + count as usize == buffer.len() => {}
            _ => {
                outgoing.next.clear();
                self.broken.set(true);
                self.shut(Shutdown::Both);
                if self.receiving.get() == Receiving::Idle {
                    self.receiving.set(Receiving::Ended);
                }
            }
        }
        outgoing.taken = 0;
        self.buffers.give(buffer);
        if outgoing.next.is_empty() {
            outgoing.in_flight = false;
        } else {
            let next = std::mem::take(&mut outgoing.next);
            ring.submit(Op::Send { socket, buffer: next, from: 0 }, self.send_token);
        }
        drop(outgoing);
        self.wake();
    }

    /// Whether a Send has failed: nobody reads any more.
    pub(super) fn is_broken(&self) -> bool {
        self.broken.get()
    }

    /// Whether everything handed to `send` has left.
    pub(super) fn all_sent(&self) -> bool {
        !self.outgoing.borrow().in_flight
    }

    /// Whether the ring still holds one of the link's buffers.
    pub(super) fn in_flight(&self) -> bool {
        self.receiving.get() == Receiving::InFlight || !self.all_sent()
    }

    /// Ends one or both directions; a socket that is gone already stays so.
    pub(super) fn shut(&self, how: Shutdown) {
        let _ = self.socket.shutdown(how);
    }

    /// Who is to be woken when something happens here.
    pub(super) fn set_waiter(&self, waiter: Option<Unparker>) {
        *self.waiter.borrow_mut() = waiter;
    }

    fn wake(&self) {
        if let Some(waiter) = &*self.waiter.borrow() {
            waiter.unpark(UnparkClass::Io);
        }
    }
}

/// Whether the operation is simply to be tried again.
fn is_passing(errno: i32) -> bool {
    let kind = std::io::Error::from_raw_os_error(errno).kind();
    matches!(kind, ErrorKind::Interrupted | ErrorKind::WouldBlock)
}
