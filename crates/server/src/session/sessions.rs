//! The sessions of one instance, as a service on its ring.
//!
//! A connection's phases: *starting* (first messages), *open* (idle or in a conversation),
//! *draining* (its last words are being sent; input is thrown away, so that the peer can read
//! them), gone; *leaving* for another instance (`moving`); *cancelling* (`cancel`). Invariants: a
//! connection is forgotten only with nothing in flight and no task; its backend is ended by a task.
//! Letters find this service by its number, which is the same on every instance.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::fs::File;
use std::io::Read;
use std::net::Shutdown;
use std::rc::{Rc, Weak};

use atoll_kernel::base::InstanceId;
use atoll_kernel::io::{Completion, Returned};
use atoll_kernel::runtime::{
    Class, Instance, InstanceState, Poll, Service, ServiceId, TaskContext, TaskEnd,
};
use atoll_kernel::txn::{Reason, Unsettled};
use atoll_sql::session::client::TransactionStatus;
use atoll_sql::{SqlError, SqlState};

use crate::backend::{Backend, ClientStart};
use crate::codec::{Limits, Out, Protocol, is_incomplete};

use super::connection::{Admitted, Connection, Phase};
use super::conversation::{Conversation, Verdict};
use super::exchange::Hearing;
use super::link::{Buffers, Receiving};
use super::moving::Place;
use super::newcomer::Newcomer;
use super::start::{First, farewell, first, secret_bytes, welcome};
use super::wire::Wire;

/// How long last words may take.
const DRAIN_NS: u64 = 2_000_000_000;
/// Connections for whose sessions there is no room that are listened to at once: they may want to cancel a
/// statement, and a client that asks for encryption first takes no other answer.
const REFUSED_MAX: usize = 64;
/// Bits of a connection's number in its process number; the instance is above.
pub(super) const NUMBER_BITS: u32 = 22;
/// Scratch buffers kept for the next conversations, and their size.
const SCRATCH_KEPT_MAX: usize = 64;
const SCRATCH_BYTES_MAX: usize = 64 * 1024;
pub(super) const KIND_SEND: u64 = 1 << 32;

/// Settings of a server's sessions.
#[derive(Clone, Copy, Debug)]
pub struct SessionOptions {
    /// Sessions of one instance at most.
    pub sessions_max: usize,
    /// Message lengths.
    pub limits: Limits,
    /// How long a connection may take to start its session.
    pub authentication_timeout_ms: u64,
    /// Whether sessions change places.
    pub exchanges: Exchanges,
}

/// Whether sessions of two instances change places where that makes messages come together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exchanges {
    /// Where processors are short and few sessions have much to do.
    On,
    /// Without end, whether it makes messages come together or not: to test what runs over sessions that move.
    Always,
    /// A session goes only where its transactions hash to.
    Off,
}

impl Default for SessionOptions {
    fn default() -> Self {
        SessionOptions {
            sessions_max: 10_000,
            limits: Limits::default(),
            authentication_timeout_ms: 60_000,
            exchanges: Exchanges::On,
        }
    }
}

/// All sessions of one instance.
pub struct Sessions<S: InstanceState, B: Backend<S>> {
    me: Weak<Sessions<S, B>>,
    pub(super) id: Cell<ServiceId>,
    pub(super) local: B::Local,
    options: SessionOptions,
    // Texts and names of running conversations are copied here.
    scratch: RefCell<Vec<Vec<u8>>>,
    random: RefCell<File>,
    pub(super) connections: RefCell<Vec<Place<B>>>,
    pub(super) free: RefCell<Vec<u32>>,
    pub(super) leaving: RefCell<Vec<u32>>,
    // How many that were accepted here and have room there are, wherever they are now; and those without.
    pub(super) live: Cell<usize>,
    pub(super) refused: Cell<usize>,
    pub(super) hearing: Hearing,
    // Response buffers of all links.
    pub(super) buffers: Rc<Buffers>,
    // Connections whose answers wait for the instance's own log, in order of their conversations'
    // ends, which is nearly the order of commits: who is settled behind one who is not waits a
    // flush longer at most. They count as running.
    settling: RefCell<VecDeque<Rc<Connection<B>>>>,
    draining: RefCell<Vec<(u64, u32)>>,
    // Connections by the time at which they must have started their session, ascending.
    starting: RefCell<VecDeque<(u64, Weak<Connection<B>>)>>,
    pub(super) stopping: Cell<bool>,
}

