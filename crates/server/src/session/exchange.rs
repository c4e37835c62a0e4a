//! Sessions of two instances change places, where processors are short and few sessions have much to do: who looks for
//! what comes together (`search`), asks, and orders. One instance of a server does, the listener's.
//!
//! Invariants: nothing is asked for while the instance sleeps. Questions, answers and orders are letters; one that is lost
//! as the database closes is the last. An order is a wish: a session goes between transactions, when its conversation has
//! ended, and only if no reason keeps it where it is ([`Backend::goes_anywhere`]).

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use atoll_kernel::base::InstanceId;
use atoll_kernel::io::Completion;
use atoll_kernel::runtime::{Instance, InstanceState, Poll, Processor, Service, ServiceId};

use crate::backend::Backend;

use super::company::Company;
use super::connection::{Connection, Phase};
use super::moving::{Origin, Place};
use super::search::{Heard, Look, Order, Question, Search, Terms};
use super::sessions::{Exchanges, Sessions};

/// Turns between two looks at the clock.
const TURNS: u32 = 32;

/// The search of a server, on one of its instances.
pub struct Exchange<S: InstanceState, B: Backend<S>> {
    id: Cell<ServiceId>,
    // The sessions' service, under the same number on every instance.
    sessions: ServiceId,
    exchanges: Exchanges,
    search: RefCell<Search>,
    answers: RefCell<[Option<Look>; 2]>,
    turns: Cell<u32>,
    kind: std::marker::PhantomData<fn(&S, &B)>,
}

impl<S: InstanceState, B: Backend<S>> Exchange<S, B> {
    /// Begins to look, from `instance`, at the service `sessions` of every instance, if there are several and sessions
    /// are to change places.
    pub fn register(instance: &Instance<S>, sessions: ServiceId, exchanges: Exchanges) {
        let terms = match exchanges {
            Exchanges::Off => return,
            Exchanges::On => Terms::CAREFUL,
            Exchanges::Always => Terms::RESTLESS,
        };
        if instance.hub().instances() < 2 {
            return;
        }
        let search = RefCell::new(Search::new(instance.hub().instances(), terms));
        let exchange = Rc::new(Exchange::<S, B> {
            id: Cell::new(ServiceId::STATE),
            sessions,
            exchanges,
            search,
            answers: RefCell::default(),
            turns: Cell::new(0),
            kind: std::marker::PhantomData,
        });
        exchange.id.set(instance.register(exchange.clone()));
    }

    fn ask(&self, instance: &Instance<S>, pair: [InstanceId; 2], questions: [Question; 2]) {
        for (at, question) in questions.into_iter().enumerate() {
            let (sessions, own, asker) = (self.sessions, self.id.get(), instance.id());
            let letter = move |instance: &Instance<S>| {
                let Some(sessions) = instance.service::<Sessions<S, B>>(sessions) else { return };
                let look = sessions.look(instance, question);
                let answer = move |instance: &Instance<S>| {
                    if let Some(exchange) = instance.service::<Exchange<S, B>>(own) {
                        exchange.answered(instance, at, look);
                    }
                };
                instance.hub().send(asker, Box::new(answer));
            };
            instance.hub().send(pair[at], Box::new(letter));
        }
    }

    fn answered(&self, instance: &Instance<S>, at: usize, look: Look) {
        self.answers.borrow_mut()[at] = Some(look);
        let [Some(first), Some(second)] = *self.answers.borrow() else { return };
        self.answers.take();
        let pair = self.search.borrow().pair();
        let now_ns = instance.time().now_ns();
        let orders = self.search.borrow_mut().answered(now_ns, [first, second]);
        // Nobody knows where a session is that was ordered to go: it is ordered at both.
        for order in orders.into_iter().flatten() {
            for to in pair {
                let sessions = self.sessions;
                let letter = move |instance: &Instance<S>| {
                    if let Some(sessions) = instance.service::<Sessions<S, B>>(sessions) {
                        sessions.order(instance, order);
                    }
                };
                instance.hub().send(to, Box::new(letter));
            }
        }
    }
}

impl<S: InstanceState, B: Backend<S>> Service<S> for Exchange<S, B> {
    fn completed(&self, _instance: &Instance<S>, _completion: Completion) {}

