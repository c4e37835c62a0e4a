//! One instance, turned by hand: everything here is deterministic.

use std::cell::Cell;
use std::collections::VecDeque;
use std::rc::Rc;

use super::*;

fn plain() -> Rc<Instance<Notes>> {
    stepped(RuntimeOptions::default(), HandClock::new())
}

#[test]
fn tasks_run_in_class_order_and_interleave_at_yields() {
    let options = RuntimeOptions { slice: Slice::Calls(1), ..RuntimeOptions::default() };
    let instance = stepped(options, HandClock::new());
    for (class, name) in [(Class::New, "new"), (Class::Run, "run"), (Class::Io, "io")] {
        instance.spawn(class, move |context| {
            for step in 0..2 {
                context.instance().state().add(format!("{name}{step}"));
                context.yield_now();
            }
        });
    }
    assert_eq!(settle(&instance), None);
    let log = instance.state().taken();
    assert_eq!(log, ["io0", "run0", "io1", "run1", "new0", "new1"]);
    assert_eq!(instance.tasks(), 0);
}

#[test]
fn an_unpark_before_the_park_is_kept() {
    let instance = plain();
    instance.spawn(Class::New, |context| {
        context.unparker().unpark(UnparkClass::Io);
        assert_eq!(context.park(None), Parked::Woken);
        context.instance().state().add("went on");
    });
    settle(&instance);
    assert_eq!(instance.state().taken(), ["went on"]);
}

#[test]
fn a_park_ends_by_unpark_or_deadline_and_late_unparks_are_harmless() {
    let time = HandClock::new();
    let instance = stepped(RuntimeOptions::default(), time.clone());
    let given: Rc<Cell<Option<Unparker>>> = Rc::default();
    let give = given.clone();
    instance.spawn(Class::New, move |context| {
        give.set(Some(context.unparker()));
        let state = context.instance().state();
        state.add(format!("{:?}", context.park(Some(context.now_ns() + 1_000))));
        state.add(format!("{:?}", context.park(Some(context.now_ns() + 1_000))));
    });
    assert_eq!(settle(&instance), Some(1_001));
    time.advance(1_000);
    assert_eq!(settle(&instance), Some(2_001));
    let unparker = given.take().unwrap();
    unparker.unpark(UnparkClass::Lock);
    settle(&instance);
    assert_eq!(instance.state().taken(), ["TimedOut", "Woken"]);
    // The task is gone, its cell may be in use again by another: this must wake nobody.
    instance.spawn(Class::New, |context| {
        context.park(None);
        context.instance().state().add("woken by a stranger");
    });
    settle(&instance);
    unparker.unpark(UnparkClass::Lock);
    settle(&instance);
    assert!(instance.state().taken().is_empty());
    instance.leave();
}

#[test]
fn lock_waiters_go_on_oldest_first_and_before_new_work() {
    let instance = plain();
    let unparkers: Rc<RefCell<Vec<Unparker>>> = Rc::default();
    for number in 0..3 {
        let unparkers = unparkers.clone();
        instance.spawn(Class::New, move |context| {
            unparkers.borrow_mut().push(context.unparker());
            context.park(None);
            context.instance().state().add(format!("old{number}"));
        });
    }
    settle(&instance);
    instance.spawn(Class::New, |context| context.instance().state().add("new"));
    for unparker in unparkers.borrow().iter().rev() {
        unparker.unpark(UnparkClass::Lock);
    }
    settle(&instance);
    assert_eq!(instance.state().taken(), ["old0", "old1", "old2", "new"]);
}

/// A queue at a hot row: each who has it hands it to the next one. Others, woken by I/O, would come to it, too.
#[test]
fn a_queue_is_handed_on_within_the_turn_before_others_come_to_it() {
    let instance = plain();
    let waiters: Rc<RefCell<VecDeque<Unparker>>> = Rc::default();
    let hand_on = |waiters: &RefCell<VecDeque<Unparker>>| {
        let next = waiters.borrow_mut().pop_front();
        next.inspect(|next| next.unpark(UnparkClass::Lock));
    };
    for number in 0..3 {
        let waiters = waiters.clone();
        instance.spawn(Class::New, move |context| {
            waiters.borrow_mut().push_back(context.unparker());
            context.park(None);
            context.instance().state().add(format!("waiter{number}"));
            hand_on(&waiters);
        });
    }
    settle(&instance);
    instance.spawn(Class::Run, move |_| hand_on(&waiters));
    for _ in 0..2 {
        instance.spawn(Class::Run, |context| context.instance().state().add("other"));
    }
    assert_eq!(instance.turn(), Turn::Busy);
    let order = instance.state().taken();
    assert_eq!(order, ["waiter0", "waiter1", "waiter2", "other", "other"]);
}

