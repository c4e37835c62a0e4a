//! The simulator's form of an instance: it can be suspended at any [`crate::sync::point`], latches
//! held and all, while other instances run on the same thread. Without feature `interleave` there
//! are no points, and it stops at the end of a turn only.
//!
//! Invariants: the instance runs on a stack of its own, its tasks on theirs; a point suspends
//! whatever stack it is reached on, by switching to the simulator's. What a thread would keep
//! (the count of held latches) is exchanged at every switch. An instance is dropped only at the end
//! of a turn, so that nothing is torn down halfway.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use corosensei::stack::DefaultStack;
use corosensei::{Coroutine, CoroutineResult, Yielder};

use super::instance::{Instance, InstanceState, Turn};
use crate::latch::exchange_held;
#[cfg(feature = "interleave")]
use crate::sync::with_hook;
use crate::sync::{Decider, PointHook};

#[cfg(not(feature = "interleave"))]
fn with_hook<R>(_hook: PointHook, body: impl FnOnce() -> R) -> R {
    body()
}

const STACK_BYTES: usize = 1 << 20;

/// Where an instance has stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pause {
    /// At the end of a turn.
    Turn(Turn),
    /// At a point, in the middle of something.
    Point(&'static str),
}

/// What the simulator wants when the instance goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Wish {
    GoOn,
    End,
}

/// One instance under the simulator.
pub struct Interleaved<S: InstanceState> {
    instance: Rc<Instance<S>>,
    body: Coroutine<Wish, Pause, ()>,
    hook: Rc<RefCell<Option<PointHook>>>,
    held: Cell<u32>,
    pause: Cell<Pause>,
}

impl<S: InstanceState> Interleaved<S> {
    /// Runs `instance`; at every point that it reaches `decider` says whether to stop there.
    pub fn new(instance: Rc<Instance<S>>, decider: Rc<dyn Decider>) -> Self {
        let hook: Rc<RefCell<Option<PointHook>>> = Rc::default();
        let (inner, place) = (instance.clone(), hook.clone());
        let stack = DefaultStack::new(STACK_BYTES).expect("there is memory for a simulation");
        let body = Coroutine::with_stack(stack, move |yielder: &Yielder<Wish, Pause>, _| {
            let here = std::ptr::from_ref(yielder);
            let suspend = Rc::new(move |name| {
                // SAFETY: the yielder lives as long as this coroutine's body, and the hook is
                // installed only while the body is being resumed. Switching away from a task's
                // stack is what the body's own switch would do: only the stack pointer is kept.
                unsafe { &*here }.suspend(Pause::Point(name));
            });
            *place.borrow_mut() = Some(PointHook { decider, suspend });
            let mut turn = Turn::Busy;
            while yielder.suspend(Pause::Turn(turn)) == Wish::GoOn {
                turn = inner.turn();
                if let Turn::Idle { until } = turn {
                    // A simulated ring does not wait; the floor says "asleep" meanwhile.
                    inner.sleep(until);
                }
            }
            place.borrow_mut().take();
        });
        let pause = Cell::new(Pause::Turn(Turn::Busy));
        let mut new = Interleaved { instance, body, hook, held: Cell::new(0), pause };
        // Up to its first stop, which makes the hook.
        new.go();
        new
    }

    /// The instance.
    pub fn instance(&self) -> &Rc<Instance<S>> {
        &self.instance
    }

    /// Where it stopped last.
    pub fn pause(&self) -> Pause {
        self.pause.get()
    }

    /// Goes on until the next stop.
    pub fn go(&mut self) -> Pause {
        let pause = self.resume(Wish::GoOn).expect("the body ends only when told to");
        self.pause.set(pause);
        pause
    }

    /// Ends the instance; only at the end of a turn.
    pub fn end(mut self) {
        assert!(matches!(self.pause.get(), Pause::Turn(_)), "instances end between turns");
        assert!(self.resume(Wish::End).is_none(), "the body ends when told to");
        self.instance.leave();
    }

    fn resume(&mut self, wish: Wish) -> Option<Pause> {
        let hook = self.hook.borrow().clone();
        let outside = exchange_held(self.held.get());
        let body = &mut self.body;
        // Before its first stop it has none.
        let result = match hook {
            Some(hook) => with_hook(hook, || body.resume(wish)),
            None => body.resume(wish),
        };
        self.held.set(exchange_held(outside));
        match result {
            CoroutineResult::Yield(pause) => Some(pause),
            CoroutineResult::Return(()) => None,
        }
    }
}

#[cfg(all(test, feature = "interleave"))]
mod tests {
    use super::*;
    use crate::io::{Completion, Op, Ring, TimeSource, Token, Wake};
    use crate::runtime::{
        Class, Clock, ClockChoice, Hub, Parker, Poll, RuntimeOptions, Slice, UnparkClass,
    };
    use crate::sync::point;
    use std::sync::Arc;
    use std::time::Duration;

    struct Nothing;
    impl InstanceState for Nothing {
        fn poll(&self, _: &Instance<Self>) -> Poll {
            Poll::Idle
        }
        fn completed(&self, _: &Instance<Self>, _: Completion) {}
    }

    struct NoRing;
    impl Ring for NoRing {
        fn submit(&self, _: Op, _: Token) {}
        fn reap(&self, _: &mut Vec<Completion>) {}
        fn wait(&self, _: Option<Duration>) {}
        fn waker(&self) -> Arc<dyn Wake> {
            Arc::new(NoWake)
        }
    }
    struct NoWake;
    impl Wake for NoWake {
        fn wake(&self) {}
    }
    struct Still;
    impl TimeSource for Still {
        fn now_ns(&self) -> u64 {
            1
        }
        fn cycles(&self) -> u64 {
            1
        }
        fn wall_micros(&self) -> i64 {
            0
        }
    }

    #[test]
    fn two_instances_alternate_at_points_inside_their_tasks() {
        let options =
            RuntimeOptions { instances: 2, slice: Slice::Calls(9), ..RuntimeOptions::default() };
        let clock = Clock::choose(ClockChoice::Counter).expect("a counter always works");
        let hub = Hub::new(options, Arc::new(Still), clock);
        let log: Rc<RefCell<Vec<(u16, u32)>>> = Rc::default();
        let mut both: Vec<Interleaved<Nothing>> = (0..2)
            .map(|id| {
                let id = crate::base::InstanceId(id);
                let opened = Instance::open(hub.clone(), id, Box::new(NoRing), |_| Ok(Nothing));
                Interleaved::new(
                    opened.expect("nothing can fail"),
                    Rc::new(|name: &'static str| name == "test"),
                )
            })
            .collect();
        for (id, one) in both.iter().enumerate() {
            let log = log.clone();
            one.instance().spawn(Class::New, move |context| {
                for round in 0..3 {
                    log.borrow_mut().push((id as u16, round));
                    point("test");
                }
                let own = context.unparker();
                own.unpark(UnparkClass::Lock);
                context.park(None);
                log.borrow_mut().push((id as u16, 9));
            });
        }
        let mut points = 0;
        for _ in 0..40 {
            for one in &mut both {
                points += u32::from(matches!(one.go(), Pause::Point("test")));
            }
        }
        assert_eq!(points, 6);
        let alternating = [(0, 0), (1, 0), (0, 1), (1, 1), (0, 2), (1, 2), (0, 9), (1, 9)];
        assert_eq!(*log.borrow(), alternating);
        both.into_iter().for_each(Interleaved::end);
    }
}
