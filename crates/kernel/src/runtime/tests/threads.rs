//! Several instances with threads of their own.

use std::process::Command;

use super::*;
use crate::base::Error;

#[test]
fn run_answers_with_borrowed_data() {
    let runtime = running(2);
    let text = "borrowed".to_owned();
    for target in [Target::Any, Target::Instance(InstanceId(1)), Target::Key(17_u64.into())] {
        let answer = runtime.hub().run(target, |context| (context.instance().id(), &text[..]));
        let (instance, answer) = answer.unwrap();
        assert_eq!(answer, "borrowed");
        if let Target::Instance(wanted) = target {
            assert_eq!(instance, wanted);
        }
    }
    runtime.close();
}

#[test]
fn run_tells_of_panics_and_of_being_closed() {
    let runtime = running(1);
    let hub = runtime.hub().clone();
    let panicked = hub.run(Target::Any, |_| -> u32 { panic!("no row") });
    assert_eq!(panicked, Err(Error::Internal { detail: "panic: no row".to_owned() }));
    let inner = hub.clone();
    let nested = hub.run(Target::Any, move |_| inner.run(Target::Any, |_| 1)).unwrap();
    assert!(matches!(nested, Err(Error::Internal { .. })));
    runtime.close();
    assert_eq!(hub.run(Target::Any, |_| 1), Err(Error::ShuttingDown));
    hub.send(InstanceId(0), Box::new(|_| unreachable!("the instance has ended")));
}

#[test]
fn two_instances_play_ping_pong_and_sleep_in_between() {
    fn hit(instance: &Instance<Notes>, left: u32, done: Unparker) {
        if left == 0 {
            return done.unpark(UnparkClass::Io);
        }
        let to = InstanceId(1 - instance.id().0);
        instance.hub().send(to, Box::new(move |instance| hit(instance, left - 1, done)));
    }
    let runtime = running(2);
    let parker = ThreadParker::new();
    let done = parker.unparker();
    runtime.hub().send(InstanceId(0), Box::new(|instance| hit(instance, 20_000, done)));
    let deadline = parker.now_ns() + 60_000_000_000;
    assert_eq!(parker.park(Some(deadline)), Parked::Woken, "a wake-up was lost");
    runtime.close();
}

#[test]
fn many_threads_and_few_instances_lose_nothing() {
    let runtime = running(2);
    let hub = runtime.hub().clone();
    let counted = AtomicU64::new(0);
    std::thread::scope(|scope| {
        for thread in 0..4u64 {
            let (hub, counted) = (&hub, &counted);
            scope.spawn(move || {
                for number in 0..300 {
                    let target = match number % 3 {
                        0 => Target::Any,
                        1 => Target::Key((thread * 1000 + number).into()),
                        _ => Target::Instance(InstanceId((number % 2) as u16)),
                    };
                    hub.run(target, |context| {
                        if number % 7 == 0 {
                            context.yield_now();
                        }
                        counted.fetch_add(1, Ordering::Relaxed);
                    })
                    .unwrap();
                }
            });
        }
    });
    assert_eq!(counted.load(Ordering::Relaxed), 1200);
    runtime.close();
}

