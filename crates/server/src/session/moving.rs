//! Sessions that go to another instance, with their socket (kernel rule 2.10).
//!
//! ```text
//!   Open --a conversation ends, the backend wants to go, or is ordered to (`exchange`)--> Leaving(to)
//!   Leaving --everything sent, `to` was promised--> taken apart, sent as a letter
//!   letter --at `to`--> Open: what was read and not answered comes first, then a Recv
//!   Leaving --the database closes, the peer is gone, the backend cannot--> Open, here
//! ```
//!
//! The hand-over, and why nothing is lost. A session leaves only where it stands still: no task of
//! its own runs, no Recv is in flight (none is asked for while *leaving*), the last Send has
//! completed. So the ring knows nothing of it any more, its socket's order is the kernel's, and
//! what the client sends meanwhile waits in the socket. Bytes that were read and not answered, a
//! part of a message included, go along. The letter owns everything; one instance has the session
//! before it is pushed and one after it is read, and the mailbox's push and take order the two. A
//! letter would be dropped if its receiver had ended: so it is a promised one
//! (`atoll_kernel::runtime::Promise`), which is refused once the database closes; then the
//! session stays and hears 57P01 here. A session that arrives while the database closes hears it
//! there.
//!
//! A session's process number names the instance that accepted it, its *origin*, for as long as it
//! lives: the client was told so. Its place there is kept as *away*, with the secret and the
//! interrupt, which any thread may use: so a cancel request goes there, as ever, and works wherever
//! the session is, and on the way. Elsewhere a session is a guest, under a number that only its
//! tokens bear and that no cancel request can use (it has no secret). When a guest has ended, a
//! letter frees its number there.
//!
//! Invariants: a number of the origin is `Here` or `Away` while the session lives; it is counted there
//! (`sessions_max`) and nowhere else. No word is shared but the promise's and the interrupt's.

use std::cell::{Cell, RefCell};
use std::os::fd::OwnedFd;
use std::rc::Rc;
use std::sync::Arc;

use atoll_kernel::base::InstanceId;
use atoll_kernel::io::Token;
use atoll_kernel::runtime::{Instance, InstanceState, ServiceId};
use atoll_kernel::txn::Interrupt;
use atoll_sql::session::client::TransactionStatus;

use crate::backend::Backend;

use super::connection::{Admitted, Connection, Phase};
use super::conversation::{Progress, Verdict};
use super::link::{Link, Parcel, Receiving};
use super::sessions::{KIND_SEND, Sessions, shutting_down};

/// Where a session was accepted, and its number there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Origin {
    instance: InstanceId,
    number: u32,
}

impl Origin {
    pub(super) fn new(instance: InstanceId, number: u32) -> Origin {
        Origin { instance, number }
    }
}

/// What a client must know to cancel its session's statement.
#[derive(Clone, Copy, Default)]
pub(super) struct Secret {
    bytes: [u8; 16],
    length: usize,
}

impl Secret {
    /// Not told to anybody yet.
    fn new(bytes: [u8; 16]) -> Secret {
        Secret { bytes, length: 0 }
    }

    /// As told to a client of a protocol that has secrets of this length.
    pub(super) fn with_length(self, length: usize) -> Secret {
        Secret { length, ..self }
    }

    pub(super) fn told(&self) -> &[u8] {
        &self.bytes[..self.length]
    }
}

/// A place in an instance's table of connections.
pub(super) enum Place<B> {
    /// Nobody's.
    Free,
    /// A connection of this instance.
    Here(Rc<Connection<B>>),
    /// Of a session that was accepted here and is on another instance.
    Away(Secret, Arc<Interrupt>),
}

/// A session on its way.
struct Traveller<M> {
    origin: Origin,
    address: Option<String>,
    parcel: Parcel,
    session: M,
}

impl<S: InstanceState, B: Backend<S>> Sessions<S, B> {
    /// After a task of the session: whether it is about to leave.
    pub(super) fn leaves(&self, instance: &Instance<S>, connection: &Connection<B>) -> bool {
        let stands = connection.phase.get() == Phase::Open
            && connection.progress.get() == Progress::default()
            && connection.link.receiving() == Receiving::Idle;
        if !stands {
            return false;
        }
        let ordered = connection.ordered.get();
        let wanted = connection.backend.borrow().as_ref().and_then(|backend| {
            let may_go = || backend.status() == TransactionStatus::Idle && backend.goes_anywhere();
            backend.wanted().or_else(|| ordered.filter(|_| may_go()))
        });
        let wanted = wanted
            .filter(|to| *to != instance.id() && usize::from(to.0) < instance.hub().instances());
        let Some(to) = wanted else { return false };
        connection.ordered.set(None);
        connection.phase.set(Phase::Leaving(to));
        self.leaving.borrow_mut().push(connection.number);
        true
    }

    /// Lets those go whose last answer is out. Called with no connection borrowed.
    pub(super) fn let_go(&self, instance: &Instance<S>) {
        if self.leaving.borrow().is_empty() {
            return;
        }
        for number in self.leaving.take() {
            let Some(connection) = self.connection(u64::from(number)) else { continue };
            let Phase::Leaving(to) = connection.phase.get() else { continue };
            let link = &connection.link;
            if link.receiving() == Receiving::Ended {
                // The peer is gone: it was noticed by the Send.
                self.stays(instance, &connection);
            } else if !link.all_sent() || Rc::strong_count(&connection) > 2 {
                self.leaving.borrow_mut().push(number);
            } else {
                self.depart(instance, connection, to);
            }
        }
    }

