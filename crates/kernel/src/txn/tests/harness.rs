//! Instances stepped by a seed in one thread, each with its transactions over the shared model.

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use super::world::{TestEnvironment, World};
use crate::base::{HomeId, InstanceId};
use crate::io::{Completion, Op, Ring, TimeSource, Token, Wake as IoWake};
use crate::runtime::{
    Class, Clock, ClockChoice, Hub, Instance, InstanceState, Poll, RuntimeOptions, Slice,
    TaskContext, TaskEnd, Turn,
};
use crate::sync::{AtomicU64, Ordering};
use crate::txn::{TxnLocal, TxnOptions, TxnShared};

pub(super) struct State {
    pub txn: TxnLocal<TestEnvironment>,
    pub world: Rc<World>,
}

impl InstanceState for State {
    fn poll(&self, _: &Instance<Self>) -> Poll {
        self.txn.poll();
        Poll::Idle
    }
    fn completed(&self, _: &Instance<Self>, _: Completion) {}
}

pub(super) type Context = TaskContext<State>;

struct Nobody;
impl IoWake for Nobody {
    fn wake(&self) {}
}

struct NoRing;
impl Ring for NoRing {
    fn submit(&self, _: Op, _: Token) {}
    fn reap(&self, _: &mut Vec<Completion>) {}
    fn wait(&self, _: Option<Duration>) {}
    fn waker(&self) -> Arc<dyn IoWake> {
        Arc::new(Nobody)
    }
}

/// Time that the harness moves.
#[derive(Default)]
struct FakeTime(AtomicU64);
impl TimeSource for FakeTime {
    fn now_ns(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
    fn cycles(&self) -> u64 {
        self.now_ns()
    }
    fn wall_micros(&self) -> i64 {
        0
    }
}

#[cfg(not(feature = "interleave"))]
type Body = Rc<Instance<State>>;
#[cfg(feature = "interleave")]
type Body = crate::runtime::Interleaved<State>;

pub(super) struct Harness {
    pub world: Rc<World>,
    pub shared: Arc<TxnShared>,
    pub random: Rc<RefCell<fastrand::Rng>>,
    bodies: Vec<Body>,
    asleep: Vec<bool>,
    time: Arc<FakeTime>,
    /// Nanoseconds a step takes.
    pub step_ns: u64,
    /// Whether logs are flushed at random as time goes by.
    pub flushing: bool,
    failures: Rc<RefCell<Vec<String>>>,
}

impl Harness {
    pub fn new(seed: u64, instances: usize, rows: usize, value: i64) -> Harness {
        let random = Rc::new(RefCell::new(fastrand::Rng::with_seed(seed)));
        let world = World::new(instances, rows, value);
        let options = TxnOptions {
            instances,
            homes: instances,
            deadlock_timeout_ms: 1,
            stamp_portion: 2,
            ..TxnOptions::default()
        };
        let clock = Clock::choose(ClockChoice::Counter).unwrap();
        let shared = TxnShared::new(options, Arc::clone(&clock));
        let time = Arc::new(FakeTime::default());
        let runtime = RuntimeOptions {
            instances: instances as u16,
            stack_bytes: 128 * 1024,
            slice: Slice::Calls(3),
            ..RuntimeOptions::default()
        };
        let hub = Hub::new(runtime, time.clone(), clock);
        let bodies = (0..instances)
            .map(|id| {
                let id = InstanceId(id as u16);
                let (shared, world) = (Arc::clone(&shared), Rc::clone(&world));
                let instance = Instance::open(hub.clone(), id, Box::new(NoRing), |_| {
                    let home = HomeId(id.0);
                    let environment = TestEnvironment { world: Rc::clone(&world), home };
                    Ok(State { txn: TxnLocal::new(shared, id, environment), world })
                });
                body(instance.expect("nothing can fail"), &random)
            })
            .collect();
        Harness {
            world,
            shared,
            random,
            bodies,
            asleep: vec![false; instances],
            time,
            step_ns: 20_000,
            flushing: true,
            failures: Rc::default(),
        }
    }

    pub fn instance(&self, index: usize) -> &Rc<Instance<State>> {
        #[cfg(not(feature = "interleave"))]
        return &self.bodies[index];
        #[cfg(feature = "interleave")]
        return self.bodies[index].instance();
    }