impl<S: InstanceState, B: Backend<S>> Sessions<S, B> {
    /// Adds the service to `instance`. Answers the number under which letters find it.
    pub fn register(
        instance: &Instance<S>,
        shared: &B::Shared,
        options: SessionOptions,
    ) -> std::io::Result<ServiceId> {
        let random = File::open("/dev/urandom")?;
        let sessions = Rc::new_cyclic(|me: &Weak<Sessions<S, B>>| Sessions {
            me: me.clone(),
            id: Cell::new(ServiceId::STATE),
            local: B::local(instance, shared),
            options,
            scratch: RefCell::default(),
            random: RefCell::new(random),
            connections: RefCell::default(),
            free: RefCell::default(),
            leaving: RefCell::default(),
            live: Cell::new(0),
            refused: Cell::new(0),
            hearing: Hearing::default(),
            buffers: Rc::default(),
            settling: RefCell::default(),
            draining: RefCell::default(),
            starting: RefCell::default(),
            stopping: Cell::new(false),
        });
        let id = instance.register(sessions.clone());
        sessions.id.set(id);
        Ok(id)
    }

    /// How many connections that were accepted here there are, wherever they are now; those without room left out.
    pub fn count(&self) -> usize {
        self.live.get()
    }

    /// The connections that are here.
    fn present(&self) -> Vec<Rc<Connection<B>>> {
        let here = |place: &Place<B>| match place {
            Place::Here(connection) => Some(connection.clone()),
            Place::Free | Place::Away(..) => None,
        };
        self.connections.borrow().iter().filter_map(here).collect()
    }

    /// Takes over a connection that was accepted somewhere, or hands it on if there is no room here
    /// and there may be some elsewhere.
    pub(super) fn adopt(&self, instance: &Instance<S>, mut newcomer: Newcomer) {
        if self.stopping.get() {
            return;
        }
        let has_room = self.count() < self.options.sessions_max;
        if !has_room && newcomer.refusals + 1 < instance.hub().instances() {
            newcomer.refusals += 1;
            let next = (usize::from(instance.id().0) + 1) % instance.hub().instances();
            return newcomer.send::<S, B>(instance, InstanceId(next as u16), self.id.get());
        }
        let Newcomer { socket, address, .. } = newcomer;
        let mut secret = [0; 16];
        if self.random.borrow_mut().read_exact(&mut secret).is_err() {
            return;
        }
        let admitted = if has_room { Admitted::Yes } else { Admitted::No };
        let connection = self.new_connection(socket, address, secret, admitted);
        if self.refused.get() > REFUSED_MAX && !has_room {
            return self.last_words(instance, &connection, &too_many());
        }
        let timeout_ns = self.options.authentication_timeout_ms.saturating_mul(1_000_000);
        let deadline = instance.time().now_ns().saturating_add(timeout_ns);
        self.starting.borrow_mut().push_back((deadline, Rc::downgrade(&connection)));
        connection.link.receive(instance.ring());
    }

    /// Ends connections that have not started a session in time, without a word, as PostgreSQL
    /// does. Answers when to look again.
    fn end_silent(&self, instance: &Instance<S>, now: u64) -> Option<u64> {
        loop {
            let (deadline, first) = self.starting.borrow().front().cloned()?;
            let silent = first.upgrade().filter(|connection| {
                connection.phase.get() == Phase::Starting && !connection.running.get()
            });
            if silent.is_some() && now < deadline {
                return Some(deadline);
            }
            self.starting.borrow_mut().pop_front();
            if let Some(connection) = silent {
                self.drain(instance, &connection);
                connection.link.shut(Shutdown::Both);
            }
        }
    }

    pub(super) fn advance(&self, instance: &Instance<S>, connection: &Rc<Connection<B>>) {
        if connection.running.get() {
            return;
        }
        let link = &connection.link;
        let ended = link.receiving() == Receiving::Ended;
        match connection.phase.get() {
            Phase::Starting if ended => self.drain(instance, connection),
            Phase::Starting => self.first(instance, connection),
            Phase::Open => {
                let waits = is_incomplete(link.input.borrow().unread(), &self.options.limits);
                if !waits {
                    self.converse(instance, connection);
                } else if ended {
                    self.leave(instance, connection, None);
                } else {
                    link.receive(instance.ring());
                }
            }
            Phase::Leaving(_) | Phase::Cancelling => {}
            Phase::Draining => self.drain(instance, connection),
        }
    }