#[test]
fn an_idle_instance_takes_over_routed_work_that_waits_too_long() {
    let runtime = running(2);
    let hub = runtime.hub();
    let mut keys = (0_u64..).map(AffinityKey::from);
    let key = keys.find(|key| hub.instance_of_key(*key) == InstanceId(0)).unwrap();
    let release = Arc::new((Mutex::new(false), Condvar::new()));
    // Instance 0 is stuck in one task that never yields, and has pulled nothing else before that.
    let stuck = release.clone();
    let (begun, begins) = std::sync::mpsc::channel();
    hub.start(
        Target::Instance(InstanceId(0)),
        Box::new(move |_| {
            begun.send(()).unwrap();
            let mut open = stuck.0.lock().unwrap();
            while !*open {
                open = stuck.1.wait(open).unwrap();
            }
        }),
    );
    begins.recv().unwrap();
    let ran_on = std::thread::scope(|scope| {
        let answer = scope.spawn(|| hub.run(Target::Key(key), |context| context.instance().id()));
        // Nobody is woken for work that waits alone; who brings more finds it there.
        for _ in 0..4000 {
            if answer.is_finished() {
                break;
            }
            hub.start(Target::Key(key), Box::new(|_| {}));
            std::thread::sleep(Duration::from_millis(5));
        }
        *release.0.lock().unwrap() = true;
        release.1.notify_all();
        answer.join().unwrap()
    });
    assert_eq!(ran_on, Ok(InstanceId(1)));
    runtime.close();
}

#[test]
fn closing_waits_for_tasks_that_still_run() {
    let runtime = running(1);
    let finished = Arc::new(AtomicU64::new(0));
    let mark = finished.clone();
    let started = Arc::new(AtomicU64::new(0));
    let begun = started.clone();
    runtime.hub().start(
        Target::Any,
        Box::new(move |context| {
            begun.store(1, Ordering::SeqCst);
            context.park(Some(context.now_ns() + 20_000_000));
            mark.store(1, Ordering::SeqCst);
        }),
    );
    while started.load(Ordering::SeqCst) == 0 {
        std::thread::yield_now();
    }
    runtime.close();
    assert_eq!(finished.load(Ordering::SeqCst), 1);
}

#[test]
fn an_instance_that_cannot_open_ends_the_start() {
    let options = RuntimeOptions { instances: 2, ..RuntimeOptions::default() };
    let hub = hub(options, Arc::new(RealClock(Instant::now())));
    let started = Runtime::start(
        hub,
        Arc::new(|id| match id {
            InstanceId(1) => Err(Error::Limit { what: "rings" }),
            _ => Ok(Box::new(EchoRing::default()) as Box<dyn Ring>),
        }),
        Arc::new(|_| Ok(Notes::default())),
    );
    assert_eq!(started.err(), Some(Error::Limit { what: "rings" }));
}

/// Runs the test `name` of this file in a process of its own, where it is to die.
fn dies(name: &str) -> String {
    let output = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", &format!("runtime::tests::threads::{name}"), "--nocapture"])
        .env("ATOLL_TEST_DIES", name)
        .output()
        .unwrap();
    assert!(!output.status.success(), "{name} must end the process");
    String::from_utf8_lossy(&output.stderr).into_owned()
}

fn is_child(name: &str) -> bool {
    std::env::var("ATOLL_TEST_DIES").is_ok_and(|value| value == name)
}

#[test]
fn a_panic_in_a_critical_section_ends_the_process() {
    let name = "a_panic_in_a_critical_section_ends_the_process";
    if is_child(name) {
        let runtime = running(1);
        let _ = runtime.hub().run(Target::Any, |_| {
            let _critical = Critical::enter("between preparing and finished");
            panic!("in the middle");
        });
        return;
    }
    assert!(dies(name).contains("between preparing and finished"));
}

#[test]
fn a_panic_with_a_latch_ends_the_process() {
    let name = "a_panic_with_a_latch_ends_the_process";
    if is_child(name) {
        let runtime = running(1);
        let _ = runtime.hub().run(Target::Any, |_| {
            crate::latch::exchange_held(1);
            panic!("half changed");
        });
        return;
    }
    assert!(dies(name).contains("a latch is held"));
}

#[test]
fn a_wait_with_a_latch_is_refused() {
    let name = "a_wait_with_a_latch_is_refused";
    if is_child(name) {
        let runtime = running(1);
        let _ = runtime.hub().run(Target::Any, |context| {
            crate::latch::exchange_held(1);
            context.yield_now();
        });
        return;
    }
    assert!(dies(name).contains("rule 1.2"));
}