#[test]
fn admission_bounds_new_work_only() {
    let options = RuntimeOptions { admission_max: 2, ..RuntimeOptions::default() };
    let instance = stepped(options, HandClock::new());
    let first: Rc<RefCell<Option<Unparker>>> = Rc::default();
    for number in 0..3 {
        let first = first.clone();
        instance.spawn(Class::New, move |context| {
            first.borrow_mut().get_or_insert(context.unparker());
            context.instance().state().add(format!("new{number}"));
            context.park(None);
        });
    }
    settle(&instance);
    assert_eq!(instance.state().taken(), ["new0", "new1"]);
    // A statement of an open transaction gets a stack above the limit.
    instance.spawn(Class::Run, |context| context.instance().state().add("continues"));
    settle(&instance);
    assert_eq!(instance.state().taken(), ["continues"]);
    first.borrow_mut().take().unwrap().unpark(UnparkClass::Lock);
    settle(&instance);
    assert_eq!(instance.state().taken(), ["new2"]);
    instance.leave();
}

/// A client whose transactions follow each other; each takes a while.
fn client(instance: &Instance<Notes>, number: usize, started: Rc<RefCell<Vec<u32>>>) {
    instance.spawn(Class::New, move |context| {
        started.borrow_mut()[number] += 1;
        for _ in 0..3 {
            context.yield_now();
        }
        if started.borrow()[number] < 5 {
            client(context.instance(), number, started.clone());
        }
    });
}

#[test]
fn many_more_transactions_than_admitted_take_turns() {
    let options = RuntimeOptions { admission_max: 4, ..RuntimeOptions::default() };
    let instance = stepped(options, HandClock::new());
    let started: Rc<RefCell<Vec<u32>>> = Rc::new(RefCell::new(vec![0; 200]));
    for number in 0..200 {
        client(&instance, number, started.clone());
    }
    while started.borrow().iter().any(|count| *count < 5) {
        instance.turn();
        assert!(instance.stacks.live() <= 4, "no more than are admitted");
        let counts = started.borrow();
        let (least, most) = (counts.iter().min().unwrap(), counts.iter().max().unwrap());
        assert!(most - least <= 1, "each has had its turn before one has two: {least}, {most}");
    }
    settle(&instance);
    assert_eq!(instance.tasks(), 0);
}

/// A client whose transactions follow each other without end; each waits once for its client.
fn slow_client(instance: &Instance<Notes>, waiting: Rc<RefCell<Option<Unparker>>>) {
    instance.spawn(Class::New, move |context| {
        *waiting.borrow_mut() = Some(context.unparker());
        context.instance().state().add("client");
        context.park(None);
        slow_client(context.instance(), waiting.clone());
    });
}

#[test]
fn work_from_outside_stands_in_the_same_queue() {
    let options = RuntimeOptions { admission_max: 1, ..RuntimeOptions::default() };
    let instance = stepped(options, HandClock::new());
    let waiting: Rc<RefCell<Option<Unparker>>> = Rc::default();
    for _ in 0..20 {
        slow_client(&instance, waiting.clone());
    }
    settle(&instance);
    let note = |context: &TaskContext<Notes>| context.instance().state().add("from outside");
    instance.hub().start(Target::Any, Box::new(note));
    // Whenever a turn begins somebody waits for its client, and nobody else is admitted.
    let mut begun = Vec::new();
    while !begun.contains(&"from outside".to_owned()) {
        waiting.borrow_mut().take().unwrap().unpark(UnparkClass::Io);
        settle(&instance);
        begun.append(&mut instance.state().taken());
        assert!(begun.len() < 60, "others have begun three times each: {begun:?}");
    }
    instance.leave();
}