    fn first(&self, instance: &Instance<S>, connection: &Rc<Connection<B>>) {
        let link = &connection.link;
        let mut out = Out { bytes: link.buffer() };
        let (first, taken) = first(link.input.borrow().unread(), &mut out);
        link.input.borrow_mut().consume(taken);
        link.send(instance.ring(), out.bytes);
        match first {
            First::Wait => link.receive(instance.ring()),
            First::Refuse(error) => self.last_words(instance, connection, &error),
            First::Start { .. } if connection.admitted == Admitted::No => {
                self.last_words(instance, connection, &too_many());
            }
            First::Cancel { process, secret } => {
                self.send_cancel(instance, connection, process, secret);
            }
            First::Start { start, protocol } => {
                let (me, task) = (self.me.clone(), connection.clone());
                // No transaction: nobody is kept out of the server by those of others.
                self.run(instance, connection, Class::Run, move |context| {
                    let Some(sessions) = me.upgrade() else { return };
                    let opened = sessions.open(context.instance(), &task, start, protocol);
                    task.verdict.set(match opened {
                        Ok(()) => Verdict::Open,
                        Err(error) => {
                            sessions.say(context.instance(), &task, &error);
                            Verdict::Close
                        }
                    });
                });
            }
        }
    }

    fn open(
        &self,
        instance: &Instance<S>,
        connection: &Rc<Connection<B>>,
        mut start: ClientStart,
        protocol: Protocol,
    ) -> Result<(), SqlError> {
        let process = u32::from(instance.id().0) << NUMBER_BITS | connection.number;
        start.process = process;
        start.address.clone_from(&connection.address);
        let backend = B::open(instance, &self.local, start)?;
        let reported = backend.reported_settings();
        let secret = connection.secret.get().with_length(secret_bytes(protocol));
        connection.secret.set(secret);
        *connection.interrupt.borrow_mut() = Some(backend.interrupt());
        *connection.backend.borrow_mut() = Some(Box::new(backend));
        connection.phase.set(Phase::Open);
        let mut out = Out { bytes: connection.link.buffer() };
        welcome(&mut out, &reported, process, secret.told());
        connection.link.send(instance.ring(), out.bytes);
        Ok(())
    }

    /// Starts a task that answers what has arrived.
    fn converse(&self, instance: &Instance<S>, connection: &Rc<Connection<B>>) {
        let idle = connection
            .backend
            .borrow()
            .as_ref()
            .is_some_and(|backend| backend.status() == TransactionStatus::Idle);
        // Whoever goes is not kept.
        let goes = connection.link.input.borrow().unread().first() == Some(&b'X');
        let begins = idle && !connection.progress.get().since_sync && !goes;
        let class = if begins { Class::New } else { Class::Run };
        // The session waited for input: cancels until now were for nothing, as in PostgreSQL.
        if let Some(interrupt) = &*connection.interrupt.borrow() {
            interrupt.clear();
        }
        let limits = self.options.limits;
        let task = connection.clone();
        let scratch = self.scratch.borrow_mut().pop().unwrap_or_default();
        let me = self.me.clone();
        self.run(instance, connection, class, move |context| {
            let Some(mut backend) = task.backend.take() else { return };
            let mut progress = task.progress.get();
            let (verdict, scratch) = {
                let mut conversation = Conversation {
                    backend: &mut *backend,
                    wire: Wire::new(context, &task.link, &limits),
                    progress: &mut progress,
                    scratch,
                };
                let verdict = conversation.run();
                if verdict == Verdict::Settle {
                    *task.unsettled.borrow_mut() = conversation.wire.take_encoded();
                }
                (verdict, std::mem::take(&mut conversation.scratch))
            };
            if let Some(sessions) = me.upgrade() {
                sessions.keep(scratch);
            }
            task.progress.set(progress);
            task.verdict.set(verdict);
            match verdict {
                Verdict::Open | Verdict::Settle => *task.backend.borrow_mut() = Some(backend),
                Verdict::Close => backend.end(context),
            }
        });
    }

