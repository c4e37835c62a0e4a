//! Tests of instances, stepped by hand and with threads, over a ring without a kernel.
//!
//! Mutants and who catches them: `sleep-without-fence`, `sleep-without-looking-again`,
//! `knock-without-fence`, `wake-up-lost`: the models `loom_sleep_*`;
//! `promise-without-fence`, `kept-without-fence`: the model `loom_promise_is_kept_or_not_made`;
//! `unpark-before-park-lost`: `an_unpark_before_the_park_is_kept`;
//! `rest-forgets-a-wake-up`: `a_wake_up_before_the_rest_is_kept`;
//! `sleeper-leaves-others-work`: `who_lies_down_sees_work_of_others_that_came_meanwhile`.

#![allow(clippy::unwrap_used, reason = "tests")]

mod intake;
mod rest;
mod stepped;
mod threads;

use std::cell::{Cell, RefCell};
use std::sync::{Arc, Condvar, Mutex};
use std::time::{Duration, Instant};

use super::*;
use crate::base::InstanceId;
use crate::io::{Completion, Op, Returned, Ring, TimeSource, Token, Wake};
use crate::sync::{AtomicU64, Ordering};

/// A clock that tests move by hand.
pub(super) struct HandClock(AtomicU64);

impl HandClock {
    pub(super) fn new() -> Arc<HandClock> {
        Arc::new(HandClock(AtomicU64::new(1)))
    }

    pub(super) fn advance(&self, ns: u64) {
        self.0.fetch_add(ns, Ordering::SeqCst);
    }
}

impl TimeSource for HandClock {
    fn now_ns(&self) -> u64 {
        self.0.load(Ordering::SeqCst)
    }
    fn cycles(&self) -> u64 {
        self.now_ns()
    }
    fn wall_micros(&self) -> i64 {
        0
    }
}

/// The machine's clock.
pub(super) struct RealClock(Instant);

impl TimeSource for RealClock {
    fn now_ns(&self) -> u64 {
        self.0.elapsed().as_nanos() as u64
    }
    fn cycles(&self) -> u64 {
        self.now_ns()
    }
    fn wall_micros(&self) -> i64 {
        0
    }
}

#[derive(Default)]
struct Bell {
    rung: Mutex<bool>,
    changed: Condvar,
}

impl Wake for Bell {
    fn wake(&self) {
        *self.rung.lock().unwrap() = true;
        self.changed.notify_one();
    }
}

/// Completes every operation at the next reap, with result 7.
#[derive(Default)]
pub(super) struct EchoRing {
    queued: RefCell<Vec<Token>>,
    bell: Arc<Bell>,
}

impl Ring for EchoRing {
    fn submit(&self, _op: Op, token: Token) {
        self.queued.borrow_mut().push(token);
    }

    fn reap(&self, out: &mut Vec<Completion>) {
        out.extend(self.queued.borrow_mut().drain(..).map(|token| Completion {
            token,
            result: Ok(7),
            buffer: Returned::Nothing,
        }));
    }

    fn wait(&self, timeout: Option<Duration>) {
        let mut rung = self.bell.rung.lock().unwrap();
        let deadline = Instant::now() + timeout.unwrap_or(Duration::from_secs(3600));
        while !*rung && self.queued.borrow().is_empty() {
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return;
            }
            rung = self.bell.changed.wait_timeout(rung, left).unwrap().0;
        }
        *rung = false;
    }

    fn waker(&self) -> Arc<dyn Wake> {
        self.bell.clone()
    }
}

/// What the tests hang from an instance.
#[derive(Default)]
pub(super) struct Notes {
    pub(super) log: RefCell<Vec<String>>,
    pub(super) polls: Cell<u64>,
    pub(super) sleeps: Cell<u64>,
}

impl Notes {
    pub(super) fn add(&self, text: impl Into<String>) {
        self.log.borrow_mut().push(text.into());
    }

    pub(super) fn taken(&self) -> Vec<String> {
        self.log.take()
    }
}

impl InstanceState for Notes {
    fn poll(&self, _instance: &Instance<Self>) -> Poll {
        self.polls.set(self.polls.get() + 1);
        Poll::Idle
    }
    fn completed(&self, _instance: &Instance<Self>, completion: Completion) {
        self.add(format!("completed {}", completion.token.0));
    }
    fn sleeps(&self, _instance: &Instance<Self>) {
        self.sleeps.set(self.sleeps.get() + 1);
    }
}

pub(super) fn hub(options: RuntimeOptions, time: Arc<dyn TimeSource>) -> Arc<Hub<Notes>> {
    Hub::new(options, time, Clock::choose(ClockChoice::Counter).unwrap())
}

/// `count` instances with threads.
pub(super) fn running(count: u16) -> Runtime<Notes> {
    let options = RuntimeOptions { instances: count, ..RuntimeOptions::default() };
    let hub = hub(options, Arc::new(RealClock(Instant::now())));
    Runtime::start(
        hub,
        Arc::new(|_| Ok(Box::new(EchoRing::default()))),
        Arc::new(|_| Ok(Notes::default())),
    )
    .unwrap()
}

/// One instance to step by hand.
pub(super) fn stepped(
    options: RuntimeOptions,
    time: Arc<HandClock>,
) -> std::rc::Rc<Instance<Notes>> {
    let hub = hub(options, time);
    Instance::open(hub, InstanceId(0), Box::new(EchoRing::default()), |_| Ok(Notes::default()))
        .unwrap()
}

/// Turns until the instance is idle; answers the moment it waits for.
pub(super) fn settle(instance: &Instance<Notes>) -> Option<u64> {
    for _ in 0..10_000 {
        if let Turn::Idle { until } = instance.turn() {
            return until;
        }
    }
    panic!("the instance does not come to rest");
}