#[test]
fn what_has_waited_longest_outside_comes_first() {
    let time = HandClock::new();
    let instance = stepped(RuntimeOptions::default(), time.clone());
    let hub = instance.hub();
    let key = Target::Key(AffinityKey::from(1_u64));
    for (at, target) in [key, Target::Any, key, key, Target::Any].into_iter().enumerate() {
        let note = move |context: &TaskContext<Notes>| {
            context.instance().state().add(format!("work{at}"));
        };
        hub.start(target, Box::new(note));
        time.advance(1);
    }
    settle(&instance);
    assert_eq!(instance.state().taken(), ["work0", "work1", "work2", "work3", "work4"]);
}

#[test]
fn what_waits_for_its_flush_keeps_nobody_out() {
    let options = RuntimeOptions { admission_max: 1, ..RuntimeOptions::default() };
    let instance = stepped(options, HandClock::new());
    for number in 0..3 {
        instance.spawn(Class::New, move |context| {
            context.instance().state().add(format!("new{number}"));
            context.uncounted(|| context.park(None));
        });
    }
    settle(&instance);
    assert_eq!(instance.state().taken(), ["new0", "new1", "new2"]);
    instance.leave();
    assert_eq!(instance.uncounted.get(), 0);
}

/// One admitted at a time, and a checkpoint that parks between its pages.
#[test]
fn work_of_the_system_keeps_nobody_out() {
    let options = RuntimeOptions { admission_max: 1, ..RuntimeOptions::default() };
    let instance = stepped(options, HandClock::new());
    let system: Rc<RefCell<Option<Unparker>>> = Rc::default();
    let its = system.clone();
    instance.spawn(Class::System, move |context| {
        *its.borrow_mut() = Some(context.unparker());
        context.instance().state().add("system");
        // Aside within what does not count anyway: it counts once.
        context.park_aside(None);
    });
    settle(&instance);
    for number in 0..2 {
        instance.spawn(Class::New, move |context| {
            context.instance().state().add(format!("new{number}"));
            context.park(None);
        });
    }
    settle(&instance);
    assert_eq!(instance.state().taken(), ["system", "new0"]);
    // When it has ended nobody more is admitted for it.
    system.borrow_mut().take().unwrap().unpark(UnparkClass::Lock);
    settle(&instance);
    assert!(instance.state().taken().is_empty());
    assert_eq!(instance.uncounted.get(), 0);
    instance.leave();
}

#[test]
fn a_panic_ends_its_task_alone_and_its_owner_is_told() {
    let instance = plain();
    let told: Rc<RefCell<Vec<TaskEnd>>> = Rc::default();
    let (first, second) = (told.clone(), told.clone());
    instance.spawn_watched(
        Class::New,
        |context| {
            context.yield_now();
            panic!("row {} is odd", 3);
        },
        move |_, end| first.borrow_mut().push(end),
    );
    instance.spawn_watched(
        Class::New,
        |context| {
            context.yield_now();
            context.yield_now();
            context.instance().state().add("still here");
        },
        move |_, end| second.borrow_mut().push(end),
    );
    settle(&instance);
    assert_eq!(*told.borrow(), [TaskEnd::Panicked("row 3 is odd".to_owned()), TaskEnd::Done]);
    assert_eq!(instance.state().taken(), ["still here"]);
    assert_eq!(instance.stacks.live(), 0);
}

#[test]
fn leaving_unwinds_parked_tasks_and_drops_what_was_sent() {
    let witness = Arc::new(());
    let instance = plain();
    let (held, sent, unstarted) = (witness.clone(), witness.clone(), witness.clone());
    let ends: Rc<RefCell<Vec<TaskEnd>>> = Rc::default();
    let end = ends.clone();
    instance.spawn_watched(
        Class::New,
        move |context| {
            let _critical = Critical::enter("a wait for the clock");
            let _held = held;
            context.park(None);
        },
        move |_, how| end.borrow_mut().push(how),
    );
    settle(&instance);
    instance.spawn(Class::New, move |_| drop(unstarted));
    let hub = instance.hub().clone();
    instance.leave();
    assert_eq!(*ends.borrow(), [TaskEnd::Abandoned]);
    hub.send(InstanceId(0), Box::new(move |_| drop(sent)));
    assert_eq!(Arc::strong_count(&witness), 1);
}