    /// Keeps a conversation's scratch buffer for the next one.
    fn keep(&self, scratch: Vec<u8>) {
        let mut kept = self.scratch.borrow_mut();
        if kept.len() < SCRATCH_KEPT_MAX && scratch.capacity() <= SCRATCH_BYTES_MAX {
            kept.push(scratch);
        }
    }

    /// Ends the backend in a task, then says `error`, if any, and closes.
    pub(super) fn leave(
        &self,
        instance: &Instance<S>,
        connection: &Rc<Connection<B>>,
        error: Option<&SqlError>,
    ) {
        if let Some(error) = error {
            self.say(instance, connection, error);
        }
        let task = connection.clone();
        self.run(instance, connection, Class::Run, move |context| {
            if let Some(backend) = task.backend.take() {
                backend.end(context);
            }
            task.verdict.set(Verdict::Close);
        });
    }

    fn run(
        &self,
        instance: &Instance<S>,
        connection: &Rc<Connection<B>>,
        class: Class,
        work: impl FnOnce(&TaskContext<S>) + 'static,
    ) {
        connection.running.set(true);
        let (me, connection) = (self.me.clone(), connection.clone());
        instance.spawn_watched(class, work, move |instance, end| {
            if let Some(sessions) = me.upgrade() {
                sessions.has_run(instance, &connection, end);
            }
        });
    }

    fn has_run(&self, instance: &Instance<S>, connection: &Rc<Connection<B>>, end: TaskEnd) {
        connection.running.set(false);
        connection.link.set_waiter(None);
        match end {
            TaskEnd::Done if connection.verdict.get() == Verdict::Close => {
                self.drain(instance, connection);
            }
            TaskEnd::Done if connection.verdict.get() == Verdict::Settle => {
                connection.running.set(true);
                self.settling.borrow_mut().push_back(connection.clone());
            }
            TaskEnd::Done if self.stopping.get() => {
                self.leave(instance, connection, Some(&shutting_down()));
            }
            TaskEnd::Done if self.leaves(instance, connection) => {}
            TaskEnd::Done => self.advance(instance, connection),
            // Its backend was unwound with it; what it had encoded was not settled and is gone.
            TaskEnd::Panicked(text) => {
                let message = format!("the session ended by an internal error: {text}");
                self.last_words(instance, connection, &SqlError::internal(message));
            }
            TaskEnd::NotStarted(error) => {
                self.last_words(instance, connection, &SqlError::from(error));
            }
            TaskEnd::Abandoned => {}
        }
    }

    /// Sends what has settled meanwhile.
    fn release_settled(&self, instance: &Instance<S>) {
        loop {
            let connection = {
                let mut settling = self.settling.borrow_mut();
                let Some(first) = settling.front() else { return };
                let waits = |backend: &mut Box<B>| backend.unsettled() != Unsettled::Nothing;
                if first.backend.borrow_mut().as_mut().is_some_and(waits) {
                    return;
                }
                settling.pop_front()
            };
            let Some(connection) = connection else { return };
            connection.link.send(instance.ring(), connection.unsettled.take());
            connection.verdict.set(Verdict::Open);
            self.has_run(instance, &connection, TaskEnd::Done);
        }
    }

    fn say(&self, instance: &Instance<S>, connection: &Connection<B>, error: &SqlError) {
        let mut out = Out { bytes: connection.link.buffer() };
        farewell(&mut out, error);
        connection.link.send(instance.ring(), out.bytes);
    }

    fn last_words(&self, instance: &Instance<S>, connection: &Rc<Connection<B>>, error: &SqlError) {
        self.say(instance, connection, error);
        self.drain(instance, connection);
    }

    /// Lets the last words leave, throws input away, and forgets the connection at its end.
    pub(super) fn drain(&self, instance: &Instance<S>, connection: &Rc<Connection<B>>) {
        let link = &connection.link;
        if connection.phase.replace(Phase::Draining) != Phase::Draining {
            connection.interrupt.take();
            let deadline = instance.time().now_ns() + DRAIN_NS;
            self.draining.borrow_mut().push((deadline, connection.number));
        }
        let unread = link.input.borrow().unread().len();
        link.input.borrow_mut().consume(unread);
        if link.all_sent() {
            // A closing server does not wait for the peer's own end.
            link.shut(if self.stopping.get() { Shutdown::Both } else { Shutdown::Write });
        }
        if link.receiving() != Receiving::Ended {
            link.receive(instance.ring());
        } else if !link.in_flight() {
            self.forget(instance, connection.number);
        }
    }