    fn poll(&self, instance: &Instance<S>) -> Poll {
        self.turns.set(self.turns.get().wrapping_add(1));
        if !self.turns.get().is_multiple_of(TURNS) || instance.is_stopping() {
            return Poll::Idle;
        }
        let mut search = self.search.borrow_mut();
        let waits = || self.exchanges == Exchanges::On && instance.processor() == Processor::Enough;
        if search.rests() && waits() {
            return Poll::Idle;
        }
        let (now_ns, pair) = (instance.time().now_ns(), search.pair());
        let questions = search.ask(now_ns);
        drop(search);
        if let Some(questions) = questions {
            self.ask(instance, pair, questions);
        }
        Poll::Idle
    }

    fn stop(&self, _instance: &Instance<S>) {}

    fn as_any(self: Rc<Self>) -> Option<Rc<dyn std::any::Any>> {
        Some(self)
    }
}

/// What one instance has heard; its own thread's.
#[derive(Default)]
pub(super) struct Hearing {
    messages: Cell<u64>,
    turns: Cell<u64>,
    // Of this turn.
    now: Cell<u32>,
    // Who comes with whom, if that is noted.
    company: RefCell<Option<Company>>,
}

impl Hearing {
    /// Messages of the session of this number arrived.
    pub(super) fn hear(&self, number: u32) {
        self.now.set(self.now.get() + 1);
        if let Some(company) = &mut *self.company.borrow_mut() {
            company.hear(number);
        }
    }

    /// A turn ends: what arrived in it came together.
    pub(super) fn end_turn(&self) {
        let now = self.now.take();
        if now == 0 {
            return;
        }
        self.messages.set(self.messages.get() + u64::from(now));
        self.turns.set(self.turns.get() + 1);
        if let Some(company) = &mut *self.company.borrow_mut() {
            company.end_turn();
        }
    }
}

impl<S: InstanceState, B: Backend<S>> Sessions<S, B> {
    fn look(&self, instance: &Instance<S>, question: Question) -> Look {
        let listens = question.listens.then(Company::default);
        let company = self.hearing.company.replace(listens).unwrap_or_default();
        let (mut free, mut is_new) = (Vec::new(), false);
        for (number, together) in company.heard() {
            let Some(connection) = self.connection(u64::from(number)) else { continue };
            if connection.goes_anywhere() {
                free.push((together, connection.origin_on(instance.id())));
                is_new |= !connection.is_known.replace(true);
            }
        }
        free.sort_unstable();
        let is_there = |session| self.of_origin(instance.id(), session).is_some();
        Look {
            heard: Heard { messages: self.hearing.messages.get(), turns: self.hearing.turns.get() },
            sessions: free.len() + company.strangers(),
            named: (!free.is_empty()).then(|| free[question.nth % free.len()].1),
            is_there: question.expected.is_some_and(is_there),
            stands_out: company.stands_out(free.iter().map(|it| it.0)),
            is_new,
        }
    }

    fn order(&self, instance: &Instance<S>, order: Order) {
        if let Some(connection) = self.of_origin(instance.id(), order.session) {
            let goes = order.to != instance.id();
            connection.ordered.set(goes.then_some(order.to));
        }
    }

    /// The connection of this origin, if it is here.
    fn of_origin(&self, here: InstanceId, origin: Origin) -> Option<Rc<Connection<B>>> {
        self.connections.borrow().iter().find_map(|place| match place {
            Place::Here(connection) => {
                (connection.origin_on(here) == origin).then(|| connection.clone())
            }
            Place::Free | Place::Away(..) => None,
        })
    }
}

impl<B> Connection<B> {
    fn origin_on(&self, here: InstanceId) -> Origin {
        self.origin.unwrap_or(Origin::new(here, self.number))
    }

    /// Whether it is open and no reason is known to keep it here.
    fn goes_anywhere<S: InstanceState>(&self) -> bool
    where
        B: Backend<S>,
    {
        let backend = self.backend.borrow();
        self.phase.get() == Phase::Open && backend.as_ref().is_none_or(|it| it.goes_anywhere())
    }
}