#[test]
fn a_task_waits_for_its_own_io() {
    let instance = plain();
    instance.spawn(Class::New, |context| {
        let done = context.io(Op::Accept { listener: -1 });
        context.instance().state().add(format!("{:?}", done.result));
    });
    settle(&instance);
    assert_eq!(instance.state().taken(), ["Ok(7)"]);
}

#[test]
fn completions_go_to_the_state_or_the_service_that_asked() {
    struct Echo(Cell<u64>);
    impl Service<Notes> for Echo {
        fn completed(&self, instance: &Instance<Notes>, completion: Completion) {
            instance.state().add(format!("service got {}", ServiceId::split(completion.token).1));
        }
        fn poll(&self, instance: &Instance<Notes>) -> Poll {
            self.0.set(self.0.get() + 1);
            Poll::Until(instance.time().now_ns() + 50)
        }
        fn stop(&self, _instance: &Instance<Notes>) {}
    }
    let instance = plain();
    let service = instance.register(Rc::new(Echo(Cell::new(0))));
    instance.ring().submit(Op::Accept { listener: -1 }, service.token(5));
    instance.ring().submit(Op::Accept { listener: -1 }, ServiceId::STATE.token(6));
    assert_eq!(settle(&instance), Some(51));
    // The state's own are not kept waiting.
    assert_eq!(instance.state().taken(), ["completed 6", "service got 5"]);
}

#[test]
fn stacks_say_what_is_left_and_deep_c_code_gets_the_threads() {
    fn descend(context: &TaskContext<Notes>, depth: u32) -> u32 {
        if context.stack_left_bytes() < 32 * 1024 {
            return depth;
        }
        let pad = [depth as u8; 512];
        descend(context, depth + 1).max(u32::from(std::hint::black_box(pad)[0]))
    }
    let instance = plain();
    instance.spawn(Class::New, |context| {
        let left = context.stack_left_bytes();
        assert!((128 * 1024..256 * 1024).contains(&left), "{left}");
        let depth = descend(context, 0);
        assert!(depth > 100, "{depth}");
        let sum = context.on_thread_stack(|| {
            let big = [1u8; 512 * 1024];
            std::hint::black_box(big).iter().map(|byte| u64::from(*byte)).sum::<u64>()
        });
        context.instance().state().add(format!("{sum}"));
    });
    settle(&instance);
    assert_eq!(instance.state().taken(), ["524288"]);
}

#[test]
fn slices_end_by_time_or_by_calls() {
    let time = HandClock::new();
    let instance = stepped(RuntimeOptions::default(), time.clone());
    instance.spawn(Class::New, move |context| {
        assert!(!context.should_yield());
        time.advance(100_000);
        assert!(context.should_yield());
        context.yield_now();
        assert!(!context.should_yield());
        context.instance().state().add("timed");
    });
    settle(&instance);
    assert_eq!(instance.state().taken(), ["timed"]);
    let options = RuntimeOptions { slice: Slice::Calls(2), ..RuntimeOptions::default() };
    let instance = stepped(options, HandClock::new());
    instance.spawn(Class::New, |context| {
        let asked: Vec<_> = (0..3).map(|_| context.should_yield()).collect();
        context.instance().state().add(format!("{asked:?}"));
    });
    settle(&instance);
    assert_eq!(instance.state().taken(), ["[false, false, true]"]);
}

#[test]
fn system_work_has_a_quota_beside_busy_tasks() {
    let options = RuntimeOptions { slice: Slice::Calls(1), ..RuntimeOptions::default() };
    let instance = stepped(options, HandClock::new());
    instance.spawn(Class::System, |context| {
        for _ in 0..4 {
            context.instance().state().add("system");
            context.yield_now();
        }
    });
    instance.spawn(Class::New, |context| {
        for _ in 0..40 {
            context.instance().state().add("work");
            context.yield_now();
        }
    });
    settle(&instance);
    let log = instance.state().taken();
    let last_work = log.iter().rposition(|line| line == "work").unwrap();
    let beside = log[..last_work].iter().filter(|line| *line == "system").count();
    assert_eq!(beside, 4, "one in eight turns is system work");
    assert!(log.iter().position(|line| line == "system").unwrap() > 0);
}