    fn stays(&self, instance: &Instance<S>, connection: &Rc<Connection<B>>) {
        connection.phase.set(Phase::Open);
        self.advance(instance, connection);
    }

    fn depart(&self, instance: &Instance<S>, connection: Rc<Connection<B>>, to: InstanceId) {
        let Some(promise) = instance.hub().promise(to) else {
            return self.stays(instance, &connection);
        };
        let Some(backend) = connection.backend.take() else {
            return self.stays(instance, &connection);
        };
        let interrupt = backend.interrupt();
        let session = match backend.depart() {
            Ok(session) => session,
            Err(backend) => {
                *connection.backend.borrow_mut() = Some(Box::new(backend));
                return self.stays(instance, &connection);
            }
        };
        let number = connection.number;
        let origin = connection.origin.unwrap_or(Origin { instance: instance.id(), number });
        self.connections.borrow_mut()[number as usize] = match connection.origin {
            None => Place::Away(connection.secret.get(), interrupt),
            Some(_) => Place::Free,
        };
        if connection.origin.is_some() {
            self.free.borrow_mut().push(number);
        }
        let connection = Rc::into_inner(connection).expect("the table's and this one were all");
        let Connection { address, link, .. } = connection;
        let traveller = Traveller { origin, address, parcel: link.into_parcel(), session };
        let id = self.id.get();
        promise.send(move |instance| {
            if let Some(sessions) = instance.service::<Sessions<S, B>>(id) {
                sessions.arrive(instance, traveller);
            }
        });
    }

    fn arrive(&self, instance: &Instance<S>, traveller: Traveller<B::Moving>) {
        let Traveller { origin, address, parcel, session } = traveller;
        let own = (origin.instance == instance.id()).then_some(origin.number);
        let number = own.unwrap_or_else(|| self.free_number());
        let secret = match (own, &self.connections.borrow()[number as usize]) {
            (Some(_), Place::Away(secret, _)) => *secret,
            (None, Place::Free) => Secret::default(),
            _ => unreachable!("a number is kept for its session"),
        };
        let backend = B::arrive(instance, &self.local, session);
        let (receive, send) = tokens(self.id.get(), number);
        let connection = Rc::new(Connection {
            number,
            admitted: Admitted::Yes,
            origin: own.is_none().then_some(origin),
            secret: Cell::new(secret),
            address,
            link: Link::of_parcel(parcel, receive, send, self.buffers.clone()),
            phase: Cell::new(Phase::Open),
            running: Cell::new(false),
            is_known: Cell::new(true),
            ordered: Cell::new(None),
            verdict: Cell::new(Verdict::Open),
            progress: Cell::default(),
            interrupt: RefCell::new(Some(backend.interrupt())),
            backend: RefCell::new(Some(Box::new(backend))),
            unsettled: RefCell::default(),
        });
        self.connections.borrow_mut()[number as usize] = Place::Here(connection.clone());
        if self.stopping.get() {
            self.leave(instance, &connection, Some(&shutting_down()));
        } else {
            self.advance(instance, &connection);
        }
    }

    /// A guest has ended: its number there is free.
    pub(super) fn tell_origin(&self, instance: &Instance<S>, origin: Origin) {
        let id = self.id.get();
        let letter = move |instance: &Instance<S>| {
            if let Some(sessions) = instance.service::<Sessions<S, B>>(id) {
                sessions.has_ended(origin.number);
            }
        };
        instance.hub().send(origin.instance, Box::new(letter));
    }

    fn has_ended(&self, number: u32) {
        let place = &mut self.connections.borrow_mut()[number as usize];
        if matches!(place, Place::Away(..)) {
            *place = Place::Free;
            self.free.borrow_mut().push(number);
            self.live.set(self.live.get() - 1);
        }
    }

    /// A number that nobody has; its place is `Free`.
    pub(super) fn free_number(&self) -> u32 {
        self.free.borrow_mut().pop().unwrap_or_else(|| {
            self.connections.borrow_mut().push(Place::Free);
            self.connections.borrow().len() as u32 - 1
        })
    }

    /// A new connection's place, link and all.
    pub(super) fn new_connection(
        &self,
        socket: OwnedFd,
        address: Option<String>,
        secret: [u8; 16],
        admitted: Admitted,
    ) -> Rc<Connection<B>> {
        let number = self.free_number();
        let (receive, send) = tokens(self.id.get(), number);
        let connection = Rc::new(Connection {
            number,
            admitted,
            origin: None,
            secret: Cell::new(Secret::new(secret)),
            address,
            link: Link::new(socket, receive, send, self.buffers.clone()),
            phase: Cell::new(Phase::Starting),
            running: Cell::new(false),
            is_known: Cell::new(false),
            ordered: Cell::new(None),
            verdict: Cell::new(Verdict::Open),
            progress: Cell::default(),
            backend: RefCell::default(),
            unsettled: RefCell::default(),
            interrupt: RefCell::default(),
        });
        self.connections.borrow_mut()[number as usize] = Place::Here(connection.clone());
        let counted = match admitted {
            Admitted::Yes => &self.live,
            Admitted::No => &self.refused,
        };
        counted.set(counted.get() + 1);
        connection
    }
}

/// The tokens of a connection's Recv and Send.
fn tokens(id: ServiceId, number: u32) -> (Token, Token) {
    let own = u64::from(number);
    (id.token(own), id.token(KIND_SEND | own))
}