    /// Starts a task; a panic in it fails the harness at its next step.
    pub fn spawn(&self, index: usize, work: impl FnOnce(&Context) + 'static) {
        let failures = Rc::clone(&self.failures);
        self.instance(index).spawn_watched(Class::New, work, move |_, end| {
            if end != TaskEnd::Done {
                failures.borrow_mut().push(format!("{end:?}"));
            }
        });
    }

    pub fn tasks(&self) -> usize {
        (0..self.bodies.len()).map(|index| self.instance(index).tasks()).sum()
    }

    /// One step of one random instance; now and then a flush and a collection.
    pub fn step(&mut self) {
        self.time.0.fetch_add(self.step_ns, Ordering::Relaxed);
        let index = self.random.borrow_mut().usize(..self.bodies.len());
        self.turn(index);
        if self.flushing && self.random.borrow_mut().u8(..4) == 0 {
            let home = self.random.borrow_mut().usize(..self.bodies.len());
            let count = self.random.borrow_mut().usize(1..4);
            self.world.flush(home, count);
        }
        let failed = self.failures.borrow_mut().pop();
        assert_eq!(failed, None, "a task failed");
    }

    fn turn(&mut self, index: usize) {
        let between_turns = self.is_between_turns(index);
        if between_turns && std::mem::take(&mut self.asleep[index]) {
            self.instance(index).state().txn.woke();
        }
        #[cfg(not(feature = "interleave"))]
        let turn = Some(self.bodies[index].turn());
        #[cfg(feature = "interleave")]
        let turn = match self.bodies[index].go() {
            crate::runtime::Pause::Turn(turn) => Some(turn),
            crate::runtime::Pause::Point(_) => None,
        };
        if matches!(turn, Some(Turn::Idle { .. })) && self.random.borrow_mut().bool() {
            self.instance(index).state().txn.sleeps();
            self.asleep[index] = true;
        }
    }

    fn is_between_turns(&self, index: usize) -> bool {
        #[cfg(feature = "interleave")]
        return matches!(self.bodies[index].pause(), crate::runtime::Pause::Turn(_));
        #[cfg(not(feature = "interleave"))]
        return index < self.bodies.len();
    }

    /// Steps until no task is left; fails after `steps_max`.
    pub fn run(&mut self, steps_max: usize) {
        self.run_with(steps_max, |_| ());
    }

    pub fn run_with(&mut self, steps_max: usize, mut each: impl FnMut(&Harness)) {
        for _ in 0..steps_max {
            if self.tasks() == 0 {
                return;
            }
            self.step();
            each(self);
        }
        panic!("{} tasks are stuck after {steps_max} steps", self.tasks());
    }

    /// Steps `count` times, whatever is left.
    pub fn steps(&mut self, count: usize) {
        for _ in 0..count {
            self.step();
        }
    }

    /// Steps until `done`.
    pub fn until(&mut self, done: impl Fn() -> bool) {
        for _ in 0..100_000 {
            if done() {
                return;
            }
            self.step();
        }
        panic!("it never happened");
    }
}

impl Drop for Harness {
    fn drop(&mut self) {
        for body in self.bodies.drain(..) {
            #[cfg(not(feature = "interleave"))]
            body.leave();
            #[cfg(feature = "interleave")]
            {
                let mut body = body;
                while !matches!(body.pause(), crate::runtime::Pause::Turn(_)) {
                    body.go();
                }
                body.end();
            }
        }
    }
}

#[cfg(not(feature = "interleave"))]
fn body(instance: Rc<Instance<State>>, _: &Rc<RefCell<fastrand::Rng>>) -> Body {
    instance
}

#[cfg(feature = "interleave")]
fn body(instance: Rc<Instance<State>>, random: &Rc<RefCell<fastrand::Rng>>) -> Body {
    let random = Rc::clone(random);
    let decide = move |name: &'static str| name == "spin" || random.borrow_mut().u8(..3) == 0;
    crate::runtime::Interleaved::new(instance, Rc::new(decide))
}

/// The seed of a random test: printed, and taken from `ATOLL_SEED`.
pub(super) fn seed() -> u64 {
    let given = std::env::var("ATOLL_SEED").ok();
    let seed = given.map_or_else(|| fastrand::u64(..), |seed| seed.parse().unwrap());
    println!("ATOLL_SEED={seed}");
    seed
}