/// Tasks that wait in every way and wake each other.
struct Wanderers {
    random: RefCell<fastrand::Rng>,
    waiting: RefCell<Vec<Unparker>>,
    done: Cell<u32>,
}

impl Wanderers {
    fn wander(self: Rc<Self>, context: &TaskContext<Notes>, steps: u32) {
        for left in (0..steps).rev() {
            let dice = self.random.borrow_mut().u32(0..5);
            match dice {
                0 => context.yield_now(),
                1 => drop(context.park(Some(context.now_ns() + 10))),
                2 => {
                    self.waiting.borrow_mut().push(context.unparker());
                    context.park(None);
                }
                3 => {
                    self.waiting.borrow_mut().push(context.unparker());
                    return context.rest(move |context| self.wander(context, left));
                }
                _ => {
                    let other = self.waiting.borrow_mut().pop();
                    if let Some(other) = other {
                        other.unpark(UnparkClass::Lock);
                    }
                }
            }
        }
        self.done.set(self.done.get() + 1);
    }
}

#[test]
fn random_parks_and_wakes_lose_nobody() {
    let seed = std::env::var("ATOLL_SEED").ok().and_then(|seed| seed.parse().ok());
    let seed = seed.unwrap_or_else(|| fastrand::u64(..));
    println!("ATOLL_SEED={seed}");
    let random = RefCell::new(fastrand::Rng::with_seed(seed));
    let time = HandClock::new();
    let options = RuntimeOptions { slice: Slice::Calls(1), ..RuntimeOptions::default() };
    let instance = stepped(options, time.clone());
    let shared = Rc::new(Wanderers { random, waiting: RefCell::default(), done: Cell::new(0) });
    for _ in 0..100 {
        let shared = shared.clone();
        instance.spawn(Class::New, move |context| shared.wander(context, 20));
    }
    let Wanderers { done, waiting, .. } = &*shared;
    while done.get() < 100 {
        let idle = settle(&instance);
        time.advance(10);
        let left = std::mem::take(&mut *waiting.borrow_mut());
        assert!(idle.is_some() || !left.is_empty() || done.get() == 100, "somebody was forgotten");
        left.iter().for_each(|unparker| unparker.unpark(UnparkClass::Lock));
    }
    assert_eq!(instance.tasks(), 0);
}

/// A ring in which nobody sleeps for good.
struct Watched(EchoRing);

impl Ring for Watched {
    fn submit(&self, op: Op, token: Token) {
        self.0.submit(op, token);
    }

    fn reap(&self, out: &mut Vec<Completion>) {
        self.0.reap(out);
    }

    fn wait(&self, timeout: Option<Duration>) {
        assert!(timeout.is_some(), "there is work, and nobody will knock");
    }

    fn waker(&self) -> Arc<dyn Wake> {
        self.0.waker()
    }
}

#[test]
fn who_lies_down_sees_work_of_others_that_came_meanwhile() {
    let (time, options) = (HandClock::new(), RuntimeOptions { instances: 2, ..Default::default() });
    let late = options.steal_after_ns;
    let hub = hub(options, time.clone());
    let ring = || Box::new(Watched(EchoRing::default()));
    let open = |id| Instance::open(hub.clone(), InstanceId(id), ring(), |_| Ok(Notes::default()));
    let (_busy, idle) = (open(0).unwrap(), open(1).unwrap());
    let until = settle(&idle);
    assert_eq!(until, None, "it has nothing to do");
    let mut keys = (0_u64..).map(AffinityKey::from);
    let key = keys.find(|key| hub.instance_of_key(*key) == InstanceId(0)).unwrap();
    // The second one's sender looks for a sleeper, and finds none yet.
    for _ in 0..2 {
        let note = |context: &TaskContext<Notes>| context.instance().state().add("taken over");
        hub.start(Target::Key(key), Box::new(note));
    }
    idle.sleep(until);
    time.advance(late);
    settle(&idle);
    assert_eq!(idle.state().taken(), ["taken over", "taken over"]);
}
