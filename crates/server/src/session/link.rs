//! One client's socket on its instance's ring: what came in, what goes out.
//!
//! Invariants: at most one Recv and one Send are in flight; their buffers belong to the ring until
//! completion. An idle link holds one small receive buffer and nothing else. Bytes are handed to
//! [`Link::send`] only when they may leave the database; it never waits. The descriptor is closed
//! when the link is dropped, which happens only with nothing in flight.

use std::cell::{Cell, RefCell};
use std::io::ErrorKind;
use std::net::Shutdown;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::net::UnixStream;

use atoll_kernel::io::{Op, Ring, Token};
use atoll_kernel::runtime::{UnparkClass, Unparker};

/// Bytes of an idle session's receive buffer, and the most that one Recv asks for.
const RECV_BYTES_MIN: usize = 1024;
const RECV_BYTES_MAX: usize = 64 * 1024;
/// Buffers up to this are kept for the next response.
const SPARE_BYTES_MAX: usize = 4096;

/// Received bytes that were not consumed.
#[derive(Default)]
pub(super) struct Input {
    bytes: Vec<u8>,
    start: usize,
}

impl Input {
    /// What has not been consumed.
    pub(super) fn unread(&self) -> &[u8] {
        &self.bytes[self.start..]
    }

    /// The first `count` unread bytes are done with.
    pub(super) fn consume(&mut self, count: usize) {
        self.start += count;
        debug_assert!(self.start <= self.bytes.len(), "a message is within the buffer");
        if self.start == self.bytes.len() {
            self.bytes.clear();
            self.start = 0;
        }
    }

    /// Takes a receive buffer's content; answers a buffer that is free now.
    fn append(&mut self, mut received: Vec<u8>, count: usize) -> Vec<u8> {
        received.truncate(count);
        if self.bytes.is_empty() {
            return std::mem::replace(&mut self.bytes, received);
        }
        self.bytes.drain(..self.start);
        self.start = 0;
        self.bytes.extend_from_slice(&received);
        received
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
    // A cleared buffer for the next response.
    spare: Vec<u8>,
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
    recv_spare: RefCell<Vec<u8>>,
    outgoing: RefCell<Outgoing>,
    // The task that waits for this link.
    waiter: RefCell<Option<Unparker>>,
}

impl Link {
    pub(super) fn new(socket: OwnedFd, recv_token: Token, send_token: Token) -> Link {
        Link {
            socket: UnixStream::from(socket),
            recv_token,
            send_token,
            input: RefCell::default(),
            receiving: Cell::new(Receiving::Idle),
            broken: Cell::new(false),
            recv_bytes: Cell::new(RECV_BYTES_MIN),
            recv_spare: RefCell::default(),
            outgoing: RefCell::default(),
            waiter: RefCell::default(),
        }
    }

    /// Takes the link off its ring, which holds nothing of it (not [`Link::in_flight`]).
    pub(super) fn into_parcel(self) -> Parcel {
        debug_assert!(!self.in_flight(), "the ring holds one of the link's buffers");
        let Input { mut bytes, start } = self.input.into_inner();
        bytes.drain(..start);
        Parcel { socket: self.socket, unread: bytes, recv_bytes: self.recv_bytes.get() }
    }

    /// Goes on on another ring.
    pub(super) fn of_parcel(parcel: Parcel, recv_token: Token, send_token: Token) -> Link {
        let Parcel { socket, unread, recv_bytes } = parcel;
        let mut link = Link::new(OwnedFd::from(socket), recv_token, send_token);
        link.input = RefCell::new(Input { bytes: unread, start: 0 });
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
        let mut buffer = self.recv_spare.take();
        let bytes = self.recv_bytes.get();
        if buffer.capacity() < bytes || buffer.capacity() > 2 * bytes {
            buffer = Vec::with_capacity(bytes);
        }
        buffer.resize(bytes, 0);
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
                let free = self.input.borrow_mut().append(buffer, count);
                if free.capacity() <= RECV_BYTES_MAX {
                    *self.recv_spare.borrow_mut() = free;
                }
            }
            Err(errno) if is_passing(errno) => {
                *self.recv_spare.borrow_mut() = buffer;
            }
            _ => self.receiving.set(Receiving::Ended),
        }
        self.wake();
    }

    /// A cleared buffer to encode into.
    pub(super) fn buffer(&self) -> Vec<u8> {
        std::mem::take(&mut self.outgoing.borrow_mut().spare)
    }

    /// Sends `bytes` after what was sent before. Does not wait.
    pub(super) fn send(&self, ring: &dyn Ring, mut bytes: Vec<u8>) {
        let mut outgoing = self.outgoing.borrow_mut();
        if bytes.is_empty() || self.broken.get() {
            bytes.clear();
            outgoing.spare = bytes;
        } else if outgoing.in_flight {
            if outgoing.next.is_empty() {
                outgoing.next = bytes;
            } else {
                outgoing.next.extend_from_slice(&bytes);
                bytes.clear();
                outgoing.spare = bytes;
            }
        } else {
            outgoing.in_flight = true;
            let socket = self.socket.as_raw_fd();
            ring.submit(Op::Send { socket, buffer: bytes, from: 0 }, self.send_token);
        }
        if outgoing.spare.capacity() > SPARE_BYTES_MAX {
            outgoing.spare = Vec::new();
        }
    }

    /// The Send has completed; `buffer` and `from` are its own.
    pub(super) fn sent(&self, ring: &dyn Ring, result: Result<u32, i32>, mut buffer: Vec<u8>) {
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
        buffer.clear();
        if outgoing.next.is_empty() {
            outgoing.in_flight = false;
            if buffer.capacity() <= SPARE_BYTES_MAX {
                outgoing.spare = buffer;
            }
        } else {
            let next = std::mem::take(&mut outgoing.next);
            if buffer.capacity() <= SPARE_BYTES_MAX {
                outgoing.spare = buffer;
            }
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