    fn forget(&self, instance: &Instance<S>, number: u32) {
        self.draining.borrow_mut().retain(|(_, draining)| *draining != number);
        let Some(connection) = self.connection(u64::from(number)) else { return };
        // Dropped outside the borrow: a session's end may call back.
        let gone =
            std::mem::replace(&mut self.connections.borrow_mut()[number as usize], Place::Free);
        self.free.borrow_mut().push(number);
        drop(gone);
        match connection.origin {
            Some(origin) => self.tell_origin(instance, origin),
            None if connection.admitted == Admitted::No => self.refused.set(self.refused.get() - 1),
            None => self.live.set(self.live.get() - 1),
        }
    }

    pub(super) fn connection(&self, number: u64) -> Option<Rc<Connection<B>>> {
        match self.connections.borrow().get(number as usize)? {
            Place::Here(connection) => Some(connection.clone()),
            Place::Free | Place::Away(..) => None,
        }
    }
}

/// What sessions are told when the server ends.
fn too_many() -> SqlError {
    SqlError::new(SqlState::TOO_MANY_CONNECTIONS, "sorry, too many clients already")
}

pub(super) fn shutting_down() -> SqlError {
    let message = "terminating connection due to administrator command";
    SqlError::new(SqlState::ADMIN_SHUTDOWN, message)
}

impl<S: InstanceState, B: Backend<S>> Service<S> for Sessions<S, B> {
    fn completed(&self, instance: &Instance<S>, completion: Completion) {
        let (_, own) = ServiceId::split(completion.token);
        let Some(connection) = self.connection(own & (KIND_SEND - 1)) else { return };
        let buffer = match completion.buffer {
            Returned::Bytes(bytes) => bytes,
            _ => Vec::new(),
        };
        if own & KIND_SEND != 0 {
            connection.link.sent(instance.ring(), completion.result, buffer);
            if connection.phase.get() == Phase::Draining {
                self.advance(instance, &connection);
            }
        } else {
            connection.link.received(completion.result, buffer);
            self.hearing.hear(connection.number);
            self.advance(instance, &connection);
        }
    }

    fn expects(&self, completions: &[Completion]) {
        self.ask_ahead(completions);
    }

    fn poll(&self, instance: &Instance<S>) -> Poll {
        self.hearing.end_turn();
        self.release_settled(instance);
        self.let_go(instance);
        if self.draining.borrow().is_empty() && self.starting.borrow().is_empty() {
            return Poll::Idle;
        }
        let now = instance.time().now_ns();
        let mut next = self.end_silent(instance, now).unwrap_or(u64::MAX);
        for (deadline, number) in &mut *self.draining.borrow_mut() {
            if *deadline <= now {
                if let Some(connection) = self.connection(u64::from(*number)) {
                    connection.link.shut(Shutdown::Both);
                }
                *deadline = u64::MAX;
            }
            next = next.min(*deadline);
        }
        if next == u64::MAX { Poll::Idle } else { Poll::Until(next) }
    }

    fn stop(&self, instance: &Instance<S>) {
        self.stopping.set(true);
        for connection in self.present() {
            if connection.running.get() {
                if let Some(interrupt) = &*connection.interrupt.borrow() {
                    interrupt.interrupt(Reason::ShutDown);
                }
                // A client that does not read is not waited for.
                let deadline = instance.time().now_ns() + DRAIN_NS;
                self.draining.borrow_mut().push((deadline, connection.number));
            } else {
                match connection.phase.get() {
                    Phase::Starting => self.last_words(instance, &connection, &shutting_down()),
                    Phase::Cancelling => self.drain(instance, &connection),
                    Phase::Open | Phase::Leaving(_) => {
                        connection.phase.set(Phase::Open);
                        self.leave(instance, &connection, Some(&shutting_down()));
                    }
                    Phase::Draining => {}
                }
            }
        }
    }

    fn may_end(&self, _instance: &Instance<S>) -> bool {
        self.present().is_empty()
    }

    fn as_any(self: Rc<Self>) -> Option<Rc<dyn std::any::Any>> {
        Some(self)
    }
}
